from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus_params

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.formats import darwinn, flat, object_file, tflite, xnnpack
from fitzroy.formats.detect import IDENTIFIERS, FileKind, detect


@pytest.mark.parametrize(("identifier", "kind"), IDENTIFIERS.items())
def test_identifiers_at_byte_4_decide(identifier: bytes, kind: FileKind) -> None:
    assert detect(b"\x10\0\0\0" + identifier + bytes(8)) is kind
    assert detect(memoryview(bytearray(b"\x10\0\0\0" + identifier))) is kind


def test_every_kind_can_be_detected() -> None:
    without = {FileKind.GRAPH_TEXT, FileKind.EXECUTABLE, FileKind.ONNX}
    assert {*IDENTIFIERS.values(), *without} == set(FileKind)


def test_onnx_models_begin_with_a_version_and_another_field() -> None:
    assert detect(b"\x08\x08\x12\x07pytorch") is FileKind.ONNX
    for other in (b"\x08\x08\x13\x07pytorch", b"\x08\x00\x12\x07pytorch", b"\x08\x08"):
        with pytest.raises(FormatError):
            detect(other)


def test_written_files_are_recognised() -> None:
    model = tflite.Model(version=3, subgraphs=[tflite.SubGraph()])
    assert detect(tflite.write_model(model)) is FileKind.TFLITE
    executable = darwinn.Executable(
        batch_size=1,
        instruction_bitstreams=[darwinn.InstructionBitstream(bitstream=np.zeros(16, np.uint8))],
    )
    package = darwinn.write_package(darwinn.PackageFile(executables=[executable]))
    assert detect(package) is FileKind.DARWINN
    assert detect(object_file.write_object(object_file.ObjectFile())) is FileKind.OBJECT
    graph = xnnpack.XNNGraph()
    assert detect(xnnpack.write_blob(graph)) is FileKind.XNNPACK
    assert detect(flat.encode(graph, identifier=b"XN01")) is FileKind.XNNPACK


def _executable(chip: str | None = "beagle", chunks: int = 1, batch_size: int = 1) -> bytes:
    stream = darwinn.InstructionBitstream(bitstream=np.zeros(16, np.uint8))
    return flat.encode(
        darwinn.Executable(
            batch_size=batch_size, instruction_bitstreams=[stream] * chunks, chip=chip
        )
    )


def test_executables_are_told_by_their_tables() -> None:
    data = _executable()
    assert detect(data) is detect(memoryview(data)) is FileKind.EXECUTABLE
    # Their reader says what is wrong with them.
    assert detect(_executable(batch_size=0)) is FileKind.EXECUTABLE
    for other in (_executable(chip=None), _executable(chunks=0), data[:-20]):
        with pytest.raises(FormatError, match="no known format"):
            detect(other)


@pytest.mark.parametrize("file", corpus_params("**/*.executable.bin", quick=24))
def test_executables_of_the_corpus(file: Path) -> None:
    assert detect(file.read_bytes(), str(file)) is FileKind.EXECUTABLE


def test_graph_text_is_recognised() -> None:
    assert detect(b"graph main {\n}\n") is FileKind.GRAPH_TEXT


def archive(*names: str) -> bytes:
    """A ZIP archive with some members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            file.writestr(name, b"x")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04rest", "ZIP archive"),
        (archive("m/models/model.json", "m/data/weights/w"), "torch.export.load"),
        (archive("archive/serialized_exported_program.json"), "torch.export.load"),
        (archive("m/constants.pkl", "m/data.pkl", "m/code/m.py"), "torch.jit.load"),
        (archive("m/data.pkl", "m/data/0"), r"torch.onnx.export\(MODULE"),
        (b"\x80\x02\x8a\nl\xfc\x9cF", "litert_torch.convert"),
        (archive("metadata.json", "config.json", "model.weights.h5"), "from_keras_model"),
        (archive("face.tflite", "hand.tflite"), "it holds face.tflite, hand.tflite"),
        (archive("m.mlpackage/Manifest.json"), "Core ML"),
        (b'\x40\0\0\0\0\0\0\0{"__metadata__":{}}', "weights"),
        (b'<?xml version="1.0"?>\n<net name="m" version="11">', "OpenVINO"),
        (b"\x89HDF\r\n\x1a\n", "Keras"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"<!doctype html>", "--report X.json"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"\xff\xd8\xff\xe0", "pictures go with --input"),
        (b"BM\x8a\x10\x0e", "a picture"),
        (b"\x93NUMPY\x01\0", "arrays go with --input"),
        (b"\x10\0\0\0TFL2", "another schema version"),
        (b"\x10\0\0\0ET13", "ET12 is known"),
        (b"\x10\0\0\0XN02", "XN00 and XN01 are known"),
        (b"abcdefghij", "b'abcdefgh', which no known format does"),
        (b"TFL3", "no known format"),
        (b"graphics", "no known format"),
    ],
)
def test_anything_else_is_refused_with_advice(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        detect(data, "some.bin")
    assert str(caught.value).startswith("some.bin, byte ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("saved_model.pb", "from_saved_model"),
        ("frozen.pb", "tf2onnx.convert --graphdef"),
        ("m.mlmodel", "Core ML"),
        ("w.safetensors", "weights"),
    ],
)
def test_names_decide_where_there_is_no_mark(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        detect(b"\x08\x01\x12\x04abcd", name)


def test_archives_with_a_broken_directory_are_archives() -> None:
    data = archive("m/data.pkl")
    for end in range(4, len(data)):
        with pytest.raises(FormatError, match="this is a"):
            detect(data[:end])


@pytest.mark.parametrize(
    ("member", "message"), [("saved_model.pb", "SavedModel"), ("Manifest.json", "Core ML")]
)
def test_folders_that_are_models(tmp_path: Path, member: str, message: str) -> None:
    (tmp_path / member).write_bytes(b"x")
    with pytest.raises(UsageError, match=message) as caught:
        read_file(tmp_path)
    assert caught.value.hint
