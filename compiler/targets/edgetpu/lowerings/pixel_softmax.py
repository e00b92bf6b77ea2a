"""Softmax of every pixel, or row, without the scalar core.

The distance of each element from the largest one of its pixel goes through a table of exponentials
of 16 bits. Their sum, in units of the largest one, goes through a table of reciprocals, by which
the exponentials are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fitzroy.base.types import Quantization
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, rows_of_images
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.normalization import (
    Normalization,
    Recipe,
    interpolated,
    powers,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage, copy_stage
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import from_positions
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.tensor import NluTable

ONE = 32_000
"""Halfword of the exponential of the largest element."""

UNIT = 65_000
"""Halfword of the reciprocal of one; its product with `ONE` fits 32 bits with a sign."""

LEAST = -12.0
"""Exponents below this one give a halfword of zero."""

MOST_CHANNELS = 1 << 10
"""Up to so many elements, the table of reciprocals is exact to a thousandth."""

_DECAY = 5
"""Segments of exponentials have the same error if they get shorter as exp(x / 5) gets larger."""


def _exponents() -> list[float]:
    """Ends of the segments of the table of exponentials, from `LEAST` to zero."""
    segments = BEAGLE.compute.nlu_segments
    low = math.exp(LEAST / _DECAY)
    shares = [low + (1 - low) * number / segments for number in range(segments + 1)]
    return [_DECAY * math.log(share) for share in shares]


EXPONENTIAL = interpolated(lambda x: ONE * np.exp(x), _exponents())
"""`ONE` times the exponential, for arguments from `LEAST` to zero."""


@cache
def reciprocal(channels: int) -> NluTable:
    """`UNIT` divided by the argument, for arguments from 1 to as many as there are channels."""
    return interpolated(lambda x: UNIT / x, powers(float(max(2, channels))))


class PixelSoftmax(Normalization):
    """Exponentials of the distances of elements from the largest, divided by their sum."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Constants of the output stages of a softmax of pixels.

    Attributes:
        exponential: of the exponentials, from distances that are stored below the largest byte.
        reciprocal: of the reciprocals of the sums.
        product: of the results.
    """

    exponential: OutputStage
    reciprocal: OutputStage
    product: OutputStage

    @classmethod
    def of(cls, call: Call) -> Stages:
        """The stages of an operator."""
        before, after = call.type(), call.result.type
        assert before.quantization is not None
        assert after.quantization is not None
        beta = call.attributes(SoftmaxAttributes).beta
        channels = float(before.shape[-1])
        scale = 1 / (ONE * UNIT * after.quantization.scale[0])
        return cls(
            OutputStage(
                scale=float(np.float32(before.quantization.scale[0] * beta)),
                minimum=LEAST,
                maximum=0.0,
                nlu=True,
            ),
            OutputStage(scale=float(np.float32(1 / ONE)), minimum=1.0, maximum=channels, nlu=True),
            replace(copy_stage(after, after), scale=float(np.float32(scale)), a_zero_point=0),
        )


@requires("softmax")
def _rows(call: Call) -> Iterator[Reject]:
    """Rows of which there are several are summed at a time."""
    size, channels = call.type().size, call.type().shape[-1]
    if size != channels and not 1 < channels <= MOST_CHANNELS:
        yield refused(
            call,
            f"of {size // channels} rows of {channels} elements: 2 to {MOST_CHANNELS} are possible "
            "for several rows",
        )


def _shape(legalizer: Legalizer, call: Call) -> tuple[int, ...]:
    """Shape of an image with a pixel for each row: that of its place if it is one."""
    before, name = call.type(), call.node.inputs[0] or ""
    channels, parts = before.shape[-1], legalizer.parts(name)
    if len(parts) == 1 and not is_vector(legalizer, parts[0]):
        own = legalizer.type(parts[0]).shape
        if own[0] == 1 and own[-1] == channels:
            return own
    if len(before.shape) == IMAGE_RANK:
        return rows_of_images(before)
    return (1, *grid(before.size // channels), channels)


def softmax_of_pixels(legalizer: Legalizer, call: Call) -> None:
    """Add the layers of a softmax of several rows."""
    before, stages = call.type(), Stages.of(call)
    channels = before.shape[-1]
    rewriting = Rewriting.of(legalizer, call)
    shape = _shape(legalizer, call)
    name = rewriting.reshape(call.node.inputs[0] or "", shape)
    type = rewriting.graph.type(name)
    single = replace(type, shape=(*shape[:-1], 1))
    largest = rewriting.emit("reduce_max", [name], single, ReductionAttributes((3,), True))
    assert before.quantization is not None
    top = Quantization.per_tensor(before.quantization.scale[0], before.dtype.limits[1])
    distance = rewriting.emit(
        "sub", [name, largest], replace(type, quantization=top), ActivationAttributes()
    )
    rewriting.run(legalizer)
    source = legalizer.place(distance)
    table = reciprocal(channels)
    recipe = Recipe(EXPONENTIAL, stages.exponential, table, (stages.reciprocal,), False, 0, ())

    def layer(result: str) -> PixelSoftmax:
        return PixelSoftmax(
            name=call.node.name,
            reads=(source,),
            writes=result,
            stage=stages.product,
            recipe=recipe,
        )

    from_positions(legalizer, call.result, source, layer)
