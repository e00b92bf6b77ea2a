"""Python's search for garbage in cycles, and when it is not worth its time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Search for no cycles meanwhile.

    Python searches whenever some objects have been made, and each search looks at all that are
    alive. What makes many that stay alive would pay for it again and again.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()
