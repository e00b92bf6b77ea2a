"""The record of a compilation in the metadata of a model."""

from __future__ import annotations

import json

import pytest
from tests.fuzz.seeds import compilation_records

from fitzroy.base.errors import FormatError
from fitzroy.formats import tflite
from fitzroy.formats.compilation_record import (
    NAME,
    CompilationRecord,
    attached,
    decoded,
    encoded,
    read_record,
)


def record() -> CompilationRecord:
    found = decoded(compilation_records()[2])
    assert found is not None
    return found


def test_records_are_read_as_they_were_written() -> None:
    for data in compilation_records():
        found = decoded(data)
        assert found is not None
        assert encoded(found) == data


def test_records_without_digests_of_the_source_are_read() -> None:
    document = json.loads(compilation_records()[2])
    assert len(document["packages"][1].pop("source")) == 3
    found = decoded(json.dumps(document).encode())
    assert found is not None
    assert [item.source for item in found.packages] == [(), ()]


def test_a_model_has_one_record() -> None:
    model = tflite.Model(
        version=3,
        subgraphs=[tflite.SubGraph()],
        buffers=[tflite.Buffer()],
        metadata=[tflite.Metadata(name="other")],
    )
    assert read_record(model) is None
    once = attached(model, record())
    assert read_record(once) == record()
    few = decoded(compilation_records()[1])
    assert few is not None
    twice = attached(once, few)
    assert read_record(twice) == few
    assert [entry.name for entry in twice.metadata or ()] == ["other", NAME]
    assert len(twice.buffers or ()) == 2
    again = tflite.read_model(tflite.write_model(twice))
    assert read_record(again) == few


def test_chunks_in_front_move_the_steps() -> None:
    first = record().packages[0]
    moved = first.after([100, 7])
    assert moved.bundles == (100, 7, *first.bundles)
    assert [step.chunk for step in moved.steps] == [step.chunk + 2 for step in first.steps]


def test_records_of_later_versions_are_left_alone() -> None:
    assert decoded(b'{"version":2,"whatever":[]}') is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), -1),
        (("producer",), None),
        (("names",), {}),
        (("packages",), 3),
        (("packages", 0, "operators", 0), 1.5),
        (("packages", 0, "options", "taken"), [0] * 15),
        (("packages", 0, "options", "conservative"), 0),
        (("packages", 0, "options", "parameter_rows"), "all"),
        (("packages", 0, "bundles", 0), 1 << 40),
        (("packages", 0, "steps", 0), [0, 0, 0]),
        (("packages", 0, "steps", 0, 2), 99),
        (("packages", 0, "steps", 0, 4), -2),
        (("packages", 0, "steps", 0, 0), 7),
        (("packages", 1, "source"), 0),
        (("packages", 1, "source", 0), ["name"]),
        (("packages", 1, "source", 0, 0), 99),
        (("packages", 1, "source", 1, 1), "0123"),
        (("packages", 1, "source", 1, 2), "0123456789abcdeg"),
    ],
)
def test_malformed_records_are_refused(path: tuple[str | int, ...], value: object) -> None:
    document = json.loads(compilation_records()[2])
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=r"record is malformed") as caught:
        decoded(json.dumps(document).encode(), "m.tflite")
    assert "m.tflite" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="malformed"):
        decoded(data)


def test_a_record_in_a_buffer_that_is_not_there_is_refused() -> None:
    model = tflite.Model(buffers=[], metadata=[tflite.Metadata(name=NAME, buffer=4)])
    with pytest.raises(FormatError, match="buffer 4"):
        read_record(model)
