"""Which files are for which inputs of a model, for one inference or for many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, TensorType
from fitzroy.execution import arrays
from fitzroy.execution.arrays import Normalization
from fitzroy.formats import npz

_MOST_FILES = 1 << 20
"""Most files that a folder may have."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: a name, which may be empty, and a type."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Sample:
    """The files of one inference.

    Attributes:
        name: the first file without folder and suffix, made unique; names results.
        files: one file per input; an archive may be that of several.
    """

    name: str
    files: tuple[str, ...]

    def read(self, ports: Sequence[Port], rule: Normalization | None) -> list[Array]:
        """Arrays for the inputs.

        Args:
            ports: the inputs.
            rule: what pixels become.

        Raises:
            UsageError: a file cannot be read or does not suit the input.
            FormatError: an image, an array or an archive is broken.
        """
        pairs = list(zip(self.files, ports, strict=True))
        found: dict[int, Array] = {}
        for path in dict.fromkeys(filter(arrays.is_archive, self.files)):
            names = {n: port.name for n, (file, port) in enumerate(pairs) if file == path}
            found |= arrays.members(npz.read_npz(read_file(path), path), names, path)
        return [
            arrays.fitted_array(found[number], port.type, path=f"{file}: {port.name or number}")
            if number in found
            else arrays.load_array(file, port.type, rule)
            for number, (file, port) in enumerate(pairs)
        ]


def samples(ports: Sequence[Port], specs: Sequence[str], path: str) -> list[Sample]:
    """The files of every inference, from ``X`` and ``NAME=X``.

    A folder stands for its files in order of their names. Files without a name are for the inputs
    that have none with a name, in turn; an archive of arrays (``.npz``) is for all of those. All
    inputs get equally many files, one per inference; those of several folders have the same names.

    Args:
        ports: the inputs.
        specs: what was given.
        path: the file of the model, for errors.

    Returns:
        At least one; without inputs, one without files.

    Raises:
        UsageError: an input is missing or unknown, or has more files than another.
    """
    given: list[list[str]] = [[] for _ in ports]
    for index, value in _assigned(ports, specs, path):
        given[index] += _files(value)
    missing = next((index for index, files in enumerate(given) if not files), None)
    if missing is not None:
        raise _needed(f"input {_label(ports, missing)} is missing", ports, path)
    uneven = next((i for i, files in enumerate(given) if len(files) != len(given[0])), None)
    if uneven is not None:
        raise _needed(
            f"input {_label(ports, 0)} is given {_times(given[0])}, and "
            f"{_label(ports, uneven)} {_times(given[uneven])}",
            ports,
            path,
        )
    _check_pairs(ports, specs, given, path)
    names = _unique([Path(file).stem for file in given[0]] if given else [""])
    return [Sample(name, tuple(files[n] for files in given)) for n, name in enumerate(names)]


def read_inputs(
    ports: Sequence[Port], specs: Sequence[str], rule: Normalization | None, path: str
) -> list[Array]:
    """Arrays for the inputs of one inference, from ``X`` and ``NAME=X``.

    Raises:
        UsageError: an input is missing or unknown, or there is more than one inference.
    """
    first, *others = samples(ports, specs, path)
    if others:
        raise _needed(f"inputs for {1 + len(others)} inferences, one is wanted", ports, path)
    return first.read(ports, rule)


def _assigned(ports: Sequence[Port], specs: Sequence[str], path: str) -> list[tuple[int, str]]:
    """The input that each file or folder is for.

    Raises:
        UsageError: there is no such input, or none at all.
    """
    named = [_named(ports, spec) for spec in specs]
    taken = {index for index, _ in named}
    free = [index for index in range(len(ports)) if index not in taken]
    found, unnamed = [], 0
    for index, value in named:
        if index is None:
            if "=" in value and not os.path.exists(value):
                raise _needed(f"no input named {value.partition('=')[0]!r}", ports, path)
            if not free:
                raise _needed(f"{len(specs)} inputs given, {len(ports)} wanted", ports, path)
            if all(map(arrays.is_archive, _files(value))):
                found += [(index, value) for index in free]
                continue
            index = free[unnamed % len(free)]
            unnamed += 1
        found.append((index, value))
    return found


def _files(value: str) -> list[str]:
    """A file, or the files of a folder in order of their names.

    Raises:
        UsageError: the folder cannot be read, is empty, or has too many files.
    """
    if not os.path.isdir(value):
        return [value]
    try:
        with os.scandir(value) as entries:
            found = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_file())
    except OSError as error:
        raise UsageError(
            "the folder cannot be read", reason=error.strerror or str(error), where=value
        ) from None
    if not found or len(found) > _MOST_FILES:
        raise UsageError(
            f"a folder with {len(found)} files for an input",
            reason=f"1 to {_MOST_FILES} are taken",
            where=value,
        )
    return [os.path.join(value, name) for name in found]


def _check_pairs(
    ports: Sequence[Port], specs: Sequence[str], given: Sequence[Sequence[str]], path: str
) -> None:
    """Refuse folders whose files do not belong together.

    Raises:
        UsageError: names the first two that differ.
    """
    if not specs or not all(os.path.isdir(_named(ports, spec)[1]) for spec in specs):
        return
    for files in given[1:]:
        for first, other in zip(given[0], files, strict=True):
            if Path(first).stem != Path(other).stem:
                raise UsageError(
                    "files of two inputs do not belong together",
                    reason=f"{first} would go with {other}",
                    where=path,
                    hint="give the files of an inference the same name in every folder",
                )


def _unique(names: Sequence[str]) -> list[str]:
    """Names, with a number where one is there already."""
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        chosen = name
        while chosen in found:
            numbers[name] = numbers.get(name, 1) + 1
            chosen = f"{name}_{numbers[name]}"
        found[chosen] = None
    return list(found)


def _named(ports: Sequence[Port], spec: str) -> tuple[int | None, str]:
    """The input that ``NAME=X`` names, None if it names none, and X.

    Names and files may contain the sign themselves: the longest name that there is counts.
    """
    for at in reversed([at for at, character in enumerate(spec) if character == "="]):
        index = _index(ports, spec[:at])
        if index is not None:
            return index, spec[at + 1 :]
    return None, spec


def _index(ports: Sequence[Port], name: str) -> int | None:
    """The input of that name, or of that number."""
    names = [port.name for port in ports]
    numbers = [str(index) for index in range(len(ports))]
    return next((known.index(name) for known in (names, numbers) if name in known), None)


def _label(ports: Sequence[Port], index: int) -> str:
    return repr(ports[index].name) if ports[index].name else str(index)


def _times(files: Sequence[str]) -> str:
    return "once" if len(files) == 1 else f"{len(files)} times"


def _needed(what: str, ports: Sequence[Port], path: str) -> UsageError:
    lines = [f"{_label(ports, index)}: {port.type}" for index, port in enumerate(ports)]
    several = len(ports) > 1
    example = f"--input {ports[0].name or 0}=X ..." if several else "--input X"
    return UsageError(
        what,
        reason="the inputs are\n" + "\n".join(lines) if lines else "there are no inputs",
        where=path,
        hint=f"give files with {example}" if lines else "",
    )
