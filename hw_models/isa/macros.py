"""Runs of instructions that compiled programs use as one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fitzroy.hw_models.isa.scalar import Alu, Scalar


@dataclass(frozen=True, slots=True)
class AddressRegisters:
    """Registers of a 64-bit address."""

    low: int
    high: int


def with_immediate(alu: Alu, to: int, a: int, value: int = 0) -> Scalar:
    """A bundle that computes with an immediate as its second operand."""
    return Scalar(alu=alu, immediate_b=True, to=to, a=a, immediate=value)


def add_to_address(
    source: AddressRegisters,
    to: AddressRegisters,
    offset: int,
    *,
    partial: int,
    guarded: bool = False,
) -> list[Scalar]:
    """Add an offset of less than 31 bits to an address.

    The scalar core has no carry: predicate 0 is the highest bit of the low word, predicate 1 the
    carry, which needs that bit and one out of the others.

    Args:
        source: the address.
        to: where the sum goes.
        offset: bytes.
        partial: register for the sum of the low words without their highest bits.
        guarded: whether the bundles that clear predicate 1 are predicated, as in programs of
            older compilers.
    """
    low = source.low
    copied = [] if to == source else [with_immediate(Alu.ADD, to.high, source.high)]
    return [
        with_immediate(Alu.LT, 0, low),
        Scalar(predicated=guarded, alu=Alu.NE, to=1, a=low, immediate=low),
        replace(
            with_immediate(Alu.AND, partial, low, 0x7FFF_FFFF), predicated=guarded, sense=guarded
        ),
        replace(with_immediate(Alu.ADD, partial, partial, offset), predicated=True, sense=True),
        replace(with_immediate(Alu.LT, 1, partial), predicated=True, sense=True),
        with_immediate(Alu.ADD, to.low, low, offset),
        *copied,
        replace(
            with_immediate(Alu.ADD, to.high, to.high, 1), predicated=True, predicate=1, sense=True
        ),
    ]
