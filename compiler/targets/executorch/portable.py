"""Calls of ExecuTorch's portable kernels: what runs beside the XNNPACK delegate.

Kernel names and argument orders are those of ATen's ``out`` variants, which the runtime's
portable library registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.formats import method as m

KERNEL_TYPES = (
    DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32,
)  # fmt: skip
"""Element types that portable kernels are built for."""


def stored(values: Sequence[Value]) -> Iterator[Reject]:
    """Rules of kernels that only move or compare stored elements."""
    for value in values:
        if value.type.dtype not in KERNEL_TYPES:
            yield Reject(
                "portable-type",
                f"{value.name!r} is {value.type.dtype.value}, which no kernel takes",
            )
        if 0 in value.type.shape:
            yield Reject("portable-empty", f"{value.name!r} is empty: {list(value.type.shape)}")


def numbers(values: Sequence[Value]) -> Iterator[Reject]:
    """Rules of kernels that know no booleans."""
    for value in values:
        if value.type.dtype is DType.BOOL:
            yield Reject("portable-type", f"{value.name!r} is bool; the kernel takes numbers")


def unquantized(call: Call) -> Iterator[Reject]:
    """Rules of kernels that compute: elements must be the numbers themselves."""
    values = [value for value in (*call.inputs, *call.outputs) if value is not None]
    yield from stored(values)
    for value in values:
        if value.type.quantization is not None:
            yield Reject(
                "portable-quantized",
                f"{value.name!r} is quantized; portable kernels compute on plain numbers",
            )


class PortableEmitter:
    """Collects values and kernel calls of one method.

    Args:
        graph: the IR graph that holds the tensors.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.values: list[m.Value] = []
        self.calls: list[m.Call] = []
        self._tensors: dict[str, int] = {}
        self._scalars: dict[tuple[str, object], int] = {}

    def tensor(self, name: str) -> int:
        """Index of an IR value in the method."""
        if name not in self._tensors:
            value = self._graph.value(name)
            self.values.append(m.TensorValue(name, value.type, value.data))
            self._tensors[name] = len(self.values) - 1
        return self._tensors[name]

    def temporary(self, type: TensorType) -> int:
        """Index of a tensor that only kernel calls see."""
        self.values.append(m.TensorValue("", type))
        return len(self.values) - 1

    def argument(self, item: m.Value | Value) -> int:
        """Index of a kernel's argument: an IR value, a scalar, or a list."""
        if isinstance(item, Value):
            return self.tensor(item.name)
        key = (type(item).__name__, item)
        if key not in self._scalars:
            self.values.append(item)
            self._scalars[key] = len(self.values) - 1
        return self._scalars[key]

    def call(
        self,
        name: str,
        overload: str,
        arguments: Sequence[m.Value | Value],
        out: Value | int,
    ) -> None:
        """Append a kernel call with one out tensor."""
        args = tuple(map(self.argument, arguments))
        index = out if isinstance(out, int) else self.tensor(out.name)
        self.calls.append(m.KernelCall(name, overload, (*args, index, index)))

    def call_indexed(self, name: str, overload: str, args: Sequence[int], out: int) -> None:
        """Append a kernel call whose arguments are indices of values already."""
        self.calls.append(m.KernelCall(name, overload, (*args, out, out)))

    def call_several(
        self, name: str, overload: str, args: Sequence[int], outs: Sequence[int]
    ) -> None:
        """Append a kernel call with several out tensors, which come back as a list."""
        self.values.append(m.TensorList(tuple(outs)))
        self.calls.append(m.KernelCall(name, overload, (*args, *outs, len(self.values) - 1)))

    def constant(self, data: Array) -> int:
        """Index of a constant that only kernel calls see."""
        type = TensorType(data.shape, DType.of(data))
        self.values.append(m.TensorValue("", type, data))
        return len(self.values) - 1

    def cast(self, source: str | int, target: str | int) -> None:
        """Convert elements to the target's type."""
        x = source if isinstance(source, int) else self.tensor(source)
        out = target if isinstance(target, int) else self.tensor(target)
        none, false = self.argument(None), self.argument(False)
        self.call_indexed("dim_order_ops::_to_dim_order_copy", "out", (x, false, none), out)

    def transposed(self, source: int, order: Sequence[int]) -> int:
        """A temporary with the dimensions of `source` permuted."""
        tensor = self.values[source]
        assert isinstance(tensor, m.TensorValue)
        shape = tuple(tensor.type.shape[axis] for axis in order)
        out = self.temporary(tensor.type.with_shape(shape))
        self.call_indexed("aten::permute_copy", "out", (source, self.argument(tuple(order))), out)
        return out
