"""One way from a model to a file, for every target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fitzroy.base.errors import FitzroyError, UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.compilation.linking import LoweredModel, linked
from fitzroy.compilation.log import Log
from fitzroy.compilation.result import Compilation
from fitzroy.compilation.source import Source, demand_uncompiled
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.loading import Model, load
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Pass, named_passes, run_passes
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.target import TARGETS, Target
from fitzroy.formats import bundled


def compile(
    model: Model | Mapping[str, Model],
    *,
    target: str = "xnnpack",
    outputs: Sequence[str] = (),
    passes: Sequence[str | Pass] = (),
    how: Reading = PLAINLY,
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
        passes: what runs before the target's own passes: passes, or their names.
        how: what to read of files, such as shapes that a model leaves open.
        dump: folder for every form that the model takes.
        progress: called with the name of each step as it begins or ends.
        settings: options of the target by name: for ``edgetpu`` those of `EdgeTpuOptions`; for
            ``xnnpack``, ``uint8`` says how uint8 models are computed: ``exact``, or ``fast`` with
            int8 kernels.

    Raises:
        UnsupportedError: with every reason why some operator cannot be placed.
        UsageError: an unknown target, option, pass or output, or an unreadable file.
        FormatError: a malformed model.
        CapacityError: the model does not fit the target.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    models = model if isinstance(model, Mapping) else {chosen.entry: model}
    if len(models) > 1 and not chosen.product.joins:
        raise UsageError(
            f"{len(models)} methods for one file",
            reason=f"files of the target {target} have one",
            hint=chosen.together,
        )
    log = Log(None if dump is None else Path(dump), progress)
    way = _Way(chosen, tuple(outputs), named_passes(passes), how, log)
    try:
        return way.compiled(models, options)
    except FitzroyError as error:
        second = chosen.second_choice(options, error)
        if second is None:
            raise
    progress("compiling again, as published programs do")
    return way.compiled(models, second)


@dataclass(frozen=True)
class _Made:
    """A model that a target has lowered.

    Attributes:
        graph: the model as it was read.
        source: the model after all that changed it but the target's own passes.
        legalized: the graph as it was lowered.
        placements: groups of its nodes, and what runs them.
        lowered: what the target made of it.
    """

    graph: Graph
    source: Graph | Source
    legalized: Graph
    placements: tuple[Placement, ...]
    lowered: Any


@dataclass(frozen=True)
class _Way:
    """How models are compiled.

    Attributes:
        target: the target.
        outputs: values to compute instead of the models' outputs.
        passes: what runs before the target's own passes.
        how: what to read of files.
        log: is told what is being done.
    """

    target: Target
    outputs: tuple[str, ...]
    passes: tuple[Pass, ...]
    how: Reading
    log: Log

    def compiled(self, models: Mapping[str, Model], options: Any) -> Compilation:
        """Compile models with options of the target; arguments and errors as those of `compile`."""
        target, log = self.target, self.log
        made = {name: self._made(name, model, options) for name, model in models.items()}
        with log.step("link"):
            lowered = [LoweredModel(one.source, one.lowered) for one in made.values()]
            file = linked(target, lowered, options)
        log.write_all(file.steps)
        return Compilation(
            target.name,
            target.summary,
            file.data,
            {name: one.graph for name, one in made.items()},
            {name: one.legalized for name, one in made.items()},
            {name: one.placements for name, one in made.items()},
            {name: one.lowered for name, one in made.items()},
            tuple(log.stages),
            file.packages,
        )

    def _made(self, name: str, model: Model, options: Any) -> _Made:
        """What the target makes of a model, which is lowered again if that shows what it lacks."""
        target, log = self.target, self.log
        keeps = target.keeps_model(options)
        with log.step("import"):
            source = self._read(model, keeps)
        graph = _graph(source)
        _demand_outputs(graph)
        log.write("import.ir", partial(print_graph, graph))
        if self.passes:
            source = _source(run_passes(graph, self.passes, log.observe), keeps)
        where = model.name if isinstance(model, Graph) else os.fspath(model)
        passes = target.preparations(_graph(source), options)
        while True:
            source = _passed(source, passes)
            legalized = run_passes(_graph(source), target.passes(options), log.observe)
            with log.step("partition"):
                placed = tuple(target.place(legalized, options))
            log.write("partition.txt", partial(_partition_text, placed))
            _demand_placed(where, placed)
            with log.step("lower"):
                lowered = target.lower(legalized, placed, name, options)
            placements = tuple(target.settled(placed, lowered))
            passes = target.corrections(legalized, placements)
            if not passes:
                return _Made(graph, source, legalized, placements, lowered)

    def _read(self, model: Model, keeps: bool) -> Graph | Source:
        """A model, cut to the chosen outputs.

        Args:
            model: the model.
            keeps: whether its file has to be kept as TFLite.
        """
        if not isinstance(model, Graph) and not self.outputs and keeps:
            source = Source.read(model, self.how)
            demand_uncompiled(source.graph, source.path)
            return source
        graph = model if isinstance(model, Graph) else load(model, self.how)
        return _source(graph.cut(self.outputs) if self.outputs else graph, keeps)


def _source(graph: Graph, keeps: bool) -> Graph | Source:
    """A graph as what the linker needs of it."""
    if not keeps:
        return graph
    demand_uncompiled(graph, graph.name)
    return Source.of(graph)


def _passed(source: Graph | Source, passes: tuple[Pass, ...]) -> Graph | Source:
    """A model after what its target changes of it."""
    return run_passes(source, passes) if isinstance(source, Graph) else source.passed(passes)


def _graph(source: Graph | Source) -> Graph:
    return source if isinstance(source, Graph) else source.graph


def _demand_outputs(graph: Graph) -> None:
    if not graph.outputs:
        raise UnsupportedError(
            "the model has no outputs, so there is nothing to run", where=graph.name
        )


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
    passes: Sequence[str | Pass] = (),
    **settings: object,
) -> tuple[Graph, tuple[Placement, ...]]:
    """The legalized graph of a model and where each of its nodes would run.

    Unlike `compile`, this does not fail when some operator cannot be placed. For the target
    ``edgetpu``, the graph is as it was, and the rest runs on the ``host``; programs are made, since
    they show limits that no rule knows.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    graph = model if isinstance(model, Graph) else load(model)
    graph = run_passes(graph.cut(outputs) if outputs else graph, named_passes(passes))
    steps = (*chosen.preparations(graph, options), *chosen.passes(options))
    legalized = run_passes(graph, steps)
    placements = chosen.place(legalized, options)
    return legalized, tuple(chosen.proven(legalized, placements, options))


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
