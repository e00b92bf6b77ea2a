"""Reports of probes that nobody vouches for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fitzroy.base.errors import FormatError
from fitzroy.formats.probe_report import (
    MOST_BYTES,
    MOST_RESULTS,
    Report,
    Result,
    Status,
    read_report,
    write_report,
)

DIGEST = "ab" * 32
PASSED = Result("far-infeed", Status.PREDICTED, ("mac a=1",), ("infeed-base",), DIGEST, DIGEST, 16)
WRONG = Result(
    "round-ties", Status.DIFFERS, (), (), DIGEST, "cd" * 32, 16, 2, ((0, 1, 2), (5, 3, 4)), "up"
)
REPORT = Report("usb", DIGEST, "fitzroy", "", "Linux x86_64", "now", (PASSED, WRONG))


def document(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_report(REPORT))
    found.update(changes)
    return found


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def with_result(**changes: Any) -> bytes:
    found = document()
    found["results"][1].update(changes)
    return encoded(found)


def test_a_report_is_read_as_it_was_written() -> None:
    assert read_report(write_report(REPORT)) == REPORT


def test_what_passed_is_confirmed() -> None:
    assert REPORT.confirmed == {"mac a=1", "infeed-base"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no report of probes"),
        (b"\xff\xfe", "no report of probes"),
        (b"[" * 100_000, "no report of probes"),
        (b"{}", "no report of probes"),
        (b" " * (MOST_BYTES + 1), "at most"),
        (b'{"format": "fitzroy-probe", "format": "fitzroy-probe"}', "twice"),
        (encoded(document(version=2)), "version 2"),
        (encoded(document(version=True)), "version True"),
        (encoded(document(owner="me")), "'owner' is unknown"),
        (encoded({k: v for k, v in document().items() if k != "host"}), "'host' is missing"),
        (encoded(document(device=3)), "device is a text"),
        (encoded(document(host="a\nb")), "cannot be printed"),
        (encoded(document(host="x" * 3000)), "up to 2000"),
        (encoded(document(results={})), "results is a list"),
        (encoded(document(results=[0])), "a result is an object"),
        (encoded(document(results=[0] * (MOST_RESULTS + 1))), "up to 4096"),
        (encoded(document(results=document()["results"] * 2)), "two results"),
        (with_result(status="fine"), "no status"),
        (with_result(slug="../etc"), "is no slug"),
        (with_result(forms=["rm -rf"]), "is no form"),
        (with_result(forms=["mac a=1"] * 100), "up to 64"),
        (with_result(size=-1), "size is a number"),
        (with_result(size=True), "size is a number"),
        (with_result(size=1.5), "size is a number"),
        (with_result(seconds=float("inf")).replace(b"Infinity", b"1e999"), "seconds"),
        (with_result(seconds=float("nan")), "no number"),
        (with_result(differing=17), "more differences than bytes"),
        (with_result(differences=[[0, 1]]), "a place is a number"),
        (with_result(differences=[[0, 1, 256]]), "a byte is a number"),
        (with_result(differences=[[0, 1, 2]] * 3), "more differences than bytes"),
        (with_result(status="as predicted"), "as predicted, and differs"),
        (encoded(document()).replace(b'"size": 16', b'"size": ' + b"9" * 5000), "no report"),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(FormatError, match=text) as caught:
        read_report(data, "p.json")
    assert caught.value.path == "p.json"
