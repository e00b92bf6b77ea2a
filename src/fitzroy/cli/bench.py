"""``fitzroy bench``: how long inferences take, and how long they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.files import read_file
from fitzroy.cli import timing
from fitzroy.cli.compiled import DeviceChoice, is_compiled
from fitzroy.cli.help import Given, Json, Quiet, Verb
from fitzroy.cli.run import ports
from fitzroy.cli.terminal import Column, Terminal, count, size
from fitzroy.execution.inputs import read_inputs
from fitzroy.formats.detect import FileKind, detect
from fitzroy.report import units

if TYPE_CHECKING:
    from fitzroy.execution.interpreter import Interpreter
    from fitzroy.measurement.bench import Latencies, Measurement, Traffic

_CHIP = "Edge TPU"
_RUNS = 20
_WITHOUT_USB = ("sim:direct", "replay")


@dataclass(frozen=True)
class Link:
    """What the timing model assumes beside the chip.

    Attributes:
        usb: generation of the host's link.
        host: the host.
        driver: what moves the data.
    """

    usb: timing.Usb = None
    host: timing.HostName = None
    driver: timing.DriverName = None


def bench(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A compiled model (*_edgetpu.tflite).", show_default=False
        ),
    ],
    device: DeviceChoice,
    given: Given,
    link: Link,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Inferences to measure.")
    ] = _RUNS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how long inferences of a compiled model take.

    One inference loads the parameters and is reported by itself. Of the others come percentiles,
    for the whole model and for each of its parts. Beside them stands what the timing model of the
    simulator predicts for the parts on the Edge TPU at that clock, host and driver, and what it
    says of each kind of transfer; a program whose course depends on data has no prediction. An
    accelerator runs at that clock as well.

    On USB, two more inferences are recorded, which tells how long a driver waits for each kind of
    transfer; the chip's work is part of the wait for outputs and events.

    Without --input, inputs are random. On a simulated device the measured time is that of the
    simulation, which is no measure of the chip.
    """
    from fitzroy.execution.interpreter import Interpreter
    from fitzroy.measurement import bench as library

    terminal = Terminal(json=json, quiet=quiet)
    speed = timing.Speed.of(device.clock, link.usb, link.host, link.driver)
    rule = given.rule
    _check(file)
    chosen = replace(device, clock=speed.clock)
    with chosen.open() as opened:
        interpreter = Interpreter(file, device=opened)
        graph = interpreter.graph
        if given.inputs:
            read = read_inputs(ports(graph, graph.inputs), given.inputs, rule, file)
            values = dict(zip(graph.inputs, read, strict=True))
        else:
            values = library.random_inputs(interpreter)
        with terminal.working(f"running on {opened.description}") as say:
            measured = library.measure(interpreter, values, runs, say)
        ran_on = opened.description
    # With the device closed: a simulated one has given its memories back.
    with terminal.working("predicting"):
        predicted = _predicted(terminal, interpreter, speed)
    observed = None
    name = device.name or "auto"
    if not name.startswith(_WITHOUT_USB):
        with terminal.working(f"recording on {ran_on}"):
            observed = _traffic(library.observe(file, name, values, chosen.options()))
    document = {
        "file": file,
        "ran_on": ran_on,
        "runs": runs,
        **_measured(measured),
        "transfers": observed,
        "predicted": predicted,
    }
    if json:
        terminal.document("bench", document)
    else:
        _show(terminal, document)


def _check(path: str) -> None:
    """Refuse what has no part for the Edge TPU.

    Raises:
        UsageError: the file cannot be read, or holds something else.
        FormatError: it is malformed.
    """
    data = read_file(path)
    if detect(data, path) is not FileKind.TFLITE or not is_compiled(data, path):
        raise UsageError(
            "a model that is compiled for the Edge TPU is wanted",
            where=path,
            hint="compile it first: fitzroy compile MODEL --target edgetpu",
        )


def _figures(latencies: Latencies) -> dict[str, float]:
    from fitzroy.measurement.bench import PERCENTILES

    values = latencies.seconds
    return {
        **{f"p{percent}": latencies.percentile(percent) for percent in PERCENTILES},
        "mean": latencies.mean,
        "min": min(values),
        "max": max(values),
    }


def _measured(measured: Measurement) -> dict[str, Any]:
    return {
        "first_seconds": measured.first,
        "seconds": _figures(measured.total),
        "parts": [
            {"on": part.where, "what": part.title, "seconds": _figures(latencies)}
            for part, latencies in measured.parts
        ],
    }


def _predicted(
    terminal: Terminal, interpreter: Interpreter, speed: timing.Speed
) -> dict[str, Any] | None:
    """What the timing model says, None if it cannot."""
    from fitzroy.measurement import bench as library

    try:
        runs = library.predict(interpreter, speed.conditions)
    except SimulationError as error:
        terminal.warn("no prediction for this model", [str(error)])
        return None
    return {
        "clock": speed.clock,
        "host": speed.profile.name,
        "driver": speed.driver,
        "seconds": sum(run.timeline.total for _, run in runs) / 1e6,
        "parts": [{"what": part.title, "seconds": run.timeline.total / 1e6} for part, run in runs],
        "transfers": _traffic(library.predicted_traffic(run for _, run in runs)),
        "cached_bytes": sum(run.cached for _, run in runs),
    }


def _traffic(kinds: Sequence[Traffic]) -> list[dict[str, Any]]:
    return [
        {"kind": item.kind, "count": item.count, "bytes": item.size, "seconds": item.seconds}
        for item in kinds
    ]


def _show_traffic(terminal: Terminal, transfers: Sequence[dict[str, Any]]) -> None:
    columns = [
        Column("transfers"),
        *(Column(name, right=True) for name in ("count", "bytes", "time")),
    ]
    terminal.table(
        columns,
        [
            [item["kind"], str(item["count"]), size(item["bytes"]), _time(item["seconds"])]
            for item in transfers
        ],
    )


def _time(seconds: float) -> str:
    return units.time(1e6 * seconds)


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    runs = count(document["runs"], "inference")
    terminal.note(f"{runs} on {document['ran_on']}, the first {_time(document['first_seconds'])}")
    names = list(document["seconds"])
    rows = [("inference", document["seconds"])]
    rows += [(f"{part['on']}: {part['what']}", part["seconds"]) for part in document["parts"]]
    terminal.table(
        [Column("measured"), *(Column(name, right=True) for name in names)],
        [[what, *(_time(figures[name]) for name in names)] for what, figures in rows],
    )
    if document["transfers"] is not None:
        terminal.heading("one inference on USB, recorded")
        _show_traffic(terminal, document["transfers"])
    predicted = document["predicted"]
    if predicted is None:
        return
    terminal.heading(
        f"predicted at clock {predicted['clock']} on {predicted['host']} with {predicted['driver']}"
    )
    on_device = sum(part["seconds"]["p50"] for part in document["parts"] if part["on"] == _CHIP)
    terminal.line(
        f"Edge TPU: {_time(predicted['seconds'])}; measured p50 is "
        f"{on_device / predicted['seconds']:.2f} times that"
    )
    _show_traffic(terminal, predicted["transfers"])


bench_command = Verb(
    bench,
    (
        "fitzroy bench model_edgetpu.tflite --device usb",
        "fitzroy bench model_edgetpu.tflite --device sim --runs 3 --clock high --usb 2",
        "fitzroy bench m_edgetpu.tflite --host here.json --driver fitzroy",
        "fitzroy bench model_edgetpu.tflite --device usb --runs 100 --json",
    ),
)
