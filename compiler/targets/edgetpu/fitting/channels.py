"""Which weights come on both channels of the ring at the same time.

A row takes as long on either channel. Layers that wait for their weights, and not for their steps,
get the last rows of every chunk on channel A while the first ones come on channel B. The owners of
both parts are different tiles, since a tile sends one message after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution, Delivery
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image

_WORTH = 0.95
"""Part of the cycles with one channel from which on both are used."""

_LEAST_CYCLES = 200
"""Cycles that both must save, at least: instructions of two senders take some, too."""


def shared(steps: Sequence[Step]) -> Mapping[Layer, Layer]:
    """Layers whose weights come on both channels.

    Inputs come on channel A: the layers that read them, and all before the last one, keep to B.

    Args:
        steps: all steps of the program, whose layers have chosen how they stage weights.
    """
    runs = Counter(step.layer for step in steps)
    users = Counter(id(item) for layer in runs for item in layer.weights)
    received = {step.layer.writes for step in steps if step.layer.received}
    last = max([number for number, step in enumerate(steps) if step.layer.received], default=-1)
    found: dict[Layer, Layer] = {}
    for step in steps[last + 1 :]:
        layer = step.layer
        if not isinstance(layer, Convolution | Depthwise) or len(layer.weights) != 1:
            continue
        alone = runs[layer] == 1 and users[id(layer.weights[0])] == 1
        delivery = _delivery(step) if alone and not received.intersection(layer.reads) else None
        if delivery is not None and _pays(delivery):
            parts = layer.weights[0].parted(delivery.blocks, delivery.staged, delivery.beside)
            found[layer] = replace(layer, weights=parts, beside=delivery.beside)
    return found


def _delivery(step: Step) -> Delivery | None:
    """How the weights of a step come over the ring in rows; None if they do not."""
    layer, result = step.layer, step.result
    assert isinstance(result, Image)
    if isinstance(layer, Convolution):
        return layer.blocking(result).delivery
    assert isinstance(layer, Depthwise)
    return None if layer.patch.packed else layer.delivery(result)


def _pays(delivery: Delivery) -> bool:
    """Whether both channels save enough."""
    beside = delivery.beside
    if not 0 < beside < delivery.staged:
        return False
    usual, both = delivery.cycles(), delivery.cycles(beside)
    return both <= _WORTH * usual and usual - both >= _LEAST_CYCLES
