"""FitzRoy: compiler, linker, driver and simulator for the Coral Edge TPU and XNNPACK.

Everyday use needs only what is listed here; each name is imported when it is first used, so that
``import fitzroy`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fitzroy.api import Compilation, bundle, compile, explain, load, patch_weights, simulate
    from fitzroy.compiler.passes.quantize import quantize
    from fitzroy.compiler.reference import evaluate, verify
    from fitzroy.edgetpu import (
        EdgeTpuCompilation,
        compile_edgetpu,
        compile_segments,
        compile_together,
    )
    from fitzroy.interpreter import Interpreter
    from fitzroy.modules import ModuleProgram

__version__ = "0.1.0"

_HOMES = {
    "Compilation": "fitzroy.api",
    "EdgeTpuCompilation": "fitzroy.edgetpu",
    "Interpreter": "fitzroy.interpreter",
    "ModuleProgram": "fitzroy.modules",
    "bundle": "fitzroy.api",
    "compile": "fitzroy.api",
    "compile_edgetpu": "fitzroy.edgetpu",
    "compile_segments": "fitzroy.edgetpu",
    "compile_together": "fitzroy.edgetpu",
    "evaluate": "fitzroy.compiler.reference",
    "explain": "fitzroy.api",
    "load": "fitzroy.api",
    "patch_weights": "fitzroy.api",
    "quantize": "fitzroy.compiler.passes.quantize",
    "simulate": "fitzroy.api",
    "verify": "fitzroy.compiler.reference",
}

__all__ = [
    "Compilation",
    "EdgeTpuCompilation",
    "Interpreter",
    "ModuleProgram",
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
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
