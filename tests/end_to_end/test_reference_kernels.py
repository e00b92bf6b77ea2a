"""The reference semantics in TFLite's arithmetic, against LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import corpus, need_litert

import fitzroy
from fitzroy.hw_models.numerics import Arithmetic

pytestmark = pytest.mark.corpus

QUICK = ("coral/mobilenet_v1_0.25_128_quant", "coral/keras_lstm_mnist_ptq", "coral/split_concat")
LONG = (
    "coral/deeplabv3_mnv2_dm05_pascal_quant",
    "coral/mobilenet_v1_0.5_160_quant",
    "coral/mobilenet_v1_1.0_224_quant_embedding_extractor",
    "coral/mobilenet_v2_1.0_224_quant",
)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
)
def test_every_output_equals_the_reference_kernels(name: str) -> None:
    path = corpus() / f"{name}.tflite"
    need_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    graph = fitzroy.load(path)
    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    inputs = {}
    for value, detail in zip(graph.inputs, interpreter.get_input_details(), strict=True):
        type = graph.type(value)
        low, high = type.dtype.limits
        inputs[value] = rng.integers(low, high, type.shape, type.dtype.numpy, endpoint=True)
        interpreter.set_tensor(detail["index"], inputs[value])
    interpreter.invoke()
    wanted = fitzroy.evaluate(graph, inputs, Arithmetic.TFLITE)
    for value, detail in zip(graph.outputs, interpreter.get_output_details(), strict=True):
        np.testing.assert_array_equal(wanted[value], interpreter.get_tensor(detail["index"]))
