"""Segments of a model, one after the other, each on a device and in a thread of its own.

While one segment computes, the one before it computes the next inputs already. `fitzroy compile
--num-segments` makes segments.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.execution.chain import Chain, Stage, Tensors
from fitzroy.tflite_runtime.errors import ArgumentError, NotReadyError
from fitzroy.tflite_runtime.interpreter import Interpreter

__all__ = ["PipelinedModelRunner"]

_log = logging.getLogger(__name__)


class PipelinedModelRunner:
    """A pipeline of segments.

    Args:
        interpreters: one for every segment, in order, with tensors allocated. Each takes inputs of
            the first, and outputs of those before it, by name.

    Raises:
        ArgumentError: there is none, or a segment needs what none before it gives.
    """

    def __init__(self, interpreters: Sequence[Interpreter]) -> None:
        if not interpreters:
            raise ArgumentError("At least one interpreter expected")
        self._interpreters = interpreters
        self._inputs = _by_name(interpreters[0].get_input_details())
        known = set(self._inputs)
        for number, interpreter in enumerate(interpreters):
            needed = _by_name(interpreter.get_input_details())
            missing = [name for name in needed if name not in known]
            if missing:
                raise ArgumentError(
                    f"Interpreter {number} can not get its input tensors",
                    reason=f"no segment before it gives {', '.join(map(repr, missing))}",
                )
            known.update(_by_name(interpreter.get_output_details()))
        self._chain = Chain([*map(_stage, interpreters)], _failed)
        self._open = True

    def __del__(self) -> None:
        chain = getattr(self, "_chain", None)
        unconsumed = 0 if chain is None else chain.drop()
        if unconsumed:
            _log.warning("%d results of a pipeline were not taken", unconsumed)

    def set_input_queue_size(self, size: int) -> None:
        """Let `push` wait while so many inputs wait for the first segment; 0 for any number."""
        self._chain.limit_inputs(size)

    def set_output_queue_size(self, size: int) -> None:
        """Let the last segment wait while so many results wait for `pop`; 0 for any number."""
        self._chain.limit_results(size)

    def push(self, input_tensors: Mapping[str, Array]) -> None:
        """Give inputs to the first segment.

        Args:
            input_tensors: arrays by the names of the first segment's inputs, of their element types
                and as many elements; nothing says that no more inputs follow.

        Raises:
            ArgumentError: inputs are missing or unknown, or of another type or size. It is a
                ValueError.
            RuntimeError: no inputs were to follow, or a segment has failed.
        """
        self._chain.check()
        taken = self._checked(input_tensors) if input_tensors else None
        if not self._open or (taken is not None and not self._chain.put(taken)):
            self._chain.check()
            raise NotReadyError("Pipeline was turned off before.")
        if taken is None:
            self._open = False
            self._chain.close()

    def pop(self) -> Tensors | None:
        """The next outputs of the last segment by name, as soon as they are there.

        Returns:
            Arrays; None if none are to follow.

        Raises:
            RuntimeError: a segment has failed.
        """
        return self._chain.get()

    def interpreters(self) -> Sequence[Interpreter]:
        """The interpreters of the segments."""
        return self._interpreters

    def _checked(self, given: Mapping[str, Array]) -> Tensors:
        """Inputs in the shapes of the first segment's."""
        if len(given) != len(self._inputs):
            raise ArgumentError(
                f"Expected input of length {len(self._inputs)}, but got {len(given)}"
            )
        taken = {}
        for name, array in given.items():
            if name not in self._inputs:
                raise ArgumentError(
                    f"there is no input {name!r}", reason=f"there are {', '.join(self._inputs)}"
                )
            dtype, shape = self._inputs[name]["dtype"], self._inputs[name]["shape"]
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                raise ArgumentError(f"Input should be a list of numpy array of type {dtype}")
            if array.size != math.prod(shape.tolist()):
                raise ArgumentError(
                    f"input {name!r} has shape {shape.tolist()}",
                    reason=f"the array has {list(array.shape)}",
                )
            # What the caller writes into the array later is for another inference.
            taken[name] = array.reshape(shape).copy()
        return taken


def _stage(interpreter: Interpreter) -> Stage:
    """A segment as a stage."""

    def compute(tensors: Mapping[str, Array]) -> Tensors:
        try:
            for details in interpreter.get_input_details():
                interpreter.set_tensor(details["index"], tensors[details["name"]])
        except ValueError as error:
            raise NotReadyError(
                "Invoke called on model that is not ready.", reason=str(error)
            ) from error
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        return {item["name"]: interpreter.get_tensor(item["index"]) for item in outputs}

    return Stage(frozenset(_by_name(interpreter.get_input_details())), compute)


def _failed(number: int, error: Exception) -> Exception:
    return NotReadyError(f"Segment {number} runner error: {error}")


def _by_name(details: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in details}
