"""What packages, executables and objects of the Edge TPU hold, as plain dicts.

Tables say what the file says; programs are also disassembled, and followed: which rows of wide
memory they write, which parameters they load, and whether the host's script is the one that the
program asks for. A program that cannot be followed is described without that, and the ``fault``
says why.

Tiles are given as rows of the grid, from north to south, each from west to east.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.cli.describe_layers import Document, layer
from fitzroy.cli.terminal import error_document
from fitzroy.execution.estimate import estimate
from fitzroy.formats import flexbuffer
from fitzroy.formats.custom_op import EARLY_CACHING_KEY, PACKAGE_KEY, CustomOp
from fitzroy.formats.darwinn import (
    Description,
    DmaDescriptorHint,
    Executable,
    ExecutableType,
    PackageFile,
    token_text,
)
from fitzroy.formats.object_file import (
    UNIT_BYTES,
    Condition,
    ObjectFile,
    OperandKind,
    Part,
    Reserved,
    SymbolKind,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.catalog import CHIPS
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import bundle_count, disassemble
from fitzroy.linker.objects.recover import staging
from fitzroy.linker.objects.symbols import Reference
from fitzroy.linker.resolve.caching import segments_of, streamed_segments
from fitzroy.linker.resolve.fields import address_fields
from fitzroy.linker.resolve.segments import Segment
from fitzroy.linker.schedule import Script, Step, derive, from_hints
from fitzroy.report.summary import brief

T = TypeVar("T")

_TILES = BEAGLE.tiles
_WIDE = BEAGLE.memories.wide.elements

_STEP_BUDGET = 1_000_000
"""Most steps of the scalar core to follow; real programs take fewer than 100,000."""


# --- packages ------------------------------------------------------------------------------------


def custom_op(source: CustomOp) -> Document:
    """The package of an operator of a TFLite model, with the operator's other options.

    Raises:
        FormatError: the package is malformed.
        UnsupportedError: it is for a later runtime, several chips, or another chip.
    """
    held = (PACKAGE_KEY, EARLY_CACHING_KEY)
    options = {key: value for key, value in source.options.items() if key not in held}
    return {
        "bytes": len(source.package),
        "offset": source.offset,
        "options": {key: _option(value) for key, value in options.items()},
        **package(source.read()),
    }


def _option(value: flexbuffer.Value) -> object:
    """A flexbuffer value; what is no text by its length in bytes."""
    if isinstance(value, dict):
        return {key: _option(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_option(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes | flexbuffer.Bytes):
        data = bytes(value.data) if isinstance(value, flexbuffer.Bytes) else value
        text = data.decode("utf-8", "replace")
        return text if text.isprintable() else {"bytes": len(data)}
    return value


def package(file: PackageFile) -> Document:
    """A package.

    Raises:
        FormatError: instructions or hints are malformed.
        UnsupportedError: it is for another chip.
    """
    root = file.package
    return {
        "min_runtime_version": root.min_runtime_version,
        "compiler_version": root.compiler_version or "",
        "model_identifier": root.model_identifier or "",
        "virtual_chip_id": root.virtual_chip_id,
        "keypair_version": root.keypair_version,
        "signature_bytes": _length(root.signature),
        "diagnostics": [_diagnostic(item) for item in file.diagnostics],
        **executables(file),
    }


def executables(file: PackageFile) -> Document:
    """The executables of a package, and the memory that they need together."""
    programs = [_Program(executable, file.path) for executable in file.executables]
    main = next(program for program in programs if program.executable is file.main)
    memory = _package_memory(main, programs)
    estimated, error = _followed(lambda: brief(estimate(file, main.executable.name or "")))
    return {
        "parameter_caching_token": _token(main.executable),
        "memory": memory,
        "estimate": estimated,
        "estimate_error": error,
        "executables": [
            _executable(program, estimated if program is main else None) for program in programs
        ],
    }


def _diagnostic(item: Diagnostic) -> Document:
    return {name: str(value) for name, value in _fields(item).items()}


def _fields(item: Any) -> Document:
    """Fields of a dataclass; what is inside them stays as it is."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def _length(values: Array | None) -> int:
    return 0 if values is None else len(values)


def _token(executable: Executable) -> str | None:
    return token_text(executable.parameter_caching_token)


# --- programs ------------------------------------------------------------------------------------


def _followed(work: Callable[[], T]) -> tuple[T | None, Document | None]:
    """A result, or what is wrong: well-formed instructions need not make a sensible program."""
    try:
        return work(), None
    except FitzroyError as error:
        return None, error_document(error)


class _Program:
    """An executable and what following its instructions shows, each found once."""

    def __init__(self, executable: Executable, path: str) -> None:
        if executable.chip and executable.chip not in CHIPS:
            raise UnsupportedError(
                f"an executable for the chip {executable.chip[:40]!r}",
                where=path,
                hint=f"known are {', '.join(CHIPS)}",
            )
        self.executable = executable
        self.path = path

    @property
    def caches(self) -> bool:
        """Whether it loads parameters that stay."""
        return self.executable.kind is ExecutableType.PARAMETER_CACHING

    @cached_property
    def chunks(self) -> list[list[Instruction]]:
        kind = self.executable.kind.name
        return [
            _disassembled(stream.bitstream, self.path, f"{kind}, chunk {number}")
            for number, stream in enumerate(self.executable.instruction_bitstreams or ())
        ]

    @cached_property
    def instructions(self) -> list[Instruction]:
        return [instruction for chunk in self.chunks for instruction in chunk]

    @cached_property
    def segments(self) -> tuple[list[Segment] | None, Document | None]:
        """Where it loads parameters to that stay."""
        return _followed(lambda: segments_of(self.instructions))

    @cached_property
    def script(self) -> tuple[Script | None, Document | None]:
        """What it asks of the host."""
        return _followed(
            lambda: derive(self.chunks, address_fields(self.executable), budget=_STEP_BUDGET)
        )


def _disassembled(code: Array | None, path: str, where: str) -> list[Instruction]:
    try:
        return disassemble(b"" if code is None else code.tobytes())
    except FormatError as error:
        # Offsets in the code are none in the file; the table has the number of the bundle.
        table = f"{where}, {error.table}" if error.table else where
        raise FormatError(error.what, path=path, table=table, hint=error.hint) from None


def _executable(program: _Program, estimated: Document | None) -> Document:
    source = program.executable
    return {
        "type": source.kind.name,
        "name": source.name or "",
        "chip": source.chip or "",
        "version": source.version,
        "batch_size": source.batch_size,
        "parameter_caching_token": _token(source),
        "parameter_bytes": _length(source.parameters),
        "scratch_bytes": source.scratch_size_bytes,
        "narrow_bytes": source.used_narrow_memory_bytes_per_tile,
        "dram_parameters": source.use_tpu_dram_for_parameters,
        "estimated_cycles": None if estimated is None else estimated["cycles"],
        "stored_cycles": source.estimated_cycles_64bit or source.estimated_cycles or None,
        "chunks": _chunks(program),
        "instructions": _statistics(program.instructions),
        "inputs": [layer(item, program.path) for item in source.input_layers or ()],
        "outputs": [layer(item, program.path) for item in source.output_layers or ()],
        "script": _script(program),
        "addresses": _addresses(source),
        "loads": _loads(program) if program.caches else None,
        "streams": None if program.caches else _streams(program),
    }


def _chunks(program: _Program) -> list[Document]:
    return [
        {
            "bytes": _length(stream.bitstream),
            "bundles": bundle_count(instructions),
            "instructions": len(instructions),
            "addresses": len(stream.field_offsets or ()),
        }
        for stream, instructions in zip(
            program.executable.instruction_bitstreams or (), program.chunks, strict=True
        )
    ]


def _statistics(instructions: Sequence[Instruction]) -> Document:
    """Counts per opcode, those with the most bundles first."""
    counts: dict[str, list[int]] = {}
    for instruction in instructions:
        entry = counts.setdefault(instruction.op.name, [0, 0])
        entry[0] += 1
        entry[1] += instruction.bundles()
    total = sum(bundles for _, bundles in counts.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1][1], item[0]))
    return {
        "count": len(instructions),
        "bundles": total,
        "opcodes": {
            name: {"count": count, "bundles": bundles, "share": round(bundles / total, 6)}
            for name, (count, bundles) in ranked
        },
    }


def _addresses(source: Executable) -> list[Document]:
    """Fields that the driver fills with halves of addresses."""
    return [
        {
            "chunk": field.chunk,
            "bit": field.bit,
            "bundle": field.bit // BUNDLE_BITS,
            "buffer": SymbolKind(field.buffer.desc).name.lower(),
            "name": field.buffer.name,
            "batch": field.buffer.batch,
            "half": field.position.name.partition("_")[0].lower(),
        }
        for field in address_fields(source)
    ]


# --- the host's script ---------------------------------------------------------------------------


def _script(program: _Program) -> Document:
    """The stored script, and whether executing the program gives the same."""
    hints = program.executable.dma_hints
    try:
        stored = None if hints is None else from_hints(hints)
    except FormatError as error:
        raise FormatError(error.what, path=program.path, table=error.table) from None
    derived, fault = program.script
    equal = None if stored is None or derived is None else stored == derived
    return {
        "deterministic": None if stored is None else stored.deterministic,
        "steps": None if stored is None else _steps(stored),
        "derived": {
            "equal": equal,
            "deterministic": None if derived is None else derived.deterministic,
            "steps": None if derived is None or equal else _steps(derived),
            "fault": fault,
        },
    }


def _steps(script: Script) -> list[Document]:
    return [_step(step) for step in script.steps]


def _step(step: Step) -> Document:
    name = re.sub(r"(?<=.)(?=[A-Z])", "_", type(step).__name__).lower()
    return {"step": name, **_fields(step)}


# --- memory --------------------------------------------------------------------------------------


def _grid(values: Sequence[int]) -> list[list[int]]:
    """Values of tiles as rows of the grid."""
    return [
        list(values[first : first + _TILES.columns])
        for first in range(0, _TILES.count, _TILES.columns)
    ]


def _package_memory(main: _Program, programs: Sequence[_Program]) -> Document:
    caching = next((program for program in programs if program.caches), None)
    reserved = [
        item for program in programs if not program.caches for item in staging(program.instructions)
    ]
    narrow = max(program.executable.used_narrow_memory_bytes_per_tile for program in programs)
    streamed = 0 if main.caches else _length(main.executable.parameters)
    if caching is None:
        # What such a program computes with is loaded by another executable, which is not here.
        unknown = main.executable.kind is ExecutableType.EXECUTION_ONLY
        return _memory(narrow, reserved, None if unknown else [], 0, streamed)
    cached = _length(caching.executable.parameters)
    return _memory(narrow, reserved, caching.segments[0], cached, streamed)


def _memory(
    narrow: int,
    reserved: Iterable[Reserved],
    segments: Sequence[Segment] | None,
    cached: int,
    streamed: int,
) -> Document:
    """Use of the memories.

    Args:
        narrow: bytes of narrow memory per tile.
        reserved: rows of wide memory that the program writes.
        segments: parameters that stay in wide memory; None if these are not known.
        cached: their bytes in the blob.
        streamed: bytes of parameters sent with every inference.
    """
    rows: list[int] | None = None
    sizes: list[int] | None = None
    if segments is not None:
        rows, sizes = [0] * _TILES.count, [0] * _TILES.count
        for segment in segments:
            rows[segment.tile] += segment.words
            sizes[segment.tile] += segment.units * UNIT_BYTES
    return {
        "narrow": {"bytes": narrow, "of": BEAGLE.memories.narrow.size},
        "wide": {
            "rows": _WIDE,
            "parameters": None if rows is None else _grid(rows),
            "staging": _grid(_reserved_rows(reserved)),
        },
        "parameters": {
            "cached_bytes": None if segments is None else cached,
            "streamed_bytes": streamed,
            "tile_bytes": None if sizes is None else _grid(sizes),
        },
    }


def _reserved_rows(reserved: Iterable[Reserved]) -> list[int]:
    """Number of rows of each tile that are in any of the ranges."""
    used = np.zeros((_TILES.count, _WIDE), np.bool_)
    for item in reserved:
        tiles = [tile for tile in range(_TILES.count) if item.tiles >> tile & 1]
        used[tiles, item.row : item.row + item.rows] = True
    return [int(count) for count in used.sum(axis=1)]


def _loads(program: _Program) -> Document:
    """Parameters that a program loads into wide memory, by operand."""
    segments, fault = program.segments
    operands: dict[int, list[Segment]] = {}
    for segment in segments or ():
        operands.setdefault(segment.operand, []).append(segment)
    return {
        "operands": [
            {
                "bytes": sum(segment.units for segment in parts) * UNIT_BYTES,
                "rows": sum(segment.words for segment in parts),
                "lanes": parts[0].lanes,
                "prefix_words": parts[0].prefix_words,
                "segments": [
                    {
                        "tile": segment.tile,
                        "row": segment.row,
                        "rows": segment.words,
                        "offset": segment.position * UNIT_BYTES,
                        "bytes": segment.units * UNIT_BYTES,
                    }
                    for segment in parts
                ],
            }
            for parts in operands.values()
        ],
        "fault": fault,
    }


def _streams(program: _Program) -> Document:
    """Parameters that a program sends to tiles while it computes, by infeed."""
    hints = program.executable.dma_hints
    transfers = [
        (step.offset_in_bytes, step.size_in_bytes)
        for hint in (() if hints is None else hints.hints or ())
        if isinstance(step := hint.any_hint, DmaDescriptorHint)
        and step.meta is not None
        and step.meta.desc == Description.BASE_ADDRESS_PARAMETER
    ]
    found, fault = _followed(lambda: streamed_segments(program.instructions, transfers))
    return {
        "infeeds": [
            {
                "tiles": [tile for tile in range(_TILES.count) if segment.tiles >> tile & 1],
                "lanes": segment.lanes,
                "bytes": segment.units * UNIT_BYTES,
                "runs": [
                    {"offset": first * UNIT_BYTES, "bytes": units * UNIT_BYTES}
                    for first, units in segment.runs
                ],
                "certain": segment.certain,
            }
            for segment in found or ()
        ],
        "fault": fault,
    }


# --- objects -------------------------------------------------------------------------------------


def object_file(file: ObjectFile, path: str = "") -> Document:
    """An object.

    Raises:
        FormatError: instructions or layers are malformed.
        UnsupportedError: it is for another chip.
    """
    if file.chip and file.chip not in CHIPS:
        raise UnsupportedError(f"an object for the chip {file.chip[:40]!r}", where=path)
    sections = [
        _disassembled(text.code, path, f"section {number}")
        for number, text in enumerate(file.text or ())
    ]
    operands = file.operands or []
    names = [operand.name or "" for operand in operands]
    segments = [
        Segment(number, run.tile, run.row, run.words, operand.lanes, 0, run.units)
        for number, operand in enumerate(operands)
        for run in operand.runs or ()
    ]
    resources = file.resources
    cached = sum(segment.units for segment in segments) * UNIT_BYTES
    total = sum(_length(operand.data) for operand in operands)
    narrow = 0 if resources is None else resources.narrow_bytes
    reserved = () if resources is None else resources.staging or ()
    return {
        "version": file.version,
        "name": file.name or "",
        "chip": file.chip or "",
        "producer": file.producer or "",
        "batch_size": 1 if resources is None else resources.batch_size,
        "scratch_bytes": 0 if resources is None else resources.scratch_bytes,
        "stored_cycles": None if resources is None else resources.estimated_cycles or None,
        "memory": _memory(narrow, reserved, segments, cached, total - cached),
        "sections": [
            {
                "bytes": _length(text.code),
                "bundles": bundle_count(instructions),
                "instructions": len(instructions),
                "condition": Condition(text.condition).name.lower(),
                "operand": names[text.operand] if text.condition else None,
                "ends_chunk": text.ends_chunk,
                "fixups": len(text.fixups or ()),
            }
            for text, instructions in zip(file.text or (), sections, strict=True)
        ],
        "instructions": _statistics([item for section in sections for item in section]),
        "operands": [
            {
                "name": operand.name or "",
                "kind": OperandKind(operand.kind).name.lower(),
                "bytes": _length(operand.data),
                "rows": sum(run.words for run in operand.runs or ()),
                "lanes": operand.lanes,
                "prefix_words": operand.prefix,
                "runs": [
                    {
                        "tile": run.tile,
                        "row": run.row,
                        "rows": run.words,
                        "bytes": run.units * UNIT_BYTES,
                        "group": run.group,
                    }
                    for run in operand.runs or ()
                ],
            }
            for operand in operands
        ],
        "symbols": [
            {
                "kind": SymbolKind(symbol.kind).name.lower(),
                "name": symbol.name or "",
                "batch": symbol.batch,
            }
            for symbol in file.symbols or ()
        ],
        "fixups": _object_fixups(file),
        "inputs": [layer(item, path) for item in file.inputs or ()],
        "outputs": [layer(item, path) for item in file.outputs or ()],
    }


def _object_fixups(file: ObjectFile) -> list[Document]:
    symbols = file.symbols or []
    found = []
    for number, text in enumerate(file.text or ()):
        for fixup in text.fixups or ():
            symbol = symbols[fixup.symbol]
            reference = Reference(
                Part(fixup.part),
                SymbolKind(symbol.kind),
                symbol.name or "",
                symbol.batch,
                fixup.addend,
            )
            found.append(
                {
                    "section": number,
                    "bit": fixup.bit,
                    "width": fixup.width,
                    "value": reference.text(),
                }
            )
    return found
