"""What the compiler for the Edge TPU did as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitzroy.report import units
from fitzroy.report.advice import advice
from fitzroy.report.elements import (
    figure_list,
    file_name,
    folded,
    hint,
    listed,
    named,
    scroll,
    search,
    section,
    tag,
)
from fitzroy.report.memory_maps import narrow_map, wide_map
from fitzroy.report.model_graph import fate, model_graph
from fitzroy.report.pages import page as whole_page
from fitzroy.report.run import Run
from fitzroy.report.segments import several_chips
from fitzroy.report.strips import timeline
from fitzroy.report.tables import Cell, Column, blank_zero, escaped, meter, number, table

_FOOTER = (
    "Made by the FitzRoy compiler. Times are those of the simulator's timing model, not of a "
    "measurement. Cycles of a layer are those of its phases, from the end of the phase before; a "
    "layer is bound by what most of the critical path in it goes through."
)

_MOST_REASONS = 3
"""Reasons of operators on the host that the summary has."""


def page(
    documents: Sequence[Mapping[str, Any]],
    runs: Sequence[Sequence[Run]],
    cuts: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The report of models that were compiled together, or of segments, as an HTML document.

    Args:
        documents: what the compiler did for each, in full, see `fitzroy.compilation.documents`.
        runs: an inference of each part of each model.
        cuts: of a model that was cut into segments, the best cut for every number of chips that was
            considered; nothing for other models.
    """
    names = ", ".join(file_name(document["model"]) for document in documents)
    mapped = sum(document["mapped"] for document in documents)
    operators = sum(document["operators"] for document in documents)
    chips = several_chips(cuts, len(documents)) if cuts else ""
    main = chips + "\n".join(
        _model(f"m{number}", *pair, alone=len(documents) == 1)
        for number, pair in enumerate(zip(documents, runs, strict=True))
    )
    subtitle = f"Compiled for the Edge TPU · {mapped} of {operators} operators on the chip"
    return whole_page(names, subtitle, main, _FOOTER, scripts=("compilation.js",))


def _model(key: str, document: Mapping[str, Any], runs: Sequence[Run], *, alone: bool) -> str:
    """The sections of a model.

    Args:
        key: what the names of its tables and operators begin with in the page.
        document: what the compiler did.
        runs: an inference of each part.
        alone: whether the page has no other model.
    """
    title = "Summary" if alone else file_name(document["model"])
    sections = [
        section(title, _answers(document), _headline(document)),
        section("Timeline", timeline(key, document, runs)),
        section(
            "Graph",
            model_graph(
                document["explanation"],
                document["edges"],
                _cycles(document),
                lambda item: f"{key}:{item['index']}",
            ),
        ),
        section(
            "Operators",
            scroll(_operators(key, document), "Table of operators"),
            beside=search(f"{key}-operators", "operators"),
        ),
    ]
    for place, (part, run) in enumerate(zip(document["subgraphs"], runs, strict=True)):
        sections += _part(key, place, part, run)
    return f'<div data-model="{key}">{"".join(sections)}</div>'


def _cycles(document: Mapping[str, Any]) -> Counter[int]:
    """Cycles of operators, by index."""
    found: Counter[int] = Counter()
    for part in document["subgraphs"]:
        for layer in part["layers"]:
            if layer["operator"] is not None:
                found[layer["operator"]] += layer["cycles"]
    return found


def _part(key: str, place: int, part: Mapping[str, Any], run: Run) -> Iterator[str]:
    name, known = f"Subgraph {place}", f"{key}-layers-{place}"
    yield section(
        f"{name}: layers",
        scroll(_layers(key, known, part), "Table of layers"),
        beside=search(known, "layers"),
    )
    yield section(
        f"{name}: memory",
        hint(
            "Narrow memory: bytes of every tile that tensors have, by step; what is left white is "
            "free. Point at a box for its name; the table has all."
        ),
        scroll(narrow_map(part["narrow"]), "Map of narrow memory"),
        folded("Tensors", scroll(_tensors(f"{key}-tensors-{place}", part), "Table of tensors")),
        hint(
            "Wide memory: rows of every tile that parameters have, and above the line those that "
            "the program uses for data."
        ),
        scroll(wide_map(part["wide"]), "Map of wide memory"),
        folded("Parameters", scroll(_parameters(part["wide"]), "Table of parameters")),
    )
    yield section(f"{name}: transfers of an inference", scroll(_transfers(part, run), "Transfers"))


# --- summary -------------------------------------------------------------------------------------


def _answers(document: Mapping[str, Any]) -> str:
    """The four questions that a report has to answer first."""
    return f'<div class="answers">{"".join(_questions(document))}</div>'


def _answer(kind: str, question: str, text: str, *content: str) -> str:
    return (
        f'<div class="{kind}"><h3>{escaped(question)}</h3><strong>{escaped(text)}</strong>'
        f"{''.join(content)}</div>"
    )


def _questions(document: Mapping[str, Any]) -> Iterator[str]:
    streamed, left = document["streamed_bytes"], document["operators"] - document["mapped"]
    cached = f"{units.size(document['cached_bytes'])} of parameters stay on the chip"
    rest = f"{units.size(streamed)} come from the host with every inference"
    yield _answer(
        "partly" if streamed else "yes",
        "Does it fit?",
        "Not all of it" if streamed else "Yes",
        listed([cached, rest if streamed else f"{units.size(document['remaining_bytes'])} free"]),
    )
    whole = document["inference"]
    if whole:
        chip = sum(part["estimate"]["chip_us"] for part in document["subgraphs"])
        yield _answer(
            "",
            "How fast is it?",
            units.time(whole["total_us"]),
            listed(
                [
                    f"{1e6 / whole['total_us']:,.0f} inferences per second on {whole['host']}",
                    f"{units.time(chip)} of it in {_programs(len(document['subgraphs']))} on the "
                    "chip",
                    f"{units.time(whole['total_us'] - chip - whole['host_us'])} in the host's "
                    "driver, and transfers before and after",
                    *(
                        [f"{units.time(whole['host_us'])} in operators on the host"]
                        if whole["host_us"]
                        else []
                    ),
                ]
            ),
        )
    yield _answer(
        "partly" if left else "yes",
        "What is on the host, and why?",
        f"{left} of {document['operators']} operators" if left else "Nothing",
        listed(_why(document)),
    )
    steps = advice(document)
    yield _answer(
        "",
        "What to do first?",
        "" if steps else "Nothing stands out",
        listed([item[:1].upper() + item[1:] for item in steps[:3]]),
    )


def _programs(count: int) -> str:
    return "the program" if count == 1 else f"{count} programs"


def _why(document: Mapping[str, Any]) -> list[str]:
    """Why operators are on the host: the reasons of most operators first."""
    found: Counter[tuple[str, str]] = Counter()
    for item in document["explanation"]:
        if item["subgraph"] is None:
            for reason in item["reasons"][:1]:
                found[item["operator"], reason["what"]] += 1
    texts = [
        f"{operator}{f' × {count}' if count > 1 else ''}: {what.removeprefix(f'{operator} ')}"
        for (operator, what), count in found.most_common()
    ]
    more = len(texts) - _MOST_REASONS
    return [*texts[:_MOST_REASONS], *([f"{more} more below"] if more > 0 else [])]


def _headline(document: Mapping[str, Any]) -> str:
    items = [
        ("Operators on the chip", f"{document['mapped']} of {document['operators']}", ""),
        ("Subgraphs", str(len(document["subgraphs"])), ""),
        (
            "Model",
            units.size(document["model_bytes"]),
            file_name(document["model"]),
        ),
    ]
    items += [
        ("Output", units.size(file["bytes"]), file_name(file["path"])) for file in document["files"]
    ]
    return f"<br>{figure_list(items)}"


# --- tables --------------------------------------------------------------------------------------


def _operators(key: str, document: Mapping[str, Any]) -> str:
    """Operators, those on the host first."""
    cycles = _cycles(document)
    most = max(cycles.values(), default=0)
    items = sorted(
        document["explanation"], key=lambda item: (item["subgraph"] is not None, item["index"])
    )
    return table(
        (
            Column("#"),
            Column("operator", text=True),
            Column("runs on", text=True),
            Column("result", text=True),
            Column("type", text=True),
            Column("cycles", title="of its layers; what moves its inputs and outputs is left out"),
            Column("layers, or why not", text=True),
        ),
        [
            (
                number(item["index"]),
                Cell(escaped(item["operator"]), item["operator"]),
                _where(item),
                named(item["name"]),
                Cell(escaped(item["type"].partition(" ")[0]), item["type"]),
                _timed(cycles[item["index"]], most),
                Cell("<br>".join(map(escaped, fate(item))), ", ".join(fate(item))),
            )
            for item in items
        ],
        id=f"{key}-operators",
        sort=True,
        mark="op",
        marks=[f"{key}:{item['index']}" for item in items],
        wrap=(6,),
    )


def _timed(cycles: float, most: float) -> Cell:
    """Cycles with a bar that is full for the most; nothing for none, as of those on the host."""
    if not cycles:
        return Cell("", 0)
    return Cell(f"{cycles:,.0f}{meter(cycles / most, 'op')}", cycles)


def _where(item: Mapping[str, Any]) -> Cell:
    if item["subgraph"] is None:
        return Cell('<span class="tag" style="--c:var(--host)">host</span>', "host")
    name = f"subgraph {item['subgraph']}"
    return Cell(f'<span class="tag" style="--c:var(--op)">{name}</span>', name)


def _layers(key: str, known: str, part: Mapping[str, Any]) -> str:
    total = sum(layer["cycles"] for layer in part["layers"]) or 1.0
    return table(
        (
            Column("#", title="step of the program"),
            Column("layer", text=True),
            Column("cycles"),
            Column("share"),
            Column("MACs", title="products of all tiles, in lanes that are on"),
            Column("MAC use", title="share of the products that the chip could do in the time"),
            Column("bound by", text=True),
            Column("least", title="cycles that its products, or its bytes on the ring, take"),
            Column("expected", title="cycles that the code generator estimates"),
            Column("chosen", text=True),
        ),
        [
            (
                number(place),
                named(layer["name"]),
                number(layer["cycles"]),
                Cell(
                    escaped(units.share(layer["cycles"] / total))
                    + meter(layer["cycles"] / total, "scalar"),
                    layer["cycles"],
                ),
                blank_zero(layer["macs"]),
                blank_zero(layer["utilization"], units.share(layer["utilization"])),
                Cell(tag(layer["bound"]) if layer["bound"] else "", layer["bound"]),
                blank_zero(layer["least"]),
                blank_zero(layer["expected"]),
                Cell(escaped(layer["variant"]), layer["variant"]),
            )
            for place, layer in enumerate(part["layers"])
        ],
        id=known,
        sort=True,
        mark="op",
        marks=[
            "" if layer["operator"] is None else f"{key}:{layer['operator']}"
            for layer in part["layers"]
        ],
        wrap=(1, 9),
    )


def _tensors(known: str, part: Mapping[str, Any]) -> str:
    return table(
        (
            Column("tensor", text=True),
            Column("bytes of a tile"),
            Column("from byte"),
            Column("first step"),
            Column("last step"),
        ),
        [
            (
                named(item["name"]),
                number(item["bytes"]),
                number(item["base"]),
                number(item["begin"]),
                number(item["end"]),
            )
            for item in part["narrow"]["tensors"]
            if item["bytes"]
        ],
        id=known,
        sort=True,
    )


def _parameters(wide: Mapping[str, Any]) -> str:
    return table(
        (
            Column("operand", text=True),
            Column("kind", text=True),
            Column("bytes"),
            Column("rows on the chip"),
            Column("tiles"),
        ),
        [
            (
                named(item["name"]),
                Cell(escaped(item["kind"])),
                number(item["bytes"]),
                blank_zero(sum(piece["rows"] for piece in item["pieces"])),
                blank_zero(len({piece["tile"] for piece in item["pieces"]})),
            )
            for item in wide["operands"]
        ],
    )


def _transfers(part: Mapping[str, Any], run: Run) -> str:
    rows = [(f"input {name}", size) for name, size in part["inputs"].items()]
    rows += [(f"output {name}", size) for name, size in part["outputs"].items()]
    rows += [
        ("instructions", run.instructions),
        ("parameters, streamed", run.streamed),
        ("parameters, once", run.cached),
    ]
    return table(
        (Column("what", text=True), Column("bytes")),
        [(Cell(escaped(name)), number(size)) for name, size in rows],
    )
