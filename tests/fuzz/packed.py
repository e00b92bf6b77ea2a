"""Archives after TFLite models, and the names of classes in them."""

from __future__ import annotations

import io
import random
import struct
import zipfile

from tests.fuzz import hostile

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.formats import tflite
from fitzroy.formats.labels import MOST, labelled, labels_of, read_label_file, write_label_file

_NAMES = {0: "cat", 1: "dog", 3: "bird"}
_METADATA = """{'task': 'detect', 'stride': 32, 'names': {0: 'cat', 1: "dog's", 2: '\\x41'}}"""
_JSON = '{"task": "detect", "imgsz": [320, 320], "names": {"0": "cat", "1": "d\\u00f6g"}}'
_FIELDS = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
_TEXTS = (
    *("{", "}", "[" * 40, "{" * 40, "'" * 3, "1+1", "-" * 100, "f'{1}'", "9" * 70, "1e9999"),
    *("True: ", "{{}: 'x'}", "{**{}}", "lambda: 0", "'\\N{x}'", "'\\ud800'", "()", "None", ","),
    *("65536: 'x', ", "-1: 'x', ", "'names': ", "0: 5, ", "0: 'x', " * 5000),
)  # fmt: skip


def _model() -> tflite.Model:
    type, graph = TensorType((1, 4), DType.FLOAT32), Graph("model")
    graph.add_input("x", type)
    graph.outputs = [graph.emit("abs", ["x"], type, stem="scores")]
    return export_model(graph)


def _appended(data: bytes, files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def labelled_files() -> list[bytes]:
    """Models with labels as they are written here, in metadata of Ultralytics, and in texts."""
    plain = tflite.write_model(_model())
    return [
        tflite.write_model(labelled(_model(), _NAMES)),
        _appended(plain, {"metadata.json": _JSON.encode()}, zipfile.ZIP_DEFLATED),
        _appended(plain, {"temp_meta.txt": _METADATA.encode()}),
        _appended(plain, {"labelmap.txt": b"???\ncat\n", "vocab.txt": b"x"}, zipfile.ZIP_DEFLATED),
    ]


def change(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A model with another archive: hostile contents in a sound one, or fields that are lies."""
    start = seed.find(b"PK\x03\x04")
    if rng.random() < 0.5:
        with zipfile.ZipFile(io.BytesIO(seed)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        for name in list(files):
            text = bytearray(files[name])
            for _ in range(rng.choice((1, 1, 2, 4))):
                at = rng.randint(0, len(text))
                piece = rng.choice(_TEXTS) if rng.random() < 0.6 else hostile.text(rng)
                text[at : at + rng.choice((0, 0, 1, 8))] = piece.encode("utf-8", "surrogatepass")
            files[name] = bytes(text) * rng.choice((1, 1, 1, 1, 2000))
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        return _appended(seed[:start], files, method)
    data = bytearray(seed)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randint(start, max(start, len(data) - 4))
        if at + 4 <= len(data):
            form = rng.choice(("<B", "<H", "<I"))
            most = (1 << 8 * struct.calcsize(form)) - 1
            struct.pack_into(form, data, at, rng.choice(_FIELDS) & most)
    if rng.random() < 0.1:
        data += data[start:] * rng.choice((1, 5))
    return bytes(data)


def target(data: bytes) -> None:
    """Read a model and its labels, and write them again.

    Raises:
        FormatError: the model is malformed.
    """
    model = tflite.read_model(data)
    found = labels_of(model)
    for number, name in found.labels.items():
        if not 0 <= number < MOST or not name.isprintable():
            raise AssertionError(f"class {number} is {name!r}")
    if read_label_file(write_label_file(found.labels)) != found.labels:
        raise AssertionError("a file of labels has others")
    if import_model(model).labels != found.labels:
        raise AssertionError("the graph has other labels")
    for labels in (found.labels, _NAMES):
        again = tflite.read_model(tflite.write_model(labelled(model, labels)))
        if labels_of(again).labels != labels:
            raise AssertionError("the written model has other labels")
