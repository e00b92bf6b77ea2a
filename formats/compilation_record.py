"""What the compiler knew of the Edge TPU programs in a model, kept in the model's metadata.

A compiled program has instructions and no layers. The record says which operators of the source
each package computes, where in its program the steps of these operators begin, with which options
of the code generator it was made, and digests of the source. Reports take the names from it;
`patch-weights` makes the same program again from it; the twin knows the source by it.

The record is a metadata entry of the TFLite model, as compact JSON. Runtimes ignore metadata that
they do not know, and the packages have nothing of it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.formats import tflite
from fitzroy.formats.source_digest import DIGEST_BYTES, OperatorDigest

NAME = "fitzroy.compilation"
"""Name of the metadata entry."""

VERSION = 1

MOST_BYTES = 16 << 20
"""Largest record that is read: many times what a program of a full instruction memory needs."""

TILES = 16
"""Entries of `GeneratorOptions.taken`."""

_MOST_NUMBER = 1 << 31


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What the code generator compares before it decides.

    Attributes:
        strips: numbers of strips of layers that compute while their input arrives.
        staging: whether convolutions compare ways to stage their weights.
        published: thousandths of the cycles that forms of published programs may cost.
    """

    strips: tuple[int, ...]
    staging: bool
    published: int


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """Options of the code generator that decide what it emits.

    Attributes:
        narrow_bytes: bytes of narrow memory of every tile that the program may use.
        taken: rows of wide memory that other models have on each tile.
        parameter_rows: rows of wide memory of all tiles that its parameters may take, or None.
        staging: rows at the top of wide memory that other programs use for data.
        conservative: whether it keeps to what published programs do.
        search: what it compared; None for the usual.
    """

    narrow_bytes: int
    taken: tuple[int, ...]
    parameter_rows: int | None
    staging: int
    conservative: bool
    search: SearchOptions | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Where the instructions of a layer begin.

    Attributes:
        chunk: number of the chunk.
        bundle: bundle in the chunk, after its START.
        kind: what the layer is.
        origin: name of the source's node, or of the input or output that it moves; empty for the
            end of the program.
        operator: index of the source's operator, -1 for none.
    """

    chunk: int
    bundle: int
    kind: str
    origin: str
    operator: int = -1


@dataclass(frozen=True, slots=True)
class PackageRecord:
    """What the compiler knew of a package.

    Attributes:
        operators: indices of the source's operators that the package computes, in order.
        options: how its program was generated.
        bundles: bundles of every chunk, START and END included.
        steps: where the steps of the program begin, in order.
        source: digests of the operators; empty if the compiler kept none.
    """

    operators: tuple[int, ...]
    options: GeneratorOptions
    bundles: tuple[int, ...]
    steps: tuple[Step, ...]
    source: tuple[OperatorDigest, ...] = ()

    def after(self, chunks: Sequence[int]) -> PackageRecord:
        """The record of a program with more chunks in front of it, of so many bundles each."""
        steps = [dataclasses.replace(step, chunk=step.chunk + len(chunks)) for step in self.steps]
        return dataclasses.replace(self, bundles=(*chunks, *self.bundles), steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class CompilationRecord:
    """What the compiler knew.

    Attributes:
        producer: version of the compiler.
        packages: one entry per package, in the order in which the model has them.
    """

    producer: str
    packages: tuple[PackageRecord, ...]


def attached(model: tflite.Model, record: CompilationRecord) -> tflite.Model:
    """A model with a record in place of any that it has."""
    data = np.frombuffer(encoded(record), np.uint8)
    buffers, entries = list(model.buffers or ()), list(model.metadata or ())
    for entry in entries:
        if entry.name == NAME:
            buffers[entry.buffer] = tflite.Buffer(data=data)
            return dataclasses.replace(model, buffers=buffers)
    entries.append(tflite.Metadata(name=NAME, buffer=len(buffers)))
    return dataclasses.replace(
        model, buffers=[*buffers, tflite.Buffer(data=data)], metadata=entries
    )


def read_record(model: tflite.Model, path: str = "") -> CompilationRecord | None:
    """The record of a model; None if it has none, or one of a later version.

    Raises:
        FormatError: the record is malformed.
    """
    buffers = model.buffers or []
    for entry in model.metadata or ():
        if entry.name == NAME:
            if entry.buffer >= len(buffers):
                raise FormatError(
                    f"the compilation record is in buffer {entry.buffer}",
                    path=path,
                    hint=f"the model has {len(buffers)} buffers",
                )
            held = buffers[entry.buffer].data
            return decoded(b"" if held is None else held.tobytes(), path)
    return None


def encoded(record: CompilationRecord) -> bytes:
    """The bytes of a record; equal records give equal bytes."""
    names: dict[str, int] = {}

    def number(text: str) -> int:
        return names.setdefault(text, len(names))

    packages = [
        {
            "operators": list(item.operators),
            "options": _options(item.options),
            "bundles": list(item.bundles),
            "steps": [
                [step.chunk, step.bundle, number(step.kind), number(step.origin), step.operator]
                for step in item.steps
            ],
        }
        | _known({"source": [[number(op.name), op.form, op.constants] for op in item.source]})
        for item in record.packages
    ]
    document = {
        "version": VERSION,
        "producer": record.producer,
        "packages": packages,
        "names": list(names),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def _options(options: GeneratorOptions) -> dict[str, Any]:
    """The entry of options; what is usual is left out."""
    entry = dataclasses.asdict(options)
    return {key: value for key, value in entry.items() if key != "search" or value is not None}


def _known(entry: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """An entry, unless it has nothing."""
    return {key: value for key, value in entry.items() if value}


def decoded(data: bytes, path: str = "") -> CompilationRecord | None:
    """The record of some bytes; None if its version is a later one.

    Raises:
        FormatError: they are no record.
    """
    if len(data) > MOST_BYTES:
        raise _fault(f"{len(data)} bytes, of at most {MOST_BYTES}", path)
    try:
        document = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _fault(f"it is no JSON: {error}", path) from None
    reader = _Reader(path)
    top = reader.table(document, "record")
    version = reader.number(top.get("version"), "version")
    if version > VERSION:
        return None
    names = [reader.text(item, "a name") for item in reader.items(top.get("names"), "names")]
    packages = tuple(
        reader.package(item, names) for item in reader.items(top.get("packages"), "packages")
    )
    return CompilationRecord(reader.text(top.get("producer"), "producer"), packages)


def _fault(what: str, path: str) -> FormatError:
    return FormatError(f"the compilation record is malformed: {what}", path=path)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes a JSON document apart; every method raises FormatError for what it does not expect."""

    path: str

    def table(self, value: object, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise _fault(f"{what} is no object", self.path)
        return value

    def items(self, value: object, what: str, count: int | None = None) -> Sequence[Any]:
        if not isinstance(value, list) or count not in (None, len(value)):
            raise _fault(f"{what} is no list{f' of {count}' if count else ''}", self.path)
        return value

    def text(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise _fault(f"{what} is no text", self.path)
        return value

    def flag(self, value: object, what: str) -> bool:
        if not isinstance(value, bool):
            raise _fault(f"{what} is neither true nor false", self.path)
        return value

    def number(self, value: object, what: str, least: int = 0, most: int = _MOST_NUMBER) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _fault(f"{what} is {str(value)[:20]}, not {least} to {most}", self.path)
        return value

    def numbers(self, value: object, what: str, count: int | None = None) -> tuple[int, ...]:
        return tuple(self.number(item, what) for item in self.items(value, what, count))

    def options(self, value: object) -> GeneratorOptions:
        table = self.table(value, "options")
        rows = table.get("parameter_rows")
        return GeneratorOptions(
            self.number(table.get("narrow_bytes"), "narrow_bytes"),
            self.numbers(table.get("taken"), "taken", TILES),
            None if rows is None else self.number(rows, "parameter_rows"),
            self.number(table.get("staging"), "staging"),
            self.flag(table.get("conservative"), "conservative"),
            self.search(table["search"]) if "search" in table else None,
        )

    def search(self, value: object) -> SearchOptions:
        table = self.table(value, "a search")
        return SearchOptions(
            self.numbers(table.get("strips"), "strips"),
            self.flag(table.get("staging"), "staging"),
            self.number(table.get("published"), "published", most=1000),
        )

    def step(self, value: object, names: Sequence[str]) -> Step:
        chunk, bundle, kind, origin, operator = self.items(value, "a step", 5)
        last = len(names) - 1
        return Step(
            self.number(chunk, "a chunk"),
            self.number(bundle, "a bundle"),
            names[self.number(kind, "a kind", most=last)],
            names[self.number(origin, "an origin", most=last)],
            self.number(operator, "an operator", least=-1),
        )

    def digest(self, value: object) -> str:
        text = self.text(value, "a digest")
        if len(text) != 2 * DIGEST_BYTES or not set(text) <= set("0123456789abcdef"):
            raise _fault(f"a digest is {text[:40]!r}", self.path)
        return text

    def source(self, value: object, names: Sequence[str]) -> OperatorDigest:
        name, form, constants = self.items(value, "an operator of the source", 3)
        return OperatorDigest(
            names[self.number(name, "a name", most=len(names) - 1)],
            self.digest(form),
            self.digest(constants),
        )

    def package(self, value: object, names: Sequence[str]) -> PackageRecord:
        table = self.table(value, "a package")
        steps = tuple(
            self.step(item, names) for item in self.items(table.get("steps"), "the steps")
        )
        self._check_order((step.chunk, step.bundle) for step in steps)
        return PackageRecord(
            self.numbers(table.get("operators"), "an operator"),
            self.options(table.get("options")),
            self.numbers(table.get("bundles"), "bundles of a chunk"),
            steps,
            tuple(
                self.source(item, names) for item in self.items(table.get("source", []), "source")
            ),
        )

    def _check_order(self, places: Iterable[tuple[int, int]]) -> None:
        found = list(places)
        if found != sorted(found):
            raise _fault("steps are not in the order of their instructions", self.path)
