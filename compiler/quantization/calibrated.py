"""A calibrated model, and what is made of it by one choice of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import FuseActivations
from fitzroy.compiler.quantization.correction import corrected
from fitzroy.compiler.quantization.fitting import compensated, reads_rows
from fitzroy.compiler.quantization.functions import ElementFunction, FunctionUnit
from fitzroy.compiler.quantization.options import Effort, QuantizeOptions, RangeMethod
from fitzroy.compiler.quantization.parameters import Parameters, nearest
from fitzroy.compiler.quantization.parts import without_bounds
from fitzroy.compiler.quantization.ranges import (
    COHERENT,
    OF_TABLES,
    Use,
    choose_range,
    headroom,
    is_last,
    readers_function,
)
from fitzroy.compiler.quantization.recurrences import recurrences
from fitzroy.compiler.quantization.rewrite import Borders, rewrite, with_filters
from fitzroy.compiler.quantization.scheme import Scheme, choose
from fitzroy.compiler.quantization.sensitivity import sensitivities
from fitzroy.compiler.quantization.statistics import Range, Sample, Statistics
from fitzroy.compiler.reference import verify

CORRECTED = 16
"""Most samples that parameters are corrected on."""

Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Quantized:
    """A quantized model.

    Attributes:
        graph: the quantized graph.
        source: the float32 graph that it stands for: constants folded, channels scaled, residual
            sums in layers, without what depends on operators that nobody here computes.
        scheme: how activations are quantized.
        parameters: filters and biases by the name of their node.
        floats: why nodes are left float32.
        notes: what was done about outputs, and why.
        left_out: numbers of exceptional samples, on which much of the network is far out of the
            range that it has on the others.
        computed: the quantized graph without the rest; None if there is no rest.
    """

    graph: Graph
    source: Graph
    scheme: Scheme
    parameters: Mapping[str, Parameters]
    floats: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    left_out: tuple[int, ...] = ()
    computed: Graph | None = None

    @property
    def counterpart(self) -> Graph:
        """The quantized graph of all that `source` has."""
        return self.computed or self.graph

    @property
    def looked_up(self) -> frozenset[str]:
        """Names of nodes that make up functions of one element, for a table each."""
        return frozenset(self.scheme.looked_up)

    def __repr__(self) -> str:
        return (
            f"<Quantized {self.graph.name!r}: {len(self.scheme.operands)} operators on integers, "
            f"{len(self.looked_up)} in tables, {len(self.scheme.floats - self.looked_up)} float32>"
        )


@dataclass(frozen=True, slots=True)
class Recipe:
    """A choice of methods.

    Attributes:
        ranges: how ranges of activations are found.
        coherent: how much more cutting off counts than rounding.
        fits: whether weights are fitted to rounded inputs, and not only rounded for them.
    """

    ranges: RangeMethod
    coherent: float = COHERENT
    fits: bool = False

    @classmethod
    def of(cls, options: QuantizeOptions) -> Recipe:
        """The choice that options make."""
        return cls(options.ranges)


@dataclass(frozen=True)
class Calibrated:
    """A float32 graph of which all is known that quantization takes.

    Attributes:
        graph: its constants are folded, its channels scaled.
        statistics: of its activations.
        floats: names of the nodes that stay float32.
        functions: what some of them make up, for a table each.
        unit: what hardware does with functions of one element.
        known: ranges of inputs that are known beforehand.
        limits: of values whose small elements do not matter: the least that does, and up to where
            elements matter whatever samples have.
        rare: names of those whose largest elements are few, and count.
        bounds: between what elements matter, of values of which others do not.
        bounded: clamped inputs of SiLUs. Their ranges reach the bound, because the next part of the
            activation begins there.
        above: results that are parts of an activation, above bounds.
        left_out: numbers of samples that `statistics` leave out.
        options: how to quantize.
    """

    graph: Graph
    statistics: Mapping[str, Statistics]
    floats: frozenset[str]
    functions: Sequence[ElementFunction]
    unit: FunctionUnit
    known: Mapping[str, Range]
    limits: Mapping[str, Range]
    rare: frozenset[str]
    bounds: Mapping[str, Range]
    bounded: frozenset[str]
    above: frozenset[str]
    left_out: tuple[int, ...]
    options: QuantizeOptions

    def quantized(
        self,
        recipe: Recipe,
        samples: Sequence[Sample],
        about: tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]],
        progress: Progress,
    ) -> Quantized:
        """The quantized model.

        Args:
            recipe: by which methods.
            samples: to correct parameters on.
            about: why nodes are float32, and what was done about outputs.
            progress: called with what is under way.

        Raises:
            CapacityError: evaluation takes more memory than the budget has.
        """
        options = self.options
        source, statistics = self.graph, self.statistics
        scheme = self.scheme(recipe)
        parameters = {
            node.name: _nearest(source, node, scheme, per_channel=options.per_channel)
            for node in with_filters(source, scheme.floats)
        }
        if options.effort is not Effort.FAST:
            parameters.update(_compensated(source, scheme, parameters, statistics))
            if options.correct_bias:
                fits = recipe.fits
                steps = {step.outputs[0] for steps in recurrences(source) for step in steps}
                parameters = corrected(
                    source, scheme, parameters, samples, fits_weights=fits,
                    few={*self.bounds, *self.above, *steps}, rare=self.rare, progress=progress,
                )  # fmt: skip
        borders = Borders(options.input_type, options.output_type)
        result = run_passes(rewrite(source, scheme, parameters, borders), (FuseActivations(),))
        result = without_bounds(result) if self.above else result
        verify(result)
        return Quantized(result, source, scheme, parameters, *about, self.left_out)

    def scheme(self, recipe: Recipe) -> Scheme:
        """How activations are quantized.

        Sums are rounded before functions of them that hardware does not compute, and operators of
        functions of which it has no table are quantized one by one.
        """
        headroom = self.headroom() if recipe.ranges is RangeMethod.MSE else {}
        scheme = choose(self.graph, self.ranges(recipe), self.floats, headroom, self.functions)
        found = scheme.quantizations
        lost = [
            function
            for function in self.functions
            if not function.is_computed(found[function.source], found[function.result], self.unit)
        ]
        if not lost:
            return scheme
        others = [function.rounded for function in lost if function.rounded is not None]
        functions = [function for function in self.functions if function not in lost]
        functions += others
        floats = self.floats - {node.name for function in lost for node in function.nodes}
        floats |= {node.name for function in others for node in function.nodes}
        return replace(self, floats=floats, functions=functions).scheme(recipe)

    def ranges(self, recipe: Recipe) -> dict[str, Range]:
        """The range of every activation."""
        graph, statistics = self.graph, self.statistics
        counts = sensitivities(graph, statistics)
        kept = self.rare | self.bounded
        tables = {function.source: function for function in self.functions if function.is_alone}
        found = {}
        for name, known in statistics.items():
            if name not in graph.values:
                continue
            table, coherent = tables.get(name), recipe.coherent
            if is_last(graph, name):
                coherent = 1.0
            elif table is not None and table.levels_off(*known.extrema):
                coherent *= OF_TABLES
            function = table or readers_function(graph, name)
            use = Use(function, counts.get(name), coherent, name in kept)
            found[name] = choose_range(known, recipe.ranges, self.options.percentile, use)
        # What comes from outside is not cut off.
        found.update({name: statistics[name].extrema for name in graph.inputs if name in found})
        found.update(self.known)
        for name, (low, high) in self.limits.items():
            if name in found:
                extrema = statistics[name].extrema
                found[name] = max(extrema[0], low), max(extrema[1], high)
        for name, (low, high) in self.bounds.items():
            if name in found:
                extrema = statistics[name].extrema
                found[name] = max(extrema[0], low), min(extrema[1], high)
        return found

    def headroom(self) -> dict[str, float]:
        """How many times wider to make ranges of which samples say little.

        Where sums were not rounded before, there is less noise, so that larger steps of rare values
        cost little. Networks of rectifiers lose more by these than they gain.
        """
        kept = {*self.graph.inputs, *self.limits, *self.bounds}
        rare = self.rare & {function.result for function in self.functions if function.of_sums}
        return {
            name: headroom(self.graph, name, found, rare=name in rare)
            for name, found in self.statistics.items()
            if name in self.graph.values and name not in kept
        }


def _nearest(graph: Graph, node: Node, scheme: Scheme, *, per_channel: bool) -> Parameters:
    """Filter and bias of a node, rounded to the nearest integers."""
    kernel = graph.value(str(node.inputs[1])).data
    name = node.inputs[2] if len(node.inputs) > 2 else None
    bias = None if name is None else graph.value(name).data
    assert kernel is not None
    axis = OPS[node.op].channel_axis if per_channel else None
    before, after = scheme.input(node), scheme.raw(node.outputs[0])
    return nearest(kernel, bias, axis, before.scale[0], after.scale[0])


def _compensated(
    graph: Graph,
    scheme: Scheme,
    parameters: Mapping[str, Parameters],
    statistics: Mapping[str, Statistics],
) -> dict[str, Parameters]:
    """Parameters of matrix products whose weights are rounded for the inputs that were seen."""
    return {
        node.name: compensated(
            graph, node, parameters[node.name], statistics[str(node.inputs[0])].rows
        )
        for node in with_filters(graph, scheme.floats)
        if str(node.inputs[0]) in statistics
        and reads_rows(graph, node)
        and len(graph.consumers(str(node.inputs[1]))) == 1
    }
