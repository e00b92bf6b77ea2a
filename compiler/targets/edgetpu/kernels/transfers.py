"""Transfers: instructions that move words and rows, described by walks.

What a transfer counts and waits for is said per axis: of the walk that is counted, or gated.
"""

from __future__ import annotations

from collections.abc import Iterable

from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, Condition
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, watchers
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Side, Watcher
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.traversal import Prefix

_PACK_CONDITIONS = 5
_UNPACK_CONDITIONS = 2
_MESH_CONDITIONS = 6


def _gated(
    conditions: Iterable[Condition], read: Walk, write: Walk, count: int
) -> tuple[Watcher | None, ...]:
    """Conditions at the levels of the walk that they are of, up to so many."""
    found = [
        condition.at((read if condition.side is Side.READ else write).level(condition.axis))
        for condition in conditions
    ]
    return (*found, *[None] * (count - len(found)))


def pack(
    words: Walk,
    rows: Walk,
    *,
    publish: str,
    acquire: Iterable[Condition] = (),
    row: str = WHOLE,
    tiles: int = 0,
    transpose: Transpose = Transpose.NONE,
) -> NarrowToWide:
    """Words of narrow memory become rows of wide memory.

    Args:
        words: the words.
        rows: where their rows go.
        publish: axis of the rows of which NARROW_TO_WIDE counts iterations.
        acquire: what is waited for, before words are read or before rows are written.
        row: axis of the words each iteration of which begins a row; 64 words fill one anyway.
        tiles: mask of tiles.
        transpose: what becomes of four words.
    """
    return NarrowToWide(
        tiles=tiles,
        narrow=words.words,
        wide=rows.rows,
        narrow_to_wide=rows.each(publish),
        wait=_gated(acquire, words, rows, _PACK_CONDITIONS),
        pack_level=words.level(row),
        transpose=transpose,
    )


def unpack(
    rows: Walk,
    words: Walk,
    *,
    publish: str,
    acquire: Iterable[Condition] = (),
    row: str = WHOLE,
    tiles: int = 0,
    prefix: Prefix | None = None,
) -> WideToNarrow:
    """Rows of wide memory become words of narrow memory.

    Args:
        rows: the rows.
        words: where their words go.
        publish: axis of the words of which WIDE_TO_NARROW counts iterations.
        acquire: what is waited for, before rows are read or before words are written.
        row: axis of the words each iteration of which begins a row; a row holds 64 words.
        tiles: mask of tiles.
        prefix: words that go elsewhere.
    """
    return WideToNarrow(
        tiles=tiles,
        wide=rows.rows,
        narrow=words.words,
        prefix=prefix,
        wide_to_narrow=words.each(publish),
        wait=_gated(acquire, rows, words, _UNPACK_CONDITIONS),
        pack_level=words.level(row),
    )


def consume(
    channel: int,
    rows: Walk,
    *,
    publish: str | None,
    acquire: Condition | None = None,
    tiles: int = 0,
    prefix: Prefix | None = None,
) -> RingConsume:
    """Rows that arrive on a channel of the ring go to wide memory.

    Args:
        channel: the channel.
        rows: where they go.
        publish: axis of which RING_READ counts iterations; None to count nothing.
        acquire: what is waited for.
        tiles: mask of tiles.
        prefix: rows that go elsewhere.
    """
    return RingConsume(
        op=(Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)[channel],
        tiles=tiles,
        wide=rows.rows,
        prefix=prefix,
        ring_read=None if publish is None else rows.each(publish),
        wait=watchers([] if acquire is None else [acquire], rows.names, 1),
    )


def produce(
    rows: Walk,
    *,
    token: str,
    acquire: Iterable[Condition],
    tiles: int,
    release: str | None = None,
    channel: int = 0,
    destination: int | None = None,
) -> RingProduce:
    """Rows of wide memory go over the ring.

    Args:
        rows: the rows.
        token: axis of which the tokens of the channel count iterations.
        acquire: what is waited for.
        tiles: mask of the tile that sends.
        release: axis of which RING_WRITE counts iterations, so that rows may be written again.
        channel: the channel.
        destination: mask of the tiles that receive the rows; None for the scalar core.
    """
    return RingProduce(
        tiles=tiles,
        wide=rows.rows,
        ring_write=None if release is None else rows.each(release),
        token=rows.each(token),
        wait=watchers(acquire, rows.names, 2),
        channel=channel,
        destination=destination or 0,
        to_outfeed=destination is None,
    )


def fill(
    words: Walk,
    word: int = 0,
    *,
    op: Opcode = Opcode.MESH_NORTHWARD,
    publish: str | None = WHOLE,
    tiles: int = 0,
) -> Mesh:
    """Words of narrow memory get a value.

    Args:
        words: the words.
        word: the value.
        op: the mesh engine that does it.
        publish: axis of which the engine's counter of what it receives counts iterations.
        tiles: mask of tiles.
    """
    return Mesh(
        op=op,
        tiles=tiles,
        receive=words.rows,
        received=None if publish is None else words.each(publish),
        fill=True,
        fill_word=word,
    )


def exchange_words(
    op: Opcode,
    send: Walk | None,
    receive: Walk | None,
    *,
    publish: str,
    acquire: Iterable[Condition] = (),
    word: int | None = None,
) -> Mesh:
    """Words go to the neighbour in the direction of a mesh engine, and come from the other one.

    Args:
        op: the engine.
        send: the words that go, if any.
        receive: where words that come go, if any do, or those that are filled.
        publish: axis of which the counter of what is received counts iterations.
        acquire: what is waited for before words are sent.
        word: what is filled instead of received, None to receive.
    """
    names = () if send is None else send.names
    return Mesh(
        op=op,
        send=None if send is None else send.rows,
        receive=None if receive is None else receive.rows,
        received=None if receive is None else receive.each(publish),
        wait=watchers(() if send is None else acquire, names, _MESH_CONDITIONS),
        fill=word is not None,
        fill_word=word or 0,
    )
