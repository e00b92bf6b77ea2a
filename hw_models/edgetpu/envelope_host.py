"""Properties of the scalar core and of transfers with the host that published programs keep to.

Each function measures one property of a decoded program and gives its values with their places.
Distances are in bundles of the program as it lies in memory; the body of a loop that runs more than
once counts twice, so that distances from one iteration to the next are seen, too.

Nothing here says what a value should be. A number outside the range of published programs is no
proof that a chip minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.recording import Entry, Streamed
from fitzroy.hw_models.edgetpu.scalar import Descriptor, Fence, HostWords
from fitzroy.hw_models.edgetpu.stream import HOST_UNIT_BYTES, WORD_BYTES
from fitzroy.hw_models.edgetpu.verifier.record import record
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine, Watcher
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorTag,
    Indexed,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory

Chunks = Sequence[Sequence[Instruction]]
"""Instructions of the chunks of a program, START and END included."""

_INDEXED = (Store.REGISTER, Store.INCREMENT)
_STORES = (Store.ABSOLUTE, *_INDEXED)
_PIPELINE = 1 << StreamEngine.PIPELINE
_UNARY = (Alu.MOV, Alu.I2F, Alu.F2I)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value of a property.

    Attributes:
        value: the value.
        chunk: chunk of the instruction that has it.
        bundle: its first bundle in the chunk.
    """

    value: int
    chunk: int
    bundle: int


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction on the way through a program.

    Attributes:
        at: bundles before it.
        chunk: its chunk.
        bundle: its first bundle in the chunk.
        item: the instruction.
    """

    at: int
    chunk: int
    bundle: int
    item: Instruction

    def measured(self, value: int) -> Measured:
        """A value of this instruction."""
        return Measured(value, self.chunk, self.bundle)


def _walk(chunks: Chunks) -> Iterator[_Step]:
    """All instructions, with the bodies of loops twice."""
    at = 0
    for number, chunk in enumerate(chunks):
        placed = list(positions(chunk))
        index = 0
        while index < len(placed):
            bundle, item = placed[index]
            yield _Step(at, number, bundle, item)
            at += item.bundles()
            index += 1
            if isinstance(item, Loop) and item.count > 1:
                # Bodies are scalar, one bundle an instruction.
                for bundle, inner in placed[index : index + item.length]:
                    yield _Step(at, number, bundle, inner)
                    at += 1


def _scalars(chunks: Chunks) -> Iterator[tuple[_Step, Scalar]]:
    return ((step, step.item) for step in _walk(chunks) if isinstance(step.item, Scalar))


def _stores(item: Instruction) -> bool:
    return isinstance(item, Scalar) and item.store in _STORES


# --- words of scalar memory ----------------------------------------------------------------------


def unfenced_stores(chunks: Chunks) -> list[Measured]:
    """For each infeed of scalar memory: stores since the last fence that waits for the pipeline."""
    found, stores = [], 0
    for step in _walk(chunks):
        match step.item:
            case ScalarFence(idle=idle) if idle & _PIPELINE:
                stores = 0
            case Infeed(memory=InfeedMemory.SCALAR):
                found.append(step.measured(stores))
            case item if _stores(item):
                stores += 1
    return found


def scalar_rows(chunks: Chunks) -> list[Measured]:
    """Words of the rows that an infeed makes of scalar memory."""
    return [step.measured(item.row_words) for step, item in _scalar_infeeds(chunks)]


def partial_scalar_rows(chunks: Chunks) -> list[Measured]:
    """Words that are left over for the last row of an infeed of scalar memory."""
    return [
        step.measured(item.buffer.steps % item.row_words) for step, item in _scalar_infeeds(chunks)
    ]


def _scalar_infeeds(chunks: Chunks) -> Iterator[tuple[_Step, Infeed]]:
    for step in _walk(chunks):
        if isinstance(step.item, Infeed) and step.item.memory is InfeedMemory.SCALAR:
            yield step, step.item


# --- outputs through the scalar core -------------------------------------------------------------


def relayed_pieces(chunks: Chunks) -> list[Measured]:
    """For each outfeed whose words are pushed as they are: 1 if a fence for the pipeline precedes.

    Words from which the scalar core computes something else are left out.
    """
    found: list[Measured] = []
    pending: list[Measured] = []
    before: Instruction | None = None
    for step in _walk(chunks):
        match step.item:
            case Outfeed(to_host=False, wait=(None,)):
                fenced = isinstance(before, ScalarFence) and before.idle == _PIPELINE
                pending.append(step.measured(int(fenced)))
            case Scalar(store=Store.PUSH):
                found += pending
                pending = []
            case Scalar(special=special, load=load) if special or load is Load.REGISTER:
                pending = []
        before = step.item
    return found


def pushed_runs(chunks: Chunks) -> list[Measured]:
    """Words of each run of pushes: whatever the core does in between is scalar."""
    return [place for place, _ in _runs(chunks)]


def uncovered_words(chunks: Chunks) -> list[Measured]:
    """For each run of pushes: words that the descriptor in front of it does not ask for."""
    return [
        Measured(abs(place.value - asked // WORD_BYTES), place.chunk, place.bundle)
        for place, asked in _runs(chunks)
    ]


def _runs(chunks: Chunks) -> Iterator[tuple[Measured, int]]:
    """Words of each run of pushes, and bytes of the descriptor directly in front of it."""
    place, asked = (0, 0), 0
    for entry in _entries(chunks):
        match entry:
            case HostWords(words=words):
                yield Measured(len(words), *place), asked
                asked = 0
            case Descriptor(tag=DescriptorTag.OUTPUT):
                place, asked = (entry.chunk, entry.bundle), entry.size
            case Streamed(event=event):
                place, asked = (event.chunk, event.bundle), 0
            case Fence() | Descriptor():
                place, asked = (entry.chunk, entry.bundle), 0
            case _:
                asked = 0


def output_offsets(chunks: Chunks, unit: int = 32) -> list[Measured]:
    """Bytes by which output descriptors begin beyond a multiple of a unit.

    Addresses of buffers must not be filled in, so that a descriptor has its offset.
    """
    return [
        Measured(entry.address % unit, entry.chunk, entry.bundle) for entry in _outputs(chunks)
    ]


def inner_output_sizes(chunks: Chunks, unit: int = 32) -> list[Measured]:
    """Bytes beyond a multiple of a unit of the descriptors that others of an output follow."""
    outputs = list(_outputs(chunks))
    return [
        Measured(entry.size % unit, entry.chunk, entry.bundle)
        for entry, after in zip(outputs, outputs[1:], strict=False)
        if after.address == entry.address + entry.size
    ]


def _outputs(chunks: Chunks) -> Iterator[Descriptor]:
    for entry in _entries(chunks):
        if isinstance(entry, Descriptor) and entry.tag is DescriptorTag.OUTPUT:
            yield entry


def _entries(chunks: Chunks) -> list[Entry]:
    return [entry for _, entry in record(chunks).entries]


def host_outfeed_units(chunks: Chunks) -> list[Measured]:
    """Units of outfeeds to the host."""
    return [
        step.measured(step.item.buffer.steps)
        for step in _walk(chunks)
        if isinstance(step.item, Outfeed) and step.item.to_host
    ]


# --- the special unit ----------------------------------------------------------------------------


def special_distances(chunks: Chunks) -> list[Measured]:
    """Bundles from one operation of the special unit to the next 2^x or 1/x."""
    return _distances(step for step, item in _scalars(chunks) if item.special)


def _distances(steps: Iterable[_Step]) -> list[Measured]:
    found: list[Measured] = []
    last: _Step | None = None
    for step in steps:
        if last is not None:
            found.append(step.measured(step.at - last.at))
        last = step
    return found


def exponential_uses(chunks: Chunks) -> list[Measured]:
    """Bundles from 2^x to its first use."""
    return _uses(chunks, Special.EXP2)


def reciprocal_uses(chunks: Chunks) -> list[Measured]:
    """Bundles from 1/x to its first use."""
    return _uses(chunks, Special.RECIPROCAL)


def _uses(chunks: Chunks, special: Special) -> list[Measured]:
    found: list[Measured] = []
    pending: dict[int, _Step] = {}
    for step, item in _scalars(chunks):
        for register in _read(item) & pending.keys():
            found.append(step.measured(step.at - pending.pop(register).at))
        for register in _written(item):
            pending.pop(register, None)
        if item.special is special:
            pending[item.special_to] = step
    return found


def _read(item: Scalar) -> set[int]:
    """Registers that a bundle reads."""
    found = set()
    if item.alu is not Alu.NOP:
        if item.alu not in _UNARY:
            found.add(item.a)
        if not item.immediate_b:
            found.add(item.immediate)
    if item.store and item.store is not Store.ISSUE:
        found.add(item.store_from)
    return found | _addresses(item) | ({item.special_from} if item.special else set())


def _addresses(item: Scalar) -> set[int]:
    """Registers with addresses that a bundle uses."""
    found = set()
    if item.load is Load.REGISTER:
        found.add(item.load_address & 0x1F)
    if item.load is Load.INCREMENT:
        found.add(Indexed.unpack(item.load_address).register)
    if item.store is Store.REGISTER:
        found.add(item.store_address & 0x1F)
    if item.store is Store.INCREMENT:
        found.add(Indexed.unpack(item.store_address).register)
    return found


def _written(item: Scalar) -> set[int]:
    """Registers that a bundle writes; a compare writes a predicate, which does not matter here."""
    found = {item.to} if item.alu is not Alu.NOP else set()
    return found | ({item.load_to} if item.load else set())


def special_neighbours(chunks: Chunks) -> list[Measured]:
    """Other slots that are used in the bundles of the special unit."""
    return [
        step.measured(bool(item.alu) + bool(item.load) + bool(item.store))
        for step, item in _scalars(chunks)
        if item.special
    ]


# --- loads and stores ----------------------------------------------------------------------------


def load_neighbours(chunks: Chunks) -> list[Measured]:
    """Other slots but the store that are used in bundles that load."""
    return [
        step.measured(bool(item.alu) + bool(item.special))
        for step, item in _scalars(chunks)
        if item.load
    ]


def store_distances(chunks: Chunks) -> list[Measured]:
    """Bundles from one store to memory to the next."""
    return _distances(step for step, item in _scalars(chunks) if _stores(item))


def memory_registers(chunks: Chunks) -> list[Measured]:
    """The highest register of each bundle that loads, stores, or uses the special unit."""
    found = []
    for step, item in _scalars(chunks):
        used = _addresses(item)
        used |= {item.load_to} if item.load else set()
        used |= {item.store_from} if item.store in (*_STORES, Store.PUSH) else set()
        used |= {item.special_to, item.special_from} if item.special else set()
        if used:
            found.append(step.measured(max(used)))
    return found


# --- requests to the host ------------------------------------------------------------------------


def issue_distances(chunks: Chunks) -> list[Measured]:
    """Bundles from the issue of a descriptor to the next issue."""
    return _distances(step for step, item in _scalars(chunks) if item.store is Store.ISSUE)


def slot_distances(chunks: Chunks) -> list[Measured]:
    """Bundles from the issue of a descriptor to the next write of a word of the descriptor."""
    found: list[Measured] = []
    issued: _Step | None = None
    for step, item in _scalars(chunks):
        if item.store is Store.DESCRIPTOR and issued is not None:
            found.append(step.measured(step.at - issued.at))
            issued = None
        if item.store is Store.ISSUE:
            issued = step
    return found


@dataclass(slots=True)
class _Requests:
    """Requests for one stream of the host that the scalar core does not know to be served.

    Attributes:
        pop: bit of the pop unit in fences.
        flag: what counts popped units.
        unit: bytes of a unit.
        asked: units of the stream that the host has been asked for, since the flag was set.
        infed: units that infeeds so far will have sent.
        ends: where the open requests end.
    """

    pop: int
    flag: ScalarFlag
    unit: int
    asked: int = 0
    infed: int = 0
    ends: list[float] = field(default_factory=list)

    def ask(self, size: int) -> int:
        """One more request; how many are open then."""
        self.asked += size // self.unit
        self.ends.append(self.asked)
        return len(self.ends)

    def infeed(self, item: Infeed) -> None:
        """An infeed that waits for units of this stream."""
        for watcher in item.wait:
            if isinstance(watcher, Watcher) and watcher.flag is self.flag:
                first = watcher.threshold - 1
                # Thresholds have 16 bits.
                first = self.infed + (first - self.infed + 0x8000) % 0x10000 - 0x8000
                self.infed = max(self.infed, first + item.buffer.steps)

    def fence(self, item: ScalarFence) -> None:
        """What is known after a fence."""
        if item.idle & self.pop:
            self.ends.clear()
        elif item.idle >> StreamEngine.INFEED & 1:
            self.ends = [end for end in self.ends if end > self.infed]
        if item.set >> self.flag & 1:
            self.asked = self.infed = 0
            self.ends = [float("inf")] * len(self.ends)


def open_inputs(chunks: Chunks) -> list[Measured]:
    """Requests for inputs, or of the scratch buffer, that are open when one is issued."""
    return _open(
        chunks,
        DescriptorTag.INPUT,
        _Requests(1 << StreamEngine.AVDATA_POP, ScalarFlag.AVDATA_POP, HOST_UNIT_BYTES),
    )


def open_parameters(chunks: Chunks) -> list[Measured]:
    """Requests for parameters that are open when one is issued."""
    unit = BEAGLE.memories.parameter_buffer.element_bytes
    return _open(
        chunks,
        DescriptorTag.PARAMETERS,
        _Requests(1 << StreamEngine.PARAMETER_POP, ScalarFlag.PARAMETER_POP, unit),
    )


def _open(chunks: Chunks, tag: DescriptorTag, requests: _Requests) -> list[Measured]:
    found = []
    for entry in _entries(chunks):
        match entry:
            case Descriptor() if entry.tag is tag:
                found.append(Measured(requests.ask(entry.size), entry.chunk, entry.bundle))
            case Streamed(event=event) if isinstance(event.instruction, Infeed):
                requests.infeed(event.instruction)
            case Fence():
                requests.fence(entry.instruction)
    return found


def pops_of_inputs(chunks: Chunks) -> list[Measured]:
    """For each pop of activations: descriptors of inputs up to the next one."""
    found: list[Measured] = []
    for entry in _entries(chunks):
        match entry:
            case Streamed(event=event) if isinstance(event.instruction, Pop):
                if event.instruction.memory is PopMemory.ACTIVATION:
                    found.append(Measured(0, event.chunk, event.bundle))
            case Descriptor(tag=DescriptorTag.INPUT) if found:
                last = found[-1]
                found[-1] = Measured(last.value + 1, last.chunk, last.bundle)
    return found


def infeed_bases(chunks: Chunks) -> list[Measured]:
    """First units of infeeds of activations."""
    return [step.measured(item.buffer.base) for step, item in _activation_infeeds(chunks)]


def infeed_reach(chunks: Chunks) -> list[Measured]:
    """Units up to the highest address of infeeds of activations."""
    return [
        step.measured(int(item.buffer.addresses().max()) + 1)
        for step, item in _activation_infeeds(chunks)
    ]


def _activation_infeeds(chunks: Chunks) -> Iterator[tuple[_Step, Infeed]]:
    for step in _walk(chunks):
        if isinstance(step.item, Infeed) and step.item.memory is InfeedMemory.ACTIVATION:
            yield step, step.item


# --- queues --------------------------------------------------------------------------------------


def waiting_outfeeds(chunks: Chunks) -> list[Measured]:
    """Outfeeds since the last fence that waits for them, this one included."""
    found, count = [], 0
    for step in _walk(chunks):
        match step.item:
            case ScalarFence(idle=idle) if idle >> StreamEngine.OUTFEED & 1:
                count = 0
            case Outfeed():
                count += 1
                found.append(step.measured(count))
    return found


def waiting_parameter_infeeds(chunks: Chunks) -> list[Measured]:
    """Infeeds of parameters since the last fence that waits for them, this one included."""
    found, count = [], 0
    for step in _walk(chunks):
        match step.item:
            case ScalarFence(idle=idle) if idle >> StreamEngine.INFEED & 1:
                count = 0
            case Infeed(memory=InfeedMemory.PARAMETER):
                count += 1
                found.append(step.measured(count))
    return found
