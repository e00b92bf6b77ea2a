"""What the simulator completes late, keeps short or stops at random, and who notices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.hw_models.instruction_fields import units, wait, waits, wide
from tests.hw_models.test_edgetpu_engines import (
    DONE,
    EACH,
    RESET,
    Memory,
    constant,
    descriptor,
    pop,
    prepared,
    program,
)

from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.latitude import ANY, NONE, PUBLISHED, Latitude
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.op_plan import OpPlan, plan
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import Opcode, ScalarFlag, StreamEngine, TileFlag
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import Alu, DescriptorTag, Scalar, Special, Store
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, PopMemory
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Traversal, traversal

PIPELINE = ScalarFence(idle=1 << StreamEngine.PIPELINE)


def ran(
    body: Sequence[Instruction], latitude: Latitude, seed: int | None = None, inputs: int = 0
) -> Machine:
    """A machine after a program."""
    chip = Machine(seed=seed, latitude=latitude)
    known = prepared().memory
    for name in ("narrow", "narrow_known", "wide", "wide_known"):
        getattr(chip.memory, name)[:] = getattr(known, name)
    host = Memory(np.arange(inputs, dtype=np.uint8))
    chip.run([program([*RESET, *body, *DONE])], host)
    return chip


# --- partial sums ---------------------------------------------------------------------------------


def sums(run: int, positions: int, contributions: int = 2) -> TensorOp:
    """Contributions of `run` steps to each of some sums in wide memory."""
    counts = run, positions, contributions

    def nest(base: int, *strides: int) -> Traversal:
        return traversal(base, list(zip(counts, strides, strict=True)), rank=8)

    return TensorOp(
        op=Opcode.MAC,
        tiles=1,
        loops=(*counts, 1, 1, 1, 1, 1),
        a=nest(0, 4, 4, 64),
        b=traversal(4000, [(positions, 4)], rank=8),
        c=nest(0, 4, 0, 64),
        d=nest(4 * 1000, 0, 4, 0),
        reduction=0b101,
        block_level=3,
        lanes=4,
        lanes_last=4,
        scale=2.0**-12,
        maximum=255.0,
    )


def summed(run: int, positions: int, late: int) -> list[int]:
    chip = ran([sums(run, positions)], Latitude(sums=late))
    return [int(word) for word in chip.memory.narrow[0, 1000 : 1000 + positions]]


@pytest.mark.parametrize(("run", "positions"), [(1, 2), (1, 5), (2, 3), (3, 3), (4, 3), (8, 2)])
def test_a_sum_that_is_taken_up_too_soon_loses_a_contribution(run: int, positions: int) -> None:
    distance = (positions - 1) * run + 1
    found = plan(sums(run, positions))
    assert isinstance(found, OpPlan)
    assert found.nearest == distance
    whole = summed(run, positions, 0)
    assert summed(run, positions, distance - 1) == whole
    assert summed(run, positions, distance) != whole


def test_sums_of_one_contribution_are_never_late() -> None:
    assert plan(sums(2, 3, contributions=1)).nearest is None


# --- the scalar core ------------------------------------------------------------------------------


def relayed(*between: Instruction) -> list[Instruction]:
    """A word that the scalar core stores goes to tile 0."""
    return [
        constant(2, 0x1234),
        Scalar(store=Store.ABSOLUTE, store_address=0, store_from=2),
        *between,
        Infeed(
            memory=InfeedMemory.SCALAR,
            buffer=traversal(0, [(4, 1)], rank=3),
            infed=EACH,
            destination=1,
            row_words=4,
        ),
        RingConsume(tiles=1, wide=wide(700), ring_read=EACH),
    ]


@pytest.mark.parametrize(
    ("between", "arrives"),
    [
        ((), False),
        ([Scalar()] * 10, False),
        ([Scalar()] * 40, True),
        ((PIPELINE,), True),
        ((ScalarFence(idle=1 << StreamEngine.OUTFEED),), False),
    ],
)
def test_stores_are_late_until_the_pipeline_is_idle(
    between: Sequence[Instruction], arrives: bool
) -> None:
    def word(latitude: Latitude) -> int:
        return int(ran(relayed(*between), latitude).memory.wide[0, 700, 0])

    assert word(NONE) == 0x1234
    assert (word(Latitude(stores=30)) == 0x1234) == arrives


def test_a_late_store_does_not_replace_what_an_outfeed_brings() -> None:
    body = [
        constant(2, 0x1234),
        Scalar(store=Store.ABSOLUTE, store_address=0, store_from=2),
        Outfeed(buffer=units(0, 64), row_words=64),
        RingProduce(tiles=1 << 6, wide=wide(8), to_outfeed=True),
        ScalarFence(idle=1 << StreamEngine.OUTFEED),
        Infeed(
            memory=InfeedMemory.SCALAR,
            buffer=traversal(0, [(4, 1)], rank=3),
            infed=EACH,
            destination=1,
            row_words=4,
        ),
        RingConsume(tiles=1, wide=wide(700), ring_read=EACH),
    ]
    chip = ran(body, Latitude(stores=300))
    assert chip.memory.wide[0, 700, :4].tolist() == chip.memory.wide[6, 8, :4].tolist()


def real(word: int | None) -> float:
    """A known word as a number."""
    return float(np.array([word], np.uint32).view(np.float32)[0])


def special(gap: int, use: int) -> list[Instruction]:
    """2^3 and, so many bundles later, 2^4; both stored so many bundles after the second one."""
    float3, float4 = (int(np.float32(x).view(np.uint32)) for x in (3, 4))
    first = Scalar(special=Special.EXP2, special_from=2, special_to=4)
    second = Scalar(special=Special.EXP2, special_from=3, special_to=5)
    return [
        *(constant(to, word) for to, word in ((2, float3), (3, float4), (4, 0), (5, 0))),
        first,
        *[Scalar()] * (gap - 1),
        second,
        *[Scalar()] * (use - 1),
        Scalar(store=Store.ABSOLUTE, store_address=1, store_from=5),
        Scalar(store=Store.ABSOLUTE, store_address=0, store_from=4),
    ]


@pytest.mark.parametrize(
    ("gap", "use", "expected"),
    [(6, 3, [8.0, 16.0]), (6, 2, [8.0, 0.0]), (5, 3, [8.0, 0.0]), (2, 30, [8.0, 0.0])],
)
def test_special_functions_are_late_and_take_their_time(
    gap: int, use: int, expected: list[float]
) -> None:
    def values(latitude: Latitude) -> list[float]:
        return [real(word) for word in ran(special(gap, use), latitude).core.read(0, 2)]

    assert values(NONE) == [8.0, 16.0]
    assert values(Latitude(exponential=3, special=6)) == expected


def test_reciprocals_are_later() -> None:
    body = [
        constant(2, int(np.float32(4).view(np.uint32))),
        constant(4, 7),
        Scalar(special=Special.RECIPROCAL, special_from=2, special_to=4),
        *[Scalar()] * 17,
        Scalar(alu=Alu.MOV, immediate=4, to=5),
        Scalar(alu=Alu.MOV, immediate=4, to=6),
    ]
    chip = ran(body, Latitude(reciprocal=19))
    assert chip.core.registers[5] == 7
    assert real(chip.core.registers[6]) == 0.25


# --- queues, counters and addresses ---------------------------------------------------------------


def fed(pops_first: bool) -> list[Instruction]:
    """Two descriptors, each with a pop of its own or both in front of the pops."""
    pops = [pop(PopMemory.ACTIVATION, 8), replace(pop(PopMemory.ACTIVATION, 8), buffer=units(8, 8))]
    asked = [descriptor(DescriptorTag.INPUT, 64 * k, 64) for k in range(2)]
    order = [*asked[0], pops[0], *asked[1], pops[1]]
    return [
        *(order if pops_first else [*asked[0], *asked[1], *pops]),
        Infeed(
            memory=InfeedMemory.ACTIVATION,
            buffer=traversal(0, [(16, 1)], rank=3),
            infed=EACH,
            wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
            destination=1,
            row_words=32,
        ),
        RingConsume(tiles=1, wide=wide(700), ring_read=EACH),
    ]


def test_the_core_waits_while_too_many_descriptors_are_open() -> None:
    for order in (True, False):
        chip = ran(fed(order), Latitude(inputs=2), inputs=128)
        assert chip.memory.wide[0, 700, :32].tobytes() == bytes(range(128))
    ran(fed(True), Latitude(inputs=1), inputs=128)
    with pytest.raises(SimulationError, match="a queue is full"):
        ran(fed(False), Latitude(inputs=1), inputs=128)


def test_queues_hold_the_core_back_and_show_what_needs_longer_ones() -> None:
    sent = [RingProduce(tiles=1, wide=wide(k), destination=2, token=EACH) for k in range(4)]
    taken = [RingConsume(tiles=2, wide=wide(700 + k), ring_read=EACH) for k in range(4)]
    in_turn = [item for pair in zip(taken, sent, strict=True) for item in pair]
    for body, latitude in ((in_turn, Latitude(queues=1)), ([*taken, *sent], Latitude(queues=2))):
        chip = ran(body, latitude)
        assert (chip.memory.wide[1, 700:704] == chip.memory.wide[0, :4]).all()
    # Consumers wait for rows of producers that come after more than their queue holds.
    with pytest.raises(SimulationError, match="a queue is full"):
        ran([*taken, *sent], Latitude(queues=1))


def test_fences_may_compare_without_wrapping() -> None:
    # A counter of 40,000 is awaited; compared as signed numbers, 30,000 seems to be beyond it.
    reached = {
        "thresholds": tuple(
            40_000 - 65_536 if flag is ScalarFlag.PRODUCER_B else 0 for flag in ScalarFlag
        ),
        "wait": 1 << ScalarFlag.PRODUCER_B,
    }
    body = [
        ScalarFence(set=1 << ScalarFlag.PRODUCER_B, value=30_000),
        ScalarFence(**reached),  # type: ignore[arg-type]
    ]
    with pytest.raises(SimulationError, match="waits for producer_b"):
        ran(body, NONE)
    ran(body, Latitude(plain_counters=True))


@pytest.mark.parametrize(("base", "wraps_once"), [(0, True), (1, True), (2, False)])
def test_addresses_of_infeeds_may_wrap_once(base: int, wraps_once: bool) -> None:
    size = BEAGLE.memories.activation_buffer.elements
    body = [
        *descriptor(DescriptorTag.INPUT, 0, 64),
        replace(pop(PopMemory.ACTIVATION, 8), buffer=units(0, 8)),
        Infeed(
            memory=InfeedMemory.ACTIVATION,
            buffer=traversal(base * size, [(8, 1)], rank=3),
            infed=EACH,
            wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
            destination=1,
            row_words=16,
        ),
        RingConsume(tiles=1, wide=wide(700), ring_read=EACH),
    ]
    assert ran(body, NONE, inputs=64).memory.wide[0, 700, :16].tobytes() == bytes(range(64))
    if wraps_once:
        ran(body, Latitude(plain_counters=True), inputs=64)
    else:
        with pytest.raises(SimulationError, match="wrap once"):
            ran(body, Latitude(plain_counters=True), inputs=64)


# --- delays ---------------------------------------------------------------------------------------


def unordered() -> list[Instruction]:
    """A row goes to a tile, which writes it on without a wait."""
    return [
        RingConsume(tiles=2, wide=wide(700, (4, 1)), ring_read=EACH),
        RingProduce(tiles=2, channel=1, wide=wide(700, (4, 1)), destination=4, token=EACH),
        RingConsume(op=Opcode.RING_CONSUME_B, tiles=4, wide=wide(800, (4, 1)), ring_read=EACH),
        RingProduce(tiles=1, wide=wide(0, (4, 1)), destination=2, token=EACH, ring_write=EACH),
    ]


def test_delays_show_a_wait_that_is_missing_and_spare_one_that_is_there() -> None:
    def found(make: Callable[[], list[Instruction]]) -> set[bytes]:
        results = set()
        for seed in range(12):
            chip = ran(make(), Latitude(delays=True, any_order=True), seed)
            results.add(chip.memory.wide[2, 800:804].tobytes())
        return results

    def ordered() -> list[Instruction]:
        body = unordered()
        sends = body[1]
        assert isinstance(sends, RingProduce)
        waiting = waits(wait(TileFlag.RING_READ_A, 0, 1, 1), count=len(sends.wait))
        return [body[0], replace(sends, wait=waiting), *body[2:]]

    known: Array = prepared().memory.wide[0, :4]
    assert found(ordered) == {known.tobytes()}
    assert len(found(unordered)) > 1


def test_runs_with_a_seed_are_the_same_again() -> None:
    def once() -> bytes:
        return ran(unordered(), ANY, 7).memory.wide[2, 800:804].tobytes()

    assert once() == once()


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "latitude"),
    [
        ("none", NONE),
        ("published", PUBLISHED),
        ("any", ANY),
        ("stores=300", Latitude(stores=300)),
        ("sums=8, queues=2,delays", Latitude(sums=8, queues=2, delays=True)),
        ("any-order,plain-counters", Latitude(any_order=True, plain_counters=True)),
    ],
)
def test_latitudes_have_texts(text: str, latitude: Latitude) -> None:
    assert Latitude.parse(text) == latitude


@pytest.mark.parametrize(
    "text", ["", "late", "sums", "sums=", "sums=-1", "sums=٣", "delays=1", "sums=99999999", "a,b=1"]
)
def test_malformed_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it takes stores=300"):
        Latitude.parse(text)


def test_delays_need_a_seed() -> None:
    with pytest.raises(UsageError, match="no seed"):
        Machine(latitude=PUBLISHED)
