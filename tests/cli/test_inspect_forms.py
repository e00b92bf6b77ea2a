"""``inspect --forms``: which instructions no published program has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Run
from tests.support import corpus

from fitzroy.hw_models.isa.forms import published
from fitzroy.hw_models.isa.novelty import ASPECTS


@pytest.fixture
def compiled(fitzroy: Run, digits: Path) -> str:
    assert fitzroy("compile", digits, "-o", "digits_edgetpu.tflite").code == 0
    return "digits_edgetpu.tflite"


def test_document(fitzroy: Run, compiled: str) -> None:
    result = fitzroy("inspect", compiled, "--forms", "--json")
    assert result.code == 0
    document = result.json
    counts = [item["count"] for item in document["novel"]]
    assert counts == sorted(counts, reverse=True)
    assert document["instructions"] - document["known_instructions"] == sum(counts)
    assert document["forms"] - document["known_forms"] == len(counts)
    assert document["known_instructions"] > 0.7 * document["instructions"]
    names = {aspect.name for aspect in ASPECTS}
    for item in document["novel"]:
        assert item["form"] not in published()
        assert item["nearest"] in published()
        assert item["aspects"]
        assert names.issuperset(item["aspects"])
        assert all(one["here"] != one["published"] for one in item["differences"])
        assert set(item["first"]) == {"package", "executable", "chunk", "bundle"}


def test_text(fitzroy: Run, compiled: str) -> None:
    document = fitzroy("inspect", compiled, "--forms", "--json").json
    result = fitzroy("inspect", compiled, "--forms")
    assert result.code == 0
    assert f"{document['instructions']:,}, of which {document['known_instructions']:,}" in (
        result.out
    )
    if document["novel"]:
        assert "places are package:executable:chunk:bundle" in result.out


@pytest.mark.corpus
def test_published_program(fitzroy: Run) -> None:
    """All of its forms are published: it is one of those that the table was made from."""
    document = fitzroy(
        "inspect", corpus() / "templates" / "dense_256_edgetpu.tflite", "--forms", "--json"
    ).json
    assert document["novel"] == []
    assert document["instructions"] == document["known_instructions"] == 144


def test_other_files(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("inspect", digits, "--forms")
    assert result.code == 2
    assert "no Edge TPU operator" in result.err
