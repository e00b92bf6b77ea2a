"""One model for several chips: where it is cut, and a compiled model for every segment.

Cuts are chosen by what pieces of the model are predicted to take. The chosen segments are compiled
and timed, what that tells corrects the predictions, and the cuts are chosen again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fitzroy.base.errors import CapacityError, SimulationError, UnsupportedError
from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    Model,
    compile_edgetpu,
    divided,
    form,
    prepared,
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
    Work,
    worthwhile,
)
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment, cuts, segments_of
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.execution.controller import Course, course, interval
from fitzroy.execution.estimate import HOST, Conditions, StepFigures, stages_of, steps, timed
from fitzroy.execution.hosts import at_once, find
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
        count: how many segments, None for as many as pay, see `worthwhile`.
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
    source = prepared(source_of(model), generator, costs)
    demand_parts(divided(source, generator, costs))
    progress("timing the whole model")
    possible = predicted_cuts(source, generator, costs or COSTS)
    progress("compiling segments")

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


def predicted_cuts(source: Source, generator: Options = DEFAULT, costs: Costs = COSTS) -> Cuts:
    """All cuts of a model, with times predicted by what the whole model takes on one chip.

    Transfers are those of the host that the timing model takes unless told otherwise.

    Args:
        source: the model.
        generator: how programs are generated.
        costs: what decides.
    """
    known, whole = _known(source, generator)
    possible = cuts(source.graph, generator, costs.on(find(HOST).host), known)
    return possible if whole is None else possible.on_one_chip(whole)


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
        courses: an inference of each on a device of its own.
        known: microseconds that they take.
    """

    graph: Graph
    possible: Cuts
    objective: Objective
    count: int | None
    compiled: Callable[[Segment, str], EdgeTpuCompilation]
    made: dict[tuple[Piece, str], EdgeTpuCompilation] = field(default_factory=dict)
    courses: dict[Piece, Course] = field(default_factory=dict)
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
            [
                self._played(refined.along(cut.path))
                for cut in sorted(tried, key=lambda cut: len(cut.path))
            ],
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

    def _played(self, cut: Cut) -> Cut:
        """A cut with the time between outputs on one controller, if all its segments are timed."""
        if not all(piece in self.courses for piece in cut.pieces):
            return cut
        return replace(cut, played=interval([self.courses[piece] for piece in cut.pieces]))

    def _time(self, piece: Piece, result: EdgeTpuCompilation) -> None:
        if piece in self.known:
            return
        try:
            found = predict(result.data, result.source.path)
            self.courses[piece], self.known[piece] = course(found), found.total
        except SimulationError:
            # The timing model has nothing to say about it: the prediction stays.
            self.known[piece] = float(self.possible.time[piece])


def _known(source: Source, generator: Options) -> tuple[dict[str, Work], float | None]:
    """What operators take that are on the chip in the whole model.

    Returns:
        the work by operator, and microseconds of the whole model if all of it is on the chip.
    """
    try:
        whole = compile_edgetpu(source, generator=generator, costs=None)
    except (UnsupportedError, CapacityError):
        return {}, None
    found: dict[str, Work] = {}
    total = 0.0
    for part in whole.segments:
        stages = stages_of(part.package)
        total += timed(stages, source.path, {}, Conditions()).timeline.total
        # Segments transfer other things than the whole model: what is wanted is the chip alone.
        run = timed(stages, source.path, {}, Conditions(host=at_once(find(HOST))))
        own = defaultdict[str, list[StepFigures]](list)
        for item in steps(form(part, Emitted).marks, run):
            if item.mark.layer:
                own[item.mark.origin].append(item)
        found |= {name: _work(items, run.timeline.core_mhz) for name, items in own.items()}
    return found, None if whole.unmapped else total


def _work(items: Sequence[StepFigures], mhz: float) -> Work:
    """What an operator takes in a segment that keeps its parameters, by its steps elsewhere."""
    waits = any(item.streamed for item in items)
    cycles = sum(item.op_busy if waits else item.cycles for item in items)
    return Work(cycles / mhz, sum(item.instructions for item in items))


def _segment_source(source: Source, segment: Segment, name: str) -> Source:
    """A segment as a model of its own."""
    graph = segment.graph
    model = submodel(source.model, operators_of(segment), graph.inputs, graph.outputs)
    path = f"{source.path}, {name}"
    return Source(path, source.size, model, import_model(model, path=path))
