"""Several arrays by name in one ``.npz`` file: a ZIP archive of ``.npy`` files."""

from __future__ import annotations

import io
import zipfile
import zlib

from fitzroy.base import budget
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import npy

MARK = b"PK\x03\x04"
"""First bytes of every archive that has members."""

_MOST_MEMBERS = 1 << 16
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,  # a compression that numpy never writes
    OSError,
    OverflowError,
    RuntimeError,  # an encrypted member
    ValueError,
)


def read_npz(data: bytes, path: str = "") -> dict[str, Array]:
    """The arrays of an archive by name, in its order.

    Args:
        data: the file.
        path: its name, for errors.

    Raises:
        FormatError: the archive or a member is malformed, or a member is no array of numbers.
        CapacityError: a member unpacks to more bytes than the budget has.
    """
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise _refused(f"{len(members)} members, at most {_MOST_MEMBERS} are read", path)
            held = 0
            for member in members:
                name = member.filename.removesuffix(".npy")
                # Packed elements may be many more than the bytes of the file.
                budget.demand(member.file_size, f"array {name!r}", held=held, where=path)
                held += member.file_size
                arrays[name] = npy.read_npy(archive.read(member), f"{path}: {member.filename}")
    except _BROKEN as error:
        raise _refused(str(error) or type(error).__name__, path) from None
    return arrays


def _refused(what: str, path: str) -> FormatError:
    return FormatError(f"no readable .npz file: {what}", path=path)
