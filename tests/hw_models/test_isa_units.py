from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus_params

from fitzroy.base.errors import UsageError
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import ScalarFlag
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER, Traversal
from fitzroy.hw_models.isa.units import (
    ACTIVATION_BUFFER,
    PARAMETER_BUFFER,
    UnitForm,
    infeed_units,
    outfeed_fifo,
    outfeed_units,
    outfeed_words,
    pop_units,
)


def test_blocks_and_rest() -> None:
    assert INFEED_BUFFER.text(infeed_units(InfeedMemory.PARAMETER, 2500, 7)) == (
        "7 [1024*1 3*0] ping(1, 1024) part(1, 452)"
    )


@pytest.mark.parametrize("units", [1, 2, 63, 64, 65, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("form", UnitForm)
@pytest.mark.parametrize("memory", [PopMemory.PARAMETER, PopMemory.ACTIVATION])
def test_units_are_consecutive_in_the_buffer(units: int, form: UnitForm, memory: PopMemory) -> None:
    buffer = PARAMETER_BUFFER if memory is PopMemory.PARAMETER else ACTIVATION_BUFFER
    position = 40_000
    traversal = BUFFER.decode(BUFFER.encode(pop_units(memory, units, position, form)))
    assert traversal.steps == units
    expected = [(position + unit) % buffer.units for unit in range(units)]
    assert (traversal.addresses() % buffer.units).tolist() == expected


def test_words_of_scalar_memory() -> None:
    assert outfeed_words(200, 31).addresses().tolist() == list(range(31, 231))
    assert (outfeed_fifo(200).addresses() % 128).tolist() == [word % 128 for word in range(200)]


@pytest.mark.parametrize("units", [0, -1])
def test_nothing_to_move(units: int) -> None:
    with pytest.raises(UsageError, match="at least one"):
        outfeed_units(units)
    with pytest.raises(UsageError, match="at least one"):
        pop_units(PopMemory.PARAMETER, units)


def _programs(path: Path) -> Iterator[tuple[UnitForm, list[Instruction]]]:
    """The programs of a file, and the form of their streams."""
    if path.suffix == ".bin":
        found = [(14, darwinn.read_executable(path.read_bytes()))]
    else:
        operators = custom_op.extract(tflite.read_model(path.read_bytes()))
        found = [
            (file.package.min_runtime_version, executable)
            for file in (operator.read() for operator in operators)
            for executable in file.executables
        ]
    for version, executable in found:
        program: list[Instruction] = []
        for chunk in executable.instruction_bitstreams or ():
            program += disassemble(np.asarray(chunk.bitstream).tobytes())
        yield UnitForm.SINGLE if version == 10 else UnitForm.BLOCKS, program


_POPPED = {
    PopMemory.PARAMETER: ScalarFlag.PARAMETER_POP,
    PopMemory.ACTIVATION: ScalarFlag.AVDATA_POP,
}


def _expected(
    instruction: Pop | Infeed | Outfeed, popped: dict[PopMemory, int], form: UnitForm
) -> Traversal:
    units = instruction.buffer.steps
    match instruction:
        case Pop():
            position = popped[instruction.memory]
            popped[instruction.memory] += units
            return pop_units(instruction.memory, units, position, form)
        case Infeed(memory=InfeedMemory.SCALAR):
            return infeed_units(instruction.memory, units, 0, form)
        case Infeed():
            credit = instruction.wait[0]
            assert credit is not None
            return infeed_units(instruction.memory, units, credit.threshold - 1, form)
        case Outfeed(to_host=True):
            return outfeed_units(units)
        case Outfeed(wait=(None,)):
            return outfeed_words(units, instruction.buffer.base)
        case Outfeed():
            return outfeed_fifo(units, form)


@pytest.mark.parametrize(
    "path", [*corpus_params("**/*edgetpu*.tflite"), *corpus_params("**/*.executable.bin", quick=2)]
)
def test_streams_of_compiled_models(path: Path) -> None:
    found = 0
    for form, program in _programs(path):
        popped = dict.fromkeys(_POPPED, 0)
        for instruction in program:
            if isinstance(instruction, ScalarFence):
                for memory, flag in _POPPED.items():
                    if instruction.set >> flag & 1:
                        popped[memory] = 0
            if isinstance(instruction, Pop | Infeed | Outfeed):
                assert instruction.buffer == _expected(instruction, popped, form)
                found += 1
    assert found
