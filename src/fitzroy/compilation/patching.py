"""Weights of compiled models after training."""

from __future__ import annotations

import os
from dataclasses import replace

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.compilation.remaking import remade
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.targets.edgetpu.partition.preparation import preparing_for
from fitzroy.compiler.targets.edgetpu.patching.apply import (
    ModelReport,
    patch_model,
    with_packages,
)
from fitzroy.compiler.targets.edgetpu.patching.changes import RECOMPILE
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.compilation_record import CompilationRecord, attached, read_record


def patch_weights(
    compiled: str | os.PathLike[str],
    retrained: str | os.PathLike[str],
    *,
    original: str | os.PathLike[str] | None = None,
    how: Reading = PLAINLY,
) -> tuple[bytes, ModelReport]:
    """A compiled Edge TPU model with the weights of its source after training.

    A model with the record of its compilation is made again with the retrained weights, and must
    come to the same program. In one without, weights are found by their content in the original
    source, or by their order and sizes.

    Args:
        compiled: a ``*_edgetpu.tflite`` model.
        retrained: its source with other weights, and activations quantized as before.
        original: the source that it was compiled from. A model with a record needs none. Without
            both, what is left to choose is refused.
        how: how the sources are read, as it was said for compiling.

    Returns:
        The bytes of the model, and what was changed.

    Raises:
        LinkError: the sources do not belong to the model, or leave a choice.
        UnsupportedError: the retrained source needs another program; one diagnostic per operator.
        UsageError: a file cannot be read; or something is said of how, and the model has no record.
        FormatError: a malformed file.
    """
    path = os.fspath(compiled)
    data = read_file(path)
    model = tflite.read_model(data, path)
    record = read_record(model, path)
    if record is not None and record.packages:
        new = _compiled_from(Source.read(retrained, how), model)
        old = None if original is None else _compiled_from(Source.read(original, how), model)
        model, report = _made_again(model, record, new, old, path)
    else:
        if how != PLAINLY:
            raise UsageError(
                "inputs of the source have fixed shapes, and are no constants",
                reason="the model has no record of its compilation, so its source is a TFLite "
                "model whose operators are those of the file",
                where=path,
                hint=RECOMPILE,
            )
        model, report = _searched(model, path, os.fspath(retrained), original)
    return tflite.write_model(model) if report.changed else data, report


def _compiled_from(source: Source, model: tflite.Model) -> Source:
    """A source with the operators that its programs were made of."""
    parts = custom_op.extract(model)
    names = [name for part in parts for name in (*part.inputs, *part.outputs)]
    return source.passed(preparing_for(source.graph, names))


def _made_again(
    model: tflite.Model,
    record: CompilationRecord,
    retrained: Source,
    original: Source | None,
    path: str,
) -> tuple[tflite.Model, ModelReport]:
    """A model whose packages are made again from its record."""
    packages = [operator.read() for operator in custom_op.extract(model, path)]
    results = [
        remade(package, item, record.producer, retrained, original)
        for package, item in zip(packages, record.packages, strict=True)
    ]
    before = None if original is None else original.model
    patched, report = with_packages(model, results, retrained.model, before, path)
    entries = [
        replace(item, source=package.source)
        for item, (package, _) in zip(record.packages, results, strict=True)
    ]
    return attached(patched, replace(record, packages=tuple(entries))), report


def _searched(
    model: tflite.Model, path: str, retrained: str, original: str | os.PathLike[str] | None
) -> tuple[tflite.Model, ModelReport]:
    """A model in whose packages the weights are looked for."""
    paths = [retrained, *([] if original is None else [os.fspath(original)])]
    sources = [tflite.read_model(read_file(item), item) for item in paths]
    return patch_model(
        model,
        sources[0],
        sources[1] if original is not None else None,
        path=path,
        retrained_path=paths[0],
        original_path=paths[-1],
    )
