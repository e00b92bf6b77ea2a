"""The timing model: its parts against plain loops, the whole against an oracle, its numbers."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.hw_models.instruction_fields import narrow, units, wide
from tests.hw_models.test_edgetpu_engines import (
    ALL,
    DONE,
    EACH,
    RESET,
    Memory,
    constant,
    descriptor,
    prepared,
    program,
    to_host,
)
from tests.hw_models.timing_oracle import Oracle
from tests.support import corpus
from tests.work import calls_at_most, memory_of

from fitzroy.base.errors import SimulationError
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LARGE_TRANSFER
from fitzroy.hw_models.edgetpu.op_plan import plan
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.edgetpu.timeline import Timeline
from fitzroy.hw_models.edgetpu.timing import clockwork, simulate
from fitzroy.hw_models.edgetpu.timing.chain import (
    NOBODY,
    Chain,
    Held,
    Histories,
    History,
    Holds,
)
from fitzroy.hw_models.edgetpu.timing.clockwork import Clockwork
from fitzroy.hw_models.edgetpu.timing.host import BLOCK, Leg, Pace, Reader, Wire
from fitzroy.hw_models.edgetpu.timing.model import critical_path
from fitzroy.hw_models.edgetpu.timing.places import Node
from fitzroy.hw_models.edgetpu.timing.places import Side as NodeSide
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    Opcode,
    Producer,
    ScalarFlag,
    Side,
    StreamEngine,
    TileEngine,
    TileFlag,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import DescriptorTag, Scalar, Store
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import traversal

T = BEAGLE.timing
USB3, USB2, SLOW = "jetson_nano_10w_usb3", "jetson_nano_10w_usb2", "jetson_nano_5w_usb3"
TOLERANCE = 1e-6

SMALL = (
    "templates/dense_256_edgetpu.tflite",
    "templates/bright_16x16_edgetpu.tflite",
    "layers/model_padding_2x2x3_edgetpu.tflite",
    "layers/model_stride_2x2x3_edgetpu.tflite",
    "layers/conv_2d_1_32_32_1_3_3_1_1_quant_edgetpu.tflite",
)
LARGER = (
    "layers/model_padding_64x64x3_edgetpu.tflite",
    "layers/add_128_128__quant_edgetpu.tflite",
    "templates/gabor_64x64_p4_edgetpu.tflite",
    "templates/looming_64x64_3x3_edgetpu.tflite",
)


# --- programs ---------------------------------------------------------------------------------


@dataclass
class Recorded:
    recording: Recording
    chunks: list[int]

    def time(
        self, clock: str = "max", host: str = USB3, driver: str = "libedgetpu", pieces: int = 0
    ) -> Timeline:
        return simulate(
            self.recording, self.chunks, clock=clock, host=host, driver=driver, pieces=pieces
        )


def recorded(*bodies: Sequence[Instruction], inputs: int = 0) -> Recorded:
    """A program of one chunk per body, as it ran on a machine with known memories."""
    machine = prepared()
    machine.recording = Recording()
    chunks = [
        program(
            [*(RESET if not number else ()), *body, *(DONE if number == len(bodies) - 1 else ())],
            end=number == len(bodies) - 1,
        )
        for number, body in enumerate(bodies)
    ]
    machine.run(chunks, Memory(np.zeros(inputs, np.uint8)))
    return Recorded(machine.recording, [BUNDLE_BYTES * bundle_count(chunk) for chunk in chunks])


def compiled(path: Path) -> Recorded:
    """The main executable of a compiled model, as it ran on zeros."""
    model = EdgeTpuProgram.load(path)
    inputs = {name: np.zeros(type.shape, type.dtype.numpy) for name, type in model.inputs.items()}
    main = model.start(inputs, record=True).finish().stages[-1]
    assert main.recording is not None
    return Recorded(main.recording, main.chunk_sizes)


def cycles(*body: Instruction, inputs: int = 0) -> float:
    return recorded(body, inputs=inputs).time().cycles


def waits(count: int, *watchers: Watcher) -> tuple[Watcher | None, ...]:
    return (*watchers, *(None,) * (count - len(watchers)))


def quarters(base: int, *dims: tuple[int, int], **more: Any) -> Any:
    return traversal(base, list(dims), rank=8, **more)


def mac(
    *loops: int, tiles: int = ALL, watchers: Sequence[Watcher] = (), lanes: int = 1, **more: Any
) -> TensorOp:
    """Sums over the first loop; one output per iteration of the others."""
    loops = (*loops, *(1,) * (8 - len(loops)))
    outputs = int(np.prod(loops[1:]))
    zeros = [(count, 0) for count in loops]
    words = -(-lanes // 4)
    return TensorOp(
        op=Opcode.MAC,
        tiles=tiles,
        loops=loops,
        a=quarters(0, *zeros),
        b=quarters(4096, (words, 4), (outputs, 4 * words)),
        c=quarters(0, *zeros),
        d=quarters(0, *zeros, ping_pong=(1, 1)),
        accumulate=True,
        block_level=7,
        lanes=lanes,
        lanes_last=lanes,
        wait=waits(6, *watchers),
        scale=1.0,
        maximum=255.0,
        **more,
    )


def message(
    channel: int, source: int, destination: int, rows: int, turn: int = 0, **more: Any
) -> list[Instruction]:
    """Rows from a tile to others, after so many messages on the channel."""
    opcode = (Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)[channel]
    flag = (TileFlag.RING_PRODUCER_A, TileFlag.RING_PRODUCER_B)[channel]
    return [
        RingConsume(op=opcode, tiles=destination, wide=wide(100, (rows, 1)), ring_read=EACH),
        RingProduce(
            tiles=1 << source,
            wide=wide(0, (rows, 1)),
            channel=channel,
            destination=destination,
            ring_write=EACH,
            token=Producer(3),
            wait=waits(2, Watcher(flag, 3, turn)),
            **more,
        ),
    ]


def exchange(words: int) -> list[Mesh]:
    """Words from every tile to its eastern neighbour."""
    send, receive = wide(0, (words, 1)), wide(512, (words, 1))
    return [
        Mesh(op=Opcode.MESH_EASTWARD, tiles=0x1111, send=send, sent=EACH),
        Mesh(
            op=Opcode.MESH_EASTWARD,
            tiles=0x6666,
            send=send,
            receive=receive,
            sent=EACH,
            received=EACH,
        ),
        Mesh(op=Opcode.MESH_EASTWARD, tiles=0x8888, receive=receive, received=EACH),
    ]


def pop(count: int, memory: PopMemory = PopMemory.ACTIVATION) -> Pop:
    return Pop(memory=memory, buffer=units(0, count), popped=EACH, wait=(None,))


def infeed(
    count: int, destination: int, *, memory: InfeedMemory = InfeedMemory.ACTIVATION, words: int = 64
) -> Infeed:
    flag = {
        InfeedMemory.ACTIVATION: ScalarFlag.AVDATA_POP,
        InfeedMemory.PARAMETER: ScalarFlag.PARAMETER_POP,
    }[memory]
    return Infeed(
        memory=memory,
        buffer=units(0, count),
        infed=EACH,
        wait=waits(2, Watcher(flag, 0, 1, 1)),
        destination=destination,
        row_words=words,
    )


def between() -> list[Instruction]:
    """The fence between two phases."""
    return [
        TileFence(tiles=ALL, set=0x7FFFF, idle=0x3FF, signal=True),
        ScalarFence(wait_tiles=True, tiles=ALL, clear=ALL, idle=0x1F),
    ]


# --- parts against plain loops ----------------------------------------------------------------

SEEDS = range(40)


def random_gate(rng: random.Random) -> tuple[Gate, int]:
    end = rng.choice([1, 5, 30, 200, 400])
    step = rng.choice([0, 1, 1, 2, 3, 7])
    if step:
        begins = list(range(0, end, step))
    else:
        begins = [0, *sorted(rng.sample(range(1, end), rng.randint(0, end - 1)))]
    watcher = Watcher(0, 0, rng.randint(-5, 6), rng.choice([0, 1, 1, 1, 2, 3, -1, -2]))
    return Gate(watcher, begins, end), end


def random_times(rng: random.Random, count: int) -> list[float]:
    return list(accumulate(rng.choice([0, 0.5, 1, 2, 9]) for _ in range(count)))


def begin_of(
    gate: Gate, start: tuple[int, float], times: Sequence[float], place: int
) -> float | None:
    """When a gate opens for an element; None if that is not known."""
    value, time = start
    for moment in (time, *times):
        if gate.limit(value, place) > place:
            return moment
        value += 1
    return None


def plain_ends(
    gates: Sequence[tuple[Gate, tuple[int, float], Sequence[float]]],
    end: int,
    clock: float,
    rate: float,
) -> list[float]:
    """When each element has ended, one after the other, as far as that is known."""
    found: list[float] = []
    for place in range(end):
        begins = [begin_of(*gate, place) for gate in gates]
        if None in begins:
            break
        clock = max([clock, *[time for time in begins if time is not None]]) + rate
        found.append(clock)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_holds_are_those_of_elements_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    first, end = random_gate(rng)
    other = Gate(Watcher(1, 0, rng.randint(-2, 3), 1), range(0, end, 2), end)
    rate, clock = rng.choice([0.0, 1.0, 2.0, 8.0]), rng.uniform(0, 5)
    start = (rng.randint(-3, 3), rng.uniform(0, 3))
    counted = [random_times(rng, rng.randint(0, 2 * end)) for _ in range(2)]
    gates = [(gate, start, times) for gate, times in zip((first, other), counted, strict=True)]
    histories = []
    for times in counted:
        history = History(*start, 7)
        history.extend(times, 8) if times else None
        histories.append(history)
    position, ends, now, waited = 0, list[float](), clock, 0.0
    while position < end:
        holds: list[Held] = []
        stop = end
        for (gate, _, _), history in zip(gates, histories, strict=True):
            begins = [*gate.positions]
            some, last = history.holds(gate, begins, position, stop, now, "flag")
            assert last == min(stop, gate.limit(history.value, position))
            holds += some
            stop = last
        if stop == position:
            break
        chain = Chain.of(position, stop, now, rate, holds)
        ends += [*chain.done(range(position + 1, stop + 1))]
        assert ends[-1] == pytest.approx(chain.finish)
        waited += sum([*chain.before.cycles.values(), *chain.waits.cycles.values()])
        position, now = stop, chain.finish
    assert ends == pytest.approx(plain_ends(gates, end, clock, rate))
    assert now - clock == pytest.approx(position * rate + waited)


def test_who_waits_for_counts_of_one_moment_waits_once() -> None:
    history = History()
    history.extend([5.0] * 64, 3)
    gate = Gate(Watcher(0, 0, 1, 1), range(64), 64)
    found, end = history.holds(gate, gate.positions, 0, 64, 1.0, "flag")
    assert ([*found], end) == ([(0, 5.0, 3, "flag")], 64)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_holds_beyond_the_end_of_a_chain_are_none_of_its_own(step: int) -> None:
    """As many as the chain has elements, of which a part are its elements."""
    count = 60
    positions, times = step * np.arange(count), 10.0 + 50.0 * np.arange(count)
    chain = Chain.of(0, count, 0.0, 2.0, [Holds.by(7, positions, times, "flag")])
    ready, ends = 0.0, list[float]()
    wanted = dict(zip(positions.tolist(), times.tolist(), strict=True))
    for position in range(count):
        ready = max(ready, wanted.get(position, 0.0)) + 2.0
        ends.append(ready)
    assert [*chain.done(range(1, count + 1))] == ends


def test_a_history_knows_who_made_it_count() -> None:
    history = History(0xFFFE, 3.0, 1)
    history.extend([4.0, 5.0], 2)
    history.extend([4.5], 3)
    assert history.value == 0x10001
    assert [history.reached(value) for value in range(0xFFFE, 0x10002)] == [
        (3.0, 1),
        (4.0, 2),
        (4.5, 3),
        (5.0, 2),
    ]
    assert history.latest == 5.0
    # Thresholds have 16 bits and wrap.
    gate = Gate(Watcher(0, 0, 1), [0], 1)
    assert history.holds(gate, [0], 0, 1, 0.0, "flag") == ([(0, 5.0, 2, "flag")], 1)


@pytest.mark.parametrize("seed", range(10))
def test_shared_histories_are_as_if_every_owner_had_its_own(seed: int) -> None:
    rng = random.Random(seed)
    shared, plain = Histories(6), [History() for _ in range(6)]
    time = 0.0
    for maker in range(60):
        owners = rng.sample(range(6), rng.randint(1, 6))
        time += rng.choice([0, 1, 4])
        if rng.random() < 0.3:
            value = rng.randint(-2, 2)
            shared.set(owners, value, time, maker)
            for owner in owners:
                plain[owner] = History(value, time, maker)
        else:
            times = [time, time + 1, time + 1]
            shared.extend(owners, times, maker)
            for owner in owners:
                plain[owner].extend(times, maker)
        for owner in range(6):
            found, wanted = shared[owner], plain[owner]
            assert (found.value, found.latest) == (wanted.value, wanted.latest)
            for value in range(wanted.value - 3, wanted.value + 1):
                assert found.reached(value)[0] == wanted.reached(value)[0]
    # What was forgotten counts as known since then.
    shared.forget(time + 10, 99)
    assert {shared[owner].latest for owner in range(6)} == {time + 10}
    assert [shared[owner].value for owner in range(6)] == [one.value for one in plain]


@pytest.mark.parametrize("seed", range(20))
def test_a_neighbour_takes_each_word_when_it_is_sent(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([3, 60, 300])
    rate = 2.0
    own = [(rng.randrange(count), rng.uniform(0, 3 * count), 1, "a") for _ in range(count // 3)]
    sent = Chain.of(10, 10 + count, 5.0, rate, [(10 + p, t, m, c) for p, t, m, c in own])
    begins = [time - rate for time in sent.done(range(11, 11 + count))]
    part = rng.randrange(count)
    follower_rate = rng.choice([2.0, 3.0])
    clock = rng.uniform(0, 2 * count)
    taken = Chain.of(
        part, count, clock, follower_rate, sent.holds(10 + part, 10 + count, -10, 3, "neighbour")
    )
    wanted = []
    for begin in begins[part:]:
        clock = max(clock, begin) + follower_rate
        wanted.append(clock)
    assert taken.done(range(part + 1, count + 1)) == pytest.approx(wanted)


def paced(rates: dict[str, float], fifo: int = 1 << 30, **more: Any) -> Pace:
    """A host that takes nothing beyond what is given."""
    usual = {"prepare": dict.fromkeys(rates, 0.0), "large": 0.0, "idle": 0.0, "pause": 0.0}
    return Pace(**{"rates": rates, "in_flight": 3, "fifo": fifo, **usual, **more})


SENT = {"input": 1.0, "parameters": 0.5, "instructions": 2.0}


def ends(first: int, legs: Sequence[Leg], pace: Pace) -> list[float]:
    """When legs end, if the chip takes everything at once."""
    wire = Wire(first, legs, pace)
    wire.chunk(1)
    return [end for _, _, end in wire.spans()]


def test_what_is_prepared_while_something_else_moves_costs_nothing() -> None:
    size = 100_000
    legs = [Leg("input", size)]
    pace = paced(SENT, prepare={"input": 0.5, "parameters": 0.5, "instructions": 0.0})
    # The first chunk moves for 2 cycles a byte until cycle 0.
    assert ends(25_000, legs, pace) == pytest.approx([size])
    assert ends(10_000, legs, pace) == pytest.approx([0.5 * size - 20_000 + size])
    # Transfers up to 64 KiB need no preparation worth mentioning.
    assert ends(64, [Leg("input", 65_536)], pace) == pytest.approx([65_536])
    # A driver that waits for each transfer hides nothing.
    alone = replace(pace, in_flight=1)
    assert ends(25_000, legs, alone) == pytest.approx([1.5 * size])
    # Pieces of at most 1 MiB are prepared one by one.
    long = [Leg("parameters", 3 << 20)]
    slow = replace(pace, prepare=dict.fromkeys(SENT, 0.25))
    assert ends(64, long, slow) == pytest.approx([0.25 * (1 << 20) - 128 + 1.5 * (1 << 20)])
    assert ends(64, long, replace(slow, in_flight=1)) == pytest.approx([0.75 * (3 << 20)])


def test_no_more_transfers_are_prepared_than_a_driver_hands_over() -> None:
    # Headers count: after the fourth data, its own, the third and the header of that wait.
    legs = [Leg("input", 100_000), Leg("input", 100_000), Leg("input", 100_000)]
    pace = paced(SENT, prepare=dict.fromkeys(SENT, 0.9), in_flight=3)
    deep = ends(64, legs, replace(pace, in_flight=8))
    assert deep == pytest.approx([90_000 - 128 + 100_000 * n for n in (1, 2, 3)])
    # Data may be prepared once the data before the last one has moved.
    assert ends(64, legs, pace) == pytest.approx(deep)
    assert ends(64, legs, replace(pace, in_flight=2)) > deep
    one = ends(64, legs, replace(pace, in_flight=1))
    assert one == pytest.approx([190_000 * n for n in (1, 2, 3)])


def test_large_transfers_and_long_chunks_keep_the_link_waiting() -> None:
    pace = paced(SENT, large=500.0, pause=7000.0, idle=0.0)
    small, large = Leg("input", 65_536), Leg("input", 65_600)
    assert ends(64, [small], pace) == pytest.approx([65_536])
    assert ends(64, [large], pace) == pytest.approx([500 + 65_600])
    assert ends(229_376, [small], pace) == pytest.approx([65_536])
    assert ends(229_440, [small], pace) == pytest.approx([7000 + 65_536])
    assert ends(64, [small, small], replace(pace, idle=30.0)) == pytest.approx(
        [30 + 65_536, 60 + 2 * 65_536]
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_wire_sends_no_more_than_a_fifo_ahead(seed: int) -> None:
    rng = random.Random(seed)
    kinds = ("input", "parameters", "instructions")
    legs = [Leg(rng.choice(kinds), 8 * rng.randint(1, 200)) for _ in range(rng.randint(1, 6))]
    rates = {"input": 1.0, "parameters": 0.25, "instructions": 0.5}
    fifo = BLOCK * rng.randint(2, 12)
    wire = Wire(64, legs, paced(rates, fifo))
    # One block after the other, as the text says.
    blocks = [
        (leg.kind, min(BLOCK, leg.size - at)) for leg in legs for at in range(0, leg.size, BLOCK)
    ]
    delay = {"input": 3.0, "parameters": 40.0}
    arrival: list[float] = []
    taken: list[float] = []
    time = 0.0
    for number, (kind, size) in enumerate(blocks):
        room = taken[number - fifo // BLOCK] if number >= fifo // BLOCK else 0.0
        time = max(time, room) + size * rates[kind]
        arrival.append(time)
        taken.append(time + delay.get(kind, 0.0))
    for kind in delay:
        assert len(wire.arrivals(kind, 0, 8, 10_000)) * 8 <= fifo + BLOCK
    offsets = dict.fromkeys(delay, 0)
    got: dict[str, list[float]] = {kind: [] for kind in delay}
    moved = True
    while moved:
        moved = False
        for kind, late in delay.items():
            times = wire.arrivals(kind, offsets[kind], 8, rng.randint(1, 64))
            if len(times):
                wire.take(kind, offsets[kind], 8, times + late)
                offsets[kind] += 8 * len(times)
                got[kind] += times.tolist()
                moved = True
    for kind in delay:
        here = [
            time
            for time, (name, size) in zip(arrival, blocks, strict=True)
            if name == kind
            for _ in range(size // 8)
        ]
        assert got[kind] == pytest.approx(here)
    assert [leg for leg, _, _ in wire.spans()] == legs
    ends = list(accumulate(-(-leg.size // BLOCK) for leg in legs))
    assert [end for _, _, end in wire.spans()] == pytest.approx([arrival[n - 1] for n in ends])
    chunks = [arrival[n - 1] for leg, n in zip(legs, ends, strict=True) if leg.kind == kinds[2]]
    assert [wire.chunk(n + 1) for n in range(len(chunks))] == pytest.approx(chunks)


@pytest.mark.parametrize("seed", range(20))
def test_the_host_reads_at_its_pace_and_room_is_what_it_has_read(seed: int) -> None:
    rng = random.Random(seed)
    rate, fifo = 0.5, 100
    reader = Reader(rate, fifo)
    sizes = [rng.choice([8, 24, 64]) for _ in range(50)]
    produced, ends, clock, total = 0.0, list[tuple[int, float]](), 0.0, 0
    for size in sizes:
        wanted = total + size - fifo
        room = next((time for offset, time in ends if offset >= wanted), 0.0) if wanted > 0 else 0.0
        assert reader.room([size]) == [pytest.approx(room)]
        produced = max(produced + rng.choice([1, 60]), room)
        reader.read([size], [produced])
        clock = max(clock, produced) + size * rate
        total += size
        ends.append((total, clock))
        assert reader.time == pytest.approx(clock)
    assert reader.room([fifo + 1]) == []
    begins = [end - size * rate for (_, end), size in zip(ends, sizes, strict=True)]
    starts = [0, *accumulate(sizes)][:-1]
    assert [reader.begun(offset) for offset in starts] == pytest.approx(begins)
    offsets = [offset for offset, _ in ends]
    for offset in range(1, total + 1, 5):
        assert reader.when(offset) == pytest.approx(ends[bisect_left(offsets, offset)][1])


# --- whole programs ---------------------------------------------------------------------------


def spans_of(timeline: Timeline) -> dict[tuple[str, int, int], tuple[float, float]]:
    """Begin and end of everything, by unit, tile and number of the instruction."""
    found = {}
    for span in timeline.spans:
        for tile in range(16) if span.tiles else (-1,):
            if tile < 0 or span.tiles >> tile & 1:
                assert (span.unit, tile, span.issue) not in found
                found[span.unit, tile, span.issue] = (span.begin, span.end)
    return found


def check_timeline(timeline: Timeline) -> None:
    """What holds for every timeline."""
    for span in timeline.spans:
        assert span.busy >= 0
        assert all(cycles > 0 for cycles in span.waits.values())
        assert span.end - span.begin == pytest.approx(
            span.busy + sum(span.waits.values()), abs=TOLERANCE * max(1.0, span.end)
        )
        assert span.end <= timeline.cycles + TOLERANCE
    # An engine does one thing at a time.
    last: dict[tuple[str, int], float] = {}
    for (unit, tile, _), (begin, end) in sorted(
        spans_of(timeline).items(), key=lambda item: item[0][2]
    ):
        assert begin >= last.get((unit, tile), 0.0) - TOLERANCE
        last[unit, tile] = end
    time = 0.0
    for link in timeline.critical_path:
        assert link.begin == time
        assert link.end > link.begin
        time = link.end
    assert time == timeline.cycles
    begin = 0.0
    for phase in timeline.phases:
        assert phase.begin == begin
        assert phase.end >= begin
        begin = phase.end
    assert begin == timeline.cycles
    for transfer in timeline.transfers:
        assert 0 <= transfer.begin <= transfer.end <= timeline.total + TOLERANCE
    assert timeline.total >= timeline.microsecond(timeline.cycles)


def check_against_oracle(
    one: Recorded, clock: str = "max", host: str = USB3, driver: str = "libedgetpu"
) -> Timeline:
    timeline = one.time(clock, host, driver)
    wanted = Oracle(one.recording, one.chunks, clock, host, driver).run()
    found = spans_of(timeline)
    assert found.keys() == wanted.spans.keys()
    # The first that differs tells more than all that follow from it.
    for key in sorted(found, key=lambda key: found[key]):
        assert found[key] == pytest.approx(wanted.spans[key], abs=TOLERANCE), key
    assert timeline.cycles == pytest.approx(wanted.cycles, abs=TOLERANCE)
    assert timeline.total >= timeline.microsecond(wanted.read) - TOLERANCE
    return timeline


class RandomProgram:
    """Phases of random instructions, some of which wait for each other.

    Most of what is random in it cannot run, for want of a flag; whoever draws it tries another.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.turns = [0, 0]
        self.inputs = 0

    def body(self) -> list[Instruction]:
        rng = self.rng
        body: list[Instruction] = []
        for phase in range(rng.randint(1, 3)):
            if phase:
                body += between()
            groups: list[list[Instruction]] = []
            if rng.random() < 0.5:
                groups.append(self.input())
            self.turns = [0, 0]
            for _ in range(rng.randint(2, 12)):
                make = rng.choice(
                    [self.convert, self.compute, self.halo, self.send, self.send, self.fence]
                )
                groups.append(make())
            # Messages keep their order, as tokens do.
            body += [item for group in groups for item in group]
            body += [Scalar() for _ in range(rng.choice([0, 0, 3, 400]))]
        return [*body, *between(), *to_host(rng.randrange(16), 0, rng.randint(1, 20))]

    def tiles(self) -> int:
        return self.rng.choice([ALL, ALL, 0x000F, 0x1111, 0x0660, 1 << self.rng.randrange(16)])

    def watchers(self, most: int, flags: Sequence[TileFlag], levels: int) -> list[Watcher]:
        rng = self.rng
        return [
            Watcher(
                rng.choice(flags),
                rng.randrange(levels),
                rng.choice([-9, -3, -1, 0, 0, 1]),
                rng.choice([0, 0, 1, 1]),
            )
            for _ in range(rng.choice([0, 0, 1, 1, min(2, most)]))
        ]

    def input(self) -> list[Instruction]:
        rng = self.rng
        parameters = rng.random() < 0.5
        memory = InfeedMemory.PARAMETER if parameters else InfeedMemory.ACTIVATION
        kind = PopMemory.PARAMETER if parameters else PopMemory.ACTIVATION
        tag = DescriptorTag.PARAMETERS if parameters else DescriptorTag.INPUT
        unit = 64 if parameters else 8
        count, words = rng.randint(1, 90), rng.choice([4, 16, 48, 64])
        size = count * unit
        rows = -(-size // (4 * words))
        if rows > 600:
            words, rows = 64, -(-size // 256)
        code = [
            *descriptor(tag, self.inputs, size),
            pop(count, kind),
            RingConsume(
                op=Opcode.RING_CONSUME_A, tiles=0x00F0, wide=wide(200, (rows, 1)), ring_read=EACH
            ),
            infeed(count, 0x00F0, memory=memory, words=words),
            *between(),
        ]
        # Both pop flags run through the whole program.
        code.append(ScalarFence(set=0x1F))
        self.inputs += size
        return code

    def fence(self) -> list[Instruction]:
        rng = self.rng
        tiles, signal = self.tiles(), rng.random() < 0.5
        idle = rng.choice([0, 1 << rng.randrange(10), rng.randrange(1 << 10), 0x3FF])
        # Who sets flags that engines still count has a race.
        reset = rng.choice([0, 1 << TileFlag.AVDATA, 0x1FFFF]) if idle == 0x3FF else 0
        code: list[Instruction] = [TileFence(tiles=tiles, idle=idle, set=reset, signal=signal)]
        if signal:
            code.append(ScalarFence(wait_tiles=True, tiles=tiles, clear=tiles))
        return code

    def convert(self) -> list[Instruction]:
        rng = self.rng
        words, count = rng.randint(1, 70), rng.randint(1, 4)
        rows = count * -(-words // 64)
        if rng.random() < 0.5:
            flags = (TileFlag.AVDATA, TileFlag.WIDE_TO_NARROW, TileFlag.RING_WRITE)
            return [
                NarrowToWide(
                    tiles=self.tiles(),
                    narrow=narrow(0, (words, 1), (count, 80)),
                    wide=wide(0, (rows, 1)),
                    pack_level=1,
                    narrow_to_wide=EACH,
                    wait=waits(5, *self.watchers(5, flags, 2)),
                )
            ]
        flags = (TileFlag.RING_READ_A, TileFlag.RING_READ_B, TileFlag.NARROW_TO_WIDE)
        watchers = [
            Watcher(
                w.flag, w.level, w.threshold, w.increment, side=rng.choice([Side.READ, Side.WRITE])
            )
            for w in self.watchers(2, flags, 1)
        ]
        return [
            WideToNarrow(
                tiles=self.tiles(),
                narrow=narrow(0, (words, 1), (count, 80)),
                wide=wide(0, (rows, 1)),
                pack_level=1,
                wide_to_narrow=Producer(rng.randrange(2)),
                wait=waits(2, *watchers),
            )
        ]

    def compute(self) -> list[Instruction]:
        rng = self.rng
        flags = (TileFlag.WIDE_TO_NARROW, TileFlag.RING_READ_A, TileFlag.MESH_WEST_IN)
        return [
            mac(
                rng.randint(2, 30),
                rng.randint(1, 20),
                tiles=self.tiles(),
                lanes=rng.choice([1, 5, 64]),
                watchers=self.watchers(6, flags, 2),
                avdata=Producer(rng.randrange(2)),
                parameters=Producer(rng.randrange(2)),
            )
        ]

    def halo(self) -> list[Instruction]:
        rng = self.rng
        if rng.random() < 0.3:
            fill = Mesh(
                op=Opcode.MESH_SOUTHWARD,
                tiles=self.tiles(),
                receive=wide(700, (rng.randint(1, 60), 1)),
                received=EACH,
                fill=True,
            )
            return [fill]
        code = exchange(rng.randint(1, 40))
        changed = []
        for item in code:
            send = self.watchers(2, (TileFlag.AVDATA, TileFlag.WIDE_TO_NARROW), 2)
            take = self.watchers(2, (TileFlag.MESH_NORTH_IN, TileFlag.AVDATA), 2)
            watchers = [
                *(send if item.send is not None else ()),
                *(
                    Watcher(w.flag, w.level, w.threshold, w.increment, side=Side.WRITE)
                    for w in (take if item.receive is not None else ())
                ),
            ]
            changed.append(replace(item, wait=waits(6, *watchers)))
        rng.shuffle(changed)
        return list(changed)

    def send(self) -> list[Instruction]:
        channel = self.rng.randrange(2)
        code = message(
            channel,
            self.rng.randrange(16),
            self.tiles(),
            self.rng.randint(1, 12),
            self.turns[channel],
        )
        self.turns[channel] += 1
        return code


def random_program(seed: int) -> Recorded:
    """The first random program that runs, of those with seeds from some number on."""
    for number in range(100 * seed, 100 * seed + 100):
        source = RandomProgram(number)
        body = source.body()
        try:
            return recorded(body, inputs=source.inputs)
        except SimulationError as error:
            if error.what != "deadlock":
                raise
    raise AssertionError(f"no program runs of those with seeds from {100 * seed} on")


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no tile be in step with another."""

    def in_step(
        self: Clockwork, engine: TileEngine, half: int, tiles: Sequence[int]
    ) -> list[list[int]]:
        return [[tile] for tile in tiles if self._queues[engine][tile]]

    grouped = Clockwork._linked

    def linked(
        self: Clockwork, engine: TileEngine, tiles: list[int], position: int, end: int
    ) -> list[tuple[list[int], int]]:
        return [found for tile in tiles for found in grouped(self, engine, [tile], position, end)]

    monkeypatch.setattr(Clockwork, "_in_step", in_step)
    monkeypatch.setattr(Clockwork, "_linked", linked)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*range(20), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 200)]]
)
def test_random_programs_take_what_an_oracle_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = random_program(seed)
    timeline = check_against_oracle(
        one, host=(USB3, USB2)[seed % 2], driver=("libedgetpu", "fitzroy")[seed // 2 % 2]
    )
    check_timeline(timeline)
    again = one.time(host=(USB3, USB2)[seed % 2], driver=timeline.driver)
    assert again == timeline
    alone(monkeypatch)
    apart = one.time(host=(USB3, USB2)[seed % 2], driver=timeline.driver)
    assert apart.cycles == timeline.cycles
    assert spans_of(apart) == spans_of(timeline)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", [*SMALL, *[pytest.param(n, marks=pytest.mark.slow) for n in LARGER]]
)
def test_compiled_programs_take_what_an_oracle_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = compiled(corpus() / name)
    for clock, host in (("max", USB3), ("low", USB2)):
        timeline = check_against_oracle(one, clock, host)
        check_timeline(timeline)
    alone(monkeypatch)
    apart = one.time(clock, host)
    assert apart.cycles == timeline.cycles
    assert spans_of(apart) == spans_of(timeline)


@pytest.mark.parametrize(
    ("host", "driver"),
    [
        (USB3, "libedgetpu"),
        (SLOW, "libedgetpu"),
        ("x86_workstation_usb3", "libedgetpu"),
        (USB3, "fitzroy"),
        ("x86_workstation_usb3", "fitzroy"),
    ],
)
def test_large_transfers_take_what_an_oracle_says(host: str, driver: str) -> None:
    size = LARGE_TRANSFER + 64
    body = [
        *descriptor(DescriptorTag.INPUT, 0, 512),
        *descriptor(DescriptorTag.PARAMETERS, 0, size),
        pop(64),
        pop(size // 64, memory=PopMemory.PARAMETER),
    ]
    one = recorded(body, inputs=size)
    line = check_against_oracle(one, "max", host, driver)
    model, user = BEAGLE.hosts[host], BEAGLE.drivers[driver]
    (transfer,) = [item for item in line.transfers if item.kind == "parameters"]
    assert transfer.end - transfer.begin == pytest.approx(size / model.stream)
    # What is prepared while the input moves is not waited for; the header of the parameters is the
    # fourth transfer, so nothing is prepared while the first chunk moves.
    waited = model.prepare * size / 1000
    waited -= min(512 / model.link, waited) if user.in_flight > 1 else 0.0
    begun = transfer.begin - line.start - 512 / model.link
    assert begun == pytest.approx(waited + model.large + 2 * user.idle)


def test_one_producer_may_serve_both_channels() -> None:
    body = [*message(1, 0, ALL, 3), *message(0, 0, ALL, 5), *message(0, 8, ALL, 7, turn=1)]
    for order in (body, body[::-1]):
        # Consumers first: nothing but the producers' order differs.
        chosen = sorted(order, key=lambda item: isinstance(item, RingProduce))
        if order is not body:
            chosen = [*body[2:], *body[:2]]
        check_timeline(check_against_oracle(recorded(chosen)))


@pytest.mark.long
@pytest.mark.parametrize("words", [1, 4, 15, 16, 17, 48, 64])
def test_rows_of_an_infeed_need_not_be_whole_units(words: int) -> None:
    size = 20 * 64
    rows = -(-size // (4 * words))
    body = [
        *descriptor(DescriptorTag.PARAMETERS, 0, size),
        pop(20, PopMemory.PARAMETER),
        RingConsume(op=Opcode.RING_CONSUME_A, tiles=ALL, wide=wide(100, (rows, 1)), ring_read=EACH),
        infeed(20, ALL, memory=InfeedMemory.PARAMETER, words=words),
    ]
    one = recorded(body, inputs=size)
    for host in (USB3, USB2, "dev_board_pcie"):
        check_timeline(check_against_oracle(one, host=host))
        check_timeline(check_against_oracle(one, host=host, driver="fitzroy"))


def test_chunks_of_instructions_come_behind_data_that_was_asked_for_before() -> None:
    fetch = [*descriptor(DescriptorTag.INPUT, 0, 512), pop(64)]
    rows = [
        RingConsume(op=Opcode.RING_CONSUME_A, tiles=1, wide=wide(100, (2, 1)), ring_read=EACH),
        infeed(64, 1),
    ]
    one = recorded(fetch, [*rows, *[Scalar() for _ in range(300)]], inputs=512)
    timeline = check_against_oracle(one)
    check_timeline(timeline)
    host = BEAGLE.hosts[USB3]
    second = next(t for t in timeline.transfers[1:] if t.kind == "instructions")
    wanted = timeline.start + (512 + one.chunks[1]) / host.link
    assert second.size == one.chunks[1]
    # Of instructions that the first chunk asks for after its input, the input comes first.
    assert second.end == pytest.approx(wanted)
    assert timeline.critical_path[0].what == "host"


# --- the numbers ------------------------------------------------------------------------------


def difference(make: Callable[[int], Sequence[Instruction]], few: int, many: int) -> float:
    """Cycles that a program takes longer, per element that it has more."""
    return (cycles(*make(many)) - cycles(*make(few))) / (many - few)


def load(words: int) -> list[Instruction]:
    return [
        WideToNarrow(
            tiles=ALL,
            narrow=narrow(1024, (words, 1)),
            wide=wide(0, (-(-words // 64), 1)),
            pack_level=1,
        )
    ]


def store(words: int) -> list[Instruction]:
    return [
        NarrowToWide(
            tiles=ALL,
            narrow=narrow(0, (words, 1)),
            wide=wide(300, (-(-words // 64), 1)),
            pack_level=1,
        )
    ]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda n: [mac(n, 2)], 2 * T.op_step),
        # 16 words of output for each sum of 4 steps: the words take longer.
        (lambda n: [mac(4, n, lanes=64)], 16 * T.op_step),
        (load, T.conversion_word),
        (store, T.conversion_word),
        (lambda n: message(0, 3, 0xFFF0, n), T.ring_row),
        (exchange, T.mesh_word),
        (
            lambda n: [
                Mesh(op=Opcode.MESH_SOUTHWARD, tiles=ALL, receive=wide(512, (n, 1)), fill=True)
            ],
            T.mesh_fill_word,
        ),
        (lambda n: [Scalar() for _ in range(n)], T.scalar_bundle),
        # One after the other in every tile; the core is a bundle per fence ahead of them.
        (lambda n: [TileFence(tiles=ALL, idle=0x3FF) for _ in range(n)], T.phase),
        (
            lambda n: [TileFence(tiles=ALL, wait_ring_a=True) for _ in range(n)],
            T.scalar_bundle,
        ),
        (lambda n: to_host(5, 0, n), 256 / 8 * T.activation_unit),
    ],
    ids=[
        "op steps",
        "output words",
        "wide to narrow",
        "narrow to wide",
        "ring rows",
        "mesh words",
        "fill words",
        "bundles",
        "full fences",
        "empty fences",
        "outfeed rows",
    ],
)
def test_elements_take_their_time(
    make: Callable[[int], Sequence[Instruction]], wanted: float
) -> None:
    # Enough that the scalar core is past the fence with which a program begins.
    few = 400 if wanted == T.scalar_bundle else 10
    assert difference(make, few, few + 40) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("memory", "tag", "unit", "rate", "kind"),
    [
        (InfeedMemory.PARAMETER, DescriptorTag.PARAMETERS, 64, T.parameter_unit, "parameters"),
        (InfeedMemory.ACTIVATION, DescriptorTag.INPUT, 8, T.activation_unit, "input"),
    ],
)
def test_an_infeed_takes_the_time_of_its_units_or_of_the_link(
    memory: InfeedMemory, tag: DescriptorTag, unit: int, rate: float, kind: str
) -> None:
    parameters = memory is InfeedMemory.PARAMETER

    def stream(count: int, *, popped: bool) -> Timeline:
        size = count * unit
        body: list[Instruction] = [
            *descriptor(tag, 0, size),
            pop(count, PopMemory.PARAMETER if parameters else PopMemory.ACTIVATION),
            RingConsume(
                op=Opcode.RING_CONSUME_A,
                tiles=ALL,
                wide=wide(100, (-(-size // 256), 1)),
                ring_read=EACH,
            ),
        ]
        if popped:
            engine = StreamEngine.PARAMETER_POP if parameters else StreamEngine.AVDATA_POP
            body.append(ScalarFence(idle=1 << engine))
        return recorded([*body, infeed(count, ALL, memory=memory)], inputs=size).time()

    # Without a wait for the host the infeed has all it needs.
    spans = [
        next(span for span in stream(count, popped=True).spans if span.unit == "infeed")
        for count in (64, 320)
    ]
    lengths = [span.end - span.begin for span in spans]
    assert lengths[1] - lengths[0] == pytest.approx(256 * rate)
    # Otherwise data comes at the rate of the link.
    host = BEAGLE.hosts[USB3]
    per_byte = 1000 / {"parameters": host.stream, "input": host.link}[kind]
    few, many = stream(64, popped=False), stream(320, popped=False)
    assert many.cycles - few.cycles == pytest.approx(256 * unit * per_byte * 0.5)
    assert many.total - few.total == pytest.approx(256 * unit * per_byte / 1000)


def test_many_rows_are_computed_at_once() -> None:
    """Those of an infeed wait for the ring, and the ring for them."""
    count = 4000
    body: list[Instruction] = [
        *descriptor(DescriptorTag.PARAMETERS, 0, 64 * count),
        pop(count, PopMemory.PARAMETER),
        RingConsume(
            op=Opcode.RING_CONSUME_A, tiles=ALL, wide=wide(100, (count // 4, 1)), ring_read=EACH
        ),
        infeed(count, ALL, memory=InfeedMemory.PARAMETER),
    ]
    one = recorded(body, inputs=64 * count)
    with calls_at_most(2 * count):
        one.time()
    with memory_of() as memory:
        one.time()
    # A row has four units, each with when it comes, is taken, is read, and what waited for it.
    assert memory.peak < 250 * count


def test_planning_an_operation_makes_no_addresses() -> None:
    op = mac(64, 64, 16)
    with memory_of() as memory:
        found = plan(op)
    assert memory.peak < found.steps == 1 << 16


def test_tiles_in_step_pass_fences_at_once() -> None:
    count = 150
    every = (1 << len(TileFlag)) - 1
    one = recorded([TileFence(tiles=ALL, idle=0x3FF, set=every) for _ in range(count)])
    with calls_at_most(1000 * count):
        one.time()


def test_an_infeed_and_the_ring_wait_for_each_other_many_times() -> None:
    """Receivers wait for each other's rows, so that the ring stops time and again."""
    count, rows = 400, 100
    body: list[Instruction] = [
        *descriptor(DescriptorTag.PARAMETERS, 0, 64 * count),
        pop(count, PopMemory.PARAMETER),
        RingConsume(
            op=Opcode.RING_CONSUME_A,
            tiles=ALL,
            wide=wide(100, (rows, 1)),
            ring_read=EACH,
            wait=waits(1, Watcher(TileFlag.NARROW_TO_WIDE, 0, -3, 1)),
        ),
        NarrowToWide(
            tiles=ALL,
            narrow=narrow(0, (64, 1), (rows, 64)),
            wide=wide(900, (rows, 1)),
            pack_level=1,
            narrow_to_wide=EACH,
            wait=waits(5, Watcher(TileFlag.RING_READ_A, 1, 1, 1)),
        ),
        infeed(count, ALL, memory=InfeedMemory.PARAMETER),
    ]
    check_timeline(check_against_oracle(recorded(body, inputs=64 * count)))


def buffered(rows: int, *, pause: int = 0) -> Recorded:
    """Rows from the host through a buffer of 16 units to tiles, which have room for 4 rows.

    Args:
        rows: how many.
        pause: words that tiles move before they take the second half of the rows.
    """
    count, half = 4 * rows, rows // 2

    def taken(words: int, watcher: Watcher | None, producer: Producer | None) -> NarrowToWide:
        return NarrowToWide(
            tiles=ALL,
            narrow=narrow(0, (64, 1), (words, 0)),
            wide=wide(100, (words, 0)),
            pack_level=1,
            narrow_to_wide=producer,
            wait=waits(5, watcher) if watcher else (None,) * 5,
        )

    def of_rows(first: int, end: int) -> NarrowToWide:
        return taken(end - first, Watcher(TileFlag.RING_READ_A, 1, 1 + first, 1), EACH)

    body: list[Instruction] = [
        *descriptor(DescriptorTag.PARAMETERS, 0, 64 * count),
        replace(
            pop(count, PopMemory.PARAMETER),
            wait=(Watcher(ScalarFlag.PARAMETER_INFEED, 0, -15, 1),),
        ),
        RingConsume(
            op=Opcode.RING_CONSUME_A,
            tiles=ALL,
            wide=wide(200, (rows, 1)),
            ring_read=EACH,
            wait=waits(1, Watcher(TileFlag.NARROW_TO_WIDE, 0, -3, 1)),
        ),
        of_rows(0, half),
        *([taken(pause, None, None)] if pause else []),
        of_rows(half, rows),
        infeed(count, ALL, memory=InfeedMemory.PARAMETER),
    ]
    return recorded(body, inputs=64 * count)


@pytest.mark.long
def test_rows_that_always_find_room_take_what_an_oracle_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clockwork, "_LONG", 1)
    check_timeline(check_against_oracle(buffered(24)))


def test_rows_that_always_find_room_are_computed_at_once() -> None:
    """Buffers alone would have them computed four at a time."""
    one = buffered(1100)
    with calls_at_most(12_000):
        one.time()


@pytest.mark.long
def test_rows_that_were_trusted_to_find_room_and_do_not_are_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways: list[bool] = []
    run = Clockwork.run

    def noted(self: Clockwork) -> float:
        ways.append(self._trusting)
        return run(self)

    monkeypatch.setattr(clockwork, "_LONG", 1)
    monkeypatch.setattr(Clockwork, "run", noted)
    check_timeline(check_against_oracle(buffered(24, pause=100)))
    assert ways == [True, False]


def test_what_came_over_the_ring_counts_a_while_later() -> None:
    words = 5 * 64
    body = [
        RingConsume(op=Opcode.RING_CONSUME_A, tiles=2, wide=wide(100, (5, 1)), ring_read=EACH),
        WideToNarrow(
            tiles=2,
            narrow=narrow(1024, (words, 1)),
            wide=wide(100, (5, 1)),
            pack_level=1,
            wait=waits(2, Watcher(TileFlag.RING_READ_A, 0, 1, 1)),
        ),
        RingProduce(tiles=1, wide=wide(0, (5, 1)), destination=2),
    ]
    one = recorded(body)
    timeline = check_against_oracle(one)
    spans = {span.unit: span for span in timeline.spans}
    consumer, unpacker = spans["ring_consume_a"], spans["wide_to_narrow"]
    # Rows come faster than they are unpacked, so only the first is waited for.
    first = consumer.end - 4 * T.ring_row
    assert unpacker.end == pytest.approx(first + T.chunk_latency + words * T.conversion_word)
    assert unpacker.waits == {
        "ring_read_a": pytest.approx(first + T.chunk_latency - unpacker.begin)
    }
    path = timeline.critical_path
    number = [link.what for link in path].index("wide_to_narrow")
    assert (path[number].cause, path[number].end) == ("ring_read_a", unpacker.end)
    assert path[number - 1].what == "ring_consume_a"
    assert path[0].what == "scalar"


@pytest.mark.parametrize("first", [1, 3])
def test_rows_of_a_message_may_go_to_several_instructions(first: int) -> None:
    taking = [
        RingConsume(
            op=Opcode.RING_CONSUME_A, tiles=2, wide=wide(100 + begin, (rows, 1)), ring_read=EACH
        )
        for begin, rows in ((0, first), (first, 5 - first))
    ]
    sending = RingProduce(tiles=1, wide=wide(0, (5, 1)), destination=2)
    for body in ([sending, *taking], [*taking, sending]):
        check_timeline(check_against_oracle(recorded(body)))


def test_senders_wait_for_the_channel_and_say_so() -> None:
    body = [*message(0, 0, 0x00F0, 10), *message(0, 1, 0x0F00, 3, turn=1)]
    # Without a turn both could send at once.
    free = [
        replace(item, wait=(None, None)) if isinstance(item, RingProduce) else item for item in body
    ]
    timeline = check_against_oracle(recorded(free))
    check_timeline(timeline)
    first, second = [span for span in timeline.spans if span.unit == "ring_produce"]
    assert first.end - first.begin == 10 * T.ring_row
    assert second.waits == {"channel": pytest.approx(first.end - second.begin)}
    assert second.end - first.end == pytest.approx(3 * T.ring_row)


def test_cycles_do_not_depend_on_the_clock_without_a_host_and_time_does() -> None:
    one = recorded([mac(100, 20), *message(0, 2, ALL, 9), *exchange(30)])
    lines = {clock: one.time(clock) for clock in BEAGLE.clocks}
    cycles = lines["max"].cycles
    for clock, line in lines.items():
        mhz = BEAGLE.clocks[clock].core_mhz
        assert line.cycles == cycles
        assert line.core_mhz == mhz
        assert line.start == lines["max"].start
        assert line.total == pytest.approx(line.start + cycles / mhz)
    assert lines["low"].total - lines["low"].start == pytest.approx(
        8 * (lines["max"].total - lines["max"].start)
    )


@pytest.mark.parametrize("clock", BEAGLE.clocks)
def test_data_takes_the_same_time_at_every_clock(clock: str) -> None:
    size = 1 << 14
    body = [
        *descriptor(DescriptorTag.INPUT, 0, size),
        pop(size // 8),
        RingConsume(
            op=Opcode.RING_CONSUME_A, tiles=1, wide=wide(100, (size // 256, 1)), ring_read=EACH
        ),
        infeed(size // 8, 1),
    ]
    line = recorded(body, inputs=size).time(clock, USB2)
    transfer = next(transfer for transfer in line.transfers if transfer.kind == "input")
    assert transfer.end - transfer.begin == pytest.approx(size / BEAGLE.hosts[USB2].link)


@pytest.mark.long
@pytest.mark.parametrize("host", BEAGLE.hosts)
def test_a_host_takes_its_time_for_instructions_and_outputs(host: str) -> None:
    model = BEAGLE.hosts[host]
    rows = 400
    body = [
        *descriptor(DescriptorTag.OUTPUT, 0, rows * 256),
        Outfeed(buffer=units(0, rows * 32), to_host=True, row_words=64),
        RingProduce(tiles=1, wide=wide(0, (20, 1), (20, 0)), to_outfeed=True),
    ]
    one = recorded(body)
    line = check_against_oracle(one, host=host)
    check_timeline(line)
    assert line.start == pytest.approx(model.fixed * 1000 + one.chunks[0] / model.link)
    (output,) = [transfer for transfer in line.transfers if transfer.kind == "output"]
    assert output.size == rows * 256
    assert output.end == pytest.approx(line.total)
    (reading,) = [link for link in line.critical_path if link.what == "host"]
    assert reading.cause == "outfeed"
    assert line.microsecond(reading.begin) == pytest.approx(output.begin)
    pace = max(model.output_byte / 1000, 64 * T.activation_unit / 2 / 256 / 500)
    assert output.end - output.begin == pytest.approx(rows * 256 * pace, rel=0.01)
    # Putting outputs in order comes last.
    ordered = one.time(host=host, pieces=1000).total
    assert ordered == pytest.approx(line.total + model.output_piece)
    if model.bus == "PCIe":
        return
    # Large reads take hardly more than the link does.
    own = check_against_oracle(one, host=host, driver="fitzroy")
    ours = BEAGLE.drivers["fitzroy"]
    assert own.start == pytest.approx(line.start + ours.overhead * 1000)
    (output,) = [transfer for transfer in own.transfers if transfer.kind == "output"]
    assert 1 / model.link <= ours.output_byte(model) / 1000 < 1.1 / model.link
    assert output.end - output.begin < rows * 256 * pace


def test_what_a_host_reads_begins_where_it_became_available() -> None:
    words, rows = 64, 400
    push = Scalar(store=Store.PUSH, store_from=4)
    body = [
        *descriptor(DescriptorTag.OUTPUT, 0, 4 * words + rows * 256),
        mac(5, 200),
        *between(),
        constant(4, 7),
        *[push] * words,
        Outfeed(buffer=units(0, rows * 32), to_host=True, row_words=64),
        RingProduce(tiles=1, wide=wide(0, (20, 1), (20, 0)), to_outfeed=True),
    ]
    line = check_against_oracle(recorded(body))
    check_timeline(line)
    (reading,) = [link for link in line.critical_path if link.what == "host"]
    # The host reads the rows after the words, without a break, and computing comes before both.
    (output,) = [transfer for transfer in line.transfers if transfer.kind == "output"]
    assert reading.cause == "scalar"
    assert line.microsecond(reading.begin) == pytest.approx(output.begin)
    assert [link.what for link in line.critical_path if link.end <= reading.begin].count("op") == 1


def test_a_host_that_dozed_off_has_to_wake_up() -> None:
    assert BEAGLE.hosts[SLOW].wake > 0
    work = [mac(1000, 450)]
    short, long = recorded([mac(1000, 4)]), recorded(work)
    for one, extra in ((short, 0.0), (long, BEAGLE.hosts[SLOW].wake * 1000)):
        line = one.time("low", SLOW)
        assert line.total == pytest.approx(line.start + line.cycles / line.core_mhz + extra)
        awake = one.time("low", USB3)
        assert awake.total == pytest.approx(awake.start + awake.cycles / awake.core_mhz)


def test_a_program_that_needs_endless_queues_is_refused() -> None:
    # Its rows would have to wait on the ring for a consumer that comes only when they have left.
    body = [
        RingProduce(
            tiles=1, wide=wide(0, (3, 1)), destination=2, ring_write=EACH, token=Producer(3)
        ),
        TileFence(tiles=ALL, idle=1 << TileEngine.RING_PRODUCE, signal=True),
        ScalarFence(wait_tiles=True, tiles=ALL, clear=ALL),
        RingConsume(op=Opcode.RING_CONSUME_A, tiles=2, wide=wide(100, (3, 1))),
    ]
    one = recorded(body)
    with pytest.raises(SimulationError, match=r"cannot tell when tile 0 would go on"):
        one.time()


def test_the_critical_path_passes_every_engine_of_a_circle_once() -> None:
    # Both sides of two engines waited until cycle 50 for what the other did then.
    nodes = []
    for name, other, begin in (("mesh_eastward", 1, 0.0), ("mesh_westward", 0, 20.0)):
        sides = NodeSide(70.0, 20.0), NodeSide(50.0, 50.0 - begin)
        sides[0].waits.add(50.0, 30.0 - begin, other, "avdata")
        nodes.append(Node(name, ALL, other, begin, "dispatch", NOBODY, sides))
    for number in (0, 1):
        path = critical_path(nodes, number, 70.0)
        assert [link.begin for link in path] == [0.0, *[link.end for link in path][:-1]]
        assert path[-1].end == 70.0
        assert {link.what for link in path} <= {"scalar", "mesh_eastward", "mesh_westward"}
        assert path[-1].cause == "avdata"
