"""Instruction declarations: bits, text, traversals, against the corpus and its vectors."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import corpus

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.isa.catalog import BY_OPCODE, INSTRUCTIONS, opcodes
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import TILES, Opcode, Watcher
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble, chunk, disassemble, renumbered
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import Alu, Branch, Halt, Loop, Scalar
from fitzroy.hw_models.isa.text import ChunkParser, field_place, listing, uncommented
from fitzroy.hw_models.isa.traversal import (
    BYTES,
    NARROW,
    WIDE,
    Dim,
    Prefix,
    Traversal,
    TraversalCodec,
    traversal,
)


def vectors(name: str) -> Any:
    path = corpus().parent / "beagle" / "vectors" / name
    if not path.is_file():
        pytest.skip(f"no vectors at {path}")
    return json.loads(path.read_text())


def reparsed(instructions: list[Instruction], symbols: dict[int, str] | None = None) -> Any:
    parser = ChunkParser()
    for number, line in enumerate(listing(instructions, symbols=symbols), start=1):
        text = uncommented(line)
        if text:
            parser.line(number, text)
    return parser.finish()


def random_instruction(rng: random.Random, cls: type[Instruction]) -> Instruction | None:
    """Random bits in all fields, mostly few of them set; None if they mean nothing."""
    raw = 0
    for field in cls.fields():
        bits = rng.getrandbits(field.width)
        if rng.random() < 0.5:
            bits &= rng.getrandbits(field.width) & rng.getrandbits(field.width)
        raw |= (0 if rng.random() < 0.3 else bits) << field.first
    opcode = rng.choice(opcodes(cls))
    raw = raw & cls.declared().owned & ~(0x3F << 6) | opcode << 6
    try:
        return cls.unpack(raw)
    except FormatError:
        return None


@pytest.mark.long
@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.__name__)
def test_random_instructions_survive_bits_and_text(cls: type[Instruction]) -> None:
    rng = random.Random(cls.__name__)
    made = [random_instruction(rng, cls) for _ in range(300)]
    instructions = [instruction for instruction in made if instruction is not None]
    assert len(instructions) > 20
    data = assemble(instructions)
    assert disassemble(data) == instructions
    assert assemble(disassemble(data)) == data
    body = chunk(instructions)
    again = reparsed(body).instructions
    assert again == body
    assert assemble(again) == assemble(body)


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.__name__)
def test_every_bit_without_a_field_is_refused(cls: type[Instruction]) -> None:
    base = cls(op=opcodes(cls)[0]).pack()
    for bit in range(cls.width):
        if not cls.declared().owned >> bit & 1:
            with pytest.raises(FormatError, match=rf"reserved bits are set: {bit}$"):
                cls.unpack(base | 1 << bit)


def test_the_whole_opcode_space_is_decided() -> None:
    for opcode in range(64):
        data = (opcode << 6).to_bytes(17 * 16, "little")
        if opcode in BY_OPCODE:
            assert Opcode(opcode) in opcodes(BY_OPCODE[opcode])
        else:
            with pytest.raises(FormatError, match="does not exist"):
                disassemble(data)


def test_fields_agree_with_the_published_tables() -> None:
    path = corpus().parent / "beagle" / "isa_fields.json"
    if not path.is_file():
        pytest.skip(f"no field tables at {path}")
    tables = json.loads(path.read_text())["opcodes"]
    for number, table in tables.items():
        cls = BY_OPCODE[int(number, 16)]
        assert cls.bundles() == table["bundles"]
        owned = 0
        for _, first, width, _ in table["fields"]:
            owned |= (1 << width) - 1 << first
        assert cls.declared().owned == owned, table["name"]
    assert {int(number, 16) for number in tables} == set(BY_OPCODE)


def test_published_encodings_mean_what_they_should() -> None:
    tables = json.loads((corpus().parent / "beagle" / "isa_fields.json").read_text())["opcodes"]
    instances = vectors("encodings.json")["instances"]
    for instance in instances:
        data = b"".join(bytes.fromhex(bundle) for bundle in instance["bundles"])
        (instruction,) = disassemble(data)
        assert assemble([instruction]) == data
        raw = int.from_bytes(data, "little")
        for name, first, width, kind in tables[instance["opcode"]]["fields"]:
            value = raw >> first & (1 << width) - 1
            if kind == "s" and value >> width - 1:
                value -= 1 << width
            if kind != "f" and name != "opcode":
                assert value == instance["fields"].get(name, 0), name
        for ours, theirs in (("seq", "seq"), ("tiles", "tile_mask"), ("lanes", "lanes")):
            if theirs in instance["fields"]:
                offset = 1 if ours == "lanes" else 0
                assert getattr(instruction, ours) == instance["fields"][theirs] + offset
    print(f"\n{len(instances)} published instructions")
    assert len(instances) > 100


# --- traversals ----------------------------------------------------------------------------------


def published_traversal(case: dict[str, Any]) -> Traversal:
    dims, span = [], 0
    for delta, limit in zip(case["delta"], case["limit"], strict=True):
        stride = delta + span
        span += limit * stride
        dims.append(Dim(limit + 1, stride))
    part = (case["part_limit"] + 1, case["part_dim"], case["part_skip"])
    return Traversal(case["base"], tuple(dims), 0, case["fifo_dim"], case["fifo_inc"], *part)


def test_published_address_sequences() -> None:
    cases = vectors("ttu.json")
    for case in cases["sequences"]:
        found = published_traversal(case).addresses(partial_dim=case["short_dim"])
        assert found.tolist() == case["addresses"]
    for case in cases["prefixed"]:
        prefix = Prefix(
            case["pre_level"],
            case["pre_base"],
            case["pre_limit"] + 1,
            case["pre_end"],
            case["pre_inc"],
        )
        found, main = published_traversal(case).prefixed(prefix)
        assert found.tolist() == case["addresses"]
        assert "".join("01"[bool(flag)] for flag in main) == case["is_main"]
    print(f"\n{len(cases['sequences'])} plain, {len(cases['prefixed'])} prefixed sequences")


def stepped(value: Traversal) -> list[int]:
    """Addresses the way the hardware makes them: incremental deltas, one step at a time."""
    deltas, span = [], 0
    for dim in value.dims:
        deltas.append(dim.stride - span)
        span += (dim.count - 1) * dim.stride
    counters = [0] * len(value.dims)
    address, pops, found = value.base, 0, []
    while True:
        found.append(address + value.fifo_step * (pops & 1))
        for k, dim in enumerate(value.dims):
            last = dim.count
            if (
                k == 0
                and value.part_dim
                and counters[value.part_dim] == value.dims[value.part_dim].count - 1
            ):
                last = value.part_count
            if counters[k] + 1 < last:
                counters[k] += 1
                address += deltas[k]
                pops += k >= value.fifo_dim
                break
            if k == 0 and last != dim.count:
                address += value.part_skip
            counters[k] = 0
        else:
            return found


dims = st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), min_size=1, max_size=4)


@given(st.integers(0, 500), dims, st.integers(0, 3), st.integers(-20, 20), st.data())
@settings(max_examples=200, deadline=None)
def test_addresses_are_those_of_the_stepping_hardware(
    base: int, loops: list[tuple[int, int]], fifo_dim: int, fifo_step: int, data: Any
) -> None:
    part = None
    if len(loops) > 1 and data.draw(st.booleans()):
        part_dim = data.draw(st.integers(1, len(loops) - 1))
        part = (data.draw(st.integers(1, loops[0][0])), part_dim)
        fifo_dim = max(fifo_dim, 1)
    value = traversal(base, loops, rank=4, ping_pong=(fifo_dim, fifo_step), part=part)
    assert value.addresses().tolist() == stepped(value)
    assert value.steps == len(stepped(value))


@pytest.mark.parametrize("codec", [WIDE, NARROW, BYTES], ids=["W4", "N6", "A8"])
def test_traversal_text(codec: TraversalCodec) -> None:
    value = traversal(
        0x730, [(1408, 1), (3, 0)], rank=codec.rank, ping_pong=(1, 1408), part=(1056, 1)
    )
    assert codec.text(value) == "0x730 [1408*1 3*0] ping(1, 1408) part(1, 1056)"
    assert codec.decode(codec.encode(value)) == value
    assert codec.parse(codec.text(value)) == value


def test_a_traversal_that_is_too_long_is_refused() -> None:
    value = traversal(0, [(60000, 1)] * 4, rank=4)
    with pytest.raises(FormatError, match="steps"):
        value.addresses()


# --- text ----------------------------------------------------------------------------------------


@given(st.integers(0, 0xFFFF))
def test_tile_sets(mask: int) -> None:
    assert TILES.parse(TILES.text(mask)) == mask


def test_tile_sets_are_rectangles() -> None:
    assert TILES.text(0xFFFF) == "all"
    assert TILES.text(0x0505) == "r02c02"
    assert TILES.text(0x0001) == "r0c0"
    assert TILES.text(0x0017) == "r0c012+r1c0"


def test_a_program_reads_like_one() -> None:
    program = chunk(
        [
            TileFence(tiles=0xFFFF, set=0x7FFFF, idle=0x3FF, signal=True),
            Scalar(alu=Alu.MOV, immediate_b=True, to=1),
            RingProduce(
                tiles=1,
                seq=1,
                destination=0xFFFF,
                channel=1,
                wide=traversal(0, [(74, 1)], rank=4),
                wait=(Watcher(18, 1, 0), None),
            ),
            Loop(count=3, length=1),
            Scalar(alu=Alu.ADD, immediate_b=True, immediate=4, to=2, a=2),
            Branch(offset=-1, conditional=True, condition=2, condition_sense=True),
            Halt(end_program=True),
        ]
    )
    symbols = {2 * 128 + field_place(Scalar, "immediate")[0]: "low(parameters)"}
    assert list(listing(program, symbols=symbols)) == [
        "    tile_fence tiles=all set=all idle=all signal",
        "    mov s1, low(parameters)",
        "    ring_produce tiles=r0c0 channel=1 destination=all",
        "        wide: 0 [74*1]                                      ; 74 rows, 18944 B",
        "        wait: ring_producer_b>=0@1",
        "    loop target=L1 count=3",
        "L0:",
        "    add s2, s2, 4",
        "L1:",
        "    branch target=L0 conditional condition=p2 condition_sense",
        "    halt end_program",
    ]
    again = reparsed(program, symbols)
    assert again.instructions == program
    assert again.symbols == symbols


def test_an_inserted_instruction_moves_the_rest() -> None:
    parser = ChunkParser()
    lines = ["loop count=2 target=L", "nop", "nop", "L:", "tile_fence", "tile_fence", "halt"]
    for number, line in enumerate(lines, start=1):
        parser.line(number, line)
    instructions = parser.finish().instructions
    assert instructions[1] == Loop(count=2, length=2)
    assert [i.seq for i in instructions if isinstance(i, TileFence)] == [0, 1]


def test_symbols_can_stand_in_any_field() -> None:
    program = chunk([RingProduce(seq=0, wide=traversal(0, [(2, 1)], rank=4))])
    symbols = {128 + 62: 'row("weights")', 128 + 470: "low(scratch)+4"}
    lines = list(listing(program, symbols=symbols, comments=False))
    assert '        symbol: wide.base row("weights")' in lines
    assert reparsed(program, symbols).symbols == symbols


def parsed(number: int, line: str) -> list[Instruction]:
    parser = ChunkParser("m.s")
    parser.line(number, line)
    return parser.finish().instructions


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("fly s1", "no instruction"),
        ("mov s32, 1", "s0 to s31"),
        ("mov s1, 0x1ffffffff", "does not fit"),
        ("mov s1, 1 | mov s2, 2", "two slots"),
        ("load s1, [q]", "memory operand"),
        ("tile_fence seq=70000", "16 bits"),
        ("tile_fence seq=1 seq=1", "twice"),
        ("tile_fence colour=1", "no field"),
        ("tile_fence set=avdata+nothing", "names no bit"),
        ("tile_fence tiles=r4c0", "set of tiles"),
        ("branch target=L9", "no label"),
        ("tile_fence target=L9", "no label"),
        ("infeed memory=moon", "not a InfeedMemory"),
        ("infeed row_words=65", "count of 1 to 64"),
        ("nop:x", "no instruction"),
    ],
)
def test_mistakes_name_the_line(line: str, what: str) -> None:
    with pytest.raises(FormatError, match=what) as caught:
        parsed(7, line)
    assert str(caught.value).startswith("m.s, line 7")


def test_renumbering() -> None:
    program = [TileFence(seq=9), Halt(), RingProduce(seq=1)]
    assert [getattr(i, "seq", None) for i in renumbered(program, 0xFFFF)] == [0xFFFF, None, 0]


def test_truncated_bitstreams_are_refused() -> None:
    data = assemble([RingProduce(), Halt()])
    assert disassemble(data)
    for size in range(1, 16 * 4):
        with pytest.raises(FormatError):
            disassemble(data[:size])


def test_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"p\.bin"):
        disassemble(b"123", path=str(tmp_path / "p.bin"))
