"""Mutations of assembly text that know lines, tokens and numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NUMBERS = (
    "0", "1", "-1", "2", "7", "8", "15", "16", "31", "32", "63", "64", "0x7fff", "32768", "65535",
    "0x10000", "262143", "-262144", "262145", "2147483647", "-2147483648", "0xffffffff",
    "4294967296", "18446744073709551616", "9" * 40, "9" * 5000, "0x" + "f" * 300, "-0", "+1", "00",
    "007", "1_000", "1e9", "1.5", "nan", "inf", "-inf", "1e400", "0b101", "0o17", "٣", "²", "",
)  # fmt: skip

SCRAPS = (
    "\0", "\x0b", "\x1c", "\x85", "\u2028", "\ufeff", "é", "𝟙", "\ud7ff", "%", "%ff", "%c3%a9",
    '"', "'", ";", "|", " | ", ":", ",", ", ", "(", ")", "[", "]", "{", "}", "*", "+", "@", "=",
    "none", "all", "off ", "seq=0", "target=L0", "target=", "symbol: 0 low(scratch)", "null",
    "true", "op=mac", "tiles=r0c0", "bit3", "-", "_", "\\", "\t", " ",
)  # fmt: skip

LINES = (
    ".chip beagle", ".chip none", ".package 0", ".package 99999999999", ".executable stand_alone",
    ".executable execution_only", ".chunk 0", ".chunk 1", ".object {}", ".resources {}", ".text {}",
    '.text {"ends_chunk":true}', '.text {"when":"cached","operand":"fc"}', ".run {}",
    '.run {"tile":3,"row":70,"words":1,"units":1,"group":9}', ".operand {}", ".data", ".data 0",
    ".data " + "00" * 64, ".input {}", '.output {"name":"b","any_layer":{},"any_layer_type":"x"}',
    '.operand {"name":"x","kind":1}', '.text {"when":[1]}', '.text {"when":"cached","operand":{}}',
    '.text {"ends_chunk":"no"}', '.object {"name":[]}', '.operand {"name":{},"kind":[]}',
    ".resources " + "[" * 5000, "start", "end", "start size=1", "L0:", "L1:", "halt", "nop",
    "loop count=65535 length=1", "loop count=65535 target=L1", "branch offset=0",
    "branch target=L0", "mac", "scalar", "issue", "wait: none", "wide: 0 [65536*1 65536*65535]",
    "buffer: 0 [32768*1 32768*1 32768*1]", "outfeed", "        buffer: 0 [1024*1 64*0]",
    "ring_consume_a tiles=r0c0", "infeed destination=r0c0", "pop",
)  # fmt: skip

_TOKEN = re.compile(r"[^\s,()\[\]*=:@|]+")
_NUMBER = re.compile(r"-?\b(?:0x[0-9a-f]+|\d+)\b")

Change = Callable[[random.Random, list[str], list[str]], None]


def _line(rng: random.Random, lines: list[str]) -> int:
    """A line, mostly one that is no data."""
    for _ in range(4):
        index = rng.randrange(len(lines))
        if not lines[index].startswith(".data"):
            break
    return index


def _replaced(rng: random.Random, line: str, pattern: re.Pattern[str], text: str) -> str:
    places = list(pattern.finditer(line))
    if not places:
        return line
    match = rng.choice(places)
    return line[: match.start()] + text + line[match.end() :]


def number(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    lines[at] = _replaced(rng, lines[at], _NUMBER, rng.choice(NUMBERS))


def nudge(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    lines[at] = _NUMBER.sub(
        lambda match: (
            str(int(match[0], 0) + rng.choice((-1, 0, 1)))
            if len(match[0]) < 20 and not match[0].startswith("0" * 2)
            else match[0]
        ),
        lines[at],
    )


def token(rng: random.Random, lines: list[str], others: list[str]) -> None:
    found = _TOKEN.findall(others[_line(rng, others)])
    if found:
        at = _line(rng, lines)
        lines[at] = _replaced(rng, lines[at], _TOKEN, rng.choice(found))


def swap_tokens(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    words = lines[at].split(" ")
    one, other = rng.randrange(len(words)), rng.randrange(len(words))
    words[one], words[other] = words[other], words[one]
    lines[at] = " ".join(words)


def scrap(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    place = rng.randint(0, len(lines[at]))
    lines[at] = lines[at][:place] + rng.choice(SCRAPS) + lines[at][place:]


def insert(rng: random.Random, lines: list[str], others: list[str]) -> None:
    line = rng.choice(LINES) if rng.random() < 0.6 else others[_line(rng, others)]
    lines.insert(rng.randint(0, len(lines)), line)


def duplicate(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    part = lines[at : at + rng.choice((1, 1, 2, 4, 16))]
    lines[at:at] = part * rng.choice((1, 1, 1, 2, 2, 10))


def multiply(rng: random.Random, lines: list[str], others: list[str]) -> None:
    """Repeat a few lines until the text has about 64 KB."""
    at = _line(rng, lines)
    part = lines[at : at + rng.choice((1, 2, 3, 4))]
    lines[at:at] = part * (MOST_TEXT // (1 + len("\n".join(part))))


def remove(rng: random.Random, lines: list[str], others: list[str]) -> None:
    at = _line(rng, lines)
    del lines[at : at + rng.choice((1, 1, 1, 2, 8))]


def move(rng: random.Random, lines: list[str], others: list[str]) -> None:
    line = lines.pop(_line(rng, lines))
    lines.insert(rng.randint(0, len(lines)), line)


def lengthen(rng: random.Random, lines: list[str], others: list[str]) -> None:
    """Repeat a part of a line until it has up to 64 KB."""
    at = _line(rng, lines)
    line = lines[at]
    start = rng.randint(0, len(line))
    part = line[start : start + rng.choice((1, 2, 4, 8, 32))] or rng.choice(SCRAPS)
    times = rng.choice((3, 10, 100, MOST_TEXT)) // len(part) + 1
    lines[at] = line[:start] + part * times + line[start:]


MOST_TEXT = 64 << 10

CHANGES: tuple[Change, ...] = (
    number, number, number, nudge, token, token, swap_tokens, scrap, insert, insert, duplicate,
    remove, remove, move,
)  # fmt: skip
LONG_CHANGES: tuple[Change, ...] = (multiply, lengthen)


def listing_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A listing after one to six changes."""
    lines = seed.decode().split("\n")
    others = rng.choice(seeds).decode().split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        if lines:
            change = rng.choice(LONG_CHANGES if rng.random() < 0.04 else CHANGES)
            change(rng, lines, others)
    return "\n".join(lines).encode("utf-8", "surrogatepass")
