"""Which encoding of an instruction do published programs have?

Layers write instructions in the most direct form. Here each gets an equivalent form that published
programs have, if there is one:

- Loops that continue each other may be written as one, and loops that run once may be added
  anywhere.
- A condition that holds from the first iteration on may be checked before any iteration.
- An operation whose lanes are the same everywhere may call any of its outer loops blocks.
- Two slots in turn that are used once each are a stride. A partial chunk that is not shorter than
  the others is none. Loops that fill whole rows end them anyway.
- With knowledge of the whole phase, a flag that nobody waits for may be counted at any level or
  not at all, and a condition that always holds may be checked or not.

An equivalent form does not change the order in which an engine works, what others learn of it, or
when it waits: every level that is waited for, waits, toggles or ends something keeps its
iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from fitzroy.base.bits import Optional, Series
from fitzroy.compiler.targets.edgetpu.instructions.counters import (
    Counters,
    counts_with,
    iterations,
    needs,
)
from fitzroy.compiler.targets.edgetpu.instructions.nests import (
    NESTS,
    Level,
    Loops,
    NestFields,
    cut_above,
    cut_of,
    has_blocks,
    is_absent,
    is_level,
    level_in,
    loops_of,
    parsed_traversal,
    slot_distance,
    with_level,
)
from fitzroy.hw_models.isa.catalog import opcodes
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fields import Producer, Side, TileFlag, Watcher
from fitzroy.hw_models.isa.forms import parsed, published, shapes, written
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import (
    Traversal,
    resolved,
    traversal,
)

T = TypeVar("T", bound=Instruction)


def encoded(instruction: T, counters: Counters | None = None) -> T:
    """The instruction in a form of published programs, or in one that is close to it, if any.

    Args:
        instruction: an instruction as a layer writes it.
        counters: of the phase that it belongs to, with all of its instructions as layers write
            them; None if nothing is known about the others.
    """
    nests = NESTS.get(type(instruction))
    if nests is None:
        return instruction
    direct = _Own.of(instruction, nests, counters)
    if direct.form in published():
        return instruction
    plain = _resolved(instruction, nests)
    ways = [(instruction, direct)]
    if plain != instruction:
        ways.append((plain, _Own.of(plain, nests, counters)))
    free = [(item, own) for item, own in ways if not _fixed(item)]
    for close in (False, True):
        for item, own in free:
            found = own.encoding(close=close)
            if found is not None:
                return replace(item, **found)
    return instruction


def _resolved(instruction: T, nests: Sequence[NestFields]) -> T:
    """The instruction with traversals in their plainest form."""
    if isinstance(instruction, NarrowToWide) and instruction.transpose is not Transpose.NONE:
        # There a partial chunk shortens another dimension.
        return instruction
    values = {nest.field: getattr(instruction, nest.field) for nest in nests}
    plain: dict[str, Any] = {k: resolved(v) for k, v in values.items() if isinstance(v, Traversal)}
    return replace(instruction, **plain)


@dataclass(frozen=True, slots=True)
class Choice:
    """How an instruction is written.

    Attributes:
        form: a published form, by field.
        free: traversals that have another number of loops than in the form.
        phase: whether conditions and producers may come and go.
    """

    form: Mapping[str, str]
    free: Set[str] = frozenset()
    phase: bool = False


_CHOICES: dict[object, Choice | None] = {}
"""Choices so far, by all that they depend on."""

_FREE: tuple[frozenset[str], ...] = tuple(
    map(frozenset, ((), ("a",), ("b",), ("a", "b"), ("narrow",), ("send",), ("receive",)))
)
"""Traversals that may have another number of loops than the form, the closest forms first."""


def _fixed(instruction: Instruction) -> bool:
    """Whether it has partial chunks that say more than that a loop is shorter the last time."""
    match instruction:
        case TensorOp() if instruction.loop_part_dim:
            return True
        case NarrowToWide() if instruction.transpose is not Transpose.NONE:
            return True
    values = (getattr(instruction, nest.field) for nest in NESTS[type(instruction)])
    return any(
        isinstance(value, Traversal)
        and bool(value.part_dim)
        and 1 in (value.dims[0].count, value.dims[value.part_dim].count)
        for value in values
    )


# --- forms to choose from ------------------------------------------------------------------------

Modes = tuple[object, ...]
"""What an encoding cannot change."""

_Key = tuple[str, bool]
"""What a wait condition asks for: a flag, and whether it is of the write side."""


def _written(kind: type[Instruction]) -> set[str]:
    """Fields that an encoding may change."""
    fields = {"wait"} if any(nest.sides for nest in NESTS[kind]) else set()
    for nest in NESTS[kind]:
        fields |= {nest.field, *nest.levels}
    return fields | ({"reduction"} if kind is TensorOp else set())


def _modes(kind: type[Instruction], opcode: str, found: Mapping[str, str]) -> Modes:
    hidden = _written(kind)
    absent = [nest.field for nest in NESTS[kind] if _text(kind, found, nest.field) == "none"]
    rest = [item for item in found.items() if item[0] not in hidden]
    return (opcode, *rest, *absent)


def _loose(modes: Modes) -> Modes:
    """What concerns the loops of a tensor operation, and not its number formats and constants."""
    kept = [item for item in modes[1:] if item in _SHAPING or isinstance(item, str)]
    return ("loose", modes[0], *kept)


_SHAPING = (("accumulate", "1"),)


def _text(kind: type[Instruction], found: Mapping[str, str], name: str) -> str:
    """The shape of a nest in a form: its loops, or that it is absent."""
    if name in found:
        return found[name]
    return "none" if isinstance(kind.field(name).codec, Optional) else "0"


@cache
def _candidates() -> Mapping[Modes, Sequence[Mapping[str, str]]]:
    """Published forms by what an encoding cannot change, those of most programs first."""
    kinds = {member.name.lower(): kind for kind in NESTS for member in opcodes(kind)}
    found: dict[Modes, list[Mapping[str, str]]] = {}
    ranked = sorted(published().items(), key=lambda item: -item[1].programs)
    for text, _ in ranked:
        opcode, tokens = parsed(text)
        if opcode in kinds:
            modes = _modes(kinds[opcode], opcode, tokens)
            found.setdefault(modes, []).append(tokens)
            if kinds[opcode] is TensorOp:
                found.setdefault(_loose(modes), []).append(tokens)
    return found


_ROW_WORDS, _ROW_ENTRIES = 64, 32
"""Words, and entries of scaling memory, in a row of wide memory."""


@dataclass(frozen=True, slots=True)
class _Own:
    """An instruction that is to be written in another form.

    Attributes:
        instruction: the instruction.
        nests: its nests.
        form: its own form.
        modes: what cannot be changed.
        loops: the loops of each nest, None for those that are absent.
        waits: its wait conditions, each with its key.
        counters: counters of its phase, None if they are not known.
    """

    instruction: Instruction
    nests: tuple[NestFields, ...]
    form: str
    modes: Modes
    loops: tuple[Loops | None, ...]
    waits: tuple[tuple[_Key, Watcher], ...]
    counters: Counters | None

    @classmethod
    def of(
        cls, instruction: Instruction, nests: tuple[NestFields, ...], counters: Counters | None
    ) -> _Own:
        opcode, found = instruction.op.name.lower(), shapes(instruction)
        modes = _modes(type(instruction), opcode, found)
        if not isinstance(instruction, TileInstruction):
            # Counters of the scalar core run through the whole program.
            counters = None
        loops = tuple(loops_of(instruction, nest) for nest in nests)
        form, waits = written(opcode, found), tuple(_waits_of(instruction))
        return cls(instruction, nests, form, modes, loops, waits, counters)

    def encoding(self, *, close: bool) -> dict[str, Any] | None:
        """Fields that make it an instruction of another form, None if there is none.

        Args:
            close: whether the form may be one that is close to a published one.
        """
        key = (self.form, self._structure(), close)
        if key not in _CHOICES:
            _CHOICES[key] = self.choice(close=close)
        choice = _CHOICES[key]
        return None if choice is None else self.written(choice)

    def _structure(self) -> object:
        """Whatever a choice depends on beside the form.

        No more and no less: what was chosen for one instruction must be right for another one.
        """
        values = (getattr(self.instruction, nest.field) for nest in self.nests)
        slots = tuple(
            (bool(value.fifo_step), value.fifo_dim, value.part_dim)
            for value in values
            if isinstance(value, Traversal)
        )
        idle = tuple(self._idle(name) for nest in self.nests for name in nest.levels)
        always = tuple(self._always(watcher) for _, watcher in self.waits)
        blocks = isinstance(self.instruction, TensorOp) and has_blocks(self.instruction)
        return self.loops, slots, idle, always, self._askable(), blocks

    def _askable(self) -> tuple[tuple[TileFlag, Side], ...]:
        """Flags, and sides, for which a condition that always holds may be added.

        It asks for no more than what the counter begins the phase with, in any iteration.
        """
        if self.counters is None:
            return ()
        assert isinstance(self.instruction, TileInstruction)
        found = []
        for side in {side for nest in self.nests for side in nest.sides}:
            nest = next(nest for nest in self.nests if side in nest.sides)
            value = getattr(self.instruction, nest.field)
            if value is not None:
                least = 1 - iterations(value, 0)
                held = self.counters.held(self.instruction.tiles, least)
                found += [(flag, side) for flag in held]
        return tuple(sorted(found))

    def _idle(self, name: str) -> bool:
        """Whether a producer counts with a flag that nobody awaits."""
        if self.counters is None:
            return False
        assert isinstance(self.instruction, TileInstruction)
        return self.counters.idle(counts_with(self.instruction, name), self.instruction.tiles)

    def _always(self, watcher: Watcher) -> bool:
        """Whether a condition holds in any case, whatever others count."""
        if self.counters is None:
            return False
        assert isinstance(self.instruction, TileInstruction)
        return any(
            item == watcher
            and self.counters.holds(watcher.flag, self.instruction.tiles, least, greatest)
            for item, least, greatest in needs(self.instruction)
        )

    def choice(self, *, close: bool) -> Choice | None:
        """The form to write it in."""
        for option in self._options(close=close):
            if self.written(option) is not None:
                return option
        return None

    def _options(self, *, close: bool) -> Iterator[Choice]:
        if not close:
            yield from map(Choice, self._alike(self.modes))
            exact = _candidates().get(self.modes, ())
            yield from (Choice(candidate, phase=True) for candidate in exact)
            return
        for modes, frees in ((self.modes, _FREE[1:]), (_loose(self.modes), _FREE[:2])):
            alike = self._alike(modes)
            for free in frees:
                yield from (Choice(form, free) for form in alike)

    def _alike(self, modes: Modes) -> list[Mapping[str, str]]:
        """Published forms whose wait conditions have the same keys."""
        keys = tuple(sorted(key for key, _ in self.waits))
        forms = _candidates().get(modes, ())
        return [form for form in forms if _keys(form.get("wait", "")) == keys]

    def written(self, choice: Choice) -> dict[str, Any] | None:
        """The fields that make it an instruction of a form, None if it is not one."""
        form, free = choice.form, choice.free
        levels: list[list[Level]] = [[] for _ in self.nests]
        matched = self._waits(choice, levels)
        if matched is None:
            return None
        fields: dict[str, Any] = {}
        for nest, loops, wanted in zip(self.nests, self.loops, levels, strict=True):
            counted = self._counted(nest, loops, choice, wanted)
            if counted is None:
                return None
            fields |= counted
            if loops is None:
                continue
            shape = _text(type(self.instruction), form, nest.field)
            found = (
                self._loop_counts(loops, shape, form, wanted)
                if nest.field == "loops"
                else self._traversal(nest.field, loops, shape, wanted, nest.field in free)
            )
            if found is None:
                return None
            fields |= found
        present, absent = matched
        added = [self._asked(item, fields) for item in absent]
        if None in added:
            return None
        if hasattr(self.instruction, "wait"):
            waits = [*present, *added]
            fields["wait"] = (*waits, *[None] * (len(self.instruction.wait) - len(waits)))
        return fields

    def _counted(
        self, nest: NestFields, loops: Loops | None, choice: Choice, levels: list[Level]
    ) -> dict[str, Any] | None:
        """Fields with a level of a nest, which are added to its levels; None if they do not fit."""
        fields: dict[str, Any] = {}
        for name in nest.levels:
            value, wanted = getattr(self.instruction, name), level_in(choice.form.get(name))
            if choice.phase and self._idle(name) and loops is not None:
                fields[name] = None if wanted is None else Producer(wanted)
                continue
            if is_level(value):
                wanted = wanted or 0
            elif (wanted is None) != is_absent(value):
                return None
            if wanted is None or loops is None:
                continue
            below = loops.under(cut_of(value))
            if nest.field in choice.free:
                wanted = below - cut_above(value)
                if wanted < 0:
                    return None
            fields[name] = with_level(value, wanted)
            if name != "block_level" or has_blocks(self.instruction):
                alike = self._packed_alike(nest, loops, below) if name == "pack_level" else {below}
                levels.append((alike, cut_of(fields[name])))
        return fields

    def _packed_alike(self, nest: NestFields, loops: Loops, below: int) -> Set[int]:
        """How many loops may be below the level that ends rows.

        Where the loops below a level fill whole rows, the levels above it end none of their own.
        """
        value: Traversal = getattr(self.instruction, nest.field)
        scaling = isinstance(self.instruction, WideToNarrow) and self.instruction.to_scaling
        if value.part_dim or getattr(self.instruction, "prefix", None) is not None:
            return {below}
        row = _ROW_ENTRIES if scaling else _ROW_WORDS
        sizes = [math.prod(dim.count for dim in loops.dims[:k]) for k in range(len(loops.dims) + 1)]
        return {
            other
            for other in range(len(sizes))
            if other == below or sizes[min(other, below)] % row == 0
        }

    def _waits(
        self, choice: Choice, levels: list[list[Level]]
    ) -> tuple[list[Watcher], list[_Condition]] | None:
        """Conditions with the levels of a form, which are added to those of the nests.

        Returns:
            Those that it has, and what is to be added; None if they do not fit.
        """
        if not any(nest.sides for nest in self.nests):
            return [], []
        wanted = [*_conditions(choice.form.get("wait", ""))]
        result = []
        for key, watcher in self.waits:
            found = next((item for item in wanted if item.key == key), None)
            if found is None:
                if choice.phase and self._always(watcher):
                    continue
                return None
            wanted.remove(found)
            written = self._condition(watcher, found, choice, levels)
            if written is None:
                return None
            result.append(written)
        return None if wanted and not choice.phase else (result, wanted)

    def _condition(
        self,
        watcher: Watcher,
        wanted: _Condition,
        choice: Choice,
        levels: list[list[Level]],
    ) -> Watcher | None:
        """A condition with the level of a form, which is added to those of its nest."""
        index = next(k for k, nest in enumerate(self.nests) if watcher.side in nest.sides)
        loops = self.loops[index]
        if loops is None or not watcher.valid:
            return None
        all_below = len(loops.dims)
        below = loops.under(watcher.level) if watcher.increment else all_below
        if not wanted.grows and below != all_below:
            # It grows, and there is more than one iteration.
            return None
        level = wanted.level
        if self.nests[index].field in choice.free:
            level = below
        elif wanted.grows:
            levels[index].append(({below}, level))
        increment = (watcher.increment or 1) if wanted.grows else 0
        if (level, increment) == (watcher.level, watcher.increment):
            return watcher
        return replace(watcher, level=level, increment=increment)

    def _asked(self, condition: _Condition, fields: Mapping[str, Any]) -> Watcher | None:
        """A condition of a form that always holds; None if there is none.

        Args:
            condition: its shape.
            fields: the nests that the instruction will have.
        """
        flag, side, level = condition.flag, condition.side, condition.level
        if flag is None or (flag, side) not in self._askable():
            return None
        value = fields[next(nest for nest in self.nests if side in nest.sides).field]
        threshold = 1 - iterations(value, level) if condition.grows else 0
        return Watcher(flag, level, threshold, int(condition.grows), side=side)

    def _loop_counts(
        self,
        loops: Loops,
        shape: str,
        form: Mapping[str, str],
        levels: Sequence[Level],
    ) -> dict[str, Any] | None:
        mask = int(form.get("reduction", "0"), 0)
        rank = int(shape)
        arrangements = loops.arrangements(
            rank, levels, lambda index, place: bool(mask >> place & 1) == loops.marks[index]
        )
        places = next(arrangements, None)
        if places is None:
            return None
        assert isinstance(self.instruction, TensorOp)
        counts = [1] * len(self.instruction.loops)
        for place, dim in zip(places, loops.dims, strict=True):
            counts[place] = dim.count
        return {"loops": tuple(counts), "reduction": mask}

    def _traversal(
        self,
        name: str,
        loops: Loops,
        shape: str,
        levels: Sequence[Level],
        free: bool,
    ) -> dict[str, Any] | None:
        value: Traversal = getattr(self.instruction, name)
        rank, ping, part = parsed_traversal(shape)
        if free:
            rank = len(loops.dims)
            ping = None if ping is None else loops.under(value.fifo_dim)
            part = None if part is None else loops.under(value.part_dim)
        constraints = list(levels)
        if value.fifo_step:
            if ping is not None:
                constraints.append(({loops.under(value.fifo_dim)}, ping))
            elif loops.under(value.fifo_dim) < len(loops.dims):
                return None
        if part is None and value.part_dim:
            return None
        last = loops.under(value.part_dim)

        def allowed(index: int, place: int) -> bool:
            return not value.part_dim or (
                (index == 0) == (place == 0) and (index == last) == (place == part)
            )

        for places in loops.arrangements(rank, constraints, allowed):
            # A single element at address 0 would be all zero bits, which means that there is none.
            dims = [(1, 0)] * rank or [(1, 1)]
            for place, dim in zip(places, loops.dims, strict=True):
                dims[place] = (dim.count, dim.stride)
            step = value.fifo_step
            if ping is not None and not step:
                step = slot_distance(value, dims, ping)
                if not step:
                    continue
            length = value.part_count if value.part_dim else dims[0][0]
            found = traversal(
                value.base,
                dims,
                rank=len(value.dims),
                ping_pong=(0, 0) if ping is None else (ping, step),
                part=None if part is None else (length, part),
            )
            return {name: found}
        return None


def _waits_of(instruction: Instruction) -> Iterator[tuple[_Key, Watcher]]:
    """The wait conditions of an instruction, each with its key."""
    conditions = [item for item in getattr(instruction, "wait", ()) if item is not None]
    if conditions:
        series = type(instruction).field("wait").codec
        assert isinstance(series, Series)
        for watcher in conditions:
            flag = series.inner.text(watcher).partition(">=")[0]
            yield (flag, watcher.side is Side.WRITE), watcher


@cache
def _conditions(text: str) -> tuple[_Condition, ...]:
    """The shapes of the wait conditions of a form."""
    return tuple(_Condition.of(item) for item in text.split("&") if item)


@cache
def _keys(text: str) -> tuple[_Key, ...]:
    """The keys of the wait conditions of a form, sorted."""
    return tuple(sorted(condition.key for condition in _conditions(text)))


@dataclass(frozen=True, slots=True)
class _Condition:
    """Shape of a wait condition.

    Attributes:
        key: what it asks for.
        grows: whether the threshold does.
        level: where it waits.
    """

    key: _Key
    grows: bool
    level: int

    @property
    def side(self) -> Side:
        """The half of the instruction that the condition gates."""
        return Side.WRITE if self.key[1] else Side.READ

    @property
    def flag(self) -> TileFlag | None:
        """The counter of a tile that it asks for, None if there is no such counter."""
        return TileFlag.__members__.get(self.key[0].upper())

    @classmethod
    def of(cls, text: str) -> _Condition:
        flag, _, rest = text.partition("@")
        level, _, side = rest.partition(":")
        return cls((flag.rstrip("+-"), bool(side)), flag.endswith("+"), int(level))
