"""A quantized graph becomes an object of the Edge TPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.codegen import (
    depthwise,
    edges,
    fully_connected,
    functions,
    global_pool,
    halo,
    pools,
    reshape,
    resize,
    shapes,
    softmax,
    strips,
    sums,
    vectors,
)
from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer, Step, Weights
from fitzroy.compiler.targets.edgetpu.codegen.legalize import RULES, Legalizer, Rule
from fitzroy.compiler.targets.edgetpu.codegen.memory import (
    WIDE_ROWS,
    Live,
    Piece,
    WideRows,
    allocate_narrow,
)
from fitzroy.compiler.targets.edgetpu.codegen.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    COLUMNS,
    EVERY,
    ROWS,
    WORD,
    Axis,
    Image,
    Placed,
    Vector,
    split,
)
from fitzroy.compiler.targets.edgetpu.requantization import unsigned_zero_point
from fitzroy.formats.darwinn import (
    DataType,
    InputLayer,
    NumericsConstants,
    OutputLayer,
)
from fitzroy.formats.darwinn import (
    Layer as Port,
)
from fitzroy.formats.object_file import (
    UNIT_BYTES,
    ObjectFile,
    Operand,
    OperandKind,
    Reserved,
    Resources,
    Run,
)

PRODUCER = "fitzroy"
RULE_MODULES = (
    depthwise,
    fully_connected,
    functions,
    global_pool,
    pools,
    reshape,
    resize,
    shapes,
    softmax,
    sums,
)
"""Modules that declare how operators are lowered."""

_IDENTITY = WIDE_ROWS - 1
_IDENTITY_BYTES = 4 * WORD
_MOST_BUNDLES = 6_000
"""Bundles of a layer with its exchanges, at most."""


def lowerings() -> Mapping[str, Rule]:
    """The rules of all operators that can be lowered."""
    return RULES


def lower(graph: Graph, options: Options = DEFAULT) -> ObjectFile:
    """The program of a graph, for the linker.

    Args:
        graph: the graph.
        options: what it may use of the chip.

    Raises:
        UnsupportedError: a node has no lowering.
        CapacityError: the chip's memories are too small.
    """
    narrow_bytes = options.narrow_bytes
    legalizer = Legalizer(graph, options)
    legalizer.run()
    layers = legalizer.layers
    plan = _plan(legalizer, narrow_bytes)
    tensors, steps = plan.tensors, plan.steps
    depthwise.pack_weights(plan.patches)
    staging = 1 + max(
        [step.layer.staging_rows(step.tensors) for step in steps]
        + [edges.staging_rows(tensors[legalizer.place(name)]) for name in graph.inputs]
        + [2]
    )
    pieces = _parameters(layers, tensors, WIDE_ROWS - staging)
    builder = Builder()
    builder.staging = _IDENTITY
    context = Context(builder, tensors, pieces, _IDENTITY, narrow_bytes - plan.scratch[0])
    builder.begin()
    edges.identity(builder, _IDENTITY, context.scratch // WORD)
    for name in graph.inputs:
        place = tensors[legalizer.place(name)]
        edges.receive(context, place)
        _exchange(builder, place)
    for step, scratch in zip(steps, plan.scratch[1:], strict=True):
        builder.room(_MOST_BUNDLES)
        step.layer.emit(replace(context, tensors=step.tensors, scratch=narrow_bytes - scratch))
        blocks = None if step.whole else step.layer.completes(step.tensors)
        if blocks is None:
            builder.barrier()
        if step.complete:
            _exchange(builder, step.whole or step.result, blocks)
    for name in graph.outputs:
        edges.send(context, tensors[legalizer.place(name)], name)
    builder.end()
    text, symbols = builder.sections()
    return ObjectFile(
        name=graph.name,
        chip="beagle",
        producer=PRODUCER,
        text=text,
        operands=[_operand(item, pieces[item.name]) for layer in layers for item in layer.weights],
        symbols=symbols,
        inputs=[_port(graph, name, InputLayer()) for name in graph.inputs],
        outputs=[_port(graph, name, OutputLayer()) for name in graph.outputs],
        resources=Resources(
            narrow_bytes=plan.used,
            staging=[Reserved(tiles=EVERY, row=WIDE_ROWS - staging, rows=staging)],
        ),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What runs, and where tensors are in narrow memory.

    Attributes:
        tensors: places of tensors by name, without those of intermediate images of segments.
        steps: layers in the order in which they run.
        scratch: bytes at the top that inputs, and then each step, use for themselves.
        used: bytes used from the bottom.
        patches: patches of depthwise convolutions.
        cycles: estimated cycles.
    """

    tensors: Mapping[str, Placed]
    steps: Sequence[Step]
    scratch: Sequence[int]
    used: int
    patches: Mapping[depthwise.Depthwise, depthwise.Patch]
    cycles: float


def _plan(legalizer: Legalizer, narrow_bytes: int) -> _Plan:
    """Places for all tensors.

    Strips are as cheap as they can be in all of narrow memory. If addresses cannot be found then,
    it is the cheapest of strips that leave some of it free, and patches that take no more of it.

    Raises:
        CapacityError: they do not fit.
    """
    whole = _placed(legalizer)
    steps = strips.steps(legalizer, [], whole)
    lives = _lives(legalizer, whole, steps)
    scratch = _scratch(legalizer, whole, steps, patches=False)
    first: CapacityError | None = None
    found: dict[depthwise.Overlap, _Plan] = {}
    tried: list[strips.Segment] | None = None
    for capacity in strips.capacities(narrow_bytes):
        try:
            segments = strips.choose(legalizer, lives, scratch, capacity)
        except CapacityError as error:
            first = first or error
            break
        if segments == tried:
            continue
        tried = segments
        for overlap in depthwise.Overlap:
            if overlap in found:
                continue
            try:
                found[overlap] = _allocated(legalizer, segments, overlap, narrow_bytes)
            except CapacityError as error:
                first = first or error
            else:
                break
        if depthwise.Overlap.ALL in found:
            break
    if not found:
        assert first is not None
        raise first
    return min(found.values(), key=lambda plan: plan.cycles)


def _allocated(
    legalizer: Legalizer,
    segments: Sequence[strips.Segment],
    overlap: depthwise.Overlap,
    narrow_bytes: int,
) -> _Plan:
    """Places for all tensors with given segments.

    Raises:
        CapacityError: they do not fit.
    """
    graph = legalizer.graph
    tensors = _placed(legalizer, segments)
    steps = strips.steps(legalizer, segments, tensors)
    lives = _lives(legalizer, tensors, steps)
    # Patches, which take long to choose, only add to what tensors and layers take.
    scratch = _scratch(legalizer, tensors, steps, patches=False)
    allocate_narrow(lives, reserved=scratch, nbytes=narrow_bytes)
    inputs = [tensors[legalizer.place(name)] for name in graph.inputs]
    staging = max([*map(edges.staging_rows, inputs), 2])
    cycles = depthwise.choose_patches(steps, staging, overlap)
    cycles += sum(strips.cycles(step.layer, step.result) for step in steps)
    strips.widen(steps)
    pools.align(steps)
    sums.align(steps)
    strips.bind(steps)
    scratch = _scratch(legalizer, tensors, steps)
    used = allocate_narrow(lives, reserved=scratch, nbytes=narrow_bytes)
    strips.bind(steps)
    patches = {
        layer: layer.patch for layer in legalizer.layers if isinstance(layer, depthwise.Depthwise)
    }
    return _Plan(tensors, steps, scratch, used, patches, cycles)


def _scratch(
    legalizer: Legalizer,
    tensors: Mapping[str, Placed],
    steps: Sequence[Step],
    *,
    patches: bool = True,
) -> list[int]:
    """Narrow memory that inputs, and then each step, use for themselves.

    Args:
        legalizer: the layers.
        tensors: places of tensors.
        steps: the steps.
        patches: whether patches have been chosen; if not, what they need does not count.
    """
    inputs = (tensors[legalizer.place(name)] for name in legalizer.graph.inputs)
    return [
        max([_IDENTITY_BYTES, *map(edges.buffer_bytes, inputs)]),
        *[
            step.layer.scratch_bytes(step.tensors)
            if patches or not isinstance(step.layer, depthwise.Depthwise)
            else 0
            for step in steps
        ],
    ]


def _exchange(builder: Builder, tensor: Placed, blocks: halo.Blocks | None = None) -> None:
    """Fill the windows of a tensor, in the phase that computes it or in one of its own."""
    exchanged = isinstance(tensor, Image) and halo.exchange(builder, tensor, blocks)
    if exchanged or blocks is not None:
        builder.barrier()


def _placed(legalizer: Legalizer, segments: Sequence[strips.Segment] = ()) -> dict[str, Placed]:
    """Every tensor with its windows, without address; without intermediate images of segments."""
    readers: dict[str, list[tuple[Layer, int]]] = {}
    for layer in legalizer.layers:
        for index, name in enumerate(layer.reads):
            readers.setdefault(name, []).append((layer, index))
    inner = {name for segment in segments for name in segment.inner(legalizer)}
    stripped = {id(layer) for segment in segments for layer in segment.layers(legalizer)}
    regions = [strips.windows(legalizer, segment) for segment in segments]
    inputs = [legalizer.place(name) for name in legalizer.graph.inputs]
    vectors = {name: len(legalizer.type(name).shape) < 4 for name in inputs}
    vectors |= {layer.writes: layer.makes_vector for layer in legalizer.layers}
    found: dict[str, Placed] = {}
    for name, is_vector in vectors.items():
        if name in inner:
            continue
        type = legalizer.type(name)
        zero = unsigned_zero_point(type)
        if is_vector:
            found[name] = Vector(name, type.size, zero)
            continue
        _, height, width, channels = type.shape
        needed = [region[name] for region in regions if name in region]
        rows, columns = [one for one, _ in needed], [one for _, one in needed]
        for layer, index in readers.get(name, []):
            if layer.makes_vector or id(layer) in stripped:
                continue
            result = legalizer.type(layer.writes).shape
            reach = layer.windows(index)
            rows.append(tuple(map(reach[0].needs, split(result[1], ROWS))))
            columns.append(tuple(map(reach[1].needs, split(result[2], COLUMNS))))
        found[name] = Image(
            name,
            halo.relayed(Axis.of(height, ROWS, rows)),
            halo.relayed(Axis.of(width, COLUMNS, columns)),
            channels,
            zero,
        )
    return found


def _lives(
    legalizer: Legalizer, tensors: Mapping[str, Placed], steps: Sequence[Step]
) -> list[Live]:
    born = {tensors[legalizer.place(name)]: 0 for name in legalizer.graph.inputs}
    last = dict(born)
    for number, step in enumerate(steps, 1):
        result = step.whole or step.result
        born.setdefault(result, number)
        last[result] = number
        for name in step.layer.reads:
            last[step.tensors[name]] = number
    for name in legalizer.graph.outputs:
        last[tensors[legalizer.place(name)]] = len(steps) + 1
    return [Live(tensor, begin, last[tensor]) for tensor, begin in born.items()]


def _parameters(
    layers: Sequence[Layer], tensors: Mapping[str, Placed], limit: int
) -> dict[str, list[Piece]]:
    """Rows of wide memory for all parameters, and with them the tiles where vectors begin.

    Raises:
        CapacityError: they do not fit.
    """
    rows = WideRows(limit=limit)
    found = {}
    families = vectors.families(layers, tensors)
    # Blocks of a pass need the same rows on all of their tiles: they come first.
    for layer in layers:
        for item in layer.weights:
            if item.kind is OperandKind.FULLY_CONNECTED:
                family = families.pop(layer.writes, [])
                origin = rows.origin(item.blocks)
                for vector in family:
                    vector.first = origin
                    families.pop(vector.name, None)
                result = tensors[layer.writes]
                origin = result.first if isinstance(result, Vector) else 0
                found[item.name] = rows.blocks(item.words // item.blocks, item.blocks, origin)
    items = [item for layer in layers for item in layer.weights]
    # Then those that must not be divided.
    for item in [item for item in items if item.kind is OperandKind.PACKED]:
        found[item.name] = rows.anywhere(item.words, whole=True)
    for item in [item for item in items if item.kind is OperandKind.CONVOLUTION]:
        found[item.name] = rows.anywhere(item.words)
    return found


def _operand(item: Weights, pieces: Sequence[Piece]) -> Operand:
    runs, left = [], len(item.data) // UNIT_BYTES
    for piece in pieces:
        units = piece.words * 4 * item.lanes // UNIT_BYTES
        if piece is pieces[-1]:
            units = left
        left -= units
        runs.append(
            Run(tile=piece.tile, row=piece.row, words=piece.words, units=units, group=piece.group)
        )
    if left:
        raise CapacityError(f"{left} units of {item.name!r} have no rows")
    return Operand(
        name=item.name,
        kind=int(item.kind),
        lanes=item.lanes,
        prefix=item.prefix,
        data=item.data,
        runs=runs,
    )


def _port(graph: Graph, name: str, kind: InputLayer | OutputLayer) -> Port:
    type = graph.type(name)
    y, x, z = (1, 1, type.size) if len(type.shape) < 4 else type.shape[1:]
    quantization = type.quantization
    assert quantization is not None
    signed = type.dtype is DType.INT8
    return Port(
        name=name,
        size_bytes=-(-y * x * z // 8) * 8,
        y_dim=y,
        x_dim=x,
        z_dim=z,
        numerics=NumericsConstants(
            zero_point=unsigned_zero_point(type), dequantization_factor=quantization.scale[0]
        ),
        data_type=int(DataType.SIGNED_FIXED_POINT8 if signed else DataType.FIXED_POINT8),
        any_layer=kind,
    )
