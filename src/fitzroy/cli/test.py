"""``fitzroy test``: compiled models held to what test files ask of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitzroy.base.errors import MismatchError
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import Printed, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Terminal, count, error_document

if TYPE_CHECKING:
    from fitzroy.testing.results import TestReport

_STYLES = {"passed": "green", "failed": "bold red", "error": "bold red", "skipped": "yellow"}


def check_models(
    specs: Annotated[
        list[str], typer.Argument(metavar="SPEC.toml...", help="Test files.", show_default=False)
    ],
    importing: Importing,
    printed: Printed,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Run on this device instead of that of the test file: usb, sim, sim:direct, "
            "replay:FILE, or twin: the source model in the chip's arithmetic, as named in the test "
            "file or by twin:MODEL.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE.xml",
            help="Write results as JUnit XML for CI systems.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check compiled models: outputs, accuracy, time, transfers, memory, where operators run.

    A test file names a model, compiled or not, and lists expectations: limits for figures,
    operators that must be on the chip, inferences with expected outputs, and labelled samples with
    a minimum accuracy. docs/ci.md describes the keys. --input is for the models of all test files,
    and counts before what they say of inputs; of a compiled model, it is for the source.

    The exit code is 0 if all checks pass and 9 if one fails. A check that cannot be made has the
    exit code of its error.
    """
    from fitzroy.testing.judging import judge
    from fitzroy.testing.results import junit as junit_bytes
    from fitzroy.testing.spec import read_spec

    terminal = printed.terminal
    if junit is not None:
        check_output(junit, specs)
    read = map(read_spec, specs)
    wanted = [replace(spec, how=importing.over(spec.how)) for spec in read]
    reports = []
    for spec in wanted:
        with terminal.working(spec.path) as progress:
            reports.append(judge(spec, device, progress))
        if not terminal.json:
            _show(terminal, reports[-1])
    if junit is not None:
        write_file(junit, junit_bytes(reports))
    _finish(terminal, reports, junit)


def _show(terminal: Terminal, report: TestReport) -> None:
    """Print the checks of a test file; with --quiet, only those that did not pass."""
    from fitzroy.testing.results import Status

    shown = [
        check
        for check in report.checks
        if not terminal.quiet or check.status in (Status.FAILED, Status.ERROR)
    ]
    if not terminal.quiet or shown:
        where = f" on {report.ran_on}" if report.ran_on else ""
        terminal.line(f"{report.path}: {report.model}{where}", style="bold")
    for check in shown:
        status = check.status.value.upper() if check.status is not Status.PASSED else "passed"
        terminal.line(f"{status:7}  {check.kind} {check.name}: {check.text}", _STYLES[check.status])


def _finish(terminal: Terminal, reports: list[TestReport], junit: Path | None) -> None:
    """Say what came out.

    Raises:
        typer.Exit: with 9 if a check failed, with the code of the first error if one ended so.
    """
    from fitzroy.testing.results import Status, document

    checks = [check for report in reports for check in report.checks]
    bad = [check for check in checks if check.status in (Status.FAILED, Status.ERROR)]
    error = MismatchError(
        f"{len(bad)} of {count(len(checks), 'check')} did not pass",
        reason="; ".join(f"{check.kind} {check.name}: {check.text}" for check in bad),
    )
    if terminal.json:
        found: dict[str, object] = {"reports": [document(report) for report in reports]}
        found["written"] = [] if junit is None else [str(junit)]
        terminal.document("test", found | ({"error": error_document(error)} if bad else {}))
    else:
        if bad:
            terminal.error(MismatchError(error.what))
        else:
            terminal.note(f"{count(len(checks), 'check')} passed")
        if junit is not None:
            terminal.note(f"wrote {junit}")
    if bad:
        codes = [check.exit_code for check in bad if check.exit_code]
        raise typer.Exit(codes[0] if codes else error.exit_code)


test_command = Verb(
    check_models,
    (
        "fitzroy test digits.toml",
        "fitzroy test models/*.toml --junit results.xml",
        "fitzroy test digits.toml --device usb --json",
        "fitzroy test digits.toml --device twin",
        "fitzroy test detector.toml --input images=1x3x320x320",
    ),
)
