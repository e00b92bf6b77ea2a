"""How do all tensors of a program fit narrow memory?

`arranged` first takes the cheapest strips that fit all of narrow memory. If no addresses can be
found then, it tries the cheapest strips that leave some of the memory free, with patches that take
no more of it. If that does not help, branches run one after the other (`ordering`). Images that
still do not fit wait in the host's memory for a while, or are computed again (`spilling`). If all
that is missing are addresses, a single small image that waits may be enough.

All of this is done in the order that layers have and, where that is estimated to be faster, in the
one in which outputs leave early (`ordering`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product

from fitzroy.base.progress import advance
from fitzroy.compiler.targets.edgetpu.fitting import (
    milestones,
    ordering,
    patch_choice,
    spilling,
    strips,
)
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strip_search import (
    MANY_LAYERS,
    MOST_LAYERS,
    NoStrips,
    Search,
    capacities,
)
from fitzroy.compiler.targets.edgetpu.fitting.strips import Segment
from fitzroy.compiler.targets.edgetpu.host import host_layers
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.lowerings import pools, products, sums
from fitzroy.compiler.targets.edgetpu.memory.allocation import Addresses, NoRoom, allocate_narrow


@dataclass(frozen=True, eq=False)
class Arrangement:
    """A schedule whose tensors have addresses.

    Attributes:
        layered: the layers before patches were chosen, with those that let images wait.
        schedule: the steps, whose depthwise convolutions have patches.
        patches: these patches.
        used: bytes used from the bottom.
        cycles: estimated cycles.
    """

    layered: Layered
    schedule: Schedule
    patches: patch_choice.Patches
    used: int
    cycles: float


def arranged(layered: Layered) -> Arrangement:
    """Addresses for all tensors; some may be with the host for a while, or be computed again.

    Raises:
        Refused: they do not fit; concerns the operator that makes one of them.
    """
    found, early = _in_order(layered), ordering.sent_early(layered)
    if early is None:
        return found
    try:
        other = _in_order(early)
    except Refused:
        return found
    return min(found, other, key=lambda each: ordering.cycles(each.schedule.steps))


def _in_order(layered: Layered) -> Arrangement:
    """Addresses for all tensors of layers in the order that they have.

    Raises:
        Refused: they do not fit.
    """
    found, branch = _relieved(layered)
    if isinstance(found, Refused):
        raise found
    if found.layered is layered and found.cycles > _EXCESS * spilling.cycles(layered):
        branch = spilling.spilled(layered).fastest
    if branch is None:
        return found
    other, _ = _relieved(branch, again=True)
    return found if isinstance(other, Refused) else min(found, other, key=_cycles)


_EXCESS = 4
"""If strips take more than so many times the cycles of the layers without strips, making room is
tried as well: strips that barely fit compute the same rows again and again."""


def _relieved(
    layered: Layered, *, again: bool = False
) -> tuple[Arrangement | Refused, Layered | None]:
    """Addresses for all tensors, or what does not fit.

    Args:
        layered: the layers; with `again`, those from which it leads elsewhere.
        again: whether images are computed again instead of waiting with the host where that is
            estimated to be faster.

    Returns:
        The addresses or the refusal, and the layers from which `again` leads elsewhere: the first
        in which computing an image again is faster than letting it wait. None if there are none.
    """
    # Where it leads elsewhere, the order has been chosen before.
    branch, times, ordered = None, int(again), again
    eased: Arrangement | Refused | None = None
    most = _MOST_TIMES * max(_FEW, len(layered.layers))
    search = _search(layered)
    found = _fitted(search, times)
    while isinstance(found, Refused):
        relieved = host_layers.compacted(layered)
        if relieved is None and not ordered:
            ordered, relieved = True, _reordered(search)
        if relieved is None:
            tensors = {live.tensor.name: live.tensor for live in search.lives}
            relieved = spilling.fetched_apart(layered, tensors)
        if relieved is None and eased is None and isinstance(found, _NoAddress):
            # Once only: it takes long, and later more is missing than a small image gives.
            eased = _eased(search, found, times + 1)
        if relieved is None:
            ways = _ways(search, found)
            relieved = ways.fastest if again else ways.waiting
            branch = branch or ways.computing
        relieved = relieved or _interrupted(search)
        if relieved is None or times >= most:
            break
        layered, times = relieved, times + 1
        search = _search(layered)
        found = _fitted(search, times)
    fitting = [one for one in (found, eased) if isinstance(one, Arrangement)]
    return min(fitting, key=_cycles, default=found), branch


_MOST_TIMES, _FEW = 2, 32
"""Most attempts to make room, for each layer of a model; smaller models count as so many layers.
There would be no end otherwise: an image that is computed again can be computed again itself."""


def _reordered(search: Search) -> Layered | None:
    """The layers in an order in which they lack less memory, if there is."""
    found = ordering.depth_first(search.layered)
    return found if _missing(_search(found)) < _missing(search) else None


def _missing(search: Search) -> tuple[int, int]:
    """Bytes that a layer without strips lacks at most, and those that all layers lack together."""
    layered = search.layered
    missing = [max(0, nbytes - layered.options.narrow_bytes) for nbytes in search.taken()[1:]]
    layers = zip(layered.layers, missing, strict=True)
    return max((nbytes for layer, nbytes in layers if not layer.strips), default=0), sum(missing)


def _ways(search: Search, refusal: Refused) -> spilling.Ways:
    """Ways to make room for what does not fit."""
    layered = search.layered
    lacking = refusal.tensor if isinstance(refusal, _NoAddress) else ""
    ways = spilling.spilled(layered, lacking=lacking)
    # What is computed again makes the most room without a byte that is sent.
    if isinstance(refusal, NoStrips) and ways.computing is None:
        smallest = _smallest(search, refusal, layered.options.narrow_bytes)
        return ways if smallest.waiting is None else smallest
    return ways


def _smallest(search: Search, refusal: NoStrips, capacity: int) -> spilling.Ways:
    """Ways to make room for a layer that lacks some of so many bytes, with the fewest sent."""
    missing = search.limited(MANY_LAYERS).missing(refusal.layer, capacity)
    return spilling.sufficient(search.layered, refusal.layer, missing)


def _eased(search: Search, refusal: Refused, times: int) -> Arrangement | Refused:
    """Addresses with a single small image waiting with the host, or what does not fit.

    Where strips fit but tensors find no addresses, little is free in a few places, and the image
    that makes the most room may be far larger than what they lack. They are found as if there were
    only as much narrow memory as strips no longer fit.

    Args:
        search: the search in the layers.
        refusal: what does not fit; returned if there is no such image.
        times: how often room was made in them, with this time.
    """
    longer = search.limited(MANY_LAYERS)
    for capacity in capacities(search.layered.options.narrow_bytes):
        segments = longer.choose(capacity, early=False)
        if isinstance(segments, NoStrips):
            waiting = _smallest(search, segments, capacity).waiting
            return refusal if waiting is None else _fitted(_search(waiting), times)
    return refusal


_SHORT_TRIES = 8
"""How many times, while room is made, short segments are tried although long ones do not fit. A
search takes long, and no model is known in which short ones were the first to fit after that."""


def _fitted(search: Search, times: int) -> Arrangement | Refused:
    """Addresses for all tensors as they are, or what does not fit.

    Args:
        search: the search in the layers.
        times: how often room was made in them. If it was, the faster of short and long segments is
            taken; after `_SHORT_TRIES`, short ones are tried only if long ones fit.
    """
    if not times:
        found = _cheapest(search.limited(MOST_LAYERS))
        return _cheapest(search.limited(MANY_LAYERS)) if isinstance(found, Refused) else found
    found = _cheapest(search.limited(MANY_LAYERS))
    if isinstance(found, Refused) and times > _SHORT_TRIES:
        return found
    fitting = [
        one
        for one in (found, _cheapest(search.limited(MOST_LAYERS)))
        if isinstance(one, Arrangement)
    ]
    return min(fitting, key=_cycles, default=found)


def _cycles(arrangement: Arrangement) -> float:
    return arrangement.cycles


class _NoAddress(Refused):
    """There is no room for a tensor.

    Args:
        operators: as for all refusals.
        what: what cannot be done.
        reason: why, with both numbers.
        tensor: its name.
    """

    def __init__(self, operators: Sequence[str], what: str, *, reason: str, tensor: str) -> None:
        super().__init__(operators, what, reason=reason)
        self.tensor = tensor


def _interrupted(search: Search) -> Layered | None:
    """The layers with an image that waits with the host where nothing else helps, if there is.

    If strips fit but tensors find no addresses, the image is chosen as if there were only as much
    narrow memory as strips no longer fit.
    """
    layered = search.layered
    for capacity in capacities(layered.options.narrow_bytes):
        reached = search.reached(capacity)
        if reached < len(layered.layers):
            return spilling.interrupted(layered, reached)
    return None


def _cheapest(finder: Search) -> Arrangement | Refused:
    """Addresses for all tensors with the cheapest strips and patches, or what does not fit."""
    layered = finder.layered
    refusals: list[Refused] = []
    found: dict[patch_choice.Overlap, Arrangement] = {}
    tried: list[list[Segment]] = []
    arriving = (True, False) if layered.options.search.strips else (False,)
    for capacity, early in product(capacities(layered.options.narrow_bytes), arriving):
        search: Search | None = finder
        while search is not None:
            segments = search.choose(capacity, early=early)
            if isinstance(segments, Refused) or segments in tried:
                break
            tried.append(segments)
            schedule = _adjusted(Schedule.of(layered, segments))
            one = _allocated(schedule, known=found)
            if not isinstance(one, Refused):
                overlap, arrangement = one
                found[overlap] = arrangement
                break
            refusals.append(one)
            search = search.widened(schedule.tensors)
        if isinstance(segments, Refused) and search is finder:
            refusals.append(segments)
            break
        if patch_choice.Overlap.ALL in found:
            break
    if not found:
        return refusals[0]
    return min(found.values(), key=_cycles)


def _allocated(
    schedule: Schedule, known: Collection[patch_choice.Overlap]
) -> tuple[patch_choice.Overlap, Arrangement] | Refused:
    """Addresses with the patches that may take most narrow memory of those that fit.

    Args:
        schedule: the steps, without patches.
        known: what patches need not be tried.
    """
    # Patches take long to choose, and only add to what is taken.
    without = _addresses(schedule)
    if isinstance(without, Refused):
        return without
    first: Refused | None = None
    for overlap in patch_choice.Overlap:
        if overlap not in known:
            found = _patched(schedule, overlap)
            if isinstance(found, Arrangement):
                return overlap, found
            first = first or found
    assert first is not None
    return first


def _patched(schedule: Schedule, overlap: patch_choice.Overlap) -> Arrangement | Refused:
    """Addresses with patches that may reach beyond what tiles own, or not."""
    layered, unpatched = schedule.layered, schedule.steps
    advance("memory", milestones.PATCHES)
    patches = patch_choice.choose_patches(unpatched, 0, overlap, layered.options)
    schedule = schedule.with_layers(patches.layers)
    schedule = _adjusted(schedule.changed(patch_choice.with_room(schedule.steps)))
    addresses = _addresses(schedule)
    if isinstance(addresses, Refused):
        return addresses
    schedule = schedule.changed(addresses.changes())
    schedule = schedule.changed(strips.bound(schedule.steps))
    schedule = schedule.with_order(strips.ordered(schedule.steps, schedule.sharings))
    schedule = schedule.with_layers(products.with_room(schedule.steps, schedule.free()))
    others = sum(step.cycles for step in unpatched if step.layer not in patches.layers)
    return Arrangement(layered, schedule, patches, addresses.used, patches.cycles + others)


def _search(layered: Layered) -> Search:
    """What finds the layers that run in strips, in layers of which none does yet."""
    return Search.of(_adjusted(Schedule.of(layered)))


def _adjusted(schedule: Schedule) -> Schedule:
    """The schedule with images as wide as the operators that read them want."""
    for change in (strips.widened, pools.aligned, sums.aligned, strips.bound):
        schedule = schedule.changed(change(schedule.steps))
    return schedule


def _addresses(schedule: Schedule) -> Addresses | Refused:
    """Addresses of all tensors."""
    layered = schedule.layered
    found = allocate_narrow(
        schedule.lives, reserved=schedule.scratch, nbytes=layered.options.narrow_bytes
    )
    return _refusal(layered, found) if isinstance(found, NoRoom) else found


def _refusal(layered: Layered, missing: NoRoom) -> Refused:
    """Concerns the operators that make a tensor for which there is no room."""
    tensor = missing.tensor
    return _NoAddress(
        [layer.origin for layer in layered.layers if layer.writes == tensor.name],
        f"tensor {tensor.name!r} takes {tensor.nbytes} bytes of every tile",
        reason=f"{missing.free} of {missing.nbytes} are free",
        tensor=tensor.name,
    )
