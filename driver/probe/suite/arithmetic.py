"""Probes of the op engine: products, sums, the output stage and the non-linear unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitzroy.base.bits import Float32
from fitzroy.base.errors import InternalError
from fitzroy.base.types import Array
from fitzroy.driver.probe.probe import Probe, Risk, noise, probe
from fitzroy.driver.probe.program import FIRST_ROW, ROW_BYTES, ROW_WORDS, Sketch

OUT = 0x400
"""Word of narrow memory at which results begin."""

_RAMP: Array = np.arange(ROW_BYTES, dtype=np.uint8)
_UNEVEN = 0.00195
"""A scale with which no sum comes to lie between two integers."""

_WIDE_OPEN = "maximum=100000 minimum=-100000"


def real(value: float) -> str:
    """A float32 as assembly text."""
    return Float32().text(value)


def weights(*lanes: tuple[int, ...]) -> Array:
    """A row of weights: up to four elements for each lane, uint8[256]."""
    row = np.zeros((ROW_WORDS, 4), np.uint8)
    for lane, elements in enumerate(lanes):
        row[lane, : len(elements)] = elements
    return row.reshape(-1)


def identity(factor: int = 1) -> Array:
    """Weights with which four lanes repeat the four elements of a step, uint8[256]."""
    return weights(*(tuple(factor * (lane == k) for k in range(4)) for lane in range(4)))


def stage(
    acc: Array,
    *,
    scale: float = 1.0,
    constant: int = 0,
    minimum: float = 0.0,
    maximum: float = 255.0,
    zero: int = 0,
    top: int = 255,
) -> Array:
    """The output stage on integers, int64 of any shape: an independent formula in numpy."""
    y = (acc + constant).astype(np.float32) * np.float32(scale)
    y = np.minimum(np.maximum(y, np.float32(minimum)), np.float32(maximum))
    codes = np.clip(np.rint(y) + zero, 0, top)
    return np.asarray(codes.astype(np.uint16 if top > 255 else np.uint8))


def _pointwise(fields: str, lanes: int = 4, zero_points: str = "", nlu: str = "") -> Sketch:
    """A program that multiplies each word of a row with one row of weights.

    Inputs are the row of weights, the row of data, and two rows that fill what is not written.
    """
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    if nlu:
        sketch.asm(nlu)
    words = -(-lanes // 4)
    sketch.asm(
        f"""
        mac tiles=r0c0
            a: {ROW_BYTES} [2*4 32*8]
            b: {4 * OUT} [{64 * words}*4]
            c: {4 * FIRST_ROW} [2*0 32*0]
            d: 0 [64*0] ping(0, 4)
            loops: loops=2,32
            operands: accumulate
            zero_points: {zero_points or "c_zero_point=0"}
            output: lanes_last={lanes} lanes={lanes} {fields}"""
    )
    sketch.result(OUT, 256 * words)
    return sketch


def _rows(*rows: Array) -> Array:
    """Rows one after the other, with zeros up to four."""
    data = np.concatenate(rows)
    return np.concatenate([data, np.zeros(4 * ROW_BYTES - len(data), np.uint8)])


def controls() -> Iterator[Probe]:
    """Tensor operations that published programs have."""
    row = noise(256, 3)
    yield probe(
        "control-copy",
        "a copy through the op engine",
        "the setup computes: products, one output per step",
        _pointwise("scale=1 maximum=255"),
        _rows(identity(), row),
        row,
        risk=Risk.CONTROL,
    )
    yield from _control_products(row)
    yield _control_of_blocks()
    yield _dense()
    yield _halfwords()
    yield _maximum()
    yield _partial_sums("control-partial-sums", 8, 8, 2)


def _control_products(row: Array) -> Iterator[Probe]:
    lanes = noise(16, 5).reshape(4, 4)
    x = row.reshape(64, 4).astype(np.int64) - 7
    # Words with a result between two integers are left out.
    keep = (x @ (lanes.astype(np.int64) - 100).T % 1024 != 512).all(axis=1)
    row = np.where(np.repeat(keep, 4), row, 0).astype(np.uint8)
    x = row.reshape(64, 4).astype(np.int64) - 7
    acc = x @ (lanes.astype(np.int64) - 100).T
    yield probe(
        "control-products",
        "products of four elements with zero points on both sides",
        "unsigned elements minus their zero points, summed in each lane",
        _pointwise(
            f"scale={2.0**-10} maximum=127 minimum=-128 output_zero_point=128",
            zero_points="c_zero_point=100 a_zero_point=7",
        ),
        _rows(weights(*(tuple(int(v) for v in lane) for lane in lanes)), row),
        stage(acc, scale=2.0**-10, minimum=-128, maximum=127, zero=128),
        risk=Risk.CONTROL,
    )


def show_blocks(
    sketch: Sketch, row: int, zeros: int, tiles: str = "r0c0", *, function: bool = False
) -> None:
    """Send what a convolution makes of everything in scaling memory.

    Args:
        sketch: a program with 128 words in narrow memory from word 0 and from `OUT` + 64 on.
        row: first of 12 rows of weights.
        zeros: first of two rows of zero points.
        tiles: the tile.
        function: whether the table that is loaded ends it.
    """
    sketch.asm(
        f"""
        tile_fence tiles=all idle=all
        mac tiles={tiles} avdata=@2 parameters=@2
            a: 0 [2*4 2*8 2*64 3*0]
            b: {4 * OUT} [16*4 2*64 3*128] part(2, 2)
            c: {4 * row} [4*4 2*0 3*16]
            d: 0 [4*0 2*0 3*0] ping(1, 4)
            wait: ring_read_b>=-6+1*i@2
            wait: wide_to_scaling>=-6+1*i@2
            loops: loops=4,2,3
            operands: trained accumulate
            zero_points: zero_points_in_memory a_zero_point=11 zero_point_last={zeros + 1}"""
        f""" zero_point_step=1 zero_point_base={zeros}
            output: block_level=2 reduction=0x1 lanes_last=8 lanes=64 scale=1 maximum=127"""
        f""" minimum=-128 output_zero_point=128 bias_in_memory scale_in_memory{" nlu" * function}"""
    )
    sketch.result(OUT, 512, tile=tiles)


def _blocks(*, function: bool) -> tuple[Sketch, Array, Array]:
    """A convolution over three blocks of channels, with everything per lane in memory.

    Args:
        function: whether a table ends it.

    Returns:
        The program, its input, and its output.
    """
    sketch = Sketch()
    if function:
        sketch.asm(table(_ENDINGS))
    sketch.load(20)
    zeros, scales, biases, inputs = (FIRST_ROW + 12 + 2 * k for k in range(4))
    sketch.unpack(inputs, 2, 0)
    sketch.unpack(inputs, 2, OUT + 64)
    for slot in range(2):
        sketch.scaling(scales + slot, 32 * slot)
        sketch.scaling(biases + slot, 64 + 32 * slot)
    show_blocks(sketch, FIRST_ROW, zeros, function=function)
    w, x = noise(12 * 256, 21), noise(512, 25)
    zero = noise(128, 22)
    # Odd numerators over a power of two: no product of small sums ends in exactly one half.
    scale = ((2.0 * noise(128, 23) + 1) * 2.0**-20).astype("<f4")
    bias = noise(128, 24).astype("<i4") * 17 - 2000
    out = np.concatenate([np.zeros(256, np.uint8), x[:256]])
    for block in range(3):
        own = slice(64 * (block & 1), 64 * (block & 1) + 64)
        rows = w.reshape(3, 4, 64, 4)[block].astype(np.int64) - zero[own][None, :, None]
        for position in range(2):
            a = x[64 * position : 64 * position + 16].reshape(4, 4).astype(np.int64) - 11
            acc = np.einsum("kj,klj->l", a, rows) + bias[own]
            y = np.clip(acc.astype(np.float32) * scale[own], -128, 127)
            y = _horner(y, _ENDINGS, _BREAKPOINTS) if function else y
            y = np.clip(np.rint(y) + 128, 0, 255)
            lanes, place = (
                (64, 128 * block + 64 * position) if block < 2 else (8, 256 + 64 * position)
            )
            out[place : place + lanes] = y[:lanes]
    data = [part.view(np.uint8) for part in (w, zero.astype("<u4"), scale, bias, x)]
    return sketch, np.concatenate(data), out


def _control_of_blocks() -> Probe:
    """The convolution of published programs."""
    sketch, data, out = _blocks(function=False)
    return probe(
        "control-blocks",
        "a convolution over three blocks of output channels",
        "scales, biases and zero points of each block, two slots in turn, fewer lanes in the last",
        sketch,
        data,
        out,
        risk=Risk.CONTROL,
    )


def _dense() -> Probe:
    """A fully connected layer with biases."""
    sketch = Sketch()
    sketch.load(11)
    sketch.unpack(FIRST_ROW + 9, 2, 0)
    sketch.scaling(FIRST_ROW + 8, 64)
    sketch.asm(
        f"""
        tile_fence tiles=all idle=all
        mac tiles=r0c0 avdata=@2
            a: 0 [8*4]
            b: {4 * OUT} [16*4]
            c: {4 * FIRST_ROW} [8*4]
            d: 0 [8*0]
            wait: wide_to_scaling>=0+1*i@2
            loops: loops=8
            operands: trained accumulate
            zero_points: c_zero_point=128
            output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale={2.0**-8}"""
        """ maximum=127 minimum=-128 output_zero_point=128 bias_in_memory"""
    )
    sketch.result(OUT, 64)
    w, x = noise(8 * 256, 31), noise(512, 33)
    sums = np.einsum(
        "kj,klj->l",
        x[:32].reshape(8, 4).astype(np.int64),
        w.reshape(8, 64, 4).astype(np.int64) - 128,
    )
    # The bias makes every sum a multiple of the scale and a quarter.
    bias = (64 - sums + 256 * (noise(64, 32).astype(np.int64) - 128)).astype("<i4")
    return probe(
        "control-dense",
        "a fully connected layer",
        "a reduction over consecutive steps, biases from memory before the scale",
        sketch,
        np.concatenate([w, bias.view(np.uint8), x]),
        stage(sums + bias, scale=2.0**-8, minimum=-128, maximum=127, zero=128),
        risk=Risk.CONTROL,
    )


def _halfwords() -> Probe:
    """A sum of products of halfwords and bytes, saturated to 16 bits."""
    sketch = Sketch()
    sketch.load(10)
    sketch.unpack(FIRST_ROW + 8, 2, 0)
    sketch.asm(
        f"""
        mac tiles=r0c0
            a: 0 [8*2]
            b: {4 * OUT} [2*4]
            c: {4 * FIRST_ROW} [8*4]
            d: 0 [8*0] ping(1, 4)
            loops: loops=8
            operands: accumulate a16 idle_multipliers=0,1,1
            output: block_level=2 lanes_last=4 lanes=4 output16 scale=0.125 {_WIDE_OPEN}"""
    )
    sketch.unpack(FIRST_ROW, 2, OUT + 2)
    sketch.result(OUT, 32)
    x = noise(512, 41)
    halves = x[:16].view("<u2").astype(np.int64)
    w = np.zeros((8, 64, 4), np.uint8)
    # What an idle multiplier would take.
    w[:, :4, 1] = 77
    w[:, 0, 0], w[:, 1, 0], w[:, 2, 0], w[:, 3, 0] = 8, 1, 255, noise(8, 42)
    return probe(
        "control-halfwords",
        "products of halfwords and bytes, outputs of 16 bits",
        "two multipliers for an element of 16 bits, saturation at 65,535",
        sketch,
        np.concatenate([w.reshape(-1), x]),
        np.concatenate(
            [
                stage(
                    np.array([int((halves * w[:, lane, 0]).sum()) for lane in range(4)]),
                    scale=0.125,
                    maximum=100000,
                    top=0xFFFF,
                ).view(np.uint8),
                w.reshape(-1)[:24],
            ]
        ),
        risk=Risk.CONTROL,
    )


def _maximum() -> Probe:
    """The largest byte of some rows in every lane."""
    sketch = Sketch()
    sketch.load(6)
    sketch.unpack(FIRST_ROW + 4, 2, OUT)
    sketch.asm(
        f"""
        max tiles=r0c0 parameters=@1
            b: {4 * OUT}
            c: {4 * FIRST_ROW} [4*4] ping(1, 4)
            d: 0 [4*0] ping(1, 4)
            wait: narrow_to_wide>=-8+1*i@1
            loops: loops=4
            operands: accumulate
            output: block_level=1 reduction=0x3 lanes_last=4 lanes=4 scale=1 maximum=255"""
    )
    sketch.result(OUT, 32)
    rows = noise(4 * 256, 51)
    rest = noise(512, 52)
    rows.reshape(4, 64, 4)[:, 0] = [[3, 127, 9, 1], [128, 4, 5, 6], [0, 1, 2, 3], [9, 8, 7, 6]]
    top = rows.reshape(4, 64, 4)[:, :4].max(axis=(0, 2))
    return probe(
        "control-maximum",
        "a maximum over rows of wide memory",
        "elements are unsigned; all four of a lane take part",
        sketch,
        np.concatenate([rows, rest]),
        np.concatenate([top, rest[4:32]]),
        risk=Risk.CONTROL,
    )


# --- partial sums --------------------------------------------------------------------------------


def _partial_sums(
    slug: str,
    steps: int,
    positions: int,
    chunks: int,
    *,
    properties: tuple[str, ...] = (),
    title: str = "partial sums in wide memory, in runs of eight steps",
    settles: str = "sums of a position are kept in wide memory between its runs",
) -> Probe:
    """A convolution over one channel group a chunk, whose sums live in wide memory.

    Args:
        slug: of the probe.
        steps: consecutive steps that add to one row.
        positions: rows of sums.
        chunks: how often each row gets a contribution.
        properties: of published programs, that it leaves.
        title: of the probe.
        settles: of the probe.
    """
    risk = Risk.MEDIUM if properties else Risk.CONTROL
    sketch = Sketch()
    count = steps * chunks
    # Chunks take their weights from two slots in turn.
    rows = 2 * steps * chunks + 1
    sketch.load(rows + 5)
    sketch.unpack(FIRST_ROW + rows + 1, 4, 0)
    sketch.scaling(FIRST_ROW + rows - 1, 64)
    sketch.asm(
        f"""
        tile_fence tiles=all idle=all
        mac tiles=r0c0 avdata=@2 parameters=@2
            a: 0 [{steps}*4 {positions}*4 {chunks}*{4 * steps}]
            b: {4 * OUT} [16*4 {positions}*64]
            c: {4 * FIRST_ROW} [{steps}*4 {positions}*0 {chunks}*{4 * steps}] ping(2, {4 * count})
            d: {4 * 0x500} [{steps}*0 {positions}*4 {chunks}*0]
            wait: ring_read_b>=-9+1*i@2
            wait: wide_to_scaling>=0+1*i@3
            loops: loops={steps},{positions},{chunks}
            operands: trained
            zero_points: c_zero_point=128
            output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale={_UNEVEN}"""
        """ maximum=127 minimum=-128 output_zero_point=128 bias_in_memory"""
    )
    sketch.result(OUT, 64 * positions)
    w = noise(2 * count * 256, 61).reshape(2, count, 64, 4)
    bias = (noise(64, 62).astype("<i4") - 128) * 1024
    x = noise(1024, 63)
    return probe(
        slug,
        title,
        settles,
        sketch,
        np.concatenate([w.reshape(-1), bias.view(np.uint8), np.zeros(256, np.uint8), x]),
        _convolved(w, bias, x, steps, positions),
        risk=risk,
        properties=properties,
    )


def _convolved(w: Array, bias: Array, x: Array, steps: int, positions: int) -> Array:
    """Outputs of a convolution with partial sums, uint8[positions, 64].

    Args:
        w: uint8[2, steps of all chunks, 64, 4], of which chunks take the two slots in turn.
        bias: int32[64].
        x: uint8[n].
        steps: steps of a chunk.
        positions: positions.
    """
    out = np.zeros((positions, 64), np.uint8)
    for position in range(positions):
        acc = bias.astype(np.int64)
        for step in range(w.shape[1]):
            own = w[step // steps & 1, step].astype(np.int64) - 128
            at = 4 * (step + position)
            acc = acc + own @ x[at : at + 4].astype(np.int64)
        out[position] = stage(acc, scale=_UNEVEN, minimum=-128, maximum=127, zero=128)
    return out


# --- rules of the output stage -------------------------------------------------------------------


def _towards(mode: str, acc: Array, scale: float, zero: int) -> Array:
    """Outputs of a device that rounds halves another way, uint8."""
    y = acc * scale
    rounded = {
        "halves up": np.floor(y + 0.5),
        "halves down": np.ceil(y - 0.5),
        "halves away from zero": np.sign(y) * np.floor(np.abs(y) + 0.5),
        "halves towards zero": np.sign(y) * np.ceil(np.abs(y) - 0.5),
        "no rounding": np.trunc(y),
    }
    return np.asarray(np.clip(rounded[mode] + zero, 0, 255).astype(np.uint8))


_MODES = (
    "halves up",
    "halves down",
    "halves away from zero",
    "halves towards zero",
    "no rounding",
)


def rules() -> Iterator[Probe]:
    """What the output stage is assumed to do."""
    yield from _rounding()
    yield from _limits()
    yield _lanes()
    yield from _precision()
    yield from _functions()
    yield from _resizes()


def _rounding() -> Iterator[Probe]:
    signed = _RAMP.astype(np.int64) - 128
    yield probe(
        "round-ties",
        "outputs exactly between two integers",
        "whether the output stage rounds halves to even",
        _pointwise(
            "scale=0.5 maximum=127 minimum=-128 output_zero_point=128",
            zero_points="a_zero_point=128",
        ),
        _rows(identity(), _RAMP),
        stage(signed, scale=0.5, minimum=-128, maximum=127, zero=128),
        alternatives={mode: _towards(mode, signed, 0.5, 128) for mode in _MODES},
    )
    thirds = np.where(_RAMP % 4 == 2, _RAMP + 1, _RAMP).astype(np.uint8)
    yield probe(
        "round-nearest",
        "outputs near an integer, but not exactly half",
        "whether the output stage rounds to the nearest integer",
        _pointwise("scale=0.25 maximum=255"),
        _rows(identity(), thirds),
        stage(thirds.astype(np.int64), scale=0.25),
        alternatives={"no rounding": (thirds // 4).astype(np.uint8)},
    )
    yield probe(
        "zero-point-after-rounding",
        "an odd zero point after a half",
        "whether the zero point is added after rounding",
        _pointwise("scale=0.5 maximum=200 output_zero_point=1"),
        _rows(identity(), _RAMP),
        stage(_RAMP.astype(np.int64), scale=0.5, maximum=200, zero=1),
        alternatives={
            "added before rounding": np.rint(_RAMP * 0.5 + 1).astype(np.uint8),
            "halves up": np.floor(_RAMP * 0.5 + 0.5 + 1).astype(np.uint8),
        },
    )


def _limits() -> Iterator[Probe]:
    signed = _RAMP.astype(np.int64) - 128
    yield probe(
        "clamp",
        "a clamp with limits that are not integers",
        "whether both limits are applied before rounding",
        _pointwise("scale=1 maximum=200.6 minimum=10.3"),
        _rows(identity(), _RAMP),
        stage(_RAMP.astype(np.int64), minimum=10.3, maximum=200.6),
    )
    yield probe(
        "saturation",
        "outputs beyond a byte",
        "whether outputs saturate at 0 and 255",
        _pointwise(f"scale=3 {_WIDE_OPEN} output_zero_point=128", zero_points="a_zero_point=128"),
        _rows(identity(), _RAMP),
        stage(signed, scale=3, minimum=-100000, maximum=100000, zero=128),
        alternatives={"wraps": (signed * 3 + 128 & 255).astype(np.uint8)},
    )
    odd = (_RAMP // 4 * 4 + 1).astype(np.uint8)
    yield probe(
        "constant-before-scale",
        "the constant of an instruction",
        "whether the constant is added to the sum, before the scale",
        _pointwise("scale=0.25 maximum=255 constant=36"),
        _rows(identity(), odd),
        stage(odd.astype(np.int64), scale=0.25, constant=36),
        alternatives={"added after the scale": np.rint(odd * 0.25 + 36).astype(np.uint8)},
    )
    yield probe(
        "negative-constant",
        "a negative constant, and a factor that is negative",
        "whether constant and scale are signed",
        _pointwise("scale=-1 maximum=255 constant=-200"),
        _rows(identity(), _RAMP),
        stage(_RAMP.astype(np.int64), scale=-1, constant=-200),
    )


def _lanes() -> Probe:
    row = noise(256, 71)
    lanes = [tuple(3 * (lane == k) + (lane > 3) for k in range(4)) for lane in range(6)]
    factors = np.array(lanes, np.int64)
    out = np.zeros((64, 8), np.uint8)
    out[:, :6] = stage(row.reshape(64, 4).astype(np.int64) @ factors.T, scale=0.25 + 2.0**-9)
    return probe(
        "lane-padding",
        "six lanes in two words",
        "whether bytes without a lane are zero",
        _pointwise(f"scale={0.25 + 2.0**-9} maximum=255", lanes=6),
        _rows(weights(*lanes), row),
        out.reshape(-1),
    )


def _almost_half() -> tuple[int, float]:
    """A byte and a scale: 255 times their product is a half in float32, and less than one exactly.

    The integer above is even, so that rounding halves to even or away from zero is the same.
    """
    for value in range(100, 256):
        for whole in range(101, 200, 2):
            scale = np.float32((whole + 0.5) / (255 * value))
            exact = 255 * value * float(scale)
            if exact < whole + 0.5 == float(np.float32(255 * value) * scale):
                return value, float(scale)
    raise InternalError("no product of a byte is a half in float32 alone")


def _precision() -> Iterator[Probe]:
    value, scale = _almost_half()
    row = np.full(256, value, np.uint8)
    acc = 255 * row.astype(np.int64)
    yield probe(
        "scale-in-float32",
        "a product that becomes exactly half only in float32",
        "whether sum times scale is rounded to float32 before it is rounded to an integer",
        _pointwise(f"scale={real(scale)} maximum=255"),
        _rows(identity(255), row),
        stage(acc, scale=scale),
        alternatives={"a wider product": np.rint(acc * float(np.float32(scale))).astype(np.uint8)},
    )
    yield from _wide_sums()


def _pairs(fields: str) -> Sketch:
    """A program that multiplies halfwords one by one: 64 of A with those of two rows.

    Inputs are two rows of halfwords, one for each of the two slots, and two rows of data.
    """
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW + 2, 2, 0)
    sketch.asm(
        f"""
        mac tiles=r0c0 parameters=@1
            a: 0 [2*2 32*4]
            b: {4 * OUT} [64*4]
            c: {4 * FIRST_ROW} [2*0 32*0] ping(1, 4)
            d: 0 [64*0] ping(0, 4)
            wait: narrow_to_wide>=-32+1*i@1
            loops: loops=2,32
            operands: accumulate a16 c16
            output: block_level=1 lanes_last=4 lanes=4 {fields}"""
    )
    sketch.result(OUT, 256)
    return sketch


def _halves(x: Array, w: tuple[int, ...]) -> tuple[Array, Array]:
    """Input and sums of a program of pairs: words x times the halfword of each lane."""
    row = np.zeros((64, 2), "<u2")
    row[: len(w), 0] = w
    data = np.zeros(256, "<u2")
    data[: len(x)] = x
    lanes = np.array([*w, *(0 for _ in range(4 - len(w)))], np.int64)
    return (
        np.concatenate([row.view(np.uint8).reshape(-1)] * 2 + [data.view(np.uint8)]),
        data[:64].astype(np.int64)[:, None] * lanes,
    )


def _wide_sums() -> Iterator[Probe]:
    # (m + 1/2) 2^17 - 1 with an odd m rounds to (m + 1/2) 2^17 in float32, and then to m + 1.
    pairs = _factored()
    x = np.array([pair[0] for pair in pairs][:64])
    lanes = tuple(pair[1] for pair in pairs)[:1]
    data, acc = _halves(np.resize(x[:1], 64), lanes)
    yield probe(
        "sum-to-float32",
        "a sum of more than 24 bits",
        "whether sums become float32, rounded to even, before they are scaled",
        _pairs(f"scale={2.0**-17} maximum=255"),
        data,
        stage(acc, scale=2.0**-17),
        alternatives={"a wider product": np.clip(np.rint(acc * 2.0**-17), 0, 255).astype(np.uint8)},
    )
    data, acc = _halves(np.full(64, 65535), (65535, 65535, 32767, 1))
    wrapped = (acc + 2**31) % 2**32 - 2**31
    limited = np.clip(acc, -(2**31), 2**31 - 1)
    yield probe(
        "sum-overflow",
        "a sum beyond 32 bits",
        "what an accumulator does on overflow; the simulator keeps every bit",
        _pairs(f"scale={2.0**-25} maximum=255"),
        data,
        stage(acc, scale=2.0**-25),
        alternatives={
            "wraps": stage(wrapped, scale=2.0**-25),
            "saturates": stage(limited, scale=2.0**-25),
        },
    )


def _factored() -> list[tuple[int, int]]:
    """Two factors of 16 bits of numbers (m + 1/2) 2^17 - 1 with an odd m below 250."""
    found = []
    for m in range(129, 250, 2):
        number = (2 * m + 1) * 2**16 - 1
        found += [
            (number // factor, factor)
            for factor in range(number // 65535 + 1, 2048)
            if number % factor == 0
        ][:1]
    return found


# --- the non-linear unit -------------------------------------------------------------------------

_BREAKPOINTS = (-96.0, -48.0, -16.0, 0.0, 16.0, 48.0, 96.0)
CURVES: tuple[tuple[float, ...], ...] = tuple(
    (1000.25 + 4001.0 * k, 3.0 - k, float(k % 3), 0.0, 0.0) for k in range(8)
)
"""Segments that meet nowhere, so that it can be seen to which one a breakpoint belongs."""

_ENDINGS: tuple[tuple[float, ...], ...] = tuple(
    (13.3 * k - 47.1, 0.31 - 0.07 * k, 0.0003 * k, 0.0, 0.0) for k in range(8)
)
"""The same with values of 8 bits."""


def table(
    curves: tuple[tuple[float, ...], ...],
    breaks: tuple[float, ...] = _BREAKPOINTS,
    tiles: str = "r0c0",
) -> str:
    """A table of the non-linear unit as assembly text, with its fences."""
    return (
        "tile_fence tiles=all set=avdata+parameters+partial_sums idle=op\n"
        f"nlu_table tiles={tiles}\n"
        + "".join(f"    coefficients: {','.join(map(real, curve))}\n" for curve in curves)
        + f"    breakpoints: breakpoints={','.join(map(real, breaks))}\n"
        + "tile_fence tiles=all idle=op"
    )


def _applied(x: Array, curves: tuple[tuple[float, ...], ...], breaks: tuple[float, ...]) -> Array:
    """What a table makes of numbers, with 16 bits."""
    found = np.rint(_horner(x, curves, breaks))
    return np.asarray(np.clip(found, 0, 0xFFFF).astype(np.uint16))


def _horner(x: Array, curves: tuple[tuple[float, ...], ...], breaks: tuple[float, ...]) -> Array:
    """Horner's rule in float32, without fused operations; an independent formula."""
    rows = np.array(curves, np.float32)
    x = x.astype(np.float32)
    # A breakpoint belongs to the segment above.
    rows = rows[(x[..., None] >= np.array(breaks, np.float32)).sum(axis=-1)]
    y = rows[..., 4]
    for k in (3, 2, 1, 0):
        y = y * x + rows[..., k]
    return np.asarray(y)


def _curved(
    curves: tuple[tuple[float, ...], ...],
    fields: str,
    breaks: tuple[float, ...] = _BREAKPOINTS,
) -> Sketch:
    """A program that applies a table to the bytes of a row, less 128, with 16-bit outputs."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(table(curves, breaks))
    sketch.asm(
        f"""
        mac tiles=r0c0 avdata=@2 parameters=@0
            a: {ROW_BYTES} [4*4 4*16 4*64]
            b: {4 * OUT} [2*4 4*8 16*32]
            c: {4 * FIRST_ROW} [64*0]
            d: 0 [64*0] ping(0, 4)
            wait: narrow_to_wide>=-64+1*i@1
            loops: loops=64
            operands: accumulate
            zero_points: a_zero_point=128
            output: lanes_last=4 lanes=4 nlu output16 {fields}"""
    )
    sketch.result(OUT, 512)
    return sketch


def _functions() -> Iterator[Probe]:
    signed = _RAMP.astype(np.int64) - 128
    yield probe(
        "table-breakpoints",
        "arguments on the breakpoints of a table",
        "whether a breakpoint belongs to the segment above it",
        _curved(CURVES, f"scale=1 {_WIDE_OPEN}"),
        _rows(identity(), _RAMP),
        _applied(signed, CURVES, _BREAKPOINTS),
    )
    off = np.where(np.isin(signed, _BREAKPOINTS), _RAMP + 1, _RAMP).astype(np.uint8)
    inner = np.clip(off.astype(np.int64) - 128, -90, 90)
    yield probe(
        "table-after-clamp",
        "a table after a clamp",
        "whether the clamp limits the argument, and not the result",
        _curved(CURVES, "scale=1 maximum=90 minimum=-90"),
        _rows(identity(), off),
        _applied(inner, CURVES, _BREAKPOINTS),
    )
    sketch, data, out = _blocks(function=True)
    yield probe(
        "table-after-sums",
        "a convolution that ends with a table",
        "whether the table takes what sums, biases and scales give, before anything is rounded",
        sketch,
        data,
        out,
        form="mac loops=3 a=4 b=3/part2 c=3 d=3/ping1 avdata=@2 parameters=@2"
        " wait=ring_read_b+@2&wide_to_scaling+@2 trained=1 write=1 accumulate=1"
        " zero_points_in_memory=1 block_level=2 reduction=0x1 lanes_last=n lanes=all nlu=1"
        " bias_in_memory=1 scale_in_memory=1",
    )
    steep, x = _steep()
    yield probe(
        "table-in-float32",
        "polynomials with terms far larger than their sum",
        "whether every step of Horner's rule is rounded to float32",
        _curved(steep, f"scale=0.73 {_WIDE_OPEN}"),
        _rows(identity(), np.resize(x, 256)),
        _applied(
            (np.resize(x, 256).astype(np.float32) - 128) * np.float32(0.73), steep, _BREAKPOINTS
        ),
    )
    yield _root()


def _steep() -> tuple[tuple[tuple[float, ...], ...], Array]:
    """Lines of products near 2^24 that cancel, and a byte in each segment where they do."""
    slope = np.float32(300000.7)
    x = np.array([30, 50, 90, 115, 140, 160, 220], np.uint8)
    arguments = (x.astype(np.float32) - 128) * np.float32(0.73)
    curves = [(0.0, 0.0, 0.0, 0.0, 0.0)] * 8
    for argument in arguments.astype(np.float64):
        segment = sum(argument >= bound for bound in _BREAKPOINTS)
        curves[segment] = (float(30000 - slope * argument), float(slope), 0.0, 0.0, 0.0)
    return tuple(curves), x


def _root() -> Probe:
    """Sums of halfwords with the reciprocal root of published programs."""
    sketch = Sketch()
    sketch.load(8)
    sketch.unpack(FIRST_ROW + 4, 4, 0)
    # On [1, 4): a line for every segment is enough to see which m and which power is taken.
    curves: tuple[tuple[float, ...], ...] = tuple(
        (20000.25 - 1000 * k, -500.0, 0, 0, 0) for k in range(8)
    )
    breaks = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5)
    sketch.asm(table(curves, breaks))
    sketch.asm(
        f"""
        sum tiles=r0c0 parameters=@1
            b: {4 * OUT} [8*4]
            c: {4 * FIRST_ROW} [2*4 2*0] ping(1, 8)
            d: 0 [4*0] ping(1, 4)
            wait: narrow_to_wide>=-8+1*i@1
            loops: loops=2,2
            operands: accumulate c16
            output: block_level=1 reduction=0x3 lanes_last=16 lanes=16 scale={2.0**-9} nlu"""
        f""" nlu_rsqrt output16 {_WIDE_OPEN}"""
    )
    sketch.result(OUT, 32)
    # Lanes 0 to 15 sum to powers of two and what lies between.
    wanted = np.array([2**k for k in range(9, 17)] + [3 * 2**k for k in range(8, 16)], np.int64)
    rows = np.zeros((4, 64, 2), "<u2")
    for lane, number in enumerate(wanted):
        parts = [number // 4] * 3 + [number - number // 4 * 3]
        for row, part in enumerate(parts):
            rows[row, lane] = (part // 2, part - part // 2)
    y = (wanted * 2.0**-9).astype(np.float32)
    power = np.floor(np.log2(y) / 2)
    m = (y * 4.0**-power).astype(np.float32)
    out = _rooted(m, power, curves, breaks)
    return probe(
        "table-reciprocal-root",
        "a table for reciprocal roots",
        "whether the argument is m * 4^e with m from 1 to 4, and the result f(m) / 2^e",
        sketch,
        np.concatenate([rows.reshape(-1).view(np.uint8), noise(1024, 81)]),
        out,
    )


def _rooted(
    m: Array, power: Array, curves: tuple[tuple[float, ...], ...], breaks: tuple[float, ...]
) -> Array:
    rows = np.array(curves, np.float32)
    rows = rows[(m[:, None] >= np.array(breaks, np.float32)).sum(axis=1)]
    value = rows[:, 1] * m + rows[:, 0]
    codes = np.rint(value * (2.0**-power).astype(np.float32))
    return np.asarray(np.clip(codes, 0, 0xFFFF).astype(np.uint16))


# --- what published programs keep to -------------------------------------------------------------


def properties() -> Iterator[Probe]:
    """Sums and operations that no published program has that way."""
    yield _partial_sums(
        "single-step-sums",
        1,
        16,
        3,
        properties=("partial-sum-run",),
        title="partial sums in runs of a single step",
        settles="whether a row of sums may be left after one step",
    )
    yield _partial_sums(
        "early-sums",
        1,
        2,
        3,
        properties=("partial-sum-run", "partial-sum-revisit"),
        title="partial sums that reuse their row after two steps",
        settles="whether a sum is available when its row is reused at once",
    )
    yield _partial_sums(
        "short-sums",
        4,
        4,
        3,
        properties=("partial-sum-run",),
        title="partial sums in runs of four steps",
        settles="whether runs of fewer than eight steps add up",
    )
    yield _self_read()


def _self_read() -> Probe:
    """A copy that reads words which it has written, with weights of zero."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    # Lanes 0 and 1 take elements 0 and 1; the words read are those written two steps before.
    sketch.asm(
        f"""
        mac tiles=r0c0
            a: {ROW_BYTES} [2*0 32*4]
            b: {ROW_BYTES + 4} [64*4]
            c: {4 * FIRST_ROW} [2*0 32*0]
            d: 0 [64*0] ping(0, 4)
            loops: loops=2,32
            operands: accumulate
            output: lanes_last=4 lanes=4 scale=1 maximum=255 constant=7"""
    )
    sketch.result(64, 256)
    row = noise(256, 91)
    return probe(
        "self-read",
        "an operation that reads words that it writes",
        "whether writes arrive if the same operation reads there (values do not matter)",
        sketch,
        _rows(weights(), row),
        np.concatenate([row[:4], np.full(252, 7, np.uint8)]),
        risk=Risk.MEDIUM,
        properties=("self-read",),
    )


_DEPTH = 8
"""Channels of images that are resized: published programs have groups of four, and several."""

_RESIZED = 8
"""Rows and columns of the results of resizing; half as many, and one more, are read."""


def _resizes() -> Iterator[Probe]:
    """Images of twice the size, as published programs make them."""
    extent = _RESIZED // 2 + 1
    image = noise(_DEPTH * extent * extent, 61).reshape(extent, extent, _DEPTH)
    even = image & 0xF0
    yield probe(
        "resize-nearest",
        "nearest-neighbour resizing to twice the size",
        "whether resizing selects the pixel given by the fields",
        _resize("nearest", 1, start=33, scale=1.0),
        _rows(image.reshape(-1)),
        _nearest(image),
    )
    exact, _ = _bilinear(even)
    yield probe(
        "resize-bilinear",
        "bilinear resizing without exact halves",
        "whether resizing weights pixels as given by the fields",
        _resize("", 2, start=32, scale=2.0**-14),
        _rows(even.reshape(-1)),
        exact,
    )
    to_even, up = _bilinear(image)
    yield probe(
        "resize-halves",
        "bilinear resizing with exact halves",
        "how resizing rounds exact halves",
        _resize("", 2, start=32, scale=2.0**-14),
        _rows(image.reshape(-1)),
        to_even,
        alternatives={"halves up": up},
    )


def _resize(flag: str, taps: int, *, start: int, scale: float) -> Sketch:
    """A program that resizes the image in the first rows."""
    extent, size = _RESIZED // 2 + 1, _RESIZED
    ping = "ping(1, 4)" if taps > 1 else "ping(0, 4)"
    groups, row = _DEPTH // 4, _DEPTH * extent
    outputs = groups * size * size
    steps = f"[4*0 {outputs}*0]" if taps > 1 else f"[{outputs}*0]"
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        f"""
        resize tiles=r0c0
            a: 0 [{taps}*{_DEPTH} {taps}*{row} {size}*0 {size}*0 1*{row * extent} {groups}*4]
            b: {4 * OUT} [1*4 {size}*{_DEPTH} {size}*{_DEPTH * size} 1*{4 * outputs} {groups}*4]
            d: 0 {steps} {ping}
            loops: loops={taps},{taps},{size},{size},1,{groups}
            operands: accumulate c16 idle_multipliers=0,1,1
            output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale={real(scale)} """
        f"x_loop=2 x_start={start} x_step=64 y_loop=3 y_start={start} y_step=64 "
        f"x_pitch={_DEPTH} y_pitch={row} {flag}"
    )
    sketch.result(OUT, 4 * outputs)
    return sketch


def _nearest(image: Array) -> Array:
    """Pixels of an image of twice the size, uint8[8, 8, 8]; the first one covers half a pixel."""
    source = (np.arange(_RESIZED) + 1) // 2
    return np.asarray(image[source][:, source])


def _bilinear(image: Array) -> tuple[Array, Array]:
    """The same between pixels, with exact halves rounded to even and up, uint8[8, 8, 8]."""
    place = 0.25 + 0.5 * np.arange(_RESIZED)
    low, part = place.astype(np.int64), place % 1
    rows = image[low] * (1 - part)[:, None, None] + image[low + 1] * part[:, None, None]
    found = rows[:, low] * (1 - part)[:, None] + rows[:, low + 1] * part[:, None]
    return np.rint(found).astype(np.uint8), np.floor(found + 0.5).astype(np.uint8)
