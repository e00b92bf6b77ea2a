"""ONNX operators that normalize."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fitzroy.base import budget
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.matmul import connected
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.reduction import reduced
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape, Tensor
from fitzroy.compiler.ops.normalization import SoftmaxAttributes


def per_channel(build: Builder, values: Tensor, rank: int) -> Tensor:
    """One number for each channel [C], shaped to be combined with [N,C,...]."""
    return build.reshape(values, (1, values.size, *(1,) * (rank - 2)))


@imports("BatchNormalization")
def batch_normalization(op: Operation) -> Tensor | list[Tensor]:
    """Scale and offset of every channel, from statistics of training or of the operand itself.

    Raises:
        Refusal: statistics are asked for outside training mode, as by old operator sets.
    """
    x, build = op.input(), op.build
    if x.rank < 2:
        raise Refusal("onnx-rank", f"BatchNormalization of {x.rank} dimensions")
    if op.integer("training_mode"):
        return _with_own_statistics(op)
    if any(op.wanted(index) for index in range(1, 5)):
        raise Refusal("onnx-attribute", "statistics of BatchNormalization outside training mode")
    epsilon = op.number("epsilon", 1e-5)
    scale, bias, mean, variance = (op.input(index) for index in range(1, 5))
    given = [tensor.data for tensor in (scale, bias, mean, variance)]
    if all(data is not None for data in given):
        s, b, m, v = (np.asarray(data, np.float64) for data in given)
        factor = s / np.sqrt(v + epsilon)
        scale = build.constant(factor.astype(np.float32))
        bias = build.constant((b - m * factor).astype(np.float32))
    else:
        scale = build.mul(scale, reciprocal_deviation(build, variance, epsilon))
        bias = build.binary("sub", bias, build.mul(mean, scale))
    return build.add(
        build.mul(x, per_channel(build, scale, x.rank)), per_channel(build, bias, x.rank)
    )


def _with_own_statistics(op: Operation) -> list[Tensor]:
    """Channels standardized by their own mean and variance, and the running statistics.

    Weights are standardized so in front of their convolution: what comes of constants is constant.
    """
    x, build, momentum = op.input(), op.build, op.number("momentum", 0.9)
    axes = tuple(axis for axis in range(x.rank) if axis != 1)
    mean, centred, variance = moments(build, x, axes)
    scale = reciprocal_deviation(build, variance, op.number("epsilon", 1e-5))
    scale = build.mul(scale, per_channel(build, op.input(1), x.rank))
    results = [build.add(build.mul(centred, scale), per_channel(build, op.input(2), x.rank))]
    for index, found in ((3, mean), (4, variance)):
        before = op.input(index)
        results.append(
            build.add(
                build.mul(before, build.scalar(momentum, before)),
                build.mul(build.reshape(found, before.shape), build.scalar(1 - momentum, found)),
            )
        )
    return results


def moments(build: Builder, x: Tensor, axes: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of numbers over axes, the numbers less it, and their variance."""
    if x.data is not None:
        data = x.data.astype(np.float64)
        mean, variance = (
            build.constant(found(axis=axes, keepdims=True).astype(x.data.dtype))
            for found in (data.mean, data.var)
        )
        return mean, build.binary("sub", x, mean), variance
    mean = reduced(build, "mean", x, axes)
    centred = build.binary("sub", x, mean)
    return mean, centred, reduced(build, "mean", build.unary("square", centred), axes)


def reciprocal_deviation(build: Builder, variance: Tensor, epsilon: float) -> Tensor:
    """What numbers less their mean are multiplied by to have a variance of 1."""
    return build.unary("rsqrt", build.add(variance, build.scalar(epsilon, variance)))


def standardized(build: Builder, x: Tensor, axes: Shape, epsilon: float) -> Tensor:
    """Numbers less their mean over axes, divided by their standard deviation."""
    _, centred, variance = moments(build, x, axes)
    return build.mul(centred, reciprocal_deviation(build, variance, epsilon))


@imports("InstanceNormalization")
def instance_normalization(op: Operation) -> Tensor:
    """Every channel of every image standardized, then scaled and offset."""
    x, build, epsilon = op.input(), op.build, op.number("epsilon", 1e-5)
    if x.rank < 3:
        raise Refusal("onnx-rank", f"InstanceNormalization of {x.rank} dimensions")
    factors = [op.input(1), op.input(2)]
    grouped = _image_of_groups(build, x)
    if grouped is not None:
        result = _scaled(build, _in_groups(build, grouped, x.shape[1], epsilon), factors)
        return build.reshape(result, x.shape)
    inner = _unmerged(x)
    axes = tuple(range(2, x.rank)) if inner is None else tuple(range(1, len(inner)))
    image = x if inner is None else build.reshape(x, inner)
    result = _scaled(build, standardized(build, image, axes, epsilon), factors)
    return build.reshape(result, x.shape)


@imports("GroupNormalization")
def group_normalization(op: Operation) -> Tensor:
    """Groups of channels of every image standardized, then scaled and offset.

    Before opset 21, scales and offsets are those of groups.
    """
    x, build, groups = op.input(), op.build, op.integer("num_groups")
    if x.rank < 3 or groups < 1 or x.shape[1] % groups:
        raise Refusal("onnx-attribute", f"GroupNormalization of {list(x.shape)} in {groups} groups")
    result = _in_groups(build, x, groups, op.number("epsilon", 1e-5))
    return _scaled(build, result, [op.input(1), op.input(2)])


def _scaled(build: Builder, x: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """An image [N,C,...] times a scale, and an offset added: one number for each group of channels.

    Args:
        build: the graph.
        x: the image.
        factors: scale and offset, [G], where C is a multiple of G.
    """
    scale, bias = (
        per_channel(build, _repeated(build, values, x.shape[1]), x.rank) for values in factors
    )
    return build.add(build.mul(x, scale), bias)


def _repeated(build: Builder, values: Tensor, count: int) -> Tensor:
    """Each of some numbers so often that there are `count` of them.

    Raises:
        Refusal: there are not as many as groups of equal size have.
    """
    if values.rank != 1 or not values.size or count % values.size:
        raise Refusal("onnx-type-rule", f"factors {list(values.shape)} of {count} channels")
    size = count // values.size
    if values.data is not None:
        return build.constant(values.data.repeat(size), values.name)
    ones = build.constant(np.ones((1, size), values.dtype.numpy))
    return build.reshape(build.mul(build.reshape(values, (values.size, 1)), ones), (count,))


def _in_groups(build: Builder, x: Tensor, groups: int, epsilon: float) -> Tensor:
    """Groups of channels of an image [N,C,...] less their means, divided by their deviations.

    Channels are averaged first, so that the image stays as it is stored, and what is left for the
    groups is a product of a vector and a matrix.
    """
    if groups == x.shape[1]:
        return standardized(build, x, tuple(range(2, x.rank)), epsilon)
    centred = build.binary("sub", x, _means_of_groups(build, x, groups))
    variance = _means_of_groups(build, build.unary("square", centred), groups)
    return build.mul(centred, reciprocal_deviation(build, variance, epsilon))


def _means_of_groups(build: Builder, x: Tensor, groups: int) -> Tensor:
    """For each channel of an image [N,C,...], the mean of its group: [N,C,1,...]."""
    means, count = reduced(build, "mean", x, tuple(range(2, x.rank))), x.shape[1]
    budget.demand(4 * count * count, "the channels of groups")
    same = np.kron(np.eye(groups), np.full((count // groups,) * 2, groups / count))
    matrix = build.constant(same.astype(np.float32))
    rows = connected(build, build.reshape(means, (x.shape[0], count)), matrix, None)
    return build.reshape(rows, means.shape)


def _image_of_groups(build: Builder, x: Tensor) -> Tensor | None:
    """The image [N,C,...] whose channels and pixels a reshape divided into groups [N,G,...].

    Exporters that have no operator for groups write them so. The order of the elements of a group
    does not matter for its mean, so the image is normalized as it is stored.

    Returns:
        None if `x` is something else.
    """
    image = build.moved_from(x)
    if image is None or x.rank != 3 or image.rank < 3 or image.shape[0] != x.shape[0]:
        return None
    return None if image.shape[1] % x.shape[1] else image


def _unmerged(x: Tensor) -> Shape | None:
    """The dimensions [N,...] that a reshape merged to make a tensor of one channel [N,1,...].

    Exporters normalize a whole image by merging its dimensions first. Their order does not matter
    for a mean over all of them, so the image is normalized as it is stored, and nothing moves.

    Returns:
        None if nothing was merged.
    """
    if x.data is not None or x.is_plain or x.shape[1] != 1 or x.split[0] != x.shape[0]:
        return None
    extents = tuple(extent for extent in x.split[1:] if extent != 1)
    return (x.split[0], *extents) if extents else None


@imports("LayerNormalization")
def layer_normalization(op: Operation) -> list[Tensor]:
    """Trailing dimensions standardized, then scaled and offset; their statistics on request."""
    x, build = op.input(), op.build
    axis = op.axis(op.integer("axis", -1), x.rank)
    axes, epsilon = tuple(range(axis, x.rank)), op.number("epsilon", 1e-5)
    mean, centred, variance = moments(build, x, axes)
    scale = reciprocal_deviation(build, variance, epsilon)
    result = build.mul(build.mul(centred, scale), op.input(1))
    bias = op.optional(2)
    return [result if bias is None else build.add(result, bias), mean, scale]


@imports("LRN")
def local_response(op: Operation) -> Tensor:
    """Numbers divided by a power of the mean square of channels around them.

    The sum over channels is a product with a matrix of ones near its diagonal.
    """
    x, build, size = op.input(), op.build, op.integer("size")
    if x.rank < 3 or not 1 <= size <= 2 * x.shape[1]:
        raise Refusal("onnx-attribute", f"LRN of {size} channels around each of {list(x.shape)}")
    channels = np.arange(x.shape[1])
    budget.demand(4 * channels.size**2, "the channels around each other")
    apart = channels[:, None] - channels[None, :]
    near = (apart >= -((size - 1) // 2)) & (apart <= math.ceil((size - 1) / 2))
    alpha, beta, bias = (op.number(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1)))
    order = (0, *range(2, x.rank), 1)
    squares = build.transpose(build.unary("square", x), order)
    matrix = near.astype(np.float32) * np.float32(alpha / size)
    sums = connected(build, squares, build.constant(matrix), None)
    sums = build.transpose(sums, tuple(order.index(axis) for axis in range(x.rank)))
    base = build.add(sums, build.scalar(bias, x))
    return build.binary("div", x, build.binary("pow", base, build.scalar(beta, x)))


@imports("LpNormalization")
def lp_normalization(op: Operation) -> Tensor:
    """Vectors along an axis divided by their length, or by the sum of their sizes."""
    x, build, p = op.input(), op.build, op.integer("p", 2)
    axis = op.axis(op.integer("axis", -1), x.rank)
    if p not in (1, 2):
        raise Refusal("onnx-attribute", f"LpNormalization of order {p}; 1 and 2 are known")
    total = reduced(build, "sum", build.unary("square" if p == 2 else "abs", x), (axis,))
    length = build.unary("sqrt", total) if p == 2 else total
    # A vector of zeros stays one.
    least = build.scalar(float(np.finfo(np.float32).tiny), x)
    return build.binary("div", x, build.binary("maximum", length, least))


@imports("Softmax", "LogSoftmax")
def softmax(op: Operation) -> Tensor:
    """Exponentials divided by their sum, or the logarithm of that.

    Before opset 13, the sum extends over the axis and all that follow it.
    """
    x = op.input()
    if not x.rank:
        raise Refusal("onnx-rank", f"{op.name} of a scalar")
    axis = op.axis(op.integer("axis", 1 if op.opset < 13 else -1), x.rank)
    summed = op.build.reshape(x, softmax_shape(x, axis, op.opset))
    return op.build.reshape(softmax_of(op.build, op.name, summed, axis), x.shape)


def softmax_shape(x: Tensor, axis: int, opset: int) -> Shape:
    """The shape in which the sum of a softmax extends over the axis alone."""
    if opset >= 13 or math.prod(x.shape[axis + 1 :]) == 1:
        return x.shape
    return (*x.shape[:axis], math.prod(x.shape[axis:]))


def softmax_of(build: Builder, kind: str, x: Tensor, axis: int) -> Tensor:
    """The operator along one axis, which is stored last."""
    x = build.plain(x)
    order = (*(other for other in x.perm if other != axis), axis)
    if kind == "Softmax":
        name = build.emit("softmax", [build.value(x, order)], SoftmaxAttributes())
    else:
        name = build.emit("log_softmax", [build.value(x, order)])
    return build.variable(name, order)
