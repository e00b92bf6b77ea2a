"""Results that are kept for the next call, in a limited amount of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

_ENTRY_BYTES = 1 << 10
"""What a result takes beside its data: its key, and its place."""


def kept(
    most: int, size: Callable[[Any], int]
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Keep results of a function; those that were used least recently go first.

    Unlike `functools.lru_cache`, this counts bytes, because results of one function may be a
    million times larger than others. A result that would take a quarter of the room is not kept.

    Args:
        most: most bytes of all results together.
        size: bytes of a result.

    Returns:
        A decorator; arguments of the function have to be hashable.
    """

    def decorate(make: Callable[P, Result]) -> Callable[P, Result]:
        found: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        lock = threading.Lock()
        used = 0

        @wraps(make)
        def get(*args: P.args, **kwargs: P.kwargs) -> Result:
            nonlocal used
            key = args, *kwargs.items()
            with lock:
                entry = found.get(key)
                if entry is not None:
                    found.move_to_end(key)
                    return entry[0]
            result = make(*args, **kwargs)
            count = size(result) + _ENTRY_BYTES
            if count > most // 4:
                return result
            with lock:
                if key not in found:
                    found[key] = result, count
                    used += count
                while used > most:
                    used -= found.popitem(last=False)[1][1]
            return result

        return get

    return decorate
