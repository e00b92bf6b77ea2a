"""The virtual USB accelerator: what a host sees of a chip behind a USB port."""
