"""The best class of every box, found where the scores are computed.

A detector of 80 classes has 80 scores for every box, and needs the largest and its number. On an
Edge TPU these are operators of images, and two bytes of a box go to the host in place of 80.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detections import CLASSES, SCORES, Detections, DetectionsAttributes
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.passes.heads.best_class import LEVELS, Group, number_of
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.levels import best_classes, levels_of
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import ListDetections
from fitzroy.compiler.passes.heads.shared_probability import LEAST_THRESHOLD, shared

FEW = 32
"""Scores of at most so many classes go to the host as they are: by the timing model, finding the
best takes longer than sending them."""


@dataclass(frozen=True)
class ClassMaximum(Pass):
    """Pass only the best score of each box and its class to ``detections``, instead of all scores.

    Scores are int8. What is found is the same: of equal scores, the first class counts. The
    probability of a softmax is another by its rounding, up to three hundredths.
    """

    name = "class-maximum"

    def run(self, graph: Graph) -> Graph:
        """Rewrite the operators whose scores are computed as images."""
        for node in graph.nodes():
            if node.op == Detections.name:
                _rewrite(graph, node)
        graph.prune()
        return graph


def listing(options: HeadOptions) -> tuple[Pass, ...]:
    """The passes that make a quantized detector list its objects, as options say."""
    return ListDetections(**vars(options)), ClassMaximum()


def with_best_classes(graph: Graph) -> Graph:
    """The graph after the pass; the graph itself if it lists no objects."""
    listing = any(node.op == Detections.name for node in graph.nodes())
    return run_passes(graph, (ClassMaximum(),)) if listing else graph


def _rewrite(graph: Graph, node: Node) -> None:
    """Give an operator the best scores and their classes, if it has all scores."""
    a, scores = node.attributes, str(node.inputs[SCORES])
    assert isinstance(a, DetectionsAttributes)
    type = graph.type(scores)
    # Best classes that something else has found have no axis of classes.
    classes = type.shape[2] if type.rank > 2 else 1
    few = not FEW < classes - a.background <= LEVELS
    if few or a.peaks:
        return
    source = graph.producer(scores)
    shares = source is not None and source.op == "softmax" and a.background > 0
    if shares and a.score_threshold < LEAST_THRESHOLD:
        return
    name = str(source.inputs[0]) if source and shares else scores
    levels = levels_of(graph, name) if graph.type(name).dtype is DType.INT8 else []
    if not levels:
        return
    inputs = [*node.inputs, *([None] * (CLASSES + 1 - len(node.inputs)))]
    columns = Columns(graph)
    if shares:
        judged = partial(_shared, background=a.background, threshold=a.score_threshold)
        found = best_classes(columns, levels, 0, judged)
    else:
        found = best_classes(columns, levels, a.background)
    inputs[SCORES], inputs[CLASSES] = found
    quantization = graph.type(found[1]).quantization
    assert quantization is not None
    # Codes fall from the highest integer, which stands for zero.
    a = replace(a, class_step=-quantization.scale[0], background=0)
    graph.update(replace(node, inputs=tuple(inputs), attributes=a))


def _shared(graph: Graph, group: Group, *, background: int, threshold: float) -> tuple[str, str]:
    """The probability of the best class of a softmax, and its number."""
    part = shared(graph, group, background, threshold)
    return part.probability, number_of(graph, part.objects, part.best)
