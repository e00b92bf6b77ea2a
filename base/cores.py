"""How many cores this process may use, and how many threads multiply matrices on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What libraries of linear algebra go by when they are loaded."""

_QUOTA = "/sys/fs/cgroup/cpu.max"
"""Microseconds that a container may compute, and in how many; Linux's control groups, version 2."""


def cores() -> int:
    """How many threads of this process may compute at a time, at least 1.

    That is the cores that it may run on, or fewer if a container's quota or one of the variables
    `THREADS` says so.
    """
    return min(_own(), _granted(_QUOTA), *(_number(os.environ.get(name, "")) for name in THREADS))


def _own() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_MANY = 1 << 16
"""More than any machine has."""


def _number(text: str) -> int:
    """A number of threads; a list of them has one for each level of nesting."""
    first = text.split(",")[0].strip()
    return max(1, int(first)) if first.isascii() and first.isdigit() else _MANY


def _granted(path: str) -> int:
    """The cores of a container's quota, rounded up."""
    try:
        quota, period = Path(path).read_text(encoding="ascii").split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        # There is no such file, or it says that there is no quota.
        return _MANY


@contextmanager
def products_on(threads: int) -> Iterator[None]:
    """Let so many threads, at most, compute each product of matrices, in the whole process."""
    with _libraries().limit(limits=threads, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
