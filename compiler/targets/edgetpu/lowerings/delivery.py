"""How long does a layer take whose weights come over the ring while it computes?

Weights come in chunks, which go through slots of wide memory. `Delivery` follows them one by one:
a slot is free again once all steps with its chunk are done, and a chunk can be used some time after
it has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS
from fitzroy.hw_models.chips.beagle import BEAGLE

_BOTH_WORTH = 0.95
"""Part of the cycles with one channel of the ring from which on both are used."""

_BOTH_CYCLES = 200
"""Cycles that both must save, at least: instructions of two senders take some, too."""

_LOADED = 2
"""Vectors of a block that go to scaling memory, at most."""

_KEPT = 1 << 12
"""Most results that are kept for further layers of the same extents."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Weights on their way, chunk by chunk, and the steps that use them.

    Attributes:
        steps: steps with a chunk.
        staged: weight rows of a chunk.
        prefix: words of vectors of a block.
        chunks: chunks of a block.
        blocks: blocks of output channels.
        slots: slots of staging.
        lanes: lanes of a block.
        last: steps with the last chunk, whose block may have fewer lanes.
        row: cycles of a row of weights, or of a word of vectors, on its way.
    """

    steps: int
    staged: int
    prefix: int
    chunks: int
    blocks: int
    slots: int
    lanes: int
    last: int
    row: float = BEAGLE.timing.ring_row

    @property
    def beside(self) -> int:
        """Rows of a chunk that channel A had best bring while B brings the others.

        Both then take as long; none if that saves little.
        """
        rows = min(self.staged - 1, (self.staged + self.prefix // self.chunks) // 2)
        usual, both = self.cycles(), self.cycles(rows)
        pays = both <= _BOTH_WORTH * usual and usual - both >= _BOTH_CYCLES
        return rows if pays else 0

    def cycles(self, beside: int = 0) -> float:
        """Estimated cycles if so many rows of every chunk come on the other channel."""
        return _cycles(self, beside)

    def first(self, beside: int = 0) -> float:
        """Those of them before the first step, in which the first chunk comes."""
        usual = self.row * (self.staged - beside + self.prefix) + self.loading
        return BEAGLE.timing.chunk_latency + max(usual, self.row * beside)

    def ends(self, beside: int) -> Iterator[float]:
        """Cycles until a block is complete, block after block, without end.

        Rows of a chunk come, in order, once its slot is free. Steps begin when those before are
        done and the chunk is there; with the first chunk of a block, its vectors have to be in
        scaling memory, where there is room for those of `SLOTS` blocks.
        """
        latency = BEAGLE.timing.chunk_latency
        rows, rows_beside = self.row * (self.staged - beside), self.row * beside
        released = deque([0.0] * self.slots, self.slots)
        completed = deque([0.0] * SLOTS, SLOTS)
        arrived = arrived_beside = loaded = end = 0.0
        while True:
            for chunk in range(self.chunks):
                arrived = max(arrived, released[0]) + rows
                arrived_beside = max(arrived_beside, released[0]) + rows_beside
                if chunk == 0:
                    arrived += self.row * self.prefix
                    loaded = max(loaded, arrived + latency, completed[0]) + self.loading
                    end = max(end, loaded)
                end = max(end, max(arrived, arrived_beside) + latency) + self.steps
                released.append(end)
            completed.append(end)
            yield end

    @property
    def loading(self) -> float:
        """Cycles in which the scales and biases of a block go to scaling memory."""
        # An entry is a pair of lanes.
        return BEAGLE.timing.conversion_word * min(self.prefix, _LOADED) * self.lanes / 2


@lru_cache(_KEPT)
def _cycles(delivery: Delivery, beside: int) -> float:
    """Estimated cycles of a delivery if so many rows of every chunk come on the other channel."""
    # Once every slot was used again, blocks follow each other at the same distance.
    turn = max(SLOTS, delivery.slots // delivery.chunks)
    ends = list(islice(delivery.ends(beside), min(delivery.blocks, 2 * turn)))
    others = delivery.blocks - len(ends)
    distance = (ends[-1] - ends[-1 - turn]) / turn if others else 0.0
    return ends[-1] + others * distance - delivery.steps + delivery.last
