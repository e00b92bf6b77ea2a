"""Values that programs stumble over: texts, numbers, and documents of JSON made of them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

TEXTS = (
    "", " ", "x", "x" * 255, "x" * 256, "x" * 70_000, "é" * 130, "\0", "a\0b", "\n", "a\nb", "\r",
    "\t", "\x1b[31m", "\x1b]0;title\x07", "\x7f", "\x9b31m", "\u202etxt.exe", "\u2066", "\u200b",
    "\u2028", "\ufeff", "\ufffe", "\ufffd", "\U0010ffff", "\U000e0001", "𝟙", "٣", "ﬁ", "e\u0301",
    "/", "//", "..", "../..", "/etc/passwd", "C:\\x", "a/b", "-", "--", "--json", "-o", "=", "a=b",
    "=a", "a=", "%", "%s", "%n", "%d%d", "{}", "{0}", "{x}", "{{", "[bold]", "[/]", "[link=x]",
    '"', "'", "`", "\\", "\\x41", "\\u0041", ";", ",", ",,", ":", "#", "@", "$(x)", "${x}", "*",
    "?", "<b>", "</script>", "&amp;", "<!--", "]]>", "None", "none", "nan", "inf", "true", "_",
    "0", "-1", "1e400", "9" * 30, "name;1", "a;b", "serving_default", "main", "forward", "x0",
)  # fmt: skip
"""Texts as UTF-8 can hold them."""

BYTES = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"a\xe2\x82")
"""Bytes that are no UTF-8."""

_NUMBERS = (
    0, -1, 1, 2, 31, 255, 256, 65536, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 53) + 1, 1 << 63,
    -(1 << 63), 1 << 64, 10**30, 0.0, -0.0, 0.5, -0.5, 1e-320, 1e9, 1e15, 1.7e308,
)  # fmt: skip

_RAW = (
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 400, "9" * 5000, "-" + "9" * 5000,
    "1." + "0" * 5000, "[" * 100 + "]" * 100, "[" * 100_000, '{"a":' * 2000, "", ",", "}", "01",
    "'x'", "// x", '"\\ud800"', '"\\u0000"', '"\\u009b"', '"\\u202e"', '{"a":1,"a":2}',
)  # fmt: skip
"""Pieces of text that JSON does not have, or that readers of JSON differ about."""

_MARK = "\ue000"


def text(rng: random.Random) -> str:
    """A hostile text, or two."""
    found = rng.choice(TEXTS)
    return found + rng.choice(TEXTS) if rng.random() < 0.1 else found


def document_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A JSON document after one to three changes; most of the time, it can still be read."""
    document = json.loads(seed)
    raw = ""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.15:
            del holder[key]
        elif kind < 0.25 and isinstance(holder, list):
            holder[key:key] = copy.deepcopy([holder[key]] * rng.choice((1, 2, 100)))
        elif kind < 0.3 and isinstance(holder, dict):
            holder[text(rng)] = holder.pop(key)
        elif kind < 0.4:
            raw = rng.choice(_RAW)
            holder[key] = _MARK
        elif kind < 0.5:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(_at(other, place))
        else:
            holder[key] = value(rng, holder[key])
    content = json.dumps(document, ensure_ascii=rng.random() < 0.5, default=str)
    marks = (json.dumps(_MARK), f'"{_MARK}"')
    for mark in marks:
        content = content.replace(mark, raw)
    return content.encode("utf-8", "surrogatepass")


def value(rng: random.Random, old: Any) -> Any:
    """Another value: mostly one of the same type."""
    kind = type(old) if rng.random() < 0.7 else rng.choice((str, int, bool, type(None), list, dict))
    if kind is str:
        return text(rng)
    if kind in (int, float):
        return rng.choice((*_NUMBERS, old)) if rng.random() < 0.7 else rng.randint(-300, 70_000)
    if kind is bool:
        return rng.random() < 0.5
    if kind is type(None):
        return None
    return rng.choice(([], {}, [0], [[]], {"": 0}, [None] * 5000))


def _places(item: Any) -> Any:
    """Every place of a document: the container, and the key in it."""
    if not isinstance(item, dict | list):
        return
    for key in list(item) if isinstance(item, dict) else range(len(item)):
        yield item, key
        yield from _places(item[key])


def _at(holder: Any, key: Any) -> Any:
    """What is at a place, None if an earlier change took it away."""
    try:
        return holder[key]
    except (KeyError, IndexError):
        return None
