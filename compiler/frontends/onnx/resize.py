"""ONNX's resizing: by operators of ours where one reads the same points, else by products.

Interpolation is linear in the pixels and separable, so that any of its modes is a product with a
constant matrix along each dimension. Source of the formulas: the specification of Resize.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.matmul import connected
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import gathered
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.frontends.onnx.windows import NHWC
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.hw_models.numerics import Sampling


@dataclass(frozen=True, slots=True)
class Rule:
    """How points of a result are found along one dimension.

    Attributes:
        before: extent of the operand.
        after: extent of the result.
        scale: after divided by before, as far as the model gives it.
        coordinates: name of the transformation of coordinates.
        window: first and last point of the operand, for cropping, from 0 to 1.
    """

    before: int
    after: int
    scale: float
    coordinates: str
    window: tuple[float, float] = (0.0, 1.0)

    def points(self) -> Array:
        """Where each element of the result lies in the operand."""
        index = np.arange(self.after, dtype=np.float64)
        length, scale = self.scale * self.before, self.scale
        if self.coordinates == "asymmetric":
            return index / scale
        if self.coordinates == "align_corners":
            return index * ((self.before - 1) / (length - 1)) if length != 1 else 0 * index
        if self.coordinates == "pytorch_half_pixel":
            return (index + 0.5) / scale - 0.5 if length > 1 else 0 * index - 0.5
        if self.coordinates == "half_pixel_symmetric":
            centre = self.before / 2
            offset = centre * (1 - self.after / length)
            return offset + (index + 0.5) / scale - 0.5
        if self.coordinates == "tf_crop_and_resize":
            first, last = self.window
            if length <= 1:
                return 0 * index + 0.5 * (first + last) * (self.before - 1)
            step = (last - first) * (self.before - 1) / (length - 1)
            return first * (self.before - 1) + index * step
        return (index + 0.5) / scale - 0.5


_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize", "tf_half_pixel_for_nn",
)  # fmt: skip
_ROUNDING: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@imports("Resize", "Upsample")
def resize(op: Operation) -> Tensor:
    """Another extent of some dimensions, by copies or interpolation."""
    x, mode = op.input(), op.text("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise Refusal("onnx-attribute", f"mode {mode!r}")
    if 0 in x.shape:
        raise Refusal("onnx-rank", f"{op.name} of an empty tensor {list(x.shape)}")
    rules = _rules(op, x)
    changed = {axis: rule for axis, rule in rules.items() if _matters(rule)}
    if not changed:
        return x
    if mode == "nearest":
        return _nearest(op, x, changed)
    return _interpolated(op, x, changed, mode)


def _matters(rule: Rule) -> bool:
    """Whether a dimension changes; one element stays what it is, wherever its point lies."""
    if rule.before == rule.after == 1:
        return False
    return rule.before != rule.after or not np.allclose(rule.points(), np.arange(rule.after))


def _interpolated(op: Operation, x: Tensor, rules: dict[int, Rule], mode: str) -> Tensor:
    """Means of elements around each point, of which integers stand for real numbers.

    Raises:
        Refusal: they stand for none, or an integer lies around the image.
    """
    build, quantization = op.build, op.build.type(x).quantization
    if quantization is not None and not _crops(op):
        real = build.unary("dequantize", x, dtype=DType.FLOAT32)
        result = _interpolated(op, real, rules, mode)
        return build.unary("quantize", result, dtype=x.dtype, quantization=quantization)
    if x.dtype is not DType.FLOAT32:
        raise Refusal("onnx-element-type", f"{mode} interpolation of {x.dtype.value}")
    sampling = _sampling(op, x, rules, mode)
    if sampling is not None:
        return _by_operator(build, "resize_bilinear", x, rules, sampling)
    return _by_products(op, x, rules, mode)


def _crops(op: Operation) -> bool:
    """Whether points may lie outside the image, where another number is."""
    return op.text("coordinate_transformation_mode") == "tf_crop_and_resize"


def _rules(op: Operation, x: Tensor) -> dict[int, Rule]:
    """The rule of every dimension that is named.

    Raises:
        Refusal: extents are missing, or attributes do not fit.
    """
    coordinates = op.text("coordinate_transformation_mode", "half_pixel")
    legacy = op.name == "Upsample" or op.opset < 11
    coordinates = "asymmetric" if legacy else coordinates
    if coordinates not in _COORDINATES:
        raise Refusal("onnx-attribute", f"coordinates {coordinates!r}")
    roi, factors, sizes = _operands(op, legacy=legacy)
    axes = op.integers("axes")
    chosen = [op.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    given = sizes if sizes is not None else factors
    if given is None or len(given) != len(chosen):
        raise Refusal("onnx-type-rule", f"extents of other than {len(chosen)} dimensions")
    extents = [x.shape[axis] for axis in chosen]
    if sizes is not None:
        scales = _fitted(op, extents, sizes)
        results = [round(e * s) for e, s in zip(extents, scales, strict=True)]
    else:
        scales = list(given)
        results = [int(np.floor(e * s)) for e, s in zip(extents, scales, strict=True)]
    if min(results) < 1:
        raise Refusal("onnx-type-rule", f"a result of {results}")
    budget.demand(8 * sum(results), "points of a resized tensor")
    windows = [(0.0, 1.0)] * len(chosen)
    if coordinates == "tf_crop_and_resize":
        if roi is None or len(roi) != 2 * len(chosen):
            raise Refusal("onnx-type-rule", "a region for other dimensions")
        windows = list(zip(roi[: len(chosen)], roi[len(chosen) :], strict=True))
    return {
        axis: Rule(extent, result, scale, coordinates, window)
        for axis, extent, result, scale, window in zip(
            chosen, extents, results, scales, windows, strict=True
        )
    }


def _operands(
    op: Operation, *, legacy: bool
) -> tuple[list[float] | None, list[float] | None, list[int] | None]:
    """Region, factors and extents; None for what is absent."""

    def values(index: int, what: str) -> list[float] | None:
        if op.optional(index) is None or not op.input(index).size:
            return None
        return [float(v) for v in op.constant(index, what).reshape(-1)]

    if legacy:
        attribute = op.numbers("scales")
        return None, list(attribute) if attribute else values(1, "factors"), None
    sizes = values(3, "extents")
    return (
        values(1, "region"),
        values(2, "factors"),
        None if sizes is None else [int(s) for s in sizes],
    )


def _fitted(op: Operation, extents: list[int], sizes: list[int]) -> list[float]:
    """Factors that give extents, of one for all if the shape of the image is to be kept."""
    scales = [size / extent for size, extent in zip(sizes, extents, strict=True)]
    policy = op.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales
    if policy not in ("not_larger", "not_smaller"):
        raise Refusal("onnx-attribute", f"keep_aspect_ratio_policy {policy!r}")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(scales)


# --- operators ---------------------------------------------------------------------------------


def _is_image(x: Tensor, rules: dict[int, Rule]) -> bool:
    return x.rank == 4 and set(rules) <= {2, 3}


def _by_operator(
    build: Builder, kind: str, x: Tensor, rules: dict[int, Rule], sampling: Sampling
) -> Tensor:
    size = tuple(rules[axis].after if axis in rules else x.shape[axis] for axis in (2, 3))
    attributes = ResizeAttributes((size[0], size[1]), sampling)
    return build.variable(build.emit(kind, [build.value(x, NHWC)], attributes), NHWC)


_SAMPLINGS = {
    "half_pixel": Sampling.HALF_PIXEL, "pytorch_half_pixel": Sampling.HALF_PIXEL,
    "asymmetric": Sampling.LEGACY, "align_corners": Sampling.ALIGN_CORNERS,
}  # fmt: skip


def _sampling(op: Operation, x: Tensor, rules: dict[int, Rule], mode: str) -> Sampling | None:
    """The sampling of our bilinear operator that reads the same points, or None."""
    if mode != "linear" or not _is_image(x, rules) or op.integer("antialias"):
        return None
    found = {_SAMPLINGS.get(rule.coordinates) for rule in rules.values()}
    exact = all(
        rule.scale * rule.before == rule.after and (rule.after > 1 or rule.before == 1)
        for rule in rules.values()
    )
    return found.pop() if exact and len(found) == 1 else None


def _nearest(op: Operation, x: Tensor, rules: dict[int, Rule]) -> Tensor:
    """Copies of the nearest elements."""
    rounding = op.text("nearest_mode", "round_prefer_floor")
    rounding = "floor" if op.name == "Upsample" or op.opset < 11 else rounding
    if rounding not in _ROUNDING:
        raise Refusal("onnx-attribute", f"nearest_mode {rounding!r}")
    indices, outside = {}, {}
    for axis, rule in rules.items():
        points = rule.points()
        outside[axis] = (points < 0) | (points > rule.before - 1)
        found = _ROUNDING[rounding](np.round(points, 9))
        indices[axis] = np.clip(found, 0, rule.before - 1).astype(np.int64)
    if _is_image(x, rules) and op.build.is_real(x) and not _crops(op):
        for sampling in (Sampling.LEGACY, Sampling.HALF_PIXEL, Sampling.ALIGN_CORNERS):
            if all(
                np.array_equal(_tflite_nearest(r, sampling), indices[axis])
                for axis, r in rules.items()
            ):
                return _by_operator(op.build, "resize_nearest_neighbor", x, rules, sampling)
    for axis, found in indices.items():
        x = gathered(op.build, x, found, axis)
    return _extrapolated(op, x, outside)


def _tflite_nearest(rule: Rule, sampling: Sampling) -> Array:
    """The points that our operator reads."""
    from fitzroy.hw_models.numerics import resize_nearest

    ramp = np.arange(rule.before, dtype=np.float32).reshape(1, rule.before, 1, 1)
    result = resize_nearest(ramp, (rule.after, 1), sampling)
    return np.asarray(result.reshape(-1).astype(np.int64))


def _extrapolated(op: Operation, x: Tensor, outside: dict[int, Array]) -> Tensor:
    """A constant in place of what lies outside the operand, which cropping may ask for."""
    if not _crops(op):
        return x
    keep = np.ones(x.shape, np.float32)
    for axis, beyond in outside.items():
        shape = [1] * x.rank
        shape[axis] = -1
        keep = keep * (1 - beyond.astype(np.float32)).reshape(shape)
    if (keep == 1).all():
        return x
    value = np.float32(op.number("extrapolation_value"))
    build = op.build
    return build.add(build.mul(x, build.constant(keep)), build.constant((1 - keep) * value))


# --- products ----------------------------------------------------------------------------------


def _by_products(op: Operation, x: Tensor, rules: dict[int, Rule], mode: str) -> Tensor:
    """Interpolation by a product with a matrix along each dimension."""
    build, outside = op.build, {}
    cubic = op.number("cubic_coeff_a", -0.75)
    for axis, rule in rules.items():
        points = rule.points()
        outside[axis] = (points < 0) | (points > rule.before - 1)
        budget.demand(16 * rule.before * rule.after, "the matrix of an interpolation")
        matrix = weights(
            points,
            rule,
            mode,
            cubic=cubic,
            antialias=bool(op.integer("antialias")),
            exclude=bool(op.integer("exclude_outside")),
        )
        order = (*(other for other in range(x.rank) if other != axis), axis)
        moved = connected(build, build.transpose(x, order), build.constant(matrix.T), None)
        x = build.transpose(moved, tuple(order.index(other) for other in range(x.rank)))
    return _extrapolated(op, x, outside)


def weights(
    points: Array, rule: Rule, mode: str, *, cubic: float, antialias: bool, exclude: bool
) -> Array:
    """The matrix [after, before] that interpolates along one dimension, in float32."""
    stretch = min(rule.scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    count = int(np.ceil(reach)) * 2 + 1
    matrix = np.zeros((rule.after, rule.before))
    base = np.floor(points).astype(np.int64)
    total = np.zeros(rule.after)
    rows = np.arange(rule.after)
    for step in range(-(count // 2) - 1, count // 2 + 2):
        place = base + step
        factor = _kernel((points - place) * stretch, mode, cubic)
        if exclude:
            factor = np.where((place < 0) | (place >= rule.before), 0.0, factor)
        total += factor
        np.add.at(matrix, (rows, np.clip(place, 0, rule.before - 1)), factor)
    if antialias or exclude:
        matrix /= total[:, None]
    return matrix.astype(np.float32)


def _kernel(x: Array, mode: str, a: float) -> Array:
    """Weight of a pixel at a distance."""
    x = np.abs(x)
    if mode == "linear":
        return np.asarray(np.maximum(1 - x, 0))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0.0)))
