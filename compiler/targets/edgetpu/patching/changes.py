"""What a compiled package needs in order to have the weights of its retrained source.

Operators of the source are matched with operands in the blobs and with instructions of the program;
the changes say where bytes go, which constants of instructions change, and why it is impossible.

The layout of the weights comes from the source before training, found in the blobs by its content,
or without it from the order and sizes of the operands and from the loops of the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.parameters.locating import Location, search
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    operands,
    with_prefix,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    OutputStage,
    output_stage,
)
from fitzroy.compiler.targets.edgetpu.patching.matching import (
    ADJUSTABLE,
    Position,
    Site,
    differences,
    word_order,
)
from fitzroy.compiler.targets.edgetpu.patching.structure import FILTERS, FREEZE, title
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.parameters import ConvolutionLayout, Layout, Prefix, ZeroBias

ORIGINAL = "give the source from which the model was compiled as well"
RECOMPILE = "compile the model again"


WEIGHTED = (*FILTERS, "unidirectional_sequence_lstm")
"""Operators whose constants are replaced."""


@dataclass(frozen=True)
class Task:
    """What is asked for.

    Attributes:
        package: the compiled package.
        graph: the retrained source.
        nodes: its operators in the package.
        operations: tensor operations of the package.
        sites: those that may compute operators with weights, grouped.
    """

    package: PackageFile
    graph: Graph
    nodes: Sequence[Node]
    operations: Mapping[Position, TensorOp]
    sites: Sequence[Site]

    @property
    def blobs(self) -> list[Array]:
        """The parameters of every executable."""
        return [
            np.empty(0, np.uint8) if item.parameters is None else item.parameters
            for item in self.package.executables
        ]


@dataclass
class Changes:
    """What is to be done.

    Attributes:
        parts: where operands of the retrained source go, with their layouts.
        stages: output stages by node of the retrained source, and the sites that get them.
        checked: names of operators whose constants were compared.
        rejects: what makes it impossible.
        notes: what to tell.
    """

    parts: list[tuple[Location, Layout]] = field(default_factory=list)
    stages: dict[str, tuple[OutputStage, int]] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    rejects: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def reject(self, code: str, where: str, what: str, reason: str = "", hint: str = "") -> None:
        """Note a reason why it is impossible."""
        self.rejects.append(Diagnostic(Severity.ERROR, code, where, what, reason, hint))


def changes_from(task: Task, original: Graph, nodes: Sequence[Node]) -> Changes:
    """What is to be done if the source is known from which the package was compiled.

    Args:
        task: what is asked for.
        original: the source before training.
        nodes: its operators in the package, in the order of the task's.

    Raises:
        LinkError: the package was compiled from another source.
    """
    changes = Changes()
    new = {a.name: b for a, b in zip(nodes, task.nodes, strict=True)}
    _compare_activations(changes, task, original, nodes)
    fresh = filter_operands(task.graph, task.nodes)
    places, missing = min(
        (search(operands(original, zero_bias=z, nodes=nodes), task.blobs) for z in ZeroBias),
        key=lambda result: len(result[1]),
    )
    if missing:
        raise LinkError(
            f"the weights of {len(missing)} operators are not in the compiled model",
            reason=", ".join(operand.name for operand in missing),
            hint="the original must be the very source from which the model was compiled",
        )
    for location in places:
        operand = location.operand
        if not isinstance(operand, FilterOperand):
            continue
        node, prefix = new[operand.node.name], operand.layout.prefix
        wanted = fresh[node.name, operand.part]
        if operand.part:
            number = None
        else:
            number = _match_original(changes, task, Call.of(original, operand.node), node, prefix)
        options = location.layouts
        if len(options) > 1:
            options = by_loops(task, wanted, options, number)
        add_part(changes, task, wanted, prefix, location, options)
    return changes


def filter_operands(graph: Graph, nodes: Iterable[Node]) -> dict[tuple[str, str], FilterOperand]:
    """Operands with weights by node and gate."""
    found = operands(graph, zero_bias=ZeroBias.KEEP, nodes=nodes)
    return {
        (operand.node.name, operand.part): operand
        for operand in found
        if isinstance(operand, FilterOperand)
    }


def _match_original(
    changes: Changes, task: Task, call: Call, node: Node, prefix: Prefix
) -> int | None:
    """Find the site of an operator by its earlier output stage, and note the present one."""
    try:
        before = output_stage(call, prefix)
    except UnsupportedError as error:
        raise LinkError(error.what, where=title(call.node)) from None
    layout = filter_operands(task.graph, [node])[node.name, ""].layout
    fitting = [n for n, site in enumerate(task.sites) if site.fits(layout)]
    exact = [n for n in fitting if not differences(before, task.sites[n].first)]
    exact = [n for n in exact if task.sites[n].first.trained] or exact
    if len(exact) != 1:
        raise LinkError(
            f"{len(exact)} groups of instructions compute {title(call.node)} of the original",
            reason=_nearest(before, [task.sites[n] for n in fitting]) if not exact else "",
            hint="the original must be the very source from which the model was compiled",
        )
    want_stage(changes, task, node, prefix, exact[0])
    return exact[0]


def want_stage(changes: Changes, task: Task, node: Node, prefix: Prefix, number: int) -> None:
    """Note the output stage of an operator at a site."""
    try:
        with_prefix(task.graph, filter_operands(task.graph, [node])[node.name, ""], prefix)
        stage = output_stage(Call.of(task.graph, node), prefix)
    except UnsupportedError as error:
        changes.reject("edgetpu-patch-prefix", title(node), error.what, hint=RECOMPILE)
        return
    site = task.sites[number]
    differing = differences(stage, site.first)
    fixed = [name for name in differing if name not in ADJUSTABLE]
    if fixed:
        changes.reject(
            "edgetpu-patch-activations", title(node), told(stage, site, fixed), hint=FREEZE
        )
        return
    for name, (other, at) in changes.stages.items():
        if at == number and (other.scale, other.c_zero_point) != (stage.scale, stage.c_zero_point):
            changes.reject(
                "edgetpu-patch-shared",
                title(node),
                f"its instructions cannot be told from those of {name!r}",
                reason="the retrained source wants different scales for both",
                hint=RECOMPILE,
            )
    if differing and site.is_copy:
        changes.reject(
            "edgetpu-patch-shared",
            title(node),
            "its instructions cannot be told from those that move data",
            hint=RECOMPILE,
        )
    changes.stages[node.name] = (stage, number)
    changes.checked.append(title(node))


def told(stage: OutputStage, site: Site, names: Iterable[str]) -> str:
    """How constants of a site differ from those that an output stage wants."""
    parts = [
        f"{name} is {getattr(site.first, name):.9g} in the compiled model and "
        f"{getattr(stage, name):.9g} in the source"
        for name in names
    ]
    return ", ".join(parts)


def _nearest(stage: OutputStage, candidates: Iterable[Site]) -> str:
    """How the most similar site differs from an output stage."""
    ranked = [(differences(stage, site.first), site) for site in candidates if not site.is_copy]
    if not ranked:
        return "no instruction has as many weights and channels"
    names, site = min(ranked, key=lambda item: len(item[0]))
    return told(stage, site, names)


def _compare_activations(
    changes: Changes, task: Task, original: Graph, nodes: Sequence[Node]
) -> None:
    """Compare what instructions of operators without weights depend on.

    The scale of a value between operators with weights is in the effective scales of both; any
    other scale, and every constant that is no weight, must be as it was.
    """
    for before, node in zip(nodes, task.nodes, strict=True):
        if before.op in FILTERS:
            continue
        values = zip((*before.inputs, *before.outputs), (*node.inputs, *node.outputs), strict=True)
        for x, y in values:
            if x is None or y is None:
                continue
            a, b = original.value(x), task.graph.value(y)
            if a.type.quantization != b.type.quantization:
                changes.reject(
                    "edgetpu-patch-activations",
                    title(node),
                    f"{y!r} has {_shown(b.type)}",
                    reason=f"it has {_shown(a.type)} in the original source",
                    hint=FREEZE,
                )
            elif before.op not in WEIGHTED and not _same_data(a, b):
                changes.reject(
                    "edgetpu-patch-constant",
                    title(node),
                    f"its constant {y!r} is another than in the original source",
                    hint=RECOMPILE,
                )
        changes.checked.append(title(node))


def _same_data(a: Value, b: Value) -> bool:
    return a.data is None or b.data is None or np.array_equal(a.data, b.data)


def _shown(type: TensorType) -> str:
    q = type.quantization
    if q is None or not q.is_per_tensor:
        return str(type)
    return f"scale {q.scale[0]:.9g}, zero point {q.zero_point[0]}"


def by_loops(
    task: Task, operand: FilterOperand, layouts: tuple[Layout, ...], number: int | None
) -> tuple[Layout, ...]:
    """Those of several layouts whose order of words the program has."""
    if number is None or not isinstance(operand.layout, ConvolutionLayout):
        return layouts
    found = {
        word_order(operand.layout, operation)
        for operation in task.sites[number].for_layout(operand.layout)
    }
    fitting = tuple(
        layout
        for layout in layouts
        if isinstance(layout, ConvolutionLayout) and layout.order in found
    )
    return fitting or layouts


def add_part(
    changes: Changes,
    task: Task,
    wanted: FilterOperand,
    prefix: Prefix,
    location: Location,
    layouts: tuple[Layout, ...],
) -> None:
    """Note the bytes of an operand."""
    if any(reject.where == wanted.name for reject in changes.rejects):
        return
    if len(layouts) > 1:
        orders = [layout.order for layout in layouts if isinstance(layout, ConvolutionLayout)]
        changes.reject(
            "edgetpu-patch-order", wanted.name, "the order of its weight words cannot be told",
            reason=f"{' or '.join(order.value for order in orders)}", hint=ORIGINAL,
        )  # fmt: skip
        return
    try:
        operand = with_prefix(task.graph, wanted, prefix)
    except UnsupportedError as error:
        changes.reject("edgetpu-patch-prefix", wanted.name, error.what, hint=RECOMPILE)
        return
    changes.parts.append((dataclasses.replace(location, operand=operand), layouts[0]))
