"""From objects to packages: memory plans, segments, containers."""
