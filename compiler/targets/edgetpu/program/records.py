"""Records as text: a line for each, printed and matched by one template.

A record is a frozen dataclass. Fields that its template names stand in its line; all others are
tuples of records, which follow it, indented. A text has one canonical form: what `parsed` takes is
what `printed` gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, NewType, TypeVar, get_args, get_type_hints

from fitzroy.base.errors import FormatError

Words = NewType("Words", str)
"""Lower-case words, digits and commas, which stand without quotes."""

Ranges = tuple[tuple[int, int], ...]
"""Begin and end of each."""

Names = tuple[str, ...]
"""Any names."""

Numbers = tuple[int, ...]
"""Any numbers."""

Counts = tuple[tuple[Words, int], ...]
"""How many there are of what."""


@dataclass(frozen=True)
class Record:
    """A line of text, and those that belong to it."""

    template: ClassVar[str] = ""
    """The line, with names of fields in braces; empty for what has none of its own."""

    @classmethod
    @cache
    def grammar(cls) -> Grammar:
        """How its records stand in text, from the template and the types of fields."""
        hints = get_type_hints(cls)
        codecs = {name: _CODECS[hints[name]] for name in re.findall(r"\{(\w+)\}", cls.template)}
        pattern = re.escape(cls.template)
        for name, codec in codecs.items():
            pattern = pattern.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>{codec.pattern})")
        children = {
            field.name: _kinds(hints[field.name])
            for field in fields(cls)
            if field.name not in codecs
        }
        return Grammar(cls, re.compile(pattern), codecs, children)


R = TypeVar("R", bound=Record)


def printed(record: Record) -> Iterator[str]:
    """The lines of a record."""
    grammar = record.grammar()
    if record.template:
        yield grammar.line(record)
    indent = _INDENT if record.template else ""
    for name in grammar.children:
        for child in getattr(record, name):
            yield from (indent + line for line in printed(child))


def parsed(kind: type[R], text: str, path: str = "") -> R:
    """The record that is printed as some text.

    Args:
        kind: what it is; has no line of its own.
        text: the text.
        path: where the text comes from, for messages.

    Raises:
        FormatError: nothing is printed like that.
    """
    *lines, rest = text.split("\n")
    if rest:
        raise FormatError("the last line has no end", path=path)
    try:
        record: R = kind.grammar().record({}, _nodes(lines))
    except _NoMatch as error:
        raise FormatError(f"line {error.number}: {error.what}", path=path) from None
    for number, (have, wanted) in enumerate(zip(lines, printed(record), strict=False), 1):
        if have != wanted:
            raise FormatError(f"line {number}: {have!r}, written {wanted!r}", path=path)
    return record


_INDENT = "    "

_MOST_LEVELS = 4
"""Levels of indentation."""


class _NoMatch(Exception):
    """A line that is no record.

    Args:
        number: number of the line.
        what: what is wrong with it.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number, self.what = number, what


# --- fields --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of a type stand in a line.

    Attributes:
        pattern: what they look like.
        show: makes text of one.
        read: makes one of text that matches.
    """

    pattern: str
    show: Callable[[Any], str]
    read: Callable[[str], Any]


_NUMBER = r"-?\d{1,12}"
_NAME = r'"(?:[^"\\]|\\.)*"'
_WORDS = r"[a-z0-9_][a-z0-9_,/ -]*"


def _quoted(name: str) -> str:
    return json.dumps(name)


def _list_of(item: str, separator: str, empty: str) -> str:
    return rf"(?:{item}(?:{separator}{item})*|{empty})"


def _pairs(text: str) -> Ranges:
    return tuple((int(one), int(other)) for one, other in re.findall(r"(-?\d+):(-?\d+)", text))


def _counted(text: str) -> Counts:
    found = re.findall(rf"([a-z_]+) ({_NUMBER})", text)
    return tuple((Words(what), int(count)) for what, count in found)


_CODECS: dict[object, _Codec] = {
    int: _Codec(_NUMBER, str, int),
    str: _Codec(_NAME, _quoted, json.loads),
    Words: _Codec(_WORDS, str, Words),
    Ranges: _Codec(
        _list_of(f"{_NUMBER}:{_NUMBER}", " ", "none"),
        lambda some: " ".join(f"{begin}:{end}" for begin, end in some) or "none",
        _pairs,
    ),
    Numbers: _Codec(
        _list_of(_NUMBER, " ", "none"),
        lambda some: " ".join(map(str, some)) or "none",
        lambda text: tuple(int(one) for one in text.split() if one != "none"),
    ),
    Names: _Codec(
        _list_of(_NAME, ", ", "nothing"),
        lambda some: ", ".join(map(_quoted, some)) or "nothing",
        lambda text: tuple(json.loads(name) for name in re.findall(_NAME, text)),
    ),
    Counts: _Codec(
        _list_of(f"[a-z_]+ {_NUMBER}", ", ", "nothing"),
        lambda some: ", ".join(f"{what} {count}" for what, count in some) or "nothing",
        _counted,
    ),
}
"""Types of fields that stand in lines."""


# --- grammars ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A line, and those that are indented further after it."""

    number: int
    text: str
    children: list[_Node]


def _nodes(lines: Sequence[str]) -> list[_Node]:
    """Lines as trees.

    Raises:
        _NoMatch: a line is indented too far.
    """
    levels: list[list[_Node]] = [[]]
    for number, line in enumerate(lines, 1):
        text = line.lstrip(" ")
        depth, rest = divmod(len(line) - len(text), len(_INDENT))
        if rest or depth >= min(len(levels), _MOST_LEVELS):
            raise _NoMatch(number, f"it is indented by {len(line) - len(text)} spaces")
        node = _Node(number, text, [])
        levels[depth].append(node)
        levels[depth + 1 :] = [node.children]
    return levels[0]


@dataclass(frozen=True, slots=True)
class Grammar:
    """How records of a class stand in text.

    Attributes:
        kind: the class.
        pattern: what the line looks like.
        codecs: how the fields in the line stand there.
        children: classes of the records that follow, by the fields that hold them.
    """

    kind: type[Record]
    pattern: re.Pattern[str]
    codecs: Mapping[str, _Codec]
    children: Mapping[str, tuple[type[Record], ...]]

    def line(self, record: Record) -> str:
        """The line of a record."""
        shown = {name: codec.show(getattr(record, name)) for name, codec in self.codecs.items()}
        return self.kind.template.format(**shown)

    def match(self, text: str) -> dict[str, Any] | None:
        """Fields of a line; None if it is none of this class."""
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        try:
            return {name: codec.read(found[name]) for name, codec in self.codecs.items()}
        except ValueError:
            # A name with a backslash that JSON does not know.
            return None

    def record(self, values: Mapping[str, Any], nodes: Sequence[_Node]) -> Any:
        """The record of a line with some fields, and of those that follow.

        Raises:
            _NoMatch: one of these is no record.
        """
        children: dict[str, list[Record]] = {name: [] for name in self.children}
        for node in nodes:
            name, child = self._child(node)
            children[name].append(child)
        return self.kind(**values, **{name: tuple(some) for name, some in children.items()})

    def _child(self, node: _Node) -> tuple[str, Record]:
        for name, kinds in self.children.items():
            for kind in kinds:
                grammar = kind.grammar()
                values = grammar.match(node.text)
                if values is not None:
                    return name, grammar.record(values, node.children)
        raise _NoMatch(node.number, f"{node.text!r} does not belong there")


def _kinds(hint: object) -> tuple[type[Record], ...]:
    """The classes of a tuple of records of one class or of several."""
    item = get_args(hint)[0]
    return get_args(item) or (item,)
