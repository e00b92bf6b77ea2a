"""``fitzroy run --float``: real numbers for quantized inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run

import fitzroy as library
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.execution.arrays import image_array, real_values
from fitzroy.formats import tflite


def rescaled(dtype: DType, before: Quantization, after: Quantization) -> Graph:
    """A model that only changes the scale."""
    graph = Graph("rescaled")
    x = graph.add_input("x", TensorType((2, 3), dtype, before))
    graph.outputs = [graph.emit("quantize", [x], TensorType((2, 3), dtype, after), stem="y")]
    return graph


def stored(real: Array, type: TensorType) -> Array:
    """The nearest elements, one by one."""
    quantization = type.quantization
    assert quantization is not None
    low, high = type.dtype.limits
    found = [
        min(max(round(float(x) / quantization.scale[0]) + quantization.zero_point[0], low), high)
        for x in real.reshape(-1)
    ]
    return np.array(found, type.dtype.numpy).reshape(real.shape)


@pytest.mark.parametrize(
    ("dtype", "zero"), [(DType.UINT8, 100), (DType.INT8, -20), (DType.INT16, 0)]
)
def test_numbers_are_in_the_units_of_the_source(
    fitzroy: Run, tmp_path: Path, dtype: DType, zero: int
) -> None:
    graph = rescaled(dtype, Quantization.per_tensor(0.25, zero), Quantization.per_tensor(0.5, zero))
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    x = np.array([[-1e9, -3.3, 0.0], [1.25, 17.1, np.inf]], np.float32)
    np.save("x.npy", x)
    result = fitzroy("run", path, "-i", "x.npy", "-o", "y.npy", "--float", "--json")
    assert result.code == 0
    found = np.load("y.npy")
    assert found.dtype == np.float32
    elements = stored(np.nan_to_num(x, posinf=1e9), graph.type("x"))
    y = library.evaluate(graph, {"x": elements})["y"]
    np.testing.assert_array_equal(found, real_values(y, graph.type("y")).astype(np.float32))
    assert result.json["outputs"][0]["type"] == "float32[2,3]"
    np.save("stored.npy", elements)
    assert fitzroy("run", path, "-i", "stored.npy", "-o", "z.npy").code == 0
    np.testing.assert_array_equal(np.load("z.npy"), y)


@pytest.mark.parametrize("device", ["", "sim", "sim:direct"])
def test_images_and_devices(
    fitzroy: Run, digits: Path, images: list[Path], tmp_path: Path, device: str
) -> None:
    graph = library.load(digits)
    image = graph.type("image")
    real = image_array(images[4].read_bytes(), image.real())
    wanted = library.evaluate(graph, {"image": stored(real, image)})["probabilities"]
    path, chosen = digits, []
    if device:
        path, chosen = tmp_path / "digits_edgetpu.tflite", ["--device", device]
        path.write_bytes(library.compile_edgetpu(digits).data)
    assert fitzroy("run", path, *chosen, "-i", images[4], "-o", "y.npy", "--float").code == 0
    meant = real_values(wanted, graph.type("probabilities"))
    np.testing.assert_array_equal(np.load("y.npy"), meant.astype(np.float32))
    # What a rule makes of pixels is a real number, too.
    rule = ("--mean", "0", "--std", "255")
    assert fitzroy("run", path, *chosen, "-i", images[4], *rule, "-o", "z.npy", "--float").code == 0
    np.testing.assert_array_equal(np.load("z.npy"), np.load("y.npy"))


def test_what_is_no_number_is_refused(fitzroy: Run, digits: Path) -> None:
    x = np.zeros((1, 8, 8, 1), np.float32)
    x[0, 2:4, 1] = np.nan
    np.save("x.npy", x)
    result = fitzroy("run", digits, "-i", "x.npy", "--float")
    assert result.code == 2
    assert "2 elements that are no numbers" in result.err
    np.save("x.npy", np.zeros((1, 8, 8, 1), np.int8))
    assert "float32" in fitzroy("run", digits, "-i", "x.npy", "--float").err
