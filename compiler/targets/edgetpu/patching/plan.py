"""What a compiled package needs in order to have the weights of its retrained source.

Operators of the source are matched with operands in the blobs and with instructions of the program;
a plan says where the bytes go, which constants of instructions change, and why it is impossible.

The layout of the weights comes from the source before training, found in the blobs by its content,
or without it from the order and sizes of the operands and from the loops of the program.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.bits import Float32
from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    Operand,
    Placement,
    SequenceOperand,
    SoftmaxOperand,
    operands,
    place,
    search,
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
    assign,
    differences,
    scalar_words,
    word_order,
)
from fitzroy.formats import custom_op
from fitzroy.formats.darwinn import Executable, Layer, PackageFile
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.parameters import ConvolutionLayout, Layout, Prefix, ZeroBias

ORIGINAL = "give the source from which the model was compiled as well"
FREEZE = "keep the quantization of activations when training again, or compile the model again"
RECOMPILE = "compile the model again"

DROPS_ZERO_BIAS = 14
"""Runtime version that packages ask for whose compilers drop biases that are all zero."""

FILTERS = ("conv_2d", "depthwise_conv_2d", "fully_connected")
"""Operators whose instructions are compared, and changed where that is possible."""

BIAS = 2
"""Operand of these that holds the biases, which may be absent."""

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
class Plan:
    """What is to be done.

    Attributes:
        parts: where operands of the retrained source go, with their layouts.
        stages: output stages by node of the retrained source, and the sites that get them.
        checked: names of operators whose constants were compared.
        rejects: what makes it impossible.
        notes: what to tell.
    """

    parts: list[tuple[Placement, Layout]] = field(default_factory=list)
    stages: dict[str, tuple[OutputStage, int]] = field(default_factory=dict)
    checked: list[str] = field(default_factory=list)
    rejects: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def reject(self, code: str, where: str, what: str, reason: str = "", hint: str = "") -> None:
        """Note a reason why it is impossible."""
        self.rejects.append(Diagnostic(Severity.ERROR, code, where, what, reason, hint))


def title(node: Node) -> str:
    """An operator, for messages."""
    return f"{node.op} {node.name!r}"


# --- structure -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """Names in one graph by those in another: of nodes, and of values."""

    nodes: Mapping[str, str]
    values: Mapping[str, str]


def correspondence(original: Graph, retrained: Graph) -> Names:
    """Which operators and values of two graphs of the same structure correspond.

    Raises:
        LinkError: the graphs differ in more than constants, quantization and names.
    """
    hint = "only weights, biases and their quantization may differ"
    old, new = original.nodes(), retrained.nodes()
    if len(old) != len(new):
        raise LinkError(
            f"the retrained source has {len(new)} operators, the original one {len(old)}", hint=hint
        )
    values = dict(zip(original.inputs, retrained.inputs, strict=False))
    for a, b in zip(old, new, strict=True):
        optional = BIAS if a.op in FILTERS else None
        if (a.op, a.attributes) != (b.op, b.attributes) or len(a.inputs[:optional]) != len(
            b.inputs[:optional]
        ):
            raise LinkError(
                f"the retrained source has {title(b)} in place of {title(a)}",
                reason=f"{b.attributes}, not {a.attributes}" if a.op == b.op else "",
                hint=hint,
            )
        for x, y in (
            *zip(a.inputs[:optional], b.inputs[:optional], strict=True),
            *(pair for pair in zip(a.inputs[BIAS:], b.inputs[BIAS:], strict=False) if all(pair)),
            *zip(a.outputs, b.outputs, strict=True),
        ):
            if x is None and y is None:
                continue
            if x is None or y is None or values.setdefault(x, y) != y:
                raise LinkError(
                    f"{title(b)} of the retrained source reads {y!r}",
                    reason=f"{title(a)} of the original one reads {x!r}",
                    hint=hint,
                )
            s, t = original.type(x), retrained.type(y)
            constant = original.value(x).is_constant, retrained.value(y).is_constant
            if (s.shape, s.dtype) != (t.shape, t.dtype) or constant[0] != constant[1]:
                raise LinkError(
                    f"{y!r} of {title(b)} is {t}", reason=f"{s} in the original source", hint=hint
                )
    return Names({a.name: b.name for a, b in zip(old, new, strict=True)}, values)


def check_layers(main: Executable, graph: Graph, names: Mapping[str, str] | None) -> None:
    """Check that inputs and outputs of a package have the types of the source's values.

    Raises:
        LinkError: a layer is another, or has another quantization.
    """
    for layer in (*(main.input_layers or ()), *(main.output_layers or ())):
        name = layer.name or ""
        value = name if names is None else names.get(name, "")
        if value not in graph.values or graph.value(value).is_constant:
            continue  # a state, or what `mapped_nodes` tells of
        wanted, found = _numerics(graph.type(value)), _layer_numerics(layer)
        if wanted != found:
            raise LinkError(
                f"the compiled model's layer {name!r} does not have the type of the source's",
                reason=f"{_of(found)}, the source wants {_of(wanted)}",
                hint=FREEZE,
            )


_Numerics = tuple[DType | None, int, float, int]
"""Element type, bytes, scale and zero point of the unsigned values."""


def _numerics(type: TensorType) -> _Numerics:
    scale, zero = 0.0, 0
    if type.quantization is not None:
        scale, zero = type.quantization.scale[0], type.quantization.zero_point[0]
        zero -= type.dtype.limits[0]
    return type.dtype, type.nbytes, scale, zero


def _layer_numerics(layer: Layer) -> _Numerics:
    dtype = custom_op.DTYPES.get(layer.element)
    if layer.numerics is None:
        return dtype, layer.packed_bytes, 0.0, 0
    factor = float(np.float32(layer.numerics.dequantization_factor))
    return dtype, layer.packed_bytes, factor, layer.numerics.zero_point


def _of(numerics: _Numerics) -> str:
    dtype, nbytes, scale, zero = numerics
    name = "another type" if dtype is None else dtype.value
    return f"{nbytes} bytes of {name}, scale {scale:.9g}, zero point {zero} of unsigned values"


# --- plan with the original source ---------------------------------------------------------------


def plan_from(task: Task, original: Graph, nodes: Sequence[Node]) -> Plan:
    """What is to be done if the source is known from which the package was compiled.

    Args:
        task: what is asked for.
        original: the source before training.
        nodes: its operators in the package, in the order of the task's.

    Raises:
        LinkError: the package was compiled from another source.
    """
    plan = Plan()
    new = {a.name: b for a, b in zip(nodes, task.nodes, strict=True)}
    _compare_activations(plan, task, original, nodes)
    fresh = _natural(task.graph, task.nodes)
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
    for placement in places:
        operand = placement.operand
        if not isinstance(operand, FilterOperand):
            continue
        node, prefix = new[operand.node.name], operand.layout.prefix
        wanted = fresh[node.name, operand.part]
        if operand.part:
            number = None
        else:
            number = _match_original(plan, task, Call.of(original, operand.node), node, prefix)
        options = placement.layouts
        if len(options) > 1:
            options = _by_loops(task, wanted, options, number)
        _add_part(plan, task, wanted, prefix, placement, options)
    return plan


def _natural(graph: Graph, nodes: Iterable[Node]) -> dict[tuple[str, str], FilterOperand]:
    """Operands with weights by node and gate."""
    found = operands(graph, zero_bias=ZeroBias.KEEP, nodes=nodes)
    return {
        (operand.node.name, operand.part): operand
        for operand in found
        if isinstance(operand, FilterOperand)
    }


def _match_original(plan: Plan, task: Task, call: Call, node: Node, prefix: Prefix) -> int | None:
    """Find the site of an operator by its earlier output stage, and plan the present one."""
    try:
        before = output_stage(call, prefix)
    except UnsupportedError as error:
        raise LinkError(error.what, where=title(call.node)) from None
    layout = _natural(task.graph, [node])[node.name, ""].layout
    fitting = [n for n, site in enumerate(task.sites) if site.fits(layout)]
    exact = [n for n in fitting if not differences(before, task.sites[n].first)]
    exact = [n for n in exact if task.sites[n].first.trained] or exact
    if len(exact) != 1:
        raise LinkError(
            f"{len(exact)} groups of instructions compute {title(call.node)} of the original",
            reason=_nearest(before, [task.sites[n] for n in fitting]) if not exact else "",
            hint="the original must be the very source from which the model was compiled",
        )
    _want(plan, task, node, prefix, exact[0])
    return exact[0]


def _want(plan: Plan, task: Task, node: Node, prefix: Prefix, number: int) -> None:
    """Plan the output stage of an operator at a site."""
    try:
        with_prefix(task.graph, _natural(task.graph, [node])[node.name, ""], prefix)
        stage = output_stage(Call.of(task.graph, node), prefix)
    except UnsupportedError as error:
        plan.reject("edgetpu-patch-prefix", title(node), error.what, hint=RECOMPILE)
        return
    site = task.sites[number]
    differing = differences(stage, site.first)
    fixed = [name for name in differing if name not in ADJUSTABLE]
    if fixed:
        plan.reject(
            "edgetpu-patch-activations", title(node), _told(stage, site, fixed), hint=FREEZE
        )
        return
    for name, (other, at) in plan.stages.items():
        if at == number and (other.scale, other.c_zero_point) != (stage.scale, stage.c_zero_point):
            plan.reject(
                "edgetpu-patch-shared",
                title(node),
                f"its instructions cannot be told from those of {name!r}",
                reason="the retrained source wants different scales for both",
                hint=RECOMPILE,
            )
    if differing and site.is_copy:
        plan.reject(
            "edgetpu-patch-shared",
            title(node),
            "its instructions cannot be told from those that move data",
            hint=RECOMPILE,
        )
    plan.stages[node.name] = (stage, number)
    plan.checked.append(title(node))


def _told(stage: OutputStage, site: Site, names: Iterable[str]) -> str:
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
    return _told(stage, site, names)


def _compare_activations(plan: Plan, task: Task, original: Graph, nodes: Sequence[Node]) -> None:
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
                plan.reject(
                    "edgetpu-patch-activations",
                    title(node),
                    f"{y!r} has {_shown(b.type)}",
                    reason=f"it has {_shown(a.type)} in the original source",
                    hint=FREEZE,
                )
            elif before.op not in WEIGHTED and not _same_data(a, b):
                plan.reject(
                    "edgetpu-patch-constant",
                    title(node),
                    f"its constant {y!r} is another than in the original source",
                    hint=RECOMPILE,
                )
        plan.checked.append(title(node))


def _same_data(a: Value, b: Value) -> bool:
    return a.data is None or b.data is None or np.array_equal(a.data, b.data)


def _shown(type: TensorType) -> str:
    q = type.quantization
    if q is None or not q.is_per_tensor:
        return str(type)
    return f"scale {q.scale[0]:.9g}, zero point {q.zero_point[0]}"


# --- plan without it -----------------------------------------------------------------------------


def plan_alone(task: Task) -> Plan:
    """What is to be done if only the retrained source is known.

    Raises:
        LinkError: the source does not fit the package, or does so in several ways.
    """
    plan = Plan()
    fresh = _natural(task.graph, task.nodes)
    recurrent = [node for node in task.nodes if node.op in WEIGHTED and node.op not in FILTERS]
    for node in recurrent:
        plan.reject(
            "edgetpu-patch-unknown",
            title(node),
            "the constants of its instructions cannot be compared",
            hint=ORIGINAL,
        )
    if not plan.rejects:
        chosen = _choose_sites(plan, task, fresh)
        _check_others(plan, task)
        if not plan.rejects:
            _place_alone(plan, task, fresh, chosen)
    return plan


@dataclass(frozen=True, slots=True)
class _Fit:
    """A site that may compute an operator, and whether its constants are right already."""

    number: int
    exact: bool


def _choose_sites(
    plan: Plan, task: Task, fresh: Mapping[tuple[str, str], FilterOperand]
) -> dict[str, int]:
    """The site of every operator with weights, by its name."""
    filters = [node for node in task.nodes if node.op in FILTERS]
    fits = {node.name: _fits(plan, task, node, fresh[node.name, ""]) for node in filters}
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
            plan.reject(
                "edgetpu-patch-ambiguous", title(node),
                f"{len(exact)} groups of instructions may compute it", hint=ORIGINAL,
            )  # fmt: skip
        else:
            open_[node.name] = [fit.number for fit in fits[node.name]]
    if not plan.rejects:
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
            _want(plan, task, node, task.sites[number].prefix, number)
    return chosen


def _fits(plan: Plan, task: Task, node: Node, operand: FilterOperand) -> list[_Fit]:
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
            reasons.append((len(differing), _told(stage, site, differing)))
    if not found:
        unfit = (0, "no instruction has as many weights and channels")
        _, reason = min(reasons, key=lambda item: item[0], default=unfit)
        plan.reject(
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


_COMPARED = {
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


def _check_others(plan: Plan, task: Task) -> None:
    """Compare the constants of operators without weights, as far as they are known."""
    known = {
        (names, tuple(getattr(op, name) for name in names))
        for names in set(_COMPARED.values())
        for op in task.operations.values()
    }
    for node in task.nodes:
        call, names = Call.of(task.graph, node), _COMPARED.get(node.op)
        if node.op in WEIGHTED or _is_same(call):
            continue
        if node.op in _MOVES:
            plan.reject(
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
            plan.checked.append(title(node))
        elif stage is None or names is None:
            plan.notes.append(
                Diagnostic(
                    Severity.WARNING,
                    "edgetpu-patch-unchecked",
                    title(node),
                    "whether its activations are as they were cannot be told",
                    hint=ORIGINAL,
                )
            )
        elif (names, tuple(getattr(stage, name) for name in names)) in known:
            plan.checked.append(title(node))
        else:
            told = ", ".join(f"{name} {getattr(stage, name):.9g}" for name in names)
            plan.reject(
                "edgetpu-patch-activations",
                title(node),
                f"no instruction has its constants: {told}",
                hint=FREEZE,
            )


def _is_same(call: Call) -> bool:
    """Whether an operator moves values without a change of their unsigned quantization."""
    if call.node.op not in (*_MOVES, "quantize"):
        return False
    results = {_numerics(value.type)[2:] for value in call.outputs}
    sources = {
        _numerics(value.type)[2:]
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
    plan: Plan,
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
    for placement in place(wanted, task.blobs):
        operand, layouts = placement.operand, placement.layouts
        if isinstance(operand, SequenceOperand):
            continue  # the same whatever the weights
        if isinstance(operand, SoftmaxOperand):
            held = task.blobs[placement.blob][placement.offset : placement.end]
            if not any(np.array_equal(operand.pack(layout), held) for layout in layouts):
                plan.reject(
                    "edgetpu-patch-activations", operand.name,
                    "its tables are for another input scale", hint=FREEZE,
                )  # fmt: skip
            plan.notes = [note for note in plan.notes if note.where != operand.name]
            plan.checked.append(operand.name)
            continue
        assert isinstance(operand, FilterOperand)
        number = chosen[operand.node.name]
        if len(layouts) > 1:
            layouts = _by_loops(task, operand, layouts, number)
        _add_part(plan, task, operand, task.sites[number].prefix, placement, layouts)


def _by_loops(
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


def _add_part(
    plan: Plan,
    task: Task,
    wanted: FilterOperand,
    prefix: Prefix,
    placement: Placement,
    layouts: tuple[Layout, ...],
) -> None:
    """Plan the bytes of an operand."""
    if any(reject.where == wanted.name for reject in plan.rejects):
        return
    if len(layouts) > 1:
        orders = [layout.order for layout in layouts if isinstance(layout, ConvolutionLayout)]
        plan.reject(
            "edgetpu-patch-order", wanted.name, "the order of its weight words cannot be told",
            reason=f"{' or '.join(order.value for order in orders)}", hint=ORIGINAL,
        )  # fmt: skip
        return
    try:
        operand = with_prefix(task.graph, wanted, prefix)
    except UnsupportedError as error:
        plan.reject("edgetpu-patch-prefix", wanted.name, error.what, hint=RECOMPILE)
        return
    plan.parts.append((dataclasses.replace(placement, operand=operand), layouts[0]))
