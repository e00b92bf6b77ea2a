"""Changes from the retrained source alone: operators are matched by constants, order and sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.bits import Float32
from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.targets.edgetpu.parameters.locating import place
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    Operand,
    SequenceOperand,
    SoftmaxOperand,
    operands,
    with_prefix,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    output_stage,
)
from fitzroy.compiler.targets.edgetpu.patching.changes import (
    ORIGINAL,
    WEIGHTED,
    Changes,
    Task,
    add_part,
    by_loops,
    filter_operands,
    told,
    want_stage,
)
from fitzroy.compiler.targets.edgetpu.patching.matching import (
    ADJUSTABLE,
    assign,
    differences,
    scalar_words,
)
from fitzroy.compiler.targets.edgetpu.patching.structure import FILTERS, FREEZE, numerics, title
from fitzroy.hw_models.parameters import ZeroBias

DROPS_ZERO_BIAS = 14
"""Runtime version that packages ask for whose compilers drop biases that are all zero."""


def changes_alone(task: Task) -> Changes:
    """What is to be done if only the retrained source is known.

    Raises:
        LinkError: the source does not fit the package, or does so in several ways.
    """
    changes = Changes()
    fresh = filter_operands(task.graph, task.nodes)
    recurrent = [node for node in task.nodes if node.op in WEIGHTED and node.op not in FILTERS]
    for node in recurrent:
        changes.reject(
            "edgetpu-patch-unknown",
            title(node),
            "the constants of its instructions cannot be compared",
            hint=ORIGINAL,
        )
    if not changes.rejects:
        chosen = _choose_sites(changes, task, fresh)
        _check_others(changes, task)
        if not changes.rejects:
            _place_alone(changes, task, fresh, chosen)
    return changes


@dataclass(frozen=True, slots=True)
class _Fit:
    """A site that may compute an operator, and whether its constants are right already."""

    number: int
    exact: bool


def _choose_sites(
    changes: Changes, task: Task, fresh: Mapping[tuple[str, str], FilterOperand]
) -> dict[str, int]:
    """The site of every operator with weights, by its name."""
    filters = [node for node in task.nodes if node.op in FILTERS]
    fits = {node.name: _fits(changes, task, node, fresh[node.name, ""]) for node in filters}
    drops = task.package.package.min_runtime_version >= DROPS_ZERO_BIAS
    zero_bias = ZeroBias.DROP if drops else ZeroBias.KEEP
    usual = {
        operand.node.name: operand.layout.prefix
        for operand in operands(task.graph, zero_bias=zero_bias, nodes=filters)
        if isinstance(operand, FilterOperand)
    }
    chosen, open_ = dict[str, int](), dict[str, list[int]]()
    for node in filters:
        exact = [fit.number for fit in fits[node.name] if fit.exact]
        exact = [n for n in exact if task.sites[n].first.trained] or exact
        natural = [n for n in exact if task.sites[n].prefix == usual[node.name]]
        exact = natural if len(natural) == 1 else exact
        if len(exact) == 1:
            chosen[node.name] = exact[0]
        elif exact:
            changes.reject(
                "edgetpu-patch-ambiguous", title(node),
                f"{len(exact)} groups of instructions may compute it", hint=ORIGINAL,
            )  # fmt: skip
        else:
            open_[node.name] = [fit.number for fit in fits[node.name]]
    if not changes.rejects:
        taken = set(chosen.values())
        free = {name: [n for n in found if n not in taken] for name, found in open_.items()}
        required = frozenset(
            n for n, s in enumerate(task.sites) if not s.is_copy and n not in taken
        )
        ways = assign(free, _dependencies(task.graph, task.nodes), required)
        if len(ways) != 1:
            both = [name for name in free if len({way.get(name) for way in ways}) > 1] or [*free]
            raise LinkError(
                f"there {'are several ways' if ways else 'is no way'} to match operators with "
                "the instructions of the program",
                reason=", ".join(both) or "some instructions compute no operator of the source",
                hint=ORIGINAL,
            )
        chosen |= ways[0]
    for node in filters:
        if node.name in chosen:
            number = chosen[node.name]
            want_stage(changes, task, node, task.sites[number].prefix, number)
    return chosen


def _fits(changes: Changes, task: Task, node: Node, operand: FilterOperand) -> list[_Fit]:
    """Sites that may compute an operator once scale and zero point are adjusted."""
    found: list[_Fit] = []
    reasons: list[tuple[int, str]] = []
    call = Call.of(task.graph, node)
    fitting = [n for n, site in enumerate(task.sites) if site.fits(operand.layout)]
    for number in fitting:
        site = task.sites[number]
        try:
            with_prefix(task.graph, operand, site.prefix)
            stage = output_stage(call, site.prefix)
        except UnsupportedError as error:
            reasons.append((1, error.what))
            continue
        differing = differences(stage, site.first)
        if not differing or (ADJUSTABLE.issuperset(differing) and not site.is_copy):
            found.append(_Fit(number, not differing))
        elif not site.is_copy:
            reasons.append((len(differing), told(stage, site, differing)))
    if not found:
        unfit = (0, "no instruction has as many weights and channels")
        _, reason = min(reasons, key=lambda item: item[0], default=unfit)
        changes.reject(
            "edgetpu-patch-activations", title(node), "no instruction computes it",
            reason=reason, hint=FREEZE,
        )  # fmt: skip
    return found


def _dependencies(graph: Graph, nodes: Sequence[Node]) -> dict[str, frozenset[str]]:
    """For every node, the nodes that it depends on, directly or not."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        before: set[str] = set()
        for name in node.inputs:
            producer = None if name is None else graph.producer(name)
            if producer is not None and producer.name in found:
                before |= {producer.name} | found[producer.name]
        found[node.name] = frozenset(before)
    return found


COMPARED = {
    "add": ("scale", "constant", "output_zero_point"),
    "sub": ("scale", "constant", "output_zero_point"),
    "mul": ("scale", "a_zero_point", "c_zero_point", "output_zero_point"),
    "average_pool_2d": ("scale",),
    "mean": ("scale",),
    "sigmoid": ("scale", "a_zero_point"),
    "quantize": ("scale", "a_zero_point", "output_zero_point"),
}
"""Constants that some tensor operation has for every operator of a kind; pools come in forms."""


_MOVES = ("reshape", "pad", "split", "transpose", "slice", "strided_slice", "squeeze")
"""Operators whose results have the quantization of their first quantized operand."""


def _check_others(changes: Changes, task: Task) -> None:
    """Compare the constants of operators without weights, as far as they are known."""
    known = {
        (names, tuple(getattr(op, name) for name in names))
        for names in set(COMPARED.values())
        for op in task.operations.values()
    }
    for node in task.nodes:
        call, names = Call.of(task.graph, node), COMPARED.get(node.op)
        if node.op in WEIGHTED or _is_same(call):
            continue
        if node.op in _MOVES:
            changes.reject(
                "edgetpu-patch-activations",
                title(node),
                "its result has another quantization than its operand",
                hint=FREEZE,
            )
            continue
        stage = None
        if names is not None:
            with contextlib.suppress(UnsupportedError):
                stage = output_stage(call)
        if node.op == "softmax" and _reads_scale(task, call):
            changes.checked.append(title(node))
        elif stage is None or names is None:
            changes.notes.append(
                Diagnostic(
                    Severity.WARNING,
                    "edgetpu-patch-unchecked",
                    title(node),
                    "whether its activations are as they were cannot be told",
                    hint=ORIGINAL,
                )
            )
        elif (names, tuple(getattr(stage, name) for name in names)) in known:
            changes.checked.append(title(node))
        else:
            told = ", ".join(f"{name} {getattr(stage, name):.9g}" for name in names)
            changes.reject(
                "edgetpu-patch-activations",
                title(node),
                f"no instruction has its constants: {told}",
                hint=FREEZE,
            )


def _is_same(call: Call) -> bool:
    """Whether an operator moves values without a change of their unsigned quantization."""
    if call.node.op not in (*_MOVES, "quantize"):
        return False
    results = {numerics(value.type)[2:] for value in call.outputs}
    sources = {
        numerics(value.type)[2:]
        for value in call.inputs
        if value is not None and value.type.quantization is not None
    }
    return len(results | sources) == 1


def _reads_scale(task: Task, call: Call) -> bool:
    """Whether a program computes exponentials of a SOFTMAX's input, on tiles or the scalar core."""
    quantization = call.type().quantization
    if quantization is None:
        return False
    beta = call.attributes(SoftmaxAttributes).beta
    scale = float(np.float32(quantization.scale[0]) * np.float32(beta))
    on_tiles = any(op.nlu and op.scale == scale for op in task.operations.values())
    return on_tiles or Float32().encode(scale) in scalar_words(task.package.main)


def _place_alone(
    changes: Changes,
    task: Task,
    fresh: Mapping[tuple[str, str], FilterOperand],
    chosen: Mapping[str, int],
) -> None:
    """Find the operands by order and sizes."""
    wanted: list[Operand] = []
    for operand in operands(task.graph, zero_bias=ZeroBias.KEEP, nodes=task.nodes):
        if isinstance(operand, FilterOperand):
            site = task.sites[chosen[operand.node.name]]
            wanted.append(with_prefix(task.graph, operand, site.prefix))
        else:
            wanted.append(operand)
    for location in place(wanted, task.blobs):
        operand, layouts = location.operand, location.layouts
        if isinstance(operand, SequenceOperand):
            continue  # the same whatever the weights
        if isinstance(operand, SoftmaxOperand):
            held = task.blobs[location.blob][location.offset : location.end]
            if not any(np.array_equal(operand.pack(layout), held) for layout in layouts):
                changes.reject(
                    "edgetpu-patch-activations", operand.name,
                    "its tables are for another input scale", hint=FREEZE,
                )  # fmt: skip
            changes.notes = [note for note in changes.notes if note.where != operand.name]
            changes.checked.append(operand.name)
            continue
        assert isinstance(operand, FilterOperand)
        number = chosen[operand.node.name]
        if len(layouts) > 1:
            layouts = by_loops(task, operand, layouts, number)
        add_part(changes, task, operand, task.sites[number].prefix, location, layouts)
