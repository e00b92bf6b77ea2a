"""Channels of an image in another order, or with others between them, by a convolution.

Words hold four channels, so that copies move no others. A convolution of one pixel with weights of
zero and one gives the same bytes anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting

FILL = -1
"""In the place of a channel's number: the fill."""

_MOST_WEIGHTS = 1 << 22
"""Weights of a convolution that puts channels in order; a chip holds twice as many."""


def picked(
    rewriting: Rewriting, image: str, order: Sequence[int], type: TensorType, fill: int = 0
) -> str:
    """An image whose channels are those of another in an order; returns its name.

    Args:
        rewriting: gets the convolution.
        image: the image [1,h,w,c].
        order: for each channel of the result, the number of the channel that it is, or `FILL`.
        type: type of the result [1,h,w,len(order)], quantized as the image is.
        fill: steps from the zero point to what fills channels.

    Raises:
        UnsupportedError: there are too many channels.
    """
    before = rewriting.graph.type(image)
    assert before.quantization is not None
    count = before.shape[-1]
    if count * len(order) > _MOST_WEIGHTS:
        raise UnsupportedError(
            f"{rewriting.call.node.name!r} makes {len(order)} of {count} channels, which are "
            f"{count * len(order)} weights: at most {_MOST_WEIGHTS} put channels in order"
        )
    chosen = np.asarray(order)
    weights = np.zeros((len(chosen), 1, 1, before.shape[-1]), before.dtype.numpy)
    (known,) = np.nonzero(chosen != FILL)
    weights[known, 0, 0, chosen[known]] = 1
    names = [image, rewriting.constant(weights, 1.0)]
    if fill:
        biases = np.where(chosen == FILL, fill, 0).astype(np.int32)
        scale = Quantization.per_tensor(before.quantization.scale[0])
        names.append(rewriting.graph.add_constant(f"{image}/fill", biases, scale))
    return rewriting.emit("conv_2d", names, type, ConvAttributes())
