"""Fields of FlatBuffers tables as documentation lists them, from the declarations of `flat`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fitzroy.formats import flat
from fitzroy.formats.flat import Table


@dataclass(frozen=True)
class Slot:
    """A field of a table, for people.

    Attributes:
        number: its place in the table; the vtable has its offset at byte 4 + 2 * number. A union
            takes this place for its type code, and the next one for the member.
        name: what the field is called.
        holds: what kind of value it is.
        default: what an absent one stands for; empty if it is absent then.
        members: tables that it may hold, by type code for a union, else by 0.
    """

    number: int
    name: str
    holds: str
    default: str = ""
    members: Mapping[int, type[Table]] = field(default_factory=dict)


def layout(cls: type[Table]) -> tuple[Slot, ...]:
    """The fields of a table in order of their places."""
    return tuple(_slot(number, name, kind) for number, name, kind in cls.declared().fields)


def _slot(number: int, name: str, kind: flat._Kind) -> Slot:
    match kind:
        case flat._Scalar(code, default):
            return Slot(number, name, _number(code), str(default).lower())
        case flat._Vector(dtype, align, members):
            element = f"structs of {members} x " if members else ""
            aligned = f", aligned to {align} bytes" if align > 1 else ""
            return Slot(number, name, f"vector of {element}{_number(dtype.str[1:])}{aligned}")
        case flat._Strings():
            return Slot(number, name, "vector of strings")
        case flat._Blobs(align):
            return Slot(number, name, f"vector of byte strings, aligned to {align} bytes")
        case flat._Table(type):
            return Slot(number, name, "table", members={0: type})
        case flat._Tables(type):
            return Slot(number, name, "vector of tables", members={0: type})
        case flat._Union(members):
            return Slot(number, name, "union", members=members)
    return Slot(number, name, "string")


def _number(code: str) -> str:
    return "bool" if code == "?" else str(np.dtype(code))
