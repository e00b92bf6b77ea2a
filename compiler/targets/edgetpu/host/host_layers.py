"""How are inputs and outputs of a program layers, and how does the object describe them?

One layer takes each input before the first layer that reads it; another sends each output after
the layer that computes it. They are steps like others. Where images are too large they run in
strips, and tensors live no longer than they must.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.host import inputs, outputs, pace, scratch
from fitzroy.compiler.targets.edgetpu.host.relay import Destination
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT
from fitzroy.compiler.targets.edgetpu.layers.input_stream import InputStream, Piece
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    Context,
    Layer,
    Step,
    longest,
)
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, rows_of_images
from fitzroy.compiler.targets.edgetpu.layers.matrices import Pointwise, VectorPointwise
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    TILES,
    WORD,
    Image,
    Interval,
    Kept,
    Placed,
    TiledAxis,
    Vector,
    round_up,
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import unsigned_zero_point
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.formats.darwinn import (
    DataType,
    InputLayer,
    NumericsConstants,
    OutputLayer,
)
from fitzroy.formats.darwinn import (
    Layer as Port,
)
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.edgetpu.output_layouts import (
    PART_BYTES,
    Ownership,
    element_offsets,
    listed_layout,
    output_layout,
)

# --- layers --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Receive(Layer):
    """Takes an image from the host.

    Attributes:
        input: the input that it is, or is a part of.
        channels: its channels.
        compact: whether it comes through slots that are as small as they can be.
        top: rows of the input, as wide as those of the image, before it.
    """

    input: str
    channels: int
    compact: bool = False
    top: int = 0

    strips = True
    received = True

    def columns_of(self, columns: Sequence[Interval], extent: int) -> int:
        """Columns that a tile receives: an even share, because whole rows come."""
        return longest(split(extent, COLUMNS))

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles until the pixels of a tile have come from the host."""
        return pace.arriving(math.prod(area), self.channels)

    def finishing(self, tensors: Mapping[str, Placed]) -> float:
        """Estimated cycles from the last byte of it on the chip to the next phase."""
        image = tensors[self.writes]
        assert isinstance(image, Image)
        return pace.taken(inputs.last_words(image, compact=self.compact))

    def fills(self, tensors: Mapping[str, Placed]) -> bool:
        """Whether tiles fill some words in a phase of its own before it comes."""
        image = tensors[self.writes]
        assert isinstance(image, Image)
        return inputs.fills(image)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory through which the words from the ring go."""
        return inputs.staging_rows(tensors[self.writes], compact=self.compact)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Bytes of narrow memory in which rows wait until a tile has copied its columns."""
        return inputs.buffer_bytes(tensors[self.writes], compact=self.compact)

    def emit(self, context: Context) -> None:
        """Receive the image; every tile keeps the rectangle that it owns."""
        image = context.image(self.writes)
        inputs.receive_image(
            context.builder,
            image,
            context.inputs,
            context.identity,
            context.scratch,
            top=self.top,
            compact=self.compact,
            ends=context.flow.arriving is None,
        )


class ReceiveVector(Receive):
    """Takes a vector from the host."""

    makes_vector = True
    spreads = True

    def finishing(self, tensors: Mapping[str, Placed]) -> float:
        """Estimated cycles from the last byte of it on the chip to the next phase."""
        return pace.taken(0)

    def fills(self, tensors: Mapping[str, Placed]) -> bool:
        """No words are filled."""
        return False

    def emit(self, context: Context) -> None:
        """Receive the vector; every tile keeps its blocks."""
        inputs.receive_vector(context, context.vector(self.writes))


@dataclass(frozen=True, eq=False, kw_only=True)
class ToHost(Layer):
    """Sends an image to a buffer of the host."""

    remote = True
    strips = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles until the words of a tile are on their way to the host."""
        return pace.sending(pace.sent_rows(math.prod(area), groups))

    def relayed(self, tensors: Mapping[str, Placed], size: int) -> bool:
        """Whether it goes through the scalar core, if the host gets so many bytes."""
        sent = tensors[self.writes]
        assert isinstance(sent, Image)
        return outputs.relayed(sent, size)

    def sending(self, tensors: Mapping[str, Placed], size: int) -> float:
        """Estimated cycles until tiles have sent it, if the host keeps up.

        Args:
            tensors: places of tensors.
            size: bytes that the host gets.
        """
        sent = tensors[self.writes]
        assert isinstance(sent, Image)
        rows = sum(outputs.image_rows(sent, tile) for tile in range(TILES))
        return pace.sending(rows, size // WORD if self.relayed(tensors, size) else 0)

    def blocked(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles until the host has read so much that nothing of it waits for room."""
        return pace.blocked(pace.sent(math.prod(area), groups))

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory through which the words go to the ring."""
        return outputs.SENT_ROWS

    def emit(self, context: Context) -> None:
        """Send the image, tile by tile, each the rectangle that it owns."""
        image, sent = context.image(self.reads[0]), context.image(self.writes)
        outputs.send_image(
            context.builder,
            image,
            sent,
            self._destination(context),
            context.top,
            context.flow.departing,
        )

    @abstractmethod
    def _destination(self, context: Context) -> Destination:
        """The buffer, and the place in it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Send(ToHost):
    """Sends an image to the host.

    Attributes:
        output: the output that it is, or is a part of.
        number: which of its parts.
    """

    output: str
    number: int = 0

    gathers = True
    by_name = True

    def _destination(self, context: Context) -> Destination:
        return Destination(SymbolKind.OUTPUT, self.output, context.last)


@dataclass(frozen=True, eq=False, kw_only=True)
class SendVector(Send):
    """Sends a vector to the host.

    Attributes:
        sent: whether the layer that makes it sends it by itself.
    """

    sent: bool = False

    strips = False

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles, unless another layer takes them."""
        return 0.0 if self.sent else pace.sending(-(-math.prod(area) * groups * WORD // LANES))

    def relayed(self, tensors: Mapping[str, Placed], size: int) -> bool:
        """It never goes through the scalar core."""
        return False

    def sending(self, tensors: Mapping[str, Placed], size: int) -> float:
        """Estimated cycles until tiles have sent a row for each block."""
        vector = tensors[self.reads[0]]
        assert isinstance(vector, Vector)
        return pace.sending(vector.blocks)

    def emit(self, context: Context) -> None:
        """Send the vector, unless the layer that computes it sends it by itself."""
        if not self.sent:
            vector = context.vector(self.reads[0])
            outputs.send_vector(context.builder, vector, self._destination(context))


class Keep(ToHost):
    """Sends an image to the host's scratch buffer, from where it comes back."""

    bands = False

    def blocked(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles until the host has read all of it, and can send it back."""
        return pace.READING * pace.sent(math.prod(area), groups)

    def _destination(self, context: Context) -> Destination:
        return _SCRATCH


def input_stream(steps: Iterable[Step]) -> InputStream:
    """What the host sends of inputs, in the order in which steps take it."""
    streams: list[list[Piece]] = [[]]
    for step in steps:
        streams[-1] += pieces(step)
        if isinstance(step.layer, Fetch):
            streams.append([])
    return InputStream([stream for stream in streams if stream])


def pieces(step: Step) -> list[Piece]:
    """What the host sends of an input for a step."""
    layer = step.layer
    if not isinstance(layer, Receive):
        return []
    return inputs.pieces(step.result, layer.input, layer.top)


def kept_images(steps: Iterable[Step]) -> dict[str, Kept]:
    """What steps send to the host's scratch buffer, by the names that images have there."""
    found: dict[str, list[tuple[Image, int]]] = {}
    offset = 0
    for step in steps:
        if isinstance(step.layer, Keep):
            assert isinstance(step.result, Image)
            found.setdefault(step.layer.writes, []).append((step.result, offset))
            offset += _SCRATCH.size(outputs.sent_bytes(step.result))
    return dict(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fetch(Layer):
    """Takes an image back from the host's scratch buffer; tiles exchange columns.

    Attributes:
        source: its name there.
    """

    source: str

    strips = True
    returned = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles until the words of a tile have come back from the host."""
        return pace.arriving(math.prod(area), groups * WORD)

    def finishing(self, tensors: Mapping[str, Placed]) -> float:
        """Estimated cycles from the last byte of it on the chip to the next phase."""
        return pace.taken(0)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory through which the words from the ring go."""
        return scratch.FETCHED_ROWS

    def emit(self, context: Context) -> None:
        """Take the image back from the scratch buffer; every tile keeps what it owns."""
        scratch.fetch_image(context.builder, context.image(self.writes), context.kept[self.source])


_SCRATCH = Destination(SymbolKind.SCRATCH)


def compacted(layered: Layered) -> Layered | None:
    """The layers with inputs in slots that are as small as they can be; None if they all are."""
    small: dict[Layer, Layer] = {
        layer: replace(layer, compact=True)
        for layer in layered.layers
        if isinstance(layer, Receive) and not layer.compact
    }
    return layered.with_layers(small) if small else None


def layered(legalizer: Legalizer) -> Layered:
    """All layers of a graph whose nodes have become layers, with those of inputs and outputs.

    Operators of single elements come right after the layer whose result only they read, so that
    what they read need not wait for them.
    """
    layers, types = legalizer.layers, dict(legalizer.types)
    readers = Counter(name for layer in layers for name in layer.reads)
    ends = {part for name in legalizer.graph.outputs for part in legalizer.parts(name)}
    made = {layer.writes for layer in layers}
    following: dict[str, Layer] = {}
    for layer in layers:
        if isinstance(layer, Pointwise | VectorPointwise):
            (source,) = layer.reads
            if readers[source] == 1 and source in made and source not in ends:
                following[source] = layer
    pending = dict(_arriving(legalizer))
    sends: dict[str, list[Send]] = {}
    for name in dict.fromkeys(legalizer.graph.outputs):
        for number, part in enumerate(legalizer.parts(name)):
            send = _send(legalizer, types, _Part(name, number, part))
            types[send.writes] = legalizer.type(part)
            sends.setdefault(part, []).append(send)
    found: list[Layer] = []

    def add(layer: Layer) -> None:
        found.append(layer)
        found.extend(_sending(send, layer) for send in sends.pop(layer.writes, []))
        if layer.writes in following:
            add(following[layer.writes])

    def take(names: Iterable[str]) -> None:
        for name in names:
            if name in pending:
                input, top = pending.pop(name)
                kind = ReceiveVector if is_vector(legalizer, name) else Receive
                channels = (1, *legalizer.type(name).shape)[-1]
                add(
                    kind(
                        name=name if top else input,
                        reads=(),
                        writes=name,
                        input=input,
                        channels=channels,
                        top=top,
                        origin=input,
                    )
                )

    later = set(following.values())
    for layer in layers:
        if layer not in later:
            take(layer.reads)
            add(layer)
    take(list(pending))
    return Layered(legalizer.graph, legalizer.options, tuple(found), dict(legalizer.aliases), types)


def _arriving(legalizer: Legalizer) -> Iterator[tuple[str, tuple[str, int]]]:
    """Places of inputs, each with the input and its rows before what lies there."""
    for name in legalizer.graph.inputs:
        top = 0
        for place in legalizer.rows.get(name) or (legalizer.place(name),):
            yield place, (name, top)
            top += (1, *legalizer.type(place).shape)[-3:][0]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an output.

    Attributes:
        output: the output.
        number: which of its parts.
        place: the value that it is.
    """

    output: str
    number: int
    place: str


def _send(legalizer: Legalizer, types: Mapping[str, TensorType], part: _Part) -> Send:
    """The layer that sends a part of an output.

    Args:
        legalizer: the graph.
        types: types of values that no node makes, whose names are taken.
        part: the part.
    """
    result = unused_name(f"{part.output}.host", legalizer.graph.values, types)
    kind = SendVector if is_vector(legalizer, part.place) else Send
    return kind(
        name=part.output,
        reads=(part.place,),
        writes=result,
        output=part.output,
        number=part.number,
    )


def _sending(send: Send, maker: Layer) -> Send:
    """The layer that sends what another one makes."""
    if isinstance(send, SendVector):
        send = replace(send, sent=maker.sends_result)
    return replace(send, origin=maker.origin)


# --- ports ---------------------------------------------------------------------------------------


def input_port(graph: Graph, name: str) -> Port:
    """What the object says of an input."""
    type = graph.type(name)
    extent = (1, 1, type.size)
    if len(type.shape) == IMAGE_RANK:
        extent = _extent(rows_of_images(type)[1:])
    port = _port(name, type, extent, InputLayer())
    return replace(port, size_bytes=-(-math.prod(extent) // UNIT) * UNIT)


def output_port(graph: Graph, name: str, steps: Sequence[Step]) -> Port:
    """What the object says of an output, and where the program has sent its elements."""
    parts: dict[int, list[Image]] = {}
    for step in steps:
        if isinstance(step.layer, Send) and step.layer.output == name:
            assert isinstance(step.result, Image)
            parts.setdefault(step.layer.number, []).append(step.result)
    type = graph.type(name)
    # Buffers begin with what has been sent first.
    found = {number: _Sent.of(passes) for number, passes in parts.items()}
    if len(found) == 1:
        (sent,) = found.values()
        port = _port(name, type, sent.extent, OutputLayer())
        if sent.ownership is None:
            return replace(port, size_bytes=-(-type.size // UNIT) * UNIT)
        layout, size = output_layout(sent.extent, 1, sent.ownership)
        return replace(port, size_bytes=size, any_layer=OutputLayer(layout=layout))
    unit = math.gcd(*[sent.extent[-1] for sent in found.values()])
    begin, offsets = 0, dict[int, Array]()
    for number, sent in found.items():
        places, size = sent.places(unit)
        begin = round_up(begin, PART_BYTES)
        offsets[number] = begin + places
        begin += size
    every = np.concatenate([offsets[number] for number in sorted(offsets)])
    kind = OutputLayer(layout=listed_layout(every))
    return replace(_port(name, type, (len(every), 1, unit), kind), size_bytes=begin)


Extent = tuple[int, int, int]
"""Elements in y, x and z."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A part of an output in the host's buffer.

    Attributes:
        extent: its elements.
        ownership: which tile sends which of them, and when; None if it is the usual one.
    """

    extent: Extent
    ownership: Ownership | None

    @classmethod
    def of(cls, passes: Sequence[Image]) -> _Sent:
        first = passes[0]
        extent = first.rows.extent, first.columns.extent, first.channels
        if len(passes) == 1:
            return cls(extent, None)
        # Strips come one after the other, each with all parts of its columns.
        across = sum(image.rows.owned == first.rows.owned for image in passes)
        rows = _ids([image.rows for image in passes[::across]], COLUMNS, TILES * across)
        columns = _ids([image.columns for image in passes[:across]], 1, TILES)
        return cls(extent, Ownership(rows, columns, TILES * len(passes)))

    def places(self, unit: int) -> tuple[Array, int]:
        """Where each group of `unit` elements begins, in order, and the bytes of the buffer."""
        if self.extent[:2] == (1, 1):
            pixels, size = np.zeros((1, 1), np.int64), round_up(self.extent[2], UNIT)
        else:
            pixels, size = element_offsets(self.extent, 1, self.ownership)
        return (pixels.reshape(-1, 1) + np.arange(0, self.extent[2], unit)).reshape(-1), size


def _ids(passes: Sequence[TiledAxis], step: int, distance: int) -> tuple[int, ...]:
    """What each place along an axis adds to the linear tile id of its owner.

    Args:
        passes: who owns what of it in each pass.
        step: distance of ids of tiles along the axis.
        distance: distance of ids of passes.
    """
    ids = [0] * passes[0].extent
    for number, axis in enumerate(passes):
        for part, (begin, end) in enumerate(axis.owned):
            ids[begin:end] = [distance * number + step * part] * (end - begin)
    return tuple(ids)


def _extent(shape: Sequence[int]) -> Extent:
    y, x, z = shape
    return y, x, z


def _port(name: str, type: TensorType, extent: Extent, kind: InputLayer | OutputLayer) -> Port:
    quantization = type.quantization
    assert quantization is not None
    y, x, z = extent
    signed = type.dtype is DType.INT8
    return Port(
        name=name,
        y_dim=y,
        x_dim=x,
        z_dim=z,
        numerics=NumericsConstants(
            zero_point=unsigned_zero_point(type), dequantization_factor=quantization.scale[0]
        ),
        data_type=int(DataType.SIGNED_FIXED_POINT8 if signed else DataType.FIXED_POINT8),
        any_layer=kind,
    )
