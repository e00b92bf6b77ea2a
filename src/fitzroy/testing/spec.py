"""What a test file asks of a compiled model.

A test file is TOML. Paths in it are relative to its folder. `docs/ci.md` describes it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitzroy.base.errors import FitzroyError, FormatError
from fitzroy.base.files import read_file
from fitzroy.compiler.frontends.frontend import Given, Reading, is_given
from fitzroy.execution.arrays import Normalization
from fitzroy.execution.estimate import CLOCK, HOST, Conditions
from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.testing.expected import is_digest
from fitzroy.testing.figures import FIGURES, MEASURED

_MOST_BYTES = 1 << 18
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DEEP = re.compile(rf"(?<![\w-])(?:{_PART}){{16}}")
"""A key of so many parts as no test file has; what reads TOML takes the cube of their number."""

_MOST_ENTRIES = 1 << 12
_MOST_EXTENTS = 64
_MOST = 1e15
_CLASS = "{class}"


@dataclass(frozen=True, slots=True)
class OperatorRules:
    """Where operators have to run.

    Attributes:
        on_chip: names of operators that must not be left to the host, as TFLite spells them.
        on_host: the only ones that may be; None for any.
    """

    on_chip: tuple[str, ...] = ()
    on_host: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An inference with its expected outputs.

    Attributes:
        name: its name.
        inputs: files as ``--input`` takes them, for one inference.
        top: the class that has to win, its number or its label; None for any.
        expect: file of expected outputs; empty for none.
        tolerance: the most that elements may differ by.
        sha256: digests of outputs by name; an empty name for a single output.
    """

    name: str
    inputs: tuple[str, ...]
    top: int | str | None = None
    expect: str = ""
    tolerance: float = 0.0
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Labelled samples, and the share of them that has to be right.

    Attributes:
        name: its name.
        data: a folder with one folder per class, or with files whose names hold the class.
        names: what stands before and after the class in the names of files; None if folders are
            the classes.
        floors: the least share of samples whose class is among the best k, by k.
        most: how many samples are taken at most, spread evenly; None for all.
    """

    name: str
    data: str
    names: tuple[str, str] | None
    floors: Mapping[int, float]
    most: int | None = None


@dataclass(frozen=True)
class Spec:
    """What a test file asks.

    Attributes:
        path: the file.
        model: a compiled model, or one to compile for the Edge TPU first.
        source: the model that a compiled one was compiled from; empty if it is not known.
        options: options of the compiler by name, for models that are not compiled.
        how: what to read of the model before it is compiled, or of the source.
        device: the device unless another one is asked for.
        labels: file with the names of classes; empty for those that the model has.
        rule: what pixels become; None for the usual.
        conditions: clock, host and driver of predicted times.
        limits: the most that figures may be, the least of those that are better high; by name.
        runs: how many inferences a measured latency is the median of.
        operators: where operators have to run.
        cases: inferences with expected outputs.
        accuracies: labelled samples.
    """

    path: str
    model: str
    source: str
    options: Mapping[str, Any]
    how: Reading
    device: str
    labels: str
    rule: Normalization | None
    conditions: Conditions
    limits: Mapping[str, float]
    runs: int
    operators: OperatorRules
    cases: tuple[Case, ...]
    accuracies: tuple[Accuracy, ...]

    @property
    def folder(self) -> Path:
        """What paths in the file are relative to."""
        return Path(self.path).parent

    @property
    def measured(self) -> tuple[str, ...]:
        """Figures with limits that only a real device has."""
        return tuple(name for name in MEASURED if name in self.limits)

    def file(self, name: str) -> str:
        """The path of a file that the test file names."""
        return str(self.folder / name)


DEVICE = "sim:direct"
"""Where tests run unless told otherwise: the simulated chip without USB, which is quickest."""

_RUNS = 20


def read_spec(path: str) -> Spec:
    """What a test file asks.

    Raises:
        UsageError: it cannot be read.
        FormatError: it is no TOML, has an unknown key, or a value that makes no sense.
    """
    return parse_spec(read_file(path), path)


def parse_spec(data: bytes, path: str) -> Spec:
    """What a test file asks; errors as those of `read_spec`.

    Args:
        data: the file.
        path: its name.
    """
    if len(data) > _MOST_BYTES:
        raise FormatError(f"{len(data)} bytes, of at most {_MOST_BYTES} of a test file", path=path)
    try:
        text = data.decode()
        deep = _DEEP.search(text)
        if deep is not None:
            raise FormatError(f"a name of many parts: {deep[0][:40]!r}", path=path)
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no TOML: {str(error)[:200]}", path=path) from None
    root = _Table(document, path, "")
    where = root.table("predict")
    limits = root.table("limits")
    operators = root.table("operators")
    spec = Spec(
        path=path,
        model=root.text("model"),
        source=root.text("source", ""),
        options=root.mapping("compile"),
        how=_reading(root),
        device=root.text("device", DEVICE),
        labels=root.text("labels", ""),
        rule=_rule(root),
        conditions=Conditions(
            where.text("clock", CLOCK),
            where.text("host", HOST),
            where.text("driver", LIBEDGETPU),
        ),
        limits={name: limits.number(name) for name in FIGURES if name in limits.values},
        runs=root.count("runs", _RUNS),
        operators=OperatorRules(
            operators.operators("on_chip") or (), operators.operators("on_host")
        ),
        cases=tuple(map(_case, root.tables("case"))),
        accuracies=tuple(map(_accuracy, root.tables("accuracy"))),
    )
    for table in (where, operators, root):
        table.finish()
    limits.finish(FIGURES)
    _check_names(spec)
    return spec


def _reading(root: _Table) -> Reading:
    """What is said of inputs."""
    shapes, values = root.table("shapes"), root.table("values")
    return Reading(
        shapes={name: shapes.shape(name) for name in shapes.values},
        values={name: values.given(name) for name in values.values},
        keep_layout=root.flag("keep_layout"),
    )


def _rule(root: _Table) -> Normalization | None:
    """What pixels become.

    Raises:
        FormatError: a text that is no list of numbers.
    """
    mean, std = (root.numbers(name) for name in ("mean", "std"))
    try:
        return Normalization.parse(mean, std)
    except FitzroyError as error:
        raise root.fault("mean", str(error)) from None


def _case(table: _Table) -> Case:
    inputs = table.inputs("input")
    case = Case(
        name=table.text("name", Path(inputs[0].rpartition("=")[2]).name),
        inputs=inputs,
        top=table.label("top"),
        expect=table.text("expect", ""),
        tolerance=table.number("tolerance") if "tolerance" in table.values else 0.0,
        sha256=table.digests("sha256"),
    )
    if case.top is None and not case.expect and not case.sha256:
        raise table.fault("", "a case expects something: top, expect or sha256")
    if case.tolerance and not case.expect:
        raise table.fault("tolerance", "it goes with expect")
    table.finish()
    return case


def _accuracy(table: _Table) -> Accuracy:
    floors = {
        int(name[3:]): table.number(name)
        for name in list(table.values)
        if re.fullmatch(r"top[1-9]\d{0,3}", name)
    }
    if not floors or any(floor > 1 for floor in floors.values()):
        raise table.fault("", "an accuracy has a floor of at most 1, as in top1 = 0.9")
    data = table.text("data")
    found = Accuracy(
        name=table.text("name", data),
        data=data,
        names=_names(table),
        floors=floors,
        most=table.count("samples", 0) or None,
    )
    table.finish()
    return found


def _names(table: _Table) -> tuple[str, str] | None:
    """What stands before and after the class in names of files."""
    text = table.text("names", "")
    before, mark, after = text.partition(_CLASS)
    if text and not mark:
        raise table.fault("names", f"{_CLASS} is missing, as in 'digit_{_CLASS}_'")
    return (before, after) if text else None


def _check_names(spec: Spec) -> None:
    """Refuse two cases, or two accuracies, of the same name: reports tell them by it.

    Raises:
        FormatError: names it.
    """
    for kind, names in (
        ("case", [case.name for case in spec.cases]),
        ("accuracy", [item.name for item in spec.accuracies]),
    ):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise FormatError(f"two of the name {twice[:80]!r}", path=spec.path, table=kind)


@dataclass
class _Table:
    """A table of a test file that is read key by key.

    Attributes:
        values: what it has.
        path: the file.
        name: its place in the file.
        read: the keys that mean something.
    """

    values: Mapping[str, Any]
    path: str
    name: str
    read: set[str] = field(default_factory=set)

    def fault(self, key: str, what: str) -> FormatError:
        """An error that names a key."""
        place = ".".join(filter(None, (self.name, key)))
        return FormatError(what, path=self.path, table=place)

    def take(self, key: str, check: Callable[[Any], bool], wanted: str) -> Any:
        """A value; None if there is none.

        Raises:
            FormatError: it is not what is wanted.
        """
        self.read.add(key)
        value = self.values.get(key)
        if value is not None and not check(value):
            raise self.fault(key, f"{wanted} is wanted, not {str(value)[:40]!r}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.take(key, _is_text, "a text")
        if value is None and default is None:
            raise self.fault(key, "it is missing")
        return str(default if value is None else value)

    def number(self, key: str) -> float:
        """A number of at least 0."""
        return float(self.take(key, _is_number, f"a number from 0 to {_MOST:g}"))

    def numbers(self, key: str) -> str | None:
        """A number, or one per channel, as the command line has it; None if there is none."""
        value = self.take(
            key,
            lambda x: (
                _is_finite(x) or (isinstance(x, list) and bool(x) and all(map(_is_finite, x)))
            ),
            "a number, or one per channel,",
        )
        items = value if isinstance(value, list) else [value]
        return None if value is None else ",".join(map(str, items))

    def count(self, key: str, default: int) -> int:
        """A whole number of at least 1."""
        value = self.take(key, lambda x: _is_number(x) and isinstance(x, int) and x >= 1, "a count")
        return default if value is None else int(value)

    def flag(self, key: str) -> bool:
        """Whether something is so; it is not unless said."""
        return bool(self.take(key, lambda x: isinstance(x, bool), "true or false"))

    def shape(self, key: str) -> tuple[int, ...]:
        """Extents."""
        value = self.take(
            key,
            lambda x: isinstance(x, list) and len(x) <= _MOST_EXTENTS and all(map(_is_extent, x)),
            "a list of extents, as in [1, 3, 320, 320],",
        )
        return tuple(value)

    def given(self, key: str) -> Given:
        """A value of an input."""
        value: Given = self.take(key, is_given, "a number, or lists of numbers,")
        return value

    def label(self, key: str) -> int | str | None:
        """The number or the label of a class."""
        found: int | str | None = self.take(
            key, lambda x: isinstance(x, str | int) and not isinstance(x, bool), "a class"
        )
        return found

    def inputs(self, key: str) -> tuple[str, ...]:
        """Files for inputs: one, several in order, or a table by name."""
        value = self.take(key, _is_inputs, "a file, a list of files, or a table of files by input")
        if value is None:
            raise self.fault(key, "it is missing")
        if isinstance(value, dict):
            return tuple(f"{name}={file}" for name, file in value.items())
        return tuple(value) if isinstance(value, list) else (value,)

    def digests(self, key: str) -> dict[str, str]:
        """Digests of outputs by name; of one output, by an empty name."""
        value = self.take(
            key,
            lambda x: all(map(is_digest, x.values() if isinstance(x, dict) else [x])),
            "64 hexadecimal digits, or a table of them by output,",
        )
        return dict(value) if isinstance(value, dict) else {} if value is None else {"": value}

    def operators(self, key: str) -> tuple[str, ...] | None:
        """Names of operators; None if there are none."""
        value = self.take(
            key,
            lambda x: isinstance(x, list) and all(isinstance(item, str) for item in x),
            "a list of operators",
        )
        return None if value is None else tuple(map(str, value))

    def table(self, key: str) -> _Table:
        """A table; an empty one if there is none."""
        value = self.take(key, lambda x: isinstance(x, dict), "a table")
        return _Table(value or {}, self.path, key)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A table whose keys others know."""
        return self.table(key).values

    def tables(self, key: str) -> list[_Table]:
        """Tables of the same name."""
        value = self.take(
            key,
            lambda x: (
                isinstance(x, list)
                and len(x) <= _MOST_ENTRIES
                and all(isinstance(item, dict) for item in x)
            ),
            f"[[{key}]] of at most {_MOST_ENTRIES} entries",
        )
        return [
            _Table(item, self.path, f"{key} {number}") for number, item in enumerate(value or ())
        ]

    def finish(self, known: Iterable[str] = ()) -> None:
        """Refuse keys that nothing has asked for.

        Args:
            known: all keys that there are; those that were asked for if it is empty.

        Raises:
            FormatError: names the first, and the known ones.
        """
        strange = next((key for key in self.values if key not in self.read), None)
        if strange is not None:
            named = ", ".join(sorted(known or self.read))
            raise self.fault(strange[:80], f"no such key; there are {named}")


def _is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST


def _is_finite(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= _MOST
        and math.isfinite(value)
    )


def _is_inputs(value: object) -> bool:
    items: Sequence[object] = (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else [value]
    )
    return bool(items) and all(map(_is_text, items))
