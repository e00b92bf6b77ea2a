"""Control and status registers (CSR) of the beagle Edge TPU that drivers and simulators need.

`fields` declares what the bits of each register mean, `register` what a register is, and `beagle`
lists them with address, width, reset value and access. Addresses, field positions and names are
those of the published driver.
"""
