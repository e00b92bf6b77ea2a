"""Models as programs for TFLite and PyCoral meet them: the interpreter, and what learns."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tests.pycoral.test_learn import FEATURES, classifier, compiled_extractor, extractor
from tests.tflite_runtime.models import compiled_digits, tensors_of_every_kind

from fitzroy.base.errors import FitzroyError
from fitzroy.pycoral.learn.backprop.softmax_regression import SoftmaxRegression
from fitzroy.pycoral.learn.imprinting.engine import ImprintingEngine
from fitzroy.tflite_runtime.interpreter import Interpreter, load_delegate


@cache
def learner_files() -> list[bytes]:
    """Classifiers for imprinting, for the host and for the Edge TPU."""
    extractors = [extractor(False), extractor(True), compiled_extractor(False)]
    return [classifier(data, data == extractors[1]) for data in extractors]


def learner_target(data: bytes) -> None:
    """Learn another class, and append another last layer."""
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        Path(file.name).write_bytes(data)
        with contextlib.suppress(FitzroyError):
            SoftmaxRegression(2, 3).serialize_model(file.name)
        engine = ImprintingEngine(file.name, keep_classes=True)
    engine.serialize_extractor_model()
    if engine.embedding_dim <= 4 * FEATURES:
        engine.train(np.ones(engine.embedding_dim, np.float32), engine.num_classes)
    engine.serialize_model()


def learner_read(data: bytes) -> int:
    """How many classes a seed has."""
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        Path(file.name).write_bytes(data)
        return ImprintingEngine(file.name, keep_classes=True).num_classes


@cache
def interpreter_files() -> list[bytes]:
    """A compiled model, and one with tensors of every kind."""
    return [compiled_digits(), tensors_of_every_kind()]


def interpreter_target(data: bytes) -> Interpreter:
    """Ask an interpreter for all that it says, without LiteRT, which may end the process.

    Nothing is computed: programs that make no sense are the simulator's.
    """
    delegate = load_delegate("libedgetpu.so.1", {"device": "sim:direct"})
    with patch("fitzroy.driver.runtime.litert.available", lambda: False):
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            interpreter = Interpreter(model_content=data, experimental_delegates=[delegate])
        interpreter.allocate_tensors()
    for number in range(interpreter.num_subgraphs()):
        interpreter.get_tensor_details(number)
    for details in (*interpreter.get_input_details(), *interpreter.get_output_details()):
        index = details["index"]
        interpreter.tensor(index)()
        interpreter.get_tensor(index)
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], interpreter.get_tensor(details["index"]))
        interpreter.resize_tensor_input(details["index"], details["shape"])
    for key in interpreter.get_signature_list():
        with contextlib.suppress(FitzroyError):
            runner = interpreter.get_signature_runner(key)
            runner.get_input_details()
            runner.get_output_details()
    return interpreter
