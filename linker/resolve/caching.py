"""Programs that load parameters into wide memory, written and read.

A PARAMETER_CACHING program asks the host for the whole blob, pops it into the parameter buffer and
sends each run of rows to the tile that keeps it: one ring consumer and one infeed per segment.
`caching_program` writes it, `segments_of` recovers the segments from any compiled one, and
`wide_memory` tells what it leaves in the tiles. `streamed_segments` shows which units of its
parameters a program sends to which tiles while it computes.

Facts: all PARAMETER_CACHING programs of published compiled models, reproduced byte for byte from
their segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

import numpy as np

from fitzroy.base.errors import FormatError, LinkError, UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import Description, Position
from fitzroy.hw_models.isa.counters import nearest, signed16
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    SCALAR_FLAGS,
    STREAM_ENGINES,
    TILE_ENGINES,
    TILE_FLAGS,
    Opcode,
    Producer,
    ScalarFlag,
    Watcher,
)
from fitzroy.hw_models.isa.fields import TILES as TILE_SETS
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.macros import AddressRegisters, add_to_address, with_immediate
from fitzroy.hw_models.isa.program import NOPS_AFTER_HALT, chunk, positions, renumbered
from fitzroy.hw_models.isa.ring import RingConsume
from fitzroy.hw_models.isa.scalar import (
    Alu,
    Branch,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Pop, PopMemory
from fitzroy.hw_models.isa.traversal import Prefix, traversal
from fitzroy.hw_models.isa.units import (
    MOST_PARAMETER_INFEEDS,
    PARAMETER_BUFFER,
    UnitForm,
    infeed_units,
    pop_units,
)
from fitzroy.hw_models.parameters import BLOB_ALIGNMENT, WIDE_ROW_BYTES
from fitzroy.linker.resolve.fields import AddressField, Buffer
from fitzroy.linker.resolve.segments import (
    LANE_BYTES,
    TILES,
    WIDE_ROWS,
    Segment,
    segment_words,
)

_TILES = TILE_SETS.parse("all")
_TILE_FLAGS = TILE_FLAGS.parse("all")
_LOCAL_FLAGS = TILE_FLAGS.parse("local")
_ENGINES = TILE_ENGINES.parse("all")
_SCALAR_FLAGS = SCALAR_FLAGS.parse("all")
_STREAM_ENGINES = STREAM_ENGINES.parse("all")
_RING_ENGINES = STREAM_ENGINES.parse("infeed+outfeed")
_HOST_ENGINES = STREAM_ENGINES.parse("avdata_pop+infeed+outfeed")
_RING_TOKENS = SCALAR_FLAGS.parse("producer_a+producer_b")
_CREDIT = SCALAR_FLAGS.parse("parameter_infeed")


class Generation(IntEnum):
    """Which runtime version a program is written for; later runtimes execute all of them."""

    RUNTIME_10 = 10
    """Also 11."""

    RUNTIME_12 = 12
    """Also 13."""

    RUNTIME_14 = 14

    @classmethod
    def for_runtime(cls, version: int) -> Generation:
        """The latest generation that a runtime executes.

        Raises:
            UsageError: there is no such runtime.
        """
        if not min(cls) <= version <= max(cls):
            raise UsageError(
                f"there is no form of programs for runtime {version}",
                reason=f"there are forms for {min(cls):d} to {max(cls):d}",
            )
        return max(item for item in cls if item <= version)


@dataclass(frozen=True, slots=True)
class _Style:
    """What differs between generations, without effect on what a program does.

    Attributes:
        first_register: descriptors are made in registers from this one on.
        additions: addresses are copied by 64-bit additions of 0.
        older_fences: the opening resets flags without waiting for tiles; scratch memory has a base
            address; the buffer is granted by presetting PARAMETER_INFEED, not by a threshold.
        older_consumers: consumers count prefixes and mark loops that run once.
        first_seq: number of the first tile instruction.
        units: form of short stream traversals.
    """

    first_register: int
    additions: bool
    older_fences: bool
    older_consumers: bool
    first_seq: int
    units: UnitForm


_STYLES = {
    Generation.RUNTIME_10: _Style(4, True, True, True, 0, UnitForm.SINGLE),
    Generation.RUNTIME_12: _Style(2, True, False, False, 0x8000, UnitForm.BLOCKS),
    Generation.RUNTIME_14: _Style(2, False, False, False, 0x8000, UnitForm.BLOCKS),
}


@dataclass(frozen=True, slots=True)
class CachingProgram:
    """A PARAMETER_CACHING program of one chunk.

    Attributes:
        instructions: the chunk.
        fields: where addresses go.
        size: bytes of the blob that it loads.
    """

    instructions: tuple[Instruction, ...]
    fields: tuple[AddressField, ...]
    size: int


# --- writing -------------------------------------------------------------------------------------


def caching_program(
    segments: Sequence[Segment], *, generation: Generation = Generation.RUNTIME_14
) -> CachingProgram:
    """The program that loads segments into wide memory.

    Consumers of an operand come before its infeeds, so that all of its tiles are ready; an operand
    that uses a tile repeatedly is loaded in as many passes, because a tile holds back only one
    instruction. The scalar core waits where too many infeeds would wait.

    Args:
        segments: rows of one model, in order of the blob.
        generation: whose form the program has.

    Raises:
        LinkError: no segments, segments out of order, or rows outside of wide memory or used twice.
    """
    style = _STYLES[generation]
    body = [*_loading(segments, 0, style), *_closing(style)]
    return _program(list(renumbered(body, style.first_seq)), segments, style)


def prologue(
    segments: Sequence[Segment], offset: int, *, generation: Generation = Generation.RUNTIME_14
) -> CachingProgram:
    """The first chunk of a program that loads segments with every inference.

    Args:
        segments: rows of one model, in order of the parameters.
        offset: where in the parameters of the program those of the segments begin, in bytes.
        generation: whose form the chunk has.

    Raises:
        LinkError: as for `caching_program`.
    """
    style = _STYLES[generation]
    body = [*_loading(segments, offset, style), *_settled(), Halt(), *[Scalar()] * NOPS_AFTER_HALT]
    return _program(list(renumbered(body, 0)), segments, style)


def _program(body: list[Instruction], segments: Sequence[Segment], style: _Style) -> CachingProgram:
    instructions = chunk(body)
    size = sum(segment.units for segment in segments) * BLOB_ALIGNMENT
    return CachingProgram(tuple(instructions), tuple(_fields(instructions, style)), size)


def _loading(segments: Sequence[Segment], offset: int, style: _Style) -> Iterator[Instruction]:
    """Reset everything, and load segments from an offset of the parameters on."""
    check_segments(segments)
    units = sum(segment.units for segment in segments)
    yield from _opening(style)
    yield from (_move(register, 0) for register in _addresses(style))
    made, partial = _made(style), style.first_register + 2
    if offset:
        yield from add_to_address(_BASE, made, offset, partial=partial, guarded=style.older_fences)
    else:
        yield from _copy_address(_BASE, made, partial, style)
    yield from _issue(units * BLOB_ALIGNMENT, DescriptorTag.PARAMETERS, style)
    yield from _pop(units, style)
    waiting = 0
    for group in _groups(segments):
        waiting += len(group)
        if waiting > MOST_PARAMETER_INFEEDS:
            yield _wait_for_infeeds(style)
            waiting = len(group)
        yield from (_consume(segment, style) for segment in group)
        yield from (_infeed(segment, style) for segment in group)


def check_segments(segments: Sequence[Segment]) -> None:
    """Check that segments are the rows of one blob, in its order.

    Raises:
        LinkError: no segments, units of the blob left out, repeated or out of order, another
            number of rows than the units fill, or rows outside of wide memory or used twice.
    """
    if not segments:
        raise LinkError("no parameters to load", hint="leave out the PARAMETER_CACHING executable")
    position = 0
    rows: dict[int, list[Segment]] = {}
    for segment in segments:
        if segment.units < 1 or segment.position != position:
            raise LinkError(
                f"a segment of tile {segment.tile} begins at unit {segment.position} of the blob "
                f"and has {segment.units}",
                reason=f"segments before it end at unit {position}",
            )
        position += segment.units
        expected = segment_words(segment.units, segment.lanes)
        if segment.words != expected or not 0 <= segment.prefix_words < segment.words:
            raise LinkError(
                f"a segment of tile {segment.tile} has {segment.words} rows, "
                f"{segment.prefix_words} of them prefix",
                reason=f"its {segment.units} units fill {expected} rows of {segment.lanes} lanes",
            )
        if not (0 <= segment.tile < TILES and segment.row >= 0 and segment.end <= WIDE_ROWS):
            raise LinkError(
                f"a segment in rows {segment.row} to {segment.end - 1} of tile {segment.tile}",
                reason=f"there are {TILES} tiles of {WIDE_ROWS} rows",
            )
        rows.setdefault(segment.tile, []).append(segment)
    for tile, here in rows.items():
        here.sort(key=lambda segment: segment.row)
        for one, other in pairwise(here):
            if other.row < one.end:
                raise LinkError(
                    f"row {other.row} of tile {tile} is used twice",
                    reason=f"segments {one.row} to {one.end - 1} and {other.row} to "
                    f"{other.end - 1}",
                )


def _groups(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Segments that are loaded together: of one operand, each on a tile of its own."""
    group: list[Segment] = []
    for segment in segments:
        if group and (
            segment.operand != group[0].operand
            or any(segment.tile == other.tile for other in group)
        ):
            yield group
            group = []
        group.append(segment)
    yield group


_BASE = AddressRegisters(1, 0)
_SCRATCH = AddressRegisters(3, 2)


def _made(style: _Style) -> AddressRegisters:
    """Where addresses are made before they are copied for their descriptor."""
    return AddressRegisters(style.first_register + 1, style.first_register)


def _addresses(style: _Style) -> dict[int, tuple[Description, Position]]:
    """Registers of the buffers' addresses, in the order in which they are loaded."""
    buffers = {_BASE: Description.BASE_ADDRESS_PARAMETER}
    if style.older_fences:
        buffers[_SCRATCH] = Description.BASE_ADDRESS_SCRATCH
    return {
        register: (buffer, position)
        for pair, buffer in buffers.items()
        for register, position in (
            (pair.low, Position.LOWER_32BIT),
            (pair.high, Position.UPPER_32BIT),
        )
    }


def _fields(instructions: Sequence[Instruction], style: _Style) -> Iterator[AddressField]:
    """Fields of the first moves of a program, which are those of addresses."""
    addresses = _addresses(style)
    immediate = Scalar.field("immediate").first
    for bundle, instruction in positions(instructions):
        if isinstance(instruction, Scalar) and instruction.alu is Alu.MOV and addresses:
            description, position = addresses.pop(instruction.to)
            yield AddressField(0, bundle * BUNDLE_BITS + immediate, Buffer(description), position)


def _opening(style: _Style) -> list[Instruction]:
    """Wait for everything and reset all flags."""
    if style.older_fences:
        return [
            ScalarFence(set=_SCALAR_FLAGS & ~_RING_TOKENS, idle=_HOST_ENGINES),
            ScalarFence(set=_CREDIT, value=1, idle=_HOST_ENGINES),
            TileFence(tiles=_TILES, set=_LOCAL_FLAGS, idle=_ENGINES),
        ]
    return [
        TileFence(tiles=_TILES, set=_TILE_FLAGS, idle=_ENGINES, signal=True),
        ScalarFence(
            clear=_TILES, set=_SCALAR_FLAGS, wait_tiles=True, tiles=_TILES, idle=_STREAM_ENGINES
        ),
    ]


def _move(to: int, value: int) -> Scalar:
    return with_immediate(Alu.MOV, to, 0, value)


def _copy_address(
    source: AddressRegisters, to: AddressRegisters, partial: int, style: _Style
) -> list[Instruction]:
    """An address in other registers.

    Args:
        source: the address.
        to: where it goes.
        partial: register for the sum of the low words without their highest bits.
        style: whether the compiler copies it, or adds a distance of 0.
    """
    low, high = source.low, source.high
    if not style.additions:
        return [
            Scalar(alu=Alu.MOV, to=to.low, immediate=low),
            Scalar(alu=Alu.MOV, to=to.high, immediate=high),
        ]
    return [*add_to_address(source, to, 0, partial=partial, guarded=style.older_fences)]


def _issue(size: int, tag: DescriptorTag, style: _Style) -> list[Instruction]:
    """Issue a descriptor for the address made."""
    first = style.first_register + 2
    address = AddressRegisters(
        first + DescriptorSlot.ADDRESS_LOW, first + DescriptorSlot.ADDRESS_HIGH
    )
    values: dict[int, int] = {DescriptorSlot.SIZE: size, DescriptorSlot.TAG: tag}
    stores = []
    for slot in DescriptorSlot:
        store = Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=first + slot)
        # The same bundle loads the register of the next word, unless that is of the address.
        if slot + 1 in values:
            value = values[slot + 1]
            store = replace(
                store, alu=Alu.MOV, immediate_b=True, to=first + slot + 1, immediate=value
            )
        stores.append(store)
    return [
        *_copy_address(_made(style), address, first + len(DescriptorSlot), style),
        *stores,
        Scalar(store=Store.ISSUE),
    ]


def _pop(units: int, style: _Style) -> list[Instruction]:
    """Pop the blob; at most a whole buffer ahead of the infeeds."""
    ahead = min(units, PARAMETER_BUFFER.units) - 1
    threshold = 0 if style.older_fences else -ahead
    pop = Pop(
        memory=PopMemory.PARAMETER,
        buffer=pop_units(PopMemory.PARAMETER, units, 0, style.units),
        popped=Producer(0),
        wait=(Watcher(ScalarFlag.PARAMETER_INFEED, 0, threshold, 1),),
    )
    if style.older_fences:
        return [ScalarFence(set=_CREDIT, value=ahead, idle=_HOST_ENGINES), pop]
    return [pop]


def _consume(segment: Segment, style: _Style) -> RingConsume:
    """The ring consumer that stores a segment."""
    words = segment.words - segment.prefix_words
    loops = [(words, 1)]
    prefix = None
    read = None
    if segment.prefix_words:
        end = segment.weights_row - 1
        if style.older_consumers:
            loops.append((1, words))
            end += segment.prefix_words
            read = Producer(0)
        prefix = Prefix(0, segment.row, segment.prefix_words, end, segment.prefix_words)
    wide = traversal(segment.weights_row, loops, rank=4)
    if words == 1 and not style.older_consumers:
        wide = replace(wide, mask=0)
    return RingConsume(
        op=Opcode.RING_CONSUME_A,
        tiles=1 << segment.tile,
        wide=wide,
        prefix=prefix,
        ring_read=read,
    )


def _infeed(segment: Segment, style: _Style) -> Infeed:
    """The infeed that sends a segment's units to its tile."""
    return Infeed(
        memory=InfeedMemory.PARAMETER,
        buffer=infeed_units(InfeedMemory.PARAMETER, segment.units, segment.position, style.units),
        infed=Producer(0),
        wait=(Watcher(ScalarFlag.PARAMETER_POP, 0, signed16(segment.position + 1), 1), None),
        destination=1 << segment.tile,
        row_words=segment.lanes,
    )


def _wait_for_infeeds(style: _Style) -> ScalarFence:
    """The scalar core waits for the infeeds so far."""
    return ScalarFence(idle=_HOST_ENGINES if style.older_fences else _RING_ENGINES)


def _settled() -> list[Instruction]:
    """Wait for everything."""
    return [
        TileFence(tiles=_TILES, idle=_ENGINES, signal=True, end=3),
        ScalarFence(clear=_TILES, wait_tiles=True, tiles=_TILES, idle=_RING_ENGINES),
    ]


def _closing(style: _Style) -> list[Instruction]:
    """Wait for everything, interrupt the host, halt."""
    made = _made(style)
    return [
        *_settled(),
        _move(made.high, 0),
        _move(made.low, 0),
        *_issue(0, DescriptorTag.INTERRUPT_0, style),
        Halt(end_program=True),
        *[Scalar()] * NOPS_AFTER_HALT,
    ]


_MOST_UNITS = 1 << 16
"""Units of one infeed that are believed: several times what a tile's wide memory holds."""


# --- reading -------------------------------------------------------------------------------------


def segments_of(program: Iterable[Instruction]) -> list[Segment]:
    """Segments that a PARAMETER_CACHING program loads, in order of its infeeds.

    Segments of consumers that wait together count as one operand: more is not in the program.

    Args:
        program: instructions of all chunks, in order.

    Raises:
        UnsupportedError: rows that go to several tiles, or not to consecutive rows.
        FormatError: an infeed without consumer or the reverse; another number of rows than the
            units fill; units that are not popped, left out or repeated; a row that is written
            twice.
    """
    segments: list[Segment] = []
    waiting: dict[int, list[RingConsume]] = {}
    operand = 0
    position = 0
    popped = 0
    for instruction in program:
        match instruction:
            case Pop(memory=PopMemory.PARAMETER):
                popped += instruction.buffer.steps
            case RingConsume(op=Opcode.RING_CONSUME_A):
                waiting.setdefault(_tile(instruction.tiles), []).append(instruction)
            case Infeed(memory=InfeedMemory.PARAMETER):
                tile = _tile(instruction.destination)
                if not waiting.get(tile):
                    raise FormatError(f"an infeed to tile {tile} without ring consumer")
                segment = _segment(waiting[tile].pop(0), instruction, operand, tile, position)
                segments.append(segment)
                position = segment.position + segment.units
                if not any(waiting.values()):
                    operand += 1
            case _:
                pass
    if any(waiting.values()):
        raise FormatError("a ring consumer without infeed")
    sent = sum(segment.units for segment in segments)
    if sent != popped:
        raise FormatError(f"{sent} units of parameters are sent, {popped} are popped")
    if segments:
        try:
            check_segments(sorted(segments, key=lambda segment: segment.position))
        except LinkError as error:
            raise FormatError(f"{error.what}: {error.reason}") from None
    return segments


def _tile(mask: int) -> int:
    if mask.bit_count() != 1:
        raise UnsupportedError(f"parameters for {mask.bit_count()} tiles at once")
    return mask.bit_length() - 1


def _segment(
    consumer: RingConsume, infeed: Infeed, operand: int, tile: int, expected: int
) -> Segment:
    """The segment of an infeed and the consumer that receives it."""
    words = consumer.wide.steps
    row = consumer.wide.base
    if not np.array_equal(consumer.wide.addresses(limit=WIDE_ROWS), np.arange(row, row + words)):
        raise UnsupportedError(f"parameters for tile {tile} in rows that are not consecutive")
    prefix = consumer.prefix
    above = prefix.words if prefix is not None and prefix.enabled else 0
    if prefix is not None and above and prefix.base != row - above:
        raise UnsupportedError(f"parameters for tile {tile} with a prefix elsewhere")
    units = infeed.buffer.steps
    if segment_words(units, infeed.row_words) != words + above:
        raise FormatError(
            f"{units} units of {infeed.row_words} lanes for {words + above} rows of tile {tile}"
        )
    position = _position(infeed, expected)
    return Segment(
        operand, tile, row - above, words + above, infeed.row_words, position, units, above
    )


def _position(infeed: Infeed, expected: int) -> int:
    """First unit of an infeed since the last reset: what its credit says, near the expected one.

    Raises:
        FormatError: it does not wait for its units, or reads others.
    """
    credit = infeed.wait[0]
    if credit is None or credit.flag != ScalarFlag.PARAMETER_POP:
        raise FormatError("an infeed of parameters that does not wait for its units")
    first = nearest(credit.threshold - 1, expected)
    read = infeed.buffer.addresses(limit=_MOST_UNITS) % PARAMETER_BUFFER.units
    if first < 0 or not np.array_equal(
        read, np.arange(first, first + len(read)) % PARAMETER_BUFFER.units
    ):
        raise FormatError(f"an infeed that waits for unit {first} and reads others")
    return first


# --- what programs do ----------------------------------------------------------------------------


def wide_memory(segments: Iterable[Segment], blob: bytes | memoryview | Array) -> Array:
    """What a blob leaves in wide memory; rows that are not written are 0.

    Args:
        segments: where it goes.
        blob: uint8[size], the parameters.

    Returns:
        uint8[16, 2080, 256]: bytes of every row of every tile.

    Raises:
        FormatError: the blob ends before a segment does.
    """
    data = np.frombuffer(blob, np.uint8)
    memory = np.zeros((TILES, WIDE_ROWS, WIDE_ROW_BYTES), np.uint8)
    for segment in segments:
        start = segment.position * BLOB_ALIGNMENT
        content = data[start : start + segment.units * BLOB_ALIGNMENT]
        if len(content) < segment.units * BLOB_ALIGNMENT:
            raise FormatError(
                f"parameters of {len(data)} bytes, {start + segment.units * BLOB_ALIGNMENT} are "
                "needed"
            )
        width = segment.lanes * LANE_BYTES
        rows = np.zeros(segment.words * width, np.uint8)
        rows[: len(content)] = content
        memory[segment.tile, segment.row : segment.end, :width] = rows.reshape(-1, width)
    return memory


@dataclass(frozen=True, slots=True)
class StreamedSegment:
    """Units of the parameters that one infeed sends while a program computes.

    Attributes:
        tiles: the tiles that receive them, as a mask; 0 if a register holds it.
        lanes: lanes of the rows.
        runs: first unit in the blob and number of units, as often as they are apart.
        units: units in all.
        certain: whether the place in the blob follows from the program; else branches or missing
            transfers leave it open.
    """

    tiles: int
    lanes: int
    runs: tuple[tuple[int, int], ...]
    units: int
    certain: bool


def streamed_segments(
    program: Iterable[Instruction], transfers: Sequence[tuple[int, int]] = ()
) -> list[StreamedSegment]:
    """Parameters that a program sends to tiles while it computes, in order of its infeeds.

    Exact for programs without branches.

    Args:
        program: instructions of all chunks, in order.
        transfers: offset and size in bytes of every transfer of parameters, in order, as the
            executable's hints say; without them, units count from the first one transferred.

    Raises:
        FormatError: an infeed that does not wait for its units.
    """
    blob = _Transfers(transfers)
    found = []
    certain = True
    origin = popped = position = 0
    for instruction in program:
        match instruction:
            case Branch():
                certain = False
            case ScalarFence() if instruction.set >> ScalarFlag.PARAMETER_POP & 1:
                origin = popped
                position = 0
            case Pop(memory=PopMemory.PARAMETER):
                popped += instruction.buffer.steps
            case Infeed(memory=InfeedMemory.PARAMETER):
                units = instruction.buffer.steps
                position = _position(instruction, position)
                runs = blob.runs(origin + position, units)
                found.append(
                    StreamedSegment(
                        instruction.destination,
                        instruction.row_words,
                        runs,
                        units,
                        certain and sum(count for _, count in runs) == units,
                    )
                )
                position += units
            case _:
                pass
    return found


class _Transfers:
    """Which units of the blob a stream of transfers consists of."""

    def __init__(self, transfers: Sequence[tuple[int, int]]) -> None:
        sizes = [size // BLOB_ALIGNMENT for _, size in transfers]
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._starts = [offset // BLOB_ALIGNMENT for offset, _ in transfers]

    def runs(self, first: int, units: int) -> tuple[tuple[int, int], ...]:
        """Units of the blob after units of the stream; fewer if the transfers end."""
        if not self._starts:
            return ((first, units),)
        runs = []
        index = int(np.searchsorted(self._ends, first, side="right"))
        while units and index < len(self._ends):
            begin = int(self._ends[index - 1]) if index else 0
            count = min(units, int(self._ends[index]) - first)
            runs.append((self._starts[index] + first - begin, count))
            first += count
            units -= count
            index += 1
        return tuple(runs)
