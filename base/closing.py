"""What has to be closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A context manager out of a `close` method."""

    def close(self) -> None:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
