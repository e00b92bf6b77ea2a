"""ONNX files to checked protocol buffers and arrays.

The package ``onnx`` decodes files. What it leaves unchecked is checked here: sizes, external data,
versions of operator sets.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.frontend import Given
from fitzroy.compiler.frontends.onnx.order import bodies
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape
from fitzroy.compiler.frontends.shapes import closed_shape, open_shape

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, ValueInfoProto

    from fitzroy.formats.labels import Found

OLDEST = 7
"""The oldest operator set of the default domain that is read."""

_DEEPEST = 64
"""Graphs inside one another beyond which names are not looked at: none is imported."""

DOMAINS = {"": "", "ai.onnx": ""}
"""Names of the default domain."""


def library() -> Any:
    """The package ``onnx``.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise UsageError(
            "reading ONNX models takes the package onnx",
            reason=str(error),
            hint=install_extra("onnx"),
        ) from None
    return onnx


def decode(data: bytes, path: str) -> ModelProto:
    """The protocol buffer of a file.

    Raises:
        UsageError: the package ``onnx`` is missing.
        FormatError: the bytes are no ONNX model.
    """
    onnx = library()
    from google.protobuf.message import DecodeError

    try:
        model: ModelProto = onnx.ModelProto.FromString(bytes(data))
    except (DecodeError, RecursionError) as error:
        raise FormatError(f"no ONNX model: {error}", path=path) from None
    if not model.HasField("graph"):
        raise FormatError("the file holds no graph", path=path, table="ModelProto")
    names = [
        name
        for root in (model.graph, *model.functions)
        for body in (root, *bodies(root.node, _DEEPEST))
        for name in _names(body)
    ]
    names += [*(entry.domain for entry in model.opset_import)]
    broken = next((name for name in names if not isinstance(name, str)), None)
    if broken is not None:
        raise FormatError(f"a name that is no text, {broken!r}", path=path)
    return model


def labels(model: ModelProto) -> Found:
    """Names of classes that a model has in its metadata, as exports of Ultralytics do."""
    from fitzroy.formats.labels import Found, read_names

    for entry in model.metadata_props:
        if entry.key == "names":
            try:
                # Text that is none comes as bytes.
                return Found(read_names(entry.value if isinstance(entry.value, str) else ""))
            except FormatError as error:
                return Found({}, (f"metadata {entry.key!r}: {error.what}",))
    return Found({})


_MOST_METADATA = 1 << 20
"""Most characters of metadata that go into other files."""


def files(model: ModelProto, found: Found) -> dict[str, bytes]:
    """What a TFLite model is to have packed of a model's metadata.

    Of exports of Ultralytics, that is the same metadata as in its exports to TFLite, with which its
    programs load them: they read the first packed file.

    Args:
        model: the model.
        found: its labels.
    """
    entries = {entry.key: entry.value for entry in model.metadata_props}
    text = all(isinstance(item, str) for pair in entries.items() for item in pair)
    if not found.labels or "task" not in entries or not text:
        return {}
    from fitzroy.formats.labels import packed_labels

    data = json.dumps(entries, indent=2).encode()
    metadata = {"metadata.json": data} if len(data) <= _MOST_METADATA else {}
    return {**metadata, **packed_labels(found.labels)}


def _names(body: GraphProto | FunctionProto) -> Iterator[str]:
    """Every name in a graph or a function, without those in the graphs inside its operators.

    Names that are no text come as bytes.
    """
    for node in body.node:
        yield from (node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            yield attribute.ref_attr_name
    yield body.name
    if hasattr(body, "initializer"):
        yield from (tensor.name for tensor in body.initializer)
        yield from (sparse.values.name for sparse in body.sparse_initializer)
        yield from (info.name for info in (*body.input, *body.output))
    else:
        yield from (body.domain, *body.input, *body.output, *body.attribute)


def operator_sets(model: ModelProto, path: str) -> dict[str, int]:
    """Versions of operator sets by domain.

    Raises:
        FormatError: a domain has two versions.
        UnsupportedError: the default domain's is too old or unknown.
    """
    onnx = library()
    found: dict[str, int] = {}
    for entry in model.opset_import:
        domain = DOMAINS.get(entry.domain, entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise FormatError(f"two versions of the operator set {entry.domain!r}", path=path)
    newest = onnx.defs.onnx_opset_version()
    version = found.setdefault("", 1)
    if not OLDEST <= version <= newest:
        raise UnsupportedError(
            f"operator set {version} of ONNX is not read; {OLDEST} to {newest} are",
            where=path,
            hint="export the model again with another opset"
            if version < OLDEST
            else "install a newer package onnx, or export the model with an older opset",
        )
    return found


# --- element types -----------------------------------------------------------------------------


def element_type(code: int) -> DType:
    """The element type of ONNX's number.

    Raises:
        Refusal: graphs do not have it.
    """
    types = library().TensorProto.DataType
    names = {"FLOAT": "float32", "DOUBLE": "float64"}
    try:
        name = types.Name(code)
        # Complex numbers are only within Fourier transforms of TFLite.
        return DType(names.get(name, "" if "COMPLEX" in name else name.lower()))
    except ValueError:
        known = types.Name(code) if code in types.values() else str(code)
        raise Refusal("onnx-element-type", f"elements of type {known}") from None


# --- tensors -----------------------------------------------------------------------------------


def array(tensor: TensorProto, path: str) -> Array:
    """Elements of a constant.

    Raises:
        FormatError: the data do not fill the shape, or lie outside the model's folder.
        CapacityError: they take more memory than the budget has.
        Refusal: the element type is none of ours.
    """
    onnx = library()
    table = f"TensorProto {tensor.name!r}"
    if any(extent < 0 for extent in tensor.dims):
        raise FormatError(f"a negative extent in {list(tensor.dims)}", path=path, table=table)
    if tensor.data_type == onnx.TensorProto.STRING:
        raise Refusal("onnx-element-type", "a constant of strings")
    if tensor.data_type not in _WIDENED:
        element_type(tensor.data_type)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor = _embedded(tensor, path)
    size = math.prod(tensor.dims)
    held = tensor.ByteSize()
    if size > 4 * held + 4:
        # Elements of 2 bits are the smallest there are.
        raise FormatError(
            f"{held} bytes hold no {size} elements of {list(tensor.dims)}", path=path, table=table
        )
    budget.demand(8 * size, f"constant {tensor.name!r}", where=path)
    try:
        data = np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"the data do not fit: {error}", path=path, table=table) from None
    if data.shape != tuple(tensor.dims):
        raise FormatError(f"data of shape {list(data.shape)}", path=path, table=table)
    return native(data)


_WIDENED = (16, 21, 22, 25, 26)
"""ONNX's numbers of bfloat16 and of integers of 2 and 4 bits, which only constants may have."""


def native(data: Array) -> Array:
    """Elements in a type that numpy itself has."""
    if data.dtype.name == "bfloat16":
        return data.astype(np.float32)
    if data.dtype.name in ("int4", "int2"):
        return data.astype(np.int8)
    if data.dtype.name in ("uint4", "uint2"):
        return data.astype(np.uint8)
    return data.astype(data.dtype.newbyteorder("="), copy=False)


def _embedded(tensor: TensorProto, path: str) -> TensorProto:
    """A constant with its data, which lie in another file of the model's folder.

    Raises:
        FormatError: the file lies elsewhere, is missing or too short.
    """
    table = f"TensorProto {tensor.name!r}"
    fields = {entry.key: entry.value for entry in tensor.external_data}
    folder = Path(path).resolve().parent
    name = fields.get("location", "")
    try:
        target = (folder / name).resolve()
        offset, length = int(fields.get("offset") or 0), fields.get("length")
        inside = bool(name) and target.is_relative_to(folder) and target.is_file()
    except (OSError, ValueError) as error:
        raise FormatError(f"external data: {error}", path=path, table=table) from None
    if not inside:
        raise FormatError(
            f"external data in {name!r}, which is no file in the model's folder",
            path=path,
            table=table,
            hint="put the file beside the model",
        )
    available = max(target.stat().st_size - offset, 0)
    count = int(length) if length and length.isdecimal() else available
    if offset < 0 or count > available:
        raise FormatError(
            f"external data of {count} bytes at {offset} of {name!r}, which has "
            f"{target.stat().st_size}",
            path=path,
            table=table,
        )
    budget.demand(2 * count, f"constant {tensor.name!r}", where=path)
    with open(target, "rb") as file:
        os.lseek(file.fileno(), offset, os.SEEK_SET)
        raw = file.read(count)
    copy: TensorProto = library().TensorProto()
    copy.name, copy.data_type, copy.raw_data = tensor.name, tensor.data_type, raw
    copy.dims.extend(tensor.dims)
    return copy


# --- inputs ------------------------------------------------------------------------------------


def stated_extents(info: ValueInfoProto) -> tuple[int | None, ...] | None:
    """The extents that the file gives an input, None for open ones; None if it gives no shape."""
    type = info.type.tensor_type
    if not type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in type.shape.dim
    )


def input_shape(info: ValueInfoProto, given: Shape | None, path: str) -> Shape:
    """The shape of an input, with extents that the model leaves open taken from `given`.

    The first dimension, where it is open, counts 1.

    Raises:
        UsageError: the given shape does not fit.
        UnsupportedError: extents are open and no shape is given.
    """
    extents = stated_extents(info)
    if extents is None:
        if given is None:
            raise open_shape(info.name, "any shape", f"{info.name}=1x...", path)
        return given
    return closed_shape(info.name, extents, given, path)


def fixed_input(
    info: ValueInfoProto,
    given: tuple[Mapping[str, Shape], Mapping[str, Given]],
    dtype: DType,
    path: str,
) -> Array | None:
    """The value that an input is fixed to; None if it stays an input.

    Of an input that is given both a shape and a value, the value counts if it has no dimensions.

    Args:
        info: the input.
        given: shapes and values by name.
        dtype: its element type.
        path: name of the file, for errors.

    Raises:
        UsageError: the value does not fit the input.
    """
    (shapes, values), name = given, info.name
    type = info.type.tensor_type
    value = values.get(name)
    if value is None or (name in shapes and type.shape.dim):
        return None
    try:
        wide = np.asarray(value)
        with np.errstate(all="ignore"):
            array = wide.astype(dtype.numpy)
        fits = wide.dtype.kind in "biuf" and (array.dtype.kind == "f" or (array == wide).all())
    except (ValueError, OverflowError):
        fits = False
    if not fits:
        raise UsageError(f"input {name!r} is {dtype.value}, and {value} is none", where=path)
    input_shape(info, array.shape, path)
    return array
