"""What was chosen for the steps of a program, in words, and the cycles that they take by it."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.layers import halo
from fitzroy.compiler.targets.edgetpu.layers.layer import Step, longest
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Blocking, Convolution
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.lowerings.patches import Option, Patch
from fitzroy.compiler.targets.edgetpu.lowerings.transposed_convolution import TransposedConvolution
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, WORD, Image
from fitzroy.hw_models.chips.beagle import BEAGLE


@dataclass(frozen=True, slots=True)
class Choice:
    """How a step is done.

    Attributes:
        variant: the choice, for people; empty where there was none.
        cycles: estimated cycles, if it waits for nothing; 0 where nothing is estimated.
        first: those of them before it reads anything, in which its first weights come.
        exchange: further cycles in which tiles give their neighbours the borders of the result.
    """

    variant: str
    cycles: float
    first: float
    exchange: float


def choice_of(step: Step) -> Choice:
    """What was chosen for a step whose tensors have addresses."""
    layer, result = step.layer, step.result
    variant, cycles, first = "", step.cycles, 0.0
    last = result.depth // WORD if isinstance(result, Image) else 0
    if isinstance(result, Image) and isinstance(layer, Depthwise):
        variant, option = _patch(layer.patch), _option(layer, result)
        if option is not None:
            cycles, first = option.cycles, option.first
        last //= layer.patch.blocks(layer.in_channels)
    elif isinstance(result, Image) and isinstance(layer, Convolution):
        blocking = layer.blocking(result)
        variant, cycles, first = _blocking(blocking), blocking.cycles, blocking.first
        last = blocking.last // WORD
    elif isinstance(result, Image) and isinstance(layer, TransposedConvolution):
        cycles = sum(part.blocking(result).cycles for part in layer.parts)
    parts = [variant] if variant else []
    if step.whole is not None:
        parts.append("a strip")
    return Choice(", ".join(parts), cycles, first, _exchange(step, last))


def _exchange(step: Step, words: int) -> float:
    """Estimated cycles in which tiles give their neighbours the borders of what a step completes.

    Args:
        step: the step.
        words: words of a pixel that are sent at the end; those of all blocks of channels but the
            last one are on their way while the layer computes.
    """
    image = step.whole or step.result
    if not step.complete or not isinstance(image, Image):
        return 0.0
    down, across = halo.longest_way(image.rows), halo.longest_way(image.columns)
    if not down and not across:
        return 0.0
    pixels = down * longest(image.columns.owned) + across * longest(image.rows.window)
    if step.whole is None and step.layer.completes(step.tensors) is not None:
        return BEAGLE.timing.mesh_word * pixels * words
    # In a phase of its own.
    return BEAGLE.timing.mesh_word * pixels * image.depth // WORD + BEAGLE.timing.phase


def _patch(patch: Patch) -> str:
    """The positions and channels that lanes compute at a time."""
    return (
        f"patch of {patch.rows.positions} x {patch.columns.positions}, "
        f"{patch.groups} word{'s' if patch.groups > 1 else ''} of channels"
        f"{', packed weights' if patch.packed else ''}, {_slots(patch.slots, patch.beside)}"
    )


def _option(layer: Depthwise, result: Image) -> Option | None:
    """What the patch of a layer costs; None if it has been changed since it was chosen."""
    areas = sorted({result.area(tile) for tile in range(TILES) if result.active(tile)})
    options = layer.patches(areas, both=bool(layer.patch.beside))
    return next((one for one in options if one.patch == layer.patch), None)


def _blocking(blocking: Blocking) -> str:
    """How the channels of a convolution are divided."""
    chunks, blocks = (
        f"{count} part{'s' if count > 1 else ''} of {what} channels"
        for count, what in ((blocking.chunks, "input"), (blocking.blocks, "output"))
    )
    return f"{chunks}, {blocks}, {_slots(blocking.slots, blocking.beside)}"


def _slots(slots: int, beside: int) -> str:
    ring = ", both channels of the ring" if beside else ""
    return f"{slots} slot{'s' if slots > 1 else ''}{ring}"
