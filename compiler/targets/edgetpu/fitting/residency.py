"""Which parameters stay on the chip, and in which rows of wide memory?

Parameters that do not stay come from the host with every inference. The choice is a knapsack
problem: what stays takes no more rows than there are, and spares the host as many bytes as
possible. If the channels of a layer come in blocks, its first blocks may stay while the others do
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.targets.edgetpu.fitting.knapsack import Option, knapsack
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import (
    WIDE_ROWS,
    NoRows,
    Piece,
    Taken,
    WideRows,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, Placed
from fitzroy.compiler.targets.edgetpu.reshaping import vectors
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.isa.units import PARAMETER_BUFFER

_FEWER = 64
"""If rows do not suffice because of how weights divide, so many fewer are tried."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A layer, and how often it runs.

    Attributes:
        layer: the layer.
        runs: how often an inference needs its weights.
        shared: other layers with the same weights.
    """

    layer: Layer
    runs: int = 1
    shared: tuple[Layer, ...] = ()

    @property
    def options(self) -> list[Option]:
        """With the first n blocks on the chip; with all, if the layer must have them there.

        A block is worth the bytes that the host need not send. Of choices that are worth the same,
        weights that stay in one piece are the better one.
        """
        found = [(0, 1)]
        rows = nbytes = 0
        for item in self.layer.weights:
            for block in range(1, item.blocks + 1):
                size = len(item.data) // item.blocks * block
                whole = block == item.blocks
                value = 2 * self.runs * (nbytes + size) + int(whole)
                found.append((rows + item.words // item.blocks * block, value))
            rows, nbytes = rows + item.words, nbytes + len(item.data)
        return found if self.layer.streams else found[-1:]


@dataclass(frozen=True, slots=True)
class Residency:
    """Where parameters lie.

    Attributes:
        pieces: rows of weights that stay on the chip, by name.
        weights: weights of every layer, divided into what stays and what does not.
        firsts: tiles where vectors begin whose blocks have weights in place, by name.
        free: the rows that are left.
    """

    pieces: Mapping[str, Sequence[Piece]]
    weights: Mapping[Layer, tuple[Weights, ...]]
    firsts: Mapping[str, int]
    free: WideRows

    @property
    def complete(self) -> bool:
        """Whether everything stays on the chip."""
        return all(item.name in self.pieces for some in self.weights.values() for item in some)


def place_all(
    layers: Sequence[Layer], tensors: Mapping[str, Placed], free: WideRows
) -> Residency | Refused:
    """Rows for all weights of layers, and with them the tiles where vectors begin.

    Returns:
        An operator whose weights do not fit, if there is any.
    """
    demands = demands_of(layers)
    held = {demand.layer: demand.layer.weights for demand in demands}
    return _placed(demands, held, {}, tensors, free)


def demands_of(layers: Sequence[Layer], runs: Mapping[Layer, int] | None = None) -> list[Demand]:
    """What layers need, each weights once.

    Args:
        layers: the layers.
        runs: how often each runs; None for once.
    """
    found: dict[int, Demand] = {}
    for layer in layers:
        count = 1 if runs is None else runs[layer]
        key = id(layer.weights[0]) if layer.weights else id(layer)
        first = found.get(key)
        found[key] = (
            Demand(layer, count)
            if first is None
            else Demand(first.layer, first.runs + count, (*first.shared, layer))
        )
    return list(found.values())


def place_some(
    demands: Sequence[Demand], tensors: Mapping[str, Placed], free: WideRows, rows: int
) -> Residency | Refused:
    """Rows for weights of layers, so that the host has to send as little as possible of the others.

    Args:
        demands: all layers.
        tensors: places of tensors.
        free: rows of every tile that are free.
        rows: rows of all tiles that may be taken. What cannot come from the host takes its rows
            even so.

    Returns:
        An operator whose weights do not fit and cannot come from the host, if there is any.
    """
    options = [demand.options for demand in demands]
    least = sum(some[0][0] for some in options)
    room = max(rows, least)
    while True:
        held, others = _chosen(demands, knapsack(options, room))
        found = _placed(demands, held, others, tensors, free)
        if isinstance(found, Residency) or room == least:
            return found
        room = max(least, room - _FEWER)


Parts = dict[Layer, tuple[Weights, ...]]


def _chosen(demands: Sequence[Demand], counts: Sequence[int]) -> tuple[Parts, Parts]:
    """Weights of every layer that stay on the chip, and the others.

    Args:
        demands: the layers.
        counts: how many blocks of each stay.
    """
    held, others = Parts(), Parts()
    for demand, count in zip(demands, counts, strict=True):
        layer = demand.layer
        if not layer.streams:
            held[layer] = layer.weights
            continue
        parts = list(_divided(layer.weights, count))
        held[layer] = tuple(item for item, stays in parts if stays)
        others[layer] = tuple(item for item, stays in parts if not stays)
    return held, others


def _divided(weights: Sequence[Weights], count: int) -> Iterator[tuple[Weights, bool]]:
    """Weights, and whether they belong to the first blocks."""
    for item in weights:
        inside = min(count, item.blocks)
        count -= inside
        if 0 < inside < item.blocks:
            first, other = item.divided(inside)
            yield first, True
            yield other, False
        else:
            yield item, inside > 0


def _placed(
    demands: Sequence[Demand],
    held: Parts,
    others: Parts,
    tensors: Mapping[str, Placed],
    rows: WideRows,
) -> Residency | Refused:
    """Rows for the weights that stay on the chip, and which these are of every layer.

    Args:
        demands: all layers.
        held: weights that stay, by the first layer that has them.
        others: those that do not, of layers that may have such.
        tensors: places of tensors.
        rows: rows that are free.

    Returns:
        The operator whose weights do not fit, if they do not.
    """
    # Blocks of a pass need the same rows on all of their tiles: they come first.
    blocks = _in_place(demands, held, others, tensors, rows)
    if isinstance(blocks, Refused):
        return blocks
    rows, pieces = blocks.rows, dict(blocks.pieces)
    every = [(layer, item) for layer, items in blocks.held.items() for item in items]
    # What both channels of the ring send must lie on different tiles: there is most room now.
    for layer, item in every:
        if item.beside:
            apart = [piece.tile for piece in pieces.get(item.beside, ())]
            taken = rows.anywhere(item.words, most=_most_rows(item), apart=apart)
            if isinstance(taken, NoRows):
                return _refusal(layer, taken)
            rows, pieces[item.name] = taken.rows, taken.pieces
    # Then those that must not be divided.
    for kind in (OperandKind.PACKED, OperandKind.CONVOLUTION):
        for layer, item in every:
            if item.kind is kind and not item.beside:
                whole = kind is OperandKind.PACKED
                taken = rows.anywhere(item.words, whole=whole, most=_most_rows(item))
                if isinstance(taken, NoRows):
                    return _refusal(layer, taken)
                rows, pieces[item.name] = taken.rows, taken.pieces
    found = {layer: (*items, *others.get(layer, ())) for layer, items in blocks.held.items()}
    for demand in demands:
        for layer in demand.shared:
            found[layer] = found[demand.layer]
    return Residency(pieces, found, blocks.firsts, rows)


@dataclass(frozen=True, slots=True)
class _InPlace:
    """Rows of weights that tiles read in place.

    Attributes:
        pieces: the rows, by name.
        held: weights that stay on the chip; those that found no such rows may lie anywhere.
        firsts: tiles where vectors begin, by name.
        rows: what is left.
    """

    pieces: Mapping[str, Sequence[Piece]]
    held: Parts
    firsts: Mapping[str, int]
    rows: WideRows


def _in_place(
    demands: Sequence[Demand],
    held: Parts,
    others: Parts,
    tensors: Mapping[str, Placed],
    rows: WideRows,
) -> _InPlace | Refused:
    """Rows for the blocks of fully connected layers; arguments as of `_placed`."""
    pieces: dict[str, Sequence[Piece]] = {}
    found, firsts = Parts(), dict[str, int]()
    every = [*held, *(layer for demand in demands for layer in demand.shared)]
    families = vectors.families(every, tensors)
    sharing = {demand.layer: (demand.layer, *demand.shared) for demand in demands}
    for layer, items in held.items():
        placed = []
        for item in items:
            if item.kind is not OperandKind.FULLY_CONNECTED:
                placed.append(item)
                continue
            users = sharing[layer]
            given = {firsts.get(one.writes, 0) for one in users if one.writes not in families}
            origin = given.pop() if given else rows.origin(item.blocks)
            for vector in (vector for one in users for vector in families.pop(one.writes, [])):
                firsts[vector.name] = origin
                families.pop(vector.name, None)
            taken = (
                NoRows(item.words, "results of the same weights begin on several tiles", rows)
                if given
                else rows.blocks(item.words // item.blocks, item.blocks, origin)
            )
            rows = taken.rows
            if isinstance(taken, Taken):
                pieces[item.name] = taken.pieces
            elif layer in others:
                # Rows of any tiles will do if the blocks come over the ring.
                item = replace(item, kind=OperandKind.CONVOLUTION)
            else:
                return _refusal(layer, taken)
            placed.append(item)
        found[layer] = tuple(placed)
    return _InPlace(pieces, found, firsts, rows)


def _refusal(layer: Layer, missing: NoRows) -> Refused:
    """Concerns the operator of a layer whose weights have no rows."""
    what = f"{missing.words} rows of parameters do not fit in wide memory"
    return Refused([layer.origin], what, reason=missing.reason)


def _most_rows(item: Weights) -> int:
    """Words of a piece of an operand, at most.

    Published programs load narrow words from no more than one half of the stream buffer at a time.
    """
    fits = max(1, item.words * PARAMETER_BUFFER.block // item.units)
    return WIDE_ROWS if item.lanes == LANES else fits
