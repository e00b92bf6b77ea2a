"""Programs as they run: on devices, on the simulated chip, in modules, on the timing model."""
