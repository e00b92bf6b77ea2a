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
        "Sums in wide memory are read, added to and written back. An operation that goes to "
        "another row with every step needs a read and a write of 256 bytes in each; a row that "
        "comes back before it is written would add to old sums.",
        "stage more groups of input channels, or keep all of a reduction in one chunk",
        operations.partial_sum_runs,
    ),
    Property(
        "partial-sum-revisit",
        "steps from a row of partial sums to the same row again",
        "steps",
        Bound.LEAST,
        Risk.HIGH,
        _WITHOUT_EXCEPTION,
        "A row must have been written before it is read again, which takes as long as the pipeline "
        "of the op engine.",
        "give every contribution more steps, or more positions a turn",
        operations.partial_sum_revisits,
    ),
    Property(
        "partial-sum-words",
        "words that the last contribution to partial sums hands out in a step",
        "words a step",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "The output stage takes words from a queue; how deep it is while sums are in memory, and "
        "whether it holds the operation back, is not known.",
        "give the last contribution more steps",
        operations.partial_sum_words,
        surveyed=6,
    ),
    Property(
        "stored-word-infeed",
        "stores of the scalar core that are not known to be done when an infeed reads its memory",
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
        "messages to scalar memory whose words are pushed on, without a fence for the pipeline",
        "messages",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "Loads of earlier pushes may still be under way when the next outfeed writes the words.",
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
        "The path to the host moves units of 8 bytes everywhere else; half of one may stay in it.",
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
        "The host's bus may end a transfer when the words of a descriptor are all there, or wait "
        "for them and hold up the ring.",
        "issue one descriptor of exactly its size in front of every run of pushes",
        outputs.descriptor_places,
    ),
    Property(
        "output-descriptor-offset",
        "bytes from a multiple of 32 to the begin of a descriptor of an output",
        "bytes",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The chip, or its bus, may write whole bursts only.",
        "ask for neighbouring parts of an output with one descriptor",
        outputs.descriptor_offsets,
    ),
    Property(
        "output-descriptor-size",
        "bytes beyond a multiple of 32 of a descriptor that another one of the output follows",
        "bytes",
        Bound.MOST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The chip, or its bus, may write whole bursts only.",
        "ask for neighbouring parts of an output with one descriptor",
        outputs.descriptor_sizes,
    ),
    Property(
        "special-unit-spacing",
        "bundles from one operation of the special unit to the next",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM_HIGH,
        _WITHOUT_EXCEPTION,
        "The unit may take one operand at a time; it would lose one, and a softmax be wrong.",
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
        "A result that is used before it is there is the register's earlier word.",
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
        "A result that is used before it is there is the register's earlier word; 1/x may take "
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
        "give operations of the special unit bundles of their own",
        bundles.special_companions,
    ),
    Property(
        "infeed-base",
        "whole buffers before the first address of an infeed",
        "buffers",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "How far addresses wrap at the size of a buffer is not known.",
        "begin at the position in the stream modulo the size of the buffer",
        transfers.infeed_bases,
    ),
    Property(
        "infeed-reach",
        "whole buffers before the highest address of an infeed",
        "buffers",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "How far addresses wrap at the size of a buffer is not known.",
        "go round in two blocks of the buffer",
        transfers.infeed_reaches,
    ),
    Property(
        "open-descriptors",
        "requests for inputs that are not known to be served",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "How many descriptors the queue to the host holds, and whether the scalar core waits for "
        "room in it, is not known.",
        "fetch an input with one request, or wait for each before the next",
        transfers.open_inputs,
    ),
    Property(
        "open-parameter-descriptors",
        "requests for parameters that are not known to be served",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "How many descriptors the queue to the host holds, and whether the scalar core waits for "
        "room in it, is not known.",
        "wait for infeeds before parameters further ahead are asked for",
        transfers.open_parameters,
        surveyed=4,
    ),
    Property(
        "open-pops",
        "pops of inputs that are not known to be done",
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
        "pops of parameters that are not known to be done",
        "pops",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The depth of the queue of the unit is not known.",
        "wait for infeeds before parameters further ahead are popped",
        transfers.open_parameter_pops,
        surveyed=4,
    ),
    Property(
        "pop-requests",
        "requests whose units one pop of inputs takes",
        "requests",
        Bound.MOST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The unit may end a pop with a transfer.",
        "give every request a pop of its own",
        transfers.requests_of_pops,
    ),
    Property(
        "descriptor-spacing",
        "bundles from one descriptor to the next",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The words of a descriptor may leave one by one.",
        "put empty bundles between descriptors",
        bundles.descriptor_spacing,
    ),
    Property(
        "descriptor-write",
        "bundles from a descriptor to the next write of a word of one",
        "bundles",
        Bound.LEAST,
        Risk.MEDIUM,
        _WITHOUT_EXCEPTION,
        "The words of a descriptor may leave one by one, and be overwritten before.",
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
        "Watchers of engines wrap at 16 bits in published programs, but fences never have. One "
        "that compares without a sign passes early, or hangs.",
        "reset the tokens between two phases",
        fences.ring_tokens,
        surveyed=20_488,
    ),
    Property(
        "waiting-outfeeds",
        "outfeeds to one place that nothing has waited for",
        "outfeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Whether the queue of the unit holds the scalar core back is not proven.",
        "put scalar_fence idle=outfeed after every sixteenth outfeed",
        transfers.waiting_outfeeds,
    ),
    Property(
        "waiting-infeeds",
        "infeeds of inputs that nothing has waited for",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Whether the queue of the unit holds the scalar core back is not proven.",
        "wait for infeeds more often",
        transfers.waiting_infeeds,
        surveyed=16,
    ),
    Property(
        "waiting-parameter-infeeds",
        "infeeds of parameters that nothing has waited for",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Whether the queue of the unit holds the scalar core back is not proven.",
        "wait for infeeds more often",
        transfers.waiting_parameter_infeeds,
        surveyed=159,
    ),
    Property(
        "waiting-scalar-infeeds",
        "infeeds of scalar memory that nothing has waited for",
        "infeeds",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "Whether the queue of the unit holds the scalar core back is not proven.",
        "wait for infeeds more often",
        transfers.waiting_scalar_infeeds,
    ),
    Property(
        "chunk-begin",
        "chunks after the first that do not begin with a tile fence",
        "chunks",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _SEEN,
        "Tiles may have to be idle while instructions are fetched.",
        "begin the chunk with a tile fence",
        fences.chunk_begins,
    ),
    Property(
        "narrow-top",
        "highest word of narrow memory in use",
        "words",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "The last words may be missing, or be the chip's own.",
        "leave the last three words of narrow memory free",
        operations.narrow_tops,
        surveyed=49_148,
    ),
    Property(
        "second-handshake",
        "programs whose tiles are not awaited a second time before their first instruction",
        "programs",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "What resets counters may take longer than the fence that asks for it.",
        "let tiles signal once more after the reset, and wait for them",
        fences.second_handshakes,
    ),
    Property(
        "end-fence",
        "messages between the last tile fence and the fence that waits for the last ring tokens",
        "messages",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "Counters that are left above zero disturb a program that does not reset them.",
        "put a tile fence that resets local counters before the tokens are awaited",
        fences.end_fences,
    ),
    Property(
        "outfeed-length",
        "units of 8 bytes of an outfeed to the host",
        "units",
        Bound.MOST,
        Risk.LOW_MEDIUM,
        _WITHOUT_EXCEPTION,
        "A loop of the unit may count to 16,384 only.",
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
        "Slots may reach a part of the registers only.",
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
        "words in the last row of an infeed of scalar memory that is not whole",
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
        "words that an operation reads after it has written them itself",
        "words",
        Bound.MOST,
        Risk.LOW,
        _WITHOUT_EXCEPTION,
        "What is read depends on how far the pipeline of the op engine has come. FitzRoy's "
        "operations do not use such values: their weights equal the zero point.",
        "place the result where no operand is read any more",
        operations.self_reads,
    ),
)

PROPERTIES: Mapping[str, Property] = {item.slug: item for item in _DECLARED}
"""Every property by its slug, in order of the pages about them."""
