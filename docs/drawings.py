"""Drawings of the documentation: SVG from the declarations of the chip and from simulated runs.

The drawings follow the colors of the page that shows them in light and dark, because their texts
and lines have the color ``#808080`` where it matters and pale fills elsewhere.
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
_FILLS = ("#00968855", "#3f51b555", "#ff980055", "#e91e6355", "#8bc34a55", "#79554855")
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


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


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
    yield _box(x, y, _TILE, _TILE, "none")
    yield _text(x + 6, y + 15, f"tile {BEAGLE.tiles.columns * row + column}")
    products = BEAGLE.compute.lanes * BEAGLE.compute.multipliers
    lines = (f"narrow {_kibibytes(narrow)}", f"wide {_kibibytes(wide)}", f"{products} MACs/cycle")
    for index, line in enumerate(lines):
        top = y + 22 + 32 * index
        yield _box(x + 6, top, _TILE - 12, 27, _FILLS[index])
        yield _text(x + _TILE / 2, top + 18, line, "middle")


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
        yield _box(10, 70, 100, 34, "none")
        yield _text(60, 91, "host", "middle")
        for x, y, text, fill in boxes:
            width = 110 if x == 620 else 170
            yield _box(x, y, width, 34, _FILLS[fill])
            yield _text(x + width / 2, y + 21, text, "middle")
        yield _text(390, 184, "outfeed: outputs", "middle")

    return _svg(740, 200, "host, queues, scalar core, ring bus and tiles", parts())


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
                    yield _text(x + 4, y + 15, text)
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
    "engines.svg": engines,
    "instruction.svg": instruction,
}
"""What makes each drawing, by its name in the folder ``drawings`` of the site."""
