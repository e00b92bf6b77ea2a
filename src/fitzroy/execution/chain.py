"""Stages one after the other, each in a thread of its own, with short queues between them.

While one stage computes, the one before it computes the next item already. Items keep their order.
What a stage raises ends the whole chain with that error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fitzroy.base.types import Array
from fitzroy.execution.queues import BoundedQueue

Tensors = dict[str, Array]

BETWEEN = 1
"""Items that may wait between two stages, as PyCoral has it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of a chain.

    Attributes:
        inputs: names of the tensors that it takes.
        compute: its outputs, from at least these tensors.
    """

    inputs: frozenset[str]
    compute: Callable[[Mapping[str, Array]], Tensors]


class Chain:
    """Stages in threads.

    Args:
        stages: at least one, in order; each takes what is put into the chain, and what stages
            before it give, by name.
        failed: the error that the chain ends with, from the number of a stage and what it raised.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        failed: Callable[[int, Exception], Exception] = lambda _, error: error,
    ) -> None:
        count = len(stages)
        self._queues: list[BoundedQueue[Tensors | Exception]] = [
            BoundedQueue(0 if number in (0, count) else BETWEEN) for number in range(count + 1)
        ]
        self._failure = _Failure()
        later: frozenset[str] = frozenset()
        for number, stage in reversed([*enumerate(stages)]):
            runner = _Runner(number, stage, later, *self._queues[number : number + 2])
            later |= stage.inputs
            name = f"stage {number}"
            # Threads must not keep the chain, which ends them when nobody has it any more.
            threading.Thread(
                target=runner.serve, args=(self._failure, failed), name=name, daemon=True
            ).start()

    def drop(self) -> int:
        """End the chain; returns how many results were not taken."""
        return [queue.drop() for queue in self._queues][-1]

    def limit_inputs(self, size: int) -> None:
        """Let `put` wait while so many items wait for the first stage; 0 for any number."""
        self._queues[0].limit(size)

    def limit_results(self, size: int) -> None:
        """Let the last stage wait while so many results wait for `get`; 0 for any number."""
        self._queues[-1].limit(size)

    def check(self) -> None:
        """Raise the error that a stage has ended the chain with, if any has."""
        if self._failure.error is not None:
            raise self._failure.error

    def put(self, tensors: Tensors) -> bool:
        """Give an item to the first stage; whether it was taken, which it is not after `close`."""
        return self._queues[0].put(tensors)

    def close(self) -> None:
        """Say that no items follow."""
        self._queues[0].close()

    def get(self) -> Tensors | None:
        """The next result of the last stage, as soon as it is there; None if none follows.

        Raises:
            Exception: the error that a stage has ended the chain with.
        """
        found = self._queues[-1].get()
        if isinstance(found, Exception):
            raise found
        return found


class _Failure:
    """What has failed in a chain, if anything has."""

    error: Exception | None = None


@dataclass(slots=True)
class _Runner:
    """A stage between two queues; `later` are names of what later stages take."""

    number: int
    stage: Stage
    later: frozenset[str]
    source: BoundedQueue[Tensors | Exception]
    sink: BoundedQueue[Tensors | Exception]

    def serve(self, failure: _Failure, failed: Callable[[int, Exception], Exception]) -> None:
        """Compute what comes until nothing follows, or something fails."""
        while (tensors := self.source.get()) is not None:
            if isinstance(tensors, Exception):
                self.sink.put(tensors)
                break
            try:
                given = self._step(tensors)
            except Exception as error:
                # A thread has nobody else to tell.
                failure.error = failed(self.number, error)
                self.sink.put(failure.error)
                break
            if not self.sink.put(given):
                break
        self.source.drop()
        self.sink.close()

    def _step(self, tensors: Tensors) -> Tensors:
        """Results of the last stage; of others, what later stages take."""
        found = self.stage.compute(tensors)
        if not self.later:
            return found
        return {name: array for name, array in {**tensors, **found}.items() if name in self.later}
