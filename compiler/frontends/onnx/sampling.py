"""ONNX's GridSample: elements of an image, or of a volume, at places that another tensor gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, channels_last
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import GatherAttributes, ReshapeAttributes

_MODES = {
    "bilinear": "linear", "linear": "linear", "bicubic": "cubic", "cubic": "cubic",
    "nearest": "nearest",
}  # fmt: skip
_PADDINGS = ("zeros", "border", "reflection")
_SHARPNESS = -0.75
"""The parameter of cubic interpolation."""


@dataclass(frozen=True)
class Taps:
    """The elements that make one at each place, along all dimensions of the image at once.

    Tensors are [places, taps, dimensions]: what is the same for all dimensions takes one node.

    Attributes:
        build: makes nodes.
        extents: elements along each dimension, in the order of coordinates: the last axis first.
        mode: ``nearest``, ``linear`` or ``cubic``.
        padding: what lies outside: ``zeros``, ``border`` or ``reflection``.
        corners: whether -1 and 1 are the centres of the outermost elements, or their edges.
    """

    build: Builder
    extents: tuple[int, ...]
    mode: str
    padding: str
    corners: bool

    @property
    def ends(self) -> Array:
        """The last element along each dimension."""
        return np.array(self.extents, np.float32) - 1

    @property
    def borders(self) -> tuple[Array, Array]:
        """Where the image begins and ends along each dimension, in elements."""
        margin = np.float32(0 if self.corners else 0.5)
        return 0 * self.ends - margin, self.ends + margin

    def along(self, places: Tensor) -> tuple[Tensor, Tensor | None]:
        """Indices, int32, and weights of elements along each dimension; no weight is 1.

        Args:
            places: [places, 1, dimensions] from -1 to 1, float32.
        """
        at = self._inside(self._elements(places))
        if self.mode == "nearest":
            return self._existing(at, None)
        base = self.build.unary("floor", at)
        weights = self._weights(self._binary("sub", at, base))
        first = 0 if self.mode == "linear" else -1
        steps = np.arange(first, first + len(weights)).reshape(1, -1, 1)
        return self._existing(self._binary("add", base, steps), joined(self.build, weights, 1))

    def _binary(self, op: str, a: Tensor, b: Tensor | Array | float) -> Tensor:
        if not isinstance(b, Tensor):
            b = self.build.constant(np.asarray(b, a.dtype.numpy))
        return self.build.binary(op, a, b)

    def _elements(self, places: Tensor) -> Tensor:
        """Places in elements, counted from the centre of the first."""
        lengths = self.ends if self.corners else self.ends + 1
        scaled = self._binary("mul", self._binary("add", places, 1.0), lengths / 2)
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
        return self._binary("minimum", self._binary("maximum", at, 0.0), self.ends)

    def _reflected(self, at: Tensor) -> Tensor:
        """Places mirrored at the borders until they lie between them."""
        low, high = self.borders
        # All places along a dimension of one element are this element.
        lengths = high - low
        single = lengths == 0
        if single.any():
            at = self._binary("mul", at, np.where(single, 0.0, 1.0))
        away = self.build.unary("abs", self._binary("sub", at, low))
        rest = self._binary("floor_mod", away, np.where(single, 1.0, 2 * lengths))
        back = self.build.unary("abs", self._binary("sub", rest, lengths))
        return self._binary("sub", self.build.constant(high.astype(np.float32)), back)

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

    def _existing(self, index: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Elements that exist, and their weights, which are 0 for those outside of zeros."""
        build = self.build
        if self.padding == "zeros":
            known = self._binary(
                "logical_and",
                self._binary("greater_equal", index, 0.0),
                self._binary("less_equal", index, self.ends),
            )
            ones = build.constant(np.ones(index.shape, np.float32)) if weight is None else weight
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
    extents = tuple(reversed(x.shape[2:]))
    taps = Taps(build, extents, mode, padding, bool(op.integer("align_corners")))
    # In ONNX's order, all that follows has one layout.
    plain = build.variable(build.value(grid)) if grid.data is None else grid
    places = build.reshape(plain, (grid.size // dims, 1, dims))
    indices, weights = taps.along(places)
    rows, (first, *steps) = _pixels(build, x)
    steps.reverse()
    place = _combined(build, build.mul(indices, build.constant(np.array(steps, np.int32))), "add")
    if x.shape[0] > 1:
        every = np.arange(x.shape[0], dtype=np.int32) * first
        each = np.repeat(every, place.shape[0] // x.shape[0]).reshape(-1, 1)
        place = build.add(place, build.constant(each))
    found = build.emit("gather", [rows, build.value(place)], GatherAttributes(0))
    if weights is not None:
        # [places, 1, taps] by [places, taps, channels]
        weight = _combined(build, weights, "mul")
        factors = build.value(build.reshape(weight, (place.shape[0], 1, place.shape[1])))
        found = build.emit("batch_matmul", [factors, found], BatchMatMulAttributes())
    stored = (x.shape[0], *grid.shape[1:-1], x.shape[1])
    name = build.emit("reshape", [found], ReshapeAttributes(stored))
    return build.variable(name, channels_last(x.rank))


def _pixels(build: Builder, x: Tensor) -> tuple[str, list[int]]:
    """The pixels of a batch of images, one after the other, and how far apart they are.

    Pixels stay in the order in which they are stored, whatever that is: only the channels of each
    have to lie together.

    Args:
        build: makes nodes.
        x: [n,c,...].

    Returns:
        Rows [pixels,c], and the rows from one image to the next, and from one pixel to the next
        along each dimension, the first dimension first.
    """
    x = build.plain(x) if x.data is None else x
    order = x.perm if x.data is None and x.perm[-1] == 1 else channels_last(x.rank)
    *axes, _ = order
    extents = [x.shape[axis] for axis in axes]
    apart = {axis: math.prod(extents[place + 1 :]) for place, axis in enumerate(axes)}
    shape = (math.prod(extents), x.shape[1])
    rows = build.emit("reshape", [build.value(x, order)], ReshapeAttributes(shape))
    return rows, [apart[axis] for axis in sorted(axes)]


def _combined(build: Builder, parts: Tensor, op: str) -> Tensor:
    """What all dimensions are together for each choice of a tap along each of them.

    Args:
        build: makes nodes.
        parts: [places, taps, dimensions].
        op: how dimensions are put together.

    Returns:
        [places, choices].
    """
    count, taps, dims = parts.shape
    total: Tensor | None = None
    for axis in range(dims):
        part = sliced(build, parts, (0, 0, axis), (count, taps, 1), (1, 1, 1))
        if total is None:
            total = build.reshape(part, (count, taps))
            continue
        own = build.reshape(part, (count, taps, 1))
        row = build.reshape(total, (count, 1, total.shape[1]))
        total = build.reshape(build.binary(op, own, row), (count, taps * total.shape[1]))
    assert total is not None
    return total
