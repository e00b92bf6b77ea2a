"""What a model becomes so that less of it leaves the chip: the host gets what it makes results of.

A byte takes ten times as long to leave the chip as to enter it, so that scores of all classes are
most of the time of a detector. Operators of the host that read many scores and take few of them
read what the chip has reduced instead. Results are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.detection import DetectionPostProcess
from fitzroy.compiler.ops.reduction import ArgMax
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Pass, named_passes, run_passes
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs, total
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME

REDUCING = ("arg-maxima", "best-scores")
"""Names of the passes; those of most models are never loaded."""

_READERS = {ArgMax.name, DetectionPostProcess.name}


def reducing(graph: Graph, options: Options, costs: Costs | None) -> tuple[Pass, ...]:
    """The passes after which less of a model is sent; none if that would take longer.

    Args:
        graph: the model.
        options: what programs may use of the chip.
        costs: what decides which operators go to the chip; None to map all that can be mapped.
    """
    if not options.reduced or not _READERS & {node.op for node in graph.nodes()}:
        return ()
    passes = named_passes(REDUCING)
    reduced = run_passes(graph, passes)
    if Counter(node.op for node in graph.nodes()) == Counter(node.op for node in reduced.nodes()):
        return ()
    before, after = (
        expected(one, divide(one, options, costs)[1], costs) for one in (graph, reduced)
    )
    return passes if after < before else ()


def reduced_for(graph: Graph, names: Iterable[str]) -> tuple[Pass, ...]:
    """The passes after which a source has the values that its programs take and give.

    Passes name what they make as no value of the model is named.

    Args:
        graph: the source of compiled programs.
        names: inputs and outputs of these.
    """
    return () if all(name in graph.values for name in names) else named_passes(REDUCING)


def expected(graph: Graph, placements: list[Placement], costs: Costs | None) -> float:
    """Microseconds of a divided model by what decides where its operators run."""
    parts = [placement.nodes for placement in placements if placement.target == NAME]
    return total(graph, parts, costs or COSTS)
