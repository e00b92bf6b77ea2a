"""Sums and differences of two tensors, and rules of what is made of sums and products.

A sum reads words of both operands in turn and multiplies them with factors in the proportion of
their scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.codegen.constants import constant, scalar_of
from fitzroy.compiler.targets.edgetpu.codegen.convolution import QUARTER
from fitzroy.compiler.targets.edgetpu.codegen.copies import Run, Section
from fitzroy.compiler.targets.edgetpu.codegen.functions import codes, fitted
from fitzroy.compiler.targets.edgetpu.codegen.layers import (
    Context,
    Layer,
    Step,
)
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.matrices import (
    Row,
    diagonal,
    matrices,
    moves,
    narrow_bytes,
)
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    WORD,
    Cover,
    Image,
    Placed,
    covered,
)
from fitzroy.compiler.targets.edgetpu.codegen.products import Product, VectorProduct
from fitzroy.compiler.targets.edgetpu.codegen.shapes import (
    assemble,
    image_shape,
    keeps_bytes,
    pixel,
    pointwise,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.codegen.vectors import is_vector
from fitzroy.compiler.targets.edgetpu.requantization import (
    LARGEST,
    OutputStage,
    copy_stage,
    output_stage,
    product_stage,
    sum_weights,
    unsigned_zero_point,
)
from fitzroy.hw_models.isa.tensor import TensorOp

Places = list[tuple[int, int, int, int]]

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


@dataclass(eq=False, kw_only=True)
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

    @property
    def _halves(self) -> bool:
        return max(*self.weights_of, self.background) > _LARGEST_BYTE

    def _rows(self) -> list[Row]:
        return [
            row
            for value in self.weights_of
            for row in factors(value, self.background, halfwords=self._halves)
        ]

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Matrices on their way."""
        return narrow_bytes(self._rows())

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Matrices."""
        return len(self._rows())

    def emit(self, context: Context) -> None:
        """Matrices, then one tensor operation."""
        builder, rows = context.builder, self._rows()
        first = builder.staging - len(rows)
        matrices(builder, rows, first, context.scratch)
        builder.barrier()
        one, other = (context.tensors[name] for name in self.reads)
        result = context.tensors[self.writes]

        def make(tile: int) -> TensorOp | None:
            a, b, out = (covered(tensor, result, tile) for tensor in (one, other, result))
            if a is None or b is None or out is None:
                return None
            taps = [(2, 2, QUARTER)] if self._halves else []
            taps.append((2, b.base - a.base, len(rows) // 2 * QUARTER))
            return moves(
                a.base, out.base, first, taps, _over(a, out), self.stage, halfwords=self._halves
            )

        builder.on_tiles(make)


class VectorSum(Sum):
    """Sum or difference of two vectors."""

    makes_vector: ClassVar[bool] = True


def _over(source: Cover, result: Cover) -> Places:
    return [
        (count, stride, other, 0)
        for (count, stride), (_, other) in zip(source.dims, result.dims, strict=True)
    ]


def align(steps: Iterable[Step]) -> None:
    """Give operands of sums windows of equal width, so that their words lie at equal distances."""
    pairs = [
        [image for name in step.layer.reads if isinstance(image := step.tensors[name], Image)]
        for step in steps
        if isinstance(step.layer, Sum)
    ]
    changed = True
    while changed:
        changed = False
        for pair in pairs:
            most = max((image.columns.most for image in pair), default=0)
            for image in pair:
                if image.columns.most < most:
                    slack = image.columns.slack + most - image.columns.most
                    image.columns = replace(image.columns, slack=slack)
                    changed = True


# --- rules ---------------------------------------------------------------------------------------


def _checked(call: Call) -> None:
    for value in (call.operand(0), call.operand(1), call.result):
        type = value.type
        if type.quantization is None or type.dtype not in (DType.INT8, DType.UINT8):
            raise UnsupportedError(
                f"{call.node.name!r}: {value.name!r} is {type}, not 8-bit quantized"
            )


def _in_blocks(legalizer: Legalizer, call: Call) -> bool:
    """Whether all operands that are computed are vectors of the size of the result."""
    names = [value.name for value in (call.operand(0), call.operand(1)) if value.data is None]
    return all(
        is_vector(legalizer, name)
        and legalizer.type(legalizer.place(name)).size == call.result.type.size
        for name in names
    )


def _operand(legalizer: Legalizer, call: Call, index: int, *, share: bool = False) -> str:
    """The name of an operand in the shape of the result.

    Args:
        legalizer: the graph.
        call: the operator.
        index: which operand.
        share: whether one pixel may stand for all.
    """
    value, shape = call.operand(index), call.result.type.shape
    vector = _in_blocks(legalizer, call)
    if value.data is not None:
        if vector and value.type.size not in (1, math.prod(shape)):
            raise UnsupportedError(f"{call.node.name!r} repeats a constant along a vector")
        size = math.prod(shape) if vector else shape[-1]
        name = constant(legalizer, value, vector=vector, channels=size)
    else:
        name = legalizer.place(value.name)
    if vector:
        return name
    if is_vector(legalizer, name):
        name = pixel(legalizer, name)
    return _repeated(legalizer, call, name, share=share)


def _repeated(legalizer: Legalizer, call: Call, name: str, *, share: bool) -> str:
    """An image whose rows and columns are repeated to the shape of the result."""
    shape, type = call.result.type.shape, legalizer.type(name)
    height, width, channels = image_shape(legalizer, name)
    if (1, height, width, channels) == shape or (share and (height, width) == (1, 1)):
        return name
    if channels != shape[-1]:
        raise UnsupportedError(
            f"{call.node.name!r} repeats {channels} channels to {shape[-1]}",
            hint="repeat them with a concatenation",
        )
    result = temporary(legalizer, f"{name}.repeated", replace(type, shape=shape))
    section = Section(
        Run(shape[1], stride=int(height > 1)), Run(shape[2], stride=int(width > 1)), channels
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
    _checked(call)
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


@legalizes("add")
def _add(legalizer: Legalizer, call: Call) -> None:
    _sum_of(legalizer, call, 1)


@legalizes("sub")
def _sub(legalizer: Legalizer, call: Call) -> None:
    _sum_of(legalizer, call, -1)


@legalizes("mul")
def _mul(legalizer: Legalizer, call: Call) -> None:
    _checked(call)
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
        fit = fitted(codes(legalizer.graph, node), zero, unsigned_zero_point(call.result.type))
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
    """Add a layer for a product of two tensors; one pixel of the second may stand for all."""
    zeros = [unsigned_zero_point(legalizer.type(operand)) for operand in reads]
    vector = is_vector(legalizer, reads[0])
    shapes = [legalizer.type(operand).shape for operand in reads]
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


@legalizes("maximum")
@legalizes("minimum")
def _extremum(legalizer: Legalizer, call: Call) -> None:
    """The second operand and what the first exceeds it by, or the first less that."""
    _checked(call)
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


@legalizes("prelu")
def _prelu(legalizer: Legalizer, call: Call) -> None:
    """What is positive, and what is negative times its slope: one of them is always zero."""
    _checked(call)
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
