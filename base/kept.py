"""Results that are kept for the next call, in a limited amount of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar, TypeVarTuple

Args = TypeVarTuple("Args")
Result = TypeVar("Result")

_ENTRY_BYTES = 1 << 10
"""What a result takes beside its data: its key, and its place."""


def kept(
    most: int, size: Callable[[Result], int]
) -> Callable[[Callable[[*Args], Result]], Callable[[*Args], Result]]:
    """Keep results of a function; those that were used least recently go first.

    Unlike `functools.lru_cache`, this counts bytes, because results of one function may be a
    million times larger than others. A result that would take a quarter of the room is not kept.

    Args:
        most: most bytes of all results together.
        size: bytes of a result.

    Returns:
        A decorator; arguments of the function have to be positional and hashable.
    """

    def decorate(make: Callable[[*Args], Result]) -> Callable[[*Args], Result]:
        found: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        lock = threading.Lock()
        used = 0

        @wraps(make)
        def get(*args: *Args) -> Result:
            nonlocal used
            with lock:
                entry = found.get(args)
                if entry is not None:
                    found.move_to_end(args)
                    return entry[0]
            result = make(*args)
            count = size(result) + _ENTRY_BYTES
            if count > most // 4:
                return result
            with lock:
                if args not in found:
                    found[args] = result, count
                    used += count
                while used > most:
                    used -= found.popitem(last=False)[1][1]
            return result

        return get

    return decorate
