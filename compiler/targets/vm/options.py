"""Options of bytecode modules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from fitzroy.base.options import option


class Accelerator(StrEnum):
    """What computes in the place of a module's host."""

    NONE = "none"
    EDGETPU = "edgetpu"
    XNNPACK = "xnnpack"


@dataclass(frozen=True)
class VmOptions:
    """Options of bytecode modules.

    Attributes:
        accelerator: what computes all that it can; the rest is the host's.
    """

    panel: ClassVar[str] = "Modules"

    accelerator: Accelerator = option(
        Accelerator.NONE, "What computes in the place of the host where it can."
    )


@dataclass(frozen=True)
class ModuleOptions(VmOptions):
    """Options of a module and of the target that is its accelerator.

    Attributes:
        inner: options of the target of the accelerator's name; None without one.
    """

    inner: Any = None
