"""Numbers with their evidence: plain to read, with a source for every one.

A `Part` is a frozen dataclass whose fields are `Quantity` descriptors. It is made from `Fact`s and
read as plain values: ``wide.rows`` is an int. `facts` lists everything again with units, evidence
and sources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from fitzroy.base.evidence import Evidence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """A value, how well it is known, and from where."""

    value: T
    evidence: Evidence
    source: str


class Quantity(Generic[T]):
    """A field of a part: assigned once as a fact, read as its value.

    Args:
        doc: what it is.
        unit: unit of the value.
    """

    __slots__ = ("_name", "doc", "unit")

    def __init__(self, doc: str, unit: str = "") -> None:
        self.doc = doc
        self.unit = unit
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, part: Any, owner: type | None = None) -> T:
        # Without a value on the class, a dataclass takes the field for one without a default.
        if part is None:
            raise AttributeError(self._name)
        value: T = part.__dict__[self._name].value
        return value

    def __set__(self, part: Any, fact: Fact[T]) -> None:
        part.__dict__[self._name] = fact

    def fact(self, part: Any) -> Fact[T]:
        """The value of a part with its evidence."""
        found: Fact[T] = part.__dict__[self._name]
        return found


class Part:
    """Base of dataclasses with quantities; subclasses are dataclasses with ``frozen=True``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fact of a part, for documentation.

    Attributes:
        name: path of attributes, joined by dots.
        doc: what it is.
        value: the value.
        unit: its unit.
        evidence: how well it is known.
        source: from where.
    """

    name: str
    doc: str
    value: object
    unit: str
    evidence: Evidence
    source: str


def facts(part: Part, prefix: str = "") -> Iterator[Row]:
    """All facts of a part and of the parts inside it, in order of declaration.

    Args:
        part: a dataclass instance.
        prefix: path of the part itself.
    """
    for field in dataclasses.fields(cast(Any, part)):
        name = f"{prefix}{field.name}"
        quantity = _quantity(type(part), field.name)
        if quantity is not None:
            fact = quantity.fact(part)
            yield Row(name, quantity.doc, fact.value, quantity.unit, fact.evidence, fact.source)
            continue
        value = getattr(part, field.name)
        if isinstance(value, Part):
            yield from facts(value, f"{name}.")
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from facts(item, f"{name}[{key!r}].")


def _quantity(cls: type, name: str) -> Quantity[Any] | None:
    for base in cls.__mro__:
        item = base.__dict__.get(name)
        if isinstance(item, Quantity):
            return item
    return None
