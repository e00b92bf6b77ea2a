"""The stages of each target, from the imported graph to what the linker takes.

| target | passes | placed on | lowered to | linked to |
|---|---|---|---|---|
| `xnnpack` | `xnnpack()` | XNNPACK, then portable kernels | `formats.method.Method` | `.pte` |
| `portable` | `portable()` | portable kernels | `formats.method.Method` | `.pte` |
| `edgetpu` | none | the chip, then the host | `formats.object_file.ObjectFile` | `.tflite` |
| `vm` | none | the host | `targets.vm.program.EntryPoint` | `.module` |
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
