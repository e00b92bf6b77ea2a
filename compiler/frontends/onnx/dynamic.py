"""Models whose activations are rounded as they run, as ONNX Runtime's ``quantize_dynamic`` writes.

Scales of activations are computed in every inference: no chip has scales that change. What is
rounded stays real numbers here, integer weights become the real numbers that they stand for, and
the model can be quantized with scales from samples, as any float32 model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.compiler.frontends.onnx.order import nodes_of
from fitzroy.compiler.frontends.onnx.reader import library

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

DOMAIN = "fitzroy.dynamic"
"""Operators that stand for several: ``MatMul`` and ``Conv`` of a real operand, or of integers with
a scale and a zero point, and of integer weights with theirs."""

_CONTRIBUTED = "com.microsoft"
_ROUNDING = "DynamicQuantizeLinear"
_WHOLE = ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul")
"""Operators that round their operands themselves."""

_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
_FLOAT = 1
"""ONNX's number of float32."""


def is_dynamic(proto: GraphProto) -> bool:
    """Whether a model rounds activations as it runs."""
    return any(node.op_type in (_ROUNDING, *_WHOLE) for node in nodes_of(proto))


def left_real(count: int, where: str) -> Diagnostic:
    """What to say of a model some of whose operators round their operands.

    Args:
        count: how many.
        where: the model.
    """
    several = "operators round their operands" if count > 1 else "operator rounds its operand"
    return Diagnostic(
        Severity.WARNING,
        "onnx-dynamic",
        where,
        f"{count} {several} in each inference anew; here these stay real numbers",
        hint="quantize the model with samples: --calibrate; weights are those of 8 bits",
    )


def real_products(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Nodes, of which products of rounded activations that are scaled become products of `DOMAIN`.

    What only the others read is not needed any more.
    """
    producers = {name: node for node in nodes for name in node.output if name}
    return [_scaled(node, producers) or node for node in nodes]


def _scaled(node: NodeProto, producers: Mapping[str, NodeProto]) -> NodeProto | None:
    """The product of real numbers that a node makes of one of integers; None for other nodes."""
    if (node.domain, node.op_type) == (_CONTRIBUTED, "MatMulIntegerToFloat"):
        x, weights, scale, step, zero, *rest = [*node.input, "", "", ""][:7]
        source = _rounded(x, zero, [scale], producers)
        names = [source, weights, step, *rest]
        return _made("DynamicQuantizeMatMul", _CONTRIBUTED, names, (), node) if source else None
    if (node.domain, node.op_type, len(node.input)) != ("", "Mul", 2):
        return None
    for name, other in (node.input, node.input[::-1]):
        cast, scale = producers.get(name), producers.get(other)
        if cast is None or cast.op_type != "Cast" or scale is None or scale.op_type != "Mul":
            continue
        product = producers.get(cast.input[0])
        real = any(a.name == "to" and a.i == _FLOAT for a in cast.attribute)
        if product is None or product.op_type not in _PRODUCTS or not real:
            continue
        x, weights, zero, offset = [*product.input, "", ""][:4]
        source = _rounded(x, zero, scale.input, producers)
        if source:
            (step,) = {*scale.input} - {producers[x].output[1]}
            names = [source, weights, "", "", step, offset]
        else:
            # Integers that the model has, such as rows of an embedding.
            names = [x, weights, scale.input[0], zero, scale.input[1], offset]
        return _made(_PRODUCTS[product.op_type], DOMAIN, names, product.attribute, node)
    return None


def _rounded(
    name: str, zero: str, scales: Sequence[str], producers: Mapping[str, NodeProto]
) -> str:
    """What integers with a zero point and one of some scales are rounded from; empty if nothing."""
    node = producers.get(name)
    if node is None or node.op_type != _ROUNDING or len(node.output) != 3:
        return ""
    stored, scale, offset = node.output
    return node.input[0] if (stored, offset) == (name, zero) and scale in scales else ""


def _made(
    op: str, domain: str, names: Sequence[str], attributes: Any, node: NodeProto
) -> NodeProto:
    """An operator with the results of a node."""
    made: NodeProto = library().helper.make_node(op, names, list(node.output), domain=domain)
    made.attribute.extend(attributes)
    return made
