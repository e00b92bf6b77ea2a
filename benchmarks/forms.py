"""Forms of instructions: those of published programs, and those of the code generator.

`collected` gives the table of `fitzroy.hw_models.isa.forms`; ``python -m benchmarks.forms`` writes
it. `measure` compiles every quantized source model of the corpus, once as fast as possible and once
with forms of published programs only where possible, and says what is not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import corpus_path

from benchmarks.edgetpu_compiler import name_of, quantized
from benchmarks.support import ROOT, corpus_sources, write_results
from fitzroy.base.errors import CapacityError
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.targets.edgetpu.codegen.lower import lower
from fitzroy.compiler.targets.edgetpu.codegen.options import Options
from fitzroy.compiler.targets.edgetpu.codegen.segments import divide
from fitzroy.formats import tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.forms import TABLE, Occurrence, form
from fitzroy.hw_models.isa.novelty import Novelty
from fitzroy.linker.packages.container import read_container
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import forms_of, instructions

PATTERNS = ("**/*edgetpu*.tflite", "**/*.executable.bin")
"""Published programs of the corpus."""

MODES = {"default": Options(), "conservative": Options(conservative=True)}
"""Options of the code generator by the name of the mode."""


# --- published programs --------------------------------------------------------------------------


def programs() -> list[Path]:
    """Published programs of the corpus, in order of their paths."""
    return sorted(path for pattern in PATTERNS for path in corpus_path().glob(pattern))


def collected(paths: Iterable[Path]) -> dict[str, Occurrence]:
    """Forms of programs in order of their texts."""
    total, holders = Counter[str](), Counter[str]()
    for path in paths:
        packages = read_container(path.read_bytes(), str(path)).packages
        own = Counter(form(instruction) for _, instruction in instructions(packages))
        total.update(own)
        holders.update(own.keys())
    return {text: Occurrence(total[text], holders[text]) for text in sorted(total)}


def table(found: Mapping[str, Occurrence]) -> str:
    """The file that ships with the instruction set."""
    return "".join(f"{item.instructions} {item.programs} {text}\n" for text, item in found.items())


# --- our programs --------------------------------------------------------------------------------


@dataclass
class Use:
    """A form that no published program has, and where it is used.

    Attributes:
        novelty: what is new about it.
        count: instructions.
        models: models with such an instruction.
    """

    novelty: Novelty
    count: int = 0
    models: list[str] = field(default_factory=list)


@dataclass
class Mode:
    """Forms of all models compiled in a mode.

    Attributes:
        models: number of models.
        instructions: number of instructions.
        forms: number of different forms.
        novel: forms that are not published.
    """

    models: int = 0
    instructions: int = 0
    forms: int = 0
    novel: list[Use] = field(default_factory=list)

    @property
    def known_instructions(self) -> int:
        """Instructions whose form is published."""
        return self.instructions - sum(use.count for use in self.novel)


def compiled(path: Path, options: Options) -> list[PackageFile]:
    """Packages of the parts of a model that fit the chip."""
    graph = import_model(tflite.read_model(path.read_bytes(), str(path)), path=str(path))
    objects = []
    for segment in divide(graph)[0]:
        try:
            objects.append(lower(segment.graph, options))
        except CapacityError:
            continue
    return list(link(objects)) if objects else []


def surveyed(paths: Sequence[Path], options: Options) -> Mode:
    """The forms of models."""
    mode, forms, uses = Mode(), set[str](), dict[str, Use]()
    for path in paths:
        packages = compiled(path, options)
        report = forms_of(packages)
        mode.models += 1
        mode.instructions += report.instructions
        forms |= {form(instruction) for _, instruction in instructions(packages)}
        for item in report.novel:
            use = uses.setdefault(item.novelty.form, Use(item.novelty))
            use.count += item.count
            use.models.append(name_of(path))
    mode.forms = len(forms)
    mode.novel = sorted(uses.values(), key=lambda use: (-use.count, use.novelty.form))
    return mode


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/forms.json``.

    Args:
        progress: called with the name of each mode.
        repeats: not used; nothing here is random.

    Returns:
        forms whose novelty nothing explains.
    """
    paths = [path for path in corpus_sources() if quantized(path)]
    modes: dict[str, Any] = {}
    faults = []
    for name, options in MODES.items():
        progress(f"forms of instructions, {name} mode")
        mode = surveyed(paths, options)
        modes[name] = {
            "models": mode.models,
            "instructions": mode.instructions,
            "known_instructions": mode.known_instructions,
            "forms": mode.forms,
            "known_forms": mode.forms - len(mode.novel),
            "novel": [_entry(use) for use in mode.novel],
        }
        faults += [
            f"forms: nothing explains {use.novelty.form}"
            for use in mode.novel
            if not use.novelty.explained
        ]
    write_results("forms", {"modes": modes})
    return faults


def _entry(use: Use) -> dict[str, Any]:
    novelty = use.novelty
    return {
        "form": novelty.form,
        "count": use.count,
        "models": len(use.models),
        "first": use.models[0],
        "aspects": [aspect.name for aspect in novelty.aspects],
        "nearest": {item.field: item.there for item in novelty.differences},
        "unseen": [item.field for item in novelty.differences if not item.seen],
    }


if __name__ == "__main__":
    (ROOT / "hw_models" / "isa" / TABLE).write_text(table(collected(programs())), encoding="ascii")
