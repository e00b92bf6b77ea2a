"""Probes of what lies between tiles and host: streams, descriptors, relays, tokens, chunks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitzroy.driver.probe.probe import Probe, Risk, noise, probe
from fitzroy.driver.probe.program import FIRST_ROW, RESULT_ROW, ROW_BYTES, ROW_WORDS, Sketch
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope.fences import SHORT_CHUNKS

_MEMORY = 0x40
"""Word of scalar memory at which relayed words begin."""

_TURNED, _SHORT, _REPEATED = 16, 8, 3
"""Rows that short chunks turn, how many chunks do, and how often each copies the rows first."""

_FILLING = BEAGLE.memories.instruction.elements - 128
"""Empty bundles that fill the memory for instructions, with those around them."""

_BEFORE_WRAP = 32764
"""A count from which four more pass the largest signed number of 16 bits."""


def _relay(sketch: Sketch, row: int, words: int, place: int, *, fenced: bool = True) -> None:
    """Bring the first words of a row of tile 0 to scalar memory."""
    sketch.announce(row, 256)
    if fenced:
        sketch.asm("scalar_fence idle=pipeline")
    sketch.asm(f"outfeed row_words=64\n    buffer: {place} [{words}*1]")


def _push(sketch: Sketch, words: int, place: int = _MEMORY) -> None:
    """Push words of scalar memory, an even number, in one run."""
    label = sketch.label()
    sketch.asm(
        f"""
        mov s6, {place}
        nop
        load s12, [s6]+=1
        load s13, [s6]+=1
        loop target={label} count={words // 2}
        load s12, [s6]+=1 | push s12
        load s13, [s6]+=1 | push s13
        {label}:
        nop"""
    )


def controls() -> Iterator[Probe]:
    """Streams of published programs."""
    yield _relayed("control-relay", fenced=True)
    yield _chunks("control-chunks", fence=True)
    yield _counters_wrap()


def _relayed(slug: str, *, fenced: bool) -> Probe:
    """Two pieces collected in scalar memory and pushed."""
    sketch = Sketch()
    sketch.load(2)
    _relay(sketch, FIRST_ROW, 6, _MEMORY, fenced=fenced)
    _relay(sketch, FIRST_ROW + 1, 10, _MEMORY + 6, fenced=fenced)
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", "y", 64)
    _push(sketch, 16)
    words = noise(512, 201).view("<u4")
    how = "" if fenced else " without a fence before the outfeed"
    return probe(
        slug,
        "two pieces of an output relayed by the scalar core" + how,
        "whether words of tiles are in scalar memory when they are pushed" + how,
        sketch,
        words,
        np.concatenate([words[:6], words[64:74]]),
        risk=Risk.CONTROL if fenced else Risk.MEDIUM,
        properties=() if fenced else ("relay-fence",),
    )


def _chunks(slug: str, *, fence: bool) -> Probe:
    """Memories and streams survive from one chunk to the next."""
    sketch = Sketch()
    sketch.load(2)
    # In published programs a chunk is full before another one follows.
    sketch.gap(_FILLING)
    sketch.chunk(fence=fence)
    sketch.asm(
        f"""
        wide_to_narrow tiles=r0c0 pack_level=2
            wide: {FIRST_ROW} [2*1]
            narrow: 0 [64*1 2*64]"""
    )
    sketch.result(64, 256)
    data = noise(512, 202)
    return probe(
        slug,
        "a program of two chunks"
        + ("" if fence else ", without a fence at the start of the second"),
        "whether a chunk "
        + (
            "finds the memory of the previous chunk unchanged"
            if fence
            else "may start without a fence of the tiles"
        ),
        sketch,
        data,
        data[256:],
        risk=Risk.CONTROL if fence else Risk.MEDIUM,
        properties=() if fence else ("chunk-begin",),
    )


def _short_chunks() -> Probe:
    """Chunks that the host sends while tiles and streams still have work of those before.

    Each turns rows by two places, so that the result tells if one is lost, or takes the place of
    instructions that are still to come.
    """
    sketch = Sketch()
    rows = _TURNED
    sketch.load(rows)
    sketch.pop(rows * ROW_BYTES)
    sketch.descriptor("input", "z", rows * ROW_BYTES)
    for number in range(_SHORT):
        if number == 1:
            # The rows of the other input arrive while the next chunk begins.
            sketch.consume(FIRST_ROW + rows, rows)
            sketch.infeed(rows * ROW_BYTES)
        sketch.chunk()
        _turn(sketch, rows)
    sketch.send(2 * rows * ROW_BYTES, row=FIRST_ROW)
    # Tiles have yet to send the output, which a host may want before it sends the last chunk.
    sketch.chunk()
    first, second = noise(rows * ROW_BYTES, 205), noise(rows * ROW_BYTES, 206)
    return probe(
        "short-chunks",
        f"{_SHORT + 2} chunks of which the memory holds several, with work under way between them",
        "whether chunks that the host sends ahead wait until those before them have run",
        sketch,
        {"x": first, "z": second},
        np.concatenate([np.roll(first, 2 * ROW_BYTES * _SHORT), second]),
        risk=Risk.MEDIUM,
        properties=(SHORT_CHUNKS,),
    )


def _turn(sketch: Sketch, rows: int) -> None:
    """Move the last two of the first rows before the others, through narrow memory."""
    for _ in range(_REPEATED):
        for row in range(0, rows, 2):
            sketch.unpack(FIRST_ROW + row, 2, ROW_WORDS * ((row + 2) % rows))
    sketch.pack(0, ROW_WORDS * rows, FIRST_ROW)


def _counters_wrap() -> Probe:
    """Counters of a tile pass 32,767 while another engine waits for them."""
    sketch = Sketch()
    sketch.load(4)
    sketch.unpack(FIRST_ROW, 4, 0)
    sketch.asm(f"tile_fence tiles=all set=local value={_BEFORE_WRAP} idle=all")
    after = _BEFORE_WRAP + 1
    sketch.asm(
        f"""
        wide_to_narrow tiles=r0c0 wide_to_narrow=@1 pack_level=1
            wide: {0x700} [8*0] ping(0, 1)
            narrow: 128 [8*1 8*8]
            wait: narrow_to_wide>={after}+1*i@0
        narrow_to_wide tiles=r0c0 narrow_to_wide=@0 pack_level=1
            narrow: 0 [8*1 8*8]
            wide: {0x700} [8*0] ping(0, 1)
            wait: wide_to_narrow>={_BEFORE_WRAP - 1}+1*i@0 write"""
    )
    sketch.result(128, 256)
    data = noise(1024, 203)
    return probe(
        "control-counter-wrap",
        "counters of a tile that pass 32,767",
        "engines compare counters of 16 bits as signed differences",
        sketch,
        data,
        data[:256],
        risk=Risk.CONTROL,
    )


def properties() -> Iterator[Probe]:
    """Orders and sizes that no published program has."""
    yield _plain("second-handshake", Sketch(handshake=False), "the first instruction of a tile")
    yield _plain("end-fence", Sketch(end_fence=False), "the fence that awaits tokens at the end")
    yield _relayed("relay-without-fence", fenced=False)
    yield _chunks("chunk-without-fence", fence=False)
    yield _short_chunks()
    yield _odd_run()
    yield _two_runs()
    yield _small_parts()
    yield _stored_words()
    yield _wide_scalar_rows()
    yield _far_infeed()
    yield _close_descriptors()
    yield _open_descriptors()
    yield _waiting_outfeeds()
    yield _long_outfeed()
    yield from _many_tokens()


def rules() -> Iterator[Probe]:
    """What is assumed of queues."""
    yield _deep_queue("queued-consumers", 72)
    yield _short_rows()


def _plain(slug: str, sketch: Sketch, where: str) -> Probe:
    sketch.asm(
        """
        mesh_southward tiles=r0c0 received=@1 fill fill_word=0x33221100
            receive: 0 [64*1]"""
    )
    sketch.result(0, 256)
    return probe(
        f"without-{slug}",
        f"a program without the fence that published ones have before {where}",
        f"whether that fence is needed before {where}",
        sketch,
        {},
        np.full(64, 0x33221100, "<u4"),
        properties=(slug,),
    )


def _odd_run() -> Probe:
    sketch = Sketch()
    words = [0x01010101 * (number + 1) for number in range(8)]
    registers = ("s0", "s1", "s2", "s3", "s12", "s13", "s14", "s15")
    for register, word in zip(registers, words, strict=True):
        sketch.asm(f"mov {register}, {word}")
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", "y", 32)
    for number, register in enumerate(registers):
        if number == 3:
            sketch.asm("scalar_fence idle=outfeed")
        sketch.asm(f"push {register}")
    return probe(
        "odd-runs",
        "three words pushed in a row, and five",
        "whether the last word of an odd run reaches the host",
        sketch,
        {},
        np.array(words, "<u4"),
        risk=Risk.HIGH,
        properties=("push-run", "output-descriptor-place"),
    )


def _two_runs() -> Probe:
    """One descriptor for pieces that are relayed after it."""
    sketch = Sketch()
    sketch.load(2)
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", "y", 64)
    for number in range(2):
        _relay(sketch, FIRST_ROW + number, 8, _MEMORY)
        sketch.asm("scalar_fence idle=outfeed")
        _push(sketch, 8)
    words = noise(512, 211).view("<u4")
    return probe(
        "descriptor-before-relay",
        "one descriptor for two runs of pushes, issued before the words exist",
        "whether a descriptor may wait, and be served by more than one run",
        sketch,
        words,
        np.concatenate([words[:8], words[64:72]]),
        risk=Risk.MEDIUM,
        properties=("output-descriptor-place",),
    )


def _small_parts() -> Probe:
    """An output in two parts that are no multiples of 32 bytes."""
    sketch = Sketch()
    sketch.load(2)
    sketch.asm("tile_fence tiles=all idle=all")
    for number, (offset, size) in enumerate(((0, 24), (24, 40))):
        sketch.descriptor("output", "y", size, offset=offset, layer=64)
        sketch.outfeed(size)
        sketch.announce(FIRST_ROW + number, 256)
    data = noise(512, 212)
    return probe(
        "small-output-parts",
        "an output of two parts of 24 and 40 bytes",
        "whether descriptors of an output may begin at any multiple of 8 bytes",
        sketch,
        data,
        np.concatenate([data[:24], data[256:296]]),
        risk=Risk.MEDIUM,
        properties=("output-descriptor-size",),
    )


def _stored_words() -> Probe:
    """Words that the scalar core stores, sent to a tile by the infeed at once."""
    sketch = Sketch()
    sketch.load(4)
    words = [0x11 * (k + 1) * 0x01010101 & 0xFFFFFFFF for k in range(8)]
    # The consumer comes first, so that the infeed follows the last store at once.
    sketch.consume(FIRST_ROW, 2)
    sketch.asm("mov s6, 0")
    sketch.gap(2)
    for word in words:
        sketch.asm(f"mov s5, {word}\nnop\nstore [s6]+=1, s5")
    sketch.asm(
        """
        infeed memory=scalar token=@1 infed=@0 destination=r0c0 row_words=4
            buffer: 0 [8*1]
            wait: ring_outfeed>=-7+1*i@0"""
    )
    sketch.tokens[0] += 1
    sketch.send(512, row=FIRST_ROW)
    rows = noise(1024, 213).view("<u4").reshape(4, 64).copy()
    out = rows[:2].copy()
    out[:, :4] = np.array(words, "<u4").reshape(2, 4)
    return probe(
        "stored-word-infeed",
        "words that are sent to a tile immediately after they are stored",
        "whether an infeed waits for stores of the scalar core",
        sketch,
        rows,
        out,
        risk=Risk.HIGH,
        properties=("stored-word-infeed",),
    )


def _scalar_rows(row_words: int, words: int) -> Sketch:
    """Words of a tile that go through scalar memory and come back in rows of some words."""
    sketch = Sketch()
    sketch.load(6)
    rows = words // row_words
    sketch.consume(FIRST_ROW + 2, rows)
    sketch.asm(
        f"""
        infeed memory=scalar token=@1 infed=@0 destination=r0c0 row_words={row_words}
            buffer: 0 [{words}*1]
            wait: ring_outfeed>=1+1*i@0
        outfeed outfed=@0 row_words=64
            buffer: 0 [{words}*1]
            wait: scalar_infeed>={1 - words}+1*i@0"""
    )
    sketch.announce(FIRST_ROW, 256)
    sketch.tokens[0] += 1
    sketch.send(rows * 256, row=FIRST_ROW + 2)
    return sketch


def _scalar_rows_out(data: np.ndarray, row_words: int, words: int) -> np.ndarray:
    rows = data.view("<u4").reshape(-1, 64)
    out = rows[2 : 2 + words // row_words].copy()
    out[:, :row_words] = rows[0, :words].reshape(-1, row_words)
    return out


def _short_rows() -> Probe:
    data = noise(6 * 256, 214)
    return probe(
        "short-ring-rows",
        "rows of four words over longer previous ones",
        "whether a short row of the ring leaves the rest of a wide row unchanged",
        _scalar_rows(4, 16),
        data,
        _scalar_rows_out(data, 4, 16),
    )


def _wide_scalar_rows() -> Probe:
    data = noise(6 * 256, 215)
    return probe(
        "long-scalar-rows",
        "rows of sixteen words from scalar memory",
        "whether the infeed can make rows of more than four words from scalar memory",
        _scalar_rows(16, 32),
        data,
        _scalar_rows_out(data, 16, 32),
        risk=Risk.MEDIUM,
        properties=("scalar-infeed-row",),
    )


def _far_infeed() -> Probe:
    """An infeed whose addresses have gone round the buffer three times."""
    sketch = Sketch()
    size = 512
    sketch.pop(size)
    sketch.descriptor("input", "x", size)
    sketch.consume(FIRST_ROW, 2)
    sketch.infeed(size, turns=3)
    sketch.fence()
    sketch.handshake()
    sketch.send(size, row=FIRST_ROW)
    data = noise(size, 216)
    return probe(
        "far-infeed",
        "an infeed that starts beyond its buffer",
        "whether addresses of the stream buffer wrap, whatever their size",
        sketch,
        data,
        data,
        risk=Risk.MEDIUM,
        properties=("infeed-base",),
    )


def _close_descriptors() -> Probe:
    """Four outputs that are announced in 36 bundles."""
    sketch = Sketch()
    sketch.load(2)
    sketch.asm("tile_fence tiles=all idle=all")
    for number in range(4):
        sketch.descriptor("output", f"y{number}", 64, spaced=False)
    sketch.gap(18)
    sketch.outfeed(256)
    sketch.announce(FIRST_ROW, 256)
    data = noise(512, 217)
    return probe(
        "close-descriptors",
        "descriptors eleven bundles apart",
        "whether a descriptor may be written while the previous one is being sent",
        sketch,
        data,
        {f"y{number}": data[64 * number : 64 * number + 64] for number in range(4)},
        risk=Risk.MEDIUM,
        properties=("descriptor-spacing",),
    )


def _open_descriptors() -> Probe:
    """28 inputs that are asked for before the first one is popped."""
    sketch = Sketch()
    count, size = 28, 64
    for number in range(count):
        sketch.descriptor("input", f"x{number:02}", size)
    sketch.pop(count * size)
    sketch.consume(FIRST_ROW, count * size // 256)
    sketch.infeed(count * size)
    sketch.fence()
    sketch.handshake()
    sketch.send(6 * 256, row=FIRST_ROW)
    data = noise(count * size, 218)
    return probe(
        "open-descriptors",
        "28 inputs that are requested at once",
        "how many descriptors can wait for the host before one is lost",
        sketch,
        {f"x{number:02}": data[size * number : size * (number + 1)] for number in range(count)},
        data[: 6 * 256],
        risk=Risk.HIGH,
        properties=("open-descriptors",),
    )


def _waiting_outfeeds() -> Probe:
    """112 outfeeds that are issued before there is a row."""
    sketch = Sketch()
    count = 112
    sketch.load(8)
    sketch.asm("tile_fence tiles=all idle=all")
    sketch.descriptor("output", "y", 256 * count)
    for _ in range(count):
        sketch.outfeed(256)
    _repeated(sketch, 8, count // 8)
    data = noise(8 * 256, 219)
    return probe(
        "waiting-outfeeds",
        "112 outfeeds that wait for their rows",
        "how many outfeeds can wait before the scalar core stalls, or one is lost",
        sketch,
        data,
        np.tile(data, count // 8),
        risk=Risk.HIGH,
        properties=("waiting-outfeeds",),
    )


def _repeated(sketch: Sketch, rows: int, times: int) -> None:
    """Send the same rows to the outfeed several times, as one message."""
    a, b = sketch.tokens
    sketch.asm(
        f"""
        ring_produce tiles=r0c0 token=@1 channel=1 to_outfeed
            wide: {FIRST_ROW} [{rows}*1 {times}*0]
            wait: ring_producer_a>={a - times + 1}+1*i@1
            wait: ring_producer_b>={b}+1*i@1"""
    )
    sketch.tokens[1] += times


def _long_outfeed() -> Probe:
    """An outfeed of 16,416 units."""
    sketch = Sketch()
    rows, times = 27, 19
    sketch.load(rows)
    size = rows * times * 256
    sketch.asm("tile_fence tiles=all idle=all")
    sketch.descriptor("output", "y", size)
    sketch.outfeed(size)
    _repeated(sketch, rows, times)
    data = noise(rows * 256, 220)
    return probe(
        "long-outfeed",
        "an outfeed of 16,416 units",
        "whether an outfeed may have more than 16,384 units",
        sketch,
        data,
        np.tile(data, times),
        risk=Risk.MEDIUM,
        properties=("outfeed-length",),
    )


def _many_tokens() -> Iterator[Probe]:
    """Ring tokens that pass 32,767."""
    for slug, wait, what in (
        ("many-tokens", "", "a scalar fence"),
        ("many-tokens-of-tiles", " wait_ring_b", "a fence of tiles"),
    ):
        sketch = Sketch()
        sketch.load(2)
        start = _BEFORE_WRAP + 2
        sketch.asm(
            f"""
            tile_fence tiles=all set=ring_producer_a+ring_producer_b value={start} idle=all signal
            scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed
            scalar_fence set=producer_a+producer_b value={start} wait=producer_a+producer_b"""
            """ idle=infeed+outfeed"""
        )
        sketch.tokens[:] = [start, start]
        sketch.send(512, row=FIRST_ROW, name="y")
        if wait:
            # The tiles await the tokens; the scalar core does not, and starts from zero.
            sketch.asm(
                f"""
                tile_fence tiles=all set=ring_producer_b idle=all wait_ring_b signal"""
                f""" ring_threshold={start + 2}
                scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed"""
            )
        else:
            sketch.send(512, row=FIRST_ROW, name="z")
        data = noise(512, 221)
        outputs = {"y": data} if wait else {"y": data, "z": data}
        yield probe(
            slug,
            f"ring tokens above 32,767, awaited by {what}",
            f"whether {what} compares tokens as signed differences of 16 bits",
            sketch,
            data,
            outputs,
            risk=Risk.HIGH,
            properties=("ring-tokens",),
        )


def _deep_queue(slug: str, count: int) -> Probe:
    """Consumers that wait for a message of their own tile, which is issued after them."""
    sketch = Sketch()
    sketch.load(16)
    for number in range(count):
        sketch.asm(
            f"""
            ring_consume_b tiles=r0c0 ring_read=@1
                wide: {RESULT_ROW + 2 * number} [2*1]
                wait: parameters>=-1+1*i@1 write"""
        )
    for start in range(0, 2 * count, 16):
        sketch.asm(
            f"""
            ring_produce tiles=r0c0 token=@0 channel=1 destination=r0c0
                wide: {FIRST_ROW} [16*1]
                wait: ring_producer_b>={start}+1*i@1"""
        )
    sketch.tokens[1] += 2 * count
    sketch.send(16 * 256, row=RESULT_ROW + 2 * count - 16)
    data = noise(16 * 256, 222)
    return probe(
        slug,
        f"{count} consumers of a tile that wait for its own message",
        "whether a queue of a tile holds that many instructions, and the message after them starts",
        sketch,
        data,
        data,
        risk=Risk.HIGH,
    )
