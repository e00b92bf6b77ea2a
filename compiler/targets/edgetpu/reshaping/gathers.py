"""Rows, columns or channels of images, in another order or several times: gathers and mirrors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fitzroy.compiler.ops.arrangement import MirrorPadAttributes
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.shape import GatherAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.reshaping.channels import picked
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Section, runs
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import grid
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
    """Addresses are those of the program."""
    if _known(call) is None:
        yield refused(call, "takes elements by indices that are computed")
    elif call.attributes(GatherAttributes).batch:
        yield refused(call, "takes other elements of every image of a batch")


@requires("gather")
@requires("mirror_pad")
def _same_numbers(call: Call) -> Iterator[Reject]:
    """Elements stay as they are."""
    if not keeps_bytes(call.type(), call.result.type):
        yield refused(
            call, f"changes the quantization to {call.result.type}", "requantize after it"
        )


def _is_image(call: Call) -> bool:
    shape = call.type().shape
    return len(shape) == IMAGE_RANK and shape[0] == 1


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
        type = after.with_shape((1, *grid(outer), len(indices)))
        taken = picked(rewriting, image, indices, type)
    else:
        image = rewriting.reshape(name, (1, outer, count, inner))
        type = after.with_shape((1, outer, len(indices), inner))
        known = rewriting.graph.add_constant(f"{name}/indices", np.array(indices, np.int32))
        taken = rewriting.emit("gather", [image, known], type, GatherAttributes(_COLUMNS))
    rewriting.reshape(taken, after.shape, result=call.result.name)
    rewriting.run(legalizer)


@legalizes("mirror_pad")
def _mirror_pad(legalizer: Legalizer, call: Call) -> None:
    a, shape = call.attributes(MirrorPadAttributes), call.type().shape
    mode = "symmetric" if a.symmetric else "reflect"
    chosen: list[list[int]] = [
        np.pad(np.arange(size), added, mode=mode).tolist()  # type: ignore[call-overload]
        for size, added in zip(shape, zip(a.before, a.after, strict=True), strict=True)
    ]
    axes = [axis for axis, added in enumerate(map(len, chosen)) if added != shape[axis]]
    if _is_image(call) and {_ROWS, _COLUMNS}.issuperset(axes):
        _take(legalizer, call, chosen[_ROWS], chosen[_COLUMNS])
        return
    rewriting, name = Rewriting.of(legalizer, call), call.node.inputs[0] or ""
    for axis in axes:
        before = rewriting.graph.type(name)
        sizes = [*before.shape]
        sizes[axis] = len(chosen[axis])
        known = np.array(chosen[axis], np.int32)
        indices = rewriting.graph.add_constant(f"{call.node.name}/indices", known)
        type = call.result.type.with_shape(tuple(sizes))
        name = rewriting.emit("gather", [name, indices], type, GatherAttributes(axis))
    rewriting.reshape(name, call.result.type.shape, result=call.result.name)
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
