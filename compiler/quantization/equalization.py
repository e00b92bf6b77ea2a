"""Channels of equal reach: scales that let every channel of an activation use all 8 bits.

An activation has one scale, so that a channel whose values are small has few of the 256 levels.
Where `channels` finds that it does no harm, each channel is divided by a share of its reach;
filters that produce it pay nothing, as they have a scale per output channel, and filters that read
it spread wider, which costs precision of weights. How much of the difference is evened out is what
makes the sum of both errors least.

Channels that stay below the bound of a rectifier now saturate at what they reached on the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.quantization.channels import (
    FIXED,
    Channels,
    Labels,
    filter_scale,
    has_free_filter,
)
from fitzroy.compiler.quantization.statistics import Floats, Statistics

_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Which shares of the difference between channels, as a logarithm, are tried."""

_LEAST = 2.0**-10
"""The least reach of a channel, as a share of its activation's, that is told from none."""

_LEVELS = 255
_FILTER_LEVELS = 127


@dataclass(frozen=True, slots=True)
class Equalized:
    """A graph whose channels are scaled.

    Attributes:
        graph: it computes the same as before on the samples.
        scales: by what the channels of activations are divided, of those where any is.
    """

    graph: Graph
    scales: dict[str, Floats]


def equalize(
    graph: Graph, statistics: Mapping[str, Statistics], floats: Iterable[str]
) -> Equalized:
    """Scale the channels of a graph against one another.

    Args:
        graph: a float32 graph.
        statistics: of its activations.
        floats: names of nodes that stay as they are.
    """
    kept = frozenset(floats)
    labels = Channels(graph, kept).labels
    nodes = [n for n in graph.nodes() if n.name not in kept and has_free_filter(graph, n)]
    scale = _Scales(graph, statistics, labels, nodes).chosen()
    scales = {
        name: scale[found]
        for name, found in labels.items()
        if name in statistics and (scale[found] != 1).any()
    }
    return Equalized(_with_filters(graph, nodes, scales), scales)


class _Scales:
    """The search for scales.

    Attributes:
        reach: of each label, the largest share of an activation's reach.
    """

    def __init__(
        self,
        graph: Graph,
        statistics: Mapping[str, Statistics],
        labels: Mapping[str, Labels],
        nodes: list[Node],
    ) -> None:
        self.graph, self.statistics, self.labels, self.nodes = graph, statistics, labels, nodes
        count = 1 + max((int(found.max(initial=0)) for found in labels.values()), default=0)
        self.reach = np.zeros(count)
        self.classes = np.arange(count)
        for name, found in labels.items():
            if name in statistics:
                self.see(found, statistics[name])

    def see(self, labels: Labels, statistics: Statistics) -> None:
        """Take an activation into account."""
        reach = statistics.reach.astype(np.float64)
        if reach.max() > 0:
            np.maximum.at(self.reach, labels, reach / reach.max())
        free = np.unique(labels[labels != FIXED])
        if len(free):
            joined = np.unique(self.classes[free])
            self.classes[np.isin(self.classes, joined)] = joined[0]

    def chosen(self) -> Floats:
        """The scale of every label."""
        reach = np.where(self.reach < _LEAST, 1.0, self.reach)
        reach[FIXED] = 1.0
        scale = np.ones(len(reach), np.float32)
        readers: dict[int, list[Node]] = {}
        for node in self.nodes:
            labels = self.labels[str(node.inputs[0])]
            for number in np.unique(self.classes[labels[labels != FIXED]]):
                readers.setdefault(int(number), []).append(node)
        for number, nodes in sorted(readers.items()):
            members = self.classes == number
            candidates = []
            for exponent in _EXPONENTS:
                tried = scale.copy()
                tried[members] = reach[members] ** exponent
                candidates.append((self.error(nodes, tried), exponent, tried))
            scale = min(candidates, key=lambda candidate: candidate[:2])[2]
        return scale

    def error(self, nodes: list[Node], scale: Floats) -> float:
        """Expected noise in the results of nodes, as shares of their power, added up."""
        return sum(self.error_of(node, scale) for node in nodes)

    def error_of(self, node: Node, scale: Floats) -> float:
        name, (result,) = str(node.inputs[0]), node.outputs
        if name not in self.statistics or result not in self.statistics:
            return 0.0
        before = scale[self.labels[name]]
        kernel = self.graph.value(str(node.inputs[1])).data
        assert kernel is not None
        ones = np.ones(self.graph.type(result).shape[-1], np.float32)
        weights = kernel * filter_scale(self.graph, node, before, ones)
        given = self.statistics[name].divided(before)
        axis = kernel.ndim - 1 if node.op == "depthwise_conv_2d" else 0
        others = tuple(i for i in range(kernel.ndim) if i != axis)
        step = float(given.reach.max()) / _LEVELS
        rounding = np.square(weights, dtype=np.float64).sum(axis=others) * step**2 / 12
        power = given.square
        if node.op == "depthwise_conv_2d":
            power = np.repeat(power, kernel.shape[-1] // len(power)) * (kernel.size / len(ones))
        else:
            power = power.sum() * (kernel[0].size / len(power))
        steps = np.abs(weights).max(axis=others) / _FILTER_LEVELS
        noise = float((rounding + power * np.square(steps, dtype=np.float64) / 12).sum())
        signal = float(self.statistics[result].square.sum())
        return noise / signal if signal else 0.0


def _with_filters(graph: Graph, nodes: list[Node], scales: Mapping[str, Floats]) -> Graph:
    """A copy of a graph whose filters and biases make up for scales."""
    result = graph.copy()
    made: dict[tuple[str, bytes], str] = {}
    for node in nodes:
        name, (output,) = str(node.inputs[0]), node.outputs
        if name not in scales and output not in scales:
            continue
        before = scales.get(name, _ones(graph, name))
        after = scales.get(output, _ones(graph, output))
        inputs: list[str | None] = list(node.inputs)
        factors: list[npt.NDArray[np.float32]] = [filter_scale(graph, node, before, after)]
        if len(inputs) > 2 and inputs[2] is not None:
            factors.append((1 / after).astype(np.float32))
        for index, factor in enumerate(factors, 1):
            value = graph.value(str(inputs[index]))
            assert value.data is not None
            data = value.data * (factor if index == 1 else factor.reshape(value.data.shape))
            key = (value.name, factor.tobytes())
            if key not in made:
                made[key] = result.add_constant(value.name, data.astype(np.float32))
            inputs[index] = made[key]
        result.update(replace(node, inputs=tuple(inputs)))
    result.prune()
    return result


def _ones(graph: Graph, name: str) -> Floats:
    return np.ones(graph.type(name).shape[-1], np.float32)
