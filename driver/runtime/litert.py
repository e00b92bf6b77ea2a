"""TFLite models on LiteRT, where its Python package is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.types import Array

_MODULE = "ai_edge_litert.interpreter"


def available() -> bool:
    """Whether LiteRT is installed."""
    try:
        return importlib.util.find_spec(_MODULE) is not None
    except ModuleNotFoundError:
        return False


def demand() -> None:
    """Refuse to go on without LiteRT.

    Raises:
        UsageError: it is not installed.
    """
    if not available():
        raise UsageError("LiteRT is not installed", hint="pip install 'fitzroy[litert]'")


class LiteRtModel:
    """A model on LiteRT, with one thread, whose state begins every run at zero.

    Args:
        data: the model.
        xnnpack: whether XNNPACK computes what it can; otherwise all kernels are TFLite's own.

    Raises:
        UsageError: LiteRT is not installed.
        DeviceError: LiteRT refuses the model.
    """

    def __init__(self, data: bytes, *, xnnpack: bool) -> None:
        demand()
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = OpResolverType.BUILTIN
        if not xnnpack:
            resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        try:
            self._interpreter: Any = Interpreter(
                model_content=data, experimental_op_resolver_type=resolver, num_threads=1
            )
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise DeviceError("LiteRT refuses the model", reason=str(error)) from None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs from inputs, both in the model's order.

        Raises:
            DeviceError: LiteRT refuses an input, or a kernel fails.
        """
        interpreter = self._interpreter
        try:
            interpreter.reset_all_variables()
            for details, array in zip(interpreter.get_input_details(), inputs, strict=True):
                interpreter.set_tensor(details["index"], array)
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise DeviceError("LiteRT fails", reason=str(error)) from None
        outputs = interpreter.get_output_details()
        return [np.array(interpreter.get_tensor(details["index"])) for details in outputs]
