"""Names of the source's layers on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.compiler.edgetpu_models import random_model

from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.execution.programs import EdgeTpuProgram


@pytest.mark.long
def test_the_debugger_names_layers(fitzroy: Run, tmp_path: Path) -> None:
    model = tmp_path / "m_edgetpu.tflite"
    model.write_bytes(compile_edgetpu(Source.of(random_model(4))).data)
    program = EdgeTpuProgram.load(model)
    given: list[str] = []
    for name, type in program.inputs.items():
        np.save(f"{name}.npy", np.zeros(type.shape, type.dtype.numpy))
        given += ["-i", f"{name}={name}.npy"]
    step = next(item for item in program.steps if item.operator >= 0)
    at = f"{step.chunk}:{step.bundle + 1}"
    result = fitzroy("debug", model, *given, "-x", f"break {at}", "-x", "continue", "--json")
    assert result.code == 0
    assert step.origin in json.dumps(result.json, ensure_ascii=False)
