"""Engines between memories, buses and host, in small programs on the whole machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.hw_models.instruction_fields import narrow, units, wait, waits, wide

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    NARROW_WORDS,
    TILES,
    WIDE_ROWS,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.scalar import Descriptor
from fitzroy.hw_models.edgetpu.sequence import stretch
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    Opcode,
    Producer,
    ScalarFlag,
    Side,
    StreamEngine,
    TileEngine,
    TileFlag,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import assemble, chunk, disassemble
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Load,
    Loop,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.traversal import Prefix, traversal

ALL = 0xFFFF
SEEDS = (None, 1, 2, 3)
EACH = Producer(0)

# --- programs ---------------------------------------------------------------------------------

RESET: tuple[Instruction, ...] = (
    TileFence(tiles=ALL, set=0x7FFFF, idle=0x3FF),
    ScalarFence(set=0x1FF),
)
DONE: tuple[Instruction, ...] = (
    TileFence(tiles=ALL, idle=0x3FF, signal=True),
    ScalarFence(wait_tiles=True, tiles=ALL, clear=ALL, idle=0x1F),
)


def constant(to: int, word: int) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=to, immediate=word)


def descriptor(tag: DescriptorTag, address: int, size: int) -> list[Instruction]:
    words = ((DescriptorSlot.ADDRESS_LOW, address), (DescriptorSlot.ADDRESS_HIGH, 0))
    code: list[Instruction] = []
    for slot, word in (*words, (DescriptorSlot.SIZE, size), (DescriptorSlot.TAG, tag)):
        code += [
            constant(1, word),
            Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=1),
        ]
    return [*code, Scalar(store=Store.ISSUE)]


@dataclass
class Memory:
    """A host whose addresses are offsets in two arrays."""

    inputs: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    sent: dict[int, bytes] = field(default_factory=dict)
    interrupts: list[int] = field(default_factory=list)

    def send(self, descriptor: Descriptor) -> Array:
        return self.inputs[descriptor.address : descriptor.address + descriptor.size].copy()

    def receive(self, descriptor: Descriptor, data: Array) -> None:
        self.sent[descriptor.address] = data.tobytes()

    def interrupt(self, number: int) -> None:
        self.interrupts.append(number)


def program(body: Iterable[Instruction], *, end: bool = True) -> list[Instruction]:
    whole = chunk([*body, Halt(end_program=end)])
    assert disassemble(assemble(whole)) == whole
    return whole


def execute(body: Sequence[Instruction], machine: Machine, host: Memory | None = None) -> Memory:
    """Run instructions between the fences with which every program begins and ends."""
    host = host or Memory()
    machine.run([program([*RESET, *body, *DONE])], host)
    return host


def prepared(seed: int | None = None) -> Machine:
    """A machine with known numbers in its first words and rows."""
    machine = Machine(seed=seed)
    rng = np.random.default_rng(7)
    memory = machine.memory
    memory.narrow[:, :2048] = rng.integers(0, 1 << 32, (16, 2048), np.uint32)
    memory.narrow_known[:, :2048] = True
    memory.wide[:, :64] = rng.integers(0, 1 << 32, (16, 64, LANES), np.uint32)
    memory.wide_known[:, :64] = True
    return machine


def to_host(tile: int, row: int, rows: int = 1) -> list[Instruction]:
    """Rows of one tile to the host, at address 0."""
    size = rows * 4 * LANES
    return [
        *descriptor(DescriptorTag.OUTPUT, 0, size),
        Outfeed(buffer=units(0, size // 8), to_host=True, row_words=LANES),
        RingProduce(tiles=1 << tile, wide=wide(row, (rows, 1)), to_outfeed=True),
    ]


# --- conversion -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_end_after_64_words_or_with_their_dimensions(seed: int | None) -> None:
    machine = prepared(seed)
    source = machine.memory.narrow[3, :300].copy()
    # 3 runs of 70 words: rows of 64 and 6 words.
    body = [
        NarrowToWide(
            tiles=8, narrow=narrow(10, (70, 1), (3, 90)), wide=wide(100, (6, 2)), pack_level=1
        )
    ]
    execute(body, machine)
    rows = machine.memory.wide[3, 100:112:2]
    for run in range(3):
        words = source[10 + 90 * run :][:70]
        assert rows[2 * run].tolist() == words[:64].tolist()
        assert rows[2 * run + 1, :6].tolist() == words[64:].tolist()
        assert not rows[2 * run + 1, 6:].any()
    assert not machine.memory.wide_known[4, 100].any()


def test_rows_of_one_word_and_of_everything() -> None:
    machine = prepared()
    source = machine.memory.narrow[0, :128].copy()
    body = [
        NarrowToWide(tiles=1, narrow=narrow(0, (5, 1)), wide=wide(200, (5, 1)), pack_level=0),
        NarrowToWide(
            tiles=1, narrow=narrow(0, (8, 1), (16, 8)), wide=wide(210, (2, 1)), pack_level=6
        ),
    ]
    execute(body, machine)
    assert machine.memory.wide[0, 200:205, 0].tolist() == source[:5].tolist()
    assert machine.memory.wide[0, 210:212].reshape(-1).tolist() == source.tolist()


def test_rows_must_fit_the_words() -> None:
    body = [NarrowToWide(tiles=1, narrow=narrow(0, (65, 1)), wide=wide(0), pack_level=1)]
    with pytest.raises(SimulationError, match=r"has 1 rows.*its words fill 2"):
        execute(body, prepared())


@pytest.mark.parametrize(
    ("kind", "group", "type"),
    [(Transpose.BYTES, 4, np.dtype("u1")), (Transpose.HALFWORDS, 2, np.dtype("<u2"))],
)
def test_transposition_fills_up_with_zeros(kind: Transpose, group: int, type: Any) -> None:
    machine = prepared()
    count = group + 1
    source = machine.memory.narrow[0, :count].copy()
    body = [
        NarrowToWide(
            tiles=1, narrow=narrow(0, (count, 1)), wide=wide(300), transpose=kind, pack_level=1
        )
    ]
    execute(body, machine)
    found = machine.memory.wide[0, 300, : 2 * group].copy().view(type).reshape(2, group, group)
    filled = np.zeros(2 * group, np.uint32)
    filled[:count] = source
    before = filled.view(type).reshape(2, group, group)
    for block in range(2):
        for i in range(group):
            for j in range(group):
                assert found[block, i, j] == before[block, j, i]


def test_prefix_takes_the_words_before_each_run() -> None:
    machine = prepared()
    row = machine.memory.wide[2, 5].copy()
    # Each of 2 runs of 4 words has 3 words before it, in alternating slots.
    prefix = Prefix(level=0, base=4000, words=3, end=4005, step=3)
    body = [
        WideToNarrow(
            tiles=4, wide=wide(5), narrow=narrow(5000, (4, 1), (2, 10)), prefix=prefix, pack_level=6
        )
    ]
    execute(body, machine)
    found = machine.memory.narrow[2]
    assert found[4000:4003].tolist() == row[:3].tolist()
    assert found[5000:5004].tolist() == row[3:7].tolist()
    assert found[4003:4006].tolist() == row[7:10].tolist()
    assert found[5010:5014].tolist() == row[10:14].tolist()


def test_entries_of_scaling_memory_have_two_words() -> None:
    machine = prepared()
    row = machine.memory.wide[1, 9:11].copy()
    body = [
        WideToNarrow(
            tiles=2,
            wide=wide(9, (2, 1)),
            narrow=narrow(32, (32, 1), (2, 64)),
            to_scaling=True,
            pack_level=6,
        )
    ]
    execute(body, machine)
    scaling = machine.memory.scaling[1]
    assert scaling[32:64].reshape(-1).tolist() == row[0].tolist()
    assert scaling[96:128].reshape(-1).tolist() == row[1].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_are_handed_over_by_flags(seed: int | None) -> None:
    # 6 rows go through 2 staging rows to another place and back, in any order of engines.
    machine = prepared(seed)
    source = machine.memory.narrow[0, : 6 * LANES].copy()
    there = NarrowToWide(
        tiles=1,
        narrow=narrow(0, (64, 1), (6, 64)),
        wide=wide(400, (6, 0), ping_pong=(0, 1)),
        pack_level=1,
        narrow_to_wide=EACH,
        wait=waits(wait(TileFlag.WIDE_TO_NARROW, 0, -64, 64, side=Side.WRITE), count=5),
    )
    back = WideToNarrow(
        tiles=1,
        wide=wide(400, (6, 0), ping_pong=(0, 1)),
        narrow=narrow(8000, (64, 1), (6, 64)),
        pack_level=1,
        wide_to_narrow=EACH,
        wait=waits(wait(TileFlag.NARROW_TO_WIDE, 0, 1, 1), count=2),
    )
    # Neither order of dispatch matters.
    for body in ([there, back], [back, there]):
        machine.memory.narrow[0, 8000 : 8000 + 6 * LANES] = 0
        execute(body, machine)
        assert machine.memory.narrow[0, 8000 : 8000 + 6 * LANES].tolist() == source.tolist()
    assert machine.flags[TileFlag.WIDE_TO_NARROW][0] == 6 * LANES
    assert machine.flags[TileFlag.NARROW_TO_WIDE][0] == 6
    assert machine.flags[TileFlag.NARROW_TO_WIDE][1] == 0


# --- mesh -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "senders", "distance", "sent", "received"),
    [
        (Opcode.MESH_SOUTHWARD, 0x0FFF, 4, TileFlag.MESH_SOUTH_OUT, TileFlag.MESH_NORTH_IN),
        (Opcode.MESH_NORTHWARD, 0xFFF0, -4, TileFlag.MESH_NORTH_OUT, TileFlag.MESH_SOUTH_IN),
        (Opcode.MESH_EASTWARD, 0x7777, 1, TileFlag.MESH_EAST_OUT, TileFlag.MESH_WEST_IN),
        (Opcode.MESH_WESTWARD, 0xEEEE, -1, TileFlag.MESH_WEST_OUT, TileFlag.MESH_EAST_IN),
    ],
)
@pytest.mark.parametrize("seed", [None, 5])
def test_words_go_to_the_neighbour(
    opcode: Opcode, senders: int, distance: int, sent: int, received: int, seed: int | None
) -> None:
    machine = prepared(seed)
    source = machine.memory.narrow[:, :40].copy()
    receivers = (senders << 16) >> (16 - distance) & ALL
    body = []
    # What comes from the border is a constant.
    for tile in range(16):
        sends, receives = senders >> tile & 1, receivers >> tile & 1
        body.append(
            Mesh(
                op=opcode,
                tiles=1 << tile,
                send=wide(0, (20, 2)) if sends else None,
                sent=Producer(4) if sends else None,
                receive=wide(3000, (5, 1), (4, 10)),
                received=EACH,
                fill=not receives,
                fill_word=0x80808080,
            )
        )
    execute(body, machine)
    places = [3000 + 10 * j + i for j in range(4) for i in range(5)]
    for tile in range(16):
        found = machine.memory.narrow[tile, places].tolist()
        if receivers >> tile & 1:
            assert found == source[tile - distance, :40:2].tolist()
        else:
            assert found == [0x80808080] * 20
        assert machine.flags[received][tile] == 20
        assert machine.flags[sent][tile] == (senders >> tile & 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_mesh_relays(seed: int | None) -> None:
    # A row of tiles hands words on; each waits for what it has received.
    machine = prepared(seed)
    source = machine.memory.narrow[0, :8].copy()
    flag = TileFlag.MESH_WEST_IN
    relay = Mesh(
        op=Opcode.MESH_EASTWARD,
        tiles=0b0110,
        send=wide(3000, (8, 1)),
        sent=Producer(4),
        receive=wide(3000, (8, 1)),
        received=EACH,
        wait=waits(wait(flag, 0, 1, 1), count=6),
    )
    last = Mesh(op=Opcode.MESH_EASTWARD, tiles=0b1000, receive=wide(3000, (8, 1)), received=EACH)
    first = Mesh(op=Opcode.MESH_EASTWARD, tiles=1, send=wide(0, (8, 1)), sent=Producer(4))
    execute([last, relay, first], machine)
    for tile in (1, 2, 3):
        assert machine.memory.narrow[tile, 3000:3008].tolist() == source.tolist()


def test_mesh_stays_on_the_grid() -> None:
    body = [Mesh(op=Opcode.MESH_EASTWARD, tiles=0b1000, send=wide(0, (4, 1)))]
    with pytest.raises(SimulationError, match="tile 3 sends over the edge"):
        execute(body, prepared())


# --- ring -------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_order_the_messages(channel: int, seed: int | None) -> None:
    machine = prepared(seed)
    rows = machine.memory.wide[:, :3].copy()
    flag = TileFlag.RING_PRODUCER_A + channel
    consume = (Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)[channel]
    order = (9, 2, 14)
    body: list[Instruction] = [
        RingConsume(op=consume, tiles=0x8421, wide=wide(500, (9, 1)), ring_read=EACH)
    ]
    # The last of the order is the first in the program.
    for turn, tile in reversed(list(enumerate(order))):
        body.append(
            RingProduce(
                tiles=1 << tile,
                wide=wide(0, (3, 1)),
                channel=channel,
                destination=0x8421,
                ring_write=Producer(4),
                token=Producer(4),
                wait=waits(wait(flag, 3, turn), count=2),
            )
        )
    execute(body, machine)
    for tile in (0, 5, 10, 15):
        assert machine.memory.wide[tile, 500:509].tolist() == (
            np.concatenate([rows[sender] for sender in order]).tolist()
        )
        assert machine.flags[(TileFlag.RING_READ_A, TileFlag.RING_READ_B)[channel]][tile] == 9
    assert machine.flags[flag] == [3] * 16
    assert machine.scalar_flags[ScalarFlag.PRODUCER_A + channel] == 3
    assert machine.flags[TileFlag.RING_WRITE][9] == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_sent_before_the_next_ones_are_staged(seed: int | None) -> None:
    # Conversions of compiled programs share a row and have credit for two: time keeps them apart.
    machine = prepared(seed)
    source = machine.memory.narrow[0, : 4 * LANES].copy()
    body: list[Instruction] = []
    for turn in range(4):
        body += [
            RingConsume(tiles=2 << turn, wide=wide(800), ring_read=EACH),
            RingProduce(
                tiles=1,
                wide=wide(700),
                destination=2 << turn,
                ring_write=EACH,
                token=EACH,
                wait=waits(
                    wait(TileFlag.RING_PRODUCER_A, 2, turn),
                    wait(TileFlag.NARROW_TO_WIDE, 1, 1 + turn),
                    count=2,
                ),
            ),
            NarrowToWide(
                tiles=1,
                narrow=narrow(LANES * turn, (LANES, 1)),
                wide=wide(700),
                pack_level=1,
                narrow_to_wide=EACH,
                wait=waits(wait(TileFlag.RING_WRITE, 1, turn - 1, side=Side.WRITE), count=5),
            ),
        ]
    execute(body, machine)
    found = [machine.memory.wide[1 + turn, 800] for turn in range(4)]
    assert np.concatenate(found).tolist() == source.tolist()


def test_tile_fence_waits_for_tokens() -> None:
    machine = prepared()
    body = [
        RingConsume(tiles=2, wide=wide(500), ring_read=EACH),
        TileFence(tiles=2, wait_ring_a=True, ring_threshold=1, set=1 << TileFlag.AVDATA, value=7),
        RingProduce(tiles=1, wide=wide(0), destination=2, token=EACH),
    ]
    execute(body, machine)
    assert machine.flags[TileFlag.AVDATA][:2] == [0, 7]
    with pytest.raises(SimulationError, match="deadlock"):
        execute(body[:2], prepared())


# --- streams ----------------------------------------------------------------------------------


def pop(memory: PopMemory, count: int, **more: Any) -> Pop:
    return Pop(memory=memory, buffer=units(0, count), popped=EACH, **more)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("memory", "popped", "tag", "unit"),
    [
        (PopMemory.ACTIVATION, ScalarFlag.AVDATA_POP, DescriptorTag.INPUT, 8),
        (PopMemory.PARAMETER, ScalarFlag.PARAMETER_POP, DescriptorTag.PARAMETERS, 64),
    ],
)
def test_input_reaches_the_tiles_and_the_host(
    memory: PopMemory, popped: ScalarFlag, tag: DescriptorTag, unit: int, seed: int | None
) -> None:
    machine = Machine(seed=seed)
    size = 512
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    kinds = {
        PopMemory.ACTIVATION: InfeedMemory.ACTIVATION,
        PopMemory.PARAMETER: InfeedMemory.PARAMETER,
    }
    body = [
        # Descriptors do not end with units.
        *descriptor(tag, 0, 100),
        *descriptor(tag, 100, size - 100),
        pop(memory, size // unit),
        Infeed(
            memory=kinds[memory],
            buffer=traversal(0, [(size // unit, 1)], rank=3),
            infed=EACH,
            wait=waits(wait(popped, 0, 1, 1), count=2),
            destination=0x0018,
            row_words=64,
        ),
        RingConsume(tiles=0x0018, wide=wide(700, (2, 1)), ring_read=EACH),
        TileFence(tiles=0x0018, idle=0x3FF, signal=True),
        ScalarFence(wait_tiles=True, tiles=0x0018, clear=0x0018),
        *to_host(4, 700, 2),
    ]
    host = execute(body, machine, Memory(data))
    for tile in (3, 4):
        assert machine.memory.wide[tile, 700:702].tobytes() == data.tobytes()
    assert host.sent == {0: data.tobytes()}
    assert machine.scalar_flags[popped] == size // unit
    assert machine.scalar_flags[popped + 2] == size // unit


class Scratch(Memory):
    """A host with one buffer for both directions."""

    def receive(self, descriptor: Descriptor, data: Array) -> None:
        self.inputs[descriptor.address : descriptor.address + len(data)] = data


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_read_what_they_have_sent(seed: int | None) -> None:
    machine = prepared(seed)
    row = machine.memory.wide[0, 3].copy()
    body = [
        *to_host(0, 3),
        ScalarFence(idle=1 << StreamEngine.OUTFEED),
        *descriptor(DescriptorTag.INPUT, 0, 256),
        pop(PopMemory.ACTIVATION, 32),
        Infeed(
            memory=InfeedMemory.ACTIVATION,
            buffer=traversal(0, [(32, 1)], rank=3),
            infed=EACH,
            wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
            destination=2,
            row_words=64,
        ),
        RingConsume(tiles=2, wide=wide(700), ring_read=EACH),
    ]
    execute(body, machine, Scratch(np.zeros(256, np.uint8)))
    assert machine.memory.wide[1, 700].tolist() == row.tolist()


def test_units_are_packed_into_short_rows() -> None:
    machine = Machine()
    data = np.arange(96, dtype=np.uint8)
    body = [
        *descriptor(DescriptorTag.INPUT, 0, 96),
        pop(PopMemory.ACTIVATION, 12),
        Infeed(
            memory=InfeedMemory.ACTIVATION,
            buffer=traversal(0, [(12, 1)], rank=3),
            infed=EACH,
            wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
            destination=1,
            row_words=5,
        ),
        RingConsume(tiles=1, wide=wide(700, (5, 1)), ring_read=EACH),
    ]
    execute(body, machine, Memory(data))
    rows = machine.memory.wide[0, 700:705]
    assert rows[:4, :5].tobytes() == data[:80].tobytes()
    assert rows[4, :4].tobytes() == data[80:].tobytes()


def test_outfeed_to_memory_and_words_of_the_scalar_core() -> None:
    machine = prepared()
    row = machine.memory.wide[6, 8].copy()
    body = [
        Outfeed(buffer=units(1000, 64), row_words=LANES),
        RingProduce(tiles=1 << 6, wide=wide(8), to_outfeed=True),
        ScalarFence(idle=1 << StreamEngine.OUTFEED),
        *descriptor(DescriptorTag.OUTPUT, 16, 12),
        constant(2, 1010),
        Loop(count=3, length=2),
        Scalar(load=Load.INCREMENT, load_to=3, load_address=2 | 1 << 5),
        Scalar(store=Store.PUSH, store_from=3),
        *descriptor(DescriptorTag.INTERRUPT_0, 0, 0),
    ]
    host = execute(body, machine)
    assert host.sent == {16: row[10:13].tobytes()}
    assert host.interrupts == [0]


# --- several chunks, and programs one after the other -----------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_state_persists_from_chunk_to_chunk(seed: int | None) -> None:
    machine = prepared(seed)
    source = machine.memory.narrow[0, :64].copy()
    first = program(
        [
            *RESET,
            constant(5, 0x0001),
            NarrowToWide(
                tiles=1,
                narrow=narrow(0, (64, 1)),
                wide=wide(900),
                pack_level=1,
                narrow_to_wide=EACH,
            ),
        ],
        end=False,
    )
    second = program(
        [
            WideToNarrow(
                tiles_from_register=True,
                tiles_register=5,
                wide=wide(900),
                narrow=narrow(6000, (64, 1)),
                pack_level=1,
                wait=waits(wait(TileFlag.NARROW_TO_WIDE, 0, 1), count=2),
            ),
            *DONE,
        ]
    )
    machine.run([first, second], Memory())
    assert machine.memory.narrow[0, 6000:6064].tolist() == source.tolist()
    execute(to_host(0, 900), machine, host := Memory())
    assert host.sent == {0: source.tobytes()}
    with pytest.raises(SimulationError, match="does not end"):
        machine.run([first], Memory())


def test_base_comes_from_a_register() -> None:
    machine = prepared()
    body = [
        constant(4, 77),
        NarrowToWide(
            tiles=1,
            narrow=narrow(0, (8, 1)),
            wide=wide(900),
            base_from_register=True,
            base_register=4,
            pack_level=1,
        ),
    ]
    execute(body, machine)
    assert machine.memory.wide[0, 900, :8].tolist() == machine.memory.narrow[0, 77:85].tolist()


# --- faults -----------------------------------------------------------------------------------


def test_deadlock_says_who_waits_for_what() -> None:
    body = [
        NarrowToWide(
            tiles=0x00F0,
            narrow=narrow(0, (64, 1), (2, 64)),
            wide=wide(0, (2, 1)),
            pack_level=1,
            narrow_to_wide=EACH,
            seq=12,
        ),
        WideToNarrow(
            tiles=0x00F0,
            wide=wide(0, (3, 1)),
            narrow=narrow(3000, (64, 1), (3, 64)),
            pack_level=1,
            seq=13,
            wait=waits(wait(TileFlag.NARROW_TO_WIDE, 0, 1, 1), count=2),
        ),
    ]
    with pytest.raises(SimulationError) as caught:
        execute(body, prepared())
    error = caught.value
    assert error.what == "deadlock"
    # START, two fences of 1 and 2 bundles, then 7 for each conversion, and the tiles' fence.
    assert error.where == "scalar_fence at bundle 19 of chunk 0"
    assert "the scalar core waits for tiles 4, 5, 6, 7" in error.reason
    assert (
        "tile 4: wide_to_narrow #13 at bundle 11 of chunk 0 waits for narrow_to_wide >= 3, has 2, "
        "last produced by bundle 4"
    ) in error.reason


def test_deadlock_of_data_names_the_engine() -> None:
    body = [RingConsume(tiles=1, wide=wide(0), ring_read=EACH, seq=3)]
    with pytest.raises(SimulationError) as caught:
        execute(body, prepared())
    assert "tile 0: ring_consume_a #3 at bundle 4 of chunk 0 waits for data" in caught.value.reason


def test_deadlock_names_scalar_flags() -> None:
    thresholds = [0] * 9
    thresholds[ScalarFlag.PRODUCER_B] = 4
    fence = ScalarFence(wait=1 << ScalarFlag.PRODUCER_B, thresholds=tuple(thresholds))
    with pytest.raises(SimulationError, match="waits for producer_b >= 4, has 0"):
        execute([fence], prepared())


def test_deadlock_names_streams() -> None:
    body = [pop(PopMemory.ACTIVATION, 2), ScalarFence(idle=1 << StreamEngine.AVDATA_POP)]
    with pytest.raises(SimulationError) as caught:
        execute(body, prepared())
    assert "the scalar core waits for avdata_pop" in caught.value.reason
    assert "pop at bundle 4 is at unit 0" in caught.value.reason


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            NarrowToWide(
                tiles=1, narrow=narrow(NARROW_WORDS - 1, (2, 1)), wide=wide(0), pack_level=1
            ),
            f"narrow word {NARROW_WORDS} is used: there are {NARROW_WORDS}",
        ),
        (
            WideToNarrow(tiles=1, wide=wide(WIDE_ROWS), narrow=narrow(0), pack_level=1),
            f"wide row {WIDE_ROWS} is used: there are {WIDE_ROWS}",
        ),
        (
            WideToNarrow(
                tiles=1, wide=wide(0), narrow=narrow(127, (2, 1)), to_scaling=True, pack_level=1
            ),
            "entry of scaling memory 128 is used: there are 128",
        ),
        (
            RingConsume(tiles=1, wide=wide(WIDE_ROWS - 1, (2, 1))),
            f"wide row {WIDE_ROWS} is used",
        ),
        (
            RingProduce(tiles=1, wide=wide(WIDE_ROWS), destination=1),
            f"wide row {WIDE_ROWS} is used",
        ),
        (
            Mesh(op=Opcode.MESH_EASTWARD, tiles=1, send=wide(NARROW_WORDS)),
            f"narrow word {NARROW_WORDS} is used",
        ),
    ],
)
def test_addresses_outside_the_memories(instruction: Instruction, message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        execute([instruction], prepared())
    assert message in str(caught.value)
    assert "bundle 4 of chunk 0" in str(caught.value)


@pytest.mark.parametrize("seed", [None, 1])
def test_unwritten_memory_must_not_reach_the_host(seed: int | None) -> None:
    # A row of 64 words of which 3 were never written, on its way through every engine.
    machine = prepared(seed)
    machine.memory.narrow_known[0, 20:23] = False
    moved = [
        NarrowToWide(tiles=1, narrow=narrow(0, (64, 1)), wide=wide(100), pack_level=1),
        TileFence(tiles=1, idle=1 << TileEngine.NARROW_TO_WIDE),
        RingConsume(tiles=2, wide=wide(101), ring_read=EACH),
        RingProduce(tiles=1, wide=wide(100), destination=2),
        TileFence(tiles=2, idle=0x3FF),
        WideToNarrow(tiles=2, wide=wide(101), narrow=narrow(9000, (64, 1)), pack_level=1),
        TileFence(tiles=2, idle=0x3FF),
        Mesh(op=Opcode.MESH_EASTWARD, tiles=2, send=wide(9000, (64, 1))),
        Mesh(op=Opcode.MESH_EASTWARD, tiles=4, receive=wide(9000, (64, 1)), received=EACH),
        TileFence(tiles=4, idle=0x3FF),
        NarrowToWide(tiles=4, narrow=narrow(9000, (64, 1)), wide=wide(102), pack_level=1),
        TileFence(tiles=4, idle=0x3FF),
    ]
    with pytest.raises(SimulationError, match="12 bytes of output depend on memory that nothing"):
        execute([*moved, *to_host(2, 102)], machine)
    machine = prepared(seed)
    source = machine.memory.narrow[0, :64].copy()
    assert execute([*moved, *to_host(2, 102)], machine).sent == {0: source.tobytes()}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            [RingProduce(tiles=1, wide=wide(0), destination=0b10, channel=1)],
            "rows for tile 1 on channel B",
        ),
        ([RingProduce(tiles=1, wide=wide(0), to_outfeed=True)], "rows for the outfeed"),
        (descriptor(DescriptorTag.INPUT, 0, 24), "24 bytes of activation data"),
        (descriptor(DescriptorTag.PARAMETERS, 0, 64), "64 bytes of parameter data"),
        (descriptor(DescriptorTag.OUTPUT, 0, 8), "0 bytes of output"),
        (
            [Mesh(op=Opcode.MESH_SOUTHWARD, tiles=1, send=wide(0, (4, 1)), sent=Producer(4))],
            "words on mesh_southward",
        ),
    ],
)
def test_nothing_is_left_over(body: list[Instruction], message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        execute(body, prepared(), Memory(np.zeros(64, np.uint8)))
    assert caught.value.what == "something is left over at the end of the program"
    assert message in caught.value.reason


def test_instructions_are_left_over_without_fences() -> None:
    body = [*RESET, RingConsume(tiles=1, wide=wide(0), ring_read=EACH)]
    with pytest.raises(SimulationError, match="left over") as caught:
        prepared().run([program(body)], Memory())
    assert "tile 0: ring_consume_a" in caught.value.reason


def test_unknown_register_cannot_be_a_tile_set() -> None:
    item = WideToNarrow(
        tiles_from_register=True, tiles_register=9, wide=wide(0), narrow=narrow(0), pack_level=1
    )
    with pytest.raises(SimulationError):
        execute([item], prepared())


# --- indices ----------------------------------------------------------------------------------


def test_slices_stand_for_the_same_places() -> None:
    rng = np.random.default_rng(0)
    memory = rng.integers(0, 1 << 32, (TILES, 64), np.uint32)
    slices = 0
    for _ in range(300):
        count = int(rng.integers(1, 9))
        numbers = int(rng.integers(0, 8)) + int(rng.integers(0, 4)) * np.arange(count)
        if rng.integers(0, 2):
            numbers = np.where(rng.random(count) < 0.2, rng.integers(0, 64, count), numbers)
        tiles = np.flatnonzero(rng.random(TILES) < 0.8)
        if rng.integers(0, 2) or not len(tiles):
            tiles = np.arange(int(rng.integers(0, 8)), int(rng.integers(8, TILES)) + 1)
        place = crossing(selection(tiles), stretch(numbers))
        slices += all(isinstance(index, slice) for index in place)
        assert np.array_equal(memory[place], memory[tiles[:, None], numbers])
    assert 30 < slices < 270
