"""What operators give in programs of Google's compiler.

They compute LOGISTIC by polynomials that are not fitted to the quantization of the layer, which
changes codes next to a tie by one; both halves of an LSTM gate's sum, and its states, are stored
in 8 bits; and a bilinear resize by two rounds exact halves as the output stage does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import reals, stored
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    CELL_STATE,
    GATES,
    INPUT,
    INPUT_WEIGHTS,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    SIGNED_OFFSET,
    OutputStage,
    copy_stage,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.twin.codes import Single
from fitzroy.compiler.targets.edgetpu.twin.kernels import KERNELS, Preparation
from fitzroy.compiler.targets.edgetpu.twin.places import resize_bilinear
from fitzroy.compiler.targets.edgetpu.twin.semantics import (
    OPERATORS,
    Operands,
    Operator,
    converted,
    evaluated,
    finished,
    interpolated_sums,
    resized,
    resized_axes,
    stored_unsigned,
    summed,
)
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.numerics import Sampling


@dataclass(frozen=True)
class Curve:
    """A function of the non-linear unit, and the range in which programs use it."""

    table: NluTable
    minimum: float
    maximum: float

    def __call__(self, x: Array) -> Array:
        """The function of float32 numbers, by Horner's rule in float32."""
        x = np.clip(x.astype(np.float32), np.float32(self.minimum), np.float32(self.maximum))
        bounds = np.array(self.table.breakpoints, np.float32)
        factors = np.array(self.table.coefficients, np.float32)
        factors = factors[np.searchsorted(bounds, x, side="right")]
        value = factors[..., 4]
        for degree in (3, 2, 1, 0):
            value = value * x + factors[..., degree]
        return np.asarray(value)


def published_logistic(package: PackageFile) -> Curve | None:
    """The function that a program computes LOGISTIC by: 256 times the sigmoid, nearly.

    None if the program has none.

    Args:
        package: a package, of any compiler.
    """
    table: NluTable | None = None
    for bitstream in package.main.instruction_bitstreams or ():
        for instruction in disassemble(np.asarray(bitstream.bitstream).tobytes()):
            if isinstance(instruction, NluTable):
                table = instruction
            elif isinstance(instruction, TensorOp) and instruction.nlu and table is not None:
                curve = Curve(table, instruction.minimum, instruction.maximum)
                x = np.linspace(-4, 4, 33, dtype=np.float32)
                if np.abs(curve(x) - 256 / (1 + np.exp(-x))).max() < _LARGEST_MISS:
                    return curve
    return None


_LARGEST_MISS = 1 / 64
"""How far a table may be from 256 times the sigmoid; the published one misses by 0.0076."""


def operators(logistic: Curve | None) -> Mapping[str, Operator]:
    """What operators give in programs of Google's compiler.

    Args:
        logistic: the function by which a program computes LOGISTIC, None if it has none.
    """
    found = OPERATORS | {
        "unidirectional_sequence_lstm": _stored_gates,
        "resize_bilinear": _doubled,
        "add": lambda call, arrays: _shifted(call, arrays, 1),
        "sub": lambda call, arrays: _shifted(call, arrays, -1),
    }
    if logistic is not None:
        found["sigmoid"] = lambda call, arrays: _by_curve(call, arrays, logistic)
    return found


def kernels() -> Mapping[str, Preparation]:
    """Fast kernels of operators in programs of Google's compiler."""
    own = {"add": _variable_sum, "sub": _variable_sum, "resize_bilinear": _resize}
    return {**KERNELS, **own}


def _variable_sum(call: Call) -> Single | None:
    """A sum is as in our programs, unless an operand is constant."""
    constant = call.inputs[1] is None or call.inputs[1].data is not None
    return None if constant else KERNELS[call.node.op](call)


def _resize(call: Call) -> Single | None:
    if not _doubles(call):
        return resize_bilinear(call)
    rows, columns = resized_axes(call)
    return resize_bilinear(call, 1 / (rows.whole * columns.whole))


def evaluate_as_published(
    graph: Graph, inputs: Mapping[str, Array], logistic: Curve | None, *, keep: bool = False
) -> dict[str, Array]:
    """Run a graph in the arithmetic of programs of Google's compiler.

    Args:
        graph: a verified graph, quantized to 8 bits.
        inputs: one array per graph input.
        logistic: the function of the program, None if it has none.
        keep: give every value, not only the outputs.
    """
    return evaluated(graph, inputs, operators(logistic), keep)


def _by_curve(call: Call, arrays: Operands, curve: Curve) -> list[Array]:
    before, after = call.type(), call.result.type
    assert before.quantization is not None
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    real = x.astype(np.float32) * np.float32(before.quantization.scale[0])
    codes = rounded(curve(real)).clip(0, LARGEST).astype(np.int64)
    codes -= SIGNED_OFFSET if after.dtype is DType.INT8 else 0
    return [codes.astype(after.dtype.numpy)]


def _shifted(call: Call, arrays: Operands, sign: int) -> list[Array]:
    """A sum; a constant is a bias, a whole number of steps of the other operand."""
    before, other, after = call.type(0), call.type(1), call.result.type
    if call.inputs[1] is None or call.inputs[1].data is None:
        return summed(call, arrays, sign)
    assert before.quantization is not None
    assert other.quantization is not None
    ratio = np.float64(other.quantization.scale[0]) / before.quantization.scale[0]
    steps = (stored_unsigned(arrays[1], other) - unsigned_zero_point(other)) * ratio
    bias = sign * rounded(steps.astype(np.float32)).astype(np.int64)
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    return [finished(x + bias, copy_stage(before, after), after)]


def _doubled(call: Call, arrays: Operands) -> list[Array]:
    """A bilinear resize by two in both directions, with one rounding; others as in our programs."""
    before, after = call.type(), call.result.type
    if not _doubles(call):
        return resized(call, arrays)
    # Neighbours at a quarter and at three quarters of a pixel; edges repeat.
    rows, columns = resized_axes(call)
    x = interpolated_sums(stored_unsigned(arrays[0], before), rows, 1)
    x = interpolated_sums(x, columns, 2)
    found = finished(x, OutputStage(scale=1 / (rows.whole * columns.whole)), before)
    return [converted(found, before, after)]


def _doubles(call: Call) -> bool:
    """Whether a resize is one by two in both directions, between pixels."""
    a, before = call.attributes(ResizeAttributes), call.type()
    doubled = (2 * before.shape[1], 2 * before.shape[2])
    return a.size == doubled and a.sampling is Sampling.HALF_PIXEL


def _stored_gates(call: Call, arrays: Operands) -> list[Array]:
    """An LSTM with both halves of a gate's sum, and the states, stored as quantized numbers."""
    state, cells = call.result.type, call.type(CELL_STATE)

    def operand(index: int) -> Array:
        array = arrays[index]
        assert array is not None
        return reals(array, call.type(index))

    def kept(values: Array, type: TensorType) -> Array:
        return reals(stored(values, type), type)

    steps = operand(INPUT)
    time_major = call.attributes(LstmAttributes).time_major
    if not time_major:
        steps = steps.swapaxes(0, 1)
    cell = hidden = np.zeros((steps.shape[1], call.type(INPUT_WEIGHTS).shape[0]), np.float32)
    outputs = []
    for step in steps:
        sums = [
            kept(step @ operand(INPUT_WEIGHTS + gate).T + operand(BIASES + gate), state)
            + kept(hidden @ operand(RECURRENT_WEIGHTS + gate).T, state)
            for gate in range(len(GATES))
        ]
        i, f, o = (1 / (1 + np.exp(-sums[gate])) for gate in (0, 1, 3))
        cell = kept(f * cell + i * np.tanh(sums[2]), cells)
        hidden = kept(o * np.tanh(cell), state)
        outputs.append(hidden)
    return [stored(np.stack(outputs, axis=0 if time_major else 1), state)]
