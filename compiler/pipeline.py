"""The passes of each target, in order."""

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
from fitzroy.compiler.passes.uint8 import LegalizeUint8, Uint8Policy
from fitzroy.compiler.targets.xnnpack.legalize import LegalizeXnnpack

CANONICALIZE: tuple[Pass, ...] = (
    DeadCode(),
    FoldConstants(),
    ExplicitPadding(),
    FoldPadding(),
    Simplify(),
    FuseActivations(),
)


def xnnpack(uint8: Uint8Policy = Uint8Policy.EXACT) -> tuple[Pass, ...]:
    """Passes before the partitioner for XNNPACK inside ExecuTorch."""
    signed = (LegalizeUint8(),) if uint8 is Uint8Policy.FAST else ()
    return (*CANONICALIZE, *signed, LegalizeXnnpack(), FoldConstants(), Simplify())
