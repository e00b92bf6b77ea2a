"""``fitzroy sim``: compiled Edge TPU models on the simulated chip."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.cli import arrays
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import InputFiles, Json, Mean, OutputFile, Quiet, Std, Verb
from fitzroy.cli.run import Port, describe_output, read_inputs, show_outputs
from fitzroy.cli.terminal import Column, Terminal, count

if TYPE_CHECKING:
    from fitzroy.api import EdgeTpuProgram, Simulation

_TOP = 5
_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def sim(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A compiled model (*_edgetpu.tflite), a DarwiNN package or executable.",
            show_default=False,
        ),
    ],
    inputs: InputFiles = None,
    mean: Mean = None,
    std: Std = None,
    output: OutputFile = None,
    raw_output: Annotated[
        Path | None,
        typer.Option(
            "--raw-output",
            metavar="Y.raw",
            help="Write all bytes that leave the device, in order.",
            show_default=False,
        ),
    ] = None,
    package: Annotated[
        int | None,
        typer.Option(
            "--package",
            metavar="N",
            help="The N-th package of a model with several, counted from 0.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Randomize the order of engines and what memories hold at first.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a compiled Edge TPU model on the simulated chip.

    Every instruction is executed, and outputs have the values that the device computes; there is
    no notion of time. Only the Edge TPU operator is simulated: where a model has more operators,
    those that run on the CPU are left out, and inputs and outputs are those of the Edge TPU
    operator.

    Inputs that a model keeps from one inference to the next (the states of an LSTM) are zero.

    A program that is right gives the same outputs with every --seed. A deadlock is reported with
    what each engine waits for (exit code 8).
    """
    from fitzroy.api import EdgeTpuProgram

    terminal = Terminal(json=json, quiet=quiet)
    for target in (output, raw_output):
        if target is not None:
            check_output(target, [file])
    if output is not None and output == raw_output:
        raise UsageError("--output and --raw-output name the same file", where=str(output))
    rule = arrays.Normalization.parse(mean, std)
    program = EdgeTpuProgram.load(file, package)
    if inputs and not program.inputs:
        raise UsageError("the program takes no inputs", where=file, hint="leave out --input")
    ports = [Port(name, type) for name, type in program.inputs.items()]
    values = read_inputs(ports, inputs or [], rule, file)
    with terminal.working("simulating"):
        start = time.perf_counter()
        result = _simulated(program, dict(zip(program.inputs, values, strict=True)), seed)
        elapsed = time.perf_counter() - start
    written = []
    if output is not None:
        for path, content in arrays.output_files(output, [*result.outputs.items()], raw=False):
            write_file(path, content)
            written.append(os.fspath(path))
    if raw_output is not None:
        write_file(raw_output, result.device.stream)
        written.append(os.fspath(raw_output))
    document = _document(program, result, seed, elapsed) | {"written": written}
    if json:
        terminal.document(document)
    else:
        _tell(terminal, document)


def _simulated(
    program: EdgeTpuProgram, inputs: Mapping[str, Array], seed: int | None
) -> Simulation:
    try:
        return program.simulate(inputs, seed=seed)
    except SimulationError as error:
        # Who waits for whom is a list, which reads better with a line for each.
        reason = error.reason.replace("; ", "\n")
        raise SimulationError(
            error.what, reason=reason, where=error.where, hint=error.hint
        ) from error


def fnv1a64(data: bytes) -> str:
    """The 64-bit FNV-1a hash, as published for outputs of real devices; 16 hexadecimal digits."""
    value = _FNV_BASIS
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def _document(
    program: EdgeTpuProgram, result: Simulation, seed: int | None, elapsed: float
) -> dict[str, Any]:
    stream = result.device.stream
    return {
        "file": program.path,
        "package": program.number,
        "packages": program.siblings,
        "other_operators": program.others,
        "seed": seed,
        "ran_on": "the simulated Edge TPU",
        "instructions": result.device.instructions,
        "seconds": elapsed,
        "stream": {"bytes": len(stream), "fnv1a64": fnv1a64(stream)},
        "outputs": [
            describe_output(Port(name, type), result.outputs[name], _TOP, None)
            | _sent(result.device.buffers[name].tobytes())
            for name, type in program.outputs.items()
        ],
    }


def _sent(data: bytes) -> dict[str, Any]:
    """Figures of an output's bytes as the device sends them."""
    return {"device_bytes": len(data), "device_fnv1a64": fnv1a64(data)}


def _tell(terminal: Terminal, document: dict[str, Any]) -> None:
    if document["other_operators"]:
        more = count(document["other_operators"], "more operator")
        terminal.warn(f"only the Edge TPU operator is simulated; the model has {more}")
    show_outputs(terminal, document)
    rows = [
        (item["name"], item["device_bytes"], item["device_fnv1a64"]) for item in document["outputs"]
    ]
    stream = document["stream"]
    if len(rows) > 1:
        rows.append(("all bytes sent", stream["bytes"], stream["fnv1a64"]))
    columns = (
        Column("as the device sends it"),
        Column("bytes", right=True),
        Column("FNV-1a", keep=True),
    )
    terminal.table(columns, [[name, str(size), digest] for name, size, digest in rows])
    terminal.note(f"{document['instructions']:,} instructions of the scalar core")


sim_command = Verb(
    sim,
    (
        "fitzroy sim model_edgetpu.tflite --input photo.png",
        "fitzroy sim model_edgetpu.tflite -i x.npy -o y.npy --raw-output y.raw",
        "fitzroy sim model_edgetpu.tflite -i left=a.npy -i right=b.npy --seed 7 --json",
    ),
)
