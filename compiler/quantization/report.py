"""What each operator's quantization costs, measured in integers.

Three figures say it: how far a result is from float32 when everything is quantized; how far the
outputs are when only that operator is; and how far they are when everything but it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.progress import counted
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.quantization.calibrated import Quantized
from fitzroy.compiler.quantization.comparison import Difference, real_output, stored_input
from fitzroy.compiler.quantization.options import Border
from fitzroy.compiler.quantization.rewrite import Borders, rewrite
from fitzroy.compiler.quantization.rules import is_real
from fitzroy.compiler.quantization.scheme import Scheme, extent
from fitzroy.compiler.quantization.statistics import Range, Sample
from fitzroy.compiler.reference import evaluate, evaluate_node
from fitzroy.hw_models.numerics import Arithmetic

Values = dict[str, Array]

_BORDERS = Borders(Border.FLOAT, Border.FLOAT)


@dataclass(frozen=True, slots=True)
class Layer:
    """What the quantization of an operator costs.

    Attributes:
        op: the operator.
        name: its first result.
        range: what the 8 bits of that are spread over.
        saturated: share of its float32 elements that are outside.
        here: its result against float32, everything quantized.
        alone: outputs by name against float32, only this operator quantized.
        others: the same with everything but this operator quantized.
    """

    op: str
    name: str
    range: Range
    saturated: float
    here: Difference
    alone: Mapping[str, Difference]
    others: Mapping[str, Difference]

    @property
    def noise(self) -> float:
        """What the operator alone adds to the outputs, as shares of their power, added up."""
        return sum(found.noise / found.signal for found in self.alone.values() if found.signal)


@dataclass(slots=True)
class _Sums:
    """Figures of an operator, added up over samples."""

    here: Difference
    alone: dict[str, Difference]
    others: dict[str, Difference]
    saturated: int = 0
    count: int = 0


def layers(
    result: Quantized,
    samples: Sequence[Sample],
    progress: Callable[[str], None] = lambda step: None,
) -> list[Layer]:
    """What the quantization of each operator costs.

    For every sample and operator, what follows the operator is computed twice.

    Args:
        result: a quantized model.
        samples: inputs of its float32 form.
        progress: called with what is under way.

    Raises:
        CapacityError: the values of the graph take more memory than the budget has.
    """
    source, scheme = result.source, result.scheme
    nodes = [
        node
        for node in source.nodes()
        if node.name in scheme.operands and is_real(source, node.outputs[0])
    ]
    sums = {node.name: _Sums(Difference(), {}, {}) for node in nodes}
    everything = rewrite(source, scheme, result.parameters, _BORDERS)
    for number, sample in enumerate(samples):
        exact = evaluate(source, sample, keep=True)
        stored = evaluate(everything, sample, keep=True)
        for index, node in enumerate(nodes):
            rest = f", operator {index + 1} of {len(nodes)}"
            done = index / len(nodes)
            progress(counted("sample", number + 1, len(samples), rest, within=done))
            _measure(result, node, (exact, stored), everything, sums[node.name])
    return [_layer(scheme, node, sums[node.name]) for node in nodes]


def _layer(scheme: Scheme, node: Node, sums: _Sums) -> Layer:
    name = node.outputs[0]
    spread = extent(scheme.raw(name))
    share = sums.saturated / max(sums.count, 1)
    return Layer(node.op, name, spread, share, sums.here, sums.alone, sums.others)


def _measure(
    result: Quantized, node: Node, values: tuple[Values, Values], everything: Graph, sums: _Sums
) -> None:
    """Add the figures of an operator on a sample."""
    source, scheme = result.source, result.scheme
    exact, stored = values
    name = node.outputs[0]
    found = _form(everything, stored, name)
    sums.here += Difference.of(exact[name], found)
    low, high = extent(scheme.raw(name))
    step = scheme.raw(name).scale[0]
    sums.saturated += int(((exact[name] < low - step) | (exact[name] > high + step)).sum())
    sums.count += exact[name].size
    outside = frozenset(scheme.operands) - {node.name}
    alone = rewrite(
        source, replace(scheme, floats=scheme.floats | outside), result.parameters, _BORDERS
    )
    others = rewrite(
        source, replace(scheme, floats=scheme.floats | {node.name}), result.parameters, _BORDERS
    )
    for graph, known, total in ((alone, exact, sums.alone), (others, stored, sums.others)):
        given = _evaluate_after(graph, known, node.name)
        for output in dict.fromkeys(source.outputs):
            if is_real(source, output):
                off = Difference.of(exact[output], given[output])
                total[output] = total.get(output, Difference()) + off


def _form(graph: Graph, values: Values, name: str) -> Array:
    """A value of a quantized graph in real numbers; outputs have their integers beside them."""
    stored = f"{name}.quantized"
    held = stored if stored in values and stored in graph.values else name
    return real_output(values[held], graph.type(held))


def _evaluate_after(graph: Graph, known: Values, name: str) -> Values:
    """Outputs of a graph of which all is known that does not depend on a node."""
    values = {
        held: array
        for held, array in known.items()
        if held in graph.values and graph.type(held).dtype.numpy == array.dtype
    }
    changed: set[str] = set()
    for node in graph.nodes():
        touched = node.name == name or any(operand in changed for operand in node.inputs)
        if not touched and all(output in values for output in node.outputs):
            continue
        results = evaluate_node(graph, node, values, Arithmetic.XNNPACK)
        values.update(results)
        if touched:
            changed.update(results)
    return {output: values[output] for output in graph.outputs}


# --- any two models ------------------------------------------------------------------------------


def matching(
    graph: Graph, quantized: Graph, samples: Sequence[Sample]
) -> Iterator[tuple[str, Difference]]:
    """Values of the same name and shape in two graphs, and how far they are apart.

    Args:
        graph: a float32 graph.
        quantized: another one, whose quantized values stand for the same real numbers.
        samples: inputs of the first.

    Yields:
        names in the order of the first graph, with the difference over all samples.
    """
    names = [
        name
        for node in graph.nodes()
        for name in node.outputs
        if name in quantized.values
        and is_real(graph, name)
        and quantized.type(name).shape == graph.type(name).shape
    ]
    total = {name: Difference() for name in names}
    for sample in samples:
        exact = evaluate(graph, sample, keep=True)
        inputs = {
            name: stored_input(sample[source], quantized.type(name))
            for source, name in zip(graph.inputs, quantized.inputs, strict=True)
        }
        found = evaluate(quantized, inputs, keep=True)
        for name in names:
            if name in found and name in exact:
                real = real_output(found[name], quantized.type(name))
                total[name] += Difference.of(exact[name], real)
    yield from total.items()


# --- what to do ----------------------------------------------------------------------------------

_GOOD = 20.0
_MUCH = 0.25
_CLIPPED = 0.01


def advice(
    outputs: Mapping[str, Difference], found: Sequence[Layer], quantized: Quantized
) -> list[str]:
    """What would bring outputs closer to float32, most promising first.

    Args:
        outputs: differences of the outputs.
        found: what each operator costs; may be empty.
        quantized: the model.
    """
    low = [name for name, off in outputs.items() if off.decibels < _GOOD]
    if not low:
        return []
    said = []
    total = sum(layer.noise for layer in found)
    for layer in sorted(found, key=lambda layer: -layer.noise)[:3]:
        if total and layer.noise > _MUCH * total:
            after = min(off.decibels for off in layer.others.values())
            said.append(
                f"{layer.op} {layer.name!r} has {100 * layer.noise / total:.0f} % of the loss: "
                f"--keep-float {layer.name!r} leaves {after:.1f} dB at the worst output"
            )
    clipped = [layer for layer in found if layer.saturated > _CLIPPED]
    if clipped:
        said.append(
            f"{len(clipped)} results are cut off in more than 1 % of their elements: try "
            "--ranges minmax"
        )
    for name in low:
        type = quantized.graph.type(name) if name in quantized.graph.values else None
        node = quantized.graph.producer(name)
        small = type is not None and type.is_quantized and node is not None
        if small and node is not None and node.op in ("sigmoid", "softmax"):
            said.append(
                f"output {name!r} holds probabilities in steps of 1/256: --output-type float32 "
                "computes them in float32"
            )
    said.append(
        "calibrate on more samples of the kind that the model will see, prepared as in training "
        "(--preprocess)"
    )
    said.append("try --effort best, which compares several ways, and --no-equalize")
    return said


def worst_samples(samples: Sequence[Mapping[str, Difference]], count: int) -> list[int]:
    """Numbers of the samples on which outputs differ most, the worst first."""
    losses = [
        max((off.noise / off.signal if off.signal else 0.0 for off in found.values()), default=0.0)
        for found in samples
    ]
    return [int(number) for number in np.argsort(losses)[::-1][:count]]
