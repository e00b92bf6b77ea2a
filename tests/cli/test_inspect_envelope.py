"""``inspect --envelope``, and what ``compile`` says of what leaves the envelope."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Run
from tests.support import corpus

from fitzroy.hw_models.edgetpu.envelope import PROPERTIES, Published, check, published


@pytest.fixture
def compiled(fitzroy: Run, digits: Path) -> str:
    assert fitzroy("compile", digits, "-o", "digits_edgetpu.tflite").code == 0
    return "digits_edgetpu.tflite"


@pytest.fixture
def narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published programs that use no register but the first in slots other than the ALU."""
    ranges = {**published(), "slot-register": Published(0, 0, 1, 1)}
    monkeypatch.setattr(check, "published", lambda: ranges)


def test_document(fitzroy: Run, compiled: str) -> None:
    document = fitzroy("inspect", compiled, "--envelope", "--json").json
    assert document["programs"] == 2
    assert document["partial"] == 0
    assert [item["property"] for item in document["properties"]] == list(PROPERTIES)
    found = {item["property"]: item for item in document["properties"]}
    assert found["relay-fence"]["lowest"] is None
    assert found["chunk-begin"]["outside"] == 0
    assert found["ring-tokens"]["highest"] > 1
    assert found["ring-tokens"]["outside"] == 0
    assert found["ring-tokens"]["first"] is None
    assert found["narrow-top"]["published"] == "at most 49,148"


@pytest.mark.usefixtures("narrower")
def test_what_leaves_the_envelope_is_named(fitzroy: Run, digits: Path, compiled: str) -> None:
    document = fitzroy("inspect", compiled, "--envelope", "--json").json
    found = {item["property"]: item for item in document["properties"]}
    assert found["slot-register"]["outside"] > 0
    assert set(found["slot-register"]["first"]) == {"package", "executable", "chunk", "bundle"}
    text = fitzroy("inspect", compiled, "--envelope").out
    assert "slot-register: Slots may only have access" in text
    assert "To stay inside: use lower registers" in text
    [part] = fitzroy("compile", digits, "--json").json["subgraphs"]
    (item,) = [one for one in part["envelope"] if one["property"] == "slot-register"]
    assert item["risk"] == "low"
    assert item["value"] > 0
    assert item["published"] == "at most 0"
    assert item["step"]
    assert item["remedy"] == PROPERTIES["slot-register"].remedy
    result = fitzroy("compile", digits, "--conservative", "-o", "c_edgetpu.tflite")
    assert result.code == 4
    assert "leaves the envelope of published programs" in result.err
    assert "slot-register" in result.err


def test_a_log_names_what_matters(
    fitzroy: Run, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = {**published(), "push-run": Published(-1, -1, 1, 1)}
    monkeypatch.setattr(check, "published", lambda: ranges)
    out = fitzroy("compile", digits).out
    (line,) = [one for one in out.splitlines() if one.startswith("Outside the envelope")]
    assert "push-run 0 (at most -1 there, high risk" in line


@pytest.mark.corpus
def test_published_program(fitzroy: Run) -> None:
    document = fitzroy(
        "inspect", corpus() / "templates" / "dense_256_edgetpu.tflite", "--envelope", "--json"
    ).json
    assert [item["property"] for item in document["properties"] if item["outside"]] == []


def test_other_files(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("inspect", digits, "--envelope")
    assert result.code == 2
    assert "no Edge TPU operator" in result.err
