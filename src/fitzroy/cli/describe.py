"""What is in a file, as plain dicts: the JSON of ``inspect``, and the source of its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.cli import describe_edgetpu
from fitzroy.cli.describe_module import describe_module
from fitzroy.cli.describe_onnx import describe_onnx
from fitzroy.cli.programs import method_types
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, parse_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.opaque import OpaqueAttributes, opaque_nodes
from fitzroy.formats import (
    bundled,
    bytecode_module,
    custom_op,
    darwinn,
    flat,
    object_file,
    tflite,
    xnnpack,
)
from fitzroy.formats import executorch as et
from fitzroy.formats.detect import FileKind, detect
from fitzroy.formats.flat import ints

Document = dict[str, Any]


def describe(data: bytes, path: str) -> Document:
    """What is in a file.

    Raises:
        FormatError: the file is malformed or of no known format.
    """
    kind = detect(data, path)
    describers = {
        FileKind.TFLITE: _tflite,
        FileKind.ONNX: describe_onnx,
        FileKind.PROGRAM: _program,
        FileKind.BUNDLED_PROGRAM: _bundle,
        FileKind.BUNDLED_PROGRAM_BP04: _bundle,
        FileKind.XNNPACK: _xnnpack,
        FileKind.DARWINN: _package,
        FileKind.EXECUTABLE: _executable,
        FileKind.OBJECT: _object,
        FileKind.MODULE: describe_module,
        FileKind.GRAPH_TEXT: _text,
    }
    found = describers[kind](data, path)
    return {"file": path, "kind": kind.value, "bytes": len(data), **found}


def no_reader(kind: FileKind, path: str) -> UnsupportedError:
    """The error for formats that a verb does not take."""
    return UnsupportedError(f"this is {kind.noun}, which is not supported here", where=path)


def raw_tables(data: bytes, path: str) -> Document:
    """Every table of a file as the schema has it; byte vectors by their length.

    Integers of 64 bits are strings.

    Raises:
        FormatError: the file is malformed, of no known format, or has no tables.
        UnsupportedError: its format has no reader here.
    """
    kind = detect(data, path)
    if kind is FileKind.TFLITE:
        return _tables(tflite.read_model(data, path))
    if kind is FileKind.XNNPACK:
        return _tables(xnnpack.read_blob(data, path=path).graph)
    if kind is FileKind.PROGRAM:
        return _program_tables(et.read_program(data, path=path))
    if kind is FileKind.DARWINN:
        package = darwinn.read_package(data, path)
        tables = [_tables(executable) for executable in package.executables]
        return {"package": _tables(package.package), "executables": tables}
    if kind is FileKind.EXECUTABLE:
        return _tables(darwinn.read_executable(data, path))
    if kind is FileKind.OBJECT:
        return _tables(object_file.read_object(data, path))
    if kind is FileKind.MODULE:
        return _tables(bytecode_module.read_module(data, path))
    if kind is FileKind.BUNDLED_PROGRAM:
        root: flat.Table = flat.decode(bundled.BundledProgram, data, path=path)
    elif kind is FileKind.BUNDLED_PROGRAM_BP04:
        root = flat.decode(bundled.OldBundledProgram, data, path=path)
    elif kind is FileKind.GRAPH_TEXT:
        raise FormatError("a graph text has no tables", path=path, hint="it is readable as it is")
    else:
        raise no_reader(kind, path)
    program = bundled.read_bundle(data, path=path).program
    return {
        "bundle": _tables(root),
        **_program_tables(et.read_program(program, path=path)),
    }


def _program_tables(file: et.ProgramFile) -> Document:
    graphs = [
        _tables(xnnpack.read_blob(file.delegate_data(delegate), path=file.path).graph)
        for plan in file.program.execution_plan or ()
        for delegate in plan.delegates or ()
        if delegate.id == et.XNNPACK_BACKEND
    ]
    return {"program": _tables(file.program), "xnnpack": graphs}


def _tables(value: flat.Table) -> Document:
    found = flat.as_dict(value, exact=True)
    assert isinstance(found, dict)
    return found


# --- common --------------------------------------------------------------------------------------


def histogram(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, the most frequent first."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def tensor(name: str, type: TensorType) -> Document:
    """A tensor."""
    result: Document = {"name": name, "dtype": type.dtype.value, "shape": list(type.shape)}
    q = type.quantization
    if q is not None:
        result["quantization"] = _quantization(q.scale, q.zero_point, q.axis)
    return result


def _quantization(scale: Sequence[float], zero: Sequence[int], axis: int | None) -> Document:
    return {"scale": list(scale), "zero_point": list(zero), "axis": axis}


# --- TFLite --------------------------------------------------------------------------------------


def _tflite(data: bytes, path: str) -> Document:
    model = tflite.read_model(data, path)
    packages = {
        (found.subgraph, found.operator): describe_edgetpu.custom_op(found)
        for found in custom_op.extract(model, path, data)
    }
    subgraphs = [_subgraph(model, subgraph, path) for subgraph in model.subgraphs or ()]
    for (number, index), package in packages.items():
        subgraphs[number]["operators"][index]["package"] = package
    _mark_opaque(subgraphs, model, path)
    return {
        "description": model.description or "",
        "subgraphs": subgraphs,
        "signatures": [entry.signature_key or "" for entry in model.signature_defs or ()],
        "metadata": [
            {
                "name": entry.name or "",
                "bytes": len(tflite.buffer_bytes(model, entry.buffer, path)),
            }
            for entry in model.metadata or ()
            if entry.buffer < max(len(model.buffers or ()), 1)
        ],
        "stale metadata": tflite.stale_metadata(model),
        **_packed(model),
    }


def _packed(model: tflite.Model) -> Document:
    """Files that are packed after a model, and the names of classes in them."""
    from fitzroy.formats.labels import labels_of

    files = {} if model.archive is None else model.archive.files
    return {
        "packed_files": [{"name": name, "bytes": len(content)} for name, content in files.items()],
        **labels_of(model).document,
    }


def _subgraph(model: tflite.Model, subgraph: tflite.SubGraph, path: str) -> Document:
    tensors = [_tflite_tensor(item) for item in subgraph.tensors or ()]
    constant = [
        len(tflite.buffer_bytes(model, item.buffer, path)) for item in subgraph.tensors or ()
    ]
    operators = []
    for number, operator in enumerate(subgraph.operators or ()):
        entry: Document = {
            "index": number,
            "op": tflite.operator_name(model, operator),
            "inputs": [None if i < 0 else tensors[i] for i in ints(operator.inputs)],
            "outputs": [tensors[i] for i in ints(operator.outputs)],
        }
        if operator.custom_options is not None:
            entry["custom_options_bytes"] = len(operator.custom_options)
        operators.append(entry)
    return {
        "name": subgraph.name or "",
        "inputs": [tensors[i] for i in ints(subgraph.inputs)],
        "outputs": [tensors[i] for i in ints(subgraph.outputs)],
        "tensors": len(tensors),
        "constants": {"count": sum(map(bool, constant)), "bytes": sum(constant)},
        "histogram": histogram(entry["op"] for entry in operators),
        "operators": operators,
    }


def _mark_opaque(subgraphs: Sequence[Document], model: tflite.Model, path: str) -> None:
    """Say of operators that have no class here why that is."""
    for number, subgraph in enumerate(subgraphs):
        try:
            graph = import_model(model, path=path, subgraph=number)
        except FitzroyError:
            # Tables are shown whether or not a compiler could use them.
            continue
        for node in opaque_nodes(graph):
            assert isinstance(node.attributes, OpaqueAttributes)
            assert node.origin is not None
            entry = subgraph["operators"][node.origin.index]
            if "package" not in entry:
                entry["opaque"] = node.attributes.why


def _tflite_tensor(item: tflite.Tensor) -> Document:
    """A tensor as the file has it, whether or not the compiler could use it."""
    types = set(tflite.TensorType)
    result: Document = {
        "name": item.name or "",
        "dtype": tflite.TensorType(item.type).name.lower() if item.type in types else "unknown",
        "shape": list(ints(item.shape)),
    }
    q = item.quantization
    if q is not None and q.scale is not None and len(q.scale):
        scale, zero = [float(value) for value in q.scale], list(ints(q.zero_point)) or [0]
        axis = q.quantized_dimension if len(scale) > 1 else None
        result["quantization"] = _quantization(scale, zero, axis)
    return result


# --- Edge TPU ------------------------------------------------------------------------------------


def _package(data: bytes, path: str) -> Document:
    return describe_edgetpu.package(darwinn.read_package(data, path))


def _executable(data: bytes, path: str) -> Document:
    executable = darwinn.read_executable(data, path)
    file = darwinn.PackageFile(executables=[executable], path=path)
    return describe_edgetpu.executables(file)


def _object(data: bytes, path: str) -> Document:
    return describe_edgetpu.object_file(object_file.read_object(data, path), path)


# --- graph text ----------------------------------------------------------------------------------


def _text(data: bytes, path: str) -> Document:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("a graph text must be UTF-8", path=path, offset=error.start) from None
    return {"subgraphs": [graph(parse_graph(text, attributes_of, path=path))]}


def graph(source: Graph) -> Document:
    """A graph of the compiler."""
    constants = [v.data.nbytes for v in source.values.values() if v.data is not None]
    operators = []
    for number, node in enumerate(source.nodes()):
        entry: Document = {
            "index": number,
            "op": node.op,
            "inputs": [None if n is None else tensor(n, source.type(n)) for n in node.inputs],
            "outputs": [tensor(name, source.type(name)) for name in node.outputs],
        }
        if isinstance(node.attributes, OpaqueAttributes):
            entry["op"] = node.attributes.code
            entry["custom_options_bytes"] = len(node.attributes.options)
        operators.append(entry)
    return {
        "name": source.name,
        "inputs": [tensor(name, source.type(name)) for name in source.inputs],
        "outputs": [tensor(name, source.type(name)) for name in source.outputs],
        "tensors": len(source.values),
        "constants": {"count": len(constants), "bytes": sum(constants)},
        "histogram": histogram(entry["op"] for entry in operators),
        "operators": operators,
    }


# --- XNNPACK -------------------------------------------------------------------------------------


def _xnnpack(data: bytes, path: str) -> Document:
    return blob(xnnpack.read_blob(data, path=path))


def blob(source: xnnpack.Blob) -> Document:
    """A graph of the XNNPACK backend."""
    root = source.graph
    values = {}
    constants = []
    for entry in root.xvalues or ():
        described = _xnnpack_value(entry)
        if described is not None:
            values[described["id"]] = described
            constants += [described] if described["constant"] else []
    nodes = []
    for number, item in enumerate(root.xnodes or ()):
        node = item.node
        name = type(node).__name__.removeprefix("XNN") if node is not None else "none"
        row: Document = {"index": number, "op": name, "inputs": [], "outputs": []}
        for field in getattr(node, "__dataclass_fields__", {}):
            identifier = getattr(node, field)
            if not field.endswith("_id") or identifier == xnnpack.INVALID_ID:
                continue
            if isinstance(node, xnnpack.Concatenation) and not _concatenates(node, field):
                continue
            side = "outputs" if field.startswith("output") else "inputs"
            row[side].append(values.get(identifier))
        clamp = item.output_min_max
        if clamp is not None:
            row["clamp"] = [clamp.output_min, clamp.output_max]
        nodes.append(row)
    flags = xnnpack.ValueFlag
    return {
        "inputs": [v for v in values.values() if v["flags"] & flags.EXTERNAL_INPUT],
        "outputs": [v for v in values.values() if v["flags"] & flags.EXTERNAL_OUTPUT],
        "values": len(values),
        "datatypes": histogram(v["dtype"] for v in values.values()),
        "constants": {
            "count": len(constants),
            "bytes": len(source.constants) or _inline_bytes(root),
        },
        "named_constants": sum(place.named_key is not None for place in root.constant_data or ()),
        "histogram": histogram(row["op"] for row in nodes),
        "operators": nodes,
    }


def _concatenates(node: xnnpack.Concatenation, field: str) -> bool:
    """Whether a concatenation of that many inputs has this operand."""
    digits = "".join(filter(str.isdigit, field))
    return not digits or int(digits) <= int(type(node).__name__[-1])


def _inline_bytes(root: xnnpack.XNNGraph) -> int:
    return sum(
        len(buffer.storage) for buffer in root.constant_buffer or () if buffer.storage is not None
    )


def _xnnpack_value(entry: xnnpack.XValue) -> Document | None:
    value = xnnpack.tensor_of(entry)
    if value is None:
        return None
    known = set(xnnpack.DataType)
    result: Document = {
        "id": value.id_out,
        "name": f"#{value.id_out}",
        "dtype": xnnpack.DataType(value.datatype).name.lower()
        if value.datatype in known
        else "unknown",
        "shape": list(ints(value.dims)),
        "constant": value.constant_buffer_idx != 0,
        "flags": value.flags,
    }
    if value.external_id != xnnpack.INVALID_ID:
        result["external"] = value.external_id
    inner = entry.value
    parameters = inner.quant_params if isinstance(inner, xnnpack.QuantizedTensorValue) else None
    if isinstance(parameters, xnnpack.PerTensorQuant):
        result["quantization"] = _quantization([parameters.scale], [parameters.zero_point], None)
    elif isinstance(parameters, xnnpack.PerChannelQuant | xnnpack.PerChannelGroupQuant):
        scale = [] if parameters.scale is None else [float(x) for x in parameters.scale]
        result["quantization"] = _quantization(scale, [0], parameters.channel_dim)
    return result


# --- ExecuTorch ----------------------------------------------------------------------------------


def _program(data: bytes | memoryview, path: str) -> Document:
    return program(et.read_program(data, path=path))


def program(file: et.ProgramFile) -> Document:
    """An ExecuTorch program."""
    root = file.program
    groups = root.constant_segment.offsets if root.constant_segment is not None else None
    constants: dict[int, int] = {}
    for plan in root.execution_plan or ():
        for value in plan.values or ():
            if isinstance(value.val, et.Tensor) and value.val.is_constant:
                constants[value.val.data_buffer_idx] = value.val.nbytes
    return {
        "methods": [_method(file, plan) for plan in root.execution_plan or ()],
        "constants": {
            "count": max(len(ints(groups)) - 1, 0) or len(constants),
            "bytes": sum(constants.values()),
        },
        "segments": [{"offset": s.offset, "bytes": s.size} for s in root.segments or ()],
        "named_data": [
            {"name": entry.key or "", "bytes": len(file.segments[entry.segment_index])}
            for entry in root.named_data or ()
        ],
    }


def _method(file: et.ProgramFile, plan: et.ExecutionPlan) -> Document:
    inputs, outputs = method_types(file, plan)
    values = plan.values or []
    delegates = [_delegate(file, delegate) for delegate in plan.delegates or ()]
    calls = [
        _call(plan, delegates, instruction.instr_args)
        for chain in plan.chains or ()
        for instruction in chain.instructions or ()
    ]
    return {
        "name": plan.name or "",
        "inputs": [_port(values, i, t) for i, t in zip(ints(plan.inputs), inputs, strict=True)],
        "outputs": [_port(values, i, t) for i, t in zip(ints(plan.outputs), outputs, strict=True)],
        "values": histogram(type(value.val).__name__ for value in values),
        "planned_memory": list(ints(plan.non_const_buffer_sizes)[1:]),
        "calls": calls,
        "kernels": histogram(call["name"] for call in calls if call["call"] == "kernel"),
        "delegates": delegates,
    }


def _port(values: Sequence[et.EValue], index: int, type: TensorType | None) -> Document:
    item = values[index].val
    name = item.name if isinstance(item, et.Tensor) else ""
    if type is None:
        return {"name": name, "dtype": flat_name(item), "shape": []}
    return tensor(name, type)


def flat_name(item: object) -> str:
    """Kind of a value that is no tensor that numpy can express."""
    if isinstance(item, et.Tensor):
        return et.ScalarType(item.scalar_type).name.lower()
    return type(item).__name__


def _delegate(file: et.ProgramFile, delegate: et.BackendDelegate) -> Document:
    data = file.delegate_data(delegate)
    result: Document = {"backend": delegate.id or "", "bytes": len(data)}
    if delegate.id == et.XNNPACK_BACKEND:
        result["graph"] = blob(xnnpack.read_blob(data, path=file.path))
    return result


def _call(
    plan: et.ExecutionPlan, delegates: Sequence[Document], step: flat.Table | None
) -> Document:
    if isinstance(step, et.KernelCall):
        operator = (plan.operators or [])[step.op_index]
        name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        return {"call": "kernel", "name": name or "", "args": list(ints(step.args))}
    if isinstance(step, et.DelegateCall):
        name = f"{delegates[step.delegate_index]['backend']} {step.delegate_index}"
        return {"call": "delegate", "name": name, "args": list(ints(step.args))}
    fields = flat.as_dict(step)
    args = list(fields.values()) if isinstance(fields, Mapping) else []
    return {"call": type(step).__name__.removesuffix("Call").lower(), "name": "", "args": args}


def _bundle(data: bytes, path: str) -> Document:
    bundle = bundled.read_bundle(data, path=path)
    suites = [
        {
            "method": suite.method,
            "cases": [
                {
                    "inputs": [_item(item) for item in case.inputs],
                    "outputs": [_item(item) for item in case.outputs],
                }
                for case in suite.cases
            ],
            "metadata": {key: _extra(value) for key, value in suite.metadata.items()},
        }
        for suite in bundle.suites
    ]
    return {
        "identifier": bundle.identifier.decode(),
        "attachments": {key: _extra(value) for key, value in bundle.attachments.items()},
        "suites": suites,
        "program": {"bytes": len(bundle.program), **_program(bundle.program, path)},
    }


def _item(item: Array | bool | int | float) -> Document:
    if isinstance(item, np.ndarray):
        return {"name": "", "dtype": item.dtype.name, "shape": list(item.shape)}
    return {"name": "", "dtype": type(item).__name__, "shape": [], "value": item}


def _extra(value: bundled.Extra) -> object:
    return {"bytes": len(value)} if isinstance(value, bytes) else value


def tensor_type(tensor: Mapping[str, Any] | None) -> str:
    """Element type and shape of a described tensor."""
    if tensor is None:
        return "-"
    return f"{tensor['dtype']}[{','.join(map(str, tensor['shape']))}]"


def quantization_text(tensor: Mapping[str, Any]) -> str:
    """Quantization of a described tensor; empty if it has none."""
    q = tensor.get("quantization")
    if q is None:
        return ""
    if q["axis"] is not None:
        return f"{len(q['scale'])} scales along axis {q['axis']}"
    return f"scale {q['scale'][0]:.7g}, zero point {q['zero_point'][0]}"


def signature_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each of the described inputs and outputs."""
    rows = []
    for side in ("inputs", "outputs"):
        for tensor in document[side]:
            quantization = quantization_text(tensor)
            text = f"{tensor['name']}: {tensor_type(tensor)}"
            rows.append((side[:-1], f"{text}, {quantization}" if quantization else text))
    return rows
