"""Models on their way to programs: what is on the chip, and what turns out not to fit.

A model is divided by the rules of its operators, which know most limits. The others show when
programs are made. Operators that are refused then stay with the host, and the model is divided
again. So one operator never keeps the others from the chip, and the work is bounded: a model is
divided `MOST_DIVISIONS` times at most, and once more after each of its operators has been tried
alone, which happens where no part fits as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import CapacityError, FitzroyError, UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.partition import HOST, Placement, Rejects, title
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import CAPACITY, Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.partition.costs import Costs
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment, concerned, divide, refusals
from fitzroy.compiler.targets.edgetpu.program.confirmation import UnconfirmedError
from fitzroy.compiler.targets.edgetpu.program.lower import lower, parameter_rows
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.formats.object_file import ObjectFile, Resources

MOST_DIVISIONS = 24
"""How often a model is divided before a part that is refused stays on the host as a whole."""


def lower_together(
    drafts: Sequence[Draft], generator: Options, progress: Callable[[str], None]
) -> None:
    """Make programs of all parts of all models, which share the rows of one chip.

    Raises:
        UnconfirmedError: a program has forms that are neither published nor confirmed, and could
            do with fewer.
    """
    least: list[int] | None = None
    while True:
        if least is None:
            graphs = [part.graph for draft in drafts for part in draft.parts]
            least = [_least_rows(graph, generator) for graph in graphs] if len(graphs) > 1 else [0]
        chip = _Chip(generator, list(least))
        for draft in drafts:
            said = progress if len(drafts) == 1 else prefixed(draft.path, progress)
            if not draft.lower(chip, said):
                # Its parts are others now.
                least = None
                break
        else:
            if chip.disjoint or chip.staging <= generator.staging:
                return
            # What a later program needs for data, an earlier one has given to parameters.
            generator = replace(generator, staging=chip.staging)


def prefixed(prefix: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    """What tells of progress, with a prefix."""
    return lambda text: progress(f"{prefix}: {text}")


def _least_rows(graph: Graph, generator: Options) -> int:
    """The fewest rows in which a program has all of its parameters; 0 if it will not fit anyhow."""
    try:
        return parameter_rows(graph, generator)
    except (CapacityError, UnsupportedError):
        return 0


@dataclass
class _Chip:
    """What programs that are generated together have taken of a chip.

    Attributes:
        options: how the next program is generated.
        least: the fewest rows that the parameters of each program to come need.
        staging: rows at the top that some program uses for data.
    """

    options: Options
    least: list[int]
    staging: int = 0

    @property
    def disjoint(self) -> bool:
        """Whether no parameters lie in rows for data."""
        return max(self.options.taken) <= WIDE_ROWS - self.staging

    def lower(self, graph: Graph, forms: list[Form]) -> ObjectFile:
        """The program of the next graph.

        It may take rows that no later program needs, and those that it needs itself before any
        later one gets some.

        Raises:
            CapacityError: it does not fit.
        """
        own, options = self.least.pop(0), self.options
        if self.least or any(options.taken):
            budget = max(options.free_rows(options.staging) - sum(self.least), own)
            options = replace(options, parameter_rows=budget)
        found = lower(graph, options, forms.append)
        self._take(found)
        return found

    def _take(self, item: ObjectFile) -> None:
        """Rows that a program has are not for the parameters of others."""
        taken = list(self.options.taken)
        for operand in item.operands or ():
            for run in operand.runs or ():
                taken[run.tile] = max(taken[run.tile], run.row + run.words)
        self.options = replace(self.options, taken=tuple(taken))
        needs = item.resources or Resources()
        self.staging = max([self.staging, *(reserved.rows for reserved in needs.staging or ())])


@dataclass
class Draft:
    """A model on its way to programs.

    Attributes:
        graph: the model.
        path: its name.
        generator: how programs are generated.
        costs: what decides which operators go to the chip.
        rules: why nodes cannot be on the chip, by name, as rules say.
        rejects: these, and what programs have shown.
        parts: parts for the chip.
        divided: all groups of nodes.
        divisions: how often the model has been divided.
        tried: whether every operator has been tried alone.
        placements: groups of nodes, with the parts that do not fit left to the host.
        segments: parts that fit.
        objects: their programs.
        forms: the forms that these took.
        failure: why the first part that does not fit does not.
    """

    graph: Graph
    path: str
    generator: Options
    costs: Costs | None
    rules: Mapping[str, Rejects]
    rejects: dict[str, Rejects] = field(default_factory=dict)
    parts: list[Segment] = field(default_factory=list)
    divided: list[Placement] = field(default_factory=list)
    divisions: int = 0
    tried: bool = False
    placements: list[Placement] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    objects: list[ObjectFile] = field(default_factory=list)
    forms: list[tuple[Form, ...]] = field(default_factory=list)
    failure: FitzroyError | None = None

    @classmethod
    def of(cls, graph: Graph, path: str, generator: Options, costs: Costs | None) -> Draft:
        """A model divided between chip and host by the rules of its operators."""
        draft = cls(graph, path, generator, costs, refusals(graph, generator))
        draft.rejects = dict(draft.rules)
        draft.divide()
        return draft

    def divide(self) -> None:
        """Divide the model between chip and host."""
        self.parts, self.divided = divide(self.graph, self.generator, self.costs, self.rejects)
        self.divisions += 1

    def leave(self, segment: Segment, refusal: Refused) -> bool:
        """Leave the operators of a refusal to the host, and divide the model again.

        Returns:
            Whether there are such operators, others are left for the chip, and the model has not
            been divided too often.
        """
        found = concerned(segment.graph, refusal)
        if not found or self.divisions >= MOST_DIVISIONS:
            return False
        self.rejects |= found
        self.divide()
        return bool(self.parts)

    def lower(self, chip: _Chip, progress: Callable[[str], None]) -> bool:
        """Make programs of all parts.

        Operators that turn out not to fit, and parts that do not, are left to the host.

        Returns:
            Whether the parts are done with; if not, the model has been divided again.

        Raises:
            UnconfirmedError: a program that could do with fewer forms has some that are neither
                published nor confirmed.
        """
        self.failure = None
        self.placements = list(self.divided)
        self.segments, self.objects, self.forms = [], [], []
        for number, segment in enumerate(self.parts, 1):
            progress(f"part {number} of {len(self.parts)}: {len(segment.nodes)} operators")
            forms: list[Form] = []
            try:
                self.objects.append(chip.lower(segment.graph, forms))
            except (CapacityError, UnsupportedError) as error:
                if isinstance(error, UnconfirmedError) and not self.generator.conservative:
                    raise
                if isinstance(error, Refused) and self.leave(segment, error):
                    return False
                self.failure = self.failure or error
                self.placements = [
                    _left(item, error) if item.nodes == segment.nodes else item
                    for item in self.placements
                ]
            else:
                self.segments.append(segment)
                self.forms.append(tuple(forms))
        if self.segments or self.failure is None or self.tried:
            return True
        self.try_alone(progress)
        return False

    def try_alone(self, progress: Callable[[str], None]) -> None:
        """Find out which operators fit by themselves, and divide the model by that.

        Raises:
            UnconfirmedError: as for `lower`.
        """
        self.tried, self.divisions, self.rejects = True, 0, dict(self.rules)
        nodes = [node for node in self.graph.nodes() if node.name not in self.rules]
        for number, node in enumerate(nodes, 1):
            progress(f"operator {number} of {len(nodes)} alone")
            part = self.graph.part([node])
            try:
                lower(part, self.generator)
            except (CapacityError, UnsupportedError) as error:
                if isinstance(error, UnconfirmedError) and not self.generator.conservative:
                    raise
                self.rejects |= concerned(part, _of_operator(node.name, error))
        self.divide()


def _of_operator(name: str, error: FitzroyError) -> Refused:
    """The refusal of an operator that does not fit by itself."""
    code = error.code if isinstance(error, Refused) else CAPACITY
    return Refused([name], error.what, reason=error.reason, code=code, hint=error.hint)


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
