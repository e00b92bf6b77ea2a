"""The Edge TPU: scalar core, stream units, ring, mesh and 16 tiles, executing a program.

The functional model has no clock. Every engine that can move does, until nothing moves; then the
scalar core goes on, or there is a deadlock. Programs are correct for every order that the flags
allow, with two exceptions: a ring consumer may rely on its rows being taken before the next one
arrives, so the wide-to-narrow engine has its turn after every row that does; and a conversion may
rely on rows of the one before it having been sent, so the ring producer has its turn after each.

Units decide what to move, and give the machine a move for it (`do`). A program that comes again is
not decided on again: its moves are made with other data (`course`).
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.progress import reached
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.conversion import NarrowToWideUnit, WideToNarrowUnit
from fitzroy.hw_models.edgetpu.course import Counters, Course, Move
from fitzroy.hw_models.edgetpu.engine import Issue, movable
from fitzroy.hw_models.edgetpu.lateness import Lateness
from fitzroy.hw_models.edgetpu.latitude import NONE, Latitude
from fitzroy.hw_models.edgetpu.memory import TILES, TileMemory, selection
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS, MeshUnit
from fitzroy.hw_models.edgetpu.op import OpUnit
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.op_plan import plan as op_plan
from fitzroy.hw_models.edgetpu.recording import Dispatched, Entry, Recording, Streamed
from fitzroy.hw_models.edgetpu.resize import ResizePlan, resize, resize_marks, resize_plan
from fitzroy.hw_models.edgetpu.ring import Ring, RingConsumeUnit, RingProduceUnit
from fitzroy.hw_models.edgetpu.scalar import (
    ChunkEnd,
    ChunkStart,
    Descriptor,
    Dispatch,
    Event,
    Fence,
    HostWords,
    ScalarCore,
    Stream,
)
from fitzroy.hw_models.edgetpu.sequence import passed, stretch
from fitzroy.hw_models.edgetpu.state import Head, Traffic, done_of, total_of
from fitzroy.hw_models.edgetpu.stream import (
    InfeedUnit,
    OutfeedUnit,
    PopUnit,
    StreamPlan,
    joined,
    stream_plan,
)
from fitzroy.hw_models.edgetpu.turns import Turns
from fitzroy.hw_models.edgetpu.unknown import (
    KNOWN,
    Origin,
    Several,
    by_byte,
    mark_of,
    per_image,
    unknown,
    word_of,
)
from fitzroy.hw_models.isa.counters import distance, signed16
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    ENGINE_OF,
    ScalarFlag,
    StreamEngine,
    TileEngine,
    TileFlag,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import NluTable, Resize, TensorOp

_CONSUMERS = (TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B)
_TAKEN = (*_CONSUMERS, TileEngine.NARROW_TO_WIDE)
"""Engines whose rows are taken before their next ones come."""

_TAKING = (TileEngine.WIDE_TO_NARROW, TileEngine.RING_PRODUCE)
"""Engines that take them."""

_CUT = 0.25
"""With delays, share of turns that a unit misses, and of those that it breaks off."""

_MEANWHILE = (0, 0, 1, 4, 16)
"""With delays, turns that units have before the scalar core goes on, one as likely as the other."""


class Host(Protocol):
    """Who answers the descriptors of a program."""

    def send(self, descriptor: Descriptor) -> Array:
        """Bytes of an input or of parameters, uint8[size]."""
        ...

    def receive(self, descriptor: Descriptor, data: Array) -> None:
        """Take bytes of an output."""
        ...

    def interrupt(self, number: int) -> None:
        """Take an interrupt."""
        ...


@dataclass(frozen=True, slots=True)
class NextChunk:
    """The chip waits for a chunk of instructions: answer with them."""

    number: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """The chip waits for bytes of an input or of parameters: answer with uint8[size].

    A machine for several images takes uint8[images, size], too.
    """

    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class Delivery:
    """The chip sends bytes of an output, uint8[size].

    A machine for several images sends uint8[images, size], or uint8[1, size] that all share.
    """

    descriptor: Descriptor
    data: Array


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The chip interrupts the host."""

    number: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The scalar core is about to do something; only while the machine is `stepping`."""

    event: Event


Request = NextChunk | Fetch | Delivery | Interrupt | Pause
"""What a program asks of whoever executes it."""

Execution = Generator[Request, Any, None]
"""A program under way: yields requests, and is sent the answers to `NextChunk` and `Fetch`."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Bytes of output that are unknown.

    Attributes:
        count: how many.
        origin: where the first one comes from.
    """

    count: int
    origin: Origin

    def error(self, more: str = "") -> SimulationError:
        """The error for outputs that depend on unknown values."""
        return SimulationError(
            f"{self.count} bytes of output depend on memory that nothing has written",
            reason=f"the first comes from {self.origin}{more}",
        )


class _Unit:
    """Kinds of turns beyond the engines of tiles."""

    DISPATCH = 10
    AVDATA_POP = 11
    PARAMETER_POP = 12
    INFEED = 13
    OUTFEED = 14


_STREAMS = (_Unit.AVDATA_POP, _Unit.PARAMETER_POP, _Unit.INFEED, _Unit.OUTFEED)
_TURNS = (
    TileEngine.WIDE_TO_NARROW,
    TileEngine.OP,
    TileEngine.RING_PRODUCE,
    TileEngine.NARROW_TO_WIDE,
    *(engine for engine in TileEngine if engine.name.startswith("MESH")),
    *_CONSUMERS,
    _Unit.OUTFEED,
    _Unit.INFEED,
    _Unit.AVDATA_POP,
    _Unit.PARAMETER_POP,
    _Unit.DISPATCH,
)
"""Order of turns among the units that can move."""


class Machine:
    """A chip from power-up on; programs that run on it one after the other share its memories.

    Args:
        seed: randomize the order of engines and what memories hold at first.
        latitude: how late, how short and how irregular units are.
        images: how many images programs compute in lockstep, each with data of its own.

    Raises:
        UsageError: delays are random, and there is no seed; or partial sums come late, and there
            are several images.

    Attributes:
        latitude: the same, as far as the seed decides on it.
        memory: memories of the tiles.
        flags: values of the tiles' flags, by flag and tile.
        scalar_flags: values of the scalar core's flags.
        core: the scalar core.
        doubts: unknown values among the outputs; None if a program that has any is refused.
        recording: takes down what the scalar core does, None to take nothing down.
        images: how many images programs compute in lockstep.
        stepping: whether to pause before everything that the scalar core does.
    """

    def __init__(
        self, *, seed: int | None = None, latitude: Latitude = NONE, images: int = 1
    ) -> None:
        if latitude.delays and seed is None:
            raise UsageError("delays are random", reason="there is no seed")
        if latitude.sums and images > 1:
            raise UsageError("late sums are those of one image", reason=f"there are {images}")
        self.images = images
        self.recording: Recording | None = None
        self.doubts: list[Doubt] | None = None
        self.stepping = False
        self._rng = None if seed is None else random.Random(seed)
        self.latitude = latitude.drawn(self._rng.randint) if self._rng else latitude
        self.memory = TileMemory(seed, images)
        self.flags = [[0] * TILES for _ in TileFlag]
        self.scalar_flags = [0] * len(ScalarFlag)
        self.core = ScalarCore(late=Lateness(self.latitude, self._rng))
        # Programs copy words that nothing has written, and mask them out later.
        words = BEAGLE.memories.scalar.elements
        draw = random.Random(seed).getrandbits if seed is not None else lambda _: 0
        self.core.write(0, [draw(32) for _ in range(words)])
        ring = self._ring = Ring()
        self._op = OpUnit(self.memory, self.latitude.sums)
        # What is taken down of the program under way, and what is known of the last one.
        self._course: Course | None = None
        self._last: tuple[object, Course | None] = (None, None)
        self._units: dict[TileEngine, Any] = {
            TileEngine.WIDE_TO_NARROW: WideToNarrowUnit(self),
            TileEngine.NARROW_TO_WIDE: NarrowToWideUnit(self),
            TileEngine.RING_PRODUCE: RingProduceUnit(self, ring),
            TileEngine.RING_CONSUME_A: RingConsumeUnit(self, ring, 0),
            TileEngine.RING_CONSUME_B: RingConsumeUnit(self, ring, 1),
            **{ENGINE_OF[opcode]: MeshUnit(self, opcode) for opcode in DIRECTIONS},
            TileEngine.OP: _OpEngine(self, self._op),
        }
        self._queues: list[list[deque[Issue]]] = [
            [deque() for _ in range(TILES)] for _ in TileEngine
        ]
        self._positions: list[list[Any]] = [[unit_start(e)] * TILES for e in TileEngine]
        self._dispatchers: list[deque[Issue]] = [deque() for _ in range(TILES)]
        self._pops = {
            PopMemory.ACTIVATION: PopUnit(self, PopMemory.ACTIVATION, images),
            PopMemory.PARAMETER: PopUnit(self, PopMemory.PARAMETER, images),
        }
        buffers = {
            int(InfeedMemory.PARAMETER): self._pops[PopMemory.PARAMETER].buffer,
            int(InfeedMemory.ACTIVATION): self._pops[PopMemory.ACTIVATION].buffer,
        }
        self._stream_units: dict[int, Any] = {
            _Unit.AVDATA_POP: self._pops[PopMemory.ACTIVATION],
            _Unit.PARAMETER_POP: self._pops[PopMemory.PARAMETER],
            _Unit.INFEED: InfeedUnit(self, ring, buffers),
            _Unit.OUTFEED: OutfeedUnit(self, ring),
        }
        self._streams: dict[int, deque[tuple[Stream, StreamPlan]]] = {
            kind: deque() for kind in _STREAMS
        }
        self._stream_positions = dict.fromkeys(_STREAMS, 0)
        self._done = 0
        self._turns = Turns(len(_TURNS), self._move, self._choose)
        self._producers: dict[int, int] = {}
        self._current = 0
        self._cut = False
        self._prompt = False
        self._output: deque[Array] = deque()
        self._outputs: deque[Descriptor] = deque()

    # --- what units call -------------------------------------------------------------------------

    def held_back(
        self, tiles: list[int], position: int, limit: int, bounds: list[int] | None
    ) -> tuple[list[int], int]:
        """Which of some tiles move now, and how far: all as far as they can, without delays."""
        if not self.latitude.delays or self._prompt or self._rng is None:
            return tiles, limit
        limit = self._stop(position, limit)
        if bounds is not None:
            limit = bounds[bisect_right(bounds, limit) - 1]
        if limit <= position:
            self._cut = True
            return [], position
        if len(tiles) > 1 and self._rng.random() < _CUT:
            self._cut = True
            tiles = sorted(self._rng.sample(tiles, self._rng.randint(1, len(tiles))))
        return tiles, limit

    def reach(self, plan: StreamPlan, position: int) -> int:
        """How far a stream unit may go from a position, as far as flags are concerned."""
        end = plan.limit(self.scalar_flags, position)
        return self._stop(position, end) if self.latitude.delays and end > position else end

    def _stop(self, position: int, limit: int) -> int:
        """Where a unit stops that could go as far as a limit: there, before it, or at once."""
        assert self._rng is not None
        draw = self._rng.random()
        if draw >= 2 * _CUT:
            return limit
        self._cut = True
        return position if draw < _CUT else self._rng.randint(position, limit)

    def do(self, move: Move, held: int = 0) -> None:
        """Make a move, which holds so many bytes, now and whenever the program is repeated."""
        move()
        self._take_down(move, held)

    def _take_down(self, move: Move, held: int) -> None:
        """Add a move to the course, which is given up when it takes too much memory."""
        course = self._course
        if course is not None:
            course.move(move, held)
            if course.room < 0:
                self._course = None

    def compute(self, plan: OpPlan, tiles: list[int], position: int, end: int) -> None:
        """Do some steps of a tensor operation on some tiles."""
        unit, course = self._op, self._course
        unit.room = 0 if course is None else course.room
        pieces = unit.compute(plan, np.array(tiles), position, end)
        if course is None:
            return
        if pieces is None:
            # What is unknown of the results depends on data.
            self._course = None
            return
        self._take_down(partial(unit.repeat, pieces), course.room - unit.room)

    def count(self, tiles: list[int], flag: int, increment: int) -> None:
        """Increment a flag of some tiles."""
        if increment:
            row = self.flags[flag]
            for tile in tiles:
                row[tile] += increment
            self._producers[flag] = self._current
            self._turns.changed(1 << flag)

    def token(self, channel: int, increment: int) -> None:
        """Increment the token counters of a ring channel in all tiles and the scalar core."""
        if increment:
            flag = TileFlag.RING_PRODUCER_A + channel
            self.flags[flag] = [value + increment for value in self.flags[flag]]
            self._producers[flag] = self._current
            self._turns.changed(1 << flag)
            self._turns.awake.add(_Unit.DISPATCH)
            self.count_scalar(ScalarFlag.PRODUCER_A + channel, increment)

    def count_scalar(self, flag: int, increment: int) -> None:
        """Increment a flag of the scalar core."""
        if increment:
            self.scalar_flags[flag] += increment
            self._turns.awake.update(_STREAMS)

    def read_words(self, address: int, count: int) -> Array:
        """Words of the scalar core's memory, uint32[images or 1, count]."""
        words = self.core.arrived(address, count)
        # A word may be 0 for the first image only.
        return _values([0 if word is None else word for word in words])

    def read_marks(self, address: int, count: int) -> Array:
        """Marks of words of the scalar core's memory, int16[count]."""
        words = self.core.arrived(address, count)
        # A word without value: a shift by more than 31 bits.
        nothing = unknown(self.memory.origins.number(_no_value)) if None in words else KNOWN
        return np.array([nothing if w is None else mark_of(w) for w in words], np.int16)

    def write_words(self, addresses: Array, words: Array, known: Array) -> None:
        """Write words, uint32[images or 1, count], of the scalar core's memory, and their marks."""
        pairs = zip(words.T.tolist(), known.tolist(), strict=True)
        values = [word_of(word, mark) for word, mark in pairs]
        place = stretch(addresses)
        if isinstance(place, slice) and place.step in (None, 1):
            self.core.write(place.start, values)
            return
        for address, value in zip(addresses.tolist(), values, strict=True):
            self.core.write(address, (value,))

    def to_host(self, data: Array, known: Array) -> None:
        """Append bytes to the output stream, with the mark of each.

        Raises:
            SimulationError: some are unknown, and unknown outputs are refused.
        """
        if known.min() != KNOWN:
            doubtful = known[known != KNOWN]
            doubt = Doubt(len(doubtful), self.memory.origins.of(doubtful[0]))
            if self.doubts is None:
                raise doubt.error()
            self.doubts.append(doubt)
        self._output.append(data)

    # --- programs --------------------------------------------------------------------------------

    def run(self, chunks: Sequence[Sequence[Instruction]], host: Host) -> None:
        """Execute a program to its end.

        Raises:
            SimulationError: a deadlock, an access outside a memory or to what nothing has
                written, something left over at the end, or a program that does not end with its
                last chunk.
        """
        for _ in self.serve(chunks, host):
            pass

    def serve(
        self, chunks: Sequence[Sequence[Instruction]], host: Host, program: object = None
    ) -> Iterator[Pause]:
        """Execute a program, with its host, from pause to pause.

        Args:
            chunks: its instructions.
            host: who answers its descriptors.
            program: as for `execute`.

        Raises:
            SimulationError: as `run`.
            Diverged: as `execute`.
        """
        execution = self.execute(program)
        answer: Any = None
        asked = 0
        while True:
            try:
                request = execution.send(answer)
            except StopIteration:
                break
            answer = None
            match request:
                case NextChunk(number):
                    if number == len(chunks):
                        raise SimulationError(
                            "the program does not end",
                            reason=f"the halt of its last chunk, {number - 1}, does not end it",
                        )
                    answer, asked = chunks[number], number + 1
                case Fetch(descriptor):
                    answer = host.send(descriptor)
                case Delivery(descriptor, data):
                    host.receive(descriptor, data)
                case Interrupt(number):
                    host.interrupt(number)
                case Pause():
                    yield request
        if asked < len(chunks):
            raise SimulationError(
                f"the program ends in chunk {asked - 1}", reason=f"there is a chunk {asked}"
            )

    def execute(self, program: object = None) -> Execution:
        """A program as a generator of requests, which ends with the program.

        A program that is executed for the second time in a row is taken down, and from the third
        time on what its units moved is moved again, see `course`.

        Args:
            program: what tells the program from others; None if nobody says whether it is the
                same as before.

        Raises:
            SimulationError: a deadlock, an access outside a memory or to what nothing has
                written, or something left over at the end.
            Diverged: this time, data lead to another course; the chip is in the middle of it.
        """
        before, known = self._last
        again = program is not None and program is before and self._rng is None
        again = again and self.latitude == NONE and self.recording is None and not self.stepping
        begin = self._counters()
        if again and known is not None and known.begin == begin:
            yield from self._follow(known)
            return
        self._last = (program, None)
        self._course = Course(begin) if again else None
        try:
            yield from self._events(self._handle)
            self._turns.settle()
            yield from self._deliver()
            self._finish()
            if self._course is not None:
                self._course.end = self._counters()
                self._last = (program, self._course)
        finally:
            self._course = None

    def _events(self, handle: Callable[[Event], Execution]) -> Execution:
        """Execute the scalar core, and handle all that it comes to."""
        number = before = 0
        ended = False
        self.core.renew_budget()
        while not ended:
            chunk: Sequence[Instruction] = yield NextChunk(number)
            self._turns.settle()
            self._record(ChunkStart(number))
            for event in self.core.execute(chunk, number):
                if self.stepping:
                    yield Pause(event)
                self._meanwhile()
                yield from handle(event)
                if isinstance(event, Dispatch | Stream | Fence):
                    reached(before + event.bundle)
                ended = isinstance(event, ChunkEnd) and event.end_program
            number += 1
            before += bundle_count(chunk)

    def _follow(self, course: Course) -> Execution:
        """Execute a program whose course is known."""
        numbers = itertools.count()

        def handle(event: Event) -> Execution:
            for move in course.moves(next(numbers), event):
                move()
            if isinstance(event, Descriptor | HostWords | ChunkEnd):
                yield from self._handle(event)

        yield from self._events(handle)
        yield from self._deliver()
        self._finish()
        assert course.end is not None
        self.flags = [list(values) for values in course.end.flags]
        self.scalar_flags = list(course.end.scalar_flags)
        self._done = course.end.done

    def _counters(self) -> Counters:
        """What the course of a program depends on."""
        flags = tuple(tuple(values) for values in self.flags)
        return Counters(flags, tuple(self.scalar_flags), self._done)

    def _handle(self, event: Event) -> Execution:
        if self._course is not None:
            self._course.event(event)
        match event:
            case Dispatch():
                self._dispatch(event)
            case Stream():
                kind = _stream_kind(event.instruction)
                plan = stream_plan(event.instruction)
                self._record(Streamed(event, plan))
                self._await_room(lambda: self._full(self._streams[kind]), event)
                self._streams[kind].append((event, plan))
                self._turns.awake.add(kind)
                if self.core.storing:
                    # It goes ahead at once, as it would if nothing held it up.
                    self._turns.settle()
            case Fence():
                self._record(event)
                self._turns.settle()
                self._fence(event.instruction, event)
            case Descriptor():
                self._record(event)
                yield from self._descriptor(event)
            case HostWords():
                if None in event.words:
                    raise SimulationError("the scalar core sends a word that has no value")
                self._record(event)
                self._turns.settle()
                marks = np.array([mark_of(word) for word in event.words], np.int16)
                data = _values([word for word in event.words if word is not None])
                self.to_host(data.view(np.uint8), by_byte(marks).reshape(-1))
                yield from self._deliver()
            case ChunkStart() | ChunkEnd():
                self._record(event)
                self._turns.settle()
                # A host that has outputs to take may do so before it sends the next chunk.
                yield from self._deliver()

    def _record(self, entry: Entry) -> None:
        if self.recording is not None:
            self.recording.append(self.core.steps, entry)

    def _dispatch(self, event: Dispatch) -> None:
        if event.tiles is None or event.base_unknown:
            raise SimulationError(
                f"bundle {event.bundle} of chunk {event.chunk} depends on an unknown register"
            )
        issue = Issue(event.instruction, event.chunk, event.bundle, event.base)
        self._record(Dispatched(issue, event.tiles))
        queues = [self._dispatchers[tile] for tile in range(TILES) if event.tiles >> tile & 1]
        self._await_room(lambda: any(self._full(queue) for queue in queues), event)
        for queue in queues:
            queue.append(issue)
        self._turns.awake.add(_Unit.DISPATCH)

    def _full(self, queue: deque[Any]) -> bool:
        """Whether a queue has no room for another instruction."""
        return 0 < self.latitude.queues <= len(queue)

    def _await_room(self, full: Callable[[], bool], event: Event) -> None:
        """The scalar core waits for room in a queue.

        Raises:
            SimulationError: there will not be any.
        """
        while full():
            if not self._turns.awake:
                raise SimulationError(
                    "deadlock",
                    reason="; ".join(["a queue is full", *self._blocked()][:12]),
                    where=_place(event),
                )
            self._turns.turn()

    def _descriptor(self, event: Descriptor) -> Execution:
        if event.tag in (DescriptorTag.INPUT, DescriptorTag.PARAMETERS):
            inputs = event.tag is DescriptorTag.INPUT
            memory = PopMemory.ACTIVATION if inputs else PopMemory.PARAMETER
            most = self.latitude.inputs if inputs else self.latitude.parameters
            self._await_room(lambda: 0 < most <= self._pops[memory].queue.parts, event)
            # A program may ask for what it has sent to the scratch buffer before.
            self._turns.settle()
            yield from self._deliver()
            self._pops[memory].queue.push(np.atleast_2d((yield Fetch(event))))
            self._turns.awake.update(_STREAMS)
        elif event.tag is DescriptorTag.OUTPUT:
            self._outputs.append(event)
        else:
            self._turns.settle()
            yield from self._deliver()
            yield Interrupt(event.tag - DescriptorTag.INTERRUPT_0)

    def _deliver(self) -> Execution:
        """Give outputs to the host that are complete."""
        while self._outputs:
            size = self._outputs[0].size
            if self._left() < size:
                return
            data = joined(self._output) if self._output else np.zeros((1, 0), np.uint8)
            self._output = deque([data[:, size:]]) if data.shape[1] > size else deque()
            sent = data[:, :size]
            if self.images == 1:
                sent = sent[0]
            yield Delivery(self._outputs.popleft(), sent)

    def _left(self) -> int:
        """Bytes of output that the host does not have yet."""
        return sum([data.shape[1] for data in self._output])

    # --- turns -----------------------------------------------------------------------------------

    def _meanwhile(self) -> None:
        """With delays, let units move for a random time before the scalar core goes on."""
        if self.latitude.delays and self._rng is not None:
            for _ in range(self._rng.choice(_MEANWHILE)):
                if self._turns.awake:
                    self._turns.turn()

    def _move(self, kind: int) -> None:
        """Let a unit move that may be able to."""
        # What published programs leave to time is done in time.
        self._prompt = kind in _TAKING and not self.latitude.any_order
        self._cut = False
        if kind == _Unit.DISPATCH:
            self._dispatch_turn()
        elif kind in _STREAMS:
            self._stream_turn(kind)
        else:
            self._engine_turn(TileEngine(kind))
        if self._cut:
            self._turns.awake.add(kind)

    def _choose(self, awake: set[int]) -> int:
        """Whose turn it is."""
        if self._rng is None:
            return next(kind for kind in _TURNS if kind in awake)
        kind = self._rng.choice(sorted(awake))
        if self.latitude.any_order:
            return kind
        if kind in _CONSUMERS and TileEngine.WIDE_TO_NARROW in awake:
            return TileEngine.WIDE_TO_NARROW
        if kind == TileEngine.NARROW_TO_WIDE and TileEngine.RING_PRODUCE in awake:
            return TileEngine.RING_PRODUCE
        return kind

    def _engine_turn(self, engine: TileEngine) -> None:
        unit = self._units[engine]
        queues, positions = self._queues[engine], self._positions[engine]
        while True:
            groups: dict[tuple[int, Any], list[int]] = {}
            for tile, queue in enumerate(queues):
                if queue:
                    groups.setdefault((id(queue[0]), positions[tile]), []).append(tile)
            moved = False
            waits = 0
            for (_, position), members in groups.items():
                issue = queues[members[0]][0]
                self._current = issue.bundle
                self.memory.origins.reader = issue
                try:
                    if issue.plan is None:
                        issue.plan = unit.plan(issue)
                        issue.watched = _flags(issue.plan)
                    tiles, place, done = unit.advance(issue, members, position)
                except SimulationError as error:
                    raise _located(error, engine, issue, members) from None
                except _MISFITS as error:
                    raise _located(_misfit(error), engine, issue, members) from error
                if len(tiles) < len(members):
                    waits |= issue.watched
                if not tiles:
                    continue
                moved = True
                for tile in tiles:
                    positions[tile] = place
                    if done:
                        queues[tile].popleft()
                        positions[tile] = unit_start(engine)
                if done:
                    self._turns.awake.add(_Unit.DISPATCH)
            self._turns.wait(engine, waits)
            if not moved:
                return
            if engine is TileEngine.RING_PRODUCE:
                self._turns.awake.update(_CONSUMERS)
                if self._ring.outfeed:
                    self._turns.awake.add(_Unit.OUTFEED)
            if engine in _TAKEN or self._rng is not None:
                # Whoever takes these rows goes first.
                self._turns.awake.add(engine)
                return

    def _stream_turn(self, kind: int) -> None:
        queue = self._streams[kind]
        while queue:
            event, plan = queue[0]
            position = self._stream_positions[kind]
            self._current = event.bundle
            try:
                place = self._stream_units[kind].advance(event.instruction, plan, position)
            except (SimulationError, *_MISFITS) as error:
                found = error if isinstance(error, SimulationError) else _misfit(error)
                raise SimulationError(
                    found.what,
                    reason=found.reason,
                    where=f"{event.instruction.op.name.lower()} at bundle {event.bundle} of chunk "
                    f"{event.chunk}",
                ) from (None if found is error else error)
            if place > position and kind == _Unit.INFEED:
                self._turns.awake.update(_CONSUMERS)
            self._stream_positions[kind] = place
            if place < len(plan.order):
                return
            queue.popleft()
            self._stream_positions[kind] = 0

    def _dispatch_turn(self) -> None:
        for tile, queue in enumerate(self._dispatchers):
            while queue:
                issue = queue[0]
                instruction = issue.instruction
                if isinstance(instruction, TileFence):
                    if not self._fence_open(instruction, tile):
                        break
                    self._pass_fence(instruction, tile)
                else:
                    engine = ENGINE_OF[instruction.op]
                    if self._full(self._queues[engine][tile]):
                        break
                    self._queues[engine][tile].append(issue)
                    self._turns.awake.add(engine)
                queue.popleft()

    def _fence_open(self, fence: TileFence, tile: int) -> bool:
        for engine in TileEngine:
            if fence.idle >> engine & 1 and self._queues[engine][tile]:
                return False
        a, b = self.flags[TileFlag.RING_PRODUCER_A], self.flags[TileFlag.RING_PRODUCER_B]
        return not (
            (fence.wait_ring_a and self._below(a[tile], fence.ring_threshold))
            or (fence.wait_ring_b and self._below(b[tile], fence.ring_threshold))
        )

    def _below(self, value: int, threshold: int) -> bool:
        """Whether a 16-bit counter is below a threshold that a fence waits for."""
        if self.latitude.plain_counters:
            return signed16(value) < signed16(threshold)
        return distance(value, threshold) < 0

    def _pass_fence(self, fence: TileFence, tile: int) -> None:
        for flag, values in enumerate(self.flags):
            if fence.set >> flag & 1:
                values[tile] = fence.value
        self._turns.changed(fence.set)
        if fence.signal:
            self._done |= 1 << tile

    def _fence(self, fence: ScalarFence, event: Fence) -> None:
        blocked = list(self._missing(fence))
        if blocked:
            raise SimulationError(
                "deadlock",
                reason="; ".join([*blocked, *self._blocked()][:12]),
                where=f"scalar_fence at bundle {event.bundle} of chunk {event.chunk}",
            )
        self._done &= ~fence.clear
        if fence.idle >> StreamEngine.PIPELINE & 1:
            self.core.complete_stores()
        for flag in ScalarFlag:
            if fence.set >> flag & 1:
                self.scalar_flags[flag] = fence.value
        self._turns.awake.update(_STREAMS)

    def _missing(self, fence: ScalarFence) -> Iterator[str]:
        """What the scalar core waits for and will not get."""
        if fence.wait_tiles and fence.tiles & ~self._done:
            late = [str(t) for t in range(TILES) if fence.tiles & ~self._done & 1 << t]
            yield f"the scalar core waits for tiles {', '.join(late)}"
        for engine, kind in zip(StreamEngine, _STREAMS, strict=False):
            if fence.idle >> engine & 1 and self._streams[kind]:
                yield f"the scalar core waits for {engine.name.lower()}"
        for flag in ScalarFlag:
            if fence.wait >> flag & 1:
                has, wants = self.scalar_flags[flag], fence.thresholds[flag]
                if self._below(has, wants):
                    yield f"the scalar core waits for {flag.name.lower()} >= {wants}, has {has}"

    def _blocked(self) -> Iterator[str]:
        """Who waits for what."""
        for engine in TileEngine:
            seen: set[int] = set()
            for tile, queue in enumerate(self._queues[engine]):
                if queue and id(queue[0]) not in seen:
                    seen.add(id(queue[0]))
                    yield f"tile {tile}: {queue[0]} {self._reason(engine, queue[0], tile)}"
        for tile, waiting in enumerate(self._dispatchers):
            if waiting:
                yield f"tile {tile}: {waiting[0]} is not dispatched"
                break
        for kind, streams in self._streams.items():
            if streams:
                event, _ = streams[0]
                name = event.instruction.op.name.lower()
                yield (f"{name} at bundle {event.bundle} is at unit {self._stream_positions[kind]}")

    def _reason(self, engine: TileEngine, issue: Issue, tile: int) -> str:
        position = self._positions[engine][tile]
        plan = issue.plan
        for gates, place in _gates(plan, position):
            for gate in gates:
                flag = gate.flag
                has = self.flags[flag][tile]
                if gate.limit(has, place) <= place:
                    name = TileFlag(flag).name.lower()
                    last = self._producers.get(flag)
                    by = ", never produced" if last is None else f", last produced by bundle {last}"
                    return f"waits for {name} >= {gate.wanted(place)}, has {has}{by}"
        return "waits for data"

    def _finish(self) -> None:
        """Everything is used up at the end of a program.

        Raises:
            SimulationError: something is left over.
        """
        left = [*self._blocked()]
        for channel, queues in enumerate(self._ring.queues):
            for tile, queue in enumerate(queues):
                if queue:
                    left.append(f"rows for tile {tile} on channel {'AB'[channel]}")
        if self._ring.outfeed:
            left.append("rows for the outfeed")
        for memory, pop in self._pops.items():
            if pop.queue.size:
                left.append(f"{pop.queue.size} bytes of {memory.name.lower()} data")
        if self._output or self._outputs:
            left.append(f"{self._left()} bytes of output")
        for engine in TileEngine:
            unit = self._units[engine]
            if isinstance(unit, MeshUnit) and any(unit.waiting):
                left.append(f"words on {engine.name.lower()}")
        if left:
            raise SimulationError(
                "something is left over at the end of the program", reason="; ".join(left[:8])
            )

    # --- what a debugger sees --------------------------------------------------------------------

    def settled(self) -> Machine:
        """A copy in which every unit has moved as far as it can; the machine itself stays.

        Its scalar core is good for its memory only.

        Raises:
            SimulationError: an access outside a memory or to what nothing has written.
        """
        # Instructions and their element orders do not change: copies share them.
        shared: list[Any] = [self._last]
        shared += [item for queue in self._streams.values() for pair in queue for item in pair]
        for queue in (*itertools.chain(*self._queues), *self._dispatchers):
            shared += [item for issue in queue for item in (issue.instruction, issue.plan)]
        recording, self.recording = self.recording, None
        try:
            copy = deepcopy(self, {id(item): item for item in shared if item is not None})
            copy._last = (None, None)
        finally:
            self.recording = recording
        copy._turns.settle()
        return copy

    @property
    def done(self) -> int:
        """Mask of the tiles whose done bits are set."""
        return self._done

    def heads(self) -> Iterator[Head]:
        """What engines, dispatchers and stream units are at; tiles in the same state together."""
        for engine in TileEngine:
            queues, positions = self._queues[engine], self._positions[engine]
            states = {
                tile: (queue[0], positions[tile], self._reason(engine, queue[0], tile))
                for tile, queue in enumerate(queues)
                if queue
            }
            for (issue, position, reason), tiles in _alike(states):
                yield _head(engine.name.lower(), tiles, issue, position, queues, reason)
        waiting = {
            tile: (queue[0], 0, self._closed(queue[0], tile))
            for tile, queue in enumerate(self._dispatchers)
            if queue
        }
        for (issue, position, reason), tiles in _alike(waiting):
            yield _head("dispatcher", tiles, issue, position, self._dispatchers, reason)
        for unit, kind in zip(StreamEngine, _STREAMS, strict=False):
            for event, plan in itertools.islice(self._streams[kind], 1):
                position = self._stream_positions[kind]
                yield Head(
                    unit.name.lower(),
                    0,
                    event.instruction,
                    event.chunk,
                    event.bundle,
                    position,
                    total_of(plan),
                    len(self._streams[kind]) - 1,
                    self._stream_reason(plan, position),
                )

    def traffic(self) -> Traffic:
        """What is on its way between units."""
        return Traffic(
            tuple(
                tuple(sum(message.left for message in queue) for queue in queues)
                for queues in self._ring.queues
            ),
            sum(message.left for message in self._ring.outfeed),
            {
                engine.name.lower(): tuple(unit.waiting)
                for engine, unit in self._units.items()
                if isinstance(unit, MeshUnit)
            },
            {memory.name.lower(): pop.queue.size for memory, pop in self._pops.items()},
            self._left(),
        )

    def _closed(self, issue: Issue, tile: int) -> str:
        """Why an instruction is not dispatched."""
        fence = issue.instruction
        if not isinstance(fence, TileFence):
            return "is about to be dispatched"
        wants = [
            f"{engine.name.lower()} to be idle"
            for engine in TileEngine
            if fence.idle >> engine & 1 and self._queues[engine][tile]
        ]
        for wait, flag in (
            (fence.wait_ring_a, TileFlag.RING_PRODUCER_A),
            (fence.wait_ring_b, TileFlag.RING_PRODUCER_B),
        ):
            has = self.flags[flag][tile]
            if wait and self._below(has, fence.ring_threshold):
                wants.append(f"{flag.name.lower()} >= {fence.ring_threshold}, has {has}")
        return f"waits for {' and '.join(wants)}" if wants else "is about to pass"

    def _stream_reason(self, plan: StreamPlan, position: int) -> str:
        for gate in plan.gates:
            has = self.scalar_flags[gate.flag]
            if gate.limit(has, position) <= position:
                name = ScalarFlag(gate.flag).name.lower()
                return f"waits for {name} >= {gate.wanted(position)}, has {has}"
        return "waits for data"


class _OpEngine:
    """The op engine's turn."""

    def __init__(self, machine: Machine, unit: OpUnit) -> None:
        self._machine = machine
        self._unit = unit

    def plan(self, issue: Issue) -> OpPlan | ResizePlan | None:
        instruction = issue.instruction
        if isinstance(instruction, TensorOp):
            return op_plan(instruction)
        return resize_plan(instruction) if isinstance(instruction, Resize) else None

    def advance(self, issue: Issue, tiles: list[int], position: int) -> tuple[list[int], int, bool]:
        instruction, plan = issue.instruction, issue.plan
        machine, where = self._machine, selection(tiles)
        if isinstance(instruction, NluTable):
            machine.do(partial(self._unit.load_table, instruction, where))
            return tiles, 0, True
        if isinstance(plan, ResizePlan):
            machine.do(partial(resize, plan, machine.memory, where))
            resize_marks(plan, machine.memory, where)
            return tiles, plan.steps, True
        tiles, end = movable(self._machine, plan.gates, tiles, position, plan.steps)
        if not tiles:
            return tiles, position, False
        machine.compute(plan, tiles, position, end)
        words = passed(plan.avdata, plan.written(position), plan.written(end))
        self._machine.count(tiles, TileFlag.AVDATA, words)
        self._machine.count(tiles, TileFlag.PARAMETERS, passed(plan.parameters, position, end))
        return tiles, end, end == plan.steps


def _values(words: Sequence[int]) -> Array:
    """Words of the scalar core, uint32[images or 1, count]."""
    if any(isinstance(word, Several) for word in words):
        return np.array(list(per_image(*words)), "<u4")
    return np.array([words], "<u4")


def _no_value() -> str:
    return "a word of scalar memory without value"


def _alike(
    states: dict[int, tuple[Issue, Any, str]],
) -> Iterator[tuple[tuple[Issue, Any, str], list[int]]]:
    """Tiles by what they have in common."""
    groups: dict[tuple[Issue, Any, str], list[int]] = {}
    for tile, state in states.items():
        groups.setdefault(state, []).append(tile)
    yield from groups.items()


def _head(
    unit: str,
    tiles: list[int],
    issue: Issue,
    position: Any,
    queues: Sequence[deque[Issue]],
    reason: str,
) -> Head:
    return Head(
        unit,
        sum(1 << tile for tile in tiles),
        issue.instruction,
        issue.chunk,
        issue.bundle,
        done_of(position),
        total_of(issue.plan),
        max(len(queues[tile]) for tile in tiles) - 1,
        reason,
    )


def unit_start(engine: TileEngine) -> Any:
    """Position of an instruction that has not begun; mesh engines have two halves."""
    return (0, 0) if engine.name.startswith("MESH") else 0


def _flags(plan: Any) -> int:
    """Mask of the flags that an instruction watches."""
    mask = 0
    for gates, _ in _gates(plan, (0, 0) if hasattr(plan, "send") else 0):
        for gate in gates:
            mask |= 1 << gate.flag
    return mask


def _gates(plan: Any, position: Any) -> Iterator[tuple[Any, int]]:
    if plan is None:
        return
    if isinstance(position, tuple):
        yield plan.send.gates, position[0]
        yield plan.receive.gates, position[1]
    else:
        yield plan.gates, position


def _stream_kind(instruction: Pop | Infeed | Outfeed) -> int:
    match instruction:
        case Pop(memory=PopMemory.ACTIVATION):
            return _Unit.AVDATA_POP
        case Pop():
            return _Unit.PARAMETER_POP
        case Infeed():
            return _Unit.INFEED
        case Outfeed():
            return _Unit.OUTFEED


def _place(event: Event) -> str:
    return (
        ""
        if isinstance(event, HostWords | ChunkStart)
        else f"bundle {event.bundle} of chunk {event.chunk}"
    )


_MISFITS = (IndexError, ValueError, OverflowError)
"""What numpy raises where shapes, strides or addresses of an instruction do not fit together."""


def _misfit(error: Exception) -> SimulationError:
    return SimulationError("operands of the instruction do not fit together", reason=str(error))


def _located(
    error: SimulationError, engine: TileEngine, issue: Issue, tiles: list[int]
) -> SimulationError:
    where = f"tiles {', '.join(map(str, tiles))}, {engine.name.lower()}, {issue}"
    return SimulationError(error.what, reason=error.reason, where=where, hint=error.hint)
