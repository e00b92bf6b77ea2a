"""The quantized graph: the source's nodes on integers, with conversions where float32 remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Value, unused_name
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.quantization.functions import ElementFunction
from fitzroy.compiler.quantization.options import Border
from fitzroy.compiler.quantization.parameters import Parameters
from fitzroy.compiler.quantization.rules import is_real, touches_reals
from fitzroy.compiler.quantization.scheme import Scheme
from fitzroy.hw_models import numerics


@dataclass(frozen=True, slots=True)
class Borders:
    """Element types of the inputs and outputs of a quantized graph."""

    inputs: Border = Border.INT8
    outputs: Border = Border.INT8


def rewrite(
    graph: Graph, scheme: Scheme, parameters: Mapping[str, Parameters], borders: Borders
) -> Graph:
    """The quantized graph.

    Inputs, outputs, nodes and activations keep their names. What an operator that stays float32
    gives stays float32 where it is an output of the graph.

    Args:
        graph: a float32 graph.
        scheme: how its activations are quantized.
        parameters: filters and biases of the nodes that have them and are quantized.
        borders: element types of inputs and outputs.
    """
    return _Rewriter(graph, scheme, parameters, borders).graph()


class _Rewriter:
    def __init__(
        self,
        source: Graph,
        scheme: Scheme,
        parameters: Mapping[str, Parameters],
        borders: Borders,
    ) -> None:
        self.source, self.scheme = source, scheme
        self.parameters, self.borders = parameters, borders
        self.result = Graph(source.name)
        self.result.take_notes(source)
        self.integers: dict[str, str] = {}
        """Names of the int8 forms of the source's values."""
        self.reals: dict[str, str] = {}
        """Names of the float32 forms of the source's values."""
        self.arguments: dict[ElementFunction, str] = {}
        """Names of the float32 forms of the arguments of functions."""
        self.converted: dict[tuple[str, Quantization], str] = {}
        self.constants: dict[tuple[str, Quantization], str] = {}
        self.taken = {*source.values, *(node.name for node in source.nodes())}

    def graph(self) -> Graph:
        for name in self.source.inputs:
            self.add_input(name)
        for node in self.source.nodes():
            if node.name in self.scheme.floats or not touches_reals(self.source, node):
                self.copy(node)
            elif self.scheme.sums.isdisjoint(node.outputs):
                self.add(node)
            else:
                self.add_sums(node)
        for name in self.source.outputs:
            self.result.outputs.append(self.output(name))
        return self.result

    # --- borders ---

    def add_input(self, name: str) -> None:
        type = self.source.type(name)
        if not is_real(self.source, name):
            self.result.add_input(name, type)
        elif self.borders.inputs is Border.FLOAT or not self.is_read_as_integer(name):
            self.reals[name] = self.result.add_input(name, type)
        elif self.borders.inputs is Border.INT8:
            self.integers[name] = self.result.add_input(name, self.stored(name))
        else:
            self.result.add_input(name, self.stored(name).relabelled(DType.UINT8))
            form = self.unused(f"{name}.quantized")
            self.integers[name] = self.convert(name, form, self.stored(name))

    def is_read_as_integer(self, name: str) -> bool:
        """Whether a quantized node reads an input, or it is an output as well."""
        readers = [node.name for node in self.source.consumers(name)]
        kept = bool(readers) and all(reader in self.scheme.floats for reader in readers)
        return not kept

    def output(self, name: str) -> str:
        """The value of the result that stands for an output."""
        if self.source.value(name).is_constant:
            return self.unchanged(self.source.value(name))
        if name in self.result.values or name not in self.integers:
            return name
        border = self.borders.outputs
        if border is Border.FLOAT:
            return self.convert(self.integers[name], name, self.source.type(name), "dequantize")
        return self.convert(self.integers[name], name, self.stored(name).relabelled(DType.UINT8))

    def stored(self, name: str) -> TensorType:
        """The type of the int8 form of a value."""
        quantization = self.scheme.quantizations[name]
        return TensorType(self.source.type(name).shape, DType.INT8, quantization)

    def home(self, name: str) -> str:
        """A name for the int8 form of a result: the value's own, unless an output needs that."""
        given = self.borders.outputs is not Border.INT8 and name in self.source.outputs
        return self.unused(f"{name}.quantized") if given else name

    # --- both forms of a value ---

    def convert(self, name: str, to: str, type: TensorType, op: str = "quantize") -> str:
        node = self.unused(f"{to}.{op}") if to in self.taken else to
        self.result.add_value(Value(to, type))
        self.result.add_node(Node(node, op, (name,), (to,)))
        return to

    def integer(self, name: str, quantization: Quantization) -> str:
        """The int8 form of a value, in a quantization."""
        own = self.scheme.quantizations[name]
        if name not in self.integers:
            form = self.unused(f"{name}.quantized")
            self.integers[name] = self.convert(self.reals[name], form, self.stored(name))
        if quantization == own:
            return self.integers[name]
        if (name, quantization) not in self.converted:
            type = replace(self.stored(name), quantization=quantization)
            form = self.unused(f"{name}.requantized")
            self.converted[name, quantization] = self.convert(self.integers[name], form, type)
        return self.converted[name, quantization]

    def real(self, name: str) -> str:
        """The float32 form of a value."""
        if name not in self.reals:
            form = self.unused(f"{name}.dequantized")
            type = self.source.type(name)
            self.reals[name] = self.convert(self.integers[name], form, type, "dequantize")
        return self.reals[name]

    # --- nodes ---

    def copy(self, node: Node) -> None:
        """A node that stays as it is."""
        stored = self.integers if OPS[node.op].reads_stored else {}
        source = self.scheme.argument(node)
        inputs = [
            self.argument(node, name)
            if name is not None and name == source
            else stored.get(name or "") or self.plain(name)
            for name in node.inputs
        ]
        for name in node.outputs:
            self.result.add_value(Value(name, self.source.type(name)))
            if is_real(self.source, name):
                self.reals[name] = name
        self.result.add_node(self.spelled(replace(node, inputs=tuple(inputs))))

    def spelled(self, node: Node) -> Node:
        """A node as files have it: clamps of functions are minima, which TFLite has for any number.

        Where integers are clamped, their range is.
        """
        a = node.attributes
        if node.name not in self.scheme.looked_up or not isinstance(a, ClampAttributes):
            return node
        bound = np.array([a.max], np.float32)
        type = TensorType(bound.shape, DType.FLOAT32)
        name = self.result.add_value(Value(self.unused(f"{node.name}.bound"), type, bound))
        return replace(
            node, op="minimum", inputs=(*node.inputs, name), attributes=OPS["minimum"].attributes()
        )

    def argument(self, node: Node, name: str) -> str:
        """The float32 form of a function's argument, which is converted for this function alone."""
        function = self.scheme.looked_up[node.name]
        if function not in self.arguments:
            integer = self.integer(name, self.scheme.quantizations[name])
            form = self.unused(f"{name}.dequantized")
            type = self.source.type(name)
            self.arguments[function] = self.convert(integer, form, type, "dequantize")
        return self.arguments[function]

    def plain(self, name: str | None) -> str | None:
        """An operand as the source has it."""
        if name is None:
            return None
        value = self.source.value(name)
        if value.is_constant:
            return self.unchanged(value)
        return self.real(name) if is_real(self.source, name) else name

    def unchanged(self, value: Value) -> str:
        """A constant as the source has it."""
        held = self.result.values.get(value.name)
        if held is None:
            return self.result.add_value(value)
        if held is value:
            return value.name
        # Its name stands for the integers already.
        if value.name not in self.reals:
            copy = replace(value, name=self.unused(f"{value.name}.real"))
            self.reals[value.name] = self.result.add_value(copy)
        return self.reals[value.name]

    def add_sums(self, node: Node) -> None:
        """A node with a filter that computes real numbers from integers."""
        (name,), given = node.outputs, self.parameters[node.name]
        source, kernel = str(node.inputs[0]), self.source.value(str(node.inputs[1]))
        integers = [
            self.integer(source, self.scheme.input(node)),
            self.constant(kernel, given.quantization, given.filter),
        ]
        inputs = [self.of_integers(one) for one in integers]
        bias = given.real_bias()
        if bias is not None:
            type = TensorType(bias.shape, DType.FLOAT32)
            inputs.append(self.result.add_value(Value(self.unused(f"{name}.bias"), type, bias)))
        self.result.add_value(Value(name, self.source.type(name)))
        self.result.add_node(replace(node, inputs=tuple(inputs)))
        self.reals[name] = name

    def of_integers(self, name: str) -> str:
        """The float32 form of integers, for one reader."""
        type = TensorType(self.result.type(name).shape, DType.FLOAT32)
        return self.convert(name, self.unused(f"{name}.dequantized"), type, "dequantize")

    def add(self, node: Node) -> None:
        """A node on integers."""
        operands = self.scheme.operands[node.name]
        inputs = list(node.inputs)
        for index, name in enumerate(node.inputs):
            value = None if name is None else self.source.value(name)
            if name is None or value is None:
                continue
            if index in operands:
                quantization = self.scheme.quantizations[operands[index]]
                inputs[index] = (
                    self.integer(name, quantization)
                    if value.data is None
                    else self.quantized(value, quantization)
                )
            elif value.is_constant and node.name not in self.parameters:
                inputs[index] = self.unchanged(value)
        if node.name in self.parameters:
            inputs = self.with_parameters(node, inputs)
        outputs, conversions = list(node.outputs), []
        for index, name in enumerate(node.outputs):
            if not is_real(self.source, name):
                self.result.add_value(self.source.value(name))
                continue
            form, raw = self.home(name), self.scheme.raw(name)
            self.integers[name] = outputs[index] = form
            if raw != self.scheme.quantizations[name]:
                outputs[index] = self.unused(f"{name}.raw")
                conversions.append((outputs[index], form, name))
            type = replace(self.stored(name), quantization=raw)
            self.result.add_value(Value(outputs[index], type))
        self.result.add_node(replace(node, inputs=tuple(inputs), outputs=tuple(outputs)))
        for raw_name, form, name in conversions:
            self.convert(raw_name, form, self.stored(name))

    def quantized(self, value: Value, quantization: Quantization) -> str:
        """A constant operand as int8."""
        assert value.data is not None
        data = numerics.quantize(value.data, quantization, DType.INT8)
        return self.constant(value, quantization, data)

    def constant(self, value: Value, quantization: Quantization, data: Array) -> str:
        """A quantized constant; uses with equal parameters share it."""
        key = (value.name, quantization)
        if key in self.constants:
            held = self.result.value(self.constants[key]).data
            assert held is not None
            if held.dtype == data.dtype and (held == data).all():
                return self.constants[key]
        name = value.name
        if name in self.result.values:
            name = self.unused(f"{name}.quantized")
        type = TensorType(data.shape, DType.of(data), quantization)
        self.constants[key] = self.result.add_value(Value(name, type, data))
        return self.constants[key]

    def with_parameters(self, node: Node, inputs: list[str | None]) -> list[str | None]:
        """Operands with the integers of filter and bias."""
        given = self.parameters[node.name]
        kernel = self.source.value(str(node.inputs[1]))
        inputs[1] = self.constant(kernel, given.quantization, given.filter)
        if given.bias is not None:
            name = node.inputs[2] if len(node.inputs) > 2 else None
            value = Value(f"{node.name}.bias", self.source.type(node.outputs[0]))
            bias = value if name is None else self.source.value(name)
            inputs[2:] = [self.constant(bias, given.bias_quantization, given.bias)]
        return inputs

    def unused(self, stem: str) -> str:
        """A name that neither the source nor the result has."""
        name = unused_name(stem, self.taken)
        self.taken.add(name)
        return name


def with_filters(graph: Graph, floats: frozenset[str]) -> list[Node]:
    """Nodes that have filters and are quantized."""
    return [
        node
        for node in graph.nodes()
        if node.name not in floats
        and node.op in OPS
        and OPS[node.op].channel_axis is not None
        and touches_reals(graph, node)
    ]
