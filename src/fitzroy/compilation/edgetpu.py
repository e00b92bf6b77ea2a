"""From quantized models to ones that the Edge TPU executes: the whole way on one screen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.display import Displayed
from fitzroy.base.progress import counted
from fitzroy.compilation.records import operators_of, record_of
from fitzroy.compilation.source import Source, demand_uncompiled
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.targets.edgetpu.chip import (
    Divided,
    OnChip,
    Part,
    Progress,
    lower_together,
)
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment, divide
from fitzroy.compiler.targets.edgetpu.partition.integers import returned
from fitzroy.compiler.targets.edgetpu.partition.preparation import preparing
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME
from fitzroy.compiler.targets.edgetpu.program.confirmation import (
    UnconfirmedError,
    refuse_unconfirmed,
)
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.compiler.targets.edgetpu.twin.source import digests_of
from fitzroy.execution.whole import predict
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.compilation_record import attached
from fitzroy.formats.darwinn import PackageFile, package_pieces
from fitzroy.formats.object_file import ObjectFile
from fitzroy.linker.packages.darwinn import LinkOptions, link
from fitzroy.linker.resolve.caching import Generation

F = TypeVar("F", bound=Form)

Model = str | os.PathLike[str] | Source


def source_of(model: Model) -> Source:
    """A model to compile.

    Raises:
        UsageError: it cannot be read, or is no model.
        FormatError: it is malformed.
        UnsupportedError: it is compiled already.
    """
    source = model if isinstance(model, Source) else Source.read(model)
    demand_uncompiled(source.graph, source.path)
    return source


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


def operator_key(node: Node) -> object:
    """What the nodes of one operator of a file have in common."""
    return node.name if node.origin is None else node.origin


def last_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The last node of every operator of a file."""
    return tuple({operator_key(node): node for node in nodes}.values())


@dataclass(frozen=True, repr=False)
class EdgeTpuCompilation(Displayed):
    """A model compiled for the Edge TPU.

    Attributes:
        data: the model with Edge TPU operators, as TFLite.
        source: the model as it was read.
        segments: parts on the chip, in order.
        placements: all groups of nodes in order, with the reasons of those that stay on the host.
        seconds: how long it took; of models that were compiled together, all of them.
    """

    DISPLAY: ClassVar[str] = "fitzroy.compilation.documents:displayed"

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
    def operators(self) -> tuple[Node, ...]:
        """All operators that are computed: the last node of each."""
        return last_nodes(self.graph.nodes())

    @property
    def mapped(self) -> tuple[Node, ...]:
        """Operators on the chip: the last node of each."""
        return last_nodes(node for item in self.segments for node in item.segment.nodes)

    @property
    def unmapped(self) -> tuple[Node, ...]:
        """Operators that stay on the host: the last node of each."""
        return last_nodes(
            node for item in self.placements if item.target != NAME for node in item.nodes
        )

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
    progress: Progress = lambda _: None,
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
    progress: Progress = lambda _: None,
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
    """
    start = time.perf_counter()
    sources = [prepared(source_of(model), generator, costs) for model in models]
    finished = _confirmed(sources, options, generator, costs, progress)
    fastest = _predicted(finished) if generator.alternatives else 0.0
    for number, search in enumerate(generator.alternatives, 1):
        progress(counted("variant", number, len(generator.alternatives)))
        variant = replace(generator, search=search)
        other = _confirmed(sources, options, variant, costs, lambda _: None)
        if (taken := _predicted(other)) < fastest:
            finished, fastest = other, taken
    seconds = time.perf_counter() - start
    return tuple(replace(result, seconds=seconds) for result in finished)


def _predicted(compiled: Sequence[EdgeTpuCompilation]) -> float:
    """Microseconds of an inference of each of some models, on the timing model's usual host."""
    return sum(predict(result.data, result.source.path).total for result in compiled)


def _confirmed(
    sources: Sequence[Source],
    options: LinkOptions | None,
    generator: Options,
    costs: Costs | None,
    progress: Progress,
) -> list[EdgeTpuCompilation]:
    """Compile models that share a chip; as published programs do where forms are unconfirmed."""
    try:
        return _together(sources, options, generator, costs, progress)
    except UnconfirmedError:
        if generator.conservative:
            raise
        # What published programs do has fewer forms that a probe must have confirmed.
        progress("compiling again, as published programs do")
        slower = replace(generator, conservative=True)
        return _together(sources, options, slower, costs, progress)


def _together(
    sources: Sequence[Source],
    options: LinkOptions | None,
    generator: Options,
    costs: Costs | None,
    progress: Progress,
) -> list[EdgeTpuCompilation]:
    """Compile models that share a chip, with the same options for all."""
    while True:
        models = [divided(source, generator, costs) for source in sources]
        lowered = lower_together(models, generator, costs, progress)
        corrections = [
            returned(source.graph, one.placements)
            for source, one in zip(sources, lowered, strict=True)
        ]
        if not any(corrections):
            break
        sources = [one.passed(passes) for one, passes in zip(sources, corrections, strict=True)]
    progress("linking")
    return linked_models(list(zip(sources, lowered, strict=True)), options, generator.confirmed)


def prepared(source: Source, generator: Options, costs: Costs | None) -> Source:
    """A model of which more runs on the chip, and less leaves it, where that is faster."""
    return source.passed(preparing(source.graph, generator, costs))


def divided(source: Source, generator: Options, costs: Costs | None) -> Divided:
    """A model, divided between chip and host by the rules of its operators."""
    placements = divide(source.graph, generator, costs)[1]
    return Divided(source.graph, source.path, tuple(placements))


def link_options(options: EdgeTpuOptions) -> LinkOptions:
    """How packages are linked.

    Raises:
        UsageError: there is no such runtime version.
    """
    return LinkOptions(generation=Generation.for_runtime(options.min_runtime_version))


def linked_models(
    models: Sequence[tuple[Source, OnChip]],
    options: LinkOptions | None = None,
    confirmed: frozenset[str] | None = None,
) -> list[EdgeTpuCompilation]:
    """The models of programs that share a chip.

    Args:
        models: models that have been read, and their programs.
        options: how the packages are linked.
        confirmed: forms that may be used beside published ones; None for all.

    Raises:
        LinkError: the programs cannot share a chip.
        UnconfirmedError: what the linker adds is neither published nor confirmed.
    """
    packages = link([part.object for _, lowered in models for part in lowered.parts], options)
    if confirmed is not None:
        from fitzroy.report.forms import instructions

        # The linker adds the programs that load parameters.
        every = (instruction for _, instruction in instructions(packages))
        refuse_unconfirmed(every, confirmed, "the linked program")
    rest = iter(packages)
    return [
        _finished(source, lowered, [next(rest) for _ in lowered.parts])
        for source, lowered in models
    ]


def _finished(
    source: Source, lowered: OnChip, packages: Sequence[PackageFile]
) -> EdgeTpuCompilation:
    """A model with the packages of its programs."""
    packages = [
        replace(package, source=digests_of(part.segment.graph))
        for part, package in zip(lowered.parts, packages, strict=True)
    ]
    model = custom_op.embed(
        source.model,
        [
            _embedded(part.segment, package)
            for part, package in zip(lowered.parts, packages, strict=True)
        ],
    )
    return EdgeTpuCompilation(
        tflite.write_model(attached(model, record_of(model, lowered.parts, packages))),
        source,
        tuple(map(_mapped, lowered.parts, packages)),
        lowered.placements,
        0.0,
    )


def _mapped(part: Part, package: PackageFile) -> MappedSegment:
    return MappedSegment(part.segment, part.object, package, part.forms)


def _embedded(segment: Segment, package: PackageFile) -> custom_op.Segment:
    return custom_op.Segment(
        operators_of(segment),
        tuple(segment.graph.inputs),
        tuple(segment.graph.outputs),
        package_pieces(package),
    )
