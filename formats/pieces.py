"""Bytes in pieces, which are joined once: files have parts that fill much of the memory."""

from __future__ import annotations

from typing import Any, Union

LARGE = 1 << 20
"""Bytes of a part from which on copying it once less is worth keeping it apart."""


class Pieces:
    """Bytes that are being written; those of large parts stay where they are.

    Attributes:
        nbytes: how many there are.
    """

    __slots__ = ("_parts", "nbytes")

    def __init__(self) -> None:
        self._parts: list[bytearray | memoryview] = []
        self.nbytes = 0

    def __len__(self) -> int:
        return self.nbytes

    def __iadd__(self, data: Bytes) -> Pieces:
        if isinstance(data, Pieces):
            for part in data._parts:
                self += part
            return self
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        if len(view) >= LARGE:
            self._parts.append(view)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += view
        else:
            self._parts.append(bytearray(view))
        self.nbytes += len(view)
        return self

    def joined(self) -> bytes:
        """All of them, in one piece."""
        return b"".join(self._parts)


Bytes = Union[bytes, bytearray, memoryview, Pieces]  # noqa: UP007
"""What can be appended."""


def unjoined(pieces: bytes | Pieces) -> Any:
    """Pieces in the place of bytes or uint8[n], in what is written and never read."""
    return pieces
