"""The envelope of published programs, and how programs of the code generator lie in it.

``python -m benchmarks.envelope [PACKAGES...]`` takes the ranges of
`fitzroy.hw_models.edgetpu.envelope` from compiled models and executables, by default those of the
corpus and of the folders of compiled models beside it, and writes the table that ships with the
declaration. Then, and as part of ``python -m benchmarks``, it compiles the quantized source models
of the corpus and random models, measures their programs, and writes ``results/envelope.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compiler.edgetpu_models import random_model

from benchmarks.edgetpu_compiler import name_of, quantized
from benchmarks.forms import compiled
from benchmarks.forms import programs as published_paths
from benchmarks.support import ROOT, corpus_sources, write_results
from fitzroy.base.errors import CapacityError, UnsupportedError
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.envelope import (
    PROPERTIES,
    Measured,
    Program,
    Published,
    measured,
    range_text,
)
from fitzroy.hw_models.edgetpu.envelope.published import TABLE, published, table
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.linker.packages.container import read_container
from fitzroy.linker.packages.darwinn import link

RANDOM_MODELS = 500
# --- published programs --------------------------------------------------------------------------


def programs_of(packages: Iterable[PackageFile]) -> Iterator[list[list[Instruction]]]:
    """The chunks of every executable of packages."""
    for package in packages:
        for executable in package.executables:
            streams = executable.instruction_bitstreams or ()
            yield [
                disassemble(b"" if stream.bitstream is None else bytes(stream.bitstream))
                for stream in streams
            ]


@dataclass
class Range:
    """What programs have of a property.

    Attributes:
        lowest: the lowest value.
        highest: the highest value.
        occurrences: places where it was measured.
        programs: programs that have such places.
        outside: places outside the published range.
        leaving: programs with such places, by name of the model.
    """

    lowest: int = sys.maxsize
    highest: int = -1
    occurrences: int = 0
    programs: int = 0
    outside: int = 0
    leaving: list[str] = field(default_factory=list)

    def add(self, name: str, item: Measured) -> None:
        """Count another program."""
        self.lowest = min(self.lowest, item.lowest)
        self.highest = max(self.highest, item.highest)
        self.occurrences += item.occurrences
        self.programs += 1
        self.outside += len(item.outside)
        if item.outside:
            self.leaving.append(name)


@dataclass
class Survey:
    """Properties of programs.

    Attributes:
        programs: how many.
        partly: how many of these have a course that depends on data, and were followed up to there.
        ranges: what they have, by slug.
    """

    programs: int = 0
    partly: int = 0
    ranges: dict[str, Range] = field(default_factory=dict)

    def add(self, name: str, chunks: Sequence[Sequence[Instruction]]) -> None:
        """Measure another program."""
        program = Program.of(chunks)
        self.programs += 1
        self.partly += not program.complete
        for slug, item in measured(program).items():
            self.ranges.setdefault(slug, Range()).add(name, item)

    def published(self) -> dict[str, Published]:
        """The ranges as a table that ships with the declaration."""
        return {
            slug: Published(item.lowest, item.highest, item.occurrences, item.programs)
            for slug, item in self.ranges.items()
        }


def mined(paths: Iterable[Path]) -> Survey:
    """Properties of compiled models and executables.

    Raises:
        UsageError: a file that is neither.
        FormatError: a malformed file.
    """
    survey = Survey()
    for path in paths:
        for chunks in programs_of(read_container(path.read_bytes(), str(path)).packages):
            survey.add(path.stem, chunks)
    return survey


# --- our programs --------------------------------------------------------------------------------


def random_packages(seed: int, options: Options = DEFAULT) -> list[PackageFile]:
    """Packages of the parts of a random model that fit the chip."""
    objects = []
    for segment in divide(random_model(seed), options)[0]:
        try:
            objects.append(lower(segment.graph, options))
        except (CapacityError, UnsupportedError):
            continue
    return list(link(objects)) if objects else []


def own(paths: Iterable[Path], seeds: Iterable[int], progress: Callable[[str], None]) -> Survey:
    """Properties of programs of the code generator.

    Args:
        paths: source models.
        seeds: of random models.
        progress: called with the name of each step.
    """
    survey = Survey()
    progress("envelope, models of the corpus")
    for path in paths:
        for chunks in programs_of(compiled(path, DEFAULT)):
            survey.add(name_of(path), chunks)
    progress("envelope, random models")
    for seed in seeds:
        for chunks in programs_of(random_packages(seed)):
            survey.add(f"random {seed}", chunks)
    return survey


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/envelope.json``.

    Args:
        progress: called with the name of each step.
        repeats: number of random models, 0 for the usual number.

    Returns:
        properties of medium risk or more that leave the envelope.
    """
    count = repeats or RANDOM_MODELS
    sources = [path for path in corpus_sources() if quantized(path)]
    survey = own(sources, range(count), progress)
    write_results("envelope", document(survey, len(sources), count))
    return faults(survey)


def faults(survey: Survey) -> list[str]:
    """Properties of medium risk or more that leave the envelope."""
    return [
        f"envelope: {slug} leaves {range_text(PROPERTIES[slug], published().get(slug))} "
        f"{item.outside} times, first in {item.leaving[0]}"
        for slug, item in survey.ranges.items()
        if item.outside and PROPERTIES[slug].risk.matters
    ]


def document(survey: Survey, sources: int, random_models: int) -> dict[str, Any]:
    """What was measured, fit for JSON."""
    return {
        "sources": sources,
        "random_models": random_models,
        "programs": survey.programs,
        "properties": {
            slug: {
                "lowest": item.lowest,
                "highest": item.highest,
                "occurrences": item.occurrences,
                "programs": item.programs,
                "outside": item.outside,
                "leaving": len(item.leaving),
                "first": item.leaving[0] if item.leaving else None,
            }
            for slug, item in sorted(survey.ranges.items())
        },
    }


def _shown(ranges: Mapping[str, Published]) -> Iterator[str]:
    """Ranges beside those that shipped so far."""
    for slug, item in PROPERTIES.items():
        found = ranges.get(slug)
        here = "none" if found is None else f"{found.lowest} to {found.highest}"
        yield f"{slug}: {here} (declared {range_text(item, published().get(slug))})"


def main() -> int:
    """Take the ranges from packages, then measure our programs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.envelope",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("packages", nargs="*", type=Path, help="compiled models, executables")
    parser.add_argument("-o", "--output", type=Path, help="table of ranges; by default ours")
    parser.add_argument("--models", type=int, default=RANDOM_MODELS, help="random models of ours")
    parser.add_argument("--mine", action="store_true", help="only take the ranges")
    options = parser.parse_args()
    ranges = mined(options.packages or published_paths()).published()
    for line in _shown(ranges):
        print(line)
    output = options.output or ROOT / "hw_models" / "edgetpu" / "envelope" / TABLE
    output.write_text(table(ranges), encoding="ascii")
    if options.mine:
        return 0
    published.cache_clear()
    found = measure(lambda step: print(step, file=sys.stderr), options.models)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
