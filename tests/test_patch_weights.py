"""``fitzroy.patch_weights`` on models that were compiled here, with the record of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu_models import random_model
from tests.support import corpus

import fitzroy
from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.base.types import Quantization
from fitzroy.compilation.edgetpu import compile_edgetpu, compile_together
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.formats import tflite
from fitzroy.formats.compilation_record import read_record
from fitzroy.formats.darwinn import diff
from fitzroy.linker.packages.container import read_container


def retrained(graph: Graph) -> Graph:
    """A model with other weights of 8 bits, and biases that are a little smaller."""
    found = import_model(export_model(graph))
    for value in [*found.values.values()]:
        if value.data is not None and value.data.itemsize == 1:
            found.set_value(replace(value, data=np.flip(value.data).copy()))
        elif value.data is not None and value.data.dtype == np.int32:
            found.set_value(replace(value, data=value.data - value.data // 8))
    return found


def written(graph: Graph, path: Path) -> Path:
    path.write_bytes(tflite.write_model(export_model(graph)))
    return path


def compiled(source: Path) -> Path:
    path = source.with_name(f"{source.stem}_edgetpu.tflite")
    path.write_bytes(compile_edgetpu(source).data)
    return path


def check_same_programs(data: bytes, wanted: bytes) -> None:
    """Equal packages, but for the name of the model."""
    for one, other in zip(
        read_container(data).packages, read_container(wanted).packages, strict=True
    ):
        assert [str(item) for item in diff(one, other) if ".name" not in str(item)] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 4, 11])
def test_a_patched_model_is_the_compiled_retrained_one(seed: int, tmp_path: Path) -> None:
    graph = random_model(seed)
    source = written(graph, tmp_path / "m.tflite")
    model = compiled(source)
    new = written(retrained(graph), tmp_path / "new.tflite")
    data, report = fitzroy.patch_weights(model, new)
    wanted = compile_edgetpu(new).data
    check_same_programs(data, wanted)
    assert sum(package.changed for package in report.packages) > 0
    with_original, _ = fitzroy.patch_weights(model, new, original=source)
    assert with_original == data
    assert read_record(tflite.read_model(data)) == read_record(tflite.read_model(wanted))
    same, nothing = fitzroy.patch_weights(model, source)
    assert same == model.read_bytes()
    assert not nothing.changed


@pytest.mark.long
@pytest.mark.corpus
def test_every_weight_of_a_network_has_a_new_place(tmp_path: Path) -> None:
    source = corpus() / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    graph = import_model(tflite.read_model(source.read_bytes()))
    model = tmp_path / "m_edgetpu.tflite"
    model.write_bytes(compile_edgetpu(source).data)
    new = written(retrained(graph), tmp_path / "new.tflite")
    data, report = fitzroy.patch_weights(model, new)
    check_same_programs(data, compile_edgetpu(new).data)
    (package,) = report.packages
    # Weights may come in two parts, one for each channel of the ring.
    assert len(package.operands) == 46
    assert len({operand.operator.replace("/beside", "") for operand in package.operands}) == 28
    assert all(operand.changed for operand in package.operands)
    assert all("conv_2d '" in operand.operator for operand in package.operands)


def test_models_that_share_a_chip_are_patched_in_place(tmp_path: Path) -> None:
    sources = [written(random_model(seed), tmp_path / f"{seed}.tflite") for seed in (1, 4)]
    second = tmp_path / "second_edgetpu.tflite"
    second.write_bytes(compile_together(sources)[1].data)
    new = written(retrained(random_model(4)), tmp_path / "new.tflite")
    data, report = fitzroy.patch_weights(second, new)
    wanted = compile_together([sources[0], new])[1].data
    one, other = (read_container(item).packages[0] for item in (data, wanted))
    assert one.caching is not None
    assert other.caching is not None
    assert np.array_equal(one.caching.parameters, other.caching.parameters)  # type: ignore[arg-type]
    assert report.changed


def test_other_activations_are_refused_by_name(tmp_path: Path) -> None:
    graph = random_model(1)
    model = compiled(written(graph, tmp_path / "m.tflite"))
    other = retrained(graph)
    name = other.inputs[0]
    type = other.type(name)
    assert type.quantization is not None
    wider = Quantization.per_tensor(2 * type.quantization.scale[0], type.quantization.zero_point[0])
    other.set_value(replace(other.value(name), type=replace(type, quantization=wider)))
    new = written(other, tmp_path / "new.tflite")
    with pytest.raises(UnsupportedError, match="need another program") as caught:
        fitzroy.patch_weights(model, new)
    assert any(name in reject.where for reject in caught.value.rejects)
    assert len(str(caught.value)) < 3000


def test_another_original_is_refused(tmp_path: Path) -> None:
    graph = random_model(1)
    model = compiled(written(graph, tmp_path / "m.tflite"))
    new = written(retrained(graph), tmp_path / "new.tflite")
    with pytest.raises(LinkError, match="not made from this original"):
        fitzroy.patch_weights(model, new, original=new)


def test_another_model_is_refused(tmp_path: Path) -> None:
    model = compiled(written(random_model(1), tmp_path / "m.tflite"))
    for seed in (2, 4):
        with pytest.raises((LinkError, UnsupportedError)):
            fitzroy.patch_weights(model, written(random_model(seed), tmp_path / "other.tflite"))
