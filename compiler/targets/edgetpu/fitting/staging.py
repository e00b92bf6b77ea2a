"""How does each convolution stage its weights?

Published programs have two slots. More slots hide the latency of chunks, and sums of small chunks
take no rows for weights. The choice is made for the whole program: a share of its cycles may be
spent on instructions of published forms. It goes first to the convolutions that lose the fewest
cycles for each such instruction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution, Staging
from fitzroy.compiler.targets.edgetpu.lowerings.transposed_convolution import TransposedConvolution


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to stage the weights of a convolution.

    Attributes:
        staging: the way.
        both: whether both channels of the ring may bring them.
        cycles: estimated cycles of all steps of the convolution.
        novel: instructions whose form is not published.
    """

    staging: Staging
    both: bool
    cycles: float
    novel: int


def choose_staging(
    steps: Sequence[Step],
    cost: float,
    cycles: float,
    top: int,
    room: int,
    flowing: Collection[Layer],
) -> dict[Layer, Layer]:
    """Layers whose convolutions stage their weights as is best for the program.

    Args:
        steps: all steps of the program, whose tensors have addresses.
        cost: share of the cycles that published forms may cost.
        cycles: estimated cycles of depthwise convolutions, which count as well.
        top: one past the last row of wide memory for data.
        room: rows of wide memory that weights of all input channels of a block may take.
        flowing: layers that compute while their operand arrives, and while their result leaves.
    """
    runs: dict[Convolution, list[Step]] = {}
    for step in steps:
        for layer in _convolutions(step):
            runs.setdefault(layer, []).append(step)
    ways = {
        layer: _ways(layer, own, top, room, flowing=layer in flowing) for layer, own in runs.items()
    }
    chosen = {layer: min(some, key=_speed) for layer, some in ways.items()}
    budget = cost * (cycles + sum(way.cycles for way in chosen.values()))
    while True:
        moves = [
            (_rate(chosen[layer], way), number, layer, way)
            for number, (layer, some) in enumerate(ways.items())
            for way in some
            if way.novel < chosen[layer].novel and way.cycles - chosen[layer].cycles <= budget
        ]
        if not moves:
            break
        _, _, layer, way = min(moves, key=lambda move: move[:2])
        budget -= max(0.0, way.cycles - chosen[layer].cycles)
        chosen[layer] = way
    staged = {
        layer: replace(layer, staging=way.staging, both=way.both) for layer, way in chosen.items()
    }
    found: dict[Layer, Layer] = {}
    for step in steps:
        match step.layer:
            case Convolution():
                found[step.layer] = staged[step.layer]
            case TransposedConvolution():
                parts = tuple(staged[part] for part in step.layer.parts)
                found.setdefault(step.layer, replace(step.layer, parts=parts))
    return found


def _convolutions(step: Step) -> Iterable[Convolution]:
    """The convolutions of a step."""
    match step.layer:
        case Convolution():
            return (step.layer,)
        case TransposedConvolution():
            return step.layer.parts
    return ()


def _ways(
    layer: Convolution, steps: Sequence[Step], top: int, room: int, *, flowing: bool
) -> list[_Way]:
    """The ways of staging that fit and differ in their instructions."""
    found: dict[object, _Way] = {}
    for staging, both in product(Staging, (True, False) if layer.both else (False,)):
        staged = replace(layer, staging=staging, both=both)
        rows = max(staged.staging_rows(step.tensors) for step in steps)
        blockings = tuple(staged.blocking(step.tensors[layer.writes]) for step in steps)
        if blockings in found or (staging is Staging.WHOLE and rows > room):
            continue
        novel = sum(staged.novel(step.tensors, top) for step in steps)
        # Weights that do not all fit wait for the tiles whose rows come last. Then no tile computes
        # while rows arrive, which would hide what it takes.
        cycles = sum(
            blocking.cycles * (1 + (flowing and blocking.chunks * blocking.blocks > blocking.slots))
            for blocking in blockings
        )
        found[blockings] = _Way(staging, both, cycles, novel)
    return list(found.values())


def _speed(way: _Way) -> tuple[float, int]:
    return way.cycles, way.novel


def _rate(now: _Way, way: _Way) -> float:
    """Cycles that a way costs for each instruction that it gives a published form."""
    extra = way.cycles - now.cycles
    return extra / (now.novel - way.novel) if extra < math.inf else math.inf
