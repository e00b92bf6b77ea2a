"""What counts among the values of a detector when they are quantized.

Few boxes are objects, and only what is said of those matters: their scores, and the features that
make them stand out. That is so whether the model lists its objects or gives all boxes and scores,
for whoever reads those chooses the objects then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Quantization
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import DeadCode, FoldConstants, Simplify
from fitzroy.compiler.passes.heads.box_parts import with_box_parts
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, separate
from fitzroy.compiler.passes.heads.kept import post_processing_of
from fitzroy.compiler.passes.heads.objects import ranges_of_objects
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import (
    ListDetections,
    features,
    kept_float,
    limits,
)
from fitzroy.compiler.quantization.statistics import Range, Sample

_FAINT = HeadOptions(detections=True, score_threshold=0.005)
"""Objects of a model that does not list them: with lower scores, 8 bits in steps of 1/256 do not
tell them from nothing."""


_COARSE = 0.25
"""A step of logits within which a score of 0.5 becomes 0.56."""


@dataclass(frozen=True, slots=True)
class Emphasis:
    """A model, and what counts among its values.

    Attributes:
        graph: the model, with boxes and scores computed apart if it is a detector.
        limits: the least values that matter, and up to where they do, by name.
        rare: names of values in which few elements count.
        bounds: between what values matter, by name.
        floats: patterns of operators that are not to be quantized.
        logits: names of those of scores that the model gives as they are.
    """

    graph: Graph
    limits: Mapping[str, Range] = field(default_factory=dict)
    rare: Set[str] = frozenset()
    bounds: Mapping[str, Range] = field(default_factory=dict)
    floats: tuple[str, ...] = ()
    logits: Set[str] = frozenset()


def emphasis(graph: Graph, options: HeadOptions, samples: Sequence[Sample]) -> Emphasis:
    """Find out what counts among the values of a model.

    Args:
        graph: a model with float32 values; what the pass of `options` made of it, if objects are
            asked for.
        options: whether objects are asked for, and which ones count.
        samples: inputs of the model.

    Raises:
        CapacityError: evaluation takes more memory than the budget has.
    """
    if not options.detections:
        return _of_outputs(graph)
    graph, bounds = with_box_parts(graph, ranges_of_objects(graph, samples))
    rare = features(graph, options)
    return Emphasis(graph, limits(graph, options), rare, bounds, tuple(kept_float(graph)))


def _of_outputs(graph: Graph) -> Emphasis:
    """What counts in a model that gives what it was made to give.

    The limits of scores are those of the objects that it would list, if the model makes
    probabilities of them: logits that it gives are given whole. Boxes have no bounds, because
    nobody knows which of them will be looked at.
    """
    if post_processing_of(graph) is not None:
        return Emphasis(graph, limits(graph, _FAINT), features(graph, _FAINT))
    try:
        both = _with_objects_beside(graph)
    except UnsupportedError:
        return Emphasis(graph)
    count = len(graph.outputs)
    own = both.cut(both.outputs[:count])
    found = limits(both.cut(both.outputs[count:]), _FAINT)
    given = set(_given(own))
    seen = {name: ends for name, ends in found.items() if name in own.values and name not in given}
    return Emphasis(own, seen, features(own, _FAINT), logits=given & found.keys())


def coarse_scores(
    counts: Emphasis, quantizations: Mapping[str, Quantization]
) -> Iterator[Diagnostic]:
    """Which outputs have scores, before the sigmoid, that 8 bits hardly tell apart.

    Args:
        counts: what counts in a detector.
        quantizations: of its values, by name.
    """
    for name in counts.graph.outputs:
        if name not in counts.logits or name not in quantizations:
            continue
        (step,) = quantizations[name].scale
        if step > _COARSE:
            yield Diagnostic(
                Severity.WARNING,
                "quantize",
                f"output {name!r}",
                f"scores before their sigmoid have steps of {step:.3g}",
                "they are given whole, and scores of nothing are far below those of objects",
                "with --detections, only scores near the threshold or above it have steps",
            )


def _given(graph: Graph) -> Iterator[str]:
    """Values whose elements are those of outputs."""
    pending = list(graph.outputs)
    while pending:
        name = pending.pop()
        yield name
        node = graph.producer(name)
        if node is not None and node.op in MOVERS:
            pending += [str(read) for read in node.inputs]


def _with_objects_beside(graph: Graph) -> Graph:
    """A detector that gives what it gave, and then its objects, of the same parts of values.

    Raises:
        UnsupportedError: no head is recognised.
    """
    result = run_passes(graph, (DeadCode(), FoldConstants(), Simplify()))
    own = list(result.outputs)
    outputs = own + ListDetections(**vars(_FAINT)).listed(result)
    separate(Columns(result), outputs)
    # Outputs that are slices themselves keep their names.
    result.outputs = outputs
    result.prune()
    return result
