"""Options of programs for the Edge TPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from fitzroy.base.options import option


class Partition(StrEnum):
    """Which operators go to the Edge TPU."""

    COST = "cost"
    ALL = "all"


class Optimize(StrEnum):
    """How much is tried for fewer cycles."""

    QUICK = "0"
    ESTIMATED = "1"
    TIMED = "2"


@dataclass(frozen=True)
class EdgeTpuOptions:
    """Options of programs for the Edge TPU.

    Attributes:
        partition: which operators go to the chip.
        conservative: whether to keep to forms of instructions that published programs have, and to
            the envelope of their properties.
        confirmed: a report of probes; only what is published, or confirmed there, may be used.
            Chunks of instructions are short only if it confirms that they may be.
        min_runtime_version: oldest runtime that has to run the model.
        reduce_outputs: whether the chip reduces scores to what the host reads of them.
        optimize: how much is tried for fewer cycles.
    """

    panel: ClassVar[str] = "Edge TPU"

    partition: Partition = option(
        Partition.COST,
        "[b]all[/b] maps every supported operator to the chip; [b]cost[/b] leaves operators on the "
        "host if their transfers cost more than the chip saves.",
    )
    conservative: bool = option(
        False,
        "Use only instruction forms of published programs, and stay within the envelope of their "
        "properties.",
    )
    confirmed: Path | None = option(
        None,
        "Use only forms and properties of published programs, or those that this report of fitzroy "
        "probe confirms. Only with it are chunks of instructions short, to overlap with execution.",
        metavar="P.json",
    )
    min_runtime_version: int = option(
        14, "Oldest runtime that must be able to run the model.", metavar="N", short="-m"
    )
    reduce_outputs: bool = option(
        True,
        "Reduce scores on the chip before ARG_MAX and TFLite_Detection_PostProcess, where that is "
        "faster; results are the same.",
    )
    optimize: Optimize = option(
        Optimize.ESTIMATED,
        "Effort for fewer cycles: [b]0[/b] skips comparisons that take long, [b]1[/b] compares "
        "estimates, [b]2[/b] also compiles variants and keeps the fastest on the timing model.",
    )
