"""``fitzroy compile``: a model to a program of the Edge TPU, ExecuTorch, or another target."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.options import arguments, given
from fitzroy.cli.compile_edgetpu import ChipWork, Format, Request, Results
from fitzroy.cli.files import check_directory, check_output, with_suffix, write_files
from fitzroy.cli.help import (
    OptionTexts,
    Outputs,
    Passes,
    TargetName,
    Verb,
    option_values,
    pass_names,
)
from fitzroy.cli.models import Importing, warn_of
from fitzroy.cli.samples import Quantization
from fitzroy.cli.terminal import Column, Terminal, count, seconds, size
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.targets.xnnpack.options import XnnpackOptions

if TYPE_CHECKING:
    from fitzroy.base.types import Array
    from fitzroy.compilation.result import Compilation
    from fitzroy.compilation.source import Source
    from fitzroy.compiler.ir import Graph

_EDGETPU, _XNNPACK = "edgetpu", "xnnpack"
_IN_MODULES = (_XNNPACK, "portable", "vm")
"""Other targets whose programs, or what the host computes in their place, fit in modules."""


@dataclass(frozen=True)
class Choice(Importing):
    """What to compile for, and what of the model.

    Attributes:
        target: name of the target; None to choose by the model and the output.
        option: options of a target of another package.
        outputs: values to compute in place of the model's outputs.
        passes: passes that run before those of the target.
    """

    panel: ClassVar[str] = "Target"

    target: TargetName = None
    option: OptionTexts = None
    outputs: Outputs = None
    passes: Passes = None


@dataclass(frozen=True)
class Cases(Quantization):
    """Test cases of a bundle, and how a float32 model is quantized first.

    Attributes:
        bundle: files of the test cases.
    """

    bundle: Annotated[
        list[str] | None,
        typer.Option(
            "--bundle",
            metavar="X...",
            help="Also write a bundled program with a test case per image, .npy or raw file;"
            " takes all values up to the next option.",
            rich_help_panel="Test cases of ExecuTorch programs",
        ),
    ] = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Files of the test cases."""
        return tuple(self.bundle or ())


def compile_model(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A .tflite or .onnx model, or a graph in text form. Several models share an Edge "
            "TPU; earlier ones get memory first.",
        ),
    ],
    choice: Choice,
    results: Results,
    chip: ChipWork,
    xnnpack: XnnpackOptions,
    heads: HeadOptions,
    cases: Cases,
) -> None:
    """Compile a model for the Edge TPU, or to an ExecuTorch program (.pte) for XNNPACK.

    For the Edge TPU, the result is the same model with Edge TPU operators in place of everything
    that the chip can compute. The other operators stay on the host, each with a reason. Several
    models are compiled for one chip, which keeps the parameters of all of them. --num-segments
    divides one model among several chips.

    A float32 model needs --calibrate, which quantizes it first, as [b]fitzroy quantize[/b] does.

    For XNNPACK, operators that it lacks run on ExecuTorch's portable kernels. If an operator can
    run nowhere, the command prints all reasons and writes nothing.

    With --format module, the whole model becomes one bytecode module, which fitzroy run executes.
    This also accepts models that are already compiled for the Edge TPU.
    """
    from fitzroy.cli import compile_edgetpu
    from fitzroy.cli.models import check_model
    from fitzroy.compiler.passes.base import named_passes
    from fitzroy.compiler.targets.edgetpu.partition.rules import RealNumbersError

    terminal = Terminal(json=results.json, quiet=results.quiet)
    heads.check()
    for name in models:
        check_model(name)
    how = replace(choice.how, before_choice=heads.detections)
    request = Request(models, results, chip, how)
    if results.format is Format.MODULE:
        from fitzroy.cli import compile_module

        if compile_module.are_compiled(models):
            _refuse(
                "compiled", chip, heads, dump=results.dump, passes=choice.passes,
                labels=results.labels,
            )  # fmt: skip
            compile_module.write_compiled(terminal, request)
            return
    graph = None
    if cases.calibrate:
        target, sources = _wanted(request, choice.target) or _EDGETPU, None
    else:
        _refuse_calibration(cases)
        target, sources = _target(request, choice.target)
    if target == _EDGETPU:
        if choice.outputs:
            words = [models[0], "--outputs", ",".join(choice.outputs), "-o", "cut.tflite"]
            raise UsageError(
                "--outputs is for ExecuTorch programs",
                hint=f"cut the model first: fitzroy convert {shlex.join(words)}",
            )
        _refuse("edgetpu", xnnpack, bundle=cases.bundle, option=choice.option)
        request.check()
    if cases.calibrate:
        tables = target == _EDGETPU if cases.tables is None else cases.tables
        graph = _quantized(terminal, request, replace(cases, tables=tables), heads)
        sources = [_source(graph, models[0])] if target == _EDGETPU else None
    if sources is not None:
        steps = named_passes(pass_names(choice.passes))
        if graph is None and heads.detections:
            from fitzroy.compiler.passes.heads.class_maximum import listing

            steps = (*listing(heads), *steps)
        sources = [source.passed(steps) for source in sources]
        if results.labels is not None:
            from fitzroy.execution.arrays import load_labels

            labels = load_labels(results.labels)
            sources = [source.labelled(labels) for source in sources]
        try:
            compile_edgetpu.compile_models(terminal, request, sources)
        except RealNumbersError as error:
            raise error.read_with((*choice.arguments, *arguments(heads))) from None
        return
    bare = results.format in (Format.PACKAGE, Format.OBJECT)
    _refuse("others", chip, heads, out_dir=results.out_dir, format=bare, labels=results.labels)
    settings: dict[str, Any] = dict(option_values(choice.option))
    if target == _XNNPACK:
        settings = {"uint8": xnnpack.uint8, **settings}
    else:
        _refuse("portable", xnnpack)
    if results.format is Format.MODULE:
        target, settings = _module_of(target, settings)
    job = _Job(request, choice, target, settings, cases, graph)
    _compile_program(terminal, job)


def _module_of(target: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The target of modules, and options with which it computes on another target.

    Raises:
        UsageError: a module has no parts for that target.
    """
    if target not in _IN_MODULES:
        raise UsageError(
            f"a module has no parts for the target {target}",
            hint=f"--format module is for {', '.join((_EDGETPU, *_IN_MODULES))}",
        )
    own = {"accelerator": target} if target == _XNNPACK else {}
    return "vm", {**own, **settings}


@dataclass(frozen=True, slots=True)
class _Job:
    """A model to compile for a target other than the Edge TPU.

    Attributes:
        request: the model and where results go.
        choice: what was asked for of the model.
        target: name of the target.
        settings: its options.
        cases: test cases of a bundle.
        graph: the model, quantized; None to take it as it is.
    """

    request: Request
    choice: Choice
    target: str
    settings: dict[str, Any]
    cases: Cases
    graph: Graph | None = None


def _compile_program(terminal: Terminal, job: _Job) -> None:
    """Compile a model, write it, and say what it became.

    Raises:
        UsageError: several models, or an output that cannot be written.
    """
    import fitzroy
    from fitzroy.cli import compile_module
    from fitzroy.cli.models import resolve_outputs
    from fitzroy.compiler.targets.target import TARGETS

    request, cases = job.request, job.cases
    if len(request.models) > 1:
        raise UsageError(
            f"{len(request.models)} models for one program",
            hint="compile them one after the other",
        )
    (model,) = request.models
    suffix = TARGETS.get(job.target).suffix
    program, bundled = _destinations(model, request.results.output, suffix, cases.paths)
    for path in filter(None, (program, bundled)):
        check_output(path, [model, *cases.paths])
    if request.results.dump is not None:
        check_directory(request.results.dump)
    with terminal.working("compiling") as progress:
        source = fitzroy.load(model, request.how) if job.graph is None else job.graph
        names: list[str] = []
        if job.choice.outputs:
            names = resolve_outputs(source, job.choice.outputs)
        compilation = fitzroy.compile(
            source,
            target=job.target,
            outputs=names,
            passes=pass_names(job.choice.passes),
            dump=request.results.dump,
            progress=progress,
            **job.settings,
        )
        if request.results.format is Format.MODULE:
            compile_module.write_module(terminal, request, compilation.data)
            return
        files: list[tuple[Path, bytes]] = [] if program is None else [(program, compilation.data)]
        if bundled is not None:
            arrays = [_case(compilation, case, cases) for case in cases.paths]
            progress(f"expected outputs of {count(len(cases.paths), 'test case')}")
            (method,) = compilation.legalized
            files.append((bundled, fitzroy.bundle(compilation, {method: arrays})))
    write_files(files)
    document = summarize(compilation, model, files)
    if terminal.json:
        terminal.document("compile-program", document)
        return
    _warn(terminal, compilation)
    if not terminal.quiet:
        _show(terminal, document)


_ENDINGS = {
    ".tflite": _EDGETPU,
    ".dwn": _EDGETPU,
    ".fzo": _EDGETPU,
    ".pte": _XNNPACK,
    ".bpte": _XNNPACK,
}


def _wanted(request: Request, target: str | None) -> str | None:
    """The target that was asked for, or that the output's name or format stands for.

    Raises:
        UsageError: there is no such target.
    """
    from fitzroy.compiler.targets.target import TARGETS

    output = request.results.output
    if target is not None:
        TARGETS.get(target)
    elif output is not None:
        target = _ENDINGS.get(output.suffix)
    if target is None and request.results.format in (Format.PACKAGE, Format.OBJECT):
        target = _EDGETPU
    return target


def _target(request: Request, target: str | None) -> tuple[str, list[Source] | None]:
    """The target, and the models if they are for the Edge TPU.

    They are if that was asked for, if the output's name says so, or if all of them are quantized.

    Raises:
        UsageError: there is no such target.
    """
    from fitzroy.compilation.source import Source

    target = _wanted(request, target)
    if target is not None and target != _EDGETPU:
        return target, None
    try:
        sources = [Source.read(path, request.how) for path in request.models]
    except UnsupportedError:
        # Only the Edge TPU needs TFLite's own operators.
        if target is not None:
            raise
        return _XNNPACK, None
    if target is not None or all(source.quantized for source in sources):
        return _EDGETPU, sources
    return _XNNPACK, None


def _refuse_calibration(cases: Cases) -> None:
    """Refuse options that say how to quantize where nothing is quantized.

    Raises:
        UsageError: one is given; or what pixels become, and no image is.
    """
    for name in given(cases):
        if name in ("mean", "std") and not cases.bundle:
            raise UsageError(
                f"--{name} is for images",
                hint="give some: --calibrate images/, or --bundle one.png",
            )
        if name not in ("bundle", "mean", "std"):
            raise UsageError(
                f"--{name} is for models that are quantized",
                hint="give representative inputs: --calibrate images/",
            )


_MEASURED = 2
"""Samples on which a quantized model is compared with the float32 model."""


def _quantized(terminal: Terminal, request: Request, cases: Cases, heads: HeadOptions) -> Graph:
    """The model of a request, quantized.

    Raises:
        UsageError: several models, or samples that do not suit.
    """
    from fitzroy.cli.quantize import measured, quantized_model, warn_of_floats, warn_of_noise
    from fitzroy.compiler.passes.heads.class_maximum import with_best_classes

    if len(request.models) > 1:
        raise UsageError(
            f"--calibrate is for one model, and {len(request.models)} are given",
            hint="quantize each with fitzroy quantize first",
        )
    with terminal.working("quantizing") as progress:
        # Published programs round sums before they look functions of them up.
        sums = not (request.chip.conservative or request.chip.confirmed)
        result, samples = quantized_model(
            request.models[0], request.how, cases, progress, heads, sums=sums
        )
        few = samples[:: -(-len(samples) // _MEASURED)]
        # Decibels say little about lists of objects.
        comparison = None if heads.detections else measured(result, few, progress)
    warn_of_floats(terminal, result)
    if comparison is not None:
        warn_of_noise(terminal, comparison, request.models[0])
    return with_best_classes(result.graph)


def _source(graph: Graph, path: str) -> Source:
    """A graph in the place of the model that it was made of."""
    from fitzroy.compilation.source import Source

    return replace(Source.of(graph), path=path, size=os.path.getsize(path))


_FOREIGN = {
    "edgetpu": ("ExecuTorch programs", "add --target xnnpack, or name the output .pte"),
    "others": ("the Edge TPU", "add --target edgetpu, or name the output .tflite"),
    "portable": ("XNNPACK", "add --target xnnpack"),
    "compiled": ("models that are compiled here", "give the model that it was made of"),
}
"""What options are for that mean nothing otherwise, and what to do to use them."""


def _refuse(target: str, *groups: object, **options: object) -> None:
    """Refuse options that mean nothing for a target.

    Args:
        target: a key of `_FOREIGN`.
        groups: options of which none may be given.
        options: others by name.

    Raises:
        UsageError: one is given.
    """
    names = [name.replace("_", "-") for name, value in options.items() if value]
    for name in [*names, *(name for group in groups for name in given(group))]:
        what, hint = _FOREIGN[target]
        raise UsageError(f"--{name} is for {what}", hint=hint)


def _destinations(
    model: str, output: Path | None, suffix: str, cases: Sequence[str]
) -> tuple[Path | None, ...]:
    """Where program and bundle go; None for what is not written.

    Raises:
        UsageError: a bundle without test cases, or an unusable name.
    """
    program = output if output is not None else with_suffix(Path(model).name, suffix)
    if program.suffix == ".bpte":
        if not cases:
            raise UsageError(
                "a bundled program needs test cases",
                where=os.fspath(program),
                hint="name their files: --bundle one.png two.png",
            )
        return None, program
    return program, with_suffix(program, ".bpte") if cases else None


def _case(compilation: Compilation, path: str, cases: Cases) -> list[Array]:
    """The input of a test case.

    Raises:
        UsageError: the model has several inputs, or the file does not fit.
    """
    from fitzroy.execution.arrays import load_array

    inputs = compilation.inputs
    if len(inputs) != 1:
        raise UsageError(
            "--bundle is for models with one input",
            reason=f"this one has {len(inputs)}: {', '.join(name for name, _ in inputs)}",
        )
    return [load_array(path, inputs[0][1], cases.given_rule)]


def summarize(
    compilation: Compilation, model: str, files: list[tuple[Path, bytes]]
) -> dict[str, Any]:
    """What a compilation did, for JSON."""
    from fitzroy.cli.describe import tensor

    rejects = [
        {"code": r.code, "where": r.where, "what": r.what, "reason": r.reason, "hint": r.hint}
        for r in compilation.reasons
    ]
    return {
        "model": model,
        "files": [{"path": os.fspath(path), "bytes": len(data)} for path, data in files],
        "inputs": [tensor(name, type) for name, type in compilation.inputs],
        "outputs": [tensor(name, type) for name, type in compilation.outputs],
        **compilation.summary(),
        **_memory(compilation),
        "warnings": rejects,
    }


def _memory(compilation: Compilation) -> dict[str, Any]:
    """What an ExecuTorch program needs of memory; nothing for other files."""
    from fitzroy.cli.describe import program
    from fitzroy.formats import executorch as et
    from fitzroy.formats.detect import FileKind, detect

    try:
        kind = detect(compilation.data)
    except FormatError:
        # Targets of other packages make what they like.
        return {}
    if kind is not FileKind.PROGRAM:
        return {}
    contents = program(et.read_program(compilation.data))
    return {
        "constant_bytes": contents["constants"]["bytes"]
        + sum(
            delegate["graph"]["constants"]["bytes"]
            for method in contents["methods"]
            for delegate in method["delegates"]
            if "graph" in delegate
        ),
        "planned_memory": {
            method["name"]: sum(method["planned_memory"]) for method in contents["methods"]
        },
    }


def _warn(terminal: Terminal, compilation: Compilation) -> None:
    """Say what is remarkable of the models, which operators run elsewhere, and why."""
    for graph in compilation.graphs.values():
        warn_of(terminal, graph)
    for placements in compilation.placements.values():
        rejects = [reject for placement in placements for reject in placement.rejects]
        if not rejects:
            continue
        nodes = len({reject.where for reject in rejects})
        details = [
            f"{reject.where}: {reject.what}" + (f" (hint: {reject.hint})" if reject.hint else "")
            for reject in rejects
        ]
        others = {item.target for item in placements if item.target != compilation.target}
        where = " and ".join(map(_spoken, sorted(others)))
        what = f"{count(nodes, 'node')} not on {_spoken(compilation.target)} but on {where}"
        terminal.warn(what, details)


def _spoken(target: str) -> str:
    """A target as remarks name it."""
    return {"xnnpack": "XNNPACK", "portable": "portable kernels"}.get(target, target)


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    from fitzroy.cli.describe import signature_rows

    rows = signature_rows(document)
    for name, method in document["methods"].items():
        placed = ", ".join(f"{number} on {where}" for where, number in method["nodes"].items())
        rows.append(("operators", f"{method['operators']} in the model, {placed} after the passes"))
        if "constant_bytes" in document:
            rows += [
                (
                    "delegates",
                    f"{method['delegates']} with {count(method['delegate_nodes'], 'node')},"
                    f" {size(method['delegate_bytes'])}",
                ),
                ("constants", size(document["constant_bytes"])),
                ("planned memory", size(document["planned_memory"].get(name, 0))),
            ]
    terminal.fields(rows)
    terminal.line()
    terminal.table(
        (Column("stage", style="cyan"), Column("nodes", right=True), Column("time", right=True)),
        [
            [stage["name"], str(stage["nodes"] or ""), seconds(stage["seconds"])]
            for stage in document["stages"]
        ]
        + [["total", "", seconds(document["seconds"])]],
    )
    terminal.line()
    for file in document["files"]:
        terminal.line(f"wrote {file['path']}, {size(file['bytes'])}", style="green")


compile_command = Verb(
    compile_model,
    (
        "fitzroy compile model.tflite -o model_edgetpu.tflite --show-operations",
        "fitzroy compile detector.tflite classifier.tflite --out-dir together/",
        "fitzroy compile model.tflite --num-segments 3 --report model.html",
        "fitzroy compile model.tflite --num-segments auto --objective latency",
        "fitzroy compile model.tflite --explain --dump stages/",
        "fitzroy compile float.tflite --calibrate images/ -o model_edgetpu.tflite",
        "fitzroy compile yolo.onnx --calibrate images/ --detections -o y_edgetpu.tflite",
        "fitzroy compile model.tflite --target xnnpack",
        "fitzroy compile model.tflite -o out.pte --bundle one.png two.png",
        "fitzroy compile detector.tflite --outputs boxes,scores -o detector.pte",
        "fitzroy compile old_uint8.tflite --uint8 fast --dump stages/",
        "fitzroy compile model.tflite --format module -o model.module",
    ),
)
