"""A compiled model to look into: graph, layers, instructions, memory and time on one page.

Whatever is chosen in one of them is shown in all: an operator with its layers, instructions, bytes
and time; an instruction with its text, its fields and what they mean.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitzroy.base.errors import CapacityError
from fitzroy.hw_models.edgetpu.occupancy import Use
from fitzroy.hw_models.edgetpu.timeline import Span
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.text import instruction_lines
from fitzroy.report import units
from fitzroy.report.elements import LEGEND, file_name, search_box, section
from fitzroy.report.model_graph import model_graph
from fitzroy.report.pages import filled
from fitzroy.report.pages import page as whole_page
from fitzroy.report.phases import (
    ENGINES,
    RESOURCE_OF,
    STREAM_UNITS,
    PhaseFigures,
    busiest_tile,
    members,
    owners,
    phases,
    short_name,
    tile_name,
)
from fitzroy.report.run import Run
from fitzroy.report.strings import Strings, short

MOST_INSTRUCTIONS = 60_000
"""Instructions that a page may have; a browser takes more than a second for more."""

_FOOTER = (
    "Made by fitzroy explore. Times are those of the simulator's timing model, not of a "
    "measurement. Parameters that are loaded once, by a program of their own, are left out."
)


@dataclass(frozen=True)
class Part:
    """A program on the chip.

    Attributes:
        run: an inference of it.
        chunks: its instructions, chunk by chunk, START and END included.
        key: how its operator is known where the operators of its layers are not; empty if they are.
    """

    run: Run
    chunks: Sequence[Sequence[Instruction]]
    key: str = ""


@dataclass(frozen=True)
class Explored:
    """A model to look into.

    Attributes:
        name: its file; not trusted.
        operators: what became of each operator, see `fitzroy.compilation.documents`.
        edges: which of them reads what of which.
        parts: its programs.
    """

    name: str
    operators: Sequence[Mapping[str, Any]]
    edges: Sequence[Mapping[str, Any]]
    parts: Sequence[Part]


def page(explored: Explored) -> str:
    """The explorer of a model as an HTML document.

    Raises:
        CapacityError: its programs have more instructions than a page may have.
    """
    count = sum(len(chunk) for part in explored.parts for chunk in part.chunks)
    if count > MOST_INSTRUCTIONS:
        raise CapacityError(
            f"the programs have {count:,} instructions",
            reason=f"a page takes {MOST_INSTRUCTIONS:,}",
            where=explored.name,
            hint="look at one of them: --package N",
        )
    kinds = _Kinds()
    texts = Strings()
    parts = [_part(part, kinds, texts) for part in explored.parts]
    data = {
        "parts": parts,
        "kinds": kinds.all,
        "texts": texts.all,
        "legend": LEGEND,
        "resources": RESOURCE_OF,
    }
    keys = [part.key for part in explored.parts]
    cycles = _cycles(explored, parts)

    def key(item: Mapping[str, Any]) -> str:
        place = item["subgraph"]
        return (keys[place] if place is not None else "") or f"o{item['index']}"

    main = filled(
        "explorer.html",
        {
            "graph": section(
                "Graph", model_graph(explored.operators, explored.edges, cycles, key), id="graph"
            ),
            "instructions": search_box("find", "instructions"),
        },
    )
    total = sum(part.run.timeline.total for part in explored.parts)
    subtitle = (
        f"{units.some(len(explored.operators), 'operator')} · "
        f"{units.some(len(explored.parts), 'program')} on the chip · "
        f"{units.some(count, 'instruction')} · {units.time(total)}"
    )
    scripts = ("explorer.js",)
    name = file_name(explored.name)
    return whole_page(name, subtitle, main, _FOOTER, scripts=scripts, data=data, kind="explorer")


# --- instructions --------------------------------------------------------------------------------


class _Kinds:
    """Kinds of instructions with the documentation of their fields, each once."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._numbers: dict[type[Instruction], int] = {}

    def __call__(self, kind: type[Instruction]) -> int:
        if kind not in self._numbers:
            self._numbers[kind] = len(self.all)
            self.all.append(
                {
                    "name": kind.__name__,
                    "doc": inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0],
                    "unit": kind.unit,
                    "bundles": kind.bundles(),
                    "fields": [
                        [
                            item.name,
                            item.first,
                            item.width,
                            item.doc,
                            item.unit,
                            item.evidence.value,
                        ]
                        for item in kind.fields()
                    ],
                }
            )
        return self._numbers[kind]


def _instruction(instruction: Instruction, kinds: _Kinds, texts: Strings) -> list[Any]:
    """Kind, text, and the fields that differ from their defaults: number and value."""
    lines = "\n".join(line.strip() for line in instruction_lines(instruction))
    values = [
        part
        for number, item in enumerate(type(instruction).fields())
        if (value := getattr(instruction, item.name)) != item.default
        for part in (number, texts(item.codec.text(value)))
    ]
    return [kinds(type(instruction)), texts(lines), values]


# --- programs ------------------------------------------------------------------------------------


def _cycles(explored: Explored, parts: Sequence[Mapping[str, Any]]) -> Counter[int]:
    """Cycles of each operator of the model, by its index; all of a program that is one operator."""
    cycles: Counter[int] = Counter()
    for number, (part, drawn) in enumerate(zip(explored.parts, parts, strict=True)):
        inside = (item["index"] for item in explored.operators if item["subgraph"] == number)
        whole = next(inside, None) if part.key else None
        for group in drawn["groups"]:
            operator = group["operator"] if whole is None else whole
            if operator is not None:
                cycles[operator] += group["cycles"]
    return cycles


def _part(part: Part, kinds: _Kinds, texts: Strings) -> dict[str, Any]:
    run, timeline = part.run, part.run.timeline
    places = [
        (chunk, bundle)
        for chunk, instructions in enumerate(part.chunks)
        for bundle, _ in positions(instructions)
    ]
    number_of = {place: number for number, place in enumerate(places)}
    found = phases(run)
    starts, names = _groups(part, found)
    owner = list(owners(starts, timeline)) if starts else [0] * len(found)
    # START is a bundle, too, which places of steps do not count.
    group_of = [max(0, bisect_right(starts, (chunk, bundle - 1)) - 1) for chunk, bundle in places]
    unit_names = Strings()
    tile = busiest_tile(run)
    spans = list(_spans(run, tile, unit_names, number_of))
    shown = {place for _, place, *_ in spans}
    return {
        "name": run.name,
        "mhz": timeline.core_mhz,
        "start": short(timeline.start),
        "total": short(timeline.total),
        "cycles": short(timeline.cycles),
        "tile": tile_name(tile, run.chip),
        "lanes": [*ENGINES, *STREAM_UNITS, "scalar"],
        "units": unit_names.all,
        "spans": spans,
        "elsewhere": [
            item for item in _elsewhere(run, tile, unit_names, number_of) if item[1] not in shown
        ],
        "phases": [
            (short(item.begin), short(item.end), item.title, owner[item.number]) for item in found
        ],
        "groups": list(_figures(run, found, owner, names, part.key)),
        "places": places,
        "group": group_of,
        "instructions": [
            _instruction(instruction, kinds, texts)
            for chunk in part.chunks
            for instruction in chunk
        ],
        "bundle": BUNDLE_BYTES,
        "memory": {
            "narrow": _most(run.occupancy.narrow),
            "wide": _most(run.occupancy.wide),
        },
    }


def _spans(
    run: Run, tile: int, units: Strings, number_of: Mapping[tuple[int, int], int]
) -> Iterator[tuple[float, ...]]:
    """What a tile and the stream units do: unit, instruction, begin, length and busy cycles."""
    for span in run.timeline.spans:
        if not span.tiles or span.tiles >> tile & 1:
            yield _span(run, span, units, number_of)


def _elsewhere(
    run: Run, tile: int, units: Strings, number_of: Mapping[tuple[int, int], int]
) -> Iterator[tuple[float | str, ...]]:
    """What other tiles do: a span of each instruction that is issued, and the tile."""
    seen: set[tuple[int, str]] = set()
    for span in run.timeline.spans:
        if span.tiles and not span.tiles >> tile & 1 and (span.issue, span.unit) not in seen:
            seen.add((span.issue, span.unit))
            first = next(members(span.tiles, run.chip))
            yield *_span(run, span, units, number_of), tile_name(first, run.chip)


def _span(
    run: Run, span: Span, units: Strings, number_of: Mapping[tuple[int, int], int]
) -> tuple[float, ...]:
    place, issued = -1, run.timeline.issued
    if 0 <= span.issue < len(issued):
        item = issued[span.issue]
        place = number_of.get((item.chunk, item.bundle), -1)
    length = short(span.end - span.begin)
    return units(span.unit), place, short(span.begin), length, short(span.busy)


def _groups(
    part: Part, found: Sequence[PhaseFigures]
) -> tuple[list[tuple[int, int]], list[tuple[str, int]]]:
    """Where layers begin, and their names and operators; phases stand for layers not known."""
    steps = part.run.steps
    if steps:
        starts = [(step.chunk, step.bundle) for step in steps]
        return starts, [(f"{step.kind} {step.origin}".strip(), step.operator) for step in steps]
    first: dict[int, tuple[int, int]] = {}
    for item in part.run.timeline.issued:
        first.setdefault(item.phase, (item.chunk, item.bundle - 1))
    places: list[tuple[int, int]] = []
    names = []
    for figures in found:
        place = first.get(figures.number)
        # A phase of a loop that comes again belongs to the one that has its instructions.
        if place is not None and (not places or place > places[-1]):
            places.append(place)
            names.append((figures.title, -1))
    return places, names


def _figures(
    run: Run,
    found: Sequence[PhaseFigures],
    owner: Sequence[int],
    names: Sequence[tuple[str, int]],
    key: str,
) -> Iterator[dict[str, Any]]:
    """What each layer costs."""
    members: dict[int, list[PhaseFigures]] = defaultdict(list)
    for item in found:
        members[owner[item.number]].append(item)
    narrow, wide = _most(run.occupancy.narrow), _most(run.occupancy.wide)
    for number, (name, operator) in enumerate(names):
        items = members[number]
        cycles, macs = sum(item.cycles for item in items), sum(item.macs for item in items)
        critical: Counter[str] = Counter()
        for item in items:
            critical.update(dict(item.critical))
        places = [item.number for item in items]
        yield {
            "name": short_name(name),
            "full": name,
            "operator": None if operator < 0 else operator,
            "key": key or ("" if operator < 0 else f"o{operator}"),
            "begin": short(min((item.begin for item in items), default=0.0)),
            "end": short(max((item.end for item in items), default=0.0)),
            "cycles": short(cycles),
            "macs": macs,
            "use": round(macs / (cycles * run.peak_macs), 4) if cycles else 0,
            "bound": max(sorted(critical), key=critical.__getitem__, default=""),
            "ring": sum(item.ring_bytes for item in items),
            "streamed": sum(item.streamed for item in items),
            "input": sum(item.input_bytes for item in items),
            "output": sum(item.output_bytes for item in items),
            "narrow": max((narrow["live"][place] for place in places), default=0),
            "wide": max((wide["live"][place] for place in places), default=0),
        }


def _most(use: Use) -> dict[str, Any]:
    """Bytes in use by phase on the fullest tile, and the most that there is room for."""
    return {
        "live": [int(max(tiles)) * use.element_bytes for tiles in use.live.tolist()],
        "capacity": use.capacity * use.element_bytes,
    }
