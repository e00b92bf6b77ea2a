"""Variables of TFLite models: what they hold while operators run one after another.

A variable is a name. Operators get handles of it, read it and assign to it; a subgraph that runs
once, before everything else, gives it its first value. In a graph values never change, so a read
gives the value that was assigned last, and the operators themselves disappear.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fitzroy.base.types import TensorType
from fitzroy.compiler.ops.definition import TypeRuleError

Key = tuple[str, str]
"""Container and name of a variable."""


@dataclass(slots=True)
class Variables:
    """The variables of a graph in the making.

    Attributes:
        handles: variables by the tensors that stand for them.
        held: names of the values that they hold.
        changed: variables that were assigned after the subgraph that runs once.
    """

    handles: dict[int, Key] = field(default_factory=dict)
    held: dict[Key, str] = field(default_factory=dict)
    changed: set[Key] = field(default_factory=set)

    def of(self, tensor: int) -> Key:
        """The variable that a tensor stands for.

        Raises:
            TypeRuleError: it stands for none.
        """
        try:
            return self.handles[tensor]
        except KeyError:
            raise TypeRuleError(f"tensor {tensor} is the handle of no variable") from None

    def value(self, key: Key) -> str:
        """The name of the value that a variable holds.

        Raises:
            TypeRuleError: nothing has been assigned to it.
        """
        try:
            return self.held[key]
        except KeyError:
            raise TypeRuleError(f"variable {key[1]!r} is read before it is assigned") from None


def same_type(name: str, held: TensorType, read: TensorType) -> None:
    """Demand that a variable is read as what was assigned to it.

    Raises:
        TypeRuleError: it is not.
    """
    if (held.shape, held.dtype) != (read.shape, read.dtype):
        raise TypeRuleError(f"variable {name!r} holds {held} and is read as {read}")
