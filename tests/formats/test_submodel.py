from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.reference import evaluate
from fitzroy.formats import tflite
from fitzroy.formats.submodel import submodel


def test_parts_in_sequence_are_the_whole() -> None:
    graph = chain(DType.INT8, (9, 7, 3))
    for channels in (4, 8, 5):
        grow(graph, "conv_2d", channels, (3, 3))
    model = export_model(graph)
    names = [node.outputs[0] for node in graph.nodes()]
    parts = [submodel(model, {0}, ["x"], names[:1]), submodel(model, {1, 2}, names[:1], names[2:])]
    x = np.random.default_rng(0).integers(-128, 128, (1, 9, 7, 3), np.int8)
    values = {"x": x}
    for part in parts:
        again = import_model(tflite.read_model(tflite.write_model(part)), path="part")
        values |= evaluate(again, {name: values[name] for name in again.inputs})
    whole = evaluate(import_model(model, path="whole"), {"x": x})
    assert np.array_equal(values[names[2]], whole[names[2]])
    sizes = [len(part.buffers or ()) for part in parts]
    assert max(sizes) < len(model.buffers or ())


def test_unknown_tensors() -> None:
    graph = chain(DType.INT8, (4, 4, 4))
    grow(graph, "conv_2d", 4, (1, 1))
    with pytest.raises(UsageError, match="no tensor 'y'"):
        submodel(export_model(graph), {0}, ["x"], ["y"])
