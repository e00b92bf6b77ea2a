"""What a fuzzer knows of the files that it mutates."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.formats.detect import FileKind

Change = Callable[[random.Random, bytes, list[bytes]], bytes]
"""A mutation that knows the format: it takes a seed and all seeds."""


class Misbehaviour(AssertionError):
    """Something that must not happen, seen by a target.

    Args:
        what: what happened.
        cause: what two failures of one cause have in common.
    """

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(what)
        self.cause = cause


@dataclass(frozen=True)
class Subject:
    """Files of a kind, and what they go through.

    Attributes:
        seeds: well-formed files, small ones.
        target: takes a mutant; what it gives is of no interest. It may raise any `FitzroyError` but
            `InternalError`.
        read: reads a seed, and refuses what is not well formed.
        kinds: what `detect` says of the seeds; None where it knows none.
        change: makes half of the mutants, the others are blind; None if all are blind.
        blind: whether there are blind mutants.
        seconds: most processor time of a case.
        sample: cases of the tests.
    """

    seeds: Callable[[], list[bytes]]
    target: Callable[[bytes], object]
    read: Callable[[bytes], object]
    kinds: tuple[FileKind | None, ...] = (None,)
    change: Change | None = None
    blind: bool = True
    seconds: float = 2.0
    sample: int = 300
