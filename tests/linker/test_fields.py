"""Addresses in instructions, against the host driver's rule and the instruction declarations."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linker.edgetpu import corpus_executables

from fitzroy.base.errors import LinkError
from fitzroy.formats.darwinn import Description, Position
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS
from fitzroy.hw_models.isa.program import disassemble, positions
from fitzroy.hw_models.isa.scalar import Alu, Scalar
from fitzroy.linker.resolve.fields import (
    AddressField,
    Buffer,
    address_field,
    get_bits,
    patched,
    put_bits,
)

INPUT = Buffer(Description.BASE_ADDRESS_INPUT_ACTIVATION, "x")


def patched_like_the_driver(data: bytes, bit: int, value: int) -> bytes:
    """What the host driver does: 32 bits one by one, the lowest bit of the lowest byte first."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    for index in range(32):
        bits[bit + index] = value >> index & 1
    return np.packbits(bits, bitorder="little").tobytes()


@given(st.binary(min_size=8, max_size=40), st.integers(0, 1000), st.integers(0, 2**64 - 1))
def test_any_bit_offset(data: bytes, place: int, address: int) -> None:
    bit = place % (8 * len(data) - 31)
    low = AddressField(0, bit, INPUT, Position.LOWER_32BIT).offset()
    high = AddressField(0, bit, INPUT, Position.UPPER_32BIT).offset()
    assert patched(data, [low], {INPUT: address}) == patched_like_the_driver(
        data, bit, address & 0xFFFFFFFF
    )
    assert patched(data, [high], {INPUT: address}) == patched_like_the_driver(
        data, bit, address >> 32
    )
    assert get_bits(patched(data, [low], {INPUT: address}), bit, 32) == address & 0xFFFFFFFF


@pytest.mark.long
@pytest.mark.corpus
def test_random_addresses_in_every_executable() -> None:
    rng = random.Random(7)
    executables = fields = 0
    for _, executable in corpus_executables():
        executables += 1
        for stream in executable.instruction_bitstreams or ():
            assert stream.bitstream is not None
            offsets = stream.field_offsets or []
            buffers = {address_field(offset).buffer for offset in offsets}
            addresses = {buffer: rng.getrandbits(64) for buffer in sorted(buffers, key=str)}
            expected = stream.bitstream.tobytes()
            for offset in offsets:
                field = address_field(offset)
                shift = 32 if field.position is Position.UPPER_32BIT else 0
                value = addresses[field.buffer] >> shift & 0xFFFFFFFF
                expected = patched_like_the_driver(expected, offset.offset_bit, value)
            found = patched(stream.bitstream.tobytes(), offsets, addresses)
            assert found == expected
            program = dict(positions(disassemble(found)))
            for offset in offsets:
                field = address_field(offset)
                instruction = program[offset.offset_bit // BUNDLE_BITS]
                assert isinstance(instruction, Scalar)
                assert instruction.alu is Alu.MOV
                shift = 32 if field.position is Position.UPPER_32BIT else 0
                assert instruction.immediate == addresses[field.buffer] >> shift & 0xFFFFFFFF
                fields += 1
    if not executables:
        pytest.skip("no corpus")
    print(f"\n{executables} executables, {fields} fields")
    assert (executables, fields) == (147, 926)


def test_refusals() -> None:
    data = bytes(16)
    field = AddressField(0, 96, INPUT, Position.LOWER_32BIT)
    with pytest.raises(LinkError, match="no address for input activation 'x'"):
        patched(data, [field.offset()], {})
    with pytest.raises(LinkError, match="does not fit 64 bits"):
        patched(data, [field.offset()], {INPUT: 1 << 64})
    outside = AddressField(0, 97, INPUT, Position.LOWER_32BIT)
    with pytest.raises(LinkError, match="outside"):
        patched(data, [outside.offset()], {INPUT: 0})
    with pytest.raises(LinkError, match="outside"):
        put_bits(bytearray(4), -1, 8, 0)
    with pytest.raises(LinkError, match="outside"):
        get_bits(bytes(4), 1, 32)


def test_batches_have_addresses_of_their_own() -> None:
    fields = [
        AddressField(0, 32 * batch, Buffer(INPUT.desc, "x", batch), Position.LOWER_32BIT).offset()
        for batch in range(3)
    ]
    addresses = {Buffer(INPUT.desc, "x", batch): 10 + batch for batch in range(3)}
    found = np.frombuffer(patched(bytes(12), fields, addresses), "<u4")
    assert found.tolist() == [10, 11, 12]
