from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus, corpus_params

from fitzroy.base.errors import FormatError, LinkError, UnsupportedError
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.formats.darwinn import Description, Executable, Position, caching_token
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import StreamEngine
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble, disassemble
from fitzroy.hw_models.isa.ring import RingConsume
from fitzroy.hw_models.isa.stream import Infeed
from fitzroy.hw_models.isa.traversal import Traversal
from fitzroy.linker.resolve.caching import (
    Generation,
    StreamedSegment,
    caching_program,
    segments_of,
    streamed_segments,
    wide_memory,
)
from fitzroy.linker.resolve.fields import AddressField, Buffer
from fitzroy.linker.resolve.segments import Segment

SEGMENTS = [
    Segment(0, 0, 0, 6, 64, 0, 24, 2),
    Segment(0, 1, 0, 6, 64, 24, 24, 2),
    Segment(1, 3, 0, 9, 16, 48, 9),
    Segment(2, 3, 9, 2, 64, 57, 7),
]
UNITS = 64
BLOB = np.arange(UNITS * 64, dtype=np.uint32).astype(np.uint8)


@pytest.mark.parametrize("generation", Generation)
def test_segments_are_recovered(generation: Generation) -> None:
    program = caching_program(SEGMENTS, generation=generation)
    assert program.size == UNITS * 64
    assert segments_of(disassemble(assemble(program.instructions))) == SEGMENTS


PARAMETERS = Buffer(Description.BASE_ADDRESS_PARAMETER)


def test_addresses_are_moves() -> None:
    program = caching_program(SEGMENTS)
    assert program.fields == (
        AddressField(0, 582, PARAMETERS, Position.LOWER_32BIT),
        AddressField(0, 710, PARAMETERS, Position.UPPER_32BIT),
    )
    assert len(assemble(program.instructions)) == 16 * (35 + 8 * len(SEGMENTS))


def test_tile_is_not_used_twice_at_once() -> None:
    segments = [Segment(0, block % 16, block // 16, 1, 64, 4 * block, 4) for block in range(20)]
    kinds = [
        type(instruction).__name__
        for instruction in caching_program(segments).instructions
        if isinstance(instruction, RingConsume | Infeed)
    ]
    assert kinds == (["RingConsume"] * 16 + ["Infeed"] * 16 + ["RingConsume"] * 4 + ["Infeed"] * 4)


def test_infeeds_wait_in_a_queue_of_limited_length() -> None:
    segments = [Segment(0, block % 16, block // 16, 1, 64, 4 * block, 4) for block in range(330)]
    for generation in Generation:
        program = caching_program(segments, generation=generation)
        waiting = [0]
        for instruction in program.instructions:
            match instruction:
                case Infeed():
                    waiting[-1] += 1
                case ScalarFence(idle=idle) if idle >> StreamEngine.INFEED & 1:
                    waiting.append(0)
        # Infeeds of an operand stay together.
        assert [count for count in waiting if count] == [144, 144, 42]
        found = segments_of(program.instructions)
        assert [replace(one, operand=0) for one in found] == segments


def test_wide_memory_holds_the_blob() -> None:
    memory = wide_memory(SEGMENTS, BLOB)
    assert memory.shape == (16, 2080, 256)
    assert np.array_equal(memory[1, :6].reshape(-1), BLOB[24 * 64 : 48 * 64])
    assert np.array_equal(memory[3, :9, :64].reshape(-1), BLOB[48 * 64 : 57 * 64])
    assert np.array_equal(memory[3, 9:11].reshape(-1)[: 7 * 64], BLOB[57 * 64 :])
    assert not memory[3, 10, 3 * 64 :].any()
    with pytest.raises(FormatError, match="4096 are needed"):
        wide_memory(SEGMENTS, BLOB[:-1])


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (1, {"position": 25}, "segments before it end at unit 24"),
        (1, {"units": 25}, "its 25 units fill 7 rows of 64 lanes"),
        (1, {"tile": 0}, "row 0 of tile 0 is used twice"),
        (3, {"row": 8}, "row 8 of tile 3 is used twice"),
        (2, {"row": 2072}, "16 tiles of 2080 rows"),
    ],
)
def test_wrong_segments_are_refused(number: int, change: dict[str, int], message: str) -> None:
    segments = list(SEGMENTS)
    segments[number] = replace(segments[number], **change)
    with pytest.raises(LinkError, match=message):
        caching_program(segments)


def test_nothing_to_load() -> None:
    with pytest.raises(LinkError, match="no parameters"):
        caching_program([])
    assert segments_of([]) == []


def _changed(program: Sequence[Instruction], kind: type, **change: Any) -> list[Instruction]:
    """A program whose last instruction of a kind has other fields."""
    index = max(i for i, instruction in enumerate(program) if isinstance(instruction, kind))
    return [*program[:index], replace(program[index], **change), *program[index + 1 :]]


def test_malformed_programs_are_refused() -> None:
    program = caching_program(SEGMENTS).instructions
    infeed = next(i for i in program if isinstance(i, Infeed))

    def base(kind: type, row: int) -> Traversal:
        last = [i for i in program if isinstance(i, kind)][-1]
        buffer = last.wide if isinstance(last, RingConsume) else getattr(last, "buffer")  # noqa: B009
        assert isinstance(buffer, Traversal)
        return replace(buffer, base=row)

    cases: list[tuple[list[Instruction], type[Exception], str]] = [
        (_changed(program, Infeed, destination=1), FormatError, "tile 0 without ring consumer"),
        (_changed(program, Infeed, destination=3), UnsupportedError, "2 tiles at once"),
        (_changed(program, Infeed, row_words=48), FormatError, "7 units of 48 lanes for 2 rows"),
        (_changed(program, Infeed, wait=(None, None)), FormatError, "does not wait"),
        (_changed(program, Infeed, buffer=base(Infeed, 56)), FormatError, "waits for unit 57"),
        (_changed(program, RingConsume, wide=base(RingConsume, 8)), FormatError, "used twice"),
        ([i for i in program if i is not infeed], FormatError, "consumer without infeed"),
    ]
    for changed, error, message in cases:
        with pytest.raises(error, match=message):
            segments_of(changed)


def test_streamed_units() -> None:
    program = caching_program(SEGMENTS).instructions
    assert streamed_segments(program)[2] == StreamedSegment(8, 16, ((48, 9),), 9, True)
    transfers = [(6400, 50 * 64), (0, 14 * 64)]
    found = streamed_segments(program, transfers)
    assert [segment.runs for segment in found] == [
        ((100, 24),),
        ((124, 24),),
        ((148, 2), (0, 7)),
        ((7, 7),),
    ]
    assert not streamed_segments(program, transfers[:1])[3].certain


def test_tokens() -> None:
    assert caching_token([b"a" * 64, b"b"]) == caching_token([b"a" * 64, np.array([98], np.uint8)])
    tokens = {caching_token(blobs) for blobs in ([b"ab"], [b"a", b"b"], [b"b", b"a"], [b"a"])}
    assert len(tokens) == 4
    assert all(0 < token < 1 << 64 for token in tokens)


# --- the corpus ----------------------------------------------------------------------------------


def _executables(path: Path) -> list[tuple[int, Executable]]:
    operators = custom_op.extract(tflite.read_model(path.read_bytes()))
    return [
        (file.package.min_runtime_version, executable)
        for file in (operator.read() for operator in operators)
        for executable in file.executables
    ]


def _program(executable: Executable) -> list[Instruction]:
    return [
        instruction
        for chunk in executable.instruction_bitstreams or ()
        for instruction in disassemble(np.asarray(chunk.bitstream).tobytes())
    ]


@pytest.mark.parametrize("path", corpus_params("**/*edgetpu*.tflite", quick=12))
def test_compiled_programs_are_regenerated(path: Path) -> None:
    for version, executable in _executables(path):
        if executable.type != darwinn.ExecutableType.PARAMETER_CACHING:
            continue
        chunks = executable.instruction_bitstreams
        assert chunks is not None
        [chunk] = chunks
        segments = segments_of(_program(executable))
        generation = Generation(12 if version == 13 else version)
        program = caching_program(segments, generation=generation)
        assert assemble(program.instructions) == np.asarray(chunk.bitstream).tobytes()
        offsets = [
            (field.offset_bit, field.meta.desc, field.meta.position)
            for field in chunk.field_offsets or ()
            if field.meta is not None
        ]
        fields = [(field.bit, field.buffer.desc, field.position) for field in program.fields]
        assert fields == offsets
        parameters = np.asarray(executable.parameters)
        assert program.size == len(parameters)
        memory = wide_memory(segments, parameters)
        for segment in segments:
            rows = memory[segment.tile, segment.row : segment.end, : 4 * segment.lanes]
            start = 64 * segment.position
            blob = parameters[start : start + 64 * segment.units]
            assert np.array_equal(rows.reshape(-1)[: len(blob)], blob)


@pytest.mark.corpus
def test_streamed_parameters_are_used() -> None:
    names = {
        "coral/testconv1-edgetpu.tflite": [10],
        "coral/keras_lstm_mnist_ptq_edgetpu.tflite": [6, 3],
        "templates/color_cyan_128x128_edgetpu.tflite": [8192],
    }
    for name, expected in names.items():
        path = corpus() / name
        if not path.is_file():
            pytest.skip(f"no {path}")
        for _, executable in _executables(path):
            if executable.type == darwinn.ExecutableType.PARAMETER_CACHING:
                continue
            uses = np.zeros(len(np.asarray(executable.parameters)) // 64, np.int64)
            hints = executable.dma_hints.hints if executable.dma_hints else None
            transfers = [
                (hint.any_hint.offset_in_bytes, hint.any_hint.size_in_bytes)
                for hint in hints or ()
                if isinstance(hint.any_hint, darwinn.DmaDescriptorHint)
                and hint.any_hint.meta is not None
                and hint.any_hint.meta.desc == Description.BASE_ADDRESS_PARAMETER
            ]
            for segment in streamed_segments(_program(executable), transfers):
                assert segment.certain
                for first, units in segment.runs:
                    uses[first : first + units] += 1
            # Index 0: units that are sent once; index 1: those that are sent again.
            assert np.bincount(uses)[1:].tolist() == expected


@pytest.mark.corpus
def test_vectors() -> None:
    path = corpus().parent / "beagle" / "vectors" / "parameters.json"
    if not path.is_file():
        pytest.skip(f"no {path}")
    case = json.loads(path.read_text())["parameter_caching"]
    segments = []
    position = 0
    for item in case["segments"]:
        prefix = item["prefix_words"]
        segments.append(
            Segment(
                operand=item["group"],
                tile=item["tile"],
                row=item["entry"] - prefix,
                words=item["words"] + prefix,
                lanes=item["lanes"],
                position=position,
                units=item["blob_rows"],
                prefix_words=prefix,
            )
        )
        position += item["blob_rows"]
    program = caching_program(segments)
    assert program.size == case["blob_bytes"]
    expected = bytes.fromhex("".join(case["program_hex"]))
    assert assemble(program.instructions) == expected
    assert segments_of(disassemble(expected)) == segments
    blob = (np.arange(case["blob_bytes"]) * 7 + 3).astype(np.uint8)
    memory = wide_memory(segments, blob)
    for item in case["wide"]:
        data = bytes.fromhex(item["bytes_hex"])
        row = memory[item["tile"], item["entry"]]
        assert row[: len(data)].tobytes() == data
        assert not row[len(data) :].any()
        row[:] = 0
    assert not memory.any()
