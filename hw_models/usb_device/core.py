"""The chip behind the USB interface: takes instructions and data as they come.

A program runs as far as its data lets it. What it asks for is a request of `Machine.execute`;
bytes are gathered until they are enough for an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.errors import FitzroyError, SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import Tag
from fitzroy.hw_models.edgetpu.machine import (
    Delivery,
    Execution,
    Fetch,
    Interrupt,
    Machine,
    NextChunk,
    Request,
)
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.program import disassemble

CHUNK_BYTES = BEAGLE.limits.chunk_bundles * BUNDLE_BYTES
"""Longest chunk of instructions."""

MOST_BYTES = 256 << 20
"""Longest transfer that a program may ask for: ASSUMED, so that memory has a bound."""


@dataclass
class Program:
    """A program that a chip has run, as the timing model takes it.

    Attributes:
        recording: what the scalar core did.
        chunks: bytes of each chunk of instructions.
        sent: whether it has sent anything to the host.
    """

    recording: Recording = field(default_factory=Recording)
    chunks: list[int] = field(default_factory=list)
    sent: bool = False


class ChipCore:
    """A chip core from power-up on.

    Args:
        seed: as `Machine` takes it.
        budget: most steps of the scalar core in a program.
        record: called with every program that has run to its end; None to take nothing down.

    Attributes:
        error: why the core is stuck; None if it is not.
        cause: name of the bit of `hib_error_status` that the error sets, empty for none.
        programs: programs that have run to their end.
        halted: whether run controls hold the core.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        budget: int = STEP_BUDGET,
        record: Callable[[Program], None] | None = None,
    ) -> None:
        self.error: FitzroyError | None = None
        self.cause = ""
        self.programs = 0
        self.halted = True
        self._seed = seed
        self._budget = budget
        self._record = record
        self._program = Program()
        self._machine: Machine | None = None
        self._execution: Execution | None = None
        self._asks: NextChunk | Fetch | None = NextChunk(0)
        self._held = bytearray()
        self._complete = False

    def discard(self) -> None:
        """Give back the memories; the core must not be at work.

        A machine refers to itself in many places, and the garbage collector, which does not know
        how large arrays are, would let dozens of machines pile up.
        """
        if self._execution is not None:
            self._execution.close()
            self._execution = None
        if self._machine is not None:
            vars(self._machine).clear()
            self._machine = None

    # --- data ------------------------------------------------------------------------------------

    @property
    def stuck(self) -> bool:
        """Whether nothing moves at present."""
        return self.halted or self.error is not None

    def wants(self, tag: Tag) -> int:
        """How many bytes of a kind the core takes now."""
        if self.stuck or self._complete:
            return 0
        match self._asks:
            case NextChunk() if tag is Tag.INSTRUCTIONS:
                return CHUNK_BYTES - len(self._held)
            case Fetch(descriptor) if int(descriptor.tag) == int(tag):
                return descriptor.size - len(self._held)
        return 0

    def give(self, tag: Tag, data: bytes | bytearray) -> None:
        """Take bytes of a kind, no more than the core wants."""
        self._held += data
        if tag is not Tag.INSTRUCTIONS and not self.wants(tag):
            self._complete = True

    def end_chunk(self) -> None:
        """The chunk of instructions is complete."""
        self._complete = True

    def fail(self, error: FitzroyError, cause: str) -> None:
        """Get stuck until a reset."""
        self.error, self.cause = error, cause
        self._held.clear()
        # Frames of the trace would keep the memories of a chip that is long gone.
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__

    # --- execution -------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the program can go on."""
        return not self.stuck and (self._asks is None or self._complete)

    def step(self) -> Callable[[], Request | None]:
        """Take what is needed to go on; the function does so, and gives the next request.

        The function changes nothing but the machine, and may take long. Whoever calls it hands
        its result to `after`.
        """
        answer: bytes | None = None
        asked = self._asks
        if asked is not None:
            answer = bytes(self._held)
            self._held = bytearray()
            self._complete = False
            self._asks = None
        return lambda: self._proceed(asked, answer)

    def after(self, request: Request | None) -> Delivery | Interrupt | Fetch | None:
        """Take note of what a step gave; what the host is to see of it.

        Args:
            request: result of the step, None at the end of the program.
        """
        match request:
            case Fetch(descriptor):
                if not 0 < descriptor.size <= MOST_BYTES:
                    empty = not descriptor.size
                    self.fail(
                        SimulationError(
                            f"the program asks for {descriptor.size} bytes",
                            where=f"bundle {descriptor.bundle} of chunk {descriptor.chunk}",
                        ),
                        "length_0_dma" if empty else "inbound_page_fault",
                    )
                    return None
                self._asks = request
                return request
            case NextChunk():
                self._asks = request
            case Delivery() | Interrupt():
                self._program.sent |= isinstance(request, Delivery)
                return request
            case None:
                self.programs += 1
                if self._record is not None:
                    self._record(self._program)
                self._execution = None
                self._asks = NextChunk(0)
        return None

    def _proceed(self, asked: NextChunk | Fetch | None, data: bytes | None) -> Request | None:
        answer: Any = None
        if isinstance(asked, NextChunk) and data is not None:
            answer = disassemble(data)
            if self._execution is None:
                self._program = Program()
            self._program.chunks.append(len(data))
        elif data is not None:
            answer = np.frombuffer(data, np.uint8)
        if self._execution is None:
            if self._machine is None:
                self._machine = Machine(seed=self._seed)
                self._machine.core.budget = self._budget
            if self._record is not None:
                self._machine.recording = self._program.recording
            self._execution = self._machine.execute()
            next(self._execution)
        try:
            return self._execution.send(answer)
        except StopIteration:
            return None
