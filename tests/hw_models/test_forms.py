from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from benchmarks.forms import BESIDE, collected, programs, table
from tests.support import corpus

from fitzroy.hw_models.isa.catalog import INSTRUCTIONS, opcodes
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fields import Opcode, Producer, Side, TileFlag, Watcher
from fitzroy.hw_models.isa.forms import TABLE, form, parsed, published, rules, shapes
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.novelty import ASPECTS, Risk, differences, novelty
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BYTES, NARROW, WIDE, Prefix, Traversal, traversal

MOST_BYTES = 128_000


def rows(*dims: tuple[int, int], **more: tuple[int, int]) -> Traversal:
    return traversal(64, list(dims), rank=WIDE.rank, **more)


PRODUCE = RingProduce(
    tiles=1,
    wide=rows((1, 1), (12, 0), ping_pong=(1, 1)),
    ring_write=Producer(1),
    token=Producer(2),
    wait=(
        Watcher(TileFlag.RING_PRODUCER_A, 2, 0, 1),
        Watcher(TileFlag.NARROW_TO_WIDE, 1, 1, 1),
    ),
    to_outfeed=True,
)


def test_text() -> None:
    assert form(PRODUCE) == (
        "ring_produce wide=2/ping1 ring_write=@1 token=@2 "
        "wait=narrow_to_wide+@1&ring_producer_a+@2 to_outfeed=1"
    )
    assert parsed(form(PRODUCE)) == ("ring_produce", shapes(PRODUCE))
    assert form(PRODUCE) in published()


@pytest.mark.parametrize("kind", INSTRUCTIONS)
def test_every_field_has_a_rule(kind: type[Instruction]) -> None:
    names = {name for name, _, _ in rules(kind)}
    assert names | {"op"} == {field.name for field in kind.fields()}
    for opcode in opcodes(kind):
        assert form(replace(kind(), op=opcode)).split()[0] == opcode.name.lower()


@pytest.mark.parametrize(
    "changes",
    [
        {"tiles": 7},
        {"seq": 99},
        {"wide": rows((1, 5), (3, 0), ping_pong=(1, 4))},
        {"destination": 0xFFFF},
        {"wait": PRODUCE.wait[::-1]},
        {
            "wait": (
                Watcher(TileFlag.RING_PRODUCER_A, 2, -7, 5),
                Watcher(TileFlag.NARROW_TO_WIDE, 1, 100, 2),
            )
        },
    ],
    ids=lambda changes: "-".join(changes),
)
def test_magnitudes_do_not_count(changes: dict[str, Any]) -> None:
    assert form(replace(PRODUCE, **changes)) == form(PRODUCE)


@pytest.mark.parametrize(
    "changes",
    [
        {"op": Opcode.RING_PRODUCE, "channel": 1},
        {"wide": rows((1, 1), (12, 0))},
        {"wide": rows((2, 1), (12, 0), (2, 0), ping_pong=(1, 1))},
        {"wide": rows((2, 1), (12, 0), ping_pong=(1, 1), part=(1, 1))},
        {"prefix": Prefix(0, 0, 1, 0, 0)},
        {"token": Producer(1)},
        {"token": None},
        {"wait": (PRODUCE.wait[0], None)},
        {"wait": (PRODUCE.wait[0], Watcher(TileFlag.NARROW_TO_WIDE, 1, 1, 0))},
        {"wait": (PRODUCE.wait[0], Watcher(TileFlag.NARROW_TO_WIDE, 1, 1, -1))},
        {"wait": (PRODUCE.wait[0], Watcher(TileFlag.NARROW_TO_WIDE, 2, 1, 1))},
        {"wait": (PRODUCE.wait[0], Watcher(TileFlag.NARROW_TO_WIDE, 1, 1, 1, side=Side.WRITE))},
        {"to_outfeed": False},
    ],
)
def test_modes_count(changes: dict[str, Any]) -> None:
    assert form(replace(PRODUCE, **changes)) != form(PRODUCE)


def test_operands_lanes_and_masks_count() -> None:
    op = TensorOp(
        loops=(4, 9, 1, 1, 1, 1, 1, 1),
        a=traversal(0, [(4, 1), (9, 4)], rank=BYTES.rank),
        lanes=64,
        lanes_last=4,
        reduction=1,
    )
    assert form(op) == "mac loops=2 a=2 write=1 reduction=0x1 lanes_last=n lanes=all"
    assert form(replace(op, a=None)) != form(op)
    assert form(replace(op, reduction=3)) != form(op)
    assert form(replace(op, lanes=32)) == form(replace(op, lanes=8))


def test_pack_level_counts() -> None:
    pack = NarrowToWide(narrow=traversal(0, [(4, 1)], rank=NARROW.rank), wide=rows((1, 1)))
    assert form(replace(pack, pack_level=1)) != form(replace(pack, pack_level=2))


def test_table_is_small_and_sorted() -> None:
    assert list(published()) == sorted(published())
    assert len(table(published())) < MOST_BYTES
    for text, occurrence in published().items():
        assert 0 < occurrence.programs <= occurrence.instructions, text


@pytest.mark.long
@pytest.mark.corpus
def test_table_is_that_of_published_programs() -> None:
    folders = [corpus().parent / name for name in BESIDE]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip(f"no published programs at {', '.join(map(str, folders))}")
    assert collected(programs()) == published(), f"run `python -m benchmarks.forms` for {TABLE}"


def test_all_differences_have_an_aspect() -> None:
    by_opcode: dict[str, list[str]] = {}
    for text in published():
        by_opcode.setdefault(text.split()[0], []).append(text)
    for forms in by_opcode.values():
        for one, other in combinations(forms[::3], 2):
            found = differences(one, other)
            assert found, (one, other)
            assert all(item.aspects for item in found), found


def test_modes_without_reason_are_not_explained() -> None:
    """Nothing says that tile sets in registers are safe for tensor operations."""
    found = novelty(form(TensorOp(tiles_from_register=True)))
    assert not found.explained


def test_nearest_form() -> None:
    novel = form(replace(PRODUCE, channel=1))
    assert novel not in published()
    found = novelty(novel)
    assert found.nearest in published()
    assert found.explained
    assert [item.field for item in found.differences] == ["channel"]
    assert [aspect.name for aspect in found.aspects] == ["streams"]
    assert found.differences[0].seen


def test_opcode_without_published_forms() -> None:
    found = novelty("opcode_of_nobody loops=2")
    assert not found.nearest
    assert not found.explained


def test_aspects_have_reasons() -> None:
    assert len({aspect.name for aspect in ASPECTS}) == len(ASPECTS)
    assert all(aspect.why.endswith(".") for aspect in ASPECTS)


# --- what is at stake ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "risk"),
    [
        # Another number of loops, with what published forms have otherwise.
        ("wide_to_narrow wide=3 narrow=3/ping2 wide_to_narrow=@2 wait=avdata+@2:write&"
         "ring_read_b+@1 to_scaling=1 pack_level=1", Risk.LOW),
        # No published form awaits this, or counts there.
        ("ring_consume_b ring_read=@1", Risk.MEDIUM),
        ("narrow_to_wide narrow=4 wide=2 narrow_to_wide=@2 wait=ring_write@2:write pack_level=3",
         Risk.MEDIUM),
        # Every difference of a maximum counts.
        ("max loops=3 c=3 b=2 avdata=@2 lanes_last=n lanes=n", Risk.MEDIUM_HIGH),
        # Published programs send what an outfeed has filled; a fence must order other words.
        ("infeed memory=scalar buffer=1 token=@1 infed=@0 constant1=1 row_words=all",
         Risk.MEDIUM_HIGH),
        # Nothing is known about the opcode.
        ("opcode_of_nobody loops=2", Risk.HIGH),
    ],
)  # fmt: skip
def test_risk(text: str, risk: Risk) -> None:
    assert text not in published()
    assert novelty(text).risk is risk


def test_the_riskiest_difference_decides() -> None:
    found = novelty("ring_consume_b wide=3 ring_read=@1")
    assert {item.risk for item in found.differences} == {Risk.LOW, Risk.MEDIUM}
    assert found.risk is Risk.MEDIUM


def test_risks_have_meanings_and_order() -> None:
    assert [risk.title for risk in Risk] == ["low", "medium", "medium-high", "high"]
    assert len({risk.meaning for risk in Risk}) == len(Risk)
    assert all(aspect.unseen >= aspect.risk for aspect in ASPECTS)
