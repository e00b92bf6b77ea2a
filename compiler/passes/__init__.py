"""Graph to graph, one file per pass."""
