"""Walk the graph of a TFLite model: borders, operators, their shapes, and what weights take."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import fitzroy
from fitzroy.base.errors import FitzroyError
from fitzroy.compiler.ir import Graph, Node

MODEL = Path(__file__).parent / "models" / "digits.tflite"


def describe(graph: Graph, node: Node) -> str:
    """A node on one line: what it reads, what it makes, and the bytes of its constants."""
    values = [graph.value(name) for name in node.inputs if name is not None]
    flowing = ", ".join(str(list(v.type.shape)) for v in values if not v.is_constant)
    made = ", ".join(str(list(graph.type(name).shape)) for name in node.outputs)
    weights = sum(value.type.nbytes for value in values if value.is_constant)
    line = f"{node.op:18} {flowing:>16} -> {made:16}"
    return f"{line} {weights:7,} B" if weights else line.rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=Path, default=MODEL)
    options = parser.parse_args(arguments)
    graph = fitzroy.load(options.model)

    print(f"{options.model.name}: graph {graph.name!r}")
    for name in graph.inputs:
        print(f"  input  {name}: {graph.type(name)}")
    for name in graph.outputs:
        print(f"  output {name}: {graph.type(name)}")

    print("\noperators, producers first")
    for node in graph.nodes():
        print(f"  {describe(graph, node)}")

    print("\ncounts")
    for op, count in Counter(node.op for node in graph.nodes()).most_common():
        print(f"  {op:18} {count:3}")
    constants = [value for value in graph.values.values() if value.is_constant]
    size = sum(value.type.nbytes for value in constants)
    print(f"  {len(constants)} constants of {size:,} bytes in total")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FitzroyError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
