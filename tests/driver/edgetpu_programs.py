"""Tiny programs of the Edge TPU that a simulator, or a device, can run."""

from __future__ import annotations

from fitzroy.driver.runtime.selftest import PROGRAM as ECHO
from fitzroy.driver.runtime.selftest import SIZE
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link

__all__ = ["ECHO", "POP", "SIZE", "WAIT", "echo"]

POP = "    pop memory=activation popped=@0\n        buffer: 0 [32*1]\n"
"""Without it, nothing gets from the host to the infeed."""

WAIT = " idle=ring_consume_a"
"""Without it, the row may leave the tile before it has arrived."""


def echo(drop: str = "", *, signed: bool = False) -> PackageFile:
    """The package of the self-test's program.

    Args:
        drop: a part of the text to leave out.
        signed: whether elements are int8 instead of uint8.
    """
    assert drop in ECHO
    text = ECHO.replace(drop, "", 1)
    if signed:
        text = text.replace('"data_type":0', '"data_type":8')
    return link([parse_object(text)])[0]
