"""Collects the instructions that ``fitzroy probe`` puts to a device.

They are one of every form that the code generator uses and no published program has.

``python -m benchmarks.probe_forms [RANDOM]`` compiles the quantized models of the corpus and a
number of random ones, and writes the smallest instruction of each form that a probe can isolate.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.compiler.edgetpu_models import random_model

from benchmarks.edgetpu_compiler import quantized
from benchmarks.forms import compiled
from benchmarks.support import ROOT, corpus_sources
from fitzroy.base.errors import FitzroyError
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.driver.probe.run import expectation
from fitzroy.driver.probe.suite.forms import EXEMPLARS, draft, probe_of
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.text import instruction_lines
from fitzroy.hw_models.isa.traversal import Traversal
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import instructions

RANDOM_MODELS = 200
"""Random models unless told otherwise."""

_MOST_TRIED = 12
"""Instructions of one form that are tried, the smallest first."""


def programs(random_models: int) -> Iterator[list[PackageFile]]:
    """Packages of the corpus' models and of random ones."""
    for path in corpus_sources():
        if quantized(path):
            yield compiled(path, DEFAULT)
    for seed in range(random_models):
        try:
            yield list(link([lower(random_model(seed))]))
        except FitzroyError:
            continue


def steps(instruction: Instruction) -> int:
    """A measure of how large an instruction is."""
    return sum(
        value.steps
        for field in type(instruction).fields()
        if isinstance(value := getattr(instruction, field.name), Traversal)
    )


def collected(packages: Iterable[list[PackageFile]]) -> dict[str, list[Instruction]]:
    """Instructions of forms that are not published, the smallest ones of each."""
    known = published()
    found: dict[str, dict[Instruction, int]] = {}
    for group in packages:
        for _, instruction in instructions(group):
            text = form(instruction)
            if text not in known:
                found.setdefault(text, {})[instruction] = steps(instruction)
    return {
        text: sorted(items, key=items.__getitem__)[:_MOST_TRIED]
        for text, items in sorted(found.items())
    }


def exemplar(items: Iterable[Instruction]) -> tuple[Instruction | None, str]:
    """The first instruction that makes a probe, or why none does."""
    reason = ""
    for item in items:
        try:
            expectation(probe_of(item))
        except FitzroyError as error:
            reason = f"{type(error).__name__}: {error.what}"
            continue
        return draft(item).instruction, ""
    return None, reason


def written(found: dict[str, list[Instruction]]) -> tuple[str, dict[str, str]]:
    """The file of exemplars, and why the other forms are not in it."""
    lines: list[str] = [
        "; Written by python -m benchmarks.probe_forms: instructions that probes put to a device.",
    ]
    missing = {}
    for text, items in found.items():
        one, reason = exemplar(items)
        if one is None:
            missing[text] = reason
        else:
            lines += ["", *instruction_lines(one)]
    return "\n".join(lines) + "\n", missing


def main(random_models: int) -> None:
    """Write the exemplars and say what is missing."""
    found = collected(programs(random_models))
    text, missing = written(found)
    path = ROOT / "driver" / "probe" / "suite" / EXEMPLARS
    Path(path).write_text(text, encoding="ascii")
    print(f"{len(found) - len(missing)} of {len(found)} forms have a probe")
    kinds = Counter((form.split(" ")[0], reason) for form, reason in missing.items())
    for (opcode, reason), number in kinds.most_common():
        print(f"{number:4} {opcode}: {reason}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RANDOM_MODELS)
