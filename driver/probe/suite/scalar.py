"""Probes of the scalar core: arithmetic, memory, the special unit and loops."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fitzroy.base.bits import Float32
from fitzroy.base.types import Array
from fitzroy.driver.probe.probe import Probe, Risk, probe
from fitzroy.driver.probe.program import Sketch

_RESULTS = ("s0", "s1", "s2", "s3", "s12", "s13", "s14", "s15")
"""Registers whose words are the output; descriptors use others."""

_LATENCY = 3
"""Empty bundles after a load or a special function, as published programs have at least."""

_REST = 16
"""Empty bundles after a special function, with which published programs never meet a busy unit."""


def _word(value: float) -> int:
    """A float32 as a word."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _pushed(sketch: Sketch, *, name: str = "y") -> None:
    """Send the eight results to an output."""
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", name, 4 * len(_RESULTS))
    for register in _RESULTS:
        sketch.asm(f"push {register}")


def _scalar(
    slug: str,
    title: str,
    settles: str,
    body: str,
    words: Sequence[int],
    *,
    risk: Risk = Risk.LOW,
    form: str = "",
    properties: tuple[str, ...] = (),
    alternatives: Mapping[str, Sequence[int]] | None = None,
) -> Probe:
    """A probe whose answer is eight words that scalar bundles make."""
    sketch = Sketch()
    sketch.asm(body)
    sketch.gap(_LATENCY)
    _pushed(sketch)
    return probe(
        slug,
        title,
        settles,
        sketch,
        {},
        _words(words),
        risk=risk,
        form=form,
        properties=properties,
        alternatives={rule: _words(other) for rule, other in (alternatives or {}).items()},
    )


def _words(values: Sequence[int]) -> Array:
    return np.array([value & 0xFFFFFFFF for value in values], "<u4")


def controls() -> Iterator[Probe]:
    """Bundles that published programs have."""
    yield _scalar(
        "control-integers",
        "integers of the scalar core",
        "words pushed by the scalar core reach the host; integer operations",
        """
        mov s5, 0x12345678
        mov s6, 0x0f0f00ff
        add s0, s5, 0x80000001
        sub s1, s5, s6
        and s2, s5, s6
        or s3, s5, s6
        xor s12, s5, s6
        mov s7, 9
        shl s13, s5, s7
        mov s8, 0x87654321
        shr s14, s8, 7
        mov s15, s6""",
        [
            0x12345678 + 0x80000001,
            0x12345678 - 0x0F0F00FF,
            0x12345678 & 0x0F0F00FF,
            0x12345678 | 0x0F0F00FF,
            0x12345678 ^ 0x0F0F00FF,
            0x12345678 << 9,
            0x87654321 >> 7,
            0x0F0F00FF,
        ],
        risk=Risk.CONTROL,
    )
    yield _loop()


def _loop() -> Probe:
    """A loop over memory that reads and pushes in one bundle."""
    sketch = Sketch()
    for number in range(9):
        sketch.asm(f"mov s7, {0x01010101 * number + 5}")
        sketch.asm(f"mov s6, {0x40 + number}")
        sketch.gap(_LATENCY)
        sketch.asm("store [s6], s7")
        sketch.gap(_LATENCY)
    sketch.asm("scalar_fence idle=pipeline")
    sketch.asm("mov s6, 0x40\nload s12, [s6]+=1")
    sketch.gap(_LATENCY)
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", "y", 64)
    # s6 is used by descriptors.
    sketch.asm(
        """
        mov s6, 0x41
        loop target=L0 count=8
        load s12, [s6]+=1 | push s12
        nop
        push s12
        L0:
        nop"""
    )
    words = [0x01010101 * number + 5 for number in range(9)]
    out = [word for k in range(8) for word in (words[k], words[k + 1])]
    return probe(
        "control-loop",
        "a loop that loads a register and pushes its previous value",
        "loops repeat bundles; a bundle reads before it writes; stores, loads and increments",
        sketch,
        {},
        _words(out),
        risk=Risk.CONTROL,
    )


def rules() -> Iterator[Probe]:
    """What is assumed of the scalar core."""
    yield _compares()
    yield from _floats()
    yield from _special()


def _compares() -> Probe:
    values = (3, -3, 0x7FFFFFFF, -0x80000000)
    body = "mov s7, 0\n" + "\n".join(
        f"""
        mov s{register}, 0
        mov s5, {value & 0xFFFFFFFF}
        lt p{k}, s5, 2
        nop
        nop
        (p{k}) add s{register}, s{register}, 1
        eq p{4 + k}, s5, {value & 0xFFFFFFFF}
        nop
        nop
        (p{4 + k}) add s{register}, s{register}, 2"""
        for k, (register, value) in enumerate(zip((0, 1, 2, 3), values, strict=True))
    )
    rest = "\n".join(f"mov s{register}, s7" for register in (12, 13, 14, 15))
    return _scalar(
        "signed-compare",
        "comparisons of positive and negative words",
        "whether words are compared as signed numbers",
        body + "\n" + rest,
        [2, 3, 2, 3, 0, 0, 0, 0],
        alternatives={"unsigned": [2, 2, 2, 2, 0, 0, 0, 0]},
    )


def _floats() -> Iterator[Probe]:
    yield _scalar(
        "float-to-integer",
        "floats between two integers",
        "whether conversion to integers rounds to nearest, halves to even",
        "\n".join(
            f"mov s5, {_word(value)}\nf2i {register}, s0, s5"
            for register, value in zip(
                _RESULTS, (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.75, -2.75), strict=True
            )
        ),
        [0, 2, 2, 0, -2, -2, 3, -3],
        alternatives={
            "towards zero": [0, 1, 2, 0, -1, -2, 2, -2],
            "halves away from zero": [1, 2, 3, -1, -2, -3, 3, -3],
            "halves up": [1, 2, 3, 0, -1, -2, 3, -3],
            "down": [0, 1, 2, -1, -2, -3, 2, -3],
        },
    )
    yield _scalar(
        "integer-to-float",
        "integers of more than 24 bits",
        "whether conversion to floats rounds halves to even",
        "\n".join(
            f"mov s5, {value & 0xFFFFFFFF}\ni2f {register}, s0, s5"
            for register, value in zip(_RESULTS, _INTEGERS, strict=True)
        ),
        [_word(float(np.float32(value))) for value in _INTEGERS],
        alternatives={
            "towards zero": [_word(_towards_zero(value)) for value in _INTEGERS],
        },
    )
    yield _float_products()
    yield _subnormals()


def _float_products() -> Probe:
    one = 1.0 + 2.0**-23
    cases = ((one, 1.5), (one, one), (3.0, 1 / 3))
    products = [float(np.float32(a) * np.float32(b)) for a, b in cases]
    return _scalar(
        "float-products",
        "products and sums of floats",
        "whether results are rounded to the nearest float32",
        "\n".join(
            f"mov s5, {_word(a)}\nfmul {register}, s5, {Float32().text(b)}f"
            for register, (a, b) in zip(_RESULTS[:3], cases, strict=True)
        )
        + f"""
        mov s5, {_word(one)}
        mov s6, {_word(2.0**-24)}
        fadd s3, s5, s6
        fsub s12, s5, s6
        fmax s13, s5, s6
        fmin s14, s5, 0.25f
        fmul s15, s5, s6""",
        [
            *map(_word, products),
            _word(float(np.float32(one) + np.float32(2.0**-24))),
            _word(float(np.float32(one) - np.float32(2.0**-24))),
            _word(one),
            _word(0.25),
            _word(one * 2.0**-24),
        ],
    )


def _subnormals() -> Probe:
    tiny = 2.0**-130
    return _scalar(
        "subnormal-floats",
        "floats below the smallest normal one",
        "whether subnormal numbers are kept",
        f"""
        mov s5, {_word(tiny)}
        fmul s0, s5, 2f
        fmul s1, s5, 1024f
        mov s6, {_word(2.0**-100)}
        fmul s2, s6, {Float32().text(2.0**-30)}f
        mov s3, 0
        mov s12, 0
        mov s13, 0
        mov s14, 0
        mov s15, 0""",
        [_word(2 * tiny), _word(1024 * tiny), _word(2.0**-130), 0, 0, 0, 0, 0],
        alternatives={
            "become zero": [0, 0, 0, 0, 0, 0, 0, 0],
            "results become zero": [0, _word(1024 * tiny), 0, 0, 0, 0, 0, 0],
        },
    )


_INTEGERS = (
    2**24 + 1,
    2**24 + 3,
    2**25 + 2,
    2**25 + 6,
    -(2**24) - 1,
    -(2**24) - 3,
    2**31 - 1,
    -(2**31),
)


def _towards_zero(value: int) -> float:
    """The float32 next to an integer on the side of zero."""
    found = np.float32(value)
    if abs(int(found)) > abs(value):
        found = np.nextafter(found, np.float32(0))
    return float(found)


_POWERS = (0.0, 1.0, -1.0, 0.5, -3.25, 7.125, -20.6, 0.1)
_DIVISORS = (1.0, 3.0, -7.0, 0.1, 255.0, 1.5, 1e20, 1e-20)


def _special() -> Iterator[Probe]:
    for name, values, exact, what in (
        ("exp2", _POWERS, np.exp2, "2^x"),
        ("reciprocal", _DIVISORS, np.reciprocal, "1/x"),
    ):
        body = "\n".join(
            "\n".join([f"mov s5, {_word(value)}", f"{name} {register}, s5", *["nop"] * _REST])
            for register, value in zip(_RESULTS, values, strict=True)
        )
        results = exact(np.array(values, np.float32).astype(np.float64)).astype(np.float32)
        down = [_word(_down(float(exact(np.float64(np.float32(value)))))) for value in values]
        yield _scalar(
            f"special-{name}",
            f"{what} of eight floats",
            f"whether {what} is the nearest float32",
            body,
            [_word(float(value)) for value in results],
            alternatives={"rounded towards zero": down},
        )


def _down(value: float) -> float:
    found = np.float32(value)
    if abs(float(found)) > abs(value):
        found = np.nextafter(found, np.float32(0))
    return float(found)


def properties() -> Iterator[Probe]:
    """Orders of bundles that no published program has."""
    powers = "\n".join(
        f"exp2 {register}, s{16 + k}" + "\nnop" for k, register in enumerate(_RESULTS)
    )
    moves = "\n".join(f"mov s{16 + k}, {_word(value)}" for k, value in enumerate(_POWERS))
    exact = np.exp2(np.array(_POWERS, np.float32).astype(np.float64)).astype(np.float32)
    yield _scalar(
        "close-powers",
        "a power of two every second bundle",
        "whether the special unit accepts an operand every second bundle",
        moves + "\nnop\n" + powers,
        [_word(float(value)) for value in exact],
        risk=Risk.MEDIUM,
        properties=("special-unit-spacing",),
    )
    early = "\n".join(
        f"mov s5, {_word(value)}\nreciprocal s6, s5\nnop\nnop\nmov {register}, s6" + "\nnop" * _REST
        for register, value in zip(_RESULTS, _DIVISORS, strict=True)
    )
    inverse = (1 / np.array(_DIVISORS, np.float32).astype(np.float64)).astype(np.float32)
    yield _scalar(
        "early-reciprocal",
        "a reciprocal that is used three bundles later",
        "whether a reciprocal takes no more than three bundles",
        "mov s6, 0\n" + early,
        [_word(float(value)) for value in inverse],
        risk=Risk.MEDIUM,
        properties=("special-unit-spacing",),
    )
    yield _stores()
    yield _load_with_alu()


def _stores() -> Probe:
    stores = "\n".join(f"store [s7]+=1, s{5 + (k & 1)}" for k in range(8))
    loads = "\n".join(f"load {register}, [s7]+=1" + "\nnop" * _LATENCY for register in _RESULTS)
    return _scalar(
        "close-stores",
        "stores in consecutive bundles",
        "whether every store arrives",
        f"""
        mov s5, 0x11111111
        mov s6, 0x22222222
        mov s7, 0x80
        nop
        {stores}
        scalar_fence idle=pipeline
        mov s7, 0x80
        nop
        {loads}""",
        [0x11111111, 0x22222222] * 4,
        risk=Risk.MEDIUM,
        properties=("store-spacing",),
    )


def _load_with_alu() -> Probe:
    body = """
        mov s5, 0x1234
        mov s6, 0x80
        mov s7, 0x40
        nop
        store [s6], s5
        nop
        nop
        nop
        scalar_fence idle=pipeline
        load s0, [s6] | shr s1, s7, 2
        nop
        nop
        nop
        load s2, [s6] | shr s3, s5, 4
        nop
        nop
        nop
        mov s12, s7
        mov s13, s6
        mov s14, s5
        mov s15, s7"""
    return _scalar(
        "load-with-alu",
        "a load in the same bundle as an ALU operation",
        "whether both slots of such a bundle work",
        body,
        [0x1234, 0x10, 0x1234, 0x123, 0x40, 0x80, 0x1234, 0x40],
        risk=Risk.MEDIUM,
        form="scalar load=register alu=shr immediate_b=1",
        properties=("scalar-load-alone",),
    )
