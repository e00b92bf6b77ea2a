"""Which weights come on both channels of the ring at the same time?

A row takes the same time on either channel. If a layer waits for its weights, and not for its
steps, the last rows of every chunk come on channel A while the first rows come on channel B. The
owners of the two parts are different tiles, because a tile sends one message after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.layers.options import Recipes
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image


def free(steps: Sequence[Step], recipes: Recipes) -> Set[Layer]:
    """Layers that may have channel A of the ring to themselves while they run.

    Inputs come on channel A: the layers that read them, and all before the last one, keep to B.
    """
    if not recipes.both:
        return frozenset()
    runs = Counter(step.layer for step in steps)
    received = {step.layer.writes for step in steps if step.layer.received}
    last = max([number for number, step in enumerate(steps) if step.layer.received], default=-1)
    return {
        step.layer
        for step in steps[last + 1 :]
        if runs[step.layer] == 1 and not received.intersection(step.layer.reads)
    }


def freed(steps: Sequence[Step], recipes: Recipes) -> Mapping[Layer, Layer]:
    """Convolutions whose weights may come on both channels: no other layer has the same."""
    users = Counter(id(item) for step in steps for item in step.layer.weights)
    return {
        layer: replace(layer, both=True)
        for layer in free(steps, recipes)
        if isinstance(layer, Convolution) and all(users[id(item)] == 1 for item in layer.weights)
    }


def parted(steps: Sequence[Step]) -> Mapping[Layer, Layer]:
    """Convolutions with weights for each channel, where both bring some."""
    found: dict[Layer, Layer] = {}
    for step in steps:
        layer, result = step.layer, step.result
        if isinstance(layer, Convolution) and layer.both and isinstance(result, Image):
            blocking = layer.blocking(result)
            if blocking.beside:
                (item,) = layer.weights
                parts = item.parted(blocking.blocks, blocking.staged, blocking.beside)
                found[layer] = replace(layer, weights=parts)
    return found
