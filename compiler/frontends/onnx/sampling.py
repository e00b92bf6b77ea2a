"""ONNX's GridSample: elements of an image, or of a volume, at places that another tensor gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, channels_last
from fitzroy.compiler.ops.shape import GatherAttributes, ReshapeAttributes

_MODES = {
    "bilinear": "linear", "linear": "linear", "bicubic": "cubic", "cubic": "cubic",
    "nearest": "nearest",
}  # fmt: skip
_PADDINGS = ("zeros", "border", "reflection")
_SHARPNESS = -0.75
"""The parameter of cubic interpolation."""


@dataclass(frozen=True)
class Axis:
    """A dimension of the image that is sampled.

    Attributes:
        build: makes nodes.
        extent: elements along it.
        mode: ``nearest``, ``linear`` or ``cubic``.
        padding: what lies outside: ``zeros``, ``border`` or ``reflection``.
        corners: whether -1 and 1 are the centres of the outermost elements, or their edges.
    """

    build: Builder
    extent: int
    mode: str
    padding: str
    corners: bool

    @property
    def borders(self) -> tuple[float, float]:
        """Where the image begins and ends, in elements."""
        return (0.0, self.extent - 1.0) if self.corners else (-0.5, self.extent - 0.5)

    def taps(self, places: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """Indices and weights of the elements that make one at each place; no weight is 1.

        Args:
            places: from -1 to 1, float32.
        """
        at = self._inside(self._elements(places))
        if self.mode == "nearest":
            return [self._tap(at, None)]
        base = self.build.unary("floor", at)
        fraction = self._binary("sub", at, base)
        first = 0 if self.mode == "linear" else -1
        return [
            self._tap(self._binary("add", base, number), weight)
            for number, weight in enumerate(self._weights(fraction), first)
        ]

    def _binary(self, op: str, a: Tensor, b: Tensor | float) -> Tensor:
        return self.build.binary(op, a, b if isinstance(b, Tensor) else self.build.scalar(b, a))

    def _elements(self, places: Tensor) -> Tensor:
        """Places in elements, counted from the centre of the first."""
        length = self.extent - 1 if self.corners else self.extent
        scaled = self._binary("mul", self._binary("add", places, 1.0), length / 2)
        at = scaled if self.corners else self._binary("sub", scaled, 0.5)
        return self.build.unary("round", at) if self.mode == "nearest" else at

    def _inside(self, at: Tensor) -> Tensor:
        """Places outside as places inside, unless zeros lie outside."""
        if self.padding == "reflection":
            return self._reflected(at)
        if self.padding != "border":
            return at
        low, high = self.borders
        outside = self._binary(
            "logical_or", self._binary("less", at, low), self._binary("greater", at, high)
        )
        return chosen(self.build, outside, self._clamped(at), at)

    def _clamped(self, at: Tensor) -> Tensor:
        return self._binary("minimum", self._binary("maximum", at, 0.0), self.extent - 1.0)

    def _reflected(self, at: Tensor) -> Tensor:
        """Places mirrored at the borders until they lie between them."""
        low, high = self.borders
        length = high - low
        if length == 0:
            return self._binary("mul", at, 0.0)
        away = self.build.unary("abs", self._binary("sub", at, low))
        rest = self._binary("floor_mod", away, 2 * length)
        back = self.build.unary("abs", self._binary("sub", rest, length))
        return self._binary("sub", self.build.scalar(high, at), back)

    def _weights(self, fraction: Tensor) -> list[Tensor]:
        """Weights of neighbours by how far beyond the one before it a place lies."""
        rest = self._binary("sub", self.build.scalar(1.0, fraction), fraction)
        if self.mode == "linear":
            return [rest, fraction]
        near = [self._near(rest), self._near(fraction)]
        return [self._far(fraction), near[1], near[0], self._far(rest)]

    def _near(self, x: Tensor) -> Tensor:
        """The cubic kernel at 0 to 1: (a + 2) x^3 - (a + 3) x^2 + 1."""
        a = _SHARPNESS
        inner = self._binary("sub", self._binary("mul", x, a + 2), a + 3)
        return self._binary("add", self._binary("mul", self._binary("mul", inner, x), x), 1.0)

    def _far(self, x: Tensor) -> Tensor:
        """The cubic kernel at y = 1 + x: a (y^3 - 5 y^2 + 8 y - 4), which is a x (x - 1)^2."""
        less = self._binary("sub", x, 1.0)
        squared = self._binary("mul", less, less)
        return self._binary("mul", self._binary("mul", squared, x), _SHARPNESS)

    def _tap(self, index: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """An element that exists, and its weight, which is 0 for one outside of zeros."""
        build = self.build
        if self.padding == "zeros":
            known = self._binary(
                "logical_and",
                self._binary("greater_equal", index, 0.0),
                self._binary("less_equal", index, self.extent - 1.0),
            )
            ones = build.scalar(1.0, index) if weight is None else weight
            weight = chosen(build, known, ones, build.scalar(0.0, index))
        elif self.padding == "reflection":
            index = self._reflected(index)
        return build.unary("cast", self._clamped(index), dtype=DType.INT32), weight


@imports("GridSample")
def grid_sample(op: Operation) -> Tensor:
    """Elements at places between -1 and 1, interpolated.

    Raises:
        Refusal: the operands are no image and places in it, or a mode is unknown.
    """
    build, x, grid = op.build, op.input(0), op.input(1)
    mode = _MODES.get(op.text("mode", "linear"), "")
    padding = op.text("padding_mode", "zeros")
    if not mode or padding not in _PADDINGS:
        raise Refusal("onnx-attribute", f"mode {op.text('mode')!r} with padding {padding!r}")
    dims = x.rank - 2
    fits = dims > 0 and grid.rank == x.rank and grid.shape[-1] == dims
    if not fits or grid.shape[0] != x.shape[0] or 0 in (*x.shape, *grid.shape):
        raise Refusal("onnx-type-rule", f"places {list(grid.shape)} in {list(x.shape)}")
    corners = bool(op.integer("align_corners"))
    taps = [
        Axis(build, extent, mode, padding, corners).taps(_coordinate(build, grid, dims - 1 - axis))
        for axis, extent in enumerate(x.shape[2:])
    ]
    flat = (math.prod((x.shape[0], *x.shape[2:])), x.shape[1])
    image = build.emit("reshape", [build.value(x, channels_last(x.rank))], ReshapeAttributes(flat))
    total: Tensor | None = None
    for choice in product(*taps):
        place = _place(build, x.shape, [index for index, _ in choice])
        found = build.variable(
            build.emit("gather", [image, build.value(place)], GatherAttributes(0))
        )
        for weight in (weight for _, weight in choice if weight is not None):
            found = build.mul(found, build.reshape(weight, (weight.size, 1)))
        total = found if total is None else build.add(total, found)
    assert total is not None
    stored = (x.shape[0], *grid.shape[1:-1], x.shape[1])
    name = build.emit("reshape", [build.value(total)], ReshapeAttributes(stored))
    return build.variable(name, channels_last(x.rank))


def _coordinate(build: Builder, grid: Tensor, index: int) -> Tensor:
    """One coordinate of all places, one after the other."""
    begin = [0] * (grid.rank - 1) + [index]
    part = sliced(build, grid, begin, (*grid.shape[:-1], 1), [1] * grid.rank)
    return build.reshape(part, (part.size,))


def _place(build: Builder, shape: Sequence[int], indices: Sequence[Tensor]) -> Tensor:
    """Numbers of pixels in a batch of images, from their indices along each dimension."""
    batch, extents = shape[0], shape[2:]
    each = indices[0].size // batch
    first = np.repeat(np.arange(batch, dtype=np.int32) * math.prod(extents), each)
    total = build.constant(first) if batch > 1 else None
    for axis, index in enumerate(indices):
        step = math.prod(extents[axis + 1 :])
        part = index if step == 1 else build.mul(index, build.constant(np.array(step, np.int32)))
        total = part if total is None else build.add(total, part)
    assert total is not None
    return total
