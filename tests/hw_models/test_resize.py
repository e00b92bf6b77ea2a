"""The resize instruction, in the forms that published programs have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.hw_models.instruction_fields import narrow, wide
from tests.hw_models.test_edgetpu_engines import DONE, RESET, Memory, program

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu import resize as unit
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.memory import NARROW_WORDS
from fitzroy.hw_models.edgetpu.occupancy import occupancy
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.resize import resize_plan
from fitzroy.hw_models.edgetpu.timing.work import tile_work
from fitzroy.hw_models.edgetpu.unknown import KNOWN, known_bytes
from fitzroy.hw_models.edgetpu.verifier.record import record
from fitzroy.hw_models.edgetpu.verifier.verify import verify
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import Producer, Watcher
from fitzroy.hw_models.isa.program import assemble, chunk, disassemble
from fitzroy.hw_models.isa.tensor import Resize
from fitzroy.hw_models.isa.text import ChunkParser, instruction_lines
from fitzroy.hw_models.isa.traversal import BYTES, QUARTERS, traversal
from fitzroy.hw_models.numerics.resize import Sampling, resize_nearest

IMAGE, OUTPUT = 0x1000, 0x8000
"""Byte addresses."""


def doubled(
    size: tuple[int, int], channels: int, start: tuple[int, int], *, nearest: bool
) -> Resize:
    """A resize to `size`, width and height, of an image with one pixel around it."""
    (width, height), groups = size, channels // 4
    columns, rows = width // 2 + 2, height // 2 + 2
    taps = 1 if nearest else 2
    count = width * height * groups
    x_pitch, y_pitch = channels, channels * columns
    return Resize(
        tiles=1,
        loops=(taps, taps, width, height, 1, groups, 1, 1),
        a=traversal(
            IMAGE,
            [(taps, x_pitch), (taps, y_pitch), (width, 0), (height, 0),
             (1, y_pitch * rows), (groups, 4)],
            rank=BYTES.rank,
        ),
        b=traversal(
            OUTPUT,
            [(1, 4), (width, channels), (height, width * channels), (1, 4 * count), (groups, 4)],
            rank=BYTES.rank,
        ),
        d=traversal(0, [(count, 0)] if nearest else [(4, 0), (count, 0)], rank=QUARTERS.rank,
                    ping_pong=(0 if nearest else 1, 4)),
        accumulate=True,
        c16=True,
        idle_multipliers=(False, True, True),
        block_level=5,
        reduction=3,
        lanes=4,
        lanes_last=4,
        scale=1.0 if nearest else 2.0**-14,
        x_loop=2, x_start=start[0], x_step=64,
        y_loop=3, y_start=start[1], y_step=64,
        x_pitch=x_pitch, y_pitch=y_pitch, nearest=nearest,
    )  # fmt: skip


def machine_with(image: Array) -> Machine:
    machine = Machine()
    memory = machine.memory
    memory.narrow_bytes[0, IMAGE : IMAGE + image.size] = image.reshape(-1)
    memory.narrow_known[0, IMAGE // 4 : (IMAGE + image.size) // 4] = KNOWN
    return machine


def execute(op: Resize, machine: Machine) -> Array:
    """The outputs of a resize, uint8[height, width, channels]."""
    machine.run([program([*RESET, op, *DONE])], Memory())
    width, height, groups = op.loops[2], op.loops[3], op.loops[5]
    size = width * height * groups * 4
    data = machine.memory.narrow_bytes[0, OUTPUT : OUTPUT + size]
    return data.reshape(height, width, 4 * groups).copy()


def image(size: tuple[int, int], channels: int) -> Array:
    rng = np.random.default_rng(3)
    shape = (size[1] // 2 + 2, size[0] // 2 + 2, channels)
    return rng.integers(0, 256, shape, np.uint8)


def interpolated(source: Array, size: tuple[int, int], start: tuple[int, int]) -> Array:
    """Bilinear interpolation in exact fractions, ties to even; starts in 1/128 pixel."""
    width, height = size
    columns, rows = (
        np.array([at + 64 * step for step in range(count)])
        for at, count in zip(start, (width, height), strict=True)
    )
    (y, fy), (x, fx) = ((n // 128, n % 128 / 128) for n in (rows, columns))
    fy, fx = fy[:, None, None], fx[None, :, None]
    big = source.astype(np.float64)
    top = big[y][:, x] * (1 - fx) + big[y][:, x + 1] * fx
    low = big[y + 1][:, x] * (1 - fx) + big[y + 1][:, x + 1] * fx
    return np.asarray(np.rint(top * (1 - fy) + low * fy).astype(np.uint8))


@pytest.mark.parametrize("start", [(32, 96), (96, 32), (96, 96)])
@pytest.mark.parametrize(("size", "channels"), [((6, 8), 12), ((12, 4), 4)])
def test_bilinear(size: tuple[int, int], channels: int, start: tuple[int, int]) -> None:
    source, op = image(size, channels), doubled(size, channels, start, nearest=False)
    found = execute(op, machine_with(source))
    assert found.tobytes() == interpolated(source, size, start).tobytes()


def test_the_rounding_of_halves_is_one_decision() -> None:
    # Half of all values of a checkerboard of neighbours are halves.
    source, op = image((6, 6), 4) | 1, doubled((6, 6), 4, (96, 96), nearest=False)
    even = execute(op, machine_with(source))
    with patch.object(unit, "rounded", lambda values: np.floor(values + np.float32(0.5))):
        up = execute(op, machine_with(source))
    assert even.tobytes() == interpolated(source, (6, 6), (96, 96)).tobytes()
    difference = up.astype(int) - even
    assert set(difference.reshape(-1).tolist()) == {0, 1}


def test_nearest_pixels_are_those_of_half_pixel_centres() -> None:
    size, channels = (8, 6), 8
    source = image(size, channels)
    # 97/128 is three quarters of a pixel, and a bias.
    found = execute(doubled(size, channels, (97, 97), nearest=True), machine_with(source))
    inner = source[None, 1:-1, 1:-1]
    wanted = resize_nearest(inner, (size[1], size[0]), Sampling.HALF_PIXEL)
    assert found.tobytes() == wanted.tobytes()


def test_nearest_pixels_of_the_legacy_form_begin_at_the_pixel() -> None:
    size, channels = (8, 6), 8
    source = image(size, channels)
    found = execute(doubled(size, channels, (65, 65), nearest=True), machine_with(source))
    inner = source[None, 1:-1, 1:-1]
    assert found.tobytes() == resize_nearest(inner, (6, 8), Sampling.LEGACY).tobytes()


def test_unknown_pixels_reach_only_what_uses_them() -> None:
    size = (6, 6)
    source, op = image(size, 4), doubled(size, 4, (96, 96), nearest=False)
    machine = machine_with(source)
    # The second byte of the pixel in row 1, column 1.
    machine.memory.origins.reader = "a test"
    pixel = IMAGE // 4 + source.shape[1] + 1
    machine.memory.narrow_known[0, pixel] = 0
    execute(op, machine)
    marks = machine.memory.narrow_known[0, OUTPUT // 4 : OUTPUT // 4 + 36].reshape(6, 6)
    touched = known_bytes(marks) != 0b1111
    assert touched[:3, :3].all()
    assert not touched[3:].any()
    assert not touched[:, 3:].any()
    assert f"narrow word {pixel} of tile 0" in str(machine.memory.origins.of(marks[0, 0]))


@pytest.mark.parametrize("tiles", [(0, 1, 2), (0, 1, 3, 14)])
def test_every_tile_resizes_its_own_pixels(tiles: tuple[int, ...]) -> None:
    size = (6, 8)
    op = replace(doubled(size, 8, (96, 32), nearest=False), tiles=sum(1 << tile for tile in tiles))
    machine = machine_with(image(size, 8))
    held = machine.memory.narrow_bytes
    for tile in tiles[1:]:
        held[tile] = held[0] + np.uint8(tile)
    machine.memory.narrow_known[...] = machine.memory.narrow_known[0]
    found = execute(op, machine)
    assert found.tobytes() == interpolated(image(size, 8), size, (96, 32)).tobytes()
    for tile in tiles:
        alone = machine_with(image(size, 8) + np.uint8(tile))
        wanted = execute(replace(op, tiles=1), alone)
        assert held[tile, OUTPUT : OUTPUT + wanted.size].tobytes() == wanted.tobytes()


def test_operands_are_needed() -> None:
    point = doubled((1, 1), 4, (97, 97), nearest=True)
    for op in (replace(point, a=None), replace(point, b=None)):
        with pytest.raises(SimulationError, match="without an operand"):
            resize_plan(op)


PLAIN = doubled((6, 6), 8, (96, 96), nearest=False)
assert PLAIN.a is not None
assert PLAIN.b is not None
NEAREST = doubled((6, 6), 8, (97, 97), nearest=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_step": 32}, "its x_step is 32, known is 64"),
        ({"y_step": 128}, "its y_step is 128"),
        ({"x_loop": 3}, "its x_loop is 3"),
        ({"y_loop": 2}, "its y_loop is 2"),
        ({"x_start": 64}, "its x_start is 64, known is 32 or 96"),
        ({"y_start": 33}, "its y_start is 33"),
        ({"scale": 1.0}, "its scale is 1.0"),
        ({"nearest": True}, "its scale is"),
        ({"a_zero_point": 128}, "its a_zero_point is 128"),
        ({"lanes": 8}, "its lanes is 8"),
        ({"output16": True}, "its output16 is True"),
        ({"avdata": Producer(3)}, "its avdata is"),
        ({"wait": (Watcher(0, 1, 1), *PLAIN.wait[1:])}, "its wait is"),
        ({"loops": (2, 2, 6, 6, 1, 2, 2, 1)}, "its order of loops is"),
        ({"b": replace(PLAIN.b, fifo_step=4)}, "its traversal of b is"),
        ({"b": replace(PLAIN.b, base=4 * NARROW_WORDS - 4)}, "outside narrow memory"),
        ({"a": replace(PLAIN.a, base=IMAGE + 1)}, "multiples of 4"),
    ],
)
def test_what_no_program_has_is_refused(change: dict[str, Any], message: str) -> None:
    op = replace(PLAIN, **change)
    with pytest.raises(SimulationError) as caught:
        execute(op, machine_with(image((6, 6), 8)))
    assert message in str(caught.value)
    with pytest.raises(SimulationError):
        verify(record([program([*RESET, op, *DONE])]), [])


@pytest.mark.parametrize("op", [PLAIN, NEAREST])
def test_text_and_bits_come_back(op: Resize) -> None:
    body = chunk([op])
    assert disassemble(assemble(body)) == body
    parser = ChunkParser()
    for number, line in enumerate(instruction_lines(op)):
        parser.line(number, line.partition(";")[0].strip())
    assert parser.finish().instructions == body


def test_a_resize_is_ordered_by_fences() -> None:
    reader = NarrowToWide(tiles=1, narrow=narrow(OUTPUT // 4, (8, 1)), wide=wide(9), pack_level=1)
    fence = TileFence(tiles=1, idle=0x3FF)
    assert not verify(record([program([*RESET, PLAIN, fence, reader, *DONE])]), [])
    (found,) = verify(record([program([*RESET, PLAIN, reader, *DONE])]), [])
    assert found.rule == "hazard"


def test_a_resize_has_its_memory_and_an_estimate_of_its_time() -> None:
    machine = machine_with(image((6, 6), 8))
    machine.recording = Recording()
    execute(PLAIN, machine)
    plan = resize_plan(PLAIN)
    found = occupancy(machine.recording)
    assert int(found.narrow.peak[0]) == len(np.unique(plan.words)) + len(plan.b)
    issue = Issue(PLAIN, 0, 0, plan=plan)
    (work,) = tile_work(issue)
    assert (work.elements, work.rate) == (4 * 72, BEAGLE.timing.resize_step)
