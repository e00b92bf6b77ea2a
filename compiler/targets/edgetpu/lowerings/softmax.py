"""Softmax on the scalar core, which is the only unit with exponentials in float32.

Tiles send the values to the memory of the scalar core as halfwords, each the place of its value in
a table. Three loops over the values, four at a time, find the largest one, sum the exponentials of
the distances from it, which a table of all 256 holds, and look up the results in another table.
Tables do not pay for few values, whose exponentials are computed one by one. Results go to the host
if the softmax is an output, or back to the tiles. What does not fit into the memory of the scalar
core comes once for every loop, in portions.

Bundles are as in published programs: one that loads, or that uses the special unit, does nothing
else, a word is used two bundles after its load, and stores are three bundles apart.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.targets.edgetpu.host.inputs import ROW_BLOCKS, SPREAD_ROWS
from fitzroy.compiler.targets.edgetpu.host.relay import PIPELINE
from fitzroy.compiler.targets.edgetpu.instructions.builder import RING_STREAMS, Builder, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT
from fitzroy.compiler.targets.edgetpu.kernels.queues import Taking
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.lowerings.pixel_softmax import softmax_of_pixels
from fitzroy.compiler.targets.edgetpu.lowerings.softmax_values import (
    BLOCK,
    ENTRIES,
    MAXIMA_BYTES,
    MOST_BLOCKS,
    TABLE,
    VALUES,
    WIDTH,
    largest_values,
    portions,
    rows_of_maxima,
    take_values,
    widened,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Placed,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import LARGEST, unsigned_zero_point
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_vector
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.scalar import (
    Alu,
    Indexed,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import INFEED_BUFFER

_FIFO = BEAGLE.scalar.fifo_words
_ROW = LANES
"""Words that are sent at a time, half of the fifo from which the infeed takes them."""

_SENT_WORDS = 4
"""Words of a row of the ring, as in published programs."""

_EXPONENTS = VALUES + BLOCK * TILES
"""First word of the exponentials of values that have no table."""

_FEW = 384
"""Most values without tables: what tables cost is what these save for so many."""

_GROUP = WORD
"""Values that loops take at a time."""

_MOST_BUNDLES = 64
"""Bundles of a loop with what is around it."""

_OUT, _WRITE, _READ = 4, 5, 6
"""Registers: a word of results, and addresses."""

_HALVES = (7, 8)
"""Registers with two values each."""

_TAKEN = (9, 10, 11, 12)
"""Registers for the values of a group."""

_LARGEST, _SUM, _DISTANCE, _ONE = 13, 14, 15, 16
"""Registers that only arithmetic uses; published programs load, store and take exponentials of no
register above 12."""

_EXPONENT, _WORD = _TAKEN[:2]
"""Registers of an exponential, and of an entry of the table."""

_RECIPROCAL_BUNDLES = 18
"""Bundles between a reciprocal and its use, at least, as in published programs."""

_BITS = 8
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True, eq=False, kw_only=True)
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

    @property
    def sends_result(self) -> bool:
        """Whether only the host reads the result, so that the scalar core sends it by itself."""
        return self.output

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory through which the vector goes to the scalar core, and of maxima."""
        source = tensors[self.reads[0]]
        assert isinstance(source, Vector)
        return SPREAD_ROWS + rows_of_maxima(source)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for table indices of 16 bits, and for results of other tiles."""
        source = tensors[self.reads[0]]
        assert isinstance(source, Vector)
        return self._before_maxima(source) + MAXIMA_BYTES

    def _before_maxima(self, source: Vector) -> int:
        """Bytes of widened values, and of results of other tiles."""
        rows = -(-min(source.blocks, MOST_BLOCKS) // TILES)
        return WIDTH * source.nbytes + ROW_BLOCKS * LANES * rows

    def emit(self, context: Context) -> None:
        """To the scalar core, its loops, and onwards."""
        builder = context.builder
        source, result = context.vector(self.reads[0]), context.vector(self.writes)
        values = replace(source, base=context.scratch)
        builder.on_tiles(lambda tile: widened(context, source, values, tile), source.tiles)
        parts = portions(source)
        held = range(0)

        def take(blocks: range) -> int:
            nonlocal held
            if blocks != held:
                take_values(context, values, blocks)
            held = blocks
            return min(LANES * len(blocks), source.channels - LANES * blocks[0])

        few = source.channels <= _FEW
        if rows_of_maxima(source):
            maxima = largest_values(context, source, context.scratch + self._before_maxima(source))
            take_values(context, maxima, range(maxima.blocks))
            builder.emit(_move(_LARGEST, 0))
            _over(builder, maxima.channels, _largest)
        else:
            builder.emit(_move(_LARGEST, 0))
            # The portion that comes last is there when exponentials are added from the first on.
            for blocks in reversed(parts):
                _over(builder, take(blocks), _largest)
        builder.emit(_alu(Alu.SHR, _LARGEST, _LARGEST, _BITS * WIDTH))
        builder.emit(Scalar(alu=Alu.I2F, to=_LARGEST, immediate=_LARGEST))
        if few:
            builder.emit(_move(_WRITE, _EXPONENTS))
        else:
            self._exponentials(builder)
        builder.emit(_move(_SUM, 0))
        for blocks in parts:
            _over(builder, take(blocks), self._each if few else _sum)
        self._reciprocal(builder)
        if not few:
            self._results(builder)

        def words(count: int, last: Scalar, first: int = 0) -> None:
            if few:
                _over(builder, count, lambda values: self._divided(values, last), first, _SINGLE)
            else:
                _over(builder, count, lambda values: _words(values, last), first)

        if self.output:
            for blocks in parts:
                _push(builder, self.writes, take(blocks), words)
            return
        for blocks in reversed(parts):
            count = take(blocks)
            builder.sync()
            _return(context, result, blocks, count, words)
            builder.barrier()

    def _exponentials(self, builder: Builder) -> None:
        """The table of exponentials; those beyond the largest value are not used."""
        builder.room(_MOST_BUNDLES)
        builder.emit_all(
            [
                _float(Alu.MOV, _DISTANCE, 0, TABLE),
                Scalar(alu=Alu.FSUB, to=_DISTANCE, a=_DISTANCE, immediate=_LARGEST),
                _float(Alu.MOV, _ONE, 0, 1),
                _move(_WRITE, TABLE),
            ]
        )
        _loop(
            builder,
            ENTRIES,
            [
                _float(Alu.FMUL, _EXPONENT, _DISTANCE, self.factor),
                Scalar(special=Special.EXP2, special_to=_EXPONENT, special_from=_EXPONENT),
                Scalar(alu=Alu.FADD, to=_DISTANCE, a=_DISTANCE, immediate=_ONE),
                Scalar(),
                # Exponentials go to arithmetic three bundles later, never to a store at once.
                _float(Alu.FMUL, _WORD, _EXPONENT, 1),
                _stored(_WORD),
            ],
        )

    def _each(self, values: int) -> list[Scalar]:
        """Exponentials of a group, one by one, to memory and to the sum."""
        found = []
        for place in _places((_EXPONENT,) * values):
            found += [
                place,
                Scalar(alu=Alu.I2F, to=_EXPONENT, immediate=_EXPONENT),
                Scalar(alu=Alu.FSUB, to=_EXPONENT, a=_EXPONENT, immediate=_LARGEST),
                _float(Alu.FMUL, _EXPONENT, _EXPONENT, self.factor),
                Scalar(special=Special.EXP2, special_to=_EXPONENT, special_from=_EXPONENT),
                Scalar(),
                # After the second value of a word comes the word of the next group.
                _load(place.a) if place.alu is Alu.SHR else Scalar(),
                Scalar(alu=Alu.FADD, to=_SUM, a=_SUM, immediate=_EXPONENT),
                _stored(_EXPONENT),
            ]
        return found

    def _reciprocal(self, builder: Builder) -> None:
        """The sum becomes the factor of exponentials."""
        quotient = _TAKEN[0]
        builder.room(_MOST_BUNDLES)
        builder.emit_all(
            [
                Scalar(alu=Alu.MOV, to=quotient, immediate=_SUM),
                Scalar(special=Special.RECIPROCAL, special_to=quotient, special_from=quotient),
                *[Scalar()] * _RECIPROCAL_BUNDLES,
                _float(Alu.FMUL, _SUM, quotient, self.scale),
            ]
        )

    def _results(self, builder: Builder) -> None:
        """The table of results, in the place of that of exponentials."""
        builder.room(_MOST_BUNDLES)
        builder.emit_all([_move(_READ, TABLE), _move(_WRITE, TABLE)])
        first, second = _TAKEN[:2]
        bundles = [_load(first), _load(second)]
        for one in (first, second):
            bundles += [*self._result(one), _stored(one)]
        _loop(builder, ENTRIES // 2, bundles)

    def _result(self, register: int) -> list[Scalar]:
        """A stored result instead of an exponential."""
        return [
            Scalar(alu=Alu.FMUL, to=register, a=register, immediate=_SUM),
            _float(Alu.FMIN, register, register, LARGEST - self.zero_point),
            Scalar(alu=Alu.F2I, to=register, immediate=register),
            *([_alu(Alu.ADD, register, register, self.zero_point)] if self.zero_point else []),
        ]

    def _divided(self, values: int, last: Scalar) -> list[Scalar]:
        """Bundles that divide exponentials by their sum, and store a word of results."""
        taken = _TAKEN[:values]
        found = [*map(_load, taken), *[Scalar()] * (values == 1)]
        for register in taken:
            found += self._result(register)
        return [*found, *_joined(taken), last]


Emitter = Callable[[int, Scalar, int], None]
"""Emits what makes words of so many results, from one of them on, and what is done with each."""


def _push(builder: Builder, name: str, count: int, words: Emitter) -> None:
    """Push results from the memory of the scalar core to the host, filled up to whole units."""
    size = round_up(count, UNIT)
    builder.output(size, SymbolKind.OUTPUT, name)
    push = Scalar(store=Store.PUSH, store_from=_OUT)
    words(count, push, 0)
    builder.emit_all([push] * (size // WORD - -(-count // WORD)))


def _return(
    context: Context, result: Vector, blocks: range, count: int, make_words: Emitter
) -> None:
    """Results to the tiles through the fifo, in rows of `_SENT_WORDS` as in published programs.

    Rows go to a row of the grid, of which each tile then copies its blocks.

    Args:
        context: where things are.
        result: where results go.
        blocks: numbers of the blocks.
        count: values in them.
        make_words: emits what makes words of results.
    """
    first = context.scratch + WIDTH * result.nbytes
    builder = context.builder
    messages = [blocks[begin : begin + ROW_BLOCKS] for begin in range(0, len(blocks), ROW_BLOCKS)]
    words = [
        round_up(sum(-(-result.lanes(block) // WORD) for block in message), _SENT_WORDS)
        for message in messages
    ]
    masks = [_takers(result, message[0]) for message in messages]
    rows = dict.fromkeys(masks, 0)
    for mask, some in zip(masks, words, strict=True):
        rows[mask] += some // _SENT_WORDS
    for mask, total in rows.items():
        _consume(builder, mask, total, first)
    for number, (mask, some) in enumerate(zip(masks, words, strict=True)):
        begin, half = number * ROW_BLOCKS * LANES, number * _ROW % _FIFO
        builder.emit(_move(_WRITE, half))
        make_words(min(WORD * some, count - begin), _stored(_OUT), begin)
        # What has been stored is there, and the other half has been sent.
        builder.emit(PIPELINE)
        builder.emit(ScalarFence(idle=RING_STREAMS))
        message = walk(half, word=(some, 1))
        builder.emit(
            Infeed(
                memory=InfeedMemory.SCALAR,
                buffer=message.traversal(INFEED_BUFFER),
                infed=message.each("word"),
                token=message.each(WHOLE),
                wait=(None, None),
                destination=mask,
                row_words=_SENT_WORDS,
            )
        )
        builder.tokens.ring[0] += 1
        builder.tokens.infed += some
    builder.sync()
    builder.on_tiles(partial(_kept, context, result, blocks), result.tiles)


def _kept(context: Context, result: Vector, blocks: range, tile: int) -> TensorOp | None:
    """A tile copies its blocks out of the rows that came for its row of the grid."""
    held = [block for block in result.held(tile) if block in blocks]
    if not held:
        return None
    first = context.scratch + WIDTH * result.nbytes
    source = first + LANES * ((held[0] - blocks[0]) % ROW_BLOCKS)
    target = result.base + LANES * (held[0] // TILES)
    places = [
        Axis("word", result.lanes(held[0]) // WORD, WORD, WORD),
        Axis("block", len(held), ROW_BLOCKS * LANES, LANES),
    ]
    return moves(source, target, context.identity, [], places)


def _takers(vector: Vector, first: int) -> int:
    """Mask of the tiles that some consecutive blocks go to, or that have earlier ones."""
    tiles = {vector.owner(block) for block in range(first, first + ROW_BLOCKS)}
    return mask_of([tile for tile in vector.tiles if tile in tiles])


def _consume(builder: Builder, tiles: int, count: int, first: int) -> None:
    """Tiles take so many rows of the fifo, one after the other, to narrow memory."""
    taking = Taking(
        walk(builder.staging - SPREAD_ROWS, row=(1, 1), slot=(count, 0), turn=("slot", 1)),
        walk(first // WORD, word=(_SENT_WORDS, 1), row=(count, _SENT_WORDS)),
        row="row",
        publish="row",
    )
    builder.emit_all([taking.unpack(tiles), taking.consume(tiles)])


# --- loops ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """Words that a loop reads.

    Attributes:
        first: the first one.
        width: values of a word.
        ahead: registers that hold words of the next group.
    """

    first: int
    width: int
    ahead: tuple[int, ...]


_HALFWORDS = _Read(VALUES, WIDTH, _HALVES)
_SINGLE = _Read(_EXPONENTS, 1, ())


def _over(
    builder: Builder,
    count: int,
    body: Callable[[int], Sequence[Scalar]],
    first: int = 0,
    words: _Read = _HALFWORDS,
) -> None:
    """A body for every group of so many values, from one of them on."""
    builder.room(_MOST_BUNDLES)
    builder.emit(_move(_READ, words.first + first // words.width))
    # A word is used two bundles after its load, as in compiled programs.
    builder.emit_all([*map(_load, words.ahead), Scalar()] if words.ahead else [])
    groups, rest = divmod(count, _GROUP)
    if groups:
        _loop(builder, groups, body(_GROUP))
    if rest:
        builder.emit_all(body(rest))


def _loop(builder: Builder, count: int, bundles: Sequence[Scalar]) -> None:
    """Emit a loop of bundles for the scalar core."""
    builder.emit(Loop(count=count, length=len(bundles)))
    builder.emit_all(bundles)


def _places(registers: Sequence[int]) -> list[Scalar]:
    """The values of a group, of which two are in each halfword register, one by one."""
    found = []
    for index, register in enumerate(registers):
        half = _HALVES[index // WIDTH]
        if index % WIDTH:
            found.append(_alu(Alu.SHR, register, half, _BITS * WIDTH))
        else:
            found.append(_alu(Alu.AND, register, half, (1 << _BITS * WIDTH) - 1))
    return found


def _largest(values: int) -> list[Scalar]:
    """Halfwords are compared as upper halves of floats, whose lower halves do not matter."""
    found = []
    for index, half in enumerate(_HALVES):
        lower = _TAKEN[index]
        if 2 * index < values:
            found += [_alu(Alu.SHL, lower, half, _BITS * WIDTH), _maximum(lower)]
        if 2 * index + 1 < values:
            found.append(_maximum(half))
        found.append(_load(half))
    return found


def _maximum(register: int) -> Scalar:
    return Scalar(alu=Alu.FMAX, to=_LARGEST, a=_LARGEST, immediate=register)


def _looked_up(values: int) -> list[Scalar]:
    """Entries of the table for the values of a group."""
    taken = _TAKEN[:values]
    loads = [
        Scalar(load=Load.REGISTER, load_to=register, load_address=register) for register in taken
    ]
    # A word is used two bundles after its load, also where there are few.
    return [*_places(taken), *loads, *[Scalar()] * (values <= 2)]


def _sum(values: int) -> list[Scalar]:
    """The values of a group are looked up and added, in their order."""
    sums = [
        Scalar(alu=Alu.FADD, to=_SUM, a=_SUM, immediate=register) for register in _TAKEN[:values]
    ]
    return [*_looked_up(values), *map(_load, _HALVES), *sums]


def _words(values: int, last: Scalar) -> list[Scalar]:
    """Bundles that look up a word of results, and store it."""
    found = [*_looked_up(values), *_joined(_TAKEN[:values])]
    halves = list(map(_load, _HALVES))
    if last.store is Store.PUSH:
        # The only slot that published programs use beside a load.
        halves[0] = replace(halves[0], store=last.store, store_from=last.store_from)
        return [*found, *halves]
    return [*found, *halves, last]


def _joined(taken: Sequence[int]) -> list[Scalar]:
    """The bytes of some registers as a word."""
    first, *others = taken
    if not others:
        return [Scalar(alu=Alu.MOV, to=_OUT, immediate=first)]
    found = []
    for index, register in enumerate(others, 1):
        found += [
            _alu(Alu.SHL, register, register, _BITS * index),
            Scalar(alu=Alu.OR, to=_OUT, a=first if index == 1 else _OUT, immediate=register),
        ]
    return found


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


def _stored(register: int) -> Scalar:
    return Scalar(store=Store.INCREMENT, store_address=_next(_WRITE), store_from=register)


@legalizes("softmax")
def _softmax(legalizer: Legalizer, call: Call) -> None:
    source, result = call.type(), call.result
    if source.size != source.shape[-1]:
        softmax_of_pixels(legalizer, call)
        return
    assert source.quantization is not None, "a condition of all operators"
    assert result.type.quantization is not None
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
