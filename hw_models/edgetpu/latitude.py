"""What the architecture leaves open, and how far a run of the simulator goes in it.

The functional model completes every operation at once, gives every queue all the room it asks for,
and moves every unit as far as it can. A chip does none of that, and how late, how deep and how slow
it is was never published. A program is safe if its results do not depend on these things as far as
published programs bear them: `PUBLISHED` is as late, as short and as irregular as it gets before
some published program would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fitzroy.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Latitude:
    """How late, how short and how irregular a run is; zero and False are the functional model.

    With a seed, stores, results and the length of queues are drawn up to the number given; without
    one, everything is as late and as short as it says.

    Attributes:
        stores: bundles after which a word that the scalar core stores reaches the memory that
            infeeds read. A scalar fence that waits for the pipeline completes all stores.
        sums: steps of a tensor operation after which a partial sum is in wide memory: a
            contribution that begins sooner adds to what was there before.
        exponential: bundles after which the result of 2^x is in its register.
        reciprocal: the same for 1/x.
        special: bundles for which the unit of both is busy; an operand that comes sooner is lost.
        queues: instructions that an engine, the dispatcher of a tile and a stream unit hold each;
            whoever brings one more waits.
        inputs: descriptors of inputs that are open at a time; the scalar core waits with the next.
        parameters: the same for descriptors of parameters.
        delays: units begin, stop and go on at random places, tiles at a different pace, and so
            does what the host sends; needs a seed.
        any_order: rows are taken in any order that the flags allow. Without it, the two orders
            that published programs leave to time hold: conversions take a row before the next one
            comes, and producers send one before it is written again.
        plain_counters: fences compare counters as signed numbers of 16 bits that do not wrap, and
            addresses of stream buffers wrap once at most.
    """

    stores: int = 0
    sums: int = 0
    exponential: int = 0
    reciprocal: int = 0
    special: int = 0
    queues: int = 0
    inputs: int = 0
    parameters: int = 0
    delays: bool = False
    any_order: bool = False
    plain_counters: bool = False

    def drawn(self, number: Callable[[int, int], int]) -> Latitude:
        """The same with queues of a random length.

        Args:
            number: a random whole number between two others, both included.
        """
        return replace(self, queues=number(1, self.queues)) if self.queues else self

    @classmethod
    def parse(cls, text: str) -> Latitude:
        """The latitude of a text: ``published``, ``any``, or ``stores=300,sums=8,delays``.

        Raises:
            UsageError: a word that is none of these, or no number where one belongs.
        """
        found = PRESETS.get(text)
        if found is None:
            found = NONE
            for item in text.split(","):
                found = _with(found, *item.strip().partition("=")[::2])
        return found


def _with(latitude: Latitude, word: str, number: str) -> Latitude:
    """A latitude with one more setting."""
    name = word.replace("-", "_")
    setting: dict[str, Any] = {}
    if name in _SWITCHES and not number:
        setting[name] = True
    if name in _NUMBERS and number.isascii() and number.isdigit() and len(number) < _DIGITS:
        setting[name] = int(number)
    if setting:
        return replace(latitude, **setting)
    numbers = (f"{name}={getattr(PUBLISHED, name)}" for name in _NUMBERS)
    known = ", ".join([*numbers, *_SWITCHES]).replace("_", "-")
    raise UsageError(
        f"a latitude of {f'{word}={number}' if number else word!r}",
        reason=f"it takes {known}, separated by commas, or one of {', '.join(PRESETS)}",
    )


_NUMBERS = (
    *("stores", "sums", "exponential", "reciprocal", "special"),
    *("queues", "inputs", "parameters"),
)
_SWITCHES = ("delays", "any_order", "plain_counters")
_DIGITS = 7
"""Digits of a number that are too many."""

NONE = Latitude()
"""The functional model."""

PUBLISHED = Latitude(
    stores=300,
    sums=8,
    exponential=3,
    reciprocal=19,
    special=6,
    queues=8,
    inputs=1,
    parameters=4,
    delays=True,
    plain_counters=True,
)
"""As far as every published program bears it.

Measured on published programs: the nearest infeed of scalar memory comes 346 bundles after a store;
a partial sum is taken up again 9 steps after it was left at the soonest; 2^x is used after 3
bundles, 1/x after 19, and operands of both come 6 bundles apart; one descriptor of an input is open
at a time, and four of parameters; counters that fences await stay below 32,768, and addresses of
infeeds below twice the buffer. How deep queues are is not known; of all lengths, the shortest show
most.
"""

ANY = replace(PUBLISHED, any_order=True)
"""The same, and no order is left to time: for programs in which the verifier notes none."""

PRESETS: Mapping[str, Latitude] = {"none": NONE, "published": PUBLISHED, "any": ANY}
"""Latitudes that have names."""
