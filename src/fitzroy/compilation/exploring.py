"""Models to look into: sources are compiled, compiled models are taken as they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.compilation.documents import document, edges
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.records import steps_of
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.execution.whole import estimated
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.detect import FileKind, detect
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.linker.packages.container import Container, read_container
from fitzroy.report.explorer import Explored, Part

Progress = Callable[[str], None]


def explored(
    path: str | os.PathLike[str],
    *,
    package: int | None = None,
    source: str | os.PathLike[str] | None = None,
    how: Reading = PLAINLY,
    conditions: Conditions | None = None,
    progress: Progress = lambda _: None,
) -> Explored:
    """A model to look into.

    Args:
        path: a quantized model, which is compiled, or a compiled model or package.
        package: the only package to show, counted from 0; None for all.
        source: the model that a compiled one was made of, which names its layers.
        how: what to read of a model that is compiled.
        conditions: clock, host and driver.
        progress: is told what is being done.

    Raises:
        UsageError: a file cannot be read, there is no such package, or something is said of the
            inputs of a compiled model.
        FormatError: a file is malformed.
        UnsupportedError: nothing of the model runs on the Edge TPU.
        LinkError: the source is none of the model.
    """
    name = os.fspath(path)
    data = read_file(path)
    conditions = conditions or Conditions()
    if _is_source(data, name):
        return _compiled(Source.read(name, how), package, conditions, progress)
    if how != PLAINLY:
        raise UsageError(
            "shapes or values of inputs for a model that is compiled already",
            reason="its shapes are fixed",
            where=name,
            hint="give the model that it was made of",
        )
    container = read_container(data, name)
    numbers = range(len(container.packages)) if package is None else (package,)
    programs = []
    for number in numbers:
        progress(f"timing program {number}")
        program = EdgeTpuProgram.load(path, number)
        programs.append(program if source is None else program.named_by(source))
    operators, joins = _operators(container, list(numbers))
    parts = [
        Part(estimated(program, conditions), _chunks(program.package), f"p{program.number}")
        for program in programs
    ]
    return Explored(name, operators, joins, parts)


def _is_source(data: bytes, name: str) -> bool:
    """Whether a file is a model that has to be compiled."""
    kind = detect(data, name)
    if kind is FileKind.TFLITE:
        return not custom_op.extract(tflite.read_model(data, name), name)
    return kind in (FileKind.ONNX, FileKind.GRAPH_TEXT)


def _compiled(
    source: Source, package: int | None, conditions: Conditions, progress: Progress
) -> Explored:
    """A source, compiled."""
    result = compile_edgetpu(source, progress=progress)
    name, count = source.path, len(result.segments)
    if package is not None and not 0 <= package < count:
        raise UsageError(
            f"there is no package {package}",
            reason=f"the model has {count}, counted from 0",
            where=name,
        )
    parts = []
    for item in result.segments if package is None else [result.segments[package]]:
        progress(f"timing {item.segment.graph.name}")
        run = estimate(item.package, name, conditions, steps_of(item.segment, item.forms))
        parts.append(Part(run, _chunks(item.package)))
    operators = document(result)["explanation"]
    if package is not None:
        # The page has one program, which is its first.
        moved = {package: 0}
        operators = [item | {"subgraph": moved.get(item["subgraph"])} for item in operators]
    return Explored(name, operators, edges(result.graph, result.operators), parts)


def _chunks(package: PackageFile) -> list[list[Instruction]]:
    """The instructions of a package's main program."""
    return [
        disassemble(b"" if stream.bitstream is None else bytes(stream.bitstream), path=package.path)
        for stream in package.main.instruction_bitstreams or ()
    ]


def _operators(
    container: Container, packages: list[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Operators of a compiled model, and which reads what of which."""
    if container.model is None:
        return [], []
    graph: Graph = import_model(container.model, path=container.path)
    places = {
        item.operator: number
        for number, item in enumerate(custom_op.extract(container.model, container.path))
        if item.subgraph == 0
    }
    nodes = graph.nodes()
    operators = []
    for place, node in enumerate(nodes):
        index = place if node.origin is None else node.origin.index
        number = places.get(index)
        operators.append(
            {
                "index": index,
                "operator": node.spelled if number is None else f"Edge TPU program {number}",
                "name": node.outputs[0],
                "type": str(graph.type(node.outputs[0])),
                "subgraph": packages.index(number) if number in packages else None,
                "layers": [],
                "reasons": [],
            }
        )
    return operators, edges(graph, nodes)
