"""Models in segments, each on a device of its own, which compute at the same time.

`fitzroy compile --num-segments` makes segments. Results come in the order of the inputs. If a
device is unplugged and there is a spare one, the segment goes on there, with the inputs that it
had; otherwise the error of that device ends all.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from fitzroy.base.closing import Closing
from fitzroy.base.errors import DeviceError, FitzroyError, UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import Device, DeviceOptions
from fitzroy.driver.transports.transport import LostError
from fitzroy.execution.chain import BETWEEN, Chain, Stage, Tensors
from fitzroy.execution.devices import open_device
from fitzroy.execution.inputs import Port
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.parts import Host

_SEGMENT = re.compile(r"_segment_(\d+)_of_(\d+)(?=_edgetpu\.|\.)")
_MOST_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class StageTimes:
    """How long a segment took.

    Attributes:
        where: its device.
        seconds: of each inference.
    """

    where: str
    seconds: tuple[float, ...]


@dataclass
class _Segment:
    """A segment on a device.

    Attributes:
        number: its number.
        path: its file.
        interpreter: what runs it.
        device: what it runs on.
        seconds: of each inference.
    """

    number: int
    path: str
    interpreter: Interpreter
    device: Device
    seconds: list[float] = field(default_factory=list)


class PipelinedInterpreter(Closing):
    """A model whose segments run on several devices at the same time.

    Args:
        segments: files of the segments, in order.
        devices: names of devices, or open ones, which stay open: one for each segment, and spares
            after them.
        options: how to use devices that are given by name.
        host: what computes operators that are not on the Edge TPU.

    Attributes:
        inputs: what to give, by name.
        outputs: what comes back, by name.

    Raises:
        UsageError: there are fewer devices than segments, or a segment needs what none before it
            gives.
        FitzroyError: as `Interpreter`.
    """

    def __init__(
        self,
        segments: Sequence[str | os.PathLike[str]],
        devices: Sequence[str | Device],
        *,
        options: DeviceOptions | None = None,
        host: Host | str = Host.REFERENCE,
    ) -> None:
        paths = [os.fspath(path) for path in segments]
        if not paths:
            raise UsageError("a pipeline without segments")
        if len(devices) < len(paths):
            raise UsageError(
                f"{len(paths)} segments need as many devices", reason=f"{len(devices)} are given"
            )
        self._own = ExitStack()
        self._options, self._host = options, host
        self._spares = deque(devices[len(paths) :])
        self._taking = threading.Lock()
        try:
            self._segments = [
                self._opened(number, path, device)
                for number, (path, device) in enumerate(zip(paths, devices, strict=False))
            ]
            self.inputs, self.outputs = _ports(self._segments)
        except BaseException:
            self._own.close()
            raise
        self._chain = Chain([*map(self._stage, self._segments)], self._failed)
        self._waiting = 0

    def __repr__(self) -> str:
        return f"<PipelinedInterpreter: {self.description}>"

    @property
    def description(self) -> str:
        """What computes, for people."""
        return ", then ".join(segment.device.description for segment in self._segments)

    @property
    def last(self) -> Graph:
        """The segment that gives the outputs."""
        return self._segments[-1].interpreter.graph

    @property
    def times(self) -> tuple[StageTimes, ...]:
        """How long each segment took so far, inference by inference."""
        return tuple(
            StageTimes(segment.device.description, tuple(segment.seconds))
            for segment in self._segments
        )

    def close(self) -> None:
        """End what is under way, and give back the devices that were given by name."""
        self._chain.drop()
        self._own.close()

    # --- running ---------------------------------------------------------------------------------

    def push(self, inputs: Mapping[str, Array]) -> None:
        """Give inputs to the first segment; waits if several inferences wait for it already.

        Args:
            inputs: arrays by name, of their types; what is written into them later does not count.

        Raises:
            UsageError: an input is missing or of another type.
            FitzroyError: the error of a segment, which has ended the pipeline.
        """
        self._chain.check()
        taken = {}
        for port in self.inputs:
            if port.name not in inputs:
                raise UsageError(f"input {port.name!r} is missing", where=self._segments[0].path)
            array = inputs[port.name]
            if array.dtype != port.type.dtype.numpy or array.shape != port.type.shape:
                raise UsageError(
                    f"input {port.name!r} is {port.type}",
                    reason=f"the array is {array.dtype}{list(array.shape)}",
                )
            taken[port.name] = array.copy()
        if not self._chain.put(taken):
            self._chain.check()
            raise DeviceError("the pipeline was closed")
        self._waiting += 1

    def pop(self) -> Tensors:
        """Outputs by name of the first inputs that have not been answered; waits for them.

        Raises:
            UsageError: there are no such inputs.
            FitzroyError: the error of a segment, which has ended the pipeline.
        """
        if not self._waiting:
            raise UsageError("there are no inputs to be answered")
        found = self._chain.get()
        if found is None:
            self._chain.check()
            raise DeviceError("the pipeline was closed")
        self._waiting -= 1
        return found

    def run(self, inputs: Mapping[str, Array]) -> Tensors:
        """Outputs by name, from inputs by name; nothing else is under way then.

        Raises:
            FitzroyError: as `push` and `pop`.
        """
        self.push(inputs)
        return self.pop()

    def map(self, images: Iterable[Mapping[str, Array]]) -> Iterator[Tensors]:
        """Outputs of each of some inputs in order, while all segments compute.

        Inputs are taken as they are needed: a few are under way at a time.

        Raises:
            FitzroyError: as `push` and `pop`.
        """
        most = len(self._segments) * (1 + BETWEEN)
        for image in images:
            self.push(image)
            if self._waiting >= most:
                yield self.pop()
        while self._waiting:
            yield self.pop()

    # --- segments --------------------------------------------------------------------------------

    def _opened(self, number: int, path: str, device: str | Device) -> _Segment:
        opened = (
            self._own.enter_context(open_device(device, self._options))
            if isinstance(device, str)
            else device
        )
        interpreter = Interpreter(path, device=opened, host=self._host)
        return _Segment(number, path, interpreter, opened)

    def _stage(self, segment: _Segment) -> Stage:
        return Stage(
            frozenset(segment.interpreter.graph.inputs),
            lambda tensors: self._computed(segment, tensors),
        )

    def _computed(self, segment: _Segment, tensors: Mapping[str, Array]) -> Tensors:
        """Outputs of a segment; on a spare device if its own was unplugged."""
        start = time.perf_counter()
        while True:
            try:
                found = segment.interpreter.run(tensors)
                break
            except LostError:
                spare = self._spare()
                if spare is None:
                    raise
                moved = self._opened(segment.number, segment.path, spare)
                segment.interpreter, segment.device = moved.interpreter, moved.device
        segment.seconds.append(time.perf_counter() - start)
        return found

    def _spare(self) -> str | Device | None:
        with self._taking:
            return self._spares.popleft() if self._spares else None

    def _failed(self, number: int, error: Exception) -> Exception:
        """The error of a segment, with its number and device in front of the place."""
        if isinstance(error, FitzroyError):
            segment = self._segments[number]
            place = f"segment {number} on {segment.device.description}"
            error.where = f"{place}, {error.where}" if error.where else place
        return error


def _ports(segments: Sequence[_Segment]) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """What a pipeline takes and gives.

    Raises:
        UsageError: a segment needs what none before it gives.
    """
    first, last = segments[0].interpreter.graph, segments[-1].interpreter.graph
    known = set(first.inputs)
    for segment in segments:
        graph = segment.interpreter.graph
        missing = [name for name in graph.inputs if name not in known]
        if missing:
            raise UsageError(
                f"segment {segment.number} needs {missing[0]!r}",
                reason="no segment before it gives that",
                where=segment.path,
                hint="are these all segments, in order?",
            )
        known.update(graph.outputs)
    return (
        tuple(Port(name, first.type(name)) for name in first.inputs),
        tuple(Port(name, last.type(name)) for name in last.outputs),
    )


def segments_of(path: str) -> list[str]:
    """Files of all segments of a model, from that of one.

    Args:
        path: ``NAME_segment_I_of_N_edgetpu.tflite``; or another file, which is the only one.

    Raises:
        UsageError: a segment is missing.
    """
    name = Path(path).name
    match = _SEGMENT.search(name)
    if match is None:
        return [path]
    count = int(match[2]) if len(match[2]) < 4 else 0
    if not 1 <= count <= _MOST_SEGMENTS:
        raise UsageError(
            f"a model in {match[2]} segments", reason=f"at most {_MOST_SEGMENTS}", where=path
        )
    found = []
    for number in range(count):
        part = f"{name[: match.start()]}_segment_{number}_of_{count}{name[match.end() :]}"
        found.append(str(Path(path).with_name(part)))
        if not os.path.exists(found[-1]):
            raise UsageError(f"segment {number} of {count} is missing", where=found[-1])
    return found


def device_names(text: str) -> list[str]:
    """Names of devices, from ``usb:1-1,usb:1-2`` or ``sim:3``, which are three simulated ones.

    Raises:
        UsageError: there is none.
    """
    names: list[str] = []
    for item in text.split(","):
        name = item.strip()
        kind, _, count = name.rpartition(":")
        if kind in ("sim", "sim:direct") and count.isascii() and count.isdigit():
            if not 1 <= int(count[:4]) <= _MOST_SEGMENTS:
                raise UsageError(f"{count[:20]} devices", reason=f"1 to {_MOST_SEGMENTS} are taken")
            names += [kind] * int(count)
        elif name:
            names.append(name)
    if not names:
        raise UsageError("no devices are named", hint="--devices usb:1-1,usb:1-2 or sim:3")
    return names
