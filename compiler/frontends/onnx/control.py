"""ONNX's control flow, as operators without any: branches are computed, loops written out.

A graph of ours has no control flow. Operators of ONNX have no effects, so that of a condition that
is computed at run time both branches can be computed, and one chosen. A loop becomes its body as
many times as it may run; a condition that ends it early chooses between old and new values.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor

RULE = "onnx-control-flow"
LONGEST = 1024
"""Most times that the body of a loop is written out."""

Body = Callable[[Sequence[Tensor]], list[Tensor]]


def _body(op: Operation, name: str) -> Body:
    """A graph inside the operator.

    Raises:
        Refusal: there is none.
    """
    body = op.fields.get(name)
    if body is None or not hasattr(body, "node"):
        raise Refusal("onnx-attribute", f"there is no {name}")
    return op.body(body)


def _truth(tensor: Tensor) -> bool | None:
    """A condition that is known; None if it is computed at run time."""
    return None if tensor.data is None else bool(tensor.data.any())


@imports("If")
def condition(op: Operation) -> list[Tensor]:
    """The results of the branch that a condition chooses; both are computed if it is not known.

    Raises:
        Refusal: a branch cannot be imported, or their results differ in shape.
    """
    test = op.input()
    known = _truth(test)
    if known is not None:
        return _body(op, "then_branch" if known else "else_branch")(())
    try:
        then, other = (_body(op, name)(()) for name in ("then_branch", "else_branch"))
        return [_chosen(op, index, test, (then, other)) for index in range(len(op.outputs))]
    except Refusal as refusal:
        reason = f"the condition is computed at run time, and not both branches can be: {refusal}"
        raise Refusal(RULE, reason, _hint(op, test) or refusal.hint) from None


def _chosen(op: Operation, index: int, test: Tensor, sides: Sequence[list[Tensor]]) -> Tensor:
    """A result of one branch or the other.

    Raises:
        Refusal: they do not have the same type.
    """
    x, y = (side[index] for side in sides)
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        types = " and ".join(f"{t.dtype.value}{list(t.shape)}" for t in (x, y))
        raise Refusal("onnx-shape", f"result {index} is {types}")
    op.build.stem = op.outputs[index] or op.name
    return chosen(op.build, op.build.reshape(test, ()), x, y)


def _hint(op: Operation, test: Tensor) -> str:
    """How to fix the inputs that a condition depends on."""
    graph = op.build.graph
    names, found = [test.name], dict[str, None]()
    seen = set(names)
    while names:
        name = names.pop()
        if name in graph.inputs:
            found[name] = None
        node = graph.producer(name)
        inputs = [] if node is None else [x for x in node.inputs if x is not None and x not in seen]
        seen.update(inputs)
        names += inputs
    options = " ".join(f"--input {shlex.quote(f'{name}=VALUE')}" for name in found)
    return f"read the model for one value of what decides: {options}" if found else ""


@dataclass
class _Turns:
    """A loop while it is written out.

    Attributes:
        op: the operator.
        state: values that go from turn to turn.
        rows: for each value that is collected, what every turn gave.
        active: whether the loop still runs; None if that is known.
    """

    op: Operation
    state: list[Tensor]
    rows: list[list[Tensor]] = field(default_factory=list)
    active: Tensor | None = None

    def take(self, results: Sequence[Tensor]) -> None:
        """Go on with the results of a turn: the state, and a row of each value collected.

        Raises:
            Refusal: values change their shape while the loop may end at any time.
        """
        count = len(self.state)
        if self.active is not None:
            sides = [list(results[:count]), self.state]
            results = [_chosen(self.op, index, self.active, sides) for index in range(count)]
        self.state = list(results[:count])
        for number, row in enumerate(results[count:]):
            if number == len(self.rows):
                self.rows.append([])
            self.rows[number].append(row)

    def collected(self, axes: Sequence[int], backwards: Sequence[int]) -> Iterator[Tensor]:
        """Rows of each value one after the other, along an axis of their own."""
        build = self.op.build
        for number, rows in enumerate(self.rows):
            shape = rows[0].shape
            if any(row.shape != shape for row in rows):
                raise Refusal("onnx-shape", "turns of the loop collect values of several shapes")
            axis = self.op.axis(axes[number] if axes else 0, len(shape) + 1)
            wide = (*shape[:axis], 1, *shape[axis:])
            parts = [build.reshape(row, wide) for row in rows]
            build.stem = self.op.outputs[len(self.state) + number] or self.op.name
            yield joined(build, parts[::-1] if backwards and backwards[number] else parts, axis)


@imports("Loop")
def loop(op: Operation) -> list[Tensor]:
    """A body, several times: as often as a constant says, and as long as a condition holds.

    Raises:
        Refusal: how often is not known, is more than `LONGEST`, or values are collected while the
            condition is computed at run time.
    """
    body, build = _body(op, "body"), op.build
    most = None if op.optional(0) is None else int(op.constant(0, "number of turns").reshape(-1)[0])
    test = op.optional(1)
    turns = _Turns(op, [op.input(index) for index in range(2, len(op.inputs))])
    turn = 0
    while (most is None or turn < most) and (test is None or _truth(test) is not False):
        if turn == LONGEST:
            raise Refusal(
                RULE, f"the loop runs more than {LONGEST} times, or nothing known ends it"
            )
        running = test is not None and test.data is None
        if running and most is None:
            raise Refusal(RULE, "how often the loop runs is computed at run time")
        if running:
            assert test is not None
            turns.active = build.reshape(test, ())
        go_on = build.constant(np.array(True)) if turns.active is None else turns.active
        given = [build.constant(np.array(turn, np.int64)), go_on, *turns.state]
        after, *results = body(given)
        if turns.active is not None and len(results) > len(turns.state):
            raise Refusal("onnx-shape", "how many values the loop collects is known at run time")
        turns.take(results)
        if turns.active is not None and _truth(after) is None:
            after = build.binary("logical_and", turns.active, build.reshape(after, ()))
        elif turns.active is not None and _truth(after):
            after = turns.active
        test, turn = after, turn + 1
    return [*turns.state, *_rows(op, turns, ())]


def _rows(
    op: Operation, turns: _Turns, axes: Sequence[int], backwards: Sequence[int] = ()
) -> list[Tensor]:
    found = list(turns.collected(axes, backwards))
    if any(op.wanted(index) for index in range(len(turns.state) + len(found), len(op.outputs))):
        raise Refusal("onnx-shape", "the loop has no turn that would say what it collects")
    return found


@imports("Scan")
def scan(op: Operation) -> list[Tensor]:
    """A body for every slice of some operands.

    Raises:
        Refusal: there are more than `LONGEST` slices, or the operator set is older than 9.
    """
    if op.opset < 9:
        raise Refusal("onnx-attribute", "Scan of operator set 8 counts sequences of their own")
    body, count = _body(op, "body"), op.integer("num_scan_inputs")
    operands = op.present()
    if not 0 < count <= len(operands):
        raise Refusal("onnx-attribute", f"{count} of {len(operands)} operands are sliced")
    first = len(operands) - count
    axes = [
        op.axis(axis, x.rank)
        for axis, x in zip(
            op.integers("scan_input_axes") or [0] * count, operands[first:], strict=True
        )
    ]
    backwards = op.integers("scan_input_directions") or [0] * count
    lengths = {x.shape[axis] for x, axis in zip(operands[first:], axes, strict=True)}
    if len(lengths) > 1 or max(lengths) > LONGEST:
        raise Refusal(RULE, f"slices of {sorted(lengths)} turns, at most {LONGEST} alike")
    (length,) = lengths
    turns = _Turns(op, list(operands[:first]))
    for turn in range(length):
        slices = [
            _slice(op, x, axis, length - 1 - turn if back else turn)
            for x, axis, back in zip(operands[first:], axes, backwards, strict=True)
        ]
        turns.take(body([*turns.state, *slices]))
    outputs = op.integers("scan_output_axes") or ()
    return [*turns.state, *_rows(op, turns, outputs, op.integers("scan_output_directions") or ())]


def _slice(op: Operation, x: Tensor, axis: int, index: int) -> Tensor:
    """What lies at an index of an axis, without that axis."""
    begin = [index if other == axis else 0 for other in range(x.rank)]
    shape = tuple(1 if other == axis else extent for other, extent in enumerate(x.shape))
    part = sliced(op.build, x, begin, shape, [1] * x.rank)
    return op.build.reshape(part, (*shape[:axis], *shape[axis + 1 :]))
