"""``fitzroy compile``: a model to a program of the Edge TPU, or of ExecuTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.cli.compile_edgetpu import Format, Partition, Request
from fitzroy.cli.files import check_directory, check_output, write_files
from fitzroy.cli.help import Json, Outputs, Quiet, Verb
from fitzroy.cli.terminal import Column, Terminal, count, seconds, size

if TYPE_CHECKING:
    from fitzroy.base.types import Array
    from fitzroy.compilation.edgetpu import Source
    from fitzroy.compilation.result import Compilation

_METHOD = "forward"


class Target(StrEnum):
    """Targets of the compiler."""

    EDGETPU = "edgetpu"
    XNNPACK = "xnnpack"


class Uint8(StrEnum):
    """How uint8 models are computed."""

    EXACT = "exact"
    FAST = "fast"


TargetOption = Annotated[
    Target | None,
    typer.Option(
        "--target",
        help="What to compile for. [dim]default: edgetpu for quantized models, else xnnpack; the "
        "name of the output decides too[/dim]",
        show_default=False,
    ),
]
Uint8Option = Annotated[
    Uint8,
    typer.Option(
        "--uint8",
        help="uint8 models: [b]exact[/b] keeps every bit, [b]fast[/b] uses int8 kernels.",
    ),
]


def compile_model(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A .tflite model or a graph in text form. Several share an Edge TPU: the first "
            "ones get memory first.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="What to write: a .tflite model for the Edge TPU, or the directory for it; a .pte"
            " program for XNNPACK, or .bpte for only its bundle."
            " [dim]default: MODEL_edgetpu.tflite or MODEL.pte, in the current directory[/dim]",
            show_default=False,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out-dir",
            metavar="DIR",
            help="For the Edge TPU: where results go, under the names of the models.",
            show_default=False,
        ),
    ] = None,
    target: TargetOption = None,
    format: Annotated[
        Format,
        typer.Option(
            "--format",
            help="A [b]module[/b] is one file for any target, with all that executes it. For the "
            "Edge TPU also: a model, its bare DarwiNN package, or an object for "
            "[b]fitzroy link[/b].",
        ),
    ] = Format.TFLITE,
    min_runtime_version: Annotated[
        int,
        typer.Option(
            "--min-runtime-version",
            "-m",
            metavar="N",
            help="For the Edge TPU: oldest runtime that has to run the model.",
        ),
    ] = 14,
    show_operations: Annotated[
        bool,
        typer.Option(
            "--show-operations",
            "-s",
            help="For the Edge TPU: list all operators and where they run.",
        ),
    ] = False,
    num_segments: Annotated[
        int,
        typer.Option(
            "--num-segments",
            "-n",
            metavar="N",
            min=0,
            help="For the Edge TPU: cut the model into N segments, each for a chip of its own.",
            show_default=False,
        ),
    ] = 0,
    partition: Annotated[
        Partition,
        typer.Option(
            "--partition",
            help="For the Edge TPU: map [b]all[/b] operators that can be, or leave those to the "
            "host whose transfers would [b]cost[/b] more than the chip saves.",
        ),
    ] = Partition.COST,
    conservative: Annotated[
        bool,
        typer.Option(
            "--conservative",
            help="For the Edge TPU: keep to forms of instructions that published programs have, "
            "and refuse to leave the envelope of their properties.",
        ),
    ] = False,
    confirmed: Annotated[
        Path | None,
        typer.Option(
            "--confirmed",
            metavar="P.json",
            help="For the Edge TPU: use only what published programs have, and what this report "
            "of fitzroy probe confirms; refuse the rest.",
            show_default=False,
        ),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="For the Edge TPU: estimate the time of an inference on the timing model.",
        ),
    ] = True,
    explained: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="For the Edge TPU: say of every operator what it became, or why it stays on the "
            "host.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="For the Edge TPU: write a report, .html or .json.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        bool,
        typer.Option("--log", help="For the Edge TPU: write a log beside every result."),
    ] = False,
    uint8: Uint8Option = Uint8.EXACT,
    outputs: Outputs = None,
    bundle: Annotated[
        list[str] | None,
        typer.Option(
            "--bundle",
            metavar="X...",
            help="Also write a bundled program with a test case per image, .npy or raw file;"
            " takes all values up to the next option.",
            show_default=False,
        ),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option("--mean", metavar="M", help="For images: subtract this from pixels."),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option("--std", metavar="S", help="For images: divide pixels by this."),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option("--dump", metavar="DIR", help="Write every intermediate form there."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile a model for the Edge TPU, or to an ExecuTorch program (.pte) for XNNPACK.

    For the Edge TPU, the result is the same model with Edge TPU operators in the place of all that
    the chip can compute; what it cannot compute stays, with the reason. Several models are compiled
    for one chip, which keeps the parameters of all; --num-segments cuts one model for several.

    For XNNPACK, operators that it lacks run on ExecuTorch's portable kernels. When some operator
    can run nowhere, every reason is given, and nothing is written.

    With --format module, all of a model goes into one bytecode module, which fitzroy run executes;
    models that have been compiled for the Edge TPU before are taken, too.
    """
    from fitzroy.cli import compile_edgetpu, compile_module
    from fitzroy.cli.models import check_model

    terminal = Terminal(json=json, quiet=quiet)
    for name in models:
        check_model(name)
    request = Request(
        models,
        output,
        directory,
        format,
        min_runtime_version,
        num_segments,
        partition,
        conservative=conservative,
        confirmed=confirmed,
        estimated=estimate,
        operations=show_operations,
        explained=explained,
        report=report,
        log=log,
        dump=dump,
    )
    if format is Format.MODULE and compile_module.are_compiled(models):
        _refuse("compiled", report=report, log=log, dump=dump, explain=explained,
                show_operations=show_operations, num_segments=num_segments)  # fmt: skip
        compile_module.write_compiled(terminal, request)
        return
    sources = _sources(request, target)
    if sources is not None:
        _refuse("edgetpu", bundle=bundle, outputs=outputs, mean=mean, std=std,
                uint8=uint8 is not Uint8.EXACT)  # fmt: skip
        request.check()
        compile_edgetpu.compile_models(terminal, request, sources)
        return
    usual = Request(models)
    _refuse("xnnpack", out_dir=directory, num_segments=num_segments, explain=explained,
            report=report, log=log, conservative=conservative, confirmed=confirmed,
            show_operations=show_operations,
            min_runtime_version=min_runtime_version != usual.runtime, no_estimate=not estimate,
            partition=partition is not usual.partition,
            format=format in (Format.PACKAGE, Format.OBJECT))  # fmt: skip
    _compile_program(terminal, request, uint8, outputs, _Cases(tuple(bundle or ()), mean, std))


@dataclass(frozen=True, slots=True)
class _Cases:
    """Test cases of a bundle.

    Attributes:
        paths: their files.
        mean: what is subtracted from pixels of images.
        std: what pixels are divided by.
    """

    paths: tuple[str, ...]
    mean: str | None
    std: str | None


def _compile_program(
    terminal: Terminal, request: Request, uint8: Uint8, outputs: Sequence[str] | None, cases: _Cases
) -> None:
    """Compile a model for XNNPACK, write it, and say what it became.

    Raises:
        UsageError: several models, or an output that cannot be written.
    """
    import fitzroy
    from fitzroy.cli import compile_module
    from fitzroy.cli.models import resolve_outputs

    if len(request.models) > 1:
        raise UsageError(
            f"{len(request.models)} models for one program",
            hint="compile them one after the other",
        )
    (model,) = request.models
    program, bundled = _destinations(model, request.output, cases.paths)
    for path in filter(None, (program, bundled)):
        check_output(path, [model, *cases.paths])
    if request.dump is not None:
        check_directory(request.dump)
    with terminal.working("compiling") as progress:
        source: Any = model
        names: list[str] = []
        if outputs:
            source = fitzroy.load(model)
            names = resolve_outputs(source, outputs)
        compilation = fitzroy.compile(
            source,
            target=Target.XNNPACK.value,
            uint8=uint8.value,
            outputs=names,
            dump=request.dump,
            progress=progress,
        )
        if request.format is Format.MODULE:
            compile_module.write_delegated(terminal, request, compilation)
            return
        files: list[tuple[Path, bytes]] = [] if program is None else [(program, compilation.data)]
        if bundled is not None:
            arrays = [_case(compilation, case, cases) for case in cases.paths]
            progress(f"expected outputs of {count(len(cases.paths), 'test case')}")
            files.append((bundled, fitzroy.bundle(compilation, {_METHOD: arrays})))
    write_files(files)
    document = summarize(compilation, model, files)
    if terminal.json:
        terminal.document(document)
        return
    _warn(terminal, compilation)
    if not terminal.quiet:
        _show(terminal, document)


_ENDINGS = {
    ".tflite": Target.EDGETPU,
    ".dwn": Target.EDGETPU,
    ".fzo": Target.EDGETPU,
    ".pte": Target.XNNPACK,
    ".bpte": Target.XNNPACK,
}


def _sources(request: Request, target: Target | None) -> list[Source] | None:
    """The models, if they are for the Edge TPU; None if not.

    They are if that was asked for, if the output's name says so, or if all of them are quantized.
    """
    from fitzroy.compilation.edgetpu import Source

    if target is None and request.output is not None:
        target = _ENDINGS.get(request.output.suffix)
    if target is None and request.format in (Format.PACKAGE, Format.OBJECT):
        target = Target.EDGETPU
    if target is Target.XNNPACK:
        return None
    try:
        sources = [Source.read(path) for path in request.models]
    except UnsupportedError:
        # Only the Edge TPU needs TFLite's own operators.
        if target is Target.EDGETPU:
            raise
        return None
    fits = target is Target.EDGETPU or all(source.quantized for source in sources)
    return sources if fits else None


_OTHERS = {
    "edgetpu": ("ExecuTorch programs", "add --target xnnpack, or name the output .pte"),
    "xnnpack": ("the Edge TPU", "add --target edgetpu, or name the output .tflite"),
    "compiled": ("models that are compiled here", "give the model that it was made of"),
}


def _refuse(target: str, **options: object) -> None:
    """Options that mean nothing for a target.

    Raises:
        UsageError: one is given.
    """
    what, hint = _OTHERS[target]
    for name, value in options.items():
        if value:
            raise UsageError(f"--{name.replace('_', '-')} is for {what}", hint=hint)


def _destinations(model: str, output: Path | None, cases: Sequence[str]) -> tuple[Path | None, ...]:
    """Where program and bundle go; None for what is not written.

    Raises:
        UsageError: a bundle without test cases, or an unusable name.
    """
    program = output if output is not None else Path(Path(model).name).with_suffix(".pte")
    if program.suffix == ".bpte":
        if not cases:
            raise UsageError(
                "a bundled program needs test cases",
                where=os.fspath(program),
                hint="name their files: --bundle one.png two.png",
            )
        return None, program
    return program, program.with_suffix(".bpte") if cases else None


def _case(compilation: Compilation, path: str, cases: _Cases) -> list[Array]:
    """The input of a test case.

    Raises:
        UsageError: the model has several inputs, or the file does not fit.
    """
    from fitzroy.cli.arrays import Normalization, load_array

    inputs = compilation.inputs
    if len(inputs) != 1:
        raise UsageError(
            "--bundle is for models with one input",
            reason=f"this one has {len(inputs)}: {', '.join(name for name, _ in inputs)}",
        )
    return [load_array(path, inputs[0][1], Normalization.parse(cases.mean, cases.std))]


def summarize(
    compilation: Compilation, model: str, files: list[tuple[Path, bytes]]
) -> dict[str, Any]:
    """What a compilation did, for JSON."""
    from fitzroy.cli.describe import program, tensor
    from fitzroy.formats import executorch as et

    contents = program(et.read_program(compilation.data))
    rejects = [
        {"code": r.code, "where": r.where, "what": r.what, "reason": r.reason, "hint": r.hint}
        for placements in compilation.placements.values()
        for placement in placements
        for r in placement.rejects
    ]
    return {
        "model": model,
        "files": [{"path": os.fspath(path), "bytes": len(data)} for path, data in files],
        "inputs": [tensor(name, type) for name, type in compilation.inputs],
        "outputs": [tensor(name, type) for name, type in compilation.outputs],
        **compilation.summary(),
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
        "warnings": rejects,
    }


def _warn(terminal: Terminal, compilation: Compilation) -> None:
    """Say which operators do not run on the first target, and why."""
    for placements in compilation.placements.values():
        rejects = [reject for placement in placements for reject in placement.rejects]
        if not rejects:
            continue
        nodes = len({reject.where for reject in rejects})
        details = [
            f"{reject.where}: {reject.what}" + (f" (hint: {reject.hint})" if reject.hint else "")
            for reject in rejects
        ]
        terminal.warn(f"{count(nodes, 'node')} not on XNNPACK but on portable kernels", details)


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    from fitzroy.cli.inspect import quantization_text, tensor_type

    rows = []
    for side in ("inputs", "outputs"):
        for tensor in document[side]:
            q = quantization_text(tensor)
            text = f"{tensor['name']}: {tensor_type(tensor)}" + (f", {q}" if q else "")
            rows.append((side[:-1], text))
    for name, method in document["methods"].items():
        placed = ", ".join(f"{number} on {where}" for where, number in method["nodes"].items())
        rows += [
            ("operators", f"{method['operators']} in the model, {placed} after the passes"),
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
        "fitzroy compile model.tflite --explain --dump stages/",
        "fitzroy compile model.tflite --target xnnpack",
        "fitzroy compile model.tflite -o out.pte --bundle one.png two.png",
        "fitzroy compile detector.tflite --outputs boxes,scores -o detector.pte",
        "fitzroy compile old_uint8.tflite --uint8 fast --dump stages/",
        "fitzroy compile model.tflite --format module -o model.module",
    ),
)
