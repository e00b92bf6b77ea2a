"""Executes bytecode: every instruction becomes a function the first time it is reached.

A function of Python takes the two banks of registers and returns the place of the next
instruction. Instructions that cannot be decoded, and operands that name nothing, end the call when
they are reached, and not before: files that the VM loads may have them.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence

from fitzroy.hw_models.vm.functions import (
    BINDERS,
    Binder,
    Body,
    Call,
    Handler,
    Integers,
    References,
    Target,
    Thread,
    binds,
    references,
)
from fitzroy.hw_models.vm.objects import Object, Value, assign, clear, give, take, wrap
from fitzroy.hw_models.vm.operands import (
    Branch,
    Function,
    Register,
)
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap

_RETURN = -1
_LOW = 0xFFFFFFFF
_I32 = struct.Struct("<i")
_LEAST = -(1 << 31)


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


BINDERS.update({name: _binary(compute) for name, compute in _BINARY.items()})
BINDERS.update({name: _unary(compute) for name, compute in _UNARY.items()})
BINDERS.update({name: _shift(compute) for name, compute in _SHIFTS.items()})


@binds("select.i32")
def _select(
    body: Body, after: int, condition: Register, a: Register, b: Register, to: Register
) -> Handler:
    c, x, y, z = condition.number, a.number, b.number, to.number

    def run(i: Integers, r: References) -> int:
        i[z] = i[x] if i[c] else i[y]
        return after

    return run


@binds("const.i32")
def _constant(body: Body, after: int, value: int, to: Register) -> Handler:
    z = to.number

    def run(i: Integers, r: References) -> int:
        i[z] = value
        return after

    return run


@binds("const.i32.zero")
def _zero(body: Body, after: int, to: Register) -> Handler:
    return _constant(body, after, 0, to)


# --- references -----------------------------------------------------------------------------------


@binds("const.ref.zero")
def _null(body: Body, after: int, to: Register) -> Handler:
    z = to.number

    def run(i: Integers, r: References) -> int:
        give(r, z, None)
        return after

    return run


@binds("const.ref.rodata")
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


@binds("select.ref")
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


BINDERS.update({"cmp.eq.ref": _compared(True), "cmp.ne.ref": _compared(False)})


@binds("cmp.nz.ref")
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


@binds("global.load.i32")
def _load(body: Body, after: int, offset: int, to: Register) -> Handler:
    data, at, z = body.instance.globals, _place(body, _offset(body, offset)), to.number

    def run(i: Integers, r: References) -> int:
        (i[z],) = _I32.unpack_from(data, at)
        return after

    return run


@binds("global.store.i32")
def _store(body: Body, after: int, offset: int, source: Register) -> Handler:
    data, at, x = body.instance.globals, _place(body, _offset(body, offset)), source.number

    def run(i: Integers, r: References) -> int:
        _I32.pack_into(data, at, i[x])
        return after

    return run


def _offset(body: Body, number: int) -> int:
    """The byte of a global: in the first dialect, globals have numbers."""
    return number * body.instance.global_step


@binds("global.load.indirect.i32")
def _load_indirect(body: Body, after: int, place: Register, to: Register) -> Handler:
    data = body.instance.globals

    def run(i: Integers, r: References) -> int:
        (i[to.number],) = _I32.unpack_from(data, _place(body, i[place.number]))
        return after

    return run


@binds("global.store.indirect.i32")
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


BINDERS["global.load.ref"], BINDERS["global.load.indirect.ref"] = _global_reference(_load_reference)
BINDERS["global.store.ref"], BINDERS["global.store.indirect.ref"] = _global_reference(
    _store_reference
)


@binds("global.reset.ref")
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


@binds("br", "break")
def _branch(body: Body, after: int, branch: Branch) -> Handler:
    moves, target = _moves(branch), branch.target
    if moves is None:
        return lambda i, r: target

    def run(i: Integers, r: References) -> int:
        moves(i, r)
        return target

    return run


@binds("cond_break")
def _conditional_break(body: Body, after: int, condition: Register, branch: Branch) -> Handler:
    return _branch(body, after, branch)


@binds("cond_br")
def _conditional(
    body: Body, after: int, condition: Register, first: Branch, second: Branch
) -> Handler:
    c = condition.number
    yes, no = (_branch(body, after, branch) for branch in (first, second))

    def run(i: Integers, r: References) -> int:
        return yes(i, r) if i[c] else no(i, r)

    return run


@binds("return")
def _return(body: Body, after: int, results: tuple[Register, ...]) -> Handler:
    def run(i: Integers, r: References) -> int:
        body.returned = results
        return _RETURN

    return run


@binds("yield")
def _yield(body: Body, after: int) -> Handler:
    raise VmTrap("yield, which no caller survives")


@binds("trace", "print")
def _event(body: Body, after: int, text: str, shown: tuple[Register, ...]) -> Handler:
    taken = [register.number for register in shown if register.move]

    def run(i: Integers, r: References) -> int:
        for number in taken:
            give(r, number, None)
        return after

    return run


# --- calls ----------------------------------------------------------------------------------------


@binds("call")
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


@binds("call.variadic")
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
