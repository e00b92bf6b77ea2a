"""Labels of classes."""

from __future__ import annotations

import os
import re

from fitzroy.base.errors import FormatError
from fitzroy.base.files import read_file
from fitzroy.formats.labels import is_model, labels_of_file
from fitzroy.tflite_runtime.errors import raising

__all__ = ["read_label_file"]

_NUMBERED = re.compile(r"(\d{1,18})[:\s]+(.*)", re.ASCII)


def read_label_file(file_path: str | os.PathLike[str]) -> dict[int, str]:
    """Names of classes by number.

    Args:
        file_path: a text with one label per line, some or all as ``number name`` or
            ``number: name``; the others have the number of their line, counted from 0. Or a TFLite
            model that has names of its classes.

    Raises:
        UsageError: the file cannot be read; an OSError, too.
        FormatError: it is no UTF-8 text, or a model without names; a ValueError, too.
    """
    with raising(OSError):
        data = read_file(file_path)
    if is_model(data):
        with raising(ValueError):
            return labels_of_file(data, os.fspath(file_path))
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        with raising(ValueError):
            raise FormatError(
                "labels must be UTF-8 text", path=os.fspath(file_path), offset=error.start
            ) from None
    labels = {}
    for number, line in enumerate(map(str.strip, lines)):
        match = _NUMBERED.fullmatch(line)
        labels[int(match[1]) if match else number] = match[2] if match else line
    return labels
