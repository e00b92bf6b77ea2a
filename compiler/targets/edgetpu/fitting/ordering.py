"""In which order do layers run?

Graphs list operators of parallel branches side by side, such as the heads of an attention: products
of all heads, then softmaxes of all heads. Depth first, a branch is finished before the next begins,
so that its images need not wait for those of the others, and layers take less narrow memory.

Outputs take less time if the host reads them while layers compute. The chip waits once a fifo of
them has not been read, and the host waits until there is one to read. Graphs compute the outputs of
a detector side by side, and the largest of them often last: then the host first has nothing to
read, and the chip nothing to compute in the end. `sent_early` finds a better order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.host import outputs, pace
from fitzroy.compiler.targets.edgetpu.host.host_layers import Send
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, WORD, Image


def depth_first(layered: Layered) -> Layered:
    """The layers in an order in which each comes right before what needs it, if it can.

    Layers whose results nobody reads, such as outputs, keep their order.
    """
    makers = {layer.writes: layer for layer in layered.layers}
    read = {name for layer in layered.layers for name in layer.reads}
    order: dict[Layer, None] = {}
    for last in layered.layers:
        waiting = [] if last.writes in read else [last]
        while waiting:
            layer = waiting[-1]
            before = [makers[name] for name in layer.reads if makers[name] not in order]
            if before:
                waiting.append(before[0])
            else:
                order[waiting.pop()] = None
    return replace(layered, layers=tuple(order))


_MOST = 64
"""Of more outputs, or parts of them, no order is looked for: it would take too long."""

_GAIN = 0.01
"""The least share of all cycles that another order saves. Less is within what estimates miss."""


def sent_early(layered: Layered) -> Layered | None:
    """The layers in an order in which they take less time, host included; None if there is none.

    Outputs come in order one by one, each where those so far take the least time (the heuristic of
    Nawaz, Enscore and Ham for flow shops). Layers that an output needs come right before it, unless
    one before needs them, too, in the order that they have.

    Args:
        layered: the layers.
    """
    sends = [layer for layer in layered.layers if isinstance(layer, Send)]
    # What is fetched has been sent before, which no operand says.
    if not 1 < len(sends) <= _MOST or any(layer.returned for layer in layered.layers):
        return None
    steps = Schedule.of(layered).steps
    course = _Course.of(steps)
    order: list[int] = []
    for number in range(len(sends)):
        places = range(len(order), -1, -1)
        order = min(([*order[:at], number, *order[at:]] for at in places), key=course.cycles)
    if course.cycles(order) > (1 - _GAIN) * cycles(steps):
        return None
    return replace(layered, layers=tuple(course.layers(order)))


def cycles(steps: Iterable[Step]) -> float:
    """Estimated cycles until the host has read all that steps send, in the order that they have."""
    return _cycles(
        (0.0, _sent(step)) if isinstance(step.layer, Send) else (step.cycles, 0) for step in steps
    )


def _sent(step: Step) -> int:
    """Bytes that a step sends."""
    assert isinstance(step.result, Image)
    return outputs.sent_bytes(step.result)


def _cycles(course: Iterable[tuple[float, int]]) -> float:
    """Estimated cycles of layers, each with the bytes that are sent then."""
    now, traffic = 0.0, pace.Traffic()
    for computing, nbytes in course:
        now += computing
        if nbytes:
            now = traffic.output(nbytes, now, now + pace.sending(-(-nbytes // (LANES * WORD))))
    return max(now, traffic.read)


@dataclass(frozen=True, slots=True)
class _Course:
    """Layers that send outputs, and those that compute them.

    Attributes:
        readers: the layers in the order that they have, each with the outputs that need it: a bit
            for each.
        sizes: bytes of each output.
        needed: for each output, estimated cycles of the layers that it needs, by the outputs that
            need them.
    """

    readers: Sequence[tuple[Layer, int]]
    sizes: Sequence[int]
    needed: Sequence[Mapping[int, float]]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> _Course:
        """The layers of steps."""
        sending = [step for step in steps if isinstance(step.layer, Send)]
        own = {step.layer: 1 << number for number, step in enumerate(sending)}
        readers: defaultdict[str, int] = defaultdict(int)
        for step in reversed(steps):
            layer = step.layer
            readers[layer.writes] |= own.get(layer, 0)
            for name in layer.reads:
                readers[name] |= readers[layer.writes]
        needed = [defaultdict[int, float](float) for _ in sending]
        for step in steps:
            readers_of = readers[step.layer.writes]
            for number, found in enumerate(needed):
                if step.layer not in own and readers_of >> number & 1:
                    found[readers_of] += step.cycles
        layers = [(step.layer, readers[step.layer.writes]) for step in steps]
        return cls(layers, [_sent(step) for step in sending], needed)

    def cycles(self, order: Sequence[int]) -> float:
        """Estimated cycles until the host has read outputs that are sent in an order."""
        return _cycles(self._computed(order))

    def _computed(self, order: Sequence[int]) -> Iterator[tuple[float, int]]:
        """Cycles of the layers that an output needs and none before it, and its bytes."""
        done = 0
        for number in order:
            needed = self.needed[number].items()
            yield sum(some for readers, some in needed if not readers & done), self.sizes[number]
            done |= 1 << number

    def layers(self, order: Sequence[int]) -> Iterator[Layer]:
        """The layers in the order in which outputs are sent; those that none needs come last."""
        done = 0
        for number in order:
            yield from (
                layer
                for layer, readers in self.readers
                if readers >> number & 1 and not readers & done
            )
            done |= 1 << number
        yield from (layer for layer, readers in self.readers if not readers)
