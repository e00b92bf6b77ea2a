"""Snippets of Markdown pages: which there are, and running those of a page one after the other.

A fenced block names its language. Those of `RUN` are executed, in the order of the page; `text` and
data formats are not. A block that cannot be run here follows a paragraph that says why, so that
readers see it too: ``*Not run by the tests: needs a board with PCIe.*``
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fitzroy.cli.main import INTERRUPTED, main

ROOT = Path(__file__).parents[1]
RUN = {"console", "python", "sh"}
DATA = {"asm", "diff", "json", "jsonl", "object", "script", "text", "toml", "yaml"}

_FENCE = re.compile(r"^```(.*)$")
_REASON = re.compile(r"^\*Not run by the tests: (.+)\.\*$")
_FILE_NAME = re.compile(r"# (\S+\.\w+)\n")
_SERVING = {("usbip", "serve"), ("explore",)}
"""Verbs that go on until they are interrupted."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: number of its first fence, from 1.
        language: what follows the first fence.
        reason: why it is not run; empty if it is.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    found, said = [], ""
    lines = enumerate(page.read_text().splitlines(keepends=True), start=1)
    for number, line in lines:
        if fence := _FENCE.match(line):
            inside = (text for _, text in lines)
            text = "".join(itertools.takewhile(lambda text: text.rstrip("\n") != "```", inside))
            reason = _REASON.match(said)
            found.append(Block(page.name, number, fence[1], text, reason[1] if reason else ""))
            said = ""
        elif line.strip():
            said = line.strip()
    return found


def commands(text: str) -> Iterator[str]:
    """Lines of a block, with those that end in a backslash joined to the next."""
    yield from text.replace("\\\n", " ").splitlines()


class Session:
    """Runs the blocks of a page in the current folder.

    Args:
        capsys: takes what commands print.
        give: is told what a command or program says before it runs, to make the files it names.
    """

    def __init__(
        self, capsys: pytest.CaptureFixture[str], give: Callable[[str], None] = lambda text: None
    ) -> None:
        self.printed: list[str] = []
        self._capsys = capsys
        self._give = give
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._code = 0

    def run(self, block: Block) -> str:
        """Run a block; returns it as it should be: with what its commands print now.

        Lines that begin with ``$`` are followed by what they print, and may fail. All other
        commands have to succeed.
        """
        if block.reason:
            return block.text
        match block.language:
            case "python":
                self._give(block.text)
                exec(compile(block.text, block.where, "exec"), self._names)
            case "console" | "sh" if block.text.startswith("$ "):
                lines = [line[2:] for line in commands(block.text) if line.startswith("$ ")]
                return "".join(
                    f"$ {line}\n{self._command(line, block, shown=True)}" for line in lines
                )
            case "console" | "sh":
                for line in commands(block.text):
                    out = self._command(line, block)
                    assert self._code == 0, f"{block.where}: {line}\n{out}"
            case "json":
                json.loads(block.text)
            case "jsonl":
                for line in block.text.splitlines():
                    json.loads(line)
            case "toml":
                self._give(block.text)
                tomllib.loads(block.text)
                self._write(block.text)
            case "diff":
                self._change(block.text)
        return block.text

    def _command(self, line: str, block: Block, *, shown: bool = False) -> str:
        """Run a line; returns what it printed, as a terminal shows it if it is shown."""
        words = shlex.split(line, comments=True)
        if not words:
            return ""
        if words == ["echo", "$?"]:
            return f"{self._code}\n"
        self._give(line)
        words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
        environment = dict(variables(words))
        joint = patch("sys.stderr", sys.stdout) if shown and not target else nullcontext()
        with joint:
            self._code, out = self._program(words[len(environment) :], environment, block)
        if target:
            Path(target).write_text(out)
            return ""
        self.printed.append(out)
        return out

    def _program(
        self, words: list[str], environment: Mapping[str, str], block: Block
    ) -> tuple[int, str]:
        program, *arguments = [os.path.expanduser(word) for word in words]
        match program:
            case "fitzroy" if self._serves(arguments):
                return serve(arguments)
            case "fitzroy":
                return self._captured(lambda: main(arguments))
            case "cmp":
                first, second = (Path(name).read_bytes() for name in arguments)
                return int(first != second), ""
            case "make":
                # CI runs the targets themselves; here they have to exist.
                planned = ["make", "--dry-run", *arguments]
                return subprocess.run(planned, cwd=ROOT, capture_output=True).returncode, ""
            case "python" if arguments[0].endswith(".py"):
                return self._script(arguments, environment)
        raise AssertionError(f"{block.where}: nothing here runs {program}")

    @staticmethod
    def _serves(arguments: list[str]) -> bool:
        written = {"-o", "--output", "--help"} & {*arguments}
        return not written and any(tuple(arguments[: len(verb)]) == verb for verb in _SERVING)

    def _captured(self, run: Callable[[], int]) -> tuple[int, str]:
        self._capsys.readouterr()
        with patch("sys.stdin", io.StringIO()):
            code = run()
        done = self._capsys.readouterr()
        return code, done.out + done.err

    def _script(self, arguments: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """A program in Python, in this process: it would take longer to start than to run."""

        def run() -> int:
            before = sys.argv, dict(os.environ), [*sys.path], {*sys.modules}
            sys.argv = arguments
            sys.path[:0] = environment.get("PYTHONPATH", "").split(":")
            os.environ.update(environment)
            try:
                runpy.run_path(arguments[0], run_name="__main__")
            except SystemExit as end:
                return int(end.code or 0)
            finally:
                sys.argv, _, sys.path[:], modules = before
                os.environ.clear()
                os.environ.update(before[1])
                for name in {*sys.modules} - modules:
                    del sys.modules[name]
            return 0

        return self._captured(run)

    def _write(self, text: str) -> None:
        """Write a block whose first line names a file."""
        if named := _FILE_NAME.match(text):
            Path(named[1]).write_text(text)

    @staticmethod
    def _change(text: str) -> None:
        named = _FILE_NAME.match(text)
        assert named is not None, text
        path, before = Path(named[1]), ""
        content = path.read_text()
        for line in text.splitlines(keepends=True)[1:]:
            if line.startswith("+"):
                assert content.count(before) == 1
                content = content.replace(before, before + line[1:])
            before = line[1:]
        path.write_text(content)


def variables(words: list[str]) -> Iterator[tuple[str, str]]:
    """Variables before the name of a program."""
    for word in words:
        name, assigned, value = word.partition("=")
        if not assigned or not name.isidentifier():
            return
        yield name, os.path.expanduser(value)


def serve(arguments: list[str]) -> tuple[int, str]:
    """Start a server on any free port, wait until it says so, and interrupt it."""
    if "--port" not in arguments:
        arguments = [*arguments, "--port", "0"]
    command = [sys.executable, "-m", "fitzroy", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    # An interrupt that comes while it says so ends it as any other command.
    return process.returncode % INTERRUPTED, first + rest
