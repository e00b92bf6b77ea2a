"""What ``fitzroy compile`` does for the Edge TPU, and what it says of it."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import text_bytes
from fitzroy.base.progress import counted
from fitzroy.cli.compile_log import log, show, version
from fitzroy.cli.cuts import AUTO, cuts_document, number_of_segments, show_cuts
from fitzroy.cli.files import check_directory, check_output, directories, write_files
from fitzroy.cli.help import Json, ModelLabels, Quiet
from fitzroy.cli.models import warn_of
from fitzroy.cli.terminal import Terminal, plain
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions
from fitzroy.compiler.targets.edgetpu.partition.cuts import MOST_CHIPS, Objective
from fitzroy.report.documents import headed

if TYPE_CHECKING:
    from fitzroy.compilation.edgetpu import EdgeTpuCompilation
    from fitzroy.compilation.source import Source
    from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
    from fitzroy.report.run import Run


class Format(StrEnum):
    """What to write for the Edge TPU."""

    TFLITE = "tflite"
    PACKAGE = "package"
    OBJECT = "object"
    MODULE = "module"


SUFFIXES = {
    Format.TFLITE: "_edgetpu.tflite",
    Format.PACKAGE: ".dwn",
    Format.OBJECT: ".fzo",
    Format.MODULE: ".module",
}
"""What is added to the name of a model."""

_REPORTS = (".html", ".json")


@dataclass(frozen=True)
class Results:
    """What to write, and how to say what was done.

    Attributes:
        output: file, or an existing directory, for the result.
        out_dir: directory for results.
        format: what to write.
        dump: directory for intermediate forms.
        labels: file with names of classes for the model that is written.
        json: whether to print one JSON document.
        quiet: whether to leave out remarks.
    """

    panel: ClassVar[str] = "Results"

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output file: a .tflite model for the Edge TPU, or its directory; a .pte program "
            "for XNNPACK, or .bpte for its bundle only."
            " [dim]default: MODEL_edgetpu.tflite or MODEL.pte, in the current directory[/dim]",
            show_default=False,
        ),
    ] = None
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out-dir",
            metavar="DIR",
            help="Directory for Edge TPU results, which are named after the models.",
            show_default=False,
        ),
    ] = None
    format: Annotated[
        Format,
        typer.Option(
            "--format",
            help="Output format. A [b]module[/b] is one file for any target, with all parts of the "
            "model. For the Edge TPU also: a model, its bare DarwiNN package, or an object for "
            "[b]fitzroy link[/b].",
        ),
    ] = Format.TFLITE
    dump: Annotated[
        Path | None,
        typer.Option(
            "--dump", metavar="DIR", help="Write every intermediate form to this directory."
        ),
    ] = None
    labels: ModelLabels = None
    json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class ChipWork(EdgeTpuOptions):
    """What the compiler for the Edge TPU makes of a model, how, and what it says of it.

    Attributes:
        num_segments: into how many segments to cut the model; 0 for none, `AUTO` to find out.
        objective: what cuts are to make short.
        show_operations: whether to list all operators.
        explain: whether to say what became of every operator.
        estimate: whether to estimate the time of an inference.
        report: file for a report.
        log: whether to write a log beside every result.
    """

    num_segments: Annotated[
        int,
        typer.Option(
            "--num-segments",
            "-n",
            metavar="N|auto",
            parser=number_of_segments,
            help="Divide the model into N segments, one per chip; [b]auto[/b] adds chips, up to "
            f"{MOST_CHIPS}, as long as each makes it at least 5 % better.",
            show_default=False,
        ),
    ] = 0
    objective: Annotated[
        Objective,
        typer.Option(
            "--objective",
            help="What cuts minimize: the time between outputs, or the time to one output.",
        ),
    ] = Objective.THROUGHPUT
    show_operations: Annotated[
        bool,
        typer.Option("--show-operations", "-s", help="List all operators and where they run."),
    ] = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show what every operator became, or why it stays on the host.",
        ),
    ] = False
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="Estimate the time of an inference on the timing model.",
        ),
    ] = True
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Write a report, .html or .json.", show_default=False
        ),
    ] = None
    log: Annotated[bool, typer.Option("--log", help="Write a log beside every result.")] = False


@dataclass(frozen=True, slots=True)
class Request:
    """What the user wants of the compiler for the Edge TPU.

    Attributes:
        models: paths of the models.
        results: where results go.
        chip: what is wanted of the compiler, and how.
        how: what to read of the models.
    """

    models: list[str]
    results: Results
    chip: ChipWork
    how: Reading = PLAINLY

    @property
    def targets(self) -> list[Path]:
        """Where results go; several models may be functions of one module.

        Raises:
            UsageError: one file for several results, or two results of one name.
        """
        names = [Path(model).stem for model in self.models]
        if self.chip.num_segments:
            # Until their number is known, the names of as many as there may be.
            parts = MOST_CHIPS if self.chip.num_segments == AUTO else self.chip.num_segments
            names = [
                f"{name}_segment_{number}_of_{parts}" for name in names for number in range(parts)
            ]
        folder, output = self.results.out_dir, self.results.output
        if folder is None and output is not None and os.path.isdir(output):
            folder = output
        if folder is None and output is not None:
            if self.joins:
                return [output] * len(names)
            if len(names) > 1:
                number = "up to " if self.chip.num_segments == AUTO else ""
                raise UsageError(
                    f"{number}{len(names)} results and one output file",
                    where=os.fspath(output),
                    hint="name a directory: --out-dir DIR",
                )
            return [output]
        found = [(folder or Path()) / (name + SUFFIXES[self.results.format]) for name in names]
        if len(set(found)) < len(found):
            raise UsageError("two models have the same name", hint="rename one of them")
        return found

    @property
    def logs(self) -> list[Path | None]:
        """Where the log of every result goes, if logs are wanted.

        Raises:
            UsageError: as for `targets`.
        """
        return [path.with_suffix(".log") if self.chip.log else None for path in self.targets]

    @property
    def joins(self) -> bool:
        """Whether all results go to one module."""
        output = self.results.output
        one = output is not None and not os.path.isdir(output)
        return self.results.format is Format.MODULE and one and not self.chip.num_segments

    def check(self) -> None:
        """Refuse before any work is done what cannot be done.

        Raises:
            UsageError: options that contradict, or outputs that cannot be written.
        """
        if self.results.output is not None and self.results.out_dir is not None:
            raise UsageError("-o and --out-dir both say where results go", hint="give one of them")
        if self.chip.objective is not Objective.THROUGHPUT and not self.chip.num_segments:
            raise UsageError(
                "--objective is for models in several segments",
                hint="add --num-segments N, or --num-segments auto",
            )
        if self.results.labels is not None and self.results.format is not Format.TFLITE:
            raise UsageError(
                f"--labels does not go with --format {self.results.format}",
                reason="only TFLite models have names of classes",
            )
        if self.results.labels is not None and len(self.models) > 1:
            raise UsageError(
                f"--labels is for one model, and {len(self.models)} are given",
                hint="give each its names first: fitzroy convert MODEL --labels FILE",
            )
        if self.chip.num_segments and len(self.models) > 1:
            raise UsageError(
                "--num-segments is for one model",
                reason="models that are compiled together share one chip",
            )
        for path in (self.results.out_dir, self.results.dump):
            if path is not None:
                check_directory(path)
        if self.chip.report is not None and self.chip.report.suffix not in _REPORTS:
            raise UsageError(
                "a report is an .html or a .json file", where=os.fspath(self.chip.report)
            )
        targets = list(dict.fromkeys(self.targets))
        outputs = [*targets, *([self.chip.report] if self.chip.report is not None else [])]
        outputs += [path for path in dict.fromkeys(self.logs) if path is not None]
        if len(set(outputs)) < len(outputs):
            raise UsageError("two outputs have the same name", where=os.fspath(outputs[-1]))
        for path in outputs:
            if (
                self.results.out_dir is None
                or path.parent != self.results.out_dir
                or os.path.exists(path.parent)
            ):
                check_output(path, self.models)


def _doubt(terminal: Terminal, options: EdgeTpuOptions) -> None:
    """Warn of a report of probes that confirms little.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no report of probes.
    """
    from fitzroy.compiler.targets.edgetpu.settings import report_of

    report = report_of(options)
    if report is None:
        return
    if report.device.startswith("sim"):
        terminal.warn("the report is of a simulator: it says nothing about real chips")
    if not report.confirmed:
        terminal.warn("the report confirms nothing: only what is published is used")


def compile_models(terminal: Terminal, request: Request, sources: Sequence[Source]) -> None:
    """Compile, write, and print a log or its document.

    Raises:
        FormatError: a report of probes that is none.
        UsageError: an output that cannot be written, a runtime version that does not exist, or
            several parts where one file is wanted.
    """
    from fitzroy.compilation import edgetpu
    from fitzroy.compilation.edgetpu import link_options
    from fitzroy.compiler.targets.edgetpu.settings import costs_of, generator_options

    _doubt(terminal, request.chip)
    chosen: dict[str, Any] = {
        "options": link_options(request.chip),
        "generator": generator_options(request.chip),
        "costs": costs_of(request.chip),
    }
    with terminal.working("compiling") as progress:
        chosen["progress"] = progress
        cuts: list[Cut] = []
        if request.chip.num_segments:
            from fitzroy.compilation.segments import compile_segments

            wanted = None if request.chip.num_segments == AUTO else request.chip.num_segments
            chosen |= {"objective": request.chip.objective, "report": cuts.extend}
            results = compile_segments(sources[0], wanted, **chosen)
            request = replace(request, chip=replace(request.chip, num_segments=len(results)))
        else:
            results = edgetpu.compile_together(sources, **chosen)
    contents = _contents(request, results)
    runs: list[list[Run]] = [[] for _ in results]
    if request.chip.estimate or request.chip.report is not None:
        with terminal.working("estimating time") as progress:
            runs = [_timed(result, progress) for result in results]
    documents = _documents(request, results, contents, runs)
    _write(request, results, documents, contents, runs, cuts)
    if terminal.json:
        terminal.document("compile", _joined(documents) | cuts_document(cuts))
        return
    for source in sources:
        warn_of(terminal, source.graph)
    if not terminal.quiet:
        terminal.line(version())
        for document in documents:
            terminal.line()
            show(
                terminal,
                document,
                operations=request.chip.show_operations,
                explain=request.chip.explain,
            )
        # Before a choice of boxes, a model is read only if objects are wanted.
        for source in () if request.how.before_choice else sources:
            _suggest_objects(terminal, source, documents)
        for result, document in zip(results, documents, strict=True):
            _suggest_calibration(terminal, result, document)
        show_cuts(terminal, cuts, len(results))
        for path in (request.chip.report, request.results.dump):
            if path is not None:
                terminal.line(f"wrote {path}", style="green")


def _suggest_objects(
    terminal: Terminal, source: Source, documents: Sequence[Mapping[str, Any]]
) -> None:
    """Say that a model is a detector where its own outputs leave the host much to do."""
    from fitzroy.compiler.passes.heads.rewriting import is_detector
    from fitzroy.report.advice import is_held_up

    held_up = any(is_held_up(item) for item in documents if item["model"] == source.path)
    if held_up and is_detector(source.graph):
        terminal.line(
            "hint: the model is a detector: with --detections it lists objects, and the host does "
            "not have to arrange all boxes and scores",
            style="green",
        )


def _suggest_calibration(
    terminal: Terminal, result: EdgeTpuCompilation, document: Mapping[str, Any]
) -> None:
    """Say that operators on real numbers between integers could be integers, too."""
    from fitzroy.compiler.targets.edgetpu.partition.integers import could_be_integers
    from fitzroy.report.advice import is_held_up

    if len(result.segments) > 1 and is_held_up(document) and could_be_integers(result.graph):
        terminal.line(
            "hint: whoever quantized the model left real numbers between integers, which split it "
            f"into {len(result.segments)} parts; compile the float32 model with --calibrate, which "
            "quantizes those operators, too",
            style="green",
        )


def _contents(request: Request, results: Sequence[EdgeTpuCompilation]) -> list[bytes]:
    """What to write for every result."""
    if request.results.format is not Format.MODULE:
        return [_content(result, request.results.format) for result in results]
    from fitzroy.compilation.modules import modules_of

    models = {result.source.path: result.data for result in results}
    return modules_of(models, joined=request.joins)


def _content(result: EdgeTpuCompilation, format: Format) -> bytes:
    """What to write for a result.

    Raises:
        UsageError: it has several parts, and the format holds one.
    """
    from fitzroy.formats.darwinn import write_package
    from fitzroy.formats.object_file import write_object

    if format is Format.TFLITE:
        return result.data
    if len(result.segments) > 1:
        raise UsageError(
            f"the model has {len(result.segments)} parts on the Edge TPU",
            reason=f"a {format.value} holds one",
            where=result.source.path,
            hint="write a model: --format tflite",
        )
    (part,) = result.segments
    return write_package(part.package) if format is Format.PACKAGE else write_object(part.object)


def _timed(result: EdgeTpuCompilation, progress: Any) -> list[Run]:
    from fitzroy.compilation.records import steps_of
    from fitzroy.execution.estimate import estimate

    found = []
    for number, part in enumerate(result.segments, 1):
        name = os.path.basename(result.source.path)
        progress(counted(f"{name}, part", number, len(result.segments)))
        found.append(estimate(part.package, name, steps=steps_of(part.segment, part.forms)))
    return found


def _documents(
    request: Request,
    results: Sequence[EdgeTpuCompilation],
    contents: Sequence[bytes],
    runs: Sequence[Sequence[Run]],
    *,
    full: bool = False,
) -> list[dict[str, Any]]:
    """What the compiler did, for JSON, logs and reports."""
    from fitzroy.compilation.documents import document

    documents: list[dict[str, Any]] = []
    places = zip(request.targets, request.logs, contents, strict=True)
    for result, timed, (path, logged, content) in zip(results, runs, places, strict=True):
        # Segments have chips of their own.
        taken = 0 if request.chip.num_segments else sum(item["cached_bytes"] for item in documents)
        found = document(result, timed, full=full, taken=taken)
        found["files"] = [{"path": os.fspath(path), "bytes": len(content)}]
        found["log"] = None if logged is None else os.fspath(logged)
        documents.append(found)
    return documents


def _joined(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document; that of a single model as it is."""
    if len(documents) == 1:
        return documents[0]
    return {
        "target": "edgetpu",
        "files": [file for document in documents for file in document["files"]],
        "models": list(documents),
    }


def _write(
    request: Request,
    results: Sequence[EdgeTpuCompilation],
    documents: Sequence[dict[str, Any]],
    contents: Sequence[bytes],
    runs: Sequence[Sequence[Run]],
    cuts: Sequence[Cut] = (),
) -> None:
    """Write everything, or nothing.

    Raises:
        UsageError: a file cannot be written.
    """
    files = list(dict(zip(request.targets, contents, strict=True)).items())
    logs: dict[Path, str] = {}
    for path, document in zip(request.logs, documents, strict=True):
        if path is not None:
            logs[path] = "\n".join(filter(None, [logs.get(path), log(document)]))
    files += [(path, text_bytes(text)) for path, text in logs.items()]
    if request.chip.report is not None:
        in_full = _documents(request, results, contents, runs, full=True)
        files.append((request.chip.report, _report(request.chip.report, in_full, runs, cuts)))
    folders = [request.results.out_dir, request.results.dump]
    if request.results.dump is not None:
        from fitzroy.compilation.texts import forms

        for path, result in zip(request.targets, results, strict=True):
            folder = request.results.dump
            if len(results) > 1:
                folder /= Path(result.source.path).stem if request.joins else path.stem
            folders.append(folder)
            files += [(folder / name, text_bytes(text)) for name, text in forms(result).items()]
    with directories([folder for folder in folders if folder is not None]):
        write_files(files)


def _report(
    path: Path,
    documents: Sequence[dict[str, Any]],
    runs: Sequence[Sequence[Run]],
    cuts: Sequence[Cut],
) -> bytes:
    if path.suffix == ".json":
        text = json_text.dumps(
            plain(headed("compile", _joined(documents) | cuts_document(cuts))),
            indent=2,
            allow_nan=False,
        )
        return text_bytes(f"{text}\n")
    from fitzroy.report.compilation import page

    return text_bytes(page(documents, runs, cuts_document(cuts).get("cuts", ())))
