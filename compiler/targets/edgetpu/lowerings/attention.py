"""Attention without transpositions: products of matrices that are parts of images.

Models make the matrices of a product by reshaping, dividing and transposing an image. Here the
elements of every matrix are followed back to the image that they come from. If they are some of
its rows and channels, a slice of the image takes the place of all of these operators. Products of
several matrices become one for each, and so do functions of their elements and softmax between two
products. What is made of the results is followed in the same way: where it is an image again, its
parts are joined as they are. Attention within windows stays together, head by head
(`window_attention`).
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten
from fitzroy.compiler.targets.edgetpu.lowerings.batch_matmul import MOST_MATRICES
from fitzroy.compiler.targets.edgetpu.lowerings.traces import (
    MOVES,
    Numbers,
    Trace,
    is_of_elements,
    is_product,
    traces,
)
from fitzroy.compiler.targets.edgetpu.lowerings.window_attention import MOST_TOGETHER, by_heads
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid

_MOST_AT_ONCE = 3 << 16
"""Elements of all matrices together up to which functions are computed for all of them at once. One
softmax takes fewer instructions than many; joining larger matrices costs more than that saves."""


@dataclass(frozen=True, slots=True)
class _Matrices:
    """A value, or an operand, as matrices, one after the other.

    Attributes:
        names: images [1,1,rows,columns] of one shape.
        height: rows of pixels of the images that they are views of.
        swapped: whether the value has them transposed.
    """

    names: tuple[str, ...]
    height: int
    swapped: bool


def taken_apart(graph: Graph) -> Rewritten:
    """A graph of the same meaning, in which products of computed matrices have slices of images.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such products.
    """
    heads = by_heads(graph)
    return heads.then(partial(_by_matrices, kept=frozenset(heads.origins)))


def _by_matrices(graph: Graph, kept: Container[str]) -> Rewritten:
    """A graph whose products are those of single matrices, but for some nodes."""
    nodes = [node for node in graph.nodes() if node.name not in kept]
    if not any(is_product(graph, node) for node in nodes):
        return Rewritten(graph)
    work = _Work(graph.copy())
    for node in nodes:
        work.visit(node)
    work.join(graph)
    return work.finished()


@dataclass
class _Work(Rewriter[Node]):
    """A graph that is taken apart node by node.

    Attributes:
        stacks: results that are matrices, by name.
        wholes: for some of these, all matrices as one value [1,matrices,rows,columns].
    """

    stacks: dict[str, _Matrices] = field(default_factory=dict)
    wholes: dict[str, str] = field(default_factory=dict)

    # --- nodes ---------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """Take a node apart if it is a product, or reads one."""
        if is_product(self.graph, node):
            self._product(node)
        elif node.op == "softmax" or is_of_elements(self.graph, node):
            self._each(node)

    def _product(self, node: Node) -> None:
        attributes, after = node.attributes, self.graph.type(node.outputs[0])
        assert isinstance(attributes, BatchMatMulAttributes)
        if math.prod(after.shape[:-2]) > MOST_MATRICES:
            return
        found = [self._matrices(name or "", node) for name in node.inputs]
        left, right = found
        if left is None or right is None or len(left.names) != len(right.names):
            return
        swaps = left.swapped ^ attributes.adj_x, right.swapped ^ attributes.adj_y
        if swaps[0] and not swaps[1]:
            # Rows of the first matrix are no pixels.
            return
        if swaps[0]:
            # The transposed product has the operands in the other order.
            pairs = [(b, a, False) for a, b in zip(left.names, right.names, strict=True)]
        else:
            pairs = [(a, b, swaps[1]) for a, b in zip(left.names, right.names, strict=True)]
        rows, columns = after.shape[-2:]
        shape = (1, 1, columns, rows) if swaps[0] else (1, 1, rows, columns)
        single, origin = replace(after, shape=shape), node.name
        parts = tuple(
            self.emit(origin, "batch_matmul", [a, b], single, BatchMatMulAttributes(False, adj))
            for a, b, adj in pairs
        )
        height = (right if swaps[0] else left).height
        self.stacks[node.outputs[0]] = _Matrices(parts, height, swaps[0])

    def _each(self, node: Node) -> None:
        """A function of matrices, for each of them."""
        stack = self.stacks.get(node.inputs[0] or "")
        if stack is None or (stack.swapped and node.op == "softmax"):
            return
        after = self.graph.type(node.outputs[0])
        if not stack.swapped and len(stack.names) > 1 and after.size <= _MOST_AT_ONCE:
            self._at_once(node, stack)
            return
        parts = tuple(
            self.emit(
                node.name,
                node.op,
                [part, *node.inputs[1:]],
                replace(after, shape=self.graph.type(part).shape),
                node.attributes,
            )
            for part in stack.names
        )
        self.stacks[node.outputs[0]] = replace(stack, names=parts)

    def _at_once(self, node: Node, stack: _Matrices) -> None:
        """A function of matrices, computed for all of them together."""
        whole = self.wholes.get(str(node.inputs[0])) or self._below_each_other(node.name, stack)
        type = replace(self.graph.type(node.outputs[0]), shape=self.graph.type(whole).shape)
        inputs = [whole, *node.inputs[1:]]
        whole = self.emit(node.name, node.op, inputs, type, node.attributes)
        part = self.graph.type(stack.names[0]).shape
        type = replace(type, shape=part)
        names = []
        for number in range(len(stack.names)):
            taken = StridedSliceAttributes((0, number, 0, 0), part, (1, 1, 1, 1))
            names.append(self.emit(node.name, "strided_slice", [whole], type, taken))
        self.stacks[node.outputs[0]] = replace(stack, names=tuple(names))
        self.wholes[node.outputs[0]] = whole

    def _below_each_other(self, origin: str, stack: _Matrices) -> str:
        """Matrices as one value [1,matrices,rows,columns]."""
        type = self.graph.type(stack.names[0])
        whole = replace(type, shape=(1, len(stack.names), *type.shape[2:]))
        return self._joined(origin, stack.names, whole, 1)

    # --- operands ------------------------------------------------------------------------------

    def _matrices(self, name: str, product: Node) -> _Matrices | None:
        """The matrices of an operand as parts of a value before it, the furthest possible.

        Returns:
            None if they cannot be sliced from an image, and may stay together.
        """
        for trace in reversed(traces(self.graph, name, self.stacks)):
            shape = trace.numbers.shape
            numbers = trace.numbers.reshape(-1, *shape[-2:])
            stack = self.stacks.get(trace.root)
            found = (
                self._of_image(trace.root, numbers, whole=trace.root == name)
                if stack is None
                else self._of_stack(stack, numbers)
            )
            if found is not None:
                names = [self._applied(trace.between, one, product) for one in found.names]
                return replace(found, names=tuple(names))
        sizes = [self.graph.type(str(one)).size for one in (*product.inputs, *product.outputs)]
        return self._of_value(name, product) if max(sizes) > MOST_TOGETHER else None

    def _of_value(self, name: str, product: Node) -> _Matrices:
        """Matrices as rows of the value that has them, each spread over a grid of tiles."""
        type = self.graph.type(name)
        count, (rows, columns) = math.prod(type.shape[:-2]), type.shape[-2:]
        height, width = grid(rows)
        whole = self._reshape(product.name, name, (1, count * height, width, columns))
        part = replace(type, shape=(1, height, width, columns))
        names = []
        for number in range(count):
            one = whole
            if count > 1:
                begin = (0, number * height, 0, 0)
                taken = StridedSliceAttributes(begin, part.shape, (1, 1, 1, 1))
                one = self.emit(product.name, "strided_slice", [whole], part, taken)
            names.append(self._reshape(product.name, one, (1, 1, rows, columns)))
        return _Matrices(tuple(names), height, swapped=False)

    def _of_stack(self, stack: _Matrices, numbers: Numbers) -> _Matrices | None:
        """Matrices that are those of a stack."""
        size = numbers[0].size
        first = numbers.reshape(len(numbers), -1).min(axis=1)
        if len(numbers) > len(stack.names) or np.any(first % size):
            return None
        names = tuple(stack.names[number] for number in (first // size).tolist())
        if any(self.graph.type(part).size != size for part in names):
            return None
        plain = np.arange(size).reshape(numbers.shape[1:])
        if np.array_equal(numbers - first[:, None, None], np.broadcast_to(plain, numbers.shape)):
            return replace(stack, names=names)
        plain = np.arange(size).reshape(numbers.shape[:0:-1]).T
        if np.array_equal(numbers - first[:, None, None], np.broadcast_to(plain, numbers.shape)):
            return replace(stack, names=names, swapped=not stack.swapped)
        return None

    def _of_image(self, root: str, numbers: Numbers, *, whole: bool) -> _Matrices | None:
        """Matrices that are rows and channels of an image, which nothing moves if they are it."""
        for swapped, matrices in ((False, numbers), (True, numbers.swapaxes(1, 2))):
            rows = None if whole else matrices.shape[1]
            shape = _as_pixels(self.graph.type(root).shape, rows)
            boxes = [] if shape is None else [_box(one, shape) for one in matrices]
            found = [box for box in boxes if box is not None]
            if shape is not None and len(found) == len(matrices):
                names = tuple(self._slice(root, shape, box) for box in found)
                return _Matrices(names, found[0][1], swapped)
        return None

    def _slice(self, root: str, shape: Sequence[int], box: tuple[int, int, int, int]) -> str:
        """Some rows and channels of an image, as [1,1,pixels,channels]."""
        top, rows, first, channels = box
        type, origin = self.graph.type(root), self._origin(root)
        _, _, width, _ = shape
        part = replace(type, shape=(1, rows, width, channels))
        name = self._reshape(origin, root, shape)
        if part.shape != shape:
            taken = StridedSliceAttributes((0, top, 0, first), part.shape, (1, 1, 1, 1))
            name = self.emit(origin, "strided_slice", [name], part, taken)
        return self._reshape(origin, name, (1, 1, rows * width, channels))

    def _applied(self, between: Sequence[Node], name: str, product: Node) -> str:
        """Functions of single elements, of a part instead of the whole."""
        for node in between:
            type = self.graph.type(node.outputs[0])
            own = replace(type, shape=self.graph.type(name).shape)
            inputs = [name, *node.inputs[1:]]
            name = self.emit(self._known(node.name), node.op, inputs, own, node.attributes)
        return name

    # --- results -------------------------------------------------------------------------------

    def join(self, before: Graph) -> None:
        """Make values of matrices, and of parts of images, for those that read them.

        Args:
            before: the graph before it was taken apart.
        """
        for node in before.nodes():
            for name in node.outputs:
                if node.op in MOVES and self._is_needed(name):
                    self._as_image(name, node)
        for name, stack in self.stacks.items():
            if name in self.graph.outputs or self.graph.consumers(name):
                self._put(name, stack)

    def _is_needed(self, name: str) -> bool:
        """Whether a value is read otherwise than to move its elements, or goes out."""
        readers = self.graph.consumers(name)
        return name in self.graph.outputs or any(reader.op not in MOVES for reader in readers)

    def _put(self, name: str, stack: _Matrices) -> None:
        """A stack as the value that it is, for those that need all of it."""
        origin, after = self._known(self._producer(name)), self.graph.type(name)
        type = self.graph.type(stack.names[0])
        count, (rows, columns) = len(stack.names), type.shape[2:]
        width = rows // stack.height
        # As the images lie, so that their pixels stay where they are.
        parts = [
            self._reshape(origin, one, (1, stack.height, width, columns)) for one in stack.names
        ]
        whole = replace(after, shape=(1, count * stack.height, width, columns))
        joined = self.wholes.get(name) or self._joined(origin, parts, whole, 1)
        if stack.swapped:
            joined = self._reshape(origin, joined, (1, count, rows, columns))
            turned = replace(after, shape=(1, count, columns, rows))
            perm = TransposeAttributes((0, 1, 3, 2))
            joined = self.emit(origin, "transpose", [joined], turned, perm)
        self._replace(name, self._reshape(origin, joined, after.shape))

    def _as_image(self, name: str, node: Node) -> None:
        """An image of parts of another, or of matrices, in place of operators that move them."""
        whole = self.graph.type(name)
        found = traces(self.graph, name, self.stacks)
        if len(found) < 3 or (name in self.graph.outputs and len(node.outputs) > 1):
            return
        trace = found[-1]
        stack = self.stacks.get(trace.root)
        rows = None if stack is None else self.graph.type(stack.names[0]).shape[2]
        shape = _as_pixels(whole.shape, rows)
        if shape is None or trace.between:
            return
        after = replace(whole, shape=shape)
        if stack is None:
            made = self._channels(trace, after, node)
        else:
            made = self._of_matrices(stack, trace.numbers.reshape(shape), after, node)
        if made is not None:
            self._replace(name, self._reshape(node.name, made, whole.shape))

    def _channels(self, trace: Trace, after: TensorType, node: Node) -> str | None:
        """An image of runs of channels of another one of as many pixels."""
        before = self.graph.type(trace.root)
        if len(before.shape) != len(after.shape) or before.shape[:3] != after.shape[:3]:
            return None
        if trace.numbers.shape != after.shape:
            return None
        _, height, width, depth = before.shape
        taken = trace.numbers[0, 0, 0]
        pixels = depth * np.arange(height * width).reshape(height, width, 1)
        if taken.max() >= depth or not np.array_equal(trace.numbers[0], pixels + taken):
            return None
        ends = np.flatnonzero(np.diff(taken) != 1) + 1
        parts = []
        for run in np.split(taken, ends):
            part = replace(before, shape=(1, height, width, len(run)))
            begin = (0, 0, 0, int(run[0]))
            sliced = StridedSliceAttributes(begin, part.shape, (1, 1, 1, 1))
            parts.append(self.emit(node.name, "strided_slice", [trace.root], part, sliced))
        return self._joined(node.name, parts, after, 3)

    def _of_matrices(
        self, stack: _Matrices, numbers: Numbers, after: TensorType, node: Node
    ) -> str | None:
        """An image of which each matrix has some rows and channels."""
        _, _, rows, columns = self.graph.type(stack.names[0]).shape
        size, (height, width, depth) = rows * columns, after.shape[1:]
        if rows % width or depth % columns or height * width * depth != size * len(stack.names):
            return None
        plain = np.arange(size).reshape(rows, columns)
        if stack.swapped:
            # Numbers count elements of the value, which has the matrices transposed.
            plain = np.arange(size).reshape(columns, rows).T
        tall, bands = rows // width, list[str]()
        for top in range(0, height, tall):
            band = list[str]()
            for first in range(0, depth, columns):
                box = numbers[0, top : top + tall, :, first : first + columns]
                number, rest = divmod(int(box.min()), size)
                if rest or not np.array_equal(box.reshape(rows, columns) - number * size, plain):
                    return None
                shape = (1, tall, width, columns)
                band.append(self._reshape(node.name, stack.names[number], shape))
            bands.append(
                self._joined(node.name, band, replace(after, shape=(1, tall, width, depth)), 3)
            )
        return self._joined(node.name, bands, after, 1)

    # --- building ------------------------------------------------------------------------------

    def _producer(self, name: str) -> str:
        node = self.graph.producer(name)
        assert node is not None, "constants and inputs are no stacks"
        return node.name

    def _origin(self, name: str) -> str:
        """The node of the model that a slice of a value stands for: the first reader."""
        return self._known(self.graph.consumers(name)[0].name)

    def _known(self, node: str) -> str:
        return self.origins.get(node, node)

    def _reshape(self, origin: str, name: str, shape: Sequence[int]) -> str:
        type = replace(self.graph.type(name), shape=tuple(shape))
        if self.graph.type(name).shape == type.shape:
            return name
        return self.emit(origin, "reshape", [name], type, ReshapeAttributes(type.shape))

    def _joined(self, origin: str, parts: Sequence[str], type: TensorType, axis: int) -> str:
        if len(parts) == 1:
            return parts[0]
        return self.emit(origin, "concatenation", parts, type, ConcatenationAttributes(axis))

    def _replace(self, name: str, new: str) -> None:
        """Let those that read a value read another one, unless it goes out by its name."""
        if name in self.graph.outputs:
            self.graph.remove(self._producer(name))
            self.graph.retarget(new, name)
        else:
            self.graph.replace_uses(name, new)


def _as_pixels(shape: Sequence[int], rows: int | None = None) -> tuple[int, ...] | None:
    """A shape as that of one image: itself, or rows of pixels; None if it has several.

    Args:
        shape: the shape.
        rows: pixels of a row, unless it is an image already; all of them if they cannot be divided.
    """
    if len(shape) == 4:
        return tuple(shape) if shape[0] == 1 else None
    if not shape:
        return None
    count = math.prod(shape[:-1])
    width = count if rows is None or count % rows else rows
    return 1, count // width, width, shape[-1]


def _box(numbers: Numbers, shape: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Rows and channels of an image [1,H,W,C] that a matrix is: the first, and how many, of each.

    Returns:
        None if it is something else.
    """
    _, _, width, depth = shape
    rows, columns = numbers.shape
    pixel, channel = divmod(int(numbers[0, 0]), depth)
    if rows % width or pixel % width or channel + columns > depth:
        return None
    plain = numbers[0, 0] + depth * np.arange(rows)[:, None] + np.arange(columns)
    if not np.array_equal(numbers, plain):
        return None
    return pixel // width, rows // width, channel, columns
