"""Measures of the bundles of the scalar core: distances between them, and what shares one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from fitzroy.hw_models.edgetpu.envelope.program import Program, Step, Value
from fitzroy.hw_models.isa.scalar import COMPARES, Alu, Indexed, Load, Scalar, Special, Store

_IN_MEMORY = (Store.ABSOLUTE, Store.REGISTER, Store.INCREMENT)
_INDEXED = (Load.REGISTER, Load.INCREMENT)
_OF_B = (Alu.MOV, Alu.I2F, Alu.F2I)
"""Operations that do not use operand a."""


def _distances(program: Program, counts: Callable[[Scalar], bool]) -> Iterator[Value]:
    """Bundles from each bundle of a kind to the next one."""
    before: Step | None = None
    for step, bundle in program.scalar_steps:
        if counts(bundle):
            if before is not None:
                yield Value(step.at - before.at, step.place)
            before = step


# --- the special unit ----------------------------------------------------------------------------


def special_spacing(program: Program) -> Iterator[Value]:
    """Bundles from each operation of the special unit to the next one."""
    return _distances(program, lambda bundle: bundle.special is not Special.NONE)


def exponential_uses(program: Program) -> Iterator[Value]:
    """Bundles from each 2^x to the first that reads its result."""
    return _uses(program, Special.EXP2)


def reciprocal_uses(program: Program) -> Iterator[Value]:
    """Bundles from each 1/x to the first that reads its result."""
    return _uses(program, Special.RECIPROCAL)


def _uses(program: Program, special: Special) -> Iterator[Value]:
    waiting: dict[int, Step] = {}
    for step, bundle in program.scalar_steps:
        for register in _read(bundle):
            if register in waiting:
                issued = waiting.pop(register)
                yield Value(step.at - issued.at, issued.place)
        for register in _written(bundle):
            waiting.pop(register, None)
        if bundle.special is special:
            waiting[bundle.special_to] = step


def special_companions(program: Program) -> Iterator[Value]:
    """Other slots in use in each bundle with an operation of the special unit."""
    for step, bundle in program.scalar_steps:
        if bundle.special is not Special.NONE:
            others = (bundle.alu is not Alu.NOP, bool(bundle.load), bool(bundle.store))
            yield Value(sum(others), step.place)


# --- loads, stores, registers --------------------------------------------------------------------


def load_companions(program: Program) -> Iterator[Value]:
    """Whether the ALU works in each bundle that loads."""
    for step, bundle in program.scalar_steps:
        if bundle.load is not Load.NONE:
            yield Value(int(bundle.alu is not Alu.NOP), step.place)


def store_spacing(program: Program) -> Iterator[Value]:
    """Bundles from each store to the next one."""
    return _distances(program, lambda bundle: bundle.store in _IN_MEMORY)


def slot_registers(program: Program) -> Iterator[Value]:
    """The highest register that the slots other than the ALU use in each bundle."""
    for step, bundle in program.scalar_steps:
        registers = _of_slots(bundle)
        if registers:
            yield Value(max(registers), step.place)


def _of_slots(bundle: Scalar) -> list[int]:
    """Registers of the load, store and special slots."""
    found = []
    if bundle.load is not Load.NONE:
        found.append(bundle.load_to)
    found += _addresses(bundle)
    if bundle.store not in (Store.NONE, Store.ISSUE):
        found.append(bundle.store_from)
    if bundle.special is not Special.NONE:
        found += [bundle.special_to, bundle.special_from]
    return found


def _addresses(bundle: Scalar) -> list[int]:
    """Registers that hold addresses of words."""
    found = []
    if bundle.load in _INDEXED:
        found.append(_register(bundle.load_address))
    if bundle.store in (Store.REGISTER, Store.INCREMENT):
        found.append(_register(bundle.store_address))
    return found


@cache
def _register(field: int) -> int:
    """Register of an address field of 12 bits."""
    return Indexed.unpack(field).register


def _read(bundle: Scalar) -> list[int]:
    found = _addresses(bundle)
    if bundle.store not in (Store.NONE, Store.ISSUE):
        found.append(bundle.store_from)
    if bundle.special is not Special.NONE:
        found.append(bundle.special_from)
    if bundle.alu is not Alu.NOP:
        if bundle.alu not in _OF_B:
            found.append(bundle.a)
        if not bundle.immediate_b:
            found.append(int(bundle.immediate))
    return found


def _written(bundle: Scalar) -> list[int]:
    found = []
    if bundle.alu is not Alu.NOP and bundle.alu not in COMPARES:
        found.append(bundle.to)
    if bundle.load is not Load.NONE:
        found.append(bundle.load_to)
    if bundle.special is not Special.NONE:
        found.append(bundle.special_to)
    return found


# --- descriptors ---------------------------------------------------------------------------------


def descriptor_spacing(program: Program) -> Iterator[Value]:
    """Bundles from each descriptor that is issued to the next one."""
    return _distances(program, lambda bundle: bundle.store is Store.ISSUE)


def descriptor_writes(program: Program) -> Iterator[Value]:
    """Bundles from each descriptor that is issued to the next write of a word of one."""
    issued: Step | None = None
    for step, bundle in program.scalar_steps:
        if bundle.store is Store.DESCRIPTOR and issued is not None:
            yield Value(step.at - issued.at, step.place)
            issued = None
        elif bundle.store is Store.ISSUE:
            issued = step
