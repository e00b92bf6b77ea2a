"""Measures of transfers from the host, of infeeds, and of what waits in queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope.program import Place, Program, Value
from fitzroy.hw_models.edgetpu.scalar import Descriptor, Fence, Stream
from fitzroy.hw_models.isa.counters import nearest
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine, Watcher
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.traversal import Traversal

_BUFFERS = {
    InfeedMemory.PARAMETER: BEAGLE.memories.parameter_buffer,
    InfeedMemory.ACTIVATION: BEAGLE.memories.activation_buffer,
}


def _infeeds(program: Program) -> Iterator[tuple[Place, Infeed]]:
    for place, event in program.placed:
        if isinstance(event, Stream) and isinstance(event.instruction, Infeed):
            yield place, event.instruction


def infeed_bases(program: Program) -> Iterator[Value]:
    """Whole buffers by which the first address of each infeed is beyond its buffer."""
    for place, infeed in _infeeds(program):
        if infeed.memory in _BUFFERS:
            yield Value(infeed.buffer.base // _BUFFERS[infeed.memory].elements, place)


def infeed_reaches(program: Program) -> Iterator[Value]:
    """Whole buffers by which the highest address of each infeed is beyond its buffer."""
    for place, infeed in _infeeds(program):
        if infeed.memory in _BUFFERS:
            high = infeed.buffer.extent[1]
            yield Value(high // _BUFFERS[infeed.memory].elements, place)


def scalar_infeed_rows(program: Program) -> Iterator[Value]:
    """Words in a row of each infeed of scalar memory."""
    for place, infeed in _infeeds(program):
        if infeed.memory is InfeedMemory.SCALAR:
            yield Value(infeed.row_words, place)


def scalar_infeed_rests(program: Program) -> Iterator[Value]:
    """Words in the last row of each infeed of scalar memory if it is not whole."""
    for place, infeed in _infeeds(program):
        if infeed.memory is InfeedMemory.SCALAR:
            yield Value(infeed.buffer.steps % infeed.row_words, place)


# --- what is open --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    """A stream of units from the host.

    Attributes:
        tag: of its descriptors.
        pop: what its pops fill.
        infeed: what its infeeds read.
        engine: unit that pops.
        popped: flag that counts popped units.
        infed: flag that counts units that have been fed in.
        unit: bytes of a unit.
    """

    tag: DescriptorTag
    pop: PopMemory
    infeed: InfeedMemory
    engine: StreamEngine
    popped: ScalarFlag
    infed: ScalarFlag
    unit: int


_INPUTS = _Kind(
    DescriptorTag.INPUT,
    PopMemory.ACTIVATION,
    InfeedMemory.ACTIVATION,
    StreamEngine.AVDATA_POP,
    ScalarFlag.AVDATA_POP,
    ScalarFlag.AVDATA_INFEED,
    BEAGLE.memories.activation_buffer.element_bytes,
)
_PARAMETERS = _Kind(
    DescriptorTag.PARAMETERS,
    PopMemory.PARAMETER,
    InfeedMemory.PARAMETER,
    StreamEngine.PARAMETER_POP,
    ScalarFlag.PARAMETER_POP,
    ScalarFlag.PARAMETER_INFEED,
    BEAGLE.memories.parameter_buffer.element_bytes,
)


@dataclass
class _Open:
    """Requests and pops of a stream of which the scalar core does not know that they are done.

    Positions are in units since the program began.

    Attributes:
        kind: the stream.
        requests: positions at which requests end.
        pops: positions at which pops end.
        requested: units requested.
        popped: units that pops have been issued for.
        fed: units that infeeds have been issued for.
        served: units known to have been popped.
        origins: position at which each counter was 0.
    """

    kind: _Kind
    requests: list[int] = field(default_factory=list)
    pops: list[int] = field(default_factory=list)
    requested: int = 0
    popped: int = 0
    fed: int = 0
    served: int = 0
    origins: dict[ScalarFlag, int] = field(default_factory=dict)

    def request(self, descriptor: Descriptor) -> int:
        """Another request; how many are open with it."""
        self.requested += descriptor.size // self.kind.unit
        self.requests.append(self.requested)
        return len(self.requests)

    def pop(self, pop: Pop) -> int:
        """Another pop; how many are open with it."""
        self.popped += pop.buffer.steps
        self.pops.append(self.popped)
        return len(self.pops)

    def feed(self, infeed: Infeed) -> None:
        """An infeed, which waits for its last unit to be popped."""
        for watcher in infeed.wait:
            if watcher is not None and watcher.flag == self.kind.popped:
                # What an infeed begins with is in the buffer, so its position is near. Its end may
                # be further away than counters can tell.
                first = self._position(self.kind.popped, watcher.threshold)
                self.fed = max(self.fed, first + _further(watcher, infeed.buffer))

    def _position(self, flag: ScalarFlag, value: int) -> int:
        """Position at which a counter of 16 bits has a value; the one nearest to what is fed."""
        origin = self.origins.get(flag, 0)
        return origin + nearest(value, self.fed - origin)

    def fence(self, fence: ScalarFence) -> None:
        """What the scalar core knows after a fence."""
        kind = self.kind
        known = [self.served]
        if fence.idle >> kind.engine & 1:
            known.append(self.popped)
        if fence.idle >> StreamEngine.INFEED & 1:
            known.append(self.fed)
        for flag in (kind.popped, kind.infed):
            if fence.wait >> flag & 1:
                known.append(self._position(flag, fence.thresholds[flag]))
        self.served = max(known)
        self.requests = [end for end in self.requests if end > self.served]
        self.pops = [end for end in self.pops if end > self.served]
        for flag in (kind.popped, kind.infed):
            if fence.set >> flag & 1:
                self.origins[flag] = self.popped - fence.value


def _further(watcher: Watcher, buffer: Traversal) -> int:
    """How much further a counter must be before the last iteration than before the first."""
    turns = buffer.iterations(watcher.level) if watcher.level else buffer.steps
    return watcher.increment * (turns - 1)


def _opened(program: Program, kind: _Kind, *, pops: bool) -> Iterator[Value]:
    state = _Open(kind)
    for place, event in program.placed:
        match event:
            case Descriptor(tag=kind.tag):
                count = state.request(event)
                if not pops:
                    yield Value(count, place)
            case Stream(instruction=Pop(memory=kind.pop) as pop):
                count = state.pop(pop)
                if pops:
                    yield Value(count, place)
            case Stream(instruction=Infeed(memory=kind.infeed) as infeed):
                state.feed(infeed)
            case Fence(instruction=fence):
                state.fence(fence)


def open_inputs(program: Program) -> Iterator[Value]:
    """Requests for inputs that are open when each is issued, itself included."""
    return _opened(program, _INPUTS, pops=False)


def open_parameters(program: Program) -> Iterator[Value]:
    """Requests for parameters that are open when each is issued, itself included."""
    return _opened(program, _PARAMETERS, pops=False)


def open_pops(program: Program) -> Iterator[Value]:
    """Pops of inputs that are open when each is issued, itself included."""
    return _opened(program, _INPUTS, pops=True)


def open_parameter_pops(program: Program) -> Iterator[Value]:
    """Pops of parameters that are open when each is issued, itself included."""
    return _opened(program, _PARAMETERS, pops=True)


def requests_of_pops(program: Program) -> Iterator[Value]:
    """Requests whose units each pop of inputs takes."""
    requests, pops = list[tuple[int, int]](), list[tuple[int, int, Place]]()
    for place, event in program.placed:
        match event:
            case Descriptor(tag=DescriptorTag.INPUT, size=size):
                begin = requests[-1][1] if requests else 0
                requests.append((begin, begin + size // _INPUTS.unit))
            case Stream(instruction=Pop(memory=PopMemory.ACTIVATION) as pop):
                begin = pops[-1][1] if pops else 0
                pops.append((begin, begin + pop.buffer.steps, place))
    at = 0
    for begin, end, place in pops:
        while at < len(requests) and requests[at][1] <= begin:
            at += 1
        count = 0
        while at + count < len(requests) and requests[at + count][0] < end:
            count += 1
        yield Value(count, place)


# --- what waits in queues ------------------------------------------------------------------------


def waiting_outfeeds(program: Program) -> Iterator[Value]:
    """Outfeeds to one place since the scalar core last waited for them, each one included."""
    counts = {True: 0, False: 0}
    for place, event in program.placed:
        if isinstance(event, Fence) and event.instruction.idle >> StreamEngine.OUTFEED & 1:
            counts = dict.fromkeys(counts, 0)
        elif isinstance(event, Stream) and isinstance(event.instruction, Outfeed):
            counts[event.instruction.to_host] += 1
            yield Value(counts[event.instruction.to_host], place)


def waiting_infeeds(program: Program) -> Iterator[Value]:
    """Infeeds of inputs since the scalar core last waited for infeeds, each one included."""
    return _waiting(program, InfeedMemory.ACTIVATION)


def waiting_parameter_infeeds(program: Program) -> Iterator[Value]:
    """Infeeds of parameters since the scalar core last waited for infeeds, each one included."""
    return _waiting(program, InfeedMemory.PARAMETER)


def waiting_scalar_infeeds(program: Program) -> Iterator[Value]:
    """Infeeds of scalar memory since the scalar core last waited for infeeds, each one included."""
    return _waiting(program, InfeedMemory.SCALAR)


def _waiting(program: Program, memory: InfeedMemory) -> Iterator[Value]:
    waiting = 0
    for place, event in program.placed:
        match event:
            case Fence(instruction=fence) if fence.idle >> StreamEngine.INFEED & 1:
                waiting = 0
            case Stream(instruction=Infeed(memory=read)) if read is memory:
                waiting += 1
                yield Value(waiting, place)
