"""Makes nodes of the graph and keeps the layout of every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.onnx.values import (
    Refusal,
    Shape,
    Tensor,
    channels_last,
    groups,
    identity,
    inverse,
    shuffled,
    without_units,
)
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node, Origin, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Expected, TypeRuleError
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, TransposeAttributes
from fitzroy.compiler.reference import evaluate_node
from fitzroy.hw_models.numerics import Arithmetic

_COMPUTED = {DType.FLOAT16: DType.FLOAT32, DType.FLOAT64: DType.FLOAT32}
"""Element types that are computed as others."""


def graph_type(dtype: DType) -> DType:
    """The element type in which the graph computes values of a type."""
    return _COMPUTED.get(dtype, dtype)


class Builder:
    """Makes the nodes that ONNX operators become.

    Attributes:
        graph: what is made.
        stem: name for the next values.
        origin: where the next nodes come from.
        keeps_integers: whether constant integers that stand for real numbers stay integers, for
            passes that want them.
        left_real: number of operators that would round their operands, and do not here.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.keeps_integers = True
        self.left_real = 0
        self.stem = ""
        self.origin: Origin | None = None
        self._constants: dict[tuple[int, Shape, Shape], tuple[str, Array]] = {}
        self._moved: dict[tuple[str, Shape], str] = {}
        self._reshaped: dict[str, tuple[Tensor, Tensor]] = {}
        self._coded: set[str] = set()
        self._counts: dict[str, int] = {}

    # --- values ---------------------------------------------------------------------------------

    def constant(self, data: Array, name: str = "") -> Tensor:
        """A constant in ONNX's order; `name` is a hint.

        Raises:
            Refusal: its element type is none of the graph's.
        """
        try:
            dtype = graph_type(DType.of(data))
        except ValueError:
            raise Refusal("onnx-element-type", f"a constant of {data.dtype}") from None
        return Tensor(data.shape, dtype, data, name, data.shape, identity(data.ndim))

    def variable(self, name: str, perm: Sequence[int] | None = None) -> Tensor:
        """A value of the graph whose dimensions are stored in the order `perm`."""
        value = self.graph.value(name)
        order = identity(value.type.rank) if perm is None else tuple(perm)
        shape = tuple(value.type.shape[i] for i in inverse(order))
        if value.data is not None and not value.type.is_quantized:
            return self.constant(value.data.transpose(inverse(order)), name)
        return Tensor(shape, value.type.dtype, None, name, shape, order)

    def like(self, name: str, model: Tensor) -> Tensor:
        """A value of the graph that is stored as another of the same shape is."""
        value = self.graph.value(name)
        if value.data is not None and not value.type.is_quantized:
            return self.constant(model.ordered(value.data), name)
        return Tensor(model.shape, value.type.dtype, None, name, model.split, model.perm)

    def type(self, tensor: Tensor) -> TensorType:
        """The graph's type of a value, as it is stored."""
        if tensor.data is not None:
            return TensorType(tensor.shape, tensor.dtype)
        return self.graph.type(tensor.name)

    def value(self, tensor: Tensor, perm: Sequence[int] | None = None) -> str:
        """The graph's value that holds a tensor in the layout `perm`, by default ONNX's order."""
        order = identity(tensor.rank) if perm is None else tuple(perm)
        if tensor.data is not None:
            return self._place(tensor, order)
        tensor = self.plain(tensor)
        if tensor.perm == order:
            return tensor.name
        move = tuple(tensor.perm.index(axis) for axis in order)
        return self._move(tensor.name, move)

    def _place(self, tensor: Tensor, order: Shape, shape: Shape | None = None) -> str:
        """A constant as a value of the graph."""
        assert tensor.data is not None
        target = tensor.shape if shape is None else shape
        key = (id(tensor.data), target, order)
        if key not in self._constants:
            stored = tensor.data.reshape(target).transpose(order)
            stored = stored.astype(tensor.dtype.numpy, copy=False)
            name = self.graph.fresh(tensor.name or f"{self.stem}/constant")
            type = TensorType(stored.shape, tensor.dtype)
            self.graph.add_value(
                Value(name, type, np.ascontiguousarray(stored).reshape(type.shape))
            )
            # The array is kept, so that nothing else gets its identity.
            self._constants[key] = (name, tensor.data)
        return self._constants[key][0]

    def _move(self, name: str, move: Shape) -> str:
        """A value with its dimensions in another order."""
        if (name, move) not in self._moved:
            type = self.graph.type(name)
            target = tuple(type.shape[axis] for axis in move)
            kept = without_units(move, type.shape)
            op, attributes = "transpose", TransposeAttributes(move)
            if kept == tuple(sorted(kept)) and (
                type.quantization is None or type.quantization.is_per_tensor
            ):
                op, attributes = "reshape", ReshapeAttributes(target)  # type: ignore[assignment]
            self._moved[name, move] = self.emit(op, [name], attributes)
        return self._moved[name, move]

    def plain(self, tensor: Tensor) -> Tensor:
        """The tensor with every dimension stored as one."""
        if tensor.is_plain or tensor.data is not None:
            return tensor
        inner = Tensor(tensor.split, tensor.dtype, None, tensor.name, tensor.split, tensor.perm)
        order = shuffled(tensor)
        if order is not None:
            parts, perm = order
            shape = tuple(tensor.shape[axis] for axis in perm)
            name = self.emit("reshape", [self.value(inner, parts)], ReshapeAttributes(shape))
            return self.variable(name, perm)
        name = self.emit("reshape", [self.value(inner)], ReshapeAttributes(tensor.shape))
        return self.variable(name)

    def channels_last(self, x: Tensor) -> Tensor:
        """The tensor with channels stored last, if no elements move for that; else as it is."""
        order = channels_last(x.rank)
        if x.data is not None or not x.is_plain or x.perm == order:
            return x
        if without_units(x.perm, x.shape) != without_units(order, x.shape):
            return x
        return self.variable(self.value(x, order), order)

    def coded(self, x: Tensor, quantization: Quantization) -> Tensor | None:
        """Integers that stand for real numbers, as those numbers; None if they are others already.

        A constant stays a conversion, for passes that want its integers.
        """
        graph = self.graph
        if x.data is not None:
            real = self.emit("dequantize", [self._code(x, quantization)], dtype=DType.FLOAT32)
            self._coded.add(real)
            return self.variable(real)
        if quantization.is_per_tensor:
            for name in self._unread_input(x.name):
                type = replace(graph.type(name), quantization=quantization)
                graph.set_value(Value(name, type))
        if graph.type(x.name).quantization != quantization:
            return None
        result = self.unary("dequantize", x, dtype=DType.FLOAT32)
        if graph.value(x.name).is_constant:
            self._coded.add(result.name)
        return result

    def _unread_input(self, name: str) -> list[str]:
        """A value, and the input of the graph that it holds in another layout, if none is read yet.

        Returns:
            Nothing if the value holds no input, or if what they stand for is known already.
        """
        graph, found = self.graph, [name]
        node = graph.producer(name)
        while node is not None and node.op in ("transpose", "reshape"):
            found.append(str(node.inputs[0]))
            node = graph.producer(found[-1])
        readers = sum(len(graph.consumers(value)) for value in found)
        untold = not graph.type(name).is_quantized and readers == len(found) - 1
        return found if untold and found[-1] in graph.inputs else []

    def _code(self, x: Tensor, quantization: Quantization) -> str:
        """A constant of integers as a quantized value of the graph."""
        assert x.data is not None
        type = TensorType(x.shape, x.dtype, quantization)
        stored = np.ascontiguousarray(x.data.astype(x.dtype.numpy, copy=False))
        name = self.graph.fresh(x.name or f"{self.stem}/stored")
        self.graph.add_value(Value(name, type, stored.reshape(type.shape)))
        return name

    def alike(self, operands: Sequence[Tensor]) -> tuple[list[Tensor], Quantization | None]:
        """Operands that are all quantized or all plain, for an operator that keeps their numbers.

        ONNX has no quantized tensors: it copies and compares stored integers. They stand for real
        numbers in the same order if all operands have one scale and zero point. Constants, of which
        nothing says what they stand for, get those of the others.

        Returns:
            The operands, and the quantization of the result.

        Raises:
            Refusal: their scales, zero points or element types differ.
        """
        found = {self.type(tensor).quantization for tensor in operands if tensor.data is None}
        if len(found) > 1:
            raise Refusal("onnx-type-rule", "integers with different scales or zero points")
        quantization = found.pop() if found else None
        if quantization is None:
            return list(operands), None
        if len({tensor.dtype for tensor in operands}) > 1:
            raise Refusal("onnx-type-rule", "operands differ in element type")
        return [
            x if x.data is None else self.variable(self._code(x, quantization)) for x in operands
        ], quantization

    def is_real(self, tensor: Tensor) -> bool:
        """Whether elements are real numbers of 32 bits, or integers that stand for such."""
        return tensor.dtype is DType.FLOAT32 or self.type(tensor).is_quantized

    def is_coded(self, tensor: Tensor) -> bool:
        """Whether a tensor holds real numbers that constant integers stand for."""
        return tensor.name in self._coded and tensor.data is None

    def elements(self, tensor: Tensor) -> Array | None:
        """Elements of a constant, also of one that integers stand for; None if they vary."""
        if not self.is_coded(tensor):
            return tensor.data
        node = self.graph.producer(tensor.name)
        assert node is not None
        return tensor.ordered(evaluate_node(self.graph, node, {}, Arithmetic.XNNPACK)[tensor.name])

    # --- nodes ----------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        inputs: Sequence[str | None],
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        dtype: DType | None = None,
        quantization: Quantization | None = None,
    ) -> str:
        """Add a node with one result; gives the result's name.

        Args:
            op: name of the operator.
            inputs: values read.
            attributes: the operator's attributes.
            dtype: element type of the result where the operator leaves it open; by default that
                of the first operand.
            quantization: of the result; by default that of the first operand if the operator moves
                elements.

        Raises:
            Refusal: the operands do not fit the operator.
        """
        return self.emit_all(op, inputs, attributes, 1, dtype=dtype, quantization=quantization)[0]

    def emit_all(
        self,
        op: str,
        inputs: Sequence[str | None],
        attributes: Attributes = NO_ATTRIBUTES,
        results: int = 1,
        *,
        dtype: DType | None = None,
        quantization: Quantization | None = None,
    ) -> list[str]:
        """Add a node with several results; gives their names; arguments as for `emit`."""
        graph = self.graph
        first = next(graph.type(name) for name in inputs if name is not None)
        if quantization is None and OPS[op].moves:
            quantization = first.quantization
        names: list[str] = []
        for _ in range(results):
            name = self.fresh(self.stem or op)
            # A provisional type, which only says how numbers are represented.
            graph.add_value(Value(name, TensorType((), dtype or first.dtype, quantization)))
            names.append(name)
        node = Node(names[0], op, tuple(inputs), tuple(names), attributes, self.origin)
        try:
            found = OPS[op].infer(Call.of(graph, node))
        except TypeRuleError as error:
            raise Refusal("onnx-type-rule", f"{op}: {error}") from None
        for name, want in zip(names, found, strict=True):
            self._settle(name, want, quantization)
        graph.add_node(node)
        self._fold(node)
        return names

    def _settle(self, name: str, want: Expected, quantization: Quantization | None) -> None:
        """Give a result the type that the operator has found."""
        before = self.graph.type(name)
        type = TensorType(want.shape, want.dtype or before.dtype, quantization)
        self.graph.set_value(Value(name, type))

    def _fold(self, node: Node) -> None:
        """Evaluate a node of constants at once, if that takes no longer than to write it down."""
        operator = OPS[node.op]
        values = [self.graph.value(name) for name in node.inputs if name is not None]
        cheap = operator.moves or operator.elementwise
        if not cheap or node.op == "dequantize" or not all(v.is_constant for v in values):
            return
        results = evaluate_node(self.graph, node, {}, Arithmetic.XNNPACK)
        self.graph.remove(node.name)
        for name, data in results.items():
            self.graph.set_value(Value(name, self.graph.type(name), data))

    # --- operators that any layout suits --------------------------------------------------------

    def stored(self, tensor: Tensor) -> str:
        """The graph's value of a tensor in whatever layout it has."""
        return self.value(tensor) if tensor.data is not None else tensor.name

    def fresh(self, stem: str) -> str:
        """A name that nothing has; one stem may have very many."""
        graph = self.graph
        count = self._counts.get(stem, 0)
        name = f"{stem}.{count}" if count else stem
        while name in graph.values or graph.fresh(name) != name:
            count += 1
            name = f"{stem}.{count}"
        self._counts[stem] = count + 1
        return name

    def unary(
        self,
        op: str,
        x: Tensor,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        dtype: DType | None = None,
        quantization: Quantization | None = None,
    ) -> Tensor:
        """An operator on every element."""
        name = self.emit(op, [self.stored(x)], attributes, dtype=dtype, quantization=quantization)
        return self.like(name, x)

    def binary(
        self,
        op: str,
        a: Tensor,
        b: Tensor,
        attributes: Attributes | None = None,
        *,
        quantization: Quantization | None = None,
    ) -> Tensor:
        """An operator on corresponding elements, with ONNX's broadcasting.

        Raises:
            Refusal: the shapes do not broadcast, or the operator does not take the operands.
        """
        names, model = self.aligned([a, b])
        if attributes is None:
            attributes = OPS[op].attributes()
        return self.like(self.emit(op, names, attributes, quantization=quantization), model)

    def extremum(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        """The larger or the smaller of corresponding elements.

        Raises:
            Refusal: as for `binary`, or operands are quantized differently.
        """
        (a, b), quantization = self.alike([a, b])
        return self.binary(op, a, b, quantization=quantization)

    def aligned(self, operands: Sequence[Tensor]) -> tuple[list[str], Tensor]:
        """Operands in one layout, and a tensor that has the result's shape and layout.

        Raises:
            Refusal: the shapes do not broadcast.
        """
        try:
            shape = np.broadcast_shapes(*(tensor.shape for tensor in operands))
        except ValueError:
            shapes = " and ".join(str(list(tensor.shape)) for tensor in operands)
            raise Refusal("onnx-type-rule", f"shapes {shapes} do not broadcast") from None
        variables = [tensor for tensor in operands if tensor.data is None]
        if not variables:
            names = [self.value(tensor) for tensor in operands]
            return names, Tensor(shape, operands[0].dtype, None, "", shape, identity(len(shape)))
        leader = max(variables, key=lambda t: (t.size, t.perm != identity(len(t.perm))))
        views = [tensor for tensor in variables if not tensor.is_plain]
        if views and any(
            (t.shape, t.split, t.perm) != (shape, leader.split, leader.perm) for t in variables
        ):
            operands = [self.plain(tensor) for tensor in operands]
            # Dimensions stay merged where they are stored so already.
            merged = [t for t in variables if t.is_plain and t.size == leader.size]
            found = max(merged, key=lambda t: t.perm != identity(t.rank), default=leader)
            leader = self.plain(found)
        if leader.rank < len(shape):
            leader = self.reshape(leader, (1,) * (len(shape) - leader.rank) + leader.shape)
        names = [self._follow(tensor, leader, shape) for tensor in operands]
        split = leader.split if not leader.is_plain else shape
        return names, Tensor(shape, leader.dtype, None, "", split, leader.perm)

    def _follow(self, tensor: Tensor, leader: Tensor, shape: Shape) -> str:
        """An operand in the layout of the one that leads."""
        if tensor.data is None and tensor.rank == len(shape):
            return tensor.name if not leader.is_plain else self.value(tensor, leader.perm)
        full = (1,) * (len(shape) - tensor.rank) + tensor.shape
        if tensor.data is None:
            return self.value(self.reshape(tensor, full), leader.perm)
        if tensor.size == 1:
            return self._place(tensor, (), ())
        target = spread(full, leader)
        order = without_leading_units(leader.perm, target)
        kept = [axis for axis in range(len(target)) if axis in order]
        return self._place(
            tensor, tuple(kept.index(axis) for axis in order), tuple(target[axis] for axis in kept)
        )

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Another order of dimensions: elements stay where they are."""
        if x.data is not None:
            return self.constant(x.data.transpose(perm), x.name)
        x = self.plain(x)
        shape = tuple(x.shape[axis] for axis in perm)
        order = inverse(perm)
        return Tensor(shape, x.dtype, None, x.name, shape, tuple(order[axis] for axis in x.perm))

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """The same elements in ONNX's order, with another shape."""
        if x.data is not None:
            return self.constant(x.data.reshape(shape), x.name)
        if shape == x.shape:
            return x
        if x.size == 0:
            return self.variable(self.emit("reshape", [self.value(x)], ReshapeAttributes(shape)))
        before = self.moved_from(x)
        if before is not None and before.shape == shape:
            return before
        split, perm = relaid(x, shape)
        if split is None:
            return self._reordered(x, shape)
        stored = tuple(split[axis] for axis in perm)
        name = x.name
        if stored != x.stored_shape:
            name = self.emit("reshape", [name], ReshapeAttributes(stored))
        return Tensor(shape, x.dtype, None, name, split, perm)

    def _reordered(self, x: Tensor, shape: Shape) -> Tensor:
        """A reshaped tensor whose elements must first be moved into ONNX's order."""
        result = self.reshape(self.plain(self.variable(self.value(x))), shape)
        self._reshaped[result.name] = (result, x)
        return result

    def moved_from(self, x: Tensor) -> Tensor | None:
        """The tensor that `x` was reshaped from, if that had to move elements; otherwise None."""
        if x.data is not None or x.name not in self._reshaped:
            return None
        after, before = self._reshaped[x.name]
        return before if after == x else None

    def copy(self, name: str) -> str:
        """A value of its own with the elements of another, which may be a constant."""
        graph = self.graph
        type = graph.type(name)
        copy = graph.fresh(self.stem or "copy")
        graph.add_node(Node(copy, "copy", (name,), (copy,), NO_ATTRIBUTES, self.origin), (type,))
        return copy

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Sum."""
        return self.binary("add", a, b, ActivationAttributes())

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """Product."""
        return self.binary("mul", a, b, ActivationAttributes())

    def scalar(self, value: float, like: Tensor) -> Tensor:
        """A number of the element type of a tensor."""
        return self.constant(np.array(value, like.dtype.numpy))


def without_leading_units(perm: Shape, shape: Shape) -> Shape:
    """A layout without the dimensions of extent 1 that are stored first."""
    for index, axis in enumerate(perm):
        if shape[axis] != 1:
            return perm[index:]
    return ()


def parts_of(tensor: Tensor) -> list[Shape]:
    """For each dimension of the shape, the dimensions of the split that it is made of."""
    found, at = [], 0
    for extent in tensor.shape:
        start, product = at, tensor.split[at]
        at += 1
        while product != extent:
            product *= tensor.split[at]
            at += 1
        found.append(tuple(range(start, at)))
    return found


def spread(shape: Shape, leader: Tensor) -> Shape:
    """The shape of an operand in terms of the split of the tensor that it is broadcast to."""
    if leader.is_plain:
        return shape
    result: list[int] = []
    for extent, parts in zip(shape, parts_of(leader), strict=True):
        result += [1 if extent == 1 else leader.split[part] for part in parts]
    return tuple(result)


def relaid(x: Tensor, shape: Shape) -> tuple[Shape | None, Shape]:
    """Split and layout of a reshaped tensor whose elements stay where they are.

    Args:
        x: a variable with at least one element.
        shape: the shape that it gets.

    Returns:
        No split if a dimension is cut into several that lie apart.
    """
    order = without_units(x.perm, x.split)
    split: list[list[int]] = [[extent] for extent in shape]
    places: list[tuple[int, int, int]] = []
    for group in groups(x.split, shape):
        at = [order.index(axis) for axis in group.source]
        if at == list(range(at[0], at[0] + len(at))):
            places += [(at[0], target, 0) for target in group.target]
        elif len(group.target) == 1:
            (target,) = group.target
            split[target] = [x.split[axis] for axis in group.source]
            places += [(where, target, part) for part, where in enumerate(at)]
        else:
            return None, ()
    placed = {(target, part): where for where, target, part in places}
    where, entries = -1, []
    for target, parts in enumerate(split):
        for part in range(len(parts)):
            # A dimension of extent 1 is stored after the one before it.
            where = placed.get((target, part), where)
            entries.append((where, target, part))
    perm = sorted(range(len(entries)), key=entries.__getitem__)
    return tuple(extent for parts in split for extent in parts), tuple(perm)
