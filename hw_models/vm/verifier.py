"""Verifies a module before it runs: what the virtual machine trusts without a look.

The VM of that time checks tables when it loads a module, and nothing of its bytecode: an ordinal
or a register that does not exist reads memory that is not the module's. A module that passes here
can only end in the ways that calls end: with a result, a status, a trap of a division, or an
indirect global out of range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitzroy.base.errors import FormatError
from fitzroy.formats.bytecode_module import (
    GLOBAL_BYTES,
    MOST_I32_REGISTERS,
    MOST_REF_REGISTERS,
    BytecodeModule,
    FunctionDescriptor,
    FunctionSignatureDef,
    check,
)
from fitzroy.hw_models.vm.functions import registers
from fitzroy.hw_models.vm.opcodes import Dialect, Instruction, decode_all
from fitzroy.hw_models.vm.operands import Branch, Function, Register

I32 = "i32"
_PLAIN = -1
_EMPTY = FunctionSignatureDef()
_WIDE_RETURN = b"\x54\x01\x00\x00\x00"
"""A return with registers of 16 bits."""


def verify(module: BytecodeModule, dialect: Dialect = Dialect.B, path: str = "") -> None:
    """Verify a module.

    Args:
        module: the module.
        dialect: which opcodes it has.
        path: its file, for errors.

    Raises:
        FormatError: the first fault, with function and byte.
    """
    check(module, path)
    for where, fault in faults(module, dialect):
        hint = ""
        if any(module.code(n).endswith(_WIDE_RETURN) for n in range(len(module.descriptors))):
            hint = "registers seem to have 16 bits, as in modules of later versions"
        raise FormatError(fault, path=path, table=where, hint=hint)


def dialect_of(module: BytecodeModule, path: str = "") -> Dialect:
    """The dialect as which a module verifies; the later one if both do.

    Raises:
        FormatError: neither; with what speaks against the later one.
    """
    check(module, path)
    for dialect in Dialect:
        if next(faults(module, dialect), None) is None:
            return dialect
    verify(module, path=path)
    raise AssertionError("a module without fault has a dialect")


Fault = tuple[str, str]
"""Where, and what."""


def faults(module: BytecodeModule, dialect: Dialect = Dialect.B) -> Iterator[Fault]:
    """Everything that is wrong with a module that the VM would load."""
    types = module.type_names
    for number, name in enumerate(types):
        if name != I32 and not name.startswith("!"):
            yield f"types[{number}]", f"{name!r} is neither {I32} nor begins with !"
    for number, item in enumerate(module.imported_functions or ()):
        where = f"imported_functions[{number}]"
        if "." not in (item.full_name or "").strip("."):
            yield where, f"{item.full_name!r} names no module and function"
        yield from _signature_faults(where, item.signature or _EMPTY, len(types))
    yield from _export_faults(module)
    for number, function in enumerate(module.internal_functions or ()):
        signature = function.signature or _EMPTY
        where = f"function {function.local_name or number}"
        found = list(_signature_faults(where, signature, len(types)))
        yield from found
        if not found:
            yield from _Verifier(module, dialect, number, signature, where).faults()


def _signature_faults(where: str, signature: FunctionSignatureDef, types: int) -> Iterator[Fault]:
    for ordinal in (*signature.arguments, *signature.results):
        if not 0 <= ordinal < types:
            yield where, f"its signature has type {ordinal} of {types}"


def _export_faults(module: BytecodeModule) -> Iterator[Fault]:
    seen = set[str]()
    for number, item in enumerate(module.exported_functions or ()):
        where = f"exported_functions[{number}]"
        name = item.local_name or ""
        if name in seen:
            yield where, f"{name!r} is exported twice"
        seen.add(name)
        function = (module.internal_functions or [])[item.internal_ordinal].signature or _EMPTY
        own = item.signature or _EMPTY
        if (own.arguments, own.results) != (function.arguments, function.results):
            yield where, f"{name!r} has another signature than its function"


class _Verifier:
    """Verifies a function.

    Args:
        module: its module.
        dialect: which opcodes it has.
        number: its ordinal.
        signature: its signature.
        where: its name for errors.
    """

    def __init__(
        self,
        module: BytecodeModule,
        dialect: Dialect,
        number: int,
        signature: FunctionSignatureDef,
        where: str,
    ) -> None:
        self.module = module
        self.dialect = dialect
        self.number = number
        self.signature = signature
        self.where = where
        self.counts: FunctionDescriptor = module.descriptors[number]
        self.types = module.type_names
        state = module.module_state
        self.global_bytes = 0 if state is None else state.global_bytes_capacity
        self.global_refs = 0 if state is None else state.global_ref_count

    def faults(self) -> Iterator[Fault]:
        """Everything that is wrong."""
        yield from self._register_faults()
        try:
            code = dict(decode_all(self.module.code(self.number), self.dialect))
        except FormatError as error:
            yield f"{self.where}, byte {error.offset}", error.what
            return
        if not code:
            yield self.where, "the function has no code"
            return
        last, instruction = max(code.items(), key=lambda item: item[0])
        if not instruction.opcode.ends:
            yield f"{self.where}, byte {last}", f"{instruction.opcode.name} at the end"
        for pc, instruction in code.items():
            for fault in self._instruction_faults(instruction, code):
                yield f"{self.where}, byte {pc}", f"{instruction.opcode.name}: {fault}"

    def _is_ref(self, kind: int) -> bool:
        return self.types[kind] != I32

    def _register_faults(self) -> Iterator[Fault]:
        """Arguments have registers, and counts are those of the tables."""
        refs = sum(map(self._is_ref, self.signature.arguments))
        integers = len(self.signature.arguments) - refs
        for what, needed, there in (
            ("i32", integers, self.counts.i32_registers),
            ("ref", refs, self.counts.ref_registers),
        ):
            if there < needed:
                yield self.where, f"{needed} {what} arguments, there are {there} {what} registers"

    def _instruction_faults(
        self, instruction: Instruction, code: dict[int, Instruction]
    ) -> Iterator[str]:
        for register in registers(instruction.operands):
            count = self.counts.ref_registers if register.is_ref else self.counts.i32_registers
            if register.number >= count:
                yield f"{register}, there are {count} registers"
        for kind, value in zip(instruction.opcode.kinds, instruction.operands, strict=True):
            yield from self._operand_faults(kind, value, code)
        name = instruction.opcode.name
        if name == "yield":
            yield "no caller of a function survives it"
        if name == "return":
            yield from self._list_faults("result", instruction.operands[0], self.signature.results)
        if name in ("call", "call.variadic"):
            yield from self._call_faults(instruction)

    def _operand_faults(
        self, kind: str, value: object, code: dict[int, Instruction]
    ) -> Iterator[str]:
        if isinstance(value, Branch) and value.target not in code:
            yield f"no instruction begins at byte {value.target}"
        if isinstance(value, Function):
            count = len(self._functions(value))
            if value.ordinal >= count:
                kind_name = "import" if value.imported else "internal function"
                yield f"{kind_name} {value.ordinal} of {count}"
        limits = {
            "Y": ("global reference", self.global_refs),
            "T": ("type", len(self.types)),
            "K": ("read-only segment", len(self.module.rodata_segments or ())),
        }
        if isinstance(value, int) and kind in limits:
            what, count = limits[kind]
            if value >= count:
                yield f"{what} {value} of {count}"
        if isinstance(value, int) and kind in "GN":
            offset = value if kind == "G" else value * GLOBAL_BYTES
            if not 0 <= offset <= self.global_bytes - GLOBAL_BYTES:
                yield f"byte {offset} of {self.global_bytes} bytes of globals"
            elif offset % GLOBAL_BYTES:
                yield f"byte {offset} of globals lies across two of them"

    def _functions(self, function: Function) -> Sequence[object]:
        if function.imported:
            return self.module.imported_functions or []
        return self.module.internal_functions or []

    def _call_faults(self, instruction: Instruction) -> Iterator[str]:
        function, *segments, arguments, results = instruction.operands
        callees = self._functions(function)
        if function.ordinal >= len(callees):
            return
        signature = getattr(callees[function.ordinal], "signature", None) or _EMPTY
        if any(not 0 <= kind < len(self.types) for kind in signature.arguments):
            return
        wanted: Sequence[int] = signature.arguments
        if segments:
            if not function.imported:
                yield "segments of arguments for an internal function"
                return
            (sizes,) = segments
            if len(sizes) != len(wanted) or any(size < _PLAIN for size in sizes):
                yield f"segments {sizes} for {len(wanted)} arguments"
                return
            pairs = zip(wanted, sizes, strict=True)
            wanted = [kind for kind, size in pairs for _ in range(abs(size))]
        if function.imported:
            yield from _import_faults(arguments)
        yield from self._list_faults("argument", arguments, wanted)
        yield from self._list_faults("result", results, signature.results)
        for register in results:
            if register.move:
                yield f"{register} for a result"

    def _list_faults(
        self, what: str, found: Sequence[Register], wanted: Sequence[int]
    ) -> Iterator[str]:
        if len(found) != len(wanted):
            yield f"{len(found)} {what}s of {len(wanted)}"
            return
        for number, (register, kind) in enumerate(zip(found, wanted, strict=True)):
            if 0 <= kind < len(self.types) and register.is_ref != self._is_ref(kind):
                yield f"{what} {number} is {register}, its type is {self.types[kind]}"


def _import_faults(arguments: Sequence[Register]) -> Iterator[str]:
    """Arguments of an import lie in a frame of their own, however many there are."""
    refs = sum(register.is_ref for register in arguments)
    for what, count, most in (
        ("references", refs, MOST_REF_REGISTERS),
        ("integers", len(arguments) - refs, MOST_I32_REGISTERS),
    ):
        if count > most:
            yield f"{count} {what} for an import, of which a frame holds {most}"
