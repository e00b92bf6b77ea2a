"""How long inferences of a model take, and how long the timing model says they should."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.types import Array, TensorType
from fitzroy.driver.runtime.devices import DeviceOptions, open_device
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.parts import Part, Values
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import StreamHeader, Tag
from fitzroy.report.run import Run

PERCENTILES = (50, 90, 99)

_HEADER_BYTES = StreamHeader.width // 8


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long something took, every time.

    Attributes:
        seconds: in order of the runs; at least one.
    """

    seconds: tuple[float, ...]

    def percentile(self, percent: float) -> float:
        """Seconds within which so many percent of the runs were done, one of the measured ones."""
        values: npt.NDArray[np.float64] = np.asarray(self.seconds)
        return float(np.percentile(values, percent, method="inverted_cdf"))

    @property
    def mean(self) -> float:
        """Arithmetic mean in seconds."""
        return sum(self.seconds) / len(self.seconds)


@dataclass(frozen=True)
class Measurement:
    """Inferences of a model.

    Attributes:
        first: seconds of the first inference, which loads parameters; it is not among the others.
        total: the others.
        parts: the parts of a model in order, each with its share of every inference.
        outputs: what the last inference gave, by name.
    """

    first: float
    total: Latencies
    parts: tuple[tuple[Part, Latencies], ...]
    outputs: Values


def measure(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    runs: int = 20,
    progress: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Run a model once to load its parameters, and then as often as asked.

    Args:
        interpreter: the model.
        inputs: one array per input, by name.
        runs: how often, at least once.
        progress: is told how far that is.
    """
    begin = time.perf_counter()
    interpreter.run(inputs)
    first = time.perf_counter() - begin
    totals: list[float] = []
    shares: list[list[float]] = [[] for _ in interpreter.parts]
    outputs: Values = {}
    for number in range(runs):
        progress(f"inference {number + 1} of {runs}")
        interpreter.reset_all_variables()
        begin = time.perf_counter()
        outputs = interpreter.run(inputs)
        totals.append(time.perf_counter() - begin)
        for share, timing in zip(shares, interpreter.timings, strict=True):
            share.append(timing.seconds)
    parts = zip(interpreter.parts, (Latencies(tuple(share)) for share in shares), strict=True)
    return Measurement(first, Latencies(tuple(totals)), tuple(parts), outputs)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Transfers of one kind in an inference.

    Attributes:
        kind: what was transferred.
        count: how often.
        size: bytes of all.
        seconds: time of all; predicted ones may pass at the same time as others.
    """

    kind: str
    count: int
    size: int
    seconds: float


def predicted_traffic(runs: Iterable[Run]) -> tuple[Traffic, ...]:
    """Transfers of predicted runs by their kind, in order of the first of each."""
    return _by_kind(
        (item.kind, item.size, (item.end - item.begin) / 1e6)
        for run in runs
        for item in run.timeline.transfers
    )


def observe(
    path: str, device: str, inputs: Mapping[str, Array], options: DeviceOptions | None = None
) -> tuple[Traffic, ...]:
    """Transfers of an inference on USB, by kind, as a driver sees them.

    Two inferences run on a device that is opened for them and recorded; the second one, which
    finds its parameters on the chip, is told. The time of a transfer begins where the one before
    ended: that of an output includes the wait for the chip.

    Args:
        path: the model.
        device: name of a device on USB, or of the virtual one.
        inputs: one array per input, by name.
        options: how to use the device; where to record is not taken from them.

    Raises:
        UsageError: the device has no USB.
        DeviceError: it fails.
    """
    with TemporaryDirectory() as folder:
        session = Path(folder) / "session.jsonl"
        with (
            open_device(device, replace(options or DeviceOptions(), record=session)) as opened,
            Interpreter(path, device=opened) as interpreter,
        ):
            interpreter.run(inputs)
            before = len(session.read_text().splitlines())
            interpreter.run(inputs)
            lines = session.read_text().splitlines()[before:]
    # What passed before the first transfer belongs to no inference.
    return session_traffic([json.loads(line) for line in (*lines[:1], *lines)])


_OTHER = "control"
_ENDPOINTS = {f"{item.address:#04x}": name for name, item in BEAGLE.usb.endpoints.items()}
_STREAM = "out_1"
_KINDS = {
    "out_2": "input",
    "out_3": "parameters",
    "output": "output",
    "event": "event",
    "interrupt": "interrupt",
}
"""What endpoints carry; the first one says it in headers, or has instructions."""

_TAGS = {Tag.INSTRUCTIONS: "instructions", Tag.INPUT: "input", Tag.PARAMETERS: "parameters"}


def session_traffic(entries: Sequence[Mapping[str, Any]]) -> tuple[Traffic, ...]:
    """Transfers of a recorded session by kind, those of the first entry left out.

    Args:
        entries: lines of a recording, see `driver.transports.record`; the time begins with that of
            the first.
    """
    return _by_kind(_transfers(entries))


def _transfers(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, float]]:
    """Kind, bytes and seconds of every transfer."""
    carried, left = _TAGS[Tag.INSTRUCTIONS], 0
    for last, entry in pairwise(entries):
        elapsed = entry["t"] - last["t"]
        name = _ENDPOINTS.get(entry.get("endpoint", ""), "")
        data = bytes.fromhex(entry.get("data", ""))
        size = len(data) if entry["op"] == "read" else entry.get("sent", 0)
        kind = _KINDS.get(name, _OTHER)
        if name == _STREAM and not left and size == _HEADER_BYTES:
            header = StreamHeader.unpack(int.from_bytes(data, "little"))
            carried, left = _TAGS[header.tag], header.length
            kind = carried
        elif name == _STREAM:
            kind, left = carried, max(left - size, 0)
        yield kind, size, elapsed


def _by_kind(transfers: Iterable[tuple[str, int, float]]) -> tuple[Traffic, ...]:
    kinds: dict[str, Traffic] = {}
    for kind, size, elapsed in transfers:
        known = kinds.get(kind, Traffic(kind, 0, 0, 0.0))
        kinds[kind] = Traffic(kind, known.count + 1, known.size + size, known.seconds + elapsed)
    return tuple(kinds.values())


def random_inputs(interpreter: Interpreter, seed: int = 0) -> Values:
    """Arrays for all inputs: integers over the whole range of their type, floats from 0 to 1.

    Raises:
        CapacityError: one takes more memory than the budget has.
    """
    graph = interpreter.graph
    return random_arrays({name: graph.type(name) for name in graph.inputs}, seed)


def random_arrays(types: Mapping[str, TensorType], seed: int = 0) -> Values:
    """Arrays by name, as `random_inputs` has them.

    Args:
        types: their types by name.
        seed: decides on the elements.

    Raises:
        CapacityError: one takes more memory than the budget has.
    """
    rng = np.random.default_rng(seed)
    return {name: _random(type, rng) for name, type in types.items()}


def _random(type: TensorType, rng: np.random.Generator) -> Array:
    # Drawn with 64 bits each, then converted.
    budget.demand(type.size * (8 + type.dtype.itemsize), f"an input, which is {type},")
    if type.dtype.is_float:
        return rng.uniform(size=type.shape).astype(type.dtype.numpy)
    low, high = type.dtype.limits if type.dtype.is_integer else (0, 1)
    return rng.integers(low, high, type.shape, endpoint=True).astype(type.dtype.numpy)
