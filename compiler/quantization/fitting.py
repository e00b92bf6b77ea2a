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
"""Most weights of a sum that are fitted: the work grows with their square and cube."""

_LEAST_ROWS = 4096

_RIDGE = 0.2
"""What keeps fitted weights to the given ones, as a share of the inputs' mean power."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Inputs of sums of products, a row for each result, and how to find the results.

    Attributes:
        inputs: of every sample, [groups, rows, taps]; sums of a group share their inputs.
        steps: of every sample, which of its positions were taken.
    """

    inputs: list[Floats]
    steps: list[slice]


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
    sums = _sums(graph, node, arrays)
    if sums is None:
        return given
    kernel = graph.value(str(node.inputs[1])).data
    assert kernel is not None
    channels = wanted[0].shape[-1]
    targets = np.concatenate(
        [array.reshape(-1, channels)[step] for array, step in zip(wanted, sums.steps, strict=True)]
    )
    inputs = np.concatenate(sums.inputs, axis=1)
    if inputs.shape[1] < _FEWEST_ROWS_PER_TAP * inputs.shape[2]:
        return given
    depthwise = node.op == "depthwise_conv_2d"
    weights = kernel.reshape(-1, channels).T if depthwise else kernel.reshape(channels, -1)
    scales = np.broadcast_to(np.asarray(given.quantization.scale, np.float64), channels)
    stored = np.empty(weights.shape, np.float64)
    share = channels // len(inputs)
    for group, rows in enumerate(inputs):
        members = slice(group * share, (group + 1) * share)
        stored[members] = _fit(
            rows.astype(np.float64), targets[:, members], weights[members], scales[members]
        )
    shaped = stored.T if depthwise else stored
    return replace(given, filter=shaped.reshape(kernel.shape).astype(np.int8))


def _sums(graph: Graph, node: Node, arrays: Sequence[Floats]) -> _Sums | None:
    """The rows of inputs that results are sums over; None where they are too long."""
    kernel = graph.type(str(node.inputs[1])).shape
    if node.op == "transpose_conv":
        return None
    if node.op == "fully_connected":
        rows = [array.reshape(1, -1, kernel[-1]) for array in arrays]
        return _Sums(rows, [slice(None)] * len(rows)) if kernel[-1] <= _MOST_TAPS else None
    a = node.attributes
    assert isinstance(a, ConvAttributes)
    call = Call.of(graph, node)
    size = (kernel[1], kernel[2])
    padding = explicit_padding(a.padding, image_extent(call.type()), size, a.stride, a.dilation)
    depth = arrays[0].shape[-1]
    depthwise = node.op == "depthwise_conv_2d"
    groups = depth if depthwise else depth // kernel[3]
    taps = size[0] * size[1] * (1 if depthwise else kernel[3])
    if taps > _MOST_TAPS:
        return None
    most = max(_LEAST_ROWS, _ROWS_PER_TAP * taps) // len(arrays) + 1
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


def compensated(
    graph: Graph, node: Node, given: Parameters, rows: Floats
) -> Parameters:
    """A filter of which each weight is rounded so that it makes up for those before.

    Args:
        graph: the float32 graph.
        node: a matrix product or a convolution of one pixel.
        given: its parameters, rounded to the nearest.
        rows: [rows, taps], some of its inputs.
    """
    kernel = graph.value(str(node.inputs[1])).data
    assert kernel is not None
    weights = kernel.reshape(kernel.shape[0], -1).astype(np.float64)
    scales = np.broadcast_to(np.asarray(given.quantization.scale, np.float64), len(weights))
    inputs = rows.astype(np.float64)
    inputs = inputs - inputs.mean(axis=0)
    gram = inputs.T @ inputs
    power = float(np.trace(gram)) / len(gram)
    if power <= 0:
        return given
    gram[np.diag_indices_from(gram)] += _RIDGE2 * power
    stored = _rounded_in_turn(weights, scales, gram)
    return replace(given, filter=stored.reshape(kernel.shape).astype(np.int8))


_RIDGE2 = 0.05


def _rounded_in_turn(weights, scales, gram):
    order = np.argsort(-np.diag(gram), kind="stable")
    gram = gram[np.ix_(order, order)]
    best = weights[:, order].copy()
    factor = np.linalg.cholesky(np.linalg.inv(gram)).T
    stored = np.empty_like(best)
    taps = best.shape[1]
    for first in range(0, taps, _BLOCK):
        last = min(first + _BLOCK, taps)
        errors = np.empty((len(best), last - first))
        for tap in range(first, last):
            exact = best[:, tap] / scales
            stored[:, tap] = np.clip(np.rint(exact), -FILTER_LIMIT, FILTER_LIMIT)
            error = (exact - stored[:, tap]) * scales / factor[tap, tap]
            errors[:, tap - first] = error
            best[:, tap + 1 : last] -= error[:, None] * factor[tap, tap + 1 : last]
        best[:, last:] -= errors @ factor[first:last, last:]
    result = np.empty_like(stored)
    result[:, order] = stored
    return result

_BLOCK = 64


def _fit(inputs: Doubles, targets: Floats, weights: Floats, scales: Doubles) -> Doubles:
    """Integers whose sums of products with inputs are closest to targets up to a constant.

    Args:
        inputs: [rows, taps].
        targets: [rows, channels].
        weights: [channels, taps], to start from.
        scales: one per channel.

    Returns:
        [channels, taps], integers within the limits of filters.
    """
    centred = inputs - inputs.mean(axis=0)
    gram = centred.T @ centred
    power = float(np.trace(gram)) / len(gram)
    start = weights.astype(np.float64)
    if power <= 0.0:
        return np.clip(np.rint(start / scales[:, None]), -FILTER_LIMIT, FILTER_LIMIT)
    gram[np.diag_indices_from(gram)] += _RIDGE * power
    missing = targets - targets.mean(axis=0) - centred @ start.T
    best = start + np.linalg.solve(gram, centred.T @ missing).T
    # The upper factor of the inverse tells how later weights make up for earlier ones.
    factor = np.linalg.cholesky(np.linalg.inv(gram)).T
    stored = np.empty_like(best)
    for tap in range(best.shape[1]):
        exact = best[:, tap] / scales
        stored[:, tap] = np.clip(np.rint(exact), -FILTER_LIMIT, FILTER_LIMIT)
        error = (exact - stored[:, tap]) * scales / factor[tap, tap]
        best[:, tap + 1 :] -= error[:, None] * factor[tap, tap + 1 :]
    return stored
