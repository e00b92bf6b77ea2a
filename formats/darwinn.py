"""DarwiNN packages: what the compiler hands to the driver of an Edge TPU.

A package is a flatbuffer (identifier ``DWN1``) that holds a flatbuffer (`MultiExecutable`) that
holds flatbuffers (`Executable`), each with a root of its own. `read_package` opens all three
levels; bitstreams, parameters and tables of coordinates stay views of the input.

Facts: the published schema ``executable.fbs`` of the Edge TPU runtime; which values its driver
refuses, and the sizes that layers have, as the runtime and compiled models show them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.formats import flat
from fitzroy.formats.flat import (
    Table,
    blobs,
    scalar,
    string,
    structs,
    table,
    tables,
    union,
    vector,
)
from fitzroy.formats.pieces import Pieces, unjoined
from fitzroy.formats.source_digest import OperatorDigest

IDENTIFIER = b"DWN1"

BUNDLE_BYTES = 16
"""Size of an instruction; a bitstream is a whole number of them."""

FIELD_BITS = 32
"""Width of the field at every `FieldOffset`."""

MIN_RUNTIME_VERSION = 10
"""Runtimes warn of packages that ask for less."""

MAX_RUNTIME_VERSION = 14
"""Runtimes refuse packages that ask for more."""

MULTIPLE_CHIPS = -1
"""The `virtual_chip_id` of a package for several chips."""

PAGE_ALIGNMENT = 4096
"""Bytes to which parameters and nested flatbuffers are aligned, as in packages of the vendor."""


class Description(IntEnum):
    """Buffer whose address a field or a transfer is about."""

    BASE_ADDRESS_OUTPUT_ACTIVATION = 0
    BASE_ADDRESS_INPUT_ACTIVATION = 1
    BASE_ADDRESS_PARAMETER = 2
    BASE_ADDRESS_SCRATCH = 3


class Position(IntEnum):
    """Half of a 64-bit address."""

    LOWER_32BIT = 0
    UPPER_32BIT = 1


class InterruptType(IntEnum):
    """Interrupts of the scalar core."""

    SCALAR_CORE_INT_0 = 0
    SCALAR_CORE_INT_1 = 1
    SCALAR_CORE_INT_2 = 2
    SCALAR_CORE_INT_3 = 3


class Direction(IntEnum):
    """Direction of a transfer: INFEED goes to the device."""

    INFEED = 0
    OUTFEED = 1


class DataType(IntEnum):
    """Element types of layers."""

    FIXED_POINT8 = 0
    FIXED_POINT16 = 1
    SIGNED_FIXED_POINT32 = 2
    BFLOAT = 3
    HALF = 4
    SINGLE = 5
    SIGNED_FIXED_POINT8 = 8
    SIGNED_FIXED_POINT16 = 9

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return _ITEMSIZES[self]

    @property
    def signed(self) -> bool:
        """Whether elements are two's complement integers, which the driver biases."""
        return self in _SIGNED


_SIGNED = frozenset(kind for kind in DataType if kind.name.startswith("SIGNED_"))
_ITEMSIZES = {
    DataType.FIXED_POINT8: 1, DataType.FIXED_POINT16: 2, DataType.SIGNED_FIXED_POINT32: 4,
    DataType.BFLOAT: 2, DataType.HALF: 2, DataType.SINGLE: 4,
    DataType.SIGNED_FIXED_POINT8: 1, DataType.SIGNED_FIXED_POINT16: 2,
}  # fmt: skip


class ExecutableType(IntEnum):
    """Part that an executable plays in its package."""

    STAND_ALONE = 0
    PARAMETER_CACHING = 1
    EXECUTION_ONLY = 2


# --- schema --------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True, kw_only=True)
class Meta(Table):
    """An address: `name` and `batch` choose the layer of an input or output."""

    desc: int = scalar("i2")
    batch: int = scalar("i4")
    name: str | None = string()
    position: int = scalar("i2")


@dataclass(eq=False, slots=True, kw_only=True)
class FieldOffset(Table):
    """A 32-bit field of a bitstream that the driver fills; bits count from the lowest of byte 0."""

    meta: Meta | None = table(Meta)
    offset_bit: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class InstructionBitstream(Table):
    """A chunk of instructions; it is sent as a whole."""

    bitstream: Array | None = vector("u1", align=BUNDLE_BYTES)
    field_offsets: list[FieldOffset] | None = tables(FieldOffset)


@dataclass(eq=False, slots=True, kw_only=True)
class DmaDescriptorHint(Table):
    """A transfer of a part of a buffer, in bytes."""

    meta: Meta | None = table(Meta)
    offset_in_bytes: int = scalar("i4")
    size_in_bytes: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class InstructionHint(Table):
    """A transfer of a chunk of instructions."""

    instruction_chunk_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class InterruptHint(Table):
    """An interrupt that the device raises."""

    type: int = scalar("i2")


@dataclass(eq=False, slots=True, kw_only=True)
class FenceHint(Table):
    """Hints after it wait for those in front."""


AnyHint = DmaDescriptorHint | InstructionHint | InterruptHint | FenceHint


@dataclass(eq=False, slots=True, kw_only=True)
class DmaHint(Table):
    """One step of the exchange with the device."""

    any_hint: AnyHint | None = union((DmaDescriptorHint, InstructionHint, InterruptHint, FenceHint))
    direction: int = scalar("i2")


@dataclass(eq=False, slots=True, kw_only=True)
class DmaHints(Table):
    """The exchange with the device, in order."""

    hints: list[DmaHint] | None = tables(DmaHint)
    fully_deterministic: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class OutputLayout(Table):
    """Where an output's element (y, x, z) lies.

    With tile = y_coordinate_to_linear_tile_id_map[y] + x_coordinate_to_linear_tile_id_map[x], it is
    linearized_tile_byte_offset[tile] + y_coordinate_to_local_y_offset[y] *
    x_coordinate_to_local_y_row_size[x] + x_coordinate_to_local_byte_offset[x] + z. The unit is an
    element; outputs of extent 1 in y and x lie packed, whatever the vectors say.
    """

    y_coordinate_to_linear_tile_id_map: Array | None = vector("i4")
    x_coordinate_to_linear_tile_id_map: Array | None = vector("i4")
    linearized_tile_byte_offset: Array | None = vector("i4")
    x_coordinate_to_local_byte_offset: Array | None = vector("i4")
    y_coordinate_to_local_y_offset: Array | None = vector("i4")
    x_coordinate_to_local_y_row_size: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class TensorShape(Table):
    """A tensor's extent: rows of first and last index, one per dimension."""

    dimension: Array | None = structs("i4", 2)


@dataclass(eq=False, slots=True, kw_only=True)
class TensorLayout(Table):
    """A slice of a tensor in linear memory; strides are in elements."""

    shape: TensorShape | None = table(TensorShape)
    stride: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class OutputShapeInfo(Table):
    """Slices that make up an output, with the byte offset of each."""

    slice_layout: list[TensorLayout] | None = tables(TensorLayout)
    slice_offset: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class NumericsConstants(Table):
    """Affine quantization, of unsigned values."""

    zero_point: int = scalar("i4")
    dequantization_factor: float = scalar("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class OutputLayer(Table):
    """What only outputs have; `data_type` is deprecated."""

    layout: OutputLayout | None = table(OutputLayout)
    data_type: int = scalar("i2")
    shape_info: OutputShapeInfo | None = table(OutputShapeInfo)


@dataclass(eq=False, slots=True, kw_only=True)
class InputLayer(Table):
    """Marks an input."""


@dataclass(eq=False, slots=True, kw_only=True)
class Layer(Table):
    """An input or output of a model; `size_bytes` counts one execution, with padding."""

    name: str | None = string()
    size_bytes: int = scalar("i4")
    y_dim: int = scalar("i4")
    x_dim: int = scalar("i4")
    z_dim: int = scalar("i4")
    numerics: NumericsConstants | None = table(NumericsConstants)
    data_type: int = scalar("i2")
    any_layer: OutputLayer | InputLayer | None = union((OutputLayer, InputLayer))
    execution_count_per_inference: int = scalar("i4", 1)
    cache_on_dram: bool = scalar("?")
    shape: TensorShape | None = table(TensorShape)

    @property
    def element(self) -> DataType:
        """Element type."""
        return DataType(self.data_type)

    @property
    def extent(self) -> tuple[int, int, int]:
        """Extent in y, x and z, in elements."""
        return self.y_dim, self.x_dim, self.z_dim

    @property
    def packed_bytes(self) -> int:
        """Size in bytes of one execution without padding."""
        return math.prod(self.extent) * self.element.itemsize


@dataclass(eq=False, slots=True, kw_only=True, weakref_slot=True)
class Executable(Table):
    """A program for the chip with its parameters and interface."""

    version: int = scalar("i4")
    name: str | None = string()
    serialized_model: Array | None = vector("u1")
    batch_size: int = scalar("i4")
    scratch_size_bytes: int = scalar("i4")
    instruction_bitstreams: list[InstructionBitstream] | None = tables(InstructionBitstream)
    parameters: Array | None = vector("u1", align=PAGE_ALIGNMENT)
    dma_hints: DmaHints | None = table(DmaHints)
    input_layers: list[Layer] | None = tables(Layer)
    output_layers: list[Layer] | None = tables(Layer)
    chip: str | None = string()
    estimated_cycles: int = scalar("i4")
    used_narrow_memory_bytes_per_tile: int = scalar("i4")
    type: int = scalar("i2")
    parameter_caching_token: int = scalar("u8")
    use_tpu_dram_for_parameters: bool = scalar("?")
    estimated_cycles_64bit: int = scalar("i8")

    @property
    def bundles(self) -> int:
        """Bundles of all of its instructions."""
        streams = (item.bitstream for item in self.instruction_bitstreams or ())
        return sum(stream.size for stream in streams if stream is not None) // BUNDLE_BYTES

    @property
    def kind(self) -> ExecutableType:
        """Part that it plays in its package."""
        return ExecutableType(self.type)

    @property
    def inputs(self) -> dict[str, Layer]:
        """Input layers by name, in order of the file."""
        return {layer.name or "": layer for layer in self.input_layers or ()}

    @property
    def outputs(self) -> dict[str, Layer]:
        """Output layers by name, in order of the file."""
        return {layer.name or "": layer for layer in self.output_layers or ()}


@dataclass(eq=False, slots=True, kw_only=True)
class MultiExecutable(Table):
    """The executables of a package, each a flatbuffer."""

    serialized_executables: list[Array] | None = blobs(align=PAGE_ALIGNMENT)


@dataclass(eq=False, slots=True, kw_only=True)
class SerializedPackage(Table):
    """A package inside a package."""

    serialized_package: Array | None = vector("u1", align=PAGE_ALIGNMENT)


@dataclass(eq=False, slots=True, kw_only=True)
class Package(Table):
    """The root table of a file."""

    min_runtime_version: int = scalar("i4")
    serialized_multi_executable: Array | None = vector("u1", align=PAGE_ALIGNMENT)
    signature: Array | None = vector("u1")
    keypair_version: int = scalar("i4")
    compiler_version: str | None = string()
    virtual_chip_id: int = scalar("i4")
    multi_chip_package: list[SerializedPackage] | None = tables(SerializedPackage)
    model_identifier: str | None = string()


# --- reading and writing -------------------------------------------------------------------------


@dataclass(eq=False, slots=True, kw_only=True)
class PackageFile:
    """A package with its executables decoded.

    Attributes:
        package: the root table; `write_package` replaces its serialized_multi_executable.
        executables: in order of the file.
        diagnostics: what the runtime would warn of.
        path: name of the file it came from, for errors.
        offsets: where the executables begin in that file, one each; empty if not from a file.
        source: what the compiler kept of its source, in order; empty if that is not known. The
            bytes of the package do not have it.
    """

    package: Package = field(
        default_factory=lambda: Package(min_runtime_version=MIN_RUNTIME_VERSION)
    )
    executables: list[Executable] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()
    path: str = ""
    offsets: tuple[int, ...] = ()
    source: tuple[OperatorDigest, ...] = ()

    def of_kind(self, kind: ExecutableType) -> Executable | None:
        """The executable of a type, None if there is none."""
        for executable in self.executables:
            if executable.type == kind:
                return executable
        return None

    @property
    def caching(self) -> Executable | None:
        """The executable that only loads parameters, if the main one needs it."""
        if len(self.executables) != 2:
            return None
        return self.of_kind(ExecutableType.PARAMETER_CACHING)

    @property
    def main(self) -> Executable:
        """The executable that computes: the only one, EXECUTION_ONLY of two, or STAND_ALONE.

        Raises:
            FormatError: the runtime would not know which to run.
        """
        _check_types(self)
        if len(self.executables) == 1:
            return self.executables[0]
        pair = len(self.executables) == 2
        kind = ExecutableType.EXECUTION_ONLY if pair else ExecutableType.STAND_ALONE
        return next(item for item in self.executables if item.type == kind)


def read_package(
    data: bytes | bytearray | memoryview, path: str = "", base: int = 0
) -> PackageFile:
    """Read a package and all executables in it, and check what the runtime would check.

    Bytes and vectors are views of `data`.

    Args:
        data: the whole package.
        path: name of the file, for errors.
        base: offset of the package in that file, for errors.

    Raises:
        FormatError: the bytes are malformed, or the runtime would refuse what they say.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    view = memoryview(data).toreadonly().cast("B")
    package = flat.decode(Package, view, identifiers=(IDENTIFIER,), path=path, base=base)
    _check_header(package, path)
    inner, at = _nested(package.serialized_multi_executable, view, path, base, "Package")
    multi = flat.decode(MultiExecutable, inner, path=path, base=at)
    contents = multi.serialized_executables or []
    # Looked at before decoding, which a hostile file could otherwise ask for any number of times.
    if len(contents) > len(ExecutableType):
        raise FormatError(
            f"{len(contents)} executables, there are {len(ExecutableType)} types of them",
            path=path, offset=at, table="MultiExecutable",
        )  # fmt: skip
    executables, offsets = [], []
    for number, content in enumerate(contents):
        part, offset = _nested(content, view, path, base, f"Executable {number}")
        executables.append(flat.decode(Executable, part, path=path, base=offset))
        offsets.append(offset)
        _validate(executables[-1], _Place(path, offset, f"Executable {number}", part))
    file = PackageFile(package=package, executables=executables, path=path, offsets=tuple(offsets))
    file.diagnostics = tuple(check_runtime(file))
    return file


def package_of(
    executables: Sequence[Executable], path: str = "", offsets: tuple[int, ...] = ()
) -> PackageFile:
    """A package of executables, checked as `read_package` checks those that it reads.

    Args:
        executables: its executables.
        path: name of the file that they came from, for errors.
        offsets: where they begin in that file, one each; empty if not from a file.

    Raises:
        FormatError: the runtime would refuse what they say.
    """
    for number, executable in enumerate(executables):
        offset = offsets[number] if number < len(offsets) else None
        _validate(executable, _Place(path, offset, f"Executable {number}", None))
    file = PackageFile(executables=list(executables), path=path, offsets=offsets)
    file.diagnostics = tuple(check_runtime(file))
    return file


def write_package(file: PackageFile) -> bytes:
    """Write a package; equal packages give equal bytes.

    Raises:
        FormatError: `read_package` or the runtime would refuse it.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    return package_pieces(file).joined()


def package_pieces(file: PackageFile) -> Pieces:
    """The same as `write_package`, as part of something larger that is yet to be joined.

    Raises:
        FormatError: as `write_package`.
        UnsupportedError: as `write_package`.
    """
    check_runtime(file)
    contents: list[Array] = []
    for number, executable in enumerate(file.executables):
        _validate(executable, _Place(file.path, None, f"Executable {number}", None))
        contents.append(unjoined(flat.pieces(executable)))
    multi = flat.pieces(MultiExecutable(serialized_executables=contents))
    package = dataclasses.replace(file.package, serialized_multi_executable=unjoined(multi))
    return flat.pieces(package, identifier=IDENTIFIER)


def read_executable(
    data: bytes | bytearray | memoryview, path: str = "", base: int = 0
) -> Executable:
    """Read one serialized executable; arguments and errors are those of `read_package`."""
    view = memoryview(data).toreadonly().cast("B")
    executable = flat.decode(Executable, view, path=path, base=base)
    place = _Place(path, base, "Executable", view)
    _validate(executable, place)
    _check_executable(executable, place)
    return executable


def write_executable(executable: Executable) -> bytes:
    """Write one executable as a flatbuffer of its own.

    Raises:
        FormatError: `read_executable` would refuse it.
    """
    place = _Place("", None, "Executable", None)
    _validate(executable, place)
    _check_executable(executable, place)
    return flat.encode(executable)


def diff(a: PackageFile, b: PackageFile) -> list[str]:
    """What two packages say differently, one line each with its path; order of bytes is ignored."""
    one, other = (
        dataclasses.replace(file.package, serialized_multi_executable=None) for file in (a, b)
    )
    return [
        *flat.diff(one, other, "package"),
        *flat.diff(a.executables, b.executables, "executables"),
    ]


# --- rules of the runtime ------------------------------------------------------------------------


def check_runtime(file: PackageFile) -> list[Diagnostic]:
    """Check a package as the runtime's driver does before it runs it.

    The signature and the name of the chip are not looked at.

    Returns:
        What the driver would warn of.

    Raises:
        FormatError: no executable, a set of types that cannot be run, no batch, no instructions.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    diagnostics = _check_header(file.package, file.path)
    _check_types(file)
    diagnostics += _check_tokens(file)
    for number, executable in enumerate(file.executables):
        offset = file.offsets[number] if number < len(file.offsets) else None
        place = _Place(file.path, offset, f"Executable {number}", None)
        _check_executable(executable, place)
    return diagnostics


def _check_header(package: Package, path: str) -> list[Diagnostic]:
    where = ", ".join(part for part in (path, "Package") if part)
    version = package.min_runtime_version
    if version > MAX_RUNTIME_VERSION:
        raise UnsupportedError(
            f"the package asks for runtime version {version},"
            f" {MAX_RUNTIME_VERSION} is the last known",
            where=where,
            hint="compile the model for an older runtime (edgetpu_compiler --min_runtime_version)",
        )
    if package.virtual_chip_id == MULTIPLE_CHIPS:
        raise UnsupportedError(
            "the package is for several chips", where=where, hint="compile the model for one chip"
        )
    if version >= MIN_RUNTIME_VERSION:
        return []
    return [
        Diagnostic(
            Severity.WARNING,
            "darwinn-old-package",
            where,
            f"the package is for runtime version {version}",
            reason=f"runtimes warn below {MIN_RUNTIME_VERSION}",
            hint="compile the model again",
        )
    ]


def _check_tokens(file: PackageFile) -> list[Diagnostic]:
    """The driver keeps cached parameters only while the token stays the same."""
    tokens = {executable.parameter_caching_token for executable in file.executables}
    if file.caching is None or (len(tokens) == 1 and 0 not in tokens):
        return []
    return [
        Diagnostic(
            Severity.WARNING,
            "darwinn-token",
            ", ".join(part for part in (file.path, "Package") if part),
            f"the executables have the caching tokens {', '.join(map(hex, sorted(tokens)))}",
            reason="parameters stay on the chip while tokens are equal and not 0",
            hint="link the package again",
        )
    ]


_RUNNABLE = (
    {ExecutableType.PARAMETER_CACHING, ExecutableType.EXECUTION_ONLY},
    set(ExecutableType),
)
"""Sets of types that packages with more than one executable may have."""


def _check_types(file: PackageFile) -> None:
    offset = file.offsets[0] if file.offsets else None
    types = [executable.type for executable in file.executables]
    if not types:
        raise FormatError("the package has no executable", path=file.path, table="MultiExecutable")
    if len(types) == 1 or (len(set(types)) == len(types) and set(types) in _RUNNABLE):
        return
    names = [ExecutableType(t).name if t in set(ExecutableType) else str(t) for t in types]
    raise FormatError(
        f"executables of the types {', '.join(names)}, which the runtime cannot run together",
        path=file.path,
        offset=offset,
        table="MultiExecutable",
        hint="one executable, PARAMETER_CACHING with EXECUTION_ONLY, or one of each type",
    )


def _check_executable(executable: Executable, place: _Place) -> None:
    if executable.batch_size < 1:
        raise place.fail(f"batch size {executable.batch_size}")
    if not executable.instruction_bitstreams:
        raise place.fail("no instructions", ".instruction_bitstreams")
    for number, chunk in enumerate(executable.instruction_bitstreams):
        if chunk.bitstream is None or not len(chunk.bitstream):
            raise place.fail(
                "an empty chunk of instructions", f".instruction_bitstreams[{number}]",
                hint="the file was cut off, or its compilation failed",
            )  # fmt: skip


# --- checks of the structure ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a table is: for errors only."""

    path: str
    base: int | None
    table: str
    data: memoryview | None

    def fail(
        self, what: str, below: str = "", part: Array | None = None, hint: str = ""
    ) -> FormatError:
        """An error at a part of the table, or at the table if the place of the part is unknown."""
        offset = self.base
        if offset is not None and part is not None and self.data is not None:
            offset += flat.offset_of(part, self.data) or 0
        return FormatError(what, path=self.path, offset=offset, table=self.table + below, hint=hint)


def _nested(
    content: Array | None, view: memoryview, path: str, base: int, table: str
) -> tuple[memoryview, int]:
    """A flatbuffer inside another one, and its offset in the file."""
    if content is None or not len(content):
        raise FormatError("no contents", path=path, offset=base, table=table)
    at = flat.offset_of(content, view) or 0
    return view[at : at + len(content)], base + at


def _validate(executable: Executable, place: _Place) -> None:
    """Check every enumerator, index and extent of an executable."""
    _check_enum(executable.type, ExecutableType, place, ".type")
    for name in ("input_layers", "output_layers"):
        seen = set()
        for number, layer in enumerate(getattr(executable, name) or ()):
            below = f".{name}[{number}]"
            if layer.name in seen:
                raise place.fail(f"a second layer named {layer.name!r}", below)
            seen.add(layer.name)
            _check_layer(
                layer, OutputLayer if name == "output_layers" else InputLayer, place, below
            )
    sizes = _BufferSizes(executable)
    for number, chunk in enumerate(executable.instruction_bitstreams or ()):
        _check_chunk(chunk, sizes, place, f".instruction_bitstreams[{number}]")
    if executable.dma_hints is not None:
        chunks = len(executable.instruction_bitstreams or ())
        for number, hint in enumerate(executable.dma_hints.hints or ()):
            _check_hint(hint, chunks, sizes, place, f".dma_hints.hints[{number}]")


def _check_enum(value: int, kind: type[IntEnum], place: _Place, below: str) -> None:
    # Membership of the class itself would need a value that is in it.
    if value not in kind._value2member_map_:
        raise place.fail(f"{kind.__name__} {value} is unknown", below)


class _BufferSizes:
    """Sizes in bytes of the buffers that an executable's addresses refer to."""

    def __init__(self, executable: Executable) -> None:
        self.batches = max(executable.batch_size, 1)
        self.fixed = {
            Description.BASE_ADDRESS_PARAMETER: _length(executable.parameters),
            Description.BASE_ADDRESS_SCRATCH: executable.scratch_size_bytes,
        }
        self.layers = {
            Description.BASE_ADDRESS_INPUT_ACTIVATION: _layer_sizes(executable.input_layers),
            Description.BASE_ADDRESS_OUTPUT_ACTIVATION: _layer_sizes(executable.output_layers),
        }

    def of(self, meta: Meta | None, place: _Place, below: str) -> int:
        """Size of the buffer that a table names."""
        if meta is None:
            raise place.fail("it names no buffer", below)
        _check_enum(meta.desc, Description, place, f"{below}.meta")
        _check_enum(meta.position, Position, place, f"{below}.meta")
        desc = Description(meta.desc)
        if desc in self.fixed:
            return self.fixed[desc]
        size = self.layers[desc].get(meta.name or "")
        if size is None:
            raise place.fail(f"{desc.name} of {meta.name!r}, which is no layer", f"{below}.meta")
        if not 0 <= meta.batch < self.batches:
            raise place.fail(f"batch {meta.batch} of {self.batches}", f"{below}.meta")
        return size


def _length(values: Array | None) -> int:
    return 0 if values is None else len(values)


def _layer_sizes(layers: Iterable[Layer] | None) -> dict[str, int]:
    return {
        layer.name or "": layer.size_bytes * layer.execution_count_per_inference
        for layer in layers or ()
    }


def _check_chunk(
    chunk: InstructionBitstream, sizes: _BufferSizes, place: _Place, below: str
) -> None:
    length = _length(chunk.bitstream)
    if length % BUNDLE_BYTES:
        raise place.fail(
            f"a bitstream of {length} bytes, instructions have {BUNDLE_BYTES}",
            below, chunk.bitstream,
        )  # fmt: skip
    for number, item in enumerate(chunk.field_offsets or ()):
        where = f"{below}.field_offsets[{number}]"
        sizes.of(item.meta, place, where)
        if not 0 <= item.offset_bit <= 8 * length - FIELD_BITS:
            raise place.fail(
                f"a field of {FIELD_BITS} bits at bit {item.offset_bit} of {8 * length}",
                where, chunk.bitstream,
            )  # fmt: skip


def _check_hint(hint: DmaHint, chunks: int, sizes: _BufferSizes, place: _Place, below: str) -> None:
    _check_enum(hint.direction, Direction, place, below)
    step = hint.any_hint
    if step is None:
        raise place.fail("a hint of no kind", below)
    if isinstance(step, InstructionHint):
        if not 0 <= step.instruction_chunk_index < chunks:
            raise place.fail(f"chunk {step.instruction_chunk_index} of {chunks}", below)
    elif isinstance(step, InterruptHint):
        _check_enum(step.type, InterruptType, place, below)
    elif isinstance(step, DmaDescriptorHint):
        size = sizes.of(step.meta, place, below)
        start, length = step.offset_in_bytes, step.size_in_bytes
        if start < 0 or length < 0 or start + length > size:
            raise place.fail(f"{length} bytes at {start} of a buffer of {size}", below)


def _check_layer(
    layer: Layer, kind: type[InputLayer | OutputLayer], place: _Place, below: str
) -> None:
    _check_enum(layer.data_type, DataType, place, below)
    if not isinstance(layer.any_layer, kind):
        raise place.fail(f"it is no {kind.__name__}", below)
    if min(layer.extent) < 1:
        raise place.fail(f"an extent of {list(layer.extent)} in y, x and z", below)
    if layer.execution_count_per_inference < 1:
        raise place.fail(f"{layer.execution_count_per_inference} executions", below)
    if layer.size_bytes < layer.packed_bytes:
        raise place.fail(
            f"{layer.size_bytes} bytes for {list(layer.extent)} elements of"
            f" {layer.element.itemsize} bytes",
            below,
        )
    for shape in _shapes(layer):
        for first, last in () if shape.dimension is None else shape.dimension.tolist():
            if last < first:
                raise place.fail(f"indices {first} to {last}", f"{below}.shape", shape.dimension)
    if isinstance(layer.any_layer, OutputLayer) and max(layer.y_dim, layer.x_dim) > 1:
        _check_layout(layer, layer.any_layer, place, f"{below}.layout")


def _shapes(layer: Layer) -> Iterator[TensorShape]:
    if layer.shape is not None:
        yield layer.shape
    if isinstance(layer.any_layer, OutputLayer) and layer.any_layer.shape_info is not None:
        for item in layer.any_layer.shape_info.slice_layout or ():
            if item.shape is not None:
                yield item.shape


_MOST_REGIONS = 1 << 16
"""Most combinations of tile rows and columns of one output to look at, unless its tables are longer
themselves: an image has 16, and an output of several tensors one for each group of elements."""


def _check_layout(layer: Layer, output: OutputLayer, place: _Place, below: str) -> None:
    """Check that all elements of an output lie inside its buffer."""
    layout = output.layout
    if layout is None:
        if output.shape_info is None:
            raise place.fail("an output of more than one dimension needs a layout", below)
        return
    y_tile, x_tile, tile, x_byte, y_row, row_size = (
        _coordinates(layout, name, place, below) for _, name, _kind in layout.declared().fields
    )
    counts: Sequence[tuple[str, int, int]] = (
        ("y", len(y_tile), layer.y_dim), ("y", len(y_row), layer.y_dim),
        ("x", len(x_tile), layer.x_dim), ("x", len(x_byte), layer.x_dim),
        ("x", len(row_size), layer.x_dim),
    )  # fmt: skip
    for axis, found, wanted in counts:
        if found != wanted:
            raise place.fail(f"{found} coordinates in {axis}, expected {wanted}", below)
    if y_tile.max() + x_tile.max() >= len(tile):
        raise place.fail(f"tile {y_tile.max() + x_tile.max()} of {len(tile)}", below)
    # Of all elements that share a tile and its row size, the last row and column end last.
    rows, local_rows = _greatest(y_tile[None], y_row)
    columns, local_bytes = _greatest(np.stack((x_tile, row_size)), x_byte)
    most = max(_MOST_REGIONS, len(y_tile) + len(x_tile))
    if len(local_rows) * len(local_bytes) > most:
        raise place.fail(f"more than {most} regions", below)
    last = tile[rows[0, :, None] + columns[0]] + local_rows[:, None] * columns[1] + local_bytes
    end = (int(last.max()) + layer.z_dim) * layer.element.itemsize
    if end > layer.size_bytes:
        raise place.fail(f"an element ends at byte {end} of {layer.size_bytes}", below)


def _greatest(keys: Array, values: Array) -> tuple[Array, Array]:
    """Distinct columns of `keys`, and for each the greatest of its `values`; these are >= 0."""
    distinct, which = np.unique(keys, axis=1, return_inverse=True)
    most = np.zeros(distinct.shape[1], np.int64)
    np.maximum.at(most, which.reshape(-1), values)
    return distinct, most


def _coordinates(layout: OutputLayout, name: str, place: _Place, below: str) -> Array:
    values = getattr(layout, name)
    if values is None or not len(values):
        raise place.fail("no coordinates", f"{below}.{name}")
    if values.min() < 0:
        raise place.fail(f"coordinate {values.min()}", f"{below}.{name}", values)
    return np.asarray(values, np.int64)


def token_text(token: int) -> str | None:
    """A caching token in hexadecimal, None if nothing is cached.

    A string, because many readers of JSON have no exact numbers of 64 bits.
    """
    return f"{token:#018x}" if token else None


def caching_token(blobs: Iterable[bytes | memoryview | Array]) -> int:
    """Token of packages that share the chip: equal blobs in equal order give equal tokens.

    The runtime loads parameters again when it meets another token.

    Args:
        blobs: parameters that every package caches, in order of the packages.

    Returns:
        A number of 64 bits, never 0, which would mean no caching.
    """
    digest = hashlib.sha256()
    for blob in blobs:
        data = np.frombuffer(blob, np.uint8)
        digest.update(data.nbytes.to_bytes(8, "little"))
        digest.update(data.tobytes())
    return int.from_bytes(digest.digest()[:8], "little") or 1
