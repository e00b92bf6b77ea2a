"""Whether the code generator still emits the same bytes.

``python -m benchmarks.byte_gate record FILE`` compiles models of the corpus and random ones with
several options, and writes a digest of every object and package. ``compare FILE`` compiles the same
again, prints how many digests are equal by option, names those that are not, and exits with 1 if
there are any. A refactoring of the code generator records before its first step, and compares after
each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.compiler.edgetpu_models import random_model
from tests.support import corpus_path

from benchmarks.support import ROOT, corpus_sources
from fitzroy.api import load
from fitzroy.base.errors import FitzroyError, UnsupportedError
from fitzroy.compilation.edgetpu import compile_together
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES
from fitzroy.compiler.targets.edgetpu.partition.divide import consecutive, divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.formats.object_file import ObjectFile, write_object
from fitzroy.linker.packages.darwinn import link

SAMPLE = (
    "conv3x3/conv2d_12x128x64_to_64_k3_s1_same_quant.tflite",
    "coral/deeplabv3_mnv2_dm05_pascal_quant.tflite",
    "coral/keras_lstm_mnist_ptq.tflite",
    "coral/mobilenet_v1_0.25_128_quant.tflite",
    "coral/mobilenet_v1_0.5_160_quant.tflite",
    "coral/split_concat.tflite",
    "coral/tf2_mobilenet_v2_1.0_224_ptq.tflite",
    "layers/model_mat_Mul.tflite",
    "layers/model_padding_stride_128x128x3.tflite",
    "templates/dense_1024.tflite",
    "templates/looming_64x64_3x3.tflite",
)
"""Models of the corpus, one at least of each kind that it has, for a quick look."""

_DIGITS = ROOT / "examples" / "models" / "digits.tflite"

OPTIONS = {
    "default": DEFAULT,
    "conservative": Options(conservative=True),
    "streamed": Options(parameter_rows=0),
    "little memory": Options(narrow_bytes=16 << 10),
}
"""Options of the code generator for a single model, by name."""

SEGMENTS, PAIR = "two segments", "pairs"
"""Names for a model in two segments, and for one that is compiled together with the one before."""

_MOST_NODES = 30
"""Operators of a model that is compiled for little memory, which takes long for large ones."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """What is compiled.

    Attributes:
        files: models, relative to the corpus.
        seeds: numbers of random models, from 0 on.
    """

    files: tuple[str, ...]
    seeds: int

    def graphs(self) -> Iterator[Graph]:
        """The models: files, then random ones, every fourth with operators along any axis."""
        for path in (_DIGITS, *(corpus_path() / name for name in self.files)):
            graph = load(path)
            graph.name = path.name
            yield graph
        for seed in range(self.seeds):
            yield random_model(seed, axes=seed % 4 == 3)


def digests(subjects: Subjects, progress: Callable[[str], None]) -> dict[str, str]:
    """Digests of all objects and packages, or the reason for having none, by case."""
    found: dict[str, str] = {}
    before: Source | None = None
    for graph in subjects.graphs():
        progress(graph.name)
        for name, options in OPTIONS.items():
            if options.narrow_bytes == NARROW_BYTES or len(graph.nodes()) <= _MOST_NODES:
                found[f"{name}: {graph.name}"] = _digest(partial(_programs, [graph], options))
        found[f"{SEGMENTS}: {graph.name}"] = _digest(partial(_segments, graph))
        source = _source(graph)
        if before is not None and source is not None:
            found[f"{PAIR}: {graph.name}"] = _digest(partial(_together, [before, source]))
        before = source or before
    return found


Program = tuple[ObjectFile, PackageFile]


def _programs(graphs: Sequence[Graph], options: Options) -> Iterator[Program]:
    """Programs of all parts of graphs that can be on the chip, each for a chip of its own."""
    for graph in graphs:
        for segment in divide(graph, options)[0]:
            item = lower(segment.graph, options)
            (package,) = link([item])
            yield item, package


def _segments(graph: Graph) -> Iterator[Program]:
    """Programs of a graph that is cut into two segments."""
    return _programs([segment.graph for segment in consecutive(graph, 2)], DEFAULT)


def _source(graph: Graph) -> Source | None:
    """The graph as a model, unless TFLite cannot express it."""
    try:
        model = export_model(graph)
        return Source(graph.name, 0, model, import_model(model, path=graph.name))
    except UnsupportedError:
        return None


def _together(sources: Sequence[Source]) -> Iterator[Program]:
    """Programs of models that share a chip."""
    for result in compile_together(sources, costs=None):
        for part in result.segments:
            yield part.object, part.package


def _digest(programs: Callable[[], Iterator[Program]]) -> str:
    """One digest for all programs of a case; the error if there is any."""
    every, count = hashlib.sha256(), 0
    try:
        for item, package in programs():
            for data in (write_object(item), write_package(package)):
                every.update(hashlib.sha256(data).digest())
            count += 1
    except FitzroyError as error:
        return f"{type(error).__name__}: {error.what}"
    return f"{every.hexdigest()} of {count}"


def _subjects(options: argparse.Namespace) -> Subjects:
    if options.models == "sample":
        return Subjects(SAMPLE, options.seeds)
    files = [str(path.relative_to(corpus_path())) for path in corpus_sources()]
    return Subjects(tuple(files), options.seeds)


def record(path: Path, subjects: Subjects) -> int:
    """Write the digests of some subjects to a file."""
    content = {
        "files": subjects.files,
        "seeds": subjects.seeds,
        "digests": digests(subjects, _progress),
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"recorded {len(content['digests'])} cases")  # type: ignore[arg-type]
    return 0


def compare(path: Path) -> int:
    """Compile what a file has digests of, and tell which are others now; 1 if there are any."""
    content = json.loads(path.read_text())
    wanted: dict[str, str] = content["digests"]
    found = digests(Subjects(tuple(content["files"]), content["seeds"]), _progress)
    different = [case for case in wanted if found.get(case) != wanted[case]]
    for case in different:
        print(f"{case}: {found.get(case)}, not {wanted[case]}")
    total, bad = (Counter(case.split(":")[0] for case in cases) for cases in (wanted, different))
    programs = Counter(case.split(":")[0] for case in wanted if " of " in wanted[case])
    for mode, count in total.items():
        print(
            f"{mode}: {count - bad[mode]} equal, {bad[mode]} different; "
            f"{programs[mode]} have programs"
        )
    return 1 if different else 0


def _progress(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.byte_gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", choices=("sample", "all"), default="sample")
    parser.add_argument("--seeds", type=int, default=60, help="random models")
    options = parser.parse_args()
    if options.action == "record":
        return record(options.file, _subjects(options))
    return compare(options.file)


if __name__ == "__main__":
    sys.exit(main())
