"""Names, versions and files of the published schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.schemas import closed, hold
from tests.support import need

from fitzroy.base.errors import UsageError
from fitzroy.report.documents import PREFIX, VERSIONS, headed, schema


def test_every_schema_has_a_file_and_every_file_a_version() -> None:
    files = resources.files("fitzroy.report.schemas").iterdir()
    assert {file.name for file in files if file.name.endswith(".json")} == {
        f"{name}.json" for name in VERSIONS
    }


@pytest.mark.parametrize("name", VERSIONS)
def test_a_schema_says_its_name_and_version(name: str) -> None:
    found = schema(name)
    assert found["$id"] == f"urn:fitzroy:schema:{name}:{VERSIONS[name]}"
    # Reports of probes and documents of verbs name the same two things.
    keys = ("format", "version") if name == "probe" else ("schema", "schema_version")
    head = [found["properties"][key] for key in keys]
    assert head == [{"const": PREFIX + name}, {"const": VERSIONS[name]}]
    assert set(keys) <= set(found["required"])
    assert found["title"]


@pytest.mark.parametrize("name", VERSIONS)
def test_a_schema_is_one(name: str) -> None:
    need("jsonschema", "dev")
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", VERSIONS)
def test_a_schema_refers_to_what_it_has_and_requires_what_it_describes(name: str) -> None:
    found = schema(name)
    used = set()
    for part in parts(found):
        if "$ref" in part:
            used.add(part["$ref"])
        if "properties" in part:
            assert set(part.get("required", ())) <= set(part["properties"])
    assert used == {f"#/$defs/{key}" for key in found.get("$defs", {})}


@pytest.mark.parametrize("verb", ["run", "sim"])
def test_one_of_several_inferences_is_described_as_the_only_one(verb: str) -> None:
    single, several = schema(verb), schema(f"{verb}-batch")
    assert single["$defs"] == several["$defs"]
    inner = several["properties"]["inferences"]["items"]["properties"]
    for key, value in {**several["properties"], **inner}.items():
        if key in single["properties"] and key != "schema":
            assert value == single["properties"][key], key


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from parts(item)


def test_unknown_schemas() -> None:
    assert schema("fitzroy-error") == schema("error")
    with pytest.raises(UsageError, match="there is no schema 'nothing'"):
        schema("nothing")


def test_documents_are_held_to_what_is_declared() -> None:
    need("jsonschema", "dev")
    hold(headed("as", {"output": "x", "bytes": 1, "changed": True}))
    for fault in ({"bytes": "1"}, {"more": 1}, {"bytes": 2**60}):
        with pytest.raises(AssertionError):
            hold(headed("as", {"output": "x", "bytes": 1, "changed": True, **fault}))
    with pytest.raises(AssertionError):
        hold(headed("as", {"output": "x"}))


def test_closing_leaves_maps_open() -> None:
    assert closed({"type": "object", "additionalProperties": {}}) == {
        "type": "object",
        "additionalProperties": {},
    }
    assert json.dumps(closed(schema("error"))).count('"additionalProperties": false') == 3


def test_verbs_name_schemas_that_there_are() -> None:
    verbs = Path(__file__).parents[2] / "src" / "fitzroy" / "cli"
    named = {
        name
        for file in verbs.glob("*.py")
        for name in re.findall(r"(?:\.document|headed)\(\s*\"([\w-]+)\"", file.read_text())
    }
    # That of several inferences is chosen by their number.
    assert named <= set(VERSIONS)
    assert len(named) > 30
