"""Fuzz everything that reads: ``python -m tests.fuzz --for 2h --output found``.

``--cases 100000 --targets tflite`` runs a number of cases, ``--replay FILE`` a single file. The
exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.catalog import SUBJECTS
from tests.fuzz.harness import Result, attempt

_UNITS = {"s": 1, "m": 60, "h": 3600}
_COLUMNS = ("target", "cases", "seconds", "accepted", "failures", "causes")


def duration(text: str) -> float:
    """Seconds of a text such as ``90s``, ``30m`` or ``2h``.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _UNITS[match[2]]


def targets(text: str) -> list[str]:
    """Names of targets of a list with commas; all of them for ``all``.

    Raises:
        ValueError: names one that does not exist.
    """
    names = list(SUBJECTS) if text == "all" else text.split(",")
    for name in names:
        if name not in SUBJECTS:
            raise ValueError(name)
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--targets", type=targets, default=list(SUBJECTS), help=f"of {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--for", type=duration, dest="period", help="how long, as 90s, 30m or 2h")
    parser.add_argument("--cases", type=int, help="how many of each target; 10000 without --for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--output", type=Path, help="folder for reproducers")
    parser.add_argument("--json", type=Path, help="file that keeps one result per target")
    parser.add_argument("--replay", type=Path, help="run this file only")
    options = parser.parse_args(argv)
    if options.replay:
        return replay(options.targets, options.replay.read_bytes())
    most = options.cases if options.cases or options.period else 10_000
    campaign = Campaign(options.targets, options.seed, options.first, options.output, most)
    try:
        campaign.run(float("inf") if options.period is None else time.monotonic() + options.period)
    finally:
        # Also after Ctrl-C.
        print(*table(campaign.results.values()), sep="\n", flush=True)
        if options.json:
            record(options.json, campaign.results.values())
    return 1 if any(result.failures for result in campaign.results.values()) else 0


def replay(names: Iterable[str], data: bytes) -> int:
    """Send a file through targets, and say how that ends."""
    failed = False
    for name in names:
        verdict = attempt(name, data)
        print(f"{name}: {verdict.outcome}, {verdict.seconds:.3f} s, {verdict.peak} bytes")
        if verdict.problem:
            failed = True
            print(f"{verdict.trace}{verdict.problem}\ncause: {verdict.cause}")
    return 1 if failed else 0


def table(results: Iterable[Result]) -> list[str]:
    """Lines with a row for each target."""
    rows = [_COLUMNS] + [
        (
            result.target,
            f"{result.cases:,}",
            f"{result.seconds:,.0f}",
            f"{result.outcomes['accepted']:,}",
            f"{len(result.failures):,}",
            f"{len(result.causes):,}",
        )
        for result in results
    ]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        f"{name:{first}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, others, strict=True))
        for name, *cells in rows
    ]


def record(path: Path, results: Iterable[Result]) -> None:
    """Put results into a file, in place of earlier ones of the same targets."""
    fresh = {result.target: result.as_json() for result in results}
    earlier = json.loads(path.read_text())["runs"] if path.exists() else []
    runs = [entry for entry in earlier if entry["target"] not in fresh]
    runs = sorted([*runs, *fresh.values()], key=lambda entry: str(entry["target"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
