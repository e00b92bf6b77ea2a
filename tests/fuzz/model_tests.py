"""Test files, and documents that comparisons and expectations are read from."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.report.documents import headed
from fitzroy.testing import tables
from fitzroy.testing.comparison import compared
from fitzroy.testing.expected import read_expected
from fitzroy.testing.figures import ModelFigures
from fitzroy.testing.reading import document_figures
from fitzroy.testing.spec import Spec, parse_spec

_COMMENT = 65_536
"""Characters that a comment on a pull request may have."""


def specs() -> list[bytes]:
    """Test files that ask everything."""
    return [
        b"""model = "m_edgetpu.tflite"
source = "m.tflite"
labels = "labels.txt"
device = "sim"
mean = 127.5
std = [1, 2.5, 3]
runs = 7

[predict]
clock = "high"
driver = "fitzroy"

[limits]
cycles = 1000
latency_us = 12.5

[operators]
on_chip = ["CONV_2D"]
on_host = []

[[case]]
input = { left = "a.npy", right = "b.npy" }
expect = "y.npy"
tolerance = 2

[[case]]
name = "two"
input = ["x.png", "y.png"]
top = "cat"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

[[accuracy]]
data = "images"
names = "digit_{class}_"
top1 = 0.9
top5 = 1
samples = 10
""",
        b'model = "m.tflite"\ncompile = { partition = "all" }\n[[case]]\ninput = "x"\ntop = 1\n',
    ]


def as_spec(data: bytes) -> Spec:
    """What a test file asks.

    Raises:
        FormatError: it is none.
    """
    return parse_spec(data, "t.toml")


@cache
def _digits() -> str:
    from fitzroy.execution.arrays import digest

    return digest(np.arange(4, dtype=np.int8))


def documents() -> list[bytes]:
    """Documents with figures, and some with outputs."""
    layers = [{"name": f"conv {n}", "cycles": 10.5 * n} for n in range(4)]
    timing = {
        "total_us": 12.5,
        "cycles": 300,
        "instruction_bytes": 64,
        "streamed_bytes": 0,
        "cached_bytes": 128,
        "inputs": {"x": 4},
        "outputs": {"y": 4},
        "phases": layers,
    }
    outputs = [{"name": "y", "sha256": _digits()}]
    part = {
        "instruction_bytes": 64,
        "narrow_bytes": 8,
        "inputs": {"x": 4},
        "outputs": {"y": 4},
        "estimate": {"total_us": 12.5, "cycles": 300},
        "layers": layers,
    }
    compiled = {
        "subgraphs": [part, part],
        "inference": {"total_us": 25.0, "host_us": 0.0},
        "files": [{"path": "m", "bytes": 9}],
        "operators": 3,
        "mapped": 2,
        "cached_bytes": 128,
        "streamed_bytes": 0,
    }
    check = {"kind": "accuracy", "name": "a top-1", "found": 0.5}
    report = {
        "file": "t.toml",
        "figures": {"cycles": 3},
        "checks": [check],
        "layers": layers,
        "host_operators": {"X": 1},
    }
    seconds = {"p50": 0.1, "p90": 0.2, "p99": 0.3}
    predicted = {"seconds": 0.1, "host_seconds": 0.0, "cached_bytes": 1}
    found: dict[str, dict[str, Any]] = {
        "sim": {"timing": timing, "outputs": outputs},
        "run-batch": {"inferences": [{"name": "x", "outputs": outputs}]},
        "compile": compiled,
        "test": {"reports": [report]},
        "bench": {"first_seconds": 1, "seconds": seconds, "predicted": predicted},
    }
    return [json.dumps(headed(name, content)).encode() for name, content in found.items()]


def read_document(data: bytes) -> object:
    """A document, by what it is for.

    Raises:
        FitzroyError: it is malformed, or for nothing.
    """
    try:
        return document_figures(data, "d.json")
    except FormatError:
        return _expected(data)


def _expected(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "y.json"
        path.write_bytes(data)
        expected = read_expected(str(path), "x")
        expected.deviations([("y", np.arange(4, dtype=np.int8))])
        return expected


def document_target(data: bytes) -> None:
    """Read a document, compare it with another one, and show what changed.

    Raises:
        FitzroyError: it is malformed, or for nothing.
    """
    found = read_document(data)
    if not isinstance(found, ModelFigures):
        return
    if any(not item.same for item in compared(found, found).figures):
        raise AssertionError("a model differs from itself")
    others = [document_figures(seed) for seed in documents() if b"run-batch" not in seed]
    for other in others:
        for pair in ((found, other), (other, found)):
            changes = compared(*pair)
            worse = changes.regressions(1)
            json.dumps(tables.document(changes, worse))
            text = tables.markdown(changes, worse, 1)
            if len(text) > _COMMENT or "\x1b" in text:
                raise AssertionError("a comment that nobody takes")
            tables.table(changes)
