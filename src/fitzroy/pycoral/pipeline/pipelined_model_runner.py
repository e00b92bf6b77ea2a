"""Segments of a model, one after the other, each on a device and in a thread of its own.

While one segment computes, the one before it computes the next inputs already. `fitzroy compile
--num-segments` makes segments.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.pycoral.pipeline.queues import BoundedQueue
from fitzroy.tflite_runtime.errors import ArgumentError, NotReadyError
from fitzroy.tflite_runtime.interpreter import Interpreter

__all__ = ["PipelinedModelRunner"]

_BETWEEN = 1
"""Inputs that may wait between two segments, as PyCoral has it."""

_log = logging.getLogger(__name__)

Tensors = dict[str, Array]


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
        count = len(interpreters)
        self._queues: list[BoundedQueue[Tensors | Exception]] = [
            BoundedQueue(0 if number in (0, count) else _BETWEEN) for number in range(count + 1)
        ]
        self._failure = _Failure()
        self._open = True
        later: frozenset[str] = frozenset()
        for number, interpreter in reversed([*enumerate(interpreters)]):
            segment = _Segment(number, interpreter, later, *self._queues[number : number + 2])
            later |= _by_name(interpreter.get_input_details()).keys()
            name = f"segment {number}"
            # Threads must not keep the runner, which ends them when nobody has it any more.
            threading.Thread(
                target=segment.serve, args=(self._failure,), name=name, daemon=True
            ).start()

    def __del__(self) -> None:
        queues = getattr(self, "_queues", [])
        unconsumed = [queue.drop() for queue in queues]
        if queues and unconsumed[-1]:
            _log.warning("%d results of a pipeline were not taken", unconsumed[-1])

    def set_input_queue_size(self, size: int) -> None:
        """Let `push` wait while so many inputs wait for the first segment; 0 for any number."""
        self._queues[0].limit(size)

    def set_output_queue_size(self, size: int) -> None:
        """Let the last segment wait while so many results wait for `pop`; 0 for any number."""
        self._queues[-1].limit(size)

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
        self._failure.check()
        taken = self._checked(input_tensors) if input_tensors else None
        if not self._open or (taken is not None and not self._queues[0].put(taken)):
            self._failure.check()
            raise NotReadyError("Pipeline was turned off before.")
        if taken is None:
            self._open = False
            self._queues[0].close()

    def pop(self) -> Tensors | None:
        """The next outputs of the last segment by name, as soon as they are there.

        Returns:
            Arrays; None if none are to follow.

        Raises:
            RuntimeError: a segment has failed.
        """
        found = self._queues[-1].get()
        if isinstance(found, Exception):
            raise found
        return found

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


class _Failure:
    """What has failed in a pipeline, if anything has."""

    error: Exception | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error


class _Segment:
    """A segment between two queues; `later` are names of what later segments need."""

    def __init__(
        self,
        number: int,
        interpreter: Interpreter,
        later: frozenset[str],
        source: BoundedQueue[Tensors | Exception],
        sink: BoundedQueue[Tensors | Exception],
    ) -> None:
        self.number = number
        self.interpreter = interpreter
        self.later = later
        self.source, self.sink = source, sink

    def serve(self, failure: _Failure) -> None:
        """Compute what comes until nothing follows, or something fails."""
        while (tensors := self.source.get()) is not None:
            if isinstance(tensors, Exception):
                self.sink.put(tensors)
                break
            try:
                given = self.compute(tensors)
            except Exception as error:
                # A thread has nobody else to tell.
                failure.error = NotReadyError(f"Segment {self.number} runner error: {error}")
                self.sink.put(failure.error)
                break
            if not self.sink.put(given):
                break
        self.source.drop()
        self.sink.close()

    def compute(self, tensors: Tensors) -> Tensors:
        """Outputs of the last segment; of others, what later segments need."""
        interpreter = self.interpreter
        try:
            for details in interpreter.get_input_details():
                interpreter.set_tensor(details["index"], tensors[details["name"]])
        except ValueError as error:
            raise NotReadyError(
                "Invoke called on model that is not ready.", reason=str(error)
            ) from error
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        found = {item["name"]: interpreter.get_tensor(item["index"]) for item in outputs}
        if not self.later:
            return found
        return {name: array for name, array in {**tensors, **found}.items() if name in self.later}


def _by_name(details: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in details}
