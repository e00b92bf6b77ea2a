"""Names of instructions and tiles in findings."""

from __future__ import annotations

from collections.abc import Iterable

from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.scalar import Stream
from fitzroy.hw_models.isa.fields import TILES


def issue_name(issue: Issue | None) -> str:
    """An instruction for tiles: ``mac #36 at 0:245``, with its chunk and bundle."""
    if issue is None:
        return "nothing"
    name = issue.instruction.op.name.lower()
    return f"{name} #{issue.instruction.seq} at {issue.chunk}:{issue.bundle}"


def stream_name(event: Stream) -> str:
    """A stream instruction: ``infeed at 0:112``."""
    return f"{event.instruction.op.name.lower()} at {event.chunk}:{event.bundle}"


def tiles_text(tiles: Iterable[int]) -> str:
    """A set of tiles: ``tile 3``, ``tiles r01c23``, ``all tiles``."""
    members = list(tiles)
    if len(members) == 1:
        return f"tile {members[0]}"
    text = TILES.text(sum(1 << tile for tile in members))
    return "all tiles" if text == "all" else f"tiles {text}"
