"""Tensor operations against a slow model of one step after the other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support import corpus_path

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu import op as op_module
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    NARROW_WORDS,
    ROW_BYTES,
    SCALING_ENTRIES,
    TILES,
    WIDE_ROWS,
    TileMemory,
)
from fitzroy.hw_models.edgetpu.op import OpUnit
from fitzroy.hw_models.edgetpu.op_plan import plan
from fitzroy.hw_models.edgetpu.unknown import KNOWN, known_bytes, unknown
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Traversal, traversal

F = np.float32
PARTIAL_ROW = 2000
ZERO_ROW = 1900
HIGH = 1 << 31


def bytes_at(base: int, dims: Sequence[tuple[int, int]], **more: Any) -> Traversal:
    return traversal(base, list(dims), rank=8, **more)


# --- slow model -------------------------------------------------------------------------------


@dataclass
class Tile:
    """Memories of one tile as plain Python numbers."""

    narrow: bytearray
    wide: bytearray
    scaling: bytes
    segments: Sequence[Sequence[float]]
    breakpoints: Sequence[float]


def walk(traversal: Traversal) -> Iterator[int]:
    """Addresses, counted up digit by digit as the hardware does."""
    counts = [dim.count for dim in traversal.dims]
    index = [0] * len(counts)
    while True:
        turn = 0
        for k in reversed(range(traversal.fifo_dim, len(counts))):
            turn = turn * counts[k] + index[k]
        address = traversal.base
        for at, dim in zip(index, traversal.dims, strict=True):
            address += at * dim.stride
        yield address + (traversal.fifo_step if turn % 2 else 0)
        for k, count in enumerate(counts):
            part = traversal.part_dim
            if k == 0 and part and index[part] == counts[part] - 1:
                count = traversal.part_count
            index[k] += 1
            if index[k] < count:
                break
            index[k] = 0
        else:
            return


def loop_indices(op: TensorOp) -> Iterator[tuple[int, ...]]:
    """Indices of the loops of every step, innermost first."""
    index = [0] * 8
    while True:
        yield tuple(index)
        for k in range(8):
            count = op.loops[k]
            part = op.loop_part_dim
            if k == 0 and part and index[part] == op.loops[part] - 1:
                count = op.loop_part
            index[k] += 1
            if index[k] < count:
                break
            index[k] = 0
        else:
            return


def number(memory: bytes | bytearray, at: int, size: int, *, signed: bool = False) -> int:
    return int.from_bytes(memory[at : at + size], "little", signed=signed)


def real(memory: bytes | bytearray, at: int) -> float:
    return float(np.frombuffer(memory, "<f4", 1, at)[0])


def function(op: TensorOp, tile: Tile, y: np.float32) -> np.float32:
    x = F(abs(y)) if op.nlu_odd else y
    exponent = 0
    if op.nlu_rsqrt:
        while x >= 4:
            x, exponent = F(x / F(4)), exponent + 1
        while x < 1:
            x, exponent = F(x * F(4)), exponent - 1
    segment = sum(bool(bound <= x) for bound in tile.breakpoints)
    value = F(tile.segments[segment][4])
    for degree in (3, 2, 1, 0):
        value = F(F(value * x) + F(tile.segments[segment][degree]))
    value = F(value * F(2.0**-exponent))
    return F(-value) if op.nlu_odd and y < 0 else value


def output(op: TensorOp, tile: Tile, total: int, block: int, lane: int) -> int:
    slot = block & 1
    total += op.constant
    if op.bias_in_memory:
        total += number(tile.scaling, 4 * (128 + 64 * slot + lane), 4, signed=True)
    assert -HIGH <= total < HIGH
    scale = real(tile.scaling, 4 * (64 * slot + lane)) if op.scale_in_memory else op.scale
    y = F(F(total) * F(scale))
    y = min(max(y, F(op.minimum)), F(op.maximum))
    if op.nlu:
        y = function(op, tile, y)
    code = round(float(y)) + op.output_zero_point
    return min(max(code, 0), 0xFFFF if op.output16 else 0xFF)


def execute(op: TensorOp, tile: Tile) -> None:
    """One tensor operation on one tile, one product at a time."""
    steps = list(loop_indices(op))
    a_size, c_size = 2 if op.a16 else 1, 2 if op.c16 else 1
    elements = max(1, (4 - sum(op.idle_multipliers)) // (a_size * c_size))

    def operand(which: Traversal | None) -> list[int]:
        found = [0] if which is None else list(walk(which))
        return found * len(steps) if len(found) == 1 else found

    a, c, d = operand(op.a), operand(op.c), operand(op.d)
    assert op.b is not None
    b = list(walk(op.b))
    reductions = [k for k in range(8) if op.reduction >> k & 1]
    outer = [k for k in range(op.block_level, 8) if op.accumulate or not op.reduction >> k & 1]
    blocks = math.prod(op.loops[k] for k in outer)
    # With accumulators, a sum ends when the loops below this one have wrapped.
    level = op.d.fifo_dim if op.d is not None and op.d.fifo_step else 8
    sums = [0] * LANES
    fresh = True
    words: list[bytes] = []
    for step, index in enumerate(steps):
        block, factor = 0, 1
        for k in outer:
            block += index[k] * factor
            factor *= op.loops[k]
        lanes = op.lanes_last if block == blocks - 1 else op.lanes
        if not op.accumulate:
            fresh = all(index[k] == 0 for k in reductions)
            held = 4 * 64 * (d[step] >> 2)
            sums = [number(tile.wide, held + 4 * lane, 4, signed=True) for lane in range(LANES)]
        for lane in range(lanes):
            zero = op.c_zero_point
            if op.zero_points_in_memory:
                slots = 1
                if op.zero_point_step:
                    slots += (op.zero_point_last - op.zero_point_base) // op.zero_point_step
                row = op.zero_point_base + block % slots * op.zero_point_step
                zero = number(tile.wide, ROW_BYTES * row + 4 * lane, 4)
            at = ROW_BYTES * (c[step] >> 2) + 4 * lane + (c[step] & 3)
            w = [number(tile.wide, at + j * c_size, c_size) for j in range(elements)]
            if op.op is Opcode.MAX:
                sums[lane] = max(w) if fresh else max(sums[lane], *w)
                continue
            if op.op is Opcode.SUM:
                more = sum(value - zero for value in w)
            else:
                x = [number(tile.narrow, a[step] + j * a_size, a_size) for j in range(elements)]
                more = sum((p - op.a_zero_point) * (q - zero) for p, q in zip(x, w, strict=True))
            sums[lane] = more if fresh else sums[lane] + more
        if op.accumulate:
            after = steps[step + 1] if step + 1 < len(steps) else (0,) * 8
            fresh = done = not any(after[:level])
        else:
            for lane in range(lanes):
                at = ROW_BYTES * (d[step] >> 2) + 4 * lane
                tile.wide[at : at + 4] = (sums[lane] & 0xFFFFFFFF).to_bytes(4, "little")
            done = all(index[k] == op.loops[k] - 1 for k in reductions)
        if done:
            size = 2 if op.output16 else 1
            codes = [output(op, tile, sums[lane], block, lane) for lane in range(lanes)]
            data = b"".join(code.to_bytes(size, "little") for code in codes)
            data += bytes(-len(data) % 4)
            words += [data[at : at + 4] for at in range(0, len(data), 4)]
    if len(b) == 1 != len(words):
        # Sums that only stay in wide memory.
        return
    for at, word in zip(b, words, strict=True):
        tile.narrow[at : at + 4] = word


# --- comparison -------------------------------------------------------------------------------


def known(memory: TileMemory) -> None:
    memory.narrow_known[:] = True
    memory.wide_known[:] = True
    memory.scaling_known[:] = True
    memory.table_known[:] = True


def filled(rng: np.random.Generator) -> TileMemory:
    """Random contents in the first words and rows, which the operations of these tests use."""
    memory = TileMemory()
    known(memory)
    memory.narrow[:, :4096] = rng.integers(0, 1 << 32, (TILES, 4096), np.uint32)
    memory.wide[:, :256] = rng.integers(0, 1 << 32, (TILES, 256, LANES), np.uint32)
    rows = slice(ZERO_ROW, ZERO_ROW + 8)
    memory.wide[:, rows] = rng.integers(0, 256, (TILES, 8, LANES), np.uint32)
    half = SCALING_ENTRIES // 2
    scales = rng.uniform(1e-4, 5e-3, (TILES, half, 2)).astype(F)
    memory.scaling[:, :half] = scales.view(np.uint32)
    biases = rng.integers(-3000, 3000, (TILES, half, 2), np.int32)
    memory.scaling[:, half:] = biases.view(np.uint32)
    memory.tables[:] = rng.uniform(-20, 20, memory.tables.shape).astype(F)
    memory.tables[..., 2:] *= F(0.05)
    bounds = rng.uniform(-3, 3, memory.breakpoints.shape).astype(F)
    memory.breakpoints[:] = np.sort(bounds, axis=1)
    return memory


def snapshot(memory: TileMemory, tile: int) -> Tile:
    return Tile(
        bytearray(memory.narrow[tile].tobytes()),
        bytearray(memory.wide[tile].tobytes()),
        memory.scaling[tile].tobytes(),
        memory.tables[tile].tolist(),
        memory.breakpoints[tile].tolist(),
    )


def burst(op: TensorOp, memory: TileMemory, tiles: Sequence[int], cuts: Sequence[int]) -> None:
    """Execute an operation on some tiles in bursts that end at the cuts."""
    unit, order = OpUnit(memory), plan(op)
    bounds = sorted({0, order.steps, *(cut % (order.steps + 1) for cut in cuts)})
    for begin, end in pairwise(bounds):
        unit.compute(order, np.array(tiles), begin, end)


def compare(op: TensorOp, rng: np.random.Generator) -> int:
    """Fail unless the unit does what the slow model does; return how many bytes that changed."""
    assert disassemble(op.pack().to_bytes(op.width // 8, "little")) == [op]
    memory = filled(rng)
    if op.a16 and op.c16:
        # Sums must fit 32 bits.
        memory.narrow &= 0x0FFF0FFF
        memory.wide &= 0x1FFF1FFF
    tiles = sorted(rng.choice(TILES, size=int(rng.integers(1, 4)), replace=False).tolist())
    before = {tile: snapshot(memory, tile) for tile in (*tiles, (tiles[0] + 1) % TILES)}
    burst(op, memory, tiles, rng.integers(0, 1 << 20, int(rng.integers(0, 5))).tolist())
    changed = 0
    for tile, expected in before.items():
        first = bytes(expected.narrow)
        if tile in tiles:
            execute(op, expected)
        found = memory.narrow[tile].tobytes()
        assert found == bytes(expected.narrow), f"narrow memory of tile {tile}"
        if not op.accumulate or tile not in tiles:
            assert memory.wide[tile].tobytes() == bytes(expected.wide), f"wide memory of {tile}"
        changed += sum(x != y for x, y in zip(first, found, strict=True)) if tile in tiles else 0
    return changed


FORMATS = (
    # 16-bit elements of A and of C, multipliers that are off
    (False, False, (False, False, False)),
    (False, False, (False, True, True)),
    (False, False, (True, True, True)),
    (True, False, (False, False, False)),
    (False, True, (False, False, False)),
    (True, False, (False, True, True)),
    (True, True, (False, False, False)),
)


def random_op(rng: np.random.Generator, opcode: Opcode) -> TensorOp:
    """A valid operation: inner reduction, positions, outer blocks, with or without part sums.

    Loops, innermost first: reduction (0), second reduction (1), positions (2), blocks (3).
    """

    def flip() -> bool:
        return bool(rng.integers(0, 2))

    inner, middle, places, blocks = (int(rng.integers(1, n)) for n in (7, 4, 6, 4))
    a16, c16, idle = FORMATS[int(rng.integers(0, len(FORMATS)))]
    if opcode is not Opcode.MAC:
        a16, idle = False, (False, False, False)
        c16 = c16 and opcode is Opcode.SUM
    partial_sums = flip()
    # The reduction of loop 0 has another length in the last iteration of loop 1. Whether it could
    # have with partial sums nothing tells.
    part = int(rng.integers(1, inner + 2)) if flip() and middle > 1 and not partial_sums else 0
    part_of: Mapping[str, Any] = {"part": (part, 1)} if part else {}
    wide16 = flip()
    lanes = int(rng.integers(1, 65)) if flip() else 64
    last = int(rng.integers(1, lanes + 1))
    counts = (inner, middle, places, blocks)
    # With partial sums the positions are inside the second reduction.
    order = (0, 2, 1, 3) if partial_sums else (0, 1, 2, 3)
    loops = tuple(counts[k] for k in order) + (1,) * 4
    step = 4 if a16 or not sum(idle) else 4 - sum(idle)

    def strided(strides: Sequence[int]) -> list[tuple[int, int]]:
        return [(counts[k], strides[k]) for k in order]

    aligned = flip()
    start = (
        16 if aligned else 16 + 2 * int(rng.integers(0, 2)) if a16 else int(rng.integers(16, 32))
    )
    a = bytes_at(start, strided((step, 32, 8 if a16 else 5, 0)), **part_of)
    off = 0
    if idle == (True, True, True):
        off = int(rng.integers(0, 4))
    elif idle == (False, True, True):
        off = 2 * int(rng.integers(0, 2))
    varied = 4 * 64 if opcode is not Opcode.MAC and flip() else 0
    c = bytes_at(off, strided((4, 32, varied, 128)), **part_of)
    size = 2 if wide16 else 1
    whole, rest = -(-lanes * size // 4), -(-last * size // 4)
    if blocks == 1:
        whole = rest
    outputs = [(whole, 4), (places, 4 * whole), (blocks, 4 * whole * places)]
    b_part: Mapping[str, Any] = {"part": (rest, 2)} if blocks > 1 and rest != whole else {}
    b = bytes_at(4 * 2048, outputs, **b_part)
    reduction = 0b101 if partial_sums else 0
    if partial_sums:
        # Loops: inner reduction, positions, second reduction, blocks.
        d = bytes_at(4 * PARTIAL_ROW, strided((0, 0, 4, 0)))
    else:
        d = bytes_at(4 * PARTIAL_ROW, strided((0, 0, 0, 0)), ping_pong=(2, 4), **part_of)
    c_zero = int(rng.integers(0, 256))
    limit = 60000 if wide16 else 250
    nlu = flip() and flip()
    base: dict[str, Any] = {
        "op": opcode,
        "loops": loops,
        "loop_part": part or 1,
        "loop_part_dim": 1 if part else 0,
        "a": a if opcode is Opcode.MAC else None,
        "b": b,
        "c": c,
        "d": d,
        "accumulate": not partial_sums,
        "a16": a16,
        "c16": c16,
        "idle_multipliers": idle,
        "zero_points_in_memory": opcode is not Opcode.MAX and flip(),
        "c_zero_point": c_zero if opcode is not Opcode.MAX else 0,
        "a_zero_point": int(rng.integers(0, 4096 if a16 else 256)),
        "zero_point_base": ZERO_ROW,
        "zero_point_step": 1,
        "zero_point_last": ZERO_ROW + int(rng.integers(0, 3)),
        "block_level": 3,
        "reduction": reduction,
        "lanes": lanes,
        "lanes_last": last,
        "output16": wide16,
        "bias_in_memory": flip(),
        "constant": int(rng.integers(-5000, 5000)),
        "output_zero_point": int(rng.integers(0, limit // 2)),
        "minimum": float(F(-rng.uniform(1, limit))),
        "maximum": float(F(rng.uniform(1, limit))),
    }
    size_of = float(limit) / (inner * middle * (1 << (8 * a16 + 8 * c16)) * 5000)
    if opcode is not Opcode.MAC:
        size_of = 0.05
    in_memory = flip() and not (a16 or c16)
    base["scale_in_memory"] = in_memory
    base["scale"] = 1.0 if in_memory else float(F(size_of * rng.uniform(0.5, 2)))
    if nlu:
        base |= {"nlu": True, "nlu_odd": 3 * int(flip()), "minimum": -4.0, "maximum": 4.0}
        base["scale"] = base["scale"] if in_memory else float(F(base["scale"] / 50))
    return TensorOp(**base)


@pytest.mark.long
@pytest.mark.parametrize("opcode", [Opcode.MAC, Opcode.MAX, Opcode.SUM])
@pytest.mark.parametrize("seed", range(4))
def test_random_operations(opcode: Opcode, seed: int, full: bool) -> None:
    rng = np.random.default_rng([seed, opcode])
    kinds = set()
    changed = 0
    for _ in range(40 if full else 8):
        op = random_op(rng, opcode)
        kinds.add((op.accumulate, op.output16, op.zero_points_in_memory, op.nlu))
        changed += compare(op, rng)
    assert len(kinds) > 2
    assert changed


@pytest.mark.parametrize("seed", range(3))
def test_sizes_of_bursts_and_products_do_not_matter(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_SINGLE_THREAD", 64), ("_FEW_RUNS", 2), ("_BURST_BYTES", 1 << 10)):
        monkeypatch.setattr(op_module, name, value)
    rng = np.random.default_rng(seed)
    assert sum(compare(random_op(rng, Opcode.MAC), rng) for _ in range(6))


def test_sums_beyond_single_precision_are_exact() -> None:
    # Sums of almost 2^25, whose lowest bits differ from lane to lane.
    steps = 160
    base = 255 * 205 * (4 * steps - 1)
    op = TensorOp(
        loops=(steps, 1, 1, 1, 1, 1, 1, 1),
        a=bytes_at(0, [(steps, 4)]),
        b=bytes_at(4 * 2048, [(16, 4)]),
        c=bytes_at(0, [(steps, 4)]),
        d=bytes_at(4 * PARTIAL_ROW, [(steps, 0)]),
        accumulate=True,
        lanes=LANES,
        lanes_last=LANES,
        constant=-base,
        scale=1.0,
        maximum=255.0,
    )
    memory = TileMemory()
    known(memory)
    memory.narrow_bytes[:, : 4 * steps] = 255
    memory.narrow_bytes[:, 0] = 1
    weights = memory.wide_bytes.reshape(TILES, WIDE_ROWS, LANES, 4)
    weights[:, :steps] = 205
    weights[:, 0, :, 0] = np.arange(LANES)
    burst(op, memory, [3, 9], [])
    assert base > 1 << 24
    for tile in (3, 9):
        found = memory.narrow_bytes[tile, 4 * 2048 : 4 * 2048 + LANES]
        assert found.tolist() == list(range(LANES))


def test_several_blocks_at_one_position() -> None:
    # The sums of all blocks are in the same row.
    op = TensorOp(
        loops=(2, 1, 1, 3, 1, 1, 1, 1),
        a=bytes_at(0, [(2, 4), (1, 0), (1, 0), (3, 0)]),
        b=bytes_at(4 * 2048, [(48, 4)]),
        c=bytes_at(0, [(2, 4), (1, 0), (1, 0), (3, 16)]),
        d=bytes_at(4 * PARTIAL_ROW, [(6, 0)]),
        reduction=1,
        block_level=3,
        lanes=64,
        lanes_last=64,
        bias_in_memory=True,
        scale=float(F(1e-3)),
        minimum=-1000.0,
        maximum=1000.0,
        output_zero_point=128,
    )
    assert compare(op, np.random.default_rng(0))


def test_sums_stay_in_wide_memory_without_room_for_outputs() -> None:
    rng = np.random.default_rng(4)
    op = TensorOp(
        loops=(3, 5, 2, 1, 1, 1, 1, 1),
        a=bytes_at(0, [(3, 4), (5, 8), (2, 64)]),
        b=bytes_at(4 * 2048, []),
        c=bytes_at(0, [(3, 4), (5, 0), (2, 12)]),
        d=bytes_at(4 * PARTIAL_ROW, [(3, 0), (5, 4), (2, 0)]),
        reduction=0b101,
        block_level=3,
        lanes=64,
        lanes_last=64,
        scale=1.0,
        minimum=0.0,
        maximum=255.0,
    )
    memory = filled(rng)
    expected = snapshot(memory, 0)
    execute(op, expected)
    burst(op, memory, [0], [7, 11])
    assert memory.narrow[0].tobytes() == bytes(expected.narrow)
    found = memory.wide[0, PARTIAL_ROW : PARTIAL_ROW + 5]
    assert found.any()
    assert memory.wide[0].tobytes() == bytes(expected.wide)


# --- rounding, functions, faults --------------------------------------------------------------


def copied(values: Sequence[int], memory: TileMemory | None = None, /, **more: Any) -> list[int]:
    """What an operation makes of bytes in narrow memory, one at a time, times 1."""
    if memory is None:
        memory = TileMemory()
        memory.wide_known[0, 0] = KNOWN
    memory.wide[0, 0, 0] = 1
    if not memory.wide_known[0, 0].any():
        memory.wide_known[0, 0] = KNOWN
    memory.narrow_known[0] = True
    memory.narrow_bytes[0, : len(values)] = values
    memory.tables[0] = more.pop("tables", 0)
    memory.breakpoints[0] = more.pop("breakpoints", 0)
    memory.table_known[0] = True
    settings: dict[str, Any] = {
        "loops": (len(values), 1, 1, 1, 1, 1, 1, 1),
        "a": bytes_at(0, [(len(values), 1)]),
        "b": bytes_at(1024, [(len(values), 4)]),
        "c": bytes_at(0, []),
        "d": bytes_at(0, [(len(values), 0)], ping_pong=(0, 4)),
        "accumulate": True,
        "idle_multipliers": (True, True, True),
        "lanes": 1,
        "lanes_last": 1,
        "scale": 1.0,
        "minimum": -1e6,
        "maximum": 1e6,
        "block_level": 7,
        **more,
    }
    op = TensorOp(**settings)
    burst(op, memory, [0], [1])
    words: list[int] = memory.narrow[0, 256 : 256 + len(values)].tolist()
    return words


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"scale": 0.5}, [0, 0, 1, 2, 2, 2, 128]),
        ({"scale": 0.5, "output_zero_point": 3}, [3, 3, 4, 5, 5, 5, 131]),
        ({"scale": 3.0}, [0, 3, 6, 9, 12, 15, 255]),
        ({"scale": 3.0, "output16": True}, [0, 3, 6, 9, 12, 15, 765]),
        ({"maximum": 3.5, "output_zero_point": 1}, [1, 2, 3, 4, 5, 5, 5]),
        ({"minimum": 1.5}, [2, 2, 2, 3, 4, 5, 255]),
        ({"constant": -3, "minimum": -2.0, "output_zero_point": 2}, [0, 0, 1, 2, 3, 4, 254]),
        ({"constant": -4}, [0, 0, 0, 0, 0, 1, 251]),
        ({"a_zero_point": 2, "output_zero_point": 7}, [5, 6, 7, 8, 9, 10, 255]),
    ],
)
def test_output_stage(more: Mapping[str, Any], expected: list[int]) -> None:
    assert copied([0, 1, 2, 3, 4, 5, 255], **more) == expected


def test_function_has_a_polynomial_per_segment() -> None:
    tables = np.zeros((8, 5), F)
    tables[:, 0] = np.arange(8) * 10
    tables[:, 1] = 1
    tables[7, 4] = 0.5
    bounds = np.array([1, 2, 3, 4, 5, 6, np.inf], F)
    # A breakpoint belongs to the segment above it.
    expected = [0, 11, 22, 33, 44, 55, 66]
    found = copied(range(7), nlu=True, tables=tables, breakpoints=bounds)
    assert found == expected
    odd = copied(
        range(7), nlu=True, nlu_odd=3, constant=-3, output_zero_point=100,
        tables=tables, breakpoints=bounds,
    )  # fmt: skip
    assert odd == [100 - 33, 100 - 22, 100 - 11, 100, 111, 122, 133]


def test_reciprocal_square_root_reduces_its_argument() -> None:
    # A line through 1/sqrt(1) and 1/sqrt(4), times 240.
    tables = np.zeros((8, 5), F)
    tables[:, 0], tables[:, 1] = 280, -40
    found = copied(
        [1, 2, 3, 4, 8, 16, 64], nlu=True, nlu_rsqrt=True, tables=tables, breakpoints=np.inf
    )
    assert found == [240, 200, 160, 120, 100, 60, 30]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": bytes_at(1024, [(3, 4)])}, "room for 3 output words: it makes 2"),
        ({"b": bytes_at(1025, [(2, 4)])}, "writes outside narrow memory"),
        ({"b": bytes_at(4 * NARROW_WORDS - 4, [(2, 4)])}, "writes outside narrow memory"),
        ({"a": bytes_at(4 * NARROW_WORDS - 1, [(2, 1)])}, "reads outside narrow memory"),
        ({"a": bytes_at(0, [(3, 1)])}, "operand a of a tensor operation has 3 steps"),
        ({"c": bytes_at(4 * WIDE_ROWS, [])}, "rows outside wide memory"),
    ],
)
def test_faults(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        copied([1, 2], **change)
    assert message in str(caught.value)


def test_function_must_be_loaded() -> None:
    memory = TileMemory()
    memory.narrow_known[:] = True
    memory.wide_known[:] = True
    op = TensorOp(
        b=bytes_at(0, []), a=bytes_at(0, []), c=bytes_at(0, []), accumulate=True, nlu=True
    )
    with pytest.raises(SimulationError, match="not loaded"):
        burst(op, memory, [0], [])


def test_outputs_of_unwritten_words_are_unknown() -> None:
    memory = TileMemory()
    known(memory)
    memory.wide[0, :2] = 1
    memory.wide[0, 1] = 0
    memory.narrow_known[0, 1] = False
    op = TensorOp(
        loops=(2, 2, 1, 1, 1, 1, 1, 1),
        a=bytes_at(0, [(2, 4), (2, 8)]),
        b=bytes_at(1024, [(2, 4)]),
        c=bytes_at(0, [(2, 0), (2, 0)]),
        d=bytes_at(0, [(2, 0), (2, 0)], ping_pong=(1, 4)),
        accumulate=True,
        lanes=1,
        lanes_last=1,
        scale=1.0,
        maximum=255.0,
    )
    burst(op, memory, [0], [])
    marks = memory.narrow_known[0, 256:258]
    # One lane has an output, so that three bytes of its word are known.
    assert known_bytes(marks).tolist() == [0b1110, 0b1111]
    assert "narrow word 1 of tile 0" in str(memory.origins.of(marks[0]))
    # Words that are multiplied by zero do not matter.
    memory.narrow_known[0, 256:258] = False
    burst(replace(op, c=bytes_at(4, [(2, 0), (2, 0)])), memory, [0], [])
    assert memory.narrow_known[0, 256:258].tolist() == [KNOWN, KNOWN]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"c": bytes_at(4, [])}, "lane 0 of wide row 1 of tile 0"),
        ({"scale_in_memory": True}, "entry 0 of scaling memory of tile 0"),
        ({"bias_in_memory": True}, "entry 64 of scaling memory of tile 0"),
        (
            {"zero_points_in_memory": True, "zero_point_base": 9, "zero_point_last": 9},
            "lane 0 of wide row 9 of tile 0",
        ),
    ],
)
def test_outputs_of_unwritten_operands_are_unknown(change: Mapping[str, Any], place: str) -> None:
    memory = TileMemory()
    copied([1, 2], memory, **change)
    marks = memory.narrow_known[0, 256:258]
    assert known_bytes(marks).tolist() == [0b1110, 0b1110]
    assert place in str(memory.origins.of(marks[0]))


def test_unknown_bytes_of_weights_do_not_matter_to_others() -> None:
    memory = TileMemory()
    memory.origins.reader = "a test"
    # Bytes 0 to 2 of the lane are known; 2 is written and known, byte 3 is not.
    memory.wide_known[0, 0, 0] = unknown(memory.origins.number(lambda: "a place"), 0b0111)
    for byte, known_mask in enumerate([0b1111, 0b1111, 0b1111, 0b1110]):
        copied([1, 2], memory, c=bytes_at(byte, []))
        assert known_bytes(memory.narrow_known[0, 256:258]).tolist() == [known_mask] * 2
    # A zero times an unknown weight is a zero.
    copied([0, 2], memory, c=bytes_at(3, []))
    assert known_bytes(memory.narrow_known[0, 256:258]).tolist() == [0b1111, 0b1110]


# --- operations of compiled models --------------------------------------------------------------


def published(name: str) -> dict[str, Any]:
    """A file of test vectors, which lie beside the corpus."""
    path = corpus_path().parent / "beagle" / "vectors" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def floats(words: Any) -> Array:
    numbers = np.array([int(word, 16) for word in np.ravel(words)], np.uint32)
    return numbers.view(F).reshape(np.shape(words))


@pytest.mark.corpus
def test_vectors() -> None:
    vectors = published("tensorop.json")
    tables = {table["function"]: table for table in published("nlu_tables.json")["tables"]}
    place = np.arange(4 * NARROW_WORDS)
    narrow = ((37 * place + 11 * (place >> 7) + 5) & 255).astype(np.uint8)
    place = np.arange(WIDE_ROWS * ROW_BYTES)
    wide = ((73 * place + 29 * (place >> 8) + 17) & 255).astype(np.uint8)
    memory = TileMemory()
    known(memory)
    scaling = np.frombuffer(bytes.fromhex(vectors["scaling_hex"]), np.uint32)
    memory.scaling[:] = scaling.reshape(SCALING_ENTRIES, 2)
    sums = 0
    for number, vector in enumerate(vectors["ops"]):
        (op,) = disassemble(bytes.fromhex("".join(vector["bundles"])))
        assert isinstance(op, TensorOp)
        memory.narrow_bytes[:] = narrow
        memory.wide_bytes[:] = wide.reshape(WIDE_ROWS, ROW_BYTES)
        if op.zero_points_in_memory:
            step = op.zero_point_step or WIDE_ROWS
            later = range(op.zero_point_base + step, op.zero_point_last + 1, step)
            for row in (op.zero_point_base, *later):
                memory.wide[:, row] = np.arange(LANES) + 100
        if "nlu_table" in vector:
            table = tables[vector["nlu_table"]]
            memory.tables[:] = floats(table["segments_f32"])
            memory.breakpoints[:] = floats(table["breakpoints_f32"])
        rng = np.random.default_rng(number)
        burst(op, memory, [0, 5], rng.integers(0, 1 << 20, 3).tolist())
        assert plan(op).steps == vector["steps"]
        assert op.b is not None
        words = op.b.addresses() >> 2
        for tile in (0, 5):
            assert memory.narrow[tile, words].tobytes().hex() == vector["output_hex"], number
            for rows in vector.get("partial_sum_rows", ()):
                lanes = memory.wide[tile, rows["row"]].view(np.int32)
                assert lanes[: len(rows["int32"])].tolist() == rows["int32"], number
                sums += 1
    assert len(vectors["ops"]) == 44
    assert sums
