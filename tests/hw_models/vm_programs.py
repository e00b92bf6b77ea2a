"""Random modules that verify, and a straightforward evaluator for them.

The evaluator shares nothing with the interpreter but the decoded instructions: it dispatches by
name and computes with numbers of numpy.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    ExportFunctionDef,
    FunctionDescriptor,
    FunctionSignatureDef,
    InternalFunctionDef,
    ModuleStateDef,
    RodataSegmentDef,
    TypeDef,
    pack_descriptors,
)
from fitzroy.hw_models.vm.opcodes import NAMES, Dialect, Instruction, decode_all
from fitzroy.hw_models.vm.operands import Branch, Function, Register

INTEGERS, REFERENCES, GLOBALS, SEGMENTS = 6, 3, 3, 2
BUFFER = 1
"""Ordinal of the buffer type."""

_EDGES = (0, 1, -1, 2, 31, 255, 256, 65535, -(1 << 31), (1 << 31) - 1)
_OPS = NAMES[Dialect.B]
_PLAIN = [
    name
    for name, opcode in _OPS.items()
    if opcode.kinds and set(opcode.kinds) <= set("sdIB") and not name.startswith("global")
]
_OTHERS = [
    "const.ref.zero",
    "const.ref.rodata",
    "select.ref",
    "cmp.eq.ref",
    "cmp.ne.ref",
    "cmp.nz.ref",
    "global.load.i32",
    "global.store.i32",
    "global.load.indirect.i32",
    "global.store.indirect.i32",
    "global.load.ref",
    "global.store.ref",
    "br",
    "cond_br",
    "call",
    "return",
    "trace",
]


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        kind: ``ok``, ``budget``, ``trap`` or ``range``.
        values: results; references by the number of their segment, None for null.
        steps: instructions executed.
    """

    kind: str
    values: tuple[Any, ...]
    steps: int


def random_program(seed: int) -> BytecodeModule:
    """A module of two functions of two integers to an integer and a reference."""
    rng = random.Random(seed)
    bodies = [_Body(rng, depth).code() for depth in (0, 1)]
    signature = FunctionSignatureDef(
        argument_types=np.array([0, 0], np.int32), result_types=np.array([0, BUFFER], np.int32)
    )
    places, at = [], 0
    for body in bodies:
        places.append(FunctionDescriptor(at, len(body), INTEGERS, REFERENCES))
        at += len(body)
    return BytecodeModule(
        name="random",
        types=[TypeDef(full_name="i32"), TypeDef(full_name="!iree.byte_buffer")],
        exported_functions=[ExportFunctionDef(local_name="main", signature=signature)],
        internal_functions=[InternalFunctionDef(signature=signature) for _ in bodies],
        rodata_segments=[
            RodataSegmentDef(data=np.frombuffer(bytes([number]), np.uint8))
            for number in range(SEGMENTS)
        ],
        module_state=ModuleStateDef(global_bytes_capacity=4 * GLOBALS, global_ref_count=1),
        function_descriptors=pack_descriptors(places),
        bytecode_data=np.frombuffer(b"".join(bodies), np.uint8),
    )


class _Body:
    """Instructions of a function; branches go anywhere, so that some functions never end."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self.rng = rng
        self.depth = depth

    def code(self) -> bytes:
        count = self.rng.randint(1, 14)
        made = [self._instruction(count) for _ in range(count)]
        made.append(Instruction(_OPS["return"], (self._results(),)))
        starts, at = [], 0
        for item in made:
            starts.append(at)
            at += len(item.encode())
        return b"".join(_placed(item, starts).encode() for item in made)

    def _integer(self) -> Register:
        return Register(self.rng.randrange(INTEGERS))

    def _reference(self, *, move: bool = False) -> Register:
        return Register(self.rng.randrange(REFERENCES), True, move and self.rng.random() < 0.4)

    def _results(self) -> tuple[Register, ...]:
        return self._integer(), self._reference(move=True)

    def _branch(self, count: int) -> Branch:
        moves = [
            (self._reference(move=True), self._reference())
            if self.rng.random() < 0.3
            else (self._integer(), self._integer())
            for _ in range(self.rng.choice((0, 0, 1, 2, 3)))
        ]
        return Branch(self.rng.randrange(count + 1), tuple(moves))

    def _instruction(self, count: int) -> Instruction:
        rng = self.rng
        name = rng.choice(_PLAIN if rng.random() < 0.6 else _OTHERS)
        if name == "call":
            if self.depth:
                name = "const.i32"
            else:
                arguments = (self._integer(), self._integer())
                return Instruction(
                    _OPS[name], (Function(1), arguments, (self._integer(), self._reference()))
                )
        if name == "return":
            return Instruction(_OPS[name], (self._results(),))
        if name == "trace":
            return Instruction(_OPS[name], ("t", (self._integer(), self._reference(move=True))))
        make: dict[str, Callable[[], Any]] = {
            "s": self._integer,
            "d": self._integer,
            "S": lambda: self._reference(move=True),
            "D": self._reference,
            "M": lambda: self._reference(move=True),
            "G": lambda: 4 * rng.randrange(GLOBALS),
            "Y": lambda: 0,
            "T": lambda: BUFFER,
            "I": lambda: rng.choice(_EDGES) if rng.random() < 0.6 else rng.randrange(-99, 99),
            "B": lambda: rng.randrange(32),
            "K": lambda: rng.randrange(SEGMENTS),
            "L": lambda: self._branch(count),
        }
        return Instruction(_OPS[name], tuple(make[kind]() for kind in _OPS[name].kinds))


def _placed(item: Instruction, starts: list[int]) -> Instruction:
    """Branches to instructions by number become branches to bytes."""
    operands = tuple(
        Branch(starts[value.target], value.moves) if isinstance(value, Branch) else value
        for value in item.operands
    )
    return Instruction(item.opcode, operands)


# --- evaluator ------------------------------------------------------------------------------------


class _Stop(Exception):
    """The call ended early."""


class Evaluator:
    """Evaluates `random_program`; references are numbers of segments."""

    def __init__(self, module: BytecodeModule, budget: int) -> None:
        self.code = [dict(decode_all(module.code(n))) for n in range(len(module.descriptors))]
        self.budget = self.left = budget
        self.globals = np.zeros(4 * GLOBALS, np.uint8)
        self.ref: int | None = None

    def call(self, a: int, b: int) -> Outcome:
        self.left = self.budget
        # Frames of a depth lie at one place of the stack, which only a call from outside clears.
        self.stack = np.zeros((2, INTEGERS), np.int32)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                values = self._function(0, a, b, 0)
        except _Stop as stop:
            return Outcome(str(stop), (), self.budget - self.left)
        return Outcome("ok", values, self.budget - self.left)

    def _function(self, number: int, a: int, b: int, depth: int) -> tuple[Any, ...]:
        i = self.stack[depth]
        i[:2] = a, b
        r: list[int | None] = [None] * REFERENCES
        order = sorted(self.code[number])
        pc = 0
        while True:
            if not self.left:
                raise _Stop("budget")
            self.left -= 1
            item = self.code[number][pc]
            name, ops = item.opcode.name, item.operands
            following = next((place for place in order if place > pc), -1)
            if name == "return":
                return tuple(self._taken(i, r, register) for register in ops[0])
            pc = self._step(name, ops, i, r, following)

    def _taken(self, i: Any, r: list[int | None], register: Register) -> Any:
        if not register.is_ref:
            return int(i[register.number])
        value = r[register.number]
        if register.move:
            r[register.number] = None
        return value

    def _step(self, name: str, ops: Any, i: Any, r: list[int | None], following: int) -> int:
        def get(register: Register) -> Any:
            return self._taken(i, r, register)

        if name in ("br", "cond_br"):
            branch = ops[0] if name == "br" else ops[1] if i[ops[0].number] != 0 else ops[2]
            for source, target in branch.moves:
                (r if target.is_ref else i)[target.number] = get(source)
            return int(branch.target)
        if name == "call":
            a, b = (int(get(register)) for register in ops[1])
            values = self._function(ops[0].ordinal, a, b, 1)
            i[ops[2][0].number], r[ops[2][1].number] = values
        elif name == "trace":
            for register in ops[1]:
                get(register)
        elif name.startswith("global"):
            self._global(name, ops, i, r)
        elif "ref" in name:
            self._reference(name, ops, i, r)
        else:
            inputs = [i[op.number] if isinstance(op, Register) else op for op in ops[:-1]]
            i[ops[-1].number] = _computed(name, inputs)
        return following

    def _global(self, name: str, ops: Any, i: Any, r: list[int | None]) -> None:
        if name == "global.load.ref":
            value = self.ref
            if ops[2].move:
                self.ref = None
            r[ops[2].number] = value
            return
        if name == "global.store.ref":
            self.ref = self._taken(i, r, ops[2])
            return
        offset = int(i[ops[0].number]) if "indirect" in name else ops[0]
        if not 0 <= offset < 4 * GLOBALS:
            raise _Stop("range")
        if offset + 4 > 4 * GLOBALS:
            raise _Stop("trap")
        part = self.globals[offset : offset + 4]
        if "load" in name:
            i[ops[1].number] = part.copy().view(np.int32)[0]
        else:
            part[:] = i[ops[1].number : ops[1].number + 1].view(np.uint8)

    def _reference(self, name: str, ops: Any, i: Any, r: list[int | None]) -> None:
        if name == "const.ref.zero":
            r[ops[0].number] = None
        elif name == "const.ref.rodata":
            r[ops[1].number] = ops[0]
        elif name == "cmp.nz.ref":
            i[ops[1].number] = int(self._taken(i, r, ops[0]) is not None)
        elif name == "select.ref":
            # As `iree/vm/bytecode_dispatch.c` has it: the result is there before the other goes.
            condition = i[ops[0].number] != 0
            winner, loser = (ops[2], ops[3]) if condition else (ops[3], ops[2])
            r[ops[4].number] = self._taken(i, r, winner)
            if loser.move:
                r[loser.number] = None
        else:
            same = r[ops[0].number] == r[ops[1].number]
            i[ops[2].number] = int(same == (name == "cmp.eq.ref"))
            self._taken(i, r, ops[0])
            self._taken(i, r, ops[1])


def _computed(name: str, inputs: list[Any]) -> Any:
    """Arithmetic of 32 bits, by numpy."""
    if name == "const.i32":
        return np.int32(inputs[0])
    if name == "const.i32.zero":
        return np.int32(0)
    if name == "select.i32":
        return inputs[1] if inputs[0] != 0 else inputs[2]
    if name.startswith(("shl", "shr")):
        value, count = inputs
        if name == "shr.i32.s":
            return np.right_shift(value, np.int32(count))
        kind = np.left_shift if name == "shl.i32" else np.right_shift
        return kind(value.astype(np.uint32), np.uint32(count)).astype(np.int32)
    narrow: dict[str, Callable[[Any], Any]] = {
        "not.i32": np.invert,
        "trunc.i8": lambda x: x.astype(np.uint8),
        "trunc.i16": lambda x: x.astype(np.uint16),
        "ext.i8.i32.s": lambda x: x.astype(np.int8),
        "ext.i16.i32.s": lambda x: x.astype(np.int16),
    }
    if name in narrow:
        return np.int32(narrow[name](inputs[0]))
    a, b = inputs
    if name.endswith(".u"):
        a, b = a.astype(np.uint32), b.astype(np.uint32)
    operation = name.split(".")[1] if name.startswith("cmp") else name.split(".")[0]
    if operation in ("div", "rem"):
        if b == 0 or (name.endswith(".s") and a == -(1 << 31) and b == -1):
            raise _Stop("trap")
        quotient = np.trunc(np.float64(a) / np.float64(b))
        found = quotient if operation == "div" else np.float64(a) - np.float64(b) * quotient
        return np.int64(found).astype(np.int32)
    table = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "lte": np.less_equal,
        "gt": np.greater,
        "gte": np.greater_equal,
    }
    return np.int32(table[operation](a, b))
