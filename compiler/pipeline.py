"""The passes of each target, in order; `docs/passes.md` has them with what comes after them.

A model is imported, runs through these passes, has its nodes placed, and is lowered: to a
`formats.method.Method` for ExecuTorch, to a `formats.object_file.ObjectFile` for each part on an
Edge TPU, to a `targets.vm.program.EntryPoint` for the virtual machine. The linker makes files of
these. `edgetpu` and `vm` take graphs as they are: what they leave to the host is the model's own.
"""

from __future__ import annotations

from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.canonicalize import (
    DeadCode,
    ExplicitPadding,
    FoldConstants,
    FoldPadding,
    FuseActivations,
    Simplify,
)
from fitzroy.compiler.passes.uint8 import LegalizeUint8
from fitzroy.compiler.targets.xnnpack.legalize import LegalizeXnnpack
from fitzroy.compiler.targets.xnnpack.options import Uint8Policy

CANONICALIZE: tuple[Pass, ...] = (
    DeadCode(),
    FoldConstants(),
    ExplicitPadding(),
    FoldPadding(),
    Simplify(),
    FuseActivations(),
)


def xnnpack(uint8: Uint8Policy = Uint8Policy.EXACT) -> tuple[Pass, ...]:
    """Passes before nodes are placed on XNNPACK and on portable kernels."""
    signed = (LegalizeUint8(),) if uint8 is Uint8Policy.FAST else ()
    return (*CANONICALIZE, *signed, LegalizeXnnpack(), FoldConstants(), Simplify())


def portable() -> tuple[Pass, ...]:
    """Passes before nodes are placed on portable kernels alone."""
    return CANONICALIZE
