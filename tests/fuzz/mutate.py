"""Mutations of files: blind ones, and ones that know that offsets are 32-bit words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

EXTREMES = (
    0, 1, 2, 3, 4, 5, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x10000,
    0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF,
)  # fmt: skip

Mutation = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _word(data: bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _set_word(data: bytearray, at: int, value: int, width: int = 4) -> None:
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")


def _place(rng: random.Random, data: bytearray, width: int) -> int:
    """An aligned position, more often near the front, where headers and root tables are."""
    end = max(len(data) - width, 0)
    if rng.random() < 0.3:
        end = min(end, 128)
    return rng.randint(0, end) // width * width


def _range(rng: random.Random, size: int) -> tuple[int, int]:
    start = rng.randint(0, size)
    return start, min(size, start + rng.choice((1, 4, 8, 16, 64, 256)))


def flip_bits(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    for _ in range(rng.randint(1, 8)):
        data[_place(rng, data, 1)] ^= 1 << rng.randrange(8)


def set_byte(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    data[_place(rng, data, 1)] = rng.randrange(256)


def set_half(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    _set_word(data, _place(rng, data, 2), rng.choice(EXTREMES), 2)


def set_word(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    _set_word(data, _place(rng, data, 4), rng.choice((*EXTREMES, len(data), len(data) - 4)))


def set_long(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    value = rng.choice((*EXTREMES, len(data), 1 << 62, (1 << 63) - 1, (1 << 64) - 1))
    _set_word(data, _place(rng, data, 8), value, 8)


def nudge_word(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = _place(rng, data, 4)
    _set_word(data, at, _word(data, at) + rng.choice((-8, -4, -2, -1, 1, 2, 4, 8)))


def truncate(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    del data[rng.randint(0, len(data)) :]


def splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    start, end = _range(rng, len(other))
    at = rng.randint(0, len(data)) // 4 * 4
    data[at : at + end - start] = other[start:end]


def duplicate(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    start, end = _range(rng, len(data))
    at = rng.randint(0, len(data)) // 4 * 4
    data[at:at] = data[start:end]


def remove(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    start, end = _range(rng, len(data))
    del data[start:end]


def aim_offset(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """Make an offset lead to the target of another one."""
    offsets = [at for at in (_place(rng, data, 4) for _ in range(64)) if 0 < _word(data, at) < 4096]
    if len(offsets) > 1:
        at, other = rng.sample(offsets, 2)
        _set_word(data, at, other + _word(data, other) - at)


def share_everything(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """Make a run of words lead to one place, as if a vector shared one table."""
    at = _place(rng, data, 4)
    target = at + _word(data, at)
    for place in range(at, min(at + 4 * rng.choice((4, 16, 256)), len(data) - 3), 4):
        _set_word(data, place, target - place)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, set_byte, set_byte, set_half, set_half, set_word, set_word, set_word, set_long,
    nudge_word, nudge_word, truncate, splice, duplicate, remove, aim_offset, aim_offset,
    share_everything,
)  # fmt: skip


def mutant(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed after one to four mutations."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        if data:
            rng.choice(MUTATIONS)(rng, data, seeds)
    return bytes(data)
