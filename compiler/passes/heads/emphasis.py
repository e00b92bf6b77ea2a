"""What counts among the values of a detector when they are quantized.

Few boxes are objects, and only what is said of those matters: their scores, and the features that
make them stand out. This holds whether the model lists its objects or gives all boxes and scores,
because then the caller chooses the objects among these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import FOLDING
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
    moved,
)
from fitzroy.compiler.passes.heads.segments import last_nodes
from fitzroy.compiler.quantization.statistics import Range, Sample

_FAINT = HeadOptions(detections=True, score_threshold=0.005)
"""Which objects count in a model that lists none. In steps of 1/256, lower scores are zero."""

_COARSE = 0.25
"""An 8-bit step of logits that is too large: one such step from a score of 0.5 is 0.56."""


@dataclass(frozen=True, slots=True)
class Emphasis:
    """A model, and what counts among its values.

    Attributes:
        graph: the model, with boxes and scores computed apart if it is a detector.
        limits: the least values that matter, and up to where they do, by name.
        rare: names of values in which few elements count.
        bounds: between what values matter, by name.
        floats: patterns of operators that are not to be quantized.
        logits: names of scores that the model gives as logits, without a sigmoid.
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

    Scores have the limits that they would have if the model listed its objects, but only if it
    turns them into probabilities: logits that are outputs keep their whole range. Boxes have no
    bounds, because the caller may read any of them.
    """
    if post_processing_of(graph) is not None:
        return Emphasis(graph, limits(graph, _FAINT), features(graph, _FAINT))
    try:
        both = _with_objects_beside(graph)
    except UnsupportedError:
        return Emphasis(graph)
    count = len(graph.outputs)
    own = both.cut(both.outputs[:count])
    listed = both.cut(both.outputs[count:])
    found = limits(listed, _FAINT)
    given = set(_given(own))
    ends = found | _joint_limits(own, listed, found)
    seen = {name: x for name, x in ends.items() if name in own.values and name not in given}
    return Emphasis(own, seen, features(own, _FAINT), logits=given & found.keys())


def _joint_limits(own: Graph, listed: Graph, found: Mapping[str, Range]) -> dict[str, Range]:
    """Limits of logits that a model has in one value, and a list of its objects in several.

    YOLOs with anchors have a sigmoid for the objectness and for classes, which are apart in a list.

    Args:
        own: the model.
        listed: the same with the list of its objects in the place of its outputs.
        found: limits of logits, by their names in `listed`.

    Returns:
        The limits of values before sigmoids of the model, all of whose channels are such logits.
    """
    known: dict[tuple[str, bytes], Range] = {}
    for name, ends in found.items():
        node = listed.producer(name)
        if node is not None:
            known |= dict.fromkeys(_channels(listed, node), ends)
    limited: dict[str, Range] = {}
    for node in own.nodes():
        if node.op != "sigmoid":
            continue
        read = str(node.inputs[0])
        layers = [list(_channels(own, layer)) for layer in last_nodes(own, read)]
        channels = {key for layer in layers for key in layer}
        if all(layers) and channels and channels <= known.keys():
            lowest = min(known[key][0] for key in channels)
            highest = max(known[key][1] for key in channels)
            limited |= dict.fromkeys(moved(own, read), (lowest, highest))
    return limited


def _channels(graph: Graph, layer: Node) -> Iterator[tuple[str, bytes]]:
    """What computes each channel of a convolution: what that reads, and its filter with its bias.

    Nothing for other nodes, and for filters that are computed.
    """
    read = [graph.value(name).data for name in layer.inputs[1:] if name is not None]
    constants = [data for data in read if data is not None]
    if layer.op == "conv_2d" and len(constants) == len(read):
        for rows in zip(*constants, strict=True):
            yield str(layer.inputs[0]), b"".join(row.tobytes() for row in rows)


def coarse_scores(
    counts: Emphasis, quantizations: Mapping[str, Quantization]
) -> Iterator[Diagnostic]:
    """Warnings of outputs whose scores are logits that 8 bits hardly tell apart.

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
                f"its scores are logits, with 8-bit steps of {step:.3g}",
                "their range includes those of places without an object, which are far lower",
                "--detections spends no steps on scores far below the threshold",
            )


def _given(graph: Graph) -> Iterator[str]:
    """Outputs, and the values that their elements are moved from."""
    pending = list(graph.outputs)
    while pending:
        name = pending.pop()
        yield name
        node = graph.producer(name)
        if node is not None and node.op in MOVERS:
            pending += [str(read) for read in node.inputs]


def _with_objects_beside(graph: Graph) -> Graph:
    """A detector whose last outputs are its objects, computed from the same boxes and scores.

    Raises:
        UnsupportedError: no head is recognised.
    """
    result = run_passes(graph, FOLDING)
    own = list(result.outputs)
    outputs = own + ListDetections(**vars(_FAINT)).listed(result)
    separate(Columns(result), outputs)
    # An output that is a slice has been replaced by the part; its name is to stay.
    result.outputs = outputs
    result.prune()
    return result
