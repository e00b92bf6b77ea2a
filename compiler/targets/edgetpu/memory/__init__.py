"""Where tensors and parameters lie in the memories of the tiles."""
