"""Passes and the manager that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from fitzroy.base.errors import InternalError
from fitzroy.base.registry import Registry
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import verify


@dataclass(frozen=True)
class Pass:
    """A step from graph to graph; options are fields of the subclass.

    Class attributes:
        name: name on the command line and in dumps.
    """

    name: ClassVar[str]

    def run(self, graph: Graph) -> Graph:
        """The transformed graph; `graph` itself may be changed."""
        raise NotImplementedError


PASSES = Registry(
    "pass",
    "passes",
    group="fitzroy.passes",
    base=Pass,
    own={
        "channels-last-inputs": "fitzroy.compiler.passes.borders:ChannelsLastInputs",
        "channels-last-outputs": "fitzroy.compiler.passes.borders:ChannelsLastOutputs",
        "detections": "fitzroy.compiler.passes.heads.rewriting:ListDetections",
        "axis-orders": "fitzroy.compiler.passes.axes.orders:AxisOrders",
        "arg-maxima": "fitzroy.compiler.passes.arg_max:ArgMaxima",
        "best-scores": "fitzroy.compiler.passes.heads.post_processing:BestScores",
        "class-maximum": "fitzroy.compiler.passes.heads.class_maximum:ClassMaximum",
        "constant-matrices": "fitzroy.compiler.passes.constant_matrices:ConstantMatrices",
        "dead-code": "fitzroy.compiler.passes.canonicalize:DeadCode",
        "dilated-convolutions": "fitzroy.compiler.passes.dilations:DilatedConvolutions",
        "explicit-padding": "fitzroy.compiler.passes.canonicalize:ExplicitPadding",
        "fold-constants": "fitzroy.compiler.passes.canonicalize:FoldConstants",
        "fold-padding": "fitzroy.compiler.passes.canonicalize:FoldPadding",
        "fold-scales": "fitzroy.compiler.passes.fold_scales:FoldScales",
        "fuse-activations": "fitzroy.compiler.passes.canonicalize:FuseActivations",
        "fuse-quantized": "fitzroy.compiler.passes.fuse_quantized:FuseQuantized",
        "integer-borders": "fitzroy.compiler.passes.borders:IntegerBorders",
        "legalize-uint8": "fitzroy.compiler.passes.uint8:LegalizeUint8",
        "legalize-xnnpack": "fitzroy.compiler.targets.xnnpack.legalize:LegalizeXnnpack",
        "lookups": "fitzroy.compiler.passes.lookups:Lookups",
        "nearest-resizes": "fitzroy.compiler.passes.nearest_resizes:NearestResizes",
        "rows-as-images": "fitzroy.compiler.passes.rows:RowsAsImages",
        "simplify": "fitzroy.compiler.passes.canonicalize:Simplify",
        "unread-pixels": "fitzroy.compiler.passes.unread:UnreadPixels",
    },
)
"""All passes by the name that the command line takes."""


def named_passes(passes: Iterable[str | Pass]) -> tuple[Pass, ...]:
    """Passes, some of which are given by their names.

    Raises:
        UsageError: there is no such pass.
    """
    return tuple(PASSES.get(item) if isinstance(item, str) else item for item in passes)


@dataclass(frozen=True, slots=True)
class Stage:
    """What one pass did.

    Attributes:
        name: the pass.
        seconds: time it took, with verification.
        before: number of nodes before.
        after: number of nodes after.
    """

    name: str
    seconds: float
    before: int
    after: int


def run_passes(
    graph: Graph,
    passes: Iterable[Pass],
    observe: Callable[[Stage, Graph], None] = lambda stage, graph: None,
) -> Graph:
    """Run passes in order and verify the graph after each.

    Args:
        graph: a verified graph; it is not changed.
        passes: what to run.
        observe: called after each pass with what it did and the graph.

    Raises:
        InternalError: a pass broke the graph.
    """
    graph = graph.copy()
    for step in passes:
        before, started = len(graph.nodes()), time.perf_counter()
        try:
            graph = step.run(graph)
            verify(graph)
        except InternalError as error:
            raise InternalError(
                f"pass {step.name} broke the graph", reason=str(error), where=graph.name
            ) from error
        seconds = time.perf_counter() - started
        observe(Stage(step.name, seconds, before, len(graph.nodes())), graph)
    return graph
