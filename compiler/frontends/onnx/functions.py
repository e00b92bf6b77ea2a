"""Operators that are made of others: functions of the model, and those of ONNX's definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fitzroy.compiler.frontends.onnx.reader import library
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto


def definition(
    node: NodeProto, domain: str, opset: int, operands: Sequence[Tensor | None]
) -> FunctionProto | None:
    """The function that ONNX's definitions give for an operator; None if there is none.

    Args:
        node: the node that is to be expanded.
        domain: its domain, empty for the default one.
        opset: version of the operator set.
        operands: its operands, whose types some functions depend on.

    Raises:
        Refusal: the operator exists, but not with these operands.
    """
    onnx = library()
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    try:
        if schema.has_function:
            body = schema.get_function_with_opset_version(
                _version(schema.function_opset_versions, opset)
            )
        else:
            version = _version(schema.context_dependent_function_opset_versions, opset)
            types = [_type(operand) for operand in operands]
            body = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
    except (RuntimeError, ValueError, TypeError) as error:
        raise Refusal("onnx-type-rule", f"{node.op_type} is not defined here: {error}") from None
    if not body:
        raise Refusal("onnx-type-rule", f"{node.op_type} is not defined for these operands")
    made: FunctionProto = onnx.FunctionProto.FromString(bytes(body))
    given = {attribute.name for attribute in node.attribute}
    defaults = [
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in given and attribute.default_value.type
    ]
    made.attribute_proto.extend(defaults)
    return made


def _version(versions: Sequence[int], opset: int) -> int:
    """The newest version of a function that an operator set knows."""
    return max((version for version in versions if version <= opset), default=min(versions))


def _type(operand: Tensor | None) -> bytes:
    """The type of an operand as ONNX writes it."""
    onnx = library()
    made = onnx.TypeProto()
    if operand is not None:
        code = onnx.TensorProto.DataType.Value(_NAMES.get(operand.dtype.name, operand.dtype.name))
        made = onnx.helper.make_tensor_type_proto(code, list(operand.shape))
    return bytes(made.SerializeToString())


_NAMES = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}


def bound(function: FunctionProto, node: NodeProto) -> list[NodeProto]:
    """Nodes of a function, with the attributes that a node gives in the places that name them."""
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    given.update({attribute.name: attribute for attribute in node.attribute})
    return [_with_attributes(inner, given) for inner in function.node]


def _with_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """A copy of a node whose attributes have values."""
    made: NodeProto = library().NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        value = attribute
        if attribute.ref_attr_name:
            found = given.get(attribute.ref_attr_name)
            if found is None:
                # Left out: the operator's own default holds.
                continue
            value = found
        kept = made.attribute.add()
        kept.CopyFrom(value)
        kept.name = attribute.name
        if kept.HasField("g"):
            _bind_graph(kept.g, given)
    return made


def _bind_graph(graph: GraphProto, given: Mapping[str, AttributeProto]) -> None:
    """Give attributes in a graph inside an operator their values."""
    nodes = [_with_attributes(node, given) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
