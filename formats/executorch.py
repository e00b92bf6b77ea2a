"""ExecuTorch programs (``ET12``, ``.pte``).

A program is a flatbuffer; big data lies after it in segments, which an extended header between
the identifier and the root table locates::

    0   u32  root offset                16  u64  size of the flatbuffer, this header included
    4   "ET12"                          24  u64  offset of the first segment
    8   "eh00"                          32  u64  size of all segments (absent if the header
    12  u32  header length, 24 or 32             length is 24; 0 means unknown)

Programs without a header keep the data of delegates and constants inside the flatbuffer.

Facts: the published schema ``program.fbs`` and the runtime's header parser.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array, DType
from fitzroy.formats import flat
from fitzroy.formats.flat import Table, ints, scalar, string, table, tables, union, vector

IDENTIFIER = b"ET12"
HEADER_MAGIC = b"eh00"
XNNPACK_BACKEND = "XnnpackBackend"
"""Name under which the runtime registers its XNNPACK backend."""

SEGMENT_ALIGNMENT = 128
"""Bytes to which segments are aligned in the file; the official exporter's value."""

TENSOR_ALIGNMENT = 16
"""Bytes to which the runtime wants tensor data to be aligned."""

MAX_RANK = 16
"""Most dimensions that the runtime's tensors have."""

_HEADER = struct.Struct("<4sIQQQ")
_HEADER_AT = 8
_SHORT_HEADER = 24


class ScalarType(IntEnum):
    """Element types of tensors."""

    BYTE = 0
    CHAR = 1
    SHORT = 2
    INT = 3
    LONG = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS16 = 22
    FLOAT8E5M2 = 23
    FLOAT8E4M3FN = 24
    FLOAT8E5M2FNUZ = 25
    FLOAT8E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29


SCALAR_TYPES: dict[DType, ScalarType] = {
    DType.UINT8: ScalarType.BYTE,
    DType.INT8: ScalarType.CHAR,
    DType.INT16: ScalarType.SHORT,
    DType.INT32: ScalarType.INT,
    DType.INT64: ScalarType.LONG,
    DType.FLOAT16: ScalarType.HALF,
    DType.FLOAT32: ScalarType.FLOAT,
    DType.FLOAT64: ScalarType.DOUBLE,
    DType.BOOL: ScalarType.BOOL,
    DType.UINT16: ScalarType.UINT16,
    DType.UINT32: ScalarType.UINT32,
    DType.UINT64: ScalarType.UINT64,
}
"""The scalar type of every element type that programs have; they have no complex numbers."""

DTYPES: dict[int, DType] = {int(code): dtype for dtype, code in SCALAR_TYPES.items()}
"""The element type of every scalar type that numpy can express."""

_ITEM_SIZES: dict[int, int] = {
    **{code: dtype.itemsize for code, dtype in DTYPES.items()},
    ScalarType.QINT8: 1,
    ScalarType.QUINT8: 1,
    ScalarType.QINT32: 4,
    ScalarType.BFLOAT16: 2,
    ScalarType.QUINT4X2: 1,
    ScalarType.QUINT2X4: 1,
    ScalarType.BITS16: 2,
    ScalarType.FLOAT8E5M2: 1,
    ScalarType.FLOAT8E4M3FN: 1,
    ScalarType.FLOAT8E5M2FNUZ: 1,
    ScalarType.FLOAT8E4M3FNUZ: 1,
}


class ShapeDynamism(IntEnum):
    """Whether sizes are exact, an upper bound, or unknown."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class TensorDataLocation(IntEnum):
    """Where the data of a named tensor lies."""

    SEGMENT = 0
    EXTERNAL = 1


class DataLocation(IntEnum):
    """Where the data of a delegate lies."""

    INLINE = 0
    SEGMENT = 1


@dataclass(eq=False, slots=True, kw_only=True)
class ContainerMetadata(Table):
    """How the exporter flattened inputs and outputs."""

    encoded_inp_str: str | None = string()
    encoded_out_str: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class Null(Table):
    """The value None."""


@dataclass(eq=False, slots=True, kw_only=True)
class AllocationDetails(Table):
    """Place of a tensor in a planned buffer; `memory_id` counts from 1."""

    memory_id: int = scalar("u4")
    memory_offset_low: int = scalar("u4")
    memory_offset_high: int = scalar("u4")

    @property
    def offset(self) -> int:
        """Byte offset in the buffer."""
        return self.memory_offset_high << 32 | self.memory_offset_low


@dataclass(eq=False, slots=True, kw_only=True)
class ExtraTensorInfo(Table):
    """What few tensors need: a name, a place outside the file, a device."""

    mutable_data_segments_idx: int = scalar("u8")
    fully_qualified_name: str | None = string()
    location: int = scalar("i1")
    device_type: int = scalar("i1")
    device_index: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class Tensor(Table):
    """A tensor; `dim_order` lists dimensions from outermost to innermost in memory."""

    scalar_type: int = scalar("i1")
    storage_offset: int = scalar("i4")
    sizes: Array | None = vector("i4")
    dim_order: Array | None = vector("u1")
    requires_grad: bool = scalar("?")
    data_buffer_idx: int = scalar("u4")
    allocation_info: AllocationDetails | None = table(AllocationDetails)
    layout: int = scalar("i1")
    shape_dynamism: int = scalar("i1")
    extra_tensor_info: ExtraTensorInfo | None = table(ExtraTensorInfo)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes as a tuple."""
        return ints(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor's elements."""
        return math.prod(self.shape) * _ITEM_SIZES[self.scalar_type]

    @property
    def name(self) -> str:
        """The qualified name; empty if there is none."""
        info = self.extra_tensor_info
        return (info.fully_qualified_name or "") if info is not None else ""

    @property
    def is_constant(self) -> bool:
        """Whether the program holds the contents and nothing writes them."""
        return self.data_buffer_idx > 0 and self.allocation_info is None


@dataclass(eq=False, slots=True, kw_only=True)
class Int(Table):
    """An integer."""

    int_val: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class Bool(Table):
    """A truth value."""

    bool_val: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class Double(Table):
    """A floating-point number."""

    double_val: float = scalar("f8")


@dataclass(eq=False, slots=True, kw_only=True)
class String(Table):
    """A string."""

    string_val: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class IntList(Table):
    """Integers; in current files each item is the index of an `Int` value."""

    items: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class DoubleList(Table):
    """Floating-point numbers."""

    items: Array | None = vector("f8")


@dataclass(eq=False, slots=True, kw_only=True)
class BoolList(Table):
    """Truth values."""

    items: Array | None = vector("?")


@dataclass(eq=False, slots=True, kw_only=True)
class TensorList(Table):
    """Tensors, by value index."""

    items: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class OptionalTensorList(Table):
    """Tensors or None, by value index; -1 also stands for None."""

    items: Array | None = vector("i4")


VALUE_TYPES: tuple[type[Table], ...] = (
    Null,
    Int,
    Bool,
    Double,
    Tensor,
    String,
    IntList,
    DoubleList,
    BoolList,
    TensorList,
    OptionalTensorList,
)
"""Value tables in the order of the schema's union, whose codes start at 1."""


@dataclass(eq=False, slots=True, kw_only=True)
class EValue(Table):
    """A value of any kind."""

    val: Table | None = union(VALUE_TYPES)


@dataclass(eq=False, slots=True, kw_only=True)
class Operator(Table):
    """Name of a kernel."""

    name: str | None = string()
    overload: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class KernelCall(Table):
    """Run a kernel."""

    op_index: int = scalar("i4")
    args: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class DelegateCall(Table):
    """Run a delegate."""

    delegate_index: int = scalar("i4")
    args: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class MoveCall(Table):
    """Copy a value."""

    move_from: int = scalar("i4")
    move_to: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class JumpFalseCall(Table):
    """Jump unless a value is true."""

    cond_value_index: int = scalar("i4")
    destination_instruction: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class FreeCall(Table):
    """Release a tensor's memory."""

    value_index: int = scalar("i4")


INSTRUCTION_TYPES: tuple[type[Table], ...] = (
    KernelCall,
    DelegateCall,
    MoveCall,
    JumpFalseCall,
    FreeCall,
)
"""Instruction tables in the order of the schema's union, whose codes start at 1."""


@dataclass(eq=False, slots=True, kw_only=True)
class Instruction(Table):
    """One step."""

    instr_args: Table | None = union(INSTRUCTION_TYPES)


@dataclass(eq=False, slots=True, kw_only=True)
class Frame(Table):
    """A line of the source that an instruction comes from."""

    filename: str | None = string()
    lineno: int = scalar("i4")
    name: str | None = string()
    context: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class FrameList(Table):
    """A stack trace."""

    items: list[Frame] | None = tables(Frame)


@dataclass(eq=False, slots=True, kw_only=True)
class BackendDelegateDataReference(Table):
    """Place of a delegate's data: an index into the list that `location` names."""

    location: int = scalar("i1")
    index: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class CompileSpec(Table):
    """An option for a delegate."""

    key: str | None = string()
    value: Array | None = vector("u1")


@dataclass(eq=False, slots=True, kw_only=True)
class BackendDelegate(Table):
    """A subgraph for a backend."""

    id: str | None = string()
    processed: BackendDelegateDataReference | None = table(BackendDelegateDataReference)
    compile_specs: list[CompileSpec] | None = tables(CompileSpec)


@dataclass(eq=False, slots=True, kw_only=True)
class Chain(Table):
    """Instructions in order."""

    inputs: Array | None = vector("i4")
    outputs: Array | None = vector("i4")
    instructions: list[Instruction] | None = tables(Instruction)
    stacktrace: list[FrameList] | None = tables(FrameList)


@dataclass(eq=False, slots=True, kw_only=True)
class NonConstBufferDevice(Table):
    """Device of a planned buffer."""

    buffer_idx: int = scalar("i4")
    device_type: int = scalar("i1")
    device_index: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class ExecutionPlan(Table):
    """A method."""

    name: str | None = string()
    container_meta_type: ContainerMetadata | None = table(ContainerMetadata)
    values: list[EValue] | None = tables(EValue)
    inputs: Array | None = vector("i4")
    outputs: Array | None = vector("i4")
    chains: list[Chain] | None = tables(Chain)
    operators: list[Operator] | None = tables(Operator)
    delegates: list[BackendDelegate] | None = tables(BackendDelegate)
    non_const_buffer_sizes: Array | None = vector("i8")
    non_const_buffer_device: list[NonConstBufferDevice] | None = tables(NonConstBufferDevice)


@dataclass(eq=False, slots=True, kw_only=True)
class Buffer(Table):
    """A constant inside the flatbuffer (older files)."""

    storage: Array | None = vector("u1", align=TENSOR_ALIGNMENT)


@dataclass(eq=False, slots=True, kw_only=True)
class BackendDelegateInlineData(Table):
    """Data of a delegate inside the flatbuffer."""

    data: Array | None = vector("u1", align=TENSOR_ALIGNMENT)


@dataclass(eq=False, slots=True, kw_only=True)
class DataSegment(Table):
    """A segment; `offset` is relative to the first segment."""

    offset: int = scalar("u8")
    size: int = scalar("u8")


@dataclass(eq=False, slots=True, kw_only=True)
class SubsegmentOffsets(Table):
    """Places of tensors in one segment; index 0 is reserved."""

    segment_index: int = scalar("u4")
    offsets: Array | None = vector("u8")


@dataclass(eq=False, slots=True, kw_only=True)
class NamedData(Table):
    """A segment that delegates look up by name."""

    key: str | None = string()
    segment_index: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Program(Table):
    """The root table."""

    version: int = scalar("u4")
    execution_plan: list[ExecutionPlan] | None = tables(ExecutionPlan)
    constant_buffer: list[Buffer] | None = tables(Buffer)
    backend_delegate_data: list[BackendDelegateInlineData] | None = tables(
        BackendDelegateInlineData
    )
    segments: list[DataSegment] | None = tables(DataSegment)
    constant_segment: SubsegmentOffsets | None = table(SubsegmentOffsets)
    mutable_data_segments: list[SubsegmentOffsets] | None = tables(SubsegmentOffsets)
    named_data: list[NamedData] | None = tables(NamedData)


@dataclass(frozen=True, eq=False, slots=True)
class ProgramFile:
    """A program, checked, with the data of its segments.

    Attributes:
        program: the root table.
        segments: bytes of every segment, views of the file.
        path: name of the file, for errors.
    """

    program: Program
    segments: tuple[memoryview, ...]
    path: str = ""
    _named: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for entry in self.program.named_data or ():
            self._named.setdefault(entry.key or "", entry.segment_index)

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods, in order of the file."""
        return tuple(plan.name or "" for plan in self.program.execution_plan or ())

    def plan(self, method: str) -> ExecutionPlan | None:
        """The method of that name, or None."""
        for plan in self.program.execution_plan or ():
            if plan.name == method:
                return plan
        return None

    def named(self, key: str) -> memoryview | None:
        """Data that delegates look up by name, or None if there is none."""
        index = self._named.get(key)
        return None if index is None else self.segments[index]

    def delegate_data(self, delegate: BackendDelegate) -> memoryview:
        """The compiled subgraph of a delegate of this program."""
        place = delegate.processed
        if place is None:
            raise FormatError(
                "a delegate without data", path=self.path, table="BackendDelegate.processed"
            )
        if place.location == DataLocation.SEGMENT:
            return self.segments[place.index]
        entry = (self.program.backend_delegate_data or [])[place.index]
        return _bytes(entry.data)

    def tensor_data(self, tensor: Tensor) -> memoryview | None:
        """Bytes that the program holds for a tensor: a constant, or an initial state.

        Returns:
            exactly as many bytes as the tensor has, or None if the program holds none.

        Raises:
            FormatError: the place lies outside its segment.
        """
        if tensor.data_buffer_idx == 0:
            return None
        info, index = tensor.extra_tensor_info, tensor.data_buffer_idx
        if info is not None and info.location == TensorDataLocation.EXTERNAL:
            return None
        group, name = self.program.constant_segment, "constant_segment"
        if tensor.allocation_info is not None:
            which = info.mutable_data_segments_idx if info is not None else 0
            groups = self.program.mutable_data_segments or []
            name = f"mutable_data_segments[{which}]"
            group = groups[which] if which < len(groups) else None
        elif self.program.constant_buffer:
            buffers = self.program.constant_buffer
            if index >= len(buffers):
                raise self._fault(f"constant {index} of {len(buffers)}", "constant_buffer")
            return self._slice(_bytes(buffers[index].storage), 0, tensor.nbytes, "constant_buffer")
        offsets = group.offsets if group is not None else None
        if group is None or offsets is None or index >= len(offsets):
            count = 0 if offsets is None else len(offsets)
            raise self._fault(f"constant {index} of {count}", name)
        segment = self.segments[group.segment_index]
        return self._slice(segment, int(offsets[index]), tensor.nbytes, name)

    def _slice(self, data: memoryview, start: int, size: int, name: str) -> memoryview:
        if start + size > len(data):
            raise self._fault(
                f"a tensor spans bytes {start} to {start + size} of {len(data)}", name
            )
        return data[start : start + size]

    def _fault(self, what: str, name: str) -> FormatError:
        return FormatError(what, path=self.path, table=f"Program.{name}")


def _bytes(data: Array | None) -> memoryview:
    return memoryview(b"") if data is None else data.data.cast("B")


# --- reading -------------------------------------------------------------------------------------


def read_program(data: bytes | bytearray | memoryview, *, path: str = "") -> ProgramFile:
    """Read and check a program.

    Args:
        data: the whole file; the result refers to it.
        path: name of the file, for errors.

    Raises:
        FormatError: the header, the flatbuffer, a range or an index is wrong.
    """
    view = memoryview(data).toreadonly().cast("B")
    header = _read_header(view, path)
    flat_size = len(view) if header is None else header[0]
    program = flat.decode(Program, view[:flat_size], identifiers=(IDENTIFIER,), path=path)
    segments = _segments(program, view, header, path)
    file = ProgramFile(program, segments, path)
    _Checker(file).check()
    return file


def _read_header(view: memoryview, path: str) -> tuple[int, int] | None:
    """Size of the flatbuffer and offset of the first segment; None without a header."""
    if bytes(view[_HEADER_AT : _HEADER_AT + 4]) != HEADER_MAGIC:
        return None

    def fault(what: str, at: int) -> FormatError:
        return FormatError(what, path=path, offset=_HEADER_AT + at, table="eh00")

    if len(view) < _HEADER_AT + _SHORT_HEADER:
        raise fault(f"{len(view)} bytes where the header ends at {_HEADER_AT + _SHORT_HEADER}", 0)
    length = int.from_bytes(view[12:16], "little")
    if length < _SHORT_HEADER:
        raise fault(f"a header of {length} bytes where {_SHORT_HEADER} are the least", 4)
    size, base = struct.unpack_from("<QQ", view, 16)
    if not 8 <= size <= len(view):
        raise fault(f"a flatbuffer of {size} bytes in a file of {len(view)}", 8)
    if base > len(view):
        raise fault(f"segments start at byte {base} of {len(view)}", 16)
    if length >= _HEADER.size:
        if len(view) < _HEADER_AT + _HEADER.size:
            raise fault(f"{len(view)} bytes where the header ends at {_HEADER_AT + length}", 4)
        extent = int.from_bytes(view[32:40], "little")
        if base + extent > len(view):
            raise fault(f"segments end at byte {base + extent} of {len(view)}", 24)
    return size, base


def _segments(
    program: Program, view: memoryview, header: tuple[int, int] | None, path: str
) -> tuple[memoryview, ...]:
    entries = program.segments or []
    if entries and (header is None or header[1] == 0):
        raise FormatError(
            f"{len(entries)} segments, but no header says where they start",
            path=path, offset=_HEADER_AT, table="Program.segments",
        )  # fmt: skip
    base = 0 if header is None else header[1]
    segments = []
    for index, entry in enumerate(entries):
        start = base + entry.offset
        if start + entry.size > len(view):
            raise FormatError(
                f"the segment spans bytes {start} to {start + entry.size} of {len(view)}",
                path=path,
                table=f"Program.segments[{index}]",
            )
        segments.append(view[start : start + entry.size])
    return tuple(segments)


class _Checker:
    """Checks every index of a program, so that nobody after it needs to."""

    def __init__(self, file: ProgramFile) -> None:
        self.file = file
        self.program = file.program

    def fail(self, what: str, where: str) -> FormatError:
        return FormatError(what, path=self.file.path, table=where)

    def index(self, value: int, count: int, what: str, where: str) -> None:
        if not 0 <= value < count:
            raise self.fail(f"{what} {value} of {count}", where)

    def check(self) -> None:
        program, count = self.program, len(self.file.segments)
        groups = [("constant_segment", program.constant_segment)] + [
            (f"mutable_data_segments[{index}]", group)
            for index, group in enumerate(program.mutable_data_segments or ())
        ]
        for name, group in groups:
            # Offsets hold nothing but the reserved entry if there are no constants.
            if group is not None and len(ints(group.offsets)) > 1:
                self.index(group.segment_index, count, "segment", f"Program.{name}")
        for number, entry in enumerate(program.named_data or ()):
            where = f"Program.named_data[{number}]"
            if not entry.key:
                raise self.fail("data without a name", where)
            self.index(entry.segment_index, count, "segment", where)
        if not program.execution_plan:
            raise self.fail("a program without methods", "Program.execution_plan")
        for number, plan in enumerate(program.execution_plan):
            self.plan(plan, f"Program.execution_plan[{number}]")

    def plan(self, plan: ExecutionPlan, where: str) -> None:
        if not plan.name:
            raise self.fail("a method without a name", where)
        values = plan.values or []
        for number, value in enumerate(values):
            self.value(value.val, plan, f"{where}.values[{number}]")
        for name, indices in (("inputs", plan.inputs), ("outputs", plan.outputs)):
            for index in ints(indices):
                self.index(index, len(values), "value", f"{where}.{name}")
        for number, delegate in enumerate(plan.delegates or ()):
            self.delegate(delegate, f"{where}.delegates[{number}]")
        for number, operator in enumerate(plan.operators or ()):
            if not operator.name:
                raise self.fail("an operator without a name", f"{where}.operators[{number}]")
        for number, chain in enumerate(plan.chains or ()):
            self.chain(chain, plan, f"{where}.chains[{number}]")

    def delegate(self, delegate: BackendDelegate, where: str) -> None:
        if not delegate.id:
            raise self.fail("a delegate without a backend", where)
        place = delegate.processed
        if place is None:
            raise self.fail("a delegate without data", where)
        if place.location == DataLocation.SEGMENT:
            self.index(place.index, len(self.file.segments), "segment", f"{where}.processed")
        elif place.location == DataLocation.INLINE:
            inline = self.program.backend_delegate_data or []
            self.index(place.index, len(inline), "inline data", f"{where}.processed")
        else:
            raise self.fail(f"unknown data location {place.location}", f"{where}.processed")

    def value(self, value: Table | None, plan: ExecutionPlan, where: str) -> None:
        values = plan.values or []
        if value is None:
            raise self.fail("a value without contents", where)
        if isinstance(value, Tensor):
            self.tensor(value, plan, where)
        elif isinstance(value, IntList):
            self.items(value, (Int,), values, where)
        elif isinstance(value, TensorList):
            self.items(value, (Tensor,), values, where)
        elif isinstance(value, OptionalTensorList):
            self.items(value, (Tensor, Null), values, where)

    def items(
        self,
        value: IntList | TensorList | OptionalTensorList,
        kinds: tuple[type[Table], ...],
        values: list[EValue],
        where: str,
    ) -> None:
        for index in ints(value.items):
            if Null in kinds and index == -1:
                continue
            self.index(index, len(values), "value", where)
            if not isinstance(values[index].val, kinds):
                found = type(values[index].val).__name__
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise self.fail(f"item {index} is of kind {found} where {wanted} is wanted", where)

    def tensor(self, tensor: Tensor, plan: ExecutionPlan, where: str) -> None:
        shape, order = tensor.shape, ints(tensor.dim_order)
        if tensor.sizes is None or tensor.dim_order is None:
            raise self.fail("a tensor needs sizes and a dimension order", where)
        if tensor.scalar_type not in _ITEM_SIZES:
            raise self.fail(f"unknown scalar type {tensor.scalar_type}", where)
        if len(shape) > MAX_RANK:
            raise self.fail(f"{len(shape)} dimensions where {MAX_RANK} are the most", where)
        if any(size < 0 for size in shape):
            raise self.fail(f"a negative extent in {list(shape)}", where)
        if sorted(order) != list(range(len(shape))):
            raise self.fail(
                f"dimension order {list(order)} of a tensor of rank {len(shape)}", where
            )
        if tensor.storage_offset:
            raise self.fail(
                f"storage offset {tensor.storage_offset} where only 0 is allowed", where
            )
        place = tensor.allocation_info
        if place is not None and tensor.shape_dynamism != ShapeDynamism.DYNAMIC_UNBOUND:
            sizes = ints(plan.non_const_buffer_sizes)
            # Buffer 0 is reserved; identifiers count the others from 1.
            if not 1 <= place.memory_id < len(sizes):
                raise self.fail(f"buffer {place.memory_id} of {len(sizes)}", where)
            if place.offset + tensor.nbytes > sizes[place.memory_id]:
                raise self.fail(
                    f"bytes {place.offset} to {place.offset + tensor.nbytes}"
                    f" of a buffer of {sizes[place.memory_id]}",
                    where,
                )
        self.file.tensor_data(tensor)

    def chain(self, chain: Chain, plan: ExecutionPlan, where: str) -> None:
        instructions = chain.instructions or []
        values = len(plan.values or ())
        for number, instruction in enumerate(instructions):
            at = f"{where}.instructions[{number}]"
            step = instruction.instr_args
            used: Sequence[int]
            if isinstance(step, KernelCall):
                self.index(step.op_index, len(plan.operators or ()), "operator", at)
                used = ints(step.args)
            elif isinstance(step, DelegateCall):
                self.index(step.delegate_index, len(plan.delegates or ()), "delegate", at)
                used = ints(step.args)
            elif isinstance(step, MoveCall):
                used = (step.move_from, step.move_to)
            elif isinstance(step, JumpFalseCall):
                # A jump after the last instruction ends the chain.
                self.index(step.destination_instruction, len(instructions) + 1, "instruction", at)
                used = (step.cond_value_index,)
            elif isinstance(step, FreeCall):
                used = (step.value_index,)
            else:
                raise self.fail("an instruction without contents", at)
            for index in used:
                self.index(index, values, "value", at)


# --- writing -------------------------------------------------------------------------------------


def write_program(
    program: Program,
    segments: Sequence[bytes | bytearray | memoryview] = (),
    *,
    alignment: int = SEGMENT_ALIGNMENT,
) -> bytes:
    """Write a program and its segments.

    Args:
        program: the root table; its list of segments is ignored and made from `segments`.
        segments: bytes of every segment.
        alignment: bytes to which segments are aligned in the file, a power of two.

    Raises:
        ValueError: a value that the schema cannot hold.
    """
    entries, extent = [], 0
    for segment in segments:
        start = extent + -extent % alignment
        entries.append(DataSegment(offset=start, size=len(segment)))
        extent = start + len(segment)
    body = flat.encode(
        dataclasses.replace(program, segments=entries or None), identifier=IDENTIFIER
    )
    if not segments:
        return body
    # The header shifts everything after the identifier, so it is padded to keep alignments.
    room = _HEADER.size + -_HEADER.size % TENSOR_ALIGNMENT
    size = len(body) + room
    base = size + -size % alignment
    root = int.from_bytes(body[:4], "little") + room
    header = _HEADER.pack(HEADER_MAGIC, _HEADER.size, size, base, extent)
    parts = [root.to_bytes(4, "little"), IDENTIFIER, header.ljust(room, b"\0"), body[8:]]
    position = size
    for entry, segment in zip(entries, segments, strict=True):
        parts.append(bytes(base + entry.offset - position))
        parts.append(bytes(segment))
        position = base + entry.offset + entry.size
    return b"".join(parts)


def tensor_array(tensor: Tensor, data: memoryview) -> Array:
    """Elements of a tensor as an array of its shape, a view unless dimensions are permuted.

    Raises:
        FormatError: the element type has no counterpart in numpy.
    """
    dtype = DTYPES.get(tensor.scalar_type)
    if dtype is None:
        name = ScalarType(tensor.scalar_type).name
        raise FormatError(f"elements of type {name} cannot be read", table="Tensor")
    shape, order = tensor.shape, ints(tensor.dim_order)
    flat_view = np.frombuffer(data, dtype.numpy) if len(data) else np.empty(0, dtype.numpy)
    stored = flat_view.reshape([shape[axis] for axis in order])
    return stored.transpose(np.argsort(order).tolist() if order else ())
