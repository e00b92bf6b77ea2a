"""Instructions in other forms do the same: elements, counts, waits and rows are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.instructions import builder, encoding
from fitzroy.compiler.targets.edgetpu.instructions.counters import (
    MOST,
    Counters,
    counts_with,
    iterations,
    needs,
)
from fitzroy.compiler.targets.edgetpu.instructions.encoding import encoded
from fitzroy.compiler.targets.edgetpu.instructions.nests import NESTS
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.hw_models.edgetpu.sequence import sequence
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, Side, TileFlag, Watcher
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.traversal import (
    NARROW,
    WIDE,
    Prefix,
    Traversal,
    resolved,
    traversal,
)

GATED = {
    NarrowToWide: {Side.READ: "narrow", Side.WRITE: "wide"},
    WideToNarrow: {Side.READ: "wide", Side.WRITE: "narrow"},
    RingConsume: {Side.READ: "wide", Side.WRITE: "wide"},
    RingProduce: {Side.READ: "wide", Side.WRITE: "wide"},
    Mesh: {Side.READ: "send", Side.WRITE: "receive"},
}
COUNTED = {
    "narrow_to_wide": "wide",
    "wide_to_narrow": "narrow",
    "ring_read": "wide",
    "ring_write": "wide",
    "token": "wide",
    "sent": "send",
    "received": "receive",
}


def random_traversal(rng: np.random.Generator, rank: int) -> Traversal:
    dims, span = [], 1
    for _ in range(int(rng.integers(0, 4))):
        count = int(rng.choice([1, 1, 2, 2, 3, 4]))
        dims.append((count, int(rng.choice([span, span, span + 3, 0]))))
        span *= count
    dims = dims or [(1, 1)]
    ping = (int(rng.integers(0, 3)), int(rng.choice([0, 64, -64])))
    part = None
    if len(dims) > 1 and rng.random() < 0.2:
        part = (int(rng.integers(1, dims[0][0] + 1)), int(rng.integers(1, len(dims))))
    return traversal(500, dims, rank=rank, ping_pong=ping if ping[1] else (0, 0), part=part)


def random_waits(rng: np.random.Generator, flags: Sequence[TileFlag], count: int) -> list[Watcher]:
    chosen = rng.permutation(np.array(flags))[: int(rng.integers(0, count + 1))]
    return [
        Watcher(
            int(flag),
            int(rng.integers(0, 4)),
            int(rng.choice([-3, -1, 0, 1, 5])),
            int(rng.integers(0, 3)),
            side=Side(int(rng.integers(2))),
        )
        for flag in chosen
    ]


def padded(items: Sequence[Watcher], count: int) -> tuple[Watcher | None, ...]:
    return (*items, *[None] * (count - len(items)))


def random_producer(rng: np.random.Generator) -> Producer | None:
    return Producer(int(rng.integers(0, 4))) if rng.random() < 0.7 else None


def random_consumer(rng: np.random.Generator) -> TileInstruction:
    flags = [TileFlag.WIDE_TO_NARROW, TileFlag.PARAMETERS]
    prefix = Prefix(int(rng.integers(0, 3)), 100, 3, 110, 3) if rng.random() < 0.3 else None
    return RingConsume(
        op=Opcode.RING_CONSUME_A if rng.random() < 0.5 else Opcode.RING_CONSUME_B,
        wide=random_traversal(rng, WIDE.rank),
        prefix=prefix,
        ring_read=random_producer(rng),
        wait=padded(random_waits(rng, flags, 1), 1),
    )


def random_sender(rng: np.random.Generator) -> TileInstruction:
    turn = Watcher(TileFlag.RING_PRODUCER_A, 3, 7)
    flags = [TileFlag.NARROW_TO_WIDE]
    return RingProduce(
        wide=random_traversal(rng, WIDE.rank),
        ring_write=random_producer(rng),
        token=Producer(int(rng.integers(0, 4))),
        wait=padded([turn, *random_waits(rng, flags, 1)], 2),
        destination=1,
    )


def random_packing(rng: np.random.Generator) -> TileInstruction:
    flags = [TileFlag.RING_WRITE, TileFlag.MESH_SOUTH_IN, TileFlag.AVDATA, TileFlag.PARAMETERS]
    return NarrowToWide(
        narrow=random_traversal(rng, NARROW.rank),
        wide=random_traversal(rng, WIDE.rank),
        narrow_to_wide=random_producer(rng),
        wait=padded(random_waits(rng, flags, 2), 5),
        pack_level=int(rng.integers(0, 5)),
    )


def random_unpacking(rng: np.random.Generator) -> TileInstruction:
    flags = [TileFlag.RING_READ_A, TileFlag.RING_READ_B, TileFlag.AVDATA]
    return WideToNarrow(
        wide=random_traversal(rng, WIDE.rank),
        narrow=random_traversal(rng, NARROW.rank),
        wide_to_narrow=random_producer(rng),
        wait=padded(random_waits(rng, flags, 2), 2),
        to_scaling=bool(rng.random() < 0.2),
        pack_level=int(rng.integers(0, 5)),
    )


def random_mesh(rng: np.random.Generator) -> TileInstruction:
    flags = [TileFlag.AVDATA, TileFlag.MESH_NORTH_IN, TileFlag.MESH_SOUTH_IN]
    some = rng.random()
    return Mesh(
        op=Opcode(int(rng.integers(Opcode.MESH_SOUTHWARD, Opcode.MESH_EASTWARD + 1))),
        send=random_traversal(rng, WIDE.rank) if some < 0.7 else None,
        receive=random_traversal(rng, WIDE.rank) if some > 0.3 else None,
        sent=random_producer(rng) if some < 0.7 else None,
        received=random_producer(rng) if some > 0.3 else None,
        wait=padded(
            [
                item
                for item in random_waits(rng, flags, 3)
                if some < 0.7 and (item.side is Side.READ or some > 0.3)
            ],
            6,
        ),
    )


# --- what an instruction does --------------------------------------------------------------------


def elements(instruction: Instruction, name: str) -> Array:
    value: Traversal = getattr(instruction, name)
    prefix = getattr(instruction, "prefix", None)
    prefixed = name == "wide" if isinstance(instruction, RingConsume) else name == "narrow"
    return sequence(value, prefix if prefixed else None).addresses


def counts(instruction: Instruction, name: str) -> list[int]:
    """Elements after which a producer counts."""
    producer = getattr(instruction, name)
    if producer is None or not producer.valid:
        return []
    ends = sequence(getattr(instruction, COUNTED[name])).ends(producer.level)
    return [int(end) for end in ends]


def gates(instruction: Any, flag: int, side: Side) -> list[int]:
    """What a flag must have reached before each element of a side; it is never below zero."""
    value = getattr(instruction, GATED[type(instruction)][side])
    if value is None:
        return []
    found = np.zeros(len(sequence(value)), np.int64)
    for watcher in instruction.wait:
        if watcher is not None and watcher.flag == flag and watcher.side is side:
            for number, begin in enumerate(sequence(value).begins(watcher.level)):
                need = watcher.threshold + watcher.increment * number
                found[begin:] = np.maximum(found[begin:], need)
    return [int(need) for need in found]


def rows(instruction: Instruction) -> list[int]:
    """Words at which a conversion begins another row."""
    if not isinstance(instruction, NarrowToWide | WideToNarrow):
        return []
    most = 32 if isinstance(instruction, WideToNarrow) and instruction.to_scaling else 64
    narrow = sequence(instruction.narrow)
    begins = [*narrow.begins(instruction.pack_level), len(narrow)]
    return [at for a, b in pairwise(begins) for at in range(a, b, most)]


def phase_of(instruction: TileInstruction, rng: np.random.Generator) -> list[Instruction]:
    """The instruction, and others that may wait for its flags."""
    phase: list[Instruction] = [instruction]
    for name in COUNTED:
        flag = counts_with(instruction, name)
        if flag is not None and rng.random() < 0.5:
            wait = (Watcher(flag, 3, 1), None, None, None, None, None)
            send = traversal(0, [(4, 1)], rank=WIDE.rank)
            op = Opcode.MESH_NORTHWARD
            phase.append(Mesh(op=op, tiles=instruction.tiles, send=send, wait=wait))
    return phase


MAKERS = (random_consumer, random_sender, random_packing, random_unpacking, random_mesh)


@pytest.mark.long
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("known", [True, False])
def test_other_forms_do_the_same(
    make: Callable[[np.random.Generator], TileInstruction], known: bool
) -> None:
    rng = np.random.default_rng(MAKERS.index(make))
    changed = 0
    for _ in range(250):
        instruction = replace(make(rng), tiles=1 << int(rng.integers(16)))
        phase = phase_of(instruction, rng)
        counters = Counters.of(phase) if known else None
        found = encoded(instruction, counters)
        changed += found != instruction
        for nest in NESTS[type(instruction)]:
            if getattr(instruction, nest.field) is None:
                assert getattr(found, nest.field) is None
                continue
            before, after = elements(instruction, nest.field), elements(found, nest.field)
            assert np.array_equal(before, after), (instruction, found)
        assert rows(found) == rows(instruction), (instruction, found)
        for name in COUNTED:
            idle = counters is not None and counters.idle(
                counts_with(instruction, name), instruction.tiles
            )
            if hasattr(instruction, name) and not idle:
                assert counts(found, name) == counts(instruction, name), (instruction, found)
        for flag in TileFlag:
            for side in Side:
                wanted = gates(instruction, flag, side)
                assert gates(found, flag, side) == wanted, (instruction, found)
    assert changed > 10


# --- what the phase allows -----------------------------------------------------------------------


def halo(*waits: Watcher) -> Mesh:
    words = traversal(40, [(6, 1), (3, 16)], rank=WIDE.rank)
    return Mesh(
        op=Opcode.MESH_WESTWARD, tiles=0xFFFF, send=words, wait=(*waits, *[None] * (6 - len(waits)))
    )


def test_conditions_that_always_hold_come_and_go() -> None:
    instruction = halo(Watcher(TileFlag.MESH_SOUTH_IN, 2, 1, 1))
    assert form(instruction) not in published()
    assert form(encoded(instruction)) not in published()
    found = encoded(instruction, Counters.of([instruction]))
    assert form(found) in published()
    (added,) = [item for item in found.wait if item is not None and item not in instruction.wait]
    assert added.flag == TileFlag.AVDATA
    assert added.threshold == 0


def test_no_condition_is_added_for_a_flag_that_may_wrap() -> None:
    """The signed comparison of 16 bits would fail once the counter is too far above it."""
    counter = WideToNarrow(
        tiles=0xFFFF,
        narrow=traversal(0, [(MOST + 1, 1)], rank=NARROW.rank),
        wide=traversal(0, [(512, 1)], rank=WIDE.rank),
        wide_to_narrow=Producer(0),
        pack_level=1,
    )
    awaits = halo(Watcher(TileFlag.WIDE_TO_NARROW, 2, 1))
    few = replace(counter, narrow=traversal(0, [(MOST, 1)], rank=NARROW.rank))
    assert not Counters.of([counter, awaits]).holds(TileFlag.WIDE_TO_NARROW, 1, 0, 0)
    assert Counters.of([few, awaits]).holds(TileFlag.WIDE_TO_NARROW, 1, 0, 0)
    assert not Counters.of([few, awaits]).holds(TileFlag.RING_PRODUCER_A, 1, 0, 0)


def test_a_wrapped_threshold_is_no_condition_that_always_holds() -> None:
    """Below zero in 16 bits, but far above what the counter begins with."""
    words = WideToNarrow(
        tiles=1,
        narrow=traversal(0, [(40_000, 1)], rank=NARROW.rank),
        wide=traversal(0, [(625, 1)], rank=WIDE.rank),
        wide_to_narrow=Producer(0),
    )
    consumer = RingConsume(
        op=Opcode.RING_CONSUME_A,
        tiles=1,
        wide=traversal(0, [(1, 1)], rank=WIDE.rank),
        wait=(Watcher(TileFlag.WIDE_TO_NARROW, 0, 39_000 - (1 << 16), 0),),
    )
    assert not Counters.of([words, consumer]).idle(TileFlag.WIDE_TO_NARROW, 1)


def test_a_flag_counts_as_awaited_on_the_tiles_that_wait_for_it() -> None:
    counters = Counters.of([replace(halo(Watcher(TileFlag.AVDATA, 2, 1)), tiles=0b110)])
    assert not counters.idle(TileFlag.AVDATA, 0b100)
    assert counters.idle(TileFlag.AVDATA, 0b1001)
    assert not counters.idle(None, 1)


def test_needs_are_those_of_all_iterations() -> None:
    instruction = halo(Watcher(TileFlag.AVDATA, 1, -2, 3))
    assert instruction.send is not None
    assert iterations(instruction.send, 1) == 3
    assert [item[1:] for item in needs(instruction)] == [(-2, 4)]


@pytest.mark.long
def test_what_was_chosen_before_does_not_matter() -> None:
    """Choices are kept from program to program; equal programs have equal bytes even so."""

    def code() -> list[Any]:
        return [np.asarray(section.code).tolist() for section in lower(random_model(3)).text or ()]

    encoding._CHOICES.clear()
    first = code()
    for seed in range(5):
        lower(random_model(seed))
    assert code() == first


def test_phases_are_encoded_as_a_whole() -> None:
    """A producer whose awaiter comes later in the phase keeps its level."""
    program = builder.Builder()
    program.begin()
    words = traversal(0, [(4, 1), (3, 8)], rank=NARROW.rank)
    unpack = WideToNarrow(
        tiles=1,
        narrow=words,
        wide=traversal(0, [(3, 1)], rank=WIDE.rank),
        wide_to_narrow=Producer(1),
        pack_level=1,
    )
    program.emit(unpack)
    program.emit(replace(halo(Watcher(TileFlag.WIDE_TO_NARROW, 2, 3)), tiles=1))
    program.barrier()
    program.emit(unpack)
    kinds = [item for _, _, item in program.program if isinstance(item, WideToNarrow)]
    awaited, idle = kinds
    assert counts(awaited, "wide_to_narrow") == counts(unpack, "wide_to_narrow")
    assert form(idle) in published() or idle == unpack


# --- traversals ----------------------------------------------------------------------------------


def test_resolved_traversals_have_the_same_addresses() -> None:
    rng = np.random.default_rng(9)
    changed = 0
    for _ in range(250):
        value = random_traversal(rng, NARROW.rank)
        found = resolved(value)
        assert np.array_equal(found.addresses(), value.addresses())
        for level in range(1, NARROW.rank + 1):
            assert np.array_equal(sequence(found).ends(level), sequence(value).ends(level))
        changed += found != value
    assert changed > 50


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Two slots that are used once each are a stride.
        (
            traversal(8, [(5, 1), (2, 0)], rank=4, ping_pong=(1, 16)),
            traversal(8, [(5, 1), (2, 16)], rank=4),
        ),
        # Three turns come back to the first slot.
        (
            traversal(8, [(5, 1), (3, 0)], rank=4, ping_pong=(1, 16)),
            traversal(8, [(5, 1), (3, 0)], rank=4, ping_pong=(1, 16)),
        ),
        # The only chunk is the last one.
        (
            traversal(8, [(5, 1), (1, 0)], rank=4, part=(3, 1)),
            traversal(8, [(3, 1), (1, 0)], rank=4),
        ),
    ],
)
def test_resolved(value: Traversal, expected: Traversal) -> None:
    assert resolved(value) == expected
