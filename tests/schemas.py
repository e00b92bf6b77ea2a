"""Documents held to their published schemas, and to nothing beside them."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

from fitzroy.report.documents import PREFIX, schema

LARGEST = 2**53 - 1
"""The largest integer that every reader of JSON has an exact number for."""


def hold(document: object) -> None:
    """Check a document against the schema that it names, which has to declare all of its fields.

    Without jsonschema (extra: dev), only that it names one.
    """
    assert isinstance(document, dict), "a document is an object"
    # Reports of probes are files that say what they are in words of their own.
    name = document.get("schema") or document["format"]
    found = _closed(name)
    assert not list(_inexact(document)), "integers of more than 53 bits are strings"
    if importlib.util.find_spec("jsonschema") is None:
        return
    from jsonschema import Draft202012Validator

    faults = [
        f"{error.json_path}: {error.message[:300]}"
        for error in Draft202012Validator(found).iter_errors(document)
    ]
    advice = f"declare the field in src/fitzroy/report/schemas/{name.removeprefix(PREFIX)}.json"
    assert not faults, f"{'; '.join(faults)} ({advice})"


@cache
def _closed(name: str) -> Any:
    return closed(schema(name))


def closed(part: Any) -> Any:
    """A schema without fields that it does not declare, wherever it declares some."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: closed(value) for key, value in part.items()}
    if isinstance(part.get("properties"), dict) and part.get("type") is not None:
        found.setdefault("additionalProperties", False)
    return found


def _inexact(value: object) -> list[int]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in _inexact(item)]
    if isinstance(value, list):
        return [found for item in value for found in _inexact(item)]
    inexact = isinstance(value, int) and abs(value) > LARGEST
    return [value] if inexact and isinstance(value, int) else []
