"""Instructions of the op engine: tensor operations and the table of the non-linear unit."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.bits import Count, Flag, Float32, Optional, Series, Signed, Unsigned, bits
from fitzroy.hw_models.isa.fields import (
    LIKELY,
    OP_WATCHER,
    UNKNOWN,
    Opcode,
    Producer,
    ProducerCodec,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import TileInstruction, operation
from fitzroy.hw_models.isa.traversal import BYTES, QUARTERS, Traversal


@dataclass(frozen=True, slots=True)
class _Loops(TileInstruction):
    """Loops, operands and synchronization of a tensor operation."""

    width = 17 * 128
    unit = "op engine"

    loops: tuple[int, ...] = bits(
        62, Series(Count(14), 8), "iterations of the loops, innermost first", group="loops"
    )
    loop_part: int = bits(
        174, Count(14), "iterations of loop 0 in its partial last chunk", group="loops"
    )
    loop_part_dim: int = bits(
        188, Unsigned(3), "loop that has a partial last chunk; 0 for none", group="loops"
    )
    a: Traversal | None = bits(
        191, Optional(BYTES), "activations in narrow memory; steps with the loops", unit="byte"
    )
    b: Traversal | None = bits(574, Optional(BYTES), "output words in narrow memory", unit="byte")
    c: Traversal | None = bits(
        957,
        Optional(QUARTERS),
        "weights in wide memory: row = address >> 2, address & 3 = byte of every 4-byte lane; "
        "steps with the loops",
        unit="quarter row",
    )
    d: Traversal | None = bits(
        1260, Optional(QUARTERS), "accumulators or partial sums", unit="quarter row"
    )
    avdata: Producer | None = bits(
        1563, ProducerCodec(3), "AVDATA += 1 per completed iteration of this level of b"
    )
    parameters: Producer | None = bits(
        1568, ProducerCodec(3), "PARAMETERS += 1 per completed iteration of this level of c"
    )
    wait: tuple[Watcher | None, ...] = bits(
        1578, Series(OP_WATCHER, 6), "wait conditions; the level counts loops"
    )


@dataclass(frozen=True, slots=True)
class _Operands(_Loops):
    """Operand formats and zero points."""

    trained: bool = bits(
        1843,
        Flag(),
        "c holds trained weights; no numeric effect",
        group="operands",
        evidence=LIKELY,
    )
    write: bool = bits(
        1844, Flag(), "set in all instances", default=True, group="operands", evidence=UNKNOWN
    )
    accumulate: bool = bits(
        1845,
        Flag(),
        "a reduction is a run of consecutive steps, kept in accumulators; otherwise partial sums "
        "live in wide memory at d",
        group="operands",
    )
    a16: bool = bits(1846, Flag(), "elements of a have 16 bits", group="operands")
    c16: bool = bits(1847, Flag(), "elements of c have 16 bits", group="operands")
    idle_multipliers: tuple[bool, ...] = bits(
        1850,
        Series(Flag(), 3),
        "multipliers 1, 2, 3 of the 4 of a lane that are off; elements per step = multipliers on "
        "/ (bytes of an element of a * of c)",
        group="operands",
    )
    zero_points_in_memory: bool = bits(
        1853, Flag(), "zero points of c come from wide memory", group="zero_points"
    )
    c_zero_point: int = bits(1854, Unsigned(16), "zero point of c", group="zero_points")
    a_zero_point: int = bits(1870, Unsigned(16), "zero point of a", group="zero_points")
    zero_point_last: int = bits(
        1886, Unsigned(12), "last row of zero points", unit="wide row", group="zero_points"
    )
    zero_point_step: int = bits(
        1898,
        Unsigned(12),
        "rows from one output block's zero points to the next",
        unit="wide row",
        group="zero_points",
    )
    zero_point_base: int = bits(
        1910,
        Unsigned(12),
        "row with the uint32[64] zero points of output block 0",
        unit="wide row",
        group="zero_points",
    )
    block_level: int = bits(
        1923,
        Unsigned(3),
        "loops >= this one that are not reductions enumerate blocks of output channels",
        group="output",
    )
    reduction: int = bits(
        1926,
        Unsigned(8, hexadecimal=True),
        "mask of the loops that are summed over",
        group="output",
    )
    lanes_last: int = bits(1934, Count(6), "lanes of the last output block", group="output")
    lanes: int = bits(1940, Count(6), "lanes of all other output blocks", group="output")
    nlu: bool = bits(1946, Flag(), "apply the non-linear table after the clamp", group="output")
    nlu_rsqrt: bool = bits(
        1947,
        Flag(),
        "range reduction x = m * 4^e, m in [1, 4): the result is f(m) * 2^-e",
        group="output",
        evidence=LIKELY,
    )
    output16: bool = bits(1948, Flag(), "outputs have 16 bits", group="output")
    scale: float = bits(1949, Float32(), "factor of the accumulator", group="output")


@dataclass(frozen=True, slots=True)
class _Output(_Operands):
    """What comes from scaling memory."""

    bias_in_memory: bool = bits(
        2093, Flag(), "add an int32 bias per lane from scaling memory", group="output"
    )
    scale_in_memory: bool = bits(
        2094, Flag(), "scale per lane from scaling memory; `scale` is 1 then", group="output"
    )
    nlu_odd: int = bits(
        2095,
        Unsigned(2),
        "3: the function is odd, f(-x) = -f(x)",
        group="output",
        evidence=LIKELY,
    )


@dataclass(frozen=True, slots=True)
class TensorOp(_Output):
    """Multiply-accumulate, maximum or sum over up to eight loops, with an output stage."""

    op: Opcode = operation(Opcode.MAC, Opcode.MAX, Opcode.SUM)
    maximum: float = bits(1981, Float32(), "upper clamp before rounding", group="output")
    minimum: float = bits(2013, Float32(), "lower clamp before rounding", group="output")
    constant: int = bits(2045, Signed(32), "added to every accumulator", group="output")
    output_zero_point: int = bits(2077, Unsigned(16), "added after rounding", group="output")


RESIZE_PIXEL = 128
"""Parts of a pixel in which positions of RESIZE are counted."""


@dataclass(frozen=True, slots=True)
class Resize(_Operands):
    """Resizing of an image, bilinear or to the nearest pixel, by a factor of two.

    Position p of an axis is start + step * iteration of its loop, in 1/128 pixel. Bilinear, loops
    0 and 1 are the two columns and rows of a pixel's neighbours, and byte l of operand a is
    multiplied by (128 - fraction) or fraction of both axes for lane l; nearest, it is copied from
    pixel (p + 64) >> 7. Everything that is inferred here comes from published programs and their
    source models; no device has shown it. There is no bias.
    """

    op: Opcode = operation(Opcode.RESIZE)
    x_loop: int = bits(
        1981,
        Unsigned(3),
        "loop that counts positions of x; 2 in all instances",
        group="output",
        evidence=LIKELY,
    )
    x_start: int = bits(
        1984,
        Unsigned(8),
        "x of the first output, from the base of a",
        unit="1/128 pixel",
        group="output",
        evidence=LIKELY,
    )
    x_step: int = bits(
        1992,
        Unsigned(21),
        "x from one output to the next; 64 in all instances",
        unit="1/128 pixel",
        group="output",
        evidence=LIKELY,
    )
    y_loop: int = bits(
        2013,
        Unsigned(3),
        "loop that counts positions of y; 3 in all instances",
        group="output",
        evidence=LIKELY,
    )
    y_start: int = bits(
        2016,
        Unsigned(8),
        "y of the first output, from the base of a",
        unit="1/128 pixel",
        group="output",
        evidence=LIKELY,
    )
    y_step: int = bits(
        2024,
        Unsigned(21),
        "y from one output to the next; 64 in all instances",
        unit="1/128 pixel",
        group="output",
        evidence=LIKELY,
    )
    x_pitch: int = bits(
        2045, Unsigned(32), "from a pixel of the input to the next", unit="byte", group="output"
    )
    y_pitch: int = bits(
        2077, Unsigned(16), "from a row of the input to the next", unit="byte", group="output"
    )
    nearest: bool = bits(
        2093,
        Flag(),
        "take the nearest pixel; bilinear otherwise",
        group="output",
        evidence=LIKELY,
    )
    scale_in_memory: bool = bits(
        2094, Flag(), "off in all instances", group="output", evidence=UNKNOWN
    )
    nlu_odd: int = bits(2095, Unsigned(2), "0 in all instances", group="output", evidence=UNKNOWN)


@dataclass(frozen=True, slots=True)
class NluTable(TileInstruction):
    """Loads the non-linear function: eight segments of polynomials of degree four.

    f(x) = c0 + c1 x + ... + c4 x^4 with the coefficients of segment s, the number of breakpoints
    <= x.
    """

    width = 13 * 128
    unit = "op engine"

    op: Opcode = operation(Opcode.NLU_TABLE)
    coefficients: tuple[tuple[float, ...], ...] = bits(
        62, Series(Series(Float32(), 5), 8), "c0 to c4 of segments 0 to 7", group="coefficients"
    )
    breakpoints: tuple[float, ...] = bits(
        1342, Series(Float32(), 7), "ascending; infinity allowed", group="breakpoints"
    )
    constant3: int = bits(1566, Unsigned(2), "3 in all instances", default=3, evidence=UNKNOWN)
