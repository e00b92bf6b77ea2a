"""Bytecode modules of models that have been compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.partition import HOST, Placement
from fitzroy.compiler.targets.vm.program import EntryPoint, host_program
from fitzroy.compiler.targets.vm.schedule import Packaged, entry_point
from fitzroy.execution.modules import MAIN
from fitzroy.execution.parts import DevicePart, Host, parts_of
from fitzroy.formats import tflite
from fitzroy.formats.bytecode_module import write_module
from fitzroy.formats.darwinn import write_package
from fitzroy.hw_models.numerics import Arithmetic


def compiled_entry(data: bytes, path: str = "", name: str = MAIN) -> EntryPoint:
    """The function that computes a TFLite model, compiled for the Edge TPU or not.

    Args:
        data: the model.
        path: its file, for errors.
        name: name of the function.

    Raises:
        FormatError: the file is malformed.
        UnsupportedError: an operator is unknown.
    """
    model = tflite.read_model(data, path)
    graph = import_model(model, path=path)
    steps: list[Packaged | Placement] = []
    for part in parts_of(model, graph, data, path, Host.REFERENCE, Arithmetic.XNNPACK):
        if isinstance(part, DevicePart):
            steps.append(_packaged(part))
        else:
            steps.append(Placement(HOST.name, part.nodes))
    return entry_point(graph, steps, name)


def _packaged(part: DevicePart) -> Packaged:
    """A package with its tensors in the order of its layers."""
    program = part.program
    reads = dict(zip(program.inputs, part.inputs, strict=True))
    writes = dict(zip(program.outputs, part.outputs, strict=True))
    main = program.package.main
    return Packaged(
        (part.node,),
        write_package(program.package),
        tuple(reads[layer] for layer in main.inputs if layer in reads),
        tuple(writes[layer] for layer in main.outputs if layer in writes),
        tuple(
            program.encoded({})[layer].tobytes() for layer in main.inputs if layer in program.states
        ),
    )


def write_entries(name: str, entries: Sequence[EntryPoint]) -> bytes:
    """A module of some functions.

    Raises:
        CapacityError: a function needs too many buffers at a time.
    """
    return write_module(host_program(name, entries))


def modules_of(models: Mapping[str, bytes], *, joined: bool = False) -> list[bytes]:
    """A module for every model; or one with a function for each, as often as there are models.

    Args:
        models: TFLite models by their paths, compiled for the Edge TPU or not.
        joined: whether all go to one module; its functions have the names of the files.

    Raises:
        CapacityError: a function needs too many buffers at a time.
        FormatError: a model is malformed.
        UnsupportedError: an operator is unknown.
    """
    stems = {path: Path(path).stem for path in models}
    if joined and len(models) > 1:
        entries = [compiled_entry(data, path, stems[path]) for path, data in models.items()]
        return [write_entries("models", entries)] * len(models)
    return [
        write_entries(stems[path], [compiled_entry(data, path)]) for path, data in models.items()
    ]
