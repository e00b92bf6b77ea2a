"""Which images wait in the host's memory until they are read again?

Skip connections over many layers, such as those of U-Net, are too large to stay on the chip. They
go to the host's scratch buffer when they are computed, and come back before the first layer after
the gap. Inputs are taken from the host again instead, and images that a few layers compute from
them are computed again, if that takes less time: a byte that goes to the host takes as long as many
products.

Of several images, those come first that are read again after the most layers (`spilled`): they make
room for more layers than others, with the same bytes sent. If the first of them cannot be computed
again, and if it is known how much room is wanted, the smallest that makes enough goes to the host
(`sufficient`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strip_search import MANY_LAYERS
from fitzroy.compiler.targets.edgetpu.host import scratch
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Keep, Receive
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, Placed
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly


@dataclass(frozen=True, slots=True)
class _Gap:
    """Layers between two that use an image.

    Attributes:
        name: the image.
        maker: number of the layer that computes it.
        before: number of the last layer in front of the gap that uses it.
        reader: number of the first layer after the gap that reads it.
        nbytes: bytes of every tile.
    """

    name: str
    maker: int
    before: int
    reader: int
    nbytes: int

    @property
    def length(self) -> int:
        """Number of layers, with the reader."""
        return self.reader - self.before


@dataclass(frozen=True, slots=True)
class Ways:
    """Ways to make room for an image that is read much later.

    Attributes:
        waiting: the layers with the image in the host's memory; None if there is no such image.
        fastest: the same, or the layers that compute it again if that is estimated to be faster.
    """

    waiting: Layered | None = None
    fastest: Layered | None = None

    @property
    def computing(self) -> Layered | None:
        """The layers that compute the image again; None if that is not faster."""
        return None if self.fastest is self.waiting else self.fastest


def sufficient(layered: Layered, number: int, missing: Mapping[int, int]) -> Ways:
    """Ways to make room for a layer with the fewest bytes that are sent.

    Args:
        layered: the layers.
        number: number of the layer.
        missing: bytes of every tile that it lacks, and those that others lack. The image makes room
            for all of them that run while it waits.
    """
    gaps = (
        gap
        for gap in _gaps(layered)
        if gap.before < number < gap.reader
        and gap.length > _SHORTEST
        and all(
            nbytes <= gap.nbytes
            for other, nbytes in missing.items()
            if gap.before < other < gap.reader
        )
    )
    return _ways(layered, min(gaps, key=lambda gap: gap.nbytes, default=None))


def spilled(layered: Layered, *, lacking: str = "") -> Ways:
    """Ways to make room for an image that takes much of it for many layers.

    Args:
        layered: the layers.
        lacking: a tensor for which there is no room. Images that wait about when it is there come
            first, because others make none. Empty if there is no such tensor.
    """
    first, last = _around(layered, lacking)
    gaps = [gap for gap in _gaps(layered) if gap.length > _SHORTEST]
    near = [gap for gap in gaps if gap.before < last and gap.reader > first]
    gap = max(
        near or gaps,
        key=lambda one: one.nbytes * (one.length - 1) ** _LENGTH_POWER,
        default=None,
    )
    return _ways(layered, gap)


def _ways(layered: Layered, gap: _Gap | None) -> Ways:
    if gap is None:
        return Ways()
    waiting, *others = _waiting(layered, gap), *_computed_again(layered, gap)
    return Ways(waiting, min((waiting, *others), key=cycles) if others else waiting)


def _around(layered: Layered, name: str) -> tuple[int, int]:
    """The layers while a tensor is there, and those of a segment with it; all without a name."""
    uses = [
        number
        for number, layer in enumerate(layered.layers)
        if layer.writes == name or name in layer.reads
    ]
    if not uses:
        return 0, len(layered.layers)
    return uses[0] - MANY_LAYERS, uses[-1] + MANY_LAYERS


def interrupted(layered: Layered, reached: int) -> Layered | None:
    """The layers with an image in the host's memory although it is read at once, as a last resort.

    Then it need not be in narrow memory as a whole: strips send it, and others take it back.

    Args:
        layered: the layers.
        reached: layers in front of this number can run; the smallest image after them waits.

    Returns:
        None if there is no such image.
    """
    gap = min(
        (
            gap
            for gap in _gaps(layered)
            if reached <= gap.maker < reached + _FURTHEST and _is_useful(layered, gap)
        ),
        key=lambda one: one.nbytes,
        default=None,
    )
    return None if gap is None else _waiting(layered, gap)


def _is_useful(layered: Layered, gap: _Gap) -> bool:
    """Whether an image makes room if it waits.

    An input comes again anyway, and what just came from the host would go back unread.
    """
    maker = layered.layers[gap.maker]
    came = isinstance(maker, Fetch) and gap.before == gap.maker and gap.length == 1
    return not (maker.received or came)


_FURTHEST = 12
"""Of so many layers, one is interrupted; strips of more of them would be too long."""


def fetched_apart(layered: Layered, tensors: Mapping[str, Placed]) -> Layered | None:
    """The layers with an image in the host's memory that each of its readers fetches separately.

    The pixels of the image fit narrow memory, but not what all readers together keep of it: if they
    read rows that lie far apart, that is most of the image on every tile. What a single one reads
    fits in strips.

    Args:
        layered: the layers.
        tensors: what they make, without strips.

    Returns:
        None if there is no such image.
    """
    readers = Counter(name for layer in layered.layers for name in layer.reads)
    fetched = {layer.writes for layer in layered.layers if isinstance(layer, Fetch)}
    maker = next(
        (
            layer
            for layer in layered.layers
            if readers[layer.writes] > 1
            and not (layer.remote or layer.received or layer.returned)
            and not (isinstance(layer, Assembly) and fetched.issuperset(layer.reads))
            and tensors[layer.writes].nbytes > layered.options.narrow_bytes
            and tensors[layer.writes].nbytes
            >= _WIDER * Image.of(layer.writes, layered.type(layer.writes).shape).nbytes
        ),
        None,
    )
    if maker is None:
        return None
    name, keep = maker.writes, _keep(layered, maker)
    types, layers = {**layered.types, keep.writes: layered.type(name)}, list[Layer]()
    for layer in layered.layers:
        if name in layer.reads:
            back = unused_name(f"{name}.again", layered.graph.values, types)
            types[back] = layered.type(name)
            layers += [_fetch(keep, back), _reading(layer, name, back)]
        else:
            layers += [layer, keep] if layer is maker else [layer]
    return replace(layered, layers=tuple(layers), types=types)


def _waiting(layered: Layered, gap: _Gap) -> Layered:
    """Send an image to the host, or take it from there again, and let readers have that."""
    maker, type = layered.layers[gap.maker], layered.type(gap.name)
    back = layered.unused(f"{gap.name}.again")
    layered = replace(layered, types={**layered.types, back: type})
    before, after = layered.layers[: gap.reader], layered.layers[gap.reader :]
    after = tuple(_reading(layer, gap.name, back) for layer in after)
    if isinstance(maker, Receive):
        again = replace(maker, name=back, writes=back, compact=False)
        return replace(layered, layers=(*before, again, *after))
    keep = _keep(layered, maker)
    made, rest = before[: gap.maker + 1], before[gap.maker + 1 :]
    return replace(
        layered,
        layers=(*made, keep, *rest, _fetch(keep, back), *after),
        types={**layered.types, keep.writes: type},
    )


def _keep(layered: Layered, maker: Layer) -> Keep:
    """Sends the image that a layer makes to the host."""
    kept = layered.unused(f"{maker.writes}.kept")
    return Keep(name=kept, reads=(maker.writes,), writes=kept, origin=maker.origin)


def _fetch(keep: Keep, back: str) -> Fetch:
    """Takes an image back, under a name."""
    return Fetch(name=back, reads=(), writes=back, source=keep.writes, origin=keep.origin)


def cycles(layered: Layered) -> float:
    """Estimated cycles of all layers, one after the other without strips."""
    return sum(step.cycles for step in Schedule.of(layered).steps)


def _computed_again(layered: Layered, gap: _Gap) -> Iterator[Layered]:
    """The layers that compute an image again from an input, if they can and are estimated."""
    chain = _chain(layered, gap)
    if not chain or not all(
        step.cycles for step in Schedule.of(layered).steps if step.layer in chain
    ):
        return
    types, made, name = dict(layered.types), list[Layer](), ""
    for layer in chain:
        result = unused_name(f"{layer.writes}.again", layered.graph.values, types)
        types[result] = layered.type(layer.writes)
        made.append(_copy(layer, name, result))
        name = result
    before, after = layered.layers[: gap.reader], layered.layers[gap.reader :]
    after = tuple(_reading(layer, gap.name, name) for layer in after)
    yield replace(layered, layers=(*before, *made, *after), types=types)


def _chain(layered: Layered, gap: _Gap) -> list[Layer]:
    """The layers that compute an image from an input, in order; none if they are others.

    Each but the first reads nothing but what the one before it makes.
    """
    makers = {layer.writes: layer for layer in layered.layers}
    chain = [layered.layers[gap.maker]]
    while not chain[0].received and len(chain) <= _LONGEST:
        layer = chain[0]
        if not (layer.by_name and layer.strips) or len(layer.reads) != 1:
            return []
        chain.insert(0, makers[layer.reads[0]])
    first = chain[0]
    return chain if first.received and first.strips and len(chain) > 1 else []


def _copy(layer: Layer, read: str, result: str) -> Layer:
    """A layer that computes the same from the same in other places, with weights of its own."""
    return replace(
        layer,
        name=result,
        reads=(read,) if layer.reads else (),
        writes=result,
        weights=tuple(replace(item, name=f"{item.name}/{result}") for item in layer.weights),
    )


def _reading(layer: Layer, name: str, other: str) -> Layer:
    """A layer that reads another value instead of one."""
    if name not in layer.reads:
        return layer
    return replace(layer, reads=tuple(other if own == name else own for own in layer.reads))


def _gaps(layered: Layered) -> Iterator[_Gap]:
    uses: dict[str, list[int]] = {}
    for number, layer in enumerate(layered.layers):
        if not (layer.makes_vector or layer.remote or layer.returned):
            uses[layer.writes] = [number]
        for name in layer.reads:
            if name in uses:
                uses[name].append(number)
    for name, numbers in uses.items():
        image = Image.of(name, layered.type(name).shape)
        maker = layered.layers[numbers[0]]
        for before, after in pairwise(numbers):
            later = [layered.layers[number] for number in numbers if number >= after]
            if (maker.received or scratch.kept_whole(image)) and all(
                layer.by_name for layer in later
            ):
                yield _Gap(name, numbers[0], before, after, image.nbytes)


_LENGTH_POWER = 2
"""Exponent of the length of a gap, whose bytes count once. With 1, a large image that is read soon
would go to the host before a small one that waits for most of the layers, although the cost of
sending and fetching grows with the bytes alone."""

_LONGEST = 6
"""Layers that are computed again, at most: those of two levels of a U-Net."""

_SHORTEST = 2
"""A gap has more than so many layers, counted with its last reader."""

_WIDER = 2
"""An image is fetched for each reader only if tiles would keep so many times what they own."""
