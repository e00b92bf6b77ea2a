"""Reading files that a user named."""

from __future__ import annotations

import os
from pathlib import Path

from fitzroy.base.errors import UsageError


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a file.

    Raises:
        UsageError: it is missing, a directory, or cannot be read.
    """
    where = os.fspath(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError("no such file", where=where) from None
    except IsADirectoryError:
        raise UsageError("a file is wanted, this is a directory", where=where) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("the file cannot be read", reason=reason, where=where) from None
    except ValueError as error:
        raise UsageError("no usable file name", reason=str(error), where=where) from None
