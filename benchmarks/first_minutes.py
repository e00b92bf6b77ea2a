"""What a new user sees: the commands of the README in a fresh clone, what they print, and when."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.snippets import blocks, commands

from benchmarks.support import ROOT, write_results
from fitzroy.base.errors import UsageError

_LEFT_OUT = ("make test",)
"""What takes longer than ten minutes need to have."""

_HEAD, _TAIL = 26, 8
"""Lines that are shown of the beginning and of the end of a long output."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Clone the last commit into an empty folder, and run what the README says.

    Args:
        progress: is told what is under way.
        repeats: ignored: only the first time is the first time.

    Returns:
        Commands that failed.

    Raises:
        UsageError: the README has no commands.
    """
    with tempfile.TemporaryDirectory() as folder:
        steps = [
            _step(
                f"git clone --quiet --depth 1 file://{ROOT} fitzroy",
                Path(folder),
                shown="git clone URL fitzroy && cd fitzroy",
            )
        ]
        clone = Path(folder) / "fitzroy"
        for command in _commands(clone):
            progress(f"first minutes: {command}")
            steps.append(_step(command, clone))
    write_results("first_minutes", {"steps": steps})
    return [f"{step['command']} ended with {step['code']}" for step in steps if step["code"]]


def _commands(clone: Path) -> Iterator[str]:
    """The commands and programs of the README, in order."""
    found = [block for block in blocks(clone / "README.md") if not block.reason]
    if not found:
        raise UsageError("the README has no commands")
    for block in found:
        if block.language == "python":
            yield f"python - <<'END'\n{block.text}END"
        elif block.language == "console":
            for line in commands(block.text):
                command = line.partition("  #")[0].strip()
                if command not in _LEFT_OUT:
                    yield command


def _step(command: str, folder: Path, shown: str = "") -> dict[str, Any]:
    """Run a command as in a new shell, in which the environment of the clone is active."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    places = [f"{folder}/.venv/bin", *_system_path()]
    environment = {**kept, "PATH": os.pathsep.join(places), "PIP_NO_CACHE_DIR": "1"}
    before, start = _computed(), time.perf_counter()
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    lines = done.stdout.replace(f"{folder}/", "").splitlines()
    return {
        "command": shown or command,
        "code": done.returncode,
        "seconds": round(time.perf_counter() - start, 1),
        "computing": round(_computed() - before, 1),
        # What pip says of package indexes that this machine is set up with is no news to others.
        "output": [line for line in lines if not line.startswith("WARNING: Location ")],
    }


def _system_path() -> list[str]:
    """Where programs are, without the environment that measures."""
    active = os.environ.get("VIRTUAL_ENV", "")
    places = os.environ["PATH"].split(os.pathsep)
    return [item for item in places if ".venv" not in item and (not active or active not in item)]


def _computed() -> float:
    """Seconds of processors that all commands have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page(results: Mapping[str, Any], described: str) -> str:
    """The page of what a new user sees.

    Args:
        results: what `measure` found.
        described: machine and date.
    """
    steps = results["steps"]
    demo = next(number for number, step in enumerate(steps) if step["command"] == "make demo")
    first = sum(step["seconds"] for step in steps[: demo + 1])
    lines = [
        "# The first ten minutes",
        "",
        "The full output of the README's commands: for users who want",
        "to see FitzRoy before they try it, or compare their own output. A script made a fresh",
        "clone, ran the commands one after the other, and recorded their output and duration.",
        "*CPU time* is the time that the processors worked; the rest is waiting for downloads",
        "and other programs.",
        "",
        f"Time from nothing to a digit recognised by the simulated chip, including all downloads: "
        f"{first:.0f} seconds.",
        "",
        described,
        "",
        "| step | time | CPU time |",
        "|---|---|---|",
        *(
            f"| {number}. {_title(step)} | {step['seconds']:.1f} s | {step['computing']:.1f} s |"
            for number, step in enumerate(steps, 1)
        ),
        "",
        "`python -m benchmarks --only first_minutes` repeats this.",
        "",
    ]
    for number, step in enumerate(steps, 1):
        lines += [f"## {number}. {_title(step)}", ""]
        if "\n" in step["command"]:
            program = step["command"].split("\n")[1:-1]
            lines += ["```text", *program, "```", ""]
        output = step["output"]
        if len(output) > _HEAD + _TAIL:
            left = f"[{len(output) - _HEAD - _TAIL} lines more]"
            output = [*output[:_HEAD], left, *output[-_TAIL:]]
        lines += ["```text", *output, "```", ""] if output else ["This command prints nothing.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _title(step: Mapping[str, Any]) -> str:
    program = "\n" in step["command"]
    return "the Python program" if program else f"`{step['command']}`"
