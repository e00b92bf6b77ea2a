"""Chips that deviate from the simulator in one way each, and the probes that should notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu import conversion, machine, op, op_plan, resize, ring, scalar, stream
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.op import OpUnit
from fitzroy.hw_models.edgetpu.scalar import (
    Descriptor,
    Dispatch,
    Fence,
    HostWords,
    ScalarCore,
    Stream,
)
from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.edgetpu.sequence import sequence as sequence_of
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    ENGINE_OF,
    Opcode,
    ScalarFlag,
    StreamEngine,
    TileEngine,
    TileFlag,
)
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import Alu, DescriptorTag, Load, Scalar, Special, Store
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed
from fitzroy.hw_models.isa.tensor import RESIZE_PIXEL

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """A deviation of a chip.

    Attributes:
        name: what the chip does instead.
        found: the probes that it fails, all others pass.
        plant: changes the simulator, until the patch is undone.
    """

    name: str
    found: frozenset[str]
    plant: Callable[[Patch], None]


MUTANTS: list[Mutant] = []


def mutant(name: str, *found: str) -> Callable[[Callable[[Patch], None]], None]:
    """Declare a deviation and the probes that find it."""

    def declare(plant: Callable[[Patch], None]) -> None:
        MUTANTS.append(Mutant(name, frozenset(found), plant))

    return declare


# --- the output stage ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """The output stage with choices; those that are not given are the simulator's.

    Attributes:
        rounded: rounds float32 or float64.
        zero_first: whether the zero point is added before rounding.
        clamps: whether the limits of the instruction hold.
        wraps: whether outputs wrap instead of saturating.
        constant_last: whether the constant is added after the scale.
        bias_last: whether the bias is.
        held: what an accumulator makes of a sum, int64.
        dtype: type of sums and products.
        alternates: whether blocks have two slots of scales and biases in turn.
        clamps_last: whether the limits hold for results of a function, not for its arguments.
    """

    rounded: Callable[[Any], Any] = np.rint
    zero_first: bool = False
    clamps: bool = True
    wraps: bool = False
    constant_last: bool = False
    bias_last: bool = False
    held: Callable[[Any], Any] = lambda total: total
    dtype: type = np.float32
    alternates: bool = True
    clamps_last: bool = False

    def codes(
        self, unit: Any, plan: Any, tiles: Any, sums: Any, offset: Any, slot: int
    ) -> np.ndarray:
        """Outputs of sums, as `OpUnit._codes`."""
        instruction, lanes = plan.op, sums.shape[2]
        slot = slot if self.alternates else 0
        total = sums.astype(np.float64)
        if offset is not None:
            total = total + offset[:, None]
        total = self.held(total.astype(np.int64))
        bias: Any = 0
        if instruction.bias_in_memory:
            entry = op._BIAS_ENTRY + op._SLOT_ENTRIES * slot
            bias = unit._scaling(tiles, entry, lanes).view(np.int32).astype(np.int64)[:, None]
        late = 0.0
        for number, last in ((instruction.constant, self.constant_last), (bias, self.bias_last)):
            if last:
                late = late + number
            else:
                total = total + number
        scale: Any = np.float32(instruction.scale)
        if instruction.scale_in_memory:
            found = unit._scaling(tiles, op._SLOT_ENTRIES * slot, lanes)
            scale = found.view(np.float32)[:, None]
        y = total.astype(self.dtype) * np.asarray(scale).astype(self.dtype) + late
        limits = (np.float32(instruction.minimum), np.float32(instruction.maximum))
        if self.clamps and not (instruction.nlu and self.clamps_last):
            y = np.clip(y, *limits)
        if instruction.nlu:
            y = unit._function(instruction, tiles, y.astype(np.float32))
            if self.clamps_last:
                y = np.clip(y, *limits)
        zero = instruction.output_zero_point
        y = self.rounded(y + zero) if self.zero_first else self.rounded(y) + zero
        top = 0xFFFF if instruction.output16 else 0xFF
        kind = "<u2" if instruction.output16 else np.uint8
        if self.wraps:
            return np.asarray((y.astype(np.int64) & top).astype(kind))
        return np.asarray(np.clip(y, 0, top).astype(kind))

    def plant(self, patch: Patch) -> None:
        """Use it."""
        stage = self
        patch.setattr(OpUnit, "_codes", lambda unit, *args: stage.codes(unit, *args))


def _away(y: Any) -> Any:
    return np.sign(y) * np.floor(np.abs(y) + 0.5)


mutant("halves are rounded up", "round-ties", "zero-point-after-rounding")(
    Stage(lambda y: np.floor(y + y.dtype.type(0.5))).plant
)
mutant(
    "halves are rounded down",
    "round-ties",
    "scale-in-float32",
    "sum-to-float32",
    "zero-point-after-rounding",
)(Stage(lambda y: np.ceil(y - y.dtype.type(0.5))).plant)
mutant("halves are rounded away from zero", "round-ties", "zero-point-after-rounding")(
    Stage(_away).plant
)
mutant(
    "outputs are cut off",
    "clamp",
    "control-blocks",
    "control-dense",
    "control-halfwords",
    "control-partial-sums",
    "control-products",
    "early-sums",
    "lane-padding",
    "round-nearest",
    "round-ties",
    "scale-in-float32",
    "short-sums",
    "single-step-sums",
    "sum-overflow",
    "sum-to-float32",
    "table-after-sums",
    "table-reciprocal-root",
    "zero-point-after-rounding",
)(Stage(np.trunc).plant)
mutant("the zero point is added before rounding", "zero-point-after-rounding")(
    Stage(zero_first=True).plant
)
mutant("the clamp is ignored", "clamp", "table-after-clamp", "table-after-sums")(
    Stage(clamps=False).plant
)
mutant("outputs wrap", "control-halfwords", "saturation", "table-in-float32")(
    Stage(wraps=True).plant
)
mutant("the constant is added after the scale", "constant-before-scale", "negative-constant")(
    Stage(constant_last=True).plant
)
mutant(
    "the bias is added after the scale",
    "control-blocks",
    "control-dense",
    "control-partial-sums",
    "early-sums",
    "short-sums",
    "single-step-sums",
    "table-after-sums",
)(Stage(bias_last=True).plant)
mutant("sums and products have 53 bits", "scale-in-float32", "sum-to-float32")(
    Stage(dtype=np.float64).plant
)
mutant("accumulators wrap at 32 bits", "sum-overflow")(
    Stage(held=lambda total: (total + 2**31) % 2**32 - 2**31).plant
)
mutant("accumulators saturate at 32 bits", "sum-overflow")(
    Stage(held=lambda total: np.clip(total, -(2**31), 2**31 - 1)).plant
)
mutant("all blocks use the first slot of scales", "control-blocks", "table-after-sums")(
    Stage(alternates=False).plant
)
mutant("the clamp limits results of functions", "table-after-clamp", "table-after-sums")(
    Stage(clamps_last=True).plant
)


# --- functions -----------------------------------------------------------------------------------


def _function(
    side: Literal["left", "right"] = "right", kind: Any = np.float32, base: float = 1.0
) -> Callable[..., Any]:
    """The non-linear unit with choices: side of breakpoints, precision, least m of roots."""

    def function(unit: Any, instruction: Any, tiles: Any, y: Any) -> Any:
        memory = unit._memory
        power = np.zeros_like(y)
        if instruction.nlu_rsqrt:
            power = np.floor(np.log2(np.maximum(y, 1e-30) / base) / 2)
        argument = (y * np.exp2(-2 * power)).astype(np.float32)
        out = np.empty_like(argument)
        pairs = zip(memory.breakpoints[tiles], memory.tables[tiles], strict=True)
        for n, (bounds, table) in enumerate(pairs):
            rows = table[np.searchsorted(bounds, argument[n], side=side)].astype(kind)
            value = rows[..., 4]
            for degree in (3, 2, 1, 0):
                value = value * argument[n].astype(kind) + rows[..., degree]
            out[n] = value
        return (out * np.exp2(-power)).astype(np.float32)

    return function


def _functions(**choices: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(OpUnit, "_function", _function(**choices))


mutant("a breakpoint belongs to the segment below", "table-breakpoints", "table-reciprocal-root")(
    _functions(side="left")
)
mutant("polynomials have 53 bits", "table-in-float32")(_functions(kind=np.float64))
mutant("reciprocal roots take m from 2 to 8", "table-reciprocal-root")(_functions(base=2.0))


# --- the op engine -------------------------------------------------------------------------------


def _plans(change: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Plans of tensor operations that were changed."""

    def plant(patch: Patch) -> None:
        usual = op_plan.plan
        patch.setattr(machine, "op_plan", lambda instruction: usual(change(instruction)))

    return plant


mutant("lanes of the last block are ignored", "control-blocks", "table-after-sums")(
    _plans(lambda one: replace(one, lanes_last=one.lanes))
)
mutant("multipliers are never idle", "control-halfwords")(
    _plans(lambda one: replace(one, idle_multipliers=(False,) * 3))
)
mutant(
    "elements of a have no zero point",
    "control-blocks",
    "control-products",
    "round-ties",
    "saturation",
    "table-after-clamp",
    "table-after-sums",
    "table-breakpoints",
    "table-in-float32",
)(_plans(lambda one: replace(one, a_zero_point=0)))


@mutant("zero points go on behind the last row", "control-blocks", "table-after-sums")
def _endless_zero_points(patch: Patch) -> None:
    def rows(unit: Any, one: Any, _: Any, where: Any, lanes: int, block: int) -> Any:
        row = one.zero_point_base + block * one.zero_point_step
        return unit._memory.wide[where, row, :lanes].view(np.int32)[:, None, None], None

    patch.setattr(OpUnit, "_zero_points", rows)


@mutant("bytes without a lane are ones", "lane-padding")
def _padded(patch: Patch) -> None:
    usual = OpUnit._write

    def write(unit: Any, plan: Any, tiles: Any, run: int, sums: Any, *rest: Any) -> None:
        usual(unit, plan, tiles, run, sums, *rest)
        lanes, size = sums.shape[2], int(plan.words[run + 1] - plan.words[run])
        if plan.op.output16 or 4 * size == lanes or not len(plan.b):
            return
        first = int(plan.words[run])
        for place in plan.b[first : first + sums.shape[1] * size].reshape(-1, size):
            for lane in range(lanes, 4 * size):
                unit._memory.narrow_bytes[tiles, 4 * place[0] + lane] = 0xFF

    patch.setattr(OpUnit, "_write", write)


@mutant("a maximum takes bytes as signed", "control-maximum")
def _signed_maximum(patch: Patch) -> None:
    usual = OpUnit._weights

    def weights(unit: Any, plan: Any, *rest: Any) -> Any:
        values, marks = usual(unit, plan, *rest)
        if plan.op.op is Opcode.MAX:
            values[values > 127] -= 256
        return values, marks

    patch.setattr(OpUnit, "_weights", weights)


@mutant("a maximum takes only the first element of a lane", "control-maximum")
def _narrow_maximum(patch: Patch) -> None:
    usual = OpUnit._weights

    def weights(unit: Any, plan: Any, *rest: Any) -> Any:
        values, marks = usual(unit, plan, *rest)
        return (values[:, ::4] if plan.op.op is Opcode.MAX else values), marks

    patch.setattr(OpUnit, "_weights", weights)


def _per_run(
    change: Callable[[Any, Any, int, Any, bool], Any],
) -> Callable[[Patch], None]:
    """Partial sums that are added run by run, as the change says.

    The change gets the unit, the plan, the run, the sums of its row before, and whether it opens
    the row; it returns the sums to add to.
    """

    def plant(patch: Patch) -> None:
        usual = OpUnit._spill

        def spill(
            unit: Any,
            plan: Any,
            tiles: Any,
            run: int,
            sums: Any,
            *,
            opens: bool,
            closes: bool = True,
        ) -> None:
            for k in range(sums.values.shape[1]):
                row = int(plan.d[plan.runs[run + k]]) >> 2
                held = unit._memory.wide[tiles, row]
                held[...] = change(unit, plan, run + k, held.copy(), opens)
                one = replace_sums(sums, k)
                usual(unit, plan, tiles, run + k, one, opens=opens, closes=closes)

        patch.setattr(OpUnit, "_spill", spill)

    return plant


def replace_sums(sums: Any, k: int) -> Any:
    """Sums of one run of several."""
    known = None if sums.known is None else sums.known[:, k : k + 1]
    return type(sums)(sums.values[:, k : k + 1], sums.offset, known)


def _late_sums(steps: int) -> Callable[[Patch], None]:
    """Sums of a row can be seen a number of steps after they were made."""
    # With the plan, so that no other takes its identity.
    history: dict[tuple[int, int], tuple[int, Any, Any]] = {}

    def change(unit: Any, plan: Any, run: int, held: Any, opens: bool) -> Any:
        row, step = int(plan.d[plan.runs[run]]) >> 2, int(plan.runs[run])
        made, before, _ = history.get((id(plan), row), (-(10**6), held, plan))
        # What the row holds now was written when its last run ended.
        seen = held if step - made >= steps else before
        history[id(plan), row] = (int(plan.runs[run + 1]), held, plan)
        return held if opens else seen

    return _per_run(change)


mutant("partial sums are written four steps late", "early-sums")(_late_sums(4))
mutant("partial sums are written twelve steps late", "early-sums")(_late_sums(12))
mutant(
    "a run of fewer than eight steps replaces the sum",
    "early-sums",
    "short-sums",
    "single-step-sums",
)(
    _per_run(
        lambda unit, plan, run, held, opens: (
            held * np.uint32(int(plan.runs[run + 1] - plan.runs[run]) >= 8)
        )
    )
)


@mutant("a word is not written that the same operation reads", "self-read")
def _conflict(patch: Patch) -> None:
    usual = OpUnit._write

    def write(unit: Any, plan: Any, tiles: Any, *rest: Any) -> None:
        both: Any = () if plan.a is None else np.intersect1d(plan.a >> 2, plan.b)
        before = unit._memory.narrow[tiles][:, both].copy() if len(both) else None
        usual(unit, plan, tiles, *rest)
        if before is not None:
            unit._memory.narrow[tiles, both] = before

    patch.setattr(OpUnit, "_write", write)


# --- traversals and memories ---------------------------------------------------------------------


def _sequences(module: Any, change: Callable[..., tuple[Any, ...]]) -> Callable[[Patch], None]:
    """Traversals that a module follows in another way."""

    def plant(patch: Patch) -> None:
        usual = sequence_of
        patch.setattr(
            module,
            "sequence",
            lambda walk, prefix=None, partial=0: usual(*change(walk, prefix, partial)),
        )

    return plant


def _whole(walk: Any, prefix: Any, partial: int) -> tuple[Any, ...]:
    return replace(walk, part_dim=0, part_count=1, part_skip=0), prefix, partial


mutant("conversions ignore partial chunks", "control-partial-chunk", "longer-last-chunk")(
    _sequences(conversion, _whole)
)
mutant("tensor operations ignore partial chunks", "control-blocks", "table-after-sums")(
    _sequences(op_plan, _whole)
)
mutant("a last chunk is never longer than the others", "longer-last-chunk")(
    _sequences(
        conversion,
        lambda walk, prefix, partial: (
            replace(walk, part_count=min(walk.part_count, walk.dims[partial].count)),
            prefix,
            partial,
        ),
    )
)


def _prefixed(**changes: Callable[[Any], int]) -> Callable[..., tuple[Any, ...]]:
    def change(walk: Any, prefix: Any, partial: int) -> tuple[Any, ...]:
        if prefix is None:
            return walk, prefix, partial
        values = {name: value(prefix) for name, value in changes.items()}
        return walk, replace(prefix, **values), partial

    return change


mutant("a prefix comes one level further out", "control-prefix-rows")(
    _sequences(ring, _prefixed(level=lambda prefix: prefix.level + 1))
)
mutant("a prefix never goes back to its base", "control-prefix-rows")(
    _sequences(ring, _prefixed(end=lambda prefix: 0xFFFF))
)
mutant("a prefix does not move", "control-prefix-rows")(
    _sequences(ring, _prefixed(step=lambda prefix: 0))
)
mutant("words of a prefix begin one further", "control-prefix-words")(
    _sequences(conversion, _prefixed(base=lambda prefix: prefix.base + 1))
)


@mutant("slots go on from instruction to instruction", "slots-per-instruction")
def _restless_slots(patch: Patch) -> None:
    usual = conversion.NarrowToWideUnit.plan
    parity = [0]

    def plan(unit: Any, issue: Any) -> Any:
        found = usual(unit, issue)
        walk = issue.instruction.wide
        if walk.fifo_step:
            if parity[0]:
                # Slots are exchanged: the second one is where the first one was.
                shift = np.where(found.rows == walk.base, walk.fifo_step, -walk.fifo_step)
                moved = found.rows + shift
                found.cells = found.cells + 64 * (moved - found.rows).repeat(np.diff(found.starts))
                found.rows = moved
            parity[0] = parity[0] + len(found.rows) & 1
        return found

    patch.setattr(conversion.NarrowToWideUnit, "plan", plan)


@mutant("the rest of a short row stays", "short-row-rest")
def _stale_rows(patch: Patch) -> None:
    usual = conversion.NarrowToWideUnit.advance

    def advance(unit: Any, issue: Any, tiles: list[int], position: int) -> Any:
        wide = unit._core.memory.wide
        rows = np.unique(issue.plan.rows)
        before = wide[:, rows].copy()
        moved = usual(unit, issue, tiles, position)
        size = np.diff(issue.plan.starts)
        for tile in moved[0]:
            for row, words in zip(issue.plan.rows.tolist(), size.tolist(), strict=True):
                kept = -(-words // 4) * 4 if issue.instruction.transpose else words
                wide[tile, row, kept:] = before[tile, np.searchsorted(rows, row), kept:]
        return moved

    patch.setattr(conversion.NarrowToWideUnit, "advance", advance)


@mutant("a group that is not complete ends with ones", "control-transpose-bytes")
def _filled_groups(patch: Patch) -> None:
    usual = conversion._transposed

    def transposed(words: Any, kind: Any) -> Any:
        result = usual(words, kind)
        group, part = (4, np.uint8) if kind is Transpose.BYTES else (2, "<u2")
        pad = ((0, 0), (0, 0), (0, -words.shape[2] % group))
        ones = np.pad(np.zeros_like(words), pad, constant_values=0xFFFFFFFF)
        square = ones.view(part).reshape(*ones.shape[:2], -1, group, group).swapaxes(3, 4)
        return result | np.ascontiguousarray(square).view("<u4").reshape(ones.shape)

    patch.setattr(conversion, "_transposed", transposed)


@mutant(
    "rows end after 64 words only",
    "control-counter-wrap",
    "control-pack-levels",
    "control-transpose-bytes",
    "control-transpose-halfwords",
    "long-runs",
    "negative-strides",
    "slots-per-instruction",
)
def _long_rows(patch: Patch) -> None:
    usual = conversion._plan

    def plan(instruction: Any, narrow: Any, most: int, read: Any) -> Any:
        if isinstance(instruction, NarrowToWide):
            instruction = replace(instruction, pack_level=6)
        return usual(instruction, narrow, most, read)

    patch.setattr(conversion, "_plan", plan)


@mutant(
    "a short row of the ring clears the rest of a wide row",
    "long-scalar-rows",
    "short-ring-rows",
    "stored-word-infeed",
)
def _cleared_rows(patch: Patch) -> None:
    usual = ring.Ring.send

    def send(bus: Any, channel: int, destination: int, rows: Any, **rest: Any) -> None:
        missing = 64 - rows.lanes
        rows.words = np.pad(rows.words, ((0, 0), (0, 0), (0, missing)))
        if rows.known is not None:
            rows.known = np.pad(rows.known, ((0, 0), (0, missing)), constant_values=True)
        rows.lanes = 64
        usual(bus, channel, destination, rows, **rest)

    patch.setattr(ring.Ring, "send", send)


@mutant("narrow memory wraps at 128 KiB", "narrow-above-128-kib")
def _small_narrow(patch: Patch) -> None:
    for unit in (conversion.NarrowToWideUnit, conversion.WideToNarrowUnit):
        usual = unit.plan

        def plan(self: Any, issue: Any, usual: Any = usual) -> Any:
            found = usual(self, issue)
            found.narrow = found.narrow % 32768
            return found

        patch.setattr(unit, "plan", plan)


@mutant("the last three words of narrow memory are always zero", "last-narrow-words")
def _short_narrow(patch: Patch) -> None:
    usual = conversion.WideToNarrowUnit.advance

    def advance(unit: Any, issue: Any, tiles: list[int], position: int) -> Any:
        moved = usual(unit, issue, tiles, position)
        unit._core.memory.narrow[:, -3:] = 0
        return moved

    patch.setattr(conversion.WideToNarrowUnit, "advance", advance)


@mutant("wide memory has 2,048 rows", "last-wide-rows")
def _small_wide(patch: Patch) -> None:
    for unit in (ring.RingConsumeUnit, ring.RingProduceUnit):
        usual = unit.plan

        def plan(self: Any, issue: Any, usual: Any = usual) -> Any:
            found = usual(self, issue)
            found.rows = found.rows % 2048
            return found

        patch.setattr(unit, "plan", plan)


@mutant("strides are unsigned", "negative-strides")
def _unsigned_strides(patch: Patch) -> None:
    usual = sequence_of

    def sequence(walk: Any, prefix: Any = None, partial: int = 0) -> Any:
        dims = tuple(replace(dim, stride=abs(dim.stride)) for dim in walk.dims)
        return usual(replace(walk, dims=dims), prefix, partial)

    patch.setattr(conversion, "sequence", sequence)


@mutant("the next message arrives before a row is taken", "credit-by-time")
def _late_conversion(patch: Patch) -> None:
    first = (TileEngine.RING_PRODUCE, TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B)
    rest = tuple(turn for turn in machine._TURNS if turn not in first)
    patch.setattr(machine, "_TURNS", (*first, *rest))


@mutant(
    "filling waits for a neighbour",
    "control-fill",
    "control-mesh",
    "without-end-fence",
    "without-second-handshake",
)
def _waiting_fill(patch: Patch) -> None:
    from fitzroy.hw_models.edgetpu.mesh import MeshUnit

    usual = MeshUnit._receive

    def receive(
        unit: Any, instruction: Any, plan: Any, tiles: list[int], position: int
    ) -> tuple[list[int], int]:
        if instruction.fill:
            tiles = [tile for tile in tiles if unit.waiting[tile]]
        return usual(unit, instruction, plan, tiles, position) if tiles else (tiles, position)

    patch.setattr(MeshUnit, "_receive", receive)


# --- counters and queues -------------------------------------------------------------------------


def _signed(value: int) -> int:
    return (value + 0x8000 & 0xFFFF) - 0x8000


@mutant("watchers compare counters without wrapping", "control-counter-wrap", "last-wide-rows")
def _plain_watchers(patch: Patch) -> None:
    def limit(gate: Any, value: int, position: int) -> int:
        watcher = gate.watcher
        for index in range(gate._index(position), len(gate.positions)):
            if _signed(value) < _signed(watcher.threshold + watcher.increment * index):
                return int(gate.positions[index])
        return int(gate._end)

    patch.setattr(Gate, "limit", limit)


@mutant("ring tokens of the scalar core end at 32,767", "many-tokens", "many-tokens-of-tiles")
def _few_scalar_tokens(patch: Patch) -> None:
    usual = Machine.count_scalar

    def count(self: Any, flag: int, increment: int) -> None:
        usual(self, flag, increment)
        if flag in (ScalarFlag.PRODUCER_A, ScalarFlag.PRODUCER_B):
            self.scalar_flags[flag] = min(self.scalar_flags[flag], 32767)

    patch.setattr(Machine, "count_scalar", count)


@mutant("ring tokens of tiles end at 32,767", "many-tokens", "many-tokens-of-tiles")
def _few_tile_tokens(patch: Patch) -> None:
    usual = Machine.token

    def token(self: Any, channel: int, increment: int) -> None:
        usual(self, channel, increment)
        row = self.flags[TileFlag.RING_PRODUCER_A + channel]
        row[:] = [min(value, 32767) for value in row]

    patch.setattr(Machine, "token", token)


@mutant("an engine of a tile holds 64 instructions", "queued-consumers")
def _short_queue(patch: Patch) -> None:
    def turn(self: Any) -> None:
        for tile, queue in enumerate(self._dispatchers):
            while queue:
                instruction = queue[0].instruction
                if isinstance(instruction, TileFence):
                    if not self._fence_open(instruction, tile):
                        break
                    self._pass_fence(instruction, tile)
                else:
                    engine = ENGINE_OF[instruction.op]
                    if len(self._queues[engine][tile]) >= 64:
                        break
                    self._queues[engine][tile].append(queue[0])
                    self._turns.awake.add(engine)
                queue.popleft()

    patch.setattr(Machine, "_dispatch_turn", turn)


# --- the scalar core -----------------------------------------------------------------------------


def _alu(operation: Alu, function: Callable[..., Any]) -> Callable[[Patch], None]:
    table: Any = scalar._UNARY if operation in scalar._UNARY else scalar._BINARY
    return lambda patch: patch.setitem(table, operation, function)


def _to_integer(rounded: Callable[[float], float]) -> Callable[[int], int]:
    return lambda word: int(rounded(scalar._real(word))) & 0xFFFFFFFF


mutant("floats become integers towards zero", "float-to-integer")(
    _alu(Alu.F2I, _to_integer(np.trunc))
)
mutant("floats become integers with halves away from zero", "float-to-integer")(
    _alu(Alu.F2I, _to_integer(_away))
)
mutant("integers become floats towards zero", "integer-to-float")(
    _alu(
        Alu.I2F,
        lambda word: _cut(float(scalar._signed(word))),
    )
)
mutant("words are compared as unsigned", "signed-compare")(_alu(Alu.LT, lambda a, b: a < b))
mutant("products of floats are cut off", "float-products")(
    _alu(Alu.FMUL, lambda a, b: _cut(scalar._real(a) * scalar._real(b)))
)
mutant("subnormal floats become zero", "subnormal-floats")(
    _alu(Alu.FMUL, lambda a, b: _flushed(scalar._word(scalar._real(_flushed(a)) * scalar._real(b))))
)
mutant("words are shifted right with their sign", "control-integers")(
    _alu(Alu.SHR, lambda a, b: scalar._signed(a) >> b & 0xFFFFFFFF)
)


def _cut(value: float) -> int:
    """The float32 next to a number on the side of zero, as a word."""
    near = np.float32(value)
    if abs(float(near)) > abs(value):
        near = np.nextafter(near, np.float32(0))
    return scalar._word(float(near))


def _flushed(word: int) -> int:
    return word if word & 0x7F800000 else word & 0x80000000


def _special(kind: Special, exact: Callable[[float], float]) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(
        scalar._SPECIAL, kind, lambda word: _cut(exact(scalar._real(word)))
    )


mutant("powers of two are cut off", "close-powers", "special-exp2")(
    _special(Special.EXP2, lambda x: float(np.exp2(x)))
)
mutant("reciprocals are cut off", "early-reciprocal", "special-reciprocal")(
    _special(Special.RECIPROCAL, lambda x: 1 / x)
)


class _LateRegisters(list[Any]):
    """Registers some of which change a while after they were written."""

    def __init__(self, core: ScalarCore, words: list[Any]) -> None:
        super().__init__(words)
        self.core = core
        self.pending: dict[int, tuple[int, Any]] = {}

    def later(self, number: int, word: Any, ready: int) -> None:
        """Write a register when the core has come so far."""
        self.pending[number] = (ready, word)

    def __getitem__(self, number: Any) -> Any:
        ready, word = self.pending.get(number, (0, None))
        if ready and self.core.steps >= ready:
            del self.pending[number]
            super().__setitem__(number, word)
        return super().__getitem__(number)


def _late_special(kind: Special, bundles: int) -> Callable[[Patch], None]:
    """Results of a special function that come late."""

    def plant(patch: Patch) -> None:
        usual_init = ScalarCore.__init__
        usual = scalar._Compiler._special

        def init(core: Any, **rest: Any) -> None:
            usual_init(core, **rest)
            core._registers = _LateRegisters(core, core._registers)

        def special(self: Any, bundle: Scalar) -> Any:
            read, write = usual(self, bundle)
            if bundle.special is not kind:
                return read, write
            core = self._core
            return read, lambda word: core._registers.later(
                bundle.special_to, word, core.steps + bundles
            )

        patch.setattr(ScalarCore, "__init__", init)
        patch.setattr(scalar._Compiler, "_special", special)

    return plant


mutant("reciprocals take eight bundles", "early-reciprocal")(_late_special(Special.RECIPROCAL, 8))


@mutant("the special unit takes an operand every six bundles", "close-powers")
def _busy_unit(patch: Patch) -> None:
    usual = scalar._Compiler._special
    last = [(-100, 0)]

    def special(self: Any, bundle: Scalar) -> Any:
        read, write = usual(self, bundle)

        def busy() -> Any:
            step, word = last[0]
            if 0 <= self._core.steps - step < 6:
                return word
            last[0] = (self._core.steps, read())
            return last[0][1]

        return busy, write

    patch.setattr(scalar._Compiler, "_special", special)


@mutant("a store within three bundles of another one is lost", "close-stores")
def _lost_store(patch: Patch) -> None:
    usual = scalar._Compiler._store
    last = [-100]

    def store(self: Any, bundle: Scalar, number: int) -> Any:
        read, write = usual(self, bundle, number)
        if bundle.store not in (Store.ABSOLUTE, Store.REGISTER, Store.INCREMENT):
            return read, write

        def late(pair: Any) -> None:
            at, _ = pair
            before = self._core._memory[at]
            write(pair)
            if 0 <= self._core.steps - last[0] < 3:
                self._core._memory[at] = before
            last[0] = self._core.steps

        return read, late

    patch.setattr(scalar._Compiler, "_store", store)


@mutant("a bundle with a load has no ALU", "load-with-alu")
def _no_alu(patch: Patch) -> None:
    usual = scalar._Compiler._bundle

    def bundle(self: Any, one: Scalar, number: int) -> Any:
        if one.load is not Load.NONE and one.alu not in (Alu.NOP, Alu.MOV):
            one = replace(one, alu=Alu.MOV, immediate_b=True, immediate=0)
        return usual(self, one, number)

    patch.setattr(scalar._Compiler, "_bundle", bundle)


@mutant(
    "a bundle stores what it loads",
    "control-loop",
    "control-relay",
    "descriptor-before-relay",
    "relay-without-fence",
)
def _load_first(patch: Patch) -> None:
    usual = scalar._Compiler._bundle

    def bundle(self: Any, one: Scalar, number: int) -> Any:
        if one.load is Load.NONE or one.store is not Store.PUSH:
            return usual(self, one, number)
        first = usual(self, replace(one, store=Store.NONE), number)
        second = usual(self, replace(one, load=Load.NONE), number)
        return lambda: (first(), second())[1]

    patch.setattr(scalar._Compiler, "_bundle", bundle)


# --- between the scalar core and the host --------------------------------------------------------


def _events(
    before: Callable[[Any, Any, dict[str, Any]], Any],
) -> Callable[[Patch], None]:
    """Events of the scalar core that reach the machine changed, or not at all.

    The change gets the machine, the event and a memory of its own for every program; it returns
    the event, or None.
    """

    def plant(patch: Patch) -> None:
        usual = Machine._handle
        memories = WeakKeyDictionary[Machine, dict[str, Any]]()

        def handle(self: Any, event: Any) -> Any:
            memory = memories.setdefault(self, {})
            changed = before(self, event, memory)
            if changed is not None:
                yield from usual(self, changed)

        patch.setattr(Machine, "_handle", handle)

    return plant


@mutant("an infeed sees stores eight bundles later", "stored-word-infeed")
def _late_store(patch: Patch) -> None:
    writes: list[tuple[int, int, Any]] = []
    usual_store = scalar._Compiler._store
    usual_read = Machine.read_words

    def store(self: Any, bundle: Scalar, number: int) -> Any:
        read, write = usual_store(self, bundle, number)
        if bundle.store not in (Store.ABSOLUTE, Store.REGISTER, Store.INCREMENT):
            return read, write

        def noted(pair: Any) -> None:
            writes.append((self._core.steps, pair[0], self._core._memory[pair[0]]))
            write(pair)

        return read, noted

    stale: dict[int, Any] = {}

    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Fence) and event.instruction.idle >> StreamEngine.PIPELINE & 1:
            writes.clear()
        if isinstance(event, Stream) and isinstance(event.instruction, Infeed):
            stale.clear()
            recent = [(at, word) for step, at, word in writes if self.core.steps - step < 8]
            stale.update(dict(reversed(recent)))
        return event

    def read_words(self: Any, address: int, count: int) -> Any:
        words = usual_read(self, address, count)
        for at, word in stale.items():
            words[:, at - address] = word or 0
        return words

    patch.setattr(scalar._Compiler, "_store", store)
    patch.setattr(Machine, "read_words", read_words)
    _events(before)(patch)


@mutant("an outfeed to memory loses a word unless the pipeline was awaited", "relay-without-fence")
def _unfenced_relay(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Dispatch) and isinstance(event.instruction, RingProduce):
            memory["fenced"] = not event.instruction.to_outfeed
        if isinstance(event, Fence) and event.instruction.idle >> StreamEngine.PIPELINE & 1:
            memory["fenced"] = True
        if (
            isinstance(event, Stream)
            and isinstance(event.instruction, Outfeed)
            and not event.instruction.to_host
            and not event.instruction.wait[0]
            and not memory.get("fenced", True)
        ):
            self.lost = event.instruction.buffer.base
        return event

    usual = Machine.write_words

    def write_words(self: Any, addresses: Any, words: Any, known: Any) -> None:
        usual(self, addresses, words, known)
        if getattr(self, "lost", None) is not None and int(addresses[0]) == self.lost:
            self.core.write(self.lost, [0])

    patch.setattr(Machine, "write_words", write_words)
    _events(before)(patch)


def _is_output(event: Any) -> bool:
    return isinstance(event, Descriptor) and event.tag is DescriptorTag.OUTPUT


@mutant("the last word of an odd run is lost", "odd-runs")
def _lost_word(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, HostWords) and len(event.words) % 2:
            return HostWords(event.words[:-1]) if len(event.words) > 1 else None
        return event

    _events(before)(patch)


@mutant("a descriptor is served by one run of pushes", "descriptor-before-relay", "odd-runs")
def _one_run(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if _is_output(event):
            memory["served"] = False
        if isinstance(event, HostWords):
            if memory.get("served"):
                return None
            memory["served"] = True
        return event

    _events(before)(patch)


@mutant("an output begins at a multiple of 32 bytes", "small-output-parts")
def _aligned_outputs(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        return replace(event, address=event.address & ~31) if _is_output(event) else event

    _events(before)(patch)


@mutant("sixteen descriptors of inputs wait, and further ones are lost", "open-descriptors")
def _few_descriptors(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Stream):
            memory["open"] = 0
        if isinstance(event, Descriptor) and event.tag is DescriptorTag.INPUT:
            memory["open"] = memory.get("open", 0) + 1
            if memory["open"] > 16:
                return None
        return event

    _events(before)(patch)


@mutant("a descriptor cannot be written for 12 bundles after another one", "close-descriptors")
def _busy_descriptor(patch: Patch) -> None:
    issued = [-100]
    usual_store, usual_issue = scalar._Compiler._store, scalar._Compiler._issue

    def issue(self: Any, bundle: int) -> Any:
        issued[0] = self._core.steps
        return usual_issue(self, bundle)

    def store(self: Any, bundle: Scalar, number: int) -> Any:
        read, write = usual_store(self, bundle, number)
        if bundle.store is not Store.DESCRIPTOR:
            return read, write

        def unless_busy(word: Any) -> None:
            if not 0 <= self._core.steps - issued[0] < 12:
                write(word)

        return read, unless_busy

    patch.setattr(scalar._Compiler, "_issue", issue)
    patch.setattr(scalar._Compiler, "_store", store)


@mutant("64 outfeeds wait, and further ones are lost", "waiting-outfeeds")
def _few_outfeeds(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Stream) and isinstance(event.instruction, Outfeed):
            self._turns.settle()
            if len(self._streams[machine._Unit.OUTFEED]) >= 64:
                return None
        return event

    _events(before)(patch)


@mutant("an outfeed has up to 16,384 units", "long-outfeed")
def _short_outfeed(patch: Patch) -> None:
    usual = stream.stream_plan

    def plan(instruction: Any) -> Any:
        found: Any = usual(instruction)
        if isinstance(instruction, Outfeed):
            found.addresses = found.addresses[:16384]
            found.order = found.addresses
            found.ends = found.ends and [min(end, 16384) for end in found.ends]
        return found

    patch.setattr(machine, "stream_plan", plan)


@mutant("instructions of tiles are lost before the first fence of a chunk", "chunk-without-fence")
def _fenced_chunks(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Dispatch):
            fenced = memory.get("chunk") == event.chunk
            if isinstance(event.instruction, TileFence):
                memory["chunk"] = event.chunk
            elif not fenced:
                return None
        return event

    _events(before)(patch)


@mutant("half of a chunk is lost that arrives while another one runs", "short-chunks")
def _one_chunk_at_a_time(patch: Patch) -> None:
    usual, memory = ScalarCore.execute, BEAGLE.memories.instruction.elements
    bundles: WeakKeyDictionary[ScalarCore, int] = WeakKeyDictionary()

    def execute(self: ScalarCore, chunk: Any, number: int) -> Any:
        body, before = list(chunk[1:-1]), bundles.get(self, memory)
        bundles[self] = bundle_count(body)
        # One that does not fit beside the one before arrives when that has run.
        lost = len(body) // 2 if bundles[self] + before <= memory else 0
        return usual(self, [chunk[0], *body[lost:], chunk[-1]], number)

    patch.setattr(ScalarCore, "execute", execute)


@mutant("tiles are ready after the second handshake only", "without-second-handshake")
def _slow_tiles(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Fence) and event.instruction.wait_tiles:
            memory["shakes"] = memory.get("shakes", 0) + 1
        if (
            isinstance(event, Dispatch)
            and not isinstance(event.instruction, TileFence)
            and memory.get("shakes", 0) < 2
        ):
            return None
        return event

    _events(before)(patch)


@mutant("tokens are not awaited while tiles are busy", "without-end-fence")
def _busy_tiles(patch: Patch) -> None:
    def before(self: Any, event: Any, memory: dict[str, Any]) -> Any:
        if isinstance(event, Dispatch):
            memory["fenced"] = isinstance(event.instruction, TileFence)
        if isinstance(event, Fence) and isinstance(event.instruction, ScalarFence):
            waits = event.instruction.wait >> ScalarFlag.PRODUCER_A & 3
            if waits and not memory.get("fenced", True):
                raise SimulationError("deadlock")
        return event

    _events(before)(patch)


@mutant("addresses of infeeds wrap once", "far-infeed")
def _far_addresses(patch: Patch) -> None:
    usual = stream.InfeedUnit.advance

    def advance(unit: Any, instruction: Any, plan: Any, position: int) -> Any:
        if instruction.memory is InfeedMemory.ACTIVATION and plan.addresses.max() >= 65536:
            raise SimulationError("the infeed reads beyond its buffer")
        return usual(unit, instruction, plan, position)

    patch.setattr(stream.InfeedUnit, "advance", advance)


@mutant("rows of scalar memory have up to four words", "long-scalar-rows")
def _narrow_rows(patch: Patch) -> None:
    usual = stream.InfeedUnit._words

    def words(unit: Any, instruction: Any, data: Any, rows: Any) -> Any:
        found = usual(unit, instruction, data, rows)
        if instruction.memory is InfeedMemory.SCALAR and instruction.row_words > 4:
            found[..., 4:] = 0
        return found

    patch.setattr(stream.InfeedUnit, "_words", words)


# --- resizing -------------------------------------------------------------------------------------


@mutant("resizing rounds halves up", "resize-halves")
def _resize_rounds_up(patch: Patch) -> None:
    patch.setattr(resize, "rounded", lambda y: np.floor(y + np.float32(0.5)))


@mutant("resizing takes the nearest pixel by truncation", "resize-nearest")
def _resize_truncates(patch: Patch) -> None:
    patch.setattr(resize, "_HALF", 0)


@mutant("resizing weighs pixels the other way round", "resize-bilinear", "resize-halves")
def _resize_weights(patch: Patch) -> None:
    usual = resize._axis

    def axis(nearest: bool, place: Any, tap: Any) -> Any:
        pixels, weights = usual(nearest, place, tap)
        return pixels, weights if nearest else RESIZE_PIXEL - weights

    patch.setattr(resize, "_axis", axis)
