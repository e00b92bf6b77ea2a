"""Results of tests of models, for people, for JSON, and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree

from fitzroy.base.errors import FitzroyError, MismatchError
from fitzroy.testing import figures
from fitzroy.testing.figures import FIGURES, ModelFigures


class Kind(StrEnum):
    """What a check looks at."""

    MODEL = "model"
    OPERATORS = "operators"
    LIMIT = "limit"
    CASE = "case"
    ACCURACY = "accuracy"


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    Attributes:
        kind: what it looks at.
        name: which of them, such as the name of a figure or of a case.
        status: how it ended.
        text: what was found and what was wanted, on one line.
        seconds: how long it took.
        found: what was found, if that is a number.
        wanted: what was wanted, if that is a number.
        exit_code: that of the error; 0 if there was none.
    """

    kind: Kind
    name: str
    status: Status
    text: str
    seconds: float = 0.0
    found: float | None = None
    wanted: float | None = None
    exit_code: int = 0


def failure(kind: Kind, name: str, error: FitzroyError) -> Check:
    """A check that an error ended; something unexpected is a failure, all else an error."""
    text = str(error).replace("\n", " ")
    if isinstance(error, MismatchError):
        return Check(kind, name, Status.FAILED, text)
    return Check(kind, name, Status.ERROR, text, exit_code=error.exit_code)


def limited(name: str, value: float, limit: float) -> Check:
    """Whether a figure keeps to its limit.

    Args:
        name: the figure, a key of `FIGURES`.
        value: what it is.
        limit: the most that it may be, or the least if more of it is better.
    """
    kind = FIGURES[name]
    more = kind.better == "more"
    passed = value >= limit if more else value <= limit
    text = f"{figures.text(kind, value)}, {'at least' if more else 'at most'} "
    return Check(
        Kind.LIMIT,
        name,
        Status.PASSED if passed else Status.FAILED,
        text + figures.text(kind, limit),
        found=value,
        wanted=limit,
    )


@dataclass(frozen=True)
class TestReport:
    """What became of a test file.

    Attributes:
        path: the test file.
        model: the model.
        ran_on: what ran the cases; empty if there were none.
        checks: all checks in order.
        figures: what the model costs; None if it could not be read or compiled.
        seconds: how long everything took.
    """

    # Not a class of tests, whatever pytest thinks of its name.
    __test__ = False

    path: str
    model: str
    ran_on: str
    checks: tuple[Check, ...]
    figures: ModelFigures | None
    seconds: float
    counts: Mapping[Status, int] = field(init=False)

    def __post_init__(self) -> None:
        found = Counter(check.status for check in self.checks)
        object.__setattr__(self, "counts", {status: found[status] for status in Status})

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing went wrong."""
        return not self.counts[Status.FAILED] and not self.counts[Status.ERROR]


def document(report: TestReport) -> dict[str, Any]:
    """A report for JSON."""
    costs = report.figures
    return {
        "file": report.path,
        "model": report.model,
        "ran_on": report.ran_on,
        "passed": report.passed,
        "counts": {status.value: count for status, count in report.counts.items()},
        "checks": [
            {
                "kind": check.kind.value,
                "name": check.name,
                "status": check.status.value,
                "text": check.text,
                "found": check.found,
                "wanted": check.wanted,
                "seconds": check.seconds,
            }
            for check in report.checks
        ],
        "figures": {} if costs is None else dict(costs.values),
        "layers": []
        if costs is None
        else [{"name": layer.name, "cycles": layer.cycles} for layer in costs.layers],
        "host_operators": None if costs is None else costs.host,
        "seconds": report.seconds,
    }


def junit(reports: Sequence[TestReport]) -> bytes:
    """Reports as JUnit XML, which CI systems show: one suite per test file, one case per check."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(report.path),
            tests=str(len(report.checks)),
            failures=str(report.counts[Status.FAILED]),
            errors=str(report.counts[Status.ERROR]),
            skipped=str(report.counts[Status.SKIPPED]),
            time=f"{report.seconds:.3f}",
        )
        for check in report.checks:
            _test_case(suite, report, check)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return text + b"\n"


_ELEMENTS = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}


def _test_case(suite: ElementTree.Element, report: TestReport, check: Check) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_xml(f"{report.model}.{check.kind.value}"),
        name=_xml(check.name),
        time=f"{check.seconds:.3f}",
    )
    if check.status in _ELEMENTS:
        ElementTree.SubElement(case, _ELEMENTS[check.status], message=_xml(check.text))
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(check.text)


def _xml(text: str) -> str:
    """Text whose characters XML can hold."""
    return "".join(c if c.isprintable() or c in "\t\n" else f"\\u{ord(c):04x}" for c in text)
