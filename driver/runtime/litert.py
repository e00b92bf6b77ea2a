"""TFLite models on LiteRT, where its Python package is installed."""

from __future__ import annotations

import atexit
import importlib.util
import threading
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array
from fitzroy.driver.runtime.child import Child, Worker

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
        raise UsageError("LiteRT is not installed", hint=install_extra("litert"))


class LiteRtModel:
    """A model on LiteRT, whose state begins every run at zero.

    Args:
        data: the model.
        xnnpack: whether XNNPACK computes what it can; otherwise all kernels are TFLite's own.
        threads: how many threads compute.

    Raises:
        UsageError: LiteRT is not installed.
        DeviceError: LiteRT refuses the model.
    """

    def __init__(self, data: bytes, *, xnnpack: bool, threads: int = 1) -> None:
        demand()
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = OpResolverType.BUILTIN
        if not xnnpack:
            resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        try:
            self._interpreter: Any = Interpreter(
                model_content=data, experimental_op_resolver_type=resolver, num_threads=threads
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


_WORKER = Worker("fitzroy.driver.runtime.litert_worker", "LiteRT", "model")
_START_SECONDS, _RUN_SECONDS = 120.0, 300.0
_children: list[Child] = []
_numbers = count()
_stale: list[int] = []
_turn = threading.Lock()


def _child() -> Child:
    """The worker process that all models share; another one if the last one has ended."""
    with _turn:
        if not _children or not _children[-1].alive:
            _children[:] = [Child(_WORKER, _START_SECONDS)]
            atexit.register(_children[-1].close)
        return _children[-1]


class IsolatedModel:
    """A model on LiteRT in a process of its own, for operators that nobody here has checked.

    Kernels may end the process if operands or options are not as they expect. Then an inference
    fails, and the next one gets another process.

    Args:
        data: the model.
        xnnpack: as for `LiteRtModel`.
        threads: as for `LiteRtModel`.

    Raises:
        UsageError: LiteRT is not installed.
        DeviceError: LiteRT refuses the model, or ends or hangs over it.
    """

    def __init__(self, data: bytes, *, xnnpack: bool, threads: int = 1) -> None:
        demand()
        self._data, self._number = data, next(_numbers)
        self._options = {"xnnpack": xnnpack, "threads": threads}
        self._child = self._loaded()
        # Collected at any time, also while the process is asked for something.
        weakref.finalize(self, _stale.append, self._number)

    def _loaded(self) -> Child:
        """The worker process, with the model."""
        child, content = _child(), np.frombuffer(self._data, np.uint8)
        fields = {"model": self._number, **self._options}
        _asked(child, "load", fields, [content])
        return child

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs from inputs, both in the model's order.

        Raises:
            DeviceError: LiteRT refuses an input, or a kernel fails, ends the process or hangs.
        """
        if not self._child.alive:
            self._child = self._loaded()
        return _asked(self._child, "run", {"model": self._number}, inputs)


def _asked(
    child: Child, what: str, fields: Mapping[str, object], inputs: Sequence[Array]
) -> list[Array]:
    """What the worker process answers, which also forgets models that nobody has any more.

    Raises:
        DeviceError: it says that something failed, has ended, or does not answer.
    """
    with _turn:
        forget = [_stale.pop() for _ in range(len(_stale))]
        told = {"command": what, "forget": forget, **fields}
        answer = child.exchange(what, told, inputs, _RUN_SECONDS)
    if not answer.fields["ok"]:
        what = answer.fields["what"] or "LiteRT fails"
        raise DeviceError(what, reason=answer.fields["reason"])
    return list(answer.arrays)
