"""Probes of what moves data: traversals, conversions, ring, mesh, and the ends of memories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitzroy.driver.probe.probe import Probe, Risk, noise, probe
from fitzroy.driver.probe.program import FIRST_ROW, RESULT_ROW, Sketch
from fitzroy.hw_models.chips.beagle import BEAGLE

_NARROW_WORDS = BEAGLE.memories.narrow.elements
_WIDE_ROWS = BEAGLE.memories.wide.elements


def controls() -> Iterator[Probe]:
    """Movements that published programs have."""
    yield _echo()
    yield _streamed()
    yield _pack_levels()
    yield _partial_chunk("control-partial-chunk", 2, "shorter", Risk.CONTROL)
    yield _prefix_rows()
    yield _prefix_words()
    yield _transposed_bytes()
    yield _transposed_halfwords()
    yield _ring_b()
    yield _mesh()
    yield _fill()


def _echo() -> Probe:
    sketch = Sketch()
    sketch.load(2)
    sketch.send(512, row=FIRST_ROW)
    data = noise(512, 101)
    return probe(
        "control-echo",
        "two rows to a tile and back",
        "the setup works: instructions, inputs, outputs and interrupts arrive",
        sketch,
        data,
        data,
        risk=Risk.CONTROL,
    )


def _streamed() -> Probe:
    sketch = Sketch()
    data = noise(1024, 120)
    sketch.stream(data.tobytes())
    sketch.consume(FIRST_ROW, 4)
    sketch.asm(
        """
        infeed infed=@0 destination=r0c0 row_words=64
            buffer: 0 [16*1]
            wait: parameter_pop>=1+1*i@0"""
    )
    sketch.fence()
    sketch.handshake()
    sketch.send(1024, row=FIRST_ROW)
    return probe(
        "control-parameters",
        "parameters streamed to a tile",
        "the host serves parameters as well as inputs",
        sketch,
        {},
        data,
        risk=Risk.CONTROL,
    )


def _pack_levels() -> Probe:
    """Rows that end with a loop, two slots in turn, and back in step with the first engine."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        f"""
        wide_to_narrow tiles=r0c0 wide_to_narrow=@1 pack_level=1
            wide: {0x700} [8*0] ping(0, 1)
            narrow: 256 [10*1 8*10]
            wait: narrow_to_wide>=1+1*i@0
        narrow_to_wide tiles=r0c0 narrow_to_wide=@0 pack_level=1
            narrow: 0 [10*2 8*21]
            wide: {0x700} [8*0] ping(0, 1)
            wait: wide_to_narrow>=-1+1*i@0 write"""
    )
    sketch.asm("tile_fence tiles=all idle=all")
    sketch.unpack(FIRST_ROW, 2, 336)
    sketch.result(256, 512)
    words = noise(1024, 102).view("<u4")
    order = [21 * n + 2 * k for n in range(8) for k in range(10)]
    return probe(
        "control-pack-levels",
        "words packed into short rows of two slots, and unpacked",
        "rows end with loops, steps alternate between slots, counters of 16 bits keep engines in "
        "step",
        sketch,
        words,
        np.concatenate([words[order], words[:48]]),
        risk=Risk.CONTROL,
    )


def _partial_chunk(slug: str, last: int, which: str, risk: Risk) -> Probe:
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    # Three chunks of five words; the last one has another number.
    sketch.asm(
        f"""
        wide_to_narrow tiles=r0c0 wide_to_narrow=@1 pack_level=1
            wide: {FIRST_ROW} [3*0] ping(0, 1)
            narrow: 16 [5*1 3*8] part(1, {last})
            wait: narrow_to_wide>=-4+1*i@0"""
    )
    sketch.result(0, 256)
    words = noise(1024, 103).view("<u4")
    out = words[:64].copy()
    for chunk, row in enumerate((0, 1, 0)):
        length = 5 if chunk < 2 else last
        out[16 + 8 * chunk : 16 + 8 * chunk + length] = words[64 * row : 64 * row + length]
    return probe(
        slug,
        f"a last chunk that is {which} than the others",
        "how many elements a partial last chunk has, and where they go",
        sketch,
        words,
        out,
        risk=risk,
    )


def _prefix_rows() -> Probe:
    """Every third row goes elsewhere, by a prefix that moves and comes back."""
    sketch = Sketch()
    size = 12 * 256
    sketch.pop(size)
    sketch.descriptor("input", "x", size)
    sketch.asm(
        f"""
        ring_consume_a tiles=r0c0 ring_read=@1
            wide: {FIRST_ROW + 2} [2*1 4*2]
            prefix: level=0 base={FIRST_ROW} words=1 end={FIRST_ROW + 1} step=1
            wait: parameters>=-4+1*i@1 write"""
    )
    sketch.infeed(size)
    sketch.fence()
    sketch.handshake()
    sketch.send(10 * 256, row=FIRST_ROW)
    rows = noise(size, 104).reshape(4, 3, 256)
    # Four prefixes in two places: the last two stay.
    out = np.concatenate([rows[2:, 0], rows[:, 1:].reshape(8, 256)])
    return probe(
        "control-prefix-rows",
        "rows, every third of which goes alternately to two other places",
        "a prefix precedes every run, moves by its step, and returns to its base",
        sketch,
        rows.reshape(-1),
        out.reshape(-1),
        risk=Risk.CONTROL,
    )


def _prefix_words() -> Probe:
    """The first words of a row go elsewhere; they count among its 64 words."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW + 2, 2, 0)
    sketch.asm(
        f"""
        wide_to_narrow tiles=r0c0 wide_to_narrow=@0 pack_level=2
            wide: {FIRST_ROW}
            narrow: 16 [20*1] ping(1, 64)
            prefix: level=1 base=0x30 words=8 end=0x37 step=0
            wait: ring_read_a>=0+1*i@1
            wait: avdata>=-1+1*i@1 write"""
    )
    sketch.result(0, 256)
    words = noise(1024, 105).view("<u4")
    out = words[128:192].copy()
    out[0x30:0x38], out[16:36] = words[:8], words[8:28]
    return probe(
        "control-prefix-words",
        "a row with first words that go elsewhere",
        "words of a prefix come first and count among those of the row",
        sketch,
        words,
        out,
        risk=Risk.CONTROL,
    )


def _transposed_bytes() -> Probe:
    """Words of four pixels become lanes of one channel; the last group is not complete."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        f"""
        narrow_to_wide tiles=r0c0 narrow_to_wide=@1 transpose=bytes pack_level=1
            narrow: 0 [6*1 2*8 2*32]
            wide: {RESULT_ROW} [4*1]"""
    )
    sketch.send(4 * 256)
    data = noise(1024, 106)
    out = np.zeros((4, 64, 4), np.uint8)
    for row in range(4):
        base = 8 * (row & 1) + 32 * (row >> 1)
        group = np.zeros((8, 4), np.uint8)
        group[:6] = data.reshape(256, 4)[base : base + 6]
        out[row, :8] = group.reshape(2, 4, 4).swapaxes(1, 2).reshape(8, 4)
    return probe(
        "control-transpose-bytes",
        "groups of four words transposed as bytes",
        "lanes contain one channel of four pixels; an incomplete group is padded with zeros, and "
        "so is the row",
        sketch,
        data,
        out.reshape(-1),
        risk=Risk.CONTROL,
    )


def _transposed_halfwords() -> Probe:
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        f"""
        narrow_to_wide tiles=r0c0 narrow_to_wide=@0 transpose=halfwords pack_level=2
            narrow: 0 [2*1 8*4 2*2]
            wide: {RESULT_ROW} [2*0] ping(0, 1)
            wait: parameters>=-2+1*i@0 write"""
    )
    sketch.send(512)
    words = noise(1024, 107).view("<u4")
    out = np.zeros((2, 64), "<u4")
    for row in range(2):
        order = [2 * row + 4 * pair + k for pair in range(8) for k in range(2)]
        pairs = words[order].view("<u2").reshape(8, 2, 2).swapaxes(1, 2)
        out[row, :16] = np.ascontiguousarray(pairs).view("<u4").reshape(-1)
    return probe(
        "control-transpose-halfwords",
        "groups of two words transposed as halfwords",
        "lanes contain one halfword of two words each",
        sketch,
        words,
        out,
        risk=Risk.CONTROL,
    )


def _ring_b() -> Probe:
    """Rows from tile 0 to tile 1 on channel B."""
    sketch = Sketch()
    sketch.load(4)
    sketch.asm(
        f"""
        ring_consume_b tiles=r0c1 ring_read=@1
            wide: {0x300} [4*1]
            wait: parameters>=-1+1*i@1 write
        ring_produce tiles=r0c0 token=@0 channel=1 destination=r0c1
            wide: {FIRST_ROW} [4*1]
            wait: ring_producer_b>=0+1*i@1"""
    )
    sketch.tokens[1] += 4
    sketch.send(1024, row=0x300, tile="r0c1")
    data = noise(1024, 108)
    return probe(
        "control-ring",
        "rows from one tile to another",
        "the ring keeps the order of rows; every row of a message counts a token",
        sketch,
        data,
        data,
        risk=Risk.CONTROL,
    )


def _mesh() -> Probe:
    """Words from tile 0 to the tile south of it."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        """
        mesh_southward tiles=r0c0 received=@2 fill fill_word=0x5a5a5a5a
            send: 0 [16*1 4*32]
            receive: 200 [4*1 2*4]
        mesh_southward tiles=r1c0 received=@2
            receive: 0 [32*1 2*32]"""
    )
    sketch.pack(200, 8)
    sketch.pack(0, 64, tiles="r1c0")
    sketch.send(32, name="filled")
    sketch.send(256, tile="r1c0")
    words = noise(1024, 109).view("<u4")
    order = [32 * j + k for j in range(4) for k in range(16)]
    return probe(
        "control-mesh",
        "words from a tile to its southern neighbour, while its other half is filled",
        "word k sent is word k received, whatever the loops; filling needs no neighbour",
        sketch,
        words,
        {
            "filled": np.full(8, 0x5A5A5A5A, "<u4").view(np.uint8),
            "y": words[order].view(np.uint8),
        },
        risk=Risk.CONTROL,
    )


def _fill() -> Probe:
    sketch = Sketch()
    sketch.load(2)
    sketch.unpack(FIRST_ROW, 2, 0)
    sketch.asm(
        """
        mesh_southward tiles=r0c0 received=@1 fill fill_word=0x80
            receive: 3 [9*5]"""
    )
    sketch.result(0, 256)
    words = noise(512, 110).view("<u4")
    out = words[:64].copy()
    out[3:48:5] = 0x80
    return probe(
        "control-fill",
        "words filled by a mesh engine",
        "padding is written without a neighbour",
        sketch,
        words,
        out,
        risk=Risk.CONTROL,
    )


def rules() -> Iterator[Probe]:
    """What is assumed of traversals, rows and addresses."""
    yield _partial_chunk("longer-last-chunk", 7, "longer", Risk.LOW)
    yield _ping_pong_restart()
    yield _row_rest()
    yield _long_rows()
    yield _high_words()
    yield _high_rows()
    yield _negative_strides()
    yield _credit_by_time()


def _ping_pong_restart() -> Probe:
    """Three steps over two slots, and three more: the second instruction begins at slot 0."""
    sketch = Sketch()
    sketch.load(2)
    sketch.unpack(FIRST_ROW, 2, 0)
    for first in (0, 30):
        sketch.asm(
            f"""
            narrow_to_wide tiles=r0c0 narrow_to_wide=@0 pack_level=1
                narrow: {first} [10*1 3*10]
                wide: {RESULT_ROW} [3*0] ping(0, 1)
                wait: wide_to_narrow>=-8+1*i@0 write"""
        )
    sketch.send(512)
    words = noise(512, 111).view("<u4")
    out = np.zeros((2, 64), "<u4")
    out[0, :10], out[1, :10] = words[50:60], words[40:50]
    return probe(
        "slots-per-instruction",
        "an odd number of steps over two slots, twice",
        "whether every instruction begins at its first slot",
        sketch,
        words,
        out,
    )


def _row_rest() -> Probe:
    """A row of eight words over one of 64."""
    sketch = Sketch()
    sketch.load(2)
    sketch.unpack(FIRST_ROW, 2, 0)
    sketch.asm(
        f"""
        narrow_to_wide tiles=r0c0 pack_level=1
            narrow: 8 [8*1]
            wide: {FIRST_ROW}
            wait: mesh_south_in>=0+0*i@1"""
    )
    sketch.send(256, row=FIRST_ROW)
    words = noise(512, 112).view("<u4")
    out = np.zeros(64, "<u4")
    out[:8] = words[8:16]
    return probe(
        "short-row-rest",
        "a row of eight words over a previous one of 64",
        "whether the rest of a row becomes zero",
        sketch,
        words,
        out,
        alternatives={"the rest stays": np.concatenate([words[8:16], words[8:64]])},
    )


def _long_rows() -> Probe:
    """A run of 80 words takes a whole row and a short one."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(
        f"""
        narrow_to_wide tiles=r0c0 pack_level=2
            narrow: 0 [40*1 2*64 2*128]
            wide: {RESULT_ROW} [4*1]"""
    )
    sketch.send(1024)
    words = noise(1024, 113).view("<u4")
    out = np.zeros((4, 64), "<u4")
    for half in range(2):
        base = 128 * half
        run = np.concatenate([words[base : base + 40], words[base + 64 : base + 104]])
        out[2 * half], out[2 * half + 1, :16] = run[:64], run[64:]
    return probe(
        "long-runs",
        "runs of 80 words packed into rows of 64",
        "whether a row ends after 64 words and the next one with the run",
        sketch,
        words,
        out,
    )


def _high_words() -> Probe:
    """Words far up in narrow memory, and the words below that share their low bits."""
    sketch = Sketch()
    sketch.load(4)
    high, low = 40000, 40000 - 32768
    sketch.unpack(FIRST_ROW, 2, low)
    sketch.unpack(FIRST_ROW + 2, 2, high)
    sketch.pack(low, 64)
    sketch.pack(high, 64, row=RESULT_ROW + 1)
    sketch.send(512)
    data = noise(1024, 114)
    return probe(
        "narrow-above-128-kib",
        "words above 128 KiB of narrow memory",
        "whether all 192 KiB exist and do not alias lower addresses",
        sketch,
        data,
        np.concatenate([data[:256], data[512:768]]),
    )


def _high_rows() -> Probe:
    """The last rows of wide memory, and the rows that share their low bits."""
    sketch = Sketch()
    sketch.load(2, row=_WIDE_ROWS - 2, name="high")
    sketch.load(2, row=_WIDE_ROWS - 2 - 2048, name="low")
    sketch.send(512, row=_WIDE_ROWS - 2, name="a")
    sketch.send(512, row=_WIDE_ROWS - 2 - 2048, name="b")
    high, low = noise(512, 115), noise(512, 116)
    return probe(
        "last-wide-rows",
        "the last rows of wide memory",
        "whether 2,080 rows exist and do not alias each other",
        sketch,
        {"high": high, "low": low},
        {"a": high, "b": low},
    )


def _negative_strides() -> Probe:
    sketch = Sketch()
    sketch.load(2)
    sketch.unpack(FIRST_ROW, 2, 0)
    sketch.asm(
        f"""
        narrow_to_wide tiles=r0c0 pack_level=2
            narrow: 127 [4*-1 2*-8 4*-16]
            wide: {RESULT_ROW} [4*1]"""
    )
    sketch.send(1024)
    words = noise(512, 117).view("<u4")
    out = np.zeros((4, 64), "<u4")
    for row in range(4):
        out[row, :8] = words[[127 - 16 * row - 8 * j - k for j in range(2) for k in range(4)]]
    return probe(
        "negative-strides",
        "words in reverse order",
        "whether strides are signed in every loop",
        sketch,
        words,
        out,
    )


def _credit_by_time() -> Probe:
    """Rows of 16 words with credit counted in 64: only time keeps a row until it is taken."""
    sketch = Sketch()
    sketch.load(2)
    for number in range(2):
        sketch.asm(
            f"""
            wide_to_narrow tiles=r0c1 wide_to_narrow=@0 pack_level=1
                wide: {0x700} ping(1, 1)
                narrow: {16 * number} [16*1]
                wait: ring_read_a>={number + 1}+1*i@1
            ring_consume_a tiles=r0c1 ring_read=@1
                wide: {0x700} ping(1, 1)
                wait: wide_to_narrow>={16 * number - 64}+64*i@1 write
            ring_produce tiles=r0c0 ring_write=@1 token=@2 destination=r0c1
                wide: {FIRST_ROW + number} ping(1, 1)
                wait: ring_producer_a>={number}+1*i@2
                wait: narrow_to_wide>=0+1*i@1"""
        )
    sketch.tokens[0] += 2
    sketch.result(0, 128, tile="r0c1")
    words = noise(512, 118).view("<u4")
    return probe(
        "credit-by-time",
        "a row that only timing protects from being overwritten",
        "whether a conversion reads a row before the next message of the ring arrives",
        sketch,
        words,
        np.concatenate([words[:16], words[64:80]]),
        risk=Risk.MEDIUM,
    )


def properties() -> Iterator[Probe]:
    """Places that no published program uses."""
    sketch = Sketch()
    sketch.load(4)
    top = _NARROW_WORDS - 64
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.unpack(FIRST_ROW + 2, 2, top - 64)
    sketch.result(top, 256)
    data = noise(1024, 119)
    yield probe(
        "last-narrow-words",
        "the last words of narrow memory",
        "whether the last three words of narrow memory keep what is written",
        sketch,
        data,
        data[768:],
        properties=("narrow-top",),
    )
