"""Detectors whose heads are damaged: recognised, or refused with reasons."""

from __future__ import annotations

import contextlib

import numpy as np
from tests.compiler import detectors
from tests.compiler.test_heads import ssd

from fitzroy.base.errors import CapacityError, UnsupportedError, UsageError
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import limits, with_detections
from fitzroy.compiler.reference import evaluate
from fitzroy.formats import tflite


def detector_files() -> list[bytes]:
    """Models of every family, as they are and with objects listed."""
    graphs = [*(make() for make in detectors.FAMILIES.values()), detectors.chosen(), ssd()]
    graphs += [with_detections(make(), HeadOptions(True)) for make in (detectors.pose, ssd)]
    return [tflite.write_model(export_model(graph)) for graph in graphs]


def detector_target(data: bytes) -> None:
    """List the objects of a model in every form; what is listed is computed."""
    graph = import_model(tflite.read_model(data, "fuzz.tflite"), path="fuzz.tflite")
    for form in HeadForm:
        options = HeadOptions(True, form)
        with contextlib.suppress(UnsupportedError, UsageError, CapacityError):
            found = with_best_classes(with_detections(graph, options))
            limits(found, options)
            types = {name: found.type(name) for name in found.inputs}
            evaluate(found, {x: np.zeros(t.shape, t.dtype.numpy) for x, t in types.items()})
