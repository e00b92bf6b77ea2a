"""Inputs that are read with another size than the file states.

Most operators take tensors of any size, but exporters also write constants that are right for one
size only. Where such a constant does not fit, importing the operator fails. What is checked here
are constants that fit and mean something else: a reshape that would mix images or rows with
channels, a resize to the old size, a slice that no longer reaches the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.reader import stated_extents
from fitzroy.compiler.frontends.onnx.shape import slices, wanted_shape
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape, groups
from fitzroy.compiler.frontends.shapes import by_input

if TYPE_CHECKING:
    from onnx import GraphProto


@dataclass(slots=True)
class Stated:
    """A model with the shapes that its file states.

    Attributes:
        shapes: shapes of those inputs that are given others.
        operations: operators by their first result.
    """

    shapes: Mapping[str, Shape]
    operations: Mapping[str, Operation]


def replaced_shapes(proto: GraphProto, how: Reading, path: str) -> dict[str, Shape]:
    """Shapes that a file states and a reading replaces, by input.

    The number of dimensions stays. Of an input with open extents, the stated ones count. A whole
    number alone is no shape here, because it may also be a value.

    Raises:
        UsageError: there is no such input.
    """
    constants = {tensor.name for tensor in proto.initializer}
    infos = {info.name: info for info in proto.input if info.name not in constants}
    found = {}
    for name, given in by_input(how.shapes, [*infos], path).items():
        extents = stated_extents(infos[name])
        stated = tuple(extent for extent in extents or () if extent is not None)
        if extents == stated != given and len(given) == len(stated) > 1:
            found[name] = stated
    return found


def check_size(before: Operation, now: Operation) -> None:
    """Refuse an operator whose constants are for the stated size.

    Args:
        before: the operator with the size that the file states.
        now: the same one with the given size.

    Raises:
        Refusal: the constants mean something else now.
    """
    check = _CHECKS.get(now.name)
    if check is None or len(before.inputs) != len(now.inputs) or not _are_same(before, now):
        return
    reason = check(before, now)
    if reason:
        raise Refusal("onnx-stated-size", reason)


HINT = "export the model with this size, or with open dimensions (dynamic_axes)"
"""What to do about a model with such constants."""


def _are_same(before: Operation, now: Operation) -> bool:
    """Whether the constants are; others are computed from the size."""
    for old, new in zip(before.inputs, now.inputs, strict=True):
        if old is None or new is None or old.data is new.data is None:
            continue
        if old.data is None or new.data is None or not np.array_equal(old.data, new.data):
            return False
    return True


def _reshape(before: Operation, now: Operation) -> str:
    """A reshape keeps dimensions together that were together."""
    old, new = before.input().shape, now.input().shape
    a, b = wanted_shape(before), wanted_shape(now)
    if old == new or 0 in (*old, *new) or math.prod(a) != math.prod(old):
        return ""
    if math.prod(b) == math.prod(new) and _pairs(old, a, new) == _pairs(new, b, old):
        return ""
    return f"it makes {list(a)} of {list(old)}, and would make {list(b)} of {list(new)}"


def _pairs(source: Shape, target: Shape, other: Shape) -> set[tuple[Shape, Shape]]:
    """Dimensions that belong together, without those that are alone and have extent 1 otherwise."""
    found = {(group.source, group.target) for group in groups(source, target)}
    return {(a, b) for a, b in found if len(a) > 1 or len(b) > 1 or other[a[0]] != 1}


def _resize(before: Operation, now: Operation) -> str:
    """A resize to constant extents was to those that follow from the input's."""
    old, new = before.input().shape, now.input().shape
    sizes = now.optional(3)
    if now.opset < 11 or old == new or sizes is None or not sizes.size:
        return ""
    extents = [int(x) for x in now.constants(3, "extents") or ()]
    return f"it resizes {list(old)} to {extents}, and would resize {list(new)} to that"


def _slice(before: Operation, now: Operation) -> str:
    """A slice still reaches the end."""
    old, new = before.input().shape, now.input().shape
    for axis, _, end, step in slices(now):
        if step > 0 and old[axis] <= end < new[axis]:
            return f"it ends at {end}, which was the end of {old[axis]}, and is none of {new[axis]}"
    return ""


def _gather(before: Operation, now: Operation) -> str:
    """Known indices still reach the end."""
    axis = now.axis(now.integer("axis"), now.input().rank)
    old, new = before.input().shape[axis], now.input().shape[axis]
    indices = now.input(1).data
    if old < new and indices is not None and indices.size and indices.max() == old - 1:
        return f"it takes elements up to {old - 1}, the last of {old}, of {new}"
    return ""


def _transposed_convolution(before: Operation, now: Operation) -> str:
    """A result of constant extents was one of those that follow from the input's."""
    extents = now.integers("output_shape")
    old, new = before.input().shape, now.input().shape
    if extents is None or old == new:
        return ""
    return f"it makes {list(extents)} of {list(old)}, and would make that of {list(new)}"


def _broadcast(before: Operation, now: Operation) -> str:
    """A dimension is not stretched to that of a constant."""
    shapes = [(x.shape, y.shape) for x, y in zip(before.present(), now.present(), strict=True)]
    kept = [np.broadcast_shapes(*(pair[which] for pair in shapes)) for which in (0, 1)]
    for old, new in shapes:
        for axis in range(1, len(new) + 1):
            if new[-axis] == 1 < min(old[-axis], kept[1][-axis]):
                return f"it would stretch {list(new)}, which was {list(old)}, to {list(kept[1])}"
    return ""


_CHECKS: dict[str, Callable[[Operation, Operation], str]] = {
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Gather": _gather,
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Where", "Max", "Min"), _broadcast),
}
"""What is wrong with each operator of another size; nothing if the text is empty."""
