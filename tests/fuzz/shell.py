"""The command line in this process, and what it must never do."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest import mock

from tests.fuzz.subject import Misbehaviour

from fitzroy.base import errors
from fitzroy.base.errors import InternalError
from fitzroy.cli.argv import asks_for_json
from fitzroy.cli.main import main
from fitzroy.driver.runtime import devices

CODES = frozenset(
    kind.exit_code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.FitzroyError)
) - {errors.FitzroyError.exit_code, InternalError.exit_code} | {0, 9}
"""Exit codes that are documented for what users, files and devices cause."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def command(arguments: Sequence[str], typed: str = "") -> Answer:
    """Run a command, and check what holds for all of them.

    Args:
        arguments: those of the command line.
        typed: what is on its standard input.

    Raises:
        Misbehaviour: an exit code that is none of the documented ones, a traceback, text that
            steers terminals, or no single JSON document where one was asked for.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with (
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        _no_devices(),
        _no_runtime(),
    ):
        code = main(list(arguments))
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    answer = Answer(code, out, err)
    _check(arguments, answer)
    return answer


@contextlib.contextmanager
def _no_runtime() -> Iterator[None]:
    """As if ExecuTorch were not installed: its libraries do not load within a case's memory."""
    with contextlib.ExitStack() as stack:
        for module in ("fitzroy.driver.runtime", "fitzroy.driver.runtime.executorch"):
            stack.enter_context(mock.patch(f"{module}.available", return_value=False))
        yield


@contextlib.contextmanager
def _no_devices() -> Iterator[None]:
    """Keep real accelerators out of it."""
    with mock.patch.object(devices, "libusb", return_value=devices.virtual_bus([])):
        yield


def _check(arguments: Sequence[str], answer: Answer) -> None:
    said = f"{answer.out}\n{answer.err}"
    if answer.code not in CODES or "Traceback (most" in said:
        what = said.strip()[-600:]
        raise Misbehaviour(f"exit code {answer.code}: {what}", _fault(answer))
    for name, text in (("stdout", answer.out), ("stderr", answer.err)):
        odd = [letter for letter in text if not letter.isprintable() and letter != "\n"]
        if odd:
            at = text.index(odd[0])
            around = text[max(0, at - 60) : at + 20]
            raise Misbehaviour(
                f"{odd[0]!r} on {name}: {around!r}",
                f"unprintable text on {name}{', JSON' if asks_for_json(arguments) else ''}",
            )
    if asks_for_json(arguments):
        _check_document(answer)


def _check_document(answer: Answer) -> None:
    try:
        document = json.loads(answer.out)
    except ValueError as error:
        # Help, versions and listings of text are no documents.
        if answer.code == 0 and answer.out.lstrip()[:1] not in ("{", "["):
            return
        raise Misbehaviour(f"no JSON document on stdout: {error}", "no JSON document") from None
    # What `doctor` finds is its result.
    told = "error" in document or document.get("failed")
    if answer.code not in (0, 9) and not told:
        raise Misbehaviour(f"exit code {answer.code} without an error in JSON", "no error in JSON")


_WHERE = re.compile(r'(?:where: |"where": ")([\w.]+/[\w.]+:\d+)')
_REASON = re.compile(r'(?:reason: |"reason": ")(\w+)')


def _fault(answer: Answer) -> str:
    """The cause of an exit code that must not be: the exception and its line."""
    said = answer.out + answer.err
    where, reason = _WHERE.search(said), _REASON.search(said)
    if where and reason:
        return f"exit {answer.code}, {reason[1]} at {where[1]}"
    return f"exit {answer.code}"
