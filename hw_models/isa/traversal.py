"""Tensor traversal units: the address generators of every engine.

A traversal is a nest of loops over addresses, dimension 0 innermost. The hardware stores
incremental deltas: when dimension k steps because all inner ones have wrapped, ``delta_k`` is
added to the address. Here a dimension has its true stride instead, ``stride_k = delta_k +
sum(j < k) (count_j - 1) * stride_j``, so that an address is ``base + sum(i_k * stride_k)``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from fitzroy.base import budget
from fitzroy.base.bits import integer, misfit
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.hw_models.isa.fields import Piece


@dataclass(frozen=True, slots=True)
class Dim:
    """One loop of a traversal: how often it runs, and the distance of its iterations."""

    count: int
    stride: int


_UNUSED = Dim(1, 0)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Elements that go to a region of their own before each run of the inner dimensions.

    Before every iteration of the dimensions above `level`, `words` elements go to consecutive
    addresses from the current slot on; then the slot moves by `step`, back to `base` when it
    passes `end`. They come out of the same data stream and are not counted by levels.

    Attributes:
        level: dimensions 0 to `level` make the run that a prefix precedes.
        base: first address of the first slot.
        words: elements per prefix.
        end: last address of the last slot.
        step: distance of the slots.
        enabled: whether there is a prefix.
    """

    level: int
    base: int
    words: int
    end: int
    step: int
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Traversal:
    """Sequence of addresses, in the unit of the memory concerned.

    Attributes:
        base: first address.
        dims: loops, innermost first, as many as the hardware has; unused ones count 1.
        mask: bits of the dimensions with a stride; redundant, without known effect.
        fifo_dim: every step of a dimension >= this one toggles between two slots (ping-pong).
        fifo_step: distance of the second slot; 0 for no ping-pong.
        part_count: how often dimension 0 runs in the last iteration of dimension `part_dim`.
        part_dim: dimension that has a partial last chunk; 0 for none.
        part_skip: added to the address when dimension 0 wraps there.
    """

    base: int
    dims: tuple[Dim, ...]
    mask: int = 0
    fifo_dim: int = 0
    fifo_step: int = 0
    part_count: int = 1
    part_dim: int = 0
    part_skip: int = 0

    @property
    def steps(self) -> int:
        """Number of addresses."""
        total = 1
        for dim in self.dims:
            total *= dim.count
        if self.part_dim:
            outer = 1
            for dim in self.dims[self.part_dim + 1 :]:
                outer *= dim.count
            inner = 1
            for dim in self.dims[1 : self.part_dim]:
                inner *= dim.count
            total -= outer * inner * (self.dims[0].count - self.part_count)
        return total

    def iterations(self, level: int) -> int:
        """Number of iterations of a level: the product of the counts of dimensions >= level."""
        total = 1
        for dim in self.dims[level:]:
            total *= dim.count
        return total

    @property
    def extent(self) -> tuple[int, int]:
        """Lowest and highest address that it may touch."""
        ends = [(dim.count - 1) * dim.stride for dim in self.dims]
        if self.part_dim:
            ends.append(max(0, self.part_count - self.dims[0].count) * self.dims[0].stride)
        if any(dim.count > 1 for dim in self.dims[self.fifo_dim :]):
            ends.append(self.fifo_step)
        low = self.base + sum(end for end in ends if end < 0)
        return low, self.base + sum(end for end in ends if end > 0)

    def addresses(self, *, limit: int = 1 << 24, partial_dim: int = 0) -> Array:
        """All addresses in order, without prefixes.

        Args:
            limit: most addresses to make.
            partial_dim: the dimension that a partial last chunk shortens; 1 in a transposing
                conversion, else 0.

        Returns:
            int64[steps].

        Raises:
            FormatError: there are more than `limit`.
        """
        grid = _Grid.of(self, limit, partial_dim)
        addresses = grid.affine([dim.stride for dim in self.dims], self.base)
        if self.fifo_step:
            # Every step of the dimensions concerned toggles between the slots.
            turns = grid.affine(self._factors(self.fifo_dim))
            addresses += self.fifo_step * (turns & 1)
        return addresses

    def prefixed(self, prefix: Prefix, *, limit: int = 1 << 24) -> tuple[Array, Array]:
        """All addresses in order with those of the prefix, and which of them are not prefix.

        Returns:
            int64[n] and bool[n].

        Raises:
            FormatError: there are more than `limit`.
        """
        addresses = self.addresses(limit=limit)
        run = self.runs(prefix.level + 1, limit=limit)
        factor = self.iterations(prefix.level + 1)
        if factor * prefix.words > limit:
            raise FormatError(f"{factor} prefixes of {prefix.words} elements")
        slots = np.empty(factor, np.int64)
        slot = prefix.base
        for number in range(factor):
            slots[number] = slot
            slot += prefix.step
            if slot > prefix.end:
                slot = prefix.base
        before = slots[:, None] + np.arange(prefix.words)
        # Prefix n comes before the elements of run n.
        order = np.concatenate([np.repeat(np.arange(factor) * 2, prefix.words), run * 2 + 1])
        order = np.argsort(order, kind="stable")
        main = order >= before.size
        return np.concatenate([before.reshape(-1), addresses])[order], main

    def indices(self, *, limit: int = 1 << 24) -> list[Array]:
        """Index of every dimension for each element, innermost first, int64[steps] each.

        Raises:
            FormatError: there are more than `limit` elements.
        """
        grid = _Grid.of(self, limit, 0)
        return [grid.axis(k) for k in range(len(self.dims))]

    def runs(self, level: int, *, limit: int = 1 << 24, partial_dim: int = 0) -> Array:
        """Number of the iteration of a level that each element belongs to, int64[steps].

        Raises:
            FormatError: there are more than `limit` elements.
        """
        return _Grid.of(self, limit, partial_dim).affine(self._factors(level))

    def _factors(self, level: int) -> list[int]:
        """What a step of each dimension adds to the running number of a level."""
        factors, factor = [], 1
        for k, dim in enumerate(self.dims):
            factors.append(factor if k >= level else 0)
            factor *= dim.count if k >= level else 1
        return factors


_STEP_BYTES = 32
"""Bytes of an element while the order is made: addresses, an index, and two copies."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The elements of a traversal as a box of indices, some of which may be left out.

    Attributes:
        spans: extent of every dimension, innermost first.
        keep: positions that are there, None for all.
    """

    spans: tuple[int, ...]
    keep: Array | None

    @classmethod
    def of(cls, value: Traversal, limit: int, partial_dim: int) -> _Grid:
        """The elements of a traversal.

        Raises:
            FormatError: there are more than `limit`.
            CapacityError: the budget has no room for them.
        """
        spans = [dim.count for dim in value.dims]
        part, axis = value.part_count, value.part_dim
        count, last = spans[partial_dim], spans[axis] - 1
        if axis:
            # The last chunk may also be longer than the others.
            spans[partial_dim] = max(count, part)
        steps = math.prod(spans)
        if steps > limit:
            raise FormatError(f"a traversal of {steps} steps, more than {limit}")
        budget.demand(steps * _STEP_BYTES, f"the order of a traversal of {steps} steps")
        whole = cls(tuple(spans), None)
        if not axis:
            return whole
        here = np.where(whole.axis(axis) == last, part, count)
        return cls(tuple(spans), np.flatnonzero(whole.axis(partial_dim) < here))

    def axis(self, k: int) -> Array:
        """Index of a dimension for each element."""
        return self.affine([int(k == other) for other in range(len(self.spans))])

    def affine(self, factors: list[int], base: int = 0) -> Array:
        """Base plus the sum of index times factor, int64[elements]."""
        result = np.array([base], np.int64)
        for span, factor in zip(reversed(self.spans), reversed(factors), strict=True):
            if span > 1:
                result = (result[:, None] + np.arange(span) * factor).reshape(-1)
        return result if self.keep is None else result[self.keep]


def traversal(
    base: int,
    dims: list[tuple[int, int]],
    *,
    rank: int,
    ping_pong: tuple[int, int] = (0, 0),
    part: tuple[int, int] | None = None,
) -> Traversal:
    """A traversal with everything that can be derived filled in.

    Args:
        base: first address.
        dims: ``(count, stride)`` of the loops, innermost first.
        rank: number of dimensions of the unit.
        ping_pong: `fifo_dim` and `fifo_step`.
        part: `part_count` and `part_dim`.
    """
    loops = tuple(Dim(*dim) for dim in dims) + (_UNUSED,) * (rank - len(dims))
    mask = sum(1 << k for k, dim in enumerate(loops) if dim.stride)
    count, axis = part or (1, 0)
    skip = (loops[0].count - count) * loops[0].stride if axis else 0
    return Traversal(base, loops, mask, *ping_pong, count, axis, skip)


def resolved(value: Traversal) -> Traversal:
    """The same addresses without a partial chunk and without slots, where loops can say it.

    A chunk that is as long as the others is not partial, and the only one is a loop of its length.
    Two slots that are used once each in every run of the loops above are a stride.
    """
    dims, part_dim = list(value.dims), value.part_dim
    if part_dim and (dims[part_dim].count == 1 or value.part_count == dims[0].count):
        dims[0] = Dim(value.part_count, dims[0].stride)
        part_dim = 0
    step = value.fifo_step
    turning = next((k for k in range(value.fifo_dim, len(dims)) if dims[k].count > 1), None)
    if step and turning is None:
        step = 0
    elif step and turning is not None and dims[turning].count == 2:
        dims[turning] = Dim(2, dims[turning].stride + step)
        step = 0
    return traversal(
        value.base,
        [(dim.count, dim.stride) for dim in dims],
        rank=len(dims),
        ping_pong=(value.fifo_dim, step) if step else (0, 0),
        part=(value.part_count, part_dim) if part_dim else None,
    )


_TEXT = re.compile(
    r"(?P<base>-?\w{1,12})(?: \[(?P<dims>[^\]]{0,800})\])?(?P<rest>(?: [a-z]{1,9}\([^)]{0,60}\))*)"
)
_CLAUSE = re.compile(r" ([a-z]+)\(([^)]*)\)")


class TraversalCodec:
    """A traversal of `rank` dimensions with addresses of `address` bits.

    Text is ``base [count*stride ...]`` and, where there are any, ``ping(dim, step)``,
    ``part(dim, count[, skip])`` and ``mask(bits)``; trailing loops that run once and have no
    stride are left out, and so is what follows from the loops.
    """

    __slots__ = ("_deltas", "_dim_bits", "_dims", "_tail", "address", "rank", "width")

    def __init__(self, rank: int, address: int) -> None:
        self.rank = rank
        self.address = address
        self._dim_bits = (rank - 1).bit_length()
        self._dims = tuple(address + k * (2 * address + 1) for k in range(rank))
        tail = address + rank * (2 * address + 1)
        layout = []
        for size in (rank, self._dim_bits, address + 1, address, self._dim_bits, address):
            layout.append((tail, (1 << size) - 1))
            tail += size
        self._tail = tuple(layout)
        self.width = tail

    @property
    def kind(self) -> str:
        return f"traversal of {self.rank} dimensions, addresses of {self.address} bits"

    def layout(self) -> tuple[Piece, ...]:
        address = self.address
        pieces = [Piece("base", 0, address, "unsigned")]
        for k, at in enumerate(self._dims):
            pieces.append(Piece(f"delta {k}", at, address + 1, "signed"))
            pieces.append(Piece(f"count {k}", at + address + 1, address, "count - 1"))
        tail = (
            ("mask", "dimensions with a stride"),
            ("fifo_dim", "unsigned"),
            ("fifo_step", "signed"),
            ("part_count", "count - 1"),
            ("part_dim", "unsigned"),
            ("part_skip", "signed"),
        )
        for (name, kind), (at, size) in zip(tail, self._tail, strict=True):
            pieces.append(Piece(name, at, size.bit_length(), kind))
        return tuple(pieces)

    def decode(self, raw: int) -> Traversal:
        address = self.address
        mask = (1 << address) - 1
        sign = 1 << address
        wide = 2 * sign - 1
        dims = []
        span = 0
        for at in self._dims:
            both = raw >> at
            count = (both >> address + 1 & mask) + 1
            delta = both & wide
            stride = ((delta ^ sign) - sign) + span
            span += (count - 1) * stride
            dims.append(Dim(count, stride) if count > 1 or stride else _UNUSED)
        values = [raw >> at & size for at, size in self._tail]
        if values[4] >= self.rank:
            raise misfit(values[4], f"one of {self.rank} dimensions")
        half = sign >> 1
        return Traversal(
            raw & mask,
            tuple(dims),
            values[0],
            values[1],
            (values[2] ^ sign) - sign,
            values[3] + 1,
            values[4],
            (values[5] ^ half) - half,
        )

    def encode(self, value: Traversal) -> int:
        address = self.address
        most = 1 << address
        if len(value.dims) != self.rank:
            raise misfit(len(value.dims), f"the number of dimensions, which is {self.rank}")
        raw = value.base
        span = 0
        fits = 0 <= raw < most
        for at, dim in zip(self._dims, value.dims, strict=True):
            delta = dim.stride - span
            count = dim.count - 1
            span += count * dim.stride
            if not (-most <= delta < most and 0 <= count < most):
                raise misfit(f"{dim.count}*{dim.stride}", f"a loop of {address} bits")
            raw |= (delta & 2 * most - 1 | count << address + 1) << at
        tail = (
            value.mask,
            value.fifo_dim,
            value.fifo_step & 2 * most - 1,
            value.part_count - 1,
            value.part_dim,
            value.part_skip & most - 1,
        )
        fits = (
            fits
            and value.part_dim < self.rank
            and -most <= value.fifo_step < most
            and -most <= 2 * value.part_skip < most
        )
        for (at, size), number in zip(self._tail, tail, strict=True):
            fits = fits and 0 <= number <= size
            raw |= number << at
        if not fits:
            raise misfit(self.text(value), self.kind)
        return raw

    def text(self, value: Traversal) -> str:
        dims = value.dims
        used = len(dims)
        while (used and dims[used - 1] is _UNUSED) or (used and dims[used - 1] == _UNUSED):
            used -= 1
        base = value.base
        text = str(base) if base < 10 else hex(base)
        if used:
            text += f" [{' '.join([f'{dim.count}*{dim.stride}' for dim in dims[:used]])}]"
        if value.fifo_step or value.fifo_dim:
            text += f" ping({value.fifo_dim}, {value.fifo_step})"
        if value.part_dim or value.part_count != 1 or value.part_skip:
            text += f" part({value.part_dim}, {value.part_count}"
            if value.part_skip != (dims[0].count - value.part_count) * dims[0].stride:
                text += f", {value.part_skip}"
            text += ")"
        if value.mask != _mask(dims):
            text += f" mask({value.mask:#x})"
        return text

    def parse(self, text: str) -> Traversal:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise FormatError(
                f"{text[:60]!r} is not a traversal",
                hint="write base [count*stride ...] and ping(..), part(..) or mask(..)",
            )
        dims = []
        for item in (match["dims"] or "").split():
            count, _, stride = item.partition("*")
            dims.append(Dim(integer(count), integer(stride)))
        if len(dims) > self.rank:
            raise FormatError(f"{len(dims)} loops, where the unit has {self.rank}")
        loops = tuple(dims) + (_UNUSED,) * (self.rank - len(dims))
        rest = {}
        for name, arguments in _CLAUSE.findall(match["rest"]):
            if name in rest or name not in _CLAUSES:
                raise FormatError(f"{name}(..) is not expected here")
            rest[name] = [integer(argument.strip()) for argument in arguments.split(",")]
            if len(rest[name]) not in _CLAUSES[name]:
                raise FormatError(f"{name}(..) with {len(rest[name])} arguments")
        fifo_dim, fifo_step = rest.get("ping", (0, 0))
        part_dim, part_count, *skip = rest.get("part", (0, 1))
        default = (loops[0].count - part_count) * loops[0].stride
        return Traversal(
            integer(match["base"]),
            loops,
            rest["mask"][0] if "mask" in rest else _mask(loops),
            fifo_dim,
            fifo_step,
            part_count,
            part_dim,
            (skip[0] if skip else default) if "part" in rest else 0,
        )


_CLAUSES = {"ping": (2,), "part": (2, 3), "mask": (1,)}


def _mask(dims: tuple[Dim, ...]) -> int:
    mask = 0
    for k, dim in enumerate(dims):
        if dim.stride:
            mask |= 1 << k
    return mask


_PREFIX = re.compile(
    r"(off )?level=(\w{1,4}) base=(\w{1,8}) words=(\w{1,8}) end=(\w{1,8}) step=(-?\w{1,8})"
)


class PrefixCodec:
    """A prefix after a traversal; `level_width` bits of level.

    Text is ``level=1 base=0x730 words=352 end=0x88f step=0``.
    """

    __slots__ = ("_layout", "_level_width", "width")
    kind = "prefix: enable (1 bit), level, base, words - 1, end (16 each), step (signed 17)"

    def __init__(self, level_width: int) -> None:
        self._level_width = level_width
        self._layout = tuple(1 + level_width + 16 * k for k in range(4))
        self.width = 1 + level_width + 65

    def layout(self) -> tuple[Piece, ...]:
        base, words, end, step = self._layout
        return (
            Piece("enabled", 0, 1, "flag"),
            Piece("level", 1, self._level_width, "unsigned"),
            Piece("base", base, 16, "unsigned"),
            Piece("words", words, 16, "count - 1"),
            Piece("end", end, 16, "unsigned"),
            Piece("step", step, 17, "signed"),
        )

    def decode(self, raw: int) -> Prefix | None:
        if not raw:
            return None
        base, words, end, step = self._layout
        return Prefix(
            raw >> 1 & (1 << self._level_width) - 1,
            raw >> base & 0xFFFF,
            (raw >> words & 0xFFFF) + 1,
            raw >> end & 0xFFFF,
            ((raw >> step) ^ 0x10000) - 0x10000,
            bool(raw & 1),
        )

    def encode(self, value: Prefix | None) -> int:
        if value is None:
            return 0
        if not (
            0 <= value.level >> self._level_width < 1
            and 0 <= value.base <= 0xFFFF
            and 1 <= value.words <= 0x10000
            and 0 <= value.end <= 0xFFFF
            and -0x10000 <= value.step <= 0xFFFF
        ):
            raise misfit(value, "a prefix")
        base, words, end, step = self._layout
        return (
            int(value.enabled)
            | value.level << 1
            | value.base << base
            | value.words - 1 << words
            | value.end << end
            | (value.step & 0x1FFFF) << step
        )

    def text(self, value: Prefix | None) -> str:
        if value is None:
            return "none"
        return (
            f"{'' if value.enabled else 'off '}level={value.level} base={value.base:#x} "
            f"words={value.words} end={value.end:#x} step={value.step}"
        )

    def parse(self, text: str) -> Prefix | None:
        if text == "none":
            return None
        match = _PREFIX.fullmatch(text)
        if match is None:
            raise FormatError(
                f"{text[:60]!r} is not a prefix",
                hint="write level=.. base=.. words=.. end=.. step=..",
            )
        level, base, words, end, step = map(integer, match.groups()[1:])
        return Prefix(level, base, words, end, step, match[1] is None)


WIDE = TraversalCodec(4, 16)
NARROW = TraversalCodec(6, 16)
BYTES = TraversalCodec(8, 18)
QUARTERS = TraversalCodec(8, 14)
BUFFER = TraversalCodec(3, 15)
INFEED_BUFFER = TraversalCodec(3, 20)
