from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.support import need, need_executorch, need_litert

import fitzroy
from fitzroy.base.types import Array, Quantization
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import limits, with_detections
from fitzroy.compiler.quantization.agreement import mean_average_precision
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.hw_models.numerics import Arithmetic

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODEL = EXAMPLES / "models" / "digits.tflite"


def run(name: str, *arguments: str) -> str:
    """Output of an example that must succeed."""
    result = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@cache
def trainer() -> ModuleType:
    """`train_digits.py` as a module."""
    need("sklearn", "examples")
    need("PIL", "examples")
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLES / "train_digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def shipped() -> Graph:
    return fitzroy.load(MODEL)


def images() -> dict[Path, Array]:
    """The shipped images as int8 [1,8,8,1]."""
    need("PIL", "examples")
    from PIL import Image

    found = {}
    for path in sorted((EXAMPLES / "images").glob("digit_*.png")):
        with Image.open(path) as image:
            assert image.mode == "L"
            pixels = np.asarray(image)
        found[path] = (pixels.astype(np.int16) - 128).astype(np.int8)[None, :, :, None]
    return found


# --- the programs --------------------------------------------------------------------------------


@pytest.mark.long
def test_edgetpu_digits(tmp_path: Path) -> None:
    need("PIL", "examples")
    output = run("edgetpu_digits.py", "--output", str(tmp_path / "digits_edgetpu.tflite"))
    assert "9 of 9 operators on the Edge TPU" in output
    assert "10 of 10 are right" in output
    assert (tmp_path / "digits_edgetpu.tflite").stat().st_size > 50_000


@pytest.mark.long
def test_kernel(tmp_path: Path) -> None:
    page, package = tmp_path / "motion.html", tmp_path / "motion.dwn"
    output = run("kernel.py", "--timeline", str(page), "--output", str(package))
    assert "verifier: nothing to object to" in output
    assert "192 pixels have changed, 0 are wrong" in output
    assert "cycles on the chip" in output
    assert "<html" in page.read_text()
    assert package.stat().st_size > 1000


@pytest.mark.long
def test_pycoral_digits() -> None:
    need("PIL", "examples")
    output = run("pycoral_digits.py")
    assert output.splitlines()[0].split() == ["image", "found", "score", "time"]
    assert "10 of 10 are right" in output


def test_the_readme_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"`{path.name}`" in text
        assert f"python examples/{path.name}" in text


@pytest.mark.long
def test_inspect_model() -> None:
    text = run("inspect_model.py")
    assert "input  image: int8[1,8,8,1]" in text
    for op in ("conv_2d", "depthwise_conv_2d", "max_pool_2d", "fully_connected", "softmax"):
        assert op in text


@pytest.mark.long
def test_inspect_model_reports_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "absent.tflite"
    result = subprocess.run(
        [sys.executable, EXAMPLES / "inspect_model.py", path],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
def test_build_graph(tmp_path: Path) -> None:
    path = tmp_path / "stripes.tflite"
    text = run("build_graph.py", "--output", str(path))
    assert 'graph "stripes"' in text
    rows = [line.split() for line in text.splitlines() if line.startswith("  image")]
    assert len(rows) == 4
    for number, row in enumerate(rows):
        exact, rounded = float(row[3].rstrip(",")), float(row[5])
        assert (exact > 0.5) == bool(number % 2)
        assert rounded == pytest.approx(exact, abs=0.02)
    assert fitzroy.load(path).inputs == ["image"]


def compile_digits(tmp_path: Path, runtime: str) -> None:
    need("PIL", "examples")
    path = tmp_path / "digits.pte"
    text = run("compile_digits.py", "--runtime", runtime, "--output", str(path))
    assert f"({runtime})" in text
    assert text.endswith("10 of 10 are right\n")
    assert path.read_bytes()[4:8] == b"ET12"


@pytest.mark.long
def test_compile_digits(tmp_path: Path) -> None:
    compile_digits(tmp_path, "oracle")


@pytest.mark.long
@pytest.mark.runtime
def test_compile_digits_for_the_real_runtime(tmp_path: Path) -> None:
    need_executorch()
    compile_digits(tmp_path, "executorch")


@pytest.mark.long
def test_train_digits() -> None:
    need("sklearn", "examples")
    need("PIL", "examples")
    before = MODEL.read_bytes()
    text = run("train_digits.py", "--quick")
    assert "1257 images to train on, 540 held out" in text
    (line,) = [line for line in text.splitlines() if line.startswith("int8 accuracy (reference)")]
    assert float(line.split()[-1].rstrip("%")) > 30
    assert MODEL.read_bytes() == before


# --- training ------------------------------------------------------------------------------------


@pytest.mark.long
def test_equal_seeds_give_equal_models() -> None:
    module = trainer()
    data, _ = module.load_digits()
    models = []
    for _ in range(2):
        layers = module.train(data, 1, lambda line: None)
        models.append(module.compress(layers, data, 16)[1])
    assert models[0] == models[1]


@pytest.mark.long
def test_images_are_written(tmp_path: Path) -> None:
    _, held_out = trainer().load_digits()
    trainer().write_images(tmp_path, held_out)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in images())


def test_gradients_are_those_of_the_loss() -> None:
    module, rng = trainer(), np.random.default_rng(0)
    layers = module.network(rng)
    images = rng.uniform(size=(3, 8, 8, 1)).astype(np.float64)
    labels = np.array([1, 4, 7])

    def loss() -> tuple[float, Array]:
        x = images
        for layer in layers:
            x = layer.forward(x)
        value, gradient = module.loss_gradient(x, labels)
        return value, gradient

    for layer in layers:
        for parameter in layer.parameters:
            # Differences need more digits than float32 has.
            parameter.value = parameter.value.astype(np.float64)
            parameter.value += rng.normal(scale=0.05, size=parameter.value.shape)
    _, gradient = loss()
    for layer in reversed(layers):
        gradient = layer.backward(gradient)
    for layer in layers:
        for parameter in layer.parameters:
            found = np.array(parameter.gradient, np.float64).reshape(-1)
            flat = parameter.value.reshape(-1)
            for index in rng.choice(flat.size, min(4, flat.size), replace=False):
                old, step = flat[index], 1e-6
                flat[index] = old + step
                above = loss()[0]
                flat[index] = old - step
                below = loss()[0]
                flat[index] = old
                slope = (above - below) / (2 * step)
                assert found[index] == pytest.approx(slope, rel=1e-3, abs=1e-6)


# --- the shipped model ---------------------------------------------------------------------------


def test_the_shipped_model_has_the_documented_borders() -> None:
    graph = shipped()
    assert MODEL.stat().st_size < 200_000
    assert (graph.inputs, graph.outputs) == (["image"], ["probabilities"])
    assert graph.type("image").quantization == Quantization.per_tensor(1 / 255, -128)
    assert graph.type("probabilities").quantization == Quantization.per_tensor(1 / 256, -128)
    assert {node.op for node in graph.nodes()} == {
        "conv_2d", "depthwise_conv_2d", "fully_connected", "max_pool_2d", "mean", "softmax",
    }  # fmt: skip
    labels = (EXAMPLES / "models" / "digits_labels.txt").read_text().split()
    assert labels == [str(n) for n in range(10)]
    size = f"{MODEL.stat().st_size:,} bytes"
    assert size in (EXAMPLES / "README.md").read_text()


def test_the_shipped_images_are_classified() -> None:
    found = images()
    assert sorted(path.stem.split("_")[1] for path in found) == [str(n) for n in range(10)]
    for path, image in found.items():
        scores = fitzroy.evaluate(shipped(), {"image": image})["probabilities"]
        assert int(scores.argmax()) == int(path.stem.split("_")[1])


def test_the_shipped_images_are_held_out() -> None:
    _, held_out = trainer().load_digits()
    for path, image in images().items():
        _, label, index = path.stem.split("_")
        np.testing.assert_array_equal(trainer().stored(held_out.images[int(index)])[None], image)
        assert held_out.labels[int(index)] == int(label)


@pytest.mark.parametrize("arithmetic", [Arithmetic.XNNPACK, Arithmetic.TFLITE])
def test_litert_agrees_on_the_shipped_images(arithmetic: Arithmetic) -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = {
        Arithmetic.XNNPACK: OpResolverType.BUILTIN,
        Arithmetic.TFLITE: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    }[arithmetic]
    interpreter = Interpreter(
        model_path=str(MODEL), experimental_op_resolver_type=resolver, num_threads=1
    )
    interpreter.allocate_tensors()
    for path, image in images().items():
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
        interpreter.invoke()
        found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        wanted = fitzroy.evaluate(shipped(), {"image": image}, arithmetic)["probabilities"]
        assert np.abs(found.astype(np.int64) - wanted).max() <= 1
        assert int(found.argmax()) == int(path.stem.split("_")[1])


def test_the_shipped_model_is_accurate() -> None:
    module = trainer()
    _, held_out = module.load_digits()
    scores = module.reference_scores(shipped(), module.stored(held_out.images))
    assert len(scores) == 540
    assert module.accuracy(scores, held_out) >= 0.97


def test_a_detector_keeps_boxes_and_scores_apart() -> None:
    need("sklearn", "examples")
    lines = run("detector/train_detector.py", "--epochs", "1", "--scenes", "64").splitlines()
    assert lines[0].startswith("epoch   1")
    apart, joined = (float(line.rsplit(" ", 1)[1]) for line in lines[-2:])
    assert apart < joined


def test_the_shipped_detector_finds_digits() -> None:
    """Float32, and what the Edge TPU's compiler makes of it, on the pictures beside it."""
    need("PIL", "examples")
    folder = EXAMPLES / "detector"
    pictures = [pixels(path) for path in sorted((folder / "calibration").iterdir())]
    options = HeadOptions(True, score_threshold=0.5)
    graph = with_detections(fitzroy.load(folder / "detector.tflite"), options)
    samples = [{"image": picture.astype(np.float32) / 255} for picture in pictures]
    known = {"image": (0.0, 1.0)}
    bounds = limits(graph, options)
    quantized = quantize_model(graph, samples, QuantizeOptions(), known=known, limits=bounds).graph
    compiled = compile_edgetpu(Source.of(quantized))
    assert len(compiled.segments) == 1
    assert [node.op for node in compiled.unmapped] == ["detections"]
    exact, found = [], []
    with fitzroy.Interpreter(compiled.data, device="sim:direct") as interpreter:
        for path in sorted((folder / "scenes").iterdir()):
            picture = pixels(path)
            real = {"image": picture.astype(np.float32) / 255}
            exact.append(fitzroy.evaluate(graph, real)["detections"])
            stored = (picture.astype(np.int16) - 128).astype(np.int8)
            found.append(interpreter.run({"image": stored})["detections"])
    assert sum(int((rows[:, 4] > 0).sum()) for rows in exact) >= 4
    assert mean_average_precision(found, exact) > 0.8


def pixels(path: Path) -> Array:
    """A grey picture as [1,32,32,1]."""
    from PIL import Image

    with Image.open(path) as file:
        return np.asarray(file)[None, :, :, None]
