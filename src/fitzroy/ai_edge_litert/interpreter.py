"""``ai_edge_litert.interpreter`` on FitzRoy; it is `fitzroy.tflite_runtime.interpreter`."""

from fitzroy.tflite_runtime.interpreter import (
    Delegate,
    Interpreter,
    OpResolverType,
    SignatureRunner,
    load_delegate,
)

__all__ = ["Delegate", "Interpreter", "OpResolverType", "SignatureRunner", "load_delegate"]
