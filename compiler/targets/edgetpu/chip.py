"""What do models that share a chip become, and which of their operators stay on the host after all?

`lower_together` makes a program for every part of every model. Only the program shows whether all
of a part fits. Operators that do not fit go to the host, and the model is divided again, so one
operator never keeps the others from the chip. The work is bounded: a model is divided at most
`_MOST_DIVISIONS` times. If no part fits as a whole, each operator is tried alone, once, and the
model is divided as many times again. Most parts stay the same when a model is divided again: while
it is not known whether all parts fit, their earlier programs stand in for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import CapacityError, FitzroyError, UnsupportedError
from fitzroy.base.progress import counted
from fitzroy.base.progress import prefixed as behind
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import WIDE_ACTIVATIONS
from fitzroy.compiler.ops.opaque import Opaque
from fitzroy.compiler.partition import HOST, Placement, Rejects, title
from fitzroy.compiler.targets.edgetpu.layers.options import Options, Share
from fitzroy.compiler.targets.edgetpu.layers.refusal import CAPACITY, Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.partition.costs import Costs
from fitzroy.compiler.targets.edgetpu.partition.divide import (
    Findings,
    Segment,
    concerned,
    divide,
    refusals,
)
from fitzroy.compiler.targets.edgetpu.partition.rules import (
    NAME,
    RealNumbersError,
    has_quantized_activations,
    has_wide_activations,
)
from fitzroy.compiler.targets.edgetpu.program.confirmation import UnconfirmedError
from fitzroy.compiler.targets.edgetpu.program.lower import lower, parameter_rows, wanted_rows
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.formats.object_file import ObjectFile, Resources

_MOST_DIVISIONS = 24
"""How often a model is divided before a part that is refused stays on the host as a whole."""

Progress = Callable[[str], None]
"""Is told what is being done."""

_Key = tuple[int, int, tuple[Node, ...]]
"""A part: number of its model, rows of wide memory for data, and its nodes."""


@dataclass(frozen=True)
class Part:
    """A part of a model on the chip.

    Attributes:
        segment: its graph and nodes.
        object: its program before linking.
        forms: the forms that its program took, in order.
        options: how its program was generated.
    """

    segment: Segment
    object: ObjectFile
    forms: tuple[Form, ...]
    options: Options


@dataclass(frozen=True)
class OnChip:
    """What of a model is on the chip.

    Attributes:
        parts: its parts, in order.
        placements: all groups of nodes in order, with the reasons of those that stay on the host.
    """

    parts: tuple[Part, ...]
    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class Divided:
    """A model that is divided between chip and host.

    Attributes:
        graph: the model.
        path: its file, for errors.
        placements: all groups of nodes in order.
    """

    graph: Graph
    path: str
    placements: tuple[Placement, ...]

    @property
    def segments(self) -> list[Segment]:
        """Its parts for the chip, in order."""
        chosen = [item.nodes for item in self.placements if item.target == NAME]
        return [Segment(self.graph.part(nodes), nodes) for nodes in chosen]


def lower_together(
    models: Sequence[Divided],
    options: Options,
    costs: Costs | None,
    progress: Progress = lambda _: None,
) -> list[OnChip]:
    """Make programs of all parts of all models, which share the memory of one chip.

    The first models get memory first.

    Args:
        models: the models.
        options: how programs are generated.
        costs: what decides which operators go to the chip if a model has to be divided again.
        progress: is told what is being done.

    Raises:
        UnsupportedError: a model has nothing for the chip; with the reasons of each operator.
        UnconfirmedError: a program that could do with fewer forms has some that are neither
            published nor confirmed.
    """
    for model in models:
        demand_parts(model)
    drafts = [_Draft(model, model.segments, options, costs) for model in models]
    _lower(drafts, options, progress)
    found = [draft.finished() for draft in drafts]
    for draft, item in zip(drafts, found, strict=True):
        if not item.parts:
            if draft.unconfirmed is not None:
                raise draft.unconfirmed
            demand_parts(replace(draft.model, placements=item.placements))
    return found


def proven(
    model: Divided, options: Options, costs: Costs | None, progress: Progress = lambda _: None
) -> tuple[Placement, ...]:
    """Where all nodes of a model run, as its programs show, also if nothing is on the chip.

    Args:
        model: the model.
        options: as for `lower_together`.
        costs: as for `lower_together`.
        progress: as for `lower_together`.

    Raises:
        UnconfirmedError: as for `lower_together`.
    """
    draft = _Draft(model, model.segments, options, costs)
    _lower([draft], options, progress)
    return draft.finished().placements


def _lower(drafts: Sequence[_Draft], options: Options, progress: Progress) -> None:
    """Make programs of all parts that fit, of models that share the memory of one chip.

    After a division, unchanged parts are assigned other rows of memory. They keep their earlier
    programs until all parts are known to fit, so that the work grows with the sum of parts and
    divisions, and not with their product.
    """
    needs: list[_Need] | None = None
    known: dict[_Key, _Need] = {}
    trial = False
    while True:
        if needs is None:
            needs = _needs(drafts, options, known)
        chip = _Chip(options, list(needs), trial)
        for draft in drafts:
            told = progress if len(drafts) == 1 else prefixed(draft.model.path, progress)
            if not draft.lower(chip, told):
                # Its parts are others now.
                needs, trial = None, True
                break
        else:
            if chip.stand_ins:
                trial = False
                continue
            if chip.disjoint or chip.staging <= options.staging:
                return
            # What a later program needs for data, an earlier one has given to parameters.
            options = replace(options, staging=chip.staging)


def _needs(drafts: Sequence[_Draft], options: Options, known: dict[_Key, _Need]) -> list[_Need]:
    """What each part of all models needs of the memory that they share.

    Args:
        drafts: the models.
        options: how programs are generated.
        known: what parts need, to which new ones are added. Most parts stay the same when a model
            is divided again.
    """
    parts = [(number, part) for number, draft in enumerate(drafts) for part in draft.segments]
    if len(parts) == 1:
        return [_Need()]
    found = []
    for number, part in parts:
        key = number, options.staging, part.nodes
        if key not in known:
            known[key] = _Need.of(part.graph, options)
        found.append(known[key])
    return found


def prefixed(prefix: str, progress: Progress) -> Progress:
    """Progress of one of several."""
    return lambda text: progress(behind(f"{prefix}: ", text))


def demand_parts(model: Divided) -> None:
    """Refuse a model of which nothing is on the chip.

    Raises:
        UnsupportedError: with the reasons of each operator; of a model without numbers of 8 bits,
            which has the same reason everywhere, with what to do about it.
    """
    if any(item.target == NAME for item in model.placements):
        return
    known = [node for node in model.graph.nodes() if node.op != Opaque.name]
    if known and not has_quantized_activations(model.graph):
        raise _of_other_numbers(model)
    rejects = [reject for placement in model.placements for reject in placement.rejects]
    what = "no operator can be mapped to the Edge TPU"
    raise UnsupportedError(what, rejects=rejects, where=model.path)


def _of_other_numbers(model: Divided) -> UnsupportedError:
    """Why nothing is on the chip of a model that has no numbers of 8 bits."""
    if has_wide_activations(model.graph):
        what = "the model computes with integers of 16 bits, and the Edge TPU with those of 8 bits"
        return UnsupportedError(what, where=model.path, hint=WIDE_ACTIVATIONS)
    files = (node.origin.file for node in model.graph.nodes() if node.origin is not None)
    return RealNumbersError(model.path, next(files, model.path))


@dataclass(frozen=True)
class _Need:
    """Rows of wide memory, of all tiles, for the parameters of a program.

    Attributes:
        least: the fewest in which it has all of them; 0 if it will not fit anyhow.
        wanted: those that it takes on a chip of its own, with which it is faster.
    """

    least: int = 0
    wanted: int = 0

    @classmethod
    def of(cls, graph: Graph, options: Options) -> _Need:
        """What a program needs."""
        try:
            least = parameter_rows(graph, options)
            return cls(least, max(least, wanted_rows(graph, options)))
        except (CapacityError, UnsupportedError):
            return cls()

    @property
    def more(self) -> int:
        """Rows beyond the fewest."""
        return self.wanted - self.least


@dataclass
class _Chip:
    """What programs that are generated together have taken of a chip.

    Attributes:
        options: how the next program is generated.
        needs: what each program to come needs.
        trial: whether programs that were generated with other options may stand in, to find out
            whether all parts fit.
        stand_ins: how many do.
        staging: rows at the top that some program uses for data.
    """

    options: Options
    needs: list[_Need]
    trial: bool = False
    stand_ins: int = 0
    staging: int = 0

    @property
    def disjoint(self) -> bool:
        """Whether no parameters lie in rows for data."""
        return max(self.options.taken) <= WIDE_ROWS - self.staging

    def lower(self, segment: Segment, known: Part | None) -> Part:
        """The program of the next part.

        Args:
            segment: the part.
            known: its program from before, if it has one.

        Raises:
            CapacityError: it does not fit.
        """
        own, options = self.needs.pop(0), self.options
        if self.needs or any(options.taken):
            options = replace(options, share=self._share(own))
        part = self._stand_in(known, options) or _part(segment, options)
        self._take(part.object)
        return part

    def _stand_in(self, known: Part | None, options: Options) -> Part | None:
        """A program from before, if it will do."""
        if known is None or known.options == options:
            return known
        if not self.trial:
            return None
        self.stand_ins += 1
        return known

    def _share(self, own: _Need) -> Share:
        """What the next program gets, and what programs after it are to find.

        Each gets the fewest that it needs, the first ones first. What is left is divided by what
        they would take beyond that.

        Args:
            own: what the next program needs.
        """
        free = self.options.free_rows(self.options.staging)
        least = sum(need.least for need in self.needs)
        more = sum(need.more for need in self.needs)
        left = max(0, free - own.least - least)
        share = min(1.0, left / max(1, own.more + more))
        return Share(least + int(share * more), own.least)

    def _take(self, item: ObjectFile) -> None:
        """Rows that a program has are not for the parameters of others."""
        taken = list(self.options.taken)
        for operand in item.operands or ():
            for run in operand.runs or ():
                taken[run.tile] = max(taken[run.tile], run.row + run.words)
        self.options = replace(self.options, taken=tuple(taken))
        needs = item.resources or Resources()
        self.staging = max([self.staging, *(reserved.rows for reserved in needs.staging or ())])


def _part(segment: Segment, options: Options) -> Part:
    """A part and its program.

    Raises:
        CapacityError: it does not fit.
    """
    forms: list[Form] = []
    found = lower(segment.graph, options, forms.append)
    return Part(segment, found, tuple(forms), options)


@dataclass
class _Draft:
    """A model on its way to programs.

    Attributes:
        model: the model as it is divided.
        segments: its parts for the chip.
        options: how programs are generated.
        costs: what decides which operators go to the chip.
        rejects: why nodes cannot be on the chip, by name; None before this has mattered.
        divisions: how often the model has been divided.
        tried: whether every operator has been tried alone.
        left: parts that do not fit, by their nodes, and why.
        parts: parts that fit.
        programs: the last program of every part that has had one, by its nodes.
        findings: what is known of parts from earlier divisions.
    """

    model: Divided
    segments: list[Segment]
    options: Options
    costs: Costs | None
    rejects: dict[str, Rejects] | None = None
    divisions: int = 1
    tried: bool = False
    left: list[tuple[Segment, FitzroyError]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    programs: dict[tuple[Node, ...], Part] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    @property
    def unconfirmed(self) -> UnconfirmedError | None:
        """What the first part that does not fit has that may not be used."""
        first = self.left[0][1] if self.left else None
        return first if isinstance(first, UnconfirmedError) else None

    def _leave(self, refused: Sequence[tuple[Segment, FitzroyError]]) -> bool:
        """Leave the operators of refusals to the host, and divide the model again.

        Returns:
            Whether there are such operators, others are left for the chip, and the model has not
            been divided too often.
        """
        found: dict[str, Rejects] = {}
        for segment, error in refused:
            if isinstance(error, Refused):
                found |= concerned(segment.graph, error)
        if not found or self.divisions >= _MOST_DIVISIONS:
            return False
        if self.rejects is None:
            self.rejects = refusals(self.model.graph, self.options)
        self._divide(self.rejects | found)
        return bool(self.segments)

    def _divide(self, rejects: dict[str, Rejects]) -> None:
        """Divide the model again."""
        self.rejects = rejects
        self.segments, placements = divide(
            self.model.graph, self.options, self.costs, self.rejects, self.findings
        )
        self.model = replace(self.model, placements=tuple(placements))
        self.divisions += 1

    def _try_alone(self, progress: Progress) -> None:
        """Find out which operators fit by themselves, and divide the model by that.

        Raises:
            UnconfirmedError: as for `lower`.
        """
        graph = self.model.graph
        rejects = refusals(graph, self.options)
        nodes = [node for node in graph.nodes() if node.name not in rejects]
        for number, node in enumerate(nodes, 1):
            progress(counted("operator", number, len(nodes), " alone"))
            part = graph.part([node])
            try:
                lower(part, self.options)
            except (CapacityError, UnsupportedError) as error:
                if isinstance(error, UnconfirmedError) and not self.options.conservative:
                    raise
                rejects |= concerned(part, _of_operator(node.name, error))
        self.tried, self.divisions = True, 0
        self._divide(rejects)

    def lower(self, chip: _Chip, progress: Progress) -> bool:
        """Make programs of all parts.

        Operators that turn out not to fit, and parts that do not, are left to the host. A model of
        many parts is divided again once for all of them.

        Returns:
            Whether the parts are done with; if not, the model has been divided again.

        Raises:
            UnconfirmedError: a program that could do with fewer forms has some that are neither
                published nor confirmed.
        """
        self.left, self.parts = [], []
        for number, segment in enumerate(self.segments, 1):
            size = f": {len(segment.nodes)} operators"
            progress(counted("part", number, len(self.segments), size))
            try:
                part = chip.lower(segment, self.programs.get(segment.nodes))
                self.programs[segment.nodes] = part
                self.parts.append(part)
            except (CapacityError, UnsupportedError) as error:
                if isinstance(error, UnconfirmedError) and not self.options.conservative:
                    raise
                self.left.append((segment, error))
        # All parts are tried before: layers that are alike refuse the same operators.
        if self._leave(self.left):
            return False
        if self.parts or not self.left or self.tried or self.unconfirmed is not None:
            return True
        self._try_alone(progress)
        return False

    def finished(self) -> OnChip:
        """The programs of all parts, and where all nodes run."""
        return OnChip(tuple(self.parts), tuple(_settled(self.model.placements, self.left)))


def _of_operator(name: str, error: FitzroyError) -> Refused:
    """The refusal of an operator that does not fit by itself."""
    code = error.code if isinstance(error, Refused) else CAPACITY
    return Refused([name], error.what, reason=error.reason, code=code, hint=error.hint)


def _settled(
    placements: Iterable[Placement], left: Sequence[tuple[Segment, FitzroyError]]
) -> Iterable[Placement]:
    """All groups of nodes, those on the host that the chip has no room for."""
    errors = {segment.nodes: error for segment, error in left}
    for placement in placements:
        error = errors.get(placement.nodes)
        yield placement if error is None else _left(placement, error)


def _left(placement: Placement, error: FitzroyError) -> Placement:
    """A group of nodes that the host has to run after all."""
    what = error.what + (f": {error.reason}" if error.reason else "")
    rejects = tuple(
        Diagnostic(
            Severity.WARNING,
            error.code if isinstance(error, Refused) else CAPACITY,
            title(node),
            what,
            hint=error.hint,
        )
        for node in placement.nodes
    )
    return replace(placement, target=HOST.name, rejects=(*placement.rejects, *rejects))
