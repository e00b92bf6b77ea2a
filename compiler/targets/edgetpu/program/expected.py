"""How many cycles is each step of a program expected to take, given what precedes it?

A step takes the cycles by which the code generator decides, unless it waits for the host. How long
depends on the steps before: the link may still bring other data, and outputs that the host has not
read may leave no room. `expected` therefore follows the program from the start. Steps without an
estimate count as if they took no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from fitzroy.compiler.targets.edgetpu.host import host_layers, pace
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Receive, ToHost
from fitzroy.compiler.targets.edgetpu.instructions.builder import Request
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT
from fitzroy.compiler.targets.edgetpu.layers.layer import Flow, Step
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import ROWS
from fitzroy.compiler.targets.edgetpu.program.choices import Choice
from fitzroy.formats.object_file import UNIT_BYTES
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.scalar import DescriptorTag

_PHASE = BEAGLE.timing.phase

_BEGIN, _END = 2 * _PHASE, 2 * _PHASE
"""Cycles of the fences before the first step, and after the last one."""

Position = tuple[int, int]
"""Chunk and bundle, as `Builder.position` tells them."""


@dataclass(frozen=True, slots=True)
class Course:
    """What of a program decides how long its steps take.

    Attributes:
        steps: the steps.
        flows: what the phase of each brings from the host, and sends there.
        choices: how each is done.
        begins: where each begins, and where the last one ends.
        requests: transfers that the program asks the host for, in order.
        chunks: bytes of the chunks of instructions.
        resident: names of the weights that are on the chip.
        identity: whether the program makes the identity matrix before the first step.
    """

    steps: Sequence[Step]
    flows: Sequence[Flow]
    choices: Sequence[Choice]
    begins: Sequence[Position]
    requests: Sequence[Request]
    chunks: Sequence[int]
    resident: Container[str]
    identity: bool


def expected(course: Course) -> Iterator[float]:
    """Estimated cycles of each step, from the end of the one before; 0 where nothing is estimated.

    Steps of a phase together take the cycles of the phase.
    """
    clock = _Clock(course)
    before = 0.0
    for number, choice in enumerate(course.choices):
        clock.run(number)
        yield clock.now - before if choice.cycles else 0.0
        before = clock.now


@dataclass(slots=True)
class _Arrivals:
    """When the bytes of a stream arrive.

    Attributes:
        asked: bytes that the host was asked for.
        taken: bytes that steps so far take.
        ends: bytes up to the end of each transfer that steps may still wait for, and the cycle
            when they are there.
    """

    asked: int = 0
    taken: int = 0
    ends: deque[tuple[int, float]] = field(default_factory=deque)

    def add(self, nbytes: int, arrived: float) -> None:
        """Another transfer."""
        self.asked += nbytes
        self.ends.append((self.asked, arrived))

    def take(self, nbytes: int) -> float:
        """The cycle when the next bytes are there."""
        self.taken += nbytes
        while self.ends[0][0] < self.taken:
            self.ends.popleft()
        return self.ends[0][1]


class _Clock:
    """The course of a program, step by step.

    Args:
        course: the program.

    Attributes:
        now: cycle at which the steps so far end.
    """

    def __init__(self, course: Course) -> None:
        self.now = _BEGIN + (_PHASE if course.identity else 0.0)
        self._course = course
        self._traffic = pace.Traffic.after(course.chunks[0])
        self._chunk = 0
        self._requests = list(reversed(course.requests))
        self._inputs, self._parameters = _Arrivals(), _Arrivals()
        # When the phase began, and when the chip had its input; when all tiles have their parts of
        # it, and by how much the first row of the grid has it earlier.
        self._begun = self._arrived = self.now
        self._earlier = 0.0

    def run(self, number: int) -> None:
        """The next step."""
        course = self._course
        step, flow, choice = course.steps[number], course.flows[number], course.choices[number]
        self.now = max(self.now, self._fetched(course.begins[number][0]))
        if not flow.joined:
            self._begun = self._arrived = self.now
            self._earlier = 0.0
        sent, returned = self._ask(course.begins[number + 1])
        # A step in the phase of the one before needs no fence between them.
        ready = self.now - (_PHASE if flow.joined else 0.0)
        layer = step.layer
        if isinstance(layer, Receive | Fetch):
            self._receive(step, layer, returned)
        elif isinstance(layer, ToHost) and choice.cycles:
            self._send(step, layer, sent, ready)
        else:
            self._compute(step, choice, ready)
            if sent:
                self.now = self._traffic.output(sum(sent), self._begun, self.now)
        chunk, bundle = course.begins[number + 1]
        if bundle:
            # Its last bundle is in that chunk.
            self.now = max(self.now, self._fetched(chunk))
        if not (flow.joins and isinstance(layer, Receive)):
            self.now += choice.exchange
        if number == len(course.steps) - 1:
            # What ends its own phase waits for all tiles once more.
            self.now += _END + (_PHASE if isinstance(layer, Receive) else 0.0)

    def _fetched(self, chunk: int) -> float:
        """The cycle when chunks up to one are there that were not yet; 0 if all were."""
        arrived = 0.0
        while self._chunk < chunk:
            self._chunk += 1
            arrived = self._traffic.instructions(self._course.chunks[self._chunk])
        return arrived

    def _ask(self, end: Position) -> tuple[list[int], int]:
        """A step asks the host for what it does up to some place of the program.

        Returns:
            Bytes of each transfer of an output, and bytes that come from the scratch buffer.
        """
        sent, returned = list[int](), 0
        while self._requests and self._requests[-1].place < end:
            request = self._requests.pop()
            self.now = max(self.now, self._fetched(request.place[0]))
            if request.tag == DescriptorTag.INPUT:
                self._inputs.add(request.size, self._traffic.input(request.size, self._begun))
                returned += request.size if request.scratch else 0
            elif request.tag == DescriptorTag.PARAMETERS:
                arrived = self._traffic.parameters(request.size, self._begun)
                self._parameters.add(request.size, arrived)
            elif request.tag == DescriptorTag.OUTPUT:
                sent.append(request.size)
        return sent, returned

    def _receive(self, step: Step, layer: Receive | Fetch, returned: int) -> None:
        """A step takes an input, or what comes back from the scratch buffer."""
        pieces = host_layers.pieces(step)
        nbytes = UNIT * sum(piece.count for piece in pieces) + returned
        again = UNIT * sum(piece.again for piece in pieces)
        begun = self.now + (
            _PHASE if isinstance(layer, Receive) and layer.fills(step.tensors) else 0.0
        )
        self._arrived = max(self._inputs.take(nbytes), begun + pace.taking(nbytes + again))
        self._earlier = min(pace.ARRIVAL * nbytes, self._arrived - self._begun) * (ROWS - 1) / ROWS
        self.now = self._arrived + layer.finishing(step.tensors)

    def _compute(self, step: Step, choice: Choice, ready: float) -> None:
        """A step computes; weights come while it waits for an input."""
        self.now = max(self._begun + choice.cycles, ready + choice.cycles - choice.first)
        units = sum(
            item.units for item in step.layer.weights if item.name not in self._course.resident
        )
        if units:
            self.now = max(self.now, self._parameters.take(UNIT_BYTES * units) + _PHASE)

    def _send(self, step: Step, layer: ToHost, sent: Sequence[int], ready: float) -> None:
        """A step sends an output; its tiles begin when the infeed is done with what they need."""
        nbytes = sum(sent)
        cycles = layer.sending(step.tensors, nbytes)
        begin = max(self._arrived, ready - self._earlier)
        end = max(begin + cycles, ready + cycles / ROWS)
        if layer.relayed(step.tensors, nbytes):
            for number, size in enumerate(sent, 1):
                self._traffic.whole(size, begin + (end - begin) * number / len(sent))
            self.now = end
        else:
            self.now = self._traffic.output(nbytes, self._arrived, end)
