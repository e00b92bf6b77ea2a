"""The public functions: from a model to a program, and from a program to answers.

| function | from | to |
|---|---|---|
| `load` | the file of a model | its graph |
| `verify`, `evaluate` | a graph | whether it is sound; what it computes |
| `quantize` | a graph and samples | a graph of 8-bit integers |
| `explain` | a model | where each operator would run, and why not elsewhere |
| `compile` | a model | a `Compilation` for any target |
| `compile_edgetpu` | a model | the same for the Edge TPU, with its parts |
| `compile_together` | several models | models that share an Edge TPU |
| `compile_segments` | a model | consecutive parts, each for an Edge TPU of its own |
| `bundle` | a `Compilation` and test cases | a program with expected outputs |
| `patch_weights` | a compiled model and its source, retrained | the model with these weights |
| `simulate` | a compiled model and inputs | what the Edge TPU computes |
| `twin` | a model | a device that computes what its compiled form does, fast |
| `Interpreter` | a compiled model | answers, from a device and the host |
| `PipelinedInterpreter` | segments of a model | answers, from several devices at a time |
| `ModuleProgram` | a bytecode module | answers |
"""

from __future__ import annotations

from fitzroy.compilation.build import bundle, compile, explain
from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    compile_edgetpu,
    compile_together,
)
from fitzroy.compilation.patching import patch_weights
from fitzroy.compilation.quantizing import quantize
from fitzroy.compilation.result import Compilation
from fitzroy.compilation.segments import compile_segments
from fitzroy.compiler.frontends.loading import Model, load
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.modules import ModuleProgram
from fitzroy.execution.pipelined import PipelinedInterpreter
from fitzroy.execution.programs import EdgeTpuProgram, Simulation, simulate
from fitzroy.execution.twin import twin

__all__ = [
    "Compilation",
    "EdgeTpuCompilation",
    "EdgeTpuProgram",
    "Interpreter",
    "Model",
    "ModuleProgram",
    "PipelinedInterpreter",
    "Simulation",
    "bundle",
    "compile",
    "compile_edgetpu",
    "compile_segments",
    "compile_together",
    "evaluate",
    "explain",
    "load",
    "patch_weights",
    "quantize",
    "simulate",
    "twin",
    "verify",
]
