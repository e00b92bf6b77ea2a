"""Times of the tools for compiled Edge TPU models, each against a peer in the same run.

The program is the longest of the corpus, the package the largest. Times are those of a warm
process. Text is compared with Python's JSON module, which is in C, on the same lines; what needs
the instructions of a program with disassembling them; reading a package with copying its bytes.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support import corpus_path

from benchmarks.support import corpus_model, summary, write_results
from fitzroy.formats import custom_op, darwinn
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.program import assemble, disassemble
from fitzroy.linker.objects.assembly import package_listing, parse_packages
from fitzroy.linker.objects.edit import with_programs
from fitzroy.linker.objects.recover import recover
from fitzroy.linker.packages.container import Container, read_container
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule import derive_executable

PROGRAM = "layers/model_mat_Add_edgetpu.tflite"
REPEATS = 10
_COMPILED = "**/*edgetpu*.tflite"


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        name: what it is.
        subject: name of the model in the corpus.
        ours: our work.
        peer: name of what it is compared with.
        theirs: the peer's work.
        bound_ms: most milliseconds that our work should take, None for no bound.
    """

    name: str
    subject: str
    ours: Callable[[], object]
    peer: str
    theirs: Callable[[], object]
    bound_ms: float | None = None


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/edgetpu.json``.

    Args:
        progress: called with the name of each step.
        repeats: how often everything is done, 0 for the usual number.

    Returns:
        bounds that were exceeded.
    """
    container = read_container(corpus_model(PROGRAM).read_bytes(), PROGRAM)
    entries, faults = [], []
    for case in (*_program_cases(container), _package_case()):
        progress(case.name)
        ours, theirs = _times(case, repeats or REPEATS)
        median = 1000 * statistics.median(ours)
        entries.append(
            {
                "what": case.name,
                "subject": case.subject,
                "ours": summary(ours),
                "peer": case.peer,
                "theirs": summary(theirs),
                "ratio": statistics.median(ours) / statistics.median(theirs),
                "bound_ms": case.bound_ms,
            }
        )
        if case.bound_ms is not None and median > case.bound_ms:
            faults.append(f"edgetpu: {case.name} takes {median:.0f} ms")
    write_results("edgetpu", {"cases": entries})
    return faults


def _times(case: Case, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of both sides, which take turns."""
    ours: list[float] = []
    theirs: list[float] = []
    for work in (case.ours, case.theirs):
        work()
    for _ in range(repeats):
        for work, seconds in ((case.ours, ours), (case.theirs, theirs)):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return ours, theirs


def _codes(executable: Executable) -> list[bytes]:
    return [
        b"" if stream.bitstream is None else stream.bitstream.tobytes()
        for stream in executable.instruction_bitstreams or ()
    ]


def _listing(packages: Sequence[PackageFile]) -> str:
    return "\n".join(package_listing(enumerate(packages)))


def _program_cases(container: Container) -> list[Case]:
    packages = container.packages
    main = packages[0].main
    codes = _codes(main)
    text = _listing(packages)
    lines = text.split("\n")
    found = recover(packages[0], "model")

    def whole() -> bytes:
        again = parse_packages(_listing(packages))
        return container.replaced(with_programs(packages, again))

    def binary() -> list[bytes]:
        return [assemble(disassemble(code)) for code in codes]

    def disassembled() -> object:
        return [disassemble(code) for code in codes]

    def through_json() -> object:
        return json.loads(json.dumps(lines))

    longest = max(len(code) for code in codes) // BUNDLE_BYTES
    every = f"{sum(len(code) for code in codes) // BUNDLE_BYTES:,} bundles"
    written = "the lines of the listing to JSON and back"
    opened = f"disassemble {every}"
    return [
        Case(
            f"list, parse and assemble {every}, the longest chunk of {longest:,}",
            PROGRAM, whole, written, through_json, 2000.0,
        ),
        Case("parse the listing", PROGRAM, lambda: parse_packages(text), written, through_json),
        Case("disassemble and assemble", PROGRAM, binary, opened, disassembled),
        Case("derive the host's script", PROGRAM, lambda: derive_executable(main), opened,
             disassembled),
        Case("recover an object", PROGRAM, lambda: recover(packages[0]), opened, disassembled),
        Case("link the object", PROGRAM, lambda: link([found]), opened, disassembled),
    ]  # fmt: skip


def _package_case() -> Case:
    """Reading the largest package of the corpus."""
    found: list[tuple[str, bytes]] = []
    for path in sorted(corpus_path().glob(_COMPILED)):
        container = read_container(path.read_bytes(), str(path))
        if container.model is not None:
            name = str(path.relative_to(corpus_path()))
            found += [(name, bytes(op.package)) for op in custom_op.extract(container.model)]
    name, package = max(found, key=lambda item: len(item[1]))
    return Case(
        f"read the largest package, {len(package):,} B",
        name,
        lambda: darwinn.read_package(package),
        "copy its bytes",
        lambda: bytearray(package),
        50.0,
    )
