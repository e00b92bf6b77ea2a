"""Which function imports which ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from fitzroy.base.errors import InternalError

if TYPE_CHECKING:
    from fitzroy.compiler.frontends.onnx.operation import Operation
    from fitzroy.compiler.frontends.onnx.values import Tensor

    Importer = Callable[[Operation], Tensor | Sequence[Tensor]]

IMPORTERS: dict[tuple[str, str], Importer] = {}
"""Functions by domain and name of the operator; the default domain is empty."""

F = TypeVar("F", bound="Importer")


def imports(*operators: str, domain: str = "") -> Callable[[F], F]:
    """Declare that a function imports some operators.

    Raises:
        InternalError: another one does.
    """

    def register(function: F) -> F:
        for name in operators:
            if (domain, name) in IMPORTERS:
                raise InternalError(f"ONNX's {name} is imported twice")
            IMPORTERS[domain, name] = function
        return function

    return register
