"""Methods to ExecuTorch programs.

The linker plans memory, gathers constants and delegate data in segments, and writes the tables.
The layout follows what released runtimes were found to need: the table of constants is always
present, inputs and outputs are always planned, and every buffer ends with slack, because XNNPACK
may read up to 16 bytes after a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import LinkError
from fitzroy.base.types import Array
from fitzroy.formats import executorch as et
from fitzroy.formats.flat import Table
from fitzroy.formats.method import (
    Call,
    DelegateCall,
    KernelCall,
    Method,
    TensorList,
    TensorValue,
    Value,
)
from fitzroy.linker.packages.memory import Lifetime, lay_out_buffer

SLACK = 64
"""Bytes after the last tensor of a buffer or of the segment of constants."""

_ARENA = 1  # buffer 0 of a method is reserved
_INT64 = range(-(1 << 63), 1 << 63)


def link_program(methods: Sequence[Method]) -> bytes:
    """Link methods into a program; equal methods give equal bytes.

    Args:
        methods: methods with different names; constants and delegate data that are equal are
            stored once for all of them.

    Raises:
        LinkError: a method refers to what it does not have, or contradicts itself.
    """
    if not methods:
        raise LinkError("a program needs at least one method")
    names = [method.name for method in methods]
    for name in names:
        if not name:
            raise LinkError("a method needs a name")
        if names.count(name) > 1:
            raise LinkError(f"{names.count(name)} methods are called {name!r}")
    constants, blobs = _Constants(), _Blobs()
    plans = [_MethodLinker(method, constants, blobs).link() for method in methods]
    first = 1 if constants.segment else 0
    for plan in plans:
        for delegate in plan.delegates or ():
            assert delegate.processed is not None
            delegate.processed.index += first
    segments = [bytes(constants.segment)] * first + blobs.segments
    return et.write_program(
        et.Program(
            execution_plan=plans,
            constant_segment=et.SubsegmentOffsets(
                segment_index=0, offsets=np.asarray(constants.offsets, np.uint64)
            ),
        ),
        segments,
    )


class _Constants:
    """The segment of constants; index 0 of its table is reserved."""

    def __init__(self) -> None:
        self.segment = bytearray()
        self.offsets = [0]
        self._known: dict[bytes, int] = {}

    def add(self, data: Array) -> int:
        contents = np.ascontiguousarray(data).tobytes()
        if contents not in self._known:
            del self.segment[len(self.segment) - (SLACK if self.segment else 0) :]
            self.segment += bytes(-len(self.segment) % et.TENSOR_ALIGNMENT)
            self._known[contents] = len(self.offsets)
            self.offsets.append(len(self.segment))
            self.segment += contents + bytes(SLACK)
        return self._known[contents]


class _Blobs:
    """Segments of delegate data."""

    def __init__(self) -> None:
        self.segments: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def add(self, blob: bytes) -> int:
        if blob not in self._known:
            self._known[blob] = len(self.segments)
            self.segments.append(blob)
        return self._known[blob]


@dataclass
class _MethodLinker:
    method: Method
    constants: _Constants
    blobs: _Blobs

    def fault(self, what: str, *, reason: str = "", hint: str = "") -> LinkError:
        return LinkError(what, reason=reason, where=f"method {self.method.name!r}", hint=hint)

    def link(self) -> et.ExecutionPlan:
        self.check()
        method = self.method
        if not method.calls:
            raise self.fault("nothing to run", hint="a method needs at least one call")
        allocations, arena = self.allocate()
        if arena not in _INT64:
            raise LinkError(f"method {self.method.name!r} needs {arena} bytes of memory")
        values = self.values(allocations)
        operators: dict[tuple[str, str], int] = {}
        delegates: list[et.BackendDelegate] = []
        instructions = [
            et.Instruction(instr_args=self.call(call, operators, delegates))
            for call in method.calls
        ]
        return et.ExecutionPlan(
            name=method.name,
            container_meta_type=et.ContainerMetadata(encoded_inp_str="", encoded_out_str=""),
            values=values,
            inputs=_indices(method.inputs),
            outputs=_indices(method.outputs),
            chains=[
                et.Chain(
                    inputs=_indices(()),
                    outputs=_indices(()),
                    instructions=instructions,
                )
            ],
            operators=[et.Operator(name=name, overload=overload) for name, overload in operators],
            delegates=delegates,
            non_const_buffer_sizes=np.array([0, arena], np.int64),
        )

    def check(self) -> None:
        method = self.method
        for what, indices in (("input", method.inputs), ("output", method.outputs)):
            for index in indices:
                value = self.value(index, what)
                if not isinstance(value, TensorValue):
                    raise self.fault(f"{what} {index} is no tensor", reason=f"it is {value!r}")
                if value.data is not None:
                    raise self.fault(
                        f"{what} {value.name or index} is a constant",
                        hint="copy it with a kernel" if what == "output" else "",
                    )
            if len(set(indices)) != len(indices):
                raise self.fault(f"an {what} is listed twice", reason=f"{list(indices)}")
        for number, call in enumerate(method.calls):
            for index in call.args:
                self.value(index, f"an argument of call {number}")
        for index, value in enumerate(method.values):
            if isinstance(value, TensorList):
                for item in value.items:
                    if not isinstance(self.value(item, f"an item of list {index}"), TensorValue):
                        raise self.fault(f"item {item} of list {index} is no tensor")
                    if item >= index:
                        raise self.fault(
                            f"list {index} comes before its item {item}",
                            reason="the runtime builds values in order",
                        )
            elif isinstance(value, TensorValue):
                self.check_tensor(value, index)

    def check_tensor(self, value: TensorValue, index: int) -> None:
        label, kind = value.name or str(index), value.type
        if kind.rank > et.MAX_RANK:
            raise self.fault(
                f"tensor {label} has too many dimensions",
                reason=f"{kind.rank} where {et.MAX_RANK} are the most",
            )
        if any(not 0 <= extent < 1 << 31 for extent in kind.shape):
            raise self.fault(f"tensor {label} has an impossible shape", reason=f"{kind.shape}")
        data = value.data
        if data is None:
            return
        if data.shape != kind.shape or data.dtype != kind.dtype.numpy:
            raise self.fault(
                f"the contents of constant {label} do not have its type",
                reason=f"{data.dtype}{list(data.shape)} where {kind} is declared",
            )

    def value(self, index: int, what: str) -> Value:
        if not 0 <= index < len(self.method.values):
            raise self.fault(
                f"{what} is value {index}", reason=f"there are {len(self.method.values)}"
            )
        return self.method.values[index]

    def tensors(self, index: int) -> list[int]:
        """Indices of the tensors that a value needs memory for."""
        value = self.method.values[index]
        if isinstance(value, TensorList):
            return [item for part in value.items for item in self.tensors(part)]
        if isinstance(value, TensorValue) and value.data is None:
            return [index]
        return []

    def allocate(self) -> tuple[dict[int, int], int]:
        """Offsets of all tensors that are no constants, and the size of the buffer."""
        method = self.method
        # A caller writes inputs before the first call and reads outputs after the last one.
        spans = dict.fromkeys(method.inputs, (-1, -1))

        def touch(index: int, step: int) -> None:
            begin, end = spans.get(index, (step, step))
            spans[index] = (min(begin, step), max(end, step))

        for step, call in enumerate(method.calls):
            for argument in call.args:
                for index in self.tensors(argument):
                    touch(index, step)
        for index in method.outputs:
            if index not in spans:
                name = _label(method.values[index], index)
                raise self.fault(f"nothing writes output {name}")
            touch(index, len(method.calls))
        for index, value in enumerate(method.values):
            if isinstance(value, TensorValue) and value.data is None and index not in spans:
                raise self.fault(f"no call uses tensor {_label(value, index)}", hint="leave it out")
        order = sorted(spans)
        requests = []
        for index in order:
            value = method.values[index]
            assert isinstance(value, TensorValue)
            requests.append(Lifetime(value.type.nbytes, *spans[index]))
        layout = lay_out_buffer(requests, alignment=et.TENSOR_ALIGNMENT)
        return dict(zip(order, layout.offsets, strict=True)), layout.size + SLACK

    def values(self, allocations: dict[int, int]) -> list[et.EValue]:
        """The table of values: the method's own, then the items of its integer lists."""
        converted = []
        extra: list[et.EValue] = []
        known: dict[int, int] = {}

        def integer(item: int) -> int:
            if item not in known:
                known[item] = len(self.method.values) + len(extra)
                extra.append(et.EValue(val=et.Int(int_val=item)))
            return known[item]

        for index, value in enumerate(self.method.values):
            if isinstance(value, TensorValue):
                item: Table = self.tensor(value, allocations.get(index))
            else:
                item = self.scalar(value, integer)
            converted.append(et.EValue(val=item))
        return converted + extra

    def scalar(self, value: Value, integer: Callable[[int], int]) -> Table:
        kinds = {type(item) for item in value} if isinstance(value, tuple) else {type(value)}
        items = value if isinstance(value, tuple) else (value,)
        if any(isinstance(item, int) and item not in _INT64 for item in items):
            raise self.fault("an integer does not fit 64 bits", reason=f"{value!r}")
        if isinstance(value, TensorList):
            return et.TensorList(items=_indices(value.items))
        if value is None:
            return et.Null()
        if isinstance(value, bool):
            return et.Bool(bool_val=value)
        if isinstance(value, int):
            return et.Int(int_val=value)
        if isinstance(value, float):
            return et.Double(double_val=value)
        if isinstance(value, str):
            return et.String(string_val=value)
        if isinstance(value, tuple):
            if kinds <= {int}:
                return et.IntList(items=np.asarray([integer(int(i)) for i in value], np.int64))
            if kinds == {float}:
                return et.DoubleList(items=np.asarray(value, np.float64))
            if kinds == {bool}:
                return et.BoolList(items=np.asarray(value, np.uint8))
        raise self.fault(f"a value of kind {type(value).__name__}", reason=f"{value!r}")

    def tensor(self, value: TensorValue, offset: int | None) -> et.Tensor:
        rank = value.type.rank
        scalar = et.SCALAR_TYPES.get(value.type.dtype)
        if scalar is None:
            raise self.fault(f"a tensor of type {value.type.dtype.value}", reason=repr(value.name))
        tensor = et.Tensor(
            scalar_type=scalar,
            sizes=np.asarray(value.type.shape, np.int32),
            dim_order=np.arange(rank, dtype=np.uint8),
            shape_dynamism=et.ShapeDynamism.STATIC,
        )
        if value.name:
            tensor.extra_tensor_info = et.ExtraTensorInfo(fully_qualified_name=value.name)
        if value.data is not None:
            tensor.data_buffer_idx = self.constants.add(value.data)
        else:
            assert offset is not None
            tensor.allocation_info = et.AllocationDetails(
                memory_id=_ARENA,
                memory_offset_low=offset & 0xFFFFFFFF,
                memory_offset_high=offset >> 32,
            )
        return tensor

    def call(
        self,
        call: Call,
        operators: dict[tuple[str, str], int],
        delegates: list[et.BackendDelegate],
    ) -> Table:
        if isinstance(call, KernelCall):
            if not call.name:
                raise self.fault("a kernel call without a name")
            index = operators.setdefault((call.name, call.overload), len(operators))
            return et.KernelCall(op_index=index, args=_indices(call.args))
        assert isinstance(call, DelegateCall)
        if not call.backend or not call.blob:
            raise self.fault("a delegate call needs a backend and a blob")
        delegates.append(
            et.BackendDelegate(
                id=call.backend,
                # Counts from the first blob; moved once the number of other segments is known.
                processed=et.BackendDelegateDataReference(
                    location=et.DataLocation.SEGMENT, index=self.blobs.add(call.blob)
                ),
                compile_specs=[],
            )
        )
        return et.DelegateCall(delegate_index=len(delegates) - 1, args=_indices(call.args))


def _indices(values: Sequence[int]) -> Array:
    return np.asarray(values, np.int32)


def _label(value: Value, index: int) -> str:
    return (value.name if isinstance(value, TensorValue) else "") or str(index)
