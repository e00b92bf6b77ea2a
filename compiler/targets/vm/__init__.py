"""Host programs: bytecode modules that call accelerators."""
