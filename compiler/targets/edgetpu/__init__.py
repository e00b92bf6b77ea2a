"""The Edge TPU as a target: code generator, partition of models, other weights for programs."""
