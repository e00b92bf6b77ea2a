"""Instructions in phases: flags and credits, counters, their encodings, and the program."""
