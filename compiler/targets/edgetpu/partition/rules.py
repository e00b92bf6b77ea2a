"""Which operators can the Edge TPU not run, before any cost is counted?

Every rule gives each of its reasons. What the rules reject is never lowered.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.custom import PostProcessing
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.opaque import Opaque, opaque_reject
from fitzroy.compiler.targets.edgetpu.layers import conditions
from fitzroy.compiler.targets.edgetpu.layers.conditions import LOWERING, TYPE, WEIGHTS, hint
from fitzroy.compiler.targets.edgetpu.program.lower import lowerings as rules_of_lowering
from fitzroy.compiler.targets.target import Lowering

__all__ = [
    "LOWERING",
    "NAME",
    "TYPE",
    "WEIGHTS",
    "RealNumbersError",
    "has_quantized_activations",
    "has_wide_activations",
    "hint",
    "lowerings",
    "quantize_command",
    "rejects",
]

NAME = "edgetpu"
"""Name of the target."""


def _opaque_hint() -> str:
    """What is to be done about an operator that has no class."""
    return f"it stays as it is, and LiteRT runs it on the host: {install_extra('litert')}"


def has_quantized_activations(graph: Graph) -> bool:
    """Whether operators of a graph compute with numbers of 8 bits."""
    return any(type.is_eight_bit for type in _activations(graph))


def has_wide_activations(graph: Graph) -> bool:
    """Whether operators of a graph compute with numbers of 16 bits."""
    return any(map(conditions.is_wide, _activations(graph)))


def _activations(graph: Graph) -> Iterator[TensorType]:
    """Types of the values that operators read and make.

    Constants are left out, and what is stored as integers only to be read as real numbers.
    """
    for node in graph.nodes():
        read = () if node.op == "dequantize" else node.inputs
        for name in (*read, *node.outputs):
            if name is not None and not graph.value(name).is_constant:
                yield graph.type(name)


def quantize_command(path: str, options: Sequence[str] = (), output: str = "") -> str:
    """What makes a model of real numbers one that the Edge TPU can compute, as a command line.

    Args:
        path: the model's file.
        options: with which the model is read.
        output: where the quantized model goes; by default a name is made of the model's.
    """
    output = output or f"{os.path.splitext(os.path.basename(path))[0]}_quant.tflite"
    # Representative inputs take all that follows, up to the next option.
    words = ["fitzroy", "quantize", path, *options, "--calibrate", "DIR", "-o", output]
    return shlex.join(words)


class RealNumbersError(UnsupportedError):
    """A model computes with real numbers, and would have to be quantized first.

    Args:
        where: the model.
        file: the file that it was read from.
        options: with which the model is read, as the command line takes them.
    """

    def __init__(self, where: str, file: str, options: Sequence[str] = ()) -> None:
        super().__init__(
            "the model computes with real numbers, and the Edge TPU with integers of 8 bits",
            where=where,
            hint=quantize_command(file, options),
        )
        self.file = file

    def read_with(self, options: Sequence[str]) -> RealNumbersError:
        """The same error, whose command has the options with which the model was read."""
        return RealNumbersError(self.where, self.file, options)


@cache
def lowerings() -> Mapping[str, Lowering]:
    """The lowerings of all operators that the code generator has a rule for, by operator."""
    return {op: Lowering(rule, conditions.rejects) for op, rule in rules_of_lowering().items()}


def rejects(call: Call) -> Iterator[Reject]:
    """Yield every reason why the chip cannot run a call, before anything is lowered."""
    lowering = lowerings().get(call.node.op)
    if call.node.op == Opaque.name:
        yield opaque_reject(call, _opaque_hint())
    elif isinstance(OPS[call.node.op], PostProcessing):
        what = (
            f"{call.node.spelled} chooses among what the Edge TPU gives, which is the host's part"
        )
        yield Reject(LOWERING, what, hint(call))
    elif lowering is None:
        yield Reject(LOWERING, f"{call.node.spelled} has no lowering for the Edge TPU", hint(call))
    else:
        yield from lowering.rejects(call)
