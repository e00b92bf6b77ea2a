"""Run targets by turns in processes of their own, and keep what goes wrong.

A turn is a child process, so a crash of the interpreter ends a turn and not the campaign, and what
a case leaves behind is gone with the turn. Each cause of failure gets two files: the bytes of the
first case that shows it, shortened, and a text that says what happened and how to see it again.
"""

from __future__ import annotations

import gc
import hashlib
import mmap
import os
import pickle
import re
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.catalog import SUBJECTS
from tests.fuzz.harness import UNMADE, Failure, Result, case_bytes, fuzz
from tests.fuzz.minimize import shortened

TURN_SECONDS = 10.0
"""Longest turn of a target."""

_REPORT_CASES = 200
"""A turn reports after as many cases; a crash loses the counts since then."""

_LENGTH = struct.Struct("<Q")
_MOST_MINIMIZED = 256 << 10
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")

Seeds = dict[str, list[bytes]]


@dataclass
class Campaign:
    """Cases of several targets.

    Args:
        targets: their names.
        seed: of the random numbers.
        first: number of the first case of each target.
        output: folder for reproducers, None for none.
        most: cases of each target, None for any number.
        tell: called with a line for people about every new cause.

    Attributes:
        results: what came of it, by target.
    """

    targets: Sequence[str]
    seed: int
    first: int = 0
    output: Path | None = None
    most: int | None = None
    tell: Callable[[str], None] = print
    results: dict[str, Result] = field(default_factory=dict)
    _seeds: Seeds = field(default_factory=dict)

    def run(self, until: float = float("inf")) -> None:
        """Take turns until all cases are done, or a monotonic time is reached; at least one."""
        for name in self.targets:
            self._seeds[name] = SUBJECTS[name].seeds()
            self.results[name] = Result(name, self.seed, len(self._seeds[name]))
            warm_up(name, self._seeds[name])
        open_targets = list(self.targets)
        while open_targets:
            turn = min(TURN_SECONDS, (until - time.monotonic()) / len(open_targets))
            for name in open_targets:
                self._turn(name, time.monotonic() + turn)
            in_time = time.monotonic() < until
            open_targets = [name for name in self.targets if in_time and self._left(name) > 0]

    def _left(self, name: str) -> int:
        most = 1 << 62 if self.most is None else self.most
        return most - self.results[name].cases

    def _turn(self, name: str, until: float) -> None:
        result = self.results[name]
        first, most = self.first + result.cases, self._left(name)
        known = len(result.failures)
        for report in in_child(name, self._seeds[name], self.seed, first, most, until):
            result.add(report)
        for failure in result.failures[known:]:
            if result.causes[failure.cause][0] is failure:
                self.tell(f"{name}: {failure}")
                self._keep(name, failure)

    def _keep(self, name: str, failure: Failure) -> None:
        if self.output is None:
            return
        self.output.mkdir(parents=True, exist_ok=True)
        unmade = failure.cause == UNMADE
        seeds = self._seeds[name]
        data = b"" if unmade else case_bytes(name, seeds, self.seed, failure.case)
        small = data
        if failure.trace and len(data) <= _MOST_MINIMIZED and "hang" not in failure.cause:
            small = shortened(name, data, failure.cause)
        stem = self.output / f"{name}-{identity(failure.cause)}"
        stem.with_suffix(".bin").write_bytes(small)
        stem.with_suffix(".txt").write_text(
            f"{failure}\n\n"
            f"cause: {failure.cause}\n"
            f"target: {name}\n"
            f"bytes: {len(small)}, shortened from {len(data)}\n"
            f"file again: python -m tests.fuzz --targets {name} --replay {stem.name}.bin\n"
            f"case again: python -m tests.fuzz --targets {name} --seed {failure.seed}"
            f" --first {failure.case} --cases 1\n\n"
            f"{failure.trace}"
        )


def warm_up(name: str, seeds: Sequence[bytes]) -> None:
    """Let the target import and keep what it needs, so that no child has to do it in its turn."""
    for data in seeds:
        # What is wrong with a seed, the tests say.
        with suppress(Exception):
            SUBJECTS[name].target(data)
    gc.freeze()


def identity(cause: str) -> str:
    """A name for files about a cause: some words of it, and a digest of all."""
    words = _UNSAFE.sub("-", cause).strip("-").lower()
    return f"{words[:60]}-{hashlib.sha256(cause.encode()).hexdigest()[:8]}"


def in_child(
    name: str, seeds: list[bytes], seed: int, first: int, most: int, until: float
) -> Iterator[Result]:
    """Run cases in a child process; yields what it reports.

    A child that dies counts as a failure of the case that it was at.
    """
    place = mmap.mmap(-1, _LENGTH.size)
    place[:] = _LENGTH.pack(first)
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _serve(name, seeds, seed, (first, first + most), until, place, sink)
    os.close(sink)
    done = 0
    with os.fdopen(source, "rb") as stream:
        while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
            report: Result = pickle.loads(stream.read(_LENGTH.unpack(head)[0]))
            done += report.cases
            yield report
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        (case,) = _LENGTH.unpack(place[:])
        died = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        lost = Result(name, seed, len(seeds), cases=case + 1 - first - done)
        lost.outcomes["died"] = lost.cases
        lost.failures.append(Failure(seed, case, f"the process died: {died}", f"died, {died}"))
        yield lost


def _serve(
    name: str,
    seeds: list[bytes],
    seed: int,
    cases: tuple[int, int],
    until: float,
    place: mmap.mmap,
    sink: int,
) -> None:
    """The child: run cases, report, and end without running anybody's clean-up."""

    def began(case: int) -> None:
        place[:] = _LENGTH.pack(case)

    code = 1
    try:
        case, end = cases
        while case < end:
            count = min(_REPORT_CASES, end - case)
            report = fuzz(name, count, seed, first=case, seeds=seeds, began=began, until=until)
            content = pickle.dumps(report)
            with os.fdopen(os.dup(sink), "wb") as stream:
                stream.write(_LENGTH.pack(len(content)) + content)
            case += report.cases
            if report.outcomes["hang"] or time.monotonic() > until:
                break
        code = 0
    except BaseException:
        # A fault of the fuzzer, not of a case.
        traceback.print_exc()
    finally:
        os._exit(code)
