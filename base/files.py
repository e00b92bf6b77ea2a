"""Reading files that a user named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from fitzroy.base import budget
from fitzroy.base.errors import UsageError

_PART_BYTES = 1 << 20


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file.

    Raises:
        UsageError: it is missing, a directory, or cannot be read.
        CapacityError: it has more bytes than the budget.
    """
    where = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            budget.demand(os.fstat(file.fileno()).st_size, "the file", where=where)
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
            return _stream(file, where)
    except FileNotFoundError:
        raise UsageError("no such file", where=where) from None
    except IsADirectoryError:
        raise UsageError("a file is wanted, this is a directory", where=where) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("the file cannot be read", reason=reason, where=where) from None
    except ValueError as error:
        raise UsageError("no usable file name", reason=str(error), where=where) from None


def _stream(file: BinaryIO, where: str) -> bytes:
    """All that a pipe or a device gives; it may have no end."""
    data = bytearray()
    while part := file.read(_PART_BYTES):
        data += part
        budget.demand(len(data), "what is read", where=where)
    return bytes(data)


def text_bytes(text: str) -> bytes:
    """Text as the content of a file, in UTF-8; bytes of paths that are no text are escaped."""
    return text.encode("utf-8", "backslashreplace")
