"""Unknown values: their marks, their way through the chip, and where they are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hw_models.instruction_fields import narrow, wide
from tests.hw_models.test_edgetpu_engines import (
    DONE,
    RESET,
    Memory,
    constant,
    descriptor,
    execute,
    prepared,
    program,
    to_host,
)

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.scalar import ScalarCore, UnknownValueError
from fitzroy.hw_models.edgetpu.unknown import (
    KNOWN,
    MOST_ORIGINS,
    Doubtful,
    Origins,
    by_byte,
    by_word,
    known_bytes,
    origins,
    unknown,
    whole,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import TileEngine
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import chunk
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    Branch,
    DescriptorTag,
    Halt,
    Load,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.traversal import traversal

WAIT = TileFence(tiles=1, idle=0x3FF)

# --- marks ------------------------------------------------------------------------------------

MARKS = st.one_of(
    st.just(KNOWN),
    st.builds(
        lambda origin, known: int(unknown(origin, known)),
        st.integers(0, MOST_ORIGINS - 1),
        st.integers(0, 14),
    ),
)


@given(st.lists(MARKS, min_size=1, max_size=8))
def test_marks_of_bytes_are_those_of_words(values: list[int]) -> None:
    marks = np.array(values, np.int16)
    parts = by_byte(marks)
    bits = known_bytes(marks)[:, None] >> np.arange(4) & 1
    assert ((parts == KNOWN) == bits.astype(bool)).all()
    assert by_word(parts.reshape(-1)).tolist() == values
    assert ((whole(marks) == KNOWN) == (marks == KNOWN)).all()
    assert known_bytes(whole(marks))[marks != KNOWN].sum() == 0


def test_an_instruction_has_one_origin_and_the_last_stands_for_the_rest() -> None:
    found = Origins()
    for number in range(MOST_ORIGINS + 3):
        found.reader = f"reader {number}"
        first = found.number(lambda: "here")
        assert first == found.number(lambda: "there") == min(number, MOST_ORIGINS - 1)
    assert str(found.of(int(unknown(5, 3)))) == (
        "here, which reader 5 reads and nothing has written"
    )
    assert int(origins(unknown(MOST_ORIGINS - 1))) == MOST_ORIGINS - 1


# --- on their way -----------------------------------------------------------------------------


def transposed(missing: int) -> Machine:
    """Four words as 4 x 4 bytes in wide row 100 of tile 0; one has never been written."""
    machine = prepared()
    machine.memory.narrow_known[0, missing] = 0
    body = [
        NarrowToWide(
            tiles=1,
            narrow=narrow(0, (4, 1)),
            wide=wide(100),
            pack_level=1,
            transpose=Transpose.BYTES,
        ),
        WAIT,
        WideToNarrow(tiles=1, wide=wide(100), narrow=narrow(9000, (4, 1)), pack_level=1),
    ]
    execute(body, machine)
    return machine


@pytest.mark.parametrize("missing", range(4))
def test_a_transposed_word_is_one_byte_of_each(missing: int) -> None:
    memory = transposed(missing).memory
    for marks in (memory.wide_known[0, 100, :4], memory.narrow_known[0, 9000:9004]):
        assert known_bytes(marks).tolist() == [0b1111 & ~(1 << missing)] * 4
    origin = str(memory.origins.of(memory.narrow_known[0, 9000]))
    assert f"narrow word {missing} of tile 0" in origin
    assert "narrow_to_wide #" in origin


def test_an_error_says_where_the_unknown_came_from() -> None:
    machine = prepared()
    machine.memory.narrow_known[0, 20:23] = 0
    body = [
        NarrowToWide(tiles=1, narrow=narrow(0, (64, 1)), wide=wide(100), pack_level=1),
        TileFence(tiles=1, idle=1 << TileEngine.NARROW_TO_WIDE),
    ]
    with pytest.raises(SimulationError) as caught:
        execute([*body, *to_host(0, 100)], machine)
    assert "12 bytes of output depend" in caught.value.what
    assert "narrow word 20 of tile 0, which narrow_to_wide #" in caught.value.reason
    assert "outfeed" in caught.value.where


def test_doubts_are_collected_where_they_are_wanted() -> None:
    machine = prepared()
    machine.memory.wide_known[0, 5, 7:] = 0
    machine.doubts = []
    host = execute(to_host(0, 5), machine)
    assert host.sent[0] == machine.memory.wide[0, 5].tobytes()
    assert [doubt.count for doubt in machine.doubts] == [4 * 57]
    assert "lane 7 of wide row 5 of tile 0" in str(machine.doubts[0].origin)


def relayed(lane: int, *then: Instruction) -> tuple[Machine, list[Any]]:
    """A lane by way of scalar memory into register 7, and what follows."""
    machine = prepared()
    machine.memory.wide_known[0, 5, 1] = 0
    body = [
        Outfeed(buffer=traversal(0, [(2, 1)], rank=3), row_words=2),
        RingProduce(tiles=1, wide=wide(5), to_outfeed=True),
        *DONE,
        Scalar(load=Load.ABSOLUTE, load_to=7, load_address=lane),
        *[Scalar()] * 2,
        *then,
    ]
    return machine, [*RESET, *body, *DONE]


PUSH = [
    *descriptor(DescriptorTag.OUTPUT, 0, 8),
    Scalar(store=Store.PUSH, store_from=7),
    Scalar(store=Store.PUSH, store_from=7),
]


def test_unknown_words_pass_the_scalar_core_and_are_refused_behind_it() -> None:
    machine, body = relayed(0, *PUSH)
    host = Memory()
    machine.run([program(body)], host)
    assert host.sent == {0: machine.memory.wide[0, 5, :1].tobytes() * 2}
    machine, body = relayed(1, *PUSH)
    with pytest.raises(SimulationError) as caught:
        machine.run([program(body)], Memory())
    assert "lane 1 of wide row 5 of tile 0, which ring_produce #" in caught.value.reason


@pytest.mark.parametrize(
    "then",
    [
        [Scalar(alu=Alu.EQ, immediate_b=True, a=7, to=1), Branch(offset=1, conditional=True,
                                                               condition=1)],
        [*descriptor(DescriptorTag.INPUT, 0, 8)[:4], *[Scalar(store=Store.INCREMENT,
                                                             store_from=7, store_address=7)]],
    ],
)  # fmt: skip
def test_unknown_words_must_not_steer_the_scalar_core(then: list[Any]) -> None:
    machine, body = relayed(0, *then)
    machine, body = relayed(1, *then)
    with pytest.raises(UnknownValueError, match="is unknown, and the program's course"):
        machine.run([program(body)], Memory())


def test_arithmetic_keeps_doubt_and_value() -> None:
    core = ScalarCore()
    mark = int(unknown(3, 0b0001))
    core.write(0, [Doubtful(40, mark)])
    body = [
        Scalar(load=Load.ABSOLUTE, load_to=1, load_address=0),
        constant(2, 2),
        Scalar(alu=Alu.ADD, a=2, immediate=1, to=3),
        Scalar(alu=Alu.MOV, immediate=1, to=4),
        Scalar(store=Store.ABSOLUTE, store_from=3, store_address=1),
        Scalar(store=Store.ABSOLUTE, store_from=4, store_address=2),
        Halt(end_program=True),
    ]
    list(core.run([chunk(body)]))
    total, moved = core.read(1, 2)
    assert isinstance(total, Doubtful)
    assert isinstance(moved, Doubtful)
    assert (int(total), total.mark) == (42, int(unknown(3)))
    assert (int(moved), moved.mark) == (40, mark)
    assert core.registers[1:4] == (None, 2, None)
