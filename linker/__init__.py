"""From objects to packages: memory layout, segments, containers."""
