"""What a host does for an executable, made ready once and carried out for every request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.device.limits import Watch
from fitzroy.driver.device.streams import PACKET, Message, ProtocolError, Streams
from fitzroy.formats.darwinn import Description, Executable, Layer
from fitzroy.hw_models.chips.usb import ALL_TAGS, INTERRUPT_TAGS, Event, Tag
from fitzroy.linker.layouts import InputEncoder, decode_output, output_map
from fitzroy.linker.resolve.fields import Buffer, buffer_addresses, patched
from fitzroy.linker.schedule import (
    AwaitInterrupt,
    Fence,
    ReceiveOutput,
    ReceiveScratch,
    SendInput,
    SendInstructions,
    SendParameters,
    SendScratch,
    Step,
    from_hints,
)

_INPUT = Description.BASE_ADDRESS_INPUT_ACTIVATION
_OUTPUT = Description.BASE_ADDRESS_OUTPUT_ACTIVATION
_SCRATCH = Buffer(Description.BASE_ADDRESS_SCRATCH)
_PARAMETERS = Buffer(Description.BASE_ADDRESS_PARAMETER)

_MOST_WAITING = 8 << 10
"""Bytes of outputs that may wait in the device: a quarter of what fits."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Bytes for the device in two places.

    Attributes:
        head: the first ones, in whole packets.
        tail: the rest.
    """

    head: memoryview
    tail: memoryview

    def cut(self, first: int, end: int) -> tuple[memoryview, ...]:
        """Some of the bytes, all but the last piece in whole packets."""
        size = len(self.head)
        tail = self.tail[max(first - size, 0) : max(end - size, 0)]
        head = self.head[first:end]
        if len(tail) and len(head) % PACKET:
            return (memoryview(b"".join((head, tail))),)
        return tuple(part for part in (head, tail) if len(part))


Source = bytes | memoryview | Pieces
"""Bytes for the device."""


@dataclass(eq=False, slots=True)
class Exchange:
    """The data of one request while it is under way; buffers are numbered by its executable.

    Attributes:
        sources: what goes to the device.
        targets: what comes from it.
        stream: all bytes that came, in order.
    """

    sources: Sequence[Source]
    targets: list[bytes | memoryview]
    stream: list[bytes | memoryview] = field(default_factory=list)


Action = Callable[[Exchange, Streams, Watch], None]
"""A step, ready to be carried out."""


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Send bytes that are the same in every request, or a part of a buffer.

    Attributes:
        message: the bytes; None for a part of a buffer.
        tag: what they are.
        source: number of the buffer.
        offset: first byte.
        size: number of bytes.
    """

    message: Message | None
    tag: Tag = Tag.INPUT
    source: int = 0
    offset: int = 0
    size: int = 0

    def of(self, exchange: Exchange) -> Message:
        """The bytes for a request."""
        if self.message is not None:
            return self.message
        source, end = exchange.sources[self.source], self.offset + self.size
        if isinstance(source, Pieces):
            return Message.of(self.tag, *source.cut(self.offset, end))
        return Message.of(self.tag, memoryview(source)[self.offset : end])

    def __call__(self, exchange: Exchange, streams: Streams, watch: Watch) -> None:
        """Send them."""
        streams.send(self.of(exchange), watch)


@dataclass(frozen=True, slots=True, eq=False)
class Receive:
    """Receive a part of a buffer.

    Attributes:
        target: number of the buffer.
        offset: first byte.
        size: number of bytes.
        whole: whether that is all of the buffer.
        more: bytes of outputs that follow without anything in between.
    """

    target: int
    offset: int
    size: int
    whole: bool = False
    more: int = 0

    def __call__(self, exchange: Exchange, streams: Streams, watch: Watch) -> None:
        """Receive it."""
        data = streams.receive(self.size, self.more, watch)
        exchange.stream.append(data)
        if self.whole:
            exchange.targets[self.target] = data
        else:
            target = exchange.targets[self.target]
            # Buffers that are not received as a whole are made writable
            # by `PreparedExecutable.exchange`.
            memoryview(target)[self.offset : self.offset + self.size] = data


@dataclass(frozen=True, slots=True, eq=False)
class Await:
    """Wait for an interrupt."""

    event: Event

    def __call__(self, exchange: Exchange, streams: Streams, watch: Watch) -> None:
        """Wait, and see that it is that one."""
        found = streams.event(watch)
        if found != self.event:
            raise ProtocolError(
                "another event than that of the program",
                reason=f"{found} instead of {self.event}",
            )


class PreparedExecutable:
    """An executable, made ready.

    Args:
        executable: the executable.

    Attributes:
        executable: as given.
        head: what is sent before anything is received.
        tail: the rest.
        events: mask of tags whose descriptors the device has to announce.

    Raises:
        FormatError: its script does not fit its buffers.
        CapacityError: it wants a buffer of more than the budget has.
        LinkError: a field without a buffer.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._batches = max(executable.batch_size, 1)
        self._addresses = buffer_addresses(executable)
        self._inputs = tuple((layer, InputEncoder(layer)) for layer in executable.inputs.values())
        self._names = executable.inputs.keys()
        self._outputs = tuple((layer, _decoder(layer)) for layer in executable.outputs.values())
        scratch = {_SCRATCH: _sized(executable.scratch_size_bytes, "the scratch buffer")}
        self._sources = scratch | _sizes(executable.inputs, _INPUT, self._batches)
        self._targets = scratch | _sizes(executable.outputs, _OUTPUT, self._batches)
        self._numbers = {
            buffer: number
            for sizes in (self._sources, self._targets)
            for number, buffer in enumerate(sizes)
        }
        self._parameters = b"" if executable.parameters is None else executable.parameters.tobytes()
        hints = executable.dma_hints
        if hints is None:
            raise FormatError("the executable has no script for the host", table="dma_hints")
        script = from_hints(hints)
        self.events = INTERRUPT_TAGS if script.deterministic else ALL_TAGS
        actions: list[Action] = (
            _following([action for step in script.steps for action in self._action(step)])
            if script.deterministic
            else self._unforeseen()
        )
        cut = next(
            (n for n, action in enumerate(actions) if not isinstance(action, Send)), len(actions)
        )
        self.head: tuple[Send, ...] = tuple(a for a in actions[:cut] if isinstance(a, Send))
        self.tail: tuple[Action, ...] = tuple(actions[cut:])
        receipts = [action for action in self.tail if isinstance(action, Receive)]
        received_whole = {receive.target for receive in receipts if receive.whole}
        self._whole = tuple(n in received_whole for n in range(len(self._targets)))
        if script.deterministic:
            self._check_complete(receipts)

    @property
    def goes_by_hints(self) -> bool:
        """Whether the host goes by the hints, and not by what the device announces."""
        return self.events == INTERRUPT_TAGS

    @property
    def overlaps(self) -> bool:
        """Whether another program may be sent while this one is received."""
        known = all(isinstance(action, Receive | Await) for action in self.tail)
        return known and self.goes_by_hints

    # --- requests --------------------------------------------------------------------------------

    def encoded(self, inputs: Mapping[str, Array], *, lent: bool = False) -> tuple[Source, ...]:
        """Inputs as the device wants them, by number of their buffers.

        Args:
            inputs: elements of every input as bytes, by layer name; of a batch, one after the
                other.
            lent: whether the arrays stay as they are as long as the result is used; then what
                needs no change is not copied.

        Raises:
            UsageError: an input is missing or unknown.
            FormatError: an input has another size than its layer.
        """
        if self._names != inputs.keys():
            raise _wrong_inputs(self.executable.inputs, inputs)
        found: list[Source] = [b""]
        for layer, encode in self._inputs:
            data = inputs[layer.name or ""]
            parts = [data] if self._batches == 1 else self._split(layer, data)
            found += [_source(encode, part, lent) for part in parts]
        return tuple(found)

    def _split(self, layer: Layer, data: Array) -> Sequence[Array]:
        if data.nbytes % self._batches:
            raise FormatError(
                f"{data.nbytes} bytes for a batch of {self._batches}",
                table=f"layer {layer.name!r}",
            )
        return np.split(data.reshape(-1).view(np.uint8), self._batches)

    def exchange(self, inputs: Sequence[Source]) -> Exchange:
        """What a request starts with.

        Args:
            inputs: result of `encoded`.
        """
        # Pages of numpy's zeros are there once something is written to them, however many.
        targets: list[bytes | memoryview] = [
            b"" if whole else np.zeros(size, np.uint8).data
            for size, whole in zip(self._targets.values(), self._whole, strict=True)
        ]
        return Exchange((targets[0], *inputs[1:]), targets)

    def tensors(self, exchange: Exchange) -> dict[str, Array]:
        """Bytes of every output in the order of its elements, by layer name."""
        return {
            layer.name or "": _joined([decode(part) for part in parts])
            for (layer, decode), parts in zip(self._outputs, self._received(exchange), strict=True)
        }

    def buffers(self, exchange: Exchange) -> dict[str, Array]:
        """Bytes of every output as the device sends them, by layer name."""
        return {
            layer.name or "": _joined([np.frombuffer(part, np.uint8) for part in parts])
            for (layer, _), parts in zip(self._outputs, self._received(exchange), strict=True)
        }

    def _received(self, exchange: Exchange) -> Iterator[list[bytes | memoryview]]:
        """The buffers of each output, one per batch."""
        for first in range(1, len(exchange.targets), self._batches):
            yield exchange.targets[first : first + self._batches]

    # --- steps -----------------------------------------------------------------------------------

    def _action(self, step: Step) -> Iterator[Action]:
        match step:
            case SendInstructions(chunk):
                yield Send(self._instructions(chunk))
            case SendInput(name, batch, offset, size):
                yield self._send(Tag.INPUT, Buffer(_INPUT, name, batch), offset, size)
            case SendParameters(offset, size):
                yield self._send(Tag.PARAMETERS, _PARAMETERS, offset, size)
            case SendScratch(offset, size):
                yield self._send(Tag.INPUT, _SCRATCH, offset, size)
            case ReceiveOutput(name, batch, offset, size):
                yield self._receive(Buffer(_OUTPUT, name, batch), offset, size)
            case ReceiveScratch(offset, size):
                yield self._receive(_SCRATCH, offset, size)
            case AwaitInterrupt(number):
                yield Await(Event(tag=Tag(Tag.INTERRUPT_0 + number)))
            case Fence():
                # Steps are carried out one after the other anyway.
                pass

    def _instructions(self, chunk: int) -> Message:
        streams = self.executable.instruction_bitstreams or []
        if not 0 <= chunk < len(streams):
            raise FormatError(f"chunk {chunk} of {len(streams)}", table="dma_hints")
        content = streams[chunk].bitstream
        data = b"" if content is None else content.tobytes()
        offsets = streams[chunk].field_offsets or ()
        return Message.of(Tag.INSTRUCTIONS, patched(data, offsets, self._addresses))

    def _send(self, tag: Tag, buffer: Buffer, offset: int, size: int) -> Send:
        if buffer == _PARAMETERS:
            self._check_place(buffer, offset, size, len(self._parameters))
            return Send(Message.of(tag, self._parameters[offset : offset + size]))
        self._check_place(buffer, offset, size, self._sources.get(buffer, 0))
        return Send(None, tag, self._numbers[buffer], offset, size)

    def _receive(self, buffer: Buffer, offset: int, size: int) -> Receive:
        total = self._targets.get(buffer, 0)
        self._check_place(buffer, offset, size, total)
        whole = size == total and buffer != _SCRATCH
        return Receive(self._numbers[buffer], offset, size, whole)

    def _check_place(self, buffer: Buffer, offset: int, size: int, total: int) -> None:
        if not 0 <= offset < offset + size <= total:
            raise FormatError(
                f"the script transfers {size} bytes of {buffer} from byte {offset}; "
                f"there are {total}",
                table="dma_hints",
            )

    def _check_complete(self, receipts: Sequence[Receive]) -> None:
        """Every byte of every output is received."""
        missing = self._missing(receipts)
        if missing:
            raise FormatError(f"the script receives {missing}", table="dma_hints")

    def _missing(self, receipts: Sequence[Receive]) -> str:
        """What is received of the first output that is not received as a whole; else nothing."""
        ordered = sorted(receipts, key=lambda one: one.offset)
        for number, (buffer, size) in enumerate(self._targets.items()):
            reached = 0
            for receive in ordered:
                if receive.target == number and receive.offset <= reached:
                    reached = max(reached, receive.offset + receive.size)
            if buffer != _SCRATCH and reached < size:
                return f"{reached} of {size} bytes of {buffer}"
        return ""

    # --- programs whose course depends on data ---------------------------------------------------

    def _unforeseen(self) -> list[Action]:
        """The first chunk, and then whatever the device asks for."""
        if len(self.executable.instruction_bitstreams or ()) != 1:
            raise FormatError(
                "the course of the program depends on data, and it has several chunks",
                hint="only programs of one chunk can be followed",
            )
        return [Send(self._instructions(0)), self._follow]

    def _follow(self, exchange: Exchange, streams: Streams, watch: Watch) -> None:
        """Serve the descriptors that the device announces, until it raises interrupt 0."""
        # Outputs that follow each other share packets, and the last one comes only with the next
        # descriptor: they are fetched when something else is announced.
        announced: list[Receive] = []
        receipts: list[Receive] = []
        while True:
            # A device that announces without an end must not keep the request beyond its deadline.
            watch.check("the end of the program")
            event = streams.event(watch)
            if event.tag is Tag.OUTPUT:
                receive = self._receive(*self._place(event), event.length)
                announced.append(replace(receive, whole=False))
                receipts.append(receive)
                waiting = sum(receive.size for receive in announced)
                while announced and waiting - announced[0].size > _MOST_WAITING:
                    waiting -= announced[0].size
                    announced.pop(0)(exchange, streams, watch)
                continue
            for receive in announced:
                receive(exchange, streams, watch)
            announced.clear()
            if event.tag is Tag.INTERRUPT_0:
                missing = self._missing(receipts)
                if missing:
                    raise ProtocolError(
                        "the program ends before its outputs are complete",
                        reason=f"the device has announced {missing}",
                    )
                return
            if event.tag not in (Tag.INPUT, Tag.PARAMETERS):
                raise ProtocolError("an event that no program of this kind has", reason=f"{event}")
            self._send(event.tag, *self._place(event), event.length)(exchange, streams, watch)

    def _place(self, event: Event) -> tuple[Buffer, int]:
        """Where the bytes of a descriptor are.

        The address is the device's: nothing but the buffers of the request is served.
        """
        sizes = {**self._sources, **self._targets, _PARAMETERS: len(self._parameters)}
        for buffer, base in self._addresses.items():
            offset = event.address - base
            if event.length and 0 <= offset <= offset + event.length <= sizes.get(buffer, 0):
                return buffer, offset
        raise ProtocolError("the device asks for something that is not there", reason=f"{event}")


def _source(encode: InputEncoder, data: Array, lent: bool) -> Source:
    """An input as the device wants it."""
    if not lent:
        return encode(data).data
    first, *rest = encode.pieces(data, PACKET)
    return Pieces(first.data, rest[0].data) if rest else first.data


def _following(actions: Sequence[Action]) -> list[Action]:
    """The same actions; receipts know how much comes directly after them."""
    found: list[Action] = []
    more = 0
    for action in reversed(actions):
        if isinstance(action, Receive):
            found.append(replace(action, more=more))
            more += action.size
        else:
            found.append(action)
            more = 0
    return found[::-1]


def _sizes(
    layers: Mapping[str, Layer], description: Description, batches: int
) -> dict[Buffer, int]:
    """Sizes of the buffers of layers, those of a batch next to each other."""
    return {
        Buffer(description, name, batch): _sized(
            layer.size_bytes * layer.execution_count_per_inference, f"the buffer of layer {name!r}"
        )
        for name, layer in layers.items()
        for batch in range(batches)
    }


def _plain(layer: Layer) -> bool:
    """Whether the device's elements are those of the tensor, one execution of them."""
    return layer.execution_count_per_inference == 1 and not layer.element.signed


def _decoder(layer: Layer) -> Callable[[bytes | memoryview], Array]:
    """`decode_output` of a layer, short where only the order is to be undone."""
    places = output_map(layer)
    if _plain(layer):
        return places.unpack
    return lambda data: decode_output(layer, data, places)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sized(count: int, what: str) -> int:
    if count < 0:
        raise FormatError(f"{count} bytes of {what}")
    budget.demand(count, what)
    return count


def _wrong_inputs(layers: Mapping[str, Layer], inputs: Mapping[str, Array]) -> UsageError:
    unknown = sorted(set(inputs) - set(layers))
    missing = sorted(set(layers) - set(inputs))
    return UsageError(
        f"no input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing",
        reason=f"the package has {', '.join(map(repr, layers))}",
    )
