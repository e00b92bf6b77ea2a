"""The parameter operands of a graph, and the constants of output stages."""
