"""Reference semantics of whole graphs: type checking and evaluation with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.errors import InternalError, UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.hw_models.numerics import Arithmetic


def check(graph: Graph, node: Node) -> None:
    """Check one node against its operator's type rule.

    Raises:
        TypeRuleError: what does not fit.
    """
    operator = OPS.get(node.op)
    if operator is None:
        raise TypeRuleError(f"no operator {node.op!r}")
    if type(node.attributes) is not operator.attributes:
        raise TypeRuleError(
            f"attributes are {type(node.attributes).__name__}, not {operator.attributes.__name__}"
        )
    _check_arity(node, operator.operands)
    if operator.results is not None and len(node.outputs) != operator.results:
        raise TypeRuleError(f"{len(node.outputs)} results, not {operator.results}")
    call = Call.of(graph, node)
    expected = operator.infer(call)
    if len(expected) != len(call.outputs):
        raise TypeRuleError(f"{len(call.outputs)} results, not {len(expected)}")
    if operator.moves:
        _check_representation(call)
    for want, value in zip(expected, call.outputs, strict=True):
        if value.type.shape != want.shape:
            raise TypeRuleError(
                f"result {value.name!r} has shape {list(value.type.shape)}, not {list(want.shape)}"
            )
        if want.dtype is not None and value.type.dtype is not want.dtype:
            raise TypeRuleError(
                f"result {value.name!r} is {value.type.dtype.value}, not {want.dtype.value}"
            )


def _check_representation(call: Call) -> None:
    """Demand that 8-bit values are quantized throughout, or nowhere."""
    sources = [value for value in call.inputs if value is not None]
    dtype = sources[0].type.dtype
    if dtype in (DType.INT8, DType.UINT8):
        values = [v for v in (*sources, *call.outputs) if v.type.dtype in (DType.INT8, DType.UINT8)]
        if len({value.type.is_quantized for value in values}) > 1:
            raise TypeRuleError(f"quantized and plain {dtype.value} tensors are mixed")


def _check_arity(node: Node, operands: tuple[str, ...]) -> None:
    variadic = operands[-1].endswith("*")
    required = sum(not name.endswith(("?", "*")) for name in operands)
    most = None if variadic else len(operands)
    if len(node.inputs) < required or (most is not None and len(node.inputs) > most):
        raise TypeRuleError(f"{len(node.inputs)} operands for ({', '.join(operands)})")
    for name, value in zip(operands, node.inputs, strict=False):
        if value is None and "?" not in name:
            raise TypeRuleError(f"operand {name} is absent")


def verify(graph: Graph) -> None:
    """Check structure and types of a graph.

    Raises:
        InternalError: which node breaks which rule.
    """
    graph.verify_structure()
    for node in graph.nodes():
        try:
            check(graph, node)
        except TypeRuleError as error:
            raise InternalError(
                f"{node.op} {node.name!r} is ill-typed", reason=str(error), where=graph.name
            ) from None


_MOVING_BYTES = 8
_WORKING_BYTES = 48
"""Most bytes that a kernel allocates for each element of its operands and results, measured: 6.0
where elements only move, else 43.5 (average pooling of one window)."""


def demand_memory(graph: Graph, node: Node, held: int = 0) -> None:
    """Ask for the memory that evaluating a node takes.

    Args:
        graph: the graph.
        node: one of its nodes.
        held: bytes of the values that are known already.

    Raises:
        CapacityError: it is more than the budget has.
    """
    call = Call.of(graph, node)
    values = [value for value in call.inputs if value is not None and not value.is_constant]
    each = _MOVING_BYTES if OPS[node.op].moves else _WORKING_BYTES
    largest = max(call.outputs, key=lambda value: value.type.size)
    budget.demand(
        each * sum(value.type.size for value in (*values, *call.outputs)),
        f"{node.op} {node.name!r}, which gives {largest.type},",
        held=held,
        where=graph.name,
    )


def evaluate_node(
    graph: Graph, node: Node, values: Mapping[str, Array], arithmetic: Arithmetic
) -> dict[str, Array]:
    """Outputs of one node by name, given its variable operands.

    Raises:
        CapacityError: it takes more memory than the budget has.
        UnsupportedError: the operator has no meaning here.
    """
    demand_memory(graph, node, sum(array.nbytes for array in values.values()))
    call = Call.of(graph, node)
    arrays = [
        None if value is None else value.data if value.data is not None else values[value.name]
        for value in call.inputs
    ]
    # Infinities and NaN are values; where integers come of them, kernels say which.
    with np.errstate(all="ignore"):
        results = OPS[node.op].evaluate(call, arrays, arithmetic)
    for array, out in zip(results, call.outputs, strict=True):
        if array.shape != out.type.shape or array.dtype != out.type.dtype.numpy:
            raise InternalError(
                f"{node.op} gave {array.dtype}{list(array.shape)} for {out.type}", where=node.name
            )
    return dict(zip(node.outputs, results, strict=True))


def check_array(name: str, type: TensorType, array: Array) -> Array:
    """An array as a tensor of the given type.

    Raises:
        UsageError: shape or element type differ.
    """
    if array.shape != type.shape or array.dtype != type.dtype.numpy:
        raise UsageError(
            f"input {name!r} takes {type.dtype.value}{list(type.shape)}",
            reason=f"got {array.dtype}{list(array.shape)}",
        )
    return array


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Array],
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    *,
    keep: bool = False,
    progress: Callable[[int, int], None] | None = None,
    observe: Callable[[str, Array], None] | None = None,
) -> dict[str, Array]:
    """Run a graph by its reference semantics.

    Args:
        graph: a verified graph.
        inputs: one array per graph input, of exactly its type.
        arithmetic: rounding of integer kernels.
        keep: give every value, not only the outputs.
        progress: called with the number of nodes done and their total.
        observe: called with name and elements of every value that is not constant, as soon as
            they are known.

    Returns:
        Outputs by name, or all values if `keep`.

    Raises:
        UsageError: an input is missing or has another type.
        CapacityError: the values take more memory than the budget has.
        UnsupportedError: an operator has no meaning here (custom operators).
    """
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise UsageError(f"no array for input {missing[0]!r}", where=graph.name)
    values = {
        name: check_array(name, graph.type(name), np.asarray(inputs[name])) for name in graph.inputs
    }
    nodes = graph.nodes()
    for node in nodes:
        demand_memory(graph, node)
    if observe is not None:
        for given, array in values.items():
            observe(given, array)
    last: dict[str, int] = {
        name: index for index, node in enumerate(nodes) for name in node.inputs if name is not None
    }
    for index, node in enumerate(nodes):
        results = evaluate_node(graph, node, values, arithmetic)
        values.update(results)
        if observe is not None:
            for result, array in results.items():
                observe(result, array)
        if not keep:
            for name in node.inputs:
                if name is not None and last[name] == index and name not in graph.outputs:
                    values.pop(name, None)
        if progress is not None:
            progress(index + 1, len(nodes))
    constants = {name: graph.value(name).data for name in graph.outputs}
    values.update({name: data for name, data in constants.items() if data is not None})
    return values if keep else {name: values[name] for name in graph.outputs}


def is_static(graph: Graph, node: Node) -> bool:
    """Whether constants, or the types of operands, say what a node gives."""
    inputs = [graph.value(name) for name in node.inputs if name is not None]
    known = bool(inputs) and all(value.is_constant for value in inputs)
    return OPS[node.op].by_shape or known


def static_results(graph: Graph, node: Node) -> dict[str, Array]:
    """Outputs by name of a node for which `is_static` holds.

    Raises:
        CapacityError: it takes more memory than the budget has.
        UnsupportedError: the operator has no meaning here.
    """
    unread = {name: np.empty((), graph.type(name).dtype.numpy) for name in graph.computed(node)}
    return evaluate_node(graph, node, unread, Arithmetic.XNNPACK)


_KNOWN_BYTES = 1 << 28
"""Most bytes of results that frontends compute."""


def known_results(graph: Graph, node: Node) -> dict[str, Array] | None:
    """Results of a node that other operators may need as parameters, or None if there are none.

    These are shapes and what is computed of them, which are integers and truth values, and
    constants that files keep in a form that no operator computes with, such as float16 and
    sparse weights.

    Args:
        graph: the graph.
        node: a node whose operands and results are values of the graph, and which is checked.

    Raises:
        CapacityError: it takes more memory than the budget has.
    """
    call = Call.of(graph, node)
    if not is_static(graph, node) or node.op == "opaque":
        return None
    unpacks = node.op == "copy" or (node.op == "dequantize" and call.type().dtype is DType.FLOAT16)
    plain = all(
        not value.type.is_quantized and not value.type.dtype.is_float for value in call.outputs
    )
    if not (unpacks or plain) or sum(value.type.nbytes for value in call.outputs) > _KNOWN_BYTES:
        return None
    return static_results(graph, node)


def argument_type(calls: Sequence[Call]) -> TensorType:
    """The type of the tensor that operators on single elements are a function of.

    Args:
        calls: the operators, as for `evaluate_elements`.
    """
    made = {value.name for call in calls for value in call.outputs}
    read = [value for call in calls for value in call.inputs if value is not None]
    return next(value.type for value in read if value.data is None and value.name not in made)


def evaluate_elements(calls: Sequence[Call], argument: Array, arithmetic: Arithmetic) -> Array:
    """What operators on single elements make of an array.

    Args:
        calls: the operators, in order. They read constants of one element, results of the ones
            before, and otherwise the argument.
        argument: takes the place of a tensor of the same element type, of any shape.
        arithmetic: rounding of integer kernels.
    """
    single = Graph(calls[-1].node.name)
    given = single.add_input("x", argument_type(calls).with_shape(argument.shape))
    names: dict[str, str] = {}
    for call in calls:
        operands = [_element_operand(single, value, names, given) for value in call.inputs]
        type = call.result.type.with_shape(argument.shape)
        node = call.node
        names[call.result.name] = single.emit(node.op, operands, type, node.attributes)
    result = names[calls[-1].result.name]
    single.outputs.append(result)
    return evaluate(single, {given: argument}, arithmetic)[result]


def real_values(
    calls: Sequence[Call], argument: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """What operators make of real numbers, computed in float32.

    Args:
        calls: the operators, as for `evaluate_elements`.
        argument: the numbers.
    """
    with np.errstate(all="ignore"):
        found = evaluate_elements(calls, argument.astype(np.float32), Arithmetic.XNNPACK)
    return found.astype(np.float64)


def _element_operand(
    graph: Graph, value: Value | None, names: Mapping[str, str], argument: str
) -> str:
    """The name of an operand in a graph of its own: a number, an earlier result or the argument."""
    if value is not None and value.data is not None:
        return graph.add_constant("c", value.data.reshape(1), value.type.quantization)
    return argument if value is None else names.get(value.name, argument)
