"""A timing model as plain as can be, to hold the fast one against.

Everything is simulated element by element: a heap of moments, and at each of them every unit is
asked in turn whether it can go on, until none can. Of the model under test it shares the recording
with its element orders, and the numbers of the chip. Rules are those of docs/timing.md.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.scalar import ChunkStart, Descriptor, Fence, HostWords
from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import ENGINE_OF, ScalarFlag, StreamEngine, TileEngine, TileFlag
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, PopMemory
from fitzroy.hw_models.isa.tensor import NluTable

TILES = BEAGLE.tiles.count
COLUMNS = BEAGLE.tiles.columns
T = BEAGLE.timing
ROWS_AHEAD = 2
BLOCK = 64
SIGN, MASK = 0x8000, 0xFFFF

PLAIN = (TileEngine.OP, TileEngine.WIDE_TO_NARROW, TileEngine.NARROW_TO_WIDE)
CONSUME = (TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B)
MESH = {ENGINE_OF[opcode]: direction for opcode, direction in DIRECTIONS.items()}


def reached(value: int, threshold: int) -> bool:
    return ((value - threshold + SIGN) & MASK) - SIGN >= 0


def counts(ends: list[int] | None, position: int) -> int:
    """How often a flag counts when so many elements are done."""
    return 0 if ends is None else ends.count(position)


@dataclass(eq=False)
class Task:
    """An instruction in a queue."""

    number: int
    instruction: Any
    plan: Any
    begun: float | None = None
    done: int = 0
    other: int = 0  # of a mesh instruction: words received; of an infeed: units read
    busy: bool = False
    other_busy: bool = False


@dataclass(eq=False)
class Unit:
    queue: deque[Task] = field(default_factory=deque)

    @property
    def head(self) -> Task | None:
        return self.queue[0] if self.queue else None


@dataclass
class Result:
    """When the program ends, when the host has read everything, and who did what when.

    `spans` has begin and end by unit, tile (-1 outside of tiles) and number of the instruction.
    """

    cycles: float
    read: float
    spans: dict[tuple[str, int, int], tuple[float, float]]


class Oracle:
    def __init__(
        self,
        recording: Recording,
        chunks: Sequence[int],
        clock: str = "max",
        host: str = "",
        driver: str = "libedgetpu",
    ) -> None:
        model = BEAGLE.hosts[host or "jetson_nano_10w_usb3"]
        mhz = BEAGLE.clocks[clock].core_mhz
        per_ns = mhz / 1000
        self.time = 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.serial = 0
        self.spans: dict[tuple[str, int, int], tuple[float, float]] = {}
        # The scalar core.
        self.entries = list(recording.entries)
        self.steps = self.entries[0][0]
        self.core_free = True
        self.numbers = 0
        self.done_bits = [False] * TILES
        self.finished = False
        self.end = 0.0
        # Tiles.
        self.flags = [[0] * TILES for _ in TileFlag]
        self.scalar_flags = [0] * len(ScalarFlag)
        self.dispatch: list[deque[Any]] = [deque() for _ in range(TILES)]
        self.fencing = [False] * TILES
        self.units = [[Unit() for _ in range(TILES)] for _ in TileEngine]
        self.links = [[0] * TILES for _ in TileEngine]
        # Streams and ring.
        self.streams = {engine: Unit() for engine in list(StreamEngine)[:4]}
        self.channel: list[tuple[str, int] | None] = [None, None]
        self.moving = [False, False]
        self.waiting_since: dict[tuple[str, int, int], float] = {}
        # The host.
        self.legs: list[tuple[str, float]] = []
        self.rate = {
            "instructions": 1000 / model.link * per_ns,
            "input": 1000 / model.link * per_ns,
            "parameters": 1000 / model.stream * per_ns,
        }
        self.model, self.mhz, self.driver = model, mhz, BEAGLE.drivers[driver]
        # By block: what transfers that begin with it take to be prepared, and then on the link.
        self.starts: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.before = ("instructions", chunks[0])
        self.link = 0.0
        self.ends = [0.0]
        large = model.large * mhz if chunks[0] > 65536 else 0.0
        self.prepared = -large - chunks[0] * self.rate["instructions"]
        self.transfers = 0
        self.waking = False
        self.blocks: list[tuple[str, int, bool]] = []  # kind, bytes, last of its transfer
        for _, entry in self.entries:
            if isinstance(entry, ChunkStart) and entry.chunk:
                self.add_blocks("instructions", chunks[entry.chunk])
            elif isinstance(entry, Descriptor) and entry.tag is DescriptorTag.INPUT:
                self.add_blocks("input", entry.size)
            elif isinstance(entry, Descriptor) and entry.tag is DescriptorTag.PARAMETERS:
                self.add_blocks("parameters", entry.size)
        self.taken = [False] * len(self.blocks)
        self.sent = 0
        self.wire_busy = False
        self.fifo_blocks = max(1, T.host_fifo // BLOCK)
        self.arrived: dict[str, int] = defaultdict(int)
        self.popped: dict[str, int] = defaultdict(int)
        self.chunks_here = 0
        self.read_rate = self.driver.output_byte(model) * per_ns
        self.pieces: deque[int] = deque()
        self.given = 0
        self.read = 0
        self.reading = False
        self.read_end = 0.0

    def add_blocks(self, kind: str, size: int) -> None:
        model, mhz = self.model, self.mhz
        long = self.before[0] == "instructions" and self.before[1] > 229376
        pause = T.long_chunk_pause * mhz if long and model.bus != "PCIe" else 0.0
        self.starts[len(self.blocks)].append((0.0, pause))
        prepare = model.prepare_instructions if kind == "instructions" else model.prepare
        delay = self.driver.idle * mhz + (model.large * mhz if size > 65536 else 0.0)
        for at in range(0, size, 1 << 20):
            piece = min(size - at, 1 << 20)
            work = prepare * piece * mhz / 1000 if piece > 65536 else 0.0
            self.starts[len(self.blocks) + at // BLOCK].append((work, 0.0 if at else delay))
        self.before = (kind, size)
        while size > 0:
            self.blocks.append((kind, min(size, BLOCK), size <= BLOCK))
            size -= BLOCK

    # --- time ------------------------------------------------------------------------------------

    def after(self, cycles: float, action: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (self.time + cycles, self.serial, action))

    def run(self) -> Result:
        self.settle()
        while self.heap:
            self.time = self.heap[0][0]
            while self.heap and self.heap[0][0] == self.time:
                heapq.heappop(self.heap)[2]()
            self.settle()
        assert self.finished, "the program is stuck"
        return Result(self.end, self.read_end, self.spans)

    def settle(self) -> None:
        moved = True
        while moved:
            moved = self.core()
            for tile in range(TILES):
                moved |= self.dispatcher(tile)
                for engine in PLAIN:
                    moved |= self.plain(engine, tile)
                for engine in MESH:
                    moved |= self.mesh_send(engine, tile)
            for tile in range(TILES):
                for engine in MESH:
                    moved |= self.mesh_receive(engine, tile)
            moved |= self.infeed()
            for channel in (0, 1):
                moved |= self.ring(channel)
            moved |= self.pop(PopMemory.ACTIVATION) or self.pop(PopMemory.PARAMETER)
            moved |= self.wire() or self.host_reads()

    # --- the scalar core -------------------------------------------------------------------------

    def core(self) -> bool:
        if not self.core_free or not self.entries:
            return False
        steps, entry = self.entries[0]
        if steps > self.steps:
            cycles = (steps - self.steps) * T.scalar_bundle
            self.steps = steps
            self.core_free = False

            def arrive() -> None:
                self.core_free = True

            self.after(cycles, arrive)
            return True
        match entry:
            case Dispatched(issue, tiles):
                number = None
                if not isinstance(issue.instruction, TileFence):
                    number = self.numbers
                    self.numbers += 1
                for tile in range(TILES):
                    if tiles >> tile & 1:
                        self.dispatch[tile].append((number, issue))
            case Streamed(event, plan):
                engine = self.stream_of(event.instruction)
                self.streams[engine].queue.append(Task(self.numbers, event.instruction, plan))
                self.numbers += 1
                self.begin_stream(engine)
            case Fence(_, _, fence):
                if fence.wait_tiles and not all(
                    self.done_bits[tile] for tile in range(TILES) if fence.tiles >> tile & 1
                ):
                    return False
                if any(
                    unit.head for engine, unit in self.streams.items() if fence.idle >> engine & 1
                ):
                    return False
                if not all(
                    reached(self.scalar_flags[flag], fence.thresholds[flag])
                    for flag in ScalarFlag
                    if fence.wait >> flag & 1
                ):
                    return False
                for tile in range(TILES):
                    if fence.clear >> tile & 1:
                        self.done_bits[tile] = False
                for flag in ScalarFlag:
                    if fence.set >> flag & 1:
                        self.scalar_flags[flag] = fence.value
            case ChunkStart(chunk):
                if chunk and self.chunks_here < chunk:
                    return False
            case HostWords(words):
                if self.streams[StreamEngine.OUTFEED].head:
                    return False
                self.give(4 * len(words))
        self.entries.pop(0)
        if not self.entries:
            self.finished, self.end = True, self.time
        return True

    def stream_of(self, instruction: Any) -> StreamEngine:
        if isinstance(instruction, Infeed):
            return StreamEngine.INFEED
        if isinstance(instruction, Outfeed):
            return StreamEngine.OUTFEED
        activation = instruction.memory is PopMemory.ACTIVATION
        return StreamEngine.AVDATA_POP if activation else StreamEngine.PARAMETER_POP

    # --- tiles -----------------------------------------------------------------------------------

    def dispatcher(self, tile: int) -> bool:
        if not self.dispatch[tile] or self.fencing[tile]:
            return False
        number, issue = self.dispatch[tile][0]
        if number is not None:
            engine = ENGINE_OF[issue.instruction.op]
            self.units[engine][tile].queue.append(Task(number, issue.instruction, issue.plan))
            self.dispatch[tile].popleft()
            self.begin(engine, tile)
            return True
        fence = issue.instruction
        if any(fence.idle >> engine & 1 and self.units[engine][tile].head for engine in TileEngine):
            return False
        for wanted, flag in (
            (fence.wait_ring_a, TileFlag.RING_PRODUCER_A),
            (fence.wait_ring_b, TileFlag.RING_PRODUCER_B),
        ):
            if wanted and not reached(self.flags[flag][tile], fence.ring_threshold):
                return False
        self.fencing[tile] = True

        def passed() -> None:
            self.fencing[tile] = False
            self.dispatch[tile].popleft()
            for flag in TileFlag:
                if fence.set >> flag & 1:
                    self.flags[flag][tile] = fence.value
            if fence.signal:
                self.done_bits[tile] = True

        if fence.idle:
            self.after(T.phase, passed)
        else:
            passed()
        return True

    def begin(self, engine: TileEngine, tile: int) -> None:
        """The head of a queue, if there is one, begins as soon as it is the head."""
        head = self.units[engine][tile].head
        if head is not None and head.begun is None:
            head.begun = self.time

    def finish(self, engine: TileEngine, tile: int) -> None:
        unit = self.units[engine][tile]
        task = unit.queue.popleft()
        assert task.begun is not None
        self.spans[engine.name.lower(), tile, task.number] = (task.begun, self.time)
        self.begin(engine, tile)

    def open(self, gates: Sequence[Gate], tile: int, position: int) -> bool:
        return all(gate.limit(self.flags[gate.flag][tile], position) > position for gate in gates)

    def count(self, flag: int, tile: int, times: int) -> None:
        self.flags[flag][tile] += times

    def plain(self, engine: TileEngine, tile: int) -> bool:
        task = self.units[engine][tile].head
        if task is None or task.busy:
            return False
        plan, instruction = task.plan, task.instruction
        if isinstance(instruction, NluTable):
            self.finish(engine, tile)
            return True
        if not self.open(plan.gates, tile, task.done):
            return False
        rate = T.conversion_word
        total = plan.steps if engine is TileEngine.OP else len(plan.narrow)
        if engine is TileEngine.OP:
            rate = T.op_step * max(1.0, int(plan.words[-1]) / plan.steps)
        task.busy = True

        def done() -> None:
            task.busy = False
            task.done += 1
            if engine is TileEngine.OP:
                if plan.avdata is not None and len(plan.b):
                    before, now = plan.written(task.done - 1), plan.written(task.done)
                    fresh = sum(1 for end in plan.avdata if before < end <= now)
                    self.count(TileFlag.AVDATA, tile, fresh)
                self.count(TileFlag.PARAMETERS, tile, counts(plan.parameters, task.done))
            elif isinstance(instruction, NarrowToWide):
                rows = [int(plan.starts[end]) for end in plan.ends or ()]
                self.count(TileFlag.NARROW_TO_WIDE, tile, rows.count(task.done))
            else:
                scaling = instruction.to_scaling
                flag = TileFlag.WIDE_TO_SCALING if scaling else TileFlag.WIDE_TO_NARROW
                self.count(flag, tile, counts(plan.ends, task.done))
            if task.done == total:
                self.finish(engine, tile)

        self.after(rate, done)
        return True

    # --- mesh ------------------------------------------------------------------------------------

    def close_mesh(self, engine: TileEngine, tile: int, task: Task) -> None:
        if task.done == len(task.plan.send.words) and task.other == len(task.plan.receive.words):
            self.finish(engine, tile)

    def mesh_send(self, engine: TileEngine, tile: int) -> bool:
        task = self.units[engine][tile].head
        if task is None or task.busy:
            return False
        plan = task.plan
        if not len(plan.send.words) and not len(plan.receive.words):
            self.finish(engine, tile)
            return True
        if task.done == len(plan.send.words) or not self.open(plan.send.gates, tile, task.done):
            return False
        direction = MESH[engine]
        self.links[engine][tile + COLUMNS * direction.rows + direction.columns] += 1
        task.busy = True

        def done() -> None:
            task.busy = False
            task.done += 1
            self.count(direction.sent, tile, counts(plan.send.ends, task.done))
            self.close_mesh(engine, tile, task)

        self.after(T.mesh_word, done)
        return True

    def mesh_receive(self, engine: TileEngine, tile: int) -> bool:
        task = self.units[engine][tile].head
        if task is None or task.other_busy:
            return False
        plan, fill = task.plan.receive, task.instruction.fill
        if task.other == len(plan.words) or not self.open(plan.gates, tile, task.other):
            return False
        if not fill:
            if not self.links[engine][tile]:
                return False
            self.links[engine][tile] -= 1
        task.other_busy = True

        def done() -> None:
            task.other_busy = False
            task.other += 1
            self.count(MESH[engine].received, tile, counts(plan.ends, task.other))
            self.close_mesh(engine, tile, task)

        self.after(T.mesh_fill_word if fill else T.mesh_word, done)
        return True

    # --- ring ------------------------------------------------------------------------------------

    def sender(self, who: tuple[str, int]) -> Task | None:
        if who[0] == "infeed":
            return self.streams[StreamEngine.INFEED].head
        return self.units[TileEngine.RING_PRODUCE][who[1]].head

    def has_row(self, who: tuple[str, int], task: Task) -> bool:
        if who[0] == "infeed":
            unit, row = self.sizes(task)
            total = len(task.plan.addresses) * unit
            return task.other * unit >= min((task.done + 1) * row, total)
        return self.open(task.plan.gates, who[1], task.done)

    def sizes(self, task: Task) -> tuple[int, int]:
        """Bytes of a unit and of a row."""
        instruction = task.instruction
        if isinstance(instruction, Outfeed):
            unit = 8 if instruction.to_host else 4
        else:
            unit = {InfeedMemory.PARAMETER: 64, InfeedMemory.ACTIVATION: 8, InfeedMemory.SCALAR: 4}[
                instruction.memory
            ]
        return unit, 4 * instruction.row_words

    def rows(self, who: tuple[str, int], task: Task) -> int:
        if who[0] == "infeed":
            unit, row = self.sizes(task)
            return -(-len(task.plan.addresses) * unit // row)
        return len(task.plan.rows)

    def ring(self, channel: int) -> bool:
        if self.moving[channel]:
            return False
        held = self.channel[channel]
        candidates = [held] if held is not None else self.candidates(channel)
        return any(self.move(channel, who) for who in candidates)

    def candidates(self, channel: int) -> list[tuple[str, int]]:
        """Who could begin a message, those who could first in front."""
        found = []
        for who in (*(("tile", tile) for tile in range(TILES)), ("infeed", -1)):
            task = self.sender(who)
            if task is None or task.instruction.channel != channel or not self.has_row(who, task):
                continue
            since = self.waiting_since.setdefault((*who, task.number), self.time)
            found.append((since, who))
        return [who for _, who in sorted(found, key=lambda item: item[0])]

    def move(self, channel: int, who: tuple[str, int]) -> bool:
        """Begin to move a row, if everybody is ready for it."""
        task = self.sender(who)
        assert task is not None
        if not self.has_row(who, task):
            return False
        consumer = CONSUME[channel]
        takers = []
        for tile in range(TILES):
            if task.instruction.destination >> tile & 1:
                taker = self.units[consumer][tile].head
                if taker is None or not self.open(taker.plan.gates, tile, taker.done):
                    return False
                takers.append((tile, taker))
        rate = T.ring_row
        outside = None
        if task.instruction.to_outfeed:
            outside = self.streams[StreamEngine.OUTFEED].head
            if outside is None or not self.outfeed_ready(outside):
                return False
            _, row = self.sizes(outside)
            rate = max(rate, row / 8 * T.activation_unit)
        self.channel[channel] = who
        self.moving[channel] = True

        def done() -> None:
            self.moving[channel] = False
            task.done += 1
            self.sent_row(channel, who, task)
            for tile, taker in takers:
                taker.done += 1
                flag = (TileFlag.RING_READ_A, TileFlag.RING_READ_B)[channel]
                times = counts(taker.plan.ends, taker.done)
                if times:
                    self.after(T.chunk_latency, partial(self.count, flag, tile, times))
                if taker.done == len(taker.plan.rows):
                    self.finish(consumer, tile)
            if outside is not None:
                self.took_row(outside)

        self.after(rate, done)
        return True

    def sent_row(self, channel: int, who: tuple[str, int], task: Task) -> None:
        tokens = task.plan.tokens
        if who[0] == "infeed":
            unit, row = self.sizes(task)
            tokens = None if tokens is None else [-(-end * unit // row) for end in tokens]
        else:
            self.count(TileFlag.RING_WRITE, who[1], counts(task.plan.ends, task.done))
        fresh = counts(tokens, task.done)
        for tile in range(TILES):
            self.count(TileFlag.RING_PRODUCER_A + channel, tile, fresh)
        self.scalar_flags[ScalarFlag.PRODUCER_A + channel] += fresh
        if task.done == self.rows(who, task):
            self.channel[channel] = None
            if who[0] == "infeed":
                self.finish_stream(StreamEngine.INFEED)
            else:
                self.finish(TileEngine.RING_PRODUCE, who[1])

    # --- streams ---------------------------------------------------------------------------------

    def begin_stream(self, engine: StreamEngine) -> None:
        head = self.streams[engine].head
        if head is not None and head.begun is None:
            head.begun = self.time

    def finish_stream(self, engine: StreamEngine) -> None:
        task = self.streams[engine].queue.popleft()
        assert task.begun is not None
        self.spans[engine.name.lower(), -1, task.number] = (task.begun, self.time)
        self.begin_stream(engine)

    def outfeed_ready(self, task: Task) -> bool:
        unit, row = self.sizes(task)
        first, total = task.done * row // unit, len(task.plan.addresses)
        last = min((task.done + 1) * row // unit, total)
        for gate in task.plan.gates:
            if gate.limit(self.scalar_flags[gate.flag], first) < last:
                return False
        return not task.instruction.to_host or self.given + row - T.host_fifo <= self.read

    def took_row(self, task: Task) -> None:
        task.done += 1
        unit, row = self.sizes(task)
        total = len(task.plan.addresses) * unit
        ends = [-(-end * unit // row) for end in task.plan.ends or ()]
        self.scalar_flags[ScalarFlag.RING_OUTFEED] += ends.count(task.done)
        if task.instruction.to_host:
            self.give(min(task.done * row, total) - min((task.done - 1) * row, total))
        if task.done == -(-total // row):
            self.finish_stream(StreamEngine.OUTFEED)

    def infeed(self) -> bool:
        """Read a unit of the infeed."""
        task = self.streams[StreamEngine.INFEED].head
        if task is None or task.other_busy or task.other == len(task.plan.addresses):
            return False
        unit, row = self.sizes(task)
        if task.other * unit // row >= task.done + ROWS_AHEAD:
            return False
        for gate in task.plan.gates:
            if gate.limit(self.scalar_flags[gate.flag], task.other) <= task.other:
                return False
        memory = task.instruction.memory
        rate, flag = {
            InfeedMemory.PARAMETER: (T.parameter_unit, ScalarFlag.PARAMETER_INFEED),
            InfeedMemory.ACTIVATION: (T.activation_unit, ScalarFlag.AVDATA_INFEED),
            InfeedMemory.SCALAR: (T.fifo_word, ScalarFlag.SCALAR_INFEED),
        }[memory]
        task.other_busy = True

        def done() -> None:
            task.other_busy = False
            task.other += 1
            self.scalar_flags[flag] += counts(task.plan.ends, task.other)

        self.after(rate, done)
        return True

    def pop(self, memory: PopMemory) -> bool:
        activation = memory is PopMemory.ACTIVATION
        engine = StreamEngine.AVDATA_POP if activation else StreamEngine.PARAMETER_POP
        task = self.streams[engine].head
        if task is None:
            return False
        kind, unit = ("input", 8) if activation else ("parameters", 64)
        if self.arrived[kind] < self.popped[kind] + unit:
            return False
        for gate in task.plan.gates:
            if gate.limit(self.scalar_flags[gate.flag], task.done) <= task.done:
                return False
        task.done += 1
        self.popped[kind] += unit
        flag = ScalarFlag.AVDATA_POP if activation else ScalarFlag.PARAMETER_POP
        self.scalar_flags[flag] += counts(task.plan.ends, task.done)
        end = 0
        for number, (name, size, _) in enumerate(self.blocks):
            if name == kind:
                end += size
                if end > self.popped[kind]:
                    break
                self.taken[number] = True
        if task.done == len(task.plan.addresses):
            self.finish_stream(engine)
        return True

    # --- the host --------------------------------------------------------------------------------

    def wire(self) -> bool:
        number = self.sent
        if self.wire_busy or number == len(self.blocks):
            return False
        for work, delay in self.starts.pop(number, ()):
            if self.transfers:
                self.ends.append(self.link)
            self.transfers += 1
            depth = self.driver.in_flight
            handed = self.ends[-depth] if len(self.ends) >= depth else float("-inf")
            self.prepared = max(self.prepared, handed) + work
            self.link = max(self.link, self.prepared) + delay
        if self.time < self.link:
            if not self.waking:
                self.waking = True
                self.after(self.link - self.time, self.wake)
            return False
        if number >= self.fifo_blocks and not self.taken[number - self.fifo_blocks]:
            return False
        self.wire_busy = True
        kind, size, last = self.blocks[number]

        def done() -> None:
            self.wire_busy = False
            self.sent += 1
            self.link = self.time
            if kind == "instructions":
                self.taken[number] = True
                self.chunks_here += last
            else:
                self.arrived[kind] += size

        self.after(size * self.rate[kind], done)
        return True

    def wake(self) -> None:
        """The link may move the next transfer."""
        self.waking = False
        self.link = min(self.link, self.time)

    def give(self, size: int) -> None:
        """Bytes for the host."""
        self.given += size
        self.pieces.append(size)

    def host_reads(self) -> bool:
        if self.reading or not self.pieces:
            return False
        self.reading = True
        size = self.pieces.popleft()

        def done() -> None:
            self.reading = False
            self.read += size
            self.read_end = self.time

        self.after(size * self.read_rate, done)
        return True
