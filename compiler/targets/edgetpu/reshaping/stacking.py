"""Stacking tensors along a fresh axis, and taking them apart again."""

from __future__ import annotations

import math
from dataclasses import replace

from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import AxisAttributes, ConcatenationAttributes
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector


@legalizes("pack")
def _pack(legalizer: Legalizer, call: Call) -> None:
    """A concatenation along the axis after the fresh one, in another shape.

    What has nothing in front of the axis is joined as vectors, which are views of their parts.
    """
    rewriting = Rewriting.of(legalizer, call)
    axis, first, after = call.attributes(AxisAttributes).axis, call.type(0), call.result.type
    outer, inner = math.prod(first.shape[:axis]), math.prod(first.shape[axis:])
    count = len(call.inputs)
    shape: tuple[int, ...] = first.shape
    joined: tuple[int, ...]
    if outer == 1:
        shape, joined, along = (inner,), (count * inner,), 0
    elif _is_image(shape) and axis < IMAGE_RANK:
        along = axis
        joined = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
    else:
        shape = (1, *grid(outer), inner)
        joined, along = (*shape[:-1], count * inner), IMAGE_RANK - 1
    names = [rewriting.reshape(name or "", shape) for name in call.node.inputs]
    whole = rewriting.emit(
        "concatenation",
        names,
        replace(after, shape=joined),
        ConcatenationAttributes(along),
    )
    rewriting.reshape(whole, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == IMAGE_RANK and shape[0] == 1


@legalizes("unpack")
def _unpack(legalizer: Legalizer, call: Call) -> None:
    """Slices along an axis, without it."""
    axis, before, source = (
        call.attributes(AxisAttributes).axis,
        call.type(),
        call.node.inputs[0] or "",
    )
    outer, inner = math.prod(before.shape[:axis]), math.prod(before.shape[axis + 1 :])
    parts = legalizer.parts(source)
    if outer == 1 and _apart(legalizer, parts, len(call.outputs), inner):
        for value, part in zip(call.outputs, parts, strict=True):
            legalizer.views[value.name] = (part,)
        return
    rewriting = Rewriting.of(legalizer, call)
    name, along = source, axis
    if outer == 1:
        name, along = rewriting.reshape(source, (before.size,)), 0
    elif not _is_image(before.shape):
        shape = (1, *grid(outer), before.size // outer)
        name, along = rewriting.reshape(source, shape), IMAGE_RANK - 1
    step = rewriting.graph.type(name).shape[along] // len(call.outputs)
    for number, value in enumerate(call.outputs):
        part = rewriting.slice(name, along, step * number, step)
        rewriting.reshape(part, value.type.shape, result=value.name)
    rewriting.run(legalizer)


def _apart(legalizer: Legalizer, parts: tuple[str, ...], count: int, size: int) -> bool:
    """Whether a value is so many places of one size."""
    return len(parts) == count > 1 and all(
        legalizer.type(part).size == size
        and (is_vector(legalizer, part) or _is_image(legalizer.type(part).shape))
        for part in parts
    )
