"""Classifiers that learn, on LiteRT and on the simulated device."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.sharing import shared
from tests.support import corpus, need
from tests.tflite_runtime.models import DIGITS

import fitzroy
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.formats import tflite
from fitzroy.formats.tflite import BuiltinOperator, operator_code
from fitzroy.pycoral.adapters import classify, common
from fitzroy.pycoral.learn.backprop.softmax_regression import SoftmaxRegression
from fitzroy.pycoral.learn.imprinting.engine import ImprintingEngine
from fitzroy.pycoral.learn.models import Appender, parameters
from fitzroy.pycoral.utils.edgetpu import make_interpreter
from fitzroy.tflite_runtime.interpreter import Interpreter

SIDE, FEATURES, FACTOR = 4, 16, 20.0


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """One simulated device is there."""
    monkeypatch.setenv(ENVIRONMENT, "sim:direct")


def pictures(label: int, count: int, seed: int) -> Array:
    """Noisy uint8 images of a class [count, SIDE, SIDE, 1]: few pixels are bright."""
    rng = np.random.default_rng((label, seed))
    pattern = np.random.default_rng(label).permutation(FEATURES) < 4
    noise = rng.uniform(0, 0.15, (count, FEATURES))
    return (
        np.round(255 * np.clip(0.8 * pattern + noise, 0, 1))
        .astype(np.uint8)
        .reshape(count, SIDE, SIDE, 1)
    )


# --- models --------------------------------------------------------------------------------------


def extractor(signed: bool) -> bytes:
    """A model whose embedding [1,1,1,FEATURES] are the pixels of an image."""
    shift = -128 if signed else 0
    kind = tflite.TensorType.INT8 if signed else tflite.TensorType.UINT8
    pixels = parameters(1 / 255, shift)
    image = tflite.Tensor(
        shape=np.array([1, SIDE, SIDE, 1], np.int32), type=int(kind), name="image",
        quantization=pixels,
    )  # fmt: skip
    only = np.array([0], np.int32)
    graph = tflite.SubGraph(tensors=[image], inputs=only, outputs=only, operators=[])
    made = Appender(tflite.Model(version=3, subgraphs=[graph], buffers=[tflite.Buffer()]))
    # Every filter looks at one pixel.
    dtype, one, scale = (np.int8, 127, 1 / 127) if signed else (np.uint8, 255, 1 / 255)
    filters = np.zeros((FEATURES, SIDE, SIDE, 1), dtype)
    filters.reshape(FEATURES, FEATURES)[np.diag_indices(FEATURES)] = one
    bias = np.zeros(FEATURES, np.int32)
    operands = (
        made.constant("filters", filters, parameters(scale, 0)),
        made.constant("biases", bias, parameters(scale / 255, 0)),
    )
    options = tflite.Conv2DOptions(padding=int(tflite.Padding.VALID), stride_h=1, stride_w=1)
    code = operator_code(BuiltinOperator.CONV_2D, version=3 if signed else 1)
    made.append(code, options, operands, ("embedding", (1, 1, 1, FEATURES), pixels))
    return made.finished()


@cache
def compiled_extractor(signed: bool) -> bytes:
    data = extractor(signed)

    def compiled() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "extractor.tflite"
            path.write_bytes(data)
            return fitzroy.compile_edgetpu(path).data

    return shared(("extractor_edgetpu", data), compiled)


def classifier(data: bytes, signed: bool, classes: int = 2) -> bytes:
    """An extractor with what imprinting needs after it, and classes that mean nothing."""
    made = Appender(tflite.read_model(data))
    middle = 0 if signed else 128
    units = parameters(1 / 128, middle)
    dtype = np.int8 if signed else np.uint8
    version = 2 if signed else 1
    made.append(
        operator_code(BuiltinOperator.L2_NORMALIZATION, version=version),
        tflite.L2NormOptions(), (), ("unit", (1, 1, 1, FEATURES), units),
    )  # fmt: skip
    filters = np.random.default_rng(0).integers(
        middle - 60, middle + 60, (classes, 1, 1, FEATURES)
    ).astype(dtype)  # fmt: skip
    operands = (
        made.constant("classes", filters, units),
        made.constant("biases of classes", np.zeros(classes, np.int32), parameters(1 / 128**2, 0)),
    )
    made.append(
        operator_code(BuiltinOperator.CONV_2D, version=3 if signed else 1),
        tflite.Conv2DOptions(padding=int(tflite.Padding.SAME), stride_h=1, stride_w=1),
        operands, ("cosines", (1, 1, 1, classes), units),
    )  # fmt: skip
    factor = made.constant("factor", np.array([127], dtype), parameters(FACTOR / 127, 0))
    logits = parameters(FACTOR / 128, middle)
    made.append(
        operator_code(BuiltinOperator.MUL, version=version), tflite.MulOptions(), (factor,),
        ("products", (1, 1, 1, classes), logits),
    )  # fmt: skip
    shape = np.array([1, classes], np.int32)
    target = made.constant("shape", shape, tflite.QuantizationParameters())
    made.append(
        operator_code(BuiltinOperator.RESHAPE), tflite.ReshapeOptions(new_shape=shape), (target,),
        ("logits", (1, classes), logits),
    )  # fmt: skip
    made.append(
        operator_code(BuiltinOperator.SOFTMAX, version=version), tflite.SoftmaxOptions(beta=1.0),
        (), ("scores", (1, classes), parameters(1 / 256, -128 if signed else 0)),
    )  # fmt: skip
    return made.finished()


def model(signed: bool, compiled: bool, tmp_path: Path) -> Path:
    data = compiled_extractor(signed) if compiled else extractor(signed)
    path = tmp_path / "classifier.tflite"
    path.write_bytes(classifier(data, signed))
    return path


def given(interpreter: Interpreter, picture: Array) -> Interpreter:
    """An interpreter that has run on a picture."""
    shift = 128 if common.input_details(interpreter, "dtype") is np.int8 else 0
    common.set_input(interpreter, picture.astype(np.int16) - shift)
    interpreter.invoke()
    return interpreter


def ready(data: bytes) -> Interpreter:
    interpreter = make_interpreter(data)
    interpreter.allocate_tensors()
    return interpreter


every_kind = pytest.mark.parametrize(
    ("signed", "compiled"), [(False, False), (False, True), (True, False), (True, True)]
)


# --- imprinting ----------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("keep", [False, True])
def test_imprinted_classes_are_found(
    signed: bool, compiled: bool, keep: bool, tmp_path: Path
) -> None:
    engine = ImprintingEngine(str(model(signed, compiled, tmp_path)), keep_classes=keep)
    first = engine.num_classes
    assert (first, engine.embedding_dim) == (2 if keep else 0, FEATURES)
    embedder = ready(engine.serialize_extractor_model())
    embeddings = {
        label: [classify.get_scores(given(embedder, one)) for one in pictures(label, 3, 0)]
        for label in range(3)
    }
    for label, found in embeddings.items():
        for embedding in found:
            assert np.linalg.norm(embedding) == pytest.approx(1, abs=0.03)
            engine.train(embedding, first + label)
    assert engine.num_classes == first + 3
    data = engine.serialize_model()
    assert data == engine.serialize_model()
    trained = ready(data)
    assert classify.num_classes(trained) == first + 3
    for label in range(3):
        for picture in pictures(label, 3, 1):
            (best,) = classify.get_classes(given(trained, picture), top_k=1)
            assert best.id == first + label
            assert best.score > 0.9
    _check_scores(trained, embedder, embeddings, first)


def _check_scores(
    trained: Interpreter,
    embedder: Interpreter,
    embeddings: dict[int, list[Array]],
    first: int,
) -> None:
    """Scores are the softmax of cosines between embeddings and the directions of classes."""
    directions = np.stack([np.sum(found, axis=0) for found in embeddings.values()])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    (picture,) = pictures(1, 1, 2)
    cosines = directions @ classify.get_scores(given(embedder, picture))
    powers = np.exp(FACTOR * cosines)
    found = classify.get_scores(given(trained, picture))[first:]
    np.testing.assert_allclose(found, powers / powers.sum(), atol=0.05)


def test_classes_are_learned_in_two_sessions(tmp_path: Path) -> None:
    path = model(False, False, tmp_path)
    vectors = np.abs(np.random.default_rng(1).normal(size=(3, FEATURES))).astype(np.float32)
    at_once, before = (ImprintingEngine(path) for _ in range(2))
    for number, vector in enumerate(vectors[:2]):
        at_once.train(vector, number)
        before.train(vector, number)
    between = tmp_path / "between.tflite"
    between.write_bytes(before.serialize_model())
    after = ImprintingEngine(between, keep_classes=True)
    assert after.num_classes == 2
    for engine in (at_once, after):
        engine.train(vectors[2], 1)
    first, second = (tflite.read_model(item.serialize_model()) for item in (at_once, after))
    descriptions = [(item.description or "").split() for item in (first, second)]
    assert [words[::2] for words in descriptions] == [["0", "1"]] * 2
    lengths = [np.linalg.norm(vectors[0]), np.linalg.norm(vectors[1] + vectors[2])]
    for words in descriptions:
        np.testing.assert_allclose([float(word) for word in words[1::2]], lengths, rtol=0.02)


def compiled_model(data: bytes, folder: Path) -> bytes:
    path = folder / "source.tflite"
    path.write_bytes(data)
    return fitzroy.compile_edgetpu(path).data


@pytest.mark.parametrize("signed", [False, True])
def test_a_model_may_be_compiled_after_it_has_learned(signed: bool, tmp_path: Path) -> None:
    """The source learns, with embeddings from the chip; then all of it goes to the chip."""
    engine = ImprintingEngine(model(signed, False, tmp_path))
    embedder = ready(compiled_model(engine.serialize_extractor_model(), tmp_path))
    for label in range(3):
        for picture in pictures(label, 3, 0):
            engine.train(classify.get_scores(given(embedder, picture)), label)
    trained = ready(compiled_model(engine.serialize_model(), tmp_path))
    assert {item["op_name"] for item in trained._get_ops_details()} == {"edgetpu-custom-op"}
    for label in range(3):
        (picture,) = pictures(label, 1, 1)
        (best,) = classify.get_classes(given(trained, picture), top_k=1)
        assert best.id == label
        assert best.score > 0.9


def test_what_cannot_be_imprinted(tmp_path: Path) -> None:
    path = model(False, False, tmp_path)
    engine = ImprintingEngine(path, keep_classes=True)
    unit = np.ones(FEATURES, np.float32)
    with pytest.raises(RuntimeError, match="Cannot change the base model classes"):
        engine.train(unit, 0)
    with pytest.raises(RuntimeError, match=r"too large!: it is 9, and there are 2"):
        engine.train(unit, 9)
    with pytest.raises(RuntimeError, match="too large!: it is -1"):
        engine.train(unit, -1)
    with pytest.raises(RuntimeError, match=r"Invalid weights array shape.*\[3\]"):
        engine.train(unit[:3], 2)
    with pytest.raises(RuntimeError, match=r"Model is not trained\."):
        ImprintingEngine(path).serialize_model()
    with pytest.raises(ValueError, match=r"Failed to open file: nothing\.tflite"):
        ImprintingEngine("nothing.tflite")
    with pytest.raises(ValueError, match="Input model must have an L2Norm layer"):
        ImprintingEngine(DIGITS)
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"bad\.tflite") as caught:
        ImprintingEngine(bad)
    assert isinstance(caught.value, FormatError)


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_endings_whose_operators_lack_something(side: str, number: int, tmp_path: Path) -> None:
    path = model(False, False, tmp_path)
    broken = tflite.read_model(path.read_bytes())
    operators = (broken.subgraphs or [])[0].operators or []
    setattr(operators[-number], side, np.array([-1] if side == "inputs" else [], np.int32))
    path.write_bytes(tflite.write_model(broken))
    with pytest.raises(ValueError, match=r"lacks an input|has one output|has filters|from Softmax"):
        ImprintingEngine(path, keep_classes=True)


# --- backpropagation -----------------------------------------------------------------------------


def clouds(spread: float, count: int) -> tuple[Array, Array]:
    """Points around three middles, and their classes."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, count)
    middles = spread * np.array([[1, 1], [-1, -1], [1, -1]])
    return (middles[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels


@pytest.mark.parametrize("spread", [3.0, 1.0])
def test_regression_learns_as_well_as_another(
    spread: float, caplog: pytest.LogCaptureFixture
) -> None:
    need("sklearn", "examples")
    from sklearn.linear_model import LogisticRegression

    points, labels = clouds(spread, 230)
    data = {
        "data_train": points[:200], "labels_train": labels[:200],
        "data_val": points[200:], "labels_val": labels[200:],
    }  # fmt: skip
    found = SoftmaxRegression(2, 3)
    before = found.get_accuracy(points, labels)
    with caplog.at_level("INFO", logger="fitzroy"):
        found.train_with_sgd(data, 50, 0.1, batch_size=100, print_every=25)
    best = LogisticRegression().fit(points[:200], labels[:200]).score(points, labels)
    assert best > 0.75
    assert max(best - 0.02, before) < found.get_accuracy(points, labels) < best + 0.02
    assert caplog.text.count("Loss: ") == 2
    assert caplog.text.count("Valid Acc: ") == 2
    again = SoftmaxRegression(2, 3)
    again.train_with_sgd(data, 50, 0.1, batch_size=100, print_every=0)
    np.testing.assert_array_equal(again._weights, found._weights)


def test_a_step_follows_the_gradient_of_the_loss() -> None:
    """With one point to learn from, a batch is that point, and the gradient can be measured."""
    point, label, rate = np.array([[0.5, -1.5, 2.0]], np.float32), np.array([1]), 1e-2
    data = {"data_train": point, "labels_train": label, "data_val": point, "labels_val": label}
    found = SoftmaxRegression(3, 4, weight_scale=1.0)
    before = found._weights.astype(np.float64)
    found.train_with_sgd(data, 1, rate, batch_size=5, print_every=0)

    def loss(weights: Array) -> float:
        logits = (point @ weights)[0]
        return math.log(np.exp(logits).sum()) - float(logits[1])

    step = 1e-5
    for index in np.ndindex(*before.shape):
        moved = before.copy()
        moved[index] += step
        slope = (loss(moved) - loss(before)) / step
        change = found._weights[index] - before[index]
        assert change == pytest.approx(-rate * slope, abs=2e-5)


@every_kind
def test_the_layer_is_appended_to_an_extractor(
    signed: bool, compiled: bool, tmp_path: Path
) -> None:
    path = tmp_path / "extractor.tflite"
    path.write_bytes(compiled_extractor(signed) if compiled else extractor(signed))
    embedder = ready(path.read_bytes())
    embeddings = np.stack(
        [
            classify.get_scores(given(embedder, picture))
            for label in range(3)
            for picture in pictures(label, 6, 0)
        ]
    )
    labels = np.repeat(np.arange(3), 6)
    learned = SoftmaxRegression(FEATURES, 3)
    data = {
        "data_train": embeddings, "labels_train": labels,
        "data_val": embeddings, "labels_val": labels,
    }  # fmt: skip
    learned.train_with_sgd(data, 200, 0.3, print_every=0)
    assert learned.get_accuracy(embeddings, labels) == 1
    appended = learned.serialize_model(str(path))
    trained = ready(appended)
    assert appended == learned.serialize_model(str(path))
    for label in range(3):
        for picture in pictures(label, 2, 1):
            wanted = classify.get_scores(given(embedder, picture)) @ learned._weights
            powers = np.exp(wanted + learned._biases)
            found = classify.get_scores(given(trained, picture))
            assert found.argmax() == label
            np.testing.assert_allclose(found, powers / powers.sum(), atol=0.06)


@pytest.mark.corpus
@pytest.mark.parametrize("suffix", ["", "_edgetpu"])
def test_the_layer_is_appended_to_a_real_extractor(suffix: str) -> None:
    name = f"mobilenet_v1_1.0_224_quant_embedding_extractor{suffix}.tflite"
    data = SoftmaxRegression(1024, 5).serialize_model(corpus() / "coral" / name)
    interpreter = ready(data)
    [details] = interpreter.get_output_details()
    assert details["shape"].tolist() == [1, 5]


def test_what_cannot_be_learned(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="positive numbers"):
        SoftmaxRegression(3)
    learned = SoftmaxRegression(2, 3)
    points, labels = clouds(1.0, 5)
    with pytest.raises(ValueError, match="5 labels need 5 embeddings of 2 elements"):
        learned.get_accuracy(points[:, :1], labels)
    with pytest.raises(ValueError, match="labels are 0 to 2"):
        learned.get_accuracy(points, labels + 1)
    with pytest.raises(ValueError, match="no labels are given"):
        learned.get_accuracy(points[:0], labels[:0])
    with pytest.raises(ValueError, match="data has no 'labels_train'"):
        learned.train_with_sgd({"data_train": points}, 1, 0.1)
    empty = {"data_train": points[:0], "labels_train": labels[:0]}
    with pytest.raises(ValueError, match="data_train is empty"):
        learned.train_with_sgd(empty, 1, 0.1, print_every=0)
    path = tmp_path / "extractor.tflite"
    path.write_bytes(extractor(False))
    with pytest.raises(ValueError, match=r"embeddings have 2 elements.*\[1, 1, 1, 16\]"):
        learned.serialize_model(path)
    with pytest.raises(ValueError, match="Failed to open file"):
        learned.serialize_model(tmp_path / "nothing.tflite")
