"""Probes of forms that FitzRoy's programs have and no published program has, one form each.

`EXEMPLARS` holds an instruction of every such form as compilations have it, small and moved to
where a probe can reach its operands; ``python -m benchmarks.probe_forms`` collects them. A probe
loads what the instruction reads, lets one tile execute it with counters that hold nothing back, and
sends what it wrote. The answer is that of the simulator: there is no second formula for these.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import Array
from fitzroy.driver.probe.probe import Probe, Risk, as_bytes, noise
from fitzroy.driver.probe.program import FIRST_ROW, RESULT_ROW, ROW_WORDS, Sketch
from fitzroy.driver.probe.suite.arithmetic import CURVES, OUT, show_blocks, table
from fitzroy.formats.object_file import UNIT_BYTES
from fitzroy.hw_models.edgetpu.op_plan import plan as op_plan
from fitzroy.hw_models.edgetpu.sequence import sequence
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, ScalarFlag, Watcher
from fitzroy.hw_models.isa.forms import form
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import COMPARES, Alu, Indexed, Load, Scalar, Special, Store
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.text import ChunkParser, instruction_lines, uncommented
from fitzroy.hw_models.isa.traversal import Traversal

EXEMPLARS = "exemplars.s"

_TILE = 5
"""The tile that executes an instruction; it has a neighbour on every side."""

_NAME = "r1c1"
_IN = 64
"""Word of narrow memory at which inputs begin; an operand at 0 could be taken for an absent one."""

_OUT = 0x2080
"""Word of narrow memory at which results begin."""

_MOST_WORDS = 8192
"""Words that a probe loads, or sends, for an instruction."""

_MOST_ROWS = 512
_MOST_SUMS = 256
_MOST_STEPS = 1 << 16
_HELD = 30000
"""How far thresholds lie below counters, so that they hold nothing back."""

_UNIT = 74.0
"""Standard deviation of a byte that may have any value."""

_SIDES = {
    Opcode.MESH_SOUTHWARD: ("r2c1", "r0c1"),
    Opcode.MESH_NORTHWARD: ("r0c1", "r2c1"),
    Opcode.MESH_EASTWARD: ("r1c2", "r1c0"),
    Opcode.MESH_WESTWARD: ("r1c0", "r1c2"),
}
"""Names of the tile that receives and of the one that sends, by direction."""


class UnreachableError(CapacityError):
    """An instruction is too large for a probe, or of a kind that probes cannot isolate."""


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """A probe of a form under construction.

    Attributes:
        instruction: the instruction, where the probe reaches its operands.
        sketch: the program.
        data: bytes of the input.
    """

    instruction: Instruction
    sketch: Sketch
    data: Array


def draft(instruction: Instruction) -> Draft:
    """A probe of an instruction as a compilation has it.

    Raises:
        UnreachableError: it is too large, or there is no way to isolate its kind.
    """
    make = _MAKERS.get(type(instruction))
    if make is None:
        raise UnreachableError(f"no probe isolates {instruction.op.name.lower()}")
    text = form(instruction)
    if isinstance(instruction, TileInstruction):
        instruction = _released(instruction)
    made = make(instruction)
    if form(made.instruction) != text:
        raise UnreachableError("a form that depends on where its operands are")
    return made


def _released(instruction: TileInstruction) -> Any:
    """The instruction on the probe's tile, with thresholds that hold nothing back."""
    waits: Any = getattr(instruction, "wait", ())
    changes: dict[str, Any] = {"wait": tuple(map(_open, waits))} if waits else {}
    return replace(
        instruction,
        tiles=1 << _TILE,
        tiles_from_register=False,
        tiles_register=0,
        seq=0,
        **changes,
    )


def _open(watcher: Watcher | None) -> Watcher | None:
    if watcher is None:
        return None
    return replace(watcher, threshold=-_HELD if watcher.increment else 0)


def _bounds(addresses: Array, most: int, what: str) -> tuple[int, int]:
    """First address and number of addresses in between.

    Raises:
        UnreachableError: there are too many.
    """
    low, high = int(addresses.min()), int(addresses.max())
    if high - low >= most or len(addresses) > _MOST_STEPS:
        raise UnreachableError(f"{high - low + 1} {what}", reason=f"probes reach {most}")
    return low, high - low + 1


def _moved(walk: Traversal, distance: int) -> Traversal:
    return replace(walk, base=walk.base + distance)


def _emit(sketch: Sketch, instruction: Instruction) -> None:
    sketch.asm("tile_fence tiles=all idle=all")
    sketch.asm("\n".join(instruction_lines(instruction)))
    sketch.asm("tile_fence tiles=all idle=all")


def _fill(sketch: Sketch, word: int, words: int) -> None:
    """Words that an instruction may leave as they were, from rows after the first one.

    What is there before must not be what the instruction brings.
    """
    rows = max(2, -(-words // ROW_WORDS))
    for done in range(0, rows, 16):
        part = max(2, min(16, rows - done))
        sketch.unpack(FIRST_ROW + 1, part, word + ROW_WORDS * done, tiles=_NAME)


def _even(words: int) -> int:
    """Words of whole rows of which there are one or an even number."""
    rows = -(-words // ROW_WORDS)
    return ROW_WORDS * (rows + (rows % 2 if rows > 1 else 0))


def _noise_rows(rows: int, seed: str) -> Array:
    """Rows of bytes that depend on a text, of which there are at least 17."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:3], "little")
    return noise(256 * max(rows, 17), number)


# --- the op engine -------------------------------------------------------------------------------


def _tensor(one: TensorOp) -> Draft:
    plan = op_plan(one)
    if plan.steps > _MOST_STEPS:
        raise UnreachableError(f"{plan.steps} steps", reason=f"probes make {_MOST_STEPS}")
    row, rows = _bounds(plan.c >> 2, _MOST_ROWS, "rows")
    changes: dict[str, Any] = {}
    if one.c is not None:
        changes["c"] = _moved(one.c, 4 * (FIRST_ROW - row))
    zeros = _zero_rows(one)
    if zeros:
        shift = FIRST_ROW + rows - one.zero_point_base
        changes["zero_point_base"] = one.zero_point_base + shift
        changes["zero_point_last"] = one.zero_point_last + shift
    scaling = FIRST_ROW + rows + zeros
    inputs, words = scaling + 4, 0
    if plan.a is not None and one.a is not None:
        low, words = _bounds(plan.a >> 2, _MOST_WORDS, "words of input")
        changes["a"] = _moved(one.a, 4 * (_IN - low))
    sums = None
    if one.d is not None and plan.d is not None:
        low, sums = _bounds(plan.d >> 2, _MOST_SUMS, "rows of sums")
        changes["d"] = _moved(one.d, 4 * (RESULT_ROW - low))
    elif one.d is not None:
        changes["d"] = _moved(one.d, 4 * RESULT_ROW - one.d.base)
    size = 0
    if one.b is not None and len(plan.b):
        low, size = _bounds(plan.b, _MOST_WORDS, "words of output")
        changes["b"] = _moved(one.b, 4 * (_OUT - low))
    moved = replace(one, **changes, **_ranges(one, int(np.diff(plan.runs).max()) * plan.elements))
    sketch = Sketch()
    more = max(2, -(-(words + 1) // ROW_WORDS))
    data = _noise_rows(inputs + more - FIRST_ROW, form(one))
    sketch.load(len(data) // 256, tiles=_NAME)
    for slot in range(2):
        sketch.scaling(scaling + slot, 32 * slot, tiles=_NAME)
        sketch.scaling(scaling + 2 + slot, 64 + 32 * slot, tiles=_NAME)
    if words:
        sketch.unpack(inputs, more, _IN, tiles=_NAME)
    _fill(sketch, _OUT, _even(max(size, 1)))
    if one.nlu:
        sketch.asm(table(CURVES, tiles=_NAME))
    _emit(sketch, moved)
    if size:
        sketch.result(_OUT, 4 * _even(size), tile=_NAME)
    elif sums:
        sketch.send(256 * (sums + sums % 2), row=RESULT_ROW, tile=_NAME)
    _set_parameters(data, rows, zeros, moved)
    return Draft(moved, sketch, data)


def _zero_rows(one: TensorOp) -> int:
    """Rows of zero points that an operation uses."""
    return one.zero_point_last - one.zero_point_base + 1 if one.zero_points_in_memory else 0


def _ranges(one: TensorOp, terms: int) -> dict[str, Any]:
    """Constants with which outputs of random operands are spread over their range."""
    top = 0xFFFF if one.output16 else 0xFF
    deviation = _UNIT * (256 if one.c16 else 1)
    if one.op is Opcode.MAC:
        deviation *= math.sqrt(terms) * _UNIT * (256 if one.a16 else 1)
    elif one.op is Opcode.SUM:
        deviation *= math.sqrt(terms)
    scale = float(np.float32(top / 4 / deviation))
    middle = (top + 1) // 2
    return {
        "scale": 1.0 if one.scale_in_memory else scale,
        "maximum": float(top - middle),
        "minimum": float(-middle),
        "constant": 0,
        "output_zero_point": 0 if one.nlu else middle,
        "a_zero_point": 0x8000 if one.a16 else 0x80,
        "c_zero_point": 0
        if one.op is Opcode.MAX or one.zero_points_in_memory
        else (0x8000 if one.c16 else 0x80),
    }


def _set_parameters(data: Array, rows: int, zeros: int, one: TensorOp) -> None:
    """Zero points, scales and biases among the rows of an input."""
    own = data.reshape(-1, 256)
    for row in range(rows, rows + zeros):
        own[row] = own[row].astype("<u4")[:64].view(np.uint8)
    at = rows + zeros
    # A power of two and odd numerators: no output lies between two integers.
    spread = (1 + noise(128, at) / 256.0) * (one.scale if one.scale != 1.0 else 2.0**-14)
    own[at : at + 2] = spread.astype("<f4").view(np.uint8).reshape(2, 256)
    bias = (noise(128, at + 1).astype("<i4") - 128) * 31
    own[at + 2 : at + 4] = bias.view(np.uint8).reshape(2, 256)


# --- conversions ---------------------------------------------------------------------------------


def _to_narrow(one: WideToNarrow) -> Draft:
    row, rows = _bounds(sequence(one.wide).addresses, _MOST_ROWS, "rows")
    wide = _moved(one.wide, FIRST_ROW - row)
    if one.to_scaling:
        return _to_scaling(replace(one, wide=wide), rows)
    word, words = _bounds(
        sequence(one.narrow, one.prefix).addresses, _MOST_WORDS, "words of output"
    )
    prefix = one.prefix
    if prefix is not None:
        shift = _OUT - word
        prefix = replace(prefix, base=prefix.base + shift, end=prefix.end + shift)
    moved = replace(one, wide=wide, narrow=_moved(one.narrow, _OUT - word), prefix=prefix)
    sketch = Sketch()
    data = _noise_rows(rows, form(one))
    sketch.load(len(data) // 256, tiles=_NAME)
    _fill(sketch, _OUT, _even(words))
    _emit(sketch, moved)
    sketch.result(_OUT, 4 * _even(words), tile=_NAME)
    return Draft(moved, sketch, data)


def _to_scaling(one: WideToNarrow, rows: int) -> Draft:
    """Scales and biases, which a convolution shows."""
    entries = sequence(one.narrow, one.prefix).addresses
    order = sequence(one.wide).addresses - FIRST_ROW
    if one.prefix is not None or len(entries) != 32 * len(order):
        raise UnreachableError("entries of scaling memory from parts of rows")
    # Rows of the instruction, two of scales, two of biases, two of zero points, weights, inputs.
    usual, zeros, weights = FIRST_ROW + rows, FIRST_ROW + rows + 4, FIRST_ROW + rows + 6
    inputs = weights + 12
    data = _noise_rows(rows + 20, form(one))
    own = data.reshape(-1, 256)
    kinds = np.zeros(rows + 4, bool)
    kinds[order] = entries[::32] >= 64
    kinds[rows + 2 :] = True
    for row, biases in enumerate(kinds):
        some = noise(64, row + 3)
        words = (some.astype("<i4") - 128) * 57 if biases else (2.0 * some + 1) * 2.0**-21
        own[row] = np.asarray(words, "<i4" if biases else "<f4").view(np.uint8)
    for row in range(rows + 4, rows + 6):
        own[row] = own[row][:64].astype("<u4").view(np.uint8)
    sketch = Sketch()
    sketch.load(len(own), tiles=_NAME)
    sketch.unpack(inputs, 2, 0, tiles=_NAME)
    sketch.unpack(inputs, 2, OUT + 64, tiles=_NAME)
    for slot in range(2):
        sketch.scaling(usual + slot, 32 * slot, tiles=_NAME)
        sketch.scaling(usual + 2 + slot, 64 + 32 * slot, tiles=_NAME)
    _emit(sketch, one)
    show_blocks(sketch, weights, zeros, tiles=_NAME)
    return Draft(one, sketch, data)


def _to_wide(one: NarrowToWide) -> Draft:
    if one.base_from_register:
        raise UnreachableError("a base from a register")
    partial = 0 if one.transpose is Transpose.NONE else 1
    word, words = _bounds(
        sequence(one.narrow, None, partial).addresses, _MOST_WORDS, "words of input"
    )
    row, rows = _bounds(sequence(one.wide).addresses, 64, "rows")
    moved = replace(
        one, narrow=_moved(one.narrow, _IN - word), wide=_moved(one.wide, RESULT_ROW - row)
    )
    sketch = Sketch()
    count = rows + rows % 2 if rows > 1 else 1
    need = max(2, -(-words // ROW_WORDS))
    data = _noise_rows(need, form(one))
    sketch.load(len(data) // 256, tiles=_NAME)
    sketch.unpack(FIRST_ROW, need, _IN, tiles=_NAME)
    for number in range(count):
        sketch.pack(_IN, ROW_WORDS, row=RESULT_ROW + number, tiles=_NAME)
    _emit(sketch, moved)
    sketch.send(256 * count, row=RESULT_ROW, tile=_NAME)
    return Draft(moved, sketch, data)


# --- ring and mesh -------------------------------------------------------------------------------


def _consume(one: RingConsume) -> Draft:
    walk = sequence(one.wide, one.prefix)
    row, rows = _bounds(walk.addresses, _MOST_SUMS, "rows")
    total = len(walk)
    if not 2 <= total <= _MOST_ROWS:
        raise UnreachableError(f"{total} rows of the ring", reason=f"probes send 2 to {_MOST_ROWS}")
    shift = RESULT_ROW - row
    prefix = one.prefix
    if prefix is not None:
        prefix = replace(prefix, base=prefix.base + shift, end=prefix.end + shift)
    moved = replace(one, wide=_moved(one.wide, shift), prefix=prefix)
    sketch = Sketch()
    data = _noise_rows(total, form(one))
    sketch.load(len(data) // 256, tiles=f"r0c0+{_NAME}")
    count = rows + rows % 2 if rows > 1 else 1
    sketch.unpack(FIRST_ROW, 16, 0, tiles=_NAME)
    for number in range(count):
        sketch.pack(64 * (number % 15), ROW_WORDS, row=RESULT_ROW + number, tiles=_NAME)
    channel = int(one.op is Opcode.RING_CONSUME_B)
    flag = "ring_producer_b" if channel else "ring_producer_a"
    sketch.asm("tile_fence tiles=all idle=all")
    sketch.asm("\n".join(instruction_lines(moved)))
    sketch.asm(
        f"""
        ring_produce tiles=r0c0 token=@0{" channel=1" if channel else ""} destination={_NAME}
            wide: {FIRST_ROW} [{total}*1]
            wait: {flag}>=0+1*i@1"""
    )
    sketch.tokens[channel] += total
    sketch.send(256 * count, row=RESULT_ROW, tile=_NAME)
    return Draft(moved, sketch, data)


def _produce(one: RingProduce) -> Draft:
    walk = sequence(one.wide, one.prefix)
    row, rows = _bounds(walk.addresses, _MOST_ROWS, "rows")
    total = len(walk)
    if one.prefix is not None or not 1 <= total <= _MOST_ROWS:
        raise UnreachableError(f"{total} rows of the ring", reason=f"probes take {_MOST_ROWS}")
    moved = replace(
        one,
        wide=_moved(one.wide, FIRST_ROW - row),
        destination=0 if one.to_outfeed else 1,
    )
    sketch = Sketch()
    data = _noise_rows(rows, form(one))
    sketch.load(len(data) // 256, tiles=_NAME)
    sketch.asm("tile_fence tiles=all idle=all")
    if one.to_outfeed:
        sketch.descriptor("output", "y", 256 * total)
        sketch.outfeed(256 * total)
    elif one.channel and total > 1:
        sketch.asm(
            f"""
            ring_consume_b tiles=r0c0 ring_read=@1
                wide: {RESULT_ROW} [{total}*1]
                wait: parameters>=-1+1*i@1 write"""
        )
    elif one.channel:
        raise UnreachableError("a single row of channel B")
    else:
        sketch.consume(RESULT_ROW, total)
    _emit(sketch, moved)
    if one.token is not None and one.token.valid:
        sketch.tokens[one.channel] += len(walk.ends(one.token.level))
    if not one.to_outfeed:
        count = total - total % 2 if total > 1 else 1
        sketch.send(256 * count, row=RESULT_ROW)
    return Draft(moved, sketch, data)


def _feed(one: Infeed) -> Draft:
    if one.memory is not InfeedMemory.PARAMETER or one.token is not None:
        raise UnreachableError("an infeed of activations or of scalar memory")
    walk = sequence(one.buffer)
    first, _ = _bounds(walk.addresses, _MOST_STEPS, "units")
    size = len(walk) * UNIT_BYTES
    # A form tells one word, all words and any other number of words apart.
    words = one.row_words if one.row_words in (1, ROW_WORDS) else ROW_WORDS - 16
    rows = -(-size // (4 * words))
    if rows > _MOST_ROWS or rows < 2:
        raise UnreachableError(f"{rows} rows of the ring", reason=f"probes take {_MOST_ROWS}")
    waits = tuple(
        replace(watcher, threshold=1)
        if watcher is not None and watcher.flag == ScalarFlag.PARAMETER_POP
        else _open(watcher)
        for watcher in one.wait
    )
    moved = replace(
        one,
        buffer=_moved(one.buffer, -first),
        destination=1 << _TILE,
        row_words=words,
        wait=waits,
    )
    sketch = Sketch()
    data = _noise_rows(rows + rows % 2, form(one))
    sketch.load(len(data) // 256, row=RESULT_ROW, tiles=_NAME)
    sketch.stream(_noise_rows(-(-size // 256), "parameters " + form(one))[:size].tobytes())
    sketch.consume(RESULT_ROW, rows, tiles=_NAME)
    sketch.asm("\n".join(instruction_lines(moved)))
    sketch.fence()
    sketch.handshake()
    sketch.send(256 * (rows + rows % 2), row=RESULT_ROW, tile=_NAME)
    return Draft(moved, sketch, data)


def _mesh(one: Mesh) -> Draft:
    to, source = _SIDES[one.op]
    name = one.op.name.lower()
    sketch = Sketch()
    data = _noise_rows(17, form(one))
    sketch.load(17, tiles=f"{_NAME}+{source}")
    sketch.unpack(FIRST_ROW, 16, 0, tiles=f"{_NAME}+{source}")
    changes: dict[str, Any] = {}
    sent = received = 0
    sends = one.send is not None or (one.sent is not None and one.sent.valid)
    if sends:
        if one.send is None:
            raise UnreachableError("a half whose words all zero bits name")
        word, _ = _bounds(sequence(one.send).addresses, 1024, "words")
        changes["send"] = _moved(one.send, _IN - word)
        sent = len(sequence(one.send))
    receives = (
        one.fill or one.receive is not None or (one.received is not None and one.received.valid)
    )
    size = 0
    if receives:
        if one.receive is None:
            raise UnreachableError("a half whose words all zero bits name")
        word, size = _bounds(sequence(one.receive).addresses, 1024, "words")
        changes["receive"] = _moved(one.receive, _OUT - word)
        received = 0 if one.fill else len(sequence(one.receive))
    if 1 in (sent, received):
        raise UnreachableError("a single word", reason="published forms move several")
    if one.fill:
        changes["fill_word"] = 0x12345678
    moved = replace(one, **changes)
    if size:
        _fill(sketch, _OUT, _even(size))
    if sent:
        sketch.asm(f"{name} tiles={to}\n    receive: {_IN} [{sent}*1]")
    if received:
        sketch.asm(f"{name} tiles={source}\n    send: 16 [{received}*1]")
    sketch.asm("\n".join(instruction_lines(moved)))
    sketch.asm("tile_fence tiles=all idle=all")
    if size:
        sketch.result(_OUT, 4 * _even(size), tile=_NAME, name="y")
    if sent:
        words = sent if sent < ROW_WORDS else sent - sent % ROW_WORDS
        words = words - words % 2 if words < ROW_WORDS else words
        rows = words // ROW_WORDS
        words = words if rows < 2 else ROW_WORDS * (rows - rows % 2)
        sketch.result(_IN, 4 * max(words, 2), tile=to, name="z" if size else "y")
    return Draft(moved, sketch, data)


# --- the scalar core -----------------------------------------------------------------------------

_FLOATS = (Alu.FADD, Alu.FSUB, Alu.FMUL, Alu.FMAX, Alu.FMIN, Alu.F2I)
_PLACE = {"load": 0x80, "store": 0x90}


def _placed(one: Scalar) -> Scalar:
    """The bundle with operands in registers and words that the probe sets."""
    changes: dict[str, Any] = {
        "a": 0,
        "to": 1 if one.alu in COMPARES else 12,
        "immediate": (0x40100000 if one.alu in _FLOATS else 5) if one.immediate_b else 1,
        "special_from": 2,
        "special_to": 13,
        "load_to": 14,
        "store_from": 3,
        "predicate": 0,
    }
    for slot, register in (("load", 6), ("store", 7)):
        if getattr(one, slot) in (Load.REGISTER, Load.INCREMENT):
            step = 1 if getattr(one, slot) == Load.INCREMENT else 0
            changes[f"{slot}_address"] = Indexed(register, step).pack()
        else:
            changes[f"{slot}_address"] = _PLACE[slot]
    for empty, names in (
        (one.alu is Alu.NOP, ("a", "to", "immediate")),
        (one.special is Special.NONE, ("special_from", "special_to")),
        (one.load is Load.NONE, ("load_to", "load_address")),
        (one.store is Store.NONE, ("store_from", "store_address")),
    ):
        if empty:
            changes.update(dict.fromkeys(names, 0))
    return replace(one, **changes)


def _bundle(one: Scalar) -> Draft:
    if one.store in (Store.PUSH, Store.DESCRIPTOR, Store.ISSUE):
        raise UnreachableError("a bundle that speaks to the host")
    floats = one.alu in _FLOATS or one.special is not Special.NONE
    moved = _placed(one)
    words = (0xC0490FDB, 0x3FC00000, 0x40200000) if floats else (0x00012345, 3, 0x40200000)
    sketch = Sketch()
    sketch.asm(
        f"""
        mov s5, 0x5a5a1234
        mov s6, {_PLACE["load"]}
        mov s7, {_PLACE["store"]}
        nop
        store [s6], s5
        nop
        nop
        nop
        store [s7], s5
        scalar_fence idle=pipeline
        mov s0, {words[0]}
        mov s1, {words[1]}
        mov s2, {words[2]}
        mov s3, 0x77665544
        mov s12, 0
        mov s13, 0
        mov s14, 0
        lt p0, s12, {1 if one.sense else 0}
        lt p1, s12, 0
        nop
        nop
        nop"""
    )
    sketch.asm("\n".join(instruction_lines(moved)))
    sketch.gap(6)
    sketch.asm("(p1) add s12, s12, 1" if one.alu in COMPARES else "nop")
    sketch.asm(f"mov s1, s6\nmov s2, s7\nmov s7, {_PLACE['store']}\nnop\nload s15, [s7]")
    sketch.gap(4)
    sketch.asm("scalar_fence idle=outfeed")
    sketch.descriptor("output", "y", 32)
    for result in ("s12", "s13", "s14", "s15", "s0", "s1", "s2", "s3"):
        sketch.asm(f"push {result}")
    return Draft(moved, sketch, np.zeros(0, np.uint8))


_MAKERS: Mapping[type[Instruction], Callable[[Any], Draft]] = {
    TensorOp: _tensor,
    WideToNarrow: _to_narrow,
    NarrowToWide: _to_wide,
    RingConsume: _consume,
    RingProduce: _produce,
    Infeed: _feed,
    Mesh: _mesh,
    Scalar: _bundle,
}

# --- the probes ----------------------------------------------------------------------------------


def slug_of(text: str) -> str:
    """Name of the probe of a form."""
    opcode = text.split(" ", 1)[0].replace("_", "-")
    return f"form-{opcode}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def probe_of(instruction: Instruction) -> Probe:
    """The probe of an instruction; its answer is the simulator's.

    Raises:
        UnreachableError: there is none.
    """
    made = draft(instruction)
    text = form(made.instruction)
    slug = slug_of(text)
    ring = isinstance(instruction, RingConsume | RingProduce | Mesh)
    return Probe(
        slug,
        f"a form of {made.instruction.op.name.lower()} that no published program has",
        f"whether a chip executes an instruction of the form {text!r} as its fields say",
        Risk.MEDIUM if ring else Risk.LOW,
        made.sketch.text(slug),
        {"x": as_bytes(made.data)} if len(made.data) else {},
        None,
        form=text,
        properties=_left(made.instruction),
    )


def _left(instruction: Instruction) -> tuple[str, ...]:
    """Properties of published programs that every program with such an instruction leaves."""
    if not isinstance(instruction, Scalar):
        return ()
    alone = sum(
        (
            instruction.alu is not Alu.NOP,
            instruction.load is not Load.NONE,
            instruction.store is not Store.NONE,
        )
    )
    left = []
    if instruction.load is not Load.NONE and instruction.alu is not Alu.NOP:
        left.append("scalar-load-alone")
    if instruction.special is not Special.NONE and alone:
        left.append("special-unit-spacing")
    return tuple(left)


@cache
def exemplars() -> tuple[Instruction, ...]:
    """An instruction of every form that is probed."""
    text = resources.files("fitzroy.driver.probe.suite").joinpath(EXEMPLARS)
    parser = ChunkParser(EXEMPLARS)
    for number, line in enumerate(text.read_text(encoding="ascii").splitlines(), 1):
        bare = uncommented(line)
        if bare.strip():
            parser.line(number, bare)
    # Between START and END.
    return tuple(parser.finish().instructions[1:-1])


def probes() -> Iterator[Probe]:
    """Probes of all forms that were collected."""
    for instruction in exemplars():
        yield probe_of(instruction)
