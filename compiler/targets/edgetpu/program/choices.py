"""What was chosen for the steps of a program, in words, and the cycles that were expected of it."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.layers.layer import Step, longest
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Blocking, Convolution
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.lowerings.patches import Patch
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, WORD, Image
from fitzroy.hw_models.chips.beagle import BEAGLE


@dataclass(frozen=True, slots=True)
class Choice:
    """How a step is done.

    Attributes:
        variant: the choice, for people; empty where there was none.
        cycles: estimated cycles; 0 where nothing is estimated.
    """

    variant: str
    cycles: float


def choice_of(step: Step) -> Choice:
    """What was chosen for a step whose tensors have addresses."""
    layer, result = step.layer, step.result
    variant, cycles = "", step.cycles
    last = float(result.depth // WORD) if isinstance(result, Image) else 0.0
    if isinstance(result, Image) and isinstance(layer, Depthwise):
        variant, cycles = _patch(layer.patch), _patch_cycles(layer, result) or cycles
        last /= layer.patch.blocks(layer.in_channels)
    elif isinstance(result, Image) and isinstance(layer, Convolution):
        blocking = layer.blocking(result)
        variant, cycles, last = _blocking(blocking), blocking.cycles, blocking.last / WORD
    parts = [variant] if variant else []
    if step.whole is not None:
        parts.append("a strip")
    elif cycles and isinstance(result, Image):
        cycles += _exchange(result, last)
    return Choice(", ".join(parts), cycles)


def _exchange(image: Image, words: float) -> float:
    """Estimated cycles in which tiles give their neighbours the borders of an image.

    Args:
        image: the image; what is outside of it is padding, which no neighbour has.
        words: words of a pixel that are sent at the end; those of all blocks of channels but the
            last one are on their way while the layer computes.
    """
    down, across = (
        max(
            max(begin - max(before, 0), min(after, axis.extent) - end)
            for (begin, end), (before, after) in zip(axis.owned, axis.window, strict=True)
            if before < after
        )
        for axis in (image.rows, image.columns)
    )
    pixels = down * longest(image.columns.owned) + across * longest(image.rows.window)
    return BEAGLE.timing.mesh_word * pixels * words


def _patch(patch: Patch) -> str:
    """The positions and channels that lanes compute at a time."""
    return (
        f"patch of {patch.rows.positions} x {patch.columns.positions}, "
        f"{patch.groups} word{'s' if patch.groups > 1 else ''} of channels"
        f"{', packed weights' if patch.packed else ''}, {_slots(patch.slots, patch.beside)}"
    )


def _patch_cycles(layer: Depthwise, result: Image) -> float:
    """Estimated cycles of the patch of a layer; 0 if it has been changed since it was chosen."""
    areas = sorted({result.area(tile) for tile in range(TILES) if result.active(tile)})
    options = layer.patches(areas, both=bool(layer.patch.beside))
    return next((one.cycles for one in options if one.patch == layer.patch), 0.0)


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
