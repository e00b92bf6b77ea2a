"""Files that are packed after a TFLite model, as a ZIP archive at the end of its file.

A FlatBuffers file says nothing about bytes after it, and an archive is found from its end, so that
one file is both. TFLite's metadata keeps labels and vocabularies there.

The reader trusts nothing: it takes files that are stored or deflated, a bounded number of them and
of bytes, and says of the others why it leaves them out. The writer stores them, because TFLite's
own reader takes them as they lie in the file; equal files give equal bytes.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from fitzroy.base.errors import FormatError

_MOST_FILES = 256
_MOST_BYTES = 16 << 20
_LONGEST = 1024
"""Most characters of a name."""

_ENCRYPTED = 1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNIX = 3
_MODE = 0o100644 << 16
_DAY = (1980, 1, 1, 0, 0, 0)
"""The first day that archives can name: what is written does not depend on time."""

_MALFORMED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""What zipfile raises for archives and files in them that are not as they say."""


@dataclass(frozen=True)
class Archive:
    """What is packed after a model.

    Attributes:
        files: contents by name, in order.
        faults: why something in the archive could not be read.
    """

    files: Mapping[str, bytes]
    faults: tuple[str, ...] = ()


def unpacked(data: memoryview) -> Archive | None:
    """The archive at the end of a file; None if the file does not end in one.

    Args:
        data: the whole file.
    """
    file = io.BytesIO(data)
    if not zipfile.is_zipfile(file):
        return None
    try:
        archive = zipfile.ZipFile(file)
    except (*_MALFORMED, NotImplementedError) as error:
        return Archive({}, (f"the archive is malformed: {error}",))
    entries = archive.infolist()
    if len(entries) > _MOST_FILES:
        fault = f"{len(entries)} files in the archive, at most {_MOST_FILES} are read"
        return Archive({}, (fault,))
    files: dict[str, bytes] = {}
    faults: list[str] = []
    room = _MOST_BYTES
    for entry in entries:
        try:
            content = _content(archive, entry, room)
        except FormatError as error:
            faults.append(error.what)
            continue
        room -= len(content)
        if entry.filename in files:
            faults.append(f"{entry.filename!r} is packed twice")
        elif not entry.is_dir():
            files[entry.filename] = content
    return Archive(files, tuple(faults))


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int) -> bytes:
    """The content of a packed file.

    Args:
        archive: the archive.
        entry: the file.
        room: most bytes that it may have.

    Raises:
        FormatError: it is malformed, larger, encrypted, or compressed in another way.
    """
    name = entry.filename
    if len(name) > _LONGEST:
        raise FormatError(f"a packed file has a name of {len(name)} characters")
    if entry.flag_bits & _ENCRYPTED:
        raise FormatError(f"{name!r} is encrypted")
    if entry.compress_type not in _METHODS:
        raise FormatError(f"{name!r} is compressed by method {entry.compress_type}")
    if entry.file_size > room:
        raise FormatError(
            f"{name!r} has {entry.file_size} bytes; {_MOST_BYTES} are read of an archive"
        )
    try:
        # A stream gives no more than the size that the directory states, and checks the sum.
        with archive.open(entry) as stream:
            content = stream.read()
    except _MALFORMED:
        raise FormatError(f"{name!r} is damaged") from None
    if len(content) != entry.file_size:
        raise FormatError(f"{name!r} is damaged")
    return content


def packed(files: Mapping[str, bytes], start: int) -> bytes:
    """An archive to append to a file.

    Args:
        files: contents by name, in order.
        start: bytes of the file before it, which offsets count from.

    Raises:
        FormatError: more files or bytes than the reader takes.
    """
    size = sum(map(len, files.values()))
    if len(files) > _MOST_FILES or size > _MOST_BYTES:
        raise FormatError(
            f"{len(files)} files of {size} bytes after a model, at most {_MOST_FILES} of "
            f"{_MOST_BYTES} are packed"
        )
    if not files:
        return b""
    buffer = io.BytesIO()
    buffer.seek(start)
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _DAY)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            archive.writestr(entry, content)
    return buffer.getvalue()[start:]
