"""Copies: elements of one or more images at other places of a result.

The identity matrix moves whole words; shifted ones move channels by less than a word, two words
to a result; and those with zeros keep what a word had before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.kernels.tensor import PLAIN, QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Windows, word_cycles
from fitzroy.compiler.targets.edgetpu.layers.matrices import (
    kept,
    matrices,
    narrow_bytes,
    shifted,
)
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import IDENTITY, Row
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    WORD,
    Image,
    Interval,
    Placed,
    Window,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.tensor import TensorOp

# --- parts of images -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Positions along an axis of a result, and where their elements come from.

    Attributes:
        count: how many.
        target: first position in the result.
        step: distance of positions in the result, positive.
        source: first position in the operand.
        stride: distance of positions in the operand, of any sign.
    """

    count: int
    target: int = 0
    step: int = 1
    source: int = 0
    stride: int = 1

    def inside(self, interval: Interval) -> Interval:
        """Numbers of the positions in an interval of the result."""
        begin, end = (-(-(bound - self.target) // self.step) for bound in interval)
        begin, end = max(begin, 0), min(end, self.count)
        return (begin, end) if begin < end else (0, 0)


@dataclass(frozen=True, slots=True)
class Runs(Window):
    """What a run reads.

    Attributes:
        run: the run.
    """

    run: Run = field(default=Run(0))

    def needs(self, interval: Interval) -> Interval:
        """Elements of the operand that lie in an interval of the result."""
        begin, end = self.run.inside(interval)
        if begin == end:
            return (0, 0)
        ends = [self.run.source + self.run.stride * index for index in (begin, end - 1)]
        return min(ends), max(ends) + 1


def runs(sources: Sequence[int]) -> list[Run]:
    """Runs that give every position of a result the element at a position of an operand.

    Args:
        sources: positions in the operand, one per position of the result.
    """
    best: list[Run] = []
    for step in range(1, min(len(sources), _MOST_STEP) + 1):
        found: list[Run] = []
        for phase in range(step):
            found += _linear(sources[phase::step], phase, step)
        if not best or len(found) < len(best):
            best = found
    return best


_MOST_STEP = 16


def _linear(sources: Sequence[int], target: int, step: int) -> list[Run]:
    found: list[Run] = []
    for index, source in enumerate(sources):
        if found:
            last = found[-1]
            if last.count == 1:
                found[-1] = Run(2, last.target, step, last.source, source - last.source)
                continue
            if source == last.source + last.stride * last.count:
                found[-1] = Run(last.count + 1, last.target, step, last.source, last.stride)
                continue
        found.append(Run(1, target + step * index, step, source, 1))
    return found


@dataclass(frozen=True, slots=True)
class Section:
    """A box of a result that comes from a box of an operand.

    Attributes:
        rows: along rows.
        columns: along columns.
        channels: how many channels.
        target: first channel in the result.
        source: first channel in the operand.
        stage: constants of the output stage; `PLAIN` unless both channels are multiples of 4.
    """

    rows: Run
    columns: Run
    channels: int
    target: int = 0
    source: int = 0
    stage: OutputStage = PLAIN


@dataclass(frozen=True, slots=True)
class _Part:
    """Words of a section that are copied with the same matrices.

    Attributes:
        target: first word in a pixel of the result.
        source: first word in a pixel of the operand.
        words: how many.
        rows: matrices, one per step.
        joins: how many bytes of the word belong to the channels before; 0 for a word of its own.
    """

    target: int
    source: int
    words: int
    rows: tuple[Row, ...]
    joins: int = 0


def _parts(section: Section) -> list[_Part]:
    """A section in words: the one that it shares, those in the middle, and the last."""
    found = []
    taken = section.target % WORD
    head = min(-section.target % WORD, section.channels)
    if taken:
        by = section.source % WORD - taken
        rows = [shifted(by, taken)]
        if section.source % WORD + head > WORD:
            rows.append(shifted(by - WORD, taken))
        found.append(_Part(section.target // WORD, section.source // WORD, 1, tuple(rows), taken))
    left = section.channels - head
    if not left:
        return found
    words = -(-left // WORD)
    target = -(-section.target // WORD)
    first, by = divmod(section.source + head, WORD)
    if not by:
        return [*found, _Part(target, first, words, _SAME)]
    # The last word may need nothing of a second one, which may not exist.
    single = int(left - WORD * (words - 1) <= WORD - by)
    if words > single:
        found.append(_Part(target, first, words - single, (shifted(by), shifted(by - WORD))))
    if single:
        found.append(_Part(target + words - 1, first + words - 1, 1, (shifted(by),)))
    return found


_SAME = (IDENTITY,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Assembly(Layer):
    """An image of parts of other images, and of a constant elsewhere.

    Attributes:
        sections: what comes from each operand; those of one pixel in the order of their channels.
        fill: stored value, unsigned, of pixels around the only section; None if there are none.
    """

    sections: tuple[Section, ...]
    fill: int | None = None

    strips = True
    reading = True
    by_name = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: a step for each word of an operand that gives bytes to a word.

        Bytes that join a word are copied to another one first, and are joined in two steps.
        """
        # A constant is put in a phase of its own if the section joins its words.
        filled = self.fill is not None and -(-self.sections[0].channels // WORD) != groups
        words, steps, phases, joins = 0, 0, int(filled), False
        for section in self.sections:
            for part in _parts(section):
                copied, joins = (
                    section.rows.count * section.columns.count * part.words,
                    part.joins > 0,
                )
                words += 0 if joins else copied
                steps += copied * (len(part.rows) + (2 if joins else 0))
                phases += 2 if joins else 0
        # The last phase ends with the layer.
        phases -= joins
        return word_cycles(area, groups, steps / max(words, 1)) + phases * BEAGLE.timing.phase

    def windows(self, index: int) -> Windows:
        """The runs of a section along rows and columns."""
        section = self.sections[index]
        return Runs(run=section.rows), Runs(run=section.columns)

    def _sets(self) -> dict[tuple[Row, ...], int]:
        """Sets of matrices beside the identity, and where each begins."""
        found: dict[tuple[Row, ...], int] = {}
        parts = [part for section in self.sections for part in _parts(section)]
        wanted = [part.rows for part in parts]
        wanted += [(kept(part.joins), IDENTITY) for part in parts if part.joins]
        for rows in wanted:
            if rows != _SAME and rows not in found:
                found[rows] = sum(map(len, found))
        return found

    @property
    def matrices(self) -> tuple[Row, ...]:
        """All of the sets."""
        return tuple(row for rows in self._sets() for row in rows)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for matrices, and for shared words for which no other word is free."""
        result = tensors[self.writes]
        assert isinstance(result, Image)
        joins = any(
            part.joins and not _spare(part, result)
            for section in self.sections
            for part in _parts(section)
        )
        return narrow_bytes(self.matrices) + (result.nbytes if joins else 0)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrices."""
        return len(self.matrices)

    def emit(self, context: Context) -> None:
        """Matrices, the constant, then the sections one after another."""
        builder, result = context.builder, context.image(self.writes)
        rows = self.matrices
        first = matrices(context, rows, context.scratch) if rows else 0
        places = {key: first + at for key, at in self._sets().items()}
        places[_SAME] = context.identity
        if self.fill is not None:
            _fill(builder, result, self.sections[0], self.fill)
            if self.sections[0].channels != result.channels:
                builder.barrier()
        for section, name in zip(self.sections, self.reads, strict=True):
            source = context.image(name)
            for part in _parts(section):
                builder.room(_MOST_PART_BUNDLES)
                if not part.joins:
                    _each(builder, source, result, section, part, places[part.rows])
                    continue
                # Bytes go to a word of their own, from where they join those that are there.
                aside = 0
                if not _spare(part, result):
                    aside = context.scratch + narrow_bytes(rows) - result.base
                moved = aside or WORD
                _each(builder, source, result, section, part, places[part.rows], moved)
                builder.barrier()
                row = places[kept(part.joins), IDENTITY]
                builder.on_tiles(partial(_join, result, section, part, row, moved))
                builder.barrier()


_MOST_PART_BUNDLES = 1000


def _spare(part: _Part, result: Image) -> bool:
    """Whether the word after a shared one is free until later."""
    return WORD * (part.target + 1) < result.depth


def _each(
    builder: Builder,
    source: Image,
    result: Image,
    section: Section,
    part: _Part,
    row: int,
    moved: int = 0,
) -> None:
    """Copy a part on all tiles, to its place or to some bytes after it."""
    rows, columns = section.rows, section.columns

    def make(tile: int) -> TensorOp | None:
        box = _numbers(result, section, tile)
        if box is None:
            return None
        (y, y_end), (x, x_end) = box
        start = source.address(
            tile,
            rows.source + rows.stride * y,
            columns.source + columns.stride * x,
            WORD * part.source,
        )
        over = [
            Axis("word", part.words, WORD, WORD),
            Axis("x", x_end - x, source.depth * columns.stride, result.depth * columns.step),
            Axis("y", y_end - y, source.pitch * rows.stride, result.pitch * rows.step),
        ]
        target = _target(result, section, part, tile, y, x) + moved
        taps = [Axis("matrix", len(part.rows), WORD, 0, QUARTER)]
        return moves(start, target, row, taps, over, section.stage)

    builder.on_tiles(make)


def _join(
    result: Image, section: Section, part: _Part, row: int, moved: int, tile: int
) -> TensorOp | None:
    """Join words of the result with those some bytes after them."""
    box = _numbers(result, section, tile)
    if box is None:
        return None
    (y, y_end), (x, x_end) = box
    across, down = result.depth * section.columns.step, result.pitch * section.rows.step
    place = _target(result, section, part, tile, y, x)
    over = [Axis("x", x_end - x, across, across), Axis("y", y_end - y, down, down)]
    return moves(place, place, row, [Axis("part", 2, moved, 0, QUARTER)], over)


def _numbers(result: Image, section: Section, tile: int) -> tuple[Interval, Interval] | None:
    """Which positions of the runs a tile owns."""
    rows, columns = result.owned(tile)
    down, across = section.rows.inside(rows), section.columns.inside(columns)
    return None if down[0] == down[1] or across[0] == across[1] else (down, across)


def _target(result: Image, section: Section, part: _Part, tile: int, y: int, x: int) -> int:
    rows, columns = section.rows, section.columns
    return result.address(
        tile, rows.target + rows.step * y, columns.target + columns.step * x, WORD * part.target
    )


def _fill(builder: Builder, result: Image, section: Section, value: int) -> None:
    """What is around a section, one strip per mesh engine; all if it has not all channels."""
    for index, opcode in enumerate(_MESHES):

        def make(tile: int, index: int = index, opcode: Opcode = opcode) -> Mesh | None:
            strip = _strips(section, result, tile)[index]
            if strip is None:
                return None
            return fill(strip, value * 0x01010101, op=opcode)

        builder.on_tiles(make)


_MESHES = (
    Opcode.MESH_SOUTHWARD,
    Opcode.MESH_NORTHWARD,
    Opcode.MESH_EASTWARD,
    Opcode.MESH_WESTWARD,
)


def _strips(section: Section, result: Image, tile: int) -> list[Walk | None]:
    """What a tile owns above, below, left and right of a section."""
    (top, bottom), (left, right) = result.owned(tile)
    if top == bottom or left == right:
        return [None] * 4
    rows, columns = section.rows, section.columns
    if section.channels != result.channels:
        rows = replace(rows, count=0)
    high = min(max(rows.target, top), bottom)
    low = max(min(rows.target + rows.count, bottom), high)
    west = min(max(columns.target, left), right)
    east = max(min(columns.target + columns.count, right), west)
    boxes = [
        ((top, high), (left, right)),
        ((low, bottom), (left, right)),
        ((high, low), (left, west)),
        ((high, low), (east, right)),
    ]
    return [_rectangle(result, tile, *box) for box in boxes]


def _rectangle(image: Image, tile: int, rows: Interval, columns: Interval) -> Walk | None:
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    if height <= 0 or width <= 0:
        return None
    return walk(
        image.address(tile, rows[0], columns[0]) // WORD,
        word=(width * image.depth // WORD, 1),
        line=(height, image.pitch // WORD),
    )
