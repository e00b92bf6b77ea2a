"""Whole models: what an Edge TPU computes, and the operators around it on the host.

A compiled model is a sequence of parts. Those that the Edge TPU operator carries run on a device,
real or simulated; the operators in between run by their reference semantics, or by LiteRT. LiteRT
also runs those that have no class here, whatever runs the others.
`Interpreter` has the methods of TFLite's interpreter that scripts use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.closing import Closing
from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import Device, ManyDevice
from fitzroy.execution.details import tensor_details
from fitzroy.execution.devices import open_device
from fitzroy.execution.parts import DevicePart, Host, HostPart, Part, Values, host_of, parts_of
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints
from fitzroy.hw_models.numerics import Arithmetic

_DEVICE = "auto"


@dataclass(frozen=True, slots=True)
class Timing:
    """A part of an inference that has run.

    Attributes:
        part: the part.
        seconds: how long it took.
    """

    part: Part
    seconds: float


class Interpreter(Closing):
    """A TFLite model as it runs.

    Tensors that hold state keep it from inference to inference if the Edge TPU operator has them,
    until `reset_all_variables`; those of operators on the host begin every inference at zero.

    Args:
        model: a file, or its bytes.
        device: the name of a device, see `driver.runtime.devices`, by default that which is
            attached, else the simulator; or an open one, which stays open. Models without Edge TPU
            operators need none.
        host: what computes the other operators; ``auto`` takes LiteRT if it is installed.
        arithmetic: rounding of the reference semantics; of LiteRT, whether it uses XNNPACK.
        name: name of the file in errors, where its bytes are given.
        threads: how many threads of LiteRT compute the other operators.

    Attributes:
        path: name of the file, empty if only its bytes are known.
        model: the model as the file has it.
        graph: the model as a graph.
        parts: what runs where, in order.
        timings: how long every part of the last inference took.
        device: the device; None if there is nothing for it.

    Raises:
        UsageError: the file cannot be read or is no TFLite model, or LiteRT is not installed, which
            alone computes operators that have no class here.
        FormatError: the file is malformed.
        UnsupportedError: operators exchange tensors of types that have no counterpart here; with
            one diagnostic for each.
        CapacityError: an input or output takes more memory than the budget has.
        DeviceError: the device cannot be opened, or LiteRT has no kernel for an operator.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        device: str | Device | None = None,
        host: Host | str = Host.REFERENCE,
        arithmetic: Arithmetic = Arithmetic.XNNPACK,
        name: str = "",
        threads: int = 1,
    ) -> None:
        self.path = name if isinstance(model, bytes) else os.fspath(model)
        data = model if isinstance(model, bytes) else read_file(model)
        self.model = tflite.read_model(data, self.path)
        self.graph = import_model(self.model, path=self.path)
        kind = host_of(host)
        self.parts = parts_of(self.model, self.graph, data, self.path, kind, arithmetic, threads)
        self.timings: tuple[Timing, ...] = ()
        self.device: Device | None = None
        self._states: dict[int, Values] = {}
        main = (self.model.subgraphs or [])[0]
        # An input that is listed twice is one input of the graph; outputs are as many as listed.
        given, made = dict.fromkeys(ints(main.inputs)), ints(main.outputs)
        self._inputs = _ports(self.model, self.graph, self.graph.inputs, given)
        self._outputs = _ports(self.model, self.graph, self.graph.outputs, made)
        self._buffers = {port.index: port.zeros() for port in (*self._inputs, *self._outputs)}
        self._own = ExitStack()
        if any(isinstance(part, DevicePart) for part in self.parts):
            if device is None or isinstance(device, str):
                device = self._own.enter_context(open_device(device or _DEVICE))
            self.device = device

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.title} on {part.where}" for part in self.parts)
        return f"<Interpreter of {self.path or 'a model'}: {parts}>"

    @property
    def labels(self) -> dict[int, str]:
        """Names of the model's classes by number; empty if it has none."""
        return dict(self.graph.labels)

    # --- the device ------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the device, unless it was given open."""
        self._own.close()

    # --- running ---------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array]) -> Values:
        """Outputs by name, from inputs by name; `timings` say how long every part took.

        Raises:
            UsageError: an input is missing or of another type.
            DeviceError: the device fails.
            SimulationError: the simulated program fails.
        """
        values = self._checked(inputs)
        timings = []
        for number, part in enumerate(self.parts):
            start = time.perf_counter()
            if isinstance(part, HostPart):
                values |= part.run(values)
            else:
                values |= self._on_device(number, part, values)
            timings.append(Timing(part, time.perf_counter() - start))
        self.timings = tuple(timings)
        return self._results(values)

    def run_images(self, inputs: Sequence[Mapping[str, Array]]) -> list[Values]:
        """Outputs by name for each of several inferences, faster than one after the other.

        A device of this process, such as the simulated chip or its twin, computes many at a time.
        Models that keep states compute one after the other. `timings` have the share of one.

        Args:
            inputs: of each inference, as `run` takes them.

        Raises:
            UsageError: as `run`.
            DeviceError: as `run`.
            SimulationError: as `run`.
        """
        device = self.device
        if not (self.takes_many and isinstance(device, ManyDevice) and inputs):
            return [self.run(image) for image in inputs]
        images, timings = [self._checked(image) for image in inputs], []
        for part in self.parts:
            start = time.perf_counter()
            if isinstance(part, HostPart):
                for values in images:
                    values |= part.run(values)
            else:
                _on_many(device, part, images)
            timings.append(Timing(part, (time.perf_counter() - start) / len(images)))
        self.timings = tuple(timings)
        return [self._results(values) for values in images]

    @property
    def takes_many(self) -> bool:
        """Whether `run_images` computes many at a time."""
        stateful = any(isinstance(part, DevicePart) and part.program.states for part in self.parts)
        return isinstance(self.device, ManyDevice) and not stateful

    def _checked(self, inputs: Mapping[str, Array]) -> Values:
        """Inputs by name, of the right types."""
        values: Values = {}
        for port in self._inputs:
            if port.name not in inputs:
                raise UsageError(f"input {port.name!r} is missing", where=self.path)
            values[port.name] = port.checked(inputs[port.name], self.path)
        return values

    def _results(self, values: Values) -> Values:
        """Outputs by name among all values."""
        constants = self.graph.values
        return {
            name: values[name] if name in values else _constant(constants[name].data)
            for name in self.graph.outputs
        }

    def _on_device(self, number: int, part: DevicePart, values: Mapping[str, Array]) -> Values:
        assert self.device is not None
        program = part.program
        given = part.given(values) | self._states.get(number, {})
        with program.located():
            outputs = self.device.run(program.package, program.encoded(given))
        self._states[number] = program.carried(outputs.tensors)
        return part.taken(outputs)

    def invoke(self) -> None:
        """Compute the output tensors from the input tensors.

        Raises:
            DeviceError: the device fails.
            SimulationError: the simulated program fails.
        """
        results = self.run({port.name: self._buffers[port.index] for port in self._inputs})
        for port in self._outputs:
            if results[port.name].shape == self._buffers[port.index].shape:
                self._buffers[port.index][...] = results[port.name]
            else:
                # Of a shape that only an inference shows.
                self._buffers[port.index] = np.array(results[port.name], order="C")

    def reset_all_variables(self) -> None:
        """Begin the next inference with states of zero."""
        self._states.clear()

    # --- tensors ---------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Do nothing: tensors exist from the beginning."""

    def get_input_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the input tensors: names, indices, types and quantization."""
        return [port.details(self._buffers[port.index]) for port in self._inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the output tensors."""
        return [port.details(self._buffers[port.index]) for port in self._outputs]

    def set_tensor(self, index: int, value: Array) -> None:
        """Copy elements into an input.

        Args:
            index: number of the tensor in the model.
            value: an array of the tensor's type.

        Raises:
            UsageError: there is no such input, or it is of another type.
        """
        for port in self._inputs:
            if port.index == index:
                self._buffers[index][...] = port.checked(np.asarray(value), self.path)
                return
        raise UsageError(f"tensor {index} is no input", where=self.path)

    def get_tensor(self, index: int) -> Array:
        """A copy of an input or output.

        Raises:
            UsageError: there is no such input or output.
        """
        return self._buffer(index).copy()

    def tensor(self, index: int) -> Callable[[], Array]:
        """A function that gives an input or output itself, to read or to write into it.

        Raises:
            UsageError: there is no such input or output.
        """
        buffer = self._buffer(index)
        return lambda: buffer

    def _buffer(self, index: int) -> Array:
        if index not in self._buffers:
            known = ", ".join(map(str, self._buffers))
            raise UsageError(
                f"tensor {index} is no input and no output",
                reason=f"those are {known}",
                where=self.path,
            )
        return self._buffers[index]

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of the inputs and outputs of every signature of the model."""
        return {
            key: {kind: list(tensors) for kind, tensors in sides.items()}
            for key, sides in signature_tensors(self.model).items()
        }


def _on_many(device: ManyDevice, part: DevicePart, images: Sequence[Values]) -> None:
    """Compute a part of several inferences on a device."""
    program = part.program
    with program.located():
        given = [program.encoded(part.given(values)) for values in images]
        answers = device.run_images(program.package, given)
    for values, answer in zip(images, answers, strict=True):
        values |= part.taken(answer)


def signature_tensors(model: tflite.Model) -> dict[str, dict[str, dict[str, int]]]:
    """Numbers of the tensors behind the names of every signature, ``inputs`` and ``outputs``.

    Names of a side are in alphabetical order, as LiteRT gives them.
    """
    return {
        item.signature_key or "": {
            "inputs": _numbers(item.inputs),
            "outputs": _numbers(item.outputs),
        }
        for item in model.signature_defs or ()
    }


def _numbers(entries: Sequence[tflite.TensorMap] | None) -> dict[str, int]:
    return dict(sorted((entry.name or "", entry.tensor_index) for entry in entries or ()))


@dataclass(frozen=True, slots=True)
class _Port:
    """An input or output: its name in the graph, its index and entry in the file, its type."""

    name: str
    index: int
    tensor: tflite.Tensor
    type: TensorType

    @property
    def title(self) -> str:
        return self.tensor.name or self.name

    def zeros(self) -> Array:
        what = f"{self.title!r}, which is {self.type},"
        return budget.zeros(self.type.shape, self.type.dtype.numpy, what)

    def checked(self, array: Array, where: str) -> Array:
        if array.shape != self.type.shape or array.dtype != self.type.dtype.numpy:
            raise UsageError(
                f"{self.title!r} is {self.type}",
                reason=f"the array is {array.dtype}{list(array.shape)}",
                where=where,
            )
        return array

    def details(self, buffer: Array) -> dict[str, Any]:
        found = tensor_details(self.tensor, self.index)
        assert found is not None, "every element type of graphs has one in numpy"
        return found | {"name": self.title, "shape": np.array(buffer.shape, np.int32)}


def _ports(
    model: tflite.Model, graph: Graph, names: Sequence[str], indices: Iterable[int]
) -> list[_Port]:
    """Inputs or outputs of a model.

    Args:
        model: the model.
        graph: the model as a graph.
        names: their names in the graph.
        indices: the tensors that they are in the model.
    """
    tensors = (model.subgraphs or [])[0].tensors or []
    return [
        _Port(name, index, tensors[index], graph.type(name))
        for name, index in zip(names, indices, strict=True)
    ]


def _constant(data: Array | None) -> Array:
    assert data is not None
    return data
