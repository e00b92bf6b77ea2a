"""Inputs and outputs of a program as layers, and how the object describes them.

A layer takes each input in front of the first one that reads it, and another sends each output
behind the one that computes it: they are steps like others, run in strips where images are too
large, and tensors live no longer than they must.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.host import host_io
from fitzroy.compiler.targets.edgetpu.host.relay import UNIT, Destination
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Step
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, rows_of_images
from fitzroy.compiler.targets.edgetpu.layers.matrices import Pointwise, VectorPointwise
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    TILES,
    Axis,
    Image,
    Placed,
    round_up,
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


@dataclass(eq=False, kw_only=True)
class Receive(Layer):
    """Takes an image from the host.

    Attributes:
        input: the input that it is.
    """

    input: str

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows on their way."""
        return host_io.staging_rows(tensors[self.writes])

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Rows on their way."""
        return host_io.buffer_bytes(tensors[self.writes])

    def emit(self, context: Context) -> None:
        """Take what tiles own of it."""
        image = context.image(self.writes)
        host_io.receive_image(context.builder, image, self.input, context.identity, context.scratch)


class ReceiveVector(Receive):
    """Takes a vector from the host."""

    makes_vector = True
    spreads = True

    def emit(self, context: Context) -> None:
        """Take all of it."""
        host_io.receive_vector(context, context.vector(self.writes))


@dataclass(eq=False, kw_only=True)
class Send(Layer):
    """Sends an image to the host.

    Attributes:
        output: the output that it is, or is a part of.
        number: which of its parts.
    """

    output: str
    number: int = 0

    remote = True
    gathers = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows on their way."""
        return host_io.SENT_ROWS

    def emit(self, context: Context) -> None:
        """Send what tiles own of it."""
        image, sent = context.image(self.reads[0]), context.image(self.writes)
        host_io.send_image(context.builder, image, sent, self._destination(context))

    def _destination(self, context: Context) -> Destination:
        return Destination(SymbolKind.OUTPUT, self.output, context.last)


class SendVector(Send):
    """Sends a vector to the host."""

    def emit(self, context: Context) -> None:
        """Send all of it, unless the layer that made it has done so."""
        vector = context.vector(self.reads[0])
        if not vector.sent:
            host_io.send_vector(context.builder, vector, self._destination(context))


@dataclass(eq=False, kw_only=True)
class Keep(Layer):
    """Sends an image to the host's scratch buffer, from where it comes back.

    Attributes:
        kept: what has been sent, and where it is.
    """

    kept: list[tuple[Image, int]] = field(default_factory=list)

    remote = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows on their way."""
        return host_io.SENT_ROWS

    def emit(self, context: Context) -> None:
        """Send what tiles own of it."""
        builder = context.builder
        image, sent = context.image(self.reads[0]), context.image(self.writes)

        self.kept.append((sent, builder.scratch_bytes))
        host_io.send_image(builder, image, sent, Destination(SymbolKind.SCRATCH))


@dataclass(eq=False, kw_only=True)
class Fetch(Layer):
    """Takes an image back from the host's scratch buffer; tiles exchange columns.

    Attributes:
        source: what has sent it there.
    """

    source: Keep

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows on their way."""
        return host_io.FETCHED_ROWS

    def emit(self, context: Context) -> None:
        """Take what tiles own of it."""
        host_io.fetch_image(context.builder, context.image(self.writes), self.source.kept)


def attach(legalizer: Legalizer) -> None:
    """Add the layers of inputs and outputs to those of a graph.

    Operators of single elements come right behind the layer whose result only they read, so that
    what they read need not wait for them.
    """
    layers = list(legalizer.layers)
    readers = Counter(name for layer in layers for name in layer.reads)
    ends = {part for name in legalizer.graph.outputs for part in legalizer.parts(name)}
    made = {layer.writes for layer in layers}
    following: dict[str, Layer] = {}
    for layer in layers:
        if isinstance(layer, Pointwise | VectorPointwise):
            (source,) = layer.reads
            if readers[source] == 1 and source in made and source not in ends:
                following[source] = layer
    pending = {
        legalizer.rows.get(name) or legalizer.place(name): name for name in legalizer.graph.inputs
    }
    sends: dict[str, list[Layer]] = {}
    for name in dict.fromkeys(legalizer.graph.outputs):
        for number, part in enumerate(legalizer.parts(name)):
            sends.setdefault(part, []).append(_send(legalizer, name, number, part))
    legalizer.layers.clear()

    def add(layer: Layer) -> None:
        found = sends.pop(layer.writes, [])
        for send in found:
            send.origin = layer.origin
        legalizer.layers += [layer, *found]
        if layer.writes in following:
            add(following[layer.writes])

    def take(names: Iterable[str]) -> None:
        for name in names:
            if name in pending:
                input = pending.pop(name)
                kind = ReceiveVector if is_vector(legalizer, name) else Receive
                add(kind(name=input, reads=(), writes=name, input=input, origin=input))

    later = set(following.values())
    for layer in layers:
        if layer not in later:
            take(layer.reads)
            add(layer)
    take(list(pending))


def _send(legalizer: Legalizer, output: str, number: int, part: str) -> Send:
    """The layer that sends a part of an output."""
    result = unused_name(f"{output}.host", legalizer.graph.values, legalizer.types)
    legalizer.types[result] = legalizer.type(part)
    kind = SendVector if is_vector(legalizer, part) else Send
    return kind(name=output, reads=(part,), writes=result, output=output, number=number)


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
        """Where each of its groups of `unit` elements begins, in order, and bytes of the buffer."""
        if self.extent[:2] == (1, 1):
            pixels, size = np.zeros((1, 1), np.int64), round_up(self.extent[2], UNIT)
        else:
            pixels, size = element_offsets(self.extent, 1, self.ownership)
        return (pixels.reshape(-1, 1) + np.arange(0, self.extent[2], unit)).reshape(-1), size


def _ids(passes: Sequence[Axis], step: int, distance: int) -> tuple[int, ...]:
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
