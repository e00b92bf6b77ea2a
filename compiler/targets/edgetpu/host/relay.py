"""Outputs through the scalar core, whose pieces are no whole units of the host's stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, WORD, round_up
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.output_layouts import PART_BYTES
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import StreamEngine
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import Alu, Indexed, Load, Loop, Scalar, Store
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.units import outfeed_words

PIPELINE = ScalarFence(idle=1 << StreamEngine.PIPELINE)
"""The scalar core waits for its own loads and stores."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a part of an output goes.

    Attributes:
        kind: an output, or the scratch buffer.
        name: the output.
        last: whether it is the last part; the others are filled up, so that all begin at multiples
            of `PART_BYTES`.
    """

    kind: SymbolKind
    name: str = ""
    last: bool = False

    def size(self, nbytes: int) -> int:
        """Bytes that the host gets of a part of so many."""
        return round_up(nbytes, UNIT if self.last else PART_BYTES)

    def ask(self, builder: Builder, size: int) -> int:
        """Ask the host to take so many bytes; their offset."""
        return builder.output(size, self.kind, self.name)


_FROM, _TO = 6, 5
"""Registers with addresses in the scalar core's memory."""

_PUSHED = (7, 8)
"""Registers of words for the host."""

_RELAY_BUNDLES = 64
"""Bundles that take a piece to memory, or what is in memory to the host."""


def relay(
    builder: Builder,
    messages: Sequence[tuple[RingProduce, int]],
    size: int,
    destination: Destination,
) -> None:
    """Collect pieces of any number of words in scalar memory, from where they go to the host.

    The sequence is that of published programs. Every descriptor but the last one is for a multiple
    of `PART_BYTES`; words that are left over move to the start of memory.

    Args:
        builder: the program.
        messages: pieces that tiles send to the outfeed, and their words.
        size: bytes that the host gets; the end is filled up with zeros.
        destination: where they go.
    """
    held, left = 0, size // WORD
    for message, words in messages:
        builder.room(_RELAY_BUNDLES)
        builder.emit(message)
        while words:
            # Outfeeds divide messages between rows.
            room = BEAGLE.memories.scalar.elements - held
            taken = words if words <= room else room - room % LANES
            if taken:
                builder.emit(PIPELINE)
                builder.emit(Outfeed(buffer=outfeed_words(taken, held), row_words=LANES))
            held, words = held + taken, words - taken
            if words:
                pushed = held - held % (PART_BYTES // WORD)
                _push(builder, pushed, pushed, destination)
                left -= pushed
                held = _move_down(builder, pushed, held - pushed)
    _push(builder, held, left, destination)


def _push(builder: Builder, words: int, size: int, destination: Destination) -> None:
    """Send the first words of scalar memory to the host, and zeros up to a size in words."""
    builder.room(_RELAY_BUNDLES)
    builder.emit(ScalarFence(idle=1 << StreamEngine.OUTFEED))
    destination.ask(builder, WORD * size)
    push = [Scalar(store=Store.PUSH, store_from=register) for register in _PUSHED]
    load = [
        Scalar(
            load=Load.INCREMENT,
            load_to=register,
            load_address=int(Indexed(register=_FROM, increment=1).pack()),
        )
        for register in _PUSHED
    ]
    builder.emit(Scalar(alu=Alu.MOV, immediate_b=True, to=_FROM))
    pairs, odd = divmod(words, 2)
    if pairs:
        # A word is used two bundles after its load.
        builder.emit_all(load)
        if pairs > 1:
            builder.emit(Loop(count=pairs - 1, length=2))
            builder.emit_all(
                replace(first, store=second.store, store_from=second.store_from)
                for first, second in zip(load, push, strict=True)
            )
        builder.emit_all(push)
    if odd:
        builder.emit_all([load[0], Scalar(), push[0]])
    if size > words:
        builder.emit(Scalar(alu=Alu.MOV, immediate_b=True, to=_FROM))
        builder.emit(Loop(count=size - words, length=1))
        builder.emit(Scalar(store=Store.PUSH, store_from=_FROM))


def _move_down(builder: Builder, first: int, words: int) -> int:
    """Move some words to the start of scalar memory; returns how many."""
    if words:
        for register, address in ((_FROM, first), (_TO, 0)):
            builder.emit(Scalar(alu=Alu.MOV, immediate_b=True, to=register, immediate=address))
        builder.emit(Loop(count=words, length=3))
        builder.emit_all(
            [
                Scalar(
                    load=Load.INCREMENT,
                    load_to=_PUSHED[0],
                    load_address=int(Indexed(register=_FROM, increment=1).pack()),
                ),
                Scalar(),
                Scalar(
                    store=Store.INCREMENT,
                    store_address=int(Indexed(register=_TO, increment=1).pack()),
                    store_from=_PUSHED[0],
                ),
            ]
        )
    return words
