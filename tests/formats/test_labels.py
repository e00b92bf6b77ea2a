"""Names of classes in texts and in TFLite models."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.test_post_processing import detector

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.formats import flat, tflite
from fitzroy.formats.archive import Archive
from fitzroy.formats.labels import (
    cleaned,
    labelled,
    labels_of,
    read_label_file,
    read_names,
    write_label_file,
)
from fitzroy.formats.tflite_metadata import (
    IDENTIFIER,
    AssociatedFile,
    FileType,
    ModelMetadata,
    SubGraphMetadata,
    TensorMetadata,
)

NAMES = {0: "cat", 1: "dog", 2: "7 up"}


def classifier(*classes: int) -> tflite.Model:
    """A model with a vector of scores for each count of classes."""
    graph = Graph("classifier")
    for number, count in enumerate(classes):
        type = TensorType((1, count), DType.FLOAT32)
        graph.add_input(f"x{number}", type)
        graph.outputs.append(graph.emit("abs", [f"x{number}"], type, stem=f"scores{number}"))
    return export_model(graph)


def again(model: tflite.Model) -> tflite.Model:
    return tflite.read_model(tflite.write_model(model))


def with_files(model: tflite.Model, files: dict[str, bytes]) -> tflite.Model:
    return replace(model, archive=Archive(files))


def with_metadata(model: tflite.Model, table: ModelMetadata) -> tflite.Model:
    data = np.frombuffer(flat.encode(table, identifier=IDENTIFIER), np.uint8)
    buffers = list(model.buffers or ())
    entry = tflite.Metadata(name=tflite.METADATA, buffer=len(buffers))
    return replace(model, buffers=[*buffers, tflite.Buffer(data=data)], metadata=[entry])


def declared(*files: list[AssociatedFile]) -> ModelMetadata:
    """Metadata with the files of each output."""
    outputs = [TensorMetadata(associated_files=item) for item in files]
    return ModelMetadata(subgraph_metadata=[SubGraphMetadata(output_tensor_metadata=outputs)])


def file(
    name: str, kind: FileType = FileType.TENSOR_AXIS_LABELS, locale: str | None = None
) -> AssociatedFile:
    return AssociatedFile(name=name, type=int(kind), locale=locale)


def declarations(model: tflite.Model) -> list[list[tuple[str | None, int]]]:
    """Names and types of the files that a model's metadata declare for each output."""
    entries = [entry for entry in model.metadata or () if entry.name == tflite.METADATA]
    assert len(entries) == 1
    data = tflite.buffer_bytes(model, entries[0].buffer)
    graphs = flat.decode(ModelMetadata, data, identifiers=(IDENTIFIER,)).subgraph_metadata or []
    assert len(graphs) == 1
    return [
        [(file.name, file.type) for file in item.associated_files or ()]
        for item in graphs[0].output_tensor_metadata or ()
    ]


# --- texts ---------------------------------------------------------------------------------------


@given(st.dictionaries(st.integers(0, 300), st.text(max_size=20), max_size=20))
def test_files_of_labels_are_read_as_they_were_written(labels: dict[int, str]) -> None:
    clean = cleaned(labels)
    assert read_label_file(write_label_file(clean)) == clean


def test_names_that_begin_with_numbers_are_numbered_in_files() -> None:
    assert write_label_file({0: "cat", 1: "7 up"}) == b"cat\n7 up\n"
    assert write_label_file({0: "8 ball", 1: "7 up"}) == b"0 8 ball\n1 7 up\n"
    assert write_label_file({1: "cat"}) == b"1 cat\n"


@pytest.mark.parametrize(
    "text",
    [
        "{0: 'cat', 1: 'dog', 2: '7 up'}",
        '{"0": "cat", "1": "dog", "2": "7 up"}',
        "['cat', 'dog', '7 up']",
        " {2: \"7 up\",\n 1: 'd\\x6fg', 0: 'cat', 5: '', 6: '???'} ",
    ],
)
def test_dictionaries_of_names(text: str) -> None:
    assert read_names(text) == NAMES


def test_names_have_one_line() -> None:
    assert read_names("{0: ' a\\n b\\x1b[31m\\u2028c '}") == {0: "a b [31mc".replace("c", " c")}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no list of names"),
        ("{0: 'cat'", "no list of names"),
        ("__import__('os')", "no list of names: \"__import__('os')\" in it"),
        ("{0: f'{1}'}", "in it"),
        ("1+" * 1000 + "1", "in it"),
        ("-" * 1000 + "1", "in it"),
        ("[" * 20 + "]" * 20, "it is too large"),
        ("[1," * 5 + "]" * 5, "the name of class 0 is no text"),
        ("5", "no dictionary and no list"),
        ("{'a': 'cat'}", "'a' is no class"),
        ("{True: 'cat'}", "'True' is no class"),
        ("{-1: 'cat'}", "'-1' is no class"),
        ("{65536: 'cat'}", "'65536' is no class; they are 0 to 65535"),
        ("{0: 5}", "the name of class 0 is no text: 5"),
        ("{[]: 'cat'}", "no list of names"),
        (f"{{0: '{'x' * 1001}'}}", "has 1001 characters, at most 1000 are taken"),
        ("[" + "0," * (1 << 19) + "]", "1048578 characters of names"),
        ("[" + "0," * (1 << 18) + "]", "it is too large"),
    ],
)
def test_other_texts_are_refused(text: str, fault: str) -> None:
    with pytest.raises(FormatError) as error:
        read_names(text)
    assert fault in str(error.value)


# --- models --------------------------------------------------------------------------------------


def test_a_model_without_labels_is_written_as_ever() -> None:
    model = classifier(3)
    assert labelled(model, {}) is model
    assert labels_of(model).labels == {}
    assert tflite.write_model(replace(model, archive=Archive({}))) == tflite.write_model(model)


def test_labels_are_packed_and_declared_for_the_output_with_as_many_scores() -> None:
    model = labelled(classifier(4, 3), NAMES)
    data = tflite.write_model(model)
    assert labels_of(tflite.read_model(data)).labels == NAMES
    assert data == tflite.write_model(labelled(classifier(4, 3), NAMES))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("labels.txt") == b"cat\ndog\n7 up\n"
    assert labelled(again(model), NAMES).archive == again(model).archive
    assert declarations(model) == [[], [("labels.txt", FileType.TENSOR_AXIS_LABELS)]]


def test_classes_of_boxes_are_values() -> None:
    anchors = np.zeros((4, 4), np.float32)
    graph = detector(anchors, DetectionAttributes(4, 1, 3, 0.25, 0.5, 10, 10, 5, 5))
    model = labelled(export_model(graph), NAMES)
    assert declarations(model) == [[], [("labels.txt", FileType.TENSOR_VALUE_LABELS)], [], []]


def test_labels_of_other_outputs_belong_to_the_model() -> None:
    model = labelled(classifier(7), NAMES)
    assert labels_of(again(model)).labels == NAMES


def test_classes_without_names_keep_their_lines() -> None:
    model = labelled(classifier(3), {0: "cat", 3: "bird"})
    assert model.archive is not None
    assert model.archive.files["labels.txt"] == b"cat\n???\n???\nbird\n"
    assert labels_of(again(model)).labels == {0: "cat", 3: "bird"}


def test_declared_files_count_before_others() -> None:
    files = {"labels.txt": b"other\n", "map.txt": b"cat\ndog\n7 up\n"}
    model = with_metadata(with_files(classifier(3), files), declared([file("map.txt")]))
    assert labels_of(again(model)).labels == NAMES
    changed = labelled(model, {0: "bird"})
    assert changed.archive is not None
    assert dict(changed.archive.files) == {"map.txt": b"bird\n"}
    assert labels_of(again(changed)).labels == {0: "bird"}


def test_the_list_without_a_locale_counts() -> None:
    files = {"de.txt": b"Katze\n", "en.txt": b"cat\n"}
    both = [file("de.txt", locale="de"), file("en.txt")]
    model = with_metadata(with_files(classifier(3), files), declared(both))
    assert labels_of(model).labels == {0: "cat"}


def test_outputs_with_different_lists_have_no_labels_in_common() -> None:
    files = {"a.txt": b"cat\n", "b.txt": b"dog\n"}
    table = declared([file("a.txt")], [file("b.txt")])
    found = labels_of(with_metadata(with_files(classifier(3, 3), files), table))
    assert found.labels == {}
    assert found.faults == ("the lists a.txt, b.txt differ, and none is taken",)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"task": "detect", "names": {str(key): name for key, name in NAMES.items()}}),
        str({"task": "detect", "stride": 32, "names": NAMES, "args": {"batch": 1, "half": False}}),
        str({"names": str(NAMES)}),
    ],
)
@pytest.mark.parametrize("name", ["metadata.json", "temp_meta.txt"])
def test_packed_dictionaries(content: str, name: str) -> None:
    model = with_files(classifier(3), {name: content.encode()})
    assert labels_of(again(model)).labels == NAMES
    assert labelled(model, NAMES) is model
    changed = labelled(model, {0: "bird"})
    assert changed.archive is not None
    assert list(changed.archive.files) == ["labels.txt"]
    assert labels_of(again(changed)).labels == {0: "bird"}


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"labels.txt": b"\xff\xfe"}, "labels.txt: labels must be UTF-8 text"),
        ({"labels.txt": b"\n" * 65537}, "labels.txt: 65537 labels, at most 65536 are read"),
        ({"metadata.json": b"{1"}, "metadata.json: no list of names"),
        ({"metadata.json": b'{"names": 5}'}, "metadata.json: names of classes are no dictionary"),
        ({"metadata.json": b"{\xff}"}, "metadata.json: it is no UTF-8 text"),
    ],
)
def test_labels_that_cannot_be_read_are_said(files: dict[str, bytes], fault: str) -> None:
    found = labels_of(with_files(classifier(3), files))
    assert found.labels == {}
    assert len(found.faults) == 1
    assert fault in found.faults[0]


def test_malformed_metadata_are_said_and_files_are_read() -> None:
    model = with_metadata(with_files(classifier(3), {"labels.txt": b"cat\n"}), ModelMetadata())
    assert model.buffers is not None
    model.buffers[-1] = tflite.Buffer(data=np.frombuffer(b"no metadata", np.uint8))
    found = labels_of(model)
    assert found.labels == {0: "cat"}
    assert "the metadata are malformed" in found.faults[0]


def test_other_packed_files_are_kept() -> None:
    model = with_files(classifier(3), {"vocab.txt": b"a\nb\n", "labels.txt": b"x\n"})
    changed = labelled(model, NAMES)
    assert changed.archive is not None
    assert dict(changed.archive.files) == {
        "vocab.txt": b"a\nb\n",
        "labels.txt": b"cat\ndog\n7 up\n",
    }


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(UsageError, match="a label of class 65536"):
        labelled(classifier(3), {65536: "cat"})


def test_a_model_is_a_file_of_labels() -> None:
    data = tflite.write_model(labelled(classifier(3), NAMES))
    assert read_label_file(data) == NAMES
    with pytest.raises(FormatError, match="the model has no names of classes"):
        read_label_file(tflite.write_model(classifier(3)))
