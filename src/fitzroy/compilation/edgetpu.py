"""From quantized models to ones that the Edge TPU executes: the whole way on one screen."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import CapacityError, FitzroyError, UnsupportedError
from fitzroy.base.files import read_file
from fitzroy.base.types import DType
from fitzroy.compilation.loading import load
from fitzroy.compiler.frontends.frontend import frontend_for
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.partition import HOST, Decided, Placement, Rejects, diagnose, title
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import CAPACITY, Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs
from fitzroy.compiler.targets.edgetpu.partition.divide import (
    NAME,
    Segment,
    concerned,
    consecutive,
    divide,
    refusals,
)
from fitzroy.compiler.targets.edgetpu.program.confirmation import (
    UnconfirmedError,
    refuse_unconfirmed,
)
from fitzroy.compiler.targets.edgetpu.program.lower import lower, parameter_rows
from fitzroy.compiler.targets.edgetpu.program.stages import Emitted, Form, Legalized
from fitzroy.execution.estimate import estimate, steps
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.formats.detect import FileKind
from fitzroy.formats.object_file import ObjectFile, Resources
from fitzroy.formats.submodel import submodel
from fitzroy.linker.packages.darwinn import LinkOptions, link
from fitzroy.report.forms import instructions

F = TypeVar("F", bound=Form)


def has_quantized_activations(graph: Graph) -> bool:
    """Whether operators of a graph compute numbers of 8 bits."""
    types = [graph.type(output) for node in graph.nodes() for output in node.outputs]
    return any(
        type.quantization is not None and type.dtype in (DType.UINT8, DType.INT8) for type in types
    )


@dataclass(frozen=True, repr=False)
class Source:
    """A model that has been read.

    Attributes:
        path: its file.
        size: bytes of the file.
        model: the model as TFLite.
        graph: the model as a graph.
    """

    path: str
    size: int
    model: tflite.Model
    graph: Graph

    def __repr__(self) -> str:
        return f"<Source {self.path}: {self.size:,} bytes, {len(self.graph.nodes())} operators>"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Source:
        """Read a model of any frontend.

        Raises:
            UsageError: the file cannot be read, or is no model.
            FormatError: it is malformed.
            UnsupportedError: it has operators without counterpart.
        """
        name, data = os.fspath(path), read_file(path)
        if frontend_for(data, name).kind is FileKind.TFLITE:
            model = tflite.read_model(data, name)
        else:
            model = export_model(load(path))
        return cls(name, len(data), model, import_model(model, path=name))

    @classmethod
    def of(cls, graph: Graph) -> Source:
        """A graph as a model.

        Raises:
            UnsupportedError: TFLite cannot express it.
        """
        model = export_model(graph)
        size = len(tflite.write_model(model))
        return cls(graph.name, size, model, import_model(model, path=graph.name))

    @property
    def quantized(self) -> bool:
        """Whether the model has activations of 8 bits."""
        return has_quantized_activations(self.graph)

    @property
    def compiled(self) -> bool:
        """Whether the model has Edge TPU operators already."""
        return _is_compiled(self.graph)


Model = str | os.PathLike[str] | Source


def _source(model: Model) -> Source:
    """A model to compile.

    Raises:
        UsageError: it cannot be read, or is no model.
        FormatError: it is malformed.
        UnsupportedError: it is compiled already.
    """
    source = model if isinstance(model, Source) else Source.read(model)
    demand_uncompiled(source.graph, source.path)
    return source


def _is_compiled(graph: Graph) -> bool:
    return any(
        getattr(node.attributes, "code", None) == custom_op.CUSTOM_CODE for node in graph.nodes()
    )


def demand_uncompiled(graph: Graph, path: str) -> None:
    """Refuse a model that has Edge TPU operators.

    Raises:
        UnsupportedError: it has.
    """
    if _is_compiled(graph):
        raise UnsupportedError(
            "the model is compiled for the Edge TPU already",
            where=path,
            hint="take the model that it was made of",
        )


@dataclass(frozen=True, repr=False)
class MappedSegment:
    """A part of a model on the chip.

    Attributes:
        segment: its graph and nodes.
        object: its program before linking.
        package: its package.
        forms: the forms that its program took, in order.
    """

    segment: Segment
    object: ObjectFile
    package: PackageFile
    forms: tuple[Form, ...] = ()

    def __repr__(self) -> str:
        return f"<MappedSegment {self.segment.graph.name!r}: {len(self.segment.nodes)} operators>"


def form(part: MappedSegment, kind: type[F]) -> F:
    """A form that the program of a part took."""
    return next(item for item in part.forms if isinstance(item, kind))


@dataclass(frozen=True, repr=False)
class EdgeTpuCompilation:
    """A model compiled for the Edge TPU.

    Attributes:
        data: the model with Edge TPU operators, as TFLite.
        source: the model as it was read.
        segments: parts on the chip, in order.
        placements: all groups of nodes in order, with the reasons of those that stay on the host.
        seconds: how long it took; of models that were compiled together, all of them.
    """

    data: bytes
    source: Source
    segments: tuple[MappedSegment, ...]
    placements: tuple[Placement, ...]
    seconds: float

    def __repr__(self) -> str:
        return (
            f"<EdgeTpuCompilation of {self.source.path}: {len(self.data):,} bytes, "
            f"{len(self.mapped)} operators on the chip in {len(self.segments)} parts, "
            f"{len(self.unmapped)} on the host>"
        )

    @property
    def graph(self) -> Graph:
        """The model as it was read."""
        return self.source.graph

    @property
    def mapped(self) -> tuple[Node, ...]:
        """Nodes on the chip."""
        return tuple(node for item in self.segments for node in item.segment.nodes)

    @property
    def unmapped(self) -> tuple[Node, ...]:
        """Nodes that stay on the host."""
        return tuple(node for item in self.placements if item.target != NAME for node in item.nodes)

    @property
    def reasons(self) -> tuple[Diagnostic, ...]:
        """Why nodes stay on the host."""
        return tuple(
            reject
            for placement in self.placements
            if placement.target != NAME
            for reject in placement.rejects
        )


def compile_edgetpu(
    model: Model,
    *,
    options: LinkOptions | None = None,
    generator: Options = DEFAULT,
    costs: Costs | None = COSTS,
    progress: Callable[[str], None] = lambda _: None,
) -> EdgeTpuCompilation:
    """Compile a quantized model for the Edge TPU.

    Operators that cannot be mapped stay in the model, where the host runs them, and so do those of
    which only their program shows that they do not fit the chip.

    Args:
        model: a path, or a model that has been read.
        options: how its packages are linked.
        generator: how its programs are generated.
        costs: what decides which operators go to the chip; None to map all that can be mapped.
        progress: is told what is being done.

    Raises:
        UsageError: the file cannot be read.
        FormatError: the file is malformed.
        UnsupportedError: the model is compiled already, or no operator can be mapped; with the
            reason of each.
        CapacityError: no part of the model fits the chip.
    """
    (result,) = compile_together(
        [model], options=options, generator=generator, costs=costs, progress=progress
    )
    return result


def compile_together(
    models: Sequence[Model],
    *,
    options: LinkOptions | None = None,
    generator: Options = DEFAULT,
    costs: Costs | None = COSTS,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[EdgeTpuCompilation, ...]:
    """Compile models that share a chip: it keeps the parameters of all while they take turns.

    The first models get memory first. What does not fit is streamed with every inference.

    Args:
        models: paths, or models that have been read, those first that are to be fastest.
        options: how the packages are linked.
        generator: how programs are generated.
        costs: what decides which operators go to the chip; None to map all that can be mapped.
        progress: is told what is being done.

    Raises:
        UsageError: a file cannot be read.
        FormatError: a file is malformed.
        UnsupportedError: a model is compiled already, or no operator of it can be mapped; with the
            reason of each.
        UnconfirmedError: a model needs what is neither published nor confirmed, and only that may
            be used.
        CapacityError: no part of a model fits the chip.
    """
    start = time.perf_counter()
    sources = [_source(model) for model in models]
    try:
        finished = _together(sources, options, generator, costs, progress)
    except UnconfirmedError:
        if generator.conservative:
            raise
        # What published programs do has fewer forms that a probe must have confirmed.
        progress("compiling again, as published programs do")
        slower = replace(generator, conservative=True)
        finished = _together(sources, options, slower, costs, progress)
    seconds = time.perf_counter() - start
    return tuple(replace(result, seconds=seconds) for result in finished)


def _together(
    sources: Sequence[Source],
    options: LinkOptions | None,
    generator: Options,
    costs: Costs | None,
    progress: Callable[[str], None],
) -> list[EdgeTpuCompilation]:
    """Compile models that share a chip, with the same options for all."""
    drafts = [_Draft.of(source, generator, costs) for source in sources]
    _lower(drafts, generator, progress)
    progress("linking")
    linked = link([item for draft in drafts for item in draft.objects], options)
    if generator.confirmed is not None:
        # The linker adds the programs that load parameters.
        every = (instruction for _, instruction in instructions(linked))
        refuse_unconfirmed(every, generator.confirmed, "the linked program")
    packages = iter(linked)
    return [draft.finished([next(packages) for _ in draft.objects]) for draft in drafts]


def compile_segments(
    model: Model,
    count: int,
    *,
    options: LinkOptions | None = None,
    generator: Options = DEFAULT,
    costs: Costs | None = COSTS,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[EdgeTpuCompilation, ...]:
    """Cut a model into consecutive segments and compile each for a chip of its own.

    Outputs of a segment are, by name, inputs of those behind it.

    Args:
        model: a path, or a model that has been read.
        count: how many segments.
        options: how the packages are linked.
        generator: how programs are generated.
        costs: as for `compile_edgetpu`.
        progress: is told what is being done.

    Raises:
        UsageError: the file cannot be read, or has not so many operators for the chip.
        FormatError: the file is malformed.
        UnsupportedError: the model is compiled already, or no operator of a segment can be mapped;
            with the reason of each.
        CapacityError: no part of a segment fits the chip.
    """
    source = _source(model)
    if not source.quantized:
        raise _unmappable(source, refusals(source.graph, generator))
    progress("timing the whole model")
    times = _times(source, generator) if count > 1 else {}
    segments = consecutive(source.graph, count, generator, costs or COSTS, times)
    return tuple(
        compile_edgetpu(
            _segment_source(source, segment, f"segment {number} of {count}"),
            options=options,
            generator=generator,
            costs=costs,
            progress=_prefixed(f"segment {number} of {count}", progress),
        )
        for number, segment in enumerate(segments)
    )


def _times(source: Source, generator: Options) -> dict[str, float]:
    """Microseconds that operators take on the chip, of those that are there in the whole model."""
    try:
        whole = compile_edgetpu(source, generator=generator, costs=None)
    except (UnsupportedError, CapacityError):
        return {}
    found: dict[str, float] = {}
    for part in whole.segments:
        run = estimate(part.package, source.path)
        legalized = form(part, Legalized)
        origins = {layer.name: layer.origin for layer in legalized.layers}
        for item in steps(form(part, Emitted).marks, run):
            name = origins.get(item.mark.layer)
            if name is not None:
                found[name] = found.get(name, 0.0) + item.cycles / run.timeline.core_mhz
    return found


def _prefixed(prefix: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: progress(f"{prefix}: {text}")


def _segment_source(source: Source, segment: Segment, name: str) -> Source:
    """A segment as a model of its own."""
    graph = segment.graph
    model = submodel(source.model, _indices(segment), graph.inputs, graph.outputs)
    path = f"{source.path}, {name}"
    return Source(path, source.size, model, import_model(model, path=path))


def _lower(drafts: Sequence[_Draft], generator: Options, progress: Callable[[str], None]) -> None:
    """Make programs of all parts of all models, which share the rows of one chip.

    Raises:
        CapacityError: no part of a model fits.
    """
    least: list[int] | None = None
    while True:
        if least is None:
            graphs = [part.graph for draft in drafts for part in draft.parts]
            least = [_least_rows(graph, generator) for graph in graphs] if len(graphs) > 1 else [0]
        chip = _Chip(generator, list(least))
        for draft in drafts:
            name = draft.source.path
            said = progress if len(drafts) == 1 else _prefixed(name, progress)
            if not draft.lower(chip, said):
                # Its parts are others now.
                least = None
                break
        else:
            if chip.disjoint or chip.staging <= generator.staging:
                return
            # What a later program needs for data, an earlier one has given to parameters.
            generator = replace(generator, staging=chip.staging)


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
class _Draft:
    """A model on its way to programs.

    Attributes:
        source: the model.
        generator: how programs are generated.
        costs: what decides which operators go to the chip.
        rejects: why nodes cannot be on the chip, by name.
        parts: parts for the chip.
        divided: all groups of nodes.
        divisions: how often the model has been divided.
        placements: these, with the parts that do not fit left to the host.
        segments: parts that fit.
        objects: their programs.
        forms: the forms that these took.
    """

    source: Source
    generator: Options
    costs: Costs | None
    rejects: dict[str, Rejects]
    parts: list[Segment] = field(default_factory=list)
    divided: list[Placement] = field(default_factory=list)
    divisions: int = 0
    placements: list[Placement] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    objects: list[ObjectFile] = field(default_factory=list)
    forms: list[tuple[Form, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, source: Source, generator: Options, costs: Costs | None) -> _Draft:
        """A model divided between chip and host.

        Raises:
            UnsupportedError: no operator can be mapped.
        """
        draft = cls(source, generator, costs, refusals(source.graph, generator))
        if not draft.divide():
            raise _unmappable(source, draft.rejects)
        return draft

    def divide(self) -> bool:
        """Divide the model between chip and host; whether there is anything for the chip."""
        self.parts, self.divided = divide(
            self.source.graph, self.generator, self.costs, self.rejects
        )
        self.divisions += 1
        return bool(self.parts)

    def leave(self, segment: Segment, refusal: Refused) -> bool:
        """Leave the operators of a refusal to the host, and divide the model again.

        Returns:
            Whether there are such operators, others are left for the chip, and the model has not
            been divided too often.
        """
        found = concerned(segment.graph, refusal)
        if not found or self.divisions >= _MOST_DIVISIONS:
            return False
        self.rejects |= found
        return self.divide()

    def lower(self, chip: _Chip, progress: Callable[[str], None]) -> bool:
        """Make programs of all parts.

        Operators that turn out not to fit, and parts that do not, are left to the host.

        Returns:
            Whether there are programs of all parts; if not, the model has been divided again.

        Raises:
            CapacityError: no part fits.
            UnconfirmedError: a program that could do with fewer forms has some that are neither
                published nor confirmed.
        """
        failures: list[FitzroyError] = []
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
                failures.append(error)
                self.placements = [
                    _left(item, error) if item.nodes == segment.nodes else item
                    for item in self.placements
                ]
            else:
                self.segments.append(segment)
                self.forms.append(tuple(forms))
        if not self.segments:
            raise failures[0]
        return True

    def finished(self, packages: Sequence[PackageFile]) -> EdgeTpuCompilation:
        """The model with the packages of its programs."""
        parts = zip(self.segments, self.objects, packages, self.forms, strict=True)
        embedded = list(map(_embedded, self.segments, packages))
        return EdgeTpuCompilation(
            tflite.write_model(custom_op.embed(self.source.model, embedded)),
            self.source,
            tuple(MappedSegment(*part) for part in parts),
            tuple(self.placements),
            0.0,
        )


def _unmappable(source: Source, rejected: Mapping[str, Rejects]) -> UnsupportedError:
    """The error for a model of which nothing can be on the chip, with the reason of each operator.

    Args:
        source: the model.
        rejected: why nodes cannot be on the chip, by name.
    """
    rejects = [
        item
        for node in source.graph.nodes()
        for item in diagnose(source.graph, node, Decided(NAME, rejected))
    ]
    if source.quantized:
        what, hint = "no operator can be mapped to the Edge TPU", ""
    else:
        what = "the model computes with real numbers, and the Edge TPU with integers of 8 bits"
        hint = quantize_command(source.path)
    return UnsupportedError(what, rejects=rejects, where=source.path, hint=hint)


def quantize_command(path: str) -> str:
    """What makes a model of real numbers one that the Edge TPU can compute, as a command line.

    Args:
        path: the model's file.
    """
    output = f"{os.path.splitext(os.path.basename(path))[0]}_quant.tflite"
    return f"fitzroy quantize {shlex.quote(path)} --calibrate DIR -o {shlex.quote(output)}"


_MOST_DIVISIONS = 24
"""How often a model is divided before a part that is refused stays on the host as a whole."""


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


def _indices(segment: Segment) -> frozenset[int]:
    """Indices of the operators of a segment in its model."""
    return frozenset(node.origin.index for node in segment.nodes if node.origin is not None)


def _embedded(segment: Segment, package: PackageFile) -> custom_op.Segment:
    return custom_op.Segment(
        _indices(segment),
        tuple(segment.graph.inputs),
        tuple(segment.graph.outputs),
        write_package(package),
    )
