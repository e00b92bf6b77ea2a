"""The scalar core: executes a program in order and says what it asks others to do.

The core has 32 registers, 8 predicates, 4,096 words of memory and four words of descriptor. It
executes one bundle per step; all slots of a bundle read before any writes. Everything that
concerns the rest of the chip or the host is an event: an instruction for tiles or stream units, a
fence, a descriptor, words for the host. The consumer of the events decides what they mean and
when to go on; it may write the core's memory in between, as OUTFEED does.

Words may be unknown: memory at the start, and what OUTFEED brings if the consumer does not supply
it, or supplies it as `Doubtful`. Unknown words pass through registers and arithmetic, and a word
from an unknown address is unknown. A program whose course depends on one cannot be followed:
`UnknownValueError`. Reading a register that was never written is an error.

Facts: execution of compiled programs. Rounding of floats, 2^x and reciprocals to nearest even is
LIKELY. ASSUMED, never observed: conversion to integers saturates and takes NaN to 0, the maximum
and the minimum of a number and NaN are the number. The result of a shift by more than 31
is unknown.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fitzroy.base.errors import FormatError, SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.lateness import Lateness, Word
from fitzroy.hw_models.edgetpu.unknown import (
    KNOWN,
    Doubtful,
    Several,
    apart,
    entire,
    mark_of,
    per_image,
    word_of,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.scalar import (
    COMPARES,
    Alu,
    Branch,
    DescriptorSlot,
    DescriptorTag,
    End,
    Halt,
    Indexed,
    Load,
    Loop,
    Scalar,
    Special,
    Start,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, Outfeed, Pop

REGISTERS = BEAGLE.scalar.registers
PREDICATES = BEAGLE.scalar.predicates
MEMORY_WORDS = BEAGLE.memories.scalar.elements

STEP_BUDGET = 5_000_000
"""Most steps of a program unless told otherwise: a second, 90 times what any published one
takes. Who follows a program before it executes it may take as many for either."""

_MOST_PUSHED = 1 << 20
"""Most words for the host between two events."""


def _certain(word: Word) -> Word:
    """A word if it is known, else None."""
    return None if isinstance(word, Doubtful) else word


def _as_word(word: Word) -> Word:
    if word is None or isinstance(word, Doubtful):
        return word
    return int(word) & _MASK


# --- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChunkStart:
    """The core needs a chunk of instructions."""

    chunk: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An instruction for tiles.

    Attributes:
        chunk: number of the chunk.
        bundle: its first bundle in the chunk.
        instruction: what the tiles execute.
        tiles: mask of the tiles, from the instruction or a register; None if that is unknown.
        base: base of the first traversal if a register replaces it, else None.
        base_unknown: a register replaces the base, and is unknown.
    """

    chunk: int
    bundle: int
    instruction: TileInstruction | TileFence
    tiles: Word
    base: int | None = None
    base_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """An instruction for a stream unit.

    The words that an OUTFEED to memory will write are unknown from here on; `ScalarCore.write`
    supplies them.
    """

    chunk: int
    bundle: int
    instruction: Pop | Infeed | Outfeed


@dataclass(frozen=True, slots=True)
class Fence:
    """The core waits; it goes on when the next event is asked for."""

    chunk: int
    bundle: int
    instruction: ScalarFence


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A request to the host: a transfer of `size` bytes, or an interrupt."""

    chunk: int
    bundle: int
    address: int
    size: int
    tag: DescriptorTag


@dataclass(frozen=True, slots=True)
class HostWords:
    """Words for the host's output stream: all since the last event, in order."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class ChunkEnd:
    """The core has halted, until the next chunk or, with `end_program`, for good."""

    chunk: int
    bundle: int
    end_program: bool


Event = ChunkStart | Dispatch | Stream | Fence | Descriptor | HostWords | ChunkEnd


class UnknownValueError(SimulationError):
    """The course of a program depends on a word that only the device knows."""


# --- arithmetic ----------------------------------------------------------------------------------


class _Trap(Exception):
    """A fault of the program, without its place."""

    def __init__(self, what: str, *, unknown: bool = False, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.unknown = unknown
        self.hint = hint


_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_F32 = struct.Struct("<f")
_U32 = struct.Struct("<I")
_INFINITY = 0x7F800000


def _real(word: int) -> float:
    value: float = _F32.unpack(_U32.pack(word))[0]
    return value


def _word(value: float) -> int:
    try:
        word: int = _U32.unpack(_F32.pack(value))[0]
    except OverflowError:
        return _INFINITY if value > 0 else _INFINITY | _SIGN
    return word


def _signed(word: int) -> int:
    return (word ^ _SIGN) - _SIGN


def _to_integer(word: int) -> int:
    value = _real(word)
    if value != value:
        return 0
    if abs(value) >= _SIGN:
        return _SIGN - 1 if value > 0 else _SIGN
    return round(value) & _MASK


def _maximum(a: int, b: int) -> int:
    x, y = _real(a), _real(b)
    return a if x > y or y != y else b


def _minimum(a: int, b: int) -> int:
    x, y = _real(a), _real(b)
    return a if x < y or y != y else b


# Doubles hold sums and products of two float32 well enough that rounding twice rounds once.
_BINARY: dict[Alu, Callable[[int, int], int | bool | None]] = {
    Alu.ADD: lambda a, b: a + b & _MASK,
    Alu.SUB: lambda a, b: a - b & _MASK,
    Alu.AND: lambda a, b: a & b,
    Alu.OR: lambda a, b: a | b,
    Alu.XOR: lambda a, b: a ^ b,
    # What a shift by more than 31 bits gives is not known; programs do not use it.
    Alu.SHL: lambda a, b: a << b & _MASK if b < 32 else None,
    Alu.SHR: lambda a, b: a >> b if b < 32 else None,
    Alu.ASR: lambda a, b: _signed(a) >> b & _MASK if b < 32 else None,
    Alu.EQ: lambda a, b: a == b,
    Alu.NE: lambda a, b: a != b,
    Alu.GT: lambda a, b: a ^ _SIGN > b ^ _SIGN,
    Alu.LT: lambda a, b: a ^ _SIGN < b ^ _SIGN,
    Alu.GE: lambda a, b: a ^ _SIGN >= b ^ _SIGN,
    Alu.GEU: lambda a, b: a >= b,
    Alu.FADD: lambda a, b: _word(_real(a) + _real(b)),
    Alu.FSUB: lambda a, b: _word(_real(a) - _real(b)),
    Alu.FMUL: lambda a, b: _word(_real(a) * _real(b)),
    Alu.FMAX: _maximum,
    Alu.FMIN: _minimum,
}


def _same(word: int) -> int:
    return word


_UNARY: dict[Alu, Callable[[int], int]] = {
    Alu.MOV: _same,
    Alu.I2F: lambda b: _word(_signed(b)),
    Alu.F2I: _to_integer,
}
"""Operations of operand b alone."""


def _exp2(word: int) -> int:
    try:
        return _word(math.exp2(_real(word)))
    except OverflowError:
        return _INFINITY


def _reciprocal(word: int) -> int:
    value = _real(word)
    return _word(1 / value) if value else _INFINITY | word & _SIGN


_SPECIAL = {Special.EXP2: _exp2, Special.RECIPROCAL: _reciprocal}


# --- the machine ---------------------------------------------------------------------------------


class _Unset:
    """Content of registers and predicates that nothing has written."""


_UNSET = _Unset()


@dataclass(frozen=True, slots=True)
class _Repeat:
    """What a LOOP does next: run the following `length` instructions `count` times."""

    count: int
    length: int


_Step = Callable[[], Any]
"""An instruction bound to the core. Returns None to go on, the index of the instruction to
continue at, what to repeat, or an event."""

_Slot = tuple[Callable[[], Any], Callable[[Any], Any]]
"""Reading half and writing half of a slot of a bundle."""


class ScalarCore:
    """State of a scalar core, which persists from chunk to chunk.

    Args:
        budget: most steps to execute in all chunks of a program together.
        late: what becomes of stores and results of the special unit until they arrive.
    """

    def __init__(self, *, budget: int = STEP_BUDGET, late: Lateness | None = None) -> None:
        self.budget = budget
        self._late = late or Lateness()
        self._renewed = 0
        self.steps = 0
        """Steps executed so far; every bundle of a loop's body counts each time."""
        self._registers: list[Any] = [_UNSET] * REGISTERS
        self._predicates: list[Any] = [_UNSET] * PREDICATES
        self._memory: list[Word] = [None] * MEMORY_WORDS
        self._descriptor: list[Any] = [_UNSET] * len(DescriptorSlot)
        self._pushed: list[Word] = []
        self._brought = 0

    @property
    def registers(self) -> tuple[Word, ...]:
        """Contents of the registers, None if unknown or never written."""
        return tuple([None if word is _UNSET else _certain(word) for word in self._registers])

    @property
    def predicates(self) -> tuple[bool | None, ...]:
        """Contents of the predicates, None if unknown or never written."""
        return tuple([None if value is _UNSET else value for value in self._predicates])

    def set_registers(self, values: Mapping[int, int]) -> None:
        """Write registers by number, as an earlier program would have done."""
        for number, word in values.items():
            self._registers[number] = int(word) & _MASK

    def read(self, address: int, count: int) -> tuple[Word, ...]:
        """Words of memory.

        Raises:
            SimulationError: they are not all in memory.
        """
        _check_range(address, count)
        return tuple(self._memory[address : address + count])

    def arrived(self, address: int, count: int) -> tuple[Word, ...]:
        """Words of memory as stream units find them, to which a stored word may be on its way.

        Raises:
            SimulationError: they are not all in memory.
        """
        words = self.read(address, count)
        return self._late.arrived(address, words, self.steps) if self.storing else words

    @property
    def storing(self) -> bool:
        """Whether stored words may be on their way."""
        return self._late.storing

    def complete_stores(self) -> None:
        """All stored words arrive in memory, as they do at a fence that waits for the pipeline."""
        self._late.complete_stores()

    def write(self, address: int, words: Iterable[Word]) -> None:
        """Write words of memory, as an OUTFEED does.

        Raises:
            SimulationError: they are not all in memory.
        """
        values = [word & _MASK if type(word) is int else _as_word(word) for word in words]
        _check_range(address, len(values))
        self._memory[address : address + len(values)] = values
        if self.storing:
            for place in range(address, address + len(values)):
                self._late.replaced(place)

    def run(self, chunks: Iterable[Sequence[Instruction]]) -> Iterator[Event]:
        """Execute a program.

        Args:
            chunks: its instructions, START and END included; asked for one at a time.

        Raises:
            SimulationError: the program does something that the hardware would not survive.
            UnknownValueError: its course depends on an unknown word.
        """
        ended = False
        number = -1
        for number, chunk in enumerate(chunks):
            if ended:
                raise SimulationError(
                    f"the program ends in chunk {number - 1}", reason=f"there is a chunk {number}"
                )
            yield ChunkStart(number)
            for event in self.execute(chunk, number):
                yield event
                ended = isinstance(event, ChunkEnd) and event.end_program
        if not ended:
            raise SimulationError(
                "the program does not end",
                reason=f"the halt of its last chunk, {number}, does not end it",
            )

    def execute(self, instructions: Sequence[Instruction], chunk: int = 0) -> Iterator[Event]:
        """Execute one chunk up to its HALT.

        Args:
            instructions: the chunk.
            chunk: its number, for events and errors.

        Raises:
            SimulationError: as `run`.
            UnknownValueError: as `run`.
        """
        placed = list(positions(instructions))
        steps = _Compiler(self, placed, chunk).steps()
        pushed = self._pushed
        at = 0
        try:
            while True:
                self.steps += 1
                if self.steps - self._renewed > self.budget:
                    raise _Trap(f"the program does not end within {self.budget} steps")
                result = steps[at]()
                if result is None:
                    at += 1
                    continue
                if result.__class__ is int:
                    at = result
                    continue
                if result.__class__ is _Repeat:
                    self.steps += result.count * result.length
                    if self.steps - self._renewed > self.budget:
                        raise _Trap(f"the program does not end within {self.budget} steps")
                    first, end = at + 1, at + 1 + result.length
                    body = steps[first:end]
                    for _ in range(result.count):
                        at = first
                        for step in body:
                            result = step()
                            if result is not None:
                                if pushed:
                                    yield self._host_words()
                                yield result
                            at += 1
                    continue
                if pushed:
                    yield self._host_words()
                yield result
                if result.__class__ is ChunkEnd:
                    return
                at += 1
        except _Trap as trap:
            kind = UnknownValueError if trap.unknown else SimulationError
            last = placed[min(at, len(placed) - 1)][0] if placed else 0
            raise kind(trap.what, where=f"chunk {chunk}, bundle {last}", hint=trap.hint) from None

    def renew_budget(self) -> None:
        """Another program begins, with a budget of its own."""
        self._renewed, self._brought = self.steps, 0

    def _charge(self, words: int) -> None:
        """Count words that an outfeed brings against the budget."""
        self._brought += words
        if self.steps - self._renewed + self._brought > self.budget:
            raise _Trap(f"the program does not end within {self.budget} steps")

    def _push(self, word: Word) -> None:
        if len(self._pushed) >= _MOST_PUSHED:
            raise _Trap(f"more than {_MOST_PUSHED} words for the host in a row")
        self._pushed.append(word)

    def _host_words(self) -> HostWords:
        event = HostWords(tuple(self._pushed))
        self._pushed.clear()
        return event


def _check_range(address: int, count: int) -> None:
    if not 0 <= address <= address + count <= MEMORY_WORDS:
        raise SimulationError(
            f"words {address} to {address + count - 1} of scalar memory",
            reason=f"it has {MEMORY_WORDS}",
        )


class _Compiler:
    """Makes the steps of a chunk; faults that are static appear when the step is executed."""

    def __init__(
        self, core: ScalarCore, placed: Sequence[tuple[int, Instruction]], chunk: int
    ) -> None:
        self._core = core
        self._placed = placed
        self._chunk = chunk
        self._index = {bundle: index for index, (bundle, _) in enumerate(placed)}

    def steps(self) -> list[_Step]:
        steps = [
            self._step(index, bundle, instruction)
            for index, (bundle, instruction) in enumerate(self._placed)
        ]
        if self._core._late.counts_bundles:
            steps = [self._counted(step) for step in steps]
        return [*steps, _failing("the program runs past the end of the chunk")]

    def _counted(self, step: _Step) -> _Step:
        tick = self._core._late.tick

        def counted() -> Any:
            tick()
            return step()

        return counted

    def _step(self, index: int, bundle: int, instruction: Instruction) -> _Step:
        match instruction:
            case Scalar():
                return self._gated(instruction, self._bundle(instruction, bundle))
            case TileInstruction() | TileFence():
                return self._dispatch(instruction, bundle)
            case Outfeed() if not instruction.to_host:
                return self._outfeed(instruction, bundle)
            case Pop() | Infeed() | Outfeed():
                return _constant(Stream(self._chunk, bundle, instruction))
            case ScalarFence():
                return _constant(Fence(self._chunk, bundle, instruction))
            case Branch():
                return self._gated(instruction, self._branch(instruction, bundle))
            case Loop():
                return self._loop(instruction, index)
            case Halt():
                return _constant(ChunkEnd(self._chunk, bundle, instruction.end_program))
            case Start():
                return _constant(None)
            case End():
                return _failing("the program runs into END without HALT")
        return _failing(f"the scalar core cannot execute {type(instruction).__name__}")

    # Operands: unknown words pass, absent ones are faults.

    def _absent(self, number: int, word: object) -> None:
        if word is _UNSET:
            raise _Trap(f"register s{number} is read, but nothing has written it")

    def _needed(self, number: int, purpose: str) -> int:
        """Word of a register that must be known."""
        word = self._core._registers[number]
        if word.__class__ is int:
            known: int = word
            return known
        self._absent(number, word)
        if isinstance(word, Several):
            raise apart(purpose)
        raise _unknown(f"register s{number}, {purpose},")

    def _operand(self, number: int) -> Callable[[], Word]:
        registers = self._core._registers
        if number >= REGISTERS:
            return _failing(f"there is no register s{number}")

        def read() -> Word:
            word: Word = registers[number]
            if word.__class__ is not int:
                self._absent(number, word)
            return word

        return read

    def _gated(self, instruction: Scalar | Branch, step: _Step) -> _Step:
        if not instruction.predicated:
            return step
        test = self._predicate(instruction.predicate, instruction.sense)
        return lambda: step() if test() else None

    def _predicate(self, number: int, sense: bool) -> Callable[[], bool]:
        predicates = self._core._predicates

        def test() -> bool:
            value = predicates[number]
            if value.__class__ is not bool:
                if value is None:
                    raise _unknown(f"predicate p{number}")
                raise _Trap(f"predicate p{number} is read, but nothing has written it")
            equal: bool = value == sense
            return equal

        return test

    # Scalar bundles.

    def _bundle(self, bundle: Scalar, number: int) -> _Step:
        slots: list[_Slot] = []
        targets: list[int] = []
        if bundle.alu is not Alu.NOP:
            slots.append(self._alu(bundle))
            if bundle.alu not in COMPARES:
                targets.append(bundle.to)
        if bundle.special is not Special.NONE:
            slots.append(self._special(bundle))
            targets.append(bundle.special_to)
        if bundle.load is not Load.NONE:
            slots.append(self._load(bundle))
            targets.append(bundle.load_to)
            if bundle.load is Load.INCREMENT:
                targets.append(Indexed.unpack(bundle.load_address).register)
        if bundle.store is not Store.NONE:
            # Last, because only its result is an event.
            slots.append(self._store(bundle, number))
            if bundle.store is Store.INCREMENT:
                targets.append(Indexed.unpack(bundle.store_address).register)
        twice = {target for target in targets if targets.count(target) > 1}
        if twice:
            return _failing(f"two slots of a bundle write register s{min(twice)}")
        if not slots:
            return _constant(None)
        if len(slots) == 1:
            ((read, write),) = slots
            return lambda: write(read())
        reads = [read for read, _ in slots]
        writes = [write for _, write in slots]

        def step() -> Any:
            values = [read() for read in reads]
            result = None
            for write, value in zip(writes, values, strict=True):
                result = write(value)
            return result

        return step

    def _alu(self, bundle: Scalar) -> _Slot:
        core, operation = self._core, bundle.alu
        registers, a = core._registers, bundle.a
        target = core._predicates if operation in COMPARES else registers
        if operation in COMPARES and bundle.to >= PREDICATES:
            return _failing(f"there is no predicate p{bundle.to}"), _ignore
        write = partial(target.__setitem__, bundle.to)
        # Enumerators are numbers, too; words are told apart by their class.
        constant = int(bundle.immediate)
        if operation in _UNARY:
            return _unary(_UNARY[operation], self._b(bundle)), write
        function = _BINARY[operation]
        if bundle.immediate_b:

            def with_constant() -> Any:
                x = registers[a]
                if x.__class__ is int:
                    return function(x, constant)
                self._absent(a, x)
                return _doubted(function, x, constant)

            return with_constant, write
        second = self._operand(constant)

        def with_register() -> Any:
            x, y = registers[a], second()
            if x.__class__ is int and y.__class__ is int:
                return function(x, y)
            self._absent(a, x)
            return _doubted(function, x, y)

        return with_register, write

    def _b(self, bundle: Scalar) -> Callable[[], Word]:
        if bundle.immediate_b:
            word = int(bundle.immediate)
            return lambda: word
        return self._operand(bundle.immediate)

    def _special(self, bundle: Scalar) -> _Slot:
        read = _unary(_SPECIAL[bundle.special], self._operand(bundle.special_from))
        write = partial(self._core._registers.__setitem__, bundle.special_to)
        late = self._core._late
        if not late.counts_bundles:
            return read, write
        bundles = late.bundles(bundle.special)
        return read, lambda word: late.result(bundles, partial(write, word))

    def _address(self, mode: int, field: int) -> Callable[[], int]:
        """Word address of a load or store, and a check that it is in memory."""
        # Both slots number their address modes alike.
        if mode == Load.ABSOLUTE:
            return lambda: field
        base = Indexed.unpack(field).register

        def address() -> int:
            word = self._needed(base, "the address of a word in memory")
            if word >= MEMORY_WORDS:
                raise _Trap(
                    f"word {word:#x} of scalar memory, which has {MEMORY_WORDS}, through"
                    f" register s{base}"
                )
            return word

        return address

    def _load(self, bundle: Scalar) -> _Slot:
        registers, memory = self._core._registers, self._core._memory
        address = self._address(bundle.load, bundle.load_address)
        to = bundle.load_to
        place = Indexed.unpack(bundle.load_address)
        base, increment = place.register, place.increment
        if bundle.load is Load.ABSOLUTE:
            return lambda: memory[address()], partial(registers.__setitem__, to)
        if bundle.load is Load.REGISTER:

            def look_up() -> Word:
                place = registers[base]
                if isinstance(place, Doubtful):
                    return _looked_up(memory, place)
                return None if place is None else memory[address()]

            return look_up, partial(registers.__setitem__, to)

        def read() -> tuple[int, Word]:
            at = address()
            return at, memory[at]

        def write(pair: tuple[int, Word]) -> None:
            at, word = pair
            registers[to] = word
            registers[base] = at + increment

        return read, write

    def _store(self, bundle: Scalar, number: int) -> _Slot:
        core = self._core
        match bundle.store:
            case Store.PUSH:
                return self._operand(bundle.store_from), core._push
            case Store.DESCRIPTOR:
                slot = bundle.store_address
                if slot >= len(core._descriptor):
                    return _failing(f"a descriptor has no word {slot}"), _ignore
                write = partial(core._descriptor.__setitem__, slot)
                return self._operand(bundle.store_from), write
            case Store.ISSUE:
                return partial(self._issue, number), _identity
        address = self._address(bundle.store, bundle.store_address)
        value = self._operand(bundle.store_from)
        memory, registers = core._memory, core._registers
        place = Indexed.unpack(bundle.store_address)
        base, increment = place.register, place.increment
        increments = bundle.store is Store.INCREMENT
        late, stores_late = core._late, core._late.delays_stores

        def write_memory(pair: tuple[int, Word]) -> None:
            at, word = pair
            if stores_late:
                late.store(at, core.steps, memory[at])
            memory[at] = word
            if increments:
                registers[base] = at + increment

        return lambda: (address(), value()), write_memory

    def _issue(self, bundle: int) -> Descriptor:
        words = []
        for slot, word in zip(DescriptorSlot, self._core._descriptor, strict=True):
            if word is _UNSET:
                raise _Trap(f"a descriptor is issued whose {slot.name} was never written")
            if _certain(word) is None:
                raise _unknown(f"word {slot.name} of a descriptor")
            words.append(word)
        low, high, size, tag = words
        if tag not in DescriptorTag._value2member_map_:
            raise _Trap(f"a descriptor with tag {tag}, which does not exist")
        return Descriptor(self._chunk, bundle, high << 32 | low, size, DescriptorTag(tag))

    # Control and other units.

    def _branch(self, branch: Branch, bundle: int) -> _Step:
        target = self._index.get(bundle + branch.offset)
        if target is None:
            jump: _Step = _failing(
                f"a branch to bundle {bundle + branch.offset}, where no instruction of the chunk"
                " begins"
            )
        else:
            jump = _constant(target)
        if not branch.conditional:
            return jump
        test = self._predicate(branch.condition, branch.condition_sense)
        return lambda: jump() if test() else None

    def _loop(self, loop: Loop, index: int) -> _Step:
        left = len(self._placed) - index - 1
        if left < loop.length:
            return _failing(f"a loop over {loop.length} bundles, {left} are left")
        for place in range(index + 1, index + 1 + loop.length):
            item = self._placed[place][1]
            if isinstance(item, Loop):
                return _failing("a loop inside a loop")
            if not isinstance(item, Scalar):
                return _failing(f"a loop over {type(item).__name__}, bodies are scalar")
        if not loop.count or not loop.length:
            return _failing(f"a loop of {loop.length} bundles that runs {loop.count} times")
        return _constant(_Repeat(loop.count, loop.length))

    def _dispatch(self, item: TileInstruction | TileFence, bundle: int) -> _Step:
        based = isinstance(item, NarrowToWide) and item.base_from_register
        masked = isinstance(item, TileInstruction) and item.tiles_from_register
        if not based and not masked:
            return _constant(Dispatch(self._chunk, bundle, item, item.tiles))
        base: Callable[[], Word] = _constant(None)
        mask: Callable[[], Word] = _constant(item.tiles)
        if isinstance(item, TileInstruction):
            base = self._operand(item.base_register) if based else base
            mask = self._operand(item.tiles_register) if masked else mask

        def step() -> Dispatch:
            first, tiles = _certain(base()), _certain(mask())
            return Dispatch(
                self._chunk,
                bundle,
                item,
                None if tiles is None else tiles & 0xFFFF,
                first,
                based and first is None,
            )

        return step

    def _outfeed(self, item: Outfeed, bundle: int) -> _Step:
        core = self._core
        event = Stream(self._chunk, bundle, item)
        words: list[int] | None = None

        def step() -> Stream:
            nonlocal words
            core._charge(item.buffer.steps)
            if words is None:
                words = _words(item)
            for word in words:
                core._memory[word] = None
            return event

        return step


_MOST_WORDS = 1 << 16
"""Words of one outfeed to memory that are believed, several times what programs bring at once."""


def _words(item: Outfeed) -> list[int]:
    """Distinct words that an outfeed writes."""
    try:
        addresses = item.buffer.addresses(limit=_MOST_WORDS)
    except FormatError as error:
        raise _Trap(error.what) from None
    low, high = int(addresses.min()), int(addresses.max())
    if low < 0 or high >= MEMORY_WORDS:
        word = high if high >= MEMORY_WORDS else low
        raise _Trap(f"word {word} of scalar memory, which has {MEMORY_WORDS}")
    return list(set(addresses.tolist()))


def _unknown(what: str) -> _Trap:
    return _Trap(
        f"{what} is unknown, and the program's course depends on it",
        unknown=True,
        hint="supply the words that OUTFEED brings from the device",
    )


def _doubted(function: Callable[[int, int], int | bool | None], x: Word, y: Word) -> Word:
    """Result of an operation on words of which one at least is unknown."""
    if x is None or y is None:
        return None
    marks = [mark for mark in map(mark_of, (x, y)) if mark != KNOWN]
    if isinstance(x, Several) or isinstance(y, Several):
        return _of_images([function(*words) for words in per_image(x, y)], marks)
    result = function(x, y)
    # A predicate is known or not.
    return None if result is None or isinstance(result, bool) else Doubtful(result, _worst(marks))


def _worst(marks: Sequence[int]) -> int:
    """Mark of what is computed from words, given the marks of those that are not known."""
    return min(map(entire, marks), default=KNOWN)


def _of_images(results: Sequence[int | bool | None], marks: Sequence[int]) -> Word:
    """A word, or a predicate, from the result of each image.

    Raises:
        SimulationError: a predicate, or whether there is a result, differs between images.
    """
    if any(result is None or isinstance(result, bool) for result in results):
        if any(result is not results[0] for result in results):
            raise apart("a decision")
        return None if marks else results[0]
    return word_of([result for result in results if result is not None], _worst(marks))


def _looked_up(memory: Sequence[Word], place: Doubtful) -> Word:
    """The word at a place that is not certain, or that images have for themselves."""
    places = place.words if isinstance(place, Several) else (int(place),)
    found = [memory[at] if at < MEMORY_WORDS else None for at in places]
    marks = [mark for mark in (place.mark, *map(mark_of, found)) if mark != KNOWN]
    if None in found:
        return None
    words = [
        word.words[number] if isinstance(word, Several) else int(word or 0)
        for number, word in enumerate(found)
    ]
    return word_of(words, _worst(marks))


def _unary(function: Callable[[int], int], operand: Callable[[], Word]) -> Callable[[], Word]:
    def read() -> Word:
        word = operand()
        if isinstance(word, Doubtful):
            if function is _same:
                return word
            marks = [] if word.mark == KNOWN else [word.mark]
            if isinstance(word, Several):
                return _of_images([function(one) for one in word.words], marks)
            return Doubtful(function(word), _worst(marks))
        return None if word is None else function(word)

    return read


def _constant(value: Any) -> _Step:
    return lambda: value


def _failing(what: str) -> Callable[[], Any]:
    def step() -> Any:
        raise _Trap(what)

    return step


def _ignore(value: object) -> None:
    del value


def _identity(value: Any) -> Any:
    return value
