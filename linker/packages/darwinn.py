"""Links objects into DarwiNN packages.

For each object: parameters get rows of wide memory (`resolve.rows`), sections are selected and cut
into chunks, fixups are allocated or left to the driver as field offsets, the host's script is
derived by executing the scalar program (`schedule.derive`), and a PARAMETER_CACHING program is
generated for what stays on the chip (`resolve.caching`). Models that are linked together share
the chip's memory and one caching token.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.errors import CapacityError, LinkError, UsageError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import (
    DataType,
    Executable,
    ExecutableType,
    Layer,
    OutputLayer,
    Package,
    PackageFile,
    caching_token,
    check_runtime,
)
from fitzroy.formats.object_file import (
    UNIT_BYTES,
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
from fitzroy.hw_models.edgetpu.output_layouts import output_layout
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, BUNDLE_BYTES
from fitzroy.hw_models.isa.program import (
    NOPS_AFTER_HALT,
    NUMBERED,
    assemble,
    bundle_count,
    chunk,
    disassemble,
    jump_target,
    next_seq,
    positions,
    renumbered,
)
from fitzroy.hw_models.isa.scalar import Halt, Scalar
from fitzroy.linker.objects.symbols import Reference, field_of
from fitzroy.linker.resolve.caching import (
    CachingProgram,
    Generation,
    caching_program,
    prologue,
)
from fitzroy.linker.resolve.fields import bitstream, put_bits
from fitzroy.linker.resolve.rows import Allocation, allocate
from fitzroy.linker.resolve.segments import Segment
from fitzroy.linker.schedule.derive import derive_executable
from fitzroy.linker.schedule.hints import to_hints
from fitzroy.linker.schedule.steps import (
    AwaitInterrupt,
    ReceiveOutput,
    ReceiveScratch,
    Script,
    SendInput,
    SendParameters,
    SendScratch,
)

PRODUCER = "fitzroy"

_MOST_ELEMENTS = 1 << 26
"""Largest output that gets a layout here: far beyond what the chip could compute."""

_INPUT_UNIT = BEAGLE.memories.activation_buffer.element_bytes
# The scalar core pushes single words.
_OUTPUT_UNIT = BEAGLE.memories.scalar.element_bytes


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
        if obj.chip != BEAGLE.name:
            raise LinkError(
                f"the object is for the chip {obj.chip!r}",
                reason=f"{BEAGLE.name} is known",
                where=obj.name or "",
            )
        _check_narrow(obj)
    allocations = allocate(objects)
    all_allocated = [
        _Allocated(obj, allocation) for obj, allocation in zip(objects, allocations, strict=True)
    ]
    token = options.token
    if token is not None and not 0 < token < 1 << 64:
        raise UsageError(
            f"caching token {token}", reason="tokens are numbers of 64 bits other than 0"
        )
    if token is None:
        blobs = [blob for allocated in all_allocated if len(blob := allocated.blob(cached=True))]
        token = caching_token(blobs) if blobs else 0
    return [_package(allocated, token, options) for allocated in all_allocated]


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
class _Allocated:
    """An object and what was decided for it."""

    object: ObjectFile
    allocation: Allocation
    bases: dict[str, int] = field(init=False)
    rows: dict[tuple[str, int], int] = field(init=False)
    streamed: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = {}
        for operand in self.operands(cached=True):
            for run in operand.runs or ():
                self.rows.setdefault((operand.name or "", run.group), self.allocation.row(run))
        self.bases = {}
        position = 0
        for operand in self.operands(cached=False):
            self.bases[operand.name or ""] = position
            position += len(_data(operand))
        self.streamed = position

    def operands(self, *, cached: bool) -> list[Operand]:
        """Operands that stay on the chip, or those that are streamed."""
        return [
            operand
            for operand in self.object.operands or ()
            if ((operand.name or "") in self.allocation.cached) == cached
        ]

    def blob(self, *, cached: bool) -> Array:
        """Parameters that stay on the chip, or those that are sent with every inference.

        Of the latter, those of shared rows come last.
        """
        parts = list(self._held(shared=not cached))
        if not cached:
            parts = [*map(_data, self.operands(cached=False)), *parts]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def share(self, streamed: Array) -> None:
        """Let the object have its streamed parameters where the package has them: they are large.

        Args:
            streamed: parameters that are sent with every inference.
        """
        for operand in self.operands(cached=False):
            first = self.bases[operand.name or ""]
            operand.data = streamed[first : first + len(_data(operand))]

    def _held(self, *, shared: bool) -> Iterator[Array]:
        """Parameters of runs in rows of their own, or in shared ones."""
        for operand in self.operands(cached=True):
            data, end = _data(operand), 0
            for index, run in enumerate(operand.runs or ()):
                begin, end = end, end + run.units * UNIT_BYTES
                if self._is_shared(operand, index) == shared:
                    yield data[begin:end]

    def _is_shared(self, operand: Operand, index: int) -> bool:
        return (operand.name or "", index) in self.allocation.shared

    def segments(self, *, shared: bool = False) -> Iterator[Segment]:
        """Rows of the operands that stay on the chip, or that others have as well."""
        position = 0
        for number, operand in enumerate(self.operands(cached=True)):
            separate = operand.kind == OperandKind.FULLY_CONNECTED
            for index, run in enumerate(operand.runs or ()):
                if self._is_shared(operand, index) != shared:
                    continue
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
        row = self.rows[name, symbol.batch]
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


def _chunks(allocated: _Allocated) -> Iterator[_Chunk]:
    """Chunks of the program, cut where a section ends one or the next would be too long."""
    most = (BEAGLE.limits.chunk_bundles - 2) * BUNDLE_BYTES
    halt = assemble([Halt(), *[Scalar()] * NOPS_AFTER_HALT])
    texts = [text for text in allocated.object.text or () if allocated.selected(text)]
    current = _Chunk()
    for number, text in enumerate(texts):
        section = _resolved(allocated, text)
        # What is not the end of a chunk needs room for one.
        tail = 0 if text.ends_chunk or number == len(texts) - 1 else len(halt)
        if len(section.code) + tail > most:
            raise CapacityError(
                f"section {number} is longer than the instruction memory",
                reason=f"{(len(section.code) + tail) // BUNDLE_BYTES} bundles, a chunk has at most "
                f"{most // BUNDLE_BYTES}",
                where=allocated.object.name or "",
                hint="split it where the program may continue in another chunk",
            )
        if current.code and len(current.code) + len(section.code) + tail > most:
            current.code += halt
            yield current
            current = _Chunk()
        base = 8 * len(current.code)
        current.code += section.code
        current.fields += [(base + bit, reference) for bit, reference in section.fields]
        if text.ends_chunk:
            yield current
            current = _Chunk()
    if current.code:
        yield current


def _resolved(allocated: _Allocated, text: Text) -> _Chunk:
    """A section with the values that the linker knows.

    Raises:
        LinkError: a value that does not fit its field, or a jump to another section, which may be
            left out or in another chunk.
    """
    result = _Chunk(bytearray() if text.code is None else bytearray(text.code))
    program = disassemble(result.code)
    size = bundle_count(program)
    for bundle, instruction in positions(program):
        target = jump_target(bundle, instruction)
        if target is not None and not 0 <= target <= size:
            raise LinkError(
                f"{instruction.op.name.lower()} at bundle {bundle} of a section leaves it",
                reason=f"its target is {target}, the section has {size} bundles",
                where=allocated.object.name or "",
            )
    symbols = allocated.object.symbols or []
    for fixup in text.fixups or ():
        part = Part(fixup.part)
        symbol = symbols[fixup.symbol]
        if part in (Part.LOW, Part.HIGH):
            kind = SymbolKind(symbol.kind)
            result.fields.append(
                (fixup.bit, Reference(part, kind, symbol.name or "", symbol.batch))
            )
            continue
        value = allocated.value(fixup.symbol, part) + fixup.addend
        if value >> fixup.width:
            raise LinkError(
                f"{part.name.lower()} {value} of {symbol.name} does not fit its field",
                reason=f"it has {fixup.width} bits",
                where=allocated.object.name or "",
            )
        put_bits(result.code, fixup.bit, fixup.width, value)
    return result


def _package(allocated: _Allocated, token: int, options: LinkOptions) -> PackageFile:
    segments = list(allocated.segments())
    kind = ExecutableType.EXECUTION_ONLY if segments else ExecutableType.STAND_ALONE
    streams = []
    first = 0
    shared = list(allocated.segments(shared=True))
    if shared:
        loading = prologue(shared, allocated.streamed, generation=options.generation)
        streams.append(bitstream(loading.instructions, loading.fields))
        first = next_seq(0, sum(isinstance(item, NUMBERED) for item in loading.instructions))
        _check_length(loading, allocated.object.name or "")
    for part in _chunks(allocated):
        body = list(renumbered(disassemble(part.code), first))
        first = next_seq(first, sum(isinstance(item, NUMBERED) for item in body))
        # Fields of a chunk are counted from after START.
        fields = [field_of(reference, BUNDLE_BITS + bit) for bit, reference in part.fields]
        streams.append(bitstream(chunk(body), fields))
    if len(streams) == bool(shared):
        raise LinkError("the program is empty", where=allocated.object.name or "")
    needs = allocated.object.resources or Resources()
    streamed = allocated.blob(cached=False)
    allocated.share(streamed)
    main = Executable(
        name=allocated.object.name,
        chip=allocated.object.chip,
        batch_size=needs.batch_size,
        scratch_size_bytes=needs.scratch_bytes,
        instruction_bitstreams=streams,
        parameters=streamed if len(streamed) else None,
        input_layers=list(allocated.object.inputs or ()),
        output_layers=[_laid_out(layer) for layer in allocated.object.outputs or ()],
        used_narrow_memory_bytes_per_tile=needs.narrow_bytes,
        estimated_cycles_64bit=needs.estimated_cycles,
        type=int(kind),
        parameter_caching_token=token,
    )
    main.dma_hints = to_hints(_script(main, allocated.object.name or "", options.budget))
    executables = [main]
    if segments:
        program = caching_program(segments, generation=options.generation)
        executables.append(_caching(allocated, program, token))
    package = Package(
        min_runtime_version=int(options.generation),
        compiler_version=PRODUCER,
    )
    result = PackageFile(package=package, executables=executables)
    check_runtime(result)
    return result


def _check_length(loading: CachingProgram, where: str) -> None:
    """Check that a chunk that loads parameters fits in the instruction memory.

    Raises:
        CapacityError: it does not.
    """
    size = bundle_count(loading.instructions)
    if size > BEAGLE.limits.chunk_bundles:
        raise CapacityError(
            "what the models share is in too many pieces",
            reason=f"loading them takes {size} bundles, a chunk has {BEAGLE.limits.chunk_bundles}",
            where=where,
            hint="link fewer models together",
        )


def _laid_out(layer: Layer) -> Layer:
    """An output with the layout that an even split over the tiles gives, unless it has one."""
    kind = layer.any_layer
    if not isinstance(kind, OutputLayer) or kind.layout is not None or kind.shape_info is not None:
        return layer
    if layer.data_type not in [int(known) for known in DataType]:
        raise LinkError(f"output {layer.name!r} has elements of unknown type {layer.data_type}")
    if min(layer.extent) < 1 or math.prod(layer.extent) > _MOST_ELEMENTS:
        raise LinkError(
            f"output {layer.name!r} has {' x '.join(map(str, layer.extent))} elements",
            reason=f"at least one along each axis and at most {_MOST_ELEMENTS} can be laid out",
        )
    layout, size = output_layout(layer.extent, layer.element.itemsize)
    return replace(layer, any_layer=replace(kind, layout=layout), size_bytes=size)


def _script(executable: Executable, where: str, budget: int) -> Script:
    """The host's script of a program, if a host can follow it.

    Raises:
        LinkError: a transfer outside its buffer or of broken units, or not one interrupt at the
            end.
    """
    script = derive_executable(executable, fences=True, budget=budget)
    inputs, outputs = executable.inputs, executable.outputs
    for step in script.steps:
        match step:
            case SendInput():
                room, unit = _room(inputs[step.name]), _INPUT_UNIT
            case ReceiveOutput():
                room, unit = _room(outputs[step.name]), _OUTPUT_UNIT
            case SendParameters():
                held = executable.parameters
                room, unit = 0 if held is None else len(held), UNIT_BYTES
            case SendScratch() | ReceiveScratch():
                room, unit = executable.scratch_size_bytes, 1
            case _:
                continue
        if step.offset < 0 or step.offset + step.size > room or step.size % unit or not step.size:
            raise LinkError(
                f"the program transfers {step.size} bytes from {step.offset}: {step}",
                reason=f"the buffer has {room} bytes, and transfers are multiples of {unit}",
                where=where,
            )
    interrupts = [step for step in script.steps if isinstance(step, AwaitInterrupt)]
    if script.deterministic and (
        len(interrupts) != 1 or interrupts[0].number or script.steps[-1] is not interrupts[0]
    ):
        raise LinkError(
            "the program does not end with interrupt 0",
            reason=f"it has {len(interrupts)} interrupts",
            where=where,
            hint="the host takes a request for complete when interrupt 0 arrives",
        )
    return script


def _room(layer: Layer) -> int:
    return layer.size_bytes * layer.execution_count_per_inference


def _caching(allocated: _Allocated, program: CachingProgram, token: int) -> Executable:
    """The executable that loads the parameters of a model."""
    needs = allocated.object.resources or Resources()
    result = Executable(
        name=allocated.object.name,
        chip=allocated.object.chip,
        batch_size=needs.batch_size,
        instruction_bitstreams=[bitstream(program.instructions, program.fields)],
        parameters=allocated.blob(cached=True),
        type=int(ExecutableType.PARAMETER_CACHING),
        parameter_caching_token=token,
    )
    result.dma_hints = to_hints(_script(result, allocated.object.name or "", STEP_BUDGET))
    return result
