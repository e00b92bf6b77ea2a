"""Layers that use the same weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights


def sharing_weights(layers: Sequence[Layer], kind: type[Layer]) -> Iterator[Layer]:
    """Layers, of which those of a kind have weights of the same bytes in the same rows.

    Args:
        layers: all layers.
        kind: the kind of those that may share weights.
    """
    counts = Counter(_extents(layer) for layer in layers if type(layer) is kind)
    # Digests, because copies of all weights would take as much memory again.
    known: dict[tuple[bytes, ...], tuple[Weights, ...]] = {}
    for layer in layers:
        if type(layer) is kind and counts[_extents(layer)] > 1:
            key = tuple(sha256(item.content.tobytes()).digest() for item in layer.weights)
            yield replace(layer, weights=known.setdefault(key, layer.weights))
        else:
            yield layer


def _extents(layer: Layer) -> tuple[tuple[object, ...], ...]:
    """What equal weights have in common, without their bytes."""
    return tuple(
        (item.kind, item.lanes, item.prefix, item.words, item.blocks) for item in layer.weights
    )
