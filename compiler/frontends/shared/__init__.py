"""What frontends have in common with one another; no frontend itself."""
