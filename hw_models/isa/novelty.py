"""Forms that no published program has: the nearest one that does, and why the difference is safe.

No real chip is known to have executed an instruction of such a form. What speaks for it is that it
differs from a published one in a few aspects, each of which published programs use with the same
unit. The aspects of a difference follow from the codecs of the fields; `ASPECTS` says for each why
units do not care, and how much is at stake if they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from fitzroy.base.bits import Codec, Count, Optional, Series
from fitzroy.hw_models.isa.catalog import INSTRUCTIONS, opcodes
from fitzroy.hw_models.isa.fields import ProducerCodec, WatcherCodec
from fitzroy.hw_models.isa.forms import Occurrence, parsed, published, rules
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.traversal import PrefixCodec, TraversalCodec


class Risk(IntEnum):
    """What is at stake where a form is not published: how likely a chip minds, and how badly.

    A judgement about how units are built, not a measurement: nothing of this has run on a chip.
    """

    LOW = 0
    MEDIUM = 1
    MEDIUM_HIGH = 2
    HIGH = 3

    @property
    def title(self) -> str:
        """The class in words."""
        return self.name.lower().replace("_", "-")

    @property
    def meaning(self) -> str:
        """What puts a difference into the class."""
        return _MEANINGS[self]


_MEANINGS = {
    Risk.LOW: "Counts, strides and levels in another combination. Units go through loops and add "
    "strides without knowing what they are for.",
    Risk.MEDIUM: "A condition, a counter's level or a mode that no published form of the opcode "
    "has in that field. If the unit lacks it, a program waits for ever, or too short.",
    Risk.MEDIUM_HIGH: "An operation that published programs have in a single form only, done "
    "another way. Its unit may do nothing else, and results would be wrong.",
    Risk.HIGH: "An opcode that no published program has, or an order that nothing guarantees. "
    "Stale data would go on without a sign, and no simulator that completes stores at once can "
    "see it.",
}


@dataclass(frozen=True, slots=True)
class Aspect:
    """A way in which two forms differ.

    Attributes:
        name: a word for it.
        title: what differs.
        why: why an instruction with the difference is executed as its fields say.
        weight: how much it counts when the nearest form is looked for.
        risk: what is at stake if other published forms of the opcode have the field's shape.
        unseen: what is at stake if none has.
    """

    name: str
    title: str
    why: str
    weight: float = 1.0
    risk: Risk = Risk.LOW
    unseen: Risk = Risk.LOW


LOOPS = Aspect(
    "loops",
    "number of loops in use",
    "A traversal unit has all of its loops in every instruction; those that are not in use run "
    "once. How often each runs is a count, of which only one and more than one make different "
    "forms. Each operand has a unit of its own, and published forms combine them with many numbers "
    "of loops. The mask of a reduction names the loops that are summed over, wherever they are.",
    0.5,
)
LEVELS = Aspect(
    "levels",
    "level at which something is counted, awaited or ended",
    "A level is the number of a loop, which units compare with the loop that steps. Published "
    "forms of the same units use several levels for the same field: a nest with one loop more or "
    "less has all of its levels moved.",
    0.75,
)
COUNTING = Aspect(
    "counting",
    "level at which completed iterations are counted",
    "A unit counts where a level completes, by the same comparison that ends rows and gates "
    "elements. Published forms of most units count at several levels.",
    0.75,
    unseen=Risk.MEDIUM,
)
GROWTH = Aspect(
    "growth",
    "whether the threshold of a condition grows",
    "The increment is a number of 16 bits that is multiplied with the iteration. Zero is one of "
    "its values, and published programs have conditions of both kinds.",
    0.75,
)
CONDITIONS = Aspect(
    "conditions",
    "which flags it waits for",
    "An instruction has equal slots for conditions, all of which must hold, and each names a flag "
    "by number; an empty slot holds always. Which flags are counted, when, and that no program "
    "waits for ever, is what the verifier and the simulator check.",
    unseen=Risk.MEDIUM,
)
PRODUCERS = Aspect(
    "producers",
    "whether it counts completed iterations",
    "A producer has a valid bit of its own, and published forms of most units have it set and "
    "cleared. A flag that nobody awaits has no effect.",
)
PING_PONG = Aspect(
    "ping-pong",
    "whether two slots are used in turn",
    "The second slot is a distance that is added to addresses, zero for none. More than two slots, "
    "or a single one, are plain loops with a stride, as all traversals have them.",
)
PARTIAL = Aspect(
    "partial chunk",
    "whether the last chunk is smaller",
    "Every traversal has the fields of a partial chunk, with the same meaning in all units; "
    "published forms use them in conversions, consumers, meshes, streams and results.",
)
PREFIX = Aspect(
    "prefix",
    "whether there is a prefix, and where it comes",
    "A prefix has an enable bit and a level of its own. Published forms of both engines that have "
    "one use it at several levels, and go without.",
)
LANES = Aspect(
    "lanes",
    "whether all 64 lanes, or all multipliers, are in use",
    "Numbers of lanes are counts, of which only all 64 and fewer make different forms. Multipliers "
    "of a lane have a bit each; published forms have both settings with bytes and with halfwords.",
)
PARAMETERS = Aspect(
    "parameters",
    "which parameters come from memory, and which from the instruction",
    "Scales, biases and zero points have a bit each that says where they come from, and published "
    "forms have every one of these set and cleared. What is not in memory is a constant of the "
    "instruction, which all published forms have too.",
)
OUTPUT = Aspect(
    "output stage",
    "number formats and the non-linear function",
    "Formats of operands and results, and the function after the clamp, have bits of their own, "
    "which published forms have with other loops before them. The output stage follows the sum and "
    "does not know how it was made.",
    unseen=Risk.MEDIUM,
)
SLOTS = Aspect(
    "slots",
    "combination of slots in a bundle of the scalar core",
    "A bundle has slots for a load, a store, the ALU and the special functions. All read before "
    "any writes, and published bundles fill several at a time; each slot as such is published.",
)
FENCES = Aspect(
    "fences",
    "what a fence waits for, and sets",
    "A fence has a bit for every engine and every flag. They are independent of each other; to "
    "wait for an engine that is idle cannot block.",
    unseen=Risk.MEDIUM,
)
STREAMS = Aspect(
    "streams",
    "rows and channels of the ring and of streams, filling of words",
    "Rows on the ring have between 1 and 64 words, which is a count; channels, the way to the "
    "outfeed and the filling of words are bits that published forms of the same units have set and "
    "cleared.",
    unseen=Risk.MEDIUM,
)
MAXIMA = Aspect(
    "maxima",
    "how maxima are taken",
    "A maximum goes through the loops of a tensor operation as a sum does, lane by lane. Published "
    "programs take maxima of several windows of 64 channels, and of words of up to four lanes.",
    0.0,
    Risk.MEDIUM_HIGH,
    Risk.MEDIUM_HIGH,
)
STORED = Aspect(
    "stored words",
    "whether an infeed of scalar memory waits for an outfeed that has filled it",
    "Words that the scalar core has stored itself are there once its pipeline is empty, which a "
    "fence awaits; the property `stored-word-infeed` of the envelope checks that it does. "
    "Published programs send only what an outfeed has put there.",
    0.0,
    Risk.MEDIUM_HIGH,
    Risk.MEDIUM_HIGH,
)

ASPECTS = (
    LOOPS,
    LEVELS,
    COUNTING,
    GROWTH,
    CONDITIONS,
    PRODUCERS,
    PING_PONG,
    PARTIAL,
    PREFIX,
    LANES,
    PARAMETERS,
    OUTPUT,
    SLOTS,
    FENCES,
    STREAMS,
    MAXIMA,
    STORED,
)
"""All aspects."""

_GROUPS = {"zero_points": PARAMETERS, "output": OUTPUT, "operands": OUTPUT, "loops": LOOPS}
"""Aspects by the heading of a field."""

_FIELDS = {
    "reduction": LOOPS,
    "block_level": LEVELS,
    "pack_level": LEVELS,
    "lanes": LANES,
    "lanes_last": LANES,
    "idle_multipliers": LANES,
    "bias_in_memory": PARAMETERS,
    "scale_in_memory": PARAMETERS,
    "trained": PARAMETERS,
    "transpose": OUTPUT,
    "to_scaling": STREAMS,
    "fill": STREAMS,
}
"""Aspects of fields whose heading or codec does not tell."""

_UNITS = {
    "scalar core": SLOTS,
    "tile dispatcher": FENCES,
    "infeed": STREAMS,
    "outfeed": STREAMS,
    "ring producer": STREAMS,
    "ring consumers": STREAMS,
    "pop units": STREAMS,
}
"""Aspects of whatever else differs, by unit."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a form that differs from a published one.

    Attributes:
        field: name of the field.
        here: its shape.
        there: its shape in the published form.
        aspects: in what they differ; empty if nothing says.
        seen: whether published forms of the opcode have the shape.
    """

    field: str
    here: str
    there: str
    aspects: tuple[Aspect, ...]
    seen: bool

    @property
    def risk(self) -> Risk:
        """What is at stake: that of the riskiest aspect, the highest if there is none."""
        found = [item.risk if self.seen else item.unseen for item in self.aspects]
        return max(found, default=Risk.HIGH)


@dataclass(frozen=True, slots=True)
class Novelty:
    """A form that no published program has.

    Attributes:
        form: the form.
        nearest: the published form that differs least; empty if the opcode has none.
        occurrence: how often that is.
        differences: in which fields.
    """

    form: str
    nearest: str
    occurrence: Occurrence
    differences: tuple[Difference, ...]

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """All aspects of the difference, in the order of `ASPECTS`."""
        found = {aspect for item in self.differences for aspect in item.aspects}
        return tuple(aspect for aspect in ASPECTS if aspect in found)

    @property
    def explained(self) -> bool:
        """Whether every difference has an aspect."""
        return bool(self.nearest) and all(item.aspects for item in self.differences)

    @property
    def risk(self) -> Risk:
        """What is at stake: that of the riskiest difference, the highest without a nearest form."""
        return max((item.risk for item in self.differences), default=Risk.HIGH)


@cache
def novelty(form: str) -> Novelty:
    """What is new about a form that is not published."""
    opcode, shapes = parsed(form)
    candidates = _published_of(opcode)
    if not candidates:
        return Novelty(form, "", Occurrence(0, 0), ())

    def distance(text: str) -> tuple[float, int]:
        items = _differences(opcode, shapes, candidates[text])
        weight = sum(aspect.weight for _, _, _, aspects in items for aspect in aspects)
        return weight, -published()[text].programs

    nearest = min(candidates, key=distance)
    return Novelty(form, nearest, published()[nearest], differences(form, nearest))


def differences(form: str, other: str) -> tuple[Difference, ...]:
    """How a form differs from a published one of the same opcode."""
    opcode, here = parsed(form)
    _, there = parsed(other)
    seen = _seen(opcode)
    return tuple(
        Difference(*item, seen=(item[0], item[1]) in seen)
        for item in _differences(opcode, here, there)
    )


@cache
def _seen(opcode: str) -> Set[tuple[str, str]]:
    """Shapes of fields that published forms of an opcode have."""
    rest, forms = _rest(opcode), _published_of(opcode).values()
    return {item for shapes in forms for item in {**rest, **shapes}.items()}


@cache
def _published_of(opcode: str) -> Mapping[str, Mapping[str, str]]:
    """Published forms of an opcode, with their shapes."""
    found = {}
    for text in published():
        name, shapes = parsed(text)
        if name == opcode:
            found[text] = shapes
    return found


@cache
def _declaration(opcode: str) -> type[Instruction]:
    return next(
        kind for kind in INSTRUCTIONS for own in opcodes(kind) if own.name.lower() == opcode
    )


@cache
def _rest(opcode: str) -> Mapping[str, str]:
    """Shapes of zero bits."""
    return {name: rest for name, _, rest in rules(_declaration(opcode))}


def _differences(
    opcode: str, here: Mapping[str, str], there: Mapping[str, str]
) -> list[tuple[str, str, str, tuple[Aspect, ...]]]:
    kind, found = _declaration(opcode), []
    for name, rest in _rest(opcode).items():
        mine, other = here.get(name, rest), there.get(name, rest)
        if mine != other:
            aspects = [*_aspects(kind, name, mine, other), *_peculiar(opcode, here, name, mine)]
            found.append((name, mine, other, tuple(dict.fromkeys(aspects))))
    return found


def _peculiar(opcode: str, form: Mapping[str, str], name: str, here: str) -> Iterator[Aspect]:
    """Aspects of an opcode, whatever the field."""
    if opcode == "max":
        yield MAXIMA
    stored = (opcode, form.get("memory"), name) == ("infeed", "scalar", "wait")
    if stored and "ring_outfeed" not in here:
        yield STORED


def _aspects(kind: type[Instruction], name: str, here: str, there: str) -> Iterator[Aspect]:
    field = kind.field(name)
    codec = _innermost(field.codec)
    match codec:
        case TraversalCodec():
            yield from _of_traversals(here, there)
        case WatcherCodec():
            yield from _of_conditions(here, there)
        case ProducerCodec():
            yield PRODUCERS if "none" in (here, there) else COUNTING
        case PrefixCodec():
            yield PREFIX
        case Count() if isinstance(field.codec, Series):
            yield LOOPS
        case _:
            aspect = _FIELDS.get(name) or _GROUPS.get(field.group) or _UNITS.get(kind.unit)
            if aspect is not None:
                yield aspect


def _innermost(codec: Codec) -> Codec:
    while isinstance(codec, Optional | Series):
        codec = codec.inner
    return codec


def _of_traversals(here: str, there: str) -> Iterator[Aspect]:
    if "none" in (here, there):
        # Half of a mesh transfer: a whole traversal is there or not.
        yield LOOPS
        return
    (mine, *own), (other, *theirs) = here.split("/"), there.split("/")
    if mine != other:
        yield LOOPS
    for clause, aspect in (("ping", PING_PONG), ("part", PARTIAL)):
        a, b = ([item for item in items if item.startswith(clause)] for items in (own, theirs))
        if a != b:
            yield LEVELS if a and b else aspect


def _of_conditions(here: str, there: str) -> Iterator[Aspect]:
    mine, theirs = (_by_flag(text) for text in (here, there))
    if mine.keys() != theirs.keys():
        yield CONDITIONS
    for key in mine.keys() & theirs.keys():
        for one, other, aspect in zip(mine[key], theirs[key], (GROWTH, LEVELS), strict=True):
            if one != other:
                yield aspect


def _by_flag(text: str) -> dict[tuple[str, bool], Sequence[str]]:
    """Growth and level of each condition, by flag and side."""
    found: dict[tuple[str, bool], Sequence[str]] = {}
    for item in filter(None, text.split("&")):
        flag, _, rest = item.partition("@")
        level, _, side = rest.partition(":")
        name = flag.rstrip("+-")
        found[name, bool(side)] = (flag[len(name) :], level)
    return found
