"""Measures of fences: how programs, chunks and messages begin and end."""

from __future__ import annotations

from collections.abc import Iterator

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope.program import Place, Program, Value
from fitzroy.hw_models.edgetpu.scalar import Dispatch, Fence, Stream
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import ScalarFlag, TileEngine, TileFlag
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.stream import Infeed

SHORT_CHUNKS = "chunk-length"
"""Slug of a property that the code generator may violate once a device has confirmed it."""

_MEMORY = BEAGLE.memories.instruction.elements
_ALL_FLAGS = (1 << len(TileFlag)) - 1
_TOKENS = (ScalarFlag.PRODUCER_A, ScalarFlag.PRODUCER_B)


def ring_tokens(program: Program) -> Iterator[Value]:
    """Tokens of each channel of the ring after each message, since they were last reset."""
    counts = [0, 0]
    for place, event in program.placed:
        match event:
            case Dispatch(instruction=RingProduce() as producer, tiles=tiles):
                if producer.token is not None and producer.token.valid:
                    senders = (producer.tiles if tiles is None else tiles).bit_count()
                    counts[producer.channel] += senders * producer.wide.iterations(
                        producer.token.level
                    )
                    yield Value(counts[producer.channel], place)
            case Stream(instruction=Infeed() as infeed):
                if infeed.token is not None and infeed.token.valid:
                    counts[infeed.channel] += infeed.buffer.iterations(infeed.token.level)
                    yield Value(counts[infeed.channel], place)
            case Fence(instruction=fence):
                for channel, flag in enumerate(_TOKENS):
                    if fence.set >> flag & 1:
                        counts[channel] = fence.value


def chunk_begins(program: Program) -> Iterator[Value]:
    """For each chunk but the first: whether it begins with something else than a tile fence."""
    for number, chunk in enumerate(program.chunks):
        if number and len(chunk) > 1:
            yield Value(int(not isinstance(chunk[1], TileFence)), Place(number, 1))


def chunk_lengths(program: Program) -> Iterator[Value]:
    """How many times instruction memory could hold each chunk that another chunk follows.

    START and END do not count.
    """
    for number, chunk in enumerate(program.chunks[:-1]):
        bundles = bundle_count(chunk[1:-1])
        yield Value(_MEMORY // max(bundles, 1), Place(number, bundles))


def second_handshakes(program: Program) -> Iterator[Value]:
    """Whether tiles get an instruction before they were awaited twice after the reset.

    Only of programs that reset all counters of the tiles and give them more to do than to take
    rows of parameters.
    """
    begun: Place | None = None
    handshakes, reset = 0, False
    for place, event in program.placed:
        if isinstance(event, Fence) and event.instruction.wait_tiles:
            handshakes += 1
        elif isinstance(event, Dispatch):
            instruction = event.instruction
            if isinstance(instruction, TileFence):
                reset = reset or instruction.set == _ALL_FLAGS
                continue
            if begun is None:
                begun, seen = place, handshakes
            if not isinstance(instruction, RingConsume):
                if reset:
                    yield Value(int(seen < 2), begun)
                return


def end_fences(program: Program) -> Iterator[Value]:
    """Messages between the last tile fence and the last fence that waits for ring tokens."""
    messages, last = 0, None
    for place, event in program.placed:
        if isinstance(event, Fence) and _awaits_tokens(event.instruction):
            last = Value(messages, place)
        elif isinstance(event, Dispatch):
            instruction = event.instruction
            if isinstance(instruction, RingProduce):
                messages += 1
            elif isinstance(instruction, TileFence) and _settles(instruction):
                messages = 0
    if last is not None and program.complete:
        yield last


def _settles(fence: TileFence) -> bool:
    return fence.idle >> TileEngine.RING_PRODUCE & 1 == 1


def _awaits_tokens(fence: ScalarFence) -> bool:
    return any(fence.wait >> flag & 1 for flag in _TOKENS)
