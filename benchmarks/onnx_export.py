"""Small float32 graphs as ONNX models, for quantizers that take nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.windows import Activation, PaddingScheme

_OPSET, _IR = 17, 9


def onnx_model(graph: Graph) -> Any:
    """The ONNX model of a graph: images [N,C,H,W] inside, outputs in the graph's order.

    Raises:
        UnsupportedError: an operator that the models of the examples do not have.
    """
    from onnx import TensorProto, checker, helper

    writer = _Writer(graph)
    for node in graph.nodes():
        if node.op not in _RULES:
            raise UnsupportedError(f"{node.op} is not written as ONNX", where=graph.name)
        _RULES[node.op](writer, node)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, _planar(graph.type(name).shape))
        for name in graph.inputs
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, graph.type(name).shape)
        for name in graph.outputs
    ]
    built = helper.make_graph(writer.nodes, graph.name, inputs, outputs, writer.constants)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR
    checker.check_model(model)
    return model


def _planar(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, name: str, data: Array) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def data(self, name: str | None) -> Array:
        found = self.graph.value(str(name)).data
        if found is None:
            raise UnsupportedError(f"{name!r} is no constant", where=self.graph.name)
        return found

    def convolution(self, node: Node) -> None:
        kernel, a = self.data(node.inputs[1]), node.attributes
        depthwise = node.op == "depthwise_conv_2d"
        weights = kernel.transpose((3, 0, 1, 2) if depthwise else (0, 3, 1, 2))
        (output,) = node.outputs
        activation = getattr(a, "activation", Activation.NONE)
        if activation not in (Activation.NONE, Activation.RELU) or len(node.inputs) < 3:
            raise UnsupportedError(f"{node.name!r} is not written as ONNX", where=self.graph.name)
        rectified = activation is Activation.RELU
        bias = self.data(node.inputs[2])
        self.node(
            "Conv",
            [
                str(node.inputs[0]),
                self.constant(f"{output}/w", weights),
                self.constant(f"{output}/b", bias),
            ],
            f"{output}/sum" if rectified else output,
            strides=list(getattr(a, "stride", (1, 1))),
            group=kernel.shape[3] if depthwise else 1,
            auto_pad="SAME_UPPER" if getattr(a, "padding", None) is PaddingScheme.SAME else "VALID",
        )
        if rectified:
            self.node("Relu", [f"{output}/sum"], output)

    def pool(self, node: Node) -> None:
        a: Any = node.attributes
        shape = {"kernel_shape": list(a.kernel), "strides": list(a.stride)}
        self.node("MaxPool", [str(node.inputs[0])], node.outputs[0], **shape)

    def mean(self, node: Node) -> None:
        self.node("ReduceMean", [str(node.inputs[0])], node.outputs[0], axes=[2, 3], keepdims=0)

    def product(self, node: Node) -> None:
        (output,) = node.outputs
        weights = self.constant(f"{output}/w", self.data(node.inputs[1]))
        bias = self.constant(f"{output}/b", self.data(node.inputs[2]))
        self.node("Gemm", [str(node.inputs[0]), weights, bias], output, transB=1)

    def softmax(self, node: Node) -> None:
        self.node("Softmax", [str(node.inputs[0])], node.outputs[0], axis=-1)

    def sigmoid(self, node: Node) -> None:
        self.node("Sigmoid", [str(node.inputs[0])], node.outputs[0])

    def sum(self, node: Node) -> None:
        (output,) = node.outputs
        grid = self.constant(f"{output}/c", self.data(node.inputs[1]).transpose(0, 3, 1, 2))
        self.node("Add", [str(node.inputs[0]), grid], output)

    def join(self, node: Node) -> None:
        self.node("Concat", [str(name) for name in node.inputs], node.outputs[0], axis=1)

    def flatten(self, node: Node) -> None:
        """A reshape of an image, whose channels come last first."""
        (output,) = node.outputs
        last = f"{output}/last"
        self.node("Transpose", [str(node.inputs[0])], last, perm=[0, 2, 3, 1])
        shape = np.array(self.graph.type(output).shape, np.int64)
        self.node("Reshape", [last, self.constant(f"{output}/shape", shape)], output)


_RULES: dict[str, Callable[[_Writer, Node], None]] = {
    "add": _Writer.sum,
    "concatenation": _Writer.join,
    "conv_2d": _Writer.convolution,
    "depthwise_conv_2d": _Writer.convolution,
    "fully_connected": _Writer.product,
    "max_pool_2d": _Writer.pool,
    "mean": _Writer.mean,
    "reshape": _Writer.flatten,
    "sigmoid": _Writer.sigmoid,
    "softmax": _Writer.softmax,
}
