"""Filters and biases fitted to what earlier layers really give.

The graph runs on some samples twice, operator by operator: in float32, and on values that are
rounded as the quantized graph rounds them. Where an operator has a filter, its weights are rounded
so that each makes up for the rounding of those before, and its bias takes up the mean difference
between both; where it is asked for, weights are fitted to the rounded inputs first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.progress import counted
from fitzroy.base.types import Array, DType, Quantization
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.fitting import compensated_windows, fitted, reads_rows
from fitzroy.compiler.quantization.parameters import Parameters
from fitzroy.compiler.quantization.ranges import Function, readers_function, slope
from fitzroy.compiler.quantization.rules import is_real, touches_reals
from fitzroy.compiler.quantization.scheme import Scheme, extent
from fitzroy.compiler.quantization.statistics import Floats, Sample, in_order
from fitzroy.compiler.reference import evaluate_node
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic

Values = dict[str, Array]


def corrected(
    graph: Graph,
    scheme: Scheme,
    parameters: Mapping[str, Parameters],
    samples: Sequence[Sample],
    *,
    fits_weights: bool,
    few: Collection[str] = (),
    rare: Collection[str] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Parameters]:
    """Parameters whose results are closer to the float32 graph's.

    Args:
        graph: a float32 graph.
        scheme: how its activations are quantized.
        parameters: filters and biases, rounded to the nearest.
        samples: inputs to correct on; all values that are needed are held for all of them.
        fits_weights: whether weights are fitted to rounded inputs, and not only rounded for them.
        few: results in which only a few elements matter, such as boxes of objects. Their biases
            are not corrected, because the mean error is that of all elements.
        rare: results of which only a few elements matter: those that the function after them passes
            on. In the mean, an error is weighted by the square of that function's slope.
        progress: called with what is under way.

    Raises:
        CapacityError: the values take more memory than the budget has.
    """
    return _Corrector(graph, scheme, parameters, samples, fits_weights, few, rare).run(progress)


class _Corrector:
    def __init__(
        self,
        graph: Graph,
        scheme: Scheme,
        parameters: Mapping[str, Parameters],
        samples: Sequence[Sample],
        fits_weights: bool,
        few: Collection[str],
        rare: Collection[str],
    ) -> None:
        self.graph, self.scheme, self.samples = graph, scheme, samples
        self.parameters = dict(parameters)
        self.fits_weights, self.few = fits_weights, frozenset(few)
        self.rare = frozenset(rare)
        self.exact: list[Values] = [dict(sample) for sample in samples]
        """Values of every sample in float32."""
        self.rounded: list[Values] = [
            {name: self.round(name, array) for name, array in sample.items()} for sample in samples
        ]
        """The same values as the quantized graph has them, in real numbers."""
        self.reals = frozenset(
            name for node in graph.nodes() if node.name in scheme.floats for name in node.outputs
        )
        """Values that quantized operators and functions round when they read them."""

    def run(self, progress: Callable[[str], None]) -> dict[str, Parameters]:
        nodes = self.graph.nodes()
        last = {name: i for i, node in enumerate(nodes) for name in node.inputs if name is not None}
        numbers = range(len(self.samples))
        for index, node in enumerate(nodes):
            budget.demand(
                2 * sum(self.graph.type(name).nbytes for name in node.outputs) * len(self.samples),
                f"{node.op} {node.name!r} for {len(self.samples)} samples",
                held=2 * sum(a.nbytes for values in self.exact for a in values.values()),
                where=self.graph.name,
            )
            if node.name in self.parameters:
                self.fit(node)
            else:
                results = in_order(partial(self.both, node), numbers)
                for number, (exact, rounded) in zip(numbers, results, strict=True):
                    self.exact[number].update(exact)
                    self.rounded[number].update(rounded)
            for name in node.inputs:
                if name is not None and last[name] == index:
                    for values in (*self.exact, *self.rounded):
                        values.pop(name, None)
            progress(counted("operator", index + 1, len(nodes), within=1.0))
        return self.parameters

    # --- values as integers have them ---

    def round(self, name: str, array: Array) -> Array:
        """A value as its int8 form has it; what has none stays."""
        quantization = self.scheme.quantizations.get(name)
        if quantization is None or name in self.scheme.sums or not is_real(self.graph, name):
            return array
        raw = self.scheme.fixed.get(name)
        if raw is not None and raw != quantization:
            array = _rounded(array, raw)
        return _rounded(array, quantization)

    def read(self, value: Value, number: int) -> Array:
        """A value of a sample as a quantized operator, or a function as a whole, reads it."""
        if value.data is not None:
            return value.data
        array = self.rounded[number][value.name]
        return self.round(value.name, array) if value.name in self.reals else array

    def both(self, node: Node, number: int) -> tuple[Values, Values]:
        """Results of a node without filter, in float32 and as integers have them."""
        exact = evaluate_node(self.graph, node, self.exact[number], Arithmetic.XNNPACK)
        if not touches_reals(self.graph, node):
            return exact, exact
        call = Call.of(self.graph, node)
        operands = self.scheme.operands.get(node.name, {})
        stays, source = node.name in self.scheme.floats, self.scheme.argument(node)
        arrays: list[Array | None] = []
        for index, value in enumerate(call.inputs):
            if value is None:
                arrays.append(None)
                continue
            if stays and value.data is None and value.name != source:
                array = self.rounded[number][value.name]
            else:
                array = self.read(value, number)
            key = operands.get(index)
            if isinstance(key, tuple):
                array = _rounded(array, self.scheme.quantizations[key])
            arrays.append(array)
        with np.errstate(all="ignore"):
            results = OPS[node.op].evaluate(call, arrays, Arithmetic.XNNPACK)
        found = dict(zip(node.outputs, results, strict=True))
        if stays:
            return exact, found
        return exact, {name: self.round(name, array) for name, array in found.items()}

    # --- nodes with filters ---

    def fit(self, node: Node) -> None:
        """Correct the parameters of a node, and compute its results on all samples."""
        (name,) = node.outputs
        bare = _without_activation(node)
        numbers = range(len(self.samples))
        wanted = [self.before_activation(bare, number) for number in numbers]
        given = self.parameters[node.name]
        active = extent(self.scheme.raw(name))
        source, kernel = (str(operand) for operand in node.inputs[:2])
        alone = len(self.graph.consumers(kernel)) == 1
        if alone and not self.graph.value(source).is_constant:
            inputs = [self.read(self.graph.value(source), number) for number in numbers]
            if self.fits_weights:
                given = fitted(self.graph, node, given, inputs, wanted)
            elif not reads_rows(self.graph, node):
                given = compensated_windows(self.graph, node, given, inputs)
        sums = list(in_order(partial(self.product, bare, given), numbers))
        if name not in self.few:
            given = given.with_bias(mean_error(wanted, sums, active, self.function(name)))
        elif given.bias is None:
            given = given.with_bias(np.zeros(wanted[0].shape[-1]))
        self.parameters[node.name] = given
        taken = given.real_bias()
        assert taken is not None
        low, high = _bounds(node)
        for number in numbers:
            exact = np.clip(wanted[number], np.float32(low), np.float32(high))
            self.exact[number][name] = exact
            result = np.clip(sums[number] + taken, np.float32(low), np.float32(high))
            self.rounded[number][name] = self.round(name, result.astype(np.float32))

    def function(self, name: str) -> Function | None:
        """The function whose slope weights the errors of a result; None for equal weights."""
        if name not in self.rare:
            return None
        readers = self.graph.consumers(name)
        if len(readers) == 1 and readers[0].op == "clamp":
            (name,) = readers[0].outputs
        return readers_function(self.graph, name)

    def before_activation(self, node: Node, number: int) -> Floats:
        """The float32 result of a node whose activation function is taken away."""
        (name,) = node.outputs
        found: Floats = evaluate_node(self.graph, node, self.exact[number], Arithmetic.XNNPACK)[
            name
        ]
        return found

    def product(self, node: Node, parameters: Parameters, number: int) -> Floats:
        """Sums of products of rounded inputs and weights, without bias."""
        call = Call.of(self.graph, replace(node, inputs=node.inputs[:2]))
        source = call.inputs[0]
        assert source is not None
        operands = [self.read(source, number), parameters.real_filter()]
        (found,) = OPS[node.op].evaluate(call, operands, Arithmetic.XNNPACK)
        return found


def _rounded(array: Array, quantization: Quantization) -> Array:
    stored = numerics.quantize(array, quantization, DType.INT8)
    return numerics.dequantize(stored, quantization)


def _without_activation(node: Node) -> Node:
    if not hasattr(node.attributes, "activation"):
        return node
    return replace(node, attributes=replace(node.attributes, activation=Activation.NONE))  # type: ignore[call-arg]


def _bounds(node: Node) -> tuple[float, float]:
    found: Activation = getattr(node.attributes, "activation", Activation.NONE)
    return found.bounds


_FEWEST = 16
"""Fewest elements of a channel that do not saturate from which a mean is taken."""


_STEP = 1 / 16
"""Distance over which slopes are measured."""


def mean_error(
    wanted: Sequence[Floats],
    found: Sequence[Floats],
    active: tuple[float, float],
    function: Function | None,
) -> npt.NDArray[np.float64]:
    """The bias of every channel with which sums are right on average, where they count.

    Args:
        wanted: the sums of each sample in float32; channels are the last axis.
        found: the quantized sums, of the same shapes.
        active: sums outside of this range do not count.
        function: weights errors by the square of its slope; None for equal weights.

    Returns:
        float64[channels]. If hardly any elements of a channel count, the mean is over all of them.
    """
    channels = wanted[0].shape[-1]
    inside = np.zeros((2, channels))
    total = np.zeros((2, channels))
    for exact, sums in zip(wanted, found, strict=True):
        x, error = exact.reshape(-1, channels), (exact - sums).reshape(-1, channels)
        share = ((x >= active[0]) & (x <= active[1])).astype(np.float32)
        if function is not None:
            share *= np.square(slope(function, x.astype(np.float64), _STEP)).astype(np.float32)
        inside += share.sum(axis=0), np.full(channels, len(x))
        total += (share * error).sum(axis=0, dtype=np.float64), error.sum(axis=0)
    bias: npt.NDArray[np.float64] = np.where(
        inside[0] >= _FEWEST, total[0] / np.maximum(inside[0], 1), total[1] / inside[1]
    )
    return bias
