"""``fitzroy plan``: several models with requests on one chip."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.progress import counted
from fitzroy.cli import timing
from fitzroy.cli.compiled import is_compiled
from fitzroy.cli.help import Printed, Verb
from fitzroy.cli.terminal import Column, Terminal, size
from fitzroy.formats.detect import FileKind, detect
from fitzroy.report import units

if TYPE_CHECKING:
    from fitzroy.execution.estimate import Conditions
    from fitzroy.execution.tenants import Arrangement, Tenant

_MOST_MODELS = 16


def plan(
    requests: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL@RATE...",
            help="Models with their requests per second, as in a.tflite@10; either all compiled "
            "for the Edge TPU, or none.",
            show_default=False,
        ),
    ],
    assumed: timing.Assumed,
    printed: Printed,
) -> None:
    """Predict how several models share one Edge TPU: latencies, and the cost of switching models.

    The chip keeps the parameters of the last model and must load those of another model before that
    one runs. Requests can be answered as they come, or in turns, where each model answers all of
    its waiting requests. Models that were compiled together keep their parameters side by side. For
    models that are not compiled yet, all arrangements are compiled and compared: together in the
    given order, and together with the most requests first.

    Requests are assumed to arrive at random times. At a load of 100 % or more they pile up. Only
    models in turns go on at 100 %, because there the chip never pauses.
    """
    from fitzroy.execution.tenants import best

    terminal = printed.terminal
    wanted = [_request(text) for text in requests]
    speed = assumed.speed
    with terminal.working("predicting") as say:
        arrangements = _arrangements(wanted, speed.conditions, say)
    chosen = best(arrangements)
    document = {
        "clock": speed.clock,
        "host": speed.profile.name,
        "driver": speed.driver,
        "arrangements": [_document(item) for item in arrangements],
        "best": None if chosen is None else chosen.name,
    }
    if terminal.json:
        terminal.document("plan", document)
    else:
        _show(terminal, arrangements, chosen)


def _request(text: str) -> tuple[str, float]:
    """A file and its requests a second."""
    path, at, rate = text.rpartition("@")
    try:
        found = float(rate) if at else math.nan
    except ValueError:
        found = math.nan
    if not (0 < found < 1e6 and path):
        raise UsageError(
            f"{text[:80]!r} has no number of requests a second",
            hint="name a model as in model_edgetpu.tflite@10",
        )
    return path, found


def _arrangements(
    wanted: Sequence[tuple[str, float]], conditions: Conditions, say: Callable[[str], None]
) -> list[Arrangement]:
    """Ways to serve the models.

    Raises:
        UsageError: too many models, or some are compiled and others are not.
    """
    from fitzroy.compilation.edgetpu import compile_edgetpu, compile_together
    from fitzroy.execution.tenants import as_they_come, in_turns, share, tenant, together

    if len(wanted) > _MOST_MODELS:
        raise UsageError(f"{len(wanted)} models", reason=f"at most {_MOST_MODELS} are planned")
    data = {path: read_file(path) for path, _ in wanted}
    for path, content in data.items():
        if detect(content, path) is not FileKind.TFLITE:
            raise UsageError(
                "this is no TFLite model",
                where=path,
                hint="compile it first: fitzroy compile MODEL --target edgetpu",
            )
    compiled = [is_compiled(data[path], path) for path, _ in wanted]
    if any(compiled) and not all(compiled):
        other = wanted[compiled.index(False)][0]
        raise UsageError(
            "some models are compiled and others are not",
            where=other,
            hint="give all of them compiled, or none",
        )

    def tenants(order: Sequence[tuple[str, float]], files: Sequence[bytes]) -> list[Tenant]:
        found = []
        for number, ((path, rate), content) in enumerate(zip(order, files, strict=True)):
            say(counted("model", number + 1, len(files)))
            found.append(tenant(content, path, rate, conditions))
        return found

    if all(compiled):
        found = tenants(wanted, [data[path] for path, _ in wanted])
        return [together(found)] if share(found) else [as_they_come(found), in_turns(found)]
    say("compiling each alone")
    alone = tenants(wanted, [compile_edgetpu(path).data for path, _ in wanted])
    result = [as_they_come(alone), in_turns(alone)]
    orders = {"together, in this order": list(wanted)}
    frequent = sorted(wanted, key=lambda item: -item[1])
    if frequent != orders["together, in this order"]:
        orders["together, most requests first"] = frequent
    for name, order in orders.items():
        say(f"compiling {name}")
        files = [item.data for item in compile_together([path for path, _ in order])]
        result.append(together(tenants(order, files), name))
    return result


def _document(item: Arrangement) -> dict[str, Any]:
    return {
        "name": item.name,
        "load": item.busy,
        "loads_per_second": item.loads,
        "mean_latency_seconds": item.mean_latency,
        "round_seconds": item.cycle,
        "models": [
            {
                "file": one.name,
                "requests_per_second": one.rate,
                "inference_seconds": one.seconds,
                "loading_seconds": one.loading,
                "cached_bytes": one.cached,
                "streamed_bytes": one.streamed,
                "latency_seconds": seconds,
            }
            for one, seconds in zip(item.tenants, item.latency, strict=True)
        ],
    }


def _show(
    terminal: Terminal, arrangements: Sequence[Arrangement], chosen: Arrangement | None
) -> None:
    columns = [
        Column("model", style="cyan"),
        *(
            Column(title, right=True)
            for title in ("requests", "inference", "loading", "cached", "streamed", "latency")
        ),
    ]
    for item in arrangements:
        round_ = f", a round in {_time(item.cycle)}" if item.cycle is not None else ""
        terminal.heading(
            f"{item.name}: load {100 * item.busy:.1f} %, parameters loaded "
            f"{item.loads:.1f} times a second{round_}"
        )
        terminal.table(
            columns,
            [
                [
                    os.path.basename(one.name),
                    f"{one.rate:g} /s",
                    _time(one.seconds),
                    _time(one.loading),
                    size(one.cached),
                    size(one.streamed),
                    _time(seconds),
                ]
                for one, seconds in zip(item.tenants, item.latency, strict=True)
            ],
        )
    if chosen is None:
        terminal.warn("requests pile up in every arrangement")
    else:
        terminal.line(f"least latency: {chosen.name}", style="bold")


def _time(seconds: float | None) -> str:
    return "-" if seconds is None or not math.isfinite(seconds) else units.time(1e6 * seconds)


plan_command = Verb(
    plan,
    (
        "fitzroy plan detect_edgetpu.tflite@10 classify_edgetpu.tflite@2",
        "fitzroy plan detect.tflite@10 classify.tflite@2",
        "fitzroy plan a.tflite@30 b.tflite@1 --host raspberry_pi_4_usb3 --json",
    ),
)
