from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fitzroy.hw_models.isa.catalog import BY_OPCODE
from fitzroy.hw_models.isa.fields import (
    CONVERSION_WATCHER,
    OP_WATCHER,
    RING_WATCHER,
    STREAM_WATCHER,
    Opcode,
    Producer,
    ProducerCodec,
    ScalarFlag,
    Side,
    TileFlag,
    Watcher,
    WatcherCodec,
)
from fitzroy.hw_models.isa.traversal import (
    BUFFER,
    BYTES,
    INFEED_BUFFER,
    NARROW,
    QUARTERS,
    WIDE,
    Dim,
    Prefix,
    PrefixCodec,
    Traversal,
    TraversalCodec,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "isa_guide.md"


def check(codec: Any, zero: Any, ones: dict[str, list[Any]]) -> None:
    """Every piece of the layout is what values, together, change that set each bit of its part."""
    origin = codec.encode(zero)
    pieces = {piece.name: piece for piece in codec.layout()}
    assert set(pieces) == set(ones)
    assert sum(piece.width for piece in pieces.values()) == codec.width
    for name, values in ones.items():
        changed = 0
        for value in values:
            changed |= codec.encode(value) ^ origin
        assert changed == (1 << pieces[name].width) - 1 << pieces[name].first, name


@pytest.mark.parametrize("codec", [WIDE, NARROW, BYTES, QUARTERS, BUFFER, INFEED_BUFFER])
def test_layout_of_traversals(codec: TraversalCodec) -> None:
    zero = Traversal(0, (Dim(1, 0),) * codec.rank)
    top = 1 << codec.address
    powers = [1 << bit for bit in range((codec.rank - 1).bit_length())]

    def with_dim(k: int, dim: Dim) -> Traversal:
        return replace(zero, dims=(*zero.dims[:k], dim, *zero.dims[k + 1 :]))

    check(
        codec,
        zero,
        {"base": [replace(zero, base=top - 1)]}
        | {f"delta {k}": [with_dim(k, Dim(1, -1))] for k in range(codec.rank)}
        | {f"count {k}": [with_dim(k, Dim(top, 0))] for k in range(codec.rank)}
        | {
            "mask": [replace(zero, mask=(1 << codec.rank) - 1)],
            "fifo_dim": [replace(zero, fifo_dim=dim) for dim in powers],
            "fifo_step": [replace(zero, fifo_step=-1)],
            "part_count": [replace(zero, part_count=top)],
            "part_dim": [replace(zero, part_dim=dim) for dim in powers],
            "part_skip": [replace(zero, part_skip=-1)],
        },
    )


@pytest.mark.parametrize(
    ("codec", "flags", "level"),
    [
        (RING_WATCHER, 5, 3),
        (CONVERSION_WATCHER, 5, 7),
        (OP_WATCHER, 5, 7),
        (STREAM_WATCHER, 4, 3),
    ],
)
def test_layout_of_watchers(codec: WatcherCodec, flags: int, level: int) -> None:
    zero = Watcher(0, 0, 0, valid=False)
    ones = {
        "flag": [replace(zero, flag=1 << bit) for bit in range(flags)],
        "level": [replace(zero, level=level)],
        "threshold": [replace(zero, threshold=-1)],
        "increment": [replace(zero, increment=-1)],
        "valid": [replace(zero, valid=True)],
    }
    if codec in (RING_WATCHER, CONVERSION_WATCHER):
        ones["side"] = [replace(zero, side=Side.WRITE)]
    check(codec, zero, ones)


@pytest.mark.parametrize("width", [2, 3])
def test_layout_of_producers_and_prefixes(width: int) -> None:
    top = (1 << width) - 1
    producer = Producer(0, False)
    check(
        ProducerCodec(width),
        producer,
        {"valid": [Producer(0)], "level": [Producer(top, False)]},
    )
    zero = Prefix(0, 0, 1, 0, 0, enabled=False)
    check(
        PrefixCodec(width),
        zero,
        {
            "enabled": [replace(zero, enabled=True)],
            "level": [replace(zero, level=top)],
            "base": [replace(zero, base=0xFFFF)],
            "words": [replace(zero, words=0x10000)],
            "end": [replace(zero, end=0xFFFF)],
            "step": [replace(zero, step=-1)],
        },
    )


def test_the_guide_speaks_of_every_flag_and_instruction() -> None:
    text = GUIDE.read_text()
    for flag in (*TileFlag, *ScalarFlag):
        assert f"`{flag.name.lower()}`" in text, flag
    for opcode in BY_OPCODE:
        assert f"`{Opcode(opcode).name.lower()}`" in text, opcode


def test_the_guide_names_only_fields_and_instructions_that_exist() -> None:
    known = {field.name for cls in set(BY_OPCODE.values()) for field in cls.fields()}
    known |= {opcode.name.lower() for opcode in Opcode}
    known |= {flag.name.lower() for flag in (*TileFlag, *ScalarFlag)}
    names = GUIDE.read_text().replace("```", "").split("`")[1::2]
    snakes = {name for name in names if "_" in name and name.replace("_", "").isalnum()}
    parts = {piece.name for piece in WIDE.layout()}
    assert snakes - known - parts == set()
