"""What a call alone says about whether the chip can run it: every reason, before it is lowered.

Each operator's conditions stand beside its lowering, which relies on them: they are asked of a
model's operators before anything is lowered, and of the operators that lowerings express others
by. What depends on where operands lie, or on memory, shows only when a call is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import WIDE_ACTIVATIONS, Call, Reject
from fitzroy.compiler.ops.detections import DECODING

LOWERING = "edgetpu-lowering"
"""Code of what the code generator cannot map."""

TYPE = "edgetpu-type"
"""Code of values that the chip does not compute with."""

WEIGHTS = "edgetpu-weights"
"""Code of weights that are not known when the program is made."""

_OF_OTHER_TYPES = ("unidirectional_sequence_lstm",)
"""Operators that may have values of other types; their own conditions judge them."""

_OF_COMPUTED_WEIGHTS = (*_OF_OTHER_TYPES, "fully_connected")
"""Operators whose weights are judged by their own conditions, too; some may be computed."""

EIGHT_BITS = (DType.INT8, DType.UINT8)
"""Types of the integers that the chip computes with."""

Condition = Callable[[Call], Iterator[Reject]]
C = TypeVar("C", bound=Condition)

_CONDITIONS: dict[str, list[Condition]] = {}


def requires(*ops: str) -> Callable[[C], C]:
    """Declare a condition of some operators."""

    def declare(condition: C) -> C:
        for op in ops:
            _CONDITIONS.setdefault(op, []).append(condition)
        return condition

    return declare


def hint(call: Call) -> str:
    """What can be done about a call that has to stay on the host."""
    if OPS[call.node.op].custom:
        return "nothing needs to be done: the host computes it from what the Edge TPU gives"
    values = [value for value in (*call.inputs, *call.outputs) if value is not None]
    # Only states of recurrent operators, which come later, have 16 bits beside activations of 8.
    if any(value and is_wide(value.type) for value in (*call.inputs[:1], *call.outputs)):
        return WIDE_ACTIVATIONS
    if call.node.name.startswith(DECODING):
        return "nothing needs to be done: the host decodes boxes, in float32"
    real = [value for value in values if value.type.dtype is DType.FLOAT32]
    bytes_too = any(value.type.dtype in EIGHT_BITS for value in values)
    if real and bytes_too and any(value.name in call.graph_inputs for value in real):
        return "let the model take integers of 8 bits: quantize its inputs, too"
    if real and bytes_too:
        return "let the model give integers of 8 bits, or what follows take them"
    if real:
        return "quantize it to 8 bits: it computes with real numbers"
    return "express it by operators that the Edge TPU computes, or let it come first or last"


def refused(call: Call, what: str, advice: str = "") -> Reject:
    """A reason that begins with the operator and the node."""
    return Reject(LOWERING, f"{call.node.spelled} {call.node.name!r} {what}", advice or hint(call))


def is_wide(type: TensorType) -> bool:
    """Whether values of a type are quantized to 16 bits."""
    return type.is_quantized and type.dtype is DType.INT16


def eight_bits(call: Call) -> Iterator[Reject]:
    """Every value that is computed must be int8 or uint8 with one scale."""
    for value in (*call.inputs, *call.outputs):
        if value is None or value.is_constant:
            continue
        type = value.type
        if type.quantization is None or type.dtype not in EIGHT_BITS:
            what = f"{call.node.spelled}: {value.name!r} is {type}, not 8-bit quantized"
            yield Reject(TYPE, what, hint(call))
        elif not type.quantization.is_per_tensor:
            yield Reject(
                TYPE, f"{call.node.spelled}: {value.name!r} has a scale per channel", hint(call)
            )


def constant_weights(call: Call) -> Iterator[Reject]:
    """Weights must be known: they lie in wide memory in an order of its own. They are operand 1."""
    weights = call.optional(1)
    if weights is not None and not weights.is_constant:
        yield Reject(
            WEIGHTS,
            f"{call.node.spelled}: the weights {weights.name!r} are computed, not constant",
            "multiply tensors that are both computed with batch_matmul",
        )


def conditions(op: str) -> tuple[Condition, ...]:
    """All conditions of an operator, those that many have first."""
    general = [] if op in _OF_OTHER_TYPES else [eight_bits]
    if op not in _OF_COMPUTED_WEIGHTS and OPS[op].channel_axis is not None:
        general.append(constant_weights)
    return (*general, *_CONDITIONS.get(op, ()))


def rejects(call: Call) -> Iterator[Reject]:
    """Yield every reason why the chip cannot run a call of an operator with a lowering."""
    for condition in conditions(call.node.op):
        yield from condition(call)


def demand(call: Call) -> None:
    """Refuse a call whose conditions do not hold.

    Raises:
        UnsupportedError: with every reason.
    """
    found = tuple(dict.fromkeys(rejects(call)))
    if found:
        raise UnsupportedError("; ".join(item.reason for item in found), hint=found[0].hint)
