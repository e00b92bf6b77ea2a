from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.driver.edgetpu_programs import echo
from tests.report import timelines
from tests.support import corpus_params
from tests.work import calls_at_most

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu import timing
from fitzroy.hw_models.edgetpu.conversion import NarrowToWideUnit, WideToNarrowUnit
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.mesh import MeshUnit
from fitzroy.hw_models.edgetpu.occupancy import Occupancy, occupancy, phase_numbers
from fitzroy.hw_models.edgetpu.recording import Dispatched, Entry, Recording, Streamed
from fitzroy.hw_models.edgetpu.ring import Ring, RingConsumeUnit, RingProduceUnit
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import Opcode, TileFlag, Watcher
from fitzroy.hw_models.isa.instruction import TileInstruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.traversal import Traversal, traversal
from fitzroy.linker.packages.container import read_container

NONE = range(0)
FENCE = Dispatched(Issue(TileFence(tiles=0xFFFF, idle=0x3FF), 0, 0), 0xFFFF)


def line(first: int, count: int, rank: int = 4) -> Traversal:
    return traversal(first, [(count, 1)], rank=rank)


def issue(instruction: TileInstruction, tiles: int) -> Dispatched:
    """An instruction with the plan that its engine makes."""
    core = Machine()
    units: dict[type, Any] = {
        RingConsume: RingConsumeUnit(core, Ring(), 0),
        RingProduce: RingProduceUnit(core, Ring()),
        WideToNarrow: WideToNarrowUnit(core),
        NarrowToWide: NarrowToWideUnit(core),
        Mesh: MeshUnit(core, Opcode.MESH_SOUTHWARD),
    }
    found = Issue(instruction, 0, 0)
    found.plan = units[type(instruction)].plan(found)
    return Dispatched(found, tiles)


def consume(first: int, count: int = 1, tiles: int = 1) -> Dispatched:
    return issue(RingConsume(op=Opcode.RING_CONSUME_A, wide=line(first, count)), tiles)


def produce(first: int, count: int = 1) -> Dispatched:
    return issue(RingProduce(wide=line(first, count)), 1)


def unpack(row: int, word: int, *, waits: bool = False) -> Dispatched:
    watchers = (Watcher(TileFlag.RING_READ_A, 0, 1),) if waits else ()
    return issue(WideToNarrow(wide=line(row, 1), narrow=line(word, 1, 6), wait=watchers), 1)


def pack(word: int, row: int) -> Dispatched:
    return issue(NarrowToWide(narrow=line(word, 1, 6), wide=line(row, 1)), 1)


def mesh(sent: range, received: range, tiles: int) -> Dispatched:
    halves = [line(words.start, len(words)) if words else None for words in (sent, received)]
    return issue(Mesh(op=Opcode.MESH_SOUTHWARD, send=halves[0], receive=halves[1]), tiles)


def of(*phases: list[Dispatched], caching: list[Dispatched] | None = None) -> Occupancy:
    """Occupancy of a program with these instructions between its fences."""
    entries: list[tuple[int, Entry]] = []
    for phase in phases:
        entries += [(0, item) for item in phase]
        entries.append((0, FENCE))
    loaded = [Recording([(0, item) for item in caching])] if caching else []
    return occupancy(Recording(entries), loaded)


def test_rows_are_in_use_from_write_to_last_read() -> None:
    found = of([consume(5, 3)], [], [produce(5, 2)], [])
    assert found.wide.live[:, 0].tolist() == [3, 2, 2, 0]
    assert found.wide.peak.tolist() == [3] + [0] * 15
    assert found.wide.end.tolist() == [8] + [0] * 15


def test_a_value_ends_where_the_next_one_begins() -> None:
    found = of([consume(5)], [produce(5)], [], [consume(5)], [produce(5)])
    assert found.wide.live[:, 0].tolist() == [1, 1, 0, 1, 1]


def test_a_word_that_is_read_and_overwritten_was_in_use_before() -> None:
    found = of([unpack(1, 9)], [], [pack(9, 2), unpack(1, 9)], [mesh(range(9, 10), NONE, 1)])
    assert found.narrow.live[:, 0].tolist() == [1, 1, 1, 1]


def test_a_reader_may_be_issued_before_the_writer_that_it_waits_for() -> None:
    late = of([consume(3)], [], [unpack(3, 0, waits=True), consume(3)])
    assert late.wide.live[:, 0].tolist() == [1, 0, 1]
    # Without the wait it reads what was there.
    early = of([consume(3)], [], [unpack(3, 0), consume(3)])
    assert early.wide.live[:, 0].tolist() == [1, 1, 1]


def test_tiles_are_told_apart() -> None:
    found = of(
        [mesh(NONE, range(1, 4), 0b10)],
        [mesh(range(2, 3), NONE, 0b10)],
        [mesh(range(2, 3), range(7, 8), 0b100)],
    )
    assert found.narrow.live[:, :3].tolist() == [[0, 3, 1], [0, 1, 1], [0, 0, 2]]
    assert found.narrow.end[:3].tolist() == [0, 4, 8]


def test_cached_parameters_are_in_use_all_through() -> None:
    found = of([], [produce(5)], [], caching=[consume(4, 2, 0b11)])
    assert found.resident[:3].tolist() == [2, 2, 0]
    assert found.wide.live[:, :3].tolist() == [[2, 2, 0]] * 3
    assert found.wide.end[:3].tolist() == [6, 6, 0]


def test_what_is_read_first_was_there_from_the_start() -> None:
    found = of([], [produce(11)], [])
    assert found.wide.live[:, 0].tolist() == [1, 1, 0]


def test_fences_of_all_tiles_end_phases() -> None:
    some = Dispatched(Issue(TileFence(tiles=1, idle=0x3FF), 0, 0), 1)
    only_sets = Dispatched(Issue(TileFence(tiles=0xFFFF, set=1), 0, 0), 0xFFFF)
    entries: list[Entry] = [produce(1), some, only_sets, FENCE, FENCE, produce(2)]
    recording = Recording([(0, entry) for entry in entries])
    assert list(phase_numbers(recording)) == [0, 0, 0, 0, 1, 2]


@pytest.mark.long
@pytest.mark.corpus
def test_phases_are_those_of_the_timing_model(mobilenet: PackageFile) -> None:
    for package in (echo(), mobilenet):
        main = timelines.stages(package)[-1]
        assert main.recording is not None
        timeline = timing.simulate(main.recording, main.chunk_sizes)
        assert len(timeline.phases) == occupancy(main.recording).phases
        assert [item.phase for item in timeline.issued] == [
            number
            for number, (_, entry) in zip(
                phase_numbers(main.recording), main.recording.entries, strict=True
            )
            if isinstance(entry, Streamed)
            or (
                isinstance(entry, Dispatched) and not isinstance(entry.issue.instruction, TileFence)
            )
        ]


def test_program_that_sends_a_row_on() -> None:
    main = timelines.stages(echo())[-1].recording
    assert main is not None
    found = occupancy(main)
    assert found.wide.peak.tolist() == [1] + [0] * 15
    assert found.wide.end[0] == 2049
    assert not found.narrow.live.any()


def test_empty_recording() -> None:
    assert occupancy(Recording()).phases == 0


@pytest.mark.long
@pytest.mark.corpus
def test_figures_of_a_real_model(mobilenet: PackageFile) -> None:
    caching, main = (stage.recording for stage in timelines.stages(mobilenet))
    assert caching is not None
    assert main is not None
    with calls_at_most(250 * (len(main.entries) + len(caching.entries))):
        found = occupancy(main, [caching])
    # The compiler says how much narrow memory it uses.
    assert found.narrow.end.max() * 4 == mobilenet.main.used_narrow_memory_bytes_per_tile
    assert (found.narrow.peak <= found.narrow.end).all()
    assert (found.wide.live >= found.resident).all()
    assert (found.wide.end == found.wide.capacity).all()
    assert found.narrow.live[-1].max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_params("coral/*_edgetpu.tflite", quick=0))
def test_highest_word_is_what_the_compiler_says(path: Path) -> None:
    for package in read_container(path.read_bytes(), str(path)).packages:
        *caching, main = (stage.recording for stage in timelines.stages(package))
        assert main is not None
        found = occupancy(main, [item for item in caching if item is not None])
        assert found.narrow.end.max() * 4 == package.main.used_narrow_memory_bytes_per_tile
