"""The Edge TPU as a target: its rules, and the lowerings of the code generator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import HOST, Placement
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions, Partition
from fitzroy.compiler.targets.target import Lowering, Target

LOWERING = "edgetpu-lowering"
"""Code of what the code generator cannot map."""

TYPE = "edgetpu-type"
"""Code of values that the chip does not compute with."""

WEIGHTS = "edgetpu-weights"
"""Code of weights that are not known when the program is made."""

_OF_OTHER_TYPES = ("reshape", "unidirectional_sequence_lstm")
"""Operators that may have values of other types; the code generator judges these."""


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


class EdgeTpu(Target):
    """The Coral Edge TPU; what it rejects stays in the model, for the host."""

    name = "edgetpu"
    title = "Edge TPU"
    summary = "the same model with Edge TPU operators in the place of all that the chip computes"
    support = "rule"
    rest = HOST.name
    suffix = "_edgetpu.tflite"
    entry = "main"
    opaque_hint = (
        "it stays as it is, for LiteRT on the host; to run it: pip install 'fitzroy[litert]'"
    )
    options = EdgeTpuOptions

    def lowerings(self) -> Mapping[str, Lowering]:
        """The rules of the code generator."""
        return _lowerings()

    def place(self, graph: Graph, options: EdgeTpuOptions) -> list[Placement]:
        """Groups of nodes for the chip and for the host, by what transfers cost."""
        from fitzroy.compiler.targets.edgetpu.codegen.costs import COSTS
        from fitzroy.compiler.targets.edgetpu.codegen.segments import divide

        return divide(graph, costs=COSTS if options.partition is Partition.COST else None)[1]

    def parts(self, graph: Graph, placements: Sequence[Placement]) -> dict[str, list[str]]:
        """Layers of the code generator."""
        from fitzroy.compiler.targets.edgetpu.codegen.segments import layers_of

        found: dict[str, list[str]] = {}
        for placement in placements:
            if placement.target == self.name:
                found |= layers_of(graph.part(placement.nodes))
        return found

    def missing(self, call: Call) -> Reject:
        """The code generator has no such rule."""
        return Reject(LOWERING, f"{call.node.spelled} has no lowering for the Edge TPU", hint(call))


@cache
def _lowerings() -> Mapping[str, Lowering]:
    # The code generator asks this target for its rules.
    from fitzroy.compiler.targets.edgetpu.codegen.lower import lowerings

    return {op: Lowering(rule, _rules(op)) for op, rule in lowerings().items()}
