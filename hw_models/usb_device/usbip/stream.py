"""Bytes of a connection, with one deadline for all of a message."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time

from fitzroy.base.closing import Closing

_PART_BYTES = 256 << 10


class SocketStream(Closing):
    """What a connection sends; the other side cannot put off the deadline by a byte now and then.

    Writers of the same connection keep their own time limits.

    Args:
        connection: the connection; it stays open.
        seconds: how long the first message may take, from now on.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._end: float | None = time.monotonic() + seconds
        self._held = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)

    def close(self) -> None:
        """Forget the connection."""
        self._selector.close()

    def rest(self, seconds: float) -> None:
        """A message has ended: the next one may begin at any time, and take so long from then."""
        self._seconds = seconds
        self._end = None

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer only if the connection ends.

        Raises:
            TimeoutError: the message takes too long.
            OSError: the connection fails.
        """
        while len(self._held) < size:
            part = self._part()
            if not part:
                break
            self._held += part
        data = bytes(self._held[:size])
        del self._held[:size]
        if data and self._end is None:
            self._end = time.monotonic() + self._seconds
        return data

    def _part(self) -> bytes:
        """The bytes that come next; none at the end."""
        left = None if self._end is None else max(self._end - time.monotonic(), 0.0)
        if not self._selector.select(left):
            raise TimeoutError(
                errno.ETIMEDOUT, f"{os.strerror(errno.ETIMEDOUT)} after {self._seconds:g} s"
            )
        return self._connection.recv(_PART_BYTES)
