"""Text form of graphs: printed deterministically, parsed back to an equal graph.

::

    graph "digits" {
      input %image : int8[1,8,8,1] quant(0.00392156862745098 : -128)
      const %filter : int8[16,3,3,1] quant(0.5, 0.25 : 0, 0 : axis 0)
      %conv : int8[1,8,8,16] quant(0.1 : -128) = conv_2d(%image, %filter, _) {stride = [1, 1]}
      output %conv
    }
    data {
      %filter = "base64 of the little-endian elements"
    }

Names that are not plain identifiers are quoted as JSON strings: ``%"model/conv 1"``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import os
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir.graph import NO_ATTRIBUTES, Attributes, Graph, Node, Origin, Value

_MOST_DEPTH = 8
"""Levels of lists in an attribute; those that there are have two."""

_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./:;-]*")


def print_graph(graph: Graph, *, data: bool = True, most: int | None = None) -> str:
    """A graph as text.

    Args:
        graph: what to print.
        data: whether to append the elements of constants.
        most: letters that are printed of each name, and of each constant's elements, scales, zero
            points and each attribute; a text that was cut cannot be read back. None for all.
    """
    return "\n".join(_Printer(graph, most).lines(data)) + "\n"


class _Printer:
    """Prints a graph.

    Args:
        graph: the graph.
        most: see `print_graph`.
    """

    def __init__(self, graph: Graph, most: int | None) -> None:
        self.graph = graph
        self.most = most
        self.names = {} if most is None else _short_names(graph.values, most)

    def lines(self, data: bool) -> Iterator[str]:
        """The lines of the text."""
        graph = self.graph
        constants = [value for value in graph.values.values() if value.is_constant]
        yield f"graph {json.dumps(graph.name)} {{"
        for name in graph.inputs:
            yield f"  input {self.value(graph.value(name))}"
        for value in constants:
            yield f"  const {self.value(value)}"
        for node in graph.nodes():
            yield f"  {self.node(node)}"
        for name in graph.outputs:
            yield f"  output {self.name(name)}"
        yield "}"
        if data and constants:
            yield "data {"
            for value in constants:
                yield f'  {self.name(value.name)} = "{self.elements(value)}"'
            yield "}"

    def name(self, name: str | None) -> str:
        """The name of a value, or of a node."""
        if name is None:
            return "_"
        if self.most is None:
            return f"%{name}" if _PLAIN.fullmatch(name) else f"%{json.dumps(name)}"
        short = self.names.get(name) or _short_name(name, self.most)
        plain = _PLAIN.fullmatch(short.replace("…", ".").replace("~", "."))
        return f"%{short}" if plain else f"%{json.dumps(short, ensure_ascii=False)}"

    def value(self, value: Value) -> str:
        """A value with its type."""
        return f"{self.name(value.name)} : {print_type(value.type, self.most)}"

    def elements(self, value: Value) -> str:
        """The elements of a constant."""
        assert value.data is not None
        raw = value.data.astype(value.data.dtype.newbyteorder("<"), copy=False).tobytes()
        return _letters(raw, self.most)

    def node(self, node: Node) -> str:
        """A node with its results."""
        outputs = ", ".join(self.value(self.graph.value(name)) for name in node.outputs)
        text = f"{outputs} = {node.op}({', '.join(map(self.name, node.inputs))})"
        if attributes := print_attributes(node.attributes, self.most):
            text += f" {attributes}"
        if node.outputs != (node.name,):
            text += f" as {self.name(node.name)}"
        if node.origin is not None:
            origin = node.origin
            # The folder is the same in every line.
            file = origin.file if self.most is None else os.path.basename(origin.file)
            text += f" @ {json.dumps(file)}:{origin.subgraph}:{origin.index}"
        return text


def _short_names(names: Iterable[str], most: int) -> dict[str, str]:
    """Names of at most so many letters, and a number where several would be equal."""
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for name in names:
        short = _short_name(name, most)
        seen[short] += 1
        found[name] = short if seen[short] == 1 else f"{short}~{seen[short]}"
    return found


def _short_name(name: str, most: int) -> str:
    """The first of several names that were fused, without its middle where that is too long."""
    first, fused, _ = name.partition(";")
    short = f"{first};…" if fused else name
    if len(short) <= most:
        return short
    return f"{short[: most // 3]}…{short[len(short) - (most - most // 3 - 1) :]}"


def _letters(raw: bytes, most: int | None) -> str:
    """Bytes in base64, with their number where not all are shown."""
    letters = base64.b64encode(raw).decode()
    if most is None or len(letters) <= most:
        return letters
    return f"{letters[:most]}… {len(raw):,} bytes"


def print_type(type: TensorType, most: int | None = None) -> str:
    """A tensor type in the text form.

    Args:
        type: what to print.
        most: letters that are printed of its scales, and of its zero points; a text that was cut
            cannot be read back. None for all.
    """
    text = f"{type.dtype.value}[{','.join(map(str, type.shape))}]"
    quantization = type.quantization
    if quantization is None:
        return text
    scales = _joined(list(map(repr, quantization.scale)), most)
    # One zero point stands for all where they are equal.
    distinct = (
        quantization.zero_point
        if len(set(quantization.zero_point)) > 1
        else (quantization.zero_point[:1])
    )
    zero_points = _joined(list(map(str, distinct)), most)
    axis = "" if quantization.axis is None else f" : axis {quantization.axis}"
    return f"{text} quant({scales} : {zero_points}{axis})"


def _joined(items: Sequence[str], most: int | None, what: str = "numbers") -> str:
    """Items in a row, cut after whole ones."""
    text = ", ".join(items)
    if most is None or len(text) <= most:
        return text
    kept = text[:most].count(",")
    return f"{', '.join(items[:kept])}, … {len(items):,} {what}"


def print_attributes(attributes: Attributes, most: int | None = None) -> str:
    """The attributes of a node in the text form; empty if it has none.

    Args:
        attributes: what to print.
        most: letters that are printed of each; a text that was cut cannot be read back. None for
            all.
    """
    shown = [
        f"{field.name} = {_literal(getattr(attributes, field.name), most)}"
        for field in dataclasses.fields(attributes)
    ]
    return f"{{{', '.join(shown)}}}" if shown else ""


def _literal(value: object, most: int | None = None) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, bytes):
        return f'b"{_letters(value, most)}"'
    if isinstance(value, str):
        return json.dumps(value if most is None or len(value) <= most else f"{value[:most]}…")
    if isinstance(value, tuple):
        items = [_literal(item, most) for item in value]
        return f"[{_joined(items, most, 'items')}]"
    return repr(value)


class _Word(str):
    """A bare word of the text form: the value of an enumeration."""

    __slots__ = ()


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<value>%(?:[A-Za-z0-9_.][A-Za-z0-9_./:;-]*|"(?:[^"\\]|\\.)*"))
    | (?P<bytes>b"[A-Za-z0-9+/=]*")
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>[+-]?(?:inf|nan)\b|[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>[\[\](){}=:,@])
    )""",
    re.VERBOSE,
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


class _Parser:
    def __init__(
        self, text: str, attributes: Callable[[str], type[Attributes]], path: str, fill: Fill | None
    ) -> None:
        self.path = path
        self.attributes = attributes
        self.fill = fill
        self.tokens = list(self.scan(text))
        self.at = 0
        self.end = len(text)

    def scan(self, text: str) -> Iterator[_Token]:
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormatError("unexpected character", path=self.path, offset=at, table="text")
            kind = str(match.lastgroup)
            yield _Token(kind, match.group(kind), match.start(kind))
            at = match.end()

    def fail(self, what: str) -> FormatError:
        offset = self.tokens[self.at].offset if self.at < len(self.tokens) else self.end
        return FormatError(what, path=self.path, offset=offset, table="text")

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self, kind: str = "") -> str:
        if self.at >= len(self.tokens):
            raise self.fail(f"the text ends where a {kind or 'token'} is expected")
        token = self.tokens[self.at]
        if kind and token.kind != kind:
            raise self.fail(f"{token.text!r} where a {kind} is expected")
        self.at += 1
        return token.text

    def expect(self, *marks: str) -> None:
        for mark in marks:
            if self.peek() != mark:
                raise self.fail(f"{self.peek()!r} where {mark!r} is expected")
            self.at += 1

    def accept(self, mark: str) -> bool:
        if self.peek() == mark:
            self.at += 1
            return True
        return False

    def name(self) -> str:
        text = self.next("value")[1:]
        return str(json.loads(text)) if text.startswith('"') else text

    def integer(self) -> int:
        text = self.next("number")
        try:
            return int(text)
        except ValueError:
            raise self.fail(f"{text} where an integer is expected") from None

    def several(self, item: Callable[[], Any], end: str) -> list[Any]:
        items: list[Any] = []
        while not self.accept(end):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def literal(self, depth: int = 0) -> object:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None:
            raise self.fail("the text ends where a value is expected")
        if token.text == "[":
            if depth == _MOST_DEPTH:
                raise self.fail(f"lists within lists, more than {_MOST_DEPTH} deep")
            self.at += 1
            return tuple(self.several(lambda: self.literal(depth + 1), "]"))
        text = self.next()
        if token.kind == "number":
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
        if token.kind == "string":
            return json.loads(text)
        if token.kind == "bytes":
            return self.decode(text[1:])
        if token.kind == "word":
            return {"true": True, "false": False, "none": None}.get(text, _Word(text))
        raise self.fail(f"{text!r} where a value is expected")

    def decode(self, quoted: str) -> bytes:
        try:
            return base64.b64decode(quoted[1:-1], validate=True)
        except binascii.Error as error:
            raise self.fail(f"bad base64: {error}") from None

    def tensor_type(self) -> TensorType:
        word = self.next("word")
        try:
            dtype = DType(word)
        except ValueError:
            raise self.fail(f"no element type {word!r}") from None
        self.expect("[")
        shape = tuple(self.several(self.integer, "]"))
        if any(extent < 0 for extent in shape):
            raise self.fail("a negative extent")
        if not self.accept("quant"):
            return TensorType(shape, dtype)
        self.expect("(")
        scale = tuple(self.several(lambda: float(self.next("number")), ":"))
        zero_point = [self.integer()]
        while self.accept(","):
            zero_point.append(self.integer())
        axis = None
        if self.accept(":"):
            self.expect("axis")
            axis = self.integer()
        self.expect(")")
        if len(zero_point) == 1:
            zero_point *= len(scale)
        type = TensorType(shape, dtype, Quantization(scale, tuple(zero_point), axis))
        fault = type.fault()
        if fault:
            raise self.fail(fault)
        return type

    def typed(self) -> Value:
        name = self.name()
        self.expect(":")
        return Value(name, self.tensor_type())

    def graph(self) -> Graph:
        self.expect("graph")
        graph = Graph(str(json.loads(self.next("string"))))
        constants: dict[str, TensorType] = {}
        lines: list[tuple[Node, list[Value]]] = []
        self.expect("{")
        while not self.accept("}"):
            if self.accept("input"):
                value = self.typed()
                self.fresh(graph, value.name)
                graph.add_input(value.name, value.type)
            elif self.accept("const"):
                value = self.typed()
                self.fresh(graph, value.name)
                constants[value.name] = value.type
            elif self.accept("output"):
                graph.outputs.append(self.name())
            else:
                lines.append(self.line())
        self.data(graph, constants)
        for node, values in lines:
            for value in values:
                self.fresh(graph, value.name)
                graph.add_value(value)
            for name in node.inputs:
                if name is not None and name not in graph.values:
                    raise self.fail(f"{node.name!r} reads undefined {name!r}")
            graph.add_node(node)
        for name in graph.outputs:
            if name not in graph.values:
                raise self.fail(f"output {name!r} is not defined")
        if self.at < len(self.tokens):
            raise self.fail(f"{self.peek()!r} after the graph")
        return graph

    def fresh(self, graph: Graph, name: str) -> None:
        if name in graph.values:
            raise self.fail(f"{name!r} is defined twice")

    def line(self) -> tuple[Node, list[Value]]:
        values = [self.typed()]
        while self.accept(","):
            values.append(self.typed())
        self.expect("=")
        op = self.next("word")
        try:
            cls = self.attributes(op)
        except KeyError:
            raise self.fail(f"no operator {op!r}") from None
        self.expect("(")
        inputs = self.several(lambda: None if self.accept("_") else self.name(), ")")
        given: dict[str, object] = {}
        if self.accept("{"):
            for key, value in self.several(self.pair, "}"):
                given[key] = value
        name = self.name() if self.accept("as") else values[0].name
        origin = None
        if self.accept("@"):
            file = str(json.loads(self.next("string")))
            self.expect(":")
            subgraph = self.integer()
            self.expect(":")
            origin = Origin(file, subgraph, self.integer())
        outputs = tuple(value.name for value in values)
        node = Node(name, op, tuple(inputs), outputs, self.build(cls, given), origin)
        return node, values

    def pair(self) -> tuple[str, object]:
        key = self.next("word")
        self.expect("=")
        return key, self.literal()

    def build(self, cls: type[Attributes], given: dict[str, object]) -> Attributes:
        if not given and cls is Attributes:
            return NO_ATTRIBUTES
        hints = typing.get_type_hints(cls)
        known = {field.name for field in dataclasses.fields(cls)}
        for key in given:
            if key not in known:
                raise self.fail(f"{cls.__name__} has no {key!r}")
        try:
            return cls(**{key: _coerce(value, hints[key]) for key, value in given.items()})
        except (TypeError, ValueError) as error:
            raise self.fail(str(error)) from None

    def data(self, graph: Graph, constants: dict[str, TensorType]) -> None:
        if self.accept("data"):
            self.expect("{")
            while not self.accept("}"):
                name = self.name()
                self.expect("=")
                raw = self.decode(self.next("string"))
                type = constants.pop(name, None)
                if type is None:
                    raise self.fail(f"data for {name!r}, which is no constant")
                if len(raw) != type.nbytes:
                    raise self.fail(f"{len(raw)} bytes of data for {type.nbytes} of {name!r}")
                array = np.frombuffer(raw, type.dtype.numpy.newbyteorder("<")).reshape(type.shape)
                array = array.astype(type.dtype.numpy, copy=False)
                graph.add_value(Value(name, type, array))
        for name, type in constants.items():
            if self.fill is None:
                raise self.fail(f"no data for constant {name!r}")
            graph.add_value(Value(name, type, self.fill(name, type)))


def _coerce(value: object, hint: Any) -> object:
    """A parsed literal as the attribute's declared type wants it.

    Raises:
        ValueError: it is of another type.
    """
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and types.NoneType not in choices:
        value = _Word("none")
    for choice in choices:
        converted = _as(value, choice)
        if converted is not None or (value is None and choice is types.NoneType):
            return converted
    raise ValueError(f"{_literal(value)} where {hint!s} is expected")


_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_INTEGER_BITS = 64
"""Attributes are stored as float32 and int64 at most."""


def _as(value: object, choice: Any) -> object:
    """The literal as one type, or None."""
    if typing.get_origin(choice) is tuple:
        if not isinstance(value, tuple):
            return None
        items = typing.get_args(choice)
        if items[-1:] == (Ellipsis,):
            items = (items[0],) * len(value)
        if len(items) != len(value):
            return None
        return tuple(map(_coerce, value, items))
    if isinstance(value, _Word):
        if isinstance(choice, type) and issubclass(choice, Enum):
            return choice(str(value))
        return None
    if choice is float and type(value) in (int, float):
        number = typing.cast(float, value)
        if _LARGEST_FLOAT < abs(number) < math.inf:
            raise ValueError("a number that is more than a float32 holds")
        return float(number)
    if choice is int and type(value) is int and value.bit_length() >= _INTEGER_BITS:
        raise ValueError(f"an integer of {value.bit_length()} bits, of at most {_INTEGER_BITS}")
    return value if type(value) is choice else None


Fill = Callable[[str, TensorType], Array]
"""Gives the elements of a constant by its name and type."""


def parse_graph(
    text: str,
    attributes: Callable[[str], type[Attributes]],
    *,
    path: str = "",
    fill: Fill | None = None,
) -> Graph:
    """A graph from its text form.

    Args:
        text: what `print_graph` wrote.
        attributes: gives the attribute class of an operator; raises KeyError for unknown ones.
        path: name of the file, for errors.
        fill: gives constants that the text has no elements of; None if it must have them.

    Raises:
        FormatError: where and why the text is not a graph.
    """
    parser = _Parser(text, attributes, path, fill)
    try:
        return parser.graph()
    except (ValueError, InternalError) as error:
        raise parser.fail(str(error)) from None
