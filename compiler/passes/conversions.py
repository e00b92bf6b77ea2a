"""Conversions between real numbers and integers, and operators that only move or choose elements.

Rounding keeps the order of numbers. An operator whose result holds elements of its operands gives
the same whether they are quantized before it or after it, so that conversions can change places
with it: towards the operator that computes the elements, which can then compute integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import PadAttributes
from fitzroy.hw_models import numerics

_PARTING = ("split", "strided_slice")
"""Operators that give parts of a value."""

_CHOOSING = ("clamp", "maximum", "minimum")
"""Operators that give one of their operands or a bound, element by element."""


# --- looking -----------------------------------------------------------------------------------


def source_of(graph: Graph, name: str | None) -> str | None:
    """The quantized value with one scale that a real value was made of, or None."""
    node = None if name is None else graph.producer(name)
    if node is None or node.op != "dequantize":
        return None
    source = str(node.inputs[0])
    return source if graph.type(source).is_eight_bit else None


def results_of(graph: Graph, node: Node) -> list[Node]:
    """The conversions that alone read the results of a node; none if others do."""
    found = []
    for name in node.outputs:
        readers = graph.consumers(name)
        if len(readers) != 1 or not _stores(graph, readers[0]) or name in graph.outputs:
            return []
        found.append(readers[0])
    return found


def _stores(graph: Graph, node: Node) -> bool:
    """Whether a node turns a value into integers of 8 bits with one scale."""
    return node.op == "quantize" and graph.type(node.outputs[0]).is_eight_bit


def _like(first: TensorType, second: TensorType) -> bool:
    """Whether two types store the same integers for the same numbers."""
    return (first.dtype, first.quantization) == (second.dtype, second.quantization)


# --- conversions -------------------------------------------------------------------------------


def merge_equal(graph: Graph) -> None:
    """Let readers of a value share conversions to the same type."""
    for node in graph.nodes():
        if not _stores(graph, node):
            continue
        (result,), source = node.outputs, str(node.inputs[0])
        first = _converted(graph, source, graph.type(result))
        if first is not None and first != result and result not in graph.outputs:
            graph.replace_uses(result, first)
            graph.remove(node.name)


def _converted(graph: Graph, name: str, type: TensorType) -> str | None:
    """What the first conversion of a value to the scale and element type of another gives."""
    for reader in graph.consumers(name):
        if reader.op == "quantize" and _like(graph.type(reader.outputs[0]), type):
            return reader.outputs[0]
    return None


def quantized(graph: Graph, name: str, type: TensorType) -> str:
    """A value with the scale and element type of another; constants are converted at once."""
    data = graph.value(name).data
    if data is not None and data.dtype == np.float32 and type.quantization is not None:
        stored = numerics.quantize(data, type.quantization, type.dtype)
        return graph.add_constant(f"{name}/stored", stored, type.quantization)
    found = _converted(graph, name, type)
    if found is not None:
        return found
    result = type.with_shape(graph.type(name).shape)
    return graph.emit("quantize", [name], result, stem=f"{name}/converted")


def convert_at_once(graph: Graph) -> None:
    """Convert integers directly where they become real numbers and then integers again.

    Fixed-point arithmetic rounds once, and may differ by one step.
    """
    for node in graph.nodes():
        source = source_of(graph, node.inputs[0]) if _stores(graph, node) else None
        if source is None:
            continue
        (result,) = node.outputs
        direct = replace(node, inputs=(source,))
        if graph.type(source) == graph.type(result) and result not in graph.outputs:
            graph.replace_uses(result, source)
        elif OPS[node.op].scales_fit(Call.of(graph, direct)):
            graph.update(direct)


def drop_returns(graph: Graph) -> None:
    """Let readers of integers that become another type of 8 bits and return read the first ones."""
    for node in graph.nodes():
        between = graph.producer(str(node.inputs[0])) if _stores(graph, node) else None
        if between is None or not _relabels(graph, between):
            continue
        source, (result,) = str(between.inputs[0]), node.outputs
        if graph.type(source) == graph.type(result) and result not in graph.outputs:
            graph.replace_uses(result, source)


def _relabels(graph: Graph, node: Node) -> bool:
    """Whether a node turns integers of 8 bits into those of another type for the same numbers."""
    if not _stores(graph, node):
        return False
    before, after = graph.type(str(node.inputs[0])), graph.type(node.outputs[0])
    return before.is_eight_bit and before.relabelled(after.dtype) == after


# --- operators that move elements --------------------------------------------------------------


def quantize_early(graph: Graph) -> None:
    """Quantize what operators move or choose, in the place of what they give."""
    for node in reversed(graph.nodes()):
        afters = _movable(graph, node)
        if afters and _gains(graph, node, graph.type(afters[0].outputs[0])):
            _quantize_before(graph, node, afters)


def _movable(graph: Graph, node: Node) -> list[Node]:
    """The conversions of a node's results that it could do without if it read integers."""
    if not (OPS[node.op].moves or node.op in _CHOOSING):
        return []
    afters = results_of(graph, node)
    types = [graph.type(after.outputs[0]) for after in afters]
    return afters if all(_like(type, types[0]) for type in types) else []


def _gains(graph: Graph, node: Node, type: TensorType) -> bool:
    """Whether it brings something to quantize what a node moves or chooses before it does.

    Integers in one operand can be moved as they are, before they are converted. No operator gives
    the graph's inputs, which may yet get the layout of what reads them.

    Args:
        graph: the graph.
        node: the node.
        type: what its results are converted to.
    """
    reals = _reals(graph, node.inputs)
    computed = [name for name in reals if graph.producer(name) is not None]
    if any(_only_read_as(graph, name, type) for name in computed):
        return True
    if not computed or any(source_of(graph, name) is None for name in computed):
        return False
    joins = OPS[node.op].moves and len(reals) > 1
    return joins or not _pads_exactly(graph, node, computed[0])


def _only_read_as(graph: Graph, name: str, type: TensorType) -> bool:
    """Whether integers of one type are all that becomes of real numbers that are computed."""
    if source_of(graph, name) is not None or name in graph.outputs:
        return False
    readers = graph.consumers(name)
    conversions = [[node] if _stores(graph, node) else _movable(graph, node) for node in readers]
    return all(afters and _like(graph.type(afters[0].outputs[0]), type) for afters in conversions)


def _reals(graph: Graph, names: Iterable[str | None]) -> list[str]:
    """Those of some operands that are real numbers."""
    return [name for name in names if name is not None and graph.type(name).dtype is DType.FLOAT32]


def _quantize_before(graph: Graph, node: Node, afters: list[Node]) -> None:
    """Let a node read integers, and give what conversions made of its results."""
    type = graph.type(afters[0].outputs[0])
    reals = _reals(graph, node.inputs)
    inputs = tuple(
        quantized(graph, name, type) if name is not None and name in reals else name
        for name in node.inputs
    )
    graph.remove(node.name)
    for after in afters:
        graph.remove(after.name)
    outputs = tuple(after.outputs[0] for after in afters)
    graph.add_node(replace(_of_integers(node, type), inputs=inputs, outputs=outputs))


def move_integers(graph: Graph, node: Node) -> None:
    """Move integers in the place of real numbers; they may be dequantized afterwards.

    Real numbers that are only taken apart are converted as a whole, so that hardware gives one
    result instead of several.
    """
    if _takes_apart(graph, node):
        return
    sources = [source_of(graph, name) for name in node.inputs]
    if node.op == "gather":
        sources = [sources[0], node.inputs[1]]
    found = [name for name in sources if name is not None]
    if len(found) < len(sources) or all(graph.value(name).is_constant for name in found):
        return
    first = graph.type(found[0])
    alike = node.op == "gather" or all(_like(graph.type(name), first) for name in found)
    if not alike or not _pads_exactly(graph, node, node.inputs[0]):
        return
    names = tuple(graph.fresh(f"{name}/stored") for name in node.outputs)
    types = [first.with_shape(graph.type(name).shape) for name in node.outputs]
    moved = replace(_of_integers(node, first), name=names[0], inputs=tuple(found), outputs=names)
    graph.add_node(moved, types)
    graph.remove(node.name)
    for name, real in zip(names, node.outputs, strict=True):
        for reader in graph.consumers(real):
            if _stores(graph, reader):
                graph.update(replace(reader, inputs=(name,)))
        if graph.consumers(real) or real in graph.outputs:
            back = Node(graph.fresh(real), "dequantize", (name,), (real,), origin=node.origin)
            graph.add_node(back)


def _takes_apart(graph: Graph, node: Node) -> bool:
    """Whether a node gives a part of real numbers, others give the rest, and no part is stored."""
    if node.op not in _PARTING:
        return False
    source = str(node.inputs[0])
    readers = graph.consumers(source)
    if any(reader.op not in _PARTING for reader in readers):
        return False
    parts = [name for reader in readers for name in reader.outputs]
    whole = sum(graph.type(name).size for name in parts) >= graph.type(source).size
    return len(parts) > 1 and whole and not any(_is_stored_again(graph, name) for name in parts)


def _is_stored_again(graph: Graph, name: str) -> bool:
    """Whether elements of a real value become integers, as they are or moved."""
    pending = [name]
    while pending:
        for reader in graph.consumers(pending.pop()):
            if _stores(graph, reader):
                return True
            if OPS[reader.op].moves:
                pending += reader.outputs
    return False


def _pads_exactly(graph: Graph, node: Node, name: str | None) -> bool:
    """Whether the integers of a dequantized operand can stand for the number a node pads with.

    Args:
        graph: the graph.
        node: the node, which may be none that pads.
        name: the operand.
    """
    source, a = source_of(graph, name), node.attributes
    if source is None or not isinstance(a, PadAttributes):
        return True
    return bool(np.isclose(_padding(a, graph.type(source)), a.value, rtol=1e-6, atol=0))


def _padding(a: PadAttributes, type: TensorType) -> float:
    """The number that an integer of a type stands for which is closest to what is padded with."""
    q = type.quantization
    assert q is not None
    stored, _ = numerics.quantized_range(a.value, a.value, q, type.dtype)
    return (stored - q.zero_point[0]) * q.scale[0]


def _of_integers(node: Node, type: TensorType) -> Node:
    """A node that moves integers of a type; what it pads with is the number that they stand for."""
    a = node.attributes
    if isinstance(a, PadAttributes):
        return replace(node, attributes=replace(a, value=_padding(a, type)))
    return node
