"""Unknown values: which bytes of a word are known, and where the doubt about others began.

Every word of a memory has a mark, an int16. A word that nothing has written since power-up has the
mark 0. Words may be known in part: a transposition mixes bytes of four words, and a lane of wide
memory holds one channel of four pixels. Marks travel with words through every unit; programs copy
and compute with words that nothing has written, and only what comes of them matters.

| mark | the word |
|---|---|
| `KNOWN` | all of its bytes are known |
| 0 | nothing has written it |
| negative | `~(origin << 4 | known)`: bit k of `known` is set if byte k is known |

An origin is the place where the first unknown word was read by an instruction; see `Origins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array

KNOWN = 1
"""Mark of a word that is known; also what True becomes."""

WORD_BYTES = 4

_BYTE_BITS = 1 << np.arange(WORD_BYTES, dtype=np.int16)
_ALL_BYTES = int(_BYTE_BITS.sum())

MOST_ORIGINS = (1 << 15 - WORD_BYTES) - 1
"""Origins that marks can tell apart; whatever comes after them counts as the last one."""


def known_bytes(marks: Array) -> Array:
    """Masks of the bytes that are known, int16 of the shape of the marks."""
    partly = np.where(marks < 0, ~marks & _ALL_BYTES, 0)
    return np.where(marks == KNOWN, _ALL_BYTES, partly).astype(np.int16)


def unknown(origin: int | Array, known: int | Array = 0) -> Array:
    """Marks of words whose unknown bytes come from an origin; `known` is a mask of the others."""
    return np.asarray(~(np.left_shift(origin, WORD_BYTES) | known), np.int16)


def origins(marks: Array) -> Array:
    """Numbers of the origins of unknown words, int16; without meaning for others."""
    return np.asarray(~marks >> WORD_BYTES, np.int16)


def entire(mark: int) -> int:
    """Mark of a number that is computed from a word which is unknown in part."""
    return mark | (1 << WORD_BYTES) - 1


def whole(marks: Array) -> Array:
    """Marks of words that are used as one number: unknown if any byte is.

    Args:
        marks: int16[...], without 0.
    """
    return np.where(marks == KNOWN, KNOWN, unknown(origins(marks))).astype(np.int16)


def by_byte(marks: Array) -> Array:
    """Marks of single bytes, `KNOWN` or unknown, int16[..., 4].

    Args:
        marks: int16[...], without 0.
    """
    sure = (known_bytes(marks)[..., None] & _BYTE_BITS) != 0
    return np.where(sure, KNOWN, unknown(origins(marks))[..., None]).astype(np.int16)


def by_word(marks: Array) -> Array:
    """Marks of words from those of their bytes.

    Args:
        marks: int16[..., bytes], a multiple of 4, each `KNOWN` or unknown.

    Returns:
        int16[..., bytes / 4].
    """
    parts = marks.reshape(*marks.shape[:-1], -1, WORD_BYTES)
    # Of several origins, that with the largest number stands for all.
    worst = parts.min(axis=-1)
    sure = ((parts == KNOWN) * _BYTE_BITS).sum(axis=-1)
    return np.where(worst == KNOWN, KNOWN, unknown(origins(worst), sure)).astype(np.int16)


class Doubtful(int):
    """A word of 32 bits that is not certain, with the value that the memory happens to have.

    Attributes:
        mark: its mark, which is not `KNOWN`.
    """

    mark: int

    def __new__(cls, value: int, mark: int) -> Doubtful:
        """A word with its mark."""
        word = super().__new__(cls, value)
        word.mark = mark
        return word

    def __deepcopy__(self, memo: object) -> Doubtful:
        """Words do not change."""
        return self


class Several(Doubtful):
    """A word of 32 bits that each of the images in lockstep has for itself.

    Attributes:
        mark: its mark, that of all of them; may be `KNOWN`.
        words: the word of each image.
    """

    words: tuple[int, ...]

    def __new__(cls, words: Sequence[int], mark: int) -> Several:
        """Words of images with their mark."""
        word = int.__new__(cls, words[0])
        word.mark = mark
        word.words = tuple(words)
        return word


def word_of(words: Sequence[int], mark: int) -> int:
    """A word of 32 bits that has a value for each image, with a mark."""
    if len(words) > 1 and any(word != words[0] for word in words):
        return Several(words, mark)
    return words[0] if mark == KNOWN else Doubtful(words[0], mark)


def mark_of(word: object) -> int:
    """Mark of a word."""
    return word.mark if isinstance(word, Doubtful) else KNOWN


def per_image(*words: int) -> Iterator[tuple[int, ...]]:
    """Values of words for each image, of which one at least has several."""
    count = max(len(word.words) for word in words if isinstance(word, Several))
    return zip(
        *(word.words if isinstance(word, Several) else (word,) * count for word in words),
        strict=True,
    )


def apart(what: str) -> SimulationError:
    """The error for what is there once for all images in lockstep, and differs between them."""
    return SimulationError(
        f"images that are computed in lockstep have {what} of their own",
        reason="the program computes them, and the model of the chip has them once",
        hint="simulate one image at a time",
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """A word that nothing had written when an instruction read it.

    Attributes:
        place: what was read.
        reader: the instruction.
    """

    place: str
    reader: str

    def __str__(self) -> str:
        return f"{self.place}, which {self.reader} reads and nothing has written"


@dataclass
class Origins:
    """Where unknown values came from: one origin for every instruction that reads a memory.

    Attributes:
        reader: what is being executed, for the next origin.
        found: origins by number.
    """

    reader: object = ""
    found: list[Origin] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, place: Callable[[], str]) -> int:
        """Number of the origin of what the reader takes from a place that nothing has written."""
        reader = str(self.reader)
        number = self._numbers.get(reader)
        if number is None:
            if len(self.found) < MOST_ORIGINS:
                self.found.append(Origin(place(), reader))
            number = self._numbers[reader] = len(self.found) - 1
        return number

    def of(self, mark: int) -> Origin:
        """The origin of an unknown word."""
        return self.found[int(origins(np.asarray(mark)))]
