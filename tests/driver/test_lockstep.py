"""Several images in lockstep on the simulated chip, against one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu_models import program, random_inputs, random_model
from tests.driver.edgetpu_programs import SIZE, echo
from tests.driver.test_simulator import DIGITS
from tests.support import corpus_params

import fitzroy
from fitzroy.base.errors import CapacityError, SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.driver.runtime.simulator import Lockstep, PackageOutputs, SimulatedDevice
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.latitude import ANY
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.unknown import KNOWN, Several


def images(graph: Graph, count: int) -> list[dict[str, Array]]:
    """Random inputs of several images, as bytes by name."""
    return [
        {name: x.reshape(-1).view(np.uint8) for name, x in random_inputs(graph, seed).items()}
        for seed in range(count)
    ]


def alone(
    package: PackageFile, inputs: list[dict[str, Array]], seed: int | None = None
) -> list[PackageOutputs]:
    """Outputs of images that are computed one after the other."""
    device = SimulatedDevice(seed=seed)
    return [device.run(package, image) for image in inputs]


def same(found: PackageOutputs, wanted: PackageOutputs) -> bool:
    """Whether the same bytes left the device, for the same outputs."""
    return found.stream == wanted.stream and all(
        np.array_equal(found.tensors[name], data) for name, data in wanted.tensors.items()
    )


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("seed", range(7000, 7012))
def test_images_of_random_models(seed: int, axes: bool) -> None:
    graph = random_model(seed, axes=axes)
    package = program(graph)
    inputs = images(graph, 3)
    wanted = alone(package, inputs)
    device = SimulatedDevice(images=3)
    for turn in range(2):
        found = device.run_images(package, inputs[turn:] + inputs[:turn])
        assert all(map(same, found, wanted[turn:] + wanted[:turn]))


def test_order_of_engines_and_contents_of_memories_do_not_matter() -> None:
    graph = random_model(7001)
    package = program(graph)
    inputs = images(graph, 2)
    found = SimulatedDevice(seed=3, images=2).run_images(package, inputs)
    assert all(map(same, found, alone(package, inputs)))


def test_fewer_images_than_the_device_has() -> None:
    rows = [np.full(SIZE, value, np.uint8) for value in (3, 250)]
    device = SimulatedDevice(images=4)
    found = device.run_images(echo(), [{"x": row} for row in rows])
    assert [outputs.tensors["y"].tolist() for outputs in found] == [row.tolist() for row in rows]


def test_numbers_of_images_that_are_refused() -> None:
    with pytest.raises(UsageError, match="0 images"):
        SimulatedDevice(images=2).run_images(echo(), [])
    with pytest.raises(UsageError, match="3 images"):
        SimulatedDevice(images=2).run_images(echo(), [{"x": np.zeros(SIZE, np.uint8)}] * 3)
    with pytest.raises(UsageError, match="2 images in lockstep"):
        SimulatedDevice(images=2).start(echo(), {"x": np.zeros(SIZE, np.uint8)})
    with pytest.raises(UsageError, match="late sums"):
        SimulatedDevice(images=2, seed=1, latitude=ANY)
    with pytest.raises(CapacityError, match="memories of the chip for 100000 images"):
        SimulatedDevice(images=100_000)


def test_programs_that_do_not_compute_together_compute_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    usual = SimulatedDevice.run_images

    def refused(
        self: SimulatedDevice, package: PackageFile, inputs: list[Mapping[str, Array]]
    ) -> tuple[PackageOutputs, ...]:
        counts.append(len(inputs))
        if len(inputs) > 1:
            raise SimulationError("images have something of their own")
        return usual(self, package, inputs)

    monkeypatch.setattr(SimulatedDevice, "run_images", refused)
    inputs = [{"x": np.full(SIZE, value, np.uint8)} for value in range(3)]
    found = [*Lockstep().run(echo(), inputs)]
    assert [int(outputs.tensors["y"][0]) for outputs in found] == [0, 1, 2]
    assert counts == [3, 1, 1, 1]


def test_chips_for_one_image_and_for_many_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    usual = SimulatedDevice.__init__

    def noted(self: SimulatedDevice, *, seed: int | None = None, images: int = 1) -> None:
        sizes.append(images)
        usual(self, seed=seed, images=images)

    monkeypatch.setattr(SimulatedDevice, "__init__", noted)
    chips = Lockstep()
    for count in (1, 3, 1, 2, 4, 1, 3):
        rows = [{"x": np.full(SIZE, value, np.uint8)} for value in range(count)]
        found = [*chips.run(echo(), rows)]
        assert [int(outputs.tensors["y"][0]) for outputs in found] == [*range(count)]
    assert sizes == [1, 3, 4]


def test_whole_models() -> None:
    compiled = fitzroy.compile(DIGITS, target="edgetpu").data
    with Interpreter(compiled, device=DirectSimulator()) as interpreter:
        rng = np.random.default_rng(0)
        (detail,) = interpreter.get_input_details()
        values = [
            {detail["name"]: rng.integers(-128, 128, detail["shape"], np.int8)} for _ in range(3)
        ]
        wanted = [interpreter.run(one) for one in values]
        found = interpreter.run_images(values)
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in other)


@pytest.mark.long
@pytest.mark.parametrize("path", corpus_params("*/*_edgetpu.tflite", quick=3))
def test_published_programs(path: Path) -> None:
    program = EdgeTpuProgram.load(path, 0)
    rng = np.random.default_rng(1)
    types = {**program.inputs, **program.states}
    inputs = [
        {
            name: rng.integers(0, 256, type.size * type.dtype.numpy.itemsize, np.uint8)
            for name, type in types.items()
        }
        for _ in range(2)
    ]
    found = SimulatedDevice(images=2).run_images(program.package, inputs)
    assert all(map(same, found, alone(program.package, inputs)))


def test_a_word_may_be_zero_for_the_first_image_only() -> None:
    machine = Machine(images=2)
    machine.core.write(8, [Several((0, 5), KNOWN), 7])
    assert machine.read_words(8, 2).tolist() == [[0, 7], [5, 7]]
    assert machine.read_marks(8, 2).tolist() == [KNOWN, KNOWN]
