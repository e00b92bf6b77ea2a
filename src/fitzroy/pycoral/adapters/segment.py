"""Models that say for every pixel what it belongs to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fitzroy.pycoral.adapters.common import Tensors, output_tensor

__all__ = ["get_output"]


def get_output(interpreter: Tensors) -> npt.NDArray[np.uint8]:
    """The first output without its batch: classes [height, width], or scores of every class."""
    result: npt.NDArray[np.uint8] = output_tensor(interpreter, 0)[0].astype(np.uint8)
    return result
