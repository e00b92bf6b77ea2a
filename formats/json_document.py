"""JSON of a bounded size, from files that nobody vouches for."""

from __future__ import annotations

import json
from typing import Any

from fitzroy.base.errors import FormatError


def read_json(data: bytes, path: str, what: str, most: int) -> Any:
    """What a JSON file says.

    Args:
        data: the file.
        path: its name, for errors.
        what: what it is, for errors, as in "a profile".
        most: the most bytes that it may have.

    Raises:
        FormatError: it has more bytes, or is no JSON.
    """
    if len(data) > most:
        raise FormatError(f"{len(data)} bytes, of at most {most} of {what}", path=path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no JSON: {str(error)[:200]}", path=path) from None
