"""Centred codes, on which the fast kernels of the twin compute, and what becomes of their sums.

A centred code is a stored 8-bit value without its zero point, -255 to 255, held as float32. Sums
of their products are integers, which float32 holds as long as every partial sum stays below 2^24.
So results equal those of the chip, which sums integers, and rounds once to float32 before it
scales. Zero points cancel out of all sums.

Arrays of codes have an axis of images before those of their tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    OutputStage,
    copy_stage,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import keeps_bytes
from fitzroy.compiler.targets.edgetpu.twin.semantics import stored_unsigned
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.numerics import Polynomials

Codes = npt.NDArray[np.float32]

Kernel = Callable[[Sequence[Codes], Sequence[Codes]], None]
"""Computes the results of a node, the second argument, from its operands that are not constant."""

Single = Callable[[Sequence[Codes], Codes], None]
"""Computes the only result of a node likewise."""

EXACT = 1 << 24
"""Integers of up to this magnitude are exact in float32."""

BLOCK_BYTES = 512 << 10
"""What stays in a core's own cache."""

ANY = Activation.NONE.bounds
"""Bounds that let every number pass."""

_LANES = 4096
"""Elements of the innermost loop that make its overhead small."""


def span(type: TensorType) -> tuple[int, int]:
    """The smallest and the largest centred code of a tensor."""
    zero = unsigned_zero_point(type)
    return -zero, LARGEST - zero


def reach(type: TensorType) -> int:
    """The largest magnitude of a centred code of a tensor."""
    return max(map(abs, span(type)))


def centred(x: Array, type: TensorType) -> Codes:
    """The codes of stored elements."""
    return (stored_unsigned(x, type) - unsigned_zero_point(type)).astype(np.float32)


def exact_type(most: int) -> type[np.float32] | type[np.float64]:
    """The type that holds integers of up to a magnitude."""
    return np.float32 if most <= EXACT else np.float64


def operands_of(call: Call) -> Callable[[Sequence[Codes]], list[Codes]]:
    """All operands of a node of which some are constant, ready to be broadcast to its result.

    Args:
        call: a node, all of whose operands have codes.
    """
    rank = call.result.type.rank
    constants = [
        None if value is None or value.data is None else centred(value.data, value.type)
        for value in call.inputs
    ]

    def operands(given: Sequence[Codes]) -> list[Codes]:
        rest = iter(given)
        return [_aligned(next(rest), rank) if item is None else item for item in constants]

    return operands


def _aligned(x: Codes, rank: int) -> Codes:
    """Codes with as many axes behind that of the images as a tensor of a rank has."""
    images, *shape = x.shape
    return x.reshape(images, *(1,) * (rank - len(shape)), *shape)


@dataclass(frozen=True)
class Finish:
    """Scaling, clamping and rounding of sums.

    Attributes:
        scale: factor of the sums: one, one per channel (`spread`), or whatever is broadcast.
        low: smallest centred code.
        high: largest.
        function: of the scaled sums, which gives centred codes; None for the sums themselves.
    """

    scale: Codes
    low: np.float32
    high: np.float32
    function: Polynomials | None = None

    @classmethod
    def of(
        cls,
        stage: OutputStage,
        scale: Array | float | None = None,
        function: Polynomials | None = None,
    ) -> Finish:
        """What an output stage does, perhaps with other factors, or with a function.

        Args:
            stage: the output stage.
            scale: one factor, or one per channel, in place of the stage's.
            function: what is applied before rounding.
        """
        factor = np.asarray(stage.scale if scale is None else scale, np.float32)
        factor = spread(factor) if factor.ndim == 1 else factor
        if function is not None:
            zero = np.float32(stage.output_zero_point)
            return cls(factor, -zero, np.float32(LARGEST) - zero, function)
        return cls(factor, np.float32(stage.minimum), np.float32(stage.maximum))

    def __call__(self, sums: Codes) -> None:
        """Turn sums into centred codes in their place.

        Args:
            sums: contiguous, if there is a factor per channel.
        """
        if self.scale.ndim == 1:
            by_channel(np.multiply, sums, self.scale)
        else:
            np.multiply(sums, self.scale, out=sums)
        if self.function is not None:
            sums[...] = self.function(sums)
        np.clip(sums, self.low, self.high, out=sums)
        rounded(sums, out=sums)


def spread(values: Array) -> Array:
    """Values per channel, repeated until there are enough for a fast loop, for `by_channel`."""
    return np.tile(values, max(1, _LANES // max(1, len(values))))


def by_channel(function: np.ufunc, x: Array, values: Array) -> None:
    """Compute a function of elements and of values of their channels, in place.

    Args:
        function: the function.
        x: contiguous elements, channels last.
        values: as `spread` gives them.
    """
    flat = x.reshape(-1)
    whole = flat.size - flat.size % len(values)
    main, rest = flat[:whole].reshape(-1, len(values)), flat[whole:]
    function(main, values, out=main)
    function(rest, values[: rest.size], out=rest)


def copy(before: TensorType, after: TensorType, bounds: tuple[float, float] = ANY) -> Finish:
    """What a copy from one quantization to another does with centred codes."""
    stage = copy_stage(before, after, bounds)
    return Finish.of(stage, 1.0 if keeps_bytes(before, after) else None)
