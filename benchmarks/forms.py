"""Forms of instructions: those of published programs, and those of the code generator.

`collected` gives the table of `fitzroy.hw_models.isa.forms`; ``python -m benchmarks.forms`` writes
it. `measure` compiles every quantized source model of the corpus, some detectors of
`benchmarks.detectors`, and random models, once as fast as possible and once with forms of published
programs only where possible, and says what is not published, and what is at stake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compiler.edgetpu_models import random_model
from tests.support import corpus_path

from benchmarks.architectures import architectures
from benchmarks.detectors import listing_of, of_architecture
from benchmarks.edgetpu_compiler import name_of, quantized
from benchmarks.support import ROOT, corpus_sources, write_results
from fitzroy.base.errors import CapacityError
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.functions import ANY_TABLE
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats import tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.forms import TABLE, Occurrence, form
from fitzroy.hw_models.isa.novelty import Novelty, Risk
from fitzroy.linker.packages.container import read_container
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import forms_of, instructions

PATTERNS = ("**/*edgetpu*.tflite", "**/*.executable.bin")
"""Published programs of the corpus."""

BESIDE = ("study/models", "study/timing")
"""Folders beside the corpus with more of them, if they are there."""

MODES = {"default": Options(), "conservative": Options(conservative=True)}
"""Options of the code generator by the name of the mode."""

DETECTORS = ("yolov8n", "yolo26n", "ssdlite-mobilenet-v2")
"""Architectures that list objects."""

_PIXELS = 320
"""Rows and columns of their pictures."""

RANDOM = 500
"""Random models: those of the seeds from 0 on."""

_LISTED = 100
"""Forms of models that are not of the corpus that are listed, the most frequent ones."""


# --- published programs --------------------------------------------------------------------------


def programs() -> list[Path]:
    """Published programs of the corpus and beside it, each in order of their paths."""
    corpus = sorted(path for pattern in PATTERNS for path in corpus_path().glob(pattern))
    folders = (corpus_path().parent / name for name in BESIDE)
    return corpus + sorted(path for folder in folders for path in folder.glob("*_edgetpu.tflite"))


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
    return _linked(graph, options)


def _linked(graph: Graph, options: Options) -> list[PackageFile]:
    objects = []
    for segment in divide(graph)[0]:
        try:
            objects.append(lower(segment.graph, options))
        except CapacityError:
            continue
    return list(link(objects)) if objects else []


def sources(count: int) -> Mapping[str, Callable[[Options], Iterator[Packages]]]:
    """Where models come from: compiles them one after the other, with their names.

    Args:
        count: number of random models.
    """
    paths = [path for path in corpus_sources() if quantized(path)]
    return {
        "corpus": lambda options: ((name_of(path), compiled(path, options)) for path in paths),
        "detectors": _detectors,
        "random": lambda options: (
            (f"random-{seed}", _linked(random_model(seed), options)) for seed in range(count)
        ),
    }


Packages = tuple[str, Sequence[PackageFile]]
"""Name of a model, and its packages."""


def _detectors(options: Options) -> Iterator[Packages]:
    """Detectors, quantized as `fitzroy compile` does in a mode."""
    unit = ANY_TABLE if options.conservative else FUNCTIONS
    for architecture in architectures():
        if architecture.name in DETECTORS:
            source = listing_of(of_architecture(architecture, _PIXELS), unit)
            yield architecture.name, _linked(source.graph, options)


def surveyed(models: Iterable[Packages]) -> Mode:
    """The forms of models."""
    mode, forms, uses = Mode(), set[str](), dict[str, Use]()
    for name, packages in models:
        report = forms_of(packages)
        mode.models += 1
        mode.instructions += report.instructions
        forms |= {form(instruction) for _, instruction in instructions(packages)}
        for item in report.novel:
            use = uses.setdefault(item.novelty.form, Use(item.novelty))
            use.count += item.count
            use.models.append(name)
    mode.forms = len(forms)
    mode.novel = sorted(uses.values(), key=lambda use: (-use.count, use.novelty.form))
    return mode


def measure(
    progress: Callable[[str], None], repeats: int = 0, modes: Mapping[str, Options] = MODES
) -> list[str]:
    """Write ``results/forms.json``.

    Args:
        progress: called with the name of each mode.
        repeats: number of random models, 0 for `RANDOM`.
        modes: options by the name of the mode.

    Returns:
        forms whose novelty nothing explains.
    """
    count = repeats or RANDOM
    found: dict[str, dict[str, Any]] = {}
    faults = []
    for name, models in sources(count).items():
        found[name] = {}
        for title, options in modes.items():
            progress(f"forms of instructions, {name} models, {title} mode")
            mode = surveyed(models(options))
            found[name][title] = _figures(mode, len(mode.novel) if name == "corpus" else _LISTED)
            faults += [
                f"forms: nothing explains {use.novelty.form}"
                for use in mode.novel
                if not use.novelty.explained
            ]
    write_results("forms", {"seeds": [0, count], "models": found})
    return list(dict.fromkeys(faults))


def _figures(mode: Mode, listed: int) -> dict[str, Any]:
    """A mode as a document.

    Args:
        mode: the mode.
        listed: forms that are listed, the most frequent ones.
    """
    risks = {
        risk.title: {
            "forms": len(some),
            "instructions": sum(use.count for use in some),
            "models": len({name for use in some for name in use.models}),
        }
        for risk in reversed(Risk)
        for some in [[use for use in mode.novel if use.novelty.risk is risk]]
    }
    return {
        "models": mode.models,
        "instructions": mode.instructions,
        "known_instructions": mode.known_instructions,
        "forms": mode.forms,
        "known_forms": mode.forms - len(mode.novel),
        "risks": risks,
        "aspects": Counter(aspect.name for use in mode.novel for aspect in use.novelty.aspects),
        "novel": [_entry(use) for use in mode.novel[:listed]],
    }


def _entry(use: Use) -> dict[str, Any]:
    novelty = use.novelty
    return {
        "form": novelty.form,
        "count": use.count,
        "models": len(use.models),
        "first": use.models[0],
        "risk": novelty.risk.title,
        "aspects": [aspect.name for aspect in novelty.aspects],
        "nearest": {item.field: item.there for item in novelty.differences},
        "unseen": [item.field for item in novelty.differences if not item.seen],
    }


if __name__ == "__main__":
    (ROOT / "hw_models" / "isa" / TABLE).write_text(table(collected(programs())), encoding="ascii")
