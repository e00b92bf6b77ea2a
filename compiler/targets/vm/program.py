"""A host program as a bytecode module: buffers, and calls of what computes.

Every tensor is a buffer. A function takes its inputs as buffers, allocates one for whatever a call
computes, and returns those of its outputs. What a call executes, a package or a graph, is
read-only data of the module. Buffers are given up with their last use.

=====================  ======================================================================
import                 what it does
=====================  ======================================================================
``buffer.alloc``       a buffer of so many bytes
``buffer.clone``       a buffer with the bytes of another one
``darwinn.execute``    executes a DarwiNN package on an Edge TPU
``xnnpack.invoke``     executes a graph of the XNNPACK delegate
``tflite.invoke``      executes a TFLite model of operators that the host has to compute
=====================  ======================================================================

Those that execute take the data, any number of buffers to read and any number to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from fitzroy.base.errors import CapacityError, InternalError
from fitzroy.formats import reflection
from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    ExportFunctionDef,
    FunctionDescriptor,
    FunctionSignatureDef,
    ImportFunctionDef,
    InternalFunctionDef,
    ModuleStateDef,
    RodataSegmentDef,
    TypeDef,
    pack_descriptors,
)
from fitzroy.formats.reflection import Tensor
from fitzroy.hw_models.vm.objects import BYTE_BUFFER, MUTABLE_BYTE_BUFFER
from fitzroy.hw_models.vm.opcodes import NAMES, Dialect, Instruction, assemble
from fitzroy.hw_models.vm.operands import REF_REGISTERS, Branch, Function, Register

TYPES = ("i32", f"!{BYTE_BUFFER}", f"!{MUTABLE_BYTE_BUFFER}")
_I32, _CONSTANT, _BUFFER = range(len(TYPES))

ALLOCATE = "buffer.alloc"
CLONE = "buffer.clone"
_NUMBER = Register(0)

_PLAIN = -1
_DATA = ""
"""Where a register is noted that holds what is executed."""

_OPCODES = NAMES[Dialect.B]


class Executor(StrEnum):
    """What computes; the value is the import."""

    DARWINN = "darwinn.execute"
    XNNPACK = "xnnpack.invoke"
    TFLITE = "tflite.invoke"


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call that computes tensors.

    Attributes:
        executor: what computes.
        data: what it executes.
        reads: names of the tensors that it reads, in its order.
        writes: names of those that it computes.
        states: first contents of the buffers after those, which it reads and writes, and which
            last from call to call.
    """

    executor: Executor
    data: bytes
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    states: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A function that the module exports.

    Attributes:
        name: its name.
        inputs: its arguments.
        outputs: its results.
        invocations: what it calls, in order.
        tensors: all tensors in between by name.
        constants: bytes of the tensors that nothing computes.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    invocations: tuple[Invocation, ...]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    constants: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Shared:
    """What functions of a module share.

    Attributes:
        entries: how many functions are exported; the one that looks after states comes last.
        data: ordinals of read-only segments by their bytes.
        imports: ordinals of imports by name.
        states: buffers that last from call to call.
    """

    entries: int
    data: dict[bytes, int] = field(default_factory=dict)
    imports: dict[str, int] = field(default_factory=dict)
    states: int = 0

    def segment(self, content: bytes) -> int:
        """A read-only segment."""
        return self.data.setdefault(content, len(self.data))

    def function(self, name: str) -> Function:
        """An import."""
        return Function(self.imports.setdefault(name, len(self.imports)), imported=True)


@dataclass(frozen=True, slots=True)
class _Code:
    """A function as a module has it."""

    name: str
    signature: FunctionSignatureDef
    code: bytes
    i32_registers: int
    ref_registers: int


def host_program(name: str, entries: Sequence[EntryPoint]) -> BytecodeModule:
    """The module of some functions.

    Args:
        name: name of the module.
        entries: its functions.

    Raises:
        CapacityError: a function needs more buffers at a time than there are registers.
        FormatError: a tensor that signatures cannot describe.
    """
    shared = _Shared(len(entries))
    functions = [_Body(entry, shared).function() for entry in entries]
    if shared.states:
        functions.append(_state_function(shared))
    offsets = np.cumsum([0, *(len(item.code) for item in functions)])
    return BytecodeModule(
        # Whoever looks up a function takes what comes before the first dot for the module's name.
        name=name.replace(".", "_"),
        types=[TypeDef(full_name=item) for item in TYPES],
        imported_functions=[_imported(item) for item in shared.imports] or None,
        exported_functions=[
            ExportFunctionDef(
                local_name=item.name,
                signature=replace(item.signature, reflection_attrs=None),
                internal_ordinal=number,
            )
            for number, item in enumerate(functions[: len(entries)])
        ],
        internal_functions=[
            InternalFunctionDef(local_name=item.name, signature=item.signature)
            for item in functions
        ],
        rodata_segments=[
            RodataSegmentDef(data=np.frombuffer(item, np.uint8)) for item in shared.data
        ]
        or None,
        module_state=ModuleStateDef(global_ref_count=shared.states),
        function_descriptors=pack_descriptors(
            [
                FunctionDescriptor(
                    int(offset), len(item.code), item.i32_registers, item.ref_registers
                )
                for offset, item in zip(offsets, functions, strict=False)
            ]
        ),
        bytecode_data=np.frombuffer(b"".join(item.code for item in functions), np.uint8),
    )


def _state_function(shared: _Shared) -> _Code:
    """The function that gives the buffer of a state, and makes it the first time.

    Arguments are the number of the state and its first contents.
    """
    number, present = map(Register, range(2))
    first, held = (Register(place, is_ref=True) for place in range(2))
    access = (number, _BUFFER, held)

    def instructions(make: int, done: int) -> list[list[Instruction]]:
        return [
            [
                Instruction(_OPCODES["global.load.indirect.ref"], access),
                Instruction(_OPCODES["cmp.nz.ref"], (held, present)),
                Instruction(_OPCODES["cond_br"], (present, Branch(done), Branch(make))),
            ],
            [
                Instruction(_OPCODES["call"], (shared.function(CLONE), (first,), (held,))),
                Instruction(_OPCODES["global.store.indirect.ref"], access),
            ],
            [Instruction(_OPCODES["return"], ((replace(held, move=True),),))],
        ]

    begin, middle, _ = (len(assemble(part)) for part in instructions(0, 0))
    code = b"".join(map(assemble, instructions(begin, begin + middle)))
    return _Code("state", _signature_of([_I32, _CONSTANT], [_BUFFER]), code, 2, 2)


def _signature(entry: EntryPoint) -> FunctionSignatureDef:
    return replace(
        _signature_of([_BUFFER] * len(entry.inputs), [_BUFFER] * len(entry.outputs)),
        reflection_attrs=reflection.attributes(entry.inputs, entry.outputs),
    )


def _signature_of(arguments: Sequence[int], results: Sequence[int]) -> FunctionSignatureDef:
    return FunctionSignatureDef(
        argument_types=np.array(arguments, np.int32),
        result_types=np.array(results, np.int32) if results else None,
    )


def _imported(name: str) -> ImportFunctionDef:
    """An import: what is none of these executes data with buffers to read and to write."""
    known = {ALLOCATE: ([_I32], [_BUFFER]), CLONE: ([_CONSTANT], [_BUFFER])}
    arguments, results = known.get(name, ([_CONSTANT, _BUFFER, _BUFFER], []))
    return ImportFunctionDef(full_name=name, signature=_signature_of(arguments, results))


class _Body:
    """A function in the making.

    Args:
        entry: the function.
        shared: what it has in common with others; gets what is missing.
    """

    def __init__(self, entry: EntryPoint, shared: _Shared) -> None:
        self.entry = entry
        self.shared = shared
        self.registers = len(entry.inputs)
        self._code: list[Instruction] = []
        self._places: dict[str, int] = {}
        self._free: list[int] = []

    def function(self) -> _Code:
        """The function.

        Raises:
            CapacityError: it needs more buffers at a time than there are registers.
        """
        code = assemble(self._instructions())
        entry = self.entry
        return _Code(entry.name, _signature(entry), code, 1, self.registers)

    def _instructions(self) -> list[Instruction]:
        """Its code."""
        entry = self.entry
        self._places = {tensor.name: number for number, tensor in enumerate(entry.inputs)}
        last = {
            name: number
            for number, call in enumerate(entry.invocations)
            for name in (*call.writes, *call.reads)
        }
        kept = {tensor.name for tensor in entry.outputs}
        self._drop([name for name in self._places if name not in last and name not in kept])
        for number, call in enumerate(entry.invocations):
            self._invoke(call)
            used = dict.fromkeys((*call.reads, *call.writes))
            self._drop([name for name in used if last[name] == number and name not in kept])
        for tensor in entry.outputs:
            self._demand(tensor.name)
        self._return([tensor.name for tensor in entry.outputs])
        return self._code

    def _emit(self, name: str, *operands: object) -> None:
        self._code.append(Instruction(_OPCODES[name], operands))

    def _register(self, name: str) -> Register:
        """A register for a tensor.

        Raises:
            CapacityError: there is none.
        """
        if self._free:
            number = self._free.pop(0)
        elif self.registers < REF_REGISTERS:
            number = self.registers
            self.registers += 1
        else:
            raise CapacityError(
                f"{self.entry.name} needs more than {REF_REGISTERS} buffers at a time",
                reason=f"functions have {REF_REGISTERS} registers of references",
                hint="give the model fewer inputs and outputs, or compile it in segments",
            )
        self._places[name] = number
        return Register(number, is_ref=True)

    def _drop(self, names: Iterable[str]) -> None:
        """Give up buffers."""
        for name in names:
            number = self._places.pop(name)
            self._emit("const.ref.zero", Register(number, is_ref=True))
            self._released(number)

    def _released(self, number: int) -> None:
        self._free.append(number)
        self._free.sort()

    def _allocate(self, tensor: Tensor) -> None:
        allocate = self.shared.function(ALLOCATE)
        self._emit("const.i32", tensor.type.nbytes, _NUMBER)
        self._emit("call", allocate, (_NUMBER,), (self._register(tensor.name),))

    def _state(self, content: bytes) -> Register:
        """A buffer that lasts from call to call."""
        held = self._register(f"state {self.shared.states}")
        self._emit("const.i32", self.shared.states, _NUMBER)
        self._emit("const.ref.rodata", self.shared.segment(content), held)
        self._emit("call", Function(self.shared.entries), (_NUMBER, held), (held,))
        self.shared.states += 1
        return held

    def _invoke(self, call: Invocation) -> None:
        for name in call.reads:
            self._demand(name)
        for name in call.writes:
            self._allocate(self._tensor(name))
        known = set(self._places)
        states = [self._state(content) for content in call.states]
        data = self._register(_DATA)
        self._emit("const.ref.rodata", self.shared.segment(call.data), data)
        reads, writes = (
            [*(Register(self._places[name], is_ref=True) for name in names), *states]
            for names in (call.reads, call.writes)
        )
        taken = 1 + len(reads) + len(writes)
        if taken > REF_REGISTERS:
            raise CapacityError(
                f"a call of {call.executor.value} takes {taken} buffers",
                reason=f"a frame of the virtual machine holds {REF_REGISTERS}",
                hint="give the model fewer inputs, outputs and states, or compile it in segments",
            )
        self._emit(
            "call.variadic",
            self.shared.function(call.executor.value),
            (_PLAIN, len(reads), len(writes)),
            (replace(data, move=True), *reads, *writes),
            (),
        )
        self._released(self._places.pop(_DATA))
        self._drop([name for name in self._places if name not in known])

    def _tensor(self, name: str) -> Tensor:
        for tensor in self.entry.outputs:
            if tensor.name == name:
                return tensor
        return self.entry.tensors[name]

    def _demand(self, name: str) -> None:
        """What nothing computes is a segment."""
        if name in self._places:
            return
        if name not in self.entry.constants:
            raise InternalError(f"nothing computes {name!r}")
        content = self.entry.constants[name]
        self._emit("const.ref.rodata", self.shared.segment(content), self._register(name))

    def _return(self, names: Sequence[str]) -> None:
        """Buffers leave their registers with their last mention."""
        results = []
        for index, name in enumerate(names):
            again = name in names[index + 1 :]
            results.append(Register(self._places[name], is_ref=True, move=not again))
        self._emit("return", tuple(results))
