"""Packages, executables and objects of the Edge TPU as text, from what `describe_edgetpu` found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from fitzroy.cli.describe import quantization_text, tensor_type
from fitzroy.cli.terminal import Column, Terminal, count, size
from fitzroy.cli.timing import estimated_time
from fitzroy.hw_models.isa.novelty import ASPECTS
from fitzroy.linker.packages.container import read_container
from fitzroy.report.envelope import PropertyReport, envelope_of
from fitzroy.report.envelope import document as envelope_document
from fitzroy.report.forms import NovelForm, document, forms_of

Document = Mapping[str, Any]

_SHOWN = 16
"""Most rows of a table; the JSON has all."""

_LAYERS = (
    Column("", style="cyan"),
    Column("name"),
    Column("type"),
    Column("quantization"),
    Column("bytes", right=True),
)
_OPCODES = (
    Column("instruction", style="cyan", keep=True),
    Column("count", right=True),
    Column("bundles", right=True),
    Column("share", right=True),
)
_STEPS = (
    Column("#", right=True, style="dim"),
    Column("step", style="cyan"),
    Column("offset", right=True),
    Column("bytes", right=True),
)
_OPERANDS = (
    Column("#", right=True, style="dim"),
    Column("operand", style="cyan"),
    Column("bytes", right=True),
    Column("lanes", right=True),
    Column("rows", right=True),
    Column("prefix", right=True),
    Column("places"),
)
_SECTIONS = (
    Column("#", right=True, style="dim"),
    Column("section", style="cyan"),
    Column("bundles", right=True),
    Column("fixups", right=True),
)


def show_package(terminal: Terminal, package: Document) -> None:
    """Print a package, or an executable on its own."""
    terminal.fields([*_header(package), *_memory(package["memory"]), *_time(package)])
    _tiles(terminal, package["memory"])
    for item in package.get("diagnostics", ()):
        terminal.warn(f"{item['what']}: {item['reason']}")
    for number, executable in enumerate(package["executables"]):
        name = f" {executable['name']!r}" if executable["name"] else ""
        terminal.heading(f"executable {number}{name}: {executable['type']}")
        _executable(terminal, executable)


def show_object(terminal: Terminal, document: Document) -> None:
    """Print an object."""
    terminal.fields(
        [
            ("name", document["name"] or "none"),
            ("producer", document["producer"] or "unknown"),
            ("chip", document["chip"] or "none"),
            *_needs(document),
            *_memory(document["memory"]),
        ]
    )
    _tiles(terminal, document["memory"])
    _layers(terminal, document)
    _sections(terminal, document)
    _instructions(terminal, document["instructions"])
    operands = document["operands"]
    if operands:
        terminal.heading(count(len(operands), "operand"))
        names = [f"{item['name']}, {item['kind'].replace('_', ' ')}" for item in operands]
        _operands(terminal, operands, names, [item["runs"] for item in operands])


def show_forms(terminal: Terminal, data: bytes, path: str) -> None:
    """Print which forms of instructions no published program has.

    Raises:
        FormatError: the file is malformed, or holds no package.
    """
    report = forms_of(read_container(data, path).packages)
    if terminal.json:
        terminal.document("inspect-forms", document(report))
        return
    terminal.fields(
        [
            ("file", path),
            ("instructions", _known(report.known_instructions, report.instructions)),
            ("forms", _known(report.known_forms, report.forms)),
        ]
    )
    if not report.novel:
        return
    terminal.heading(f"{count(len(report.novel), 'form')} that no published program has")
    terminal.table(_FORMS, [_form_row(item) for item in report.novel])
    terminal.line()
    terminal.line("places are package:executable:chunk:bundle")
    aspects = {aspect for item in report.novel for aspect in item.novelty.aspects}
    for aspect in (aspect for aspect in ASPECTS if aspect in aspects):
        terminal.line(f"{aspect.name}: {aspect.title}. {aspect.why}")


_FORMS = (
    Column("count", right=True),
    Column("first"),
    Column("risk"),
    Column("form", style="cyan"),
    Column("differs from a published one in"),
)


def _known(known: int, total: int) -> str:
    share = f" ({known / total:.1%})" if total else ""
    return f"{total:,}, of which {known:,}{share} as in published programs"


def _form_row(item: NovelForm) -> list[str]:
    differences = ", ".join(
        f"{one.field} {one.there or 'none'} → {one.here or 'none'}"
        for one in item.novelty.differences
    )
    return [
        f"{item.count:,}",
        str(item.first),
        item.novelty.risk.title,
        item.novelty.form,
        differences or "its opcode",
    ]


def show_envelope(terminal: Terminal, data: bytes, path: str) -> None:
    """Print the properties of programs beside their ranges in published programs.

    Raises:
        FormatError: the file is malformed, or holds no package.
        SimulationError: a program does something that the scalar core would not survive, or is
            too large to be measured.
    """
    report = envelope_of(read_container(data, path).packages)
    if terminal.json:
        terminal.document("inspect-envelope", envelope_document(report))
        return
    terminal.fields(
        [
            ("file", path),
            ("programs", f"{report.programs:,}"),
            ("outside", f"{len(report.outside)} of {len(report.properties)} properties"),
        ]
    )
    if report.partial:
        terminal.warn(
            f"{count(report.partial, 'program')} measured up to where the course depends on data"
        )
    terminal.heading("properties, and their ranges in published programs")
    terminal.table(_ENVELOPE, [_property_row(item) for item in report.properties])
    terminal.line()
    terminal.line("places are package:executable:chunk:bundle")
    for item in report.outside:
        terminal.line(
            f"{item.property.slug}: {item.property.guards} To stay inside: {item.property.remedy}."
        )


_ENVELOPE = (
    Column("property", style="cyan", keep=True),
    Column("values", right=True),
    Column("published"),
    Column("unit"),
    Column("risk"),
    Column("places", right=True),
    Column("outside", right=True),
    Column("first"),
)


def _property_row(item: PropertyReport) -> list[str]:
    values = [f"{value:,}" for value in sorted({item.lowest, item.highest}) if item.occurrences]
    return [
        item.property.slug,
        " to ".join(values),
        item.range,
        item.property.unit,
        item.property.risk.value,
        f"{item.occurrences:,}",
        f"{item.outside:,}" if item.outside else "",
        "" if item.worst is None else str(item.worst),
    ]


# --- packages ------------------------------------------------------------------------------------


def _header(package: Document) -> list[tuple[str, str]]:
    rows = []
    if "min_runtime_version" in package:
        rows += [
            ("runtime", f"version {package['min_runtime_version']} or later"),
            ("compiler", package["compiler_version"] or "unknown"),
        ]
        if package["signature_bytes"]:
            rows.append(("signature", size(package["signature_bytes"])))
    return [*rows, ("token", package["parameter_caching_token"] or "none: nothing is cached")]


def _memory(memory: Document) -> list[tuple[str, str]]:
    narrow, parameters = memory["narrow"], memory["parameters"]
    used, of = narrow["bytes"], narrow["of"]
    cached = parameters["cached_bytes"]
    stay = "cached by another executable" if cached is None else f"{size(cached)} cached"
    return [
        ("narrow memory", f"{used:,} of {of:,} bytes per tile ({used / of:.0%})"),
        ("parameters", f"{stay}, {size(parameters['streamed_bytes'])} streamed"),
    ]


def _time(package: Document) -> list[tuple[str, str]]:
    """What the timing model says, or why it says nothing."""
    estimate = package["estimate"]
    if estimate is None:
        return [("time", f"not estimated: {package['estimate_error']['what']}")]
    return [("time", estimated_time(estimate))]


def _tiles(terminal: Terminal, memory: Document) -> None:
    """Parameters and rows of wide memory of each tile, as the grid."""
    wide, sizes = memory["wide"], memory["parameters"]["tile_bytes"]
    rows = []
    for number, staging in enumerate(wide["staging"]):
        cells = []
        for column, reserved in enumerate(staging):
            if sizes is None:
                cells.append(f"? + {reserved}")
                continue
            used = wide["parameters"][number][column]
            cells.append(f"{size(sizes[number][column])} ({used} + {reserved})")
        rows.append([f"row {number}", *cells])
    columns = [Column(f"column {number}", right=True) for number in range(len(rows[0]) - 1)]
    terminal.line()
    terminal.line(
        f"parameters of each tile, and its rows of wide memory for parameters + staging,"
        f" of {wide['rows']:,}"
    )
    terminal.table([Column("", style="cyan"), *columns], rows)


# --- executables ---------------------------------------------------------------------------------


def _executable(terminal: Terminal, executable: Document) -> None:
    chunks = ", ".join(f"{chunk['bundles']:,}" for chunk in executable["chunks"])
    rows = [
        ("chip", executable["chip"] or "unknown"),
        ("chunks", f"{len(executable['chunks'])} of {chunks} bundles"),
        ("parameters", size(executable["parameter_bytes"])),
        ("addresses", _addresses(executable["addresses"])),
        *_needs(executable),
    ]
    terminal.fields(rows)
    _layers(terminal, executable)
    _script(terminal, executable["script"])
    _loads(terminal, executable["loads"])
    _streams(terminal, executable["streams"])
    _instructions(terminal, executable["instructions"])


def _needs(document: Document) -> list[tuple[str, str]]:
    """Batches and scratch bytes, where there is something to say."""
    rows = []
    if document["batch_size"] != 1:
        rows.append(("batch size", str(document["batch_size"])))
    if document["scratch_bytes"]:
        rows.append(("scratch", size(document["scratch_bytes"])))
    return rows


def _addresses(fields: Sequence[Document]) -> str:
    if not fields:
        return "none"
    names = dict.fromkeys(_buffer(field) for field in fields)
    return f"{count(len(fields), 'field')} for {', '.join(names)}"


def _buffer(field: Document) -> str:
    name = f" {field['name']!r}" if field["name"] else ""
    batch = f" of batch {field['batch']}" if field["batch"] else ""
    return f"{field['buffer']}{name}{batch}"


def _layers(terminal: Terminal, document: Document) -> None:
    rows = []
    for side in ("inputs", "outputs"):
        for number, layer in enumerate(document[side]):
            stored = f"{layer['size_bytes']:,}"
            if layer["executions"] != 1:
                stored = f"{layer['executions']} × {stored}"
            label = f"{side[:-1]} {number}"
            quantization = quantization_text(layer)
            rows.append([label, layer["name"], tensor_type(layer), quantization, stored])
    if rows:
        terminal.line()
        terminal.table(_LAYERS, rows)
    for number, layer in enumerate(document["outputs"]):
        if layer["layout"] is not None:
            _layout(terminal, f"output {number}", layer)
        elif layer["slices"] is not None:
            terminal.line(f"output {number}: {count(len(layer['slices']), 'slice')}")


def _layout(terminal: Terminal, label: str, layer: Document) -> None:
    """Bytes of each tile; as a table of rows and columns unless the output is a vector."""
    layout = layer["layout"]
    sizes, rows, columns = layout["tile_bytes"], layout["rows"], layout["columns"]
    if len(rows) == len(columns) == 1:
        terminal.line(f"{label}: {_tile_sizes(sizes)}")
        return

    def cell(row: Document, column: Document) -> str:
        tile = row["tile"] + column["tile"]
        return f"{sizes[tile]:,}" if 0 <= tile < len(sizes) else "none"

    terminal.line()
    terminal.line(f"{label}: bytes on each tile")
    titles = [Column(_range("x", column), right=True) for column in columns[:_SHOWN]]
    _table(
        terminal,
        [Column("", style="cyan"), *titles],
        [[_range("y", row), *(cell(row, column) for column in columns[:_SHOWN])] for row in rows],
        "row",
    )


def _range(axis: str, run: Document) -> str:
    first, last = run["first"], run["last"]
    return f"{axis} {first}" if first == last else f"{axis} {first}..{last}"


def _tile_sizes(sizes: Iterable[int]) -> str:
    """Bytes of consecutive tiles, those with equal ones together."""
    parts = []
    tile = 0
    for amount, members in groupby(sizes):
        last = tile + len(list(members)) - 1
        if amount:
            tiles = f"tile {tile}" if last == tile else f"tiles {tile}..{last}"
            parts.append(f"{amount} bytes on {tiles}")
        tile = last + 1
    return ", ".join(parts) or "no bytes"


def _instructions(terminal: Terminal, statistics: Document) -> None:
    terminal.heading(
        f"{count(statistics['count'], 'instruction')} in {statistics['bundles']:,} bundles"
    )
    terminal.table(
        _OPCODES,
        [
            [name, f"{item['count']:,}", f"{item['bundles']:,}", f"{item['share']:.1%}"]
            for name, item in statistics["opcodes"].items()
        ],
    )


def _sections(terminal: Terminal, document: Document) -> None:
    terminal.heading(count(len(document["sections"]), "section"))
    rows = []
    for number, section in enumerate(document["sections"]):
        when = section["condition"]
        if section["operand"] is not None:
            when = f"if {section['operand']} is {when}"
        if section["ends_chunk"]:
            when += ", ends a chunk"
        rows.append([str(number), when, f"{section['bundles']:,}", f"{section['fixups']:,}"])
    _table(terminal, _SECTIONS, rows, "section")


# --- the host's script ---------------------------------------------------------------------------


_VERDICTS = {
    True: "as the program asks for it",
    False: "not as the program asks for it",
    None: "not verified",
}


def _script(terminal: Terminal, script: Document) -> None:
    stored, derived = script["steps"], script["derived"]
    if stored is not None:
        terminal.heading(f"script of the host, {_VERDICTS[derived['equal']]}")
        _steps(terminal, stored)
    if derived["fault"] is not None:
        terminal.warn(f"the program cannot be followed: {_fault(derived['fault'])}")
    if derived["steps"] is not None:
        terminal.heading("script of the host that the program asks for")
        _steps(terminal, derived["steps"])
    if False in (script["deterministic"], derived["deterministic"]):
        terminal.line("what follows depends on data")


def _fault(fault: Document) -> str:
    return f"{fault['what']}: {fault['reason']}" if "reason" in fault else str(fault["what"])


def _steps(terminal: Terminal, steps: Sequence[Document]) -> None:
    rows = []
    for number, step in enumerate(steps):
        what = step["step"].replace("_", " ")
        if "chunk" in step:
            what += f" of chunk {step['chunk']}"
        if "number" in step:
            what += f" {step['number']}"
        if "name" in step:
            what += f" {step['name']!r}"
        if step.get("batch"):
            what += f" of batch {step['batch']}"
        transfer = [f"{step['offset']:,}", f"{step['size']:,}"] if "size" in step else ["", ""]
        rows.append([str(number), what, *transfer])
    _table(terminal, _STEPS, rows, "step")


# --- parameters ----------------------------------------------------------------------------------


def _loads(terminal: Terminal, loads: Document | None) -> None:
    if loads is None:
        return
    if loads["fault"] is not None:
        terminal.warn(f"its parameters cannot be followed: {_fault(loads['fault'])}")
        return
    operands = loads["operands"]
    terminal.heading(f"{count(len(operands), 'operand')} loaded into wide memory")
    names = [f"operand {number}" for number in range(len(operands))]
    _operands(terminal, operands, names, [item["segments"] for item in operands])


def _operands(
    terminal: Terminal,
    operands: Sequence[Document],
    names: Sequence[str],
    places: Sequence[Sequence[Document]],
) -> None:
    rows = [
        [
            str(number),
            name,
            f"{operand['bytes']:,}",
            str(operand["lanes"]),
            str(operand["rows"]),
            str(operand["prefix_words"] or ""),
            _places(runs),
        ]
        for number, (operand, name, runs) in enumerate(zip(operands, names, places, strict=True))
    ]
    _table(terminal, _OPERANDS, rows, "operand")


def _places(runs: Sequence[Document]) -> str:
    """Tiles and rows of an operand."""
    if not runs:
        return "streamed"
    tiles = sorted({run["tile"] for run in runs})
    first = min(run["row"] for run in runs)
    last = max(run["row"] + run["rows"] for run in runs) - 1
    where = f"tile {tiles[0]}" if len(tiles) == 1 else f"{len(tiles)} tiles"
    rows = f"row {first}" if first == last else f"rows {first}..{last}"
    return f"{rows} of {where}"


def _streams(terminal: Terminal, streams: Document | None) -> None:
    if streams is None:
        return
    if streams["fault"] is not None:
        terminal.warn(f"its parameters cannot be followed: {_fault(streams['fault'])}")
    infeeds = streams["infeeds"]
    if infeeds:
        total = sum(item["bytes"] for item in infeeds)
        terminal.line()
        terminal.line(f"{count(len(infeeds), 'infeed')} of streamed parameters, {size(total)}")


def _table(
    terminal: Terminal, columns: Sequence[Column], rows: Sequence[Sequence[str]], noun: str
) -> None:
    """Print a table, at most so many rows."""
    terminal.table(columns, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        terminal.line(f"and {count(len(rows) - _SHOWN, f'more {noun}')}; --json shows all")
