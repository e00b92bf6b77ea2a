"""Arrays in NumPy's ``.npy`` files, versions 1.0 to 3.0 of the published format.

A file is a mark, a version, the length of a header, the header, and the elements::

    93 'NUMPY'  u8 major  u8 minor  u16 or u32 length  {'descr': '<f4', 'fortran_order': False,
    'shape': (2, 3), }  elements in C or Fortran order

The header looks like a Python literal. It is matched here against what NumPy writes for an array
of plain numbers and is never evaluated; sizes are compared with the file before anything is made.
"""

from __future__ import annotations

import math
import re

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array

MARK = b"\x93NUMPY"
"""First bytes of every file."""

_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MOST_HEADER = 1 << 16
_MOST_DIMENSIONS = 32
_DICTIONARY = re.compile(r"\s*\{(.*)\}\s*", re.ASCII | re.DOTALL)
_ENTRY = re.compile(
    r"""\s*(['"])(?P<key>descr|fortran_order|shape)\1\s*:\s*
    (?: (['"])(?P<descr>[<>|=][biufc]\d{1,2})\3
      | (?P<order>True|False)
      | \(\s*(?P<shape>(?:(?:\d{1,18}L?\s*,\s*)+(?:\d{1,18}L?)?)?)\s*\) )\s*(?:,|$)""",
    re.ASCII | re.VERBOSE,
)
_VALUES = {"descr": "descr", "fortran_order": "order", "shape": "shape"}


def read_npy(data: bytes, path: str = "") -> Array:
    """The array of a ``.npy`` file: a view of the bytes, in the byte order of the file.

    Args:
        data: the file.
        path: its name, for errors.

    Raises:
        FormatError: the file is malformed, holds anything but plain numbers, or has fewer or more
            elements than its header says.
    """
    header, start = _header(data, path)
    found = _entries(header, path)
    shape = tuple(
        int(extent.rstrip("L ")) for extent in found["shape"].split(",") if extent.strip()
    )
    if len(shape) > _MOST_DIMENSIONS:
        raise _refused(f"{len(shape)} dimensions, at most {_MOST_DIMENSIONS} are read", path)
    try:
        dtype = np.dtype(found["descr"])
    except TypeError:
        raise _refused(f"no element type {found['descr']!r}", path) from None
    wanted, held = math.prod(shape) * dtype.itemsize, len(data) - start
    if wanted != held:
        raise _refused(
            f"{list(shape)} elements of {dtype.itemsize} bytes are {wanted} bytes, and {held} "
            "follow the header",
            path,
        )
    try:
        elements = np.frombuffer(memoryview(data)[start:], dtype) if held else np.empty(0, dtype)
        return elements.reshape(shape, order="F" if found["fortran_order"] == "True" else "C")
    except ValueError as error:
        # Without elements, extents may be beyond all numbers.
        raise _refused(str(error), path) from None


def _header(data: bytes, path: str) -> tuple[str, int]:
    """The text of a header, and the offset of the first element."""
    if not data.startswith(MARK) or len(data) < len(MARK) + 2:
        raise _refused("it does not begin with the mark and the version", path)
    version, at = data[len(MARK)], len(MARK) + 2
    width = _LENGTH_BYTES.get(version)
    if width is None:
        raise _refused(f"version {version}, 1 to 3 are known", path)
    size = int.from_bytes(data[at : at + width], "little")
    start = at + width
    if size > min(_MOST_HEADER, len(data) - start) or start > len(data):
        raise _refused(
            f"a header of {size} bytes, {max(len(data) - start, 0)} follow and at most "
            f"{_MOST_HEADER} are read",
            path,
        )
    return data[start : start + size].decode("latin-1"), start + size


def _entries(header: str, path: str) -> dict[str, str]:
    """The values of a header by their keys, as text."""
    match = _DICTIONARY.fullmatch(header)
    body, at = match[1].strip() if match else "", 0
    found: dict[str, str] = {}
    while at < len(body):
        entry = _ENTRY.match(body, at)
        value = entry and entry[_VALUES[entry["key"]]]
        if entry is None or value is None or entry["key"] in found:
            break
        found[entry["key"]] = value
        at = entry.end()
    if match is None or at < len(body) or len(found) < len(_VALUES):
        raise _refused("its header does not describe an array of plain numbers", path)
    return found


def _refused(what: str, path: str) -> FormatError:
    return FormatError(f"no readable .npy file: {what}", path=path)
