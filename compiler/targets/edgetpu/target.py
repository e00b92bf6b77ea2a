"""The Edge TPU as a target: its rules, and the lowerings of the code generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import HOST, Placement
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions, Partition
from fitzroy.compiler.targets.target import Lowering, Target


class EdgeTpu(Target):
    """The Coral Edge TPU; what it rejects stays in the model, for the host."""

    name = "edgetpu"
    title = "Edge TPU"
    summary = "the same model with Edge TPU operators in the place of all that the chip computes"
    support = "rule"
    rest = HOST.name
    suffix = "_edgetpu.tflite"
    entry = "main"
    options = EdgeTpuOptions

    def lowerings(self) -> Mapping[str, Lowering]:
        """The rules of the code generator."""
        # The code generator is imported when it is asked for; help texts do without it.
        from fitzroy.compiler.targets.edgetpu.partition.rules import lowerings

        return lowerings()

    def rejects(self, call: Call) -> Iterator[Reject]:
        """Yield every reason why the chip cannot run a call."""
        from fitzroy.compiler.targets.edgetpu.partition.rules import rejects

        yield from rejects(call)

    def place(self, graph: Graph, options: EdgeTpuOptions) -> list[Placement]:
        """Groups of nodes for the chip and for the host, by what transfers cost."""
        from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS
        from fitzroy.compiler.targets.edgetpu.partition.divide import divide

        return divide(graph, costs=COSTS if options.partition is Partition.COST else None)[1]

    def parts(self, graph: Graph, placements: Sequence[Placement]) -> dict[str, list[str]]:
        """Layers of the code generator."""
        from fitzroy.compiler.targets.edgetpu.partition.divide import layers_of

        found: dict[str, list[str]] = {}
        for placement in placements:
            if placement.target == self.name:
                found |= layers_of(graph.part(placement.nodes))
        return found
