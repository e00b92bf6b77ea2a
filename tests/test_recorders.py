"""What recorders do with a model: their calls, on models in the forms that they take.

The calls are those of Frigate's plugin for the Edge TPU, by its documentation and its source.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.support import need_litert

import fitzroy
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import kept_float, limits, with_detections
from fitzroy.compiler.quantization.options import Border, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.execution.interpreter import Interpreter
from fitzroy.formats import tflite

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

SIDE = detectors.SIDE
LEAST = 0.4
"""The least score that the plugin takes."""

MOST = 20
"""Rows of what the plugin gives."""


def picture(seed: int) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.uint8)


@functools.cache
def models(form: HeadForm, border: Border) -> tuple[Graph, Graph, bytes]:
    """A detector as float32, quantized, and compiled for the Edge TPU."""
    options = HeadOptions(True, form, score_threshold=LEAST)
    graph = with_detections(detectors.dfl(), options)
    samples = [{"image": (picture(seed) / 255).astype(np.float32)} for seed in range(4)]
    chosen = QuantizeOptions(keep_float=kept_float(graph), input_type=border)
    known = {"image": (0.0, 1.0)}
    result = quantize_model(
        graph, samples, chosen, known=known, limits=limits(graph, options)
    ).graph
    return graph, result, compile_edgetpu(Source.of(result)).data


def objects(seed: int) -> Floats:
    """What the float32 model lists: rows of box, score and class."""
    graph = with_detections(detectors.dfl(), HeadOptions(True, score_threshold=LEAST))
    rows = fitzroy.evaluate(graph, {"image": (picture(seed) / 255).astype(np.float32)})
    return rows["detections"][:MOST]


def agree(found: Floats, exact: Floats) -> None:
    """Check rows of class, score, top, left, bottom and right against those of float32."""
    sure = [row for row in exact if row[4] > LEAST + 0.05]
    assert len(sure) > 2
    missed = 0
    for row in sure[:MOST]:
        wanted = row[[1, 0, 3, 2]] / SIDE
        near = [
            item
            for item in found
            if item[0] == row[5]
            and abs(item[1] - row[4]) < 0.1
            and np.abs(item[2:] - wanted).max() < 0.06
        ]
        missed += not near
    assert missed <= len(sure) // 5


def ssd_rows(interpreter: Interpreter, image: Pixels) -> Floats:
    """The plugin's calls for ``model_type: ssd``."""
    details = interpreter.get_output_details()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    boxes, classes, scores = (
        interpreter.tensor(details[number]["index"])()[0] for number in range(3)
    )
    count = int(interpreter.tensor(details[3]["index"])()[0])
    rows = np.zeros((MOST, 6), np.float32)
    for number in range(count):
        if scores[number] < LEAST or number == MOST:
            break
        rows[number] = [classes[number], float(scores[number]), *boxes[number]]
    return rows


@pytest.mark.parametrize("seed", [0, 5])
def test_ssd(seed: int) -> None:
    """A model of uint8 pixels whose outputs are those of TFLite's post-processing."""
    _, _, data = models(HeadForm.SSD, Border.UINT8)
    with Interpreter(data, device="sim:direct") as interpreter:
        assert interpreter.get_input_details()[0]["dtype"] is np.uint8
        agree(ssd_rows(interpreter, picture(seed)), objects(seed))


def yolo_rows(interpreter: Interpreter, image: Pixels) -> Floats:
    """The plugin's calls for ``model_type: yolo-generic``: it decodes two tensors itself."""
    (given,) = interpreter.get_input_details()
    if given["dtype"] is np.int8:
        image = (image.astype(np.int16) - 128).astype(np.int8)
    interpreter.set_tensor(given["index"], image)
    interpreter.invoke()
    details = interpreter.get_output_details()
    assert len(details) in (2, 3)
    boxes = next(item for item in details if item["shape"][2] == 64)
    scores = next(item for item in details if item["shape"][2] not in (1, 64))
    scale, zero = scores["quantization"]
    least = int(math.log(LEAST / (1 - LEAST)) / scale + zero)
    stored = interpreter.get_tensor(scores["index"])[0]
    chosen = stored.max(axis=1) >= least
    logits = (stored[chosen].astype(np.float32) - zero) * scale
    scale, zero = boxes["quantization"]
    encoded = interpreter.get_tensor(boxes["index"])[0][chosen]
    powers = np.exp(((encoded.astype(np.float32) - zero) * scale).reshape(-1, 4, 16))
    distances = (powers / powers.sum(axis=2, keepdims=True)) @ np.arange(16)
    points, strides = (array[chosen] for array in detectors.centres())
    low, high = (points - distances[:, :2]) * strides, (points + distances[:, 2:]) * strides
    sure = 1 / (1 + np.exp(-logits.max(axis=1)))
    order = np.argsort(-sure, kind="stable")
    corners = np.concatenate([low, high], axis=1)[order][:, [1, 0, 3, 2]] / SIDE
    kinds = logits.argmax(axis=1)[order]
    return np.concatenate([kinds[:, None], sure[order, None], corners], axis=1)


@pytest.mark.parametrize("seed", [0, 5])
def test_yolo_generic(seed: int) -> None:
    """A model of int8 pixels with distributions and logits, in any order."""
    _, _, data = models(HeadForm.YOLO, Border.INT8)
    with Interpreter(data, device="sim:direct") as interpreter:
        types = {item["dtype"] for item in interpreter.get_output_details()}
        assert types == {np.int8}
        agree(yolo_rows(interpreter, picture(seed)), objects(seed))


def test_litert_runs_the_form_of_post_processing() -> None:
    """Nothing but TFLite's own operators is in it."""
    need_litert()
    from fitzroy.driver.runtime.litert import LiteRtModel

    _, quantized, _ = models(HeadForm.SSD, Border.UINT8)
    data = tflite.write_model(export_model(quantized))
    found = LiteRtModel(data, xnnpack=False).run([picture(0)])
    exact = fitzroy.evaluate(quantized, {"image": picture(0)})
    for name, array in zip(quantized.outputs, found, strict=True):
        if name != quantized.outputs[0]:
            np.testing.assert_allclose(array, exact[name], atol=0.01)
    assert found[3][0] > 2
    rows = int(found[3][0])
    np.testing.assert_allclose(found[0][0, :rows], exact[quantized.outputs[0]][0, :rows], atol=0.02)
