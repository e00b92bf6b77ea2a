"""Finding a device, bringing it up, its registers and streams, and how it recovers."""
