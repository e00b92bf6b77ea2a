"""The rules that a program must keep, and what is found where it does not."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: stable name in kebab case.
        severity: how much it matters when it is broken, unless a finding says otherwise.
        summary: the rule in a line.
        evidence: how it is checked.
        remedy: what to do about a finding.
    """

    id: str
    severity: Severity
    summary: str
    evidence: str
    remedy: str


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_WALK = "execution without data, with the shortest queues"
_ORDER = "happens-before order of the units of a tile"
_READ = "the instructions alone"

RULES = {
    rule.id: rule
    for rule in (
        Rule(
            "deadlock",
            _ERROR,
            "the program ends with queues of one instruction per engine and one undispatched "
            "instruction per tile, where rows and words move only to a waiting receiver",
            _WALK,
            "emit receivers before senders, and make sure that every wait is satisfied by a count",
        ),
        Rule(
            "signal-pairing",
            _ERROR,
            "every signal of a tile is consumed by one scalar fence before the next signal",
            _WALK,
            "follow each tile fence that signals with a scalar fence that waits for its tiles and "
            "clears them",
        ),
        Rule(
            "ring-turn",
            _ERROR,
            "a ring producer waits for the tokens of all messages before its own, and produces "
            "its own",
            _WALK,
            "wait for the tokens that have been produced on the channel so far",
        ),
        Rule(
            "ring-mix",
            _ERROR,
            "an infeed of a stream buffer and ring producers on its channel to the same tiles are "
            "separated, since the infeed has no token",
            _WALK,
            "put a scalar fence between them that waits for the tiles, or for the infeed to be "
            "idle",
        ),
        Rule(
            "flag-distance",
            _ERROR,
            "a counter is less than 32,768 away from the threshold of a watcher, so that the "
            "signed 16-bit comparison is unambiguous",
            _ORDER,
            "reset the counter more often, or wait for it in smaller steps",
        ),
        Rule(
            "flag-reset",
            _ERROR,
            "a counter is set only while no engine counts with it, and none waits for its "
            "previous value",
            _ORDER,
            "let the fence wait for the engines that use the counter",
        ),
        Rule(
            "left-over",
            _ERROR,
            "no rows, words, bytes or instructions are left at the end of a program",
            _WALK,
            "send as much as is received",
        ),
        Rule(
            "tokens-left",
            _WARNING,
            "ring tokens are reset before a program ends",
            _WALK,
            "end with a scalar fence that waits for the tokens and a tile fence that resets them",
        ),
        Rule(
            "hazard",
            _ERROR,
            "if two engines of a tile use the same word, row or entry and one of them writes it, "
            "their accesses are ordered",
            _ORDER,
            "let the later one watch a counter of the earlier one, or put a fence between them",
        ),
        Rule(
            "timing-guaranteed",
            _NOTE,
            "a row is overwritten before it has certainly been read, but by then its reader has "
            "everything that it needs",
            _ORDER,
            "give the writer credits that count rows that have been read",
        ),
        Rule(
            "stream-hazard",
            _ERROR,
            "pops do not overwrite units that have not been fed into the ring, and infeeds do not "
            "read units that have not arrived",
            _ORDER,
            "let the infeed wait for the pop and the pop for the infeed's credits",
        ),
        Rule(
            "fifo-triple",
            _ERROR,
            "an infeed of scalar memory that waits for an outfeed, the outfeed, and the ring "
            "producer that feeds it are issued in this order, with equal numbers of blocks",
            _READ,
            "emit INFEED of scalar memory, OUTFEED to memory and RING_PRODUCE to the outfeed, of "
            "ceil(words / 64) blocks",
        ),
        Rule(
            "ring-channel",
            _ERROR,
            "rows have a destination, and infeeds use channel A and not the outfeed",
            _READ,
            "send to tiles that consume the channel, or to the outfeed",
        ),
        Rule(
            "reserved",
            _WARNING,
            "fields whose meaning is unknown have the value that they have in all known programs",
            _READ,
            "leave the field at its default",
        ),
        Rule(
            "chunk-size",
            _ERROR,
            "a chunk fits the instruction memory",
            _READ,
            "split the program between layers",
        ),
        Rule(
            "envelope",
            _NOTE,
            "sizes, distances and order are within the ranges of published programs (a warning "
            "where the risk is medium or more, see [envelope.md](envelope.md))",
            "the instructions, and the control flow of the scalar core",
            "see the property",
        ),
    )
}
"""Every rule by its id."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a program breaks.

    Attributes:
        rule: id of the rule.
        where: the instructions, with chunk and bundle, and the tiles.
        what: what happens.
        parties: the two that are concerned, if there are two.
        reason: why, with the numbers.
        remedy: what to do.
        level: how much it matters, if not as much as its rule says.
    """

    rule: str
    where: str
    what: str
    parties: tuple[str, str] | None = None
    reason: str = ""
    remedy: str = ""
    level: Severity | None = None

    @property
    def severity(self) -> Severity:
        """How much it matters."""
        return self.level or RULES[self.rule].severity

    def diagnostic(self) -> Diagnostic:
        """The finding as a diagnostic."""
        return Diagnostic(
            self.severity,
            self.rule,
            self.where,
            self.what,
            self.reason,
            self.remedy or RULES[self.rule].remedy,
        )

    def __str__(self) -> str:
        return str(self.diagnostic())
