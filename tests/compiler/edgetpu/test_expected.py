"""Do estimates account for what the host is still busy with?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.compiler.edgetpu.test_builder import end_chunks_after
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu.test_overlap import separable

from fitzroy.base.types import DType
from fitzroy.compilation.edgetpu import MappedSegment, compile_edgetpu, form
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph
from fitzroy.compiler.targets.edgetpu.host.pace import ARRIVAL, HELD, READING, Traffic
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.execution.estimate import StepFigures, estimate, steps
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LARGE_TRANSFER

FIFO = BEAGLE.timing.host_fifo


def test_what_is_asked_for_early_arrives_in_order() -> None:
    traffic = Traffic.after(1000)
    assert traffic.input(2000, 0.0) == pytest.approx(2000 * ARRIVAL)
    assert traffic.instructions(500) == pytest.approx(2500 * ARRIVAL)
    assert traffic.parameters(64, 0.0) == pytest.approx(2564 * ARRIVAL)


def test_the_host_is_a_fifo_ahead_of_what_the_chip_takes() -> None:
    late, traffic = 1e6, Traffic.after(1000)
    size = FIFO + 1000
    assert traffic.input(size, late) == pytest.approx(late + 1000 * ARRIVAL)
    # Once the chip has taken that, nothing is in the way of what follows.
    assert traffic.instructions(500) == pytest.approx(late + 1500 * ARRIVAL)
    small = Traffic.after(1000)
    assert small.input(FIFO, late) == pytest.approx(FIFO * ARRIVAL)
    # What follows has no room before the chip has taken as much.
    assert small.instructions(500) == pytest.approx(late + 500 * ARRIVAL)


def test_large_transfers_are_prepared() -> None:
    size = LARGE_TRANSFER + 64
    moving = size * ARRIVAL
    assert Traffic.after(0).input(size, 0.0) > 1.1 * moving
    # The first chunk moves long enough to hide it.
    assert Traffic.after(size).input(size, 0.0) == pytest.approx(moving)


def test_long_chunks_make_a_pause() -> None:
    size = BEAGLE.timing.long_chunk
    pauses = [Traffic.after(nbytes).instructions(64) for nbytes in (size, size + 64)]
    assert pauses[1] - pauses[0] > 1e5
    traffic = Traffic.after(64)
    assert traffic.instructions(size + 64) + 1e5 < traffic.instructions(64)


def test_outputs_wait_for_those_before() -> None:
    traffic = Traffic()
    assert traffic.output(FIFO, 0.0, 100.0) == 100.0
    # The fifo is full: as many bytes leave as the host reads.
    assert traffic.output(1000, 100.0, 200.0) == pytest.approx(1000 * READING)
    # Layers compute while it reads all of that.
    idle = traffic.read
    assert traffic.output(1000, idle, idle + 10) == pytest.approx(idle + 10)
    assert traffic.output(2 * FIFO, idle, idle) == pytest.approx(traffic.read - HELD)


def test_what_the_scalar_core_sends_makes_room_as_a_whole() -> None:
    traffic, part = Traffic(), FIFO // 2
    for _ in range(2):
        traffic.whole(part, 0.0)
    assert traffic.output(8, 0.0, 0.0) == pytest.approx(part * READING)
    assert traffic.output(part, 0.0, 0.0) == pytest.approx(2 * part * READING)


def phases(part: MappedSegment) -> Iterator[tuple[str, float, float]]:
    """Names, estimated cycles and cycles of phases whose steps all have estimates."""
    found: list[list[StepFigures]] = []
    for item in steps(form(part, Emitted).marks, estimate(part.package, "network")):
        if item.mark.joined:
            found[-1].append(item)
        else:
            found.append([item])
    for phase in found:
        if all(item.mark.cycles for item in phase):
            name = ", ".join(item.mark.name for item in phase)
            yield name, sum(item.mark.cycles for item in phase), sum(item.cycles for item in phase)


def heads() -> Graph:
    """Outputs that the host is behind with, some of them through the scalar core."""
    graph = chain(DType.INT8, (60, 60, 8))
    grow(graph, "conv_2d", 16, (3, 3), seed=1)
    (x,) = graph.outputs
    outputs = []
    for number, (channels, stride) in enumerate(((16, 1), (8, 2), (4, 1), (16, 8))):
        graph.outputs = [x]
        grow(graph, "conv_2d", channels, (3, 3), (stride, stride), seed=number)
        outputs += graph.outputs
        outputs.append(graph.emit("abs", graph.outputs, graph.type(outputs[-1]), NO_ATTRIBUTES))
    graph.outputs = outputs
    return graph


@pytest.mark.long
@pytest.mark.parametrize("make", [heads, separable])
def test_waiting_for_the_host_is_estimated(make: Callable[[], Graph]) -> None:
    (part,) = compile_edgetpu(Source.of(make()), costs=None).segments
    found = [item for item in phases(part) if "receive" in item[0] or "send" in item[0]]
    assert len(found) > 2
    for name, expected, cycles in found:
        assert expected == pytest.approx(cycles, rel=0.1), name


@pytest.mark.long
def test_packages_store_what_is_estimated() -> None:
    (part,) = compile_edgetpu(Source.of(heads()), costs=None).segments
    marks = form(part, Emitted).marks
    assert part.package.main.estimated_cycles_64bit == round(sum(mark.cycles for mark in marks))


@pytest.mark.long
def test_a_step_waits_for_the_chunk_that_it_ends_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step after it does not wait again."""
    end_chunks_after(300, monkeypatch)
    graph = chain(DType.INT8, (8, 8, 8))
    for number in range(20):
        grow(graph, "conv_2d", 8, (3, 3), seed=number)
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    # The first phase waits for the input, and the last one for the host.
    found = [*phases(part)][1:-1]
    least = min(cycles for _, _, cycles in found)
    assert 1 < sum(cycles > 2 * least for _, _, cycles in found) < len(found) / 2
    for name, expected, cycles in found:
        assert expected == pytest.approx(cycles, rel=0.1), name
