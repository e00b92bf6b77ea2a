"""Outputs that 8 bits with one scale cannot hold well, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.rules import is_real
from fitzroy.compiler.quantization.statistics import Range

_MOVERS = ("reshape", "transpose")
_DIFFERENT = 4.0
"""How many times the range of one part is that of another where one scale does harm."""

_FINER = 1.25
"""The same where the output is float32 anyway, so that joining it there costs nothing."""

_FINAL = ("log_softmax", "sigmoid", "softmax")
_MOST_ELEMENTS = 1 << 14
"""The largest output whose last function a host computes without being noticed."""


@dataclass(slots=True)
class Outputs:
    """What is done about outputs.

    Attributes:
        floats: nodes that stay float32.
        split: parts that take the place of an output, by its name.
        notes: what was done, and why.
    """

    floats: set[str] = field(default_factory=set)
    split: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)


def examine(graph: Graph, ranges: Mapping[str, Range], options: QuantizeOptions) -> Outputs:
    """Find outputs that join values of very different ranges, or end in a fine function.

    A probability of 1/1000 is nothing in steps of 1/256. Where outputs are float32, the function
    that makes probabilities of logits is computed in float32, too.

    Args:
        graph: a float32 graph.
        ranges: of its activations.
        options: what to do.
    """
    result = Outputs()
    limit = _FINER if options.output_type is Border.FLOAT else _DIFFERENT
    for name in dict.fromkeys(graph.outputs):
        node = graph.producer(name)
        if node is None or not is_real(graph, name):
            continue
        if (
            options.output_type is Border.FLOAT
            and options.mixed_outputs is not Mixed.KEEP
            and node.op in _FINAL
            and graph.type(name).size <= _MOST_ELEMENTS
        ):
            result.floats.add(node.name)
            continue
        movers = list(_movers_before(graph, node))
        last = graph.producer(str(movers[-1].inputs[0])) if movers else node
        if last is None or last.op != "concatenation" or options.mixed_outputs is Mixed.KEEP:
            continue
        widths = _widths(ranges, last)
        if len(widths) < 2 or max(widths) < limit * min(widths):
            continue
        if movers and len(graph.consumers(last.outputs[0])) > 1:
            continue
        _separate(graph, result, [*movers, last], name, options)
        if limit == _DIFFERENT:
            result.notes.append(_note(name, widths, split=name in result.split))
    return result


def _separate(
    graph: Graph, result: Outputs, chain: Iterable[Node], name: str, options: QuantizeOptions
) -> None:
    """Split an output, or let the nodes that join it stay float32."""
    nodes = list(chain)
    parts = tuple(str(part) for part in nodes[-1].inputs)
    splits = options.mixed_outputs is Mixed.SPLIT and len(nodes) == 1
    if splits and not any(graph.value(part).is_constant for part in parts):
        result.split[name] = parts
    else:
        result.floats.update(node.name for node in nodes)


def _movers_before(graph: Graph, node: Node) -> Iterable[Node]:
    """The nodes before an output that only move elements, from the last to the first."""
    current: Node | None = node
    while current is not None and current.op in _MOVERS:
        yield current
        source = str(current.inputs[0])
        if len(graph.consumers(source)) != 1 or source in graph.outputs:
            return
        current = graph.producer(source)


def _widths(ranges: Mapping[str, Range], node: Node) -> list[float]:
    found = []
    for name in node.inputs:
        low, high = ranges.get(str(name), (0.0, 0.0))
        width = max(high, 0.0) - min(low, 0.0)
        if width > 0:
            found.append(width)
    return found


def _note(name: str, widths: list[float], *, split: bool) -> Diagnostic:
    done = "its parts are outputs of their own" if split else "its parts are joined as float32"
    return Diagnostic(
        Severity.WARNING,
        "quantize",
        f"output {name!r}",
        done,
        f"ranges of its parts are {min(widths):.4g} to {max(widths):.4g} wide, and one scale for "
        "all would leave the narrow ones few of 256 levels",
        "choose with --mixed-outputs",
    )


def with_split(graph: Graph, split: Mapping[str, tuple[str, ...]]) -> Graph:
    """A graph with parts in the place of outputs."""
    if not split:
        return graph
    result = graph.copy()
    result.outputs = [part for name in graph.outputs for part in split.get(name, (name,))]
    result.prune()
    return result
