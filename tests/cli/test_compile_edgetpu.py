from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.support import corpus

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.codegen.lower import lower
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.formats.object_file import ObjectFile, read_object


def test_quantized_models_go_to_the_edge_tpu(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", digits)
    assert (result.code, result.err) == (0, "")
    assert os.listdir(tmp_path) == ["digits_edgetpu.tflite"]
    assert "Model compiled successfully" in result.out
    assert "Number of Edge TPU subgraphs" in result.out
    assert "CONV_2D" not in result.out
    listed = fitzroy("compile", digits, "--show-operations")
    assert "Mapped to Edge TPU" in listed.out
    assert "CONV_2D" in listed.out


def test_the_compiled_model_answers_as_its_source(
    fitzroy: Run, digits: Path, images: list[Path]
) -> None:
    assert fitzroy("compile", digits, "-o", "d_edgetpu.tflite", "-q").code == 0
    for image in images[:4]:
        assert fitzroy("run", digits, "-i", image, "-o", "a.npy", "-q").code == 0
        assert fitzroy("sim", "d_edgetpu.tflite", "-i", image, "-o", "b.npy", "-q").code == 0
        assert np.array_equal(np.load("a.npy"), np.load("b.npy"))


def test_figures(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    document = fitzroy("compile", digits, "--json").json
    assert document["target"] == "edgetpu"
    assert document["mapped"] == document["operators"] == 9
    assert document["streamed_bytes"] == 0
    [part] = document["subgraphs"]
    assert part["operators"] == 9
    assert part["cached_bytes"] == document["cached_bytes"] > 40_000
    assert part["instruction_bytes"] > 1_000
    [file] = document["files"]
    data = (tmp_path / file["path"]).read_bytes()
    assert len(data) == file["bytes"]
    [operator] = custom_op.extract(tflite.read_model(data))
    assert operator.outputs == ("probabilities",)


def test_formats(fitzroy: Run, digits: Path, tmp_path: Path, images: list[Path]) -> None:
    assert fitzroy("compile", digits, "--format", "package").code == 0
    package = darwinn.read_package((tmp_path / "digits.dwn").read_bytes())
    assert package.package.min_runtime_version == 14
    assert fitzroy("compile", digits, "--format", "object").code == 0
    assert read_object((tmp_path / "digits.fzo").read_bytes()).chip == "beagle"
    assert fitzroy("compile", digits, "-o", "old.dwn", "--format", "package",
                   "--min-runtime-version", "12").code == 0  # fmt: skip
    old = darwinn.read_package((tmp_path / "old.dwn").read_bytes())
    assert old.package.min_runtime_version == 12
    assert fitzroy("sim", "digits.dwn", "-i", images[0]).code == 0


def test_equal_input_gives_equal_bytes(fitzroy: Run, digits: Path) -> None:
    assert fitzroy("compile", digits, "-o", "a_edgetpu.tflite").code == 0
    assert fitzroy("compile", digits, "-o", "b_edgetpu.tflite").code == 0
    assert Path("a_edgetpu.tflite").read_bytes() == Path("b_edgetpu.tflite").read_bytes()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--min-runtime-version", "15"], "no form of programs for runtime 15"),
        (["--target", "edgetpu", "--bundle", "x.npy"], "--bundle is for ExecuTorch programs"),
        (["--target", "edgetpu", "--dump", "d"], "--dump is for ExecuTorch programs"),
    ],
)
def test_refused_options(fitzroy: Run, digits: Path, options: list[str], text: str) -> None:
    result = fitzroy("compile", digits, *options)
    assert result.code == 2
    assert text in result.err + result.out
    assert not os.listdir()


def test_a_model_without_integers_goes_to_xnnpack(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("float")
    x = graph.add_input("x", TensorType((1, 6), DType.FLOAT32))
    graph.outputs = [graph.emit("abs", [x], TensorType((1, 6), DType.FLOAT32), stem="y")]
    path = tmp_path / "float.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    assert fitzroy("compile", path).code == 0
    assert (tmp_path / "float.pte").exists()
    refused = fitzroy("compile", path, "--target", "edgetpu")
    assert refused.code == 4
    assert "no operator can be mapped to the Edge TPU" in refused.err
    explained = fitzroy("explain", path, "--target", "edgetpu")
    assert "is not 8-bit quantized" in explained.out


@pytest.mark.corpus
def test_what_does_not_fit_stays_on_the_host(
    fitzroy: Run, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def limited(graph: Graph) -> ObjectFile:
        calls.append(graph)
        if len(calls) == 1:
            raise CapacityError("tensor 'x' takes too many bytes", reason="192 KiB are there")
        return lower(graph)

    monkeypatch.setattr("fitzroy.edgetpu.lower", limited)
    refused = fitzroy("compile", digits)
    assert refused.code == 5
    assert "tensor 'x' takes too many bytes" in refused.err
    recurrent = corpus() / "coral" / "keras_lstm_mnist_ptq.tflite"
    calls.clear()
    document = fitzroy("compile", recurrent, "--json").json
    assert len(document["subgraphs"]) == 1
    assert any("192 KiB" in item["status"] for item in document["operations"])
