from __future__ import annotations

import numpy as np
import pytest
from tests.driver.edgetpu_programs import POP, SIZE, WAIT, echo
from tests.support import corpus

from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.debugger import MEMORIES, Breakpoint, Debugger
from fitzroy.driver.runtime.simulator import PackageRun, SimulatedDevice
from fitzroy.hw_models.edgetpu.recording import Dispatched
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.linker.packages.container import read_container

COUNTING = np.arange(SIZE, dtype=np.uint8)
STOPS = ["1", "2", "12", "16", "17", "19", "23", "27", "28", "30", "34", "35", "42", "43"]
"""Bundles of the echo program at which the core asks for something."""
ROW = 0x800
"""Wide row that holds the input on its way."""


def started(drop: str = "", seed: int | None = None) -> Debugger:
    return Debugger(SimulatedDevice(seed=seed).start(echo(drop), {"x": COUNTING}))


def dense(seed: int | None = None, *, record: bool = False) -> PackageRun:
    path = corpus() / "templates" / "dense_256_edgetpu.tflite"
    (package,) = read_container(path.read_bytes()).packages
    inputs = dict.fromkeys(package.main.inputs, COUNTING)
    return SimulatedDevice(seed=seed).start(package, inputs, record=record)


def places(debugger: Debugger) -> list[str]:
    found = []
    while not debugger.over:
        debugger.step()
        found.append(str(debugger.place()))
    return found[:-1]


# --- going on ------------------------------------------------------------------------------------


def test_steps() -> None:
    debugger = started()
    assert debugger.place().what == "the program has not begun"
    assert debugger.listing()[0].bundle == 0
    assert places(debugger) == [f"0:{bundle}" for bundle in STOPS]
    assert debugger.outputs is not None
    assert debugger.outputs.stream == COUNTING.tobytes()
    assert debugger.place().what == "the program has ended"
    with pytest.raises(UsageError, match="has ended"):
        debugger.step()
    with pytest.raises(UsageError, match="has ended"):
        debugger.resume()


@pytest.mark.parametrize("seed", [None, 3])
def test_looking_changes_nothing(seed: int | None) -> None:
    def stream(look: bool) -> str | bytes:
        debugger = started(WAIT, seed)
        try:
            while not debugger.over:
                debugger.step()
                if look:
                    debugger.heads()
        except SimulationError as error:
            return error.what
        assert debugger.outputs is not None
        return debugger.outputs.stream

    assert stream(look=True) == stream(look=False)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize("seed", [None, 1])
def test_looking_at_a_compiled_model_changes_nothing(seed: int | None) -> None:
    plain = dense(seed).finish()
    debugger = Debugger(dense(seed))
    stages, waiting = set(), 0
    while not debugger.over:
        debugger.step()
        stages.add(debugger.place().stage)
        waiting += len(debugger.heads())
    assert stages == {"caching", "main"}
    assert waiting
    assert debugger.outputs is not None
    assert debugger.outputs.stream == plain.stream
    assert debugger.outputs.instructions == plain.instructions


@pytest.mark.corpus
def test_what_is_seen_at_a_fence_is_what_the_program_finds() -> None:
    debugger = Debugger(dense())
    compared = 0
    while not debugger.over:
        debugger.resume(debugger.at_phase_end)
        if debugger.over:
            break
        seen = {name: debugger.memory(name) for name in MEMORIES}
        flags = [debugger.flags(tile) for tile in range(16)]
        # Settling is what the fence does first.
        debugger.run.machine._turns.settle()
        debugger._view = debugger.run.machine
        for name, (words, known) in seen.items():
            now, sure = debugger.memory(name)
            np.testing.assert_array_equal(known, sure)
            np.testing.assert_array_equal(words[known], now[known])
            compared += int(known.sum())
        assert flags == [debugger.flags(tile) for tile in range(16)]
    assert compared > 10_000


def test_a_failure_can_be_looked_at() -> None:
    debugger = started(POP)
    with pytest.raises(SimulationError, match="deadlock"):
        debugger.resume()
    assert debugger.over
    assert debugger.outputs is None
    assert "deadlock" in debugger.place().what
    heads = {head.unit: head for head in debugger.heads()}
    assert heads["ring_consume_a"].tiles == 1
    assert heads["ring_consume_a"].waits == "waits for data"
    assert heads["dispatcher"].waits == "waits for ring_consume_a to be idle"
    assert (heads["dispatcher"].bundle, heads["dispatcher"].queued) == (25, 2)
    assert heads["infeed"].waits == "waits for avdata_pop >= 1, has 0"
    assert (heads["outfeed"].done, heads["outfeed"].total) == (0, 32)
    assert debugger.traffic().host == {"activation": SIZE, "parameter": 0}
    with pytest.raises(UsageError, match="has failed: deadlock"):
        debugger.step()


def test_interrupting() -> None:
    debugger = started()
    assert debugger.resume(interrupted=lambda: True) == []
    assert str(debugger.place()) == "0:1"
    assert not debugger.over


# --- breakpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("28", ["0:28"]),
        ("0:0x1c", ["0:28"]),
        ("main:0:20", ["0:23"]),
        ("0", ["0:1"]),
        ("fence", ["0:2", "0:35"]),
        ("phase", ["0:2", "0:35"]),
        ("phase:1", ["0:35"]),
        ("main:phase:0", ["0:2"]),
        ("tile_fence", ["0:1", "0:27", "0:34"]),
        ("SCALAR", ["0:12", "0:16", "0:42"]),
        ("halt", ["0:43"]),
        ("phase:7", []),
        ("mac", []),
    ],
)
def test_breakpoints(text: str, stops: list[str]) -> None:
    debugger = started()
    number, _ = debugger.add(text)
    found = []
    while True:
        hits = debugger.resume()
        if debugger.over:
            break
        assert hits == [number]
        found.append(str(debugger.place()))
    assert found == stops
    assert hits == []


def test_removed_breakpoints_do_not_stop() -> None:
    debugger = started()
    (first, _), (second, _) = debugger.add("28"), debugger.add("30")
    debugger.remove(first)
    assert debugger.resume() == [second]
    assert str(debugger.place()) == "0:30"
    with pytest.raises(UsageError, match="no breakpoint 1"):
        debugger.remove(first)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no place"),
        ("x", "no place"),
        ("-1", "no place"),
        ("1:2:3", "no place"),
        ("phase:x", "no place"),
        ("main", "no place"),
        ("1:0", "no chunk 1"),
        ("44", "nothing can be stopped at"),
        ("4444", "nothing can be stopped at"),
        ("caching:0:1", "does not run an executable 'caching'"),
    ],
)
def test_no_such_places(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        started().add(text)


def test_a_breakpoint_is_read() -> None:
    assert Breakpoint.parse("caching:3:0x10") == Breakpoint(
        "caching:3:0x10", "caching", chunk=3, bundle=16
    )
    assert Breakpoint.parse("outfeed").opcode is Opcode.OUTFEED


@pytest.mark.corpus
def test_the_executable_that_loads_parameters() -> None:
    debugger = Debugger(dense())
    number, _ = debugger.add("caching:phase:0")
    assert debugger.resume() == [number]
    place = debugger.place()
    assert (place.stage, place.phase) == ("caching", 0)
    assert str(place).startswith("caching:0:")
    debugger.remove(number)
    main, _ = debugger.add("phase:0")
    assert debugger.resume() == [main]
    assert (debugger.place().stage, debugger.place().phase) == ("main", 0)


# --- looking -------------------------------------------------------------------------------------


def row_of(debugger: Debugger) -> tuple[Array, Array]:
    words, known = debugger.examine("wide", 0, ROW, 1)
    return words.astype("<u4").view(np.uint8)[0], known[0]


def test_memory_at_a_point() -> None:
    debugger = started()
    debugger.add("23")
    debugger.resume()
    assert not row_of(debugger)[1].any()
    debugger.step()
    row, known = row_of(debugger)
    assert known.all()
    np.testing.assert_array_equal(row, COUNTING)
    # The chip itself has not got that far: nothing has let its engines move.
    assert not debugger.run.machine.memory.wide_known[0, ROW].any()
    assert not debugger.examine("wide", 1, ROW, 1)[1].any()


def test_shapes_of_memories() -> None:
    debugger = started()
    shapes = {name: debugger.memory(name)[0].shape for name in MEMORIES}
    assert shapes["narrow"] == (16, 49152)
    assert shapes["wide"][::2] == (16, 64)
    assert shapes["scaling"][::2] == (16, 2)
    assert shapes["scalar"] == (4096,)
    for name in MEMORIES[:3]:
        assert debugger.memory(name, 5)[0].shape == shapes[name][1:]
    assert debugger.examine("scaling", 0, 1, 2)[0].shape == (2, 2)
    assert debugger.examine("narrow", 0, 7, 3)[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("name", "tile", "address", "count"),
    [
        ("broad", 0, 0, 1),
        ("narrow", 16, 0, 1),
        ("narrow", -1, 0, 1),
        ("narrow", 0, 49152, 1),
        ("narrow", 0, 0, 49153),
        ("narrow", 0, -1, 1),
        ("narrow", 0, 0, 0),
        ("scalar", None, 4096, 1),
    ],
)
def test_no_such_memory(name: str, tile: int | None, address: int, count: int) -> None:
    with pytest.raises(UsageError):
        started().examine(name, tile, address, count)


def test_flags_and_registers() -> None:
    debugger = started()
    debugger.add("30")
    debugger.resume()
    assert debugger.scalar_flags()["avdata_pop"] == 32
    assert set(debugger.flags(0).values()) == {0}
    assert debugger.done() == []
    assert debugger.registers()[5] == SIZE
    assert debugger.predicates() == {}
    assert [head.unit for head in debugger.heads()] == ["outfeed"]
    debugger.step(2)
    assert debugger.done() == list(range(16))


def test_listings() -> None:
    debugger = started()
    number, _ = debugger.add("23")
    debugger.add("28")
    debugger.resume()
    lines = debugger.listing(1, 2)
    assert [line.bundle for line in lines] == [19, 23, 27, 28]
    assert [line.current for line in lines] == [False, True, False, False]
    assert [line.breakpoints for line in lines] == [(), (number,), (), (number + 1,)]
    assert lines[1].lines[0].startswith("infeed memory=activation")
    # A bundle inside an instruction stands for it.
    assert [line.bundle for line in debugger.listing(0, 0, around=25)] == [23]
    with pytest.raises(UsageError, match="the chunk has 49"):
        debugger.listing(around=49)


# --- recordings ----------------------------------------------------------------------------------


@pytest.mark.corpus
def test_recordings_are_of_each_executable() -> None:
    plain, recorded = dense().finish(), dense(record=True).finish()
    assert plain.stream == recorded.stream
    assert [stage.recording for stage in plain.stages] == [None, None]
    assert [stage.name for stage in recorded.stages] == ["caching", "main"]
    for stage in recorded.stages:
        assert stage.recording is not None
        issues = [e.issue for _, e in stage.recording.entries if isinstance(e, Dispatched)]
        assert issues
        assert stage.recording.entries[-1][0] <= recorded.instructions


@pytest.mark.corpus
def test_debugging_and_recording_agree() -> None:
    debugger = Debugger(dense(record=True))
    while not debugger.over:
        debugger.step()
    assert debugger.outputs is not None
    for mine, other in zip(
        debugger.outputs.stages, dense(record=True).finish().stages, strict=True
    ):
        assert mine.recording is not None
        assert other.recording is not None
        assert [n for n, _ in mine.recording.entries] == [n for n, _ in other.recording.entries]
