"""What a file seems to be that is of no format that is read here."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import PurePath

from fitzroy.base import routes
from fitzroy.base.routes import Stranger

_PAGE = Stranger(
    "an HTML page",
    "if it was downloaded, the address did not give the file itself; "
    "for a report, --report X.json writes its data",
)
_PICTURE = Stranger("a picture", "give a model; pictures go with --input or --calibrate")

_MARKS: tuple[tuple[int, bytes, Stranger], ...] = (
    (0, b"\x89HDF", routes.HDF5),
    (0, b"\x80\x02", routes.CHECKPOINT),
    (0, b"\x1f\x8b", Stranger("a gzip file", "unpack it first")),
    (0, b"\x7fELF", Stranger("an ELF binary", "give a model file")),
    (
        0,
        b"version https://git-lfs",
        Stranger("a Git LFS pointer", "fetch the file with: git lfs pull"),
    ),
    (0, b"<!DOCTYPE", _PAGE),
    (0, b"<!doctype", _PAGE),
    (0, b"<html", _PAGE),
    (0, b"\x89PNG", _PICTURE),
    (0, b"\xff\xd8\xff", _PICTURE),
    (0, b"BM", _PICTURE),
    (0, b"GIF8", _PICTURE),
    (0, b"\x93NUMPY", Stranger("an array of numpy", "give a model; arrays go with --input")),
    (
        4,
        b"TFL",
        Stranger("a TFLite model of another schema version", "version 3 (TFL3) is known"),
    ),
    (
        4,
        b"ET",
        Stranger("an ExecuTorch program of another version", "ET12 is known; export it again"),
    ),
    (4, b"BP", Stranger("a bundled program of another version", "BP08 and BP04 are known")),
    (4, b"XN", Stranger("an XNNPACK graph of another version", "XN00 and XN01 are known")),
)
"""Files by bytes at an offset."""

_SUFFIXES = {
    ".mlmodel": routes.CORE_ML,
    ".pb": routes.FROZEN,
    ".safetensors": routes.SAFETENSORS,
}
"""Files without mark by the ends of their names."""

_ARCHIVE = b"PK\x03\x04"
_HEAD_BYTES = 4096


def stranger(data: bytes | bytearray | memoryview, path: str) -> tuple[int, Stranger] | None:
    """What a file is that is not read here, and the offset that tells; None if nobody knows.

    Args:
        data: the file, or its first bytes.
        path: its name, which decides where the format has no mark.
    """
    head, name = bytes(data[:_HEAD_BYTES]), PurePath(path)
    if head.startswith(_ARCHIVE):
        return 0, _archive(data)
    for offset, mark, found in _MARKS:
        if head[offset:].startswith(mark):
            return offset, found
    if _is_safetensors(head):
        return 8, routes.SAFETENSORS
    if head.lstrip().startswith((b"<?xml", b"<net")) and b"<net " in head:
        return 0, routes.OPENVINO
    if name.name == "saved_model.pb":
        return 0, routes.SAVED_MODEL
    suffix = _SUFFIXES.get(name.suffix.lower())
    return None if suffix is None else (0, suffix)


def _archive(data: bytes | bytearray | memoryview) -> Stranger:
    """What a ZIP archive is, by the names of its members."""
    try:
        with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
            return routes.of_archive(archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, struct.error):
        # The directory at its end is broken, or missing.
        return routes.ARCHIVE


def _is_safetensors(head: bytes) -> bool:
    """Whether bytes begin with the length of a header, and this with an object of JSON."""
    return head[6:8] == b"\0\0" and head[8:9] == b"{" and head[9:10] in b'"_ }\n'
