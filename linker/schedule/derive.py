"""The host's script of a program, found by executing its scalar instructions.

Each buffer gets a base address of its own, the fields put it into the program, and the scalar
core's descriptors say which bytes of which buffer the host has to transfer. That is repeated with
other addresses: a program that adds offsets wrongly, or does something else depending on them, is
found out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fitzroy.base.errors import LinkError, SimulationError
from fitzroy.formats.darwinn import FIELD_BITS, Description, Executable
from fitzroy.hw_models.edgetpu.scalar import (
    STEP_BUDGET,
    ChunkStart,
    Descriptor,
    ScalarCore,
    UnknownValueError,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import disassemble, positions
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.linker.resolve.fields import (
    SPACING,
    AddressField,
    Buffer,
    address_fields,
    buffer_addresses,
    put_bits,
)
from fitzroy.linker.schedule.steps import (
    AwaitInterrupt,
    ReceiveOutput,
    ReceiveScratch,
    Script,
    SendInput,
    SendInstructions,
    SendParameters,
    SendScratch,
    Step,
    fenced,
    joined,
)


def derive_executable(
    executable: Executable, *, fences: bool = False, budget: int = STEP_BUDGET
) -> Script:
    """The host's script of an executable; `derive` says how, and what is raised.

    Raises:
        FormatError: a bitstream cannot be decoded.
    """
    return derive(_chunks(executable), address_fields(executable), fences=fences, budget=budget)


def followed(executable: Executable, budget: int = STEP_BUDGET) -> Script:
    """What an executable asks of a host that puts its buffers where `buffer_addresses` does.

    Unlike `derive_executable`, this says nothing of other addresses, and takes a third of the time.

    Args:
        executable: the executable.
        budget: most steps of the scalar core.

    Returns:
        As `derive`.

    Raises:
        FormatError: a bitstream cannot be decoded.
        LinkError: the program cannot be executed, or transfers something that is not in a buffer.
    """
    bases = buffer_addresses(executable)
    program = _Fields(_chunks(executable), address_fields(executable)).linked(bases)
    run = _run(program, bases, budget)
    return Script(_steps(run), run.deterministic)


def _chunks(executable: Executable) -> list[list[Instruction]]:
    return [
        disassemble(b"" if stream.bitstream is None else stream.bitstream.tobytes())
        for stream in executable.instruction_bitstreams or ()
    ]


_REACH = 1 << 32
"""Offsets of transfers lie below this."""

_MOST_ITEMS = 1 << 14
"""Most chunks and descriptors of a program; programs of compiled models have a few dozen."""

_LOW_HALVES = (0, 0x7FFF_FFC0, 0xFFFF_FFC0)
"""Low halves of the base addresses: without a carry, into the sign bit, into the high half."""


def derive(
    chunks: Sequence[Sequence[Instruction]],
    fields: Sequence[AddressField],
    *,
    fences: bool = False,
    budget: int = STEP_BUDGET,
) -> Script:
    """The host's script of a program.

    Transfers of adjacent bytes that follow each other are joined.

    Args:
        chunks: the program, before relocation.
        fields: where it needs addresses.
        fences: make the host wait before it sends scratch bytes that it has received before.
        budget: most steps of the scalar core.

    Returns:
        The script. If the program's course depends on data, the steps up to that point.

    Raises:
        LinkError: the program cannot be executed, transfers something that is not in a buffer, or
            does not do the same wherever the buffers are.
    """
    buffers = tuple(dict.fromkeys(field.buffer for field in fields))
    program = _Fields(chunks, fields)
    runs = []
    for turn, low in enumerate(_LOW_HALVES):
        # Other symbols get the higher addresses in every other turn.
        order = buffers if turn % 2 == 0 else buffers[::-1]
        bases = {buffer: index + 1 << SPACING | low for index, buffer in enumerate(order)}
        runs.append(_run(program.linked(bases), bases, budget))
    first = runs[0]
    for other in runs[1:]:
        _check_equal(first, other)
    steps = _steps(first)
    return Script(fenced(steps) if fences else steps, first.deterministic)


def _steps(run: _Run) -> tuple[Step, ...]:
    """What the host has to do for a run.

    Raises:
        LinkError: a transfer is not in a buffer that it can be about.
    """
    for item in run.items:
        if isinstance(item, _Transfer):
            _check_place(item)
    return joined([_step(item) for item in run.items])


class _Fields:
    """A program and the instructions that hold addresses."""

    def __init__(
        self, chunks: Sequence[Sequence[Instruction]], fields: Sequence[AddressField]
    ) -> None:
        self._chunks = chunks
        self._places: list[tuple[AddressField, int, int]] = []
        starts = [[bundle for bundle, _ in positions(chunk)] for chunk in chunks]
        for field in fields:
            if not 0 <= field.chunk < len(chunks):
                raise LinkError(f"a field in chunk {field.chunk}", reason=f"of {len(chunks)}")
            index = bisect_right(starts[field.chunk], field.bit // BUNDLE_BITS) - 1
            shift = field.bit - starts[field.chunk][index] * BUNDLE_BITS if index >= 0 else -1
            if shift < 0 or shift + FIELD_BITS > chunks[field.chunk][index].width:
                raise LinkError(
                    f"a field at bit {field.bit} of chunk {field.chunk}",
                    reason="the field is not inside an instruction",
                )
            self._places.append((field, index, shift))

    def linked(self, bases: Mapping[Buffer, int]) -> list[list[Instruction]]:
        """The program with addresses filled in."""
        chunks = [list(chunk) for chunk in self._chunks]
        for field, index, shift in self._places:
            chunk = chunks[field.chunk]
            address = bases[field.buffer]
            half = address >> FIELD_BITS * field.position & (1 << FIELD_BITS) - 1
            instruction = chunk[index]
            data = bytearray(instruction.pack().to_bytes(instruction.width // 8, "little"))
            put_bits(data, shift, FIELD_BITS, half)
            chunk[index] = type(instruction).unpack(int.from_bytes(data, "little"))
        return chunks


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A descriptor; its address is relative to `buffer`, or absolute without one."""

    chunk: int
    bundle: int
    tag: DescriptorTag
    buffer: Buffer | None
    offset: int
    size: int

    def __str__(self) -> str:
        place = "no buffer" if self.buffer is None else f"{self.buffer} + {self.offset}"
        return (
            f"chunk {self.chunk}, bundle {self.bundle}: {self.size} bytes of {place},"
            f" tag {self.tag.name}"
        )


_Item = ChunkStart | _Transfer


@dataclass(frozen=True, slots=True)
class _Run:
    items: tuple[_Item, ...]
    deterministic: bool


def _run(chunks: Sequence[Sequence[Instruction]], bases: Mapping[Buffer, int], budget: int) -> _Run:
    items: list[_Item] = []
    by_index = {base >> SPACING: (buffer, base) for buffer, base in bases.items()}
    try:
        for event in ScalarCore(budget=budget).run(chunks):
            if isinstance(event, ChunkStart):
                items.append(event)
            elif isinstance(event, Descriptor):
                buffer, base = by_index.get(event.address >> SPACING, (None, 0))
                if not 0 <= event.address - base < _REACH:
                    buffer, base = None, 0
                items.append(
                    _Transfer(
                        event.chunk, event.bundle, event.tag, buffer, event.address - base,
                        event.size,
                    )
                )  # fmt: skip
            if len(items) > _MOST_ITEMS:
                raise LinkError(
                    "the program asks the host for too much",
                    reason=f"more than {_MOST_ITEMS} chunks and transfers",
                    hint="transfer more bytes at a time",
                )
    except UnknownValueError:
        return _Run(tuple(items), deterministic=False)
    except SimulationError as error:
        raise LinkError("the program cannot be executed", reason=str(error)) from error
    return _Run(tuple(items), deterministic=True)


def _check_equal(one: _Run, other: _Run) -> None:
    if one == other:
        return
    reason = "its course, or an unknown word in it, does"
    for a, b in zip(one.items, other.items, strict=False):
        if a != b:
            reason = f"{a} with one set of addresses, {b} with another"
            break
    raise LinkError(
        "what the program transfers depends on where buffers are",
        reason=reason,
        hint="add offsets to both halves of an address, with carry",
    )


_BUFFERS = {
    DescriptorTag.INPUT: (
        Description.BASE_ADDRESS_INPUT_ACTIVATION, Description.BASE_ADDRESS_SCRATCH,
    ),
    DescriptorTag.PARAMETERS: (Description.BASE_ADDRESS_PARAMETER,),
    DescriptorTag.OUTPUT: (
        Description.BASE_ADDRESS_OUTPUT_ACTIVATION, Description.BASE_ADDRESS_SCRATCH,
    ),
}  # fmt: skip
"""Buffers that descriptors of a tag can be about; the others are interrupts."""


def _check_place(item: _Transfer) -> None:
    if item.tag not in _BUFFERS:
        if item.size:
            raise LinkError("an interrupt that transfers something", reason=str(item))
    elif item.buffer is None:
        raise LinkError(
            "a transfer that is not in any buffer",
            reason=f"{item}, address {item.offset:#x}",
            hint="every address needs fields for both of its halves",
        )
    elif item.buffer.desc not in _BUFFERS[item.tag]:
        raise LinkError("a transfer of the wrong buffer", reason=str(item))


def _step(item: _Item) -> Step:
    if isinstance(item, ChunkStart):
        return SendInstructions(item.chunk)
    buffer, offset, size = item.buffer, item.offset, item.size
    if buffer is None or item.tag not in _BUFFERS:
        return AwaitInterrupt(item.tag - DescriptorTag.INTERRUPT_0)
    match buffer.desc:
        case Description.BASE_ADDRESS_INPUT_ACTIVATION:
            return SendInput(buffer.name, buffer.batch, offset, size)
        case Description.BASE_ADDRESS_OUTPUT_ACTIVATION:
            return ReceiveOutput(buffer.name, buffer.batch, offset, size)
        case Description.BASE_ADDRESS_PARAMETER:
            return SendParameters(offset, size)
    return (
        SendScratch(offset, size)
        if item.tag is DescriptorTag.INPUT
        else ReceiveScratch(offset, size)
    )
