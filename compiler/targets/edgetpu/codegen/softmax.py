"""Softmax on the scalar core, which is the only unit with exponentials in float32.

Tiles send the values to the memory of the scalar core as halfwords, each the place of its value in
a table. Three loops over the values, four at a time, find the largest one, sum the exponentials of
the distances from it, which a table of all 256 holds, and look up the results in another table.
Results go to the host if the softmax is an output, or back to the tiles. What does not fit into the
memory of the scalar core comes once for every loop, in portions.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.targets.edgetpu.codegen.builder import RING_STREAMS, Builder
from fitzroy.compiler.targets.edgetpu.codegen.edges import (
    ROW_BLOCKS,
    SPREAD_BYTES,
    SPREAD_ROWS,
    UNIT,
    collect,
    spread,
    takers,
)
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.matrices import PLAIN, moves
from fitzroy.compiler.targets.edgetpu.codegen.pixel_softmax import softmax_of_pixels
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Placed,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.codegen.reshape import as_vector
from fitzroy.compiler.targets.edgetpu.requantization import LARGEST, unsigned_zero_point
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import Producer, StreamEngine
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
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER, traversal

_FIFO = BEAGLE.scalar.fifo_words
_ROW = LANES
"""Words of a row of the ring, half of the fifo from which the infeed takes them."""

_TABLE = _FIFO
"""First word of the tables, behind the fifo; halfwords are places in them, and normal floats."""

_ENTRIES = LARGEST + 1
_VALUES = _TABLE + _ENTRIES
"""First word of the values."""

_WIDTH = 2
"""Bytes of a value on its way."""

_BLOCK = _WIDTH * LANES // WORD
"""Words of a block of values."""

_PORTION = (BEAGLE.memories.scalar.elements - _VALUES) // (_BLOCK * TILES) * TILES
"""Blocks of a portion, whole passes over the tiles; words behind it are read, but not used."""

_GROUP = WORD
"""Values that loops take at a time."""

_MOST_BUNDLES = 64
"""Bundles of a loop with what is around it."""

_READ, _WRITE, _LARGEST, _SUM, _OUT = range(10, 15)
"""Registers: addresses, the largest value, the sum, and a word of results."""

_HALVES = (15, 16)
"""Registers with two values each."""

_TAKEN = (17, 18, 19, 20)
"""Registers for the values of a group."""

_BITS = 8
_LOG2_E = math.log2(math.e)


@dataclass(eq=False, kw_only=True)
class Softmax(Layer):
    """Exponentials of values, divided by their sum.

    Attributes:
        factor: by which stored values are multiplied to get exponents of two.
        scale: steps of the result in one.
        zero_point: stored value of zero of the result, unsigned.
        output: whether the result goes to the host, and nowhere else.
    """

    factor: float
    scale: float
    zero_point: int
    output: bool

    makes_vector = True
    gathers = True
    spreads = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of the vector on its way."""
        return SPREAD_ROWS

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Halfwords, and later blocks of other tiles."""
        return max(SPREAD_BYTES, _WIDTH * tensors[self.reads[0]].nbytes)

    def emit(self, context: Context) -> None:
        """To the scalar core, its loops, and onwards."""
        builder = context.builder
        source, result = context.vector(self.reads[0]), context.vector(self.writes)
        builder.on_tiles(lambda tile: _widened(context, source, tile), source.tiles)
        portions = [
            range(first, min(first + _PORTION, source.blocks))
            for first in range(0, source.blocks, _PORTION)
        ]

        def take(blocks: range, *, again: bool = True) -> int:
            if not again or len(portions) > 1:
                _take(context, source, blocks)
            return min(LANES * len(blocks), source.channels - LANES * blocks[0])

        builder.emit(_move(_LARGEST, 0))
        for blocks in portions:
            _over(builder, take(blocks, again=False), _largest)
        self._exponentials(builder)
        builder.emit(_move(_SUM, 0))
        for blocks in portions:
            _over(builder, take(blocks), _sum)
        self._results(builder)
        if self.output:
            words = -(-source.channels // WORD)
            size = round_up(WORD * words, UNIT)
            builder.descriptor(DescriptorTag.OUTPUT, size, SymbolKind.OUTPUT, self.writes)
            push = Scalar(store=Store.PUSH, store_from=_OUT)
            for blocks in portions:
                _over(builder, take(blocks), lambda values: _words(values, push))
            builder.emit_all([push] * (size // WORD - words))
            result.sent = True
            return
        for blocks in portions:
            count = take(blocks)
            builder.sync()
            _return(context, result, blocks, count)
            builder.sync()

    def _exponentials(self, builder: Builder) -> None:
        """The table of exponentials; those beyond the largest value are not used."""
        builder.room(_MOST_BUNDLES)
        distance = _SUM
        builder.emit_all(
            [
                _alu(Alu.SHR, _LARGEST, _LARGEST, _BITS * _WIDTH),
                Scalar(alu=Alu.I2F, to=_LARGEST, immediate=_LARGEST),
                _float(Alu.MOV, distance, 0, _TABLE),
                Scalar(alu=Alu.FSUB, to=distance, a=distance, immediate=_LARGEST),
                _move(_WRITE, _TABLE),
            ]
        )
        bundles = []
        for register in _TAKEN:
            bundles += [
                _float(Alu.FMUL, register, distance, self.factor),
                replace(
                    _float(Alu.FADD, distance, distance, 1),
                    special=Special.EXP2,
                    special_to=register,
                    special_from=register,
                ),
            ]
        # An exponential is used three bundles later, as in compiled programs.
        bundles += [Scalar()] * 3
        for index, register in enumerate(_TAKEN):
            place = 2 * index + 4
            bundles[place] = _stored(bundles[place], register)
        builder.emit(Loop(count=_ENTRIES // len(_TAKEN), length=len(bundles)))
        builder.emit_all(bundles)

    def _results(self, builder: Builder) -> None:
        """The table of results, in the place of that of exponentials."""
        builder.room(_MOST_BUNDLES)
        builder.emit(Scalar(special=Special.RECIPROCAL, special_to=_SUM, special_from=_SUM))
        builder.emit_all([_move(_READ, _TABLE), _move(_WRITE, _TABLE)])
        builder.emit(_float(Alu.FMUL, _SUM, _SUM, self.scale))
        loads = [_load(register) for register in _TAKEN]
        work = [Scalar(), Scalar()]
        work += [Scalar(alu=Alu.FMUL, to=one, a=one, immediate=_SUM) for one in _TAKEN]
        work += [_float(Alu.FMIN, one, one, LARGEST - self.zero_point) for one in _TAKEN]
        work += [Scalar(alu=Alu.F2I, to=one, immediate=one) for one in _TAKEN]
        if self.zero_point:
            work += [_alu(Alu.ADD, one, one, self.zero_point) for one in _TAKEN]
        work.append(Scalar())
        bundles = [_with(bundle, load) for bundle, load in zip(work, loads, strict=False)]
        bundles += work[len(loads) :]
        for index, register in enumerate(reversed(_TAKEN), 1):
            bundles[-index] = _stored(bundles[-index], register)
        builder.emit(Loop(count=_ENTRIES // len(_TAKEN), length=len(bundles)))
        builder.emit_all(bundles)


def _widened(context: Context, vector: Vector, tile: int) -> TensorOp:
    """A tile makes halfwords of its values, places in the tables."""
    held = vector.held(tile)
    first = vector.lanes(held[0]) // WORD
    size = _WIDTH * WORD
    stage = replace(PLAIN, output_zero_point=_TABLE)
    places = [(first, WORD, size, 0), (len(held), LANES, _WIDTH * LANES, 0)]
    return moves(vector.base, context.scratch, context.identity, [], places, stage, output16=True)


def _take(context: Context, vector: Vector, blocks: range) -> None:
    """Tiles send blocks of a vector to the scalar core's memory."""
    builder = context.builder

    def outfeed(block: int) -> Outfeed:
        count = _WIDTH * vector.lanes(block) // WORD
        return Outfeed(
            buffer=traversal(
                _VALUES + _BLOCK * (block - blocks[0]), [(count, 1)], rank=BUFFER.rank
            ),
            row_words=LANES,
        )

    builder.sync()
    collect(builder, vector, outfeed, blocks=blocks, base=context.scratch, width=_WIDTH)
    builder.barrier()
    builder.emit(ScalarFence(idle=1 << StreamEngine.OUTFEED))


def _return(context: Context, result: Vector, blocks: range, count: int) -> None:
    """Results to the tiles, row by row through the fifo."""
    builder = context.builder
    spread(context, result, blocks)
    write = Scalar(store=Store.INCREMENT, store_address=_next(_WRITE), store_from=_OUT)
    size = WORD * _ROW
    for row, first in enumerate(range(0, count, size)):
        values = min(size, count - first)
        words = -(-values // WORD)
        half = row * _ROW % _FIFO
        builder.emit(_move(_WRITE, half))
        _over(builder, values, lambda group: _words(group, write), first)
        builder.emit(
            Infeed(
                memory=InfeedMemory.SCALAR,
                buffer=traversal(half, [(words, 1)], rank=INFEED_BUFFER.rank),
                infed=Producer(0),
                token=Producer(1),
                wait=(None, None),
                destination=takers(result, blocks[0] // ROW_BLOCKS + row),
                row_words=_ROW,
            )
        )
        builder.tokens.ring[0] += 1
        builder.tokens.infed += words
        builder.emit(ScalarFence(idle=RING_STREAMS))


# --- loops ---------------------------------------------------------------------------------------


def _over(
    builder: Builder, count: int, body: Callable[[int], Sequence[Scalar]], first: int = 0
) -> None:
    """A body for every group of so many values, from one of them on."""
    builder.room(_MOST_BUNDLES)
    builder.emit(_move(_READ, _VALUES + first // _WIDTH))
    # A word is used two bundles after its load, as in compiled programs.
    builder.emit_all([*map(_load, _HALVES), Scalar()])
    groups, rest = divmod(count, _GROUP)
    if groups:
        bundles = body(_GROUP)
        builder.emit(Loop(count=groups, length=len(bundles)))
        builder.emit_all(bundles)
    if rest:
        builder.emit_all(body(rest))


Slot = tuple[int, Scalar]
"""A bundle, and the number of the value of a group without which it has nothing to do."""


def _bundles(slots: Sequence[Slot], loads: Mapping[int, Slot], values: int) -> list[Scalar]:
    """Bundles for some values of a group.

    Args:
        slots: what they do beside loading.
        loads: what some of them load.
        values: how many values.
    """
    found = []
    for place, (value, bundle) in enumerate(slots):
        base = bundle if value < values else Scalar()
        needed, load = loads.get(place, (values, base))
        found.append(_with(base, load) if needed < values else base)
    return found


def _largest(values: int) -> list[Scalar]:
    """Halfwords are compared as upper halves of floats, whose lower halves do not matter."""
    slots: list[Slot] = []
    loads = {}
    for index, half in enumerate(_HALVES):
        taken = _TAKEN[index]
        loads[len(slots) + 1] = (0, _load(half))
        slots += [
            (2 * index, _alu(Alu.SHL, taken, half, _BITS * _WIDTH)),
            (2 * index + 1, _maximum(half)),
            (2 * index, _maximum(taken)),
        ]
    return _bundles(slots, loads, values)


def _maximum(register: int) -> Scalar:
    return Scalar(alu=Alu.FMAX, to=_LARGEST, a=_LARGEST, immediate=register)


def _looked_up() -> tuple[list[Slot], dict[int, Slot]]:
    """The values of a group as places in the table, and loads of what is there."""
    slots: list[Slot] = []
    for index, half in enumerate(_HALVES):
        low, high = _TAKEN[2 * index : 2 * index + 2]
        slots += [
            (2 * index, _alu(Alu.AND, low, half, (1 << _BITS * _WIDTH) - 1)),
            (2 * index + 1, _alu(Alu.SHR, high, half, _BITS * _WIDTH)),
        ]
    loads = {
        index: (index - 1, Scalar(load=Load.REGISTER, load_to=register, load_address=register))
        for index, register in enumerate(_TAKEN, 1)
    }
    return slots, loads


def _sum(values: int) -> list[Scalar]:
    slots, loads = _looked_up()
    for index, half in enumerate(_HALVES):
        loads[len(slots) + 1 + index] = (0, _load(half))
    slots += [
        (index, Scalar(alu=Alu.FADD, to=_SUM, a=_SUM, immediate=register))
        for index, register in enumerate(_TAKEN)
    ]
    return _bundles(slots, loads, values)


def _words(values: int, last: Scalar) -> list[Scalar]:
    """A word of results, and what is done with it."""
    slots, loads = _looked_up()
    for index, half in enumerate(_HALVES):
        loads[len(slots) + 1 + index] = (0, _load(half))

    def shift(index: int) -> Slot:
        return index, _alu(Alu.SHL, _TAKEN[index], _TAKEN[index], _BITS * index)

    def join(index: int) -> Slot:
        return index, Scalar(alu=Alu.OR, to=_OUT, a=_OUT, immediate=_TAKEN[index])

    first = 0, Scalar(alu=Alu.MOV, to=_OUT, immediate=_TAKEN[0])
    slots += [first, shift(1), shift(2), join(1), shift(3), join(2), join(3), (0, last)]
    return _bundles(slots, loads, values)


# --- bundles -------------------------------------------------------------------------------------


def _alu(operation: Alu, to: int, a: int, immediate: int) -> Scalar:
    return Scalar(alu=operation, immediate_b=True, to=to, a=a, immediate=immediate)


def _float(operation: Alu, to: int, a: int, immediate: float) -> Scalar:
    (word,) = struct.unpack("<I", struct.pack("<f", immediate))
    return _alu(operation, to, a, word)


def _move(to: int, value: int) -> Scalar:
    return _alu(Alu.MOV, to, 0, value)


def _next(register: int) -> int:
    """An address in a register that then goes on to the next word."""
    return int(Indexed(register=register, increment=1).pack())


def _load(register: int) -> Scalar:
    return Scalar(load=Load.INCREMENT, load_to=register, load_address=_next(_READ))


def _with(bundle: Scalar, load: Scalar) -> Scalar:
    """A bundle that loads, too."""
    return replace(bundle, load=load.load, load_to=load.load_to, load_address=load.load_address)


def _stored(bundle: Scalar, register: int) -> Scalar:
    """A bundle that stores a register, too."""
    return replace(bundle, store=Store.INCREMENT, store_address=_next(_WRITE), store_from=register)


@legalizes("softmax")
def _softmax(legalizer: Legalizer, call: Call) -> None:
    source, result = call.type(), call.result
    if source.size != source.shape[-1]:
        softmax_of_pixels(legalizer, call)
        return
    if source.quantization is None or result.type.quantization is None:
        raise UnsupportedError(f"softmax {call.node.name!r} is not quantized")
    beta = call.attributes(SoftmaxAttributes).beta
    graph = legalizer.graph
    legalizer.layers.append(
        Softmax(
            name=call.node.name,
            reads=(as_vector(legalizer, call.node.inputs[0] or ""),),
            writes=call.node.outputs[0],
            factor=float(np.float32(source.quantization.scale[0] * beta * _LOG2_E)),
            scale=float(np.float32(1 / result.type.quantization.scale[0])),
            zero_point=unsigned_zero_point(result.type),
            output=result.name in graph.outputs and not graph.consumers(result.name),
        )
    )
