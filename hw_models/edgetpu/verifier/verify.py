"""All rules on one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.envelope import Program
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.scalar import Fence
from fitzroy.hw_models.edgetpu.verifier import outside, static, streams, tile
from fitzroy.hw_models.edgetpu.verifier.hazards import Comparer, Conflict, merged
from fitzroy.hw_models.edgetpu.verifier.order import Reset, Wrap
from fitzroy.hw_models.edgetpu.verifier.parts import MEMORY_NAMES, accesses_of, parts_of
from fitzroy.hw_models.edgetpu.verifier.rules import Finding
from fitzroy.hw_models.edgetpu.verifier.sync_walk import SyncWalk
from fitzroy.hw_models.edgetpu.verifier.text import issue_name, stream_name, tiles_text
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import ScalarFlag, TileFlag
from fitzroy.hw_models.isa.instruction import Instruction


def verify(
    recording: Recording, chunks: Sequence[Sequence[Instruction]] = ()
) -> tuple[Finding, ...]:
    """Check the synchronization of a program, and whether published programs are like it.

    A program that does not come to its end with the shortest queues is checked no further: what
    it would do afterwards is not known.

    Args:
        recording: what its scalar core does, by `record` or by a run of the simulator.
        chunks: its instructions, for the rules about chunks and the envelope. The latter takes
            addresses of buffers for 0, as `record` leaves them.

    Returns:
        What was found, by rule and place in the program.

    Raises:
        SimulationError: an instruction uses addresses outside memories, or operands that do not
            fit each other; or one that the simulator does not know.
    """
    findings = [*static.check_chunks(chunks), *static.check(recording)]
    parts = {
        entry.issue: parts_of(entry.issue)
        for _, entry in recording.entries
        if isinstance(entry, Dispatched) and not isinstance(entry.issue.instruction, TileFence)
    }
    walked = SyncWalk(recording, parts).run()
    findings += walked.findings
    if not walked.complete:
        return tuple(findings)
    ordered = tile.order(recording, parts, walked, Comparer(accesses_of))
    if ordered.stuck:
        findings.append(
            Finding(
                "deadlock",
                tiles_text(ordered.stuck),
                "not everything that its engines wait for is certain to come",
            )
        )
    for tiles, conflict in merged(ordered.conflicts):
        findings.append(_conflict(conflict, tiles_text(tiles)))
    findings += _each(
        [(_wrap(wrap, TileFlag), number) for number, wrap in ordered.wraps]
        + [(_reset(reset, TileFlag), number) for number, reset in ordered.resets]
    )
    conflicts, wraps, resets, complete = streams.order(recording, walked)
    if not complete:
        findings.append(
            Finding(
                "deadlock",
                "the stream units",
                "not everything that they wait for is certain to come",
            )
        )
    findings += [_conflict(conflict, "") for conflict in conflicts]
    findings += [_wrap(wrap, ScalarFlag) for wrap in wraps]
    findings += [_reset(reset, ScalarFlag) for reset in resets]
    if chunks:
        findings += outside.check(Program.recorded(chunks, recording))
    # Instructions of a loop are executed more than once.
    return tuple(dict.fromkeys(findings))


def _each(found: Sequence[tuple[Finding, int]]) -> list[Finding]:
    """Findings of several tiles together."""
    groups: dict[Finding, list[int]] = {}
    for finding, number in found:
        groups.setdefault(finding, []).append(number)
    return [
        Finding(one.rule, f"{one.where}, {tiles_text(tiles)}", one.what, one.parties, one.reason)
        for one, tiles in groups.items()
    ]


def _name(key: Any) -> str:
    match key:
        case Issue():
            return issue_name(key)
        case Streamed():
            return stream_name(key.event)
        case Fence():
            return f"scalar_fence at {key.chunk}:{key.bundle}"
    return "the start"


def _conflict(conflict: Conflict, where: str) -> Finding:
    one, other = _name(conflict.one), _name(conflict.other)
    verbs = ["writes" if kind else "reads" for kind in conflict.kinds]
    place = f"{MEMORY_NAMES[conflict.memory]} {conflict.address}"
    first, second = conflict.positions
    if conflict.timed:
        rule, what = "timing-guaranteed", "a row is written again when time says that it is taken"
    elif where:
        rule, what = "hazard", "two engines use one place without an order"
    else:
        rule, what = "stream-hazard", "two stream units use one place without an order"
    parties = (one, other)
    return Finding(
        rule,
        ", ".join(filter(None, (f"{one} and {other}" if one != other else one, where))),
        what,
        parties,
        f"the first {verbs[0]} {place} with element {first}, the second {verbs[1]} it with element "
        f"{second}, and neither waits for the other",
    )


def _wrap(wrap: Wrap, flags: type[TileFlag] | type[ScalarFlag]) -> Finding:
    return Finding(
        "flag-distance",
        _name(wrap.key),
        f"{flags(wrap.flag).name.lower()} can be {wrap.distance} away from what it waits for",
    )


def _reset(reset: Reset, flags: type[TileFlag] | type[ScalarFlag]) -> Finding:
    does = "counts with it" if reset.counts else "waits for it"
    name = flags(reset.flag).name.lower()
    parties = (_name(reset.key), _name(reset.fence))
    return Finding(
        "flag-reset",
        f"{parties[0]} and {parties[1]}",
        f"{name} is set while an instruction {does}",
        parties,
    )
