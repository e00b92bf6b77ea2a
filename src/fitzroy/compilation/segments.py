"""One model for several chips: where it is cut, and a compiled model for every segment.

Cuts are chosen by what pieces of the model are predicted to take. The chosen segments are compiled
and timed, what that tells corrects the predictions, and the cuts are chosen again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fitzroy.base.errors import CapacityError, SimulationError, UnsupportedError
from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    Model,
    compile_edgetpu,
    divided,
    form,
    reduced,
    source_of,
)
from fitzroy.compilation.records import operators_of
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.chip import Progress, demand_parts, prefixed
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs
from fitzroy.compiler.targets.edgetpu.partition.cuts import (
    Cut,
    Cuts,
    Objective,
    Piece,
    worthwhile,
)
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment, cuts, segments_of
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.execution.estimate import estimate, steps
from fitzroy.execution.whole import predict
from fitzroy.formats.submodel import submodel
from fitzroy.linker.packages.darwinn import LinkOptions

_ROUNDS = 4
"""How many times segments are compiled to find better ones."""


def compile_segments(
    model: Model,
    count: int | None,
    *,
    options: LinkOptions | None = None,
    generator: Options = DEFAULT,
    costs: Costs | None = COSTS,
    progress: Progress = lambda _: None,
    objective: Objective = Objective.THROUGHPUT,
    report: Callable[[Sequence[Cut]], object] = lambda _: None,
) -> tuple[EdgeTpuCompilation, ...]:
    """Cut a model into segments and compile each for a chip of its own.

    Outputs of a segment are, by name, inputs of those after it. The cuts are the best that there
    are by predicted times; see `Cuts.exact` for where not all are considered.

    Args:
        model: a path, or a model that has been read.
        count: how many segments, None for the fewest that are about as fast as any number.
        options: how the packages are linked.
        generator: how programs are generated.
        costs: as for `compile_edgetpu`.
        progress: is told what is being done.
        objective: what the cuts are to make short.
        report: is told the best cut for every number of chips that is considered; times of the
            segments that are returned, and of others that were compiled to find them, are those of
            the timing model.

    Raises:
        UsageError: the file cannot be read, or has not so many operators for the chip.
        FormatError: the file is malformed.
        UnsupportedError: the model is compiled already, or no operator of a segment can be mapped;
            with the reason of each.
    """
    source = reduced(source_of(model), generator, costs)
    demand_parts(divided(source, generator, costs))
    progress("timing the whole model")
    times = _times(source, generator, costs or COSTS) if count != 1 else {}
    progress("finding cuts")
    possible = cuts(source.graph, generator, costs or COSTS, times)

    def compiled(segment: Segment, name: str) -> EdgeTpuCompilation:
        return compile_edgetpu(
            _segment_source(source, segment, name),
            options=options,
            generator=generator,
            costs=costs,
            progress=prefixed(name, progress),
        )

    search = _Search(source.graph, possible, objective, count, compiled)
    found, chosen = search.run()
    report(found)
    return search.results(chosen)


@dataclass
class _Search:
    """The search for the best segments, by those that are compiled.

    Attributes:
        graph: the model.
        possible: its cuts, as predicted.
        objective: what they are to make short.
        count: how many segments there are to be, None for as many as pay.
        compiled: compiles a segment of some name.
        made: compiled segments, by their pieces and how many there were.
        known: microseconds that they take.
    """

    graph: Graph
    possible: Cuts
    objective: Objective
    count: int | None
    compiled: Callable[[Segment, str], EdgeTpuCompilation]
    made: dict[tuple[Piece, str], EdgeTpuCompilation] = field(default_factory=dict)
    known: dict[Piece, float] = field(default_factory=dict)

    def run(self) -> tuple[list[Cut], Cut]:
        """The best cut for every number of chips, and the one that is to be."""
        tried: list[Cut] = []
        for _ in range(_ROUNDS):
            chosen = worthwhile(self._best(), self.objective)
            if any(chosen.path == cut.path for cut in tried):
                break
            tried.append(chosen)
            for piece, result in zip(chosen.pieces, self.results(chosen), strict=True):
                self._time(piece, result)
        refined = self.possible.refined(self.known)
        # What was compiled is known, and anything else only promises to be better.
        cut = worthwhile(
            [refined.along(cut.path) for cut in sorted(tried, key=lambda cut: len(cut.path))],
            self.objective,
        )
        others = [other for other in self._best() if len(other.path) != len(cut.path)]
        return sorted([*others, cut], key=lambda cut: len(cut.path)), cut

    def results(self, cut: Cut) -> tuple[EdgeTpuCompilation, ...]:
        """The compiled segments of a cut."""
        found = []
        segments = segments_of(self.graph, cut)
        for number, (segment, piece) in enumerate(zip(segments, cut.pieces, strict=True)):
            name = f"segment {number} of {len(segments)}"
            if (piece, name) not in self.made:
                self.made[piece, name] = self.compiled(segment, name)
            found.append(self.made[piece, name])
        return tuple(found)

    def _best(self) -> list[Cut]:
        refined = self.possible.refined(self.known)
        if self.count is None:
            return refined.choose(self.objective)
        return [refined.best(self.count, self.objective)]

    def _time(self, piece: Piece, result: EdgeTpuCompilation) -> None:
        if piece in self.known:
            return
        try:
            self.known[piece] = predict(result.data, result.source.path).total
        except SimulationError:
            # The timing model has nothing to say about it: the prediction stays.
            self.known[piece] = float(self.possible.time[piece])


def _times(source: Source, generator: Options, costs: Costs) -> dict[str, float]:
    """Microseconds that operators take on the chip, of those that are there in the whole model."""
    try:
        whole = compile_edgetpu(source, generator=generator, costs=None)
    except (UnsupportedError, CapacityError):
        return {}
    found: dict[str, float] = {}
    for part in whole.segments:
        run = estimate(part.package, source.path)
        own: dict[str, float] = {}
        for item in steps(form(part, Emitted).marks, run):
            name = item.mark.origin
            if item.mark.layer:
                own[name] = own.get(name, 0.0) + item.cycles / run.timeline.core_mhz
        found |= _cached(source.graph, own, costs) if run.streamed else own
    return found


def _cached(graph: Graph, times: Mapping[str, float], costs: Costs) -> dict[str, float]:
    """Times of operators where some parameters are streamed.

    Who takes longer than estimated has waited for parameters, not always for its own.
    """
    nodes = {node.name: node for node in graph.nodes()}
    return {
        name: min(time, costs.chip.time(graph, nodes[name]))
        for name, time in times.items()
        if name in nodes
    }


def _segment_source(source: Source, segment: Segment, name: str) -> Source:
    """A segment as a model of its own."""
    graph = segment.graph
    model = submodel(source.model, operators_of(segment), graph.inputs, graph.outputs)
    path = f"{source.path}, {name}"
    return Source(path, source.size, model, import_model(model, path=path))
