"""Functions that exporters spell out: groups of ONNX nodes that are one operator of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.reader import library

if TYPE_CHECKING:
    from onnx import NodeProto

Pattern = Any
"""``"x"`` for the operand, a number for a constant, or an operator and patterns of its operands."""

_CLIPPED = ("Clip", ("Add", "x", 3.0), 0.0, 6.0)
_HALVES = (("Div", "x", math.sqrt(2)), ("Mul", "x", math.sqrt(0.5)))
_ERRORS = tuple(("Add", ("Erf", half), 1.0) for half in _HALVES)
_CUBES = (("Pow", "x", 3.0), ("Mul", "x", ("Mul", "x", "x")))
_TANHS = tuple(
    ("Add", ("Tanh", ("Mul", ("Add", "x", ("Mul", cube, 0.044715)), math.sqrt(2 / math.pi))), 1.0)
    for cube in _CUBES
)


def _halved(inner: Pattern) -> list[Pattern]:
    """Half of x times something, in every order of the factors."""
    return [
        ("Mul", ("Mul", "x", inner), 0.5),
        ("Mul", "x", ("Mul", inner, 0.5)),
        ("Mul", ("Mul", "x", 0.5), inner),
    ]


PATTERNS: list[tuple[str, dict[str, Any], Pattern]] = [
    *(("Gelu", {}, p) for error in _ERRORS for p in _halved(error)),
    *(("Gelu", {"approximate": "tanh"}, p) for tanh in _TANHS for p in _halved(tanh)),
    ("HardSwish", {}, ("Div", ("Mul", "x", _CLIPPED), 6.0)),
    ("HardSwish", {}, ("Mul", ("Mul", "x", _CLIPPED), 1 / 6)),
    ("HardSwish", {}, ("Mul", "x", ("Div", _CLIPPED, 6.0))),
    ("HardSwish", {}, ("Mul", "x", ("Mul", _CLIPPED, 1 / 6))),
    ("HardSwish", {}, ("Mul", "x", ("HardSigmoid", "x"))),
    # Beyond 20, softplus equals its operand in float32.
    ("Softplus", {}, ("Where", ("Greater", "x", 20.0), "x", ("Softplus", "x"))),
]
"""Operators, their attributes, and how they are spelled out."""

_LAST = frozenset(pattern[0] for _, _, pattern in PATTERNS)
"""Operators that such functions end with."""

_COMMUTATIVE = ("Add", "Mul")


def recognized(
    nodes: Sequence[NodeProto], constant: Callable[[str], Array | None]
) -> list[NodeProto]:
    """Nodes of which those that give a function that was spelled out become one operator.

    What only the others read is not needed any more.

    Args:
        nodes: nodes in order.
        constant: gives elements of a constant by name, None for others.
    """
    producers = {name: node for node in nodes for name in node.output if name}
    matcher = _Matcher(producers, constant)
    return [matcher.replaced(node) for node in nodes]


class _Matcher:
    def __init__(
        self, producers: dict[str, NodeProto], constant: Callable[[str], Array | None]
    ) -> None:
        self.producers, self.constant = producers, constant

    def replaced(self, node: NodeProto) -> NodeProto:
        """The node, or the operator that it and those before it spell out."""
        if node.op_type not in _LAST or node.domain or len(node.output) != 1:
            return node
        for name, attributes, pattern in PATTERNS:
            bound: dict[str, str] = {}
            if self.fits(node, pattern, bound):
                made: NodeProto = library().helper.make_node(
                    name, [bound["x"]], list(node.output), **attributes
                )
                return made
        return node

    def fits(self, node: NodeProto, pattern: Pattern, bound: dict[str, str]) -> bool:
        """Whether a node is as a pattern says; binds the name of x."""
        kind, *operands = pattern
        if node.op_type != kind or node.domain:
            return False
        if kind == "HardSigmoid":
            given = {a.name: a.f for a in node.attribute}
            sixth = abs(given.get("alpha", 0.2) - 1 / 6) < 1e-6
            return sixth and given.get("beta", 0.5) == 0.5 and self.is_x(node.input[0], bound)
        names = list(node.input)
        if kind == "Clip" and len(names) == 1:
            limits = {a.name: a.f for a in node.attribute}
            if (limits.get("min"), limits.get("max")) != (operands[1], operands[2]):
                return False
            operands = operands[:1]
        if len(names) != len(operands):
            return False
        for order in (names, names[::-1]) if kind in _COMMUTATIVE else (names,):
            tried = dict(bound)
            if all(self.operand(n, p, tried) for n, p in zip(order, operands, strict=True)):
                bound.update(tried)
                return True
        return False

    def operand(self, name: str, pattern: Pattern, bound: dict[str, str]) -> bool:
        """Whether an operand is as a pattern says."""
        if pattern == "x":
            return self.is_x(name, bound)
        if isinstance(pattern, float):
            data = self.value(name)
            return (
                data is not None
                and data.size == 1
                and data.dtype.kind == "f"
                and bool(np.isclose(data.reshape(-1)[0], pattern, rtol=1e-4, atol=0))
            )
        node = self.producers.get(name)
        return node is not None and self.fits(node, pattern, bound)

    def is_x(self, name: str, bound: dict[str, str]) -> bool:
        """Whether a name is that of the function's operand."""
        return self.value(name) is None and bound.setdefault("x", name) == name

    def value(self, name: str) -> Array | None:
        """Elements of a constant of few elements, also one that an operator gives."""
        node = self.producers.get(name)
        if node is None:
            return self.constant(name)
        if node.op_type != "Constant" or len(node.attribute) != 1:
            return None
        attribute = node.attribute[0]
        if attribute.name == "value_float":
            return np.array(attribute.f, np.float32)
        if attribute.name != "value" or len(attribute.t.raw_data) > 8 or len(attribute.t.dims) > 4:
            return None
        try:
            return np.asarray(library().numpy_helper.to_array(attribute.t))
        except (ValueError, TypeError):
            # It is refused where it is imported.
            return None
