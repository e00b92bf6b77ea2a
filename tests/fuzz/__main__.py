"""Fuzz the readers: ``python -m tests.fuzz --format tflite --cases 100000 --seed 1``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.fuzz.harness import Result, case_bytes, fuzz
from tests.fuzz.seeds import SEEDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--format", choices=[*SEEDS, "all"], required=True)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--json", type=Path, help="file that keeps one result per format")
    parser.add_argument("--save", type=Path, help="folder for the bytes of failing cases")
    options = parser.parse_args()
    failed = False
    for name in SEEDS if options.format == "all" else (options.format,):
        result = fuzz(name, options.cases, options.seed, first=options.first)
        print(json.dumps(result.as_json(), indent=2))
        for failure in result.failures:
            print(f"{name}: {failure}", file=sys.stderr)
            if options.save and failure.case >= 0:
                options.save.mkdir(parents=True, exist_ok=True)
                content = case_bytes(name, SEEDS[name](), failure.seed, failure.case)
                (options.save / f"{name}-{failure.seed}-{failure.case}.bin").write_bytes(content)
        if options.json:
            record(options.json, result)
        failed = failed or bool(result.failures)
    return 1 if failed else 0


def record(path: Path, result: Result) -> None:
    """Put a result into a file, in place of an earlier one of the same format."""
    earlier = json.loads(path.read_text())["runs"] if path.exists() else []
    runs = [entry for entry in earlier if entry["format"] != result.format]
    runs = sorted([*runs, result.as_json()], key=lambda entry: str(entry["format"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
