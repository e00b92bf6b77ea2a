"""``fitzroy probe``: does a device do what the simulator says."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fitzroy
from fitzroy.base.errors import DeviceError, FitzroyError, MismatchError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.progress import counted
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import FirmwareFile, Printed, RecordFile, Seed, Verb
from fitzroy.cli.terminal import Column, Terminal, count

if TYPE_CHECKING:
    from fitzroy.driver.probe.probe import Probe
    from fitzroy.driver.probe.run import Runner
    from fitzroy.formats.probe_report import Report, Result

UNPREDICTED = MismatchError.exit_code
"""Exit code if a device did something else than predicted."""

_SECONDS = 5.0
"""Time limit of a program on a real device, a thousand times what it needs."""

_RUNS = 3
"""Runs of every program on a real device, whose answers may change from run to run."""

_PATIENT = 60.0
"""Time limit on simulators, which compute slowly."""

_STYLES = {"as predicted": "green", "differs": "bold red", "hangs": "bold red", "fails": "red"}


@dataclass(frozen=True)
class Probed:
    """What is probed.

    Attributes:
        device: the device.
        firmware: the image that it gets.
        record: file for the transfers.
        seed: what randomizes a simulated device.
    """

    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="usb or usb:PATH, an accelerator; sim, a virtual one; sim:direct, the simulated "
            "chip without USB; replay:FILE, a recorded session.",
        ),
    ] = "usb"
    firmware: FirmwareFile = None
    record: RecordFile = None
    seed: Seed = None


@dataclass(frozen=True)
class Asked:
    """Which probes run, and how.

    Attributes:
        only: names, or beginnings of names.
        listing: whether to list them only.
        resume: whether to keep the answers that the report has.
        seconds: time limit of a program.
        repeats: runs of a program.
    """

    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="A,B",
            help="Run only these probes, given by name or by the start of their names.",
            show_default=False,
        ),
    ] = None
    listing: Annotated[
        bool, typer.Option("--list", help="List the probes, and stop.", show_default=False)
    ] = False
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the answers in the report, and run the other probes.",
            show_default=False,
        ),
    ] = False
    seconds: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="S",
            min=0.1,
            max=600.0,
            help="Time limit of a program, seconds. [dim]default: 5; simulators 60[/dim]",
            show_default=False,
        ),
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            metavar="N",
            min=1,
            max=1000,
            help="Runs of every program. [dim]default: 3; simulators 1[/dim]",
            show_default=False,
        ),
    ] = None


def probe(
    probed: Probed,
    asked: Asked,
    printed: Printed,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="P.json",
            help="Write a report that can be shared; it is complete after every probe.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Test assumptions about a real chip with tiny programs.

    Controls come first: programs with published instruction forms only, which must pass. Then come
    rules that the simulator assumes, and features of FitzRoy's programs that no published program
    has. Every program has a time limit, and a hang does not stop the others.

    fitzroy compile --confirmed takes the report, which contains no names, paths or serial numbers.
    The exit code is 0 if every answer is as predicted, and 9 if one is not.
    """
    from fitzroy.driver.probe.run import Runner, is_simulated, opener
    from fitzroy.driver.probe.suite import suite
    from fitzroy.driver.runtime.devices import DeviceOptions

    terminal = printed.terminal
    probes = _chosen(suite(), asked.only or [])
    if asked.listing:
        _list(terminal, probes)
        return
    if output is not None:
        check_output(output)
    report = _started(
        probed.device, probed.firmware, output if asked.resume else None, asked.resume
    )
    options = DeviceOptions(firmware=probed.firmware, record=probed.record, seed=probed.seed)
    simulated = is_simulated(probed.device)
    limit = asked.seconds or (_PATIENT if simulated else _SECONDS)
    runs = asked.repeats or (1 if simulated else _RUNS)
    runner = Runner(opener(probed.device, options, limit), seconds=limit, repeats=runs)
    lost: FitzroyError | None = None
    try:
        report, lost = _asked(terminal, runner, probes, report, output)
    finally:
        runner.close()
    _shown(terminal, probes, report, lost)


def _asked(
    terminal: Terminal,
    runner: Runner,
    probes: Sequence[Probe],
    report: Report,
    output: Path | None,
) -> tuple[Report, FitzroyError | None]:
    """Put the probes that have no answer yet, and save after each."""
    from dataclasses import replace

    from fitzroy.formats.probe_report import write_report

    done = {result.slug for result in report.results}
    missing = [one for one in probes if one.slug not in done]
    answers = runner.results(missing)
    with terminal.working("probing") as progress:
        for number, one in enumerate(missing, 1):
            progress(counted("probe", number, len(missing), f": {one.slug}"))
            try:
                result = next(answers)
            except StopIteration:
                break
            except DeviceError as error:
                if not report.results:
                    raise
                return report, error
            report = replace(report, results=(*report.results, result))
            if output is not None:
                write_file(output, write_report(report))
    return report, None


def _chosen(probes: Sequence[Probe], wanted: Sequence[str]) -> list[Probe]:
    """The probes whose names are, or begin with, one of some texts; all for none.

    Raises:
        UsageError: a text that fits no probe.
    """
    names = [name for item in wanted for name in item.split(",") if name]
    strange = [name for name in names if not any(one.slug.startswith(name) for one in probes)]
    if strange:
        raise UsageError(
            f"no probe {strange[0][:80]!r}", hint="list them with: fitzroy probe --list"
        )
    return [one for one in probes if not names or one.slug.startswith(tuple(names))]


def _list(terminal: Terminal, probes: Sequence[Probe]) -> None:
    if terminal.json:
        terminal.document(
            "probes",
            {
                "probes": [
                    {
                        "slug": one.slug,
                        "title": one.title,
                        "settles": one.settles,
                        "risk": one.risk.name.lower(),
                        "form": one.form,
                        "properties": one.properties,
                    }
                    for one in probes
                ]
            },
        )
        return
    terminal.table(
        [Column("probe", keep=True), Column("risk"), Column("leaves"), Column("settles")],
        [
            [one.slug, one.risk.name.lower(), ", ".join(one.properties), one.settles]
            for one in probes
        ],
    )


def _started(device: str, firmware: Path | None, path: Path | None, resumed: bool) -> Report:
    """A report without results, or the one to go on with.

    Raises:
        UsageError: there is none to go on with, or it is of another device or suite.
        FormatError: the file is no report.
    """
    from fitzroy.driver.probe.run import digest
    from fitzroy.driver.probe.suite import suite
    from fitzroy.formats.probe_report import Report, read_report

    kind = device if device == "sim:direct" else device.partition(":")[0]
    fresh = Report(
        device=kind,
        suite=digest(suite()),
        producer=f"fitzroy {fitzroy.__version__}",
        firmware=_firmware(kind, firmware),
        host=f"{platform.system()} {platform.machine()}",
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    if not resumed:
        return fresh
    if path is None:
        raise UsageError("--resume needs the report to go on with", hint="name it with -o")
    report = read_report(read_file(path), str(path))
    for what, ours, theirs in (
        ("device", fresh.device, report.device),
        ("suite", fresh.suite, report.suite),
    ):
        if ours != theirs:
            raise UsageError(
                f"the report is of another {what}",
                reason=f"{theirs[:16]!r}, not {ours[:16]!r}",
                where=str(path),
                hint="start anew, without --resume",
            )
    return report


def _firmware(kind: str, path: Path | None) -> str:
    """SHA-256 of the firmware that a device would be given; empty if there is none here."""
    import hashlib

    from fitzroy.driver.device.firmware import find

    if kind != "usb":
        return ""
    try:
        return hashlib.sha256(find(path).data).hexdigest()
    except DeviceError:
        # A device that has its firmware already needs none from here.
        return ""


def _shown(
    terminal: Terminal, probes: Sequence[Probe], report: Report, lost: FitzroyError | None
) -> None:
    """Print the table or the document; exit with a code of its own if something differs.

    Raises:
        FitzroyError: the device was lost on the way.
    """
    from fitzroy.formats.probe_report import Status, write_report

    if terminal.json:
        terminal.raw(write_report(report).decode())
    else:
        _table(terminal, probes, report)
    if lost is not None:
        raise lost
    if any(result.status is not Status.PREDICTED for result in report.results):
        raise typer.Exit(UNPREDICTED)


def _table(terminal: Terminal, probes: Sequence[Probe], report: Report) -> None:
    titles = {one.slug: one.title for one in probes}
    results = [result for result in report.results if result.slug in titles]
    terminal.table(
        [
            Column("probe", keep=True),
            Column("answer", keep=True),
            Column("ms", right=True),
            Column("what"),
            Column(""),
        ],
        [
            [
                result.slug,
                result.status.value,
                f"{1000 * result.seconds:.2f}" if result.seconds else "",
                titles[result.slug],
                _remark(result),
            ]
            for result in results
        ],
    )
    for status in _STYLES:
        number = sum(result.status.value == status for result in results)
        if number:
            terminal.line(f"{status}: {count(number, 'probe')}", style=_STYLES[status])
    missing = len(probes) - len(results)
    if missing:
        terminal.line(f"not run: {count(missing, 'probe')}")


def _remark(result: Result) -> str:
    """What there is to say about an answer that is not as predicted."""
    if result.rule:
        return f"as a device does where: {result.rule}"
    if result.differing:
        place, expected, observed = result.differences[0]
        return (
            f"{result.differing} of {result.size} bytes; byte {place} is {observed}, not {expected}"
        )
    return result.error


probe_command = Verb(
    probe,
    (
        "fitzroy probe --device usb -o probe.json",
        "fitzroy probe --device sim -o p.json",
        "fitzroy probe --list",
        "fitzroy probe --device usb -o probe.json --resume",
        "fitzroy compile model.tflite --target edgetpu --confirmed probe.json",
    ),
)
