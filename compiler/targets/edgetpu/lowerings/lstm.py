"""Long short-term memories: all steps of a sequence, one after the other.

A tile computes 64 cells with all of their gates, so that only the hidden state goes from tile to
tile, and nothing does if one tile is enough. States and sums are zero in front of the first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    CELL_STATE,
    INPUT,
    INPUT_WEIGHTS,
    OUTPUT_STATE,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Weights, filled
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.matrices import narrow_bytes
from fitzroy.compiler.targets.edgetpu.lowerings.constants import unsigned
from fitzroy.compiler.targets.edgetpu.lowerings.gates import SUM_UNIT, Stages, stages, unit_of
from fitzroy.compiler.targets.edgetpu.lowerings.recurrence import (
    GATES,
    Narrow,
    Shape,
    Steps,
    Wide,
    first_rows,
    hidden_state,
)
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    TILES,
    WORD,
    Image,
    Placed,
    TiledAxis,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import ToVector, as_vector
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import gather_rows
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    Parameters,
    Prefix,
    effective_scale,
    pack,
)

_ORDER = (0, 1, 3, 2)
"""Gates of the operator in the order in which they are computed: the candidate is the last."""

_RESIDENT = WIDE_ROWS * 7 // 8
"""Rows of weights that a tile can have."""

_MOST_VALUES = WORD << 14
"""Values of a sequence that can be moved at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Lstm(Layer):
    """A long short-term memory over a sequence, with hidden states of all steps as the result.

    Attributes:
        shape: extents.
        stages: output stages.
        zero_points: those of the input and of the hidden state, as stored.
    """

    shape: Shape
    stages: Stages
    zero_points: tuple[int, int]

    makes_vector = True
    gathers = True

    def sequence(self, tile: int, base: int = 0) -> Image:
        """The hidden states on a tile."""

        def axis(extent: int, place: int, parts: int) -> TiledAxis:
            owned = tuple((0, extent if part == place else 0) for part in range(parts))
            return TiledAxis(extent, owned, owned)

        row, column = divmod(tile, COLUMNS)
        shape = self.shape
        name = f"{self.writes}.sequence"
        rows, columns = axis(shape.steps, row, ROWS), axis(1, column, COLUMNS)
        return Image(name, rows, columns, shape.cells, self.zero_points[1], base)

    def _finish(self) -> ToVector:
        """What moves the hidden states to their tiles."""
        return ToVector(name=self.name, reads=(f"{self.writes}.sequence",), writes=self.writes)

    def _gathered_rows(self, tensors: Mapping[str, Placed]) -> int:
        places = tensors[self.reads[0]], self.sequence(0), hidden_state(self.shape, 0)
        return max(map(gather_rows, places))

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Matrices, and those of the gathers."""
        return Wide.of(self.shape, 0).end + self._gathered_rows(tensors)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """What steps use, and then the copies of the result in place of all but the states."""
        sequence = self.sequence(0)
        copies = self._finish().scratch_bytes({sequence.name: sequence})
        states = Narrow.of(self.shape, 0).copy
        return max(self.own_bytes, states + copies)

    @property
    def own_bytes(self) -> int:
        """Narrow memory that steps use, or what makes their matrices."""
        narrow = Narrow.of(self.shape, 0)
        return max(narrow.end, narrow.copy + narrow_bytes(first_rows(self.shape)))

    def emit(self, context: Context) -> None:
        """The input to all tiles that compute, the steps, and the states to all others."""
        builder = context.builder
        first = builder.staging - self.staging_rows(context.tensors)
        name = self.weights[0].name
        run = Steps(
            context=context,
            source=context.tensors[self.reads[0]],
            weights=name,
            shape=self.shape,
            stages=self.stages,
            zero_points=self.zero_points,
            narrow=Narrow.of(self.shape, context.scratch),
            wide=Wide.of(self.shape, first),
            tiles=[piece.tile for piece in context.pieces[name]],
        )
        run.begin()
        steps, strip = self.shape.steps, self.shape.strip
        for start in range(0, steps, strip):
            numbers = range(start, min(start + strip, steps))
            run.project(numbers)
            for step in numbers:
                run.step(step, step - start)
            run.barrier()
        sequence = self.sequence(run.tiles[0], run.narrow.state(self.shape, 0))
        self._finish().emit(
            replace(
                context,
                tensors={sequence.name: sequence, self.writes: context.vector(self.writes)},
                scratch=run.narrow.copy,
            )
        )


# --- parameters ----------------------------------------------------------------------------------


def _packed(shape: Shape, data: Array, scale: float, biases: Array | None) -> Array:
    """Words of a gate's weights, uint8[tiles, bytes].

    Args:
        shape: extents.
        data: unsigned weights, uint8[cells, values].
        scale: effective scale.
        biases: int32[cells]; None for weights of the hidden state.
    """
    cells = shape.tiles * shape.lanes
    layout = ConvolutionLayout(
        channels=cells,
        kernel=(1, 1),
        in_channels=data.shape[1],
        prefix=Prefix(scales=True, biases=biases is not None),
        fully_connected=True,
    )
    missing = (0, cells - shape.cells)
    parameters = Parameters(
        np.pad(data, (missing, (0, 0)), constant_values=SIGNED_OFFSET).reshape(layout.weight_shape),
        np.array([SIGNED_OFFSET], np.uint8),
        None if biases is None else np.pad(biases, missing),
        np.full(cells, scale, np.float32),
    )
    size = layout.word_count * WORD * layout.lanes
    return np.asarray(pack(layout, parameters)[:size].reshape(shape.tiles, -1))


def _parameters(call: Call, shape: Shape) -> Weights:
    """All parameters: per tile those of the input, gate by gate, and then of the hidden state."""
    parts = []
    for first, source in ((INPUT_WEIGHTS, call.type(INPUT)), (RECURRENT_WEIGHTS, call.result.type)):
        for gate in _ORDER:
            weights, bias = call.operand(first + gate), call.optional(BIASES + gate)
            (scale,) = effective_scale(
                unit_of(source), np.array([unit_of(weights.type)]), SUM_UNIT
            ).tolist()
            biases = np.zeros(shape.cells, np.int32)
            if bias is not None and bias.data is not None:
                biases = bias.data.reshape(-1)
            parts.append(
                _packed(shape, unsigned(weights), scale, biases if first == INPUT_WEIGHTS else None)
            )
    data = np.concatenate(parts, axis=1)
    return Weights(
        call.node.name,
        OperandKind.FULLY_CONNECTED,
        round_up(min(shape.cells, LANES), 16),
        0,
        filled(data.reshape(-1)),
        shape.rows * shape.tiles,
        shape.tiles,
    )


# --- rule ----------------------------------------------------------------------------------------


@requires("unidirectional_sequence_lstm")
def _types(call: Call) -> Iterator[Reject]:
    """Numbers that the arithmetic of `gates` is for."""
    before, after, cell = call.type(INPUT), call.result.type, call.optional(CELL_STATE)
    for type in (before, after):
        if type.dtype is not DType.INT8 or not _per_tensor(type):
            yield refused(call, f"has {type}, not int8 with one scale", _QUANTIZE)
    if cell is None or cell.type.dtype is not DType.INT16 or not _symmetric(cell.type):
        yield refused(call, "has a cell state that is not int16 with one scale", _QUANTIZE)
    state = call.optional(OUTPUT_STATE)
    if state is None or state.type.quantization != after.quantization:
        yield refused(call, "has hidden states of another quantization than its result")
    for gate in range(GATES):
        for index in (INPUT_WEIGHTS + gate, RECURRENT_WEIGHTS + gate):
            weights = call.operand(index)
            if weights.data is None or weights.type.dtype is not DType.INT8:
                yield refused(call, f"has weights {weights.type}, not constant int8", _QUANTIZE)
            elif not _symmetric(weights.type):
                yield refused(call, f"has weights {weights.type}, not with one scale and no offset")
        bias = call.optional(BIASES + gate)
        if bias is not None and (bias.data is None or bias.type.dtype is not DType.INT32):
            yield refused(call, f"has biases {bias.type}, not constant int32", _QUANTIZE)


_QUANTIZE = "quantize the whole model to int8, with 16-bit cell states"


def _per_tensor(type: TensorType) -> bool:
    return type.quantization is not None and type.quantization.is_per_tensor


def _symmetric(type: TensorType) -> bool:
    quantization = type.quantization
    return _per_tensor(type) and quantization is not None and quantization.zero_point[0] == 0


def _shape(call: Call) -> tuple[Shape, int]:
    """Extents of a call, and its number of sequences."""
    before, after = call.type(INPUT).shape, call.result.type.shape
    first, second = before[:2]
    major = call.attributes(LstmAttributes).time_major
    steps, batch = (first, second) if major else (second, first)
    return Shape(steps, before[2], after[2]), batch


@requires("unidirectional_sequence_lstm")
def _extents(call: Call) -> Iterator[Reject]:
    """One sequence, whose parameters and results have room."""
    shape, batch = _shape(call)
    if batch != 1:
        what = f"has {batch} sequences, the Edge TPU takes one"
        yield refused(call, what, "give it a batch of one")
    if shape.tiles > TILES:
        yield refused(call, f"has {shape.cells} cells, {TILES * LANES} can be computed")
    if shape.rows > _RESIDENT:
        yield refused(
            call, f"has {shape.rows} rows of parameters for a tile, of which {_RESIDENT} fit"
        )
    if (results := shape.steps * shape.depth) > _MOST_VALUES:
        yield refused(call, f"has {results} results, {_MOST_VALUES} can be moved at a time")


@legalizes("unidirectional_sequence_lstm")
def _lstm(legalizer: Legalizer, call: Call) -> None:
    attributes, (shape, _) = call.attributes(LstmAttributes), _shape(call)
    before, after = call.type(INPUT), call.result.type
    cell = call.optional(CELL_STATE)
    assert cell is not None
    source = as_vector(legalizer, call.node.inputs[INPUT] or "")
    layer = Lstm(
        name=call.node.name,
        reads=(source,),
        writes=call.node.outputs[0],
        weights=(_parameters(call, shape),),
        shape=shape,
        stages=stages(unit_of(cell.type), after, attributes.cell_clip),
        zero_points=(unsigned_zero_point(before), unsigned_zero_point(after)),
    )
    taken = layer.scratch_bytes({}) + sum(Vector("", t.size, 0).nbytes for t in (before, after))
    if taken > legalizer.options.narrow_bytes:
        raise UnsupportedError(
            f"{call.node.spelled} {call.node.name!r} takes {taken} bytes of every tile, there are "
            f"{legalizer.options.narrow_bytes}",
            hint="divide the sequence",
        )
    legalizer.layers.append(layer)
