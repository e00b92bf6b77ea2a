"""Tiny programs of the Edge TPU that a simulator, or a device, can run."""

from __future__ import annotations

from dataclasses import replace

from fitzroy.driver.runtime.selftest import PROGRAM as ECHO
from fitzroy.driver.runtime.selftest import SIZE
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link

__all__ = ["ECHO", "PARAMETERS", "POP", "SIZE", "WAIT", "cached", "echo", "followed"]

PARAMETERS = bytes((5 * n + 3) & 0xFF for n in range(SIZE))
"""What the program `cached` keeps on the chip."""

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


def cached() -> PackageFile:
    """A program that sends parameters on the chip, and then its input, to output "y".

    Whatever makes the chip forget its parameters shows in the first half of the output.
    """
    data = "".join(f".data {PARAMETERS[n : n + 64].hex()}\n" for n in range(0, SIZE, 64))
    operand = (
        '.operand {"name":"p","kind":0,"lanes":64,"prefix":0}\n'
        f'.run {{"tile":0,"row":0,"words":1,"units":4,"group":0}}\n{data}'
    )
    text = ECHO
    for old, new in (
        ('"name":"y","size_bytes":256', '"name":"y","size_bytes":512'),
        ('"z_dim":256', '"z_dim":512'),
        (".text {}", f"{operand}.text {{}}"),
        ("    mov s6, 3 |", "    mov s5, 512\n    descriptor size, s5\n    mov s6, 3 |"),
        ("buffer: 0 [32*0]\n", "buffer: 0 [32*0 2*0]\n"),
        ("to_outfeed\n        wide: 0x800 [1*1]", "to_outfeed\n        wide: 0 [2*2048]"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return link([parse_object(text)])[0]


def followed() -> PackageFile:
    """The package of `echo`, as if its course depended on data: the host has no script for it."""
    package = echo()
    (main,) = package.executables
    hints = main.dma_hints
    assert hints is not None
    main = replace(main, dma_hints=replace(hints, hints=[], fully_deterministic=False))
    return replace(package, executables=[main])
