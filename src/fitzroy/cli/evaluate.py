"""``fitzroy evaluate``: how good a model is over a data set."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from fitzroy.base.errors import MismatchError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.progress import Progress
from fitzroy.cli.compiled import DeviceChoice
from fitzroy.cli.help import Mean, Printed, Std, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Column, Terminal, count, duration, error_document
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading

if TYPE_CHECKING:
    from fitzroy.evaluation import Evaluation
    from fitzroy.evaluation.records import Records
    from fitzroy.evaluation.task import Subject, Task

_RATE_DECIMALS = 1


@dataclass(frozen=True)
class DataChoice:
    """What to evaluate on.

    Attributes:
        data: file or folder of the data.
        images: folder of pictures.
        labels: names of classes.
        limit: how many examples to take.
        mean: what is subtracted from pixels.
        std: what pixels are divided by.
    """

    panel: ClassVar[str] = "Data"

    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="DIR|FILE",
            help="A folder with one folder of files per class, or a folder of files; a .csv with "
            "the columns file and label, or one column per input; an .npz with one array per input "
            "and classes in y; a .json with boxes in COCO format.",
            show_default=False,
        ),
    ]
    images: Annotated[
        str | None,
        typer.Option(
            "--images",
            metavar="DIR",
            help="Folder of the pictures of a COCO file. [dim]default: the folder of the "
            "file[/dim]",
            show_default=False,
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="L.txt",
            help="Class names, for data with names instead of numbers.",
            show_default=False,
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            help="Use N examples, spread over the data.",
            show_default=False,
        ),
    ] = None
    mean: Mean = None
    std: Std = None


@dataclass(frozen=True)
class Measured:
    """What is measured.

    Attributes:
        metric: names of metrics.
        against: another model.
        least: floors.
    """

    panel: ClassVar[str] = "Metrics"

    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="top1, top5: share of examples whose class is the best one, or among the five "
            "best; map: mean average precision of boxes; psnr, agreement: comparison with another "
            "model. May be "
            "given several times. [dim]default: top1; agreement with --against[/dim]",
            show_default=False,
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="MODEL",
            help="A .tflite or .onnx model as the ground truth: by its reference semantics, or on "
            "LiteRT as litert:MODEL.",
            show_default=False,
        ),
    ] = None
    least: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="[NAME=]VALUE",
            help="Minimum of a metric (the first one by default); below it, the exit code is 9.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class Workers:
    """Who computes.

    Attributes:
        jobs: processes.
        scheduler: address of a cluster.
        resume: file of records.
    """

    panel: ClassVar[str] = "Work"

    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            max=256,
            help="Compute in N processes, each with its own device; --device may list several, "
            "separated by commas.",
        ),
    ] = 1
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Compute on the workers of a Dask cluster. If some have the resource EDGETPU, "
            "only these compute.",
            show_default=False,
        ),
    ] = ""
    resume: Annotated[
        str,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Save finished examples to FILE, and skip those that it already has.",
            show_default=False,
        ),
    ] = ""


def evaluate_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A .tflite model, compiled for the Edge TPU or not, or an .onnx model.",
        ),
    ],
    chosen: DataChoice,
    measured: Measured,
    importing: Importing,
    workers: Workers,
    device: DeviceChoice,
    printed: Printed,
) -> None:
    """Measure how well a model does on a data set: accuracy, boxes, agreement with another model.

    Compiled models run on --device: an accelerator, the simulated chip, or its twin, which computes
    the same results some hundred times faster. Other models run by their reference semantics, or on
    LiteRT with --device litert. Pictures become inputs as in fitzroy run. --input is for all ONNX
    models that are named: MODEL, that of --against, and the source of a twin.

    The result is the same for one process, several with --jobs, or a cluster with --scheduler; if a
    worker dies, others take over its examples. Ctrl-C saves finished examples to a file, and
    --resume continues from it.
    """
    from fitzroy.evaluation.evaluate import evaluate_model as evaluate

    terminal = printed.terminal
    task = _task(model, chosen, measured, device, importing.how)
    floors = _floors(measured.least or (), task)
    with terminal.working("evaluating") as say:

        def progress(done: int, total: int, rate: float) -> None:
            text = f"{done:,} of {total:,}, {rate:,.1f} a second"
            say(Progress(text, done / total if total else None))

        found = evaluate(
            task,
            jobs=workers.jobs,
            scheduler=workers.scheduler,
            resume=workers.resume,
            progress=progress,
            interrupted=lambda records: _keep(terminal, records, model, workers.resume),
        )
    _tell(terminal, found, floors)


def _task(
    model: str, chosen: DataChoice, measured: Measured, device: DeviceChoice, how: Reading
) -> Task:
    """What is to be evaluated.

    Raises:
        UsageError: options contradict, or something is said of how, and no model is read.
    """
    from fitzroy.evaluation.task import LITERT, Subject, Task
    from fitzroy.execution.arrays import Normalization

    against: Subject | None = None
    if measured.against is not None:
        prefix, _, rest = measured.against.partition(":")
        named = prefix == LITERT and rest
        against = Subject(rest, LITERT) if named else Subject(measured.against, how=how)
    default = ["top1"] if against is None else ["agreement"]
    subject = Subject(model, device.name, device.options(), device.prove or 0, how)
    if how != PLAINLY and not any(_reads(item) for item in (subject, against) if item):
        raise UsageError(
            "--input and --keep-layout are for ONNX models, and none is read",
            hint="of a TFLite model, fix shapes first: fitzroy convert MODEL --input NAME=AxBxC",
        )
    return Task(
        subject,
        chosen.data,
        tuple(dict.fromkeys(measured.metric or default)),
        against,
        chosen.images or "",
        chosen.labels or "",
        chosen.limit,
        Normalization.parse(chosen.mean, chosen.std),
    )


def _reads(subject: Subject) -> bool:
    """Whether a model is read as `Subject.how` says."""
    from fitzroy.formats.detect import FileKind, detect

    return subject.on_twin or detect(read_file(subject.path), subject.path) is FileKind.ONNX


def _floors(texts: Sequence[str], task: Task) -> dict[str, float]:
    """Floors by metric.

    Raises:
        UsageError: no number, or of no metric that is measured.
    """
    floors = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        name = name if equals else task.metrics[0]
        try:
            floors[name] = float(value)
        except ValueError:
            raise UsageError(f"--min takes a number, or NAME=NUMBER: {text!r}") from None
        if name not in task.metrics:
            raise UsageError(
                f"--min of {name!r}, which is not measured",
                reason=f"measured are {', '.join(task.metrics)}",
            )
    return floors


def _keep(terminal: Terminal, records: Records, model: str, resume: str) -> None:
    """Leave behind what is done."""
    path = resume or f"{Path(model).stem}_evaluation.jsonl"
    if not records.found:
        return
    if not resume:
        number = 1
        while os.path.exists(path):
            number += 1
            path = f"{Path(model).stem}_evaluation_{number}.jsonl"
        records.save(path)
    done = count(len(records.found), "example")
    terminal.warn(f"{done} are done; go on with --resume {path}")


def _tell(terminal: Terminal, found: Evaluation, floors: dict[str, float]) -> None:
    """Say what came out.

    Raises:
        typer.Exit: a metric is below its floor.
    """
    below = [
        f"{name} is {found.figures[name][name]:.6g}, at least {floor:.6g} is wanted"
        for name, floor in floors.items()
        if not found.figures[name][name] >= floor
    ]
    error = MismatchError("the model is below its floor", reason="; ".join(below))
    if terminal.json:
        extra = {"error": error_document(error)} if below else {}
        terminal.document("evaluate", found.document | extra)
    else:
        _show(terminal, found)
        if below:
            terminal.error(error)
    if below:
        raise typer.Exit(error.exit_code)


def _show(terminal: Terminal, found: Evaluation) -> None:
    from fitzroy.evaluation.metrics import METRICS

    where = f" on {', '.join(found.ran_on)}" if found.ran_on else ""
    terminal.line(f"{found.task.model.path}: {count(found.count, 'example')}{where}", style="bold")
    rows = [
        [key, _number(value, METRICS[name].decimals)]
        for name, figures in found.figures.items()
        for key, value in figures.items()
    ]
    terminal.table((Column("metric", style="cyan"), Column("value", right=True)), rows)
    if found.computed:
        rate = found.computed / max(found.seconds, 1e-9)
        taken = found.count - found.computed
        before = f", {count(taken, 'example')} taken from the records" if taken else ""
        terminal.note(
            f"{found.computed:,} in {duration(found.seconds)}, "
            f"{rate:,.{_RATE_DECIMALS}f} a second{before}"
        )
    else:
        terminal.note("all examples were in the records")


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}" if math.isfinite(value) else str(value)


evaluate_command = Verb(
    evaluate_model,
    (
        "fitzroy evaluate m_edgetpu.tflite --data val/ --device twin:m.tflite",
        "fitzroy evaluate m_edgetpu.tflite --data val.csv --metric top5 --min 0.9",
        "fitzroy evaluate yolo_edgetpu.tflite --data coco.json --metric map -j 2",
        "fitzroy evaluate m_edgetpu.tflite --data x/ --against m.onnx --resume r",
        "fitzroy evaluate m_edgetpu.tflite --data val/ --scheduler tcp://host:8786",
    ),
)
