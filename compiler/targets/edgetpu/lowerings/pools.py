"""Pools: means and maxima over windows.

A mean sums words with the identity as matrix. Windows that reach over the border have fewer
elements; tensor operations of their own do with those.

A maximum compares bytes in wide memory, where pixels have been transposed: a lane holds a channel
of four pixels, so that an address in quarters of a row is the number of a pixel. All windows have
one size, because the least byte, which never is a maximum unless a window has nothing else, lies
around the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE
from fitzroy.compiler.targets.edgetpu.kernels.tensor import (
    QUARTER,
    Axis,
    Nest,
    moves,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill, pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.halo import rectangle
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    Context,
    Layer,
    Step,
    Windows,
    word_cycles,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    LEAST,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    TiledAxis,
    Window,
    round_up,
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    OutputStage,
    copy_stage,
    maximum_stage,
    mean_stage,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    as_image,
    image_shape,
    keeps_bytes,
    pointwise,
    temporary,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.tensor import TensorOp

_MOST_OPERATION_BUNDLES = 600
"""Bundles of a tensor operation for every kind of tile, with its fences."""


MOST_SUMMED = 1 << 14
"""Iterations of a loop of a tensor operation."""


@dataclass(frozen=True, slots=True)
class Clipped(Window):
    """Windows of which only what lies inside of the image is read.

    Attributes:
        extent: elements of the image.
    """

    extent: int = 0

    @classmethod
    def of(cls, window: Window, extent: int) -> Clipped:
        """Windows of a pool along an axis of some elements."""
        return cls(window.kernel, window.stride, before=window.before, extent=extent)

    def inside(self, index: int) -> Interval:
        """The part of a window that lies inside the image."""
        begin = index * self.stride - self.before
        return max(begin, 0), min(begin + self.kernel, self.extent)

    def needs(self, interval: Interval) -> Interval:
        """Elements that an interval of the result reads."""
        if interval[0] == interval[1]:
            return (0, 0)
        return self.inside(interval[0])[0], self.inside(interval[1] - 1)[1]

    def parts(self, interval: Interval) -> list[tuple[Interval, Interval]]:
        """Runs of windows of one size at distances of the stride, and what the first reads."""
        found: list[tuple[Interval, Interval]] = []
        for index in range(*interval):
            window = self.inside(index)
            if found:
                (begin, _), first = found[-1]
                moved = (index - begin) * self.stride
                if window == (first[0] + moved, first[1] + moved):
                    found[-1] = ((begin, index + 1), first)
                    continue
            found.append(((index, index + 1), window))
        return found


@dataclass(frozen=True, slots=True)
class _Box:
    """Windows of one size.

    Attributes:
        rows: of the result.
        columns: of the result.
        down: rows that the first window reads.
        across: columns that it reads.
    """

    rows: Interval
    columns: Interval
    down: Interval
    across: Interval

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of the windows."""
        return self.down[1] - self.down[0], self.across[1] - self.across[0]

    @property
    def counts(self) -> tuple[int, int]:
        """Number of windows along rows and columns."""
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pool(Layer):
    """A pool.

    Attributes:
        rows: windows along rows.
        columns: windows along columns.
    """

    rows: Window
    columns: Window

    strips = True
    by_name = True

    def windows(self, index: int) -> Windows:
        """The windows."""
        return self.rows, self.columns

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """A step for every element of a window."""
        return word_cycles(area, groups, self.rows.kernel * self.columns.kernel)


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragePool(_Pool):
    """Means over windows.

    Attributes:
        stages: constants of the output stage by number of elements.
    """

    rows: Clipped
    columns: Clipped
    stages: Mapping[int, OutputStage]

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory: none beside that of the identity matrix."""
        return 0

    def emit(self, context: Context) -> None:
        """A tensor operation for every size of windows."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        boxes = {tile: self._boxes(result, tile) for tile in range(TILES) if result.active(tile)}
        context.builder.on_pieces(
            boxes,
            lambda tile, box: self._operation(source, result, tile, box, context.identity),
        )

    def _boxes(self, result: Image, tile: int) -> list[_Box]:
        """What a tile computes, by size of windows."""
        rows, columns = result.owned(tile)
        return [
            _Box(down[0], across[0], down[1], across[1])
            for down, across in product(self.rows.parts(rows), self.columns.parts(columns))
        ]

    def _operation(
        self, source: Image, result: Image, tile: int, box: _Box, identity: int
    ) -> TensorOp:
        height, width = box.kernel
        down, across = box.counts
        return moves(
            source.address(tile, box.down[0], box.across[0]),
            result.address(tile, box.rows[0], box.columns[0]),
            identity,
            [Axis("kx", width, source.depth), Axis("ky", height, source.pitch)],
            [
                Axis("word", result.depth // WORD, WORD, WORD),
                Axis("x", across, source.depth * self.columns.stride, result.depth),
                Axis("y", down, source.pitch * self.rows.stride, result.pitch),
            ],
            self.stages[width * height],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class MaxPool(_Pool):
    """Maxima over windows.

    Attributes:
        stage: constants of the output stage.
    """

    stage: OutputStage

    compares = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """The pixels of a window of rows, in fours, or as many as there is room for."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(source, Image)
        assert isinstance(result, Image)
        return self._staged(source, result)

    def _staged(self, source: Image, result: Image) -> int:
        """Rows of wide memory for the pixels of a strip."""
        height, rows = _height(result), self._strip(source, result)
        return _rows(source, (min(rows, height) - 1) * self.rows.stride + self.rows.kernel)

    def _strip(self, source: Image, result: Image) -> int:
        """Rows of the result in a strip."""
        stride, kernel = self.rows.stride, self.rows.kernel
        most = _MOST_ROWS * WORD // source.columns.most
        return max(1, min(_height(result), (most - kernel) // stride + 1))

    def emit(self, context: Context) -> None:
        """For every strip and 64 channels: transposed pixels, then their maxima."""
        builder = context.builder
        source, result = context.image(self.reads[0]), context.image(self.writes)
        first = builder.staging - self._staged(source, result)
        height, rows = _height(result), self._strip(source, result)
        builder.on_tiles(lambda tile: _gap(source, tile))
        if source.border != LEAST:
            _surround(builder, source, LEAST)
        for start in range(0, height, rows):
            strips = {
                tile: (min(top + start, bottom), min(top + start + rows, bottom))
                for tile in range(TILES)
                if result.active(tile)
                for top, bottom in [result.owned(tile)[0]]
            }
            strips = {tile: strip for tile, strip in strips.items() if strip[0] < strip[1]}
            for channel in range(0, source.depth, LANES):
                words = min(LANES, source.depth - channel) // WORD
                self._block(context, strips, range(channel, channel + WORD * words, WORD), first)
        if source.border != LEAST:
            # Other layers read beyond the border, too.
            _surround(builder, source, source.border)

    def _block(
        self, context: Context, strips: Mapping[int, Interval], channels: range, first: int
    ) -> None:
        """Maxima of up to 64 channels in some rows of each tile."""
        builder = context.builder
        source, result = context.image(self.reads[0]), context.image(self.writes)
        builder.room(_MOST_OPERATION_BUNDLES)
        builder.barrier()
        builder.on_tiles(
            lambda tile: _transposed(source, tile, self.rows.needs(strips[tile]), channels, first),
            strips,
        )
        builder.barrier()
        builder.on_tiles(
            lambda tile: self._operation(source, result, tile, strips[tile], channels, first),
            strips,
        )

    def _operation(
        self,
        source: Image,
        result: Image,
        tile: int,
        strip: Interval,
        channels: range,
        first: int,
    ) -> TensorOp:
        columns, row = result.owned(tile)[1], source.columns.most
        (_, _), (left, _) = source.window(tile)
        begin = QUARTER * first + self.columns.needs(columns)[0] - left
        taps = [
            Axis("kx", self.columns.kernel, factor=1),
            Axis("ky", self.rows.kernel, factor=row),
        ]
        places = [
            Axis("x", columns[1] - columns[0], 0, result.depth, self.columns.stride),
            Axis("y", strip[1] - strip[0], 0, result.pitch, self.rows.stride * row),
        ]
        nest = Nest.of([*taps, *places], taps)
        place = result.address(tile, strip[0], columns[0], channels.start)
        written = nest.written(place, [("lane", len(channels), WORD)])
        return TensorOp(
            op=Opcode.MAX,
            b=written.bytes,
            c=nest.factors(begin).quarters,
            d=nest.accumulators().quarters,
            avdata=written.each(WHOLE),
            accumulate=True,
            idle_multipliers=(True,) * 3,
            lanes=WORD * len(channels),
            lanes_last=WORD * len(channels),
            **nest.fields([]),
            **stage_fields(self.stage),
        )


_MOST_ROWS = 512
"""Rows of wide memory for pixels, unless a single row of windows takes more."""

_MOST_WINDOW_ROWS = 1_920
"""Most rows for the pixels of a row of windows."""


def _rows(source: Image, rows: int) -> int:
    return -(-rows * source.columns.most // WORD)


def _height(image: Image) -> int:
    """Rows that a tile owns, at most."""
    return max(image.area(tile)[0] for tile in range(TILES))


def _surround(builder: Builder, source: Image, value: int) -> None:
    """Put a byte around an image, as far as windows reach there."""
    for side in range(4):
        builder.on_tiles(partial(_beyond, source, side, value))


def _beyond(source: Image, side: int, value: int, tile: int) -> Mesh | None:
    """Write what a tile's window has above, below, before or after the image."""
    (top, bottom), (left, right) = source.window(tile)
    height, width = source.rows.extent, source.columns.extent
    rows, columns = (
        ((top, min(bottom, 0)), (left, right)),
        ((max(top, height), bottom), (left, right)),
        ((top, bottom), (left, min(right, 0))),
        ((top, bottom), (max(left, width), right)),
    )[side]
    words = rectangle(source, tile, rows, columns)
    return None if words is None else fill(words, value * 0x01010101)


def _gap(source: Image, tile: int) -> Mesh | None:
    """Write the columns after a tile's window, which are transposed together with others."""
    (top, bottom), (left, right) = source.window(tile)
    words = rectangle(source, tile, (top, bottom), (right, left + source.columns.most))
    return None if words is None else fill(words)


def aligned(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Operands of maxima, which transpose them, with rows of windows of whole fours of pixels."""
    found: dict[Placed, Placed] = {}
    for step in steps:
        if isinstance(step.layer, MaxPool):
            source = step.tensors[step.layer.reads[0]]
            assert isinstance(source, Image)
            columns = source.columns.with_most(round_up(source.columns.most, WORD))
            found[source] = replace(source, columns=columns)
    return found


def _transposed(
    source: Image, tile: int, rows: Interval, channels: range, first: int
) -> NarrowToWide:
    """Rows of the window, four pixels in a row of wide memory."""
    pixels = (rows[1] - rows[0]) * source.columns.most
    count = -(-pixels // WORD)
    left = source.window(tile)[1][0]
    base = source.address(tile, rows[0], left, channels.start)
    return pack(
        walk(
            base // WORD,
            pixel=(WORD, source.depth // WORD),
            word=(len(channels), 1),
            four=(count, source.depth),
        ),
        walk(first, four=(count, 1)),
        row="four",
        publish=WHOLE,
        transpose=Transpose.BYTES,
    )


# --- rules ---------------------------------------------------------------------------------------


def _windows(legalizer: Legalizer, call: Call) -> tuple[Window, Window]:
    above, left = legalizer.padding_of(call.node.inputs[0] or "")
    attributes, padded = call.attributes(PoolAttributes), call.type().shape
    (kernel_y, kernel_x), (stride_y, stride_x) = attributes.kernel, attributes.stride
    pads = explicit_padding(
        attributes.padding, (padded[1], padded[2]), attributes.kernel, attributes.stride, (1, 1)
    )
    return (
        Window(kernel_y, stride_y, before=pads[0] + above),
        Window(kernel_x, stride_x, before=pads[2] + left),
    )


def average_pool(legalizer: Legalizer, call: Call) -> None:
    """Add the layer of an average pool."""
    source = as_image(legalizer, call.node.inputs[0] or "")
    extents = image_shape(legalizer, source)
    rows, columns = map(Clipped.of, _windows(legalizer, call), extents)
    _, height, width, _ = call.result.type.shape
    bounds = call.attributes(PoolAttributes).activation.bounds
    sizes = {
        (down[1] - down[0]) * (across[1] - across[0])
        for (_, down), (_, across) in product(rows.parts((0, height)), columns.parts((0, width)))
    }
    if min(sizes) <= 0:
        raise UnsupportedError(f"{call.node.name!r} has windows that lie in the padding")
    if max(sizes) > MOST_SUMMED:
        raise UnsupportedError(
            f"{call.node.name!r} has windows of {max(sizes)} elements, {MOST_SUMMED} are summed at "
            "most",
            hint="pool several times with smaller windows",
        )
    legalizer.layers.append(
        AveragePool(
            name=call.node.name,
            reads=(source,),
            writes=call.node.outputs[0],
            rows=rows,
            columns=columns,
            stages={
                size: mean_stage(legalizer.type(source), call.result.type, size, bounds)
                for size in sizes
            },
        )
    )


def _check_pixels(name: str, rows: Window, columns: Window, extent: int, width: int) -> None:
    """Refuse maxima of windows that wide memory cannot hold a row of.

    Args:
        name: name of the pool.
        rows: windows along rows.
        columns: windows along columns.
        extent: columns of the image.
        width: columns of the result.

    Raises:
        UnsupportedError: it cannot.
    """
    needs = tuple(map(columns.needs, split(width, COLUMNS)))
    pixels = rows.kernel * round_up(TiledAxis.of(extent, COLUMNS, [needs]).most, WORD)
    if pixels > _MOST_WINDOW_ROWS * WORD:
        raise UnsupportedError(
            f"{name!r} needs {pixels} pixels of a tile at a time: {_MOST_WINDOW_ROWS * WORD} fit "
            "in wide memory",
            hint="pool several times with smaller windows",
        )


@legalizes("max_pool_2d")
def _max_pool(legalizer: Legalizer, call: Call) -> None:
    source, result = as_image(legalizer, call.node.inputs[0] or ""), call.node.outputs[0]
    rows, columns = _windows(legalizer, call)
    before, after = legalizer.type(source), call.result.type
    extent = image_shape(legalizer, source)[1]
    _check_pixels(call.node.name, rows, columns, extent, after.shape[2])
    bounds = call.attributes(PoolAttributes).activation.bounds
    pooled = result
    if not keeps_bytes(before, after):
        pooled = temporary(
            legalizer, f"{result}.maximum", replace(before, shape=call.result.type.shape)
        )
    legalizer.layers.append(
        MaxPool(
            name=call.node.name,
            reads=(source,),
            writes=pooled,
            rows=rows,
            columns=columns,
            stage=maximum_stage(before, bounds),
        )
    )
    if pooled != result:
        pointwise(legalizer, f"{result}.requantized", pooled, result, copy_stage(before, after))
