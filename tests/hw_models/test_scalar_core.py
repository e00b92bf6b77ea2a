from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import SimulationError
from fitzroy.formats import custom_op, tflite
from fitzroy.hw_models.edgetpu.scalar import (
    MEMORY_WORDS,
    ChunkEnd,
    ChunkStart,
    Descriptor,
    Dispatch,
    Event,
    Fence,
    HostWords,
    ScalarCore,
    Stream,
    UnknownValueError,
)
from fitzroy.hw_models.edgetpu.unknown import KNOWN, Several, word_of
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import chunk, disassemble
from fitzroy.hw_models.isa.scalar import (
    Alu,
    Branch,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.traversal import traversal

MASK = 0xFFFFFFFF


def mov(to: int, value: int) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=to, immediate=value & MASK)


def alu(op: Alu, to: int, a: int, b: int) -> Scalar:
    return Scalar(alu=op, to=to, a=a, immediate=b)


def with_constant(op: Alu, to: int, a: int, b: int) -> Scalar:
    return Scalar(alu=op, immediate_b=True, to=to, a=a, immediate=b & MASK)


def push(register: int) -> Scalar:
    return Scalar(store=Store.PUSH, store_from=register)


def descriptor(address: int, size: int, tag: int) -> list[Scalar]:
    words = {
        DescriptorSlot.ADDRESS_LOW: address & MASK,
        DescriptorSlot.ADDRESS_HIGH: address >> 32,
        DescriptorSlot.SIZE: size,
        DescriptorSlot.TAG: tag,
    }
    bundles = []
    for slot, word in words.items():
        bundles.append(mov(9, word))
        bundles.append(Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=9))
    return [*bundles, Scalar(store=Store.ISSUE)]


def program(*body: Instruction, end: bool = True) -> list[Instruction]:
    return chunk([*body, Halt(end_program=end)])


def run(*chunks: Sequence[Instruction], core: ScalarCore | None = None) -> list[Event]:
    return list((core or ScalarCore()).run(chunks))


def pushed(*body: Instruction, core: ScalarCore | None = None) -> list[int | None]:
    return [
        word
        for event in run(program(*body), core=core)
        if isinstance(event, HostWords)
        for word in event.words
    ]


def fails(match: str, *body: Instruction, budget: int = 1000) -> SimulationError:
    with pytest.raises(SimulationError, match=match) as caught:
        run(program(*body), core=ScalarCore(budget=budget))
    return caught.value


INTEGERS = [0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFB, MASK]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Alu.ADD, lambda a, b: (a + b) % 2**32),
        (Alu.SUB, lambda a, b: (a - b) % 2**32),
        (Alu.AND, lambda a, b: a & b),
        (Alu.OR, lambda a, b: a | b),
        (Alu.XOR, lambda a, b: a ^ b),
        (Alu.MOV, lambda a, b: b),
        (Alu.EQ, lambda a, b: a == b),
        (Alu.NE, lambda a, b: a != b),
        (Alu.GT, lambda a, b: np.int32(np.uint32(a)) > np.int32(np.uint32(b))),
        (Alu.LT, lambda a, b: np.int32(np.uint32(a)) < np.int32(np.uint32(b))),
        (Alu.GE, lambda a, b: np.int32(np.uint32(a)) >= np.int32(np.uint32(b))),
        (Alu.GEU, lambda a, b: a >= b),
    ],
)
def test_integers(op: Alu, expected: Any) -> None:
    for a in INTEGERS:
        for b in INTEGERS:
            for bundle in (alu(op, 3, 1, 2), with_constant(op, 3, 1, b)):
                core = ScalarCore()
                run(program(mov(1, a), mov(2, b), bundle), core=core)
                result = core.predicates[3] if core.registers[3] is None else core.registers[3]
                assert result == expected(a, b), (op, a, b)


@pytest.mark.parametrize("amount", [0, 1, 31])
def test_shifts(amount: int) -> None:
    value = 0x80000009
    bundles = [
        mov(1, value),
        with_constant(Alu.SHL, 2, 1, amount), push(2),
        with_constant(Alu.SHR, 2, 1, amount), push(2),
        with_constant(Alu.ASR, 2, 1, amount), push(2),
    ]  # fmt: skip
    assert pushed(*bundles) == [
        value << amount & MASK, value >> amount, (value - 2**32 >> amount) & MASK,
    ]  # fmt: skip


@pytest.mark.parametrize("op", [Alu.SHL, Alu.SHR, Alu.ASR])
def test_what_a_shift_too_far_gives_is_unknown(op: Alu) -> None:
    assert pushed(mov(1, 1), with_constant(op, 2, 1, 32), push(2)) == [None]


def bits_of(value: Any) -> int:
    return int(np.float32(value).view(np.uint32))


FLOATS = [0.0, -0.0, 1.0, -2.5, 1e-40, 3.4e38, 0.1, float("inf"), float("-inf")]


@pytest.mark.parametrize(
    ("op", "expected"),
    [(Alu.FADD, np.add), (Alu.FSUB, np.subtract), (Alu.FMUL, np.multiply)],
)
def test_floats(op: Alu, expected: np.ufunc) -> None:
    for a in FLOATS:
        for b in FLOATS:
            (word,) = pushed(mov(1, bits_of(a)), mov(2, bits_of(b)), alu(op, 3, 1, 2), push(3))
            assert word is not None
            with np.errstate(all="ignore"):
                want = expected(np.float32(a), np.float32(b))
            got = np.uint32(word).view(np.float32)
            assert np.isnan(want) if np.isnan(got) else bits_of(got) == bits_of(want), (a, b)


def test_float_extremes() -> None:
    for a, b in [(1.0, -2.0), (-2.0, 1.0), (3.0, float("nan")), (float("nan"), 3.0)]:
        body = (mov(1, bits_of(a)), mov(2, bits_of(b)))
        top, bottom = pushed(
            *body, alu(Alu.FMAX, 3, 1, 2), push(3), alu(Alu.FMIN, 3, 1, 2), push(3)
        )
        assert top == bits_of(np.fmax(np.float32(a), np.float32(b)))
        assert bottom == bits_of(np.fmin(np.float32(a), np.float32(b)))


@pytest.mark.parametrize(
    ("value", "integer"),
    [(0.5, 0), (1.5, 2), (2.5, 2), (-1.5, -2), (-0.4, 0), (7e9, 2**31 - 1), (-7e9, -(2**31)),
     (2.0**31, 2**31 - 1), (float("nan"), 0), (16777217.0, 16777216)],
)  # fmt: skip
def test_float_to_integer(value: float, integer: int) -> None:
    body = mov(1, bits_of(value)), alu(Alu.F2I, 2, 0, 1), push(2)
    assert pushed(*body) == [integer & MASK]


def test_integer_to_float() -> None:
    for value in (0, 1, -1, 16777217, -(2**31), 2**31 - 1):
        body = mov(1, value), alu(Alu.I2F, 2, 0, 1), push(2)
        assert pushed(*body) == [bits_of(np.float32(value))]


@pytest.mark.parametrize(
    ("special", "value", "expected"),
    [
        (Special.EXP2, 3.0, 8.0),
        (Special.EXP2, -1.5, 2.0**-1.5),
        (Special.EXP2, 5000.0, float("inf")),
        (Special.EXP2, -5000.0, 0.0),
        (Special.RECIPROCAL, 3.0, 1 / 3),
        (Special.RECIPROCAL, -0.0, float("-inf")),
    ],
)
def test_special_functions(special: Special, value: float, expected: float) -> None:
    body = mov(1, bits_of(value)), Scalar(special=special, special_to=2, special_from=1), push(2)
    assert pushed(*body) == [bits_of(expected)]


def test_slots_read_before_any_writes() -> None:
    core = ScalarCore()
    core.write(10, [111, 222])
    both = Scalar(
        load=Load.INCREMENT, load_to=7, load_address=6 | 1 << 5, store=Store.PUSH, store_from=7,
        alu=Alu.ADD, immediate_b=True, to=5, a=7, immediate=1,
    )  # fmt: skip
    body = mov(6, 10), mov(7, 5), both, both, push(7), push(6), push(5)
    assert pushed(*body, core=core) == [5, 111, 222, 12, 112]


def test_memory() -> None:
    core = ScalarCore()
    body = (
        mov(1, 77), mov(2, 100),
        Scalar(store=Store.ABSOLUTE, store_address=4095, store_from=1),
        Scalar(store=Store.REGISTER, store_address=2, store_from=1),
        Scalar(store=Store.INCREMENT, store_address=2 | 3 << 5, store_from=2),
        push(2),
        Scalar(load=Load.ABSOLUTE, load_address=4095, load_to=3), push(3),
        mov(2, 100),
        Scalar(load=Load.REGISTER, load_address=2, load_to=3), push(3),
    )  # fmt: skip
    assert pushed(*body, core=core) == [103, 77, 100]
    assert core.read(99, 3) == (None, 100, None)


def test_predication() -> None:
    body = (
        mov(1, 5),
        with_constant(Alu.EQ, 2, 1, 5),
        replace(push(1), predicated=True, predicate=2, sense=True),
        replace(mov(1, 9), predicated=True, predicate=2, sense=False),
        # A bundle that is not executed reads nothing.
        replace(push(30), predicated=True, predicate=2, sense=False),
        push(1),
    )
    assert pushed(*body) == [5, 5]


def test_loop_and_branch() -> None:
    body = (
        mov(1, 0),
        Loop(count=4, length=2), with_constant(Alu.ADD, 1, 1, 1), push(1),
        with_constant(Alu.LT, 0, 1, 10),
        Branch(conditional=True, condition=0, condition_sense=True, offset=2),
        Branch(offset=3),
        with_constant(Alu.ADD, 1, 1, 3),
        Branch(offset=-4),
        push(1),
    )  # fmt: skip
    core = ScalarCore()
    assert pushed(*body, core=core) == [1, 2, 3, 4, 10]
    # START, MOV, LOOP, 8 bundles, two rounds of 4 and one of 3, PUSH, HALT.
    assert core.steps == 3 + 8 + 4 + 4 + 3 + 2


def test_events_in_order() -> None:
    fence = ScalarFence(wait_tiles=True, tiles=0xFFFF)
    tile = TileFence(tiles=0x0F, signal=True)
    body = [mov(1, 1), push(1), push(1), tile, push(1), *descriptor(5 << 32 | 8, 64, 3), fence]
    events = run(program(*body, end=False), program())
    assert events == [
        ChunkStart(0),
        HostWords((1, 1)),
        Dispatch(0, 4, tile, 0x0F),
        HostWords((1,)),
        Descriptor(0, 14, 5 << 32 | 8, 64, DescriptorTag.OUTPUT),
        Fence(0, 15, fence),
        ChunkEnd(0, 17, False),
        ChunkStart(1),
        ChunkEnd(1, 1, True),
    ]


def test_state_persists() -> None:
    core = ScalarCore()
    first = program(mov(1, 3), with_constant(Alu.EQ, 1, 1, 3), *descriptor(64, 8, 1), end=False)
    # Slots of the descriptor keep their values, too.
    issue = Scalar(predicated=True, predicate=1, sense=True, store=Store.ISSUE)
    events = run(first, program(push(1), issue), core=core)
    assert HostWords((3,)) in events
    assert [event.address for event in events if isinstance(event, Descriptor)] == [64, 64]


def test_tiles_and_base_from_registers() -> None:
    item = NarrowToWide(
        tiles_register=4, tiles_from_register=True, base_register=5, base_from_register=True,
        narrow=traversal(0, [(1, 0)], rank=6), wide=traversal(0, [(1, 0)], rank=4),
    )  # fmt: skip
    events = run(program(mov(4, 0xABC00FF), mov(5, 17), item))
    assert Dispatch(0, 3, item, 0x00FF, 17) in events
    unknown = Scalar(load=Load.ABSOLUTE, load_address=0, load_to=5)
    events = run(program(mov(4, 1), unknown, item))
    assert Dispatch(0, 3, item, 1, None, base_unknown=True) in events
    fails("register s4 is read, but nothing has written it", mov(5, 0), item)


def outfeed(base: int, words: int) -> Outfeed:
    return Outfeed(buffer=traversal(base, [(words, 1)], rank=3))


def test_outfeed_brings_unknown_words() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_address=11, load_to=1)
    store = Scalar(store=Store.ABSOLUTE, store_address=11, store_from=2)
    feed = outfeed(10, 4)
    body = mov(2, 8), store, feed, load, with_constant(Alu.ADD, 1, 1, 1), push(1)
    assert pushed(*body) == [None]

    core = ScalarCore()
    words: list[int | None] = []
    for event in core.run([program(*body)]):
        if isinstance(event, Stream):
            assert event.instruction is feed
            core.write(10, [1, 20, 3, 4])
        elif isinstance(event, HostWords):
            words.extend(event.words)
    assert words == [21]


def of_images(*body: Instruction, words: Sequence[int]) -> list[int | None]:
    """What is pushed if word 10 has a value for each of several images."""
    core = ScalarCore()
    found: list[int | None] = []
    for event in core.run([program(outfeed(10, 1), *body)]):
        if isinstance(event, Stream):
            core.write(10, [word_of(words, KNOWN)])
        elif isinstance(event, HostWords):
            found.extend(event.words)
    return found


def test_words_of_images_stay_apart() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_address=10, load_to=1)
    (found,) = of_images(
        load, with_constant(Alu.ADD, 1, 1, 5), alu(Alu.ADD, 1, 1, 1), push(1), words=(0, 3)
    )
    assert isinstance(found, Several)
    assert (found.words, found.mark) == ((10, 16), KNOWN)
    # What is the same for all images is a plain word again.
    (found,) = of_images(load, with_constant(Alu.AND, 1, 1, 8), push(1), words=(8, 9))
    assert (type(found), found) == (int, 8)


def test_images_look_up_words_of_their_own() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_address=10, load_to=1)
    table = [
        item
        for word in (11, 12)
        for item in (
            mov(2, 7 * word),
            Scalar(store=Store.ABSOLUTE, store_address=word, store_from=2),
        )
    ]
    look_up = Scalar(load=Load.REGISTER, load_address=1, load_to=2)
    (found,) = of_images(*table, load, look_up, push(2), words=(12, 11))
    assert isinstance(found, Several)
    assert found.words == (84, 77)


def test_images_that_decide_otherwise_part() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_address=10, load_to=1)
    skip = Branch(conditional=True, condition=0, condition_sense=True, offset=1)
    compare = with_constant(Alu.EQ, 0, 1, 4)
    assert of_images(load, compare, skip, mov(3, 1), push(3), words=(4, 4)) != []
    with pytest.raises(SimulationError, match="a decision of their own"):
        of_images(load, compare, skip, words=(4, 5))
    with pytest.raises(SimulationError, match="address of a word in memory of their own"):
        of_images(load, Scalar(store=Store.REGISTER, store_address=1, store_from=1), words=(1, 2))


def test_words_from_unknown_addresses_are_unknown() -> None:
    unknown = Scalar(load=Load.ABSOLUTE, load_address=3, load_to=1)
    look_up = Scalar(load=Load.REGISTER, load_address=1, load_to=2)
    assert pushed(unknown, mov(2, 8), look_up, push(2)) == [None]


def test_course_that_depends_on_unknown_words() -> None:
    unknown = Scalar(load=Load.ABSOLUTE, load_address=3, load_to=1)
    branch = Branch(conditional=True, condition=0, condition_sense=True, offset=1)
    compare = with_constant(Alu.EQ, 0, 1, 0)
    for body in (
        [unknown, compare, branch],
        [unknown, compare, Scalar(predicated=True, store=Store.ISSUE)],
        [unknown, Scalar(store=Store.REGISTER, store_address=1, store_from=1)],
        [*descriptor(0, 8, 1), unknown, Scalar(store=Store.DESCRIPTOR, store_from=1),
         Scalar(store=Store.ISSUE)],
    ):  # fmt: skip
        with pytest.raises(UnknownValueError, match="is unknown"):
            run(program(*body))


@pytest.mark.parametrize(
    ("match", "body"),
    [
        ("register s3 is read, but nothing has written it", [push(3)]),
        ("predicate p1 is read", [Scalar(predicated=True, predicate=1)]),
        ("whose SIZE was never written", [*descriptor(0, 0, 1)[:4], Scalar(store=Store.ISSUE)]),
        ("tag 9", descriptor(0, 0, 9)),
        ("a descriptor has no word 4", [mov(1, 1), Scalar(store=Store.DESCRIPTOR,
                                                          store_address=4, store_from=1)]),
        ("word 0x1000 of scalar memory", [mov(1, 4096), Scalar(load=Load.REGISTER,
                                                               load_address=1, load_to=2)]),
        ("word 4097 of scalar memory", [outfeed(4090, 8)]),
        ("no register s32", [alu(Alu.MOV, 1, 0, 32)]),
        ("no predicate p8", [mov(1, 1), with_constant(Alu.EQ, 8, 1, 1)]),
        ("two slots of a bundle write register s6",
         [mov(6, 0), Scalar(load=Load.INCREMENT, load_to=6, load_address=6 | 1 << 5)]),
        ("a branch to bundle -3", [Branch(offset=-4)]),
        ("a branch to bundle 3, where", [ScalarFence(), Branch(offset=-1)]),
        ("a loop inside a loop", [Loop(count=1, length=2), Loop(count=1, length=1), Scalar()]),
        ("a loop over TileFence", [Loop(count=1, length=1), TileFence()]),
        ("a loop over 9 bundles", [Loop(count=1, length=9)]),
        ("runs 0 times", [Loop(count=0, length=1), Scalar()]),
        ("does not end within 1000 steps", [Branch(offset=0)]),
        ("does not end within 1000 steps", [Loop(count=2000, length=1), Scalar()]),
        ("END without HALT", [Branch(offset=2)]),
    ],
)  # fmt: skip
def test_faults(match: str, body: list[Instruction]) -> None:
    if match.startswith("a branch to bundle 3"):
        body = [Scalar(), *body]
    error = fails(match, *body)
    assert error.where.startswith("chunk 0, bundle ")


def test_place_of_a_fault() -> None:
    error = fails("s3", mov(1, 0), ScalarFence(), Loop(count=2, length=2), Scalar(), push(3))
    assert error.where == "chunk 0, bundle 6"


def test_end_of_the_program() -> None:
    with pytest.raises(SimulationError, match="does not end"):
        run(program(end=False))
    with pytest.raises(SimulationError, match="there is a chunk 1"):
        run(program(), program())
    with pytest.raises(SimulationError, match="past the end"):
        run([mov(1, 1)])
    with pytest.raises(SimulationError, match="does not end"):
        run()
    with pytest.raises(SimulationError, match="words 4000 to 4099"):
        ScalarCore().write(4000, [0] * 100)


# --- vectors of the manual -----------------------------------------------------------------------


def vectors() -> Any:
    path = corpus().parent / "beagle" / "vectors" / "scalar.json"
    if not path.is_file():
        pytest.skip(f"no vectors at {path}")
    return json.loads(path.read_text())


def linked(data: bytes, vector: Any, addresses: dict[tuple[str, str, int], int]) -> bytes:
    raw = int.from_bytes(data, "little")
    for item in vector["field_offsets"]:
        address = addresses[item["buffer"], item["name"], item["batch"]]
        half = address >> (32 if item["half"] == "high" else 0) & MASK
        raw = raw & ~(MASK << item["bit"]) | half << item["bit"]
    return raw.to_bytes(len(data), "little")


def replay(vector: Any, bitstreams: dict[str, bytes]) -> int:
    """Compare descriptors, steps and final state; returns the number of descriptors."""
    addresses = {
        (item["buffer"], item["name"], item["batch"]): int(item["address"], 16)
        for item in vector["linked_addresses"]
    }
    chunks = []
    for item in vector["chunks"]:
        data = bytes.fromhex("".join(item["hex"])) if "hex" in item else bitstreams[item["sha256"]]
        chunks.append(disassemble(linked(data, item, addresses)))
    core = ScalarCore()
    # The traces start with zeros in memory, of which programs read single bytes.
    core.write(0, [0] * MEMORY_WORDS)
    trace: list[dict[str, Any]] = []
    for event in core.run(chunks):
        if isinstance(event, Stream) and isinstance(event.instruction, Outfeed):
            # The traces were made without tiles: what they send is zero.
            words = event.instruction.buffer.addresses().tolist()
            for word in [] if event.instruction.to_host else words:
                core.write(word, [0])
        elif isinstance(event, ChunkStart):
            trace.append({"chunk_start": event.chunk})
        elif isinstance(event, ChunkEnd):
            trace.append({"halt": [event.chunk, event.bundle]})
        elif isinstance(event, Descriptor):
            trace.append(
                {
                    "at": [event.chunk, event.bundle],
                    "address": hex(event.address),
                    "size": event.size,
                    "tag": event.tag,
                }
            )
    assert trace == vector["descriptors"]
    # START is no step of the traces.
    assert core.steps == vector["instructions_executed"] + len(chunks)
    assert [word or 0 for word in core.registers] == vector["final_registers"]
    assert [int(value or 0) for value in core.predicates] == vector["final_predicates"]
    return len(trace)


@pytest.mark.corpus
def test_traces_with_bundles() -> None:
    programs = [p for p in vectors()["programs"] if all("hex" in c for c in p["chunks"])]
    assert sum(replay(vector, {}) for vector in programs) == 14


@pytest.mark.corpus
def test_trace_of_an_lstm() -> None:
    path = corpus() / "coral" / "keras_lstm_mnist_ptq_edgetpu.tflite"
    (operator,) = custom_op.extract(tflite.read_model(path.read_bytes()))
    bitstreams = {
        hashlib.sha256(data).hexdigest(): data
        for executable in operator.read().executables
        for stream in executable.instruction_bitstreams or ()
        if stream.bitstream is not None and (data := stream.bitstream.tobytes())
    }
    (vector,) = [p for p in vectors()["programs"] if "lstm" in p["model"]]
    assert replay(vector, bitstreams) == 39


@pytest.mark.corpus
def test_softmax() -> None:
    softmax = vectors()["softmax"]
    code = [*disassemble(bytes.fromhex("".join(softmax["hex"]))), Halt()]
    assert len(softmax["cases"]) == 2
    for case in softmax["cases"]:
        core = ScalarCore()
        core.set_registers(dict.fromkeys(range(32), 0))
        core.set_registers({int(name[1:]): word for name, word in case["registers"].items()})
        logits = bytes.fromhex(case["logits_hex"])
        words = struct.unpack(f"<{len(logits) // 4}I", logits)
        core.write(case["memory_base_word"], words)
        events = list(core.execute(code))
        (asked,) = [event for event in events if isinstance(event, Descriptor)]
        assert hex(asked.address) == case["descriptor"]["address"]
        assert asked.size == case["descriptor"]["size"]
        (sent,) = [event for event in events if isinstance(event, HostWords)]
        known = [word for word in sent.words if word is not None]
        assert struct.pack(f"<{len(known)}I", *known).hex() == case["host_words_hex"]
        assert len(known) == len(sent.words)
