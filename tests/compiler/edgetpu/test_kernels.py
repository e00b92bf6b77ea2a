from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from fitzroy.base.errors import InternalError
from fitzroy.compiler.targets.edgetpu.kernels import (
    WHOLE,
    Axis,
    Contraction,
    Lanes,
    Sending,
    Taking,
    Vectors,
    WeightStream,
    free,
    full,
    moves,
    pack,
    walk,
)
from fitzroy.compiler.targets.edgetpu.layers.layer import Context
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.isa.fields import Producer, Side, TileFlag, Watcher
from fitzroy.hw_models.isa.tensor import TensorOp

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "kernel.py"


@cache
def example() -> ModuleType:
    """`kernel.py` as a module."""
    spec = importlib.util.spec_from_file_location("kernel_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def waits(instruction: object) -> list[Watcher]:
    found = instruction.wait  # type: ignore[attr-defined]
    return [item for item in found if item is not None]


# --- walks ---------------------------------------------------------------------------------------


def test_levels_follow_from_names() -> None:
    words = walk(8, word=(4, 1), line=(3, 16))
    assert words.each("word") == Producer(0)
    assert words.each("line") == Producer(1)
    assert words.each(WHOLE) == Producer(2)
    assert list(words.words.addresses()) == [8, 9, 10, 11, 24, 25, 26, 27, 40, 41, 42, 43]


def test_an_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(InternalError, match="0 axes are called 'row'"):
        walk(0, word=(4, 1)).each("row")


def test_axes_of_one_name_cannot_be_told_apart() -> None:
    axes = [Axis("x", 2, 4, 4), Axis("x", 2, 8, 8)]
    with pytest.raises(InternalError, match="2 axes are called 'x'"):
        moves(0, 64, 0, [], axes, publish="x")


def test_a_last_part_that_is_not_shorter_is_none() -> None:
    assert walk(0, word=(4, 1), block=(3, 4), part=(4, "block")).words.part_dim == 0
    part = walk(0, word=(4, 1), block=(3, 4), part=(2, "block")).words
    assert list(part.addresses()) == [*range(8), 8, 9]


def test_slots_are_used_in_turn_along_an_axis() -> None:
    rows = walk(10, row=(2, 1), slot=(3, 0), turn=("slot", 5))
    assert list(rows.rows.addresses()) == [10, 11, 15, 16, 10, 11]


# --- conditions ----------------------------------------------------------------------------------


def test_conditions_gate_the_walk_of_their_side() -> None:
    words, rows = walk(0, word=(64, 1), line=(3, 64)), walk(4, row=(3, 1))
    packed = pack(
        words,
        rows,
        publish="row",
        acquire=[full(TileFlag.AVDATA, "line"), free(TileFlag.RING_WRITE, "row")],
    )
    assert waits(packed) == [
        Watcher(TileFlag.AVDATA, 1, 1, 1, side=Side.READ),
        Watcher(TileFlag.RING_WRITE, 0, -1, 1, side=Side.WRITE),
    ]
    assert packed.pack_level == 2


@pytest.mark.parametrize(("row", "publish", "credit"), [(WHOLE, None, 128), ("block", None, 24)])
def test_the_credit_of_a_queue_is_what_a_slot_counts(
    row: str, publish: str | None, credit: int
) -> None:
    rows = walk(0, row=(2, 1), slot=(4, 0), turn=("slot", 2))
    taking = Taking(rows, walk(0, word=(12, 1), block=(8, 16)), row=row, publish=publish)
    (condition,) = waits(taking.consume())
    assert (condition.threshold, condition.increment) == (-credit, credit)
    assert waits(taking.unpack())[0] == Watcher(TileFlag.RING_READ_A, 1, 1, 1)


def test_words_that_nothing_counts_are_no_words_to_wait_for() -> None:
    rows = walk(0, row=(2, 1), slot=(4, 0), turn=("slot", 2))
    taking = Taking(rows, walk(0, word=(512, 1)))
    (condition,) = waits(taking.consume(uncounted=30))
    assert (condition.threshold, condition.increment) == (-128 - 30, 128)


def test_rows_that_went_before_decide_on_the_slot() -> None:
    sending = Sending(walk(0, word=(64, 1)), 1, slots=20, sent=3)
    assert sending.pack().wide.base == 21
    assert waits(sending.pack())[0].threshold == 3 - 1


def test_a_message_waits_for_its_turn_in_slots_of_several_rows() -> None:
    sending = Sending(walk(0, word=(320, 1)), 5, slots=20, sent=1, depth=3)
    assert sending.turns == 2
    packed, sent = sending.pack(), sending.produce(0, full(TileFlag.RING_PRODUCER_A, WHOLE), 1)
    assert list(packed.wide.addresses()) == [23, 24, 25, 20, 21]
    assert sent.wide == packed.wide
    assert waits(packed)[0].threshold == 1 - 1
    assert waits(sent)[-1].threshold == 1 + 1


# --- contractions --------------------------------------------------------------------------------


def contraction(chunks: int) -> TensorOp:
    vectors = Vectors(2, scales=True, lanes=64)
    queue = WeightStream(staged=18, chunks=chunks, blocks=2, prefix=2, vectors=vectors, top=2047)
    return Contraction(
        source=0,
        result=4096,
        taps=[Axis("kx", 3, 8), Axis("ky", 3, 64), Axis("word", 2, 4)],
        positions=[Axis("x", 5, 8, 128), Axis("y", 4, 64, 640)],
        chunk=Axis("chunk", chunks, 8),
        block=Axis("block", 2, 0, 64),
        lanes=Lanes.channels(64, 20),
        weights=queue,
        stage=OutputStage(scale=1.0),
    ).operation()


def test_a_contraction_derives_loops_masks_and_conditions() -> None:
    operation = contraction(chunks=4)
    assert operation.loops == (3, 3, 2, 5, 4, 4, 2, 1)
    assert operation.reduction == 0b100111
    assert operation.block_level == 6
    assert not operation.accumulate
    assert waits(operation) == [
        Watcher(TileFlag.RING_READ_B, 5, 1, 1),
        Watcher(TileFlag.WIDE_TO_SCALING, 6, 1, 1),
    ]
    assert operation.b is not None
    assert (operation.b.part_count, operation.b.part_dim) == (5, 3)
    assert operation.avdata == Producer(3)


def test_a_single_chunk_has_no_loop() -> None:
    operation = contraction(chunks=1)
    assert operation.loops == (3, 3, 2, 5, 4, 2, 1, 1)
    assert operation.reduction == 0b111
    assert operation.accumulate
    assert [item.level for item in waits(operation)] == [5, 5]


# --- the example ---------------------------------------------------------------------------------


@pytest.mark.long
def test_the_verifier_objects_to_a_kernel_that_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = example()
    assert not kernel.findings(kernel.compiled(32))
    operation = kernel.Motion.operation

    def hasty(self: object, context: Context, row: int, tile: int) -> TensorOp:
        found: TensorOp = operation(self, context, row, tile)
        return replace(found, wait=(None,) * 6)

    monkeypatch.setattr(kernel.Motion, "operation", hasty)
    assert any("ring_consume_b" in text for text in kernel.findings(kernel.compiled(32)))
