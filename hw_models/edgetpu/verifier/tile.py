"""The order of what happens in each tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.memory import TILES
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording
from fitzroy.hw_models.edgetpu.verifier.hazards import Comparer, Conflict
from fitzroy.hw_models.edgetpu.verifier.order import Barrier, Cluster, Job, Reset, Tokens, Wrap
from fitzroy.hw_models.edgetpu.verifier.parts import (
    ENGINES,
    MESH,
    RECEIVE,
    THREADS,
    Part,
)
from fitzroy.hw_models.edgetpu.verifier.sync_walk import Turn, Walked
from fitzroy.hw_models.isa.counters import distance
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import ENGINE_OF, Opcode, TileEngine, TileFlag
from fitzroy.hw_models.isa.ring import RingProduce

_TOKENS: dict[int, int] = {TileFlag.RING_PRODUCER_A: 0, TileFlag.RING_PRODUCER_B: 1}

COUNTERS = {
    int(TileFlag.AVDATA): int(TileEngine.OP),
    int(TileFlag.PARAMETERS): int(TileEngine.OP),
    int(TileFlag.WIDE_TO_NARROW): int(TileEngine.WIDE_TO_NARROW),
    int(TileFlag.WIDE_TO_SCALING): int(TileEngine.WIDE_TO_NARROW),
    int(TileFlag.NARROW_TO_WIDE): int(TileEngine.NARROW_TO_WIDE),
    int(TileFlag.RING_READ_A): int(TileEngine.RING_CONSUME_A),
    int(TileFlag.RING_READ_B): int(TileEngine.RING_CONSUME_B),
    int(TileFlag.RING_WRITE): int(TileEngine.RING_PRODUCE),
}
for _engine in MESH:
    _direction = DIRECTIONS[Opcode[_engine.name]]
    COUNTERS[int(_direction.sent)] = int(_engine)
    COUNTERS[int(_direction.received)] = int(_engine) + RECEIVE
"""Thread that counts with each flag of a tile; ring tokens are not among them."""


@dataclass(slots=True)
class Ordered:
    """What the order of a tile's instructions shows.

    Attributes:
        conflicts: uses of one place without an order, with tiles.
        wraps: ambiguous watchers, with tiles.
        resets: counters set while in use, with tiles.
        stuck: tiles whose order cannot be found.
    """

    conflicts: list[tuple[int, Conflict]] = field(default_factory=list)
    wraps: list[tuple[int, Wrap]] = field(default_factory=list)
    resets: list[tuple[int, Reset]] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Known:
    """What a stretch of a program shows in one tile."""

    conflicts: list[Conflict]
    wraps: list[Wrap]
    resets: list[Reset]
    values: dict[int, int]
    complete: bool


def order(
    recording: Recording,
    parts: dict[Issue, tuple[Part, ...]],
    walked: Walked,
    comparer: Comparer,
) -> Ordered:
    """Find what has an order in every tile, and what has none.

    Args:
        recording: what the scalar core does.
        parts: parts of every instruction for tiles.
        walked: an execution of the whole program.
        comparer: compares uses of memories.
    """
    found = Ordered()
    memo: dict[tuple[object, ...], _Known] = {}
    programs: list[list[Issue]] = [[] for _ in range(TILES)]
    for _, entry in recording.entries:
        if isinstance(entry, Dispatched):
            for tile in range(TILES):
                if entry.tiles >> tile & 1:
                    programs[tile].append(entry.issue)
    for tile, program in enumerate(programs):
        values = [0] * len(TileFlag)
        for stretch in _stretches(program):
            known = _known(memo, stretch, tile, values, parts, walked, comparer)
            found.conflicts += [(tile, conflict) for conflict in known.conflicts]
            found.wraps += [(tile, wrap) for wrap in known.wraps]
            found.resets += [(tile, reset) for reset in known.resets]
            for flag, value in known.values.items():
                values[flag] = value
            if not known.complete:
                found.stuck.append(tile)
                break
    return found


def _stretches(program: Sequence[Issue]) -> list[list[Issue]]:
    """A program, cut where a fence has waited for everything before it."""
    stretches: list[list[Issue]] = [[]]
    pending = 0
    for issue in program:
        stretches[-1].append(issue)
        instruction = issue.instruction
        if isinstance(instruction, TileFence):
            pending &= ~instruction.idle
            if not pending:
                stretches.append([])
        else:
            pending |= 1 << ENGINE_OF[instruction.op]
    return [stretch for stretch in stretches if stretch]


def _known(
    memo: dict[tuple[object, ...], _Known],
    stretch: list[Issue],
    tile: int,
    values: list[int],
    parts: dict[Issue, tuple[Part, ...]],
    walked: Walked,
    comparer: Comparer,
) -> _Known:
    items: list[Job | Barrier] = []
    turns: list[object] = []
    for issue in stretch:
        instruction = issue.instruction
        if isinstance(instruction, TileFence):
            barrier = _barrier(issue, instruction, walked.fences.get((issue, tile)))
            turns.append(barrier.tokens)
            items.append(barrier)
            continue
        turn = walked.turns.get((issue, tile)) if isinstance(instruction, RingProduce) else None
        fed = (issue, tile) in walked.fed
        turns += (turn, fed)
        tokens = None if turn is None else _tokens(turn)
        items.append(Job(issue, parts[issue], tokens, fed=fed))
    # Tiles that execute the same with the same counters are in step.
    used = {
        flag
        for item in items
        if isinstance(item, Job)
        for part in item.parts
        for flag in (*[gate.flag for gate in part.gates], *[flag for flag, _ in part.marks])
    }
    counters = [values[flag] & 0xFFFF if flag in used else 0 for flag in range(len(values))]
    key = (*map(id, stretch), *counters, *turns)
    known = memo.get(key)
    if known is None:
        cluster = Cluster(THREADS, COUNTERS, counters)
        cluster.run(items)
        complete = cluster.complete
        known = memo[key] = _Known(
            comparer.conflicts(cluster) if complete else [],
            cluster.wraps() if complete else [],
            cluster.resets() if complete else [],
            {
                flag: value
                for flag, value in enumerate(cluster.values())
                if flag in used or len(cluster.eras[flag]) > 1
            },
            complete,
        )
    return known


def _tokens(turn: Turn) -> Tokens:
    origin = tuple(total - value for total, value in zip(turn.totals, turn.values, strict=True))
    return Tokens(_TOKENS, origin, turn.totals)


def _barrier(issue: Issue, fence: TileFence, turn: Turn | None) -> Barrier:
    idle = [engine for engine in range(ENGINES) if fence.idle >> engine & 1]
    idle += [engine + RECEIVE for engine in idle if engine in MESH]
    sets = tuple((int(flag), fence.value) for flag in TileFlag if fence.set >> flag & 1)
    tokens: list[tuple[int, int]] = []
    if turn is not None:
        for wait, channel in ((fence.wait_ring_a, 0), (fence.wait_ring_b, 1)):
            if wait:
                missing = distance(fence.ring_threshold, turn.values[channel])
                tokens.append((channel, turn.totals[channel] + missing))
    return Barrier(issue, tuple(idle), sets, tuple(tokens))
