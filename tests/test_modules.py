"""Models as bytecode modules: outputs are those of the model, whoever computes its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus

import fitzroy
from fitzroy.base.errors import FitzroyError, FormatError, UsageError
from fitzroy.base.types import Array, TensorType
from fitzroy.compilation.modules import compiled_entry, write_entries
from fitzroy.compiler.targets.vm.program import Executor
from fitzroy.driver.runtime.devices import Device, open_device
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.modules import ModuleProgram, functions
from fitzroy.formats.bytecode_module import read_module, write_module
from fitzroy.hw_models.vm.status import VmError
from fitzroy.hw_models.vm.text import assemble, disassemble

DIGITS = Path(__file__).parent.parent / "examples" / "models" / "digits.tflite"


def random_array(rng: np.random.Generator, type: TensorType) -> Array:
    if type.dtype.is_float:
        return rng.standard_normal(type.shape).astype(type.dtype.numpy)
    low, high = type.dtype.limits
    return rng.integers(low, high, type.shape, type.dtype.numpy, endpoint=True)


@pytest.fixture(scope="module")
def chip() -> Iterator[Device]:
    with open_device("sim:direct") as device:
        yield device


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return fitzroy.compile_edgetpu(DIGITS).data


def equal(model: bytes, module: bytes, device: Device, runs: int = 2) -> ModuleProgram:
    """Compare a module with the model that it was made of."""
    program = ModuleProgram(module, device=device)
    interpreter = Interpreter(model, device=device)
    rng = np.random.default_rng(0)
    for _ in range(runs):
        inputs = {t.name: random_array(rng, t.type) for t in program.function().inputs}
        found, expected = program.run(inputs), interpreter.run(inputs)
        assert set(found) == set(expected)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    return program


def test_digits_on_the_edge_tpu(compiled: bytes, chip: Device) -> None:
    entry = compiled_entry(compiled)
    assert {call.executor for call in entry.invocations} >= {Executor.DARWINN}
    module = write_entries("digits", [entry])
    with equal(compiled, module, chip) as program:
        assert 0 < program.steps < 100
        assert [t.name for t in program.function().inputs] == ["image"]


def test_digits_on_xnnpack(chip: Device) -> None:
    compilation = fitzroy.compile(DIGITS, target="vm", accelerator="xnnpack")
    assert compilation.placed["xnnpack"] > 1
    entry = compilation.lowered["main"].entry
    assert Executor.XNNPACK in {call.executor for call in entry.invocations}
    equal(DIGITS.read_bytes(), compilation.data, chip)


def test_digits_on_the_edge_tpu_by_the_target_of_modules(compiled: bytes, chip: Device) -> None:
    compilation = fitzroy.compile(DIGITS, target="vm", accelerator="edgetpu", partition="all")
    assert compilation.placed.keys() == {"edgetpu"}
    assert len(compilation.packages) == 1
    equal(compiled, compilation.data, chip)
    with pytest.raises(UsageError, match="edgetpu has no option 'uint8'"):
        fitzroy.compile(DIGITS, target="vm", accelerator="edgetpu", uint8="fast")


def test_digits_on_the_host(chip: Device) -> None:
    entry = compiled_entry(DIGITS.read_bytes())
    assert [call.executor for call in entry.invocations] == [Executor.TFLITE]
    equal(DIGITS.read_bytes(), write_entries("digits", [entry]), chip)


def test_several_entry_points(compiled: bytes, chip: Device) -> None:
    entries = [
        compiled_entry(compiled, name="chip"),
        compiled_entry(DIGITS.read_bytes(), name="host"),
    ]
    module = write_entries("both", entries)
    assert [item.name for item in functions(read_module(module))] == ["chip", "host"]
    with ModuleProgram(module, device=chip) as program:
        rng = np.random.default_rng(1)
        inputs = {t.name: random_array(rng, t.type) for t in program.function("host").inputs}
        for name in ("chip", "host"):
            assert program.run(inputs, name)["probabilities"].shape == (1, 10)
        with pytest.raises(UsageError, match="no function 'other'"):
            program.run(inputs, "other")


def test_equal_models_give_equal_modules(compiled: bytes) -> None:
    assert len({write_entries("m", [compiled_entry(compiled)]) for _ in range(2)}) == 1


def test_faults(compiled: bytes, chip: Device) -> None:
    module = write_entries("m", [compiled_entry(compiled)])
    with ModuleProgram(module, device=chip) as program:
        with pytest.raises(UsageError, match="missing"):
            program.run({})
        with pytest.raises(UsageError, match="the array is"):
            program.run({"image": np.zeros((1, 9, 8, 1), np.int8)})
    text = disassemble(read_module(module))
    image = {"image": np.zeros((1, 8, 8, 1), np.int8)}

    def edited(old: str, new: str) -> bytes:
        assert old in text
        return write_module(assemble(text.replace(old, new))[0])

    # Buffers of another size, another number of them, and data of another kind.
    for old, new in (
        ("const.i32 10 ", "const.i32 11 "),
        ("(-1, 1, 1) (%r2!, %r0, %r1)", "(-1, 2, 0) (%r2!, %r0, %r1)"),
        ("darwinn.execute", "xnnpack.invoke"),
        ("const.i32 10 ", "const.i32 -1 "),
    ):
        with (
            ModuleProgram(edited(old, new), device=chip) as program,
            pytest.raises((VmError, FormatError)),
        ):
            program.run(image)
    with pytest.raises(VmError, match="nothing provides"):
        ModuleProgram(edited("darwinn.execute", "darwinn.frobnicate"), device=chip)


ALLOCATE = (
    '.import "buffer.alloc" (type#0) -> (type#2)',
    "call import#0 (%i0) -> (%r1)",
)
EXECUTE = (
    '.import "darwinn.execute" (type#1, type#2, type#2) -> ()',
    "call.variadic import#1 (-1, 1, 1) (%r2!, %r0, %r1) -> ()",
)


@pytest.mark.parametrize(
    ("pair", "declaration", "call"),
    [
        (ALLOCATE, '.import "buffer.alloc" () -> (type#2)', "call import#0 () -> (%r1)"),
        (ALLOCATE, '.import "buffer.alloc" (type#2) -> (type#2)', "call import#0 (%r0) -> (%r1)"),
        (
            ALLOCATE,
            '.import "buffer.alloc" (type#0, type#0) -> (type#2)',
            "call import#0 (%i0, %i0) -> (%r1)",
        ),
        (ALLOCATE, '.import "buffer.clone" () -> (type#2)', "call import#0 () -> (%r1)"),
        (EXECUTE, '.import "darwinn.execute" () -> ()', "call import#1 () -> ()"),
        (EXECUTE, EXECUTE[0], "call import#1 (%r2!, %r0, %r1) -> ()"),
    ],
)
def test_imports_with_other_signatures(
    compiled: bytes, chip: Device, pair: tuple[str, str], declaration: str, call: str
) -> None:
    text = disassemble(read_module(write_entries("digits", [compiled_entry(compiled)])))
    for old, new in zip(pair, (declaration, call), strict=True):
        assert old in text
        text = text.replace(old, new)
    with ModuleProgram(write_module(assemble(text)[0]), device=chip) as program:
        inputs = {t.name: np.zeros(t.type.shape, np.int8) for t in program.function().inputs}
        with pytest.raises(VmError, match="wanted"):
            program.run(inputs)


@pytest.mark.long
def test_mutated_modules_give_only_our_errors(compiled: bytes) -> None:
    module = bytearray(write_entries("m", [compiled_entry(compiled)]))
    rng = np.random.default_rng(2)
    inputs = {"image": np.zeros((1, 8, 8, 1), np.int8)}
    ran = 0
    for _ in range(150):
        data = bytearray(module)
        for place in rng.integers(0, len(data), 4):
            # Tables and code are in the last kilobytes, after the package.
            where = int(place) if rng.random() < 0.3 else len(data) - 1 - int(place) % 2000
            data[where] ^= 1 << int(rng.integers(8))
        try:
            # A program that gets stuck leaves its chip stuck.
            with ModuleProgram(bytes(data), device="sim:direct") as program:
                program.run(inputs)
        except FitzroyError:
            continue
        ran += 1
    assert ran > 0


PARTIAL = (
    "yamnet_spectra_in_edgetpu",
    "keras_lstm_mnist_ptq_edgetpu",
    "deeplabv3_mnv2_dm05_pascal_quant_edgetpu",
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu",
    "posenet_mobilenet_v1_075_481_641_16_quant_decoder_edgetpu",
    "bodypix_mobilenet_v1_075_512_512_16_quant_decoder_edgetpu",
)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if index > 1 else [])
        for index, name in enumerate(PARTIAL)
    ],
)
def test_partially_mapped_models(name: str, chip: Device) -> None:
    data: Any = (corpus() / "coral" / f"{name}.tflite").read_bytes()
    entry = compiled_entry(data, name)
    assert Executor.DARWINN in {call.executor for call in entry.invocations}
    equal(data, write_entries("m", [entry]), chip)
