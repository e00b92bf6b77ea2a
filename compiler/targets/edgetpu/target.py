"""The Edge TPU as a target: its rules, and the lowerings of the code generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fitzroy.base.errors import FitzroyError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import HOST, Placement
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions
from fitzroy.compiler.targets.target import Lowering, Product, Target

if TYPE_CHECKING:
    from fitzroy.compiler.passes.base import Pass
    from fitzroy.compiler.targets.edgetpu.chip import OnChip


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
    product = Product.PROGRAMS
    together = "models that share a chip: fitzroy.compile_together"

    def lowerings(self) -> Mapping[str, Lowering]:
        """The rules of the code generator."""
        # The code generator is imported when it is asked for; help texts do without it.
        from fitzroy.compiler.targets.edgetpu.partition.rules import lowerings

        return lowerings()

    def rejects(self, call: Call) -> Iterator[Reject]:
        """Yield every reason why the chip cannot run a call."""
        from fitzroy.compiler.targets.edgetpu.partition.rules import rejects

        yield from rejects(call)

    def preparations(self, graph: Graph, options: EdgeTpuOptions) -> tuple[Pass, ...]:
        """What lets more of a model run on the chip, and less leave it, where that is faster."""
        from fitzroy.compiler.targets.edgetpu.partition.preparation import preparing
        from fitzroy.compiler.targets.edgetpu.settings import costs_of, generator_options

        return preparing(graph, generator_options(options), costs_of(options))

    def corrections(self, graph: Graph, placements: Sequence[Placement]) -> tuple[Pass, ...]:
        """What lets operators for the chip compute on real numbers where they did not fit it."""
        from fitzroy.compiler.targets.edgetpu.partition.integers import returned

        return returned(graph, placements)

    def place(self, graph: Graph, options: EdgeTpuOptions) -> list[Placement]:
        """Groups of nodes for the chip and for the host, by what transfers cost."""
        from fitzroy.compiler.targets.edgetpu.partition.divide import divide
        from fitzroy.compiler.targets.edgetpu.settings import costs_of, generator_options

        return divide(graph, generator_options(options), costs_of(options))[1]

    def lower(
        self, graph: Graph, placements: Sequence[Placement], name: str, options: EdgeTpuOptions
    ) -> OnChip:
        """Programs of all parts for the chip that fit."""
        from fitzroy.compiler.targets.edgetpu.chip import Divided, lower_together
        from fitzroy.compiler.targets.edgetpu.settings import costs_of, generator_options

        model = Divided(graph, graph.name, tuple(placements))
        (found,) = lower_together([model], generator_options(options), costs_of(options))
        return found

    def proven(
        self, graph: Graph, placements: Sequence[Placement], options: EdgeTpuOptions
    ) -> Sequence[Placement]:
        """Where nodes run when limits count that only programs show."""
        from fitzroy.compiler.targets.edgetpu.chip import Divided, proven
        from fitzroy.compiler.targets.edgetpu.program.confirmation import UnconfirmedError
        from fitzroy.compiler.targets.edgetpu.settings import costs_of, generator_options

        model = Divided(graph, graph.name, tuple(placements))
        try:
            return proven(model, generator_options(options), costs_of(options))
        except UnconfirmedError as error:
            second = self.second_choice(options, error)
            if second is None:
                raise
            return proven(model, generator_options(second), costs_of(second))

    def keeps_model(self, options: EdgeTpuOptions) -> bool:
        """It replaces operators of the model."""
        return True

    def settled(self, placements: Sequence[Placement], lowered: OnChip) -> Sequence[Placement]:
        """Parts whose programs do not fit are on the host."""
        return lowered.placements

    def second_choice(self, options: EdgeTpuOptions, error: FitzroyError) -> EdgeTpuOptions | None:
        """What published programs do has fewer forms that a probe must have confirmed."""
        from fitzroy.compiler.targets.edgetpu.program.confirmation import UnconfirmedError

        if isinstance(error, UnconfirmedError) and not options.conservative:
            return replace(options, conservative=True)
        return None

    def parts(self, graph: Graph, placements: Sequence[Placement]) -> dict[str, list[str]]:
        """Layers of the code generator."""
        from fitzroy.compiler.targets.edgetpu.partition.divide import layers_of

        found: dict[str, list[str]] = {}
        for placement in placements:
            if placement.target == self.name:
                found |= layers_of(graph.part(placement.nodes))
        return found
