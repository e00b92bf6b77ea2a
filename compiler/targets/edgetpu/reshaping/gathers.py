"""Elements of a tensor along its axes, in another order or several times.

These are gathers by known indices. Mirrored borders, repetitions and reversals are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fitzroy.compiler.ops.arrangement import ReverseAttributes, TileAttributes, mirrored
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.shape import GatherAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting, with_rank
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.reshaping.channels import picked
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Section, runs
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    assemble,
    image_shape,
    keeps_bytes,
    pixel,
)

_ROWS, _COLUMNS = 1, 2


def _known(call: Call) -> list[int] | None:
    """Which elements of its axis a gather takes; None if they are computed."""
    indices = call.constant(1)
    return None if indices is None else [int(index) for index in np.asarray(indices).reshape(-1)]


@requires("gather")
def _known_indices(call: Call) -> Iterator[Reject]:
    """The program has the addresses of what it copies."""
    if _known(call) is None:
        yield refused(call, "takes elements by indices that are computed")
    elif call.attributes(GatherAttributes).batch:
        yield refused(call, "takes other elements of every image of a batch")


def _finish(rewriting: Rewriting, name: str) -> None:
    """Make the result of elements in their order, in its shape and at its scale."""
    call = rewriting.call
    after = call.result.type
    if keeps_bytes(call.type(), after):
        rewriting.reshape(name, after.shape, result=call.result.name)
    else:
        shaped = rewriting.reshape(name, after.shape)
        rewriting.emit("quantize", [shaped], after, result=call.result.name)


def _is_image(call: Call) -> bool:
    shape = call.type().shape
    return len(shape) == IMAGE_RANK and shape[0] == 1


def _gathered(rewriting: Rewriting, name: str, axis: int, indices: Sequence[int]) -> str:
    """Append a gather along an axis; returns the name of its result."""
    type = rewriting.graph.type(name)
    shape = (*type.shape[:axis], len(indices), *type.shape[axis + 1 :])
    known = rewriting.graph.add_constant(f"{name}/indices", np.array(indices, np.int32))
    return rewriting.emit("gather", [name, known], type.with_shape(shape), GatherAttributes(axis))


@legalizes("gather")
def _gather(legalizer: Legalizer, call: Call) -> None:
    indices, axis = _known(call), call.attributes(GatherAttributes).axis
    assert indices is not None, "a condition of the operator"
    name, before, after = call.node.inputs[0] or "", call.type(), call.result.type
    whole = len(after.shape) == len(before.shape)
    if _is_image(call) and whole and axis in (_ROWS, _COLUMNS):
        chosen = [list(range(size)) for size in before.shape]
        chosen[axis] = indices
        _take(legalizer, call, chosen[_ROWS], chosen[_COLUMNS])
        return
    rewriting = Rewriting.of(legalizer, call)
    outer, count, inner = (
        math.prod(before.shape[:axis]),
        before.shape[axis],
        math.prod(before.shape[axis + 1 :]),
    )
    if inner == 1:
        image = rewriting.reshape(name, (1, *grid(outer), count))
        type = before.with_shape((1, *grid(outer), len(indices)))
        taken = picked(rewriting, image, indices, type)
    else:
        image = rewriting.reshape(name, (1, outer, count, inner))
        taken = _gathered(rewriting, image, _COLUMNS, indices)
    _finish(rewriting, taken)
    rewriting.run(legalizer)


def _mirrored(call: Call) -> list[list[int]]:
    return [places.tolist() for places in mirrored(call)]


def _tiled(call: Call) -> list[list[int]]:
    counts = call.attributes(TileAttributes).multiples
    pairs = zip(call.type().shape, counts, strict=True)
    return [[*range(size)] * count for size, count in pairs]


def _broadcast(call: Call) -> list[list[int]]:
    after = call.result.type.shape
    pairs = zip(with_rank(call.type().shape, len(after)), after, strict=True)
    return [[*range(size)] if size == wanted else [0] * wanted for size, wanted in pairs]


def _reversed(call: Call) -> list[list[int]]:
    axes = call.attributes(ReverseAttributes).axes
    return [
        [*range(size)][:: -1 if axis in axes else 1] for axis, size in enumerate(call.type().shape)
    ]


_CHOICES: dict[str, Callable[[Call], list[list[int]]]] = {
    "mirror_pad": _mirrored,
    "tile": _tiled,
    "broadcast_to": _broadcast,
    "reverse": _reversed,
}
"""For each axis of the result, which elements of the operand it has."""


@legalizes("mirror_pad")
@legalizes("tile")
@legalizes("broadcast_to")
@legalizes("reverse")
def _choose(legalizer: Legalizer, call: Call) -> None:
    chosen = _CHOICES[call.node.op](call)
    rewriting, name = Rewriting.of(legalizer, call), call.node.inputs[0] or ""
    before = with_rank(call.type().shape, len(chosen))
    axes = [axis for axis, places in enumerate(chosen) if places != [*range(before[axis])]]
    if before == call.type().shape and _is_image(call) and {_ROWS, _COLUMNS}.issuperset(axes):
        _take(legalizer, call, chosen[_ROWS], chosen[_COLUMNS])
        return
    name = rewriting.reshape(name, before)
    for axis in axes:
        name = _gathered(rewriting, name, axis, chosen[axis])
    _finish(rewriting, name)
    rewriting.run(legalizer)


def _take(legalizer: Legalizer, call: Call, rows: Sequence[int], columns: Sequence[int]) -> None:
    """Add a layer that makes an image of rows and columns of another.

    Args:
        legalizer: the graph.
        call: the operator.
        rows: for each row of the result, that of the operand.
        columns: likewise.
    """
    node = call.node
    source = pixel(legalizer, legalizer.place(node.inputs[0] or ""))
    channels = image_shape(legalizer, source)[-1]
    parts = [
        (source, Section(down, across, channels)) for down in runs(rows) for across in runs(columns)
    ]
    assemble(legalizer, node.name, node.outputs[0], call.result.type, parts)
