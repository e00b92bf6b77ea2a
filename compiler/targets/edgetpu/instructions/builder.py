"""How do instructions become a program, with the fences and references that they need?

Layers add instructions to a `Builder`. It opens chunks and phases, adds fences and the program's
begin and end, counts what waits at stream engines and the bundles between descriptors, and records
the fields that the linker or the driver fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from fitzroy.base.errors import CapacityError
from fitzroy.compiler.targets.edgetpu.instructions.counters import Counters
from fitzroy.compiler.targets.edgetpu.instructions.encoding import encoded
from fitzroy.compiler.targets.edgetpu.instructions.sync import Tokens
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY, TILES
from fitzroy.formats.object_file import Condition, Fixup, Part, Symbol, SymbolKind, Text
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine, TileEngine, TileFlag
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction, TileInstruction
from fitzroy.hw_models.isa.macros import AddressRegisters, add_to_address
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import NOPS_AFTER_HALT, assemble
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.isa.text import field_place
from fitzroy.hw_models.isa.units import MOST_INFEEDS, MOST_OUTFEEDS, MOST_PARAMETER_INFEEDS

T = TypeVar("T", bound=TileInstruction)
P = TypeVar("P")

ALL_ENGINES = (1 << len(TileEngine)) - 1
PHASE_FLAGS = (1 << TileFlag.RING_PRODUCER_A) - 1
"""Flags that count from zero in every phase."""

ALL_FLAGS = (1 << len(TileFlag)) - 1
RING_STREAMS = 1 << StreamEngine.INFEED | 1 << StreamEngine.OUTFEED
"""Stream engines on the ring."""

_MESH_COUNTERS = {
    TileEngine.MESH_WESTWARD: (TileFlag.MESH_EAST_IN, TileFlag.MESH_WEST_OUT),
    TileEngine.MESH_EASTWARD: (TileFlag.MESH_WEST_IN, TileFlag.MESH_EAST_OUT),
    TileEngine.MESH_SOUTHWARD: (TileFlag.MESH_NORTH_IN, TileFlag.MESH_SOUTH_OUT),
    TileEngine.MESH_NORTHWARD: (TileFlag.MESH_SOUTH_IN, TileFlag.MESH_NORTH_OUT),
}
"""Counters of each mesh engine, the engine that most published fences wait for first."""

WIDE_ROWS = BEAGLE.memories.wide.elements
_QUARTERS = 4
"""Addresses of a row of wide memory in tensor operations."""

_PIECE_BUNDLES = 600
"""Bundles of the instructions of all tiles for a piece, at most."""

CHUNK_BUNDLES = BEAGLE.memories.instruction.elements - 64
"""Bundles of a chunk, with room for its end."""

_SHORT_BUNDLES = 512
"""Bundles after which a short chunk ends, at the end of a phase.

Measured on the models of the corpus. With fewer bundles, the first chunk arrives sooner, but there
are more transfers, which cost time over USB 2.
"""

_ADDRESS = AddressRegisters(low=5, high=4)
"""Registers of the two words of an address."""

DESCRIPTOR_BUNDLES = 18
"""Bundles from the issue of a descriptor to the next write of one of its words, at least, as in
published programs; four more bundles issue the next descriptor."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of an instruction that the linker, or the driver, fills in.

    Attributes:
        place: name of the field.
        kind: what it refers to.
        name: name of the layer or operand.
        part: what of it.
        addend: added to it.
        group: group of the operand's runs.
    """

    place: str
    kind: SymbolKind
    name: str
    part: Part
    addend: int = 0
    group: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A transfer that the program asks the host for.

    Attributes:
        place: chunk and bundle where it asks, as `Builder.position` tells them.
        tag: what it asks for.
        size: bytes.
        scratch: whether the bytes are in the host's scratch buffer.
    """

    place: tuple[int, int]
    tag: DescriptorTag
    size: int
    scratch: bool


@dataclass(frozen=True, slots=True)
class _Queue:
    """Instructions that wait at a stream engine.

    Attributes:
        engine: the engine.
        most: how many wait at a time, at most.
        fence: engines of the fence that waits for them, a form of published programs.
    """

    engine: StreamEngine
    most: int
    fence: int


_OUTFEEDS = _Queue(StreamEngine.OUTFEED, MOST_OUTFEEDS, 1 << StreamEngine.OUTFEED)
_INFEEDS = _Queue(StreamEngine.INFEED, MOST_INFEEDS, RING_STREAMS)
_PARAMETER_INFEEDS = _Queue(StreamEngine.INFEED, MOST_PARAMETER_INFEEDS, RING_STREAMS)


@dataclass(slots=True)
class _Section:
    """Instructions under one condition."""

    items: list[tuple[Instruction, tuple[Reference, ...]]] = field(default_factory=list)
    bundles: int = 0
    condition: Condition = Condition.ALWAYS
    operand: int = 0
    ends_chunk: bool = False


class Builder:
    """A program under construction.

    Attributes:
        tokens: turns on the ring.
        staging: first row of wide memory that phases may use for data.
        loaded: the row from which on rows stand for those of an operand, which the linker places,
            and the operand's name and group; None if no row does.
        infeeds_awaited: fences so far that wait for the infeed.
        requests: transfers that the host was asked for.
    """

    def __init__(self) -> None:
        self.tokens = Tokens()
        self.staging = WIDE_ROWS
        self.loaded: tuple[int, str, int] | None = None
        self._sections = [_Section()]
        self._chunk = 0
        self._streamed = self._relayed = False
        self._quiet = list(self.tokens.ring)
        self._begun = self._together = False
        self._meshes = 0
        self._function: NluTable | None = None
        self._sent: dict[tuple[SymbolKind, str], int] = {}
        self._phase: list[tuple[_Section, int, Instruction]] = []
        self._waiting: dict[_Queue, int] = {}
        self._bundles = 0
        self._issued = -DESCRIPTOR_BUNDLES
        self.infeeds_awaited = 0
        self.requests: list[Request] = []

    @property
    def position(self) -> tuple[int, int]:
        """Chunk of the next instruction, and its bundle after the chunk's START."""
        return sum(section.ends_chunk for section in self._sections), self._chunk

    @property
    def overfull(self) -> bool:
        """Whether this chunk has more bundles than any may have."""
        return self._chunk > CHUNK_BUNDLES

    @property
    def program(self) -> Iterator[tuple[int, int, Instruction]]:
        """All instructions with their places, as `position` tells them."""
        self._encode()
        chunk = bundle = 0
        for section in self._sections:
            for instruction, _ in section.items:
                yield chunk, bundle, instruction
                bundle += instruction.bundles()
            if section.ends_chunk:
                chunk, bundle = chunk + 1, 0

    def emit(self, instruction: Instruction, *references: Reference) -> None:
        """Append an instruction; it gets a form of published programs where it has one.

        The scalar core first waits where stream engines have as many instructions as they may.
        """
        if isinstance(instruction, TileFence) and _begins_phase(instruction):
            self._encode()
            self._phase = []
        self._count_streams(instruction)
        instruction, references = self._relocated(instruction, references)
        # What only the scalar core does, or asks of the host, is no work of a tile.
        self._begun &= isinstance(instruction, Scalar | ScalarFence | Pop)
        self._together &= self._begun
        if isinstance(instruction, Mesh):
            self._meshes |= 1 << TileEngine[instruction.op.name]
        elif isinstance(instruction, TileFence) and instruction.idle == ALL_ENGINES:
            self._meshes = 0
        section = self._sections[-1]
        self._phase.append((section, len(section.items), instruction))
        section.items.append((instruction, references))
        bundles = instruction.bundles()
        section.bundles += bundles
        self._chunk += bundles
        self._bundles += bundles
        if isinstance(instruction, Scalar) and instruction.store is Store.ISSUE:
            self._issued = self._bundles

    def _relocated(
        self, instruction: Instruction, references: tuple[Reference, ...]
    ) -> tuple[Instruction, tuple[Reference, ...]]:
        """An operation on a row that stands for another, with a reference in its place."""
        if self.loaded is None or not isinstance(instruction, TensorOp) or instruction.c is None:
            return instruction, references
        begin, name, group = self.loaded
        addend = instruction.c.base - _QUARTERS * begin
        if addend < 0:
            return instruction, references
        row = Reference("c.base", SymbolKind.OPERAND, name, Part.QUARTER_ROW, addend, group)
        return replace(instruction, c=replace(instruction.c, base=0)), (*references, row)

    def _count_streams(self, instruction: Instruction) -> None:
        """Keep count of what waits at stream engines, and let the scalar core wait for them."""
        match instruction:
            case Outfeed():
                self._queue(_OUTFEEDS)
            case Infeed(memory=InfeedMemory.ACTIVATION):
                self._queue(_INFEEDS)
            case Infeed(memory=InfeedMemory.PARAMETER):
                self._queue(_PARAMETER_INFEEDS)
                self._streamed = True
            case Infeed(memory=InfeedMemory.SCALAR):
                self._relayed = True
            case RingProduce(channel=0) if self._relayed:
                # What the fifo sends has no token, which others on its channel could wait for.
                self.emit(ScalarFence(idle=RING_STREAMS))
            case ScalarFence():
                for queue in self._waiting:
                    if instruction.idle >> queue.engine & 1:
                        self._waiting[queue] = 0
                if instruction.idle >> StreamEngine.INFEED & 1:
                    self.infeeds_awaited += 1
                    self._relayed = False

    def _queue(self, queue: _Queue) -> None:
        """One more instruction waits at a stream engine; a fence first if too many do."""
        if self._waiting.get(queue, 0) == queue.most:
            self.emit(ScalarFence(idle=queue.fence))
        self._waiting[queue] = self._waiting.get(queue, 0) + 1

    def _encode(self) -> None:
        """Write the instructions of the phase in forms of published programs.

        Only here is it known who counts, and who waits. Other forms take as many bundles.
        """
        counters = Counters.of(instruction for _, _, instruction in self._phase)
        for section, index, instruction in self._phase:
            _, references = section.items[index]
            section.items[index] = encoded(instruction, counters), references

    def emit_all(self, instructions: Iterable[Instruction]) -> None:
        """Append instructions."""
        for instruction in instructions:
            self.emit(instruction)

    def load(self, function: NluTable) -> None:
        """Load a function into all tiles, which keep it; nothing if it is the last one loaded."""
        if function != self._function:
            self.emit(function)
            self._function = function

    def on_tiles(self, make: Callable[[int], T | None], tiles: Iterable[int] = range(TILES)) -> int:
        """Append what every tile has to do; tiles with the same to do share an instruction.

        Args:
            make: the instruction of a tile, without its tile set; None for nothing.
            tiles: the tiles.

        Returns:
            Mask of the tiles that have something to do.
        """
        masks: dict[T, int] = {}
        for tile in tiles:
            instruction = make(tile)
            if instruction is not None:
                masks[instruction] = masks.get(instruction, 0) | 1 << tile
        for instruction, mask in masks.items():
            self.emit(replace(instruction, tiles=mask))
        return sum(masks.values())

    def on_pieces(
        self, pieces: Mapping[int, Sequence[P]], operation: Callable[[int, P], T]
    ) -> None:
        """Append an instruction for every piece of every tile: all first pieces, then the second.

        Args:
            pieces: pieces by tile; tiles may have different numbers of them.
            operation: the instruction of a tile for a piece, without its tile set.
        """
        for index in range(max(map(len, pieces.values()), default=0)):
            held = {tile: mine[index] for tile, mine in pieces.items() if index < len(mine)}
            self.room(_PIECE_BUNDLES)
            self.on_tiles(partial(_of_piece, operation, held), held)

    # --- fences ----------------------------------------------------------------------------------

    def fence(self, *, idle: int = ALL_ENGINES, reset: int = 0, signal: bool = False) -> None:
        """All tiles wait for engines, then set flags to zero."""
        self.emit(TileFence(tiles=EVERY, idle=idle, set=reset, signal=signal))

    def barrier(self) -> None:
        """A new phase: all earlier work is done on each tile, flags count from zero.

        After parameters from the host, which have no turn on the ring, it begins on all tiles at
        the same time; so it does where ring tokens count from zero again. Nothing is needed where
        one has just begun.
        """
        if self._begun:
            return
        if self._streamed or self.tokens.many:
            self.sync()
        else:
            self.fence(reset=PHASE_FLAGS)
            self._begun = True

    def feed(self) -> None:
        """A new phase, in which rows from the host come over the ring.

        They have no turn there, so that no tile may still be sending: all tiles begin at the same
        time, unless none has sent anything since they last did.
        """
        if self.tokens.ring == self._quiet:
            self.barrier()
        else:
            self.sync()

    def sync(self) -> None:
        """A new phase, which begins on all tiles at the same time.

        Where one has just begun on each tile, the fence that began it signals.
        """
        if self.tokens.many:
            self._reset_tokens()
        elif not self._together:
            if not self._begun or not self._signalled():
                self.fence(reset=PHASE_FLAGS, signal=True)
            self.wait_for_tiles()
        self._streamed = self._relayed = False
        self._quiet = list(self.tokens.ring)
        self._begun = self._together = True

    def _signalled(self) -> bool:
        """Let the fence that has begun the phase signal, unless it does or is in another chunk."""
        section, index, fence = self._phase[0]
        if not isinstance(fence, TileFence) or fence.signal or section is not self._sections[-1]:
            return False
        fence = replace(fence, signal=True)
        self._phase[0] = section, index, fence
        section.items[index] = fence, ()
        return True

    def _reset_tokens(self) -> None:
        """A new phase in which ring tokens count from zero, too, as compiled programs begin it."""
        self.fence(reset=PHASE_FLAGS)
        tokens = self.tokens.ring
        channels = [channel for channel in (0, 1) if tokens[channel]]
        thresholds = [0] * len(ScalarFlag)
        for channel in channels:
            thresholds[ScalarFlag.PRODUCER_A + channel] = signed16(tokens[channel])
        mask = sum(1 << ScalarFlag.PRODUCER_A + channel for channel in channels)
        if mask:
            self.emit(
                ScalarFence(
                    clear=EVERY,
                    set=mask,
                    thresholds=tuple(thresholds),
                    wait=mask,
                    idle=RING_STREAMS,
                )
            )
        rings = sum(1 << TileFlag.RING_PRODUCER_A + channel for channel in channels)
        self.fence(reset=rings, signal=True)
        self.wait_for_tiles()
        self.tokens.ring = [0, 0]

    def wait_for_tiles(self, *, streams: int = RING_STREAMS) -> None:
        """The scalar core waits for the signals of all tiles, and for stream engines."""
        self.emit(ScalarFence(clear=EVERY, wait_tiles=True, tiles=EVERY, idle=streams))

    def calm(self) -> None:
        """The scalar core waits until channel A carries nothing that has no turn on it.

        Without a new phase, tiles may be told to send there only after that.
        """
        if self._relayed or self._waiting.get(_INFEEDS):
            self.emit(ScalarFence(idle=RING_STREAMS))

    def set_scalar(self, flags: Iterable[ScalarFlag], value: int) -> None:
        """Set flags of the scalar core, when stream engines do not use them."""
        self.emit(ScalarFence(set=sum(1 << flag for flag in flags), value=value, idle=RING_STREAMS))

    # --- scalar core -----------------------------------------------------------------------------

    def descriptor(
        self,
        tag: DescriptorTag,
        size: int,
        kind: SymbolKind | None = None,
        name: str = "",
        offset: int = 0,
        operand: str = "",
    ) -> None:
        """Ask the host for a transfer some bytes after the address of a symbol, or to be told.

        The parts are moved one bundle before they are stored, as compiled programs do. Nothing is
        stored until `DESCRIPTOR_BUNDLES` after the descriptor before.

        Args:
            tag: what is asked for.
            size: bytes.
            kind: whose address it is; None for no address.
            name: name of the symbol.
            offset: bytes after the address.
            operand: a streamed operand from whose first byte on the offset counts.
        """
        moves = []
        if offset or operand:
            moves = add_to_address(_ADDRESS, _ADDRESS, offset, partial=8)
        stored = self._bundles + 2 + len(moves)
        self.emit_all([Scalar()] * (self._issued - 1 + DESCRIPTOR_BUNDLES - stored))
        for register, part in ((_ADDRESS.low, Part.LOW), (_ADDRESS.high, Part.HIGH)):
            references = () if kind is None else (Reference("immediate", kind, name, part),)
            self.emit(Scalar(alu=Alu.MOV, immediate_b=True, to=register), *references)
        place = Reference("immediate", SymbolKind.OPERAND, operand, Part.OFFSET, offset)
        for item in moves:
            moved = operand and item.alu is Alu.ADD and item.to != _ADDRESS.high
            self.emit(item, *([place] if moved else []))
        self.emit(_store(DescriptorSlot.ADDRESS_LOW, _ADDRESS.low))
        self.emit(_move(8, size, DescriptorSlot.ADDRESS_HIGH, _ADDRESS.high))
        self.emit(_move(9, tag, DescriptorSlot.SIZE, 8))
        self.emit(_store(DescriptorSlot.TAG, 9))
        self.requests.append(Request(self.position, tag, size, kind is SymbolKind.SCRATCH))
        self.emit(Scalar(store=Store.ISSUE))

    def output(self, size: int, kind: SymbolKind, name: str = "") -> int:
        """Ask the host to take the next bytes of an output, or of the scratch buffer.

        Returns:
            Their offset.
        """
        offset = self._sent.get((kind, name), 0)
        self._sent[kind, name] = offset + size
        self.descriptor(DescriptorTag.OUTPUT, size, kind, name, offset)
        return offset

    @property
    def scratch_bytes(self) -> int:
        """Size of the host's scratch buffer."""
        return self._sent.get((SymbolKind.SCRATCH, ""), 0)

    # --- begin, chunks, end ----------------------------------------------------------------------

    def begin(self) -> None:
        """Reset flags and tokens of the chip.

        Tiles are waited for once more before they get their first instruction, as compiled
        programs do: what resets a counter may take longer than the fence that asks for it.
        """
        self.emit(TileFence(tiles=EVERY, set=ALL_FLAGS, idle=ALL_ENGINES, signal=True))
        self.emit(
            ScalarFence(
                clear=EVERY, set=(1 << len(ScalarFlag)) - 1, wait_tiles=True, tiles=EVERY, idle=0x1F
            )
        )
        self.set_scalar([ScalarFlag.AVDATA_POP, ScalarFlag.AVDATA_INFEED], 0)
        self.fence(signal=True)
        self.wait_for_tiles()
        self._begun = self._together = True

    def room(self, bundles: int) -> None:
        """Begin another chunk unless this one has room for so many more bundles.

        Raises:
            CapacityError: no chunk has.
        """
        if bundles > CHUNK_BUNDLES:
            raise CapacityError(
                f"an operator takes {bundles} bundles", reason=f"a chunk holds {CHUNK_BUNDLES}"
            )
        if self._chunk + bundles > CHUNK_BUNDLES:
            self._end_chunk()

    def pace(self) -> None:
        """End the chunk between two phases once it has `_SHORT_BUNDLES`.

        The host then sends the next chunk while the chip executes this one.
        """
        if self._begun and self._chunk >= _SHORT_BUNDLES:
            self._end_chunk()

    def _end_chunk(self) -> None:
        begun = self._begun
        self._halt(end_program=False)
        self._sections[-1].ends_chunk = True
        self._sections.append(_Section())
        self._chunk = 0
        self._begin_chunk(begun=begun)
        self._begun = begun

    def _begin_chunk(self, *, begun: bool) -> None:
        """Let tiles wait before the first instruction of a chunk, as in compiled programs.

        Within a phase, engines may wait for instructions that are still to come. A fence then
        waits for a mesh engine without instructions, and sets counters that only this one has.
        """
        if begun:
            self.fence()
            return
        for engine, counters in _MESH_COUNTERS.items():
            if not self._meshes >> engine & 1:
                mask = sum(1 << counter for counter in counters)
                self.fence(idle=1 << engine, reset=mask)
                return

    def _halt(self, *, end_program: bool) -> None:
        self.emit(Halt(end_program=end_program))
        self.emit_all([Scalar()] * NOPS_AFTER_HALT)

    def end(self) -> None:
        """Wait for everything, leave the ring's tokens at zero, and interrupt the host."""
        self._reset_tokens()
        self.emit(TileFence(tiles=EVERY, idle=ALL_ENGINES, signal=True, end=3))
        self.wait_for_tiles()
        self.descriptor(DescriptorTag.INTERRUPT_0, 0)
        self._halt(end_program=True)

    # --- object ----------------------------------------------------------------------------------

    def sections(self) -> tuple[list[Text], list[Symbol]]:
        """The sections and symbols of an object."""
        self._encode()
        symbols: dict[tuple[SymbolKind, str, int], int] = {}
        found = []
        for section in self._sections:
            fixups = []
            bundle = 0
            code = []
            for instruction, references in section.items:
                placed = [
                    (*field_place(type(instruction), reference.place), reference)
                    for reference in references
                ]
                for first, width, reference in sorted(placed, key=lambda item: item[0]):
                    key = (reference.kind, reference.name, reference.group)
                    number = symbols.setdefault(key, len(symbols))
                    fixups.append(
                        Fixup(
                            bit=bundle * BUNDLE_BITS + first,
                            width=width,
                            symbol=number,
                            part=int(reference.part),
                            addend=reference.addend,
                        )
                    )
                code.append(instruction)
                bundle += instruction.bundles()
            found.append(
                Text(
                    code=np.frombuffer(assemble(code), np.uint8),
                    fixups=fixups,
                    condition=int(section.condition),
                    operand=section.operand,
                    ends_chunk=section.ends_chunk,
                )
            )
        names = [
            Symbol(kind=int(kind), name=name or None, batch=group) for kind, name, group in symbols
        ]
        return found, names


def _of_piece(operation: Callable[[int, P], T], held: Mapping[int, P], tile: int) -> T:
    return operation(tile, held[tile])


def _begins_phase(fence: TileFence) -> bool:
    """Whether the counters of all tiles begin at zero after a fence."""
    return fence.tiles == EVERY and not fence.value and fence.set & PHASE_FLAGS == PHASE_FLAGS


def _store(slot: DescriptorSlot, register: int) -> Scalar:
    return Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=register)


def _move(to: int, value: int, slot: DescriptorSlot, register: int) -> Scalar:
    """Move an immediate and store another register in the same bundle."""
    return replace(_store(slot, register), alu=Alu.MOV, immediate_b=True, to=to, immediate=value)


def mask_of(tiles: Sequence[int]) -> int:
    """Tile set of some tiles."""
    return sum(1 << tile for tile in tiles)
