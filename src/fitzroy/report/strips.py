"""An inference of a compiled model as strips from left to right: its parts, and layers of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitzroy.report import units
from fitzroy.report.elements import LEGEND, color, hint, legend
from fitzroy.report.phases import short_name
from fitzroy.report.run import Run
from fitzroy.report.tables import escaped

_TICKS = 6
"""Most ticks of an axis, for which there is room at 400 pixels."""

_LAST_TICK = 88.0
"""Percent of the width from which the text of a tick stands before it, for lack of room after."""

_LEAST_NAMED = 3.0
"""Percent of the width from which a piece has its name, which would only be letters below."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a strip.

    Attributes:
        length: how long it is, in the unit of the strip.
        tint: its colour, a variable of the style without dashes.
        tip: what the pointer shows.
        label: what stands on it.
        solid: share of its height that is solid.
        operator: name of the operator in the page; empty if it belongs to none.
    """

    length: float
    tint: str
    tip: str
    label: str
    solid: float = 0.0
    operator: str = ""


def timeline(key: str, document: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """The inference by its parts, and each program on the chip by its layers.

    Args:
        key: what the names of operators begin with in the page.
        document: what the compiler did, in full, see `fitzroy.compilation.documents`.
        runs: an inference of each part on the chip.
    """
    whole = document["inference"]
    if not whole:
        return hint("The inference was not timed.")
    pieces, places = _parts(whole["parts"], runs)
    shown = [
        hint(
            "Time goes from left to right. Height of the solid part of a layer: use of the MAC "
            "array; colour: what bounds it. Arrow keys go from layer to layer; a layer that is "
            "chosen is shown in the graph and the tables."
        ),
        _caption(f"Inference, {units.time(whole['total_us'])}"),
        _strip(pieces, "Parts of an inference", "low"),
        _axis(whole["total_us"]),
    ]
    used = {"host", "op"}
    for number, (part, run) in enumerate(zip(document["subgraphs"], runs, strict=True)):
        layers = part["layers"]
        used |= {layer["bound"] for layer in layers}
        total = sum(layer["cycles"] for layer in layers)
        if number < len(places):
            shown.append(_funnel(*places[number]))
        name = "Program on the chip" if len(runs) == 1 else f"Program of subgraph {number}"
        shown += [
            _caption(f"{name}, {units.time(run.chip_time)}"),
            _strip([_layer(key, layer, total) for layer in layers], f"Layers of subgraph {number}"),
            _axis(run.chip_time),
        ]
    shown.append(legend([name for name in LEGEND if name in used]))
    shown.append(f'<p class="status" aria-live="polite" data-status="{key}"></p>')
    return "".join(shown)


def _parts(
    parts: Sequence[Mapping[str, Any]], runs: Sequence[Run]
) -> tuple[list[_Piece], list[tuple[float, float]]]:
    """Pieces of an inference, and where the programs lie in it, as shares of the whole."""
    left = iter(runs)
    pieces: list[_Piece] = []
    spans: list[tuple[float, float]] = []
    at = 0.0
    for part in parts:
        name = f"{part['on']}: {part['what']}"
        run = None if part["on"] == "host" else next(left, None)
        if run is None:
            tint = "host" if part["on"] == "host" else "op"
            pieces.append(_Piece(part["us"], tint, f"{name}, {units.time(part['us'])}", name))
        else:
            pieces += _on_chip(name, run)
            spans.append((at + run.timeline.start, at + run.timeline.start + run.chip_time))
        at += part["us"]
    return pieces, [(begin / at, end / at) for begin, end in spans]


def _on_chip(name: str, run: Run) -> Iterator[_Piece]:
    """What the host does before a program, the program, and what the host does after it."""
    start, chip = run.timeline.start, run.chip_time
    for length, tint, what, label in (
        (start, "host", "the host starts it and sends instructions", "start"),
        (chip, "op", "the program on the chip", name),
        (run.timeline.total - start - chip, "host", "the host reads the outputs", "outputs"),
    ):
        yield _Piece(length, tint, f"{name}, {what}, {units.time(length)}", label)


def _layer(key: str, layer: Mapping[str, Any], total: float) -> _Piece:
    tip = (
        f"{layer['name']}: {layer['cycles']:,.0f} cycles, "
        f"{units.share(layer['cycles'] / total if total else 0.0)}, MAC use "
        f"{units.share(layer['utilization'])}, bound by {layer['bound'] or 'nothing'}"
    )
    known = "" if layer["operator"] is None else f"{key}:{layer['operator']}"
    label = short_name(layer["name"])
    return _Piece(layer["cycles"], color(layer["bound"]), tip, label, layer["utilization"], known)


def _caption(text: str) -> str:
    return f'<p class="caption">{escaped(text)}</p>'


def _strip(pieces: Sequence[_Piece], label: str, kind: str = "") -> str:
    """Pieces one after the other, as wide as they are long."""
    total = sum(piece.length for piece in pieces) or 1.0
    shown, left = [], 0.0
    for piece in pieces:
        width = 100 * piece.length / total
        chosen = f' data-op="{escaped(piece.operator)}"' if piece.operator else ""
        name = f"<span>{escaped(piece.label)}</span>" if width > _LEAST_NAMED else ""
        shown.append(
            f'<button type="button" tabindex="-1"{chosen} title="{escaped(piece.tip)}" style="--c:'
            f'var(--{piece.tint});left:{left:.3f}%;width:{width:.3f}%">'
            f'<i style="height:{100 * min(1.0, piece.solid):.1f}%"></i>{name}</button>'
        )
        left += width
    return (
        f'<div class="strip {kind}" tabindex="0" role="group" aria-label="{escaped(label)}">'
        f"{''.join(shown)}</div>"
    )


def _axis(us: float) -> str:
    """Ticks below a strip of so many microseconds."""
    if us <= 0:
        return ""
    base = 10.0 ** math.floor(math.log10(us / _TICKS))
    step = next(base * factor for factor in (1, 2, 5, 10) if us / (base * factor) <= _TICKS)
    scale, unit = (1e3, "ms") if us >= 1e3 else (1.0, "µs")
    ticks = []
    for number in range(int(us / step) + 1):
        place = 100 * number * step / us
        side = f"right:{100 - place:.3f}%" if place > _LAST_TICK else f"left:{place:.3f}%"
        kind = ' class="before"' if place > _LAST_TICK else ""
        ticks.append(f'<span{kind} style="{side}">{number * step / scale:.6g} {unit}</span>')
    return f'<div class="ticks" aria-hidden="true">{"".join(ticks)}</div>'


def _funnel(begin: float, end: float) -> str:
    """From the place of a program in the inference to the strip of its layers."""
    return (
        '<svg class="funnel" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="M{1000 * begin:.1f} 0H{1000 * end:.1f}L1000 10H0Z"/></svg>'
    )
