"""What the compiler for the Edge TPU did, as documents for other programs."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    MappedSegment,
    form,
    last_nodes,
    operator_key,
)
from fitzroy.compilation.records import steps_of
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.partition import title
from fitzroy.compiler.passes.borders import border_passes
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
from fitzroy.compiler.targets.edgetpu.program.allocated import Allocated
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.envelope import Exit, exits
from fitzroy.compiler.targets.edgetpu.program.stages import Parameters
from fitzroy.execution.estimate import estimate, steps
from fitzroy.execution.hosts import find
from fitzroy.execution.whole import CHIP, PartTime, Prediction, on_host
from fitzroy.execution.whole import document as whole_document
from fitzroy.formats.darwinn import Executable, token_text
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.report import summary
from fitzroy.report.run import Run
from fitzroy.report.streaming import streaming_document

MAPPED = "Mapped to Edge TPU"
"""Status of operators on the chip."""


def document(
    result: EdgeTpuCompilation, runs: Sequence[Run] = (), *, full: bool = False, taken: int = 0
) -> dict[str, Any]:
    """What a compilation did, fit for JSON.

    Sizes are in bytes, times in microseconds or cycles as the names say.

    Args:
        result: the compilation.
        runs: an inference of each part on the timing model, or none.
        full: whether to add what fills reports: tensors in narrow memory, parameters in wide
            memory, layers with their times, and all figures of the timing model.
        taken: bytes of parameters that models before it have on the same chip.
    """
    parts = [
        _part(part, runs[number] if runs else None, full)
        for number, part in enumerate(result.segments)
    ]
    cached, streamed = (
        sum(part[key] for part in parts) for key in ("cached_bytes", "streamed_bytes")
    )
    remaining = BEAGLE.memories.wide.size * BEAGLE.tiles.count - taken - cached
    host = runs[0].timeline.host if runs else None
    sender = None if host is None else (host, find(host).host)
    shown = {"edges": edges(result.graph, result.operators)} if full else {}
    return {
        "model": result.source.path,
        "model_bytes": result.source.size,
        "files": [],
        "log": None,
        "target": "edgetpu",
        "operators": len(result.operators),
        "mapped": len(result.mapped),
        "subgraphs": parts,
        "inference": _inference(result, runs) if runs else None,
        "cached_bytes": cached,
        "remaining_bytes": remaining,
        "streamed_bytes": streamed,
        "streaming": streaming_document(cached, remaining, streamed, sender),
        "operations": _operations(result),
        "explanation": _explanation(result),
        "border_passes": list(border_passes(result.graph)),
        "seconds": result.seconds,
        **shown,
    }


def _inference(result: EdgeTpuCompilation, runs: Sequence[Run]) -> dict[str, Any]:
    """An inference of the whole model, with the operators that stay on the host, by its parts."""
    host = find(runs[0].timeline.host).host
    waiting = {item.segment.nodes: run for item, run in zip(result.segments, runs, strict=True)}
    parts: list[PartTime] = []
    for placement in result.placements:
        run = waiting.get(placement.nodes)
        if run is not None:
            parts.append(PartTime(CHIP, f"subgraph {len(parts)}", run.timeline.total, run))
        else:
            parts.append(on_host(result.graph, placement.nodes, host))
    return whole_document(Prediction(tuple(parts)), runs[0].timeline.host)


def _part(part: MappedSegment, run: Run | None, full: bool) -> dict[str, Any]:
    main, caching = part.package.main, part.package.caching
    graph = part.segment.graph
    found: dict[str, Any] = {
        "operators": len(part.segment.nodes),
        "inputs": {name: graph.type(name).nbytes for name in graph.inputs},
        "outputs": {name: graph.type(name).nbytes for name in graph.outputs},
        "instruction_bytes": sum(
            0 if stream.bitstream is None else len(stream.bitstream)
            for stream in main.instruction_bitstreams or ()
        ),
        "chunks": len(main.instruction_bitstreams or ()),
        "cached_bytes": 0 if caching is None else _parameter_bytes(caching),
        "streamed_bytes": _parameter_bytes(main),
        "narrow_bytes": main.used_narrow_memory_bytes_per_tile,
        "token": token_text(main.parameter_caching_token),
        "estimate": None if run is None else summary.brief(run),
        "envelope": [_exit(item) for item in exits(form(part, Emitted))],
    }
    if full:
        found |= {
            "narrow": _narrow(form(part, Allocated)),
            "wide": _wide(form(part, Parameters)),
            "layers": [] if run is None else _layers(part, run),
            "timing": summary.document(run) if run is not None else None,
        }
    return found


def _exit(item: Exit) -> dict[str, Any]:
    """A property that leaves the envelope of published programs."""
    departure, step = item.departure, item.step
    return {
        "property": departure.property.slug,
        "risk": departure.property.risk.value,
        "value": departure.value,
        "unit": departure.property.unit,
        "published": departure.range,
        "places": len(departure.places),
        "chunk": departure.place.chunk,
        "bundle": departure.place.bundle,
        "tiles": departure.place.tiles,
        "step": None if step is None else step.name,
        "layer": (step.layer or None) if step is not None else None,
        "remedy": departure.property.remedy,
    }


def _layers(part: MappedSegment, run: Run) -> list[dict[str, Any]]:
    """Steps of a program with what they cost."""
    return [
        {
            "name": item.mark.name,
            "operator": None if place.operator < 0 else place.operator,
            "cycles": item.cycles,
            "macs": item.macs,
            "utilization": item.macs / (item.cycles * run.peak_macs) if item.cycles else 0.0,
            "bound": item.bound,
            "least": item.least,
            "variant": item.mark.variant,
            "expected": item.mark.cycles,
        }
        for item, place in zip(
            steps(form(part, Emitted).marks, run),
            steps_of(part.segment, part.forms),
            strict=True,
        )
    ]


def _parameter_bytes(executable: Executable) -> int:
    return 0 if executable.parameters is None else len(executable.parameters)


def _operations(result: EdgeTpuCompilation) -> list[dict[str, Any]]:
    """One line per kind of operator and where it runs."""
    mapped = Counter(_name(node) for node in result.mapped)
    left: Counter[tuple[str, str]] = Counter()
    reasons = {reject.where: reject.what for reject in result.reasons}
    for node in result.unmapped:
        left[_name(node), reasons.get(title(node), "")] += 1
    return [
        {"operator": op, "count": number, "status": MAPPED} for op, number in mapped.items()
    ] + [
        {"operator": op, "count": number, "status": reason} for (op, reason), number in left.items()
    ]


def _name(node: Node) -> str:
    """An operator as the model spells it."""
    return node.spelled


def _explanation(result: EdgeTpuCompilation) -> list[dict[str, Any]]:
    """What became of every operator, in order of the model."""
    layers: dict[str, list[str]] = defaultdict(list)
    places: dict[str, int] = {}
    for number, part in enumerate(result.segments):
        places |= {node.name: number for node in part.segment.nodes}
        runs = [(step.kind, step.name, step.origin) for step in form(part, Allocated).steps]
        # Strips run a layer several times.
        for kind, _, origin in dict.fromkeys(runs):
            layers[origin].append(kind)
    reasons: dict[str, list[dict[str, str]]] = defaultdict(list)
    for reject in result.reasons:
        reasons[reject.where].append(
            {"code": reject.code, "what": reject.what, "hint": reject.hint}
        )
    return [
        {
            "index": number if node.origin is None else node.origin.index,
            "operator": _name(node),
            "name": node.outputs[0],
            "type": str(result.graph.type(node.outputs[0])),
            "subgraph": places.get(node.name),
            "layers": layers.get(node.name, []) if node.name in places else [],
            "reasons": reasons.get(title(node), []) if node.name not in places else [],
        }
        for number, node in enumerate(result.operators)
    ]


def edges(graph: Graph, operators: Sequence[Node]) -> list[dict[str, Any]]:
    """Which operator reads what of which, by their places among the operators.

    Inputs of the model come from no operator, and its outputs go to none. Constants are left out.

    Args:
        graph: the model.
        operators: a node of each of its operators.
    """
    places = {operator_key(node): number for number, node in enumerate(operators)}
    makers: dict[str, int | None] = dict.fromkeys(graph.inputs)
    found: dict[tuple[int | None, int | None, str], None] = {}
    for node in graph.nodes():
        place = places[operator_key(node)]
        for name in node.inputs:
            if name in makers and makers[name] != place:
                found[makers[name], place, name] = None
        makers |= dict.fromkeys(node.outputs, place)
    for name in graph.outputs:
        if name in makers:
            found[makers[name], None, name] = None
    return [
        {"from": source, "to": target, "name": name, "bytes": graph.type(name).nbytes}
        for source, target, name in found
    ]


def _narrow(allocated: Allocated) -> dict[str, Any]:
    """Tensors in narrow memory, and the steps in which they are there."""
    return {
        "capacity": allocated.nbytes,
        "steps": ["begin", *(step.name for step in allocated.steps)],
        "scratch": allocated.scratch,
        "tensors": [
            {
                "name": tensor.name,
                "base": tensor.base,
                "bytes": tensor.end - tensor.base,
                "begin": tensor.begin,
                "end": tensor.last,
            }
            for tensor in allocated.tensors
        ],
    }


def _wide(parameters: Parameters) -> dict[str, Any]:
    """Rows of wide memory of every operand; those of operands that are streamed are missing."""
    return {
        "capacity": BEAGLE.memories.wide.elements,
        "limit": parameters.limit,
        "taken": parameters.taken,
        "operands": [
            {
                "name": item.name,
                "kind": item.kind,
                "bytes": item.nbytes,
                "pieces": [
                    {"tile": piece.tile, "row": piece.row, "rows": piece.end - piece.row}
                    for piece in item.pieces
                ],
            }
            for item in parameters.operands
        ],
    }


def cut_document(cut: Cut) -> dict[str, Any]:
    """What was predicted for a way to cut a model, in microseconds and bytes, fit for JSON."""
    return {
        "chips": len(cut.times),
        "segments_us": list(cut.times),
        "segments": [
            {
                "operators": len(last_nodes(nodes)),
                "us": time,
                "timed": timed,
                "cached_bytes": load.cached,
                "streamed_bytes": load.streamed,
                "tensor_bytes": load.tensors,
            }
            for nodes, time, timed, load in zip(
                cut.segments, cut.times, cut.timed, cut.loads, strict=True
            )
        ],
        "bus_us": cut.bus,
        "latency_us": cut.latency,
        "interval_us": cut.interval,
        "parallel_interval_us": cut.parallel_interval,
        "exact": cut.exact,
    }


def displayed(result: EdgeTpuCompilation) -> str:
    """The report of the compiler in a frame, for notebooks."""
    from fitzroy.report.compilation import page
    from fitzroy.report.notebook import framed

    name = os.path.basename(result.source.path)
    runs = [
        estimate(item.package, name, steps=steps_of(item.segment, item.forms))
        for item in result.segments
    ]
    return framed(page([document(result, runs, full=True)], [runs]), f"Compilation of {name}")
