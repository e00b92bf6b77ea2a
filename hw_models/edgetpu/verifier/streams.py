"""The order of what happens in the stream units of the scalar core."""

from __future__ import annotations

import numpy as np

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.recording import Recording, Streamed
from fitzroy.hw_models.edgetpu.scalar import Fence
from fitzroy.hw_models.edgetpu.stream import FIFO_WORDS, StreamPlan
from fitzroy.hw_models.edgetpu.verifier.hazards import Comparer, Conflict
from fitzroy.hw_models.edgetpu.verifier.order import Barrier, Cluster, Job, Reset, Tokens, Wrap
from fitzroy.hw_models.edgetpu.verifier.parts import AVDATA, PARAMETERS, WORDS, Access, Part
from fitzroy.hw_models.edgetpu.verifier.sync_walk import Walked, stream_unit
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory

_UNITS = (
    StreamEngine.AVDATA_POP,
    StreamEngine.PARAMETER_POP,
    StreamEngine.INFEED,
    StreamEngine.OUTFEED,
)
COUNTERS: dict[int, int] = {
    ScalarFlag.AVDATA_POP: StreamEngine.AVDATA_POP,
    ScalarFlag.PARAMETER_POP: StreamEngine.PARAMETER_POP,
    ScalarFlag.AVDATA_INFEED: StreamEngine.INFEED,
    ScalarFlag.PARAMETER_INFEED: StreamEngine.INFEED,
    ScalarFlag.SCALAR_INFEED: StreamEngine.INFEED,
    ScalarFlag.RING_OUTFEED: StreamEngine.OUTFEED,
}
"""Unit that counts with each flag of the scalar core; ring tokens are not among them."""

_TOKENS: dict[int, int] = {ScalarFlag.PRODUCER_A: 0, ScalarFlag.PRODUCER_B: 1}
_FLAGS: dict[tuple[type, int], int] = {
    (Pop, PopMemory.ACTIVATION): ScalarFlag.AVDATA_POP,
    (Pop, PopMemory.PARAMETER): ScalarFlag.PARAMETER_POP,
    (Infeed, InfeedMemory.ACTIVATION): ScalarFlag.AVDATA_INFEED,
    (Infeed, InfeedMemory.PARAMETER): ScalarFlag.PARAMETER_INFEED,
    (Infeed, InfeedMemory.SCALAR): ScalarFlag.SCALAR_INFEED,
}
_MEMORIES: dict[tuple[type, int], tuple[int, int]] = {
    (Pop, PopMemory.ACTIVATION): (AVDATA, BEAGLE.memories.activation_buffer.elements),
    (Pop, PopMemory.PARAMETER): (PARAMETERS, BEAGLE.memories.parameter_buffer.elements),
    (Infeed, InfeedMemory.ACTIVATION): (AVDATA, BEAGLE.memories.activation_buffer.elements),
    (Infeed, InfeedMemory.PARAMETER): (PARAMETERS, BEAGLE.memories.parameter_buffer.elements),
    (Infeed, InfeedMemory.SCALAR): (WORDS, FIFO_WORDS),
}


def _kind(instruction: Pop | Infeed | Outfeed) -> tuple[type, int]:
    if isinstance(instruction, Outfeed):
        return (Outfeed, 0)
    return (type(instruction), instruction.memory)


def part_of(entry: Streamed) -> Part:
    """The part of a stream instruction; its elements are units."""
    plan, instruction = entry.plan, entry.event.instruction
    flag = _FLAGS.get(_kind(instruction), ScalarFlag.RING_OUTFEED)
    marks = () if plan.ends is None else ((int(flag), plan.ends),)
    tokens = None if plan.tokens is None else (0, plan.tokens)
    return Part(stream_unit(entry.event), len(plan.order), plan.gates, marks, tokens)


def _job(entry: Streamed, place: int, walked: Walked) -> Job:
    turn = walked.feeds.get(place)
    tokens = None
    if turn is not None:
        origin = tuple(total - value for total, value in zip(turn.totals, turn.values, strict=True))
        tokens = Tokens(_TOKENS, origin, turn.totals)
    return Job(entry, (part_of(entry),), tokens, walked.outs.get(place, ()))


def _access(entry: Streamed) -> tuple[Access, ...]:
    plan: StreamPlan = entry.plan
    instruction = entry.event.instruction
    positions = np.arange(len(plan.order))
    if isinstance(instruction, Outfeed):
        if instruction.to_host:
            return ()
        places = plan.addresses % FIFO_WORDS if plan.gates else plan.addresses
        return (Access(WORDS, True, places, positions),)
    memory, size = _MEMORIES[_kind(instruction)]
    write = isinstance(instruction, Pop)
    return (Access(memory, write, plan.addresses % size, positions),)


def order(
    recording: Recording, walked: Walked
) -> tuple[list[Conflict], list[Wrap], list[Reset], bool]:
    """Find what has an order among the stream units, and what has none.

    Args:
        recording: what the scalar core does.
        walked: an execution of the whole program.

    Returns:
        Conflicts, ambiguous watchers, counters set while in use, and whether an order exists.
    """
    comparer = Comparer(lambda entry: (_access(entry),))
    conflicts: list[Conflict] = []
    wraps: list[Wrap] = []
    resets: list[Reset] = []
    values = [0] * len(ScalarFlag)
    for items in _stretches(recording, walked):
        cluster = Cluster(len(_UNITS), COUNTERS, values)
        cluster.run(items)
        if not cluster.complete:
            return conflicts, wraps, resets, False
        conflicts += comparer.conflicts(cluster)
        wraps += cluster.wraps()
        resets += cluster.resets()
        values = cluster.values()
    return conflicts, wraps, resets, True


def _stretches(recording: Recording, walked: Walked) -> list[list[Job | Barrier]]:
    """The stream instructions, cut where a fence has waited for all of them."""
    stretches: list[list[Job | Barrier]] = [[]]
    pending = 0
    for place, (_, entry) in enumerate(recording.entries):
        if isinstance(entry, Streamed):
            pending |= 1 << stream_unit(entry.event)
            stretches[-1].append(_job(entry, place, walked))
        elif isinstance(entry, Fence):
            fence = entry.instruction
            idle = tuple(int(unit) for unit in _UNITS if fence.idle >> unit & 1)
            sets = tuple((int(flag), fence.value) for flag in ScalarFlag if fence.set >> flag & 1)
            stretches[-1].append(Barrier(entry, idle, sets))
            pending &= ~fence.idle
            if not pending:
                stretches.append([])
    return [stretch for stretch in stretches if stretch]
