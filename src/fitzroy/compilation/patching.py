"""Weights of compiled models after training."""

from __future__ import annotations

import os

from fitzroy.base.files import read_file
from fitzroy.compiler.targets.edgetpu.patching.apply import ModelReport, patch_model
from fitzroy.formats import tflite


def patch_weights(
    compiled: str | os.PathLike[str],
    retrained: str | os.PathLike[str],
    *,
    original: str | os.PathLike[str] | None = None,
) -> tuple[bytes, ModelReport]:
    """A compiled Edge TPU model with the weights of its source after training.

    Args:
        compiled: a ``*_edgetpu.tflite`` model.
        retrained: its source with other weights, and activations quantized as before.
        original: the source that it was compiled from; without it, weights are found by their
            order and sizes, which is refused where that leaves a choice.

    Returns:
        The bytes of the model, and what was changed.

    Raises:
        LinkError: the sources do not belong to the model, or leave a choice.
        UnsupportedError: the retrained source needs another program; one diagnostic per operator.
        UsageError: a file cannot be read.
        FormatError: a malformed file.
    """
    paths = [os.fspath(path) for path in (compiled, retrained, original) if path is not None]
    files = [read_file(path) for path in paths]
    models = [tflite.read_model(data, path) for data, path in zip(files, paths, strict=True)]
    model, report = patch_model(
        models[0],
        models[1],
        models[2] if original is not None else None,
        path=paths[0],
        retrained_path=paths[1],
        original_path=paths[-1],
    )
    return tflite.write_model(model) if report.changed else files[0], report
