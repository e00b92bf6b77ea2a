"""Measures of the scalar core and of host transfers: small programs, and published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support import corpus

from fitzroy.api import read_container
from fitzroy.hw_models.edgetpu import envelope_host as envelope
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import Producer, ScalarFlag, StreamEngine, Watcher
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import chunk, disassemble
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Indexed,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.units import infeed_units, outfeed_units, outfeed_words, pop_units

NOP = Scalar()
PIPELINE = ScalarFence(idle=1 << StreamEngine.PIPELINE)
OUTFED = ScalarFence(idle=1 << StreamEngine.OUTFEED)
INFED = ScalarFence(idle=1 << StreamEngine.INFEED)
PUSH = Scalar(store=Store.PUSH, store_from=7)
STORE = Scalar(
    store=Store.INCREMENT,
    store_address=int(Indexed(register=5, increment=1).pack()),
    store_from=4,
)
EXP2 = Scalar(special=Special.EXP2, special_to=9, special_from=9)


def program(*body: Instruction | Sequence[Instruction]) -> list[list[Instruction]]:
    """A program of one chunk; its registers have values."""
    items: list[Instruction] = [move(register, 0) for register in range(32)]
    for item in body:
        items += [item] if isinstance(item, Instruction) else item
    return [chunk([*items, Halt(end_program=True), *[NOP] * 4])]


def move(register: int, value: int) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=register, immediate=value)


def descriptor(tag: DescriptorTag, size: int, address: int = 0) -> list[Instruction]:
    """A descriptor, the shortest way."""
    words = {
        DescriptorSlot.ADDRESS_LOW: address,
        DescriptorSlot.ADDRESS_HIGH: 0,
        DescriptorSlot.SIZE: size,
        DescriptorSlot.TAG: tag,
    }
    moves = [move(10 + slot, value) for slot, value in words.items()]
    stores = [
        Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=10 + slot) for slot in words
    ]
    return [*moves, *stores, Scalar(store=Store.ISSUE)]


def infeed(memory: InfeedMemory, units: int, position: int = 0, rows: int = 64) -> Infeed:
    flag = {
        InfeedMemory.ACTIVATION: ScalarFlag.AVDATA_POP,
        InfeedMemory.PARAMETER: ScalarFlag.PARAMETER_POP,
        InfeedMemory.SCALAR: ScalarFlag.RING_OUTFEED,
    }[memory]
    return Infeed(
        memory=memory,
        buffer=infeed_units(memory, units, position),
        infed=Producer(0),
        wait=(Watcher(flag, 0, position + 1, 1), None),
        destination=1,
        row_words=rows,
    )


def pop(memory: PopMemory, units: int, position: int = 0) -> Pop:
    return Pop(memory=memory, buffer=pop_units(memory, units, position), popped=Producer(0))


def collected(words: int, address: int = 0) -> Outfeed:
    return Outfeed(buffer=outfeed_words(words, address), row_words=64)


def values(found: Sequence[envelope.Measured]) -> list[int]:
    return [item.value for item in found]


def test_stores_in_front_of_an_infeed() -> None:
    scalar = infeed(InfeedMemory.SCALAR, 8, rows=4)
    loop = [Loop(count=2, length=1), STORE]
    assert values(envelope.unfenced_stores(program(loop, scalar))) == [2]
    assert values(
        envelope.unfenced_stores(program(loop, OUTFED, scalar, loop, PIPELINE, scalar))
    ) == [2, 0]


def test_rows_of_scalar_memory() -> None:
    items = program(
        infeed(InfeedMemory.SCALAR, 8, rows=4), infeed(InfeedMemory.SCALAR, 66, rows=64)
    )
    assert values(envelope.scalar_rows(items)) == [4, 64]
    assert values(envelope.partial_scalar_rows(items)) == [0, 2]


def test_pieces_that_are_pushed() -> None:
    asked = descriptor(DescriptorTag.OUTPUT, 8)
    items = program(PIPELINE, collected(1), collected(1, 1), OUTFED, asked, PUSH, PUSH)
    assert values(envelope.relayed_pieces(items)) == [1, 0]
    computed = program(collected(2), OUTFED, EXP2, asked, PUSH, PUSH)
    assert values(envelope.relayed_pieces(computed)) == []


def test_runs_of_pushes_and_their_descriptors() -> None:
    asked = descriptor(DescriptorTag.OUTPUT, 12)
    pushes = [Loop(count=2, length=1), PUSH, move(6, 0), PUSH]
    assert values(envelope.pushed_runs(program(asked, pushes))) == [3]
    assert values(envelope.uncovered_words(program(asked, pushes))) == [0]
    assert values(envelope.uncovered_words(program(asked, PUSH))) == [2]
    assert values(envelope.pushed_runs(program(asked, PUSH, OUTFED, PUSH))) == [1, 1]
    assert values(envelope.uncovered_words(program(asked, PUSH, OUTFED, PUSH))) == [2, 1]


def test_places_of_output_descriptors() -> None:
    outputs = [(0, 40), (40, 32), (0, 8)]
    items = program(*[descriptor(DescriptorTag.OUTPUT, size, at) for at, size in outputs])
    assert values(envelope.output_offsets(items)) == [0, 8, 0]
    assert values(envelope.inner_output_sizes(items)) == [8]


def test_the_special_unit() -> None:
    use = Scalar(alu=Alu.FADD, to=14, a=14, immediate=9)
    inverse = replace(EXP2, special=Special.RECIPROCAL)
    items = program(EXP2, NOP, NOP, use, NOP, NOP, inverse, use)
    assert values(envelope.special_distances(items)) == [6]
    assert values(envelope.exponential_uses(items)) == [3]
    assert values(envelope.reciprocal_uses(items)) == [1]
    looped = program(Loop(count=9, length=3), EXP2, NOP, replace(use, special=Special.NONE))
    assert values(envelope.special_distances(looped)) == [3]
    shared = program(replace(EXP2, alu=Alu.MOV, to=1, immediate=2))
    assert values(envelope.special_neighbours(shared)) == [1]


def test_loads_and_stores() -> None:
    load = Scalar(load=Load.REGISTER, load_to=17, load_address=6)
    both = replace(load, alu=Alu.ADD, to=1, a=1, immediate=2)
    items = program(load, both, STORE, NOP, STORE)
    assert values(envelope.load_neighbours(items)) == [0, 1]
    assert values(envelope.store_distances(items)) == [2]
    assert values(envelope.memory_registers(items)) == [17, 17, 5, 5]


def test_distances_of_descriptors() -> None:
    asked = descriptor(DescriptorTag.OUTPUT, 8)
    items = program(asked, [NOP] * 3, asked)
    assert values(envelope.issue_distances(items)) == [12]
    assert values(envelope.slot_distances(items)) == [8]


def test_requests_that_are_open() -> None:
    asked = [
        pop(PopMemory.ACTIVATION, 4),
        *descriptor(DescriptorTag.INPUT, 32),
    ]
    later = [pop(PopMemory.ACTIVATION, 4, 4), *descriptor(DescriptorTag.INPUT, 32)]
    first = infeed(InfeedMemory.ACTIVATION, 4)
    assert values(envelope.open_inputs(program(asked, later))) == [1, 2]
    assert values(envelope.open_inputs(program(asked, INFED, later))) == [1, 2]
    assert values(envelope.open_inputs(program(asked, first, later))) == [1, 2]
    assert values(envelope.open_inputs(program(asked, first, INFED, later))) == [1, 1]
    popped = ScalarFence(idle=1 << StreamEngine.AVDATA_POP)
    assert values(envelope.open_inputs(program(asked, popped, later))) == [1, 1]
    assert values(envelope.pops_of_inputs(program(asked, descriptor(DescriptorTag.INPUT, 8)))) == [
        2
    ]


def test_requests_for_parameters_that_are_open() -> None:
    asked = descriptor(DescriptorTag.PARAMETERS, 128)
    some = infeed(InfeedMemory.PARAMETER, 3)
    items = program(asked, asked, some, INFED, asked)
    assert values(envelope.open_parameters(items)) == [1, 2, 2]


def test_addresses_of_infeeds() -> None:
    inside = infeed(InfeedMemory.ACTIVATION, 20_000, 40_000)
    beyond = replace(inside, buffer=replace(inside.buffer, base=40_000))
    items = program(inside, beyond)
    assert values(envelope.infeed_bases(items)) == [7232, 40_000]
    assert values(envelope.infeed_reach(items)) == [7232 + 20_000, 60_000]


def test_queues() -> None:
    host = Outfeed(buffer=outfeed_units(5), outfed=Producer(1), to_host=True, row_words=64)
    items = program(host, host, collected(3), OUTFED, host)
    assert values(envelope.waiting_outfeeds(items)) == [1, 2, 1, 1]
    assert values(envelope.host_outfeed_units(items)) == [5, 5, 5]
    some = infeed(InfeedMemory.PARAMETER, 3)
    assert values(envelope.waiting_parameter_infeeds(program(some, some, INFED, some))) == [1, 2, 1]


PUBLISHED = (
    "layers/model_padding_2x2x3_edgetpu.tflite",
    "layers/model_dense_2x2x3x100x100_edgetpu.tflite",
    "coral/model_mobilenet_v2_w_fc_224x224x3_edgetpu.tflite",
    "coral/split_concat_edgetpu.tflite",
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder_edgetpu.tflite",
)
RANGES = {
    "unfenced_stores": (0, 0),
    "scalar_rows": (4, 4),
    "partial_scalar_rows": (0, 0),
    "pushed_runs": (2, 4088),
    "uncovered_words": (0, 0),
    "output_offsets": (0, 0),
    "inner_output_sizes": (0, 0),
    "host_outfeed_units": (1, 16384),
    "special_distances": (6, 1 << 16),
    "exponential_uses": (3, 3),
    "reciprocal_uses": (19, 1 << 16),
    "special_neighbours": (0, 0),
    "load_neighbours": (0, 0),
    "store_distances": (3, 1 << 16),
    "memory_registers": (0, 14),
    "issue_distances": (22, 1 << 16),
    "slot_distances": (18, 1 << 16),
    "open_inputs": (1, 1),
    "open_parameters": (1, 4),
    "pops_of_inputs": (1, 1),
    "infeed_bases": (0, 32767),
    "infeed_reach": (1, 65535),
    "waiting_parameter_infeeds": (1, 159),
}


def published(path: str) -> list[list[list[Instruction]]]:
    """Chunks of the executables of a package of the corpus."""
    file = corpus() / path
    (package,) = read_container(file.read_bytes(), str(file)).packages
    return [
        [
            disassemble(bytes(stream.bitstream))
            for stream in executable.instruction_bitstreams or ()
            if stream.bitstream is not None
        ]
        for executable in package.executables
    ]


@pytest.mark.corpus
@pytest.mark.parametrize("path", PUBLISHED)
def test_published_programs(path: str) -> None:
    for chunks in published(path):
        for name, (low, high) in RANGES.items():
            found = getattr(envelope, name)(chunks)
            assert not [item for item in found if not low <= item.value <= high], name


@pytest.mark.corpus
def test_published_pieces_wait_for_the_pipeline() -> None:
    (chunks,) = published(PUBLISHED[0])
    assert values(envelope.relayed_pieces(chunks)) == [1] * 4
