"""Measures of what goes to the host, and of words that pass through scalar memory on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope.program import Program, Step, Value
from fitzroy.hw_models.edgetpu.scalar import Descriptor, HostWords, Stream
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import DescriptorTag, Scalar, Special, Store
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed

WORD_BYTES = BEAGLE.memories.scalar.element_bytes
BURST_BYTES = 32
"""What addresses and sizes of outputs are multiples of in published programs."""

_IN_MEMORY = (Store.ABSOLUTE, Store.REGISTER, Store.INCREMENT)


def _drains(instruction: Instruction) -> bool:
    """Whether the scalar core waits until its pipeline is empty."""
    return (
        isinstance(instruction, ScalarFence) and instruction.idle >> StreamEngine.PIPELINE & 1 == 1
    )


def _to_memory(instruction: Instruction) -> bool:
    """Whether an outfeed brings words that the scalar core reads, and no infeed takes."""
    return (
        isinstance(instruction, Outfeed) and not instruction.to_host and not any(instruction.wait)
    )


# --- words that the scalar core handles ----------------------------------------------------------


def stored_word_infeeds(program: Program) -> Iterator[Value]:
    """Stores, since the scalar core's pipeline was last empty, before each infeed of its memory.

    An infeed that waits for the outfeed sends what that has brought, and counts none.
    """
    stores = 0
    for step in program.steps:
        match step.instruction:
            case Scalar() as bundle if bundle.store in _IN_MEMORY:
                stores += step.repeats
            case ScalarFence() as fence if _drains(fence):
                stores = 0
            case Infeed(memory=InfeedMemory.SCALAR) as infeed:
                flags = [watcher.flag for watcher in infeed.wait if watcher is not None]
                yield Value(0 if ScalarFlag.RING_OUTFEED in flags else stores, step.place)


def relay_fences(program: Program) -> Iterator[Value]:
    """For each message to scalar memory whose words are pushed on: whether no fence precedes it.

    The fence waits for the scalar core's pipeline, after the message and before its outfeed. Words
    that the core computes with, such as those of a softmax, are not pushed on.
    """
    steps = program.steps
    pushed = _pushed_next(steps)
    drained = False
    for number, step in enumerate(steps):
        instruction = step.instruction
        if isinstance(instruction, RingProduce) and instruction.to_outfeed:
            drained = False
        elif _drains(instruction):
            drained = True
        elif _to_memory(instruction) and pushed[number]:
            yield Value(int(not drained), step.place)


def _pushed_next(steps: Sequence[Step]) -> list[bool]:
    """Whether words are pushed after each step before any operation of the special unit."""
    found, pushed = [], False
    for step in reversed(steps):
        found.append(pushed)
        bundle = step.instruction
        if isinstance(bundle, Scalar):
            if bundle.special is not Special.NONE:
                pushed = False
            elif bundle.store is Store.PUSH:
                pushed = True
    return found[::-1]


def push_runs(program: Program) -> Iterator[Value]:
    """Words of each run of pushes beyond an even number."""
    for place, event in program.placed:
        if isinstance(event, HostWords):
            yield Value(len(event.words) % 2, place)


# --- descriptors of outputs ----------------------------------------------------------------------


def descriptor_places(program: Program) -> Iterator[Value]:
    """Bytes by which each run of pushes differs from the descriptor directly before it."""
    for (_, before), (place, event) in pairwise(program.placed):
        if isinstance(event, HostWords):
            own = isinstance(before, Descriptor) and before.tag is DescriptorTag.OUTPUT
            size = before.size if own and isinstance(before, Descriptor) else 0
            yield Value(abs(WORD_BYTES * len(event.words) - size), place)


def descriptor_offsets(program: Program) -> Iterator[Value]:
    """Bytes from a multiple of 32 to the begin of each descriptor of an output."""
    for place, event in program.placed:
        if isinstance(event, Descriptor) and event.tag is DescriptorTag.OUTPUT:
            yield Value(event.address % BURST_BYTES, place)


def descriptor_sizes(program: Program) -> Iterator[Value]:
    """Bytes beyond a multiple of 32 of each descriptor of an output but the last one of it."""
    begins: dict[int, int] = {}
    found = [
        (place, event)
        for place, event in program.placed
        if isinstance(event, Descriptor) and event.tag is DescriptorTag.OUTPUT
    ]
    values = []
    # From the end: whether another descriptor goes on where this one ends.
    for place, event in reversed(found):
        end = event.address + event.size
        if begins.get(end):
            begins[end] -= 1
            values.append(Value(event.size % BURST_BYTES, place))
        begins[event.address] = begins.get(event.address, 0) + 1
    yield from reversed(values)


# --- outfeeds to the host ------------------------------------------------------------------------


def outfeed_units(program: Program) -> Iterator[Value]:
    """Units of 8 bytes of each outfeed to the host."""
    for place, event in program.placed:
        if isinstance(event, Stream) and isinstance(event.instruction, Outfeed):
            outfeed = event.instruction
            if outfeed.to_host:
                yield Value(outfeed.buffer.steps, place)


def outfeed_loops(program: Program) -> Iterator[Value]:
    """Loops of each outfeed to the host that run more than once."""
    for place, event in program.placed:
        if isinstance(event, Stream) and isinstance(event.instruction, Outfeed):
            outfeed = event.instruction
            if outfeed.to_host:
                yield Value(sum(dim.count > 1 for dim in outfeed.buffer.dims), place)
