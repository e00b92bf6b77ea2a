"""FitzRoy: compiler, linker, driver and simulator for the Coral Edge TPU and XNNPACK.

Everyday use needs only what is listed here; each name is imported when it is first used, so that
``import fitzroy`` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitzroy.base.lazy import lazily
from fitzroy.base.version import VERSION

if TYPE_CHECKING:
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
    from fitzroy.compiler.frontends.loading import load
    from fitzroy.compiler.reference import evaluate, verify
    from fitzroy.execution.interpreter import Interpreter
    from fitzroy.execution.modules import ModuleProgram
    from fitzroy.execution.pipelined import PipelinedInterpreter
    from fitzroy.execution.programs import simulate
    from fitzroy.execution.twin import twin

__version__ = VERSION

_HOMES = {
    "Compilation": "fitzroy.compilation.result",
    "EdgeTpuCompilation": "fitzroy.compilation.edgetpu",
    "Interpreter": "fitzroy.execution.interpreter",
    "ModuleProgram": "fitzroy.execution.modules",
    "PipelinedInterpreter": "fitzroy.execution.pipelined",
    "bundle": "fitzroy.compilation.build",
    "compile": "fitzroy.compilation.build",
    "compile_edgetpu": "fitzroy.compilation.edgetpu",
    "compile_segments": "fitzroy.compilation.segments",
    "compile_together": "fitzroy.compilation.edgetpu",
    "evaluate": "fitzroy.compiler.reference",
    "explain": "fitzroy.compilation.build",
    "load": "fitzroy.compiler.frontends.loading",
    "patch_weights": "fitzroy.compilation.patching",
    "quantize": "fitzroy.compilation.quantizing",
    "simulate": "fitzroy.execution.programs",
    "twin": "fitzroy.execution.twin",
    "verify": "fitzroy.compiler.reference",
}

__all__ = [
    "Compilation",
    "EdgeTpuCompilation",
    "Interpreter",
    "ModuleProgram",
    "PipelinedInterpreter",
    "__version__",
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

__getattr__ = lazily(__name__, _HOMES)
