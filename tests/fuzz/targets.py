"""What a file of each format goes through: its reader, and all that looks at the result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from fitzroy.api import compile
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.passes.uint8 import Uint8Policy
from fitzroy.compiler.reference import verify
from fitzroy.formats import bundled, custom_op, darwinn, executorch, flat, tflite, xnnpack
from fitzroy.formats.detect import FileKind, detect
from fitzroy.hw_models.xnnpack.values import read_values

Target = Callable[[bytes], None]


def tflite_target(data: bytes) -> None:
    model = tflite.read_model(data, "fuzz.tflite")
    for subgraph in model.subgraphs or ():
        for operator in subgraph.operators or ():
            with contextlib.suppress(UnsupportedError):
                tflite.operator_name(model, operator)
        for tensor in subgraph.tensors or ():
            with contextlib.suppress(FormatError, UnsupportedError):
                tflite.type_of(tensor)
            with contextlib.suppress(FormatError, UnsupportedError):
                tflite.constant(model, tensor)
    with contextlib.suppress(UnsupportedError):
        again = tflite.read_model(tflite.write_model(model))
        if again != model:
            raise AssertionError("a model changes when written and read")
    for number in range(len(model.subgraphs or ())):
        graph = import_model(model, path="fuzz.tflite", subgraph=number)
        verify(graph)
        for policy in Uint8Policy:
            with contextlib.suppress(UnsupportedError):
                compile(graph, uint8=policy)


def xnnpack_target(data: bytes) -> None:
    blob = xnnpack.read_blob(data, path="fuzz.xnn")
    flat.as_dict(blob.graph)
    for index in range(1, len(blob.graph.constant_data or blob.graph.constant_buffer or ())):
        with contextlib.suppress(FormatError):
            xnnpack.constant_bytes(blob, index)
    read_values(blob, lambda _: memoryview(bytes(8)), "fuzz.xnn")


def program_target(data: bytes) -> None:
    file = executorch.read_program(data, path="fuzz.pte")
    flat.as_dict(file.program)
    refusals: list[FormatError | UnsupportedError] = []
    for plan in file.program.execution_plan or ():
        for value in plan.values or ():
            if isinstance(value.val, executorch.Tensor):
                try:
                    held = file.tensor_data(value.val)
                    if held is not None:
                        executorch.tensor_array(value.val, held)
                except FormatError as error:
                    refusals.append(error)
        for delegate in plan.delegates or ():
            try:
                blob = xnnpack.read_blob(file.delegate_data(delegate), path="fuzz.pte")
                read_values(blob, file.named, "fuzz.pte")
            except (FormatError, UnsupportedError) as error:
                refusals.append(error)
    if refusals:
        raise refusals[0]


def bundle_target(data: bytes) -> None:
    bundle = bundled.read_bundle(data, path="fuzz.bpte")
    file = executorch.read_program(bundle.program, path="fuzz.bpte")
    for method in file.methods:
        bundle.suite(method)


def darwinn_target(data: bytes) -> None:
    file = darwinn.read_package(data, path="fuzz.darwinn")
    flat.as_dict(file.package)
    _ = file.main, file.caching
    for executable in file.executables:
        flat.as_dict(executable)
        again = darwinn.read_executable(darwinn.write_executable(executable))
        if flat.diff(executable, again):
            raise AssertionError("an executable changes when written and read")
        for layer in (*executable.inputs.values(), *executable.outputs.values()):
            _ = layer.packed_bytes
    if darwinn.diff(file, darwinn.read_package(darwinn.write_package(file))):
        raise AssertionError("a package changes when written and read")


def custom_op_target(data: bytes) -> None:
    model = changed = tflite.read_model(data, "fuzz.tflite")
    ops = custom_op.extract(model, "fuzz.tflite", data)
    refusals: list[FormatError | UnsupportedError] = []
    for index, op in enumerate(ops):
        try:
            op.layers(op.read().main)
        except (FormatError, UnsupportedError) as error:
            refusals.append(error)
        changed = custom_op.replace(changed, index, op.package)
    with contextlib.suppress(UnsupportedError):
        written = tflite.write_model(changed)
        again = custom_op.extract(tflite.read_model(written), data=written)
        for op, other in zip(ops, again, strict=True):
            if op.package != other.package or op.options.keys() != other.options.keys():
                raise AssertionError("options change when written and read")
    if refusals:
        raise refusals[0]


READERS: dict[str, Callable[[bytes], object]] = {
    "tflite": tflite.read_model,
    "program": executorch.read_program,
    "bundle": bundled.read_bundle,
    "xnnpack": xnnpack.read_blob,
    "darwinn": darwinn.read_package,
    "custom_op": lambda data: custom_op.extract(tflite.read_model(data)),
}

TARGETS: dict[str, Target] = {
    "tflite": tflite_target,
    "program": program_target,
    "bundle": bundle_target,
    "xnnpack": xnnpack_target,
    "darwinn": darwinn_target,
    "custom_op": custom_op_target,
}

KINDS = {
    "tflite": (FileKind.TFLITE,),
    "program": (FileKind.PROGRAM,),
    "bundle": (FileKind.BUNDLED_PROGRAM, FileKind.BUNDLED_PROGRAM_BP04),
    "xnnpack": (FileKind.XNNPACK,),
    "darwinn": (FileKind.DARWINN,),
    "custom_op": (FileKind.TFLITE,),
}
"""What `detect` says of the seeds of each format."""


def run(name: str, data: bytes) -> None:
    """Detect the format as a user's command would, then run the target whatever was found."""
    with contextlib.suppress(FormatError):
        detect(data)
    TARGETS[name](data)
