"""The order of the axes of tensors, and what moves their elements."""
