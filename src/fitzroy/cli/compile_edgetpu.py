"""What ``fitzroy compile`` does for the Edge TPU, and what it says of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitzroy.base.errors import UsageError
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.terminal import Column, Terminal, count, seconds, size

if TYPE_CHECKING:
    from fitzroy.edgetpu import EdgeTpuCompilation, MappedSegment


class Format(StrEnum):
    """What to write for the Edge TPU."""

    TFLITE = "tflite"
    PACKAGE = "package"
    OBJECT = "object"


SUFFIXES = {Format.TFLITE: "_edgetpu.tflite", Format.PACKAGE: ".dwn", Format.OBJECT: ".fzo"}
"""What is added to the name of a model."""

_STATUS = "Mapped to Edge TPU"


def destination(model: str, output: Path | None, format: Format) -> Path:
    """Where the result goes."""
    return output if output is not None else Path(Path(model).stem + SUFFIXES[format])


def compile_model(
    terminal: Terminal,
    model: str,
    output: Path | None,
    format: Format,
    *,
    min_runtime_version: int,
    show_operations: bool,
    quiet: bool,
) -> None:
    """Compile, write, and print a summary or its document.

    Raises:
        UsageError: an output that cannot be written, a runtime version that does not exist, or
            several parts where one file is wanted.
    """
    from fitzroy.edgetpu import compile_edgetpu
    from fitzroy.linker.packages.darwinn import LinkOptions
    from fitzroy.linker.resolve.caching import Generation

    target = destination(model, output, format)
    check_output(target, [model])
    versions = [int(item) for item in Generation]
    if min_runtime_version not in versions:
        raise UsageError(
            f"there is no form of programs for runtime {min_runtime_version}",
            reason=f"there are {', '.join(map(str, versions))}",
        )
    options = LinkOptions(generation=Generation(min_runtime_version))
    with terminal.working("compiling") as progress:
        result = compile_edgetpu(model, options=options, progress=progress)
    data = _content(result, format)
    write_file(target, data)
    document = _document(result, model, target, len(data))
    if terminal.json:
        terminal.document(document)
    elif not quiet:
        _show(terminal, document, show_operations=show_operations)


def _content(result: EdgeTpuCompilation, format: Format) -> bytes:
    from fitzroy.formats.darwinn import write_package
    from fitzroy.formats.object_file import write_object

    if format is Format.TFLITE:
        return result.data
    if len(result.segments) > 1:
        raise UsageError(
            f"the model has {len(result.segments)} parts on the Edge TPU",
            reason=f"a {format.value} holds one",
            hint="write a model: --format tflite",
        )
    (part,) = result.segments
    return write_package(part.package) if format is Format.PACKAGE else write_object(part.object)


def _cached(part: MappedSegment) -> int:
    caching = part.package.caching
    return 0 if caching is None or caching.parameters is None else len(caching.parameters)


def _streamed(part: MappedSegment) -> int:
    held = part.package.main.parameters
    return 0 if held is None else len(held)


def _instructions(part: MappedSegment) -> int:
    return sum(
        0 if stream.bitstream is None else len(stream.bitstream)
        for stream in part.package.main.instruction_bitstreams or ()
    )


def _document(result: EdgeTpuCompilation, model: str, target: Path, written: int) -> dict[str, Any]:
    from fitzroy.edgetpu import unmapped
    from fitzroy.hw_models.chips.beagle import BEAGLE

    chip = BEAGLE.memories.wide.size * BEAGLE.tiles.count
    cached = sum(map(_cached, result.segments))
    return {
        "model": model,
        "model_bytes": os.path.getsize(model),
        "files": [{"path": os.fspath(target), "bytes": written}],
        "target": "edgetpu",
        "operators": len(result.graph.nodes()),
        "mapped": len(result.mapped),
        "subgraphs": [
            {
                "operators": len(part.segment.nodes),
                "instruction_bytes": _instructions(part),
                "chunks": len(part.package.main.instruction_bitstreams or ()),
                "cached_bytes": _cached(part),
                "streamed_bytes": _streamed(part),
                "narrow_bytes": part.package.main.used_narrow_memory_bytes_per_tile,
            }
            for part in result.segments
        ],
        "cached_bytes": cached,
        "remaining_bytes": chip - cached,
        "streamed_bytes": sum(map(_streamed, result.segments)),
        "operations": _operations(result, unmapped(result.placements)),
        "seconds": result.seconds,
    }


def _operations(result: EdgeTpuCompilation, host: Sequence[Any]) -> list[dict[str, Any]]:
    """One line per kind of operator and where it runs."""
    from fitzroy.compiler.partition import title

    mapped = Counter(node.op for node in result.mapped)
    left: dict[tuple[str, str], int] = Counter()
    reasons = {reject.where: reject.what for reject in result.reasons}
    for node in host:
        left[node.op, reasons.get(title(node), "")] += 1
    return [
        {"operator": op.upper(), "count": number, "status": _STATUS}
        for op, number in mapped.items()
    ] + [
        {"operator": op.upper(), "count": number, "status": reason}
        for (op, reason), number in left.items()
    ]


def _show(terminal: Terminal, document: dict[str, Any], *, show_operations: bool) -> None:
    terminal.line(f"Model compiled successfully in {seconds(document['seconds'])}.")
    terminal.line()
    (file,) = document["files"]
    terminal.fields(
        [
            ("Input model", document["model"]),
            ("Input size", size(document["model_bytes"])),
            ("Output model", file["path"]),
            ("Output size", size(file["bytes"])),
            ("On-chip memory used for caching model parameters", size(document["cached_bytes"])),
            (
                "On-chip memory remaining for caching model parameters",
                size(document["remaining_bytes"]),
            ),
            (
                "Off-chip memory used for streaming uncached model parameters",
                size(document["streamed_bytes"]),
            ),
            ("Number of Edge TPU subgraphs", str(len(document["subgraphs"]))),
            ("Total number of operations", str(document["operators"])),
            ("Operations on the Edge TPU", str(document["mapped"])),
        ]
    )
    left = document["operators"] - document["mapped"]
    if left:
        terminal.warn(f"{count(left, 'operation')} will run on the CPU")
    if show_operations or left:
        terminal.line()
        terminal.table(
            (Column("Operator"), Column("Count", right=True), Column("Status")),
            [
                [item["operator"], str(item["count"]), item["status"]]
                for item in document["operations"]
            ],
        )
