"""What does a model become before it is divided?

More of it runs on the chip, and less leaves it. To find the operators that a program computes, its
source is prepared in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.costs import Costs
from fitzroy.compiler.targets.edgetpu.partition.integers import (
    as_integers,
    fusing,
    has_conversions,
)
from fitzroy.compiler.targets.edgetpu.partition.reduction import reduced_for, reducing


def preparing(graph: Graph, options: Options, costs: Costs | None) -> tuple[Pass, ...]:
    """The passes after which more of a model is on the chip, and less leaves it.

    Args:
        graph: the model.
        options: what programs may use of the chip.
        costs: what decides which operators go to the chip; None to map all that can be mapped.
    """
    passes = _spelling(graph)
    passes += as_integers(_after(graph, passes), options, costs)
    return (*passes, *reducing(_after(graph, passes), options, costs))


def preparing_for(graph: Graph, names: Iterable[str]) -> tuple[Pass, ...]:
    """The passes after which a source has the operators that its programs were made of.

    If it lacks inputs or outputs of these, it may be a detector whose programs list objects.

    Args:
        graph: the source of compiled programs.
        names: inputs and outputs of these.
    """
    named = tuple(names)
    plain = _preparing_for(graph, named)
    if not _lacks(graph, plain, named):
        return plain
    from fitzroy.compiler.passes.heads.class_maximum import listing
    from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions

    for form in HeadForm:
        passes = listing(HeadOptions(detections=True, form=form))
        try:
            listed = run_passes(graph, passes)
        except UnsupportedError:
            continue
        more = _preparing_for(listed, named)
        if not _lacks(listed, more, named):
            return (*passes, *more)
    return plain


def _preparing_for(graph: Graph, names: Sequence[str]) -> tuple[Pass, ...]:
    """The same, if a detector lists its objects already."""
    spelling = _spelling(graph)
    spelled = _after(graph, spelling)
    passes = (fusing(),) if has_conversions(spelled) else ()
    return (*spelling, *passes, *reduced_for(spelled, names))


def _lacks(graph: Graph, passes: Sequence[Pass], names: Sequence[str]) -> bool:
    """Whether a graph lacks some values after some passes."""
    values = _after(graph, passes).values
    return any(name not in values for name in names)


def _spelling(graph: Graph) -> tuple[Pass, ...]:
    """The passes after which what several operators spell out is one operator, of what there is."""
    operators, passes = {node.op for node in graph.nodes()}, list[Pass]()
    # Few models have phases, or repeat pixels so.
    if "batch_to_space" in operators:
        from fitzroy.compiler.passes.dilations import DilatedConvolutions, has_phases

        passes += [DilatedConvolutions()] if has_phases(graph) else []
    if "tile" in operators:
        from fitzroy.compiler.passes.nearest_resizes import NearestResizes, repeats_pixels

        passes += [NearestResizes()] if repeats_pixels(graph) else []
    return tuple(passes)


def _after(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """A graph after some passes; the graph itself if there are none."""
    return run_passes(graph, passes) if passes else graph
