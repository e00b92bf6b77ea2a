"""Executes bytecode: every instruction becomes a function the first time it is reached.

A function of Python takes the two banks of registers and returns the place of the next
instruction. Instructions that cannot be decoded, and operands that name nothing, end the call when
they are reached, and not before: files that the VM loads may have them.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.vm.objects import Object, Value, assign, clear, give, take, wrap
from fitzroy.hw_models.vm.opcodes import Instruction, Opcode, decode
from fitzroy.hw_models.vm.operands import (
    I32_REGISTERS,
    REF_REGISTERS,
    Branch,
    Function,
    Register,
)
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap

if TYPE_CHECKING:
    from fitzroy.hw_models.vm.context import Instance

Integers = list[int]
References = list[Object | None]
Handler = Callable[[Integers, References], int]
"""Executes an instruction and returns the place of the next one, or `_RETURN`."""

MOST_FRAMES = 32
"""Functions that may be active at a time, those of other modules and of the host included."""

STEP_BUDGET = 1 << 40
"""Instructions of a call, unless the caller says otherwise."""

_RETURN = -1
_LOW = 0xFFFFFFFF
_I32 = struct.Struct("<i")
_LEAST = -(1 << 31)

Trace = list[tuple[int, Opcode]]
"""Places and opcodes of executed instructions."""


@dataclass(slots=True)
class Thread:
    """A call on its way.

    Attributes:
        ticks: yields once for every instruction that may still be executed.
        frames: functions that are active.
        trace: what is executed, if somebody wants to know.
        integers: registers of integers by the number of active functions. A frame finds there what
            the last one of that number left, as on the stack of the VM.
    """

    ticks: Iterator[int]
    frames: int = 0
    trace: Trace | None = None
    integers: list[Integers] = field(default_factory=list)

    def enter(self) -> Integers:
        """Another function is active.

        Returns:
            Its registers of integers.

        Raises:
            VmError: too many are.
        """
        if self.frames == MOST_FRAMES:
            raise VmError(
                Status.RESOURCE_EXHAUSTED, f"calls are nested more than {MOST_FRAMES} deep"
            )
        if self.frames == len(self.integers):
            self.integers.append([0] * I32_REGISTERS)
        self.frames += 1
        return self.integers[self.frames - 1]


@dataclass(slots=True)
class Call:
    """A call of a function of the host.

    Attributes:
        arguments: its arguments; a reference that is not set to None is released afterwards.
        segments: for calls with segments of arguments, their sizes; -1 for a plain argument.
    """

    arguments: list[Value]
    segments: tuple[int, ...] = ()

    def release(self) -> None:
        """Release the references among the arguments."""
        for value in self.arguments:
            if isinstance(value, Object):
                value.release()


NativeFunction = Callable[[Call], Sequence[Value]]
"""Computes results from arguments; of references in results, the caller gets the ownership."""


# --- functions of a module ------------------------------------------------------------------------


class Body(dict[int, Handler]):
    """The code of a function, by place; instructions are bound when they are reached.

    Args:
        instance: its module.
        ordinal: its number.
    """

    def __init__(self, instance: Instance, ordinal: int) -> None:
        super().__init__()
        self.instance = instance
        self.ordinal = ordinal
        self.code = instance.module.code(ordinal)
        self.refs = instance.module.descriptors[ordinal].ref_registers
        self.returned: tuple[Register, ...] = ()
        self.thread = Thread(iter(()))

    def __missing__(self, pc: int) -> Handler:
        """Bind the instruction at a place."""
        instruction, following = self._decoded(pc)
        _check_registers(instruction.operands, self.refs)
        handler = _BINDERS[instruction.opcode.name](self, following, *instruction.operands)
        self[pc] = handler
        return handler

    def _decoded(self, pc: int) -> tuple[Instruction, int]:
        """The instruction at a place, and the place of the next one.

        Raises:
            VmError: there is none.
        """
        if not 0 <= pc < len(self.code):
            raise VmTrap(f"byte {pc} of {len(self.code)} of the function's code")
        try:
            return decode(self.code, pc, self.instance.dialect)
        except FormatError as error:
            raise VmError(Status.UNIMPLEMENTED, error.what) from None

    @property
    def name(self) -> str:
        """Module and function."""
        functions = self.instance.module.internal_functions or []
        local = functions[self.ordinal].local_name or f"function#{self.ordinal}"
        return f"{self.instance.name}.{local}"

    def run(self, thread: Thread, i: Integers, r: References) -> tuple[Register, ...]:
        """Execute the function, for which the thread has a frame, which ends with it.

        Returns:
            The registers with its results.

        Raises:
            VmError: it does not end well.
        """
        outer, self.thread = self.thread, thread
        pc = 0
        try:
            if thread.trace is not None:
                pc = self._traced(thread, i, r)
            else:
                for _ in thread.ticks:
                    pc = self[pc](i, r)
                    if pc < 0:
                        break
            if pc >= 0:
                raise VmError(Status.RESOURCE_EXHAUSTED, "the budget of instructions is used up")
            return self.returned
        except VmError as error:
            error.where = error.where or f"{self.name}, byte {pc}"
            raise
        finally:
            self.thread = outer
            thread.frames -= 1

    def _traced(self, thread: Thread, i: Integers, r: References) -> int:
        pc, trace = 0, thread.trace
        assert trace is not None
        for _ in thread.ticks:
            trace.append((pc, self._decoded(pc)[0].opcode))
            pc = self[pc](i, r)
            if pc < 0:
                break
        return pc


def _check_registers(operands: Sequence[object], refs: int) -> None:
    """References live in as many registers as the function declares."""
    for register in registers(operands):
        if register.is_ref and register.number >= refs:
            raise VmTrap(f"{register}, the function has {refs} ref registers")


def registers(operands: Sequence[object]) -> Iterator[Register]:
    """All registers among the operands of an instruction."""
    for item in operands:
        if isinstance(item, Register):
            yield item
        elif isinstance(item, Branch):
            yield from registers([register for pair in item.moves for register in pair])
        elif isinstance(item, tuple):
            yield from registers(item)


def references() -> References:
    """Registers of references of a function, all null."""
    return [None] * REF_REGISTERS


@dataclass(slots=True)
class Target:
    """What a call calls: a function of a module, or of the host.

    Attributes:
        body: the function of a module.
        native: the function of the host.
        name: its name.
    """

    body: Body | None = None
    native: NativeFunction | None = None
    name: str = field(default="")


Binder = Callable[..., Handler]
_BINDERS: dict[str, Binder] = {}


def _binds(*names: str) -> Callable[[Binder], Binder]:
    """Declare how instructions become functions."""

    def declare(binder: Binder) -> Binder:
        for name in names:
            _BINDERS[name] = binder
        return binder

    return declare


# --- arithmetic -----------------------------------------------------------------------------------


def _divided(a: int, b: int) -> int:
    """Quotient towards 0."""
    if not b or (b == -1 and a == _LEAST):
        raise VmTrap(f"{a} / {b}")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _unsigned_divided(a: int, b: int) -> int:
    if not b:
        raise VmTrap(f"{a & _LOW} / 0")
    return (a & _LOW) // (b & _LOW)


def _signed(bits: int) -> Callable[[int], int]:
    half = 1 << bits - 1
    return lambda a: (a + half & 2 * half - 1) - half


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add.i32": lambda a, b: (a + b + 0x80000000 & _LOW) - 0x80000000,
    "sub.i32": lambda a, b: (a - b + 0x80000000 & _LOW) - 0x80000000,
    "mul.i32": lambda a, b: (a * b + 0x80000000 & _LOW) - 0x80000000,
    "div.i32.s": _divided,
    "div.i32.u": lambda a, b: wrap(_unsigned_divided(a, b)),
    "rem.i32.s": lambda a, b: a - b * _divided(a, b),
    "rem.i32.u": lambda a, b: wrap((a & _LOW) - (b & _LOW) * _unsigned_divided(a, b)),
    "and.i32": operator.and_,
    "or.i32": operator.or_,
    "xor.i32": operator.xor,
    "cmp.eq.i32": lambda a, b: int(a == b),
    "cmp.ne.i32": lambda a, b: int(a != b),
    "cmp.lt.i32.s": lambda a, b: int(a < b),
    "cmp.lte.i32.s": lambda a, b: int(a <= b),
    "cmp.gt.i32.s": lambda a, b: int(a > b),
    "cmp.gte.i32.s": lambda a, b: int(a >= b),
    "cmp.lt.i32.u": lambda a, b: int(a & _LOW < b & _LOW),
    "cmp.lte.i32.u": lambda a, b: int(a & _LOW <= b & _LOW),
    "cmp.gt.i32.u": lambda a, b: int(a & _LOW > b & _LOW),
    "cmp.gte.i32.u": lambda a, b: int(a & _LOW >= b & _LOW),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "not.i32": operator.invert,
    "trunc.i8": lambda a: a & 0xFF,
    "trunc.i16": lambda a: a & 0xFFFF,
    "ext.i8.i32.s": _signed(8),
    "ext.i16.i32.s": _signed(16),
}
_SHIFTS: dict[str, Callable[[int, int], int]] = {
    "shl.i32": lambda a, count: wrap(a << count),
    "shr.i32.s": operator.rshift,
    "shr.i32.u": lambda a, count: wrap((a & _LOW) >> count),
}


def _binary(compute: Callable[[int, int], int]) -> Binder:
    def bind(body: Body, after: int, a: Register, b: Register, to: Register) -> Handler:
        x, y, z = a.number, b.number, to.number

        def run(i: Integers, r: References) -> int:
            i[z] = compute(i[x], i[y])
            return after

        return run

    return bind


def _unary(compute: Callable[[int], int]) -> Binder:
    def bind(body: Body, after: int, a: Register, to: Register) -> Handler:
        x, z = a.number, to.number

        def run(i: Integers, r: References) -> int:
            i[z] = compute(i[x])
            return after

        return run

    return bind


def _shift(compute: Callable[[int, int], int]) -> Binder:
    def bind(body: Body, after: int, a: Register, count: int, to: Register) -> Handler:
        x, z = a.number, to.number

        def run(i: Integers, r: References) -> int:
            i[z] = compute(i[x], count)
            return after

        return run

    return bind


_BINDERS |= {name: _binary(compute) for name, compute in _BINARY.items()}
_BINDERS |= {name: _unary(compute) for name, compute in _UNARY.items()}
_BINDERS |= {name: _shift(compute) for name, compute in _SHIFTS.items()}


@_binds("select.i32")
def _select(
    body: Body, after: int, condition: Register, a: Register, b: Register, to: Register
) -> Handler:
    c, x, y, z = condition.number, a.number, b.number, to.number

    def run(i: Integers, r: References) -> int:
        i[z] = i[x] if i[c] else i[y]
        return after

    return run


@_binds("const.i32")
def _constant(body: Body, after: int, value: int, to: Register) -> Handler:
    z = to.number

    def run(i: Integers, r: References) -> int:
        i[z] = value
        return after

    return run


@_binds("const.i32.zero")
def _zero(body: Body, after: int, to: Register) -> Handler:
    return _constant(body, after, 0, to)


# --- references -----------------------------------------------------------------------------------


@_binds("const.ref.zero")
def _null(body: Body, after: int, to: Register) -> Handler:
    z = to.number

    def run(i: Integers, r: References) -> int:
        give(r, z, None)
        return after

    return run


@_binds("const.ref.rodata")
def _rodata(body: Body, after: int, ordinal: int, to: Register) -> Handler:
    segments, z = body.instance.rodata, to.number
    if ordinal >= len(segments):
        raise VmTrap(f"read-only segment {ordinal} of {len(segments)}")

    def run(i: Integers, r: References) -> int:
        assign(r, z, segments, ordinal, move=False)
        return after

    return run


Fits = Callable[[Object | None], bool]
"""Whether a reference is of a type."""


def _fits(body: Body, ordinal: int) -> Fits:
    """Whether a reference is of a type; types that do not exist count as the first."""
    names = body.instance.type_names
    wanted = names[ordinal if ordinal < len(names) else 0].removeprefix("!")
    return lambda found: found is None or found.type_name == wanted


@_binds("select.ref")
def _select_ref(
    body: Body, after: int, condition: Register, kind: int, a: Register, b: Register, to: Register
) -> Handler:
    fits, c, z = _fits(body, kind), condition.number, to.number

    def run(i: Integers, r: References) -> int:
        chosen, other = (a, b) if i[c] else (b, a)
        if fits(r[chosen.number]):
            assign(r, z, r, chosen.number, chosen.move)
        # The other one goes last, even where the result has just taken its register.
        if other.move:
            give(r, other.number, None)
        return after

    return run


def _compared(equal: bool) -> Binder:
    def bind(body: Body, after: int, a: Register, b: Register, to: Register) -> Handler:
        def run(i: Integers, r: References) -> int:
            i[to.number] = int((r[a.number] is r[b.number]) == equal)
            for register in (a, b):
                if register.move:
                    give(r, register.number, None)
            return after

        return run

    return bind


_BINDERS |= {"cmp.eq.ref": _compared(True), "cmp.ne.ref": _compared(False)}


@_binds("cmp.nz.ref")
def _present(body: Body, after: int, a: Register, to: Register) -> Handler:
    def run(i: Integers, r: References) -> int:
        i[to.number] = int(r[a.number] is not None)
        if a.move:
            give(r, a.number, None)
        return after

    return run


# --- globals --------------------------------------------------------------------------------------


def _place(body: Body, offset: int) -> int:
    """A byte of the globals, as the VM checks it.

    Raises:
        VmError: it is outside.
    """
    size = len(body.instance.globals)
    if not 0 <= offset < size:
        raise VmError(Status.OUT_OF_RANGE, f"byte {offset} of {size} of globals")
    if offset + _I32.size > size:
        raise VmTrap(f"a global from byte {offset} on, there are {size}")
    return offset


@_binds("global.load.i32")
def _load(body: Body, after: int, offset: int, to: Register) -> Handler:
    data, at, z = body.instance.globals, _place(body, _offset(body, offset)), to.number

    def run(i: Integers, r: References) -> int:
        (i[z],) = _I32.unpack_from(data, at)
        return after

    return run


@_binds("global.store.i32")
def _store(body: Body, after: int, offset: int, source: Register) -> Handler:
    data, at, x = body.instance.globals, _place(body, _offset(body, offset)), source.number

    def run(i: Integers, r: References) -> int:
        _I32.pack_into(data, at, i[x])
        return after

    return run


def _offset(body: Body, number: int) -> int:
    """The byte of a global: in the first dialect, globals have numbers."""
    return number * body.instance.global_step


@_binds("global.load.indirect.i32")
def _load_indirect(body: Body, after: int, place: Register, to: Register) -> Handler:
    data = body.instance.globals

    def run(i: Integers, r: References) -> int:
        (i[to.number],) = _I32.unpack_from(data, _place(body, i[place.number]))
        return after

    return run


@_binds("global.store.indirect.i32")
def _store_indirect(body: Body, after: int, place: Register, source: Register) -> Handler:
    data = body.instance.globals

    def run(i: Integers, r: References) -> int:
        _I32.pack_into(data, _place(body, i[place.number]), i[source.number])
        return after

    return run


def _number(body: Body, ordinal: int) -> int:
    """The number of a global reference.

    Raises:
        VmError: there is none.
    """
    count = len(body.instance.refs)
    if not 0 <= ordinal < count:
        raise VmError(Status.OUT_OF_RANGE, f"global reference {ordinal} of {count}")
    return ordinal


def _load_reference(body: Body, number: int, fits: Fits, to: Register, r: References) -> None:
    refs = body.instance.refs
    if fits(refs[_number(body, number)]):
        assign(r, to.number, refs, number, to.move)


def _store_reference(body: Body, number: int, fits: Fits, source: Register, r: References) -> None:
    place = _number(body, number)
    if fits(r[source.number]):
        assign(body.instance.refs, place, r, source.number, source.move)


def _global_reference(
    access: Callable[[Body, int, Fits, Register, References], None],
) -> tuple[Binder, Binder]:
    """Accesses to a reference by number, and by the number in a register."""

    def direct(body: Body, after: int, number: int, kind: int, register: Register) -> Handler:
        fits = _fits(body, kind)

        def run(i: Integers, r: References) -> int:
            access(body, number, fits, register, r)
            return after

        return run

    def indirect(body: Body, after: int, place: Register, kind: int, register: Register) -> Handler:
        fits = _fits(body, kind)

        def run(i: Integers, r: References) -> int:
            access(body, i[place.number], fits, register, r)
            return after

        return run

    return direct, indirect


_BINDERS["global.load.ref"], _BINDERS["global.load.indirect.ref"] = _global_reference(
    _load_reference
)
_BINDERS["global.store.ref"], _BINDERS["global.store.indirect.ref"] = _global_reference(
    _store_reference
)


@_binds("global.reset.ref")
def _reset(body: Body, after: int, number: int) -> Handler:
    def run(i: Integers, r: References) -> int:
        give(body.instance.refs, _number(body, number), None)
        return after

    return run


# --- control --------------------------------------------------------------------------------------


def _moves(branch: Branch) -> Callable[[Integers, References], None] | None:
    """The copies of a branch; None if it has none."""
    if not branch.moves:
        return None

    def run(i: Integers, r: References) -> None:
        for source, target in branch.moves:
            if source.is_ref:
                assign(r, target.number, r, source.number, source.move)
            else:
                i[target.number] = i[source.number]

    return run


@_binds("br", "break")
def _branch(body: Body, after: int, branch: Branch) -> Handler:
    moves, target = _moves(branch), branch.target
    if moves is None:
        return lambda i, r: target

    def run(i: Integers, r: References) -> int:
        moves(i, r)
        return target

    return run


@_binds("cond_break")
def _conditional_break(body: Body, after: int, condition: Register, branch: Branch) -> Handler:
    return _branch(body, after, branch)


@_binds("cond_br")
def _conditional(
    body: Body, after: int, condition: Register, first: Branch, second: Branch
) -> Handler:
    c = condition.number
    yes, no = (_branch(body, after, branch) for branch in (first, second))

    def run(i: Integers, r: References) -> int:
        return yes(i, r) if i[c] else no(i, r)

    return run


@_binds("return")
def _return(body: Body, after: int, results: tuple[Register, ...]) -> Handler:
    def run(i: Integers, r: References) -> int:
        body.returned = results
        return _RETURN

    return run


@_binds("yield")
def _yield(body: Body, after: int) -> Handler:
    raise VmTrap("yield, which no caller survives")


@_binds("trace", "print")
def _event(body: Body, after: int, text: str, shown: tuple[Register, ...]) -> Handler:
    taken = [register.number for register in shown if register.move]

    def run(i: Integers, r: References) -> int:
        for number in taken:
            give(r, number, None)
        return after

    return run


# --- calls ----------------------------------------------------------------------------------------


@_binds("call")
def _call(
    body: Body,
    after: int,
    function: Function,
    arguments: tuple[Register, ...],
    results: tuple[Register, ...],
) -> Handler:
    target = body.instance.target(function)
    callee = target.body
    if callee is None:
        return _native(body, after, target, (), arguments, results)

    def run(i: Integers, r: References) -> int:
        # A call that is too deep leaves its arguments where they are.
        ci, cr = body.thread.enter(), references()
        try:
            _pass(callee, arguments, i, r, ci, cr)
        except VmError:
            body.thread.frames -= 1
            clear(cr, callee.refs)
            raise
        try:
            returned = callee.run(body.thread, ci, cr)
            for source, to in zip(returned, results, strict=False):
                if source.is_ref != to.is_ref:
                    raise VmTrap(f"{source} is returned where {to} is expected")
                if to.is_ref:
                    assign(r, to.number, cr, source.number, source.move)
                else:
                    i[to.number] = ci[source.number]
        finally:
            clear(cr, callee.refs)
        return after

    return run


def _pass(
    callee: Body,
    arguments: Sequence[Register],
    i: Integers,
    r: References,
    ci: Integers,
    cr: References,
) -> None:
    """Arguments go to the first registers of each bank."""
    integers = references = 0
    for register in arguments:
        if not register.is_ref:
            ci[integers] = i[register.number]
            integers += 1
            continue
        if references == callee.refs:
            raise VmTrap(f"{callee.name} has {callee.refs} ref registers for its arguments")
        assign(cr, references, r, register.number, register.move)
        references += 1


@_binds("call.variadic")
def _call_variadic(
    body: Body,
    after: int,
    function: Function,
    segments: tuple[int, ...],
    arguments: tuple[Register, ...],
    results: tuple[Register, ...],
) -> Handler:
    if not function.imported:
        raise VmError(Status.FAILED_PRECONDITION, "segments of arguments for an internal function")
    target = body.instance.target(function)
    if target.body is not None:
        return _call(body, after, function, arguments, results)
    return _native(body, after, target, segments, arguments, results)


def _native(
    body: Body,
    after: int,
    target: Target,
    segments: tuple[int, ...],
    arguments: tuple[Register, ...],
    results: tuple[Register, ...],
) -> Handler:
    def run(i: Integers, r: References) -> int:
        values: list[Value] = [
            take(r, register.number, register.move) if register.is_ref else i[register.number]
            for register in arguments
        ]
        call = Call(values, segments)
        try:
            found = invoke_native(body.thread, target, call)
            for value, to in zip(found, results, strict=False):
                if to.is_ref == isinstance(value, int):
                    raise VmTrap(f"{target.name} gives {value!r} where {to} is expected")
                if isinstance(value, int):
                    i[to.number] = wrap(value)
                else:
                    give(r, to.number, value)
        finally:
            # Results have their registers before arguments go.
            call.release()
        return after

    return run


def invoke_native(thread: Thread, target: Target, call: Call) -> Sequence[Value]:
    """Call a function of the host; whoever calls it releases the arguments afterwards.

    Raises:
        VmError: it fails.
    """
    assert target.native is not None
    thread.enter()
    try:
        return target.native(call)
    finally:
        thread.frames -= 1
