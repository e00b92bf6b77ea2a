"""Edge TPU target: parameter operands, output stages, other weights for compiled models."""
