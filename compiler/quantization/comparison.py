"""How far a quantized graph is from the float32 graph that it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UsageError
from fitzroy.base.progress import counted
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.statistics import Sample, in_order
from fitzroy.compiler.reference import evaluate
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Results compared with what they should be, over several samples.

    Attributes:
        signal: sum of the squares of what they should be.
        noise: sum of the squares of the differences.
        largest: largest difference.
        count: number of elements.
        step: what neighbouring values of the result differ by; 0 if it has no such step.
    """

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    count: int = 0
    step: float = 0.0

    @classmethod
    def of(cls, wanted: Array, found: Array, step: float = 0.0) -> Difference:
        """The difference of two arrays of real numbers.

        Args:
            wanted: what they should be.
            found: what they are.
            step: what neighbouring values of `found` differ by; 0 if it has no such step.
        """
        exact = wanted.astype(np.float64).reshape(-1)
        off = found.astype(np.float64).reshape(-1) - exact
        largest = float(np.abs(off).max(initial=0.0))
        return cls(float(exact @ exact), float(off @ off), largest, exact.size, step)

    def __add__(self, other: Difference) -> Difference:
        return Difference(
            self.signal + other.signal,
            self.noise + other.noise,
            max(self.largest, other.largest),
            self.count + other.count,
            max(self.step, other.step),
        )

    @property
    def decibels(self) -> float:
        """Signal to noise; infinite if there is no difference."""
        if self.noise == 0.0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def steps(self) -> float | None:
        """The largest difference in steps of the result; None if it has none."""
        return self.largest / self.step if self.step else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantized graph compared with a float32 graph.

    Attributes:
        outputs: differences of the outputs by the float32 graph's names, all samples together.
        samples: the same for every sample.
    """

    outputs: dict[str, Difference]
    samples: tuple[dict[str, Difference], ...]


def compare(
    graph: Graph,
    quantized: Graph,
    samples: Sequence[Sample],
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    progress: Callable[[str], None] = lambda step: None,
) -> Comparison:
    """Run both graphs on the same real numbers and compare their outputs in order.

    Args:
        graph: a float32 graph.
        quantized: one with the same inputs and outputs, by number and shape.
        samples: inputs of `graph`.
        arithmetic: how integers are rounded.
        progress: called with what is under way.

    Raises:
        UsageError: inputs or outputs do not correspond.
    """
    _demand_alike(graph, quantized)
    steps = {name: output_step(quantized, name) for name in quantized.outputs}

    def of_sample(number: int) -> dict[str, Difference]:
        sample = samples[number]
        wanted = evaluate(graph, sample)
        stored = {
            name: stored_input(sample[source], quantized.type(name))
            for source, name in zip(graph.inputs, quantized.inputs, strict=True)
        }
        found = evaluate(quantized, stored, arithmetic)
        return {
            source: Difference.of(
                wanted[source], real_output(found[name], quantized.type(name)), steps[name]
            )
            for source, name in zip(graph.outputs, quantized.outputs, strict=True)
        }

    each = []
    for number, found in enumerate(in_order(of_sample, range(len(samples)))):
        each.append(found)
        progress(counted("sample", number + 1, len(samples), within=1.0))
    total = {
        name: sum((found[name] for found in each), Difference())
        for name in dict.fromkeys(graph.outputs)
    }
    return Comparison(total, tuple(each))


def _demand_alike(graph: Graph, quantized: Graph) -> None:
    """Refuse graphs whose inputs or outputs do not correspond.

    Raises:
        UsageError: what differs.
    """
    for what, ours, others in (
        ("inputs", graph.inputs, quantized.inputs),
        ("outputs", graph.outputs, quantized.outputs),
    ):
        shapes = [graph.type(name).shape for name in ours]
        found = [quantized.type(name).shape for name in others]
        if shapes != found:
            raise UsageError(
                f"the models have different {what}",
                reason=f"{_listed(shapes)} and {_listed(found)}",
                where=quantized.name,
                hint="compare a model with what was made of it",
            )


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(f"[{','.join(map(str, shape))}]" for shape in shapes) or "none"


def stored_input(array: Array, type: TensorType) -> Array:
    """Real numbers as the elements of an input; what is not quantized stays."""
    if type.quantization is None:
        return array.astype(type.dtype.numpy, copy=False)
    return numerics.quantize(array, type.quantization, type.dtype)


_MOVING = frozenset({"reshape", "transpose", "strided_slice", "split"})
"""Operators that leave elements as they are."""


def output_step(graph: Graph, name: str) -> float:
    """What neighbouring values of an output differ by, as a real number.

    Returns:
        The scale of the output, or of what it is dequantized from; 0 if neither has one.
    """
    while graph.type(name).quantization is None:
        node = graph.producer(name)
        if node is None or node.op not in _MOVING | {"dequantize"}:
            return 0.0
        name = str(node.inputs[0])
    quantization = graph.type(name).quantization
    assert quantization is not None
    return float(quantization.scale_array(len(graph.type(name).shape)).max())


def real_output(array: Array, type: TensorType) -> Array:
    """The real numbers that the elements of an output stand for."""
    return array if type.quantization is None else numerics.dequantize(array, type.quantization)
