"""How far something is that takes its time: text that knows the share that is done.

Whoever waits is told by a function that it passes, step by step. What is going on within a step,
deep in a loop of another layer, is told to whoever is `listening`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")

Listener = Callable[[str, float], None]
"""Is told what is done within a step, and the share of the step that is done."""

_listeners: list[Listener] = []
"""Those of this process, told from any thread: people are shown one thing at a time."""

_totals: list[int] = []


class Progress(str):
    """What is being done, for people.

    Attributes:
        share: the share that is done, from 0 to 1; None if nobody knows.
        end: the share that will be done once this step is; None if it is no step of several.
    """

    share: float | None
    end: float | None

    def __new__(cls, text: str, share: float | None = None, end: float | None = None) -> Progress:
        """Text with a share, which is brought between 0 and 1."""
        made = super().__new__(cls, text)
        made.share = None if share is None else min(1.0, max(0.0, share))
        made.end = end
        return made


@contextmanager
def _within(items: list[T], item: T) -> Iterator[None]:
    items.append(item)
    try:
        yield
    finally:
        items.remove(item)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Tell a function what `advance` says, in any thread of this process."""
    return _within(_listeners, listener)


def advance(what: str, share: float) -> None:
    """Say how much of a step is done.

    Args:
        what: what is being done within it, for people; may be empty.
        share: from 0 to 1.
    """
    for listener in _listeners[-1:]:
        listener(what, share)


def counting(total: int) -> AbstractContextManager[None]:
    """Expect that `reached` counts something up to a total, in any thread of this process."""
    return _within(_totals, total)


def reached(number: int) -> None:
    """Say how many are done of what somebody has begun `counting`, if anybody has."""
    if _listeners and _totals:
        advance("", number / max(1, _totals[-1]))


def along(items: Sequence[T], what: str, first: float = 0.0, last: float = 1.0) -> Iterator[T]:
    """Items, and how much of a step is done each time one of them is taken.

    Args:
        items: what is gone through.
        what: as for `advance`.
        first: the share of the step that is done at the first item.
        last: the share that is done after the last one.
    """
    for number, item in enumerate(items):
        advance(what, first + (last - first) * number / len(items))
        yield item


def counted(noun: str, number: int, count: int, rest: str = "", *, within: float = 0.0) -> Progress:
    """The beginning of one of several: ``sample 3 of 10``.

    Args:
        noun: what they are, in the singular.
        number: which of them begins, from 1.
        count: how many there are.
        rest: what stands behind that.
        within: the share of this one that is done.
    """
    begun, most = number - 1 + within, max(1, count)
    return Progress(f"{noun} {number} of {count}{rest}", begun / most, number / most)


def prefixed(prefix: str, text: str) -> Progress:
    """Progress of a part of something, which keeps its share."""
    if not isinstance(text, Progress):
        return Progress(f"{prefix}{text}")
    return Progress(f"{prefix}{text}", text.share, text.end)
