"""Outputs that 8 bits with one scale cannot hold well, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.rules import is_real
from fitzroy.compiler.quantization.statistics import Range

_MOVERS = ("reshape", "transpose")
_DIFFERENT = 4.0
"""How many times the range of one part is that of another where one scale does harm."""

_FINER = 1.25
"""The same where the output is float32 anyway, so that joining it there costs nothing."""

_MOVING = (*_MOVERS, "concatenation", "split", "strided_slice")
"""Operators that give elements of their operands."""

_ARITHMETIC = ("add", "div", "exp", "mul", "sub")
"""Operators that make boxes of what layers give."""

_FINAL = ("log_softmax", "sigmoid", "softmax")
_MOST_ELEMENTS = 1 << 14
"""The largest output whose last function a host computes without being noticed."""


@dataclass(frozen=True, slots=True)
class Split:
    """What takes the place of an output.

    Attributes:
        parts: the values that it joins.
        movers: the transpositions of the whole, from the first.
    """

    parts: tuple[str, ...]
    movers: tuple[Node, ...]


@dataclass(slots=True)
class Outputs:
    """What is done about outputs.

    Attributes:
        floats: nodes that stay float32.
        split: what takes the place of an output, by its name.
        notes: what was done, and why.
    """

    floats: set[str] = field(default_factory=set)
    split: dict[str, Split] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)


def examine(
    graph: Graph,
    ranges: Mapping[str, Range],
    options: QuantizeOptions,
    *,
    detects: bool = False,
) -> Outputs:
    """Find outputs that join values of very different ranges, or end in fine arithmetic.

    A probability of 1/1000 is nothing in steps of 1/256. Where outputs are float32, the function
    that makes probabilities of logits is computed in float32, too.

    Args:
        graph: a float32 graph.
        ranges: of its activations.
        options: what to do.
        detects: whether the graph is a detector, so that outputs that arithmetic with constants
            gives are decoded boxes.
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
        decoding = _decoding(graph, set(), name) if detects and _are_real(options) else set()
        if decoding:
            result.floats |= decoding
            if options.output_type is not Border.FLOAT:
                result.notes.append(_note_of_places(name))
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
        _separate(graph, result, movers, last, options)
        if limit == _DIFFERENT:
            asked = options.mixed_outputs is Mixed.SPLIT
            result.notes.append(_note(name, widths, asked, name in result.split))
    return result


def _are_real(options: QuantizeOptions) -> bool:
    """Whether an output that 8 bits would not hold well becomes float32."""
    split = options.mixed_outputs is Mixed.SPLIT and options.output_type is Border.FLOAT
    return split or options.mixed_outputs is Mixed.FLOAT


def _separate(
    graph: Graph, result: Outputs, movers: list[Node], last: Node, options: QuantizeOptions
) -> None:
    """Split an output, or let the nodes that join it stay float32."""
    (name,) = (movers[0] if movers else last).outputs
    parts = tuple(str(part) for part in last.inputs)
    whole = all(isinstance(node.attributes, TransposeAttributes) for node in movers)
    fixed = any(graph.value(part).is_constant for part in parts)
    if options.mixed_outputs is Mixed.SPLIT and whole and not fixed:
        result.split[name] = Split(parts, tuple(reversed(movers)))
    else:
        join = {node.name for node in (*movers, last)}
        result.floats |= join.union(*(_decoding(graph, join, part) for part in parts))


def _decoding(graph: Graph, join: set[str], part: str) -> set[str]:
    """Nodes that decode a part of an output, such as boxes; none if nothing is decoded.

    They add or multiply what a layer gives with constants, such as positions and sizes of anchors.
    An 8-bit step of the result is 1/255 of all positions in an image, which is too coarse. The host
    computes them in float32, as it does what follows: they have few elements.

    Args:
        graph: the graph.
        join: nodes that join the output.
        part: a value that they read, or the output if nothing joins it.
    """
    decoded = _decoded(graph)
    found: dict[str, Node] = {}
    pending = [part]
    while pending:
        name = pending.pop()
        node = graph.producer(name)
        if node is None or node.name in found:
            continue
        if node.op in _MOVING or (node.op in _ARITHMETIC and name in decoded):
            found[node.name] = node
            pending += [read for read in node.inputs if read is not None]
    while others := [
        node for node in found.values() if _leaves(graph, node, join | {*found}, part)
    ]:
        # What others read as well stays quantized, for all of them.
        for node in others:
            del found[node.name]
    return {*found} if any(node.op in _ARITHMETIC for node in found.values()) else set()


def _leaves(graph: Graph, node: Node, names: set[str], part: str) -> bool:
    """Whether a result of a node is read by nodes other than those named, or by the caller.

    `part` may be an output.
    """
    given = any(name in graph.outputs and name != part for name in node.outputs)
    readers = (reader for name in node.outputs for reader in graph.consumers(name))
    return given or any(reader.name not in names for reader in readers)


def _decoded(graph: Graph) -> set[str]:
    """Values that arithmetic with constants makes of what layers give, moved or not."""
    found: set[str] = set()
    for node in graph.nodes():
        read = [name for name in node.inputs if name is not None]
        if node.op in _MOVING:
            made = not found.isdisjoint(read)
        else:
            fixed = any(graph.value(name).is_constant for name in read)
            made = node.op in _ARITHMETIC and (node.op == "exp" or fixed or found.issuperset(read))
        if made:
            found.update(node.outputs)
    return found


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


def _note(name: str, widths: list[float], asked: bool, split: bool) -> Diagnostic:
    done = "its parts are outputs of their own" if split else "its parts are joined as float32"
    if asked and not split:
        done += ", as it cannot be split: a reshape or a constant part is in between"
    return Diagnostic(
        Severity.WARNING,
        "quantize",
        f"output {name!r}",
        done,
        f"ranges of its parts are {min(widths):.4g} to {max(widths):.4g} wide, and one scale for "
        "all would leave the narrow ones few of 256 levels",
        "choose with --mixed-outputs",
    )


def _note_of_places(name: str) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING,
        "quantize",
        f"output {name!r}",
        "boxes are decoded as float32",
        "in 8 bits, one scale for all positions in the image has steps of about a pixel or more",
        "choose with --mixed-outputs",
    )


def with_split(graph: Graph, split: Mapping[str, Split]) -> Graph:
    """A graph with parts in the place of outputs, in the order of dimensions that those had."""
    if not split:
        return graph
    result = graph.copy()
    outputs: list[str] = []
    for name in graph.outputs:
        found = split.get(name)
        outputs += [name] if found is None else [_moved(result, x, found) for x in found.parts]
    result.outputs = outputs
    result.prune()
    return result


def _moved(graph: Graph, name: str, split: Split) -> str:
    """A part of an output after the transpositions of the whole."""
    for node in split.movers:
        assert isinstance(node.attributes, TransposeAttributes)
        type = graph.type(name)
        shape = tuple(type.shape[axis] for axis in node.attributes.perm)
        moved = type.with_shape(shape)
        name = graph.emit(node.op, [name], moved, node.attributes, stem=f"{name}.moved")
    return name
