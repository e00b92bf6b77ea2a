"""What a file is, in a few lines: for people who want to know whether it is the one they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from fitzroy.cli.describe import quantization_text, tensor_type
from fitzroy.cli.terminal import Terminal, count, size
from fitzroy.cli.timing import estimated_time
from fitzroy.hw_models.chips.beagle import BEAGLE

Document = Mapping[str, Any]
Rows = Iterator[tuple[str, str]]

_KINDS = 8
"""Most kinds of operators that are named; ``--full`` has all."""

_LABELS = 5
"""Most names of classes that are shown."""

_PORTS = 8
"""Most inputs, and most outputs, that are listed."""


def show_summary(terminal: Terminal, document: Document, file: str, bytes: int) -> None:
    """Print what a file is, whether it fits the chip, its inputs and outputs, and where it runs.

    Args:
        terminal: where.
        document: what `describe` found.
        file: path of the file.
        bytes: its size.
    """
    rows = [("file", file), ("what", f"{_what(document)}, {size(bytes)}")]
    if document.get("description"):
        rows.append(("description", document["description"]))
    rows += _parts(document)
    if document.get("labels"):
        rows.append(("labels", labels_text(document["labels"])))
    terminal.fields(rows)
    for text in document.get("stale metadata", ()):
        terminal.warn(f"stale metadata: {text}")
    for text in document.get("labels_left_out", ()):
        terminal.warn(f"names of classes are left out: {text}")
    for item in (fault for package in _packages(document) for fault in package["diagnostics"]):
        terminal.warn(f"{item['what']}: {item['reason']}")
    terminal.line()
    terminal.line(f"--full shows all of it{_next(document)}", style="dim")


def labels_text(labels: list[Document]) -> str:
    """How many names of classes there are, and the first."""
    first = [item["label"] for item in labels[:_LABELS]]
    # Names may have commas in them.
    shown = "; ".join(first) + ("; ..." if len(labels) > len(first) else "")
    return f"{len(labels)} classes: {shown}"


def _parts(document: Document) -> Rows:
    if document.get("subgraphs"):
        return _model(document["subgraphs"])
    return _alone(document) if "executables" in document else _program(document)


def _packages(document: Document) -> list[Document]:
    """The packages of a model, or the one that a file is."""
    if "min_runtime_version" in document:
        return [document]
    operators = (item for graph in document.get("subgraphs", ()) for item in graph["operators"])
    return [item["package"] for item in operators if "package" in item]


def _what(document: Document) -> str:
    identifier = document.get("identifier")
    kind = f"{document['kind']} ({identifier})" if identifier else str(document["kind"])
    packages = _packages(document)
    makers = dict.fromkeys(item["compiler_version"] or "an unknown compiler" for item in packages)
    compiled = " for the Edge TPU, compiled by " + ", ".join(makers) if makers else ""
    return kind + compiled


def _next(document: Document) -> str:
    if _packages(document):
        return "; fitzroy run runs it, fitzroy explore shows its instructions"
    if document.get("subgraphs"):
        return "; fitzroy explain says what runs on the Edge TPU"
    return "; fitzroy run runs it" if "methods" in document.get("program", document) else ""


def _ports(document: Document) -> Rows:
    for side in ("inputs", "outputs"):
        ports = document[side]
        for port in ports[:_PORTS]:
            kind = quantization_text(port)
            text = f"{port['name']}: {tensor_type(port)}"
            yield side[:-1], f"{text}, {kind}" if kind else text
        if len(ports) > _PORTS:
            yield "", f"and {len(ports) - _PORTS} more"


def _kinds(histogram: Mapping[str, int]) -> str:
    shown = [f"{name} ×{number}" for name, number in islice(histogram.items(), _KINDS)]
    if len(histogram) > _KINDS:
        shown.append(f"{len(histogram) - _KINDS} kinds more")
    return ", ".join(shown)


# --- models --------------------------------------------------------------------------------------


def _model(subgraphs: list[Document]) -> Rows:
    yield from _ports(subgraphs[0])
    if len(subgraphs) > 1:
        yield "subgraphs", f"{len(subgraphs)}, of which the first is run"
    operators = [item for graph in subgraphs for item in graph["operators"]]
    packages = [item["package"] for item in operators if "package" in item]
    others: dict[str, int] = {}
    for item in operators:
        if "package" not in item:
            others[item["op"]] = others.get(item["op"], 0) + 1
    others = dict(sorted(others.items(), key=lambda item: (-item[1], item[0])))
    if packages:
        yield "on the chip", f"{count(len(packages), 'package')}, {_together(packages)}"
        yield "on the host", _kinds(others) or "nothing"
        for number, package in enumerate(packages):
            place = f" of package {number}" if len(packages) > 1 else ""
            yield from ((name + place, text) for name, text in _fit(package))
        return
    yield "operators", f"{len(operators)}: {_kinds(others)}" if operators else "none"
    yield "weights", _weights(sum(graph["constants"]["bytes"] for graph in subgraphs))
    if not _quantized(subgraphs[0]):
        yield "arithmetic", "real numbers: fitzroy compile --calibrate quantizes it for the chip"


def _together(packages: list[Document]) -> str:
    return size(sum(item["bytes"] for item in packages))


def _weights(bytes: int) -> str:
    room = _room()
    verdict = "fewer than" if bytes <= room else "more than"
    return f"{size(bytes)}, {verdict} the {size(room)} that the chip can keep"


def _room() -> int:
    """Bytes of wide memory of all tiles: a bound on the parameters that stay on the chip."""
    return BEAGLE.memories.wide.size * BEAGLE.tiles.count


def _quantized(graph: Document) -> bool:
    """Whether some operator computes with quantized values."""
    tensors = (item for operator in graph["operators"] for item in operator["outputs"] if item)
    return any(item.get("quantization") for item in tensors)


# --- packages ------------------------------------------------------------------------------------


def _alone(document: Document) -> Rows:
    """A package, or an executable of one."""
    yield from _ports(document["executables"][0])
    yield from _fit(document)


def _fit(package: Document) -> Rows:
    """Whether parameters stay on the chip, and how long an inference takes."""
    memory = package["memory"]
    kept, streamed = (memory["parameters"][name] for name in ("cached_bytes", "streamed_bytes"))
    if streamed:
        rest = f"; {size(kept)} stay on it" if kept else ""
        yield "fits", f"not whole: {size(streamed)} of parameters come with every inference{rest}"
    elif kept is None:
        yield "fits", "parameters are cached by another executable"
    else:
        yield "fits", f"{size(kept)} of parameters stay on the chip" if kept else "yes"
    estimate = package["estimate"]
    if estimate is None:
        yield "time", f"not estimated: {package['estimate_error']['what']}"
    else:
        yield "time", estimated_time(estimate)


# --- programs for CPUs ---------------------------------------------------------------------------


def _program(document: Document) -> Rows:
    """An ExecuTorch program, with test cases or without, or an XNNPACK graph."""
    for suite in document.get("suites", ()):
        yield "test cases", f"{len(suite['cases'])} for {suite['method']!r}"
    program = document.get("program", document)
    if "datatypes" in program:
        yield from _ports(program)
        yield "nodes", _kinds(program["histogram"])
        yield "weights", size(program["constants"]["bytes"])
    for method in program.get("methods", ()):
        if len(program["methods"]) > 1:
            yield "method", method["name"]
        yield from _ports(method)
        for delegate in method["delegates"]:
            nodes = _kinds(delegate["graph"]["histogram"]) if "graph" in delegate else ""
            yield delegate["backend"], ": ".join(filter(None, (size(delegate["bytes"]), nodes)))
        if method["kernels"]:
            yield "kernels", _kinds(method["kernels"])
        yield "memory", f"{size(sum(method['planned_memory']))} planned"
