"""Reading files that a user named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from fitzroy.base import budget, routes
from fitzroy.base.errors import CapacityError, UsageError

_PART_BYTES = 1 << 20

PIPE_BYTES = 64 << 20
"""Most bytes of a pipe, which does not say how long it is and may have no end."""


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file, or of a pipe.

    Raises:
        UsageError: it is missing, a directory or a device, or cannot be read.
        CapacityError: it has more bytes than the budget, or than are taken from a pipe.
    """
    where = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode):
                budget.demand(status.st_size, "the file", where=where)
                return file.read()
            if not stat.S_ISFIFO(status.st_mode):
                raise UsageError("a file or a pipe is wanted, this is a device", where=where)
            return _piped(file, where)
    except FileNotFoundError:
        raise UsageError("no such file", where=where) from None
    except IsADirectoryError:
        found = routes.of_folder(_names(path))
        what = "this is a directory" if found is None else f"this is {found.title}"
        hint = "" if found is None else found.route
        raise UsageError(f"a file is wanted, {what}", where=where, hint=hint) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("the file cannot be read", reason=reason, where=where) from None
    except ValueError as error:
        raise UsageError("no usable file name", reason=str(error), where=where) from None


def _names(folder: str | os.PathLike[str]) -> list[str]:
    """Names in a folder; none of one that cannot be listed."""
    try:
        return [item.name for item in Path(folder).iterdir()]
    except OSError:
        return []


def _piped(file: BinaryIO, where: str) -> bytes:
    """All that a pipe gives; it may have no end.

    Raises:
        CapacityError: it is more than `PIPE_BYTES`, or than the budget.
    """
    data = bytearray()
    while part := file.read(_PART_BYTES):
        data += part
        budget.demand(len(data), "what comes from the pipe", where=where)
        if len(data) > PIPE_BYTES:
            raise CapacityError(
                "too much comes from the pipe",
                reason=f"{len(data)} bytes so far, at most {PIPE_BYTES} are taken",
                where=where,
                hint="write it to a file, and give the file",
            )
    return bytes(data)


def text_bytes(text: str) -> bytes:
    """Text as the content of a file, in UTF-8; bytes of paths that are no text are escaped."""
    return text.encode("utf-8", "backslashreplace")
