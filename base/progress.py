"""How far something is that takes its time: text that knows the share that is done."""

from __future__ import annotations


class Progress(str):
    """What is being done, for people.

    Attributes:
        share: the share that is done, from 0 to 1; None if nobody knows.
    """

    share: float | None

    def __new__(cls, text: str, share: float | None = None) -> Progress:
        """Text with a share, which is brought between 0 and 1."""
        made = super().__new__(cls, text)
        made.share = None if share is None else min(1.0, max(0.0, share))
        return made


def counted(noun: str, number: int, count: int, rest: str = "", *, within: float = 0.0) -> Progress:
    """The beginning of one of several: ``sample 3 of 10``.

    Args:
        noun: what they are, in the singular.
        number: which of them begins, from 1.
        count: how many there are.
        rest: what stands behind that.
        within: the share of this one that is done.
    """
    return Progress(f"{noun} {number} of {count}{rest}", (number - 1 + within) / max(1, count))


def prefixed(prefix: str, text: str) -> Progress:
    """Progress of a part of something, which keeps its share."""
    return Progress(f"{prefix}{text}", text.share if isinstance(text, Progress) else None)
