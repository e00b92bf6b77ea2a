"""Reports of ``fitzroy probe``: what a device answered to every probe, as JSON that can be shared.

A report says nothing about who made it: neither paths nor names of machines, users or ports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from fitzroy.base.errors import FormatError

KIND = "fitzroy-probe"
VERSION = 1

MOST_BYTES = 4 << 20
"""Largest file that is read: several times what the suite can write."""

MOST_RESULTS = 4096
MOST_DIFFERENCES = 32
"""Differing bytes that a result lists."""

_MOST_TEXT = 2000
_MOST_LISTED = 64

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FORM = re.compile(r"[a-z][a-z0-9_]*(?: [a-z0-9_]+=[!-~]+)*")


class Status(StrEnum):
    """How a probe ended; the value is the text for people."""

    PREDICTED = "as predicted"
    DIFFERS = "differs"
    HANGS = "hangs"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Result:
    """What a device answered to a probe.

    Attributes:
        slug: name of the probe.
        status: how it ended.
        forms: forms of instructions that its program has and no published one.
        properties: properties of published programs that its program leaves.
        expected: SHA-256 of the bytes that were expected, as hexadecimal digits.
        observed: SHA-256 of those that came, empty if none did.
        size: bytes expected.
        differing: how many of them differ.
        differences: place, expected and observed byte of the first ones that differ.
        rule: the rule that the answer follows instead, if it is known.
        seconds: shortest time of a run as the host saw it, 0 if none ended.
        predicted_seconds: the same by the timing model, 0 if it has none.
        error: kind of error that ended the probe, empty for none.
    """

    slug: str
    status: Status
    forms: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    expected: str = ""
    observed: str = ""
    size: int = 0
    differing: int = 0
    differences: tuple[tuple[int, int, int], ...] = ()
    rule: str = ""
    seconds: float = 0.0
    predicted_seconds: float = 0.0
    error: str = ""

    @property
    def is_control(self) -> bool:
        """Whether its program has nothing that published programs lack."""
        return self.slug.startswith("control-")


@dataclass(frozen=True, slots=True)
class Report:
    """The answers of a device.

    Attributes:
        device: ``usb``, ``sim``, ``sim:direct`` or ``replay``.
        suite: digest of the probes.
        producer: version of the program that ran them.
        firmware: SHA-256 of the device's firmware, empty if it is not known.
        host: operating system and processor architecture.
        started: time in UTC, as in ``2026-01-31T12:00:00Z``.
        results: in the order in which probes ran.
    """

    device: str
    suite: str
    producer: str
    firmware: str
    host: str
    started: str
    results: tuple[Result, ...] = field(default=())

    @property
    def confirmed(self) -> frozenset[str]:
        """Forms and properties that all probes which have them confirm.

        Nothing is confirmed by a device that fails a control: then the set-up is in doubt.
        """
        good: set[str] = set()
        bad: set[str] = set()
        for result in self.results:
            passed = result.status is Status.PREDICTED
            if result.is_control and not passed:
                return frozenset()
            (good if passed else bad).update(result.forms)
            (good if passed else bad).update(result.properties)
        return frozenset(good - bad)


def write_report(report: Report) -> bytes:
    """A report as a file."""
    document = {"format": KIND, "version": VERSION, **asdict(report)}
    return (json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def read_report(data: bytes, path: str = "") -> Report:
    """A report from a file that nobody vouches for.

    Args:
        data: the file.
        path: its name, for errors.

    Raises:
        FormatError: it is too large, no report, of another version, or contradicts itself.
    """
    try:
        return _report(_parsed(data))
    except FormatError as error:
        error.path = error.path or path
        raise


def _parsed(data: bytes) -> Mapping[str, Any]:
    if len(data) > MOST_BYTES:
        raise FormatError(f"a report of {len(data)} bytes; at most {MOST_BYTES} are read")
    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refused
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"no report of probes: {str(error)[:200]}", hint="fitzroy probe writes them"
        ) from None
    if not isinstance(document, dict) or document.get("format") != KIND:
        raise FormatError("no report of probes", hint="fitzroy probe writes them")
    if document.get("version") != VERSION or document["version"] is True:
        raise FormatError(
            f"a report of version {str(document.get('version'))[:20]}; version {VERSION} is known"
        )
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _report(document: Mapping[str, Any]) -> Report:
    head = {item.name for item in fields(Report)} - {"results"}
    _check_names(document, head | {"results", "format", "version"})
    results = _listed(document["results"], "results", MOST_RESULTS)
    found = tuple(_result(item, number) for number, item in enumerate(results))
    slugs = [result.slug for result in found]
    if len(set(slugs)) < len(slugs):
        raise FormatError("a probe has two results", table="results")
    return Report(**{name: _text(document[name], name) for name in head}, results=found)


def _result(document: Any, number: int) -> Result:
    table = f"result {number}"
    if not isinstance(document, dict):
        raise FormatError("a result is an object", table=table)
    try:
        return _checked(document)
    except FormatError as error:
        error.table = table
        raise


def _checked(document: Mapping[str, Any]) -> Result:
    _check_names(document, {item.name for item in fields(Result)})
    status = _text(document["status"], "status")
    if status not in set(Status):
        raise FormatError(f"no status {status[:40]!r}; there are {', '.join(Status)}")
    result = Result(
        slug=_matching(document["slug"], _SLUG, "slug"),
        status=Status(status),
        forms=_texts(document["forms"], _FORM, "form"),
        properties=_texts(document["properties"], _SLUG, "property"),
        size=_number(document["size"], "size"),
        differing=_number(document["differing"], "differing"),
        differences=tuple(_differences(document["differences"])),
        seconds=_seconds(document["seconds"]),
        predicted_seconds=_seconds(document["predicted_seconds"]),
        **{name: _text(document[name], name) for name in ("expected", "observed", "rule", "error")},
    )
    if result.status is Status.PREDICTED and (
        result.differing or result.error or result.observed != result.expected
    ):
        raise FormatError(f"{result.slug} is as predicted, and differs")
    if result.differing > result.size or len(result.differences) > result.differing:
        raise FormatError(f"{result.slug} has more differences than bytes")
    return result


def _check_names(document: Mapping[str, Any], names: set[str]) -> None:
    strange = sorted(set(document) ^ names)
    if strange:
        kind = "unknown" if strange[0] in document else "missing"
        raise FormatError(f"{strange[0][:40]!r} is {kind}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not value.isascii():
        raise FormatError(f"{name} is a text of up to {_MOST_TEXT} characters of ASCII")
    if not value.isprintable():
        raise FormatError(f"{name} has characters that cannot be printed")
    return value


def _matching(value: Any, pattern: re.Pattern[str], name: str) -> str:
    text = _text(value, name)
    if pattern.fullmatch(text) is None:
        raise FormatError(f"{text[:40]!r} is no {name}")
    return text


def _listed(value: Any, name: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise FormatError(f"{name} is a list of up to {most}")
    return value


def _texts(value: Any, pattern: re.Pattern[str], name: str) -> tuple[str, ...]:
    return tuple(_matching(item, pattern, name) for item in _listed(value, name, _MOST_LISTED))


def _number(value: Any, name: str, most: int = 1 << 40) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise FormatError(f"{name} is a number from 0 to {most}")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1e6:
        raise FormatError("a time is a number of seconds from 0 to 1,000,000")
    return float(value)


def _differences(value: Any) -> Iterable[tuple[int, int, int]]:
    for item in _listed(value, "differences", MOST_DIFFERENCES):
        place, expected, observed = (
            _listed(item, "a difference", 3) if _three(item) else (None,) * 3
        )
        yield (
            _number(place, "a place"),
            _number(expected, "a byte", 255),
            _number(observed, "a byte", 255),
        )


def _three(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3
