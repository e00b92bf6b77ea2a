"""Tensors of several rows as images, a position for each, so that operators of pixels apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fitzroy.compiler.ir import Value
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_image_of, as_vector
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import image_shape, temporary
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector


def as_positions(legalizer: Legalizer, name: str, channels: int) -> str:
    """The place of a value as an image whose pixels are its rows of so many elements."""
    parts = legalizer.parts(name)
    place = parts[0] if len(parts) == 1 else legalizer.place(name)
    type = legalizer.type(place)
    if not is_vector(legalizer, place) and type.shape[-1] == channels:
        image_shape(legalizer, place)
        return place
    shape = (1, *grid(type.size // channels), channels)
    return as_image_of(legalizer, as_vector(legalizer, place), shape, f"{place}.positions")


def from_positions(
    legalizer: Legalizer, result: Value, source: str, layer: Callable[[str], Layer]
) -> None:
    """Add a layer of pixels, whose result is a view of what it computes.

    Args:
        legalizer: the graph.
        result: the result, one row for each position of the operand.
        source: place of the operand.
        layer: the layer, of the name of what it writes.
    """
    height, width, _ = image_shape(legalizer, source)
    shape = (1, height, width, result.type.shape[-1])
    if result.type.shape == shape:
        legalizer.layers.append(layer(result.name))
        return
    image = temporary(legalizer, f"{result.name}.positions", replace(result.type, shape=shape))
    legalizer.layers.append(layer(image))
    legalizer.views[result.name] = (image,)
