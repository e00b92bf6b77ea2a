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
from fitzroy.cli.help import Given, Printed, Verb
from fitzroy.cli.runners import ports
from fitzroy.cli.terminal import Column, Terminal, count, size
from fitzroy.execution.inputs import read_inputs
from fitzroy.formats.detect import FileKind, detect
from fitzroy.report import units

if TYPE_CHECKING:
    from fitzroy.measurement.bench import Latencies, Measurement, Traffic

_RUNS = 20
_WITHOUT_USB = ("sim:direct", "replay", "twin")


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


@dataclass(frozen=True)
class How:
    """What is measured.

    Attributes:
        runs: how often.
        simulation: whether to measure a simulation, too.
    """

    runs: Annotated[
        int,
        typer.Option("--runs", metavar="N", min=1, help="Inferences to measure."),
    ] = _RUNS
    simulation: Annotated[
        bool,
        typer.Option("--simulation", help="On a simulated device, also measure the simulation."),
    ] = False


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
    how: How,
    printed: Printed,
) -> None:
    """Measure how long inferences of a compiled model take, and predict it.

    The first inference loads the parameters and is reported separately. The others give
    percentiles, for the whole model and for each of its parts. They are compared with the
    predictions of the timing model for all parts, on the Edge TPU and on the host, and for each
    kind of transfer, at the given clock, host and driver. An accelerator also runs at that clock.

    On USB, two more inferences are recorded to show how long the driver waits for each kind of
    transfer. The chip's work is part of the wait for outputs and events.

    With --devices, the segments of a model compute at the same time. The number of inferences per
    second is predicted and measured.

    Without --input, inputs are random. For a simulated device, only the prediction is printed,
    without an inference. --simulation also measures the simulation, which says nothing about the
    chip.
    """
    from fitzroy.driver.runtime.devices import is_accelerator
    from fitzroy.execution.devices import check_name

    terminal = printed.terminal
    speed = timing.Speed.of(device.clock, link.usb, link.host, link.driver)
    data = _checked(file)
    chosen = replace(device, clock=speed.clock)
    if device.several is not None:
        from fitzroy.cli.bench_pipeline import bench_pipeline

        if given.inputs:
            raise UsageError("--input does not go with --devices", reason="inputs are random")
        measured = how.simulation or not device.simulated
        bench_pipeline(terminal, file, chosen, speed, how.runs if measured else None)
        return
    name = device.name or "auto"
    check_name(name)
    measures = how.simulation or name.startswith("replay") or is_accelerator(name)
    document: dict[str, Any] = {"file": file}
    if measures:
        document |= _measured_on(terminal, file, chosen, given, how.runs)
    else:
        _refuse_unmeasured(device)
        document |= _unmeasured()
        if given.inputs:
            terminal.note("the prediction does not depend on inputs, which were not read")
    with terminal.working("predicting"):
        document["predicted"] = _predicted(terminal, data, file, speed)
    if terminal.json:
        terminal.document("bench", document)
    else:
        _show(terminal, document)


def _refuse_unmeasured(device: DeviceChoice) -> None:
    """Refuse options that are about inferences where none is run.

    Raises:
        UsageError: one is given.
    """
    given = {
        "--record": device.record,
        "--firmware": device.firmware,
        "--timeout": device.timeout,
        "--prove": device.prove,
    }
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                f"{option} is for inferences, and a simulated device is only predicted",
                hint="add --simulation",
            )


def _unmeasured() -> dict[str, Any]:
    """What stands in a document in place of what was measured."""
    return {
        "ran_on": "the timing model",
        "runs": 0,
        "first_seconds": None,
        "seconds": None,
        "parts": [],
        "transfers": None,
    }


def _measured_on(
    terminal: Terminal,
    file: str,
    chosen: DeviceChoice,
    given: Given,
    runs: int,
) -> dict[str, Any]:
    """What inferences on a device take."""
    from fitzroy.execution.interpreter import Interpreter
    from fitzroy.measurement import bench as library

    with chosen.open() as opened:
        interpreter = Interpreter(file, device=opened)
        graph = interpreter.graph
        if given.inputs:
            read = read_inputs(ports(graph, graph.inputs), given.inputs, given.rule, file)
            values = dict(zip(graph.inputs, read, strict=True))
        else:
            values = library.random_inputs(interpreter)
        with terminal.working(f"running on {opened.description}") as say:
            measured = library.measure(interpreter, values, runs, say)
        ran_on = opened.description
    observed = None
    name = chosen.name or "auto"
    if not name.startswith(_WITHOUT_USB):
        with terminal.working(f"recording on {ran_on}"):
            observed = _traffic(library.observe(file, name, values, chosen.options()))
    return {"ran_on": ran_on, "runs": runs, **_measured(measured), "transfers": observed}


def _checked(path: str) -> bytes:
    """A file that has a part for the Edge TPU.

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
    return data


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
    terminal: Terminal, data: bytes, path: str, speed: timing.Speed
) -> dict[str, Any] | None:
    """What the timing model says, None if it cannot."""
    from fitzroy.execution import whole
    from fitzroy.measurement import bench as library

    try:
        found = whole.predict(data, path, speed.conditions)
    except SimulationError as error:
        terminal.warn("no prediction for this model", [str(error)])
        return None
    return {
        "clock": speed.clock,
        "host": speed.profile.name,
        "driver": speed.driver,
        "seconds": found.total / 1e6,
        "host_seconds": found.on_host / 1e6,
        "parts": [
            {"on": part.where, "what": part.what, "seconds": part.time / 1e6}
            for part in found.parts
        ],
        "transfers": _traffic(library.predicted_traffic(found.runs)),
        "cached_bytes": sum(run.cached for run in found.runs),
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
    if document["seconds"] is not None:
        _show_measured(terminal, document)
    if document["predicted"] is not None:
        _show_predicted(terminal, document)


def _show_measured(terminal: Terminal, document: dict[str, Any]) -> None:
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


def _show_predicted(terminal: Terminal, document: dict[str, Any]) -> None:
    predicted = document["predicted"]
    terminal.heading(
        f"predicted at clock {predicted['clock']} on {predicted['host']} with {predicted['driver']}"
    )
    rows = [("inference", predicted["seconds"])]
    rows += [(f"{part['on']}: {part['what']}", part["seconds"]) for part in predicted["parts"]]
    terminal.table(
        [Column("predicted"), Column("time", right=True)],
        [[what, _time(value)] for what, value in rows],
    )
    if document["seconds"] is not None:
        share = document["seconds"]["p50"] / predicted["seconds"]
        terminal.line(f"the measured p50 is {share:.2f} times the predicted time")
    _show_traffic(terminal, predicted["transfers"])


bench_command = Verb(
    bench,
    (
        "fitzroy bench model_edgetpu.tflite --device usb",
        "fitzroy bench m_edgetpu.tflite --device sim --host raspberry_pi_4_usb3",
        "fitzroy bench m_edgetpu.tflite --host here.json --driver fitzroy",
        "fitzroy bench model_edgetpu.tflite --device usb --runs 100 --json",
        "fitzroy bench m_segment_0_of_3_edgetpu.tflite --devices sim:3",
    ),
)
