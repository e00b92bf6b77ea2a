"""The envelope: properties that every published program keeps within a range.

Simulators complete every operation at once. A chip may have a latency, the depth of a queue, or an
address that wraps, which shows in no simulation; it shows in what the programs of the chip's own
compiler never do. Each property is a number that is measured at places of a program. Its range is
what published programs have (`published`); a number outside proves nothing, but no chip is known to
have executed a program with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from fitzroy.base.diagnostics import Severity
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.edgetpu.envelope import bundles, fences, operations, outputs, transfers
from fitzroy.hw_models.edgetpu.envelope.program import Program, Value

Measure = Callable[[Program], Iterator[Value]]
"""Gives the values of a property in a program, each with its place."""


class Risk(Enum):
    """How likely a chip minds a value outside, and how bad that would be; a judgement, worst first.

    HIGH: a wrong result or a hang is plausible, and many models would have it.
    """

    HIGH = "high"
    MEDIUM_HIGH = "medium-high"
    MEDIUM = "medium"
    LOW_MEDIUM = "low-medium"
    LOW = "low"

    @property
    def matters(self) -> bool:
        """Whether it is medium or more."""
        return self not in (Risk.LOW_MEDIUM, Risk.LOW)

    @property
    def severity(self) -> Severity:
        """How much a value outside matters."""
        return Severity.WARNING if self.matters else Severity.NOTE


class Bound(Enum):
    """Which ends of the published range bind."""

    LEAST = "lowest"
    MOST = "highest"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Property:
    """A property of programs.

    Attributes:
        slug: stable name in kebab case.
        title: what is measured.
        unit: of the values, in the plural.
        bound: which ends of the published range bind.
        risk: of a value outside.
        evidence: that published programs keep to the range.
        guards: which limit of the chip may be behind it.
        remedy: what keeps a program inside.
        measure: takes the values of a program.
        surveyed: the end of the range in a survey of 318 published programs of runtime versions 10
            to 14, where it is wider than in those that `published` is taken from.
    """

    slug: str
    title: str
    unit: str
    bound: Bound
    risk: Risk
    evidence: Evidence
    guards: str
    remedy: str
    measure: Measure
    surveyed: int | None = None


_WITHOUT_EXCEPTION = Evidence.CONFIRMED
_SEEN = Evidence.LIKELY
"""Level of properties that few published programs have at all."""

_DECLARED = (
    Property(
        "partial-sum-run",
        "consecutive steps that add to one row of partial sums",
        "steps",
        Bound.LEAST,
        Risk.HIGH,
        _WITHOUT_EXCEPTION,
        "Sums in wide memory are read, added to and written back. An operation that switches rows "
        "with every step reads and writes 256 bytes in each step. If a row is used again before it "
        "is written back, old sums are added to.",
        "stage more groups of input channels, or keep all of a reduction in one chunk",
        operations.partial_sum_runs,
    ),
    Property(
        "partial-sum-revisit",
        "steps until the same row of partial sums is used again",
        "steps",
        Bound.LEAST,
        Risk.HIGH,
        _WITHOUT_EXCEPTION,
        "A row must be written back before it is read again, which takes as long as the pipeline "
        "of the op engine.",
        "give every contribution more steps, or more positions a turn",
        operations.partial_sum_revisits,
    ),
    Property(
        "partial-sum-words",
        "words that the last contribution to partial sums outputs per step",
        "words a step",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "The output stage reads words from a queue. Its depth while sums are in memory, and "
        "whether it stalls the operation, are not known.",
        "give the last contribution more steps",
        operations.partial_sum_words,
        surveyed=6,
    ),
    Property(
        "stored-word-infeed",
        "stores of the scalar core that may not be complete when an infeed reads its memory",
        "stores",
        Bound.MOST,
        Risk.HIGH,
        _WITHOUT_EXCEPTION,
        "A store that is still in the pipeline of the scalar core would send stale words.",
        "wait for the scalar core's pipeline between the stores and the infeed",
        outputs.stored_word_infeeds,
    ),
    Property(
        "relay-fence",
        "messages to scalar memory, to be pushed to the host, without a fence for the pipeline",
        "messages",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "Loads for earlier pushes may still be in progress when the next outfeed writes the words.",
        "put scalar_fence idle=pipeline between the message and its outfeed",
        outputs.relay_fences,
    ),
    Property(
        "push-run",
        "words of a run of pushes beyond an even number",
        "words",
        Bound.MOST,
        Risk.HIGH,
        _WITHOUT_EXCEPTION,
        "Everywhere else, the path to the host moves units of 8 bytes; half a unit may get stuck "
        "in it.",
        "collect the words of several tiles and push them together",
        outputs.push_runs,
    ),
    Property(
        "output-descriptor-place",
        "bytes by which a run of pushes differs from the descriptor directly before it",
        "bytes",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The host's bus may end a transfer when all words of a descriptor have arrived, or wait "
        "for them and block the ring.",
        "issue one descriptor of exactly its size before every run of pushes",
        outputs.descriptor_places,
    ),
    Property(
        "output-descriptor-offset",
        "bytes from a multiple of 32 to the start of a descriptor of an output",
        "bytes",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The chip, or its bus, may write whole bursts only.",
        "request adjacent parts of an output with one descriptor",
        outputs.descriptor_offsets,
    ),
    Property(
        "output-descriptor-size",
        "bytes beyond a multiple of 32 of a descriptor that is followed by another one of the same "
        "output",
        "bytes",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The chip, or its bus, may write whole bursts only.",
        "request adjacent parts of an output with one descriptor",
        outputs.descriptor_sizes,
    ),
    Property(
        "special-unit-spacing",
        "bundles from one operation of the special unit to the next",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The unit may accept one operand at a time; it would lose one, and a softmax would be "
        "wrong.",
        "put empty bundles between operations of the special unit",
        bundles.special_spacing,
    ),
    Property(
        "exponential-use",
        "bundles from 2^x to the use of its result",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "If a result is used too early, the register still has its previous value.",
        "put empty bundles after the operation",
        bundles.exponential_uses,
    ),
    Property(
        "reciprocal-use",
        "bundles from 1/x to the use of its result",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "If a result is used too early, the register still has its previous value; 1/x may take "
        "longer than 2^x.",
        "put empty bundles after the operation",
        bundles.reciprocal_uses,
    ),
    Property(
        "special-unit-alone",
        "other slots in use in a bundle of the special unit",
        "slots",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "Slots may share ports of the registers.",
        "put operations of the special unit into separate bundles",
        bundles.special_companions,
    ),
    Property(
        "infeed-base",
        "whole buffers before the first address of an infeed",
        "buffers",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not known how far addresses wrap at the size of a buffer.",
        "start at the position in the stream modulo the size of the buffer",
        transfers.infeed_bases,
    ),
    Property(
        "infeed-reach",
        "whole buffers before the highest address of an infeed",
        "buffers",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not known how far addresses wrap at the size of a buffer.",
        "wrap around in two blocks of the buffer",
        transfers.infeed_reaches,
    ),
    Property(
        "open-descriptors",
        "requests for inputs that may not have been served yet",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The capacity of the descriptor queue to the host, and whether the scalar core waits for "
        "room in it, are not known.",
        "fetch an input with one request, or wait for each before the next",
        transfers.open_inputs,
    ),
    Property(
        "open-parameter-descriptors",
        "requests for parameters that may not have been served yet",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The capacity of the descriptor queue to the host, and whether the scalar core waits for "
        "room in it, are not known.",
        "wait for infeeds before requesting parameters further ahead",
        transfers.open_parameters,
        surveyed=4,
    ),
    Property(
        "open-pops",
        "pops of inputs that may not be complete",
        "pops",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The depth of the queue of the unit is not known.",
        "wait for each pop before the next",
        transfers.open_pops,
    ),
    Property(
        "open-parameter-pops",
        "pops of parameters that may not be complete",
        "pops",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The depth of the queue of the unit is not known.",
        "wait for infeeds before popping parameters further ahead",
        transfers.open_parameter_pops,
        surveyed=4,
    ),
    Property(
        "pop-requests",
        "requests that a single pop of inputs covers",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The unit may end a pop at the end of a transfer.",
        "use a separate pop for every request",
        transfers.requests_of_pops,
    ),
    Property(
        "descriptor-spacing",
        "bundles from one descriptor to the next",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The words of a descriptor may be sent one by one.",
        "put empty bundles between descriptors",
        bundles.descriptor_spacing,
    ),
    Property(
        "descriptor-write",
        "bundles from issuing a descriptor to the next write of a descriptor word",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The words of a descriptor may be sent one by one, and be overwritten before they are "
        "sent.",
        "put empty bundles after a descriptor is issued",
        bundles.descriptor_writes,
    ),
    Property(
        "ring-tokens",
        "tokens of a channel of the ring since they were reset",
        "tokens",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "In published programs, watchers of engines wrap at 16 bits, but fences never do. A fence "
        "with an unsigned comparison would pass too early, or hang.",
        "reset the tokens between two phases",
        fences.ring_tokens,
        surveyed=20_488,
    ),
    Property(
        "waiting-outfeeds",
        "outfeeds to the same destination without a wait",
        "outfeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not proven that the queue of the unit stalls the scalar core when it is full.",
        "put scalar_fence idle=outfeed after every sixteenth outfeed",
        transfers.waiting_outfeeds,
    ),
    Property(
        "waiting-infeeds",
        "infeeds of inputs without a wait",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not proven that the queue of the unit stalls the scalar core when it is full.",
        "wait for infeeds more often",
        transfers.waiting_infeeds,
        surveyed=16,
    ),
    Property(
        "waiting-parameter-infeeds",
        "infeeds of parameters without a wait",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not proven that the queue of the unit stalls the scalar core when it is full.",
        "wait for infeeds more often",
        transfers.waiting_parameter_infeeds,
        surveyed=159,
    ),
    Property(
        "waiting-scalar-infeeds",
        "infeeds of scalar memory without a wait",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "It is not proven that the queue of the unit stalls the scalar core when it is full.",
        "wait for infeeds more often",
        transfers.waiting_scalar_infeeds,
    ),
    Property(
        "chunk-begin",
        "chunks after the first that do not start with a tile fence",
        "chunks",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _SEEN,
        "Tiles may have to be idle while instructions are fetched.",
        "start the chunk with a tile fence",
        fences.chunk_begins,
    ),
    Property(
        fences.SHORT_CHUNKS,
        "how many times instruction memory could hold a chunk that another chunk follows",
        "times",
        Bound.MOST,
        Risk.MEDIUM,
        _SEEN,
        "Published programs have several chunks only if one is not enough, so the next chunk never "
        "fits next to the current one. A chip that receives a chunk while it executes another may "
        "overwrite instructions that it has yet to execute, or lose the new ones.",
        "end a chunk only when instruction memory is full",
        fences.chunk_lengths,
    ),
    Property(
        "narrow-top",
        "highest word of narrow memory in use",
        "words",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "The last words may not exist, or may be reserved for the chip.",
        "leave the last three words of narrow memory free",
        operations.narrow_tops,
        surveyed=49_148,
    ),
    Property(
        "second-handshake",
        "programs that do not wait a second time for the tiles before their first instruction",
        "programs",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "Resetting counters may take longer than the fence that requests it.",
        "let tiles signal again after the reset, and wait for them",
        fences.second_handshakes,
    ),
    Property(
        "end-fence",
        "messages between the last tile fence and the fence that waits for the last ring tokens",
        "messages",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "Counters that stay above zero affect a later program that does not reset them.",
        "put a tile fence that resets local counters before the wait for tokens",
        fences.end_fences,
    ),
    Property(
        "outfeed-length",
        "units of 8 bytes of an outfeed to the host",
        "units",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "A loop of the unit may only count to 16,384.",
        "divide a longer outfeed",
        outputs.outfeed_units,
    ),
    Property(
        "outfeed-loops",
        "loops of an outfeed to the host that run more than once",
        "loops",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Outfeeds to the host have no addresses; further loops may not count.",
        "divide a longer outfeed",
        outputs.outfeed_loops,
    ),
    Property(
        "scalar-load-alone",
        "bundles that load and compute",
        "bundles",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Slots may share ports of the registers.",
        "load in a bundle without ALU operation",
        bundles.load_companions,
    ),
    Property(
        "store-spacing",
        "bundles from one store to the next",
        "bundles",
        Bound.LEAST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "A store may take more than one cycle.",
        "put other bundles between stores",
        bundles.store_spacing,
    ),
    Property(
        "slot-register",
        "highest register of slots other than the ALU",
        "registers",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "Slots may only have access to some of the registers.",
        "use lower registers for loads, stores and the special unit",
        bundles.slot_registers,
    ),
    Property(
        "scalar-infeed-row",
        "words in a row of an infeed of scalar memory",
        "words",
        Bound.BOTH,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "The unit may read words of scalar memory in groups.",
        "send rows of 4 words",
        transfers.scalar_infeed_rows,
    ),
    Property(
        "scalar-infeed-rest",
        "words in an incomplete last row of an infeed of scalar memory",
        "words",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "The unit may wait for the rest of a row.",
        "send whole rows",
        transfers.scalar_infeed_rests,
    ),
    Property(
        "self-read",
        "words that an operation reads after writing them itself",
        "words",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "The value read depends on the progress of the op engine's pipeline. FitzRoy's operations "
        "do not use such values: their weights equal the zero point.",
        "place the result where no operand is read afterwards",
        operations.self_reads,
    ),
)

PROPERTIES: Mapping[str, Property] = {item.slug: item for item in _DECLARED}
"""Every property by its slug, in order of the pages about them."""
