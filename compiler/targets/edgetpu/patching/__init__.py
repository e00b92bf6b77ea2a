"""Other weights for compiled models."""
