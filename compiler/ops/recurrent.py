"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Attributes, Value
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import real, reals, stored
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

GATES = ("input", "forget", "cell", "output")
"""Order in which TFLite lists the gates."""

INPUT, INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 0, 1, 5, 12
OUTPUT_STATE, CELL_STATE = 18, 19
OPERANDS = 24
"""Operand positions of UNIDIRECTIONAL_SEQUENCE_LSTM: gates in the order of `GATES`."""

_UNUSED = {
    9: "peephole weights", 10: "peephole weights", 11: "peephole weights",
    16: "projection weights", 17: "projection biases",
    20: "layer normalization", 21: "layer normalization", 22: "layer normalization",
    23: "layer normalization",
}  # fmt: skip


@dataclass(frozen=True)
class LstmAttributes(Attributes):
    """Attributes of an LSTM layer.

    Attributes:
        time_major: whether the input is [T,B,I] rather than [B,T,I].
        cell_clip: bound of the cell state's magnitude, 0 for none.
    """

    time_major: bool = False
    cell_clip: float = 0.0


@define
class UnidirectionalSequenceLstm(Operator):
    """LSTM over a sequence, with tanh as cell activation and states that start at 0.

    Computes on real numbers: quantized operands stand for the numbers they represent, and only
    the result is rounded.
    """

    name = "unidirectional_sequence_lstm"
    operands = tuple(f"operand{i}?" for i in range(OPERANDS))
    attributes = LstmAttributes
    tflite = ("UNIDIRECTIONAL_SEQUENCE_LSTM",)
    table = "UnidirectionalSequenceLSTMOptions"

    def lstm(self, call: Call) -> LstmAttributes:
        """The call's attributes, typed."""
        return call.attributes(LstmAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        shape = call.type(INPUT).shape
        real(call.type(INPUT))
        real(call.result.type)
        demand(len(shape) == 3, f"a sequence has 3 dimensions, not {len(shape)}")
        weights = call.type(INPUT_WEIGHTS + 1)
        demand(weights.rank == 2, f"weights have {weights.rank} dimensions, not 2")
        cells = weights.shape[0]
        for index in (OUTPUT_STATE, CELL_STATE):
            state = call.optional(index)
            demand(state is None or _is_zero(state), "an initial state that is not zero")
        for gate in range(len(GATES)):
            found = call.type(INPUT_WEIGHTS + gate).shape
            demand(found == (cells, shape[2]), f"{GATES[gate]} gate: weights {list(found)}")
            found = call.type(RECURRENT_WEIGHTS + gate).shape
            demand(found == (cells, cells), f"{GATES[gate]} gate: recurrent weights {list(found)}")
            bias = call.optional(BIASES + gate)
            demand(
                bias is None or bias.type.shape == (cells,),
                f"{GATES[gate]} gate: biases of another size",
            )
        return [Expected((*shape[:2], cells))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        for index, what in _UNUSED.items():
            demand(call.optional(index) is None, f"an LSTM with {what}")
        demand(call.optional(INPUT_WEIGHTS) is not None, "an LSTM with coupled gates")
        if options.fused_activation_function != tflite.ActivationFunctionType.TANH:
            raise TypeRuleError(f"cell activation {options.fused_activation_function} is not tanh")
        if options.proj_clip:
            raise TypeRuleError("an LSTM with a projection clip")
        return Imported(LstmAttributes(options.time_major, options.cell_clip))

    def to_tflite(self, call: Call) -> Exported:
        a, state = self.lstm(call), call.optional(OUTPUT_STATE)
        options = self.options(
            fused_activation_function=int(tflite.ActivationFunctionType.TANH),
            cell_clip=a.cell_clip,
            time_major=a.time_major,
        )
        states = tuple(i for i in (OUTPUT_STATE, CELL_STATE) if call.optional(i) is not None)
        intermediates: tuple[TensorType, ...] = ()
        if state is not None and call.type(INPUT).is_quantized:
            # Integer kernels have four for sums of gates, which only normalization needs, and one
            # with the quantization of the hidden state before a projection.
            sums = TensorType((0,), DType.FLOAT32)
            intermediates = (*[sums] * len(GATES), state.type.with_shape((0,)))
        return Exported(self.tflite[0], options, states=states, intermediates=intermediates)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        def operand(index: int) -> Array | None:
            value, array = call.optional(index), arrays[index] if index < len(arrays) else None
            if value is None or array is None:
                return None
            return reals(array, value.type)

        a = self.lstm(call)
        sequence = operand(INPUT)
        assert sequence is not None
        steps = sequence if a.time_major else sequence.swapaxes(0, 1)
        cells = call.type(INPUT_WEIGHTS + 1).shape[0]
        hidden = np.zeros((steps.shape[1], cells), np.float32)
        cell = np.zeros_like(hidden)
        weights = [operand(INPUT_WEIGHTS + g) for g in range(4)]
        recurrent = [operand(RECURRENT_WEIGHTS + g) for g in range(4)]
        biases = [operand(BIASES + g) for g in range(4)]
        outputs = []
        for step in steps:
            sums = []
            for w, r, b in zip(weights, recurrent, biases, strict=True):
                assert w is not None
                assert r is not None
                sums.append(step @ w.T + hidden @ r.T + (0 if b is None else b))
            i, f, o = (1 / (1 + np.exp(-sums[gate])) for gate in (0, 1, 3))
            cell = (f * cell + i * np.tanh(sums[2])).astype(np.float32)
            if a.cell_clip > 0:
                cell = np.clip(cell, -a.cell_clip, a.cell_clip)
            hidden = (o * np.tanh(cell)).astype(np.float32)
            outputs.append(hidden)
        result = np.stack(outputs, axis=0 if a.time_major else 1)
        return [stored(result, call.result.type)]


def _is_zero(state: Value) -> bool:
    """Whether a state is the constant 0 in whatever representation."""
    quantization = state.type.quantization
    zero = 0 if quantization is None else quantization.zero_point[0]
    return state.data is not None and bool((state.data == zero).all())
