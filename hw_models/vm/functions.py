"""Functions of modules and of the host: code whose instructions are bound when they are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fitzroy.base import budget
from fitzroy.base.errors import FormatError
from fitzroy.formats.bytecode_module import GLOBAL_BYTES, BytecodeModule, FunctionSignatureDef
from fitzroy.hw_models.vm.objects import ByteBuffer, Object, Value, clear
from fitzroy.hw_models.vm.opcodes import Dialect, Instruction, Opcode, decode
from fitzroy.hw_models.vm.operands import (
    I32_REGISTERS,
    REF_REGISTERS,
    Branch,
    Function,
    Register,
)
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap

Integers = list[int]
References = list[Object | None]
Handler = Callable[[Integers, References], int]
"""Executes an instruction and returns the place of the next one, negative after the last."""

MOST_FRAMES = 32
"""Functions that may be active at a time, those of other modules and of the host included."""

STEP_BUDGET = 1 << 40
"""Instructions of a call, unless the caller says otherwise."""

_REFERENCE_BYTES = 8
"""Of a slot for a reference."""

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
        handler = BINDERS[instruction.opcode.name](self, following, *instruction.operands)
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
BINDERS: dict[str, Binder] = {}


def binds(*names: str) -> Callable[[Binder], Binder]:
    """Declare how instructions become functions."""

    def declare(binder: Binder) -> Binder:
        for name in names:
            BINDERS[name] = binder
        return binder

    return declare


@dataclass(eq=False)
class Instance:
    """A module with its state and the functions that it imports.

    Attributes:
        module: the module.
        dialect: which opcodes it has.
        imports: what its imports are.
        globals: 32-bit globals, as bytes.
        refs: global references.
        rodata: its read-only segments.
    """

    module: BytecodeModule
    dialect: Dialect = Dialect.B
    imports: list[Target] = field(default_factory=list)
    globals: bytearray = field(init=False)
    refs: list[Object | None] = field(init=False)
    rodata: list[Object | None] = field(init=False)

    def __post_init__(self) -> None:
        state = self.module.module_state
        size = 0 if state is None else state.global_bytes_capacity
        references = 0 if state is None else state.global_ref_count
        budget.demand(size + _REFERENCE_BYTES * references, f"the state of module {self.name!r}")
        self.globals = bytearray(size)
        self.refs = [None] * references
        segments = self.module.rodata_segments or ()
        self.rodata = [
            ByteBuffer(b"" if item.data is None else item.data.data) for item in segments
        ]
        self._bodies: dict[int, Body] = {}

    @property
    def name(self) -> str:
        """Name of the module."""
        return self.module.name or ""

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of its types."""
        return self.module.type_names

    @property
    def global_step(self) -> int:
        """Bytes from one number of a 32-bit global to the next: the first dialect counts slots."""
        return GLOBAL_BYTES if self.dialect is Dialect.A else 1

    def body(self, ordinal: int) -> Body:
        """An internal function."""
        if ordinal not in self._bodies:
            self._bodies[ordinal] = Body(self, ordinal)
        return self._bodies[ordinal]

    def target(self, function: Function) -> Target:
        """What a call calls.

        Raises:
            VmTrap: nothing.
        """
        if function.imported:
            if function.ordinal < len(self.imports):
                return self.imports[function.ordinal]
            raise VmTrap(f"import {function.ordinal} of {len(self.imports)}")
        count = len(self.module.internal_functions or ())
        if function.ordinal >= count:
            raise VmTrap(f"internal function {function.ordinal} of {count}")
        return Target(self.body(function.ordinal))

    def export(self, name: str) -> int | None:
        """The internal function of an export; of several with that name the first."""
        for item in self.module.exported_functions or ():
            if item.local_name == name:
                return item.internal_ordinal
        return None

    def signature(self, ordinal: int) -> FunctionSignatureDef:
        """Signature of an internal function."""
        found = (self.module.internal_functions or [])[ordinal].signature
        assert found is not None
        return found

    def released(self) -> None:
        """The state goes."""
        clear(self.refs, len(self.refs))
        clear(self.rodata, len(self.rodata))
