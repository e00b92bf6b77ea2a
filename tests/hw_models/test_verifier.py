"""Rules of synchronization on small programs, with and without faults."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.hw_models.instruction_fields import narrow, units, wait, waits, wide
from tests.hw_models.verifier_mutations import mutants

from fitzroy.base.diagnostics import Severity
from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.scalar import Descriptor
from fitzroy.hw_models.edgetpu.verifier import RULES, Finding, record, verify
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    Opcode,
    Producer,
    ScalarFlag,
    Side,
    StreamEngine,
    TileFlag,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import chunk
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Load,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import Resize
from fitzroy.hw_models.isa.traversal import traversal

ALL = 0xFFFF
ROWS = 6
ROW_BYTES = 256
UNITS = ROWS * ROW_BYTES // 8
CREDIT = 32764


def descriptor(tag: DescriptorTag, address: int, size: int) -> list[Instruction]:
    code: list[Instruction] = []
    words = (address, 0, size, int(tag))
    for slot, word in zip(DescriptorSlot, words, strict=True):
        code += [
            Scalar(alu=Alu.MOV, immediate_b=True, to=1, immediate=word),
            Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=1),
        ]
    return [*code, Scalar(store=Store.ISSUE)]


def sync(**more: Any) -> list[Instruction]:
    return [
        TileFence(tiles=ALL, idle=0x3FF, signal=True, **more),
        ScalarFence(wait_tiles=True, tiles=ALL, clear=ALL, idle=0x1F),
    ]


def relay() -> list[Instruction]:
    """Rows of the host through tile 0 to tile 4, and back to the host, two slots everywhere."""
    each, every = Producer(0), Producer(1)
    slots: dict[str, Any] = {"ping_pong": (1, 1)}
    begin = [
        TileFence(tiles=ALL, set=0x7FFFF, idle=0x3FF, signal=True),
        ScalarFence(set=0x1FF, wait_tiles=True, tiles=ALL, clear=ALL, idle=0x1F),
        ScalarFence(set=1 << ScalarFlag.AVDATA_INFEED, value=CREDIT),
    ]
    ingest: list[Instruction] = [
        Pop(
            memory=PopMemory.ACTIVATION,
            buffer=units(0, UNITS),
            popped=each,
            wait=waits(wait(ScalarFlag.AVDATA_INFEED, 0, 0, 1), count=1),
        ),
        *descriptor(DescriptorTag.INPUT, 0, UNITS * 8),
        WideToNarrow(
            tiles=1,
            wide=wide(2000, (1, 1), (ROWS, 0), **slots),
            narrow=narrow(0, (64, 1), (ROWS, 64)),
            wide_to_narrow=every,
            wait=waits(wait(TileFlag.RING_READ_A, 1, 1, 1), count=2),
            pack_level=1,
        ),
        RingConsume(
            op=Opcode.RING_CONSUME_A,
            tiles=1,
            wide=wide(2000, (1, 1), (ROWS, 0), **slots),
            ring_read=every,
            wait=waits(wait(TileFlag.WIDE_TO_NARROW, 1, -1, 1, side=Side.WRITE), count=1),
        ),
        Infeed(
            memory=InfeedMemory.ACTIVATION,
            buffer=units(0, UNITS),
            infed=each,
            wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
            destination=1,
            row_words=64,
        ),
        TileFence(tiles=ALL, set=0x1FFFF, idle=0x3FF),
    ]
    body: list[Instruction] = [
        RingProduce(
            tiles=1 << 4,
            wide=wide(2010, (1, 1), (ROWS, 0), **slots),
            ring_write=every,
            token=Producer(2),
            wait=waits(
                wait(TileFlag.RING_PRODUCER_A, 2, 0),
                wait(TileFlag.NARROW_TO_WIDE, 1, 1, 1),
                count=2,
            ),
            to_outfeed=True,
        ),
        NarrowToWide(
            tiles=1 << 4,
            narrow=narrow(100, (64, 1), (ROWS, 64)),
            wide=wide(2010, (1, 1), (ROWS, 0), **slots),
            narrow_to_wide=every,
            wait=waits(
                wait(TileFlag.MESH_NORTH_IN, 1, 1, 1),
                wait(TileFlag.RING_WRITE, 1, -1, 1, side=Side.WRITE),
                count=5,
            ),
            pack_level=1,
        ),
        Mesh(
            op=Opcode.MESH_SOUTHWARD,
            tiles=1 << 4,
            receive=wide(100, (64, 1), (ROWS, 64)),
            received=every,
            wait=waits(count=6),
        ),
        Mesh(
            op=Opcode.MESH_SOUTHWARD,
            tiles=1,
            send=wide(0, (64, 1), (ROWS, 64)),
            wait=waits(count=6),
        ),
        Outfeed(buffer=units(0, UNITS), to_host=True, row_words=64),
        *descriptor(DescriptorTag.OUTPUT, 0, UNITS * 8),
    ]
    end: list[Instruction] = [
        TileFence(tiles=ALL, set=0x1FFFF, idle=0x3FF),
        ScalarFence(
            set=1 << ScalarFlag.PRODUCER_A,
            wait=1 << ScalarFlag.PRODUCER_A,
            thresholds=tuple(int(flag == ScalarFlag.PRODUCER_A) for flag in ScalarFlag),
            idle=1 << StreamEngine.OUTFEED,
        ),
        *sync(set=1 << TileFlag.RING_PRODUCER_A),
        *descriptor(DescriptorTag.INTERRUPT_0, 0, 0),
        Halt(end_program=True),
    ]
    return chunk([*begin, *ingest, *body, *end])


class Echo:
    """A host that has numbers, and keeps what it gets."""

    def __init__(self) -> None:
        self.data = (np.arange(UNITS * 8) * 7 % 251).astype(np.uint8)
        self.got = b""

    def send(self, descriptor: Descriptor) -> Array:
        return self.data.copy()

    def receive(self, descriptor: Descriptor, data: Array) -> None:
        self.got += data.tobytes()

    def interrupt(self, number: int) -> None:
        pass


def outcome(chunks: Sequence[Sequence[Instruction]], seed: int) -> object:
    host = Echo()
    try:
        Machine(seed=seed).run(chunks, host)
    except SimulationError as error:
        return error.what
    return host.got == host.data.tobytes()


def found(instructions: Sequence[Instruction]) -> tuple[Finding, ...]:
    """Findings about the order of what a program does; the smallest ones are like no published."""
    return tuple(one for one in every(instructions) if one.rule != "envelope")


def every(instructions: Sequence[Instruction]) -> tuple[Finding, ...]:
    return verify(record([instructions]), [instructions])


def rules(instructions: Sequence[Instruction]) -> set[str]:
    return {finding.rule for finding in found(instructions)}


Edit = Callable[[Any], Any]


def edited(kind: type, change: Edit, number: int = 0) -> list[Instruction]:
    """The program with its n-th instruction of a class changed, or left out."""
    program: list[Any] = list(relay())
    index = [i for i, one in enumerate(program) if isinstance(one, kind)][number]
    other = change(program[index])
    program[index : index + 1] = [] if other is None else [other]
    return chunk(program[1:-1])


def test_the_program_keeps_all_rules() -> None:
    program = relay()
    assert found(program) == ()
    assert {outcome([program], seed) for seed in range(4)} == {True}
    assert found(edited(Pop, lambda one: one)) == ()


def watcher(number: int, **changes: Any) -> Edit:
    def change(one: Any) -> Any:
        waits = list(one.wait)
        waits[number] = replace(waits[number], **changes)
        return replace(one, wait=tuple(waits))

    return change


@pytest.mark.parametrize(
    ("kind", "number", "change", "rule"),
    [
        pytest.param(WideToNarrow, 0, watcher(0, valid=False), "hazard", id="no data wait"),
        pytest.param(WideToNarrow, 0, watcher(0, threshold=0), "hazard", id="data wait too low"),
        pytest.param(WideToNarrow, 0, watcher(0, threshold=2), "deadlock", id="data wait too high"),
        pytest.param(RingConsume, 0, watcher(0, threshold=-2), "hazard", id="a slot too many"),
        pytest.param(NarrowToWide, 0, watcher(0, valid=False), "hazard", id="no wait for mesh"),
        pytest.param(NarrowToWide, 0, watcher(1, threshold=-3), "hazard", id="staging overrun"),
        pytest.param(RingProduce, 0, watcher(1, valid=False), "hazard", id="not staged"),
        pytest.param(
            RingProduce, 0, lambda one: replace(one, token=None), "deadlock", id="no token"
        ),
        pytest.param(
            RingConsume, 0, lambda one: replace(one, ring_read=None), "deadlock", id="no count"
        ),
        pytest.param(TileFence, 1, lambda one: replace(one, idle=0), "hazard", id="open fence"),
        pytest.param(
            TileFence, 1, lambda one: replace(one, idle=0x3FF & ~6), "hazard", id="partial fence"
        ),
        pytest.param(
            TileFence, 1, lambda one: replace(one, idle=0), "flag-reset", id="reset in use"
        ),
        pytest.param(TileFence, 1, lambda one: None, "hazard", id="no fence"),
        pytest.param(
            TileFence, 3, lambda one: replace(one, signal=False), "deadlock", id="no signal"
        ),
        pytest.param(
            TileFence, 3, lambda one: replace(one, set=0), "tokens-left", id="tokens not reset"
        ),
        pytest.param(
            TileFence, 2, lambda one: replace(one, signal=True), "signal-pairing", id="two signals"
        ),
        pytest.param(
            ScalarFence,
            3,
            lambda one: replace(one, wait_tiles=False, tiles=0),
            "signal-pairing",
            id="no tile wait",
        ),
        pytest.param(
            Infeed, 0, watcher(0, valid=False), "stream-hazard", id="infeed does not wait"
        ),
        pytest.param(
            Infeed, 0, lambda one: replace(one, channel=1), "ring-channel", id="infeed on B"
        ),
        pytest.param(
            Infeed, 0, lambda one: replace(one, constant1=False), "reserved", id="reserved bit"
        ),
        pytest.param(
            RingProduce,
            0,
            lambda one: replace(one, to_outfeed=False),
            "ring-channel",
            id="nowhere",
        ),
        pytest.param(
            Pop,
            0,
            lambda one: replace(one, buffer=units(0, UNITS - 1)),
            "deadlock",
            id="too few units",
        ),
        pytest.param(
            Mesh, 1, lambda one: replace(one, send=wide(0, (64, 1))), "deadlock", id="few words"
        ),
    ],
)
def test_a_fault_is_found(kind: type, number: int, change: Edit, rule: str) -> None:
    assert rule in rules(edited(kind, change, number))


def gather(*, loose: bool, late: bool = False) -> list[Instruction]:
    """A row of each of tiles 1 to 3 to tile 0, all through one row of wide memory.

    Args:
        loose: let the consumers have credits from the start.
        late: let the conversions of tile 0 wait for a mesh word that comes at the end.
    """
    body: list[Instruction] = []
    for number in range(3):
        body += [
            WideToNarrow(
                tiles=1,
                wide=wide(2000, (1, 1)),
                narrow=narrow(64 * number, (64, 1)),
                wide_to_narrow=Producer(1),
                wait=waits(
                    wait(TileFlag.RING_READ_A, 1, number + 1),
                    *([wait(TileFlag.MESH_NORTH_IN, 1, 1)] if late else []),
                    count=2,
                ),
                pack_level=1,
            ),
            RingConsume(
                op=Opcode.RING_CONSUME_A,
                tiles=1,
                wide=wide(2000, (1, 1)),
                ring_read=Producer(1),
                wait=waits(
                    wait(TileFlag.WIDE_TO_NARROW, 1, -5 if loose else number, side=Side.WRITE),
                    count=1,
                ),
            ),
            RingProduce(
                tiles=2 << number,
                wide=wide(0, (1, 1)),
                token=Producer(0),
                wait=waits(wait(TileFlag.RING_PRODUCER_A, 2, number), count=2),
                destination=1,
            ),
        ]
        if late:
            # One instruction per engine: the others follow when the word has come.
            fill = Mesh(
                op=Opcode.MESH_SOUTHWARD,
                tiles=1,
                receive=wide(5000, (1, 1)),
                received=Producer(0),
                fill=True,
                wait=waits(count=6),
            )
            body += [fill]
    return chunk(
        [
            *sync(set=0x7FFFF),
            ScalarFence(set=0x1FF),
            *body,
            *sync(),
            *sync(set=0x60000),
            ScalarFence(set=0x60),
            Halt(end_program=True),
        ]
    )


def test_a_credit_that_only_time_gives_is_a_note() -> None:
    # Each row is taken while the next one is on its way, but that is not for sure.
    assert found(gather(loose=False)) == ()
    findings = found(gather(loose=True))
    assert [finding.rule for finding in findings] == ["timing-guaranteed"] * 2
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert "wide row 2000" in findings[0].reason
    assert findings[0].where.endswith("tile 0")


def test_time_gives_no_credit_to_who_waits_for_something_else() -> None:
    assert found(gather(loose=False, late=True)) == ()
    assert "hazard" in rules(gather(loose=True, late=True))


def test_a_deadlock_says_who_waits_for_what() -> None:
    (finding,) = found(edited(RingConsume, watcher(0, threshold=1)))
    assert finding.rule == "deadlock"
    assert re.search(
        r"tile 0: ring_consume_a #\d+ at 0:\d+ waits for wide_to_narrow >= 1", str(finding)
    )
    assert "infeed at 0:" in finding.reason
    assert "has wide_to_narrow" not in finding.reason


def test_consumers_come_before_producers_with_short_queues() -> None:
    # The conversion into the staging rows holds the engine that the second one needs to begin.
    program = relay()
    index = next(i for i, one in enumerate(program) if isinstance(one, Infeed))
    program[index - 2 : index + 1] = [program[index], *program[index - 2 : index]]
    assert found(program) == ()
    consumer: Any = program[index]
    again = chunk([*program[1 : index + 1], consumer, *program[index + 1 : -1]])
    assert "deadlock" in rules(again)


def test_a_turn_on_the_ring_is_waited_for() -> None:
    program: list[Any] = list(relay())
    index = next(i for i, one in enumerate(program) if isinstance(one, RingProduce))
    producer: Any = program[index]
    other = replace(
        producer,
        tiles=1 << 8,
        wide=wide(0, (1, 1)),
        ring_write=None,
        wait=waits(wait(TileFlag.RING_PRODUCER_A, 2, 1), count=2),
    )
    more = Outfeed(buffer=units(0, 32), to_host=True, row_words=64)
    out = next(i for i, one in enumerate(program) if isinstance(one, Outfeed))
    fence = next(i for i, one in enumerate(program) if isinstance(one, ScalarFence) and one.wait)
    tokens = tuple(2 * int(flag == ScalarFlag.PRODUCER_A) for flag in ScalarFlag)
    program[fence] = replace(program[fence], thresholds=tokens)
    program[out + 1 : out + 1] = [more, other]
    assert rules(chunk(program[1:-1])) <= {"left-over"}
    program[out + 2] = replace(other, wait=waits(count=2))
    assert "ring-turn" in rules(chunk(program[1:-1]))


def test_an_infeed_and_a_producer_to_the_same_tile_are_separated() -> None:
    def program(between: list[Instruction]) -> list[Instruction]:
        consumer = RingConsume(op=Opcode.RING_CONSUME_A, tiles=1, wide=wide(100, (1, 1)))
        return chunk(
            [
                *sync(set=0x7FFFF),
                ScalarFence(set=0x1FF),
                *descriptor(DescriptorTag.INPUT, 0, ROW_BYTES),
                Pop(memory=PopMemory.ACTIVATION, buffer=units(0, 32), popped=Producer(0)),
                consumer,
                Infeed(
                    memory=InfeedMemory.ACTIVATION,
                    buffer=units(0, 32),
                    wait=waits(wait(ScalarFlag.AVDATA_POP, 0, 1, 1), count=2),
                    destination=1,
                    row_words=64,
                ),
                *between,
                replace(consumer, wide=wide(101, (1, 1))),
                RingProduce(tiles=2, wide=wide(0, (1, 1)), destination=1),
                *sync(),
                Halt(end_program=True),
            ]
        )

    assert rules(program([])) == {"ring-mix"}
    assert rules(program(sync())) == set()
    assert rules(program([ScalarFence(idle=1 << StreamEngine.INFEED)])) == set()


def test_a_counter_that_runs_away_is_found() -> None:
    def words(count: int) -> WideToNarrow:
        return WideToNarrow(
            tiles=1,
            wide=wide(100, (count // 64, 0)),
            narrow=narrow(0, (64, 0), (count // 64, 0)),
            wide_to_narrow=Producer(0),
            pack_level=1,
        )

    def program(count: int) -> list[Instruction]:
        return chunk(
            [
                *sync(set=0x7FFFF),
                NarrowToWide(
                    tiles=1,
                    narrow=narrow(60, (4, 1)),
                    wide=wide(50, (1, 1)),
                    wait=waits(wait(TileFlag.WIDE_TO_NARROW, 1, 64), count=5),
                    pack_level=6,
                ),
                words(64),
                # Nothing keeps this from being done before the conversion above looks.
                replace(words(count), narrow=narrow(900, (64, 0), (count // 64, 0))),
                *sync(),
                Halt(end_program=True),
            ]
        )

    assert rules(program(0x7F00)) == set()
    (finding,) = found(program(0x8040))
    assert finding.rule == "flag-distance"
    assert f"can be {0x8040} away" in finding.what


def fifo(blocks: int, *, order: str = "iop") -> list[Instruction]:
    """Blocks of 64 words of tile 1 through scalar memory to tile 0."""
    words = 64 * blocks
    ring: dict[str, Any] = {"ping_pong": (1, 64)}
    stream = traversal(0, [(64, 1), (blocks, 0)], rank=3, **ring)
    parts: dict[str, Instruction] = {
        "i": Infeed(
            memory=InfeedMemory.SCALAR,
            buffer=stream,
            infed=Producer(0),
            token=Producer(1),
            wait=waits(wait(ScalarFlag.RING_OUTFEED, 0, 1, 1), count=2),
            destination=1,
            row_words=4,
        ),
        "o": Outfeed(
            buffer=stream,
            outfed=Producer(0),
            wait=waits(wait(ScalarFlag.SCALAR_INFEED, 0, -127, 1), count=1),
            row_words=64,
        ),
        "p": RingProduce(
            tiles=2,
            wide=wide(0, (blocks, 1)),
            channel=1,
            to_outfeed=True,
            token=Producer(0),
            wait=waits(wait(TileFlag.RING_PRODUCER_B, 1, 0, 1), count=2),
        ),
    }
    return chunk(
        [
            *sync(set=0x7FFFF),
            ScalarFence(set=0x1FF),
            RingConsume(op=Opcode.RING_CONSUME_A, tiles=1, wide=wide(100, (words // 4, 1))),
            *[parts[name] for name in order],
            *sync(),
            *sync(set=0x60000),
            ScalarFence(set=0x60),
            Halt(end_program=True),
        ]
    )


def test_the_fifo_through_scalar_memory_comes_in_threes() -> None:
    assert rules(fifo(3)) == set()
    assert "fifo-triple" in rules(fifo(3, order="ipo"))
    assert "fifo-triple" in rules(fifo(3, order="oip"))
    program: list[Any] = list(fifo(3))
    index = next(i for i, one in enumerate(program) if isinstance(one, RingProduce))
    program[index] = replace(program[index], wide=wide(0, (2, 1)))
    assert "fifo-triple" in rules(program)


def test_words_of_the_fifo_are_not_overtaken() -> None:
    program: list[Any] = list(fifo(3))
    index = next(i for i, one in enumerate(program) if isinstance(one, Outfeed))
    program[index] = watcher(0, threshold=-128)(program[index])
    assert "stream-hazard" in rules(program)


def test_a_chunk_fits_the_instruction_memory() -> None:
    program = relay()
    long = [program[0], *([Scalar()] * 17_000), *program[1:]]
    rules = [one.rule for one in verify(record([program]), [long]) if one.rule != "envelope"]
    assert rules == ["chunk-size"]


def test_what_the_simulator_does_not_know_is_refused() -> None:
    program = chunk([*sync(), Resize(tiles=1), *sync(), Halt(end_program=True)])
    with pytest.raises(SimulationError, match="a resize of a form"):
        found(program)
    with pytest.raises(SimulationError, match="wide row 2080 is used"):
        found(edited(RingConsume, lambda one: replace(one, wide=wide(2079, (2, 1)))))


def test_a_course_that_depends_on_data_is_not_recorded() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_to=3, load_address=7)
    mask = RingProduce(tiles_from_register=True, tiles_register=3, wide=wide(0))
    program = chunk([load, Scalar(), Scalar(), mask, Halt(end_program=True)])
    with pytest.raises(SimulationError, match="depends on an unknown register"):
        record([program])


def test_a_pair_of_instructions_is_reported_once() -> None:
    findings = found(edited(NarrowToWide, watcher(0, valid=False)))
    hazards = [one for one in findings if one.rule == "hazard"]
    assert len(hazards) == 1
    assert hazards[0].parties is not None
    assert [name.split()[0] for name in hazards[0].parties] == ["narrow_to_wide", "mesh_southward"]
    assert hazards[0].remedy == ""
    assert hazards[0].diagnostic().hint == RULES["hazard"].remedy


def test_what_goes_wrong_in_the_simulator_is_found() -> None:
    program = relay()
    wrong = 0
    everything = itertools.chain(*mutants([program]).values())
    for mutant in itertools.islice(everything, 0, None, 3):
        chunks = mutant.apply([program])
        if {outcome(chunks, seed) for seed in range(2)} == {True}:
            continue
        wrong += 1
        severities = {finding.severity for finding in verify(record(chunks))}
        assert severities - {Severity.NOTE}, mutant
    assert wrong >= 8


def test_all_rules_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verifier.md").read_text()
    for rule in RULES.values():
        assert f"| `{rule.id}` | {rule.severity} | {rule.summary} |" in page
    assert len(set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))) == len(RULES)
