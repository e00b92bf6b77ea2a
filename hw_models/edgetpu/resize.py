"""RESIZE on the op engine: images of twice the size, bilinear or from the nearest pixel.

The instruction is known from published programs and the operators that they were compiled from,
not from a device. Whatever no program has is refused: other factors, loops that count other
positions, waits, zero points, other numbers of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.memory import NARROW_WORDS, TileMemory, Tiles, crossing
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.edgetpu.sequence import Gate, sequence, stretch
from fitzroy.hw_models.edgetpu.unknown import KNOWN, by_byte, by_word
from fitzroy.hw_models.isa.tensor import RESIZE_PIXEL, Resize
from fitzroy.hw_models.isa.traversal import Traversal

_HALF = RESIZE_PIXEL // 2
_FRACTION = RESIZE_PIXEL - 1
_X, _Y = 2, 3
"""Loops that count the positions of outputs; loops 0 and 1 are the columns and rows of taps."""

_SEEN: dict[str, object] = {
    "loop_part_dim": 0,
    "c": None,
    "avdata": None,
    "parameters": None,
    "wait": (None,) * 6,
    "accumulate": True,
    "a16": False,
    "c16": True,
    "idle_multipliers": (False, True, True),
    "zero_points_in_memory": False,
    "c_zero_point": 0,
    "a_zero_point": 0,
    "block_level": 5,
    "reduction": 0b11,
    "lanes_last": 4,
    "lanes": 4,
    "nlu": False,
    "nlu_rsqrt": False,
    "output16": False,
    "scale_in_memory": False,
    "nlu_odd": 0,
    "x_loop": _X,
    "x_step": _HALF,
    "y_loop": _Y,
    "y_step": _HALF,
}
"""Fields that have one value in every instruction that is known."""

_TAPS = {True: 1, False: 2}
_SCALES = {True: 1.0, False: 1 / RESIZE_PIXEL**2}
_STARTS = {True: (1, 33, 65, 97), False: (32, 96)}
"""Taps of an axis, scales and starts that are known, by `nearest`."""


@dataclass(eq=False, slots=True)
class ResizePlan:
    """A resize with its element order.

    Attributes:
        op: the instruction.
        steps: number of loop steps.
        gates: its watchers, of which there are none.
        words: narrow word of each tap of each output, int64[outputs, taps].
        weights: its factor, int64[outputs, taps].
        b: narrow word of each output.
    """

    op: Resize
    steps: int
    gates: tuple[Gate, ...]
    words: Array
    weights: Array
    b: Array


def resize_plan(op: Resize) -> ResizePlan:
    """The element order of a resize.

    Raises:
        SimulationError: a form that no program has, or words outside narrow memory.
    """
    for what, value, known in _deviations(op):
        raise SimulationError(
            "a resize of a form that no known program has",
            reason=f"its {what} is {value}, known is {known}",
        )
    if op.a is None or op.b is None:
        raise SimulationError("a resize without an operand a or b")
    addresses, counts = sequence(op.a).addresses, op.loops
    steps = len(addresses)
    index = [np.arange(steps) // math.prod(counts[:k]) % counts[k] for k in range(_Y + 1)]
    x, x_weight = _axis(op.nearest, op.x_start + op.x_step * index[_X], index[0])
    y, y_weight = _axis(op.nearest, op.y_start + op.y_step * index[_Y], index[1])
    addresses = addresses + x * op.x_pitch + y * op.y_pitch
    b = sequence(op.b).addresses
    for words in (addresses, b):
        if words.min() < 0 or words.max() >> 2 >= NARROW_WORDS:
            raise SimulationError("a resize uses words outside narrow memory")
        if np.any(words & 3):
            raise SimulationError("a resize uses words that do not begin at multiples of 4 bytes")
    taps = counts[0] * counts[1]
    return ResizePlan(
        op,
        steps,
        (),
        (addresses >> 2).reshape(-1, taps),
        (x_weight * y_weight).reshape(-1, taps),
        b >> 2,
    )


def _deviations(op: Resize) -> Iterator[tuple[str, object, object]]:
    """What an instruction has that no known program has: a name, its value, and what is known."""
    for name, known in _SEEN.items():
        value = getattr(op, name)
        if value != known:
            yield name, value, known
    if op.scale != _SCALES[op.nearest]:
        yield "scale", op.scale, _SCALES[op.nearest]
    taps = _TAPS[op.nearest]
    width, height, groups = op.loops[_X], op.loops[_Y], op.loops[5]
    loops = (taps, taps, width, height, 1, groups)
    outputs = width * height * groups
    for name, counts, shape in (
        ("loops", op.loops, loops),
        ("a", _counts(op.a), loops),
        ("b", _counts(op.b), (1, width, height, 1, groups)),
        ("d", _counts(op.d), (taps * taps, outputs) if taps > 1 else (outputs,)),
    ):
        if _shortest(counts) != _shortest(shape):
            yield f"order of {name}", counts, shape
    for name, operand in (("a", op.a), ("b", op.b)):
        if operand is not None and (operand.fifo_step or operand.part_dim):
            yield f"traversal of {name}", "in slots or with a partial last chunk", "a plain one"
    for name, start in (("x_start", op.x_start), ("y_start", op.y_start)):
        if start not in _STARTS[op.nearest]:
            yield name, start, " or ".join(map(str, _STARTS[op.nearest]))
    moving = [dim.stride for dim in op.a.dims[_X : _Y + 1] if dim.count > 1] if op.a else []
    if any(moving):
        yield "stride of a along its positions", max(moving), 0


def _counts(traversal: Traversal | None) -> tuple[int, ...]:
    return () if traversal is None else tuple(dim.count for dim in traversal.dims)


def _shortest(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Counts without ones at the end."""
    while counts and counts[-1] == 1:
        counts = counts[:-1]
    return counts


def _axis(nearest: bool, position: Array, tap: Array) -> tuple[Array, Array]:
    """Pixel and factor of one axis, for each step.

    Args:
        nearest: whether the nearest pixel is taken.
        position: in 1/128 pixel.
        tap: 0 or 1, whose pixel the traversal of A adds.
    """
    if nearest:
        return position + _HALF >> 7, np.ones_like(position)
    fraction = position & _FRACTION
    return position >> 7, np.where(tap, fraction, RESIZE_PIXEL - fraction)


def resize(plan: ResizePlan, memory: TileMemory, tiles: Tiles) -> None:
    """Compute all outputs of a resize on some tiles.

    Four bytes of a word are four channels; each has one product of 8 by 16 bits per tap. Sums fit
    the mantissa of float32, so that only the rounding of exact halves is open.
    """
    words = plan.words.reshape(-1)
    held = memory.held(tiles)
    data = np.ascontiguousarray(memory.narrow[crossing(held, words)]).view(np.uint8)
    data = data.reshape(-1, *plan.words.shape, 4)
    sums = np.einsum("toac,oa->toc", data.astype(np.int64), plan.weights)
    codes = rounded(sums.astype(np.float32) * np.float32(plan.op.scale)).astype(np.uint8)
    memory.narrow[crossing(held, stretch(plan.b))] = codes.reshape(len(data), -1).view("<u4")


def resize_marks(plan: ResizePlan, memory: TileMemory, tiles: Tiles) -> None:
    """Mark the outputs of a resize on some tiles as known as far as their inputs are."""
    words = plan.words.reshape(-1)
    target = crossing(tiles, stretch(plan.b))
    known = memory.narrow_known[crossing(tiles, words)]
    if known.min() == KNOWN:
        memory.narrow_known[target] = KNOWN
        return
    marks = by_byte(memory.marked("narrow", tiles, words, known))
    marks = marks.reshape(len(known), *plan.words.shape, 4)
    marks = np.where(plan.weights[:, :, None] != 0, marks, KNOWN).min(axis=2)
    memory.narrow_known[target] = by_word(marks.reshape(len(known), -1).astype(np.int16))
