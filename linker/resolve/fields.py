"""Addresses in instructions: bit fields of a bitstream that are filled in when it is loaded.

An executable lists its FieldOffsets: 32 bits, at any bit of a chunk, that receive the lower or
upper half of the 64-bit address of an input, an output, the parameters or the scratch buffer.
Bits count from the least significant one of the first byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import LinkError
from fitzroy.formats.darwinn import (
    FIELD_BITS,
    Description,
    Executable,
    FieldOffset,
    InstructionBitstream,
    Meta,
    Position,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of the host: an input or output by name and batch, parameters, or scratch."""

    desc: Description
    name: str = ""
    batch: int = 0

    def __str__(self) -> str:
        kind = self.desc.name.removeprefix("BASE_ADDRESS_").lower().replace("_", " ")
        return (
            kind
            + (f" {self.name!r}" if self.name else "")
            + (f" of batch {self.batch}" if self.batch else "")
        )


@dataclass(frozen=True, slots=True)
class AddressField:
    """A field of 32 bits in a chunk that holds one half of a buffer's address.

    Attributes:
        chunk: number of the chunk.
        bit: first bit of the field, counted over the chunk.
        buffer: the buffer.
        position: which half.
    """

    chunk: int
    bit: int
    buffer: Buffer
    position: Position

    def offset(self) -> FieldOffset:
        """The field as an executable lists it."""
        meta = Meta(
            desc=int(self.buffer.desc),
            batch=self.buffer.batch,
            name=self.buffer.name,
            position=int(self.position),
        )
        return FieldOffset(meta=meta, offset_bit=self.bit)


def address_field(offset: FieldOffset, chunk: int = 0) -> AddressField:
    """A field that an executable lists.

    Raises:
        LinkError: a field that does not say of which buffer it is.
    """
    meta = offset.meta
    if meta is None:
        raise LinkError(f"the field at bit {offset.offset_bit} of chunk {chunk} has no name")
    buffer = Buffer(Description(meta.desc), meta.name or "", meta.batch)
    return AddressField(chunk, offset.offset_bit, buffer, Position(meta.position))


def address_fields(executable: Executable) -> tuple[AddressField, ...]:
    """The fields of all chunks of an executable.

    Raises:
        LinkError: a field that does not say of which buffer it is.
    """
    return tuple(
        address_field(offset, chunk)
        for chunk, stream in enumerate(executable.instruction_bitstreams or ())
        for offset in stream.field_offsets or ()
    )


SPACING = 40
"""Buffers begin at multiples of this power of two, so that addresses tell them apart."""


def buffer_addresses(executable: Executable) -> dict[Buffer, int]:
    """Addresses for all buffers that an executable refers to; they mean nothing to the device.

    Raises:
        LinkError: a field that does not say of which buffer it is.
    """
    buffers = dict.fromkeys(field.buffer for field in address_fields(executable))
    return {buffer: number + 1 << SPACING for number, buffer in enumerate(buffers)}


def _bytes_of(data: bytes | bytearray | memoryview, bit: int, width: int) -> tuple[int, int]:
    """First byte of a buffer that holds the `width` bits at a bit, and the one after the last.

    Raises:
        LinkError: the place is not inside the buffer.
    """
    first, last = bit // 8, (bit + width + 7) // 8
    if bit < 0 or last > len(data):
        raise LinkError(
            "a field lies outside its instructions",
            reason=f"bits {bit} to {bit + width - 1}, the buffer has {8 * len(data)}",
        )
    return first, last


def put_bits(data: bytearray, bit: int, width: int, value: int) -> None:
    """Write the low `width` bits of a value at a bit of a buffer; the others stay.

    Raises:
        LinkError: the place is not inside the buffer.
    """
    first, last = _bytes_of(data, bit, width)
    shift = bit - 8 * first
    mask = (1 << width) - 1 << shift
    window = int.from_bytes(data[first:last], "little") & ~mask | value << shift & mask
    data[first:last] = window.to_bytes(last - first, "little")


def get_bits(data: bytes | bytearray | memoryview, bit: int, width: int) -> int:
    """The `width` bits at a bit of a buffer.

    Raises:
        LinkError: the place is not inside the buffer.
    """
    first, last = _bytes_of(data, bit, width)
    return int.from_bytes(data[first:last], "little") >> bit - 8 * first & (1 << width) - 1


def patched(
    bitstream: bytes | memoryview,
    offsets: Iterable[FieldOffset],
    addresses: Mapping[Buffer, int],
) -> bytes:
    """A chunk with the addresses filled in.

    Args:
        bitstream: the chunk as the package has it.
        offsets: its fields.
        addresses: 64-bit device addresses of the buffers of one request.

    Raises:
        LinkError: a field without an address, or outside the chunk.
    """
    data = bytearray(bitstream)
    for offset in offsets:
        field = address_field(offset)
        address = addresses.get(field.buffer)
        if address is None:
            raise LinkError(
                f"there is no address for {field.buffer}",
                hint="give one for every layer and batch, the parameters and the scratch buffer",
            )
        if address >> 64:
            raise LinkError(f"the address of {field.buffer} does not fit 64 bits: {address:#x}")
        if field.position is Position.UPPER_32BIT:
            address >>= FIELD_BITS
        put_bits(data, field.bit, FIELD_BITS, address)
    return bytes(data)


def bitstream(
    instructions: Iterable[Instruction], fields: Iterable[AddressField]
) -> InstructionBitstream:
    """A chunk as an executable holds it, with the fields that are left to the driver.

    Raises:
        FormatError: a value does not fit its field.
    """
    return InstructionBitstream(
        bitstream=np.frombuffer(assemble(instructions), np.uint8),
        field_offsets=[field.offset() for field in fields] or None,
    )
