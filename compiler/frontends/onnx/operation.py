"""One ONNX node together with its operands: what importing functions are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape, Tensor

if TYPE_CHECKING:
    from onnx import GraphProto

    from fitzroy.compiler.frontends.onnx.builder import Builder


@dataclass(frozen=True, slots=True)
class Operation:
    """A node of an ONNX model.

    Attributes:
        name: name of its operator.
        opset: version of the operator set.
        inputs: operands; None where an optional one is absent.
        outputs: names of the results; empty for those that are left out.
        build: makes nodes of the graph.
        fields: attributes as Python values: numbers, bytes, lists, arrays.
        body: makes of a graph inside the operator what gives its results of its inputs.
    """

    name: str
    opset: int
    inputs: Sequence[Tensor | None]
    outputs: Sequence[str]
    build: Builder
    fields: Mapping[str, Any] = field(default_factory=dict)
    body: Callable[[GraphProto], Callable[[Sequence[Tensor]], list[Tensor]]] = field(
        default=lambda body: lambda inputs: []
    )

    # --- operands -------------------------------------------------------------------------------

    def input(self, index: int = 0) -> Tensor:
        """An operand that the operator requires.

        Raises:
            Refusal: it is absent.
        """
        value = self.optional(index)
        if value is None:
            raise Refusal("onnx-type-rule", f"operand {index} is absent")
        return value

    def optional(self, index: int) -> Tensor | None:
        """The operand at `index`, or None."""
        return self.inputs[index] if index < len(self.inputs) else None

    def present(self) -> list[Tensor]:
        """All operands of a variadic operator.

        Raises:
            Refusal: there is none, or one is left out.
        """
        if not self.inputs:
            raise Refusal("onnx-type-rule", "there are no operands")
        return [self.input(index) for index in range(len(self.inputs))]

    def constant(self, index: int, what: str) -> Array:
        """Elements of an operand that must be known.

        Args:
            index: which operand.
            what: what it is, for the refusal.

        Raises:
            Refusal: it is absent or computed at run time.
        """
        data = self.build.elements(self.input(index))
        if data is None:
            raise Refusal("onnx-run-time-parameter", f"operand {index}, the {what}, varies")
        return data

    def constants(self, index: int, what: str) -> Shape | None:
        """Integers of an operand that must be known, or None if it is absent."""
        if self.optional(index) is None:
            return None
        return tuple(int(x) for x in self.constant(index, what).reshape(-1))

    # --- attributes -----------------------------------------------------------------------------

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self._field(name, (int,), default))

    def number(self, name: str, default: float = 0.0) -> float:
        """A floating-point attribute."""
        return float(self._field(name, (int, float), default))

    def text(self, name: str, default: str = "") -> str:
        """A string attribute."""
        return str(bytes(self._field(name, (bytes,), default.encode())), "utf-8", "replace")

    def integers(self, name: str) -> Shape | None:
        """A list of integers, or None if there is none."""
        found = self._field(name, (list, tuple), None)
        if found is None:
            return None
        if not all(isinstance(item, int) for item in found):
            raise Refusal("onnx-attribute", f"attribute {name} holds other things than integers")
        return tuple(found)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of floating-point numbers, or None if there is none."""
        found = self._field(name, (list, tuple), None)
        if found is None:
            return None
        if not all(isinstance(item, (int, float)) for item in found):
            raise Refusal("onnx-attribute", f"attribute {name} holds other things than numbers")
        return tuple(found)

    def axes(self, rank: int, default: Sequence[int] = ()) -> Shape:
        """The attribute ``axes``, or from the opset that moved it on, operand 1, sorted.

        Raises:
            Refusal: an axis lies outside, or axes are computed at run time.
        """
        found = self.integers("axes")
        if found is None:
            found = self.constants(1, "axes")
        return tuple(
            sorted({self.axis(axis, rank) for axis in (default if found is None else found)})
        )

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis as a non-negative one.

        Raises:
            Refusal: it lies outside the rank.
        """
        if not -rank <= axis < rank:
            raise Refusal("onnx-type-rule", f"axis {axis} of {rank} dimensions")
        return axis % rank

    def _field(self, name: str, kinds: tuple[type, ...], default: Any) -> Any:
        found = self.fields.get(name, default)
        if found is not None and not isinstance(found, kinds):
            raise Refusal("onnx-attribute", f"attribute {name} is a {type(found).__name__}")
        return found

    # --- constants ------------------------------------------------------------------------------

    def wanted(self, index: int) -> bool:
        """Whether something may read the result at `index`."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def array(self, data: Array) -> Tensor:
        """A constant."""
        return self.build.constant(np.asarray(data))
