"""Products of matrices in windows of an image, whose tiles own whole windows.

Both matrices of a product, and its result, are the pixels of a window: no tile needs anything of
another one, and all tiles execute the same instructions. Every tile copies the second matrices of
its windows, fills them up to words, and packs them into rows of wide memory as `MatrixProduct`
does. Windows for which wide memory has no room at the same time are computed in passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, word_cycles
from fitzroy.compiler.targets.edgetpu.layers.matrices import kept, narrow_bytes
from fitzroy.compiler.targets.edgetpu.lowerings.matrix_product import (
    BUNDLES,
    MOST_ROWS,
    Second,
    fill_up,
    packed,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    EVERY,
    LANES,
    ROWS,
    TILES,
    WORD,
    Image,
    Placed,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.tensor import TensorOp

_MOST_COPIED = 24 << 10
"""Bytes of second matrices that a tile copies at a time, unless a single one has more."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """Windows of a tile that are computed together: some columns of windows of some rows.

    Attributes:
        top: the first row.
        rows: how many rows.
        left: the first column, in windows.
        columns: how many windows of a row.
    """

    top: int
    rows: int
    left: int
    columns: int

    @property
    def windows(self) -> int:
        """How many windows."""
        return self.rows * self.columns


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowProduct(Layer):
    """Pixels of the first operand times a matrix that the second one holds in the same window.

    Attributes:
        stage: constants of the output stage.
        columns: whether pixels of the second operand are summed over, rather than its channels.
        pixels: of a window; they follow each other along a row.
        summands: of an element.
    """

    stage: OutputStage
    columns: bool
    pixels: int
    summands: int

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: a step for every four summands of a block of results.

        The words of the second matrices are copied and packed before, in a phase each.
        """
        fours, blocks = -(-self.summands // WORD), -(-groups * WORD // LANES)
        copied = groups if self.columns else fours
        return word_cycles(area, 1, blocks * fours + copied) + 2 * BEAGLE.timing.phase

    def _second(self, tensors: Mapping[str, Placed]) -> Second:
        image = tensors[self.reads[1]]
        assert isinstance(image, Image)
        return Second(self.pixels, image.channels, self.columns, image.zero_point)

    def _passes(self, tensors: Mapping[str, Placed]) -> list[_Pass]:
        """What is computed at a time: whole rows of windows, if wide memory has room for one."""
        result, second = tensors[self.writes], self._second(tensors)
        assert isinstance(result, Image)
        height, width = result.rows.extent // ROWS, result.columns.extent // COLUMNS
        columns = width // self.pixels
        most = max(
            1,
            min(MOST_ROWS // (second.blocks * second.groups), _MOST_COPIED // second.nbytes),
        )
        if most < columns:
            return [
                _Pass(y, 1, x, min(most, columns - x))
                for y in range(height)
                for x in range(0, columns, most)
            ]
        rows = most // columns
        return [_Pass(y, min(rows, height - y), 0, columns) for y in range(0, height, rows)]

    def _most(self, tensors: Mapping[str, Placed]) -> int:
        """Windows that are computed at a time, at most."""
        return max(one.windows for one in self._passes(tensors))

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of all blocks of the windows of a pass, and a matrix."""
        second = self._second(tensors)
        return self._most(tensors) * second.blocks * second.groups + 1

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Copies of the second matrices of a pass, and what makes a small one."""
        return self._most(tensors) * self._second(tensors).nbytes + narrow_bytes([kept(WORD)])

    def emit(self, context: Context) -> None:
        """Copy, fill up and pack the second matrices of some windows, then multiply."""
        builder, second = context.builder, self._second(context.tensors)
        base = builder.staging - self._most(context.tensors) * second.blocks * second.groups
        for one in self._passes(context.tensors):
            builder.room(BUNDLES)
            builder.on_tiles(partial(self._copied, context, second, one))
            builder.barrier()
            fill_up(context, second, list(range(TILES)), one.windows)
            rows = second.blocks * second.groups
            for number in range(one.windows):
                copy = context.scratch + number * second.nbytes
                every = range(second.blocks)
                builder.emit_all(packed(second, copy, every, base + number * rows, EVERY))
            builder.barrier()
            for number in range(one.windows):
                for some in second.alike():
                    row = base + number * rows + some[0] * second.groups
                    where = divmod(number, one.columns)
                    make = partial(self._operation, context, second, some, row, one, where)
                    builder.on_tiles(make)
            builder.barrier()

    def _copied(self, context: Context, second: Second, one: _Pass, tile: int) -> TensorOp:
        """The second matrices of the windows of a pass, one after the other."""
        source = context.image(self.reads[1])
        (top, _), (left, _) = source.owned(tile)
        pixels, depth = self.pixels, source.depth
        return moves(
            source.address(tile, top + one.top, left + one.left * pixels),
            context.scratch,
            context.identity,
            [],
            [
                Axis("word", pixels * depth // WORD, WORD, WORD),
                Axis("window", one.columns, pixels * depth, second.nbytes),
                Axis("y", one.rows, source.pitch, one.columns * second.nbytes),
            ],
        )

    def _operation(
        self,
        context: Context,
        second: Second,
        blocks: range,
        row: int,
        one: _Pass,
        where: tuple[int, int],
        tile: int,
    ) -> TensorOp:
        """Some blocks of the results of a window, by its row and column among those of a pass."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        (top, _), (left, _) = result.owned(tile)
        y, x = top + one.top + where[0], left + (one.left + where[1]) * self.pixels
        return moves(
            source.address(tile, y, x),
            result.address(tile, y, x, LANES * blocks[0]),
            row,
            [Axis("summand", second.groups, WORD, factor=QUARTER)],
            [
                Axis("x", self.pixels, source.depth, result.depth),
                Axis("block", len(blocks), 0, LANES, QUARTER * second.groups),
            ],
            self.stage,
            lanes=second.lanes(blocks[0]),
        )
