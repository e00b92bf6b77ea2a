"""What every model has: inputs that are images, and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fitzroy.base.types import Array

__all__ = [
    "dequantize",
    "input_details",
    "input_size",
    "input_tensor",
    "output_tensor",
    "set_input",
    "set_resized_input",
]


class Tensors(Protocol):
    """What adapters need of an interpreter, which TFLite's have, too."""

    def get_input_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the inputs."""
        ...

    def get_output_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the outputs."""
        ...

    def tensor(self, tensor_index: int, /) -> Callable[[], Array]:
        """A function that gives a tensor itself."""
        ...


def output_tensor(interpreter: Tensors, i: int) -> Array:
    """The i-th output itself; the next inference overwrites it."""
    return interpreter.tensor(interpreter.get_output_details()[i]["index"])()


def dequantize(interpreter: Tensors, i: int) -> Array:
    """The real numbers that the i-th output stands for; a copy.

    Quantized tensors become float64, others keep their type.
    """
    details = interpreter.get_output_details()[i]
    stored = output_tensor(interpreter, i)
    scale, zero_point = details["quantization"]
    if not np.issubdtype(details["dtype"], np.integer) or not scale:
        return stored.copy()
    real: Array = scale * (stored.astype(np.int64) - zero_point)
    return real


def input_details(interpreter: Tensors, key: str) -> Any:
    """One of the details of the first input, such as ``shape`` or ``dtype``."""
    return interpreter.get_input_details()[0][key]


def input_size(interpreter: Tensors) -> tuple[int, int]:
    """Width and height of the image that the model takes."""
    _, height, width, _ = input_details(interpreter, "shape")
    return int(width), int(height)


def input_tensor(interpreter: Tensors) -> Array:
    """The image of the first input itself [height, width, channels], to write into."""
    image: Array = interpreter.tensor(input_details(interpreter, "index"))()[0]
    return image


def set_input(interpreter: Tensors, data: Any) -> None:
    """Copy an image to the first input; elements are converted as numpy does on assignment.

    Args:
        interpreter: the model.
        data: an array, or an image of Pillow, of the model's height and width.
    """
    tensor, pixels = input_tensor(interpreter), np.asarray(data)
    # Grey images have no axis of channels.
    tensor[...] = pixels.reshape(tensor.shape) if pixels.size == tensor.size else pixels


def set_resized_input(
    interpreter: Tensors,
    size: tuple[int, int],
    resize: Callable[[tuple[int, int]], Any],
) -> tuple[Any, tuple[float, float]]:
    """Fit an image into the first input; what it does not fill becomes 0.

    Args:
        interpreter: the model.
        size: width and height of the image.
        resize: gives the image in another width and height.

    Returns:
        What `resize` gave, and by how much width and height were multiplied.
    """
    bounds = input_size(interpreter)
    scale = min(bound / extent for bound, extent in zip(bounds, size, strict=True))
    width, height = (int(extent * scale) for extent in size)
    tensor = input_tensor(interpreter)
    resized = resize((width, height))
    tensor[...] = 0
    tensor[:height, :width] = np.reshape(resized, (height, width, tensor.shape[2]))
    return resized, (scale, scale)
