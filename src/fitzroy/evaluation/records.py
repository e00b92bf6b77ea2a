"""Records of examples in a file, so that an evaluation that was interrupted can go on.

The file has a line of JSON for what is evaluated, and one for each example that is done. A last
line that is not complete, as a process leaves it that is killed, is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, BinaryIO

from fitzroy.base import budget
from fitzroy.base.closing import Closing
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.evaluation.metrics import Record

_KIND = "fitzroy-evaluation-records"
_VERSION = 1


class Records(Closing):
    """What is done, in memory and in a file.

    Args:
        key: digest of all that records depend on.
        count: how many examples there are.
        path: the file, which is made if it is not there; empty for none.

    Attributes:
        found: records by number of the example.

    Raises:
        UsageError: the file cannot be read or written, or is of another evaluation.
        FormatError: it is malformed.
    """

    def __init__(self, key: str, count: int, path: str = "") -> None:
        self.found: dict[int, Record] = {}
        self._header = {"format": _KIND, "version": _VERSION, "key": key, "examples": count}
        self._count = count
        self._path = path
        self._file: BinaryIO | None = None
        if path:
            self._open()

    def _open(self) -> None:
        """Read what is there, and be ready to append."""
        try:
            exists = os.path.exists(self._path) and os.path.getsize(self._path) > 0
            size = self._read() if exists else 0
            self._file = open(self._path, "r+b" if exists else "wb")  # noqa: SIM115
            self._file.seek(size)
            self._file.truncate()
            if not size:
                self._write([self._header])
        except OSError as error:
            raise UsageError(
                "the records cannot be written",
                reason=error.strerror or str(error),
                where=self._path,
            ) from None

    def _read(self) -> int:
        """Take records of the file; returns how many bytes of it are good."""
        data = read_file(self._path)
        budget.demand(8 * len(data), f"the records in {self._path}")
        size = data.rfind(b"\n") + 1
        lines = data[:size].splitlines()
        if not lines:
            return 0
        header = self._parsed(lines[0], 0)
        if header.get("format") != _KIND or header.get("version") != _VERSION:
            raise FormatError("these are no records of an evaluation", path=self._path)
        if header != self._header:
            raise UsageError(
                "the records are of another evaluation",
                reason="the model, the data, the metrics or --against differ",
                where=self._path,
                hint="name another file, or remove this one to begin anew",
            )
        for number, line in enumerate(lines[1:], 1):
            record = self._parsed(line, number)
            example = record.get("example")
            if type(example) is not int or not 0 <= example < self._count:
                raise FormatError(f"line {number + 1} is of no example", path=self._path)
            self.found[example] = record
        return size

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FormatError(f"line {number + 1} is no record", path=self._path)
        return found

    def add(self, records: Iterable[Record]) -> None:
        """Keep records of examples."""
        new = [record for record in records if record["example"] not in self.found]
        self.found |= {record["example"]: record for record in new}
        self._write(new)

    def _write(self, rows: Iterable[Record]) -> None:
        if self._file is not None:
            text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
            self._file.write(text.encode())
            self._file.flush()

    def save(self, path: str) -> None:
        """Begin a file with all that is done.

        Raises:
            UsageError: it cannot be written.
        """
        self._path = path
        done = [self.found[number] for number in sorted(self.found)]
        try:
            self._file = open(path, "wb")  # noqa: SIM115
            self._write([self._header, *done])
        except OSError as error:
            raise UsageError(
                "the records cannot be written", reason=error.strerror or str(error), where=path
            ) from None

    @property
    def left(self) -> list[int]:
        """Numbers of the examples that are not done."""
        return [number for number in range(self._count) if number not in self.found]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
