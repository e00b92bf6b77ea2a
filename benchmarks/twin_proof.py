"""The twin against the simulated chip and the meaning of operators, byte by byte.

Models of the corpus, compiled here; models of the corpus as Google compiled them, with their
sources; and random models. Every part on the chip computes a few random images on the twin,
together, on the simulated chip, in lockstep, and by `evaluate_on_device` or what stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.compiler.edgetpu_models import random_inputs, random_model

from benchmarks.support import corpus_sources
from fitzroy.base.errors import CapacityError, FitzroyError, UnsupportedError, UsageError
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluated
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.execution.twin import TwinDevice, twin_of
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.packages.container import read_container

IMAGES = 2
RANDOM_MODELS = 500
FIRST_SEED = 2_000_000
"""Of the random models; no other test has these."""

_EVERY = 50
"""Random models after which progress is told."""


@dataclass
class Tally:
    """What was compared.

    Attributes:
        models: models of which a part was compared.
        parts: parts on the chip.
        images: images of each part.
        bytes: bytes of outputs of all images.
        simulator: bytes that the simulated chip gives otherwise than the twin.
        meaning: bytes that the meaning of operators gives otherwise.
        differing: models with such bytes.
        refused: models without a twin, and why.
    """

    models: int = 0
    parts: int = 0
    images: int = IMAGES
    bytes: int = 0
    simulator: int = 0
    meaning: int = 0
    differing: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, source: Graph, packages: Sequence[PackageFile], seed: int) -> None:
        """Compare the packages of a model."""
        before = self.simulator + self.meaning
        for package in packages:
            try:
                self._compare(source, package, seed)
            except (UnsupportedError, UsageError) as error:
                self.refused[name] = f"{error.what}: {error.reason}" if error.reason else error.what
                return
        self.models += 1
        if self.simulator + self.meaning > before:
            self.differing.append(name)

    def add_seed(self, seed: int) -> None:
        """Compare a random model; nothing if none of its operators can be mapped."""
        source = Source.of(random_model(seed, axes=seed % 2 == 1))
        for name, graph, packages in _of(f"seed {seed}", source):
            self.add(name, graph, packages, seed)

    def _compare(self, source: Graph, package: PackageFile, seed: int) -> None:
        twin = twin_of(source, source.name, package)
        images = [random_inputs(twin.graph, seed + number) for number in range(IMAGES)]
        given = [
            {name: np.ascontiguousarray(x).reshape(-1).view(np.uint8) for name, x in image.items()}
            for image in images
        ]
        with TwinDevice(source) as device, DirectSimulator() as chip:
            found, simulated = device.run_images(package, given), chip.run_images(package, given)
        self.parts += 1
        for image, ours, theirs in zip(images, found, simulated, strict=True):
            meant = evaluated(twin.graph, image, twin.operators, keep=False)
            for name, array in ours.tensors.items():
                want = np.ascontiguousarray(meant[name]).reshape(-1).view(np.uint8)
                self.bytes += array.size
                self.simulator += int(np.count_nonzero(array != theirs.tensors[name]))
                self.meaning += int(np.count_nonzero(array != want))

    @property
    def faults(self) -> list[str]:
        """What differs, for people."""
        return [f"twin: {name} differs" for name in self.differing]


def prove(
    progress: Callable[[str], None], models: int = RANDOM_MODELS
) -> tuple[dict[str, Any], list[str]]:
    """Compare everything.

    Args:
        progress: is told what is compared.
        models: how many random models.

    Returns:
        what was compared, for JSON, and what differs.

    Raises:
        UsageError: there is no corpus.
    """
    ours, published, random = Tally(), Tally(), Tally()
    for path in corpus_sources():
        progress(f"twin of {path.stem}")
        for tally, packages in ((ours, _compiled(path)), (published, _published(path))):
            for name, graph, found in packages:
                tally.add(name, graph, found, 7)
    for seed in range(FIRST_SEED, FIRST_SEED + models):
        if seed % _EVERY == 0:
            progress(f"twins of random models from {seed}")
        random.add_seed(seed)
    tallies = {"corpus": ours, "published": published, "random": random}
    results: dict[str, Any] = {name: asdict(tally) for name, tally in tallies.items()}
    results["first_seed"] = FIRST_SEED
    return results, [fault for tally in tallies.values() for fault in tally.faults]


Packages = Iterator[tuple[str, Graph, Sequence[PackageFile]]]


def _of(name: str, source: Source) -> Packages:
    """A model, compiled here; nothing if none of its operators can be mapped."""
    try:
        compiled = compile_edgetpu(source, costs=None)
    except (UnsupportedError, CapacityError):
        return
    yield name, source.graph, [part.package for part in compiled.segments]


def _compiled(path: Path) -> Packages:
    try:
        source = Source.read(path)
    except FitzroyError:
        # Some models of the corpus are malformed on purpose.
        return
    yield from _of(path.stem, source)


def _published(path: Path) -> Packages:
    """The model as Google compiled it."""
    other = path.with_name(f"{path.stem}_edgetpu.tflite")
    if other.is_file():
        packages = read_container(other.read_bytes(), str(other)).packages
        yield other.stem, Source.read(path).graph, packages
