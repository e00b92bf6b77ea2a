"""The parts of a model: what a device runs, and what the host computes by numpy or by LiteRT.

LiteRT computes operators that have no class here, whatever computes the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import cast

import numpy as np

from fitzroy.base.errors import DeviceError, UnsupportedError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.detection import DetectionAttributes, DetectionPostProcess
from fitzroy.compiler.ops.opaque import Opaque, opaque_nodes
from fitzroy.compiler.partition import families_of
from fitzroy.compiler.reference import demand_memory, evaluate_node
from fitzroy.driver.runtime import litert
from fitzroy.driver.runtime.devices import Answer
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.flat import ints
from fitzroy.formats.submodel import rebuilt
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.linker.packages.container import read_container


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


def host_of(host: Host | str) -> Host:
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


def parts_of(
    model: tflite.Model,
    graph: Graph,
    data: bytes,
    path: str,
    host: Host,
    arithmetic: Arithmetic,
    threads: int = 1,
) -> tuple[Part, ...]:
    """The parts of a model in the order in which they run.

    Args:
        model: the model.
        graph: the model as a graph.
        data: the model's bytes.
        path: name of its file, for errors.
        host: what computes operators that are not on the Edge TPU.
        arithmetic: rounding of the reference semantics; of LiteRT, whether it uses XNNPACK.
        threads: how many threads of LiteRT compute.

    Raises:
        UsageError: LiteRT is not installed, and some operator needs it.
        UnsupportedError: an opaque operator is in a subgraph that another operator calls.
        DeviceError: LiteRT has no kernel for an operator.
    """
    programs = _programs(model, data, path)
    _demand_litert(graph, programs, path)

    def place(node: Node) -> int | Host:
        """The operator of a package, or what computes it on the host."""
        index = _index(node)
        if index in programs:
            return index
        if node.op == Opaque.name:
            return Host.LITERT
        return host if _has_litert(node) and index >= 0 else Host.REFERENCE

    parts: list[Part] = []
    for where, members in groupby(_in_order(graph), place):
        nodes = tuple(members)
        if isinstance(where, int):
            (node,) = nodes
            read = [name for name in node.inputs if name is not None]
            inputs = tuple(name for name in read if not graph.value(name).is_constant)
            parts.append(DevicePart(node, programs[where], inputs, node.outputs))
        elif where is Host.LITERT:
            run = _litert(model, graph, nodes, arithmetic, threads)
            parts.append(HostPart(nodes, "LiteRT", run))
        else:
            run = _reference(graph, nodes, arithmetic)
            parts.append(HostPart(nodes, "reference", run))
    return tuple(parts)


def _index(node: Node) -> int:
    """The operator of the main subgraph that a node is of; -1 if there is none."""
    origin = node.origin
    return -1 if origin is None or origin.subgraph else origin.index


def _demand_litert(graph: Graph, programs: Mapping[int, EdgeTpuProgram], path: str) -> None:
    """Refuse opaque operators where LiteRT is not installed.

    Raises:
        UsageError: there are some, and it is not.
    """
    opaque = [node for node in opaque_nodes(graph) if _index(node) not in programs]
    inner = next((node for node in opaque if _index(node) < 0), None)
    if inner is not None:
        raise UnsupportedError(
            f"{inner.spelled} is opaque, and in a subgraph that another operator calls", where=path
        )
    if opaque and not litert.available():
        names = dict.fromkeys(node.spelled for node in opaque)
        raise UsageError(
            f"LiteRT is not installed, which alone computes {', '.join(names)}",
            where=path,
            hint=install_extra("litert"),
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
    model: tflite.Model,
    graph: Graph,
    nodes: Sequence[Node],
    arithmetic: Arithmetic,
    threads: int,
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
    detectors = [node for node in nodes if node.op == DetectionPostProcess.name]
    left = _left(graph, nodes)
    counted = [name for node in detectors for name in node.outputs]
    inputs, outputs = [name for name in read if name not in made], [*dict.fromkeys(left + counted)]
    borders = replace(
        main,
        inputs=np.array([numbers[name] for name in inputs], np.int32),
        outputs=np.array([numbers[name] for name in outputs], np.int32),
    )
    part = rebuilt(
        replace(model, subgraphs=[borders, *(model.subgraphs or [])[1:]], signature_defs=None),
        _operators(model, nodes, {numbers[name] for name in inputs}),
    )
    inside = {node.name for node in nodes}
    others = {name for name in outputs if any(n.name not in inside for n in graph.consumers(name))}
    data = tflite.write_model(part)
    # Nobody has checked operators that have no class.
    opaque = any(node.op == Opaque.name for node in nodes)
    kind = litert.IsolatedModel if opaque else litert.LiteRtModel
    runtime = kind(data, xnnpack=arithmetic is Arithmetic.XNNPACK, threads=threads)

    def run(values: Mapping[str, Array]) -> Values:
        found = runtime.run([values[name] for name in inputs])
        results = dict(zip(outputs, found, strict=True))
        for node in detectors:
            _clear_rows(node, results)
        for name, array in results.items():
            # Nobody but the caller of the model takes other shapes than the file says.
            open_end = _is_open((main.tensors or [])[numbers[name]]) and name not in others
            _check_result(name, graph.type(name), array, loose=open_end)
        return results

    return run


def _clear_rows(node: Node, results: Mapping[str, Array]) -> None:
    """Zero what follows the last object of a detector: LiteRT's kernel leaves what was there."""
    *tables, number = (results[name] for name in node.outputs)
    attributes = cast(DetectionAttributes, node.attributes)
    each = 1 if attributes.use_regular_nms else attributes.max_classes_per_detection
    for table in tables:
        table[:, int(number[0]) * each :] = 0


def _operators(
    model: tflite.Model, nodes: Sequence[Node], given: Collection[int]
) -> list[tflite.Operator]:
    """The operators of nodes, in order, with those whose results the graph has as constants.

    Args:
        model: the model.
        nodes: nodes, some of which may be of the same operator.
        given: tensors that are given from outside.
    """
    operators = (model.subgraphs or [])[0].operators or []
    makers = {index: n for n, item in enumerate(operators) for index in ints(item.outputs)}
    found = {_index(node) for node in nodes}
    waiting = list(found)
    while waiting:
        read = [index for index in ints(operators[waiting.pop()].inputs) if index not in given]
        more = {makers[index] for index in read if index in makers} - found
        found |= more
        waiting += more
    return [operators[number] for number in sorted(found)]


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
    """Numbers of the tensors behind all values that operators compute or that are given."""
    main = (model.subgraphs or [])[0]
    numbers = dict(zip(graph.inputs, dict.fromkeys(ints(main.inputs)), strict=True))
    operators = main.operators or []
    # Of the nodes of an operator, the last one has its results.
    made = {_index(node): node.outputs for node in graph.nodes()}
    made.pop(-1, None)
    for index, outputs in made.items():
        numbers |= zip(outputs, ints(operators[index].outputs), strict=True)
    return numbers


def _in_order(graph: Graph) -> list[Node]:
    """All nodes, producers before consumers, those of one operator of the file side by side."""
    nodes = graph.nodes()
    families = {id(node): family for family in families_of(graph) for node in family[:-1]}
    last = {id(family[-1]): family for family in families.values()}
    found: list[Node] = []
    for node in nodes:
        if id(node) not in families:
            found += last.get(id(node), [node])
    return found
