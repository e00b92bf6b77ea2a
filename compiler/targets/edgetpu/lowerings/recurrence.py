"""The steps of a long short-term memory, one after the other.

First come the sums of the input for many steps, with biases; then, for each step, the sums of the
hidden state, the gates, and the products of gates.

One factor of a product lies on the diagonals of matrices in wide memory, as halfwords. Operations
write these matrices at once: from zeros, all functions that have a sign make zeros beside the
diagonal. Steps follow one another without fences: an operation reads what the ones before it made,
and conversions and products go on group by group, as the others count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from fitzroy.compiler.targets.edgetpu.instructions.builder import Reference, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, Condition, full
from fitzroy.compiler.targets.edgetpu.kernels.tensor import (
    QUARTER,
    Axis,
    moves,
    single_bytes,
)
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill, pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import Vectors
from fitzroy.compiler.targets.edgetpu.layers.layer import Context
from fitzroy.compiler.targets.edgetpu.layers.matrices import make
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.lowerings.gates import Stages, tanh_table
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    WORD,
    Placed,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import SIGNED_OFFSET, OutputStage
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import gather
from fitzroy.formats.object_file import Part, SymbolKind
from fitzroy.hw_models.isa.fields import Opcode, TileFlag

GATES = 4
INPUT_GATE, FORGET_GATE, OUTPUT_GATE, CANDIDATE = range(GATES)

_HALF = 2
"""Bytes of a halfword."""

_MATRIX_ROWS = 2
"""Rows of the matrix of four cells: each lane holds factors of two of them."""

_MATRIX_LANES = WORD * WORD
"""Halfwords of such a matrix."""

_DIAGONAL = tuple(
    _MATRIX_LANES // _MATRIX_ROWS * (cell // _HALF) + _HALF * cell + cell % _HALF
    for cell in range(WORD)
)
"""Where cells are among them: row, lane and half of the lane."""

_SPREAD: Row = tuple(
    1 << 8 * _DIAGONAL.index(lane) if lane in _DIAGONAL else 0 for lane in range(_MATRIX_LANES)
)
"""Four cells become halfwords of their matrix."""

_ZEROS = 0x80008000
"""Two numbers of 16 bits that are zero."""

_STRIP_BYTES = 64 << 10
"""Narrow memory for sums of the input, at most."""

_STEP_BUNDLES = 1000
"""Bundles of a step, or of the sums of the input, at most."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents of a long short-term memory.

    Attributes:
        steps: steps of the sequence.
        inputs: values of the input of a step.
        cells: cells.
    """

    steps: int
    inputs: int
    cells: int

    @property
    def depth(self) -> int:
        """Bytes of the hidden state of a step."""
        return round_up(self.cells, WORD)

    @property
    def tiles(self) -> int:
        """Number of tiles that compute cells."""
        return -(-self.cells // LANES)

    @property
    def lanes(self) -> int:
        """Cells of a tile, filled up to words."""
        return min(LANES, self.depth)

    @property
    def groups(self) -> int:
        """Groups of four cells of a tile."""
        return self.lanes // WORD

    @property
    def input_words(self) -> int:
        """Words of the input of a step, and rows of the weights of a gate."""
        return -(-self.inputs // WORD)

    @property
    def strip(self) -> int:
        """Most steps whose sums of the input are computed at a time."""
        return min(self.steps, _STRIP_BYTES // (GATES * _HALF * self.lanes))

    @property
    def input_rows(self) -> int:
        """Rows of a gate's scales, biases and weights of the input."""
        return 2 + self.input_words

    @property
    def recurrent_rows(self) -> int:
        """Rows of a gate's scales and weights of the hidden state."""
        return 1 + self.depth // WORD

    @property
    def rows(self) -> int:
        """Rows of all parameters of a tile."""
        return GATES * (self.input_rows + self.recurrent_rows)


@dataclass(frozen=True, slots=True)
class Narrow:
    """Byte addresses in narrow memory.

    Attributes:
        states: hidden states, of which the first is the initial one.
        copy: linear copy of the input.
        inputs: the input with steps that begin at words.
        sums: sums of the input of a strip, all gates of a step together.
        recurrent: those of the hidden state.
        gates: gates that open and close.
        candidate: matrices of what may be added to the cell state.
        cell: matrices of the cell state.
        squashed: matrices of its hyperbolic tangent.
        forgotten: the part of the cell state that is kept.
        added: what is added to it; it lies after `forgotten`.
        hidden: what the tile has of the hidden state, if there are several tiles.
        end: one past the last.
    """

    states: int
    copy: int
    inputs: int
    sums: int
    recurrent: int
    gates: int
    candidate: int
    cell: int
    squashed: int
    forgotten: int
    added: int
    hidden: int
    end: int

    @classmethod
    def of(cls, shape: Shape, base: int) -> Narrow:
        """Addresses from one of them on."""
        halves = _HALF * shape.lanes
        matrix = _HALF * _MATRIX_LANES * shape.groups
        copy = round_up(shape.steps * shape.inputs, WORD)
        rows = WORD * shape.input_words * shape.steps
        sizes = (
            (shape.steps + 1) * shape.depth,
            copy,
            rows if shape.inputs % WORD else 0,
            shape.strip * GATES * halves,
            GATES * halves,
            CANDIDATE * halves,
            *[matrix] * 3,
            *[halves] * 2,
            shape.lanes,
        )
        return cls(*accumulate((base, *sizes)))

    def state(self, shape: Shape, step: int) -> int:
        """The hidden state after a step; before the first one it is number -1."""
        return self.states + (step + 1) * shape.depth


@dataclass(frozen=True, slots=True)
class Wide:
    """First rows of wide memory, below the staging of gathers.

    Attributes:
        spread: the matrix that spreads cells.
        cell: matrices of the cell state.
        candidate: matrices of what may be added to it.
        squashed: matrices of its hyperbolic tangent.
        end: one past the last.
    """

    spread: int
    cell: int
    candidate: int
    squashed: int
    end: int

    @classmethod
    def of(cls, shape: Shape, base: int) -> Wide:
        """Rows from one of them on."""
        matrix = _MATRIX_ROWS * shape.groups
        return cls(*accumulate((base, 1, matrix, matrix, matrix)))


def first_rows(shape: Shape) -> list[Row]:
    """Rows of wide memory to begin with: the one that spreads, and a cell state of zero."""
    return [_SPREAD, *[(_ZEROS,) * _MATRIX_LANES] * (_MATRIX_ROWS * shape.groups)]


def hidden_state(shape: Shape, zero_point: int, first: int = 0, base: int = 0) -> Vector:
    """The hidden state of a step, in parts on the tiles that compute it.

    Args:
        shape: extents.
        zero_point: stored value of zero.
        first: the first of the tiles.
        base: byte address on them.
    """
    return Vector("hidden", shape.cells, zero_point, base, first)


@dataclass(frozen=True, slots=True)
class _Source:
    """Halfwords that an operation reads.

    Attributes:
        base: byte address of the first.
        taps: loops that are summed over.
        groups: number and distance in bytes of groups of four results.
        matrices: quarter rows from the matrices of a group to those of the next.
    """

    base: int
    taps: list[Axis]
    groups: tuple[int, int]
    matrices: int = 0


@dataclass(kw_only=True)
class Steps:
    """A long short-term memory while it is emitted.

    Attributes:
        context: what its layer finds.
        source: the input.
        weights: name of the parameters: of every tile, all gates for the input, then all for the
            hidden state; of each gate scales, biases of the former, and weights.
        shape: extents.
        stages: output stages.
        zero_points: those of the input and of the hidden state, as stored.
        narrow: addresses in narrow memory.
        wide: rows of wide memory.
        tiles: tiles that compute.
        computed: groups of results of tensor operations.
        converted: groups of cells whose matrices have come to wide memory.
        scaled: slots of scaling memory that have been filled.
        made: what `computed` was before matrices were made, by address.
        awaited: what `converted` was before they came to wide memory, by row.
    """

    context: Context
    source: Placed
    weights: str
    shape: Shape
    stages: Stages
    zero_points: tuple[int, int]
    narrow: Narrow
    wide: Wide
    tiles: Sequence[int]
    computed: int = 0
    converted: int = 0
    scaled: int = 0
    made: dict[int, int] = field(default_factory=dict)
    awaited: dict[int, int] = field(default_factory=dict)

    def barrier(self) -> None:
        """A new phase, in which all counts begin at zero."""
        self.context.builder.barrier()
        self.computed = self.converted = self.scaled = 0
        self.made, self.awaited = {}, {}

    @property
    def mask(self) -> int:
        """Mask of the tiles that compute cells."""
        return mask_of(self.tiles)

    # --- before the steps ------------------------------------------------------------------------

    def begin(self) -> None:
        """Matrices and the initial state, the input, and the table."""
        builder, shape, narrow = self.context.builder, self.shape, self.narrow
        make(builder, first_rows(shape), self.wide.spread, narrow.copy)
        builder.emit(
            fill(
                walk(narrow.state(shape, -1) // WORD, word=(shape.depth // WORD, 1)),
                0x01010101 * self.zero_points[1],
                op=Opcode.MESH_SOUTHWARD,
                publish=None,
                tiles=self.mask,
            )
        )
        self.barrier()
        gather(self.context, self.source, narrow.copy, self.tiles)
        self.barrier()
        if self._input != narrow.copy:
            self._align()
            self.barrier()
        builder.load(tanh_table())

    @property
    def _input(self) -> int:
        """Where the input of the first step is."""
        narrow = self.narrow
        return narrow.copy if narrow.inputs == narrow.sums else narrow.inputs

    def _align(self) -> None:
        """Inputs of all steps move to words."""
        shape, narrow = self.shape, self.narrow
        whole, rest = divmod(shape.inputs, WORD)
        for first, words, count in ((0, whole, WORD), (WORD * whole, 1, rest)):
            if not words * count:
                continue
            self.context.builder.emit(
                single_bytes(
                    narrow.copy + first,
                    narrow.inputs + first,
                    self.context.identity,
                    Axis("byte", count, 1, factor=1),
                    [
                        Axis("word", words, WORD, WORD),
                        Axis("step", shape.steps, shape.inputs, WORD * shape.input_words),
                    ],
                    tiles=self.mask,
                )
            )

    # --- sums ------------------------------------------------------------------------------------

    def project(self, steps: range) -> None:
        """Sums of the input for some steps, with biases."""
        shape = self.shape
        size = WORD * shape.input_words
        self._sums(
            source=self._input + size * steps.start,
            target=self.narrow.sums,
            first=0,
            vectors=2,
            words=shape.input_words,
            steps=(len(steps), size),
            zero_point=self.zero_points[0],
        )

    def _recur(self, step: int) -> None:
        """Sums of the hidden state for a step."""
        shape = self.shape
        self._sums(
            source=self.narrow.state(shape, step - 1),
            target=self.narrow.recurrent,
            first=GATES * shape.input_rows,
            vectors=1,
            words=shape.depth // WORD,
            steps=(1, 0),
            zero_point=self.zero_points[1],
        )

    def _sums(
        self,
        *,
        source: int,
        target: int,
        first: int,
        vectors: int,
        words: int,
        steps: tuple[int, int],
        zero_point: int,
    ) -> None:
        """Products of weights of all gates with some vectors; scales differ by gate.

        Args:
            source: byte address of the first vector.
            target: byte address of the sums.
            first: first row of the parameters, among those of the tile.
            vectors: rows of a gate for scaling memory.
            words: words of a vector.
            steps: number and distance of the vectors.
            zero_point: theirs.
        """
        builder, shape = self.context.builder, self.shape
        builder.room(_STEP_BUNDLES)
        rows, gates = vectors + words, _HALF * shape.lanes
        scaling = Vectors(vectors, True, shape.lanes)
        place = walk(0, vector=(vectors, 1), gate=(GATES, rows))
        load = scaling.load(place, GATES, [], used=self.computed, tiles=self.mask)
        builder.emit(load, self._parameters("wide.base", Part.ROW, first))
        count, distance = steps
        builder.emit(
            moves(
                source,
                target,
                0,
                [Axis("word", words, WORD, 0, QUARTER)],
                [
                    Axis("step", count, distance, GATES * gates),
                    Axis("gate", GATES, 0, gates, QUARTER * rows),
                ],
                replace(
                    self.stages.sums,
                    a_zero_point=zero_point,
                    c_zero_point=SIGNED_OFFSET,
                    scale_in_memory=True,
                    bias_in_memory=vectors > 1,
                ),
                acquire=[full(TileFlag.WIDE_TO_SCALING, "gate", before=self.scaled)],
                publish="gate",
                block="gate",
                lanes=shape.lanes,
                output16=True,
                tiles=self.mask,
                trained=True,
            ),
            self._parameters("c.base", Part.QUARTER_ROW, QUARTER * (first + vectors)),
        )
        self.computed += GATES
        self.scaled += GATES

    def _parameters(self, place: str, part: Part, addend: int) -> Reference:
        name = self.weights
        group = self.context.pieces[name][0].group
        return Reference(place, SymbolKind.OPERAND, name, part, addend, group)

    # --- steps -----------------------------------------------------------------------------------

    def step(self, step: int, place: int) -> None:
        """A step, whose sums of the input are in some place of the strip."""
        self._recur(step)
        self._activate(place)
        self._remember()
        self._expose(step)

    def _activate(self, place: int) -> None:
        """What may be added to the cell state, and gates, from both halves of their sums."""
        shape, narrow, stages = self.shape, self.narrow, self.stages
        size = _HALF * shape.lanes
        sums = narrow.sums + GATES * size * place
        halves = narrow.recurrent - sums
        self._matrices(
            self._both(sums + CANDIDATE * size, halves, shape.groups),
            narrow.candidate,
            self.wide.spread,
            stages.candidate,
        )
        self._convert(narrow.candidate, self.wide.candidate)
        self._operation(
            self._both(sums, halves, CANDIDATE * shape.groups),
            narrow.gates,
            self.context.identity,
            stages.logistic,
        )

    def _remember(self) -> None:
        """The cell state, and its hyperbolic tangent."""
        shape, narrow, wide, stages = self.shape, self.narrow, self.wide, self.stages
        self._product(FORGET_GATE, wide.cell, narrow.forgotten, stages.forgotten)
        self._product(INPUT_GATE, wide.candidate, narrow.added, stages.added)
        both = self._both(narrow.forgotten, narrow.added - narrow.forgotten, shape.groups)
        self._matrices(both, narrow.cell, wide.spread, stages.cell)
        # One after the other, cells are taken from where they lie in their matrices.
        _, one, two, _ = _DIAGONAL
        single = _Source(
            narrow.cell,
            [Axis("odd", 2, _HALF * one, 0, 1), Axis("pair", 2, _HALF * two, 0, 2)],
            (shape.groups, _HALF * _MATRIX_LANES),
        )
        self._matrices(single, narrow.squashed, wide.spread, stages.squashed)
        self._convert(narrow.squashed, wide.squashed)

    def _expose(self, step: int) -> None:
        """The hidden state, and the cell state's matrices for the next step."""
        shape, narrow, several = self.shape, self.narrow, len(self.tiles) > 1
        state = narrow.state(shape, step)
        self._product(
            OUTPUT_GATE,
            self.wide.squashed,
            narrow.hidden if several else state,
            self.stages.hidden,
            output16=False,
        )
        self._convert(narrow.cell, self.wide.cell)
        if several:
            self.barrier()
            hidden = hidden_state(shape, self.zero_points[1], self.tiles[0], narrow.hidden)
            gather(self.context, hidden, state, self.tiles)
            self.barrier()

    def _both(self, source: int, other: int, groups: int) -> _Source:
        """Sums of two numbers each, of which the second ones are at some distance."""
        return _Source(
            source,
            [Axis("cell", WORD, _HALF, 0, 1), Axis("number", 2, other)],
            (groups, WORD * _HALF),
        )

    def _product(
        self, gate: int, row: int, target: int, stage: OutputStage, *, output16: bool = True
    ) -> None:
        """Multiply a gate with the numbers in matrices, each group once its matrices are there."""
        shape = self.shape
        before = self.awaited.get(row)
        there = [] if before is None else [full(TileFlag.NARROW_TO_WIDE, "group", before=before)]
        self._operation(
            _Source(
                self.narrow.gates + _HALF * shape.lanes * gate,
                [Axis("odd", 2, _HALF, 0, _HALF), Axis("pair", 2, 2 * _HALF, 0, QUARTER)],
                (shape.groups, WORD * _HALF),
                _MATRIX_ROWS * QUARTER,
            ),
            target,
            row,
            stage,
            output16=output16,
            halfwords=True,
            acquire=there,
        )

    def _matrices(self, source: _Source, target: int, row: int, stage: OutputStage) -> None:
        """Put numbers of 16 bits on the diagonals of matrices in wide memory."""
        self.made[target] = self.computed
        self._operation(source, target, row, stage, lanes=_MATRIX_LANES)

    def _operation(
        self,
        source: _Source,
        target: int,
        row: int,
        stage: OutputStage,
        *,
        lanes: int = WORD,
        output16: bool = True,
        halfwords: bool = False,
        acquire: Sequence[Condition] = (),
    ) -> None:
        """An operation on one halfword at a time, which counts groups of more than a word."""
        groups, distance = source.groups
        size = lanes * (_HALF if output16 else 1)
        operation = moves(
            source.base,
            target,
            row,
            source.taps,
            [Axis("group", groups, distance, size, source.matrices)],
            stage,
            acquire=acquire,
            lanes=lanes,
            output16=output16,
            publish="group" if size > WORD else WHOLE,
            tiles=self.mask,
            a16=True,
            c16=halfwords,
            idle_multipliers=(False, not halfwords, not halfwords),
        )
        self.context.builder.emit(operation)
        self.computed += groups if size > WORD else 1

    def _convert(self, source: int, row: int) -> None:
        """Matrices go to wide memory, group by group once they are computed."""
        groups = self.shape.groups
        self.awaited[row] = self.converted
        self.context.builder.emit(
            pack(
                walk(
                    source // WORD,
                    word=(WORD, 1),
                    row=(_MATRIX_ROWS, WORD),
                    group=(groups, WORD * _MATRIX_ROWS),
                ),
                walk(row, row=(_MATRIX_ROWS, 1), group=(groups, _MATRIX_ROWS)),
                row="row",
                publish="group",
                acquire=[full(TileFlag.AVDATA, "group", before=self.made[source])],
                tiles=self.mask,
            )
        )
        self.converted += groups
