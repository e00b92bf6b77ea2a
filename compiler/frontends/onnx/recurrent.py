"""ONNX's recurrent layers, one group of operators for every step of the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.elementwise import INFINITY, clamp, softplus_of
from fitzroy.compiler.frontends.onnx.matmul import connected
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.ops.elementwise import LeakyReluAttributes

LONGEST = 512
"""Most steps, of all directions together, that a layer may have."""

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    """One direction of a recurrent layer; weights are [gates*H,...], rows in ONNX's order.

    Attributes:
        build: makes nodes.
        inputs: products of the sequence with the weights, with offsets, [T,B,gates*H].
        recurrent: weights of the state.
        offsets: offsets that are added to products of the state, [gates*H]; None if there are none.
        functions: functions of gates and states.
        hidden: extent H of the state.
        clip: applies the limit of the layer, if it has one.
    """

    build: Builder
    inputs: Tensor
    recurrent: Tensor
    offsets: Tensor | None
    functions: Sequence[Function]
    hidden: int
    clip: Function
    _rows: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def gate(self, x: Tensor, index: int) -> Tensor:
        """The columns of one gate of [B,gates*H]."""
        begin = [0] * (x.rank - 1) + [index * self.hidden]
        return sliced(self.build, x, begin, (*x.shape[:-1], self.hidden), [1] * x.rank)

    def rows(self, index: int, count: int = 1) -> Tensor:
        """Recurrent weights of some gates, transposed: [H,count*H]; one value for all steps."""
        if (index, count) not in self._rows:
            size = (count * self.hidden, self.hidden)
            part = sliced(self.build, self.recurrent, (index * self.hidden, 0), size, (1, 1))
            self._rows[index, count] = self.build.transpose(part, (1, 0))
        return self._rows[index, count]

    def at(self, step: int) -> Tensor:
        """Products of one step of the sequence: [B,gates*H]."""
        _, batch, width = self.inputs.shape
        part = sliced(self.build, self.inputs, (step, 0, 0), (1, batch, width), (1, 1, 1))
        return self.build.reshape(part, (batch, width))


State = list[Tensor]
Step = Callable[[Layer, Tensor, State], State]


# --- what happens in a step --------------------------------------------------------------------


def _rnn(layer: Layer, x: Tensor, state: State) -> State:
    (hidden,) = state
    product = connected(layer.build, hidden, layer.rows(0), layer.offsets)
    return [layer.functions[0](layer.clip(layer.build.add(x, product)))]


def gru_step(early: bool, build: Builder) -> Step:
    """A step of a gated recurrent unit; the reset comes before the product, or after it."""

    def step(layer: Layer, x: Tensor, state: State) -> State:
        (hidden,), (f, g) = state, layer.functions[:2]
        offsets = layer.offsets
        parts = [None if offsets is None else layer.gate(offsets, index) for index in range(3)]
        products = [connected(build, hidden, layer.rows(index), parts[index]) for index in (0, 1)]
        update, reset = (
            f(layer.clip(build.add(layer.gate(x, index), products[index]))) for index in (0, 1)
        )
        if early:
            product = connected(build, build.mul(reset, hidden), layer.rows(2), parts[2])
        else:
            product = build.mul(reset, connected(build, hidden, layer.rows(2), parts[2]))
        fresh = g(layer.clip(build.add(layer.gate(x, 2), product)))
        # (1 - z) * fresh + z * hidden
        kept = build.mul(update, build.binary("sub", hidden, fresh))
        return [build.add(fresh, kept)]

    return step


def lstm_step(build: Builder, peepholes: Tensor | None, *, coupled: bool) -> Step:
    """A step of a long short-term memory, whose gates have ONNX's order: input, output, forget."""

    def peeped(layer: Layer, x: Tensor, cell: Tensor, index: int) -> Tensor:
        if peepholes is None:
            return x
        return build.add(x, build.mul(cell, layer.gate(peepholes, index)))

    def step(layer: Layer, x: Tensor, state: State) -> State:
        (hidden, cell), (f, g, h) = state, layer.functions[:3]
        sums = build.add(x, connected(build, hidden, layer.rows(0, 4), layer.offsets))
        enter = f(layer.clip(peeped(layer, layer.gate(sums, 0), cell, 0)))
        if coupled:
            forget = build.binary("sub", build.scalar(1, enter), enter)
        else:
            forget = f(layer.clip(peeped(layer, layer.gate(sums, 2), cell, 2)))
        fresh = g(layer.clip(layer.gate(sums, 3)))
        cell = build.add(build.mul(forget, cell), build.mul(enter, fresh))
        leave = f(layer.clip(peeped(layer, layer.gate(sums, 1), cell, 1)))
        return [build.mul(leave, h(cell)), cell]

    return step


# --- layers ------------------------------------------------------------------------------------

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@imports("RNN", "GRU", "LSTM")
def recurrent(op: Operation) -> list[Tensor]:
    """A recurrent layer in one direction or both, from the zero state or a given one.

    Raises:
        Refusal: sequences have several lengths, or there are too many steps.
    """
    build, first = op.build, bool(op.integer("layout"))
    x = build.transpose(op.input(), (1, 0, 2)) if first else op.input()
    steps, batch, _ = x.shape
    direction = op.text("direction", "forward")
    names = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in names:
        raise Refusal("onnx-attribute", f"direction {direction!r}")
    if steps * len(names[direction]) > LONGEST:
        raise Refusal("onnx-size", f"{steps} steps; {LONGEST} are expressed")
    if op.optional(4) is not None and set(op.constants(4, "lengths of sequences") or ()) != {steps}:
        raise Refusal("onnx-attribute", "sequences of several lengths")
    results = []
    for index, backwards in enumerate(names[direction]):
        layer, step = _layer(op, x, index)
        states = _initial(op, layer, index, batch, first=first)
        results.append(_unrolled(layer, step, states, steps, backwards=backwards))
    return _results(op, results, first=first)


@imports("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_lstm(op: Operation) -> list[Tensor]:
    """A long short-term memory with integer weights; other operands are not rounded here.

    Raises:
        Refusal: weights vary, or as those of other recurrent layers.
    """
    op.build.left_real += 1
    made = []
    for index, scale in ((1, 8), (2, 10)):
        # Integers are [D,I,gates*H], with scales [D] or [D,gates*H].
        stored = op.constant(index, "weights").astype(np.float32)
        step, zero = (op.constant(at, "scale") for at in (scale, scale + 1))
        real = stored - zero.reshape(len(stored), 1, -1).astype(np.float32)
        real = real * step.reshape(len(stored), 1, -1).astype(np.float32)
        made.append(op.array(real.swapaxes(1, 2)))
    inputs = [op.input(0), *made, *op.inputs[3:8]]
    return recurrent(replace(op, name="LSTM", inputs=inputs))


def _layer(op: Operation, x: Tensor, index: int) -> tuple[Layer, Step]:
    """One direction: its weights, and what happens in a step."""
    build, gates = op.build, _GATES[op.name]
    weights, recurrent = (_part(build, op.input(i), index) for i in (1, 2))
    if recurrent.rank != 2 or recurrent.shape[0] != gates * recurrent.shape[1]:
        raise Refusal("onnx-type-rule", f"recurrent weights {list(recurrent.shape)}")
    hidden = recurrent.shape[1]
    early = op.name == "GRU" and not op.integer("linear_before_reset")
    entering: Tensor | None = None
    offsets: Tensor | None = None
    if op.optional(3) is not None:
        both = _part(build, op.input(3), index)
        entering = sliced(build, both, (0,), (gates * hidden,), (1,))
        offsets = sliced(build, both, (gates * hidden,), (gates * hidden,), (1,))
        if op.name != "GRU":
            entering, offsets = build.add(entering, offsets), None
    inputs = connected(build, x, build.transpose(weights, (1, 0)), entering)
    limit = op.number("clip", INFINITY)
    layer = Layer(
        build,
        inputs,
        recurrent,
        offsets,
        _functions(op, index),
        hidden,
        lambda t: clamp(build, t, -limit, limit),
    )
    if op.name == "LSTM":
        peepholes = None if op.optional(7) is None else _part(build, op.input(7), index)
        return layer, lstm_step(build, peepholes, coupled=bool(op.integer("input_forget")))
    return layer, _rnn if op.name == "RNN" else gru_step(early, build)


def _part(build: Builder, x: Tensor, index: int) -> Tensor:
    """The weights of one direction."""
    shape = x.shape[1:]
    if index >= x.shape[0]:
        raise Refusal("onnx-type-rule", f"weights of {x.shape[0]} directions")
    part = sliced(build, x, (index, *(0,) * len(shape)), (1, *shape), (1,) * x.rank)
    return build.reshape(part, shape)


def _functions(op: Operation, index: int) -> list[Function]:
    """Functions of gates and states, of one direction."""
    count = len(_FUNCTIONS[op.name])
    given = op.fields.get("activations")
    names = [str(name, "utf-8", "replace") for name in given] if given else _FUNCTIONS[op.name] * 2
    if len(names) < (index + 1) * count:
        raise Refusal("onnx-attribute", f"{len(names)} activations")
    if op.numbers("activation_alpha") or op.numbers("activation_beta"):
        raise Refusal("onnx-attribute", "activations with parameters")
    return [_function(op.build, name) for name in names[index * count : (index + 1) * count]]


def _function(build: Builder, name: str) -> Function:
    """A function by the name that recurrent layers use."""
    functions: dict[str, Function] = {
        "sigmoid": lambda x: build.unary("sigmoid", x),
        "tanh": lambda x: build.unary("tanh", x),
        "relu": lambda x: clamp(build, x, 0, INFINITY),
        "leakyrelu": lambda x: build.unary("leaky_relu", x, LeakyReluAttributes(0.01)),
        "softplus": lambda x: softplus_of(build, x),
        "hardsigmoid": lambda x: clamp(
            build, build.add(build.mul(x, build.scalar(0.2, x)), build.scalar(0.5, x)), 0, 1
        ),
    }
    found = functions.get(name.lower())
    if found is None:
        raise Refusal("onnx-attribute", f"activation {name!r}")
    return found


def _initial(op: Operation, layer: Layer, index: int, batch: int, *, first: bool) -> State:
    """The states before the first step: [B,H] each."""
    states = []
    for operand in (5, 6)[: 2 if op.name == "LSTM" else 1]:
        given = op.optional(operand)
        if given is None:
            states.append(op.array(np.zeros((batch, layer.hidden), np.float32)))
            continue
        given = op.build.transpose(given, (1, 0, 2)) if first else given
        states.append(_part(op.build, given, index))
    return states


def _unrolled(
    layer: Layer, step: Step, state: State, steps: int, *, backwards: bool
) -> tuple[list[Tensor], State]:
    """Outputs of all steps in order of the sequence, and the last state."""
    outputs = []
    for index in reversed(range(steps)) if backwards else range(steps):
        state = step(layer, layer.at(index), state)
        outputs.append(state[0])
    return outputs[::-1] if backwards else outputs, state


def _results(
    op: Operation, results: Sequence[tuple[list[Tensor], State]], *, first: bool
) -> list[Tensor]:
    """The sequence of outputs [T,D,B,H], and the last states [D,B,H]."""
    build = op.build
    batch, hidden = results[0][1][0].shape
    found = []
    if op.wanted(0):
        columns = [
            joined(build, [build.reshape(h, (1, 1, batch, hidden)) for h in outputs], 0)
            for outputs, _ in results
        ]
        sequence = joined(build, columns, 1)
        found.append(build.transpose(sequence, (2, 0, 1, 3)) if first else sequence)
    else:
        found.append(op.array(np.zeros(0, np.float32)))
    for index in range(len(results[0][1])):
        states = [build.reshape(state[index], (1, batch, hidden)) for _, state in results]
        last = joined(build, states, 0)
        found.append(build.transpose(last, (1, 0, 2)) if first else last)
    return found
