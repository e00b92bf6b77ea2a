"""Learning by backpropagation through the last layer."""
