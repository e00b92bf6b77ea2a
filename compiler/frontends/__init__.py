"""Model files to graphs and back."""
