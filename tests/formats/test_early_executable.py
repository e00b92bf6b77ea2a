"""Executables of the first compilers, in files written in their layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import FormatError
from fitzroy.formats import custom_op, darwinn, flat, flexbuffer, tflite
from fitzroy.formats.custom_op import EARLY_CACHING_KEY, PACKAGE_KEY
from fitzroy.formats.darwinn import Executable, ExecutableType, Layer, OutputLayer
from fitzroy.formats.early_executable import EarlyExecutable, EarlyLayer


def early_layer(layer: Layer) -> EarlyLayer:
    names = [item.name for item in dataclasses.fields(EarlyLayer)]
    fields = {name: getattr(layer, name) for name in names}
    if isinstance(layer.any_layer, OutputLayer):
        fields["any_layer"] = dataclasses.replace(layer.any_layer, data_type=layer.data_type)
    return EarlyLayer(**fields)


def early(executable: Executable) -> bytes:
    """An executable in the layout of the first compilers, which drops what they did not know."""
    names = [item.name for item in dataclasses.fields(EarlyExecutable)]
    fields = {name: getattr(executable, name) for name in names}
    for name in ("input_layers", "output_layers"):
        if fields[name] is not None:
            fields[name] = [early_layer(layer) for layer in fields[name]]
    return flat.encode(EarlyExecutable(**fields))


def rewrapped(model: tflite.Model, options: Mapping[str, flexbuffer.Value]) -> bytes:
    """The model with other options of its first operator."""
    subgraphs = model.subgraphs or []
    (operator,) = subgraphs[0].operators or []
    content = np.frombuffer(flexbuffer.encode(dict(options), align=16), np.uint8)
    subgraph = dataclasses.replace(
        subgraphs[0], operators=[dataclasses.replace(operator, custom_options=content)]
    )
    return tflite.write_model(dataclasses.replace(model, subgraphs=[subgraph]))


def compiled(name: str) -> tuple[tflite.Model, darwinn.PackageFile]:
    data = (corpus() / name).read_bytes()
    model = tflite.read_model(data, name)
    (operator,) = custom_op.extract(model, name, data)
    return model, operator.read()


def options(package: darwinn.PackageFile) -> dict[str, flexbuffer.Value]:
    found: dict[str, flexbuffer.Value] = {
        "1": 0,
        "2": "beagle",
        PACKAGE_KEY: flexbuffer.Bytes(early(package.main)),
    }
    if package.caching is not None:
        found[EARLY_CACHING_KEY] = flexbuffer.Bytes(early(package.caching))
    return found


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "count"),
    [("templates/dense_256_edgetpu.tflite", 2), ("layers/model_padding_64x64x3_edgetpu.tflite", 1)],
)
def test_executables_are_read_as_a_package(name: str, count: int) -> None:
    model, package = compiled(name)
    data = rewrapped(model, options(package))
    (operator,) = custom_op.extract(tflite.read_model(data, "early"), "early", data)
    found = operator.read()
    assert len(found.executables) == count
    for one, other in ((found.main, package.main), (found.caching, package.caching)):
        if one is None or other is None:
            assert one is other
            continue
        kept = dataclasses.replace(
            other,
            type=one.type,
            parameter_caching_token=one.parameter_caching_token,
            estimated_cycles=0,
            estimated_cycles_64bit=0,
            used_narrow_memory_bytes_per_tile=0,
            chip=None,
        )
        # Layers had no shapes, and outputs a type of their own.
        unknown = ("].shape:", ".data_type:")
        differences = [
            line for line in flat.diff(one, kept) if not any(name in line for name in unknown)
        ]
        assert differences == []
    if count == 2:
        kinds = [executable.kind for executable in found.executables]
        assert kinds == [ExecutableType.PARAMETER_CACHING, ExecutableType.EXECUTION_ONLY]
        first, last = (item.parameter_caching_token for item in found.executables)
        assert first == last != 0
    # What is read is a package that can be written, and read again.
    again = darwinn.read_package(darwinn.write_package(found))
    assert darwinn.diff(found, again) == []
    layers = operator.layers(found.main)
    assert [layer.name for layer in layers[0]] == list(operator.inputs)


@pytest.mark.corpus
def test_a_new_package_takes_the_place_of_both_executables() -> None:
    model, package = compiled("templates/dense_256_edgetpu.tflite")
    data = rewrapped(model, options(package))
    written = custom_op.replace(tflite.read_model(data, "early"), 0, darwinn.write_package(package))
    (operator,) = custom_op.extract(written)
    assert EARLY_CACHING_KEY not in operator.options
    assert darwinn.diff(operator.read(), package) == []


@pytest.mark.corpus
@pytest.mark.parametrize("key", [PACKAGE_KEY, EARLY_CACHING_KEY])
@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"\xff" * 40])
def test_malformed_executables_are_refused(key: str, content: bytes) -> None:
    model, package = compiled("templates/dense_256_edgetpu.tflite")
    content = content if content or key == PACKAGE_KEY else b"\x01"
    data = rewrapped(model, options(package) | {key: flexbuffer.Bytes(content)})
    with pytest.raises(FormatError):
        custom_op.extract(tflite.read_model(data, "early"), "early", data)[0].read()


@pytest.mark.corpus
def test_without_a_sign_of_age_a_package_is_expected() -> None:
    model, package = compiled("templates/dense_256_edgetpu.tflite")
    later: dict[str, flexbuffer.Value] = {
        "1": 0,
        PACKAGE_KEY: flexbuffer.Bytes(early(package.main)),
        "5": -1,
    }
    data = rewrapped(model, later)
    with pytest.raises(FormatError, match="where DWN1 is expected"):
        custom_op.extract(tflite.read_model(data, "early"), "early", data)[0].read()
