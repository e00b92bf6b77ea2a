"""Run mutants through a target and judge what happens.

A case may end in success or in a `FitzroyError` other than `InternalError`, within two seconds of
processor time and bounded memory. Everything else is a failure. Case n of seed s is the same
bytes wherever the same seeds are there.
"""

from __future__ import annotations

import collections
import datetime
import random
import resource
import signal
import struct
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import numpy as np
from tests.fuzz.bitstreams import bitstream_mutant
from tests.fuzz.listings import listing_mutant
from tests.fuzz.mutate import mutant
from tests.fuzz.seeds import SEEDS
from tests.fuzz.tables import _spoil, _tables, table_mutant
from tests.fuzz.targets import run
from tests.fuzz.usb_host import script_mutant

from fitzroy.base.errors import FitzroyError, InternalError
from fitzroy.formats import custom_op, darwinn, flat, object_file, tflite

SECONDS = 2.0
"""Most processor time of a case."""

HANG_SECONDS = 20
"""Processor time after which a case is interrupted."""

EVERY = 97
"""One case in as many runs under tracemalloc."""

RESIDENT_GROWTH = 512 << 20
"""Most growth in bytes of the process over a whole run."""


def memory_bound(size: int) -> int:
    """Most bytes that a case may hold at a time: decoded tables, a copy of them, slack."""
    return 12 * size + (48 << 20)


class Hang(BaseException):
    """A case that had to be interrupted; not an Exception, so that nothing swallows it."""


@dataclass(frozen=True)
class Failure:
    """A case that ended badly; `seed` and `case` make its bytes again."""

    seed: int
    case: int
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed} case {self.case}: {self.what}"


@dataclass
class Result:
    """What a run gave."""

    format: str
    cases: int
    seed: int
    seeds: int
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    peak: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "format": self.format,
            "cases": self.cases,
            "seed": self.seed,
            "seed_files": self.seeds,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": [str(failure) for failure in self.failures[:20]],
            "failure_count": len(self.failures),
            "seconds": round(self.seconds, 1),
            "slowest_case_seconds": round(self.slowest, 3),
            "peak_traced_bytes": self.peak,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }


def package_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A DarwiNN package after changes of fields on all levels, or of bytes in an executable."""
    try:
        file = darwinn.read_package(seed)
        tables = [*_tables(file.package), *_tables(file.executables)]
        for _ in range(rng.randint(1, 4)):
            table = rng.choice(tables)
            if isinstance(table, darwinn.TensorShape):
                ends = [[rng.choice((0, 1, 2, -1, 1 << 30)) for _ in range(2)] for _ in range(2)]
                table.dimension = np.array(ends, np.int32)
            else:
                _spoil(rng, table)
        contents = [flat.encode(executable) for executable in file.executables]
        if rng.random() < 0.3:
            contents = [mutant(rng, [content]) for content in contents]
        multi = darwinn.MultiExecutable(
            serialized_executables=[np.frombuffer(content, np.uint8) for content in contents]
        )
        inner = flat.encode(multi)
        file.package.serialized_multi_executable = np.frombuffer(inner, np.uint8)
        return flat.encode(file.package, identifier=darwinn.IDENTIFIER)
    except (FitzroyError, ValueError, OverflowError, TypeError, AttributeError, struct.error):
        return seed


def wrapped_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A TFLite model after changes of fields of its own, of its packages, or of its options."""
    model = tflite.read_model(seed)
    operators = [
        operator
        for subgraph in model.subgraphs or ()
        for operator in subgraph.operators or ()
        if operator.custom_options is not None and len(operator.custom_options)
    ]
    if not operators or rng.random() < 0.3:
        return table_mutant(rng, seed)
    operator = rng.choice(operators)
    assert operator.custom_options is not None
    content = operator.custom_options.tobytes()
    try:
        if rng.random() < 0.5:
            ops = custom_op.extract(model)
            if ops:
                index = rng.randrange(len(ops))
                package = package_mutant(rng, bytes(ops[index].package))
                return tflite.write_model(custom_op.replace(model, index, package))
        # The fields of a flexbuffer are at its end, behind the package.
        tail = rng.choice((16, 48, 96))
        changed = content[:-tail] + mutant(rng, [content[-tail:]])
        operator.custom_options = np.frombuffer(changed, np.uint8)
        return tflite.write_model(model)
    except FitzroyError:
        return seed


def object_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """An object after changes of fields; the seed itself where it cannot be written."""
    try:
        file = object_file.read_object(seed)
        tables = list(_tables(file))
        for _ in range(rng.randint(1, 4)):
            _spoil(rng, rng.choice(tables))
        return flat.encode(file, identifier=object_file.IDENTIFIER)
    except (FitzroyError, ValueError, OverflowError, TypeError, AttributeError, struct.error):
        return seed


STRUCTURED: dict[str, Callable[[random.Random, bytes, list[bytes]], bytes]] = {
    "tflite": lambda rng, seed, _: table_mutant(rng, seed),
    "darwinn": lambda rng, seed, _: package_mutant(rng, seed),
    "custom_op": lambda rng, seed, _: wrapped_mutant(rng, seed),
    "object": object_mutant,
    "assembly": listing_mutant,
    "bitstream": bitstream_mutant,
    "usb": script_mutant,
}
"""Mutations that keep the structure of a format readable, for half of its cases."""


def case_bytes(name: str, seeds: list[bytes], seed: int, case: int) -> bytes:
    """The bytes of a case of a format."""
    rng = random.Random(f"{seed}:{case}")
    change = STRUCTURED.get(name)
    if change is not None and rng.random() < 0.5:
        return change(rng, rng.choice(seeds), seeds)
    return mutant(rng, seeds)


def fuzz(name: str, cases: int, seed: int, *, first: int = 0) -> Result:
    """Run cases `first` to `first + cases` of a format."""
    seeds = SEEDS[name]()
    result = Result(name, cases, seed, len(seeds))
    resident = _resident()
    began = time.perf_counter()
    for case in range(first, first + cases):
        _run_case(result, name, seeds, case)
    result.seconds = time.perf_counter() - began
    growth = _resident() - resident
    if growth > RESIDENT_GROWTH:
        result.failures.append(Failure(seed, -1, f"the process grew by {growth} bytes"))
    return result


def _run_case(result: Result, name: str, seeds: list[bytes], case: int) -> None:
    data = case_bytes(name, seeds, result.seed, case)
    traced = case % EVERY == 0
    if traced:
        tracemalloc.start()
    began = time.process_time()
    problem = ""
    try:
        with _interrupted_after(HANG_SECONDS):
            run(name, data)
        outcome = "accepted"
    except FitzroyError as error:
        outcome = type(error).__name__
        if isinstance(error, InternalError) or not str(error):
            problem = f"{outcome}: {error}"
    except Hang:
        outcome, problem = "hang", f"interrupted after {HANG_SECONDS} s"
    except Exception as error:
        outcome = f"!{type(error).__name__}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    seconds = time.process_time() - began
    if traced:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        result.peak = max(result.peak, peak)
        if peak > memory_bound(len(data)):
            problem = problem or f"{peak} bytes held for a file of {len(data)}"
    else:
        result.slowest = max(result.slowest, seconds)
        if seconds > SECONDS:
            problem = problem or f"{seconds:.1f} s ({outcome})"
    result.outcomes[outcome] += 1
    if problem:
        result.failures.append(Failure(result.seed, case, problem))


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
