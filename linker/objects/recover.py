"""Objects from compiled packages: the way back from addresses to symbols.

A compiled program refers to its parameters by rows of wide memory. Its PARAMETER_CACHING
executable says which rows of which tiles hold parameters; an instruction of the main program that
names one of them gets a fixup. So packages of any compiler can be linked again: with others on one
chip, or with other parameters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import FIELD_BITS, Executable, ExecutableType, PackageFile
from fitzroy.formats.object_file import (
    UNIT_BYTES,
    Fixup,
    ObjectFile,
    Operand,
    OperandKind,
    Part,
    Reserved,
    Resources,
    Run,
    SymbolKind,
    Text,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction, TileInstruction
from fitzroy.hw_models.isa.program import assemble, positions
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.text import Chunk, field_place
from fitzroy.linker.objects.assembly import executable_chunks
from fitzroy.linker.objects.symbols import Reference, SymbolTable, parse_reference
from fitzroy.linker.resolve.caching import segments_of
from fitzroy.linker.resolve.segments import Segment

STREAMED = "streamed"
"""Name of the operand with everything that a compiled program streams."""


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of an instruction that names a row of wide memory.

    Attributes:
        name: where it is, as `field_place` takes it.
        row: the row.
        rest: quarters of a row beyond it, None if the field counts whole rows.
    """

    name: str
    row: int
    rest: int | None = None


def row_fields(instruction: Instruction) -> Iterator[RowField]:
    """Fields of an instruction that name the first of the rows it uses."""
    match instruction:
        case RingProduce() | RingConsume() | WideToNarrow() | NarrowToWide():
            yield RowField("wide.base", instruction.wide.base)
        case TensorOp():
            if instruction.c is not None:
                yield RowField("c.base", instruction.c.base >> 2, instruction.c.base & 3)
            if instruction.zero_points_in_memory:
                yield RowField("zero_point_base", instruction.zero_point_base)
                yield RowField("zero_point_last", instruction.zero_point_last)
        case _:
            pass


def staging(program: Iterable[Instruction]) -> list[Reserved]:
    """Rows of wide memory that a program writes, merged per set of tiles."""
    rows: dict[int, set[int]] = {}
    for instruction in program:
        extents = []
        match instruction:
            case RingConsume():
                extents.append(instruction.wide.extent)
                if instruction.prefix is not None:
                    extents.append((instruction.prefix.base, instruction.prefix.end))
            case NarrowToWide():
                extents.append(instruction.wide.extent)
            case TensorOp(accumulate=False) if instruction.d is not None:
                low, high = instruction.d.extent
                extents.append((low >> 2, high >> 2))
            case _:
                continue
        most = BEAGLE.memories.wide.elements
        for low, high in extents:
            rows.setdefault(_tiles(instruction), set()).update(
                range(max(low, 0), min(high, most - 1) + 1)
            )
    return [
        Reserved(tiles=tiles, row=first, rows=count)
        for tiles, numbers in sorted(rows.items())
        for first, count in _intervals(sorted(numbers))
    ]


def _intervals(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First member and length of each run of consecutive numbers."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[begin], index - begin
            begin = index


def recover(file: PackageFile, name: str = "") -> ObjectFile:
    """The object of a compiled package.

    Args:
        file: the package.
        name: name of the model.

    Returns:
        An object that links to the same executables again, for the same runtime and token.

    Raises:
        UnsupportedError: no single main program, or parameters that cannot be followed.
        FormatError: a bitstream that is not instructions.
    """
    main, caching = _pair(file)
    chunks = executable_chunks(main, file.path)
    program = [instruction for chunk in chunks for instruction in chunk.instructions]
    result = ObjectFile(
        name=name or main.name,
        chip=main.chip,
        producer=file.package.compiler_version,
        inputs=list(main.input_layers or ()),
        outputs=list(main.output_layers or ()),
        operands=[],
        resources=Resources(
            narrow_bytes=main.used_narrow_memory_bytes_per_tile,
            staging=staging(program),
            scratch_bytes=main.scratch_size_bytes,
            batch_size=main.batch_size,
            estimated_cycles=main.estimated_cycles_64bit or main.estimated_cycles,
        ),
    )
    operands = result.operands = []
    rows = _Rows()
    if caching is not None:
        loads = [i for c in executable_chunks(caching, file.path) for i in c.instructions]
        segments = sorted(segments_of(loads), key=lambda segment: segment.position)
        blob = np.zeros(0, np.uint8) if caching.parameters is None else caching.parameters
        operands += _operands(segments, blob)
        rows = _Rows(operands)
    if main.parameters is not None and len(main.parameters):
        operands.append(_streamed(main.parameters))
    symbols = SymbolTable()
    rows.join(program)
    result.text = [_text(chunk, rows, symbols, last=chunk is chunks[-1]) for chunk in chunks]
    result.symbols = symbols.symbols
    return result


def _pair(file: PackageFile) -> tuple[Executable, Executable | None]:
    """The main executable, and the one that loads its parameters.

    Raises:
        UnsupportedError: one of the two is needed and not there.
    """
    main = file.main
    if main.type == ExecutableType.PARAMETER_CACHING:
        raise UnsupportedError(
            "the package only loads parameters", where=file.path, hint="give the whole package"
        )
    if main.type == ExecutableType.STAND_ALONE:
        return main, None
    if file.caching is None:
        raise UnsupportedError(
            "the program relies on parameters that another executable loads, which is not here",
            where=file.path,
            hint="give the package that has both",
        )
    return main, file.caching


def _operands(segments: Sequence[Segment], blob: Array) -> list[Operand]:
    """Operands of the segments of a parameter blob."""
    parts: dict[int, list[Segment]] = {}
    for segment in segments:
        parts.setdefault(segment.operand, []).append(segment)
    group = count()
    return [
        Operand(
            name=f"operand{number}",
            kind=_kind(part),
            lanes=part[0].lanes,
            prefix=part[0].prefix_words,
            data=blob[
                part[0].position * UNIT_BYTES : (part[-1].position + part[-1].units) * UNIT_BYTES
            ],
            runs=[
                Run(
                    tile=segment.tile,
                    row=segment.row,
                    words=segment.words,
                    units=segment.units,
                    group=next(group),
                )
                for segment in part
            ],
        )
        for number, part in enumerate(parts.values())
    ]


def _kind(segments: Sequence[Segment]) -> OperandKind:
    """Blocks of fully connected layers have prefixes of their own, or load several tiles."""
    if segments[0].prefix_words or len({segment.tile for segment in segments}) > 1:
        return OperandKind.FULLY_CONNECTED
    return OperandKind.CONVOLUTION


def _streamed(blob: Array) -> Operand:
    return Operand(name=STREAMED, kind=OperandKind.CONVOLUTION, data=blob)


class _Rows:
    """Which run of which operand lies at a row of a tile."""

    def __init__(self, operands: Sequence[Operand] = ()) -> None:
        tiles: dict[int, list[tuple[int, Operand, Run]]] = {}
        for operand in operands:
            for run in operand.runs or ():
                tiles.setdefault(run.tile, []).append((run.row, operand, run))
        self._tiles = {tile: sorted(runs, key=itemgetter(0)) for tile, runs in tiles.items()}
        self._starts = {tile: [row for row, _, _ in runs] for tile, runs in self._tiles.items()}
        self._runs = [run for operand in operands for run in operand.runs or ()]

    def find(self, tiles: int, row: int) -> list[tuple[Operand, Run]]:
        """Runs that hold a row on any of the tiles."""
        found = []
        for tile, runs in self._tiles.items():
            if tiles >> tile & 1:
                index = bisect_right(self._starts[tile], row) - 1
                if index >= 0 and row < runs[index][0] + runs[index][2].words:
                    found.append(runs[index][1:])
        return found

    def join(self, program: Iterable[Instruction]) -> None:
        """Put runs that one instruction refers to into one group."""
        for instruction in program:
            if isinstance(instruction, TileInstruction):
                for item in row_fields(instruction):
                    found = self.find(_tiles(instruction), item.row)
                    groups = {run.group for _, run in found}
                    if len(groups) > 1:
                        one = min(groups)
                        for run in self._runs:
                            if run.group in groups:
                                run.group = one


def _tiles(instruction: TileInstruction) -> int:
    return 0xFFFF if instruction.tiles_from_register else instruction.tiles


def _text(chunk: Chunk, rows: _Rows, symbols: SymbolTable, *, last: bool) -> Text:
    """A section with the body of a chunk."""
    body = chunk.instructions[1:-1]
    fixups = [
        (bit - BUNDLE_BITS, FIELD_BITS, parse_reference(expression))
        for bit, expression in chunk.symbols.items()
    ]
    for bundle, instruction in positions(body):
        if not isinstance(instruction, TileInstruction):
            continue
        for item in row_fields(instruction):
            found = rows.find(_tiles(instruction), item.row)
            if not found:
                continue
            operand, run = found[0]
            first = next(other for other in operand.runs or () if other.group == run.group)
            distance = item.row - first.row
            part, addend = Part.ROW, distance
            if item.rest is not None:
                part, addend = Part.QUARTER_ROW, 4 * distance + item.rest
            reference = Reference(part, SymbolKind.OPERAND, operand.name or "", run.group, addend)
            bit, width = field_place(type(instruction), item.name)
            fixups.append((bundle * BUNDLE_BITS + bit, width, reference))
    code = np.frombuffer(assemble(body), np.uint8)
    return Text(
        code=code,
        fixups=[
            Fixup(
                bit=bit,
                width=width,
                symbol=symbols.number(reference),
                part=int(reference.part),
                addend=reference.addend,
            )
            for bit, width, reference in sorted(fixups, key=itemgetter(0))
        ],
        ends_chunk=not last,
    )
