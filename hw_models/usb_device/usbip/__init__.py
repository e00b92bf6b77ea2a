"""USB/IP: virtual devices for hosts on the network."""
