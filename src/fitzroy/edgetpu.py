"""From a quantized model to one that the Edge TPU executes: the whole way on one screen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import CapacityError, UnsupportedError
from fitzroy.base.files import read_file
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.partition import Placement, title
from fitzroy.compiler.targets.edgetpu.codegen.lower import lower
from fitzroy.compiler.targets.edgetpu.codegen.segments import HOST, NAME, Segment, divide
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.formats.detect import FileKind, detect
from fitzroy.formats.object_file import ObjectFile
from fitzroy.linker.packages.darwinn import LinkOptions, link


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A part of a model on the chip.

    Attributes:
        segment: its graph and nodes.
        object: its program before linking.
        package: its package.
    """

    segment: Segment
    object: ObjectFile
    package: PackageFile


@dataclass(frozen=True)
class EdgeTpuCompilation:
    """A model compiled for the Edge TPU.

    Attributes:
        data: the model with Edge TPU operators, as TFLite.
        graph: the model as it was read.
        segments: parts on the chip, in order.
        placements: all groups of nodes in order, with the reasons of those that stay on the host.
        seconds: how long it took.
    """

    data: bytes
    graph: Graph
    segments: tuple[MappedSegment, ...]
    placements: tuple[Placement, ...]
    seconds: float

    @property
    def mapped(self) -> tuple[Node, ...]:
        """Nodes on the chip."""
        return tuple(node for item in self.segments for node in item.segment.nodes)

    @property
    def reasons(self) -> tuple[Diagnostic, ...]:
        """Why nodes stay on the host."""
        return tuple(
            reject
            for placement in self.placements
            if placement.target != NAME
            for reject in placement.rejects
        )


def compile_edgetpu(
    path: str | os.PathLike[str],
    *,
    options: LinkOptions | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> EdgeTpuCompilation:
    """Compile a quantized TFLite model for the Edge TPU.

    Operators that cannot be mapped stay in the model, where the host runs them; so does a part that
    does not fit the chip, unless it is the only one.

    Args:
        path: the model.
        options: how its packages are linked.
        progress: is told what is being done.

    Raises:
        UsageError: the file cannot be read.
        FormatError: the file is malformed.
        UnsupportedError: no operator can be mapped; with the reason of each.
        CapacityError: no part of the model fits the chip.
    """
    start = time.perf_counter()
    name = os.fspath(path)
    model = tflite.read_model(read_file(path), name)
    graph = import_model(model, path=name)
    segments, placements = divide(graph)
    if not segments:
        raise UnsupportedError(
            "no operator can be mapped to the Edge TPU",
            rejects=[reject for placement in placements for reject in placement.rejects],
            where=name,
        )
    objects, mapped, failures = [], [], list[CapacityError]()
    for number, segment in enumerate(segments, 1):
        progress(f"part {number} of {len(segments)}: {len(segment.nodes)} operators")
        try:
            objects.append(lower(segment.graph))
            mapped.append(segment)
        except CapacityError as error:
            failures.append(error)
            placements = [
                _left(item, error) if item.nodes == segment.nodes else item for item in placements
            ]
    if not mapped:
        raise failures[0]
    segments = mapped
    progress("linking")
    packages = link(objects, options)
    data = tflite.write_model(
        custom_op.embed(
            model,
            [
                _embedded(segment, package)
                for segment, package in zip(segments, packages, strict=True)
            ],
        )
    )
    return EdgeTpuCompilation(
        data,
        graph,
        tuple(map(MappedSegment, segments, objects, packages)),
        tuple(placements),
        time.perf_counter() - start,
    )


def _left(placement: Placement, error: CapacityError) -> Placement:
    """A group of nodes that the host has to run after all."""
    what = error.what + (f": {error.reason}" if error.reason else "")
    rejects = tuple(
        Diagnostic(Severity.WARNING, "edgetpu-capacity", title(node), what)
        for node in placement.nodes
    )
    return replace(placement, target=HOST.name, rejects=(*placement.rejects, *rejects))


def is_quantized(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a TFLite model with activations of 8 bits.

    Raises:
        UsageError: the file cannot be read.
        FormatError: the file is a malformed model.
    """
    data, name = read_file(path), os.fspath(path)
    if detect(data, name) is not FileKind.TFLITE:
        return False
    graph = import_model(tflite.read_model(data, name), path=name)
    types = [graph.type(output) for node in graph.nodes() for output in node.outputs]
    return any(
        type.quantization is not None and type.dtype in (DType.UINT8, DType.INT8) for type in types
    )


def _embedded(segment: Segment, package: PackageFile) -> custom_op.Segment:
    return custom_op.Segment(
        frozenset(node.origin.index for node in segment.nodes if node.origin is not None),
        tuple(segment.graph.inputs),
        tuple(segment.graph.outputs),
        write_package(package),
    )


def unmapped(placements: Sequence[Placement]) -> tuple[Node, ...]:
    """Nodes that stay on the host."""
    return tuple(node for item in placements if item.target != NAME for node in item.nodes)
