"""Registers of integers that a function reads before it writes them.

A frame of the VM has whatever integers the last frame of its depth left, so what such a function
computes depends on the calls before it. The VM runs it all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from fitzroy.formats.bytecode_module import BytecodeModule
from fitzroy.hw_models.vm.functions import registers
from fitzroy.hw_models.vm.opcodes import Dialect, Instruction, decode_all
from fitzroy.hw_models.vm.operands import Branch, Register

_WRITTEN = "dR"
"""Kinds of operands that are written; all others are read."""


def undefined_reads(module: BytecodeModule, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Reads of integers that no path, or not every path, has written: where, and which register.

    Args:
        module: a module that verifies.
        dialect: which opcodes it has.
    """
    types = module.type_names
    for number, function in enumerate(module.internal_functions or ()):
        signature = function.signature
        arguments = () if signature is None else signature.arguments
        integers = sum(types[kind] == "i32" for kind in arguments)
        code = dict(decode_all(module.code(number), dialect))
        for pc, register in _reads(code, frozenset(range(integers))):
            yield (
                f"function {function.local_name or number}, byte {pc}",
                f"%i{register} is read, and nothing may have written it",
            )


def _reads(code: Mapping[int, Instruction], defined: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Places and registers of reads that may come before a write."""
    following = dict(pairwise(sorted(code)))
    before: dict[int, frozenset[int]] = {min(code): defined}
    work = [min(code)]
    while work:
        pc = work.pop()
        for target, after in _edges(code[pc], following.get(pc), before[pc]):
            known = after if target not in before else before[target] & after
            if before.get(target) != known:
                before[target] = known
                work.append(target)
    for pc in sorted(before):
        missing = {register.number for register in _read(code[pc], before[pc])}
        for number in sorted(missing):
            yield pc, number


def _edges(
    instruction: Instruction, following: int | None, before: frozenset[int]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Where an instruction goes on, and what is written by then."""
    after = before | _integers(value for kind, value in _operands(instruction) if kind in _WRITTEN)
    for _, value in _operands(instruction):
        if isinstance(value, Branch):
            yield value.target, after | _integers(target for _, target in value.moves)
    if not instruction.opcode.ends and following is not None:
        yield following, after


def _read(instruction: Instruction, defined: frozenset[int]) -> Iterator[Register]:
    """Registers of integers that an instruction reads and that are not written."""
    for kind, value in _operands(instruction):
        if isinstance(value, Branch):
            # Copies of a branch are made one after the other.
            known = set(defined)
            for source, target in value.moves:
                if not source.is_ref and source.number not in known:
                    yield source
                known.add(target.number)
        elif kind not in _WRITTEN:
            for register in registers((value,)):
                if not register.is_ref and register.number not in defined:
                    yield register


def _operands(instruction: Instruction) -> Iterator[tuple[str, object]]:
    yield from zip(instruction.opcode.kinds, instruction.operands, strict=True)


def _integers(operands: Iterator[object] | Sequence[object]) -> frozenset[int]:
    """Numbers of the registers of integers among some operands."""
    found = registers(tuple(operands))
    return frozenset(register.number for register in found if not register.is_ref)
