"""Programs with one fault of synchronization each, made from programs without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    ENGINE_OF,
    Producer,
    ScalarFlag,
    Side,
    TileEngine,
    TileFlag,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.stream import Infeed, Outfeed, Pop
from fitzroy.hw_models.isa.tensor import TensorOp

Chunks = Sequence[Sequence[Instruction]]

_TILE_CREDITS = (
    TileFlag.AVDATA,
    TileFlag.PARAMETERS,
    TileFlag.WIDE_TO_NARROW,
    TileFlag.WIDE_TO_SCALING,
    TileFlag.RING_WRITE,
)
_SCALAR_CREDITS = (
    ScalarFlag.AVDATA_INFEED,
    ScalarFlag.PARAMETER_INFEED,
    ScalarFlag.SCALAR_INFEED,
)
_COUNTS = (
    "ring_write",
    "token",
    "ring_read",
    "narrow_to_wide",
    "wide_to_narrow",
    "sent",
    "received",
    "avdata",
    "parameters",
    "popped",
    "infed",
    "outfed",
)
_NEAR = 10
"""How far apart instructions are whose buffers may be exchanged."""

_SCALE = {"a": 4, "b": 4, "c": 4}
"""Addresses of operands per narrow word, or per wide row."""


@dataclass(frozen=True)
class Mutant:
    """A program with a fault.

    Attributes:
        kind: class of the fault.
        chunk: where it is.
        changes: instructions that take the place of others, by index in the chunk.
    """

    kind: str
    chunk: int
    changes: tuple[tuple[int, Instruction], ...]

    def apply(self, chunks: Chunks) -> list[list[Instruction]]:
        """The program with the fault."""
        result = [list(instructions) for instructions in chunks]
        for index, instruction in self.changes:
            result[self.chunk][index] = instruction
        return result


def mutants(chunks: Chunks) -> dict[str, list[Mutant]]:
    """All mutants of a program by their class."""
    found: dict[str, list[Mutant]] = defaultdict(list)
    for number, chunk in enumerate(chunks):
        for index, instruction in enumerate(chunk):
            for kind, other in _single(instruction):
                found[kind].append(Mutant(kind, number, ((index, other),)))
            if index + 1 < len(chunk) and _swappable(instruction, chunk[index + 1]):
                swapped = ((index, chunk[index + 1]), (index + 1, instruction))
                found["swap"].append(Mutant("swap", number, swapped))
            for changes in _moves(chunk, index):
                found["move-buffer"].append(Mutant("move-buffer", number, changes))
    return found


def _single(one: Instruction) -> Iterator[tuple[str, Instruction]]:
    """Mutants of one instruction."""
    waits: Any = getattr(one, "wait", None)
    if isinstance(waits, tuple):
        for number, watcher in enumerate(waits):
            if watcher is not None and watcher.valid:
                yield from _waits(one, waits, number, watcher)
    for name in _COUNTS:
        producer = getattr(one, name, None)
        if isinstance(producer, Producer) and producer.valid:
            counting: Any = one
            yield "drop-count", replace(counting, **{name: None})
    if isinstance(one, TileFence):
        yield (
            "drop-fence",
            replace(one, idle=0, set=0, signal=False, wait_ring_a=False, wait_ring_b=False),
        )
        if one.idle:
            yield "drop-idle", replace(one, idle=0)
        for engine in TileEngine:
            if one.idle != (1 << len(TileEngine)) - 1 and one.idle >> engine & 1:
                yield "drop-idle", replace(one, idle=one.idle & ~(1 << engine))
        if one.signal:
            yield "drop-signal", replace(one, signal=False)
        if one.set:
            yield "drop-set", replace(one, set=0)
    if isinstance(one, ScalarFence):
        yield "drop-scalar-fence", ScalarFence()
        if one.wait_tiles:
            yield "drop-tile-wait", replace(one, wait_tiles=False, tiles=0)


def _waits(
    one: Instruction, waits: tuple[Watcher | None, ...], number: int, watcher: Watcher
) -> Iterator[tuple[str, Instruction]]:
    def with_watcher(other: Watcher | None) -> Instruction:
        waiting: Any = one
        changed: Instruction = replace(waiting, wait=(*waits[:number], other, *waits[number + 1 :]))
        return changed

    def lower(by: int) -> Instruction:
        return with_watcher(replace(watcher, threshold=max(-0x8000, watcher.threshold - by)))

    yield "drop-watcher", with_watcher(None)
    yield "weaken-by-one", lower(1)
    streams = isinstance(one, Pop | Infeed | Outfeed)
    credit = (
        watcher.flag in _SCALAR_CREDITS
        if streams
        else watcher.flag in _TILE_CREDITS and watcher.side is Side.WRITE
    )
    if credit and watcher.increment > 0:
        yield "exceed-credits", lower(watcher.increment)


def _unit(one: Instruction) -> int | None:
    if isinstance(one, TileInstruction):
        return ENGINE_OF[one.op]
    return int(one.op) if isinstance(one, Pop | Infeed | Outfeed) else None


def _swappable(one: Instruction, other: Instruction) -> bool:
    """Whether two neighbours are for different units."""
    units = _unit(one), _unit(other)
    return None not in units and units[0] != units[1]


def _places(one: Instruction) -> Iterator[tuple[str, str, int]]:
    """Traversals of an instruction: field, memory, and first word or row."""
    fields: dict[type, dict[str, str]] = {
        RingConsume: {"wide": "wide"},
        RingProduce: {"wide": "wide"},
        NarrowToWide: {"wide": "wide", "narrow": "narrow"},
        WideToNarrow: {"wide": "wide", "narrow": "narrow"},
        Mesh: {"send": "narrow", "receive": "narrow"},
        TensorOp: {"a": "narrow", "b": "narrow", "c": "wide"},
    }
    for name, memory in fields.get(type(one), {}).items():
        traversal = getattr(one, name)
        scaling = isinstance(one, WideToNarrow) and one.to_scaling and name == "narrow"
        if traversal is not None and not scaling:
            yield name, memory, traversal.base // _SCALE.get(name, 1)


def _moves(chunk: Sequence[Instruction], index: int) -> Iterator[tuple[tuple[int, Any], ...]]:
    """The buffer that an instruction writes, moved onto another one for all that use it."""
    one = chunk[index]
    written = {RingConsume: "wide", NarrowToWide: "wide", WideToNarrow: "narrow", Mesh: "receive"}
    name = written.get(type(one))
    found = {field: (memory, base) for field, memory, base in _places(one)}
    if name not in found or not isinstance(one, TileInstruction):
        return
    memory, old = found[name]
    near: list[tuple[int, TileInstruction]] = []
    for place in range(max(0, index - _NEAR), min(len(chunk), index + _NEAR + 1)):
        other = chunk[place]
        if isinstance(other, TileInstruction) and other.tiles & one.tiles:
            near.append((place, other))
    bases = {base for _, other in near for _, kind, base in _places(other) if kind == memory} - {
        old
    }
    for base in sorted(bases):
        changes = []
        for place, other in near:
            changed: Any = other
            for field, kind, at in _places(other):
                if (kind, at) == (memory, old):
                    scale = _SCALE.get(field, 1)
                    traversal = getattr(other, field)
                    moved = traversal.base + (base - old) * scale
                    changed = replace(changed, **{field: replace(traversal, base=moved)})
            if changed is not other:
                changes.append((place, changed))
        if len(changes) > 1:
            yield tuple(changes)
