"""What the compiler knows of the programs that it makes, for the record in their model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from fitzroy.base.version import VERSION
from fitzroy.compiler.targets.edgetpu.chip import Part
from fitzroy.compiler.targets.edgetpu.layers.options import Options, Search, Share
from fitzroy.compiler.targets.edgetpu.partition.divide import Segment
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.compilation_record import (
    CompilationRecord,
    GeneratorOptions,
    PackageRecord,
    SearchOptions,
    Step,
)
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.packages.container import chunk_bundles


def operators_of(segment: Segment) -> frozenset[int]:
    """Indices of the operators of a segment in its model."""
    return frozenset(node.origin.index for node in segment.nodes if node.origin is not None)


def record_of(
    model: tflite.Model, parts: Sequence[Part], packages: Sequence[PackageFile]
) -> CompilationRecord:
    """The record of a compiled model.

    Args:
        model: the model with its packages.
        parts: what the packages were made of.
        packages: the packages, in the order of the parts.
    """
    # The model has its packages in an order of its own; each output is made by one of them.
    found = {
        tuple(part.segment.graph.outputs): _package(part, package)
        for part, package in zip(parts, packages, strict=True)
    }
    ordered = tuple(found[names] for names in custom_op.outputs(model))
    return CompilationRecord(VERSION, ordered)


def _package(part: Part, package: PackageFile) -> PackageRecord:
    steps = steps_of(part.segment, part.forms)
    operators = tuple(sorted(operators_of(part.segment)))
    options, bundles = _options(part.options), chunk_bundles(package)
    return PackageRecord(operators, options, bundles, steps, package.source)


def steps_of(segment: Segment, forms: Sequence[Form]) -> tuple[Step, ...]:
    """Where the steps of a program begin, from the forms that it took."""
    (emitted,) = (form for form in forms if isinstance(form, Emitted))
    numbers: Mapping[str, int] = {
        node.name: node.origin.index for node in segment.nodes if node.origin is not None
    }
    return tuple(
        Step(mark.chunk, mark.bundle, mark.kind, mark.origin, numbers.get(mark.origin, -1))
        for mark in emitted.marks
    )


def _options(options: Options) -> GeneratorOptions:
    return GeneratorOptions(
        options.narrow_bytes,
        options.taken,
        options.parameter_rows,
        options.staging,
        options.conservative,
        None if options.search == Search() else SearchOptions(**asdict(options.search)),
        None if options.share is None else (options.share.reserved, options.share.least),
    )


def generator_options(options: GeneratorOptions) -> Options:
    """Options of the code generator from those of a record."""
    return Options(
        options.narrow_bytes,
        options.taken,
        options.parameter_rows,
        None if options.share is None else Share(*options.share),
        options.staging,
        options.conservative,
        search=Search() if options.search is None else Search(**asdict(options.search)),
    )
