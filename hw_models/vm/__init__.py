"""The IREE virtual machine of early 2020: instruction set, verifier, interpreter."""
