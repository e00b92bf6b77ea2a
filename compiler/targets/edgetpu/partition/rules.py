"""The rules of the target: what the code generator is never asked to lower, with every reason."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.opaque import Opaque, opaque_reject
from fitzroy.compiler.targets.edgetpu.program.lower import lowerings as rules_of_lowering
from fitzroy.compiler.targets.target import Lowering

NAME = "edgetpu"
"""Name of the target."""

LOWERING = "edgetpu-lowering"
"""Code of what the code generator cannot map."""

TYPE = "edgetpu-type"
"""Code of values that the chip does not compute with."""

WEIGHTS = "edgetpu-weights"
"""Code of weights that are not known when the program is made."""

_OF_OTHER_TYPES = ("reshape", "unidirectional_sequence_lstm")
"""Operators that may have values of other types; the code generator judges these."""


OPAQUE_HINT = "it stays as it is, and LiteRT runs it on the host: pip install 'fitzroy[litert]'"
"""What is to be done about an operator that has no class."""


def hint(call: Call) -> str:
    """What can be done about a call that has to stay on the host."""
    values = [value for value in (*call.inputs, *call.outputs) if value is not None]
    if any(value.type.dtype is DType.FLOAT32 for value in values):
        return "quantize the model to 8 bits, its inputs and outputs too"
    return "express it by operators that the Edge TPU computes, or let it come first or last"


def eight_bits(call: Call) -> Iterator[Reject]:
    """Every value that is computed must be int8 or uint8 with one scale."""
    for value in (*call.inputs, *call.outputs):
        if value is None or value.is_constant:
            continue
        type = value.type
        if type.quantization is None or type.dtype not in (DType.INT8, DType.UINT8):
            what = f"{call.node.spelled}: {value.name!r} is {type}, not 8-bit quantized"
            yield Reject(TYPE, what, hint(call))
        elif not type.quantization.is_per_tensor:
            yield Reject(
                TYPE, f"{call.node.spelled}: {value.name!r} has a scale per channel", hint(call)
            )


def constant_weights(call: Call) -> Iterator[Reject]:
    """Values of 8 bits, and weights that are known: they lie in wide memory in an order of its own.

    The weights are operand 1.
    """
    yield from eight_bits(call)
    weights = call.optional(1)
    if weights is not None and not weights.is_constant:
        yield Reject(
            WEIGHTS,
            f"{call.node.spelled}: the weights {weights.name!r} are computed, not constant",
            "multiply tensors that are both computed with batch_matmul",
        )


def _rules(op: str) -> Callable[[Call], Iterator[Reject]]:
    """The rules of an operator that has a lowering."""
    if op in _OF_OTHER_TYPES:
        return lambda call: iter(())
    return eight_bits if OPS[op].channel_axis is None else constant_weights


def has_quantized_activations(graph: Graph) -> bool:
    """Whether operators of a graph compute numbers of 8 bits."""
    types = [graph.type(output) for node in graph.nodes() for output in node.outputs]
    return any(
        type.quantization is not None and type.dtype in (DType.UINT8, DType.INT8) for type in types
    )


def quantize_command(path: str) -> str:
    """What makes a model of real numbers one that the Edge TPU can compute, as a command line.

    Args:
        path: the model's file.
    """
    output = f"{os.path.splitext(os.path.basename(path))[0]}_quant.tflite"
    return f"fitzroy quantize {shlex.quote(path)} --calibrate DIR -o {shlex.quote(output)}"


@cache
def lowerings() -> Mapping[str, Lowering]:
    """The lowerings of all operators that the code generator has a rule for, by operator."""
    return {op: Lowering(rule, _rules(op)) for op, rule in rules_of_lowering().items()}


def rejects(call: Call) -> Iterator[Reject]:
    """Yield every reason why the chip cannot run a call, before anything is lowered."""
    lowering = lowerings().get(call.node.op)
    if call.node.op == Opaque.name:
        yield opaque_reject(call, OPAQUE_HINT)
    elif lowering is None:
        yield Reject(LOWERING, f"{call.node.spelled} has no lowering for the Edge TPU", hint(call))
    else:
        yield from lowering.rejects(call)
