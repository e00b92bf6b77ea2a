"""Which patches depthwise convolutions compute, for all layers of a program together.

The weights of larger patches take more rows of wide memory, and save steps. Every layer starts with
the fewest rows, and those that save most cycles per row get more while there is room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from fitzroy.compiler.targets.edgetpu.fitting import channels
from fitzroy.compiler.targets.edgetpu.fitting.knapsack import knapsack
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    Layer,
    Step,
    matrix_rows,
)
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options, Recipes
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import (
    Convolution,
)
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise, packed_weights
from fitzroy.compiler.targets.edgetpu.lowerings.patches import MOST_STAGED, Option, Strip
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    TILES,
    Image,
    Placed,
    TiledAxis,
)

_SPARE = 0.99
"""Part of wide memory that is filled; some rows are lost between operands."""


class Overlap(IntEnum):
    """Whose patches may reach beyond what tiles own, which takes narrow memory."""

    ALL = 0
    WHOLE = 1
    """Those of layers that do not run in strips."""
    NONE = 2


@dataclass(frozen=True, slots=True)
class Patches:
    """What lanes of depthwise convolutions compute.

    Attributes:
        layers: every layer with its patch.
        cycles: estimated cycles of all of them.
        compact: whether no other patches take fewer rows of wide memory.
    """

    layers: Mapping[Layer, Layer]
    cycles: float
    compact: bool


def choose_patches(
    steps: Sequence[Step],
    staging: int,
    overlap: Overlap = Overlap.ALL,
    options: Options = DEFAULT,
) -> Patches:
    """Choose the patches of all depthwise convolutions.

    Larger patches have fewer steps and more weights. Every layer starts with the fewest rows of
    weights, and those that save most cycles per row get more, until wide memory is full.

    Args:
        steps: all steps of the program.
        staging: rows at the top of wide memory that others use for data.
        overlap: whose patches may reach beyond what tiles own.
        options: what the program may use of the chip.
    """
    results: dict[Depthwise, list[Image]] = {}
    others = dict[Layer, None]()
    cycles = 0.0
    for step in steps:
        if isinstance(step.layer, Depthwise):
            assert isinstance(step.result, Image)
            results.setdefault(step.layer, []).append(step.result)
        else:
            others[step.layer] = None
            staging = max(staging, step.layer.staging_rows(step.tensors))
            if isinstance(step.layer, Convolution):
                cycles += step.layer.blocking(step.result).cycles
    wanted = list(results)
    items = {id(item): item.words for layer in others for item in layer.weights}
    taken = sum(items.values()) + TILES * matrix_rows(others)
    if not wanted:
        return Patches({}, 0.0, compact=True)
    free = channels.free(steps, options.recipes)
    # The weights of a layer that runs several times are sent as often.
    choices = [
        [
            replace(option, cycles=option.cycles * len(images))
            for option in _allowed(layer, images, overlap, options.recipes, both=layer in free)
        ]
        for layer, images in results.items()
    ]
    cycles += sum(min(one.cycles for one in some) for some in choices)
    best, fitting, missing = _cheapest(choices, staging, taken, options)
    # Convolutions may spend the other half.
    swapped = _paired(best, fitting, options.recipes.cost * cycles / 2)
    if swapped != best:
        # Rows may do more for options with published numbers of slots from the outset.
        usual = [[one for one in some if one.paired] or some for some in choices]
        other, _, lacking = _cheapest(usual, staging, taken, options)
        better = (lacking, _cycles(other)) < (missing, _cycles(swapped))
        best = other if better else swapped
    return Patches(
        {
            layer: replace(layer, choice=option.patch)
            for layer, option in zip(wanted, best, strict=True)
        },
        _cycles(best),
        compact=all(
            option.rows <= min(one.rows for one in some)
            for option, some in zip(best, choices, strict=True)
        ),
    )


def _cheapest(
    choices: Sequence[Sequence[Option]], staging: int, taken: int, options: Options
) -> tuple[list[Option], list[list[Option]], int]:
    """The options that take fewest cycles together, those they were chosen from, and missing rows.

    Args:
        choices: options of each layer.
        staging: rows at the top of wide memory that others use for data.
        taken: rows for the parameters of other layers.
        options: what the program may use of the chip.
    """
    found: list[tuple[int, float, list[Option], list[list[Option]]]] = []
    for most in MOST_STAGED:
        fitting = [
            [one for one in some if one.held <= most]
            or [min(some, key=lambda one: (one.held, one.cycles))]
            for some in choices
        ]
        held = max(one.held for some in fitting for one in some)
        room = int(_SPARE * options.free_rows(max(staging, held))) - taken
        chosen = _knapsack(fitting, room)
        rows = sum(one.rows for one in chosen)
        # What does not fit comes last, in the order of how much is missing.
        found.append((max(0, rows - room), _cycles(chosen), chosen, fitting))
    missing, _, best, fitting = min(found, key=lambda item: item[:2])
    return best, fitting, missing


def _paired(
    chosen: Sequence[Option], options: Sequence[Sequence[Option]], budget: float
) -> list[Option]:
    """Options with published numbers of slots instead of others, where they cost fewest cycles.

    Args:
        chosen: an option of each layer.
        options: all that each layer may have.
        budget: cycles that all of them may cost together.
    """
    result = list(chosen)
    swaps = []
    for index, (now, some) in enumerate(zip(chosen, options, strict=True)):
        paired = [one for one in some if one.paired and one.rows <= now.rows]
        if paired and not now.paired:
            one = min(paired, key=lambda one: one.cycles)
            swaps.append((one.cycles - now.cycles, index, one))
    for extra, index, one in sorted(swaps, key=lambda swap: swap[:2]):
        if extra <= budget:
            budget -= extra
            result[index] = one
    return result


def packed(layers: Iterable[Layer]) -> dict[Layer, Layer]:
    """Depthwise convolutions with the parameters for their patches."""
    return {
        layer: replace(layer, weights=packed_weights(layer))
        for layer in layers
        if isinstance(layer, Depthwise)
    }


def _allowed(
    layer: Depthwise, images: Sequence[Image], overlap: Overlap, recipes: Recipes, *, both: bool
) -> Sequence[Option]:
    """The patches that a layer may use; if all reach beyond what tiles own, all."""
    areas = _areas(images)
    options = _following(layer.patches(areas, both=both), recipes)
    if overlap is Overlap.ALL or (overlap is Overlap.WHOLE and len(images) == 1):
        return options
    return [
        option
        for option in options
        if all(
            option.patch.rows.covered(height) == height
            and option.patch.columns.covered(width) == width
            for height, width in areas
        )
    ] or options


def _following(options: Sequence[Option], recipes: Recipes) -> Sequence[Option]:
    """The patches that recipes allow; the first, which has a single position, if there are none."""
    return [
        one
        for one in options
        if (one.paired or recipes.cost < math.inf) and (recipes.patches or one.patch.packed)
    ] or options[:1]


def _areas(results: Iterable[Image]) -> list[tuple[int, int]]:
    """Different sizes of what tiles own of results."""
    return sorted(
        {image.area(tile) for image in results for tile in range(TILES) if image.active(tile)}
    )


_CELLS = 4096
"""Parts of the rows that there are, in which the rows of options are counted."""


def _knapsack(options: Sequence[Sequence[Option]], room: int) -> list[Option]:
    """One option of each layer, whose rows fit if possible, and which take few cycles together."""
    least = [min(some, key=lambda one: (one.rows, one.cycles)) for some in options]
    if sum(one.rows for one in least) >= room:
        return least
    unit = -(-room // _CELLS)
    fronts = [_front(some) for some in options]
    sizes = [
        [(-(-one.rows // unit), round(some[0].cycles - one.cycles)) for one in some]
        for some in fronts
    ]
    starts = [least]
    if sum(some[0][0] for some in sizes) <= room // unit:
        picks = knapsack(sizes, room // unit)
        starts.append([some[pick] for some, pick in zip(fronts, picks, strict=True)])
    found = [_grown(start, options, room) for start in starts]
    return min(found, key=_cycles)


def _cycles(chosen: Iterable[Option]) -> float:
    """Estimated cycles of all of them."""
    return sum(one.cycles for one in chosen)


def _front(options: Iterable[Option]) -> list[Option]:
    """Options that take fewer cycles than all with as few rows, the fewest rows first."""
    found: list[Option] = []
    for one in sorted(options, key=lambda one: (one.rows, one.cycles)):
        if not found or one.cycles < found[-1].cycles:
            found.append(one)
    return found


def _grown(start: Sequence[Option], options: Sequence[Sequence[Option]], room: int) -> list[Option]:
    """Options that take more rows instead, first where these save most, while there is room."""
    chosen = list(start)
    room -= sum(one.rows for one in chosen)
    while True:
        best: tuple[float, int, Option] | None = None
        for index, some in enumerate(options):
            now = chosen[index]
            for one in some:
                more, saved = one.rows - now.rows, now.cycles - one.cycles
                if saved <= 0 or more > room:
                    continue
                rate = saved / max(more, 1)
                if best is None or rate > best[0]:
                    best = (rate, index, one)
        if best is None:
            return chosen
        _, index, one = best
        room -= one.rows - chosen[index].rows
        chosen[index] = one


def with_room(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Results whose windows hold the positions that patches compute beyond what is owned."""
    found: dict[Placed, Placed] = {}
    for step in steps:
        layer, result = step.layer, step.result
        if isinstance(layer, Depthwise):
            assert isinstance(result, Image)
            found[result] = replace(
                result,
                rows=_with_slack(result.rows, layer.patch.rows),
                columns=_with_slack(result.columns, layer.patch.columns),
            )
    return found


def _with_slack(axis: TiledAxis, strip: Strip) -> TiledAxis:
    most = max(
        owned[0] - window[0] + strip.covered(owned[1] - owned[0])
        for owned, window in zip(axis.owned, axis.window, strict=True)
        if owned[0] < owned[1]
    )
    return axis.with_most(most)
