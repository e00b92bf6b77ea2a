"""What JSON documents say they are: the name and the version of a published schema.

A schema is a file of ``report/schemas`` (JSON Schema 2020-12). Programs that read documents go by
``schema``, and by ``schema_version``, which counts up when a field goes away or changes its
meaning. Fields are added without a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from fitzroy.base.errors import UsageError

PREFIX = "fitzroy-"
"""What the names of schemas begin with in documents."""

VERSIONS: Mapping[str, int] = {
    "as": 1,
    "bench": 2,
    "bench-pipeline": 1,
    "calibrate-host": 1,
    "compare": 1,
    "compile": 1,
    "compile-module": 1,
    "compile-program": 1,
    "convert": 1,
    "debug": 1,
    "devices": 1,
    "dis": 1,
    "doctor": 1,
    "error": 1,
    "evaluate": 1,
    "explain": 1,
    "inspect": 1,
    "inspect-envelope": 1,
    "inspect-forms": 1,
    "inspect-tables": 1,
    "link": 1,
    "opt": 1,
    "passes": 1,
    "patch-weights": 1,
    "plan": 1,
    "probe": 1,
    "probes": 1,
    "quantize": 1,
    "quantize-compare": 1,
    "run": 1,
    "run-batch": 1,
    "run-bundle": 1,
    "schemas": 1,
    "shim": 1,
    "sim": 1,
    "sim-batch": 1,
    "test": 1,
    "udev-rules": 1,
    "usbip-event": 1,
    "usbip-list": 1,
}
"""The version of every schema by its name."""


def headed(name: str, value: Mapping[str, object]) -> dict[str, object]:
    """A document that says what it is.

    Args:
        name: its schema, a key of `VERSIONS`.
        value: its content.
    """
    return {"schema": PREFIX + name, "schema_version": VERSIONS[name], **value}


def schema(name: str) -> dict[str, Any]:
    """A published schema.

    Args:
        name: a key of `VERSIONS`, with or without the prefix.

    Raises:
        UsageError: there is no such schema.
    """
    short = name.removeprefix(PREFIX)
    if short not in VERSIONS:
        raise UsageError(
            f"there is no schema {name[:80]!r}",
            reason=f"there are {', '.join(VERSIONS)}",
            hint="list them with: fitzroy schema",
        )
    file = resources.files("fitzroy.report.schemas").joinpath(f"{short}.json")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found
