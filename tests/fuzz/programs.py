"""Small Edge TPU programs that mutations start from, written in assembly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache

from tests.linker.edgetpu import small_object

from fitzroy.formats import darwinn, flat
from fitzroy.formats.darwinn import (
    FIELD_BITS,
    Description,
    Executable,
    InputLayer,
    Layer,
    OutputLayer,
    PackageFile,
    Position,
)
from fitzroy.formats.object_file import ObjectFile
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.scalar import End, Scalar
from fitzroy.linker.layouts import output_layout
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.resolve.fields import AddressField, Buffer, address_field, put_bits

_INPUT = Layer(name="in;1", size_bytes=48, y_dim=3, x_dim=5, z_dim=3, any_layer=InputLayer())
_LAYOUT, _BYTES = output_layout((5, 6, 8), 1)
_OUTPUT = Layer(
    name="out %",
    size_bytes=_BYTES,
    y_dim=5,
    x_dim=6,
    z_dim=8,
    any_layer=OutputLayer(layout=_LAYOUT),
)


def _layer(layer: Layer) -> str:
    return json.dumps(flat.as_dict(layer)).replace(";", "\\u003b")


EVERYTHING = f"""
.chip beagle
.object {{"name":"everything","producer":"test"}}
.resources {{"narrow_bytes":64,"staging":[{{"tiles":65535,"row":2000,"rows":80}}],\
"scratch_bytes":256,"batch_size":1,"estimated_cycles":9}}
.input {_layer(_INPUT)}
.output {_layer(_OUTPUT)}

.operand {{"name":"conv","kind":1,"lanes":64,"prefix":2}}
.run {{"tile":0,"row":0,"words":2,"units":8,"group":0}}
.run {{"tile":1,"row":4,"words":1,"units":4,"group":1}}
.data {"a5" * 768}
.operand {{"name":"fc","kind":0,"lanes":16,"prefix":1}}
.run {{"tile":0,"row":8,"words":2,"units":2,"group":2}}
.run {{"tile":1,"row":8,"words":2,"units":2,"group":2}}
.data {"01234567" * 64}
.operand {{"name":"late","kind":2,"lanes":64,"prefix":0}}
.data {"00" * 64}
.operand {{"name":"either","kind":1,"lanes":64,"prefix":0}}
.run {{"tile":15,"row":1,"words":1,"units":4,"group":4}}
.data {"80" * 256}

.text {{"ends_chunk":true}}
    tile_fence tiles=all set=all idle=all signal
    scalar_fence clear=all set=all wait_tiles tiles=all idle=all
        thresholds: thresholds=0,-3
    mov s0, 0
    mov s1, low(input, "in%3b1")
    mov s2, high(input, "in%3b1")
    mov s3, low(scratch)
    mov s4, high(scratch)
    mov s7, offset("late")+4
    mov s5, 10
    mov s8, 0
    mov s13, 0x20
again:
    sub s5, s5, 1 | store [0x10], s5
    gt p3, s5, 0 | load s6, [0x10]
    branch conditional condition=p3 condition_sense target=again
    loop count=3 target=after
    fadd s8, s8, 1.5f | push s8
    fmul s8, s8, s8 | exp2 s9, s8
after:
    (!p3) store [s13]+=1, s6 | reciprocal s10, s8
    mov s30, 48
    mov s29, 1
    descriptor address_low, s1
    descriptor address_high, s2
    descriptor size, s30
    descriptor tag, s29
    issue
    pop memory=activation popped=@0
        buffer: 0 [16384*1] ping(1, 16384) part(1, 6)
        wait: avdata_infeed>=-16+1*i@0
    infeed memory=activation infed=@0 destination=r0c0123 row_words=64
        buffer: 0 [16384*1] ping(1, 16384) part(1, 6)
        wait: avdata_pop>=1+1*i@0
        wait: off producer_a>=2@1
    outfeed outfed=@1 row_words=64
        buffer: 0x10 [64*1 3*0] ping(1, 64)
        wait: scalar_infeed>=-64+64*i@1
    ring_consume_a tiles=r0c0123 ring_read=@1
        wide: 0x7d0 [16*1 3*0] ping(1, 16)
        prefix: level=1 base=0x7e0 words=2 end=0x7e3 step=2
        wait: wide_to_narrow>=-1024+1024*i@1 write
    wide_to_narrow tiles=r0123c12 wide_to_narrow=@0 pack_level=2
        wide: 0x7d0 [16*1 3*0] ping(1, 16)
        narrow: 0x550 [1024*1 3*0] ping(1, 1024) part(1, 768)
        prefix: off level=1 base=0x550 words=256 end=0x64f step=0
        wait: ring_read_a>=1+1*i@1
        wait: avdata>=-1+1*i@1 write
    mac tiles=all avdata=@2 parameters=@2
        a: 0 [1*4 3*32 3*1088 32*32]
        b: 0x1540 [8*4 9*32 1*32]
        c: 0x20 [9*4 96*0] ping(2, 36)
        symbol: c.base quarter_row("fc", 2)+1
        d: 0x1f40 [9*0 9*4]
        wait: ring_read_b>=1+1*i@2
        wait: wide_to_scaling>=1+1*i@3
        loops: loops=9,96,8
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=127 zero_point_last=5 zero_point_base=1
        symbol: zero_point_base row("conv")+1
        output: block_level=3 reduction=0x5 lanes_last=32 lanes=32 scale=0.25 maximum=132
    max tiles=r0c0
    sum tiles=none tiles_from_register tiles_register=s5
    resize tiles=r12c3+r3c0
    nlu_table tiles=all
    mesh_southward tiles=r0c0123 received=@2 fill fill_word=0x7f7f7f7f
        send: 0x338 [8*1 32*8]
        receive: 8 [8*1 32*8] mask(0x1)
        wait: mesh_north_in>=1+1*i@2
    narrow_to_wide tiles=all narrow_to_wide=@0 pack_level=3 base_from_register base_register=s5
        narrow: 0x550 [8*1 32*8 3*256]
        wide: 0x7fe [12*0] ping(0, 1)
        wait: ring_write>=-1+1*i@0 write
    halt
    nop
    nop
    nop
    nop

.text {{"when":"cached","operand":"either"}}
    ring_produce tiles=r3c3 token=@0 channel=1 destination=all
        wide: 1 [1*1]
        symbol: wide.base row("either", 4)

.text {{"when":"streamed","operand":"either"}}
    mov s7, offset("either")

.text {{}}
    mov s11, high(parameters)
    mov s12, low(parameters)
    scalar to=s9
    descriptor address_low, s12 | mov s30, 64
    descriptor address_high, s11 | mov s29, 2
    descriptor size, s30
    descriptor tag, s29
    issue
    mov s11, high(output, "out %25")
    mov s12, low(output, "out %25")
    descriptor address_low, s12 | mov s30, {_BYTES}
    descriptor address_high, s11 | mov s29, 3
    descriptor size, s30
    descriptor tag, s29
    issue
    mov s29, 4
    descriptor address_low, s0
    descriptor address_high, s0
    descriptor size, s0
    descriptor tag, s29
    issue
    halt end_program
    nop
    nop
    nop
    nop
"""
"""An object with every instruction, every part of a symbol and every condition."""


@cache
def objects() -> tuple[ObjectFile, ...]:
    """Objects that can be linked alone and together."""
    return parse_object(EVERYTHING), small_object(), small_object("other", rows=3, tile=5)


@cache
def packages() -> tuple[PackageFile, ...]:
    """The same objects, linked; some with parameters in place, some without."""
    linked = [link([item])[0] for item in objects()]
    return tuple(darwinn.read_package(darwinn.write_package(item)) for item in linked)


_MARK = 0xF1E2_0000
"""Immediate operands from here on stand for fields of bitstreams; see `fields`."""

_IMMEDIATE = Scalar.field("immediate").first


def marked(executable: Executable) -> bytes:
    """The chunks of an executable one after the other, with marks where fields are."""
    data = bytearray()
    for stream in executable.instruction_bitstreams or ():
        chunk = bytearray() if stream.bitstream is None else bytearray(stream.bitstream)
        for offset in stream.field_offsets or ():
            field = address_field(offset)
            put_bits(chunk, field.bit, FIELD_BITS, _MARK | field.buffer.desc << 1 | field.position)
        data += chunk
    return bytes(data)


def split(instructions: Iterable[Instruction]) -> list[list[Instruction]]:
    """Chunks, each up to its END."""
    chunks: list[list[Instruction]] = [[]]
    for instruction in instructions:
        chunks[-1].append(instruction)
        if isinstance(instruction, End):
            chunks.append([])
    return [chunk for chunk in chunks if chunk]


def fields(chunks: Sequence[Sequence[Instruction]]) -> list[AddressField]:
    """The fields that marks stand for."""
    return [
        AddressField(
            number,
            bundle * BUNDLE_BITS + _IMMEDIATE,
            Buffer(Description(item.immediate >> 1 & 3)),
            Position(item.immediate & 1),
        )
        for number, chunk in enumerate(chunks)
        for bundle, item in positions(chunk)
        if isinstance(item, Scalar) and item.immediate >> 3 == _MARK >> 3
    ]
