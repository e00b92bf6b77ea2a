"""Scales of channels that let every channel of an activation use the 8 bits as it needs them.

An activation has one scale, so that a channel whose values are small has few of the 256 levels.
Where `channels` finds that it does no harm, each channel is divided by a scale; filters that
produce it pay nothing, as they have a scale per output channel, and filters that read it spread
wider, which costs precision of weights. Scales are those with which both errors together disturb
the outputs least: how far a channel goes counts beside how much depends on it.

Scaled channels saturate below the bound of a rectifier: at what they reached on the samples, or
above that if they reached further on some samples than on most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.channels import (
    FIXED,
    Channels,
    Labels,
    filter_scale,
    has_free_filter,
)
from fitzroy.compiler.quantization.rules import RULES, is_real
from fitzroy.compiler.quantization.sensitivity import sensitivities
from fitzroy.compiler.quantization.statistics import Floats, Statistics

Doubles = npt.NDArray[np.float64]

_WIDEST = 7.0
"""Largest logarithm of a scale."""

_ROUNDS = 200
"""Steps downhill (with momentum, each coordinate at its own pace: the method known as Adam)."""

_PACE = 0.1
"""Length of the first step of a logarithm; the last has none."""

_SHARPNESS = 12.0
"""How close the mean of reaches, of this power, is to the largest."""

_LEAST = 1e-30
"""Reaches count as at least this, so that they can be divided by."""

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
    """The search for scales with the least expected noise in the outputs.

    With scales s, an activation's step is proportional to the largest reach / s, and noise of a
    step counts as much in a channel as that is sensitive, times s². A filter's step is proportional
    to its largest weight * s, and counts by the power / s² of what it multiplies. These are
    products of sums of powers, whose logarithms are convex in the logarithms of the scales: going
    downhill finds the least.
    """

    def __init__(
        self,
        graph: Graph,
        statistics: Mapping[str, Statistics],
        labels: Mapping[str, Labels],
        nodes: list[Node],
    ) -> None:
        self.graph, self.statistics, self.labels = graph, statistics, labels
        self.sensitivity = sensitivities(graph, statistics)
        self.count = 1 + max((int(found.max(initial=0)) for found in labels.values()), default=0)
        self.low = np.full(self.count, -_WIDEST)
        self.high = np.full(self.count, _WIDEST)
        self.low[FIXED] = self.high[FIXED] = 0.0
        self.activations = self.steps()
        self.filters = [found for node in nodes if (found := self.filter(node)) is not None]
        for node in graph.nodes():
            self.bound(node)

    def steps(self) -> list[_Step]:
        """Activations that have one step, and those of them that are rounded to it."""
        shared, unread = _groups(self.graph)
        result = []
        for members in shared:
            names = [n for n in members if n in self.statistics and n in self.labels]
            seen = [n for n in names if n not in unread]
            rounded = [n for n in names if n in self.sensitivity and not self.is_moved(n)]
            if not seen or not rounded:
                continue
            result.append(
                _Step(
                    np.concatenate([self.labels[n] for n in seen]),
                    np.concatenate([_reach(self.statistics[n]) for n in seen]),
                    np.concatenate([self.labels[n] for n in rounded]),
                    np.concatenate([self.sensitivity[n] for n in rounded]) / _LEVELS**2,
                )
            )
        return result

    def is_moved(self, name: str) -> bool:
        """Whether a value has elements of others, and is not rounded again."""
        node = self.graph.producer(name)
        rule = None if node is None else RULES.get(node.op)
        return rule is not None and rule.shared

    def filter(self, node: Node) -> _Filter | None:
        """What the rounding of a filter costs; None where scales change nothing about it."""
        name, (result,) = str(node.inputs[0]), node.outputs
        if node.op == "depthwise_conv_2d" or result not in self.sensitivity:
            return None
        if name not in self.statistics or not (self.labels[name] != FIXED).any():
            return None
        kernel = self.graph.value(str(node.inputs[1])).data
        assert kernel is not None
        depth = len(self.labels[name])
        largest = np.abs(kernel).reshape(len(kernel), -1, depth).max(axis=1)
        share = kernel[0].size / depth / _FILTER_LEVELS**2
        return _Filter(
            self.labels[name],
            largest.astype(np.float64),
            np.maximum(self.statistics[name].square, 0.0),
            self.sensitivity[result] * share,
        )

    def bound(self, node: Node) -> None:
        """Keep channels that reach the bound of a rectifier there, and others below."""
        (name, *_) = node.outputs
        fused: Activation = getattr(node.attributes, "activation", Activation.NONE)
        high = (
            node.attributes.max if isinstance(node.attributes, ClampAttributes) else fused.bounds[1]
        )
        if not math.isfinite(high) or name not in self.labels or name not in self.statistics:
            return
        reach = np.clip(_unseen(self.statistics[name]) / high, math.exp(-_WIDEST), 1.0)
        np.maximum.at(self.low, self.labels[name], np.log(reach))
        np.minimum.at(self.high, self.labels[name], 0.0)

    def chosen(self) -> Floats:
        """The scale of every label."""
        place = np.zeros(self.count)
        mean, square = np.zeros(self.count), np.zeros(self.count)
        for number in range(1, _ROUNDS + 1):
            slope = self.slope(place)
            mean += (slope - mean) * 0.1
            square += (slope**2 - square) * 0.01
            pace = _PACE * (1 - (number - 1) / _ROUNDS)
            step = (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.99**number)) + 1e-12)
            place = np.clip(place - pace * step, self.low, self.high)
        found: Floats = np.exp(place).astype(np.float32)
        return found

    def slope(self, place: Doubles) -> Doubles:
        """The gradient of the noise, as a share of it, at logarithms of scales."""
        scale = np.exp(place)
        gradient = np.zeros(self.count)
        total = 0.0
        for step in self.activations:
            total += step.add(scale, gradient)
        for kernel in self.filters:
            total += kernel.add(scale, gradient)
        return gradient / (total or 1.0)


@dataclass(frozen=True)
class _Step:
    """Activations that are rounded in steps of one size.

    Attributes:
        labels: of the channels that the step must reach.
        reach: how far each of them goes.
        rounded: labels of the channels that are rounded.
        weights: how much the noise of each of them counts.
    """

    labels: Labels
    reach: Doubles
    rounded: Labels
    weights: Doubles

    def add(self, scale: Doubles, gradient: Doubles) -> float:
        """The noise; its gradient is added to another."""
        reach = self.reach / scale[self.labels]
        largest = float(reach.max())
        if largest <= 0:
            return 0.0
        powers = (reach / largest) ** _SHARPNESS
        total = float(powers.sum())
        extent = largest * total ** (1 / _SHARPNESS)
        parts = self.weights * scale[self.rounded] ** 2
        noise: float = extent**2 * float(parts.sum())
        np.add.at(gradient, self.labels, -2 * noise * powers / total)
        np.add.at(gradient, self.rounded, 2 * extent**2 * parts)
        return noise


@dataclass(frozen=True)
class _Filter:
    """A filter with a step for every output channel.

    Attributes:
        labels: of its input channels.
        largest: [outputs, inputs], largest magnitude of the weights.
        power: mean square of every input channel.
        weights: how much the noise of each output channel counts.
    """

    labels: Labels
    largest: Doubles
    power: Doubles
    weights: Doubles

    def add(self, scale: Doubles, gradient: Doubles) -> float:
        """The noise; its gradient is added to another."""
        own = scale[self.labels]
        scaled = self.largest * own
        widest = scaled.argmax(axis=1)
        steps = self.weights * scaled[np.arange(len(scaled)), widest] ** 2
        parts = self.power / own**2
        noise = float(steps.sum()) * float(parts.sum())
        np.add.at(gradient, self.labels[widest], 2 * steps * float(parts.sum()))
        np.add.at(gradient, self.labels, -2 * parts * float(steps.sum()))
        return noise


def _reach(statistics: Statistics) -> Doubles:
    """How far the channels of an activation go.

    A channel that is 0 on all samples may be large on others. It counts as if it went as far as the
    median of the channels that are not.
    """
    reach = statistics.reach.astype(np.float64)
    live = reach[reach > 0]
    usual = float(np.median(live)) if live.size else _LEAST
    return np.maximum(np.where(reach > 0, reach, usual), _LEAST)


def _unseen(statistics: Statistics) -> Doubles:
    """How far the channels of a rectified activation may go on samples to come.

    A channel that went much further on one sample than on most may go further still. With this
    allowance, EfficientNet-Lite0 has 20.7 instead of 13.2 dB of signal to noise on photographs that
    it was not calibrated on. A channel that is 0 on all samples may go anywhere: otherwise,
    MobileNet v2 has 19.9 instead of 23.2 dB on such photographs.
    """
    reach = statistics.high.astype(np.float64)
    allowed = reach * reach / np.maximum(statistics.typical, _LEAST)
    return np.where(reach > 0, allowed, np.inf)


def _groups(graph: Graph) -> tuple[list[list[str]], set[str]]:
    """Activations that share a step, and those whose own range does not count."""
    parent: dict[str, str] = {}
    unread: set[str] = set()

    def find(name: str) -> str:
        while (above := parent.setdefault(name, name)) != name:
            name = above
        return name

    for name in graph.inputs:
        find(name)
    for node in graph.nodes():
        rule = RULES.get(node.op)
        names = [
            name
            for name in (*node.inputs, *node.outputs)
            if name is not None and is_real(graph, name) and not graph.value(name).is_constant
        ]
        for name in names:
            find(name)
        if rule is None or not rule.shared:
            continue
        for name in names[1:]:
            parent[find(name)] = find(names[0])
        source = str(node.inputs[0])
        if rule.saturating and graph.consumers(source) == [node]:
            unread.add(source)
    members: dict[str, list[str]] = {}
    for name in parent:
        members.setdefault(find(name), []).append(name)
    return list(members.values()), unread


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
