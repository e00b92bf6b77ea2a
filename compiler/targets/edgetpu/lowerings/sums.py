"""Sums and differences of two tensors, and rules of what is made of sums and products.

A sum reads words of both operands in turn and multiplies them with factors in the proportion of
their scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Step, word_cycles
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, Rule, legalizes
from fitzroy.compiler.targets.edgetpu.layers.matrices import (
    diagonal,
    matrices,
    narrow_bytes,
    over,
)
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.constants import constant, scalar_of
from fitzroy.compiler.targets.edgetpu.lowerings.folded_axes import fold_axes, images_of
from fitzroy.compiler.targets.edgetpu.lowerings.functions import codes, fitted
from fitzroy.compiler.targets.edgetpu.lowerings.products import (
    MOST_CHANNELS,
    Product,
    VectorProduct,
)
from fitzroy.compiler.targets.edgetpu.lowerings.some_channels import narrowed
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    WORD,
    Image,
    Placed,
    covered,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    OutputStage,
    copy_stage,
    output_stage,
    product_stage,
    sum_weights,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_image_of, as_vector
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    assemble,
    image_shape,
    keeps_bytes,
    pointwise,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.hw_models.isa.tensor import TensorOp

_LARGEST_BYTE = 255


def factors(value: int, background: int, *, halfwords: bool) -> tuple[Row, ...]:
    """Matrices that multiply each byte of a word with a factor, as bytes or as halfwords."""
    if not halfwords:
        return (diagonal(value, background),)
    return tuple(
        tuple(
            (value if lane == half else background)
            | (value if lane == half + 1 else background) << 16
            for lane in range(WORD)
        )
        for half in (0, 2)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Sum(Layer):
    """Sum or difference of two tensors of one shape, which lie with the same distances.

    Attributes:
        stage: constants of the output stage.
        weights_of: factors of the operands, as they are stored.
        background: what a factor of zero is stored as.
    """

    stage: OutputStage
    weights_of: tuple[int, int]
    background: int = 0

    strips = True
    exact = True
    reading = True
    by_name = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: a step for each operand, or two with factors in halfwords."""
        return word_cycles(area, groups, 4 if self._halves else 2)

    @property
    def _halves(self) -> bool:
        return max(*self.weights_of, self.background) > _LARGEST_BYTE

    @property
    def matrices(self) -> tuple[Row, ...]:
        """Those of the factors of both operands."""
        return tuple(
            row
            for value in self.weights_of
            for row in factors(value, self.background, halfwords=self._halves)
        )

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for matrices that are packed into wide memory."""
        return narrow_bytes(self.matrices)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrices."""
        return len(self.matrices)

    def emit(self, context: Context) -> None:
        """Matrices, then one tensor operation."""
        rows = self.matrices
        first = matrices(context, rows, context.scratch)
        one, other = (context.tensors[name] for name in self.reads)
        result = context.tensors[self.writes]

        def make(tile: int) -> TensorOp | None:
            a, b, out = (covered(tensor, result, tile) for tensor in (one, other, result))
            if a is None or b is None or out is None:
                return None
            taps = [Axis("half", 2, 2, 0, QUARTER)] if self._halves else []
            taps.append(Axis("operand", 2, b.base - a.base, 0, len(rows) // 2 * QUARTER))
            return moves(
                a.base,
                out.base,
                first,
                taps,
                over(a, out),
                self.stage,
                c16=self._halves,
            )

        context.builder.on_tiles(make)


class VectorSum(Sum):
    """Sum or difference of two vectors."""

    makes_vector: ClassVar[bool] = True


def aligned(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Operands of sums with windows of equal width, so that their words lie at equal distances."""
    pairs = [
        [image for name in step.layer.reads if isinstance(image := step.tensors[name], Image)]
        for step in steps
        if isinstance(step.layer, Sum)
    ]
    widths = {image: image.columns.most for pair in pairs for image in pair}
    before: dict[Image, int] = {}
    # An image that several sums read passes its width on.
    while widths != before:
        before = dict(widths)
        for pair in pairs:
            most = max((widths[image] for image in pair), default=0)
            widths |= dict.fromkeys(pair, most)
    return {image: _as_wide(image, width) for image, width in widths.items()}


def _as_wide(image: Image, width: int) -> Image:
    """An image whose windows have so many columns."""
    return replace(image, columns=image.columns.with_most(width))


class Channels(Layer):
    """An image of one channel, with many of the same."""

    strips = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: a step for each word."""
        return word_cycles(area, groups, 1)

    @property
    def matrices(self) -> tuple[Row, ...]:
        """The one that repeats bytes."""
        return (_FIRST,)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for the matrix that is packed into wide memory."""
        return narrow_bytes(self.matrices)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrix."""
        return 1

    def emit(self, context: Context) -> None:
        """A tensor operation that reads each word again and again."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        row = matrices(context, self.matrices, context.scratch)

        def make(tile: int) -> TensorOp | None:
            before, after = covered(source, result, tile), result.cover(tile)
            if before is None or after is None:
                return None
            (words, _), *_ = after.dims
            _, *places = over(before, after)
            repeated = Axis("word", words, 0, WORD)
            places = [repeated, *places]
            return moves(before.base, after.base, row, [], places)

        context.builder.on_tiles(make)


_FIRST: Row = (1,) * WORD
"""The matrix that gives all lanes the first byte of a word."""


# --- rules ---------------------------------------------------------------------------------------


def _lies_in_rows(legalizer: Legalizer, call: Call) -> bool:
    """Whether an operand lies as an image whose pixels are rows of the result already."""
    after = call.result.type
    return math.prod(after.shape[:-1]) > 1 and any(
        shape[-1] == after.shape[-1] and math.prod(shape) == after.size
        for value in (call.operand(0), call.operand(1))
        for shape in images_of(legalizer, value)
    )


def _in_blocks(legalizer: Legalizer, call: Call) -> bool:
    """Whether the result and all operands that are computed are vectors of one size."""
    size, shape = call.result.type.size, call.result.type.shape
    values = call.operand(0), call.operand(1)
    return (len(shape) < IMAGE_RANK or math.prod(shape[:-1]) == 1) and all(
        is_vector(legalizer, value.name)
        and legalizer.type(legalizer.place(value.name)).size == size
        for value in values
        if value.data is None
    )


def _padded(type: TensorType) -> TensorType:
    """A type in the shape of images."""
    return replace(type, shape=(1,) * (IMAGE_RANK - len(type.shape)) + type.shape)


def _as_image(legalizer: Legalizer, value: Value) -> Value:
    """An operand in the shape of an image."""
    type = _padded(value.type)
    if value.data is not None:
        return replace(value, type=type, data=value.data.reshape(type.shape))
    place = legalizer.place(value.name)
    if not is_vector(legalizer, place) and legalizer.type(place).shape == type.shape:
        return replace(value, name=place, type=type)
    vector = as_vector(legalizer, place)
    return Value(as_image_of(legalizer, vector, type.shape, f"{value.name}.image"), type)


def elementwise(op: str) -> Callable[[Rule], Rule]:
    """Declare the rule for an operator of two operands that are repeated to one shape.

    The rule finds either vectors that need not be repeated, with constants that are not either, or
    operands and a result in the shape of images.
    """

    def declare(rule: Rule) -> Rule:
        def run(legalizer: Legalizer, call: Call) -> None:
            if _deep(call):
                _of_vectors(legalizer, call)
                return
            if _is_wide(call):
                _of_slices(legalizer, call)
                return
            values: tuple[Value, ...] = call.operand(0), call.operand(1)
            after = call.result.type
            result = call.result
            rows = len(after.shape) != IMAGE_RANK or after.shape[0] != 1
            if rows and (_lies_in_rows(legalizer, call) or not _in_blocks(legalizer, call)):
                fold_axes(legalizer, call)
                return
            if _in_blocks(legalizer, call):
                values = tuple(_whole(value, after) for value in values)
            else:
                found = {value.name: _as_image(legalizer, value) for value in values}
                values = tuple(found[value.name] for value in values)
            names = tuple(value.name for value in values)
            node = replace(call.node, inputs=names, outputs=(result.name,))
            rule(legalizer, replace(call, node=node, inputs=values, outputs=(result,)))

        return legalizes(op)(run)

    return declare


def _deep(call: Call) -> bool:
    """Whether a product has too many channels for an image, and can be one of vectors."""
    after = call.result.type
    values = call.operand(0), call.operand(1)
    return (
        call.node.op == "mul"
        and len(after.shape) > 1
        and after.shape[-1] > MOST_CHANNELS
        and all(value.type.size == after.size for value in values if value.data is None)
    )


def _of_vectors(legalizer: Legalizer, call: Call) -> None:
    """The operator for the elements one after the other."""
    rewriting, after, names = Rewriting.of(legalizer, call), call.result.type, list[str]()
    for value in (call.operand(0), call.operand(1)):
        if value.data is None and is_vector(legalizer, value.name):
            names.append(rewriting.reshape(value.name, (after.size,)))
            continue
        if value.data is None:
            # An image of as many channels would only become one again.
            vector = as_vector(legalizer, legalizer.place(value.name))
            if vector not in rewriting.graph.values:
                rewriting.graph.add_value(Value(vector, value.type.with_shape((after.size,))))
            names.append(vector)
            continue
        data = np.broadcast_to(value.data, after.shape).reshape(-1)
        names.append(rewriting.graph.add_constant(value.name, data, value.type.quantization))
    flat = replace(after, shape=(after.size,))
    product = rewriting.emit(call.node.op, names, flat, call.node.attributes)
    rewriting.reshape(product, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _is_wide(call: Call) -> bool:
    """Whether a product of an image and one of its pixels has too many channels for one layer."""
    after = call.result.type
    one, other = call.operand(0), call.operand(1)
    return (
        call.node.op == "mul"
        and len(after.shape) == IMAGE_RANK
        and after.shape[-1] > MOST_CHANNELS
        and one.name != other.name
        and scalar_of(one) is None
        and scalar_of(other) is None
    )


def _of_slices(legalizer: Legalizer, call: Call) -> None:
    """The operator for as many channels at a time as one layer can have."""
    rewriting, after, parts = Rewriting.of(legalizer, call), call.result.type, list[str]()
    every = range(after.shape[-1])
    for begin in every[::MOST_CHANNELS]:
        channels = every[begin : begin + MOST_CHANNELS]
        names = [_slice(rewriting, call.operand(index), channels) for index in (0, 1)]
        part = narrowed(after, channels)
        parts.append(rewriting.emit(call.node.op, names, part, call.node.attributes))
    joined = ConcatenationAttributes(len(after.shape) - 1)
    rewriting.emit("concatenation", parts, after, joined, result=call.result.name)
    rewriting.run(legalizer)


def _slice(rewriting: Rewriting, value: Value, channels: range) -> str:
    """Some channels of an operand; all of one that is the same for all channels."""
    if not value.type.shape or value.type.shape[-1] == 1:
        return value.name
    if value.data is None:
        axis = len(value.type.shape) - 1
        return rewriting.slice(value.name, axis, channels.start, len(channels))
    data = value.data[..., channels.start : channels.stop].copy()
    return rewriting.graph.add_constant(value.name, data, value.type.quantization)


def _whole(value: Value, after: TensorType) -> Value:
    """An operand in blocks; constants are repeated to the shape of the result."""
    if value.data is None:
        return value
    data = np.broadcast_to(value.data, after.shape).copy()
    return replace(value, type=replace(value.type, shape=after.shape), data=data)


def _operand(legalizer: Legalizer, call: Call, index: int, *, share: bool = False) -> str:
    """The name of an operand in the shape of the result.

    Args:
        legalizer: the graph.
        call: the operator.
        index: which operand.
        share: whether one pixel may stand for all.
    """
    value = call.operand(index)
    vector = _in_blocks(legalizer, call)
    if value.data is not None:
        channels = call.result.type.size if vector else call.result.type.shape[-1]
        name = constant(legalizer, value, vector=vector, channels=channels)
    else:
        name = legalizer.place(value.name)
    return name if vector else _repeated(legalizer, call, name, share=share)


def _repeated(legalizer: Legalizer, call: Call, name: str, *, share: bool) -> str:
    """An image whose rows, columns and channels are repeated to the shape of the result."""
    shape, type = call.result.type.shape, legalizer.type(name)
    height, width, channels = image_shape(legalizer, name)
    if channels != shape[-1]:
        wide = replace(type, shape=(*type.shape[:-1], shape[-1]))
        spread = temporary(legalizer, f"{name}.channels", wide)
        legalizer.layers.append(Channels(name=spread, reads=(name,), writes=spread))
        name, type = spread, wide
    if (1, height, width, shape[-1]) == shape or (share and (height, width) == (1, 1)):
        return name
    result = temporary(legalizer, f"{name}.repeated", replace(type, shape=shape))
    section = Section(
        Run(shape[1], stride=int(height > 1)), Run(shape[2], stride=int(width > 1)), shape[-1]
    )
    assemble(legalizer, result, result, legalizer.type(result), [(name, section)])
    return result


def add_sum(
    legalizer: Legalizer,
    name: str,
    reads: tuple[str, str],
    result: str,
    stage: OutputStage,
    weights: tuple[int, int],
    background: int = 0,
) -> None:
    """Add a layer for a sum of two tensors of one shape."""
    kind = VectorSum if is_vector(legalizer, reads[0]) else Sum
    legalizer.layers.append(
        kind(
            name=name,
            reads=reads,
            writes=result,
            stage=stage,
            weights_of=weights,
            background=background,
        )
    )


def _weighted(
    legalizer: Legalizer, call: Call, name: str, stage: OutputStage, weight: int, background: int
) -> None:
    """Add a layer for a tensor times a factor."""
    halfwords = max(weight, background) > _LARGEST_BYTE
    pointwise(
        legalizer,
        call.node.name,
        name,
        call.node.outputs[0],
        stage,
        rows=factors(weight, background, halfwords=halfwords),
        wide_factors=halfwords,
    )


def _sum_of(legalizer: Legalizer, call: Call, sign: int) -> None:
    stage = output_stage(call)
    types = call.type(0), call.type(1)
    scales = [float(np.float32(type.quantization.scale[0])) for type in types if type.quantization]
    first, second = sum_weights(scales[0], scales[1])
    background = second if sign < 0 else 0
    weights = first + background, sign * second + background
    node, result = call.node, call.node.outputs[0]
    for index in (0, 1):
        code = scalar_of(call.operand(index))
        if code is None:
            continue
        name = legalizer.place(node.inputs[1 - index] or "")
        if legalizer.type(name).size != call.result.type.size:
            continue
        # The constant's share is known: it is its factor times its stored value.
        known = code * (weights[index] - background)
        scaled = replace(stage, constant=stage.constant + known)
        _weighted(legalizer, call, name, scaled, weights[1 - index], background)
        return
    if node.inputs[0] == node.inputs[1]:
        both = first + sign * second + background
        name = legalizer.place(node.inputs[0] or "")
        _weighted(legalizer, call, name, stage, both, background)
        return
    reads = _operand(legalizer, call, 0), _operand(legalizer, call, 1)
    add_sum(legalizer, node.name, reads, result, stage, weights, background)


@elementwise("add")
def _add(legalizer: Legalizer, call: Call) -> None:
    _sum_of(legalizer, call, 1)


@elementwise("sub")
def _sub(legalizer: Legalizer, call: Call) -> None:
    _sum_of(legalizer, call, -1)


@elementwise("mul")
def _mul(legalizer: Legalizer, call: Call) -> None:
    stage, node, result = output_stage(call), call.node, call.node.outputs[0]
    for index in (0, 1):
        code = scalar_of(call.operand(index))
        name = legalizer.place(node.inputs[1 - index] or "")
        if code is None or legalizer.type(name).size != call.result.type.size:
            continue
        zeros = [unsigned_zero_point(call.type(k)) for k in (1 - index, index)]
        pointwise(
            legalizer,
            node.name,
            name,
            result,
            replace(stage, a_zero_point=zeros[0], c_zero_point=zeros[1]),
            rows=(diagonal(code, zeros[1]),),
        )
        return
    if node.inputs[0] == node.inputs[1]:
        zero = unsigned_zero_point(call.type(0))
        fit = fitted(codes(call), zero, unsigned_zero_point(call.result.type))
        if fit is not None:
            name = legalizer.place(node.inputs[0] or "")
            pointwise(legalizer, node.name, name, result, fit.stage, table=fit.table)
            return
    # The operand that makes the matrices is the one that may be the same everywhere.
    order = (0, 1) if call.type(0).size >= call.type(1).size else (1, 0)
    reads = (
        _operand(legalizer, call, order[0]),
        _operand(legalizer, call, order[1], share=True),
    )
    add_product(legalizer, node.name, reads, result, stage)


def add_product(
    legalizer: Legalizer, name: str, reads: tuple[str, str], result: str, stage: OutputStage
) -> None:
    """Add a layer for a product of two tensors; one pixel of the second may stand for all.

    Raises:
        UnsupportedError: they are images of too many channels.
    """
    zeros = [unsigned_zero_point(legalizer.type(operand)) for operand in reads]
    vector = is_vector(legalizer, reads[0])
    shapes = [legalizer.type(operand).shape for operand in reads]
    if not vector and shapes[0][-1] > MOST_CHANNELS:
        raise UnsupportedError(
            f"a product of {shapes[0][-1]} channels, of which {MOST_CHANNELS} fit",
            hint="reshape its operands, or repeat a constant, so that they have fewer",
        )
    legalizer.layers.append(
        (VectorProduct if vector else Product)(
            name=name,
            reads=reads,
            writes=result,
            stage=replace(stage, a_zero_point=zeros[0], c_zero_point=zeros[1]),
            shared=not vector and shapes[0] != shapes[1],
        )
    )


# --- maxima and minima, rectifiers with slopes ---------------------------------------------------

_DIFFERENCE = OutputStage(scale=1.0, minimum=0.0, maximum=float(LARGEST), c_zero_point=1)
"""Of stored values, as far as it is positive."""

_TOTAL = OutputStage(scale=1.0, minimum=0.0, maximum=float(LARGEST))


@elementwise("maximum")
@elementwise("minimum")
def _extremum(legalizer: Legalizer, call: Call) -> None:
    """The second operand and what the first exceeds it by, or the first less that."""
    node, after = call.node, call.result.type
    for index in (0, 1):
        value, other = call.operand(index), legalizer.place(node.inputs[1 - index] or "")
        code = scalar_of(value)
        if code is None or legalizer.type(other).size != after.size:
            continue
        assert value.type.quantization is not None
        real = (code - unsigned_zero_point(value.type)) * value.type.quantization.scale[0]
        bounds = (real, math.inf) if node.op == "maximum" else (-math.inf, real)
        stage = copy_stage(legalizer.type(other), after, bounds)
        pointwise(legalizer, node.name, other, node.outputs[0], stage)
        return
    reads = []
    for index in (0, 1):
        name = _operand(legalizer, call, index)
        before = legalizer.type(name)
        if not keeps_bytes(before, after):
            type = replace(after, shape=before.shape)
            converted = temporary(legalizer, f"{node.name}.operand", type)
            pointwise(legalizer, converted, name, converted, copy_stage(before, after))
            name = converted
        reads.append(name)
    excess = temporary(legalizer, f"{node.name}.excess", after)
    one, other = reads
    add_sum(legalizer, excess, (one, other), excess, _DIFFERENCE, (2, 0), 1)
    if node.op == "maximum":
        add_sum(legalizer, node.name, (other, excess), node.outputs[0], _TOTAL, (1, 1))
    else:
        add_sum(legalizer, node.name, (one, excess), node.outputs[0], _DIFFERENCE, (2, 0), 1)


@elementwise("prelu")
def _prelu(legalizer: Legalizer, call: Call) -> None:
    """The sum of the positive part, and of the negative part times its slope; one of them is 0."""
    node, before, after = call.node, call.type(0), call.result.type
    source = _operand(legalizer, call, 0)
    slope = _operand(legalizer, call, 1, share=True)
    zeros = [unsigned_zero_point(type) for type in (before, call.type(1), after)]
    positive = temporary(legalizer, f"{node.name}.positive", after)
    stage = copy_stage(before, after, (0.0, math.inf))
    pointwise(legalizer, positive, source, positive, stage)
    negative = temporary(legalizer, f"{node.name}.negative", replace(before, shape=after.shape))
    stage = replace(copy_stage(before, before, (-math.inf, 0.0)), scale=1.0)
    pointwise(legalizer, negative, source, negative, stage)
    scaled = temporary(legalizer, f"{node.name}.scaled", after)
    add_product(
        legalizer, scaled, (negative, slope), scaled, product_stage(before, call.type(1), after)
    )
    total = replace(
        _TOTAL,
        minimum=float(-zeros[2]),
        maximum=float(LARGEST - zeros[2]),
        constant=-2 * zeros[2],
        output_zero_point=zeros[2],
    )
    add_sum(legalizer, node.name, (positive, scaled), node.outputs[0], total, (1, 1))
