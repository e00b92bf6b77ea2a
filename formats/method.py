"""A method before linking: where compilers and linkers of ExecuTorch programs meet.

Values, calls and their order are fixed; addresses, constants' places, segments and the tables of
the file are the linker's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.types import Array, TensorType


@dataclass(frozen=True, eq=False, slots=True)
class TensorValue:
    """A tensor of a method; compared by identity.

    Attributes:
        name: name that survives in the file; may be empty.
        type: shape and element type; the quantization is not stored in the file.
        data: contents of a constant, of the shape and element type of `type`, or None.
    """

    name: str
    type: TensorType
    data: Array | None = None


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors, such as the first argument of ``aten::cat``.

    Attributes:
        items: indices into the method's values, all smaller than the list's own index,
            because the runtime builds values in order.
    """

    items: tuple[int, ...]


Value = (
    TensorValue
    | TensorList
    | None
    | bool
    | int
    | float
    | str
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[bool, ...]
)
"""A value of a method; tuples are lists whose kind is that of the first element (empty: int)."""


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Run a subgraph on a backend.

    Attributes:
        backend: name that the backend is registered under, such as ``XnnpackBackend``.
        blob: the compiled subgraph.
        args: value indices; the position of an argument is its external id in the blob.
    """

    backend: str
    blob: bytes
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Run one kernel of the runtime's library.

    Attributes:
        name: operator, such as ``aten::argmax``.
        overload: overload, such as ``out``.
        args: value indices; the out tensor stands twice at the end, because a kernel also
            returns it. Several out tensors come one after another, then a list of them; a kernel
            whose out is a list gets that list twice.
    """

    name: str
    overload: str
    args: tuple[int, ...]


Call = DelegateCall | KernelCall


@dataclass(frozen=True, slots=True)
class Method:
    """A method before linking.

    Attributes:
        name: name of the method, such as ``forward``.
        values: everything that calls refer to.
        inputs: indices of the values that a caller provides.
        outputs: indices of the values that a caller gets.
        calls: what to run, in order.
    """

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    calls: tuple[Call, ...]
