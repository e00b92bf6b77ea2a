"""What was chosen for the steps of a program, in words, and the cycles that they take by it."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.layers import halo
from fitzroy.compiler.targets.edgetpu.layers.layer import Step, longest
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Blocking, Convolution
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.lowerings.patches import Patch
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
        patch = layer.patch
        delivery = layer.delivery({result.area(n) for n in range(TILES) if result.active(n)})
        variant, first = _patch(patch), delivery.first(patch.beside)
        cycles = delivery.cycles(patch.beside) + BEAGLE.timing.phase
        last //= patch.blocks(layer.in_channels)
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
            last one are on their way while the layer computes, unless they are passed on.
    """
    image = step.whole or step.result
    if not step.complete or not isinstance(image, Image):
        return 0.0
    # Elements that the first tile on a way sends, and those that others pass on.
    (down, far_down), (across, far_across) = map(halo.longest_way, (image.rows, image.columns))
    height, width = longest(image.rows.window), longest(image.columns.owned)
    sent, passed_on = down * width + across * height, far_down * width + far_across * height
    if not sent and not passed_on:
        return 0.0
    depth, word = image.depth // WORD, BEAGLE.timing.mesh_word
    if step.whole is None and step.layer.completes(step.tensors) is not None:
        return word * (sent * words + passed_on * depth)
    # In a phase of its own.
    return word * (sent + passed_on) * depth + BEAGLE.timing.phase


def _patch(patch: Patch) -> str:
    """The positions and channels that lanes compute at a time."""
    return (
        f"patch of {patch.rows.positions} x {patch.columns.positions}, "
        f"{patch.groups} word{'s' if patch.groups > 1 else ''} of channels"
        f"{', packed weights' if patch.packed else ''}, {_slots(patch.slots, patch.beside)}"
    )


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
