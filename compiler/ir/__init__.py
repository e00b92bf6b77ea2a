"""The typed dataflow graph that every pass works on."""

from fitzroy.compiler.ir.graph import (
    NO_ATTRIBUTES,
    Attributes,
    Graph,
    Node,
    Origin,
    Value,
    unused_name,
)
from fitzroy.compiler.ir.text import parse_graph, print_graph, print_type

__all__ = [
    "NO_ATTRIBUTES",
    "Attributes",
    "Graph",
    "Node",
    "Origin",
    "Value",
    "parse_graph",
    "print_graph",
    "print_type",
    "unused_name",
]
