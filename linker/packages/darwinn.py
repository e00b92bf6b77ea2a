"""Links objects into DarwiNN packages.

For each object: parameters get rows of wide memory (`resolve.rows`), sections are selected and cut
into chunks, fixups are resolved or left to the driver as field offsets, the host's script is
derived by executing the scalar program (`schedule.derive`), and a PARAMETER_CACHING program is
generated for what stays on the chip (`resolve.caching`). Models that are linked together share
the chip's memory and one caching token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.errors import CapacityError, LinkError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import (
    Executable,
    ExecutableType,
    InstructionBitstream,
    Package,
    PackageFile,
    caching_token,
    check_runtime,
)
from fitzroy.formats.object_file import (
    Condition,
    ObjectFile,
    Operand,
    OperandKind,
    Part,
    Resources,
    SymbolKind,
    Text,
    check,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.program import (
    NOPS_AFTER_HALT,
    NUMBERED,
    assemble,
    chunk,
    disassemble,
    renumbered,
)
from fitzroy.hw_models.isa.scalar import Halt, Scalar
from fitzroy.linker.objects.symbols import Reference, field_of
from fitzroy.linker.resolve.caching import (
    CachingProgram,
    Generation,
    caching_program,
)
from fitzroy.linker.resolve.fields import put_bits
from fitzroy.linker.resolve.placement import Segment
from fitzroy.linker.resolve.rows import Allocation, allocate
from fitzroy.linker.schedule.derive import derive_executable
from fitzroy.linker.schedule.hints import to_hints

PRODUCER = "fitzroy"


@dataclass(frozen=True)
class LinkOptions:
    """What the user decides.

    Attributes:
        generation: lowest runtime version that the packages ask for, and the form of generated
            programs.
        token: caching token of all packages; made from the parameters if None.
        budget: most steps of the scalar core to execute for a program's script.
    """

    generation: Generation = Generation.RUNTIME_14
    token: int | None = None
    budget: int = STEP_BUDGET


def link(objects: Sequence[ObjectFile], options: LinkOptions | None = None) -> list[PackageFile]:
    """Link models that share a chip.

    Args:
        objects: one per model; the first ones get memory first.
        options: what the user decides.

    Returns:
        A package for each object. With parameters on the chip it has an EXECUTION_ONLY and a
        PARAMETER_CACHING executable, else a STAND_ALONE one. All have one token, which is 0 if
        nothing stays on the chip: loading one model leaves the parameters of the others alone.

    Raises:
        LinkError: an object that makes no program.
        CapacityError: parameters or instructions that do not fit.
        FormatError: an inconsistent object.
    """
    options = options or LinkOptions()
    if not objects:
        raise LinkError("there is nothing to link", hint="give one object per model")
    for obj in objects:
        check(obj, obj.name or "")
        _check_narrow(obj)
    allocations = allocate(objects)
    plans = [_Plan(obj, allocation) for obj, allocation in zip(objects, allocations, strict=True)]
    token = options.token
    if token is None:
        blobs = [blob for plan in plans if len(blob := plan.blob(cached=True))]
        token = caching_token(blobs) if blobs else 0
    return [_package(plan, token, options) for plan in plans]


def _check_narrow(obj: ObjectFile) -> None:
    used = obj.resources.narrow_bytes if obj.resources is not None else 0
    if used > BEAGLE.memories.narrow.size:
        raise CapacityError(
            "activations do not fit on the chip",
            reason=f"{used} bytes of narrow memory per tile are needed, a tile has "
            f"{BEAGLE.memories.narrow.size}",
            where=obj.name or "",
            hint="compile the model for smaller inputs, or in parts",
        )


@dataclass
class _Plan:
    """An object and what was decided for it."""

    object: ObjectFile
    allocation: Allocation
    bases: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.bases = {}
        position = 0
        for operand in self.operands(cached=False):
            self.bases[operand.name or ""] = position
            position += len(_data(operand))

    def operands(self, *, cached: bool) -> list[Operand]:
        """Operands that stay on the chip, or those that are streamed."""
        return [
            operand
            for operand in self.object.operands or ()
            if ((operand.name or "") in self.allocation.cached) == cached
        ]

    def blob(self, *, cached: bool) -> Array:
        """Their parameters."""
        parts = [_data(operand) for operand in self.operands(cached=cached)]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def segments(self) -> Iterator[Segment]:
        """Rows of the operands that stay on the chip."""
        position = 0
        for number, operand in enumerate(self.operands(cached=True)):
            separate = operand.kind == OperandKind.FULLY_CONNECTED
            for run in operand.runs or ():
                yield Segment(
                    operand=number,
                    tile=run.tile,
                    row=self.allocation.row(run),
                    words=run.words,
                    lanes=operand.lanes,
                    position=position,
                    units=run.units,
                    prefix_words=operand.prefix if separate else 0,
                )
                position += run.units

    def value(self, number: int, part: Part) -> int:
        """What a symbol stands for, for a part that the linker knows."""
        symbol = (self.object.symbols or [])[number]
        name = symbol.name or ""
        if part is Part.OFFSET:
            if name not in self.bases:
                raise LinkError(
                    f"the program streams {name}, which stays on the chip",
                    where=self.object.name or "",
                    hint="put such instructions into a section with the condition STREAMED",
                )
            return self.bases[name]
        if name not in self.allocation.cached:
            raise LinkError(
                f"the program reads rows of {name}, which is streamed",
                where=self.object.name or "",
                hint="put such instructions into a section with the condition CACHED",
            )
        operand = next(item for item in self.object.operands or () if item.name == name)
        run = next(run for run in operand.runs or () if run.group == symbol.batch)
        row = self.allocation.row(run)
        return 4 * row if part is Part.QUARTER_ROW else row

    def selected(self, text: Text) -> bool:
        """Whether a section is part of the program."""
        if text.condition == Condition.ALWAYS:
            return True
        operand = (self.object.operands or [])[text.operand]
        cached = (operand.name or "") in self.allocation.cached
        return cached == (text.condition == Condition.CACHED)


def _data(operand: Operand) -> Array:
    return np.zeros(0, np.uint8) if operand.data is None else operand.data


@dataclass
class _Chunk:
    """Bundles of a chunk without START and END, and the fields that are left to the driver."""

    code: bytearray = field(default_factory=bytearray)
    fields: list[tuple[int, Reference]] = field(default_factory=list)


def _chunks(plan: _Plan) -> Iterator[_Chunk]:
    """Chunks of the program, cut where a section ends one or the next would be too long."""
    most = (BEAGLE.limits.chunk_bundles - 2) * BUNDLE_BYTES
    halt = assemble([Halt(), *[Scalar()] * NOPS_AFTER_HALT])
    current = _Chunk()
    for number, text in enumerate(plan.object.text or ()):
        if not plan.selected(text):
            continue
        section = _resolved(plan, text)
        if current.code and len(current.code) + len(section.code) + len(halt) > most:
            current.code += halt
            yield current
            current = _Chunk()
        if len(section.code) > most:
            raise LinkError(
                f"section {number} is longer than the instruction memory",
                reason=f"{len(section.code) // BUNDLE_BYTES} bundles, a chunk has at most "
                f"{most // BUNDLE_BYTES}",
                where=plan.object.name or "",
                hint="split it where the program may continue in another chunk",
            )
        base = 8 * len(current.code)
        current.code += section.code
        current.fields += [(base + bit, reference) for bit, reference in section.fields]
        if text.ends_chunk:
            yield current
            current = _Chunk()
    if current.code:
        yield current


def _resolved(plan: _Plan, text: Text) -> _Chunk:
    """A section with the values that the linker knows."""
    result = _Chunk(bytearray() if text.code is None else bytearray(text.code))
    symbols = plan.object.symbols or []
    for fixup in text.fixups or ():
        part = Part(fixup.part)
        symbol = symbols[fixup.symbol]
        if part in (Part.LOW, Part.HIGH):
            kind = SymbolKind(symbol.kind)
            result.fields.append(
                (fixup.bit, Reference(part, kind, symbol.name or "", symbol.batch))
            )
            continue
        value = plan.value(fixup.symbol, part) + fixup.addend
        if value >> fixup.width:
            raise LinkError(
                f"{part.name.lower()} {value} of {symbol.name} does not fit its field",
                reason=f"it has {fixup.width} bits",
                where=plan.object.name or "",
            )
        put_bits(result.code, fixup.bit, fixup.width, value)
    return result


def _package(plan: _Plan, token: int, options: LinkOptions) -> PackageFile:
    segments = list(plan.segments())
    kind = ExecutableType.EXECUTION_ONLY if segments else ExecutableType.STAND_ALONE
    streams = []
    first = 0
    for part in _chunks(plan):
        body = list(renumbered(disassemble(part.code), first))
        first = first + sum(isinstance(item, NUMBERED) for item in body) & 0xFFFF
        streams.append(_stream(chunk(body), part.fields))
    if not streams:
        raise LinkError("the program is empty", where=plan.object.name or "")
    needs = plan.object.resources or Resources()
    streamed = plan.blob(cached=False)
    main = Executable(
        name=plan.object.name,
        chip=plan.object.chip,
        batch_size=needs.batch_size,
        scratch_size_bytes=needs.scratch_bytes,
        instruction_bitstreams=streams,
        parameters=streamed if len(streamed) else None,
        input_layers=list(plan.object.inputs or ()),
        output_layers=list(plan.object.outputs or ()),
        used_narrow_memory_bytes_per_tile=needs.narrow_bytes,
        estimated_cycles_64bit=needs.estimated_cycles,
        type=int(kind),
        parameter_caching_token=token,
    )
    script = derive_executable(main, budget=options.budget)
    main.dma_hints = to_hints(script)
    executables = [main]
    if segments:
        program = caching_program(segments, generation=options.generation)
        executables.append(_caching(plan, program, token))
    package = Package(
        min_runtime_version=int(options.generation),
        compiler_version=PRODUCER,
    )
    result = PackageFile(package=package, executables=executables)
    check_runtime(result)
    return result


def _stream(
    instructions: Sequence[Instruction], fields: Sequence[tuple[int, Reference]]
) -> InstructionBitstream:
    """A chunk; `fields` count bits from behind START."""
    return InstructionBitstream(
        bitstream=np.frombuffer(assemble(instructions), np.uint8),
        field_offsets=[field_of(reference, BUNDLE_BITS + bit).offset() for bit, reference in fields]
        or None,
    )


def _caching(plan: _Plan, program: CachingProgram, token: int) -> Executable:
    """The executable that loads the parameters of a model."""
    needs = plan.object.resources or Resources()
    result = Executable(
        name=plan.object.name,
        chip=plan.object.chip,
        batch_size=needs.batch_size,
        instruction_bitstreams=[
            InstructionBitstream(
                bitstream=np.frombuffer(assemble(program.instructions), np.uint8),
                field_offsets=[field.offset() for field in program.fields],
            )
        ],
        parameters=plan.blob(cached=True),
        type=int(ExecutableType.PARAMETER_CACHING),
        parameter_caching_token=token,
    )
    result.dma_hints = to_hints(derive_executable(result))
    return result
