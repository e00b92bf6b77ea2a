"""Options of post-training quantization."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from fitzroy.base.errors import UsageError
from fitzroy.base.options import choose, option
from fitzroy.base.types import DType

MOST_PARTS = 16
"""Most parts of an activation."""


class RangeMethod(StrEnum):
    """How the range of an activation follows from its samples."""

    MSE = "mse"
    MINMAX = "minmax"
    PERCENTILE = "percentile"


class Effort(StrEnum):
    """How much is computed to make the weights fit."""

    FAST = "fast"
    NORMAL = "normal"
    BEST = "best"


class Border(StrEnum):
    """Element type of the inputs or outputs of a quantized model."""

    INT8 = "int8"
    UINT8 = "uint8"
    FLOAT = "float32"

    @property
    def dtype(self) -> DType:
        """The element type."""
        return DType(self.value)


class Mixed(StrEnum):
    """What becomes of an output that joins values of very different ranges."""

    FLOAT = "float"
    SPLIT = "split"
    KEEP = "keep"


@dataclass(frozen=True)
class QuantizeOptions:
    """Options of post-training quantization.

    Attributes:
        ranges: how ranges of activations are found.
        percentile: share of the elements inside of a range, in percent, for that method.
        equalize: whether channels are scaled against one another.
        correct_bias: whether biases take up the mean error.
        per_channel: whether a filter has a scale per output channel.
        effort: how much is computed to make the weights fit.
        trials: most candidates that are compared with the best effort.
        input_type: element type of the inputs.
        output_type: element type of the outputs.
        mixed_outputs: what becomes of outputs that join values of very different ranges.
        keep_float: patterns of operators that stay float32.
        parts: maximum number of parts in which a channel with outliers is computed; None for 4 in
            detectors, else 1.
        tables: whether functions that several operators make up, such as SiLU, are quantized as a
            whole, and with the sums before them, for hardware that computes them at once; None for
            whether the Edge TPU is the target.
    """

    panel: ClassVar[str] = "Quantization"

    ranges: RangeMethod = option(
        RangeMethod.MSE,
        "How the range of a value is chosen: by minimum squared error of the 8-bit value "
        "([b]mse[/b]), by its smallest and largest element ([b]minmax[/b]), or by all but a few "
        "elements ([b]percentile[/b]).",
    )
    percentile: float = option(
        99.99, "With --ranges percentile: percentage of elements within the range.", metavar="P"
    )
    equalize: bool = option(
        True, "Scale channels so that channels with small values also use all 8 bits."
    )
    correct_bias: bool = option(True, "Compensate the mean quantization error in the biases.")
    per_channel: bool = option(True, "Give each output channel of a filter its own scale.")
    effort: Effort = option(
        Effort.NORMAL,
        "[b]fast[/b] rounds weights to nearest; [b]normal[/b] compensates rounding and corrects "
        "biases, measured on the quantized results of earlier layers; [b]best[/b] also tries other "
        "methods and keeps the result closest to float32.",
    )
    trials: int = option(
        6,
        "With --effort best: maximum number of candidates. Each takes about as long as the normal "
        "effort.",
        metavar="N",
    )
    input_type: Border = option(Border.INT8, "Element type of the inputs.")
    output_type: Border = option(Border.INT8, "Element type of the outputs.")
    mixed_outputs: Mixed = option(
        Mixed.FLOAT,
        "For an output that joins values of very different ranges, such as boxes and scores: join "
        "them as [b]float[/b] on the host, [b]split[/b] them into separate outputs, or [b]keep[/b] "
        "one scale. With float, boxes of a detector are decoded in float32, too. Except with keep, "
        "a final sigmoid or softmax is computed in float32 if outputs are float32.",
    )
    keep_float: list[str] | None = option(
        None,
        "Keep operators float32, on the host, whose kind or result matches a pattern such as "
        "'SOFTMAX' or 'head/*'. Once per pattern.",
        metavar="PATTERN",
    )

    parts: int | None = option(
        None,
        "Compute channels with outliers in up to N parts with smaller steps: more work, less "
        "noise. [dim]default: 4 in detectors, else 1[/dim]",
        metavar="N",
    )
    tables: bool | None = option(
        None,
        "Quantize a function that several operators make up, such as SiLU, as a whole, and with "
        "it the sums of a convolution before it. The operators stay float32 between 8-bit values, "
        "and the Edge TPU computes them at once; other hardware computes them in float32. "
        "[dim]default: only when compiling for the Edge TPU[/dim]",
    )

    def __post_init__(self) -> None:
        choose(self)

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: which one.
        """
        if not 50.0 < self.percentile <= 100.0:
            raise UsageError(
                "--percentile is more than 50 and at most 100",
                reason=f"{self.percentile:g} is given",
            )
        if self.parts is not None and not 1 <= self.parts <= MOST_PARTS:
            raise UsageError(f"--parts is 1 to {MOST_PARTS}", reason=f"{self.parts} is given")
        if self.trials < 1:
            raise UsageError("--trials is at least 1", reason=f"{self.trials} is given")
