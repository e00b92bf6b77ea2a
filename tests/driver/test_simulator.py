from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from tests.driver.edgetpu_programs import ECHO, POP, SIZE, WAIT, echo
from tests.support import corpus
from tests.work import calls_at_most

import fitzroy
from fitzroy.api import EdgeTpuProgram
from fitzroy.base.errors import (
    CapacityError,
    FormatError,
    SimulationError,
    UnsupportedError,
    UsageError,
)
from fitzroy.base.types import Array
from fitzroy.driver.runtime import simulator
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.darwinn import Description, Executable, Package, PackageFile
from fitzroy.hw_models.isa.program import assemble, disassemble
from fitzroy.hw_models.isa.scalar import Branch, Halt
from fitzroy.linker.packages.container import read_container

# The start of the chunk and all up to the halt; deeper lines are operands.
INSTRUCTIONS = 1 + len(re.findall(r"^ {4}\w", ECHO.partition("    nop")[0], re.MULTILINE))
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "models" / "digits.tflite"
COUNTING = np.arange(SIZE, dtype=np.uint8)


def with_main(package: PackageFile, **changes: object) -> PackageFile:
    """A package whose only executable has other fields, which the linker would refuse."""
    (executable,) = package.executables
    changed = dataclasses.replace(executable, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(package, executables=[changed])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_row_comes_back(seed: int | None) -> None:
    device = SimulatedDevice(seed=seed)
    for data in (COUNTING, COUNTING[::-1].copy()):
        result = device.run(echo(), {"x": data})
        np.testing.assert_array_equal(result.tensors["y"], data)
        np.testing.assert_array_equal(result.buffers["y"], data)
        assert result.stream == data.tobytes()
        assert result.instructions == INSTRUCTIONS


def test_the_device_sees_unsigned_elements() -> None:
    result = SimulatedDevice().run(echo(signed=True), {"x": COUNTING})
    np.testing.assert_array_equal(result.tensors["y"], COUNTING)
    np.testing.assert_array_equal(result.buffers["y"], COUNTING ^ 0x80)


def test_a_deadlock_says_who_waits_for_what() -> None:
    with pytest.raises(SimulationError, match="deadlock") as caught:
        SimulatedDevice().run(echo(POP), {"x": COUNTING})
    for text in ("waits for tiles 0", "ring_consume_a #1", "outfeed at bundle"):
        assert text in caught.value.reason
    assert caught.value.where.startswith("scalar_fence at bundle")


def test_a_missing_wait_shows_in_some_order() -> None:
    def run(seed: int) -> str:
        try:
            result = SimulatedDevice(seed=seed).run(echo(WAIT), {"x": COUNTING})
        except SimulationError as error:
            return error.what
        return "" if result.stream == COUNTING.tobytes() else "differs"

    outcomes = {run(seed) for seed in range(12)}
    assert "" in outcomes
    assert "256 bytes of output depend on memory that nothing has written" in outcomes


@pytest.mark.parametrize(
    ("inputs", "kind", "text"),
    [
        ({}, UsageError, "input 'x' is missing"),
        ({"x": COUNTING, "z": COUNTING}, UsageError, "no input 'z'"),
        ({"x": COUNTING[:-1]}, FormatError, "255 bytes, expected 1 of 256"),
    ],
)
def test_wrong_inputs(inputs: dict[str, Array], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        SimulatedDevice().run(echo(), inputs)


def test_what_no_host_could_answer() -> None:
    package = echo()
    [layer] = package.main.output_layers or []

    def refused(changed: PackageFile, text: str, kind: type[Exception] = SimulationError) -> None:
        with pytest.raises(kind, match=text):
            SimulatedDevice().run(changed, {"x": COUNTING})

    long = dataclasses.replace(layer, size_bytes=2 * SIZE, z_dim=2 * SIZE)
    refused(with_main(package, output_layers=[long]), "'y' is not complete.*: 256 of 512 bytes")
    short = dataclasses.replace(layer, size_bytes=SIZE - 4)
    refused(with_main(package, output_layers=[short]), "sends 256 bytes of output.*: it has 252")
    renamed = dataclasses.replace(layer, name="w")
    refused(with_main(package, output_layers=[renamed]), "uses output.*'y'.*no such buffer")
    vast = dataclasses.replace(layer, execution_count_per_inference=1 << 30)
    refused(with_main(package, output_layers=[vast]), "the budget is 4 GiB", CapacityError)
    refused(
        with_main(package, scratch_size_bytes=-1), "-1 bytes for the scratch buffer", FormatError
    )
    refused(with_main(package, batch_size=2), "batch of 2", UnsupportedError)
    for old, new, text in (
        (Description.BASE_ADDRESS_OUTPUT_ACTIVATION, "INPUT_ACTIVATION", "only to be read"),
        (Description.BASE_ADDRESS_INPUT_ACTIVATION, "PARAMETER", "no such buffer"),
        (Description.BASE_ADDRESS_INPUT_ACTIVATION, "SCRATCH", "asks for 256 bytes of scratch"),
    ):
        changed = redirected(echo(), old, Description[f"BASE_ADDRESS_{new}"])
        # Without a script for the host, which would not be that of the program any more.
        refused(with_main(changed, dma_hints=None), text)


def redirected(package: PackageFile, old: Description, new: Description) -> PackageFile:
    """A package whose transfers with one buffer go to another."""
    for stream in package.main.instruction_bitstreams or ():
        for offset in stream.field_offsets or ():
            assert offset.meta is not None
            if offset.meta.desc == old:
                offset.meta.desc = new
                offset.meta.name = "x" if new is Description.BASE_ADDRESS_INPUT_ACTIVATION else ""
    return package


@pytest.mark.corpus
def test_parameters_stay_on_the_chip() -> None:
    path = corpus() / "templates" / "dense_256_edgetpu.tflite"
    (package,) = read_container(path.read_bytes()).packages
    (name,) = package.main.inputs
    device = SimulatedDevice()
    first, again = (device.run(package, {name: COUNTING}) for _ in range(2))
    assert first.stream == again.stream
    assert first.instructions > again.instructions
    other = PackageFile(package=Package(), executables=list(package.executables))
    other.executables[:] = [copy_of(item, token=99) for item in package.executables]
    assert device.run(other, {name: COUNTING}).instructions == first.instructions
    assert device.run(package, {name: COUNTING}).instructions == first.instructions


def test_hints_are_compared_once_for_each_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[Executable]()
    monkeypatch.setattr(simulator, "demand_script", lambda one, steps: compared.append(one))
    device, package, other = SimulatedDevice(), echo(), echo()
    for one in (package, other, package):
        device.run(one, {"x": COUNTING})
    assert [id(one) for one in compared] == [id(package.main), id(other.main)]


def test_endless_programs_are_followed_and_executed_within_their_budget() -> None:
    """The program has done all that its hints say before it begins to turn in circles."""
    package, steps = echo(), 100_000
    stream = (package.main.instruction_bitstreams or [])[0]
    assert stream.bitstream is not None
    code = disassemble(stream.bitstream.tobytes())
    halt = next(at for at, instruction in enumerate(code) if isinstance(instruction, Halt))
    code[halt] = Branch(offset=0)
    stream.bitstream = np.frombuffer(assemble(code), np.uint8)
    device = SimulatedDevice(steps=steps)
    with (
        calls_at_most(2 * steps + 50_000),
        pytest.raises(SimulationError, match=f"does not end within {steps} steps"),
    ):
        device.run(package, {"x": COUNTING})


def copy_of(executable: Executable, token: int) -> Executable:
    return dataclasses.replace(executable, parameter_caching_token=token)


@pytest.mark.corpus
def test_half_a_package_cannot_run() -> None:
    path = corpus() / "templates" / "dense_256_edgetpu.tflite"
    (package,) = read_container(path.read_bytes()).packages
    half = PackageFile(package=Package(), executables=[package.main])
    with pytest.raises(SimulationError, match="that nothing has written") as caught:
        SimulatedDevice().run(half, {next(iter(half.main.inputs)): COUNTING})
    assert "not in the file" in caught.value.hint


@pytest.mark.parametrize("error", [IndexError("index 72"), ValueError("cannot reshape")])
@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("fitzroy.hw_models.edgetpu.machine.op_plan", r"tiles .*, op, mac #\d+ at bundle"),
        ("fitzroy.hw_models.edgetpu.stream.InfeedUnit.advance", "infeed at bundle"),
    ],
    ids=["tiles", "streams"],
)
def test_instructions_whose_operands_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, place: str, where: str, error: Exception
) -> None:
    """Whatever numpy finds wrong with an instruction is a fault of the program, with its place."""

    def misfit(*_: object) -> None:
        raise error

    program = EdgeTpuProgram.of(read_container(fitzroy.compile_edgetpu(DIGITS).data), 0)
    monkeypatch.setattr(place, misfit)
    with pytest.raises(SimulationError, match="do not fit together") as caught:
        program.simulate({"image": np.zeros((1, 8, 8, 1), np.int8)})
    assert caught.value.reason == str(error)
    assert re.search(where, caught.value.where)
