"""What changed between two compiled models, or between what two runs of a verb said of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

from fitzroy.testing.expected import Deviation
from fitzroy.testing.figures import Figure, LayerCost, ModelFigures, figure

_MOST_PAIRS = 1 << 22
"""Pairs of layers that are tried to find which belong together."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Change:
    """A figure, or the cycles of a layer, before and after.

    Attributes:
        name: the figure or the layer.
        kind: what it is.
        old: before; None if there was none.
        new: after; None if there is none.
    """

    name: str
    kind: Figure
    old: float | None
    new: float | None

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        if self.old is None or self.new is None:
            return self.old is self.new
        return abs(self.new - self.old) <= _SAME * max(abs(self.old), abs(self.new))

    @property
    def percent(self) -> float | None:
        """By how much it grew; None if that has no meaning, infinite if it was 0."""
        if self.old is None or self.new is None:
            return None
        if self.same:
            return 0.0
        return (self.new - self.old) / self.old * 100 if self.old else float("inf")

    @property
    def regression(self) -> float:
        """By how much it got worse, in percent; 0 if it did not."""
        percent = self.percent or 0.0
        return max(0.0, -percent if self.kind.better == "more" else percent)


@dataclass(frozen=True)
class OutputChange:
    """An output that is not the same on an input.

    Attributes:
        sample: the input.
        deviation: how the new output differs from the old one.
    """

    sample: str
    deviation: Deviation


@dataclass(frozen=True)
class Comparison:
    """What changed.

    Attributes:
        old: what was there before.
        new: what there is now.
        figures: all figures that one of them has.
        layers: layers that changed, came or went, in order; None if those of a side are not known.
        host: operators on the host that are more or fewer than before, with both counts.
        samples: on how many inputs outputs were compared.
        outputs: outputs that differ.
    """

    old: str
    new: str
    figures: tuple[Change, ...]
    layers: tuple[Change, ...] | None
    host: Mapping[str, tuple[int, int]]
    samples: int = 0
    outputs: tuple[OutputChange, ...] = ()

    def regressions(self, most: float, only: Collection[str] = ()) -> tuple[Change, ...]:
        """Figures that got worse by more than some percent.

        Args:
            most: how much is allowed.
            only: the figures that count, all if it is empty.
        """
        return tuple(
            item
            for item in self.figures
            if item.regression > most and (not only or item.name in only)
        )


def compared(
    old: ModelFigures,
    new: ModelFigures,
    samples: int = 0,
    outputs: Sequence[OutputChange] = (),
) -> Comparison:
    """What changed between two models.

    Args:
        old: figures of one.
        new: figures of the other.
        samples: on how many inputs outputs were compared.
        outputs: outputs that differ.
    """
    names = dict.fromkeys([*old.values, *new.values])
    known = old.layers and new.layers
    return Comparison(
        old.source,
        new.source,
        tuple(
            Change(name, figure(name), old.values.get(name), new.values.get(name)) for name in names
        ),
        tuple(item for item in _layers(old.layers, new.layers) if not item.same) if known else None,
        _moved(old.host, new.host),
        samples,
        tuple(outputs),
    )


_CYCLES = Figure("cycles of a layer", "")


def _moved(
    old: Mapping[str, int] | None, new: Mapping[str, int] | None
) -> dict[str, tuple[int, int]]:
    if old is None or new is None:
        return {}
    names = dict.fromkeys([*old, *new])
    both = {name: (old.get(name, 0), new.get(name, 0)) for name in names}
    return {name: counts for name, counts in both.items() if counts[0] != counts[1]}


def _layers(old: Sequence[LayerCost], new: Sequence[LayerCost]) -> Iterator[Change]:
    """Layers side by side: those of the same name in the same order belong together.

    Where one side has no names, as models of other compilers have none, those that do the same
    belong together.
    """
    named = any(item.layer for item in old) == any(item.layer for item in new)
    names = [_names(side, named) for side in (old, new)]
    begin = _equal(names[0], names[1])
    last = _equal(names[0][begin:][::-1], names[1][begin:][::-1])
    ends = len(old) - last, len(new) - last
    yield from map(_layer, old[:begin], new[:begin])
    middles = old[begin : ends[0]], new[begin : ends[1]]
    yield from _middle(*middles, names[0][begin : ends[0]], names[1][begin : ends[1]])
    yield from map(_layer, old[ends[0] :], new[ends[1] :])


def _names(layers: Sequence[LayerCost], named: bool) -> list[str]:
    return [item.name if named else item.does or item.name for item in layers]


def _equal(old: Sequence[str], new: Sequence[str]) -> int:
    """How many names are the same from the beginning on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _middle(
    old: Sequence[LayerCost], new: Sequence[LayerCost], before: list[str], after: list[str]
) -> Iterator[Change]:
    if len(old) * len(new) > _MOST_PAIRS:
        # Too many to try: all of them went and came.
        yield from (_layer(layer, None) for layer in old)
        yield from (_layer(None, layer) for layer in new)
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            yield from map(_layer, old[a:b], new[c:d])
        else:
            yield from _replaced(old[a:b], new[c:d])


def _replaced(old: Sequence[LayerCost], new: Sequence[LayerCost]) -> Iterator[Change]:
    """Layers that are done in other ways than before, and those that came and went."""
    left = [*new]
    for layer in old:
        same = next((item for item in left if item.layer and item.layer == layer.layer), None)
        if same is not None:
            left.remove(same)
        yield _layer(layer, same)
    yield from (_layer(None, layer) for layer in left)


def _layer(old: LayerCost | None, new: LayerCost | None) -> Change:
    named = new or old
    assert named is not None
    name = named.name
    if old is not None and new is not None and old.name != new.name:
        # A side without names has no say in them.
        both = old.layer and new.layer
        name = f"{new.name} (was {old.does})" if both else max(old.name, new.name, key=len)
    before, after = (None if layer is None else layer.cycles for layer in (old, new))
    return Change(name, _CYCLES, before, after)
