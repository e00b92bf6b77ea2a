"""From a quantized graph to a program of the Edge TPU, as a relocatable object."""
