"""Weights fitted to rounded inputs by least squares, and rounded one after the other.

Facts: the error that the rounding of a weight makes is passed on to the weights that are not
rounded yet, in the proportion in which least squares would have them make up for it. This is the
order of computation known from optimal brain quantization and GPTQ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.windows import explicit_padding, image_extent
from fitzroy.compiler.quantization.parameters import FILTER_LIMIT, Parameters
from fitzroy.compiler.quantization.statistics import Floats
from fitzroy.hw_models.numerics.convolution import windows

Doubles = npt.NDArray[np.float64]

_ROWS_PER_TAP = 8
"""Rows that are taken for every weight of a sum, at most."""

_FEWEST_ROWS_PER_TAP = 2
"""Fewest rows for every weight from which weights are fitted: fewer say more of the samples than
of what is to come."""

_MOST_TAPS = 2304
"""Most weights of a sum that are fitted, or that make up for each other's errors: the work grows
with their square and cube."""

_LEAST_ROWS = 4096

_RIDGE = 0.2
"""What keeps fitted weights to the given ones, as a share of the inputs' mean power."""

_LITTLE_RIDGE = 0.01
"""The same where weights are not fitted, but rounded: errors are small whatever inputs say."""

_FEW_TAPS = 512
"""Most taps of a filter that is rounded for its inputs without being asked for: the work is little
beside that of running the graph."""

_BLOCK = 64
"""Taps whose errors are passed on to all later ones at once."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Inputs of sums of products, a row for each result, and how to find the results.

    Attributes:
        inputs: of every sample, [groups, rows, taps]; sums of a group share their inputs.
        steps: of every sample, which of its positions were taken.
    """

    inputs: list[Floats]
    steps: list[slice]


def reads_rows(graph: Graph, node: Node) -> bool:
    """Whether a node multiplies every position of its input by one matrix."""
    kernel, width = graph.type(str(node.inputs[1])).shape, graph.type(str(node.inputs[0])).shape[-1]
    if node.op == "conv_2d":
        return kernel[1:3] == (1, 1) and kernel[3] == width
    return node.op == "fully_connected" and kernel[-1] == width


def compensated(graph: Graph, node: Node, given: Parameters, rows: Floats) -> Parameters:
    """A filter of which each weight is rounded so that it makes up for those before.

    Args:
        graph: the float32 graph.
        node: a matrix product, or a convolution of one pixel without groups.
        given: its parameters, rounded to the nearest; the scales stay.
        rows: [rows, taps], some of its inputs; few are enough, as weights keep to what they are
            where inputs say nothing.
    """
    return _stored(graph, node, given, rows[None], None)


def compensated_windows(
    graph: Graph, node: Node, given: Parameters, arrays: Sequence[Floats]
) -> Parameters:
    """The same of a filter of few taps, from whole inputs.

    Args:
        graph: the float32 graph.
        node: a convolution or matrix product of it.
        given: its parameters, rounded to the nearest; the scales stay.
        arrays: the rounded input of every sample.

    Returns:
        `given` where the sums are too long.
    """
    sums = _sums(graph, node, arrays, _FEW_TAPS, _ROWS_PER_TAP * _FEW_TAPS)
    if sums is None:
        return given
    return _stored(graph, node, given, np.concatenate(sums.inputs, axis=1), None)


def fitted(
    graph: Graph,
    node: Node,
    given: Parameters,
    arrays: Sequence[Floats],
    wanted: Sequence[Floats],
) -> Parameters:
    """A filter whose sums of products of rounded inputs are closest to the float32 results.

    Args:
        graph: the float32 graph.
        node: a convolution or matrix product of it.
        given: its parameters; the scales stay.
        arrays: the rounded input of every sample.
        wanted: the float32 result of every sample, before the activation function.

    Returns:
        Parameters with the bias as it was; `given` where the sums are too long, or too few.
    """
    sums = _sums(graph, node, arrays, _MOST_TAPS, _LEAST_ROWS)
    if sums is None:
        return given
    channels = wanted[0].shape[-1]
    targets = np.concatenate(
        [array.reshape(-1, channels)[step] for array, step in zip(wanted, sums.steps, strict=True)]
    )
    inputs = np.concatenate(sums.inputs, axis=1)
    if inputs.shape[1] < _FEWEST_ROWS_PER_TAP * inputs.shape[2]:
        return given
    return _stored(graph, node, given, inputs, targets)


def _stored(
    graph: Graph, node: Node, given: Parameters, inputs: Floats, targets: Floats | None
) -> Parameters:
    """A filter rounded for some of its inputs, and fitted to targets first if there are any.

    Args:
        graph: the float32 graph.
        node: a convolution or matrix product of it.
        given: its parameters; the scales stay.
        inputs: [groups, rows, taps].
        targets: [rows, channels] or None.
    """
    kernel = graph.value(str(node.inputs[1])).data
    assert kernel is not None
    groups, _, taps = inputs.shape
    depthwise = node.op == "depthwise_conv_2d"
    channels = kernel.shape[-1] if depthwise else kernel.shape[0]
    flat = kernel.reshape(taps, channels).T if depthwise else kernel.reshape(channels, taps)
    weights = flat.reshape(groups, -1, taps).astype(np.float64)
    scales = np.broadcast_to(np.asarray(given.quantization.scale, np.float64), channels)
    scales = scales.reshape(groups, -1)
    centred = inputs.astype(np.float64)
    centred -= centred.mean(axis=1, keepdims=True)
    ridge = _LITTLE_RIDGE if targets is None else _RIDGE
    rounded = []
    for first in range(0, taps, _MOST_TAPS):
        part = slice(first, first + _MOST_TAPS)
        gram, some = _gram(centred[..., part], ridge), weights[..., part]
        if targets is not None:
            # So many taps as are fitted are a single part.
            some = some + _change(weights, centred, targets, gram)
        rounded.append(_rounded_in_turn(some, scales, gram))
    stored = np.concatenate(rounded, axis=-1).reshape(channels, taps)
    shaped = stored.T if depthwise else stored
    return replace(given, filter=shaped.reshape(kernel.shape).astype(np.int8))


def _change(weights: Doubles, inputs: Doubles, targets: Floats, gram: Doubles) -> Doubles:
    """What is to be added to weights so that sums of products come closest to targets."""
    wanted = targets.reshape(len(targets), len(weights), -1).transpose(1, 0, 2)
    wanted = wanted - wanted.mean(axis=1, keepdims=True)
    missing = wanted - inputs @ weights.transpose(0, 2, 1)
    return np.linalg.solve(gram, inputs.transpose(0, 2, 1) @ missing).transpose(0, 2, 1)


def _gram(inputs: Doubles, ridge: float) -> Doubles:
    """Sums of products of inputs [groups,rows,taps], with a ridge as a share of their power."""
    gram: Doubles = inputs.transpose(0, 2, 1) @ inputs
    taps = gram.shape[-1]
    power = np.trace(gram, axis1=1, axis2=2) / taps
    diagonal = np.arange(taps)
    gram[:, diagonal, diagonal] += ridge * np.where(power > 0, power, 1.0)[:, None]
    return gram


def _sums(
    graph: Graph, node: Node, arrays: Sequence[Floats], longest: int, most_rows: int
) -> _Sums | None:
    """The rows of inputs that results are sums over; None where they are too long.

    Args:
        graph: the float32 graph.
        node: a node with a filter.
        arrays: the input of every sample.
        longest: most taps of a sum.
        most_rows: about how many rows are taken of all samples, if those are enough for the taps.
    """
    kernel = graph.type(str(node.inputs[1])).shape
    if node.op == "transpose_conv":
        return None
    if node.op == "fully_connected":
        rows = [array.reshape(1, -1, kernel[-1]) for array in arrays]
        return _Sums(rows, [slice(None)] * len(rows)) if kernel[-1] <= longest else None
    a = node.attributes
    assert isinstance(a, ConvAttributes)
    call = Call.of(graph, node)
    size = (kernel[1], kernel[2])
    padding = explicit_padding(a.padding, image_extent(call.type()), size, a.stride, a.dilation)
    depth = arrays[0].shape[-1]
    depthwise = node.op == "depthwise_conv_2d"
    groups = depth if depthwise else depth // kernel[3]
    taps = size[0] * size[1] * (1 if depthwise else kernel[3])
    if taps > longest:
        return None
    most = max(most_rows // (groups if depthwise else 1), _ROWS_PER_TAP * taps) // len(arrays) + 1
    inputs, steps = [], []
    for number, array in enumerate(arrays):
        view = windows(array, size, a.stride, a.dilation, padding)
        positions = view.reshape(-1, *size, depth) if size == (1, 1) else None
        count = view.shape[0] * view.shape[1] * view.shape[2]
        step = max(1, count // most)
        step += step > 1 and step % 2 == 0
        chosen = slice(number % step, None, step)
        if positions is None:
            index = np.unravel_index(np.arange(count)[chosen], view.shape[:3])
            positions = view[index]
        else:
            positions = positions[chosen]
        grouped = positions.reshape(len(positions), size[0] * size[1], groups, -1)
        inputs.append(
            np.ascontiguousarray(grouped.transpose(2, 0, 1, 3)).reshape(
                groups, len(positions), taps
            )
        )
        steps.append(chosen)
    return _Sums(inputs, steps)


def _rounded_in_turn(weights: Doubles, scales: Doubles, gram: Doubles) -> Doubles:
    """Integers of which each makes up for the errors of those before, the weightiest first.

    Args:
        weights: [groups, channels, taps].
        scales: [groups, channels].
        gram: [groups, taps, taps], sums of products of inputs, positive definite.

    Returns:
        [groups, channels, taps], integers within the limits of filters.
    """
    order = np.argsort(-np.einsum("gtt->t", gram), kind="stable")
    gram = gram[:, order[:, None], order]
    best = weights[..., order]
    # The upper factor of the inverse tells how later weights make up for earlier ones.
    factor = np.linalg.cholesky(np.linalg.inv(gram)).transpose(0, 2, 1)
    stored = np.empty_like(best)
    taps = best.shape[-1]
    for first in range(0, taps, _BLOCK):
        last = min(first + _BLOCK, taps)
        errors = np.empty((*best.shape[:2], last - first))
        for tap in range(first, last):
            exact = best[..., tap] / scales
            stored[..., tap] = np.clip(np.rint(exact), -FILTER_LIMIT, FILTER_LIMIT)
            error = (exact - stored[..., tap]) * scales / factor[:, tap, tap, None]
            errors[..., tap - first] = error
            best[..., tap + 1 : last] -= error[..., None] * factor[:, None, tap, tap + 1 : last]
        best[..., last:] -= errors @ factor[:, first:last, last:]
    result = np.empty_like(stored)
    result[..., order] = stored
    return result
