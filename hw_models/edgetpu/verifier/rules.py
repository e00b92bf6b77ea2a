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
            "the program ends with one instruction per engine, one that is not dispatched per "
            "tile, and rows and words that move only to somebody who waits for them",
            _WALK,
            "emit whoever takes before whoever gives, and let every wait have its count",
        ),
        Rule(
            "signal-pairing",
            _ERROR,
            "every signal of a tile is taken by one scalar fence before the next one",
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
            "a counter is less than 32,768 away from what a watcher wants, so that the signed "
            "comparison of 16 bits has one meaning",
            _ORDER,
            "reset the counter more often, or wait for it in smaller steps",
        ),
        Rule(
            "flag-reset",
            _ERROR,
            "a counter is set when nobody counts with it, and nobody waits for what it had before",
            _ORDER,
            "let the fence wait for the engines that use the counter",
        ),
        Rule(
            "left-over",
            _ERROR,
            "rows, words, bytes and instructions are used up at the end of a program",
            _WALK,
            "make what is sent and what is taken equal",
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
            "two engines of a tile that use the same word, row or entry, one of them writing, have "
            "an order",
            _ORDER,
            "let the later one watch a counter of the earlier one, or put a fence between them",
        ),
        Rule(
            "timing-guaranteed",
            _NOTE,
            "a row is written again before it is certain that it has been taken, but whoever takes "
            "it has all that it needs by then",
            _ORDER,
            "give the writer credits that count what has been taken",
        ),
        Rule(
            "stream-hazard",
            _ERROR,
            "pops do not write over units that have not been fed into the ring, and infeeds do not "
            "read units that have not come",
            _ORDER,
            "let the infeed wait for the pop and the pop for the infeed's credits",
        ),
        Rule(
            "fifo-triple",
            _ERROR,
            "an infeed of scalar memory that waits for an outfeed, the outfeed and the ring "
            "producer that feeds that come in this order, with equal numbers of blocks",
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
            "sizes, distances and order are within what published programs have (a warning where "
            "the risk is medium or more, see [envelope.md](envelope.md))",
            "the instructions, and the course of the scalar core",
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
