"""Inputs and outputs: layers that exchange tensors with the host."""
