"""From a float32 graph and samples to an int8 graph: the steps of quantization in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import FOLDING, Simplify
from fitzroy.compiler.passes.rows import RowsAsImages
from fitzroy.compiler.quantization.calibrated import (
    CORRECTED,
    Calibrated,
    Progress,
    Quantized,
    Recipe,
)
from fitzroy.compiler.quantization.choices import with_products
from fitzroy.compiler.quantization.equalization import equalize
from fitzroy.compiler.quantization.functions import (
    ANY_TABLE,
    ElementFunction,
    FunctionUnit,
    element_functions,
    functions_of_sums,
)
from fitzroy.compiler.quantization.masks import unseen, with_bounded_masks, with_finite_masks
from fitzroy.compiler.quantization.means import divide_means
from fitzroy.compiler.quantization.options import (
    Border,
    Effort,
    Mixed,
    QuantizeOptions,
    RangeMethod,
)
from fitzroy.compiler.quantization.outputs import examine, with_split
from fitzroy.compiler.quantization.parts import Divided, outliers, with_parts
from fitzroy.compiler.quantization.places import of_places
from fitzroy.compiler.quantization.reciprocals import with_reciprocals
from fitzroy.compiler.quantization.residuals import with_joined_residuals
from fitzroy.compiler.quantization.rest import computed, with_rest
from fitzroy.compiler.quantization.rest import reasons as reasons_of_rest
from fitzroy.compiler.quantization.rules import (
    obstacle,
    obstacles,
    quantized_values,
    touches_reals,
)
from fitzroy.compiler.quantization.search import best_of
from fitzroy.compiler.quantization.statistics import (
    Range,
    Sample,
    Statistics,
    collect,
    collect_usual,
)
from fitzroy.compiler.reference import verify

_PARTS = 4
"""In how many parts activations of detectors are computed at most, unless another number is asked
for. In a trained YOLOv8n, 16 parts take a third more cycles and agree with float32 no better."""

Part = Callable[[QuantizeOptions], Quantized]


def quantize_model(
    graph: Graph,
    samples: Sequence[Sample],
    options: QuantizeOptions,
    progress: Progress = lambda step: None,
    *,
    known: Mapping[str, Range] = MappingProxyType({}),
    limits: Mapping[str, Range] = MappingProxyType({}),
    rare: Collection[str] = (),
    bounds: Mapping[str, Range] = MappingProxyType({}),
    unit: FunctionUnit = ANY_TABLE,
) -> Quantized:
    """Quantize a float32 graph, and say what became of it.

    Args:
        graph: a verified float32 graph.
        samples: representative inputs: one array per graph input, of exactly its type.
        options: how.
        progress: called with what is under way.
        known: ranges of inputs that are known beforehand, as those of pixels.
        limits: of values whose small elements do not matter, as logits far below a threshold: the
            least that does, and up to where elements matter whatever samples have.
        rare: values whose largest elements are few, and what counts, as features of objects: none
            of them is cut off.
        bounds: of values of which only elements between these matter, as boxes of objects.
        unit: what hardware does with functions of one element, where `options` want tables.

    Raises:
        UsageError: no samples, samples that do not fit, results that are not finite, an option
            or a pattern that means nothing.
        UnsupportedError: nothing can be quantized.
        CapacityError: evaluation takes more memory than the budget has.
    """
    options.check()
    demand_float(graph)
    part = computed(graph)
    if part is not graph:
        return _before_rest(
            graph,
            options,
            lambda chosen: quantize_model(part, samples, chosen, progress, known=known, unit=unit),
        )
    source = prepared(graph)
    floats, reasons = _floats(source, options)
    if rare and options.equalize:
        # Larger layers are worth it where precision decides which objects are found, and where.
        source = with_joined_residuals(source, floats)
        floats, reasons = _floats(source, options)
    left_out: tuple[int, ...] = ()
    if options.ranges is RangeMethod.MINMAX:
        statistics = collect(source, samples, progress)
    else:
        statistics, left_out = collect_usual(source, samples, progress)
    samples = [sample for number, sample in enumerate(samples) if number not in left_out]
    rewritten = with_bounded_masks(source, statistics)
    rewritten = with_reciprocals(rewritten, _extrema(statistics))
    if rewritten is not source:
        source = rewritten
        floats, reasons = _floats(source, options)
        statistics = collect(source, samples, progress)
    limits = {**unseen(source, statistics), **limits}
    outputs = examine(source, _extrema(statistics), options, detects=bool(rare))
    source = with_split(source, outputs.split)
    floats |= outputs.floats
    most = options.parts or (_PARTS if rare else 1)
    apart = outliers(source, statistics, most, _results(source, floats))
    divided = Divided(source)
    if apart:
        divided = with_parts(source, apart)
        source = divided.graph
        statistics = collect(source, samples, progress)
    functions: list[ElementFunction] = []
    if options.tables:
        functions = element_functions(source, floats, {*limits, *bounds})
        if unit.approximates is not None:
            functions = functions_of_sums(source, functions, floats, {*limits, *bounds})
        floats |= {node.name for function in functions for node in function.nodes}
    if options.equalize:
        progress("scaling channels")
        equalized = equalize(source, statistics, floats)
        source = equalized.graph
        statistics = {
            name: found.divided(equalized.scales[name]) if name in equalized.scales else found
            for name, found in statistics.items()
        }
    model = Calibrated(
        source,
        statistics,
        frozenset(floats),
        functions,
        unit,
        known,
        limits,
        frozenset(rare),
        bounds,
        divided.bounded,
        divided.above,
        left_out,
        options,
    )
    about = (tuple(reasons), tuple(outputs.notes))
    if options.effort is not Effort.BEST:
        step = -(-len(samples) // CORRECTED)
        return model.quantized(Recipe.of(options), samples[::step], about, progress)
    # Half of the samples at most make a candidate, and others say how good it is.
    step = max(2, -(-len(samples) // CORRECTED))
    correcting, judging = samples[::step], samples[1::step] or samples

    def made(recipe: Recipe) -> Quantized:
        return model.quantized(recipe, correcting, about, progress)

    return best_of(made, Recipe.of(options), judging, options.trials, progress)


def _before_rest(graph: Graph, options: QuantizeOptions, quantized: Part) -> Quantized:
    """What comes before operators that nobody here computes quantized, and the rest as it is.

    Args:
        graph: the whole graph.
        options: how.
        quantized: quantizes what comes before, with other options: its outputs stay float32, for
            the rest reads them.
    """
    split = options.mixed_outputs is Mixed.SPLIT
    mixed = Mixed.KEEP if split else options.mixed_outputs
    result = quantized(replace(options, output_type=Border.FLOAT, mixed_outputs=mixed))
    whole = with_rest(result.graph, graph)
    verify(whole)
    reasons = (*result.floats, *reasons_of_rest(graph))
    return replace(result, graph=whole, floats=reasons, computed=result.graph)


def prepared(graph: Graph) -> Graph:
    """A graph whose weights are constants, as files with float16 weights have them not.

    Squares, for which TFLite has no 8-bit kernel, and quotients by constants and by square roots,
    which less hardware computes, become products. Masks of attention become sums with finite
    numbers, and other choices by known conditions products. Means of very many elements are
    taken in two steps. Products of one-hot vectors and tables become lookups. What lies between
    convolutions of rows is computed on images.
    """
    result = run_passes(graph, (*FOLDING, RowsAsImages(), Simplify()))
    if any(node.op in ("equal", "one_hot") for node in result.nodes()):
        # Few models have one-hot vectors.
        from fitzroy.compiler.passes.lookups import Lookups, looks_up

        result = Lookups().run(result) if looks_up(result) else result
    for node in result.nodes():
        if not touches_reals(result, node):
            continue
        if node.op == "square":
            inputs = (node.inputs[0], node.inputs[0])
            result.update(replace(node, op="mul", inputs=inputs, attributes=ActivationAttributes()))
        divisor = result.value(str(node.inputs[1])).data if node.op == "div" else None
        if divisor is not None and divisor.all():
            factor = result.add_constant(f"{node.name}.factor", np.float32(1) / divisor)
            result.update(replace(node, op="mul", inputs=(node.inputs[0], factor)))
        root = _root(result, str(node.inputs[1])) if node.op == "div" else None
        if root is not None:
            type = result.type(str(node.inputs[1]))
            factor = result.emit("rsqrt", [root], type, stem=f"{node.name}.factor")
            result.update(replace(node, op="mul", inputs=(node.inputs[0], factor)))
    with_finite_masks(result)
    with_products(result)
    divide_means(result)
    result.prune()
    return result


def _root(graph: Graph, divisor: str) -> str | None:
    """What a divisor is the square root of, as in layer normalization; None if it is no root.

    If a constant keeps the root from being small, as in L2 normalization, its square keeps what
    is returned from being so.
    """
    node = graph.producer(divisor)
    if node is None or not touches_reals(graph, node):
        return None
    if node.op == "sqrt":
        return node.inputs[0]
    least = graph.value(str(node.inputs[1])).data if node.op == "maximum" else None
    root = None if least is None else _root(graph, str(node.inputs[0]))
    if root is None or least is None or not np.square(least).all() or least.min() < 0:
        return None
    square = graph.add_constant(f"{node.name}.square", np.square(least))
    return graph.emit("maximum", [root, square], graph.type(divisor), stem=f"{node.name}.squared")


def demand_float(graph: Graph) -> None:
    """Refuse what is no float32 model.

    Raises:
        UnsupportedError: it is quantized already, or an output is a constant.
    """
    rejects = quantized_values(graph)
    if rejects:
        raise UnsupportedError(
            "the model is quantized already",
            rejects=rejects,
            where=graph.name,
            hint="take the float32 model that it was made of",
        )
    for name in graph.outputs:
        if graph.value(name).is_constant:
            raise UnsupportedError(
                f"the output {name!r} is a constant",
                where=graph.name,
                hint="remove it from the outputs",
            )


# --- what stays float32 --------------------------------------------------------------------------


def _extrema(statistics: Mapping[str, Statistics]) -> dict[str, Range]:
    """Smallest and largest element of each activation."""
    return {name: found.extrema for name, found in statistics.items()}


def _results(graph: Graph, names: Iterable[str]) -> list[str]:
    """What nodes give, and read, by their names."""
    nodes = [graph.node(name) for name in names]
    return [str(name) for node in nodes for name in (*node.outputs, *node.inputs)]


def _floats(graph: Graph, options: QuantizeOptions) -> tuple[set[str], list[Diagnostic]]:
    """Nodes that touch float32 values and stay as they are, and why the others of them do.

    Raises:
        UnsupportedError: they are all.
        UsageError: a pattern fits nothing.
    """
    reasons: list[Diagnostic] = []
    floats = _asked(graph, options.keep_float or [])
    nodes = [node for node in graph.nodes() if touches_reals(graph, node)]
    for node in nodes:
        if OPS[node.op].reads_stored:
            # It reads integers, and computes with real numbers.
            floats.add(node.name)
            continue
        found = list(obstacles(graph, node))
        if found:
            reasons += found
            floats.add(node.name)
    for node in of_places(graph):
        if node.name not in floats:
            reasons.append(
                obstacle(node, "it computes places in a tensor", "8 bits hold no places")
            )
            floats.add(node.name)
    if nodes and all(node.name in floats for node in nodes):
        raise UnsupportedError(
            f"{len(reasons)} obstacles to quantization, and nothing is left",
            rejects=reasons,
            where=graph.name,
        )
    return floats, reasons


def _asked(graph: Graph, patterns: Sequence[str]) -> set[str]:
    """Nodes whose kind, TFLite kind or a result fits a pattern.

    Raises:
        UsageError: a pattern fits nothing.
    """
    found: set[str] = set()
    for pattern in patterns:
        fitting = {
            node.name
            for node in graph.nodes()
            if touches_reals(graph, node)
            and any(fnmatchcase(name, pattern) for name in _names(node))
        }
        if not fitting:
            raise UsageError(
                f"--keep-float {pattern} fits no operator",
                where=graph.name,
                hint="names and kinds: fitzroy explain MODEL",
            )
        found |= fitting
    return found


def _names(node: Node) -> tuple[str, ...]:
    kinds = OPS[node.op].tflite if node.op in OPS else ()
    return (node.op, *kinds, *node.outputs)
