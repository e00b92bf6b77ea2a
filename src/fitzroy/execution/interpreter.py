"""Whole models: what an Edge TPU computes, and the operators around it on the host.

A compiled model is a sequence of parts. Those that the Edge TPU operator carries run on a device,
real or simulated; the operators in between run by their reference semantics, or by LiteRT. LiteRT
also runs those that have no class here, whatever runs the others.
`Interpreter` has the methods of TFLite's interpreter that scripts use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.closing import Closing
from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.detection import DetectionPostProcess
from fitzroy.compiler.ops.opaque import Opaque, opaque_nodes
from fitzroy.compiler.reference import demand_memory, evaluate_node
from fitzroy.driver.runtime import litert
from fitzroy.driver.runtime.devices import Answer, Device, open_device
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.flat import ints
from fitzroy.formats.submodel import rebuilt
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.linker.packages.container import read_container

_DEVICE = "auto"


class Host(StrEnum):
    """What computes operators that are not on the Edge TPU."""

    REFERENCE = "reference"
    LITERT = "litert"
    AUTO = "auto"


Values = dict[str, Array]


@dataclass(frozen=True)
class DevicePart:
    """An Edge TPU operator.

    Attributes:
        node: the operator.
        program: its package.
        inputs: names of the values that it reads, in order of the package's inputs.
        outputs: names of the values that it computes likewise.
    """

    node: Node
    program: EdgeTpuProgram
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def where(self) -> str:
        """What runs it, for people."""
        return "Edge TPU"

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"package {self.program.number}"

    def given(self, values: Mapping[str, Array]) -> Values:
        """The inputs of the package by their names in it."""
        return {
            name: values[value]
            for name, value in zip(self.program.inputs, self.inputs, strict=True)
        }

    def taken(self, outputs: Answer) -> Values:
        """Values of the model from outputs of the package."""
        decoded = self.program.decoded(outputs.tensors)
        return dict(zip(self.outputs, decoded.values(), strict=True))


@dataclass(frozen=True)
class HostPart:
    """Operators that the host computes, in order.

    Attributes:
        nodes: the operators.
        where: what runs them, for people.
        run: values that they read and compute, from all values so far.
    """

    nodes: tuple[Node, ...]
    where: str
    run: Callable[[Mapping[str, Array]], Values]

    @property
    def title(self) -> str:
        """What it is, for people."""
        return ", ".join(dict.fromkeys(node.spelled for node in self.nodes))


Part = DevicePart | HostPart


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
    ) -> None:
        self.path = "" if isinstance(model, bytes) else os.fspath(model)
        data = model if isinstance(model, bytes) else read_file(model)
        self._model = tflite.read_model(data, self.path)
        self.graph = import_model(self._model, path=self.path)
        self.parts = parts_of(self._model, self.graph, data, self.path, _host(host), arithmetic)
        self.timings: tuple[Timing, ...] = ()
        self.device: Device | None = None
        self._states: dict[int, Values] = {}
        self._inputs = _ports(self._model, self.graph, self.graph.inputs, "inputs")
        self._outputs = _ports(self._model, self.graph, self.graph.outputs, "outputs")
        self._buffers = {port.index: port.zeros() for port in (*self._inputs, *self._outputs)}
        self._own = ExitStack()
        if any(isinstance(part, DevicePart) for part in self.parts):
            if device is None or isinstance(device, str):
                device = self._own.enter_context(open_device(device or _DEVICE))
            self.device = device

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.title} on {part.where}" for part in self.parts)
        return f"<Interpreter of {self.path or 'a model'}: {parts}>"

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
        values: Values = {}
        for port in self._inputs:
            if port.name not in inputs:
                raise UsageError(f"input {port.name!r} is missing", where=self.path)
            values[port.name] = port.checked(inputs[port.name], self.path)
        timings = []
        for number, part in enumerate(self.parts):
            start = time.perf_counter()
            if isinstance(part, HostPart):
                values |= part.run(values)
            else:
                values |= self._on_device(number, part, values)
            timings.append(Timing(part, time.perf_counter() - start))
        self.timings = tuple(timings)
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
                self._buffers[port.index] = results[port.name]

    def reset_all_variables(self) -> None:
        """Begin the next inference with states of zero."""
        self._states.clear()

    # --- tensors ---------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Do nothing: tensors exist from the beginning."""

    def get_input_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the input tensors: names, indices, types and quantization."""
        return [port.details() for port in self._inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the output tensors."""
        return [port.details() for port in self._outputs]

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
            for key, sides in self.signature_tensors().items()
        }

    def signature_tensors(self) -> dict[str, dict[str, dict[str, int]]]:
        """Numbers of the tensors behind the names of every signature."""
        return {
            item.signature_key or "": {
                "inputs": {entry.name or "": entry.tensor_index for entry in item.inputs or ()},
                "outputs": {entry.name or "": entry.tensor_index for entry in item.outputs or ()},
            }
            for item in self._model.signature_defs or ()
        }


@dataclass(frozen=True, slots=True)
class _Port:
    """An input or output: its name in the graph, its name and index in the file, its type."""

    name: str
    tensor: str
    index: int
    type: TensorType

    def zeros(self) -> Array:
        what = f"{self.tensor!r}, which is {self.type},"
        return budget.zeros(self.type.shape, self.type.dtype.numpy, what)

    def checked(self, array: Array, where: str) -> Array:
        if array.shape != self.type.shape or array.dtype != self.type.dtype.numpy:
            raise UsageError(
                f"{self.tensor!r} is {self.type}",
                reason=f"the array is {array.dtype}{list(array.shape)}",
                where=where,
            )
        return array

    def details(self) -> dict[str, Any]:
        shape, quantization = np.array(self.type.shape, np.int32), self.type.quantization
        scales = np.array(() if quantization is None else quantization.scale, np.float32)
        points = np.array(() if quantization is None else quantization.zero_point, np.int32)
        single = len(scales) == 1
        return {
            "name": self.tensor,
            "index": self.index,
            "shape": shape,
            "shape_signature": shape.copy(),
            "dtype": self.type.dtype.numpy.type,
            "quantization": (float(scales[0]), int(points[0])) if single else (0.0, 0),
            "quantization_parameters": {
                "scales": scales,
                "zero_points": points,
                "quantized_dimension": 0 if quantization is None else quantization.axis or 0,
            },
            "sparsity_parameters": {},
        }


def _ports(model: tflite.Model, graph: Graph, names: Sequence[str], side: str) -> list[_Port]:
    subgraph = (model.subgraphs or [])[0]
    tensors = subgraph.tensors or []
    # An input that is listed twice is one input of the graph.
    indices = dict.fromkeys(ints(getattr(subgraph, side)))
    return [
        _Port(name, tensors[index].name or name, index, graph.type(name))
        for name, index in zip(dict.fromkeys(names), indices, strict=True)
    ]


def _constant(data: Array | None) -> Array:
    assert data is not None
    return data


# --- parts ---------------------------------------------------------------------------------------


def parts_of(
    model: tflite.Model,
    graph: Graph,
    data: bytes,
    path: str,
    host: Host,
    arithmetic: Arithmetic,
) -> tuple[Part, ...]:
    """The parts of a model in the order in which they run.

    Raises:
        UsageError: LiteRT is not installed, and some operator needs it.
        DeviceError: LiteRT has no kernel for an operator.
    """
    programs = _programs(model, data, path)
    _demand_litert(graph, programs, path)

    def place(node: Node) -> int | Host:
        """The operator of a package, or what computes it on the host."""
        index = -1 if node.origin is None else node.origin.index
        if index in programs:
            return index
        if node.op == Opaque.name:
            return Host.LITERT
        return host if _has_litert(node) else Host.REFERENCE

    parts: list[Part] = []
    for where, members in groupby(graph.nodes(), place):
        nodes = tuple(members)
        if isinstance(where, int):
            (node,) = nodes
            read = [name for name in node.inputs if name is not None]
            inputs = tuple(name for name in read if not graph.value(name).is_constant)
            parts.append(DevicePart(node, programs[where], inputs, node.outputs))
        elif where is Host.LITERT:
            run = _litert(model, graph, nodes, arithmetic)
            parts.append(HostPart(nodes, "LiteRT", run))
        else:
            run = _reference(graph, nodes, arithmetic)
            parts.append(HostPart(nodes, "reference", run))
    return tuple(parts)


def _demand_litert(graph: Graph, programs: Mapping[int, EdgeTpuProgram], path: str) -> None:
    """Refuse opaque operators where LiteRT is not installed.

    Raises:
        UsageError: there are some, and it is not.
    """
    opaque = [
        node
        for node in opaque_nodes(graph)
        if node.origin is None or node.origin.index not in programs
    ]
    if opaque and not litert.available():
        names = dict.fromkeys(node.spelled for node in opaque)
        raise UsageError(
            f"LiteRT is not installed, which alone computes {', '.join(names)}",
            where=path,
            hint="pip install 'fitzroy[litert]'",
        )


def _is_open(tensor: tflite.Tensor) -> bool:
    """Whether the shape of a tensor is open until it is computed."""
    unknown = not ints(tensor.shape) and not tensor.has_rank
    return unknown or any(extent < 0 for extent in ints(tensor.shape_signature))


def _programs(model: tflite.Model, data: bytes, path: str) -> dict[int, EdgeTpuProgram]:
    """Packages by the number of the operator that carries them."""
    operators = custom_op.extract(model, path, data)
    if not operators:
        return {}
    container = read_container(data, path)
    return {
        operator.operator: EdgeTpuProgram.of(container, number)
        for number, operator in enumerate(operators)
        if operator.subgraph == 0
    }


def _host(host: Host | str) -> Host:
    """The host that is meant.

    Raises:
        UsageError: there is no such host, or LiteRT is not installed.
    """
    try:
        choice = Host(host)
    except ValueError:
        raise UsageError(
            f"there is no host {host!r}", reason=f"there are {', '.join(Host)}"
        ) from None
    if choice is Host.AUTO:
        return Host.LITERT if litert.available() else Host.REFERENCE
    if choice is Host.LITERT:
        litert.demand()
    return choice


def _has_litert(node: Node) -> bool:
    """Whether LiteRT has a kernel: for all builtin operators, and for one custom operator."""
    operator = OPS[node.op]
    return not operator.custom or node.op == DetectionPostProcess.name


def _left(graph: Graph, nodes: Sequence[Node]) -> list[str]:
    """What nodes compute for others, or for the outputs of the graph."""
    inside = {node.name for node in nodes}
    return [
        name
        for node in nodes
        for name in node.outputs
        if name in graph.outputs or any(n.name not in inside for n in graph.consumers(name))
    ]


def _reference(
    graph: Graph, nodes: Sequence[Node], arithmetic: Arithmetic
) -> Callable[[Mapping[str, Array]], Values]:
    """Operators by their reference semantics."""
    left = _left(graph, nodes)
    last = {name: node.name for node in nodes for name in node.inputs}

    def run(values: Mapping[str, Array]) -> Values:
        known = dict(values)
        for node in nodes:
            known |= evaluate_node(graph, node, known, arithmetic)
            for name in {*node.inputs} - {*left}:
                if name is not None and last[name] == node.name:
                    known.pop(name, None)
        return {name: known[name] for name in left}

    return run


def _litert(
    model: tflite.Model, graph: Graph, nodes: Sequence[Node], arithmetic: Arithmetic
) -> Callable[[Mapping[str, Array]], Values]:
    """Operators of a model on LiteRT, as a model of their own.

    Raises:
        CapacityError: the results take more memory than the budget has.
        DeviceError: LiteRT refuses them.
    """
    for node in nodes:
        demand_memory(graph, node)
    main, numbers = (model.subgraphs or [])[0], _tensors(model, graph)
    made = {name for node in nodes for name in node.outputs}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name in numbers)
    inputs, outputs = [name for name in read if name not in made], _left(graph, nodes)
    borders = replace(
        main,
        inputs=np.array([numbers[name] for name in inputs], np.int32),
        outputs=np.array([numbers[name] for name in outputs], np.int32),
    )
    operators = main.operators or []
    part = rebuilt(
        replace(model, subgraphs=[borders, *(model.subgraphs or [])[1:]], signature_defs=None),
        [operators[node.origin.index] for node in nodes if node.origin is not None],
    )
    inside = {node.name for node in nodes}
    others = {name for name in outputs if any(n.name not in inside for n in graph.consumers(name))}
    data = tflite.write_model(part)
    runtime = litert.LiteRtModel(data, xnnpack=arithmetic is Arithmetic.XNNPACK)

    def run(values: Mapping[str, Array]) -> Values:
        found = runtime.run([values[name] for name in inputs])
        results = dict(zip(outputs, found, strict=True))
        for name, array in results.items():
            # Nobody but the caller of the model takes other shapes than the file says.
            open_end = _is_open((main.tensors or [])[numbers[name]]) and name not in others
            _check_result(name, graph.type(name), array, loose=open_end)
        return results

    return run


def _check_result(name: str, type: TensorType, array: Array, *, loose: bool) -> None:
    """Check that LiteRT gave what the model says.

    Args:
        name: the value.
        type: what the model says.
        array: what LiteRT gave.
        loose: whether it may have another shape.

    Raises:
        DeviceError: it is of another shape or element type.
    """
    if array.dtype != type.dtype.numpy or (array.shape != type.shape and not loose):
        raise DeviceError(
            f"LiteRT gave {array.dtype}{list(array.shape)} for {name!r}",
            reason=f"the model says {type}",
            hint="let LiteRT compute what follows, too: --runtime litert",
        )


def _tensors(model: tflite.Model, graph: Graph) -> dict[str, int]:
    """Numbers of the tensors behind all values that are computed or given."""
    main = (model.subgraphs or [])[0]
    numbers = dict(zip(graph.inputs, dict.fromkeys(ints(main.inputs)), strict=True))
    operators = main.operators or []
    for node in graph.nodes():
        if node.origin is not None:
            numbers |= zip(node.outputs, ints(operators[node.origin.index].outputs), strict=True)
    return numbers
