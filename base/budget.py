"""The byte budget: what may be allocated by a size that a file, a device or a user gives.

Sizes in files cost nothing to write, and memory does: 155 bytes of text can ask for a tensor of
13 GiB. Whatever allocates by such a size asks here first, and is refused with a `CapacityError`
that names both numbers. Sizes that are backed by as many bytes of a file need not ask.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fitzroy.base.errors import CapacityError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from fitzroy.base.types import Array

VARIABLE = "FITZROY_MEMORY"
"""The environment variable that sets the budget, as in ``4GiB``."""

DEFAULT = 4 << 30
"""The budget where nothing else is said, in bytes."""

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}b": factor for unit, factor in _UNITS.items() if len(unit) == 1 and unit != "b"}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)\s*", re.ASCII)

_chosen: list[int] = []
"""Budgets that were set in this process; the last one holds."""


def parse(text: str, option: str) -> int:
    """Bytes of an amount of memory such as ``4GiB``, ``500 MB`` or ``1048576``.

    Args:
        text: the amount.
        option: what gives it, for the error.

    Raises:
        UsageError: the text is no amount, or none that is positive.
    """
    match = _AMOUNT.fullmatch(text)
    factor = _UNITS.get(match[2].lower()) if match else None
    count = int(float(match[1]) * factor) if match and factor else 0
    if count < 1:
        raise UsageError(
            f"{option} takes an amount of memory",
            reason=f"{text!r} is given",
            hint=f"write it as 512MiB or 4GiB: {option} 4GiB",
        )
    return count


def limit() -> int:
    """The budget in bytes: as set in this process, else by the environment, else the default.

    Raises:
        UsageError: the environment variable holds no amount of memory.
    """
    if _chosen:
        return _chosen[-1]
    text = os.environ.get(VARIABLE)
    return parse(text, VARIABLE) if text else DEFAULT


@contextmanager
def limited(count: int) -> Iterator[None]:
    """Let a budget of `count` bytes hold in the whole process for a while."""
    _chosen.append(count)
    try:
        yield
    finally:
        _chosen.pop()


def demand(wanted: int, what: str, *, held: int = 0, where: str = "") -> None:
    """Ask for memory before it is allocated.

    Args:
        wanted: bytes to allocate.
        what: what they are for, such as a tensor by its name and type.
        held: bytes that are in use already and stay so meanwhile.
        where: the file or the operator concerned.

    Raises:
        CapacityError: there are more than the budget has.
    """
    allowed = limit()
    if wanted + held <= allowed:
        return
    more = f" beside {_amount(held)} in use" if held else ""
    enough = 1 << (wanted + held - 1).bit_length()
    raise CapacityError(
        f"{what} wants {_amount(wanted)} of memory",
        reason=f"{wanted} bytes{more}, and the budget is {_amount(allowed)}",
        where=where,
        hint=f"if that is meant, raise the budget: fitzroy --memory {_amount(enough, '')}, or "
        f"{VARIABLE}={_amount(enough, '')}",
    )


def zeros(shape: Sequence[int], dtype: npt.DTypeLike, what: str, *, where: str = "") -> Array:
    """An array of zeros within the budget.

    Args:
        shape: its extents.
        dtype: its element type.
        what: what it is for, for the error.
        where: the file or the operator concerned.

    Raises:
        CapacityError: it has more bytes than the budget.
    """
    import numpy as np

    demand(math.prod(shape) * np.dtype(dtype).itemsize, what, where=where)
    return np.zeros(tuple(shape), dtype)


def _amount(count: int, space: str = " ") -> str:
    """A number of bytes for people: ``812 B``, ``3.5 KiB``, ``2.9 TiB``, ``4 GiB``."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    text = f"{size:.1f}".removesuffix(".0")
    return f"{text}{space}{unit}"
