"""Programs that are made again from the record of their compilation, with other weights.

Compilation is deterministic: the same operators with the same options give the same program. Made
from a retrained source, it has the instructions of the compiled one and other parameters, at places
that are known and need no search. Whatever else differs would make another program: that is refused
by the name of the operator.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import CapacityError, LinkError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.base.version import VERSION
from fitzroy.compilation.records import generator_options
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Node
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment
from fitzroy.compiler.targets.edgetpu.patching.apply import PatchedOperand, PatchReport
from fitzroy.compiler.targets.edgetpu.patching.changes import RECOMPILE
from fitzroy.compiler.targets.edgetpu.patching.matching import ADJUSTABLE
from fitzroy.compiler.targets.edgetpu.patching.structure import FREEZE, title
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.compiler.targets.edgetpu.twin.source import digests_of
from fitzroy.formats.compilation_record import PackageRecord
from fitzroy.formats.darwinn import Executable, Layer, PackageFile
from fitzroy.formats.object_file import ObjectFile, Operand, OperandKind
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble, positions
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.linker.objects.assembly import executable_chunks
from fitzroy.linker.packages.container import chunk_bundles
from fitzroy.linker.packages.darwinn import LinkOptions, link
from fitzroy.linker.resolve.caching import Generation, segments_of

_MOST_NAMED = 5
"""Operators that an error names; the rest are counted."""


@dataclass(frozen=True)
class _Made:
    """A package that was made again.

    Attributes:
        package: the package.
        operands: its parameters, in the order of the blobs.
        emitted: its program by steps.
        nodes: the source's nodes by their names.
    """

    package: PackageFile
    operands: Sequence[Operand]
    emitted: Emitted
    nodes: dict[str, Node]

    def origin(self, operand: Operand) -> str:
        """The node that an operand belongs to: its name begins with that of the node.

        Small matrices belong to none, and have their own name.
        """
        name = operand.name or ""
        if operand.kind == OperandKind.MATRICES:
            return name
        return max((node for node in self.nodes if name.startswith(node)), key=len, default=name)

    def title(self, origin: str) -> str:
        """A node, for messages."""
        node = self.nodes.get(origin)
        return origin if node is None else title(node)


def remade(
    package: PackageFile,
    record: PackageRecord,
    producer: str,
    retrained: Source,
    original: Source | None = None,
) -> tuple[PackageFile, PatchReport]:
    """A package with the weights of a retrained source.

    Args:
        package: the compiled package; it is not changed.
        record: what the compiler knew of it.
        producer: version of the compiler that made it.
        retrained: the source after training.
        original: the source from which the package was compiled, to be checked, if it is given.

    Returns:
        The package with its earlier token, and what became of it.

    Raises:
        LinkError: the sources do not belong to the package, or the package was changed since.
        UnsupportedError: the retrained source needs another program; one diagnostic per operator.
    """
    if chunk_bundles(package) != record.bundles:
        raise LinkError(
            "the program is not the one that the compiler recorded",
            reason=f"its chunks have {_listed(chunk_bundles(package))} bundles, the recorded one "
            f"{_listed(record.bundles)}",
            where=package.path,
            hint=RECOMPILE,
        )
    if original is not None:
        _check_original(package, _make(package, record, original), original)
    made = _make(package, record, retrained)
    rejects = [*_layer_rejects(package.main, made.package.main)]
    changes = list(_changes(package.main, made))
    rejects += _instruction_rejects(made, changes)
    if rejects:
        other = f"version {producer} compiled the model, this is {VERSION}: {RECOMPILE}"
        raise UnsupportedError(
            f"{len(rejects)} operators need another program",
            rejects=rejects,
            where=package.path,
            hint="" if producer == VERSION else other,
        )
    return _spliced(package, made, changes)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(f"{number:,}" for number in numbers[:_MOST_NAMED])
    return shown + (f" and {len(numbers) - _MOST_NAMED} more" * (len(numbers) > _MOST_NAMED))


def _make(package: PackageFile, record: PackageRecord, source: Source) -> _Made:
    """The package of the recorded operators of a source, with parameters in the same rows.

    Raises:
        LinkError: the source has no such operators, or makes another program of them.
    """
    wanted = set(record.operators)
    nodes = [
        node
        for node in source.graph.nodes()
        if node.origin is not None and node.origin.index in wanted
    ]
    found = {node.origin.index for node in nodes if node.origin is not None}
    if found != wanted:
        raise LinkError(
            f"the source has no operator {min(wanted - found)}",
            reason=f"{len(wanted)} of its operators are in the compiled model, up to number "
            f"{max(wanted)}",
            where=source.path,
            hint="give the source of this model, trained again",
        )
    segment = Segment(source.graph.part(nodes), tuple(nodes))
    forms: list[Form] = []
    try:
        program = lower(segment.graph, generator_options(record.options), forms.append)
    except (CapacityError, UnsupportedError) as error:
        raise LinkError(
            "the source needs another program",
            reason=error.what + (f": {error.reason}" if error.reason else ""),
            where=source.path,
            hint=RECOMPILE,
        ) from None
    _move(program, package, source.path)
    token = package.main.parameter_caching_token
    generation = Generation.for_runtime(package.package.min_runtime_version)
    (linked,) = link([program], LinkOptions(generation, token or None))
    (emitted,) = (form for form in forms if isinstance(form, Emitted))
    operands = sorted(program.operands or (), key=lambda operand: not operand.runs)
    linked = dataclasses.replace(linked, source=digests_of(segment.graph))
    return _Made(linked, operands, emitted, {node.name: node for node in nodes})


def _move(program: ObjectFile, package: PackageFile, path: str) -> None:
    """Put parameters into the rows that the package has for them.

    Raises:
        LinkError: the package has other parameters.
    """
    runs = [(operand, run) for operand in program.operands or () for run in operand.runs or ()]
    segments = []
    if package.caching is not None:
        chunks = executable_chunks(package.caching, package.path)
        instructions = [item for chunk in chunks for item in chunk.instructions]
        segments = sorted(segments_of(instructions), key=lambda segment: segment.position)
    wanted = [(run.tile, run.words, run.units, operand.lanes) for operand, run in runs]
    held = [(item.tile, item.words, item.units, item.lanes) for item in segments]
    if wanted != held:
        raise LinkError(
            "the source has other parameters than the compiled model",
            reason=f"{len(wanted)} pieces of {sum(item[2] for item in wanted) * 64:,} bytes; the "
            f"model has {len(held)} of {sum(item[2] for item in held) * 64:,}",
            where=path,
            hint=RECOMPILE,
        )
    for (_, run), segment in zip(runs, segments, strict=True):
        run.row = segment.row


def _check_original(package: PackageFile, made: _Made, original: Source) -> None:
    """Check that the original source makes the very package.

    Raises:
        LinkError: it does not.
    """
    pairs = zip(package.executables, made.package.executables, strict=True)
    same = all(np.array_equal(_blob(a), _blob(b)) for a, b in pairs)
    if not same or any(_changes(package.main, made)):
        raise LinkError(
            "the compiled model was not made from this original",
            reason=f"its {'program' if same else 'weights'} would be others",
            where=original.path,
            hint="give the very source from which the model was compiled, or leave it out: the "
            "compiled model says what it was made of",
        )


def _blob(executable: Executable) -> Array:
    return np.zeros(0, np.uint8) if executable.parameters is None else executable.parameters


# --- comparing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """An instruction that is another now.

    Attributes:
        origin: the node that it belongs to.
        before: the instruction; None if the programs differ from there on.
        after: what the retrained source makes of it.
    """

    origin: str
    before: Instruction | None
    after: Instruction | None

    @property
    def fields(self) -> list[str]:
        """Names of the fields that differ; none if the instructions are of different kinds."""
        if self.before is None or self.after is None or type(self.before) is not type(self.after):
            return []
        return [
            item.name
            for item in dataclasses.fields(self.before)
            if getattr(self.before, item.name) != getattr(self.after, item.name)
        ]

    @property
    def adjusts(self) -> bool:
        """Whether only constants differ that depend on the weights and on nothing else."""
        fields = self.fields
        return isinstance(self.before, TensorOp) and bool(fields) and ADJUSTABLE.issuperset(fields)


def _streams(executable: Executable) -> list[bytes]:
    return [
        b"" if stream.bitstream is None else stream.bitstream.tobytes()
        for stream in executable.instruction_bitstreams or ()
    ]


def _changes(before: Executable, made: _Made) -> Iterator[_Change]:
    """Instructions of a program that are others in the one that was made again."""
    old, new = _streams(before), _streams(made.package.main)
    for number, (a, b) in enumerate(zip(old, new, strict=False)):
        if a == b:
            continue
        first = list(positions(disassemble(a)))
        second = list(positions(disassemble(b)))
        for (place, x), (other, y) in zip(first, second, strict=False):
            # Marks count bundles from after START.
            origin = made.emitted.origin(number, place - 1)
            if place != other or type(x) is not type(y):
                yield _Change(origin, None, None)
                return
            if x != y:
                yield _Change(origin, x, y)
        if len(first) != len(second):
            yield _Change("", None, None)
            return
    if len(old) != len(new):
        yield _Change("", None, None)


def _instruction_rejects(made: _Made, changes: Sequence[_Change]) -> Iterator[Diagnostic]:
    """What makes changes impossible, once for every operator."""
    told: set[str] = set()
    for change in changes:
        if change.adjusts or change.origin in told:
            continue
        told.add(change.origin)
        values = ", ".join(
            f"{name} is {getattr(change.before, name)} in the compiled model and "
            f"{getattr(change.after, name)} for the source"
            for name in change.fields
            if name not in ADJUSTABLE
        )
        yield Diagnostic(
            Severity.ERROR,
            "edgetpu-patch-activations",
            made.title(change.origin) or "the program",
            values or "its instructions are others",
            hint=FREEZE,
        )


def _layer_rejects(before: Executable, after: Executable) -> Iterator[Diagnostic]:
    """Inputs and outputs that have another type or quantization."""
    sides = (
        (before.input_layers or (), after.input_layers or ()),
        (before.output_layers or (), after.output_layers or ()),
    )
    for old, new in sides:
        if len(old) != len(new):
            yield Diagnostic(
                Severity.ERROR,
                "edgetpu-patch-activations",
                "the program",
                f"the source has {len(new)} inputs or outputs in place of {len(old)}",
                hint=RECOMPILE,
            )
            return
        for a, b in zip(old, new, strict=True):
            if _typed(a) != _typed(b):
                yield Diagnostic(
                    Severity.ERROR,
                    "edgetpu-patch-activations",
                    a.name or "",
                    "its type or quantization is another in the source",
                    hint=FREEZE,
                )


def _typed(layer: Layer) -> tuple[object, ...]:
    numerics = layer.numerics
    factor = 0.0 if numerics is None else float(np.float32(numerics.dequantization_factor))
    zero = 0 if numerics is None else numerics.zero_point
    return layer.element, layer.extent, layer.execution_count_per_inference, factor, zero


# --- carrying it out -----------------------------------------------------------------------------


def _spliced(
    package: PackageFile, made: _Made, changes: Sequence[_Change]
) -> tuple[PackageFile, PatchReport]:
    """The package with the parameters and constants of the one that was made again."""
    executables = []
    for old, new in zip(package.executables, made.package.executables, strict=True):
        copy = dataclasses.replace(old)
        if old.parameters is not None:
            copy.parameters = new.parameters
        if old is package.main and changes:
            copy.instruction_bitstreams = [
                dataclasses.replace(stream, bitstream=other.bitstream)
                for stream, other in zip(
                    old.instruction_bitstreams or (),
                    new.instruction_bitstreams or (),
                    strict=True,
                )
            ]
        executables.append(copy)
    token = package.main.parameter_caching_token
    operands = tuple(_patched_operands(package, made, changes))
    checked = tuple(title(node) for node in made.nodes.values())
    report = PatchReport(operands, (token, token), checked)
    source = made.package.source
    return dataclasses.replace(package, executables=executables, offsets=(), source=source), report


def _patched_operands(
    package: PackageFile, made: _Made, changes: Sequence[_Change]
) -> Iterator[PatchedOperand]:
    """What became of the parameters of every operand, and of the constants of its operator."""
    counts = Counter(change.origin for change in changes)
    constants = {change.origin: change for change in reversed(changes)}
    numbers = {id(item): number for number, item in enumerate(package.executables)}
    ends = [0] * len(package.executables)
    for operand in made.operands:
        holder = package.caching if operand.runs else package.main
        assert holder is not None
        assert operand.data is not None
        number, size = numbers[id(holder)], len(operand.data)
        begin = ends[number]
        ends[number] += size
        changed = int((_blob(holder)[begin : begin + size] != operand.data).sum())
        if operand.kind == OperandKind.MATRICES and not changed:
            # Factors of sums, for example: no operator has them as weights.
            continue
        origin = made.origin(operand)
        change = constants.pop(origin, None)
        yield PatchedOperand(
            made.title(origin),
            number,
            begin,
            size,
            changed,
            None,
            counts.pop(origin, 0),
            () if change is None else tuple(_constants(change)),
        )


def _constants(change: _Change) -> Iterator[tuple[str, float, float]]:
    for name in change.fields:
        yield name, getattr(change.before, name), getattr(change.after, name)
