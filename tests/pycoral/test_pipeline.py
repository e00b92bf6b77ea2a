"""Pipelines of segments on simulated devices."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.sharing import shared
from tests.tflite_runtime.models import DIGITS, compiled_digits, image

import fitzroy
from fitzroy.base.types import Array
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.execution.queues import BoundedQueue
from fitzroy.pycoral.adapters import common
from fitzroy.pycoral.pipeline.pipelined_model_runner import PipelinedModelRunner
from fitzroy.pycoral.utils.edgetpu import list_edge_tpus, make_interpreter
from fitzroy.tflite_runtime.interpreter import Interpreter

SECONDS = 60.0
"""How long a thread may take before a test gives up."""


@pytest.fixture(autouse=True)
def simulators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three simulated devices are there."""
    monkeypatch.setenv(ENVIRONMENT, ",".join(["sim:direct"] * 3))


@cache
def segments(count: int) -> list[bytes]:
    """The digits model for several devices."""
    key = ("digits in segments", DIGITS.read_bytes(), count)
    return shared(key, lambda: [one.data for one in fitzroy.compile_segments(DIGITS, count)])


def runner(count: int = 2, *, allocate: bool = True) -> PipelinedModelRunner:
    assert len(list_edge_tpus()) == 3
    made = [make_interpreter(data, f"usb:{n}") for n, data in enumerate(segments(count))]
    for interpreter in made if allocate else ():
        interpreter.allocate_tensors()
    return PipelinedModelRunner(made)


def scores(seed: int) -> Array:
    """What one device computes."""
    interpreter = make_interpreter(compiled_digits(), ":0")
    interpreter.allocate_tensors()
    common.set_input(interpreter, image(seed)[0])
    interpreter.invoke()
    return common.output_tensor(interpreter, 0).copy()


@pytest.mark.parametrize("count", [2, 3])
def test_results_are_those_of_one_device_in_order(count: int) -> None:
    pipeline = runner(count)
    found = []

    def consume() -> None:
        while result := pipeline.pop():
            found.append(result)

    consumer = threading.Thread(target=consume)
    consumer.start()
    pixels = image(0)
    for seed in range(4):
        pixels[...] = image(seed)
        # Images may lack the batch; what is written into them later does not count.
        pipeline.push({"image": pixels[0] if seed % 2 else pixels})
    pipeline.push({})
    consumer.join(SECONDS)
    assert [list(result) for result in found] == [["probabilities"]] * 4
    for seed, result in enumerate(found):
        np.testing.assert_array_equal(result["probabilities"], scores(seed))
    assert pipeline.pop() is None
    for last in ({}, {"image": pixels}):
        with pytest.raises(RuntimeError, match=r"Pipeline was turned off before\."):
            pipeline.push(last)
    assert len(pipeline.interpreters()) == count


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="At least one interpreter expected"):
        PipelinedModelRunner([])
    made = [make_interpreter(data) for data in segments(2)]
    with pytest.raises(ValueError, match="Interpreter 1 can not get its input tensors"):
        PipelinedModelRunner(made[::-1])
    pipeline = runner()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"image": image().astype(np.float64)}, "numpy array of type"),
        ({"image": image().tolist()}, "numpy array of type"),
        ({"image": image()[:, :4]}, r"has shape \[1, 8, 8, 1\]"),
        ({"picture": image()}, "no input 'picture'"),
        ({"image": image(), "more": image()}, "Expected input of length 1, but got 2"),
    ]
    for given, text in refused:
        with pytest.raises(ValueError, match=text):
            pipeline.push(given)


def test_a_segment_that_fails_ends_the_pipeline() -> None:
    pipeline = runner(allocate=False)
    text = r"Segment 0 runner error: Invoke called on model that is not ready\."
    pipeline.push({"image": image()})
    with pytest.raises(RuntimeError, match=text):
        pipeline.pop()
    with pytest.raises(RuntimeError, match=text):
        pipeline.push({"image": image()})
    assert pipeline.pop() is None


def test_a_later_segment_that_fails_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = runner()
    last = pipeline.interpreters()[-1]
    asked: list[int] = []
    invoke = Interpreter.invoke

    def fails_once(self: Interpreter) -> None:
        if self is last:
            asked.append(len(asked))
            if len(asked) == 2:
                raise RuntimeError("too hot")
        invoke(self)

    monkeypatch.setattr(Interpreter, "invoke", fails_once)
    for seed in range(2):
        pipeline.push({"image": image(seed)})
    # What was computed before is not lost.
    first = pipeline.pop()
    assert first is not None
    np.testing.assert_array_equal(first["probabilities"], scores(0))
    with pytest.raises(RuntimeError, match="Segment 1 runner error: too hot"):
        pipeline.pop()


def test_queues_hold_as_many_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one place in the first and the last queue, two segments hold five requests."""
    pipeline = runner(2)
    pipeline.set_input_queue_size(1)
    pipeline.set_output_queue_size(1)
    pushed = threading.Semaphore(0)

    def produce() -> None:
        for seed in range(7):
            pipeline.push({"image": image(seed)})
            pushed.release()
        pipeline.push({})

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(5):
        assert pushed.acquire(timeout=SECONDS)
    # Nobody takes results, so the sixth waits.
    assert not pushed.acquire(timeout=0.2)
    taken = 0
    while pipeline.pop():
        taken += 1
    producer.join(SECONDS)
    assert not producer.is_alive()
    assert taken == 7


def test_results_that_nobody_takes(caplog: pytest.LogCaptureFixture) -> None:
    before = {thread.name for thread in threading.enumerate()}
    pipeline = runner()
    pipeline.set_output_queue_size(1)
    for seed in range(2):
        pipeline.push({"image": image(seed)})
    first = pipeline.pop()
    assert first is not None
    threads = [one for one in threading.enumerate() if one.name not in before]
    del pipeline
    gc.collect()
    for thread in threads:
        if thread.name.startswith("segment"):
            thread.join(SECONDS)
            assert not thread.is_alive()


def test_segments_on_devices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    run = DirectSimulator.run

    def noted(self: DirectSimulator, *arguments: Any, **named: Any) -> Any:
        used.append(id(self))
        return run(self, *arguments, **named)

    monkeypatch.setattr(DirectSimulator, "run", noted)
    pipeline = runner()
    pipeline.push({"image": image()})
    assert pipeline.pop()
    assert len(used) == len(set(used)) == 2


# --- queues --------------------------------------------------------------------------------------


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_queue_lets_go_of_whoever_waits() -> None:
    queue: BoundedQueue[int] = BoundedQueue(1)
    assert queue.put(1)
    told: list[bool] = []
    waiting = in_background(lambda: told.append(queue.put(2)))
    queue.limit(2)
    waiting.join(SECONDS)
    assert told == [True]
    waiting = in_background(lambda: told.append(queue.put(3)))
    assert queue.drop() == 2
    waiting.join(SECONDS)
    assert told == [True, False]
    assert queue.get() is None
    empty: BoundedQueue[int] = BoundedQueue()
    got: list[int | None] = []
    waiting = in_background(lambda: got.append(empty.get()))
    empty.close()
    waiting.join(SECONDS)
    assert got == [None]
    assert not empty.put(1)
