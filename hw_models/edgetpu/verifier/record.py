"""What the scalar core of a program does, found out without data."""

from __future__ import annotations

from collections.abc import Sequence

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.scalar import Dispatch, ScalarCore, Stream
from fitzroy.hw_models.edgetpu.stream import stream_plan
from fitzroy.hw_models.isa.instruction import Instruction


def record(chunks: Sequence[Sequence[Instruction]]) -> Recording:
    """The recording of a program whose course does not depend on data.

    Args:
        chunks: its instructions; addresses of buffers need not be filled in.

    Raises:
        UnknownValueError: the course depends on data; a run of the simulator records it.
        SimulationError: the program does something that the scalar core would not survive.
    """
    recording = Recording()
    core = ScalarCore()
    for event in core.run(chunks):
        match event:
            case Dispatch():
                if event.tiles is None or event.base_unknown:
                    raise SimulationError(
                        f"bundle {event.bundle} of chunk {event.chunk} depends on an unknown "
                        "register"
                    )
                issue = Issue(event.instruction, event.chunk, event.bundle, event.base)
                recording.append(core.steps, Dispatched(issue, event.tiles))
            case Stream():
                recording.append(core.steps, Streamed(event, stream_plan(event.instruction)))
            case _:
                recording.append(core.steps, event)
    return recording
