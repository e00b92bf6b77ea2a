"""Expected outputs: arrays or digests in files, and how outputs differ from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.execution import arrays
from fitzroy.formats import npy, npz
from fitzroy.formats.json_document import read_json

_MOST_BYTES = 64 << 20
"""The most that a document may have."""

_SCHEMAS = ("fitzroy-run", "fitzroy-sim", "fitzroy-run-batch", "fitzroy-sim-batch")
_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Deviation:
    """An output that is not as expected.

    Attributes:
        output: its name.
        text: how it differs, with both values.
        elements: how many elements differ; 0 if that cannot be told.
        largest: by how much at most, in its integers or real numbers; None if it cannot be told.
    """

    output: str
    text: str
    elements: int = 0
    largest: float | None = None


@dataclass(frozen=True)
class Expected:
    """What outputs should be.

    Attributes:
        path: where that is written.
        outputs: name and array, or SHA-256 in hexadecimal, of every output in order; an empty name
            fits every output.
    """

    path: str
    outputs: tuple[tuple[str, Array | str], ...]

    def deviations(
        self, outputs: Sequence[tuple[str, Array]], tolerance: float = 0.0
    ) -> tuple[Deviation, ...]:
        """Outputs that are not as expected.

        Args:
            outputs: name and array of every output in order.
            tolerance: the most that elements may differ by, in integers of a quantized output, in
                real numbers of any other.

        Raises:
            UsageError: there are other outputs than expected, or a tolerance for digests.
        """
        wanted = [name for name, _ in self.outputs]
        names = arrays.unique_names([name for name, _ in outputs])
        if len(wanted) != len(names) or any(
            name not in ("", found, plain)
            for name, found, (plain, _) in zip(wanted, names, outputs, strict=False)
        ):
            raise UsageError(
                "other outputs are expected than there are",
                reason=f"expected are {_listed(wanted)}; there are {_listed(names)}",
                where=self.path,
            )
        found = [
            deviation(name, array, expected, tolerance, self.path)
            for (name, array), (_, expected) in zip(outputs, self.outputs, strict=True)
        ]
        return tuple(item for item in found if item is not None)


def deviation(
    name: str, found: Array, expected: Array | str, tolerance: float = 0.0, path: str = ""
) -> Deviation | None:
    """How an output differs from what is expected; None if it does not.

    Args:
        name: its name.
        found: the output.
        expected: an array, or the SHA-256 of the elements in C order, little-endian.
        tolerance: the most that elements may differ by.
        path: where the expectation is written, for errors.

    Raises:
        UsageError: a tolerance for a digest.
    """
    if isinstance(expected, str):
        if tolerance:
            raise UsageError(
                "a tolerance needs the expected elements",
                reason="digests tell only whether all are equal",
                where=path,
                hint="expect an array: a .npy or .npz file",
            )
        digest = arrays.digest(found)
        if digest == expected.lower():
            return None
        return Deviation(name, f"its SHA-256 is {digest}, {expected} expected")
    if found.dtype != expected.dtype or _extents(found) != _extents(expected):
        return Deviation(name, f"it is {_type(found)}, {_type(expected)} expected")
    return _elements(name, found, expected.reshape(found.shape), tolerance)


def _elements(name: str, found: Array, expected: Array, tolerance: float) -> Deviation | None:
    real = [x.astype(np.float64) if x.dtype.kind != "c" else x for x in (found, expected)]
    with np.errstate(invalid="ignore"):
        off = np.abs(real[0] - real[1])
        # Equal infinities, and numbers that are none on both sides, are as expected.
        same = (found == expected) | (np.isnan(real[0]) & np.isnan(real[1])) | (off <= tolerance)
    if same.all():
        return None
    largest = float(np.max(np.where(same, 0, np.where(np.isnan(off), np.inf, off))))
    place = np.unravel_index(int(np.argmin(same)), same.shape)
    at = ",".join(str(int(index)) for index in place)
    count = int(same.size - np.count_nonzero(same))
    text = (
        f"{count} of {same.size} elements differ, by at most {largest:.6g}; "
        f"[{at}] is {found[place].item():.6g}, {expected[place].item():.6g} expected"
    )
    return Deviation(name, text, count, largest)


def _extents(array: Array) -> tuple[int, ...]:
    return tuple(extent for extent in array.shape if extent != 1)


def _type(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


# --- files ---------------------------------------------------------------------------------------


def read_expected(path: str, sample: str = "") -> Expected:
    """Expected outputs from a file.

    A ``.npy`` file has one output, a ``.npz`` archive several. A JSON document is what ``fitzroy
    run`` or ``fitzroy sim`` printed; its digests are compared. A folder has such files, named as
    the inputs are.

    Args:
        path: the file, or a folder of files.
        sample: the name of the inference, which finds its file in a folder or its part of a
            document of several inferences.

    Raises:
        UsageError: it cannot be read, has no part for the inference, or is of no known kind.
        FormatError: it is malformed.
    """
    if Path(path).is_dir():
        path = _in_folder(path, sample)
    data = read_file(path)
    if data.startswith(npz.MARK):
        return Expected(path, tuple(npz.read_npz(data, path).items()))
    if data.startswith(npy.MARK):
        return Expected(path, (("", npy.read_npy(data, path)),))
    if data.lstrip()[:1] == b"{":
        return Expected(path, _digests(_document(data, path), sample, path))
    raise UsageError(
        "expected outputs are arrays, or a document with digests",
        where=path,
        hint="give a .npy or .npz file, or what fitzroy sim --json printed",
    )


def _in_folder(folder: str, sample: str) -> str:
    for suffix in (".npy", ".npz", ".json"):
        path = Path(folder) / f"{sample}{suffix}"
        if path.is_file():
            return str(path)
    raise UsageError(
        f"nothing is expected of {sample!r}",
        reason=f"there is no {sample}.npy, {sample}.npz or {sample}.json",
        where=folder,
    )


def _document(data: bytes, path: str) -> Mapping[str, Any]:
    """A document with outputs.

    Raises:
        FormatError: it is none.
    """
    document = read_json(data, path, "a document", _MOST_BYTES)
    if not isinstance(document, dict) or document.get("schema") not in _SCHEMAS:
        raise FormatError(
            f"a document without outputs; those of {', '.join(_SCHEMAS)} have some", path=path
        )
    return document


def _digests(
    document: Mapping[str, Any], sample: str, path: str
) -> tuple[tuple[str, Array | str], ...]:
    """Names and digests of the outputs of an inference.

    Raises:
        FormatError: the document lacks some.
        UsageError: it has no such inference.
    """
    if document["schema"].endswith("-batch"):
        runs = document.get("inferences")
        listed = runs if isinstance(runs, list) else ()
        named = {str(item.get("name")): item for item in listed if isinstance(item, dict)}
        if sample not in named:
            raise UsageError(
                f"nothing is expected of {sample!r}",
                reason=f"the document has {_listed(list(named)[:8])}",
                where=path,
            )
        document = named[sample]
    found: list[tuple[str, Array | str]] = []
    outputs = document.get("outputs")
    for item in outputs if isinstance(outputs, list) else (None,):
        name, digest = (
            (item.get("name"), item.get("sha256")) if isinstance(item, dict) else (None, None)
        )
        if not isinstance(name, str) or not is_digest(digest):
            raise FormatError("an output without name or sha256", path=path)
        found.append((name, str(digest)))
    return tuple(found)


def is_digest(value: object) -> bool:
    """Whether something is a SHA-256 in hexadecimal."""
    return (
        isinstance(value, str)
        and len(value) == _DIGITS
        and all(character in "0123456789abcdefABCDEF" for character in value)
    )
