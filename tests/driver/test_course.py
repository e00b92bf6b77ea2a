"""Programs that run again on the simulated chip, whose course is followed, against a new chip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu_models import program, random_model
from tests.driver.edgetpu_programs import SIZE, echo
from tests.driver.test_lockstep import alone, images, same
from tests.support import corpus_params

from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.hw_models.edgetpu import course
from fitzroy.hw_models.edgetpu.course import Counters, Course, Diverged
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.scalar import Descriptor, HostWords
from fitzroy.hw_models.isa.scalar import DescriptorTag

Turns = Callable[[], int]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """How many turns units had since this was asked before."""
    count = 0
    usual = Machine._move

    def move(machine: Machine, kind: int) -> None:
        nonlocal count
        count += 1
        usual(machine, kind)

    def asked() -> int:
        nonlocal count
        found, count = count, 0
        return found

    monkeypatch.setattr(Machine, "_move", move)
    return asked


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("seed", range(7100, 7110))
def test_random_models_run_again(seed: int, axes: bool, turns: Turns) -> None:
    graph = random_model(seed, axes=axes)
    package, inputs = program(graph), images(graph, 5)
    wanted = alone(package, inputs)
    device = SimulatedDevice()
    turns()
    for number, (image, outputs) in enumerate(zip(inputs, wanted, strict=True)):
        (found,) = device.run_images(package, [image])
        assert same(found, outputs)
        # Twice with queues and flags; then only streams are looked at, which have nothing to do.
        assert (turns() > 30) == (number < 2)


def test_several_images_run_again() -> None:
    graph = random_model(7103)
    package, inputs = program(graph), images(graph, 8)
    device = SimulatedDevice(images=2)
    found = [
        outputs
        for first in range(0, 8, 2)
        for outputs in device.run_images(package, inputs[first : first + 2])
    ]
    assert all(map(same, found, alone(package, inputs)))


@pytest.mark.long
@pytest.mark.parametrize("path", corpus_params("*/*_edgetpu.tflite", quick=3))
def test_published_programs_run_again(path: Path) -> None:
    held = EdgeTpuProgram.load(path, 0)
    rng = np.random.default_rng(2)
    types = {**held.inputs, **held.states}
    inputs = [
        {
            name: rng.integers(0, 256, type.size * type.dtype.numpy.itemsize, np.uint8)
            for name, type in types.items()
        }
        for _ in range(4)
    ]
    device = SimulatedDevice()
    found = [device.run_images(held.package, [image])[0] for image in inputs]
    assert same(found[-1], SimulatedDevice().run(held.package, inputs[-1]))


def test_another_program_in_between(turns: Turns) -> None:
    graph = random_model(7103)
    package, inputs = program(graph), images(graph, 4)
    wanted = alone(package, inputs)
    device = SimulatedDevice()
    row = {"x": np.arange(SIZE, dtype=np.uint8)}
    for image, outputs in zip(inputs, wanted, strict=True):
        assert same(device.run_images(package, [image])[0], outputs)
        turns()
        assert device.run_images(echo(), [row])[0].tensors["y"].tolist() == row["x"].tolist()
        assert turns() > 3


@pytest.mark.parametrize("seed", [1, 2])
def test_random_orders_are_never_followed(seed: int, turns: Turns) -> None:
    device = SimulatedDevice(seed=seed)
    counts = []
    for _ in range(4):
        device.run_images(echo(), [{"x": np.zeros(SIZE, np.uint8)}])
        counts.append(turns())
    assert min(counts) > 3


def test_what_takes_too_much_memory_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, turns: Turns
) -> None:
    monkeypatch.setattr(course, "ROOM_BYTES", 10_000)
    graph = random_model(7103)
    package, inputs = program(graph), images(graph, 4)
    device = SimulatedDevice()
    turns()
    for image, outputs in zip(inputs, alone(package, inputs), strict=True):
        turns()
        assert same(device.run_images(package, [image])[0], outputs)
        assert turns() > 100


def test_programs_that_take_another_course_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_model(7103)
    package, inputs = program(graph), images(graph, 5)
    wanted = alone(package, inputs)
    device = SimulatedDevice()
    for image in inputs[:3]:
        device.run_images(package, [image])
    usual = Course.moves
    calls = 0

    def moves(self: Course, number: int, event: object) -> list[course.Move]:
        nonlocal calls
        calls += 1
        if number == 20:
            raise Diverged
        return usual(self, number, event)  # type: ignore[arg-type]

    monkeypatch.setattr(Course, "moves", moves)
    for image, outputs in zip(inputs[3:], wanted[3:], strict=True):
        assert same(device.run_images(package, [image])[0], outputs)
    # A chip whose program does so once does not try again.
    assert calls == 21


def test_events_of_a_course() -> None:
    found = Course(Counters((), (), 0))
    made = []
    ask = Descriptor(0, 3, 64, 8, DescriptorTag.INPUT)
    found.event(ask)
    found.move(lambda: made.append(1), 0)
    found.event(HostWords((1, 2)))
    for move in found.moves(0, Descriptor(0, 3, 64, 8, DescriptorTag.INPUT)):
        move()
    assert made == [1]
    assert not found.moves(1, HostWords((5, 6, 7)))
    with pytest.raises(Diverged):
        found.moves(0, Descriptor(0, 3, 64, 9, DescriptorTag.INPUT))
    with pytest.raises(Diverged):
        found.moves(0, HostWords((1, 2)))
    with pytest.raises(Diverged):
        found.moves(2, ask)
