"""How a driver reaches a device; the only code that imports pyusb."""
