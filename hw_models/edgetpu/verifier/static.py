"""Rules that the instructions of a program show by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.stream import FIFO_WORDS
from fitzroy.hw_models.edgetpu.verifier.rules import Finding
from fitzroy.hw_models.edgetpu.verifier.text import issue_name, stream_name
from fitzroy.hw_models.isa.fields import ScalarFlag
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed

_BLOCK = FIFO_WORDS // 2


def check(recording: Recording) -> Iterator[Finding]:
    """Findings about single instructions and their neighbours."""
    yield from _fifo(recording)
    for _, entry in recording.entries:
        if isinstance(entry, Dispatched):
            instruction, name = entry.issue.instruction, issue_name(entry.issue)
            if isinstance(instruction, RingProduce) and not (
                instruction.destination or instruction.to_outfeed
            ):
                yield Finding("ring-channel", name, "its rows have no destination")
            yield from _reserved(instruction, name)
        elif isinstance(entry, Streamed):
            yield from _stream(entry)
            yield from _reserved(entry.event.instruction, stream_name(entry.event))


def _stream(entry: Streamed) -> Iterator[Finding]:
    instruction, name = entry.event.instruction, stream_name(entry.event)
    if isinstance(instruction, Infeed):
        if instruction.channel:
            yield Finding("ring-channel", name, "it uses channel B, which no known program does")
        if instruction.to_outfeed:
            yield Finding("ring-channel", name, "it sends to the outfeed")
        if not instruction.destination:
            yield Finding("ring-channel", name, "its rows have no destination")


def _fifo(recording: Recording) -> Iterator[Finding]:
    """Infeeds of scalar memory, their outfeeds and producers in threes."""
    feed: Streamed | None = None
    out: Streamed | None = None
    for _, entry in recording.entries:
        if isinstance(entry, Streamed):
            instruction = entry.event.instruction
            if isinstance(instruction, Infeed) and instruction.memory is InfeedMemory.SCALAR:
                if not any(gate.flag == ScalarFlag.RING_OUTFEED for gate in entry.plan.gates):
                    # It sends what the core itself has stored.
                    continue
                if feed is not None:
                    yield _broken(feed, "another follows before its outfeed and producer")
                feed, out = entry, None
            elif isinstance(instruction, Outfeed) and not instruction.to_host and entry.plan.gates:
                if feed is None or out is not None:
                    yield Finding("fifo-triple", stream_name(entry.event), "no infeed precedes it")
                    continue
                out = entry
        elif isinstance(entry, Dispatched) and isinstance(entry.issue.instruction, RingProduce):
            producer = entry.issue.instruction
            if not producer.to_outfeed or feed is None:
                continue
            if out is None:
                yield _broken(feed, "its producer comes before its outfeed")
            else:
                wanted = -(-len(feed.plan.order) // _BLOCK)
                blocks = -(-len(out.plan.order) // _BLOCK)
                rows = producer.wide.steps
                if not wanted == blocks == rows:
                    yield Finding(
                        "fifo-triple",
                        stream_name(feed.event),
                        "its outfeed and producer do not have as many blocks",
                        (stream_name(out.event), issue_name(entry.issue)),
                        f"{wanted} blocks are fed in, {blocks} taken out, {rows} produced",
                    )
            feed = out = None
    if feed is not None:
        yield _broken(feed, "nothing feeds it")


def _broken(feed: Streamed, what: str) -> Finding:
    return Finding("fifo-triple", stream_name(feed.event), what)


def check_chunks(chunks: Sequence[Sequence[Instruction]]) -> Iterator[Finding]:
    """Findings about chunks."""
    limit = BEAGLE.limits.chunk_bundles
    for number, chunk in enumerate(chunks):
        bundles = bundle_count(chunk)
        if bundles > limit:
            yield Finding(
                "chunk-size",
                f"chunk {number}",
                f"it has {bundles} bundles",
                reason=f"the instruction memory holds {limit}",
            )


def _reserved(instruction: Instruction, where: str) -> Iterator[Finding]:
    """Fields of unknown meaning that are set in all known programs, and not here."""
    for field in fields(instruction):
        spec = field.metadata["bits"]
        if spec.evidence is Evidence.UNKNOWN and spec.default:
            value = getattr(instruction, field.name)
            if value != spec.default:
                yield Finding("reserved", where, f"{field.name} is {value}, not {spec.default}")
