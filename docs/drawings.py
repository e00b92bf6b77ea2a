"""Drawings of the documentation: SVG from the declarations of the chip and from simulated runs.

The drawings fit pages in light and dark: what stands on the page is gray, which shows on both, and
what stands on a pale fill is dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import fitzroy
from fitzroy.api import EdgeTpuProgram
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.timeline import Timeline

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "examples" / "models" / "digits.tflite"

_INK = "#808080"
_FILLS = ("#a9dcd6", "#bcc5ea", "#ffd9a6", "#f7b3cb", "#cfe5b3", "#cfc4bf")
_PLAIN = "#e8eaec"
_DARK = "#1f2328"
"""Of texts on fills."""

_TILE = 120
_GAP = 26


def _svg(width: float, height: float, label: str, parts: Iterator[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(label)}" font-family="sans-serif" font-size="11" fill="{_INK}">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _box(x: float, y: float, width: float, height: float, fill: str, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
        f'fill="{fill}" stroke="{_INK}" stroke-width="0.6">{title}</rect>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", *, dark: bool = False) -> str:
    color = f' fill="{_DARK}"' if dark else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{color}>{escape(text)}</text>'


def _label(x: float, y: float, text: str) -> str:
    """Text in the middle of a box."""
    return _text(x, y, text, "middle", dark=True)


def _line(x1: float, y1: float, x2: float, y2: float, color: str, width: float = 2) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" '
        f'stroke-width="{width:g}"/>'
    )


def _kibibytes(count: int) -> str:
    return f"{count / 1024:,.0f} KiB"


def _tile(row: int, column: int, x: float, y: float) -> Iterator[str]:
    memories = BEAGLE.memories
    narrow = memories.narrow.elements * memories.narrow.element_bytes
    wide = memories.wide.elements * memories.wide.element_bytes
    yield _box(x, y, _TILE, _TILE, _PLAIN)
    yield _text(x + 6, y + 15, f"tile {BEAGLE.tiles.columns * row + column}", dark=True)
    products = BEAGLE.compute.lanes * BEAGLE.compute.multipliers
    lines = (f"narrow {_kibibytes(narrow)}", f"wide {_kibibytes(wide)}", f"{products} MACs/cycle")
    for index, line in enumerate(lines):
        top = y + 22 + 32 * index
        yield _box(x + 6, top, _TILE - 12, 27, _FILLS[index])
        yield _label(x + _TILE / 2, top + 18, line)


def grid() -> str:
    """The tiles with their memories, and the mesh between neighbours."""
    step = _TILE + _GAP
    rows, columns = BEAGLE.tiles.rows, BEAGLE.tiles.columns

    def parts() -> Iterator[str]:
        for row in range(rows):
            for column in range(columns):
                x, y = 8.0 + step * column, 8.0 + step * row
                if column + 1 < columns:
                    yield _line(x + _TILE, y + 60, x + step, y + 60, "#e91e63")
                if row + 1 < rows:
                    yield _line(x + 60, y + _TILE, x + 60, y + step, "#e91e63")
                yield from _tile(row, column, x, y)

    size = 16 - _GAP
    label = f"{rows} x {columns} tiles, each with narrow and wide memory, joined by a mesh"
    return _svg(size + step * columns, size + step * rows, label, parts())


def flow() -> str:
    """The way of instructions, parameters and activations between host and tiles."""
    memories = BEAGLE.memories
    instructions = memories.instruction.elements * memories.instruction.element_bytes
    parameters = memories.parameter_buffer.elements * memories.parameter_buffer.element_bytes
    activations = memories.activation_buffer.elements * memories.activation_buffer.element_bytes
    boxes = (
        (180, 10, f"instructions {_kibibytes(instructions)}", 0),
        (180, 70, f"parameter buffer {_kibibytes(parameters)}", 1),
        (180, 130, f"activation buffer {_kibibytes(activations)}", 2),
        (400, 10, "scalar core", 3),
        (400, 100, f"ring bus, {BEAGLE.limits.ring_channels} channels", 4),
        (620, 70, f"{BEAGLE.tiles.count} tiles", 5),
    )

    def parts() -> Iterator[str]:
        for x1, y1, x2, y2 in (
            (110, 85, 180, 27),
            (110, 90, 180, 87),
            (110, 95, 180, 147),
            (350, 27, 400, 27),
            (350, 87, 400, 112),
            (350, 147, 400, 122),
            (570, 27, 620, 80),
            (570, 117, 620, 95),
            (110, 100, 130, 190),
            (130, 190, 640, 190),
            (640, 190, 655, 104),
        ):
            yield _line(x1, y1, x2, y2, _INK, 1.2)
        yield _box(10, 70, 100, 34, _PLAIN)
        yield _label(60, 91, "host")
        for x, y, text, fill in boxes:
            width = 110 if x == 620 else 170
            yield _box(x, y, width, 34, _FILLS[fill])
            yield _label(x + width / 2, y + 21, text)
        yield _text(390, 184, "outfeed: outputs", "middle")

    return _svg(740, 200, "host, queues, scalar core, ring bus and tiles", parts())


def _arrow(points: tuple[tuple[float, float], ...], color: str = _INK) -> str:
    """A line through points with a head at its last."""
    (x1, y1), (x2, y2) = points[-2:]
    length = max(abs(x2 - x1), abs(y2 - y1)) or 1.0
    along, across = (x2 - x1) / length, (y2 - y1) / length
    head = " ".join(
        f"{x2 - 7 * along + side * across:g},{y2 - 7 * across - side * along:g}" for side in (4, -4)
    )
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    return (
        f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.4"/>'
        f'<polygon points="{x2:g},{y2:g} {head}" fill="{color}"/>'
    )


def tile() -> str:
    """The memories of a tile, and the engines that move data between them."""
    memories = BEAGLE.memories
    sizes = {
        name: _kibibytes(memory.elements * memory.element_bytes)
        for name, memory in (
            ("narrow", memories.narrow),
            ("wide", memories.wide),
            ("scaling", memories.scaling),
        )
    }
    boxes = (
        (20, 20, 150, 50, "the four neighbors", "", _PLAIN),
        (250, 20, 220, 50, f"narrow memory, {sizes['narrow']}", "activations", _FILLS[0]),
        (
            250,
            140,
            220,
            50,
            f"op: {BEAGLE.compute.lanes} lanes x {BEAGLE.compute.multipliers} multipliers",
            "with the output stage",
            _FILLS[2],
        ),
        (20, 140, 150, 50, f"scaling memory, {sizes['scaling']}", "scales, biases", _FILLS[3]),
        (250, 260, 220, 50, f"wide memory, {sizes['wide']}", "weights, partial sums", _FILLS[1]),
        (250, 380, 220, 40, "ring bus", "", _PLAIN),
    )
    arrows: tuple[tuple[tuple[tuple[float, float], ...], str], ...] = (
        (((170, 36), (250, 36)), "#e91e63"),
        (((250, 56), (170, 56)), "#e91e63"),
        (((330, 70), (330, 140)), _INK),
        (((430, 140), (430, 70)), _INK),
        (((330, 260), (330, 190)), _INK),
        (((170, 165), (250, 165)), _INK),
        (((250, 285), (95, 285), (95, 190)), _INK),
        (((470, 275), (520, 275), (520, 56), (470, 56)), _INK),
        (((470, 34), (640, 34), (640, 296), (470, 296)), _INK),
        (((290, 380), (290, 310)), "#7986cb"),
        (((350, 380), (350, 310)), "#7986cb"),
        (((430, 310), (430, 380)), "#7986cb"),
    )
    texts = (
        (210, 12, "mesh, 4 engines", "middle"),
        (324, 110, "activations", "end"),
        (436, 110, "results", "start"),
        (324, 230, "weights", "end"),
        (210, 158, "per channel", "middle"),
        (101, 240, "wide to narrow", "start"),
        (526, 170, "wide to narrow", "start"),
        (646, 170, "narrow to wide", "start"),
        (284, 350, "consume a", "end"),
        (344, 350, "b", "end"),
        (436, 350, "produce", "start"),
    )

    def parts() -> Iterator[str]:
        for points, color in arrows:
            yield _arrow(points, color)
        for x, y, width, height, title, detail, fill in boxes:
            yield _box(x, y, width, height, fill)
            yield _label(x + width / 2, y + height / 2 + (-3 if detail else 4), title)
            yield _label(x + width / 2, y + height / 2 + 13, detail)
        for x, y, text, anchor in texts:
            yield _text(x, y, text, anchor)

    return _svg(740, 430, "memories and engines of a tile", parts())


def array() -> str:
    """What the MAC array of a tile does in a cycle, and what becomes of a sum."""
    lanes, multipliers = BEAGLE.compute.lanes, BEAGLE.compute.multipliers
    shown: tuple[int | None, ...] = (0, 1, 2, None, lanes - 1)
    stage = ("+ bias", "x scale", "clamp", "+ zero point")

    def parts() -> Iterator[str]:
        yield _text(10, 20, f"a word of narrow memory: {multipliers} activations")
        for place in range(multipliers):
            x = 90.0 + 62 * place
            yield _box(x, 30, 52, 24, _FILLS[0])
            yield _label(x + 26, 46, f"x{place}")
            yield _arrow(((x + 26, 54), (x + 26, 84)))
        yield _text(345, 76, "every lane gets the same activations")
        for row, lane in enumerate(shown):
            y = 86.0 + 32 * row
            if lane is None:
                yield _text(70, y + 16, "...", "end")
                continue
            yield _text(80, y + 16, f"lane {lane}", "end")
            for place in range(multipliers):
                x = 90.0 + 62 * place
                yield _box(x, y, 52, 24, _FILLS[1])
                yield _label(x + 26, y + 16, f"x w{place}")
            yield _arrow(((90 + 62 * multipliers - 10, y + 12), (370, y + 12)))
            yield _box(370, y, 90, 24, _FILLS[2])
            yield _label(415, y + 16, "sum += ...")
        bottom = 86.0 + 32 * len(shown)
        yield _text(90, bottom + 14, f"a row of wide memory: {lanes} x {multipliers} weights")
        for place, text in enumerate(stage):
            y = 86.0 + 38 * place
            yield _box(540, y, 110, 26, _FILLS[3])
            yield _label(595, y + 17, text)
            if place:
                yield _arrow(((595, y - 12), (595, y)))
        yield _arrow(((460, 98), (540, 98)))
        yield _text(500, 90, "at the end", "middle")
        end = 86.0 + 38 * len(stage)
        yield _arrow(((595, end - 12), (595, end + 10)))
        yield _text(595, end + 26, "8-bit results, four to a word", "middle")

    label = f"{lanes} lanes, each with {multipliers} weights and a sum, and the output stage"
    return _svg(740, 290, label, parts())


def buses() -> str:
    """The ring, which reaches all tiles, and the mesh, which joins neighbours."""
    rows, columns = BEAGLE.tiles.rows, BEAGLE.tiles.columns
    blue, pink, step, size = "#7986cb", "#e91e63", 66, 40

    def parts() -> Iterator[str]:
        yield _text(10, 18, "Ring: rows to any set of tiles")
        for channel in range(BEAGLE.limits.ring_channels):
            y = 60.0 + 16 * channel
            yield _arrow(((70, y), (370, y)), blue)
            yield _text(64, y + 4, f"channel {'ab'[channel]}", "end")
        yield _text(20, 44, "infeed")
        yield _text(352, 44, "outfeed")
        for number in range(rows * columns):
            row, column = divmod(number, columns * 2)
            x, y = 84.0 + 34 * column, 120.0 + 60 * row
            yield _line(x + 13, 76 if row == 0 else y - 34, x + 13, y, blue, 0.8)
            yield _box(x, y, 26, 26, _FILLS[5])
            yield _label(x + 13, y + 17, str(number))
        yield _text(10, 240, "the order of the tiles on the ring does not show in programs")
        yield _text(440, 18, "Mesh: words to four neighbors")
        for row in range(rows):
            for column in range(columns):
                x, y = 450.0 + step * column, 30.0 + step * row
                if column + 1 < columns:
                    yield _line(x + size, y + 20, x + step, y + 20, pink)
                if row + 1 < rows:
                    yield _line(x + 20, y + size, x + 20, y + step, pink)
                yield _box(x, y, size, size, _FILLS[5])
                yield _label(x + 20, y + 24, str(columns * row + column))

    return _svg(740, 290, "the ring bus and the mesh bus", parts())


def division() -> str:
    """How an image is divided among tiles: patches, and the border that a tile needs besides."""
    rows, columns = BEAGLE.tiles.rows, BEAGLE.tiles.columns
    step, left, top, halo = 58.0, 20.0, 30.0, 12.0
    row, column = 1, 2

    def parts() -> Iterator[str]:
        yield _text(left, 18, "an image, divided among the tiles")
        for number in range(rows * columns):
            y, x = top + step * (number // columns), left + step * (number % columns)
            own = number == columns * row + column
            yield _box(x, y, step, step, _FILLS[0] if own else _PLAIN)
            yield _label(x + step / 2, y + step / 2 + 4, f"tile {number}")
        x, y = left + step * column - halo, top + step * row - halo
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{step + 2 * halo:g}" height="{step + 2 * halo:g}" '
            'fill="none" stroke="#e91e63" stroke-width="1.6" stroke-dasharray="5 3"/>'
        )
        text_x, middle = 300.0, y + halo + step / 2
        notes = (
            (60, f"tile {columns * row + column} computes this patch of the output,"),
            (76, "and keeps the same patch of the input in its narrow memory"),
            (136, "a 3 x 3 window reads beyond the patch: the halo comes from the"),
            (152, "neighbors over the mesh"),
            (200, "the weights are the same for all tiles: the ring broadcasts them"),
        )
        yield _line(x + halo + step - 8, middle - 14, text_x - 8, 56, _INK, 0.7)
        yield _line(x + step + 2 * halo, middle + 8, text_x - 8, 132, _INK, 0.7)
        for height, text in notes:
            yield _text(text_x, height, text)

    return _svg(740, 280, "an image divided among tiles, with the halo of one", parts())


@cache
def digits_timeline() -> Timeline:
    """A timed run of the digits model on zeros."""
    compiled = fitzroy.compile(MODEL, target="edgetpu")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "digits_edgetpu.tflite"
        path.write_bytes(compiled.data)
        program = EdgeTpuProgram.load(path)
    inputs = {"image": np.zeros((1, 8, 8, 1), np.int8)}
    return program.timed(program.start(inputs, record=True).finish()).timeline


def engines() -> str:
    """What the engines of one tile do in a run of the digits model."""
    timeline = digits_timeline()
    mine = [span for span in timeline.spans if span.tiles & 1]
    units = sorted({span.unit for span in mine})
    scale = 640 / timeline.cycles

    def parts() -> Iterator[str]:
        for number, unit in enumerate(units):
            y = 12 + 24 * number
            yield _text(112, y + 13, unit.replace("_", " "), "end")
            yield _line(118, y + 18, 760, y + 18, _INK, 0.3)
            for span in mine:
                if span.unit == unit:
                    name = timeline.issued[span.issue].name
                    tip = f"{name}: cycles {span.begin:,.0f} to {span.end:,.0f}"
                    x, width = 118 + span.begin * scale, (span.end - span.begin) * scale
                    yield _box(x, y, width, 16, "none", tip)
                    fill = _FILLS[number % len(_FILLS)]
                    yield _box(x, y, min(span.busy * scale, width), 16, fill, tip)
        bottom = 26 + 24 * len(units)
        yield _text(118, bottom, "0")
        yield _text(758, bottom, f"{timeline.cycles:,.0f} cycles", "end")

    height = 36 + 24 * len(units)
    return _svg(770, height, "engines of tile 0 while the digits model runs", parts())


def instruction() -> str:
    """One convolution of the digits model: its mac, and the instructions that work for it."""
    timeline = digits_timeline()
    macs = [span for span in timeline.spans if span.unit == "op" and span.tiles & 1]
    mac = max(macs, key=lambda span: (span.busy if "ring_read_b" in span.waits else 0, -span.begin))
    beside = [
        span
        for span in timeline.spans
        if span.tiles & 1 and span.begin < mac.end and span.end > mac.begin and span is not mac
    ]
    rows = [*sorted(beside, key=lambda span: (span.begin, span.unit)), mac]
    scale = 520 / (mac.end - mac.begin)

    def parts() -> Iterator[str]:
        for number, span in enumerate(rows):
            y, x = 10.0 + 46 * number, 150.0 + (span.begin - mac.begin) * scale
            yield _text(142, y + 15, timeline.issued[span.issue].name.partition(" ")[0], "end")
            waits = [(f"waits: {why}", cycles) for why, cycles in span.waits.items()]
            for place, (what, cycles) in enumerate([("works", span.busy), *waits]):
                right = x + cycles * scale
                yield _box(x, y, cycles * scale, 22, _FILLS[0] if place == 0 else "none")
                text = f"{what.replace('_', ' ')} {cycles:,.0f}"
                if 6.5 * len(text) < cycles * scale:
                    yield _text(x + 4, y + 15, text, dark=place == 0)
                elif place:
                    yield _text(right, y + 35, text, "end")
                else:
                    yield _text(x, y + 35, text)
                x = right
        yield _text(150, 22 + 46 * len(rows), f"cycles {mac.begin:,.0f} to {mac.end:,.0f}")

    height = 32 + 46 * len(rows)
    return _svg(690, height, "a mac instruction and the instructions that work for it", parts())


DRAWINGS: dict[str, Callable[[], str]] = {
    "grid.svg": grid,
    "flow.svg": flow,
    "tile.svg": tile,
    "array.svg": array,
    "buses.svg": buses,
    "division.svg": division,
    "engines.svg": engines,
    "instruction.svg": instruction,
}
"""What makes each drawing, by its name in the folder ``drawings`` of the site."""
