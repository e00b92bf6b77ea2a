"""``schema``: the schemas that documents name."""

from __future__ import annotations

import json

from tests.cli.support import Run

from fitzroy.report.documents import VERSIONS, schema


def test_the_list(fitzroy: Run) -> None:
    listed = fitzroy("schema", "--json").json["schemas"]
    assert {item["name"]: item["version"] for item in listed} == VERSIONS
    text = fitzroy("schema").out
    assert all(item["title"] in text for item in listed)


def test_a_schema_as_it_is_published(fitzroy: Run) -> None:
    for name in ("sim", "fitzroy-sim"):
        assert json.loads(fitzroy("schema", name).out) == schema("sim")
    wrong = fitzroy("schema", "nothing", "--json")
    assert wrong.code == 2
    assert wrong.json["schema"] == "fitzroy-error"
    assert "there is no schema 'nothing'" in wrong.json["error"]["what"]
