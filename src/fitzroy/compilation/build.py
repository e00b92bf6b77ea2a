"""One way from a model to a file, for every target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.compilation.documents import forms
from fitzroy.compilation.edgetpu import Source, compile_edgetpu, placed
from fitzroy.compilation.edgetpu_options import costs_of, generator_options, link_options
from fitzroy.compilation.loading import Model, load
from fitzroy.compilation.log import Log
from fitzroy.compilation.result import Compilation
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions
from fitzroy.compiler.targets.executorch.lower import Lowered
from fitzroy.compiler.targets.target import TARGETS, Target
from fitzroy.compiler.targets.vm.program import EntryPoint, host_program
from fitzroy.formats import bundled
from fitzroy.formats.bytecode_module import write_module
from fitzroy.linker.packages.executorch import link_program


def compile(
    model: Model | Mapping[str, Model],
    *,
    target: str = "xnnpack",
    outputs: Sequence[str] = (),
    dump: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **settings: object,
) -> Compilation:
    """Compile a model.

    Args:
        model: a path, a graph, or several of them by method name, for targets whose files have
            several methods; one alone has the name that the target gives it.
        target: what to compile for: ``edgetpu``, ``xnnpack``, ``portable``, ``vm``, or a target of
            another package.
        outputs: names of values to compute instead of the model's outputs.
        dump: folder for every form that the model takes.
        progress: called with the name of each step as it begins or ends.
        settings: options of the target by name: for ``edgetpu`` those of `EdgeTpuOptions`; for
            ``xnnpack``, ``uint8`` says how uint8 models are computed: ``exact``, or ``fast`` with
            int8 kernels.

    Raises:
        UnsupportedError: with every reason why some operator cannot be placed.
        UsageError: an unknown target, option or output, or an unreadable file.
        FormatError: a malformed model.
        CapacityError: the model does not fit the target.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    log = Log(None if dump is None else Path(dump), progress)
    models = model if isinstance(model, Mapping) else {chosen.entry: model}
    if isinstance(options, EdgeTpuOptions):
        return _for_edgetpu(chosen, models, outputs, options, log)
    graphs, legalized, placements, lowered = {}, {}, {}, {}
    for name, source in models.items():
        with log.step("import"):
            graph = _graph(source, outputs)
        if not graph.outputs:
            raise UnsupportedError(
                "the model has no outputs, so there is nothing to run", where=graph.name
            )
        graphs[name] = graph
        log.write("import.ir", partial(print_graph, graph))
        legalized[name] = run_passes(graph, chosen.passes(options), log.observe)
        with log.step("partition"):
            placements[name] = tuple(chosen.place(legalized[name], options))
        log.write("partition.txt", partial(_partition_text, placements[name]))
        where = graph.name if isinstance(source, Graph) else os.fspath(source)
        _demand_placed(where, placements[name])
        with log.step("lower"):
            lowered[name] = chosen.lower(legalized[name], placements[name], name, options)
        if isinstance(lowered[name], Lowered):
            for index, subgraph in enumerate(lowered[name].subgraphs):
                log.write(f"{name}-{index}.xnnpack", partial(bytes, subgraph.blob))
    with log.step("link"):
        data = _linked(chosen, [*lowered.values()], next(iter(graphs.values())).name)
    stages = tuple(log.stages)
    return Compilation(target, chosen.summary, data, graphs, legalized, placements, lowered, stages)


def _graph(model: Model, outputs: Sequence[str]) -> Graph:
    """The graph of a model, cut to the chosen outputs."""
    graph = model if isinstance(model, Graph) else load(model)
    return graph.cut(outputs) if outputs else graph


def _linked(target: Target, methods: Sequence[Any], name: str) -> bytes:
    """The file of what a target made of methods.

    Raises:
        UsageError: several methods, and files of the target have one.
    """
    lowered = [item for item in methods if isinstance(item, Lowered)]
    if lowered:
        return link_program([item.method for item in lowered])
    entries = [item for item in methods if isinstance(item, EntryPoint)]
    if entries:
        return write_module(host_program(name, entries))
    if len(methods) > 1:
        raise UsageError(
            f"{len(methods)} methods for one file",
            reason=f"files of the target {target.name} have one",
            hint="compile them one after the other",
        )
    return bytes(methods[0])


def _for_edgetpu(
    target: Target,
    models: Mapping[str, Model],
    outputs: Sequence[str],
    options: EdgeTpuOptions,
    log: Log,
) -> Compilation:
    """A model with Edge TPU operators; its parts share a chip and are therefore made together.

    Raises:
        UsageError: there are several models.
    """
    if len(models) > 1:
        raise UsageError(
            f"{len(models)} methods for one file",
            reason="a model for the Edge TPU has one",
            hint="models that share a chip: fitzroy.compile_together",
        )
    ((name, model),) = models.items()
    with log.steps("import") as told:
        source = Source.of(_graph(model, outputs)) if outputs else _source(model)
        result = compile_edgetpu(
            source,
            options=link_options(options),
            generator=generator_options(options),
            costs=costs_of(options),
            progress=told,
        )
    if log.dump is not None:
        for path, text in forms(result).items():
            log.write_as(path, text.encode)
    return Compilation(
        target.name,
        target.summary,
        result.data,
        {name: source.graph},
        {name: source.graph},
        {name: result.placements},
        {name: result},
        tuple(log.stages),
        tuple(part.package for part in result.segments),
    )


def _source(model: Model) -> Source:
    return Source.of(model) if isinstance(model, Graph) else Source.read(model)


def _partition_text(placements: Sequence[Placement]) -> str:
    lines = []
    for placement in placements:
        lines.append(f"{placement.target or 'refused'}:")
        lines += [f"  {node.op} {node.name}" for node in placement.nodes]
        lines += [f"  {reject}" for reject in placement.rejects]
    return "\n".join(lines) + "\n"


def _demand_placed(where: str, placements: Sequence[Placement]) -> None:
    refused = [placement for placement in placements if not placement.target]
    if refused:
        count = sum(len(placement.nodes) for placement in refused)
        raise UnsupportedError(
            f"{count} operator{'s' if count > 1 else ''} cannot be placed on any target",
            rejects=[reject for placement in refused for reject in placement.rejects],
            where=where,
        )


def explain(
    model: Model,
    *,
    target: str = "xnnpack",
    outputs: Sequence[str] = (),
    progress: Callable[[str], None] = lambda step: None,
    **settings: object,
) -> tuple[Graph, tuple[Placement, ...]]:
    """The legalized graph of a model and where each of its nodes would run.

    Unlike `compile`, this does not fail when some operator cannot be placed. For the target
    ``edgetpu``, the graph is as it was, and the rest runs on the ``host``; programs are made, since
    they show limits that no rule knows.

    Args:
        model: a path, or a graph.
        target: what it would be compiled for.
        outputs: as for `compile`.
        progress: as for `compile`.
        settings: as for `compile`.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    legalized = run_passes(_graph(model, outputs), chosen.passes(options))
    if isinstance(options, EdgeTpuOptions):
        generator, costs = generator_options(options), costs_of(options)
        return legalized, placed(legalized, generator=generator, costs=costs, progress=progress)
    return legalized, tuple(chosen.place(legalized, options))


def bundle(compilation: Compilation, cases: Mapping[str, Sequence[Sequence[Array]]]) -> bytes:
    """A bundled program (``BP08``) with expected outputs by reference semantics.

    Args:
        compilation: what to bundle.
        cases: test cases of each method: one array per input.

    Raises:
        UsageError: arrays that do not fit a method's inputs.
    """
    suites = []
    for method, inputs in cases.items():
        if method not in compilation.legalized:
            known = ", ".join(compilation.legalized)
            raise UsageError(f"no method {method!r}", hint=f"methods: {known}")
        graph = compilation.legalized[method]
        suite = []
        for arrays in inputs:
            if len(arrays) != len(graph.inputs):
                raise UsageError(f"{len(arrays)} arrays for {len(graph.inputs)} inputs")
            results = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))
            expected = tuple(results[name] for name in graph.outputs)
            suite.append(bundled.Case(tuple(arrays), expected))
        suites.append(bundled.Suite(method, tuple(suite)))
    return bundled.write_bundle(compilation.data, suites)
