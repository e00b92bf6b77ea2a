"""IREE VM bytecode modules of early 2020: FlatBuffers files with the identifier ``BMOD``.

A module imports functions of other modules, exports its own, and carries their bytecode and
read-only data. What the bytecode means is in `fitzroy.hw_models.vm`; here are the tables around it
and the rules by which the VM of that time loads them.

Facts: ``iree/schemas/bytecode_module_def.fbs`` and ``iree/vm/bytecode_module.c`` of google/iree
between December 2019 and March 2020. Files written later have the same identifier with register
counts and registers of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import flat
from fitzroy.formats.flat import (
    Table,
    UnknownMember,
    scalar,
    string,
    structs,
    table,
    tables,
    union,
    vector,
)

IDENTIFIER = b"BMOD"

DESCRIPTOR_BYTES = 12
GLOBAL_BYTES = 4
"""Bytes of a global integer."""

MOST_I32_REGISTERS = 128
MOST_REF_REGISTERS = 64

_LEAST_BYTES = 16
_INT8 = np.dtype("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class TypeDef(Table):
    """A type: ``i32``, or ``!`` and the registered name of a reference type."""

    full_name: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class ReflectionAttrDef(Table):
    """A key and a value that describe a function to its callers."""

    key: str | None = string()
    value: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class FunctionSignatureDef(Table):
    """Types of arguments and results, as ordinals of the module's types."""

    argument_types: Array | None = vector("i4")
    result_types: Array | None = vector("i4")
    reflection_attrs: list[ReflectionAttrDef] | None = tables(ReflectionAttrDef)

    @property
    def arguments(self) -> tuple[int, ...]:
        """Types of the arguments."""
        return flat.ints(self.argument_types)

    @property
    def results(self) -> tuple[int, ...]:
        """Types of the results."""
        return flat.ints(self.result_types)


@dataclass(eq=False, slots=True, kw_only=True)
class ImportFunctionDef(Table):
    """A function of another module: ``module.function``."""

    full_name: str | None = string()
    signature: FunctionSignatureDef | None = table(FunctionSignatureDef)


@dataclass(eq=False, slots=True, kw_only=True)
class ExportFunctionDef(Table):
    """A function that others may call by name."""

    local_name: str | None = string()
    signature: FunctionSignatureDef | None = table(FunctionSignatureDef)
    internal_ordinal: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class InternalFunctionDef(Table):
    """A function of the module; its descriptor has the same number."""

    local_name: str | None = string()
    signature: FunctionSignatureDef | None = table(FunctionSignatureDef)


@dataclass(eq=False, slots=True, kw_only=True)
class UncompressedDataDef(Table):
    """Data as it is."""


@dataclass(eq=False, slots=True, kw_only=True)
class RodataSegmentDef(Table):
    """Read-only data; there was one kind of compression, which is none."""

    compression_type: UncompressedDataDef | UnknownMember | None = union(
        (UncompressedDataDef,), opaque=True
    )
    data: Array | None = vector("u1", align=16)


@dataclass(eq=False, slots=True, kw_only=True)
class RwdataSegmentDef(Table):
    """Writable data, which the VM ignores."""

    byte_size: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class ModuleStateDef(Table):
    """Globals: bytes of 32-bit ones, and number of references."""

    global_bytes_capacity: int = scalar("i4")
    global_ref_count: int = scalar("i4")


@dataclass(frozen=True, slots=True)
class FunctionDescriptor:
    """Where the bytecode of a function is, and how many registers it has.

    Attributes:
        offset: first byte of its bytecode.
        length: bytes of its bytecode.
        i32_registers: registers of integers; the VM only checks the number.
        ref_registers: registers of references.
    """

    offset: int
    length: int
    i32_registers: int
    ref_registers: int


@dataclass(eq=False, slots=True, kw_only=True)
class BytecodeModule(Table):
    """A module, `BytecodeModuleDef` in the schema."""

    name: str | None = string()
    types: list[TypeDef] | None = tables(TypeDef)
    imported_functions: list[ImportFunctionDef] | None = tables(ImportFunctionDef)
    exported_functions: list[ExportFunctionDef] | None = tables(ExportFunctionDef)
    internal_functions: list[InternalFunctionDef] | None = tables(InternalFunctionDef)
    rodata_segments: list[RodataSegmentDef] | None = tables(RodataSegmentDef)
    rwdata_segments: list[RwdataSegmentDef] | None = tables(RwdataSegmentDef)
    module_state: ModuleStateDef | None = table(ModuleStateDef)
    function_descriptors: Array | None = structs("i4", 3)
    bytecode_data: Array | None = vector("u1", align=4)

    @property
    def descriptors(self) -> tuple[FunctionDescriptor, ...]:
        """Descriptors of the internal functions."""
        if self.function_descriptors is None:
            return ()
        counts = np.ascontiguousarray(self.function_descriptors[:, 2:]).view(_INT8)
        return tuple(
            FunctionDescriptor(int(place[0]), int(place[1]), _counted(int(count[0])), int(count[1]))
            for place, count in zip(self.function_descriptors[:, :2], counts, strict=True)
        )

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the types by ordinal."""
        return tuple(item.full_name or "" for item in self.types or ())

    def code(self, function: int) -> bytes:
        """Bytecode of an internal function."""
        place = self.descriptors[function]
        assert self.bytecode_data is not None
        return bytes(self.bytecode_data[place.offset : place.offset + place.length])


def _counted(i32_registers: int) -> int:
    """A number of registers: the byte of 128, the most that there are, is -128."""
    return MOST_I32_REGISTERS if i32_registers == -MOST_I32_REGISTERS else i32_registers


def pack_descriptors(items: Sequence[FunctionDescriptor]) -> Array:
    """Descriptors as the file has them.

    Raises:
        FormatError: a number that its field cannot hold.
    """
    for item in items:
        if not (
            -MOST_I32_REGISTERS <= item.i32_registers <= MOST_I32_REGISTERS
            and 0 <= item.ref_registers <= MOST_REF_REGISTERS
            and min(item.offset, item.length) >= 0
        ):
            raise FormatError(f"no module can have {item}")
    rows = [
        (item.offset, item.length, (item.i32_registers & 0xFF) | item.ref_registers << 8)
        for item in items
    ]
    return np.array(rows, np.int32).reshape(len(rows), 3)


def read_module(data: bytes | bytearray | memoryview, path: str = "") -> BytecodeModule:
    """Read a module that the VM would load, but for the types that must be registered.

    Its bytecode is not looked at: see `fitzroy.hw_models.vm.verifier`.

    Raises:
        FormatError: whatever the VM refuses, and register counts of 16 bits.
    """
    if len(data) < _LEAST_BYTES:
        raise FormatError(f"{len(data)} bytes, a module has at least {_LEAST_BYTES}", path=path)
    module = flat.decode(BytecodeModule, data, identifiers=(IDENTIFIER,), path=path)
    check(module, path)
    return module


def write_module(module: BytecodeModule) -> bytes:
    """Bytes of a module; read-only data is aligned to 16 bytes.

    Raises:
        FormatError: the VM would not load it.
    """
    check(module)
    return flat.encode(module, identifier=IDENTIFIER)


def check(module: BytecodeModule, path: str = "") -> None:
    """What the VM demands of a module when it loads it, in its order.

    Raises:
        FormatError: names the table and what it lacks.
    """
    for table_name, fault in _faults(module):
        raise FormatError(fault, path=path, table=table_name)


def _faults(module: BytecodeModule) -> Iterator[tuple[str, str]]:
    root = "BytecodeModuleDef"
    if not module.name:
        yield root, "the module has no name"
    if module.types is None:
        yield root, "there are no types"
    for what, items in (
        ("exported", module.exported_functions),
        ("internal", module.internal_functions),
    ):
        if not items:
            yield root, f"there are no {what} functions"
    descriptors = module.descriptors
    functions = module.internal_functions or []
    if len(descriptors) != len(functions):
        yield root, f"{len(functions)} internal functions have {len(descriptors)} descriptors"
    if module.bytecode_data is None:
        yield root, "there is no bytecode"
    for number, item in enumerate(module.types or ()):
        if not item.full_name:
            yield f"types[{number}]", "a type has no name"
    for number, imported in enumerate(module.imported_functions or ()):
        if not imported.full_name or imported.signature is None:
            yield f"imported_functions[{number}]", "an import lacks its name or its signature"
    for number, exported in enumerate(module.exported_functions or ()):
        where = f"exported_functions[{number}]"
        if not exported.local_name or exported.signature is None:
            yield where, "an export lacks its name or its signature"
        if not 0 <= exported.internal_ordinal < len(functions):
            yield (
                where,
                f"it is internal function {exported.internal_ordinal} of {len(functions)}",
            )
    for number, function in enumerate(functions):
        if function.signature is None:
            yield f"internal_functions[{number}]", "a function lacks its signature"
    for number, segment in enumerate(module.rodata_segments or ()):
        if segment.data is None:
            yield f"rodata_segments[{number}]", "read-only data has no bytes, not even none"
        if isinstance(segment.compression_type, UnknownMember):
            code = segment.compression_type.code
            yield f"rodata_segments[{number}]", f"data is compressed in an unknown way, {code}"
    state = module.module_state
    if state is not None:
        if state.global_bytes_capacity < 0 or state.global_bytes_capacity % GLOBAL_BYTES:
            yield "module_state", f"{state.global_bytes_capacity} bytes of globals"
        if state.global_ref_count < 0:
            yield "module_state", f"{state.global_ref_count} references"
    size = 0 if module.bytecode_data is None else len(module.bytecode_data)
    raw = module.function_descriptors
    for number, place in enumerate(descriptors):
        where = f"function_descriptors[{number}]"
        if place.offset < 0 or place.length < 0 or place.offset + place.length > size:
            yield (
                where,
                f"bytes {place.offset} to {place.offset + place.length} of {size} of bytecode",
            )
        if place.ref_registers > MOST_REF_REGISTERS:
            yield where, f"{place.ref_registers} ref registers, there are {MOST_REF_REGISTERS}"
        assert raw is not None
        if int(raw[number, 2]) >> 16:
            yield where, "register counts of 16 bits, which modules of later versions have"
