"""Options of programs for XNNPACK."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from fitzroy.base.options import option


class Uint8Policy(StrEnum):
    """How uint8 models are computed."""

    EXACT = "exact"
    FAST = "fast"


@dataclass(frozen=True)
class XnnpackOptions:
    """Options of programs for XNNPACK.

    Attributes:
        uint8: how uint8 models are computed: exactly, or fast with int8 kernels.
    """

    panel: ClassVar[str] = "XNNPACK"

    uint8: Uint8Policy = option(
        Uint8Policy.EXACT,
        "uint8 models: [b]exact[/b] keeps every bit, [b]fast[/b] uses int8 kernels.",
    )
