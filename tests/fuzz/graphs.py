"""Graphs as text: mutations of tokens, and all that reads a graph."""

from __future__ import annotations

import contextlib
import json
import math
import random
import re
import zlib

import numpy as np
from tests.compiler.zoo import zoo
from tests.fuzz import hostile
from tests.fuzz.listings import NUMBERS

from fitzroy.api import compile, explain
from fitzroy.base.errors import FormatError, InternalError, UnsupportedError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, parse_graph, print_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.xnnpack.options import Uint8Policy
from fitzroy.hw_models.numerics import Arithmetic

_TOKEN = re.compile(r'%"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*"|[%\w.+-]+|\S')
_NAME = re.compile(r"%\w+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

_SCRAPS = (
    "[" * 900, "(" * 900, "{" * 900, "[[[[]]]]", "]", ")", "}", ",", "=", ":", "@", "_", "none",
    "true", "false", "inf", "nan", "-inf", "1e-40", "1e-45", "1e39", "3e38", "0.0", "-0.5", "b\"\"",
    'b"AAAA"', '"AAAA"', '"="', "quant(1 : 0)", "quant(1e-40 : 0)", "quant(inf : 0)",
    "quant(1 : 999)", "quant(1, 1 : 0 : axis 0)", "quant( : 0)", "int8[]", "int8[0]", "float64[1]",
    "int8[4294967296, 4294967296]", "uint8[65536, 65536]", "bool[1]", "as %x0", "%y0", "%x0",
    '%"\\ud800"', '%"\\u0000"', '@ "f":0:0', "stride = [0, 0]", "stride = [65536, 1]", "{}",
    "output", "input", "const", "data", "graph", "graph \"x\" {}",
)  # fmt: skip

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_TYPES = tuple(dtype.value for dtype in DType)

_MOST_WORK = 3e6
"""Products of elements that a case may compute."""

_MOST_ELEMENTS = 1 << 22
"""Elements beyond which a case has to be refused for its memory; it is not too much work then."""


def files() -> list[bytes]:
    """A small graph, or several, for every operator."""
    return [print_graph(graph).encode() for graph in zoo().values()]


def parse(data: bytes) -> Graph:
    """A graph as ``fitzroy.load`` reads it.

    Raises:
        FormatError: the text is malformed, or the graph is.
    """
    graph = parse_graph(data.decode("utf-8", "replace"), attributes_of, path="fuzz.ir")
    try:
        verify(graph)
    except InternalError as error:
        raise FormatError(f"the graph is inconsistent: {error}", path="fuzz.ir") from None
    return graph


def target(data: bytes) -> None:
    """Read a graph, print it, compute it and compile it.

    Raises:
        FormatError: it is malformed.
        FitzroyError: what compiling it says.
    """
    graph = parse(data)
    text = print_graph(graph)
    if print_graph(parse(text.encode())) != text:
        raise AssertionError("a graph changes when printed and parsed")
    salt = zlib.crc32(data)
    with contextlib.suppress(UnsupportedError):
        _evaluate(graph, list(Arithmetic)[salt % len(Arithmetic)])
    if work(graph) > _MOST_WORK:
        return
    if salt & 0x700 == 0:
        explain(graph, target="edgetpu")
    compile(graph, uint8=list(Uint8Policy)[salt >> 4 & 1])


def work(graph: Graph) -> float:
    """An estimate of the products that the graph's operators take, from above."""
    total = 0.0
    for node in graph.nodes():
        sizes = [graph.type(name).size for name in node.inputs if name is not None]
        made = sum(graph.type(name).size for name in node.outputs)
        total += made * float(max(sizes, default=1)) + sum(sizes)
    return total


def _evaluate(graph: Graph, arithmetic: Arithmetic) -> None:
    given = sum(graph.type(name).nbytes for name in graph.inputs)
    most = max((math.prod(value.type.shape) for value in graph.values.values()), default=0)
    if given > 1 << 20 or (work(graph) > _MOST_WORK and most <= _MOST_ELEMENTS):
        return
    inputs = {}
    for name in graph.inputs:
        type = graph.type(name)
        inputs[name] = np.resize(np.arange(5), type.shape).astype(type.dtype.numpy)
    evaluate(graph, inputs, arithmetic)


def text_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A text after one to five changes of tokens or lines."""
    text = seed.decode()
    for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
        kind = rng.random()
        if kind < 0.35:
            text = _replaced(rng, text, _NUMBER, rng.choice((*"+-" * 8, *NUMBERS)))
        elif kind < 0.6:
            other = _TOKEN.findall(rng.choice(seeds).decode()) if rng.random() < 0.5 else None
            text = _replaced(rng, text, _TOKEN, rng.choice(other or _TOKEN.findall(text) or [""]))
        elif kind < 0.8:
            text = _replaced(rng, text, _TOKEN, rng.choice(_SCRAPS))
        elif kind < 0.85:
            text = _replaced(rng, text, _NAME, f"%{json.dumps(hostile.text(rng))}")
        elif kind < 0.92:
            token = rng.choice(_TOKEN.findall(text) or [""])
            by = rng.choice((*NUMBERS, *_TYPES, *_TYPES)).replace("\\", "")
            text = re.sub(rf"(?<!\w){re.escape(token)}(?!\w)", by, text)
        else:
            text = _lines(rng, text)
    return text.encode("utf-8", "surrogatepass")


def _replaced(
    rng: random.Random,
    text: str,
    pattern: re.Pattern[str],
    by: str,
) -> str:
    """A text with something else at one of the places of a pattern; signs nudge a number."""
    places = list(pattern.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    if by in ("+", "-") and _INTEGER.fullmatch(place[0]):
        by = str(int(place[0]) + (1 if by == "+" else -1))
    return text[: place.start()] + by + text[place.end() :]


def _lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.4:
        del lines[at]
    elif kind < 0.7:
        lines.insert(rng.randrange(len(lines)), lines[at])
    else:
        lines.insert(rng.randrange(len(lines)), lines.pop(at))
    return "\n".join(lines)
