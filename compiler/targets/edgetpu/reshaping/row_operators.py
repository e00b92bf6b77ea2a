"""Operators of rows on values that are images one after the other, image by image.

The heads of detectors reshape the images of several scales to rows, and join them. What follows
works on rows by themselves: it adds or multiplies elements, cuts and joins rows, takes their
softmax, or multiplies them with a matrix. Pixels of the images are such rows, or several of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Attributes, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, several
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import keeps_bytes
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_MOST_ROWS = 32
"""Most rows that a pixel is divided into, each of which becomes a slice of its own."""

_CHANNELS = IMAGE_RANK - 1


@dataclass(frozen=True, slots=True)
class _Rows:
    """Computed operands as rows of images.

    Attributes:
        parts: by name of each operand, its images, one after the other.
        grids: rows and columns of the images, which are those of all operands.
        each: rows of an operand in a pixel.
    """

    parts: dict[str, tuple[str, ...]]
    grids: tuple[tuple[int, int], ...]
    each: int

    def spans(self) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """The first pixel of every image, the end of its pixels, and its grid."""
        first = 0
        for height, width in self.grids:
            yield first, first + height * width, (height, width)
            first += height * width


def apply_to_rows(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an operator of rows for each image of its operands, if these are views.

    Returns:
        Whether it did; otherwise the rule of the operator applies.
    """
    if several(call.type()):
        return False
    if _takes_images(legalizer, call):
        return True
    if not _works_on_rows(legalizer, call):
        return False
    rows = _rows(legalizer, call)
    if rows is None:
        return False
    rewriting, results = Rewriting.of(legalizer, call), list[list[str]]()
    for number, (first, end, grid) in enumerate(rows.spans()):
        parts = {name: found[number] for name, found in rows.parts.items()}
        part = _Part(rewriting, call, parts, (first, end), grid, rows.each)
        results.append(part.results())
    rewriting.run(legalizer)
    for index, value in enumerate(call.outputs):
        legalizer.views[value.name] = tuple(legalizer.place(found[index]) for found in results)
    return True


def _takes_images(legalizer: Legalizer, call: Call) -> bool:
    """Whether some of the first rows of a view are taken that are whole images, which then stay."""
    before, after, a = call.type(), call.result.type, call.node.attributes
    parts = legalizer.views.get(call.node.inputs[0] or "", ()) if call.node.inputs else ()
    if (
        not isinstance(a, StridedSliceAttributes)
        or len(parts) < 2
        or not keeps_bytes(before, after)
    ):
        return False
    if after.shape[1:] != before.shape[1:] or a.stride[0] != 1:
        return False
    row = before.size // before.shape[0]
    ends = np.cumsum([0, *(legalizer.type(part).size for part in parts)]).tolist()
    first, last = a.begin[0] * row, (a.begin[0] + after.shape[0]) * row
    if first not in ends or last not in ends:
        return False
    legalizer.views[call.result.name] = parts[ends.index(first) : ends.index(last)]
    return True


def _works_on_rows(legalizer: Legalizer, call: Call) -> bool:
    """Whether every row of the results depends on the same row of the operands alone."""
    shape, attributes = call.type().shape, call.node.attributes
    match attributes:
        case SoftmaxAttributes():
            return True
        case ConcatenationAttributes(axis):
            return axis == len(shape) - 1 and not any(
                value is None or value.is_constant for value in call.inputs
            )
        case SplitAttributes(axis):
            return axis == len(shape) - 1
        case StridedSliceAttributes(begin, size, stride):
            return (
                not any(begin[:-1]) and tuple(size[:-1]) == shape[:-1] and set(stride) == {1}
            )  # fmt: skip
        case ConvAttributes():
            kernel = call.type(1).shape[1:3]
            return call.node.op == "conv_2d" and kernel == (1, 1) and attributes.stride == (1, 1)
        case FullyConnectedAttributes(_, keep_num_dims):
            # Fewer rows are multiplied as one vector.
            large = call.type().size > legalizer.options.copied_bytes
            return keep_num_dims and large and call.operand(1).is_constant
    return OPS[call.node.op].elementwise and len(call.inputs) > 1


def _rows(legalizer: Legalizer, call: Call) -> _Rows | None:
    """The computed operands as rows of the same images; None if they are not."""
    count = len(call.inputs) if OPS[call.node.op].elementwise or _joins(call) else 1
    values = [value for value in call.inputs[:count] if value is not None and not value.is_constant]
    leading = {value.type.shape[:-1] for value in values}
    found, grids, each = (
        dict[str, tuple[str, ...]](),
        set[tuple[tuple[int, int], ...]](),
        set[int](),
    )
    if not any(value.name in legalizer.views for value in values) or len(leading) != 1:
        return None
    if {value.type.shape[:-1] for value in call.outputs} != leading:
        return None
    for value in values:
        parts = legalizer.parts(value.name)
        types = [legalizer.type(part) for part in parts]
        if not all(_is_image(legalizer, part, value.type) for part in parts):
            return None
        found[value.name] = parts
        grids.add(tuple((type.shape[1], type.shape[2]) for type in types))
        each |= {type.shape[-1] // value.type.shape[-1] for type in types}
    if len(grids) != 1 or len(each) != 1 or max(each) > _MOST_ROWS:
        return None
    alone = max(each) == 1 and any((1, 1) in images for images in grids)
    if alone and isinstance(call.node.attributes, SoftmaxAttributes):
        # A row alone is rounded as in float32; beside others, as by tables.
        return None
    widths = {value.type.shape[-1] for value in values}
    if OPS[call.node.op].elementwise and max(each) > 1 and len(widths) > 1:
        # A pixel holds several rows: one element per row would not be repeated along its own row.
        return None
    return _Rows(found, grids.pop(), each.pop())


def _joins(call: Call) -> bool:
    return isinstance(call.node.attributes, ConcatenationAttributes)


def _is_image(legalizer: Legalizer, part: str, type: TensorType) -> bool:
    """Whether a part of a value is an image of whole rows of it."""
    own = legalizer.type(part)
    return (
        not is_vector(legalizer, part)
        and len(own.shape) == IMAGE_RANK
        and not several(own)
        and type.rank > 0
        and own.shape[-1] % type.shape[-1] == 0
        and (own.dtype, own.quantization) == (type.dtype, type.quantization)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """An operator of rows for one image.

    Attributes:
        rewriting: what takes the operator's place.
        call: the operator.
        parts: the images that its computed operands are, by the names of these.
        span: the first pixel among those of all images, and the end.
        grid: rows and columns of the image.
        each: rows in a pixel.
    """

    rewriting: Rewriting
    call: Call
    parts: dict[str, str]
    span: tuple[int, int]
    grid: tuple[int, int]
    each: int

    def results(self) -> list[str]:
        """Append the nodes; returns the names of their results, one for each of the operator."""
        for name, part in self.parts.items():
            if part not in self.rewriting.graph.values:
                type = self._image(self.call.inputs, name)
                self.rewriting.graph.add_value(Value(part, type))
        attributes = self.call.node.attributes
        match attributes:
            case SoftmaxAttributes():
                return [self._by_rows(attributes)]
            case ConcatenationAttributes():
                return [self._joined()]
            case SplitAttributes(_, sizes):
                begins = np.cumsum([0, *sizes[:-1]]).tolist()
                return [
                    self._cut(index, begin, size)
                    for index, (begin, size) in enumerate(zip(begins, sizes, strict=True))
                ]
            case StridedSliceAttributes(begin, size, _):
                return [self._cut(0, begin[-1], size[-1])]
            case ConvAttributes():
                return [self._multiplied(attributes, self.call.operand(1))]
            case FullyConnectedAttributes(activation):
                a = ConvAttributes(padding=PaddingScheme.VALID, activation=activation)
                return [self._multiplied(a, self._filters())]
        return [self._of_elements()]

    def _image(self, values: Sequence[Value | None], name: str) -> TensorType:
        """Type of the image that a value has here."""
        type = next(value.type for value in values if value is not None and value.name == name)
        return replace(type, shape=(1, *self.grid, self.each * type.shape[-1]))

    @property
    def _operands(self) -> list[str]:
        """The images that the computed operands are."""
        return [self.parts[name] for name in self.call.node.inputs if name in self.parts]

    def _row(self, name: str, number: int, begin: int, count: int) -> str:
        """Some elements of a row of every pixel of an image."""
        width = self.rewriting.graph.type(name).shape[-1] // self.each
        if self.each == 1 and count == width:
            return name
        return self.rewriting.slice(name, _CHANNELS, number * width + begin, count)

    def _together(self, rows: Sequence[str], type: TensorType) -> str:
        """Rows of a pixel as one again."""
        if len(rows) == 1:
            return rows[0]
        depth = sum(self.rewriting.graph.type(row).shape[-1] for row in rows)
        whole = replace(type, shape=(1, *self.grid, depth))
        return self.rewriting.emit("concatenation", rows, whole, ConcatenationAttributes(_CHANNELS))

    def _by_rows(self, attributes: Attributes) -> str:
        """An operator of one operand, for every row of a pixel."""
        (source,), after = self._operands, self.call.result.type
        width = self.call.type().shape[-1]
        type = replace(after, shape=(1, *self.grid, after.shape[-1]))
        rows = [
            self.rewriting.emit(
                self.call.node.op, [self._row(source, number, 0, width)], type, attributes
            )
            for number in range(self.each)
        ]
        return self._together(rows, after)

    def _cut(self, index: int, begin: int, count: int) -> str:
        """Some elements of every row, requantized if the result has another quantization."""
        (source,), after = self._operands, self.call.outputs[index].type
        rows = [self._row(source, number, begin, count) for number in range(self.each)]
        return self._requantized(self._together(rows, self.call.type()), after)

    def _requantized(self, name: str, after: TensorType) -> str:
        """An image in the quantization of a result."""
        type = self.rewriting.graph.type(name)
        if (type.dtype, type.quantization) == (after.dtype, after.quantization):
            return name
        return self.rewriting.emit("quantize", [name], replace(after, shape=type.shape))

    def _joined(self) -> str:
        """Rows of several operands, one after the other."""
        rows = [
            self._row(name, number, 0, self.rewriting.graph.type(name).shape[-1] // self.each)
            for number in range(self.each)
            for name in self._operands
        ]
        after = self.call.result.type
        return self._requantized(self._together(rows, after), after)

    def _filters(self) -> Value:
        """A matrix [O,I] as filters of one pixel."""
        matrix = self.call.operand(1)
        assert matrix.data is not None, "a condition of the operator"
        outputs, inputs = matrix.type.shape
        data = matrix.data.reshape(outputs, 1, 1, inputs)
        name = self.rewriting.graph.add_constant(matrix.name, data, matrix.type.quantization)
        return self.rewriting.graph.value(name)

    def _multiplied(self, attributes: ConvAttributes, weights: Value) -> str:
        """Rows times a matrix: all rows of a pixel at once, with zeros between them."""
        bias = self.call.optional(2)
        operands = [*self._operands, weights.name, None if bias is None else bias.name]
        if self.each > 1:
            operands[1:] = [
                self._repeated(weights, _on_diagonal(weights, self.each)),
                None if bias is None else self._repeated(bias, _again(bias, self.each)),
            ]
        type = self._image(self.call.outputs, self.call.result.name)
        return self.rewriting.emit("conv_2d", operands, type, attributes)

    def _repeated(self, value: Value, data: Array) -> str:
        """A constant for as many output channels more."""
        quantization = value.type.quantization
        if quantization is not None and not quantization.is_per_tensor:
            quantization = replace(
                quantization,
                scale=quantization.scale * self.each,
                zero_point=quantization.zero_point * self.each,
            )
        return self.rewriting.graph.add_constant(value.name, data, quantization)

    def _of_elements(self) -> str:
        """Elements of images and of constants, which are cut in the same way."""
        operands = []
        for name, value in zip(self.call.node.inputs, self.call.inputs, strict=True):
            if value is None or name in self.parts:
                operands.append(None if name is None else self.parts[name])
            else:
                operands.append(self._constant(value))
        type = self._image(self.call.outputs, self.call.result.name)
        return self.rewriting.emit(self.call.node.op, operands, type, self.call.node.attributes)

    def _constant(self, value: Value) -> str:
        """The elements of a constant that the image's pixels meet."""
        data = value.data
        assert data is not None, "operands are images or constants"
        if data.size == 1:
            return value.name
        whole = np.broadcast_to(data, self.call.result.type.shape)
        pixels = whole.reshape(-1, self.each * whole.shape[-1])[slice(*self.span)]
        own = np.ascontiguousarray(pixels.reshape(1, *self.grid, -1))
        return self.rewriting.graph.add_constant(value.name, own, value.type.quantization)


def _on_diagonal(weights: Value, count: int) -> Array:
    """Weights [O,1,1,I] as [count O,1,1,count I], with zero points beside each other's."""
    data, quantization = weights.data, weights.type.quantization
    assert data is not None, "a condition of the operator"
    assert quantization is not None, "a condition of the operator"
    outputs, _, _, inputs = data.shape
    zeros = np.broadcast_to(np.asarray(quantization.zero_point), (outputs,))
    found = np.empty((count, outputs, 1, 1, count, inputs), data.dtype)
    found[:] = zeros.reshape(1, outputs, 1, 1, 1, 1)
    for number in range(count):
        found[number, :, 0, 0, number] = data[:, 0, 0]
    return found.reshape(count * outputs, 1, 1, count * inputs)


def _again(bias: Value, count: int) -> Array:
    """Biases of all rows of a pixel."""
    assert bias.data is not None, "a condition of the operator"
    return np.tile(bias.data, count)
