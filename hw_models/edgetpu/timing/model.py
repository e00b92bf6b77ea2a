"""From a recording to a timeline: one inference on a host with a chip."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LIBEDGETPU, Host
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.scalar import ChunkStart, Descriptor
from fitzroy.hw_models.edgetpu.timeline import Link, Phase, Span, Timeline, Transfer
from fitzroy.hw_models.edgetpu.timing.chain import NOBODY, Ended, joined
from fitzroy.hw_models.edgetpu.timing.clockwork import BrokenPromise, Clockwork
from fitzroy.hw_models.edgetpu.timing.host import Leg, Pace, Reader, Wire
from fitzroy.hw_models.edgetpu.timing.places import Lap, Node
from fitzroy.hw_models.isa.scalar import DescriptorTag

_STREAMS = ("avdata_pop", "parameter_pop", "infeed", "outfeed")
_LATENT = ("ring_read_a", "ring_read_b")
"""Flags that count a while after the last row of what they count."""

_FROM_HOST = ("host", "instructions")
"""What is waited for if the host is late."""


def simulate(
    recording: Recording,
    chunks: Sequence[int],
    *,
    clock: str = "max",
    host: str = "jetson_nano_10w_usb3",
    profile: Host | None = None,
    driver: str = LIBEDGETPU,
    pieces: int = 0,
) -> Timeline:
    """When everything in an inference happens.

    Args:
        recording: the main executable as it was executed.
        chunks: bytes of each chunk of instructions.
        clock: performance level, a key of `BEAGLE.clocks`.
        host: a key of `BEAGLE.hosts`, or the name of `profile`.
        profile: the host, None for one of the chip's.
        driver: a key of `BEAGLE.drivers`.
        pieces: positions in y and x that the host puts in order, of all outputs.

    Raises:
        SimulationError: the program relies on queues that the chip may not have.
    """
    clocks, user = BEAGLE.clocks[clock], BEAGLE.drivers[driver]
    model = profile or BEAGLE.hosts[host]
    mhz = clocks.core_mhz
    pace = Pace.of(model, user, mhz)
    legs, rate = _legs(recording, chunks), user.output_byte(model) * mhz / 1000

    def clockwork(trusting: bool) -> Clockwork:
        wire, reader = Wire(chunks[0], legs, pace), Reader(rate, pace.fifo)
        return Clockwork(recording, wire, reader, trusting=trusting)

    work = clockwork(trusting=True)
    try:
        cycles = work.run()
    except (BrokenPromise, SimulationError):
        # What went on by trust may be in the way of others, which only the other way can tell.
        work = clockwork(trusting=False)
        cycles = work.run()
    start = (model.fixed + user.overhead) * 1000 + pace.first(chunks[0]) / mhz
    end = max([cycles, work.reader.time])
    transfers = _transfers(work, chunks[0], start, mhz, pace)
    total = start + end / mhz
    if _idle(transfers, total) > model.doze * 1000:
        total += model.wake * 1000
    total += pieces * model.output_piece / 1000
    return Timeline(
        clock=clock,
        core_mhz=mhz,
        host=host,
        start=start,
        cycles=cycles,
        total=total,
        issued=tuple(work.issued),
        spans=tuple(_spans(work.nodes)),
        phases=tuple(_phases(work.laps, recording.entries[0][0])),
        transfers=tuple(transfers),
        critical_path=tuple(critical_path(work.nodes, work.last, cycles)),
        driver=driver,
        link=model.stream,
    )


def _legs(recording: Recording, chunks: Sequence[int]) -> list[Leg]:
    legs = []
    for _, entry in recording.entries:
        match entry:
            case ChunkStart(number) if number:
                legs.append(Leg("instructions", chunks[number]))
            case Descriptor(tag=DescriptorTag.INPUT):
                legs.append(Leg("input", entry.size))
            case Descriptor(tag=DescriptorTag.PARAMETERS):
                legs.append(Leg("parameters", entry.size))
    return legs


def _phases(laps: Sequence[Lap], steps: int) -> Iterator[Phase]:
    begin = 0.0
    for lap in laps:
        yield Phase(begin, lap.end, lap.steps - steps, lap.streamed)
        begin, steps = lap.end, lap.steps


def _spans(nodes: Sequence[Node]) -> list[Span]:
    """What engines did, in order of time; tiles that did the same at the same time have one."""
    found: dict[tuple[Any, ...], Span] = {}
    for node in nodes:
        if node.issue is None or not (node.tiles or node.what in _STREAMS):
            continue
        side = node.last
        waits = dict(sorted(side.waits.cycles.items()))
        span = Span(node.what, node.tiles, node.issue, node.begin, side.end, side.busy, waits)
        key = span.issue, span.unit, span.begin, span.end, span.busy, *waits.items()
        same = found.get(key)
        found[key] = span if same is None else replace(same, tiles=same.tiles | span.tiles)
    return sorted(found.values(), key=lambda span: (span.begin, span.issue, span.unit, span.tiles))


def _transfers(work: Clockwork, first: int, start: float, mhz: float, pace: Pace) -> list[Transfer]:
    begin = start - first * pace.rates["instructions"] / mhz
    found = [Transfer("instructions", first, begin, start)]
    for leg, at, end in work.wire.spans():
        found.append(Transfer(leg.kind, leg.size, start + at / mhz, start + end / mhz))
    for output in work.outputs:
        found.append(
            Transfer(output.kind, output.size, start + output.begin / mhz, start + output.end / mhz)
        )
    return found


def _idle(transfers: Sequence[Transfer], total: float) -> float:
    """Longest time in which nothing is transferred, in microseconds."""
    busy = sorted((transfer.begin, transfer.end) for transfer in transfers)
    longest, time = 0.0, busy[0][1]
    for begin, end in [*busy, (total, total)]:
        longest, time = max(longest, begin - time), max(time, end)
    return longest


def critical_path(nodes: Sequence[Node], number: int, end: float) -> list[Link]:
    """Who made whom wait, from a node that ends last back to the start; in order of time."""
    links: list[Link] = []
    time, reason = end, "end"
    known: dict[int, Ended] = {}
    passed: set[int] = set()
    while number != NOBODY and time > 0:
        node = nodes[number]
        if node.end < time and reason not in _LATENT:
            # Between what had to be waited for and what waited, the scalar core or a fence.
            what = "scalar" if node.what == "scalar" else "fence"
            links.append(Link(what, None, node.end, time, reason))
            time = node.end
        waits = known.get(number)
        if waits is None:
            # What a node waits for itself is work of its own.
            waits = known[number] = joined([side.waits for side in node.sides], number)
        latest, source, cause = node.begin, node.maker, node.cause
        reach = time - BEAGLE.timing.chunk_latency if reason in _LATENT else time
        index = bisect_right(waits.times, reach) - 1
        # Both sides of two engines may have waited for each other's until the same moment.
        while index >= 0 and waits.times[index] == time and waits.makers[index] in passed:
            index -= 1
        if index >= 0 and waits.times[index] > latest:
            latest, source = float(waits.times[index]), int(waits.makers[index])
            cause = waits.names[waits.causes[index]]
        if latest < time:
            links.append(Link(node.what, node.issue, latest, time, cause))
            time = latest
            passed.clear()
        passed.add(number)
        number, reason = source, cause
    if time > 0:
        what = "host" if reason in _FROM_HOST else "scalar"
        links.append(Link(what, None, 0.0, time, "start"))
    return links[::-1]
