"""The rules of the target: what the code generator is never asked to lower, with every reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.targets.edgetpu.layers import conditions
from fitzroy.compiler.targets.edgetpu.layers.conditions import LOWERING, TYPE, WEIGHTS, hint
from fitzroy.compiler.targets.edgetpu.program.lower import lowerings as rules_of_lowering
from fitzroy.compiler.targets.target import Lowering

__all__ = ["LOWERING", "NAME", "TYPE", "WEIGHTS", "hint", "lowerings", "rejects"]

NAME = "edgetpu"
"""Name of the target."""


@cache
def lowerings() -> Mapping[str, Lowering]:
    """The lowerings of all operators that the code generator has a rule for, by operator."""
    return {op: Lowering(rule, conditions.rejects) for op, rule in rules_of_lowering().items()}


def rejects(call: Call) -> Iterator[Reject]:
    """Yield every reason why the chip cannot run a call, before anything is lowered."""
    lowering = lowerings().get(call.node.op)
    if lowering is None:
        yield Reject(LOWERING, f"{call.node.op} has no lowering for the Edge TPU", hint(call))
    else:
        yield from lowering.rejects(call)
