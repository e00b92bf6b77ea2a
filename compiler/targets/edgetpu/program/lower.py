"""A quantized graph becomes an object of the Edge TPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fitzroy.base.errors import CapacityError, FormatError, InternalError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.fitting import spilling, strip_search, strips
from fitzroy.compiler.targets.edgetpu.fitting.residency import (
    Placement,
    demands_of,
    place_all,
    place_some,
)
from fitzroy.compiler.targets.edgetpu.fitting.staging import choose_staging
from fitzroy.compiler.targets.edgetpu.host import host_io, host_layers
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.layers import halo
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Step, Weights
from fitzroy.compiler.targets.edgetpu.layers.legalize import RULES, Legalizer, Rule
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused, refused, refusing
from fitzroy.compiler.targets.edgetpu.layers.streaming import HostStream
from fitzroy.compiler.targets.edgetpu.lowerings import (
    batch_matmul,
    batches,
    depthwise,
    fully_connected,
    functions,
    global_pool,
    lstm,
    normalization,
    pools,
    reductions,
    resize,
    softmax,
    sums,
    transposed_convolution,
)
from fitzroy.compiler.targets.edgetpu.memory.allocation import (
    WIDE_ROWS,
    Live,
    NoRoom,
    Overlap,
    Piece,
    WideRows,
    allocate_narrow,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    EVERY,
    ROWS,
    WORD,
    Axis,
    Image,
    Placed,
    Remote,
    Vector,
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import unsigned_zero_point
from fitzroy.compiler.targets.edgetpu.program.confirmation import refuse_unproven
from fitzroy.compiler.targets.edgetpu.program.stages import (
    Allocated,
    Emitted,
    Legalized,
    Mark,
    Observer,
    Parameters,
    kind_of,
)
from fitzroy.compiler.targets.edgetpu.reshaping import (
    rows_as_pixels,
    shapes,
    stacking,
    transpose,
    views,
)
from fitzroy.formats.object_file import (
    UNIT_BYTES,
    ObjectFile,
    Operand,
    Reserved,
    Resources,
    Run,
    Symbol,
    Text,
)
from fitzroy.hw_models.isa.instruction import Instruction

PRODUCER = "fitzroy"
RULE_MODULES = (
    batch_matmul,
    batches,
    depthwise,
    fully_connected,
    functions,
    global_pool,
    lstm,
    normalization,
    pools,
    rows_as_pixels,
    reductions,
    resize,
    shapes,
    softmax,
    stacking,
    sums,
    transpose,
    transposed_convolution,
    views,
)
"""Modules that declare how operators are lowered."""

_IDENTITY = WIDE_ROWS - 1
_IDENTITY_BYTES = 4 * WORD
_STAGING_ROWS = (1024, 768, 512, 384, 256, 192)
"""Rows of wide memory that convolutions may take for data, the first that parameters leave free."""

_PARAMETER_SHARE = 0.97
"""Part of the rows that parameters fill; some are lost between operands."""

_MOST_BUNDLES = 6_000
"""Bundles of a layer with its exchanges, at most."""


def lowerings() -> Mapping[str, Rule]:
    """The rules of all operators that can be lowered."""
    return RULES


def lower(graph: Graph, options: Options = DEFAULT, observe: Observer | None = None) -> ObjectFile:
    """The program of a graph, for the linker.

    Args:
        graph: the graph.
        options: what it may use of the chip.
        observe: is shown every form that the program takes.

    Raises:
        UnsupportedError: a node has no lowering, or a conservative program would leave the
            envelope of published programs whatever its operators are.
        Refused: the chip's memories are too small for some operators, their instructions do not
            encode, or they would let a conservative program leave the envelope.
        CapacityError: the chip's memories are too small for all of them together.
        UnconfirmedError: the program has forms that are neither published nor confirmed, and only
            these may be used.
    """
    return _lowered(legalized(graph, options), observe)


def lower_layers(
    graph: Graph,
    layers: Sequence[Layer],
    options: Options = DEFAULT,
    observe: Observer | None = None,
) -> ObjectFile:
    """The program of layers, for the linker: of kernels that no operator stands for, for example.

    Args:
        graph: inputs, outputs and types; its nodes say which layer makes what, no more.
        layers: the layers in their order; those for inputs and outputs are added.
        options: what the program may use of the chip.
        observe: is shown every form that the program takes.

    Raises:
        Refused: as for `lower`, and all that follows.
        CapacityError: the chip's memories are too small.
        UnconfirmedError: the program has forms that may not be used.
    """
    legalizer = Legalizer(graph, options)
    for layer in layers:
        layer.origin = layer.origin or layer.name
        legalizer.layers.append(layer)
    host_layers.attach(legalizer)
    return _lowered(legalizer, observe)


def _lowered(legalizer: Legalizer, observe: Observer | None) -> ObjectFile:
    """The program of a graph whose nodes have become layers."""
    show: Observer = observe or (lambda form: None)
    graph, options, layers = legalizer.graph, legalizer.options, legalizer.layers
    show(Legalized(graph, layers, legalizer.aliases))
    plan, placement, staging = _arranged(legalizer)
    pieces = placement.pieces
    items = _items(layers)
    show(Allocated(plan.lives, plan.steps, plan.scratch, options.narrow_bytes))
    show(Parameters(items, pieces, options.taken, WIDE_ROWS - staging))
    builder, marks = _emitted(plan, pieces, options.narrow_bytes)
    emitted = Emitted(marks, list(builder.program))
    show(emitted)
    if options.conservative or options.confirmed is not None:
        refuse_unproven(emitted, options.confirmed, conservative=options.conservative)
    text, symbols = _encoded(builder, emitted)
    return ObjectFile(
        name=graph.name,
        chip="beagle",
        producer=PRODUCER,
        text=text,
        operands=[_operand(item, pieces.get(item.name, ())) for item in items],
        symbols=symbols,
        inputs=[host_layers.input_port(graph, name) for name in graph.inputs],
        outputs=[host_layers.output_port(graph, name, plan.steps) for name in graph.outputs],
        resources=Resources(
            narrow_bytes=plan.used,
            scratch_bytes=builder.scratch_bytes,
            staging=[Reserved(tiles=EVERY, row=WIDE_ROWS - staging, rows=staging)],
            estimated_cycles=round(plan.cycles),
        ),
    )


def _arranged(legalizer: Legalizer) -> tuple[_Plan, Placement, int]:
    """What runs when, where parameters lie, and how many rows of wide memory are for data.

    Raises:
        CapacityError: the chip's memories are too small.
    """
    options = legalizer.options
    plan = _plan(legalizer, options.narrow_bytes)
    depthwise.pack_weights(plan.patches)
    _stage(legalizer, plan)
    placement, staging = _parameters(legalizer, plan)
    if not placement.complete and not all(layer.compact for layer in plan.patches):
        # Patches take as few rows as they can before anything comes from the host.
        fewest = replace(legalizer, options=replace(options, parameter_rows=0))
        plan = _plan(fewest, options.narrow_bytes)
        depthwise.pack_weights(plan.patches)
        _stage(legalizer, plan)
        placement, staging = _parameters(legalizer, plan)
    for layer, weights in placement.weights.items():
        layer.weights = weights
    return plan, placement, staging


def _stage(legalizer: Legalizer, plan: _Plan) -> None:
    """Choose how convolutions stage their weights.

    Staging takes no rows that parameters need.
    """
    options, words = legalizer.options, _words(legalizer.layers)
    needed = words / _PARAMETER_SHARE
    room = next((rows for rows in _STAGING_ROWS if needed <= options.free_rows(rows)), 0)
    # Other layers than convolutions are estimated too roughly to spend a share of their cycles.
    others = plan.cycles - sum(strip_search.cycles(step.layer, step.result) for step in plan.steps)
    # Patches may have spent half of it.
    cost = options.recipes.cost / (2 if plan.patches else 1)
    choose_staging(plan.steps, cost, others, _IDENTITY, room)


def _emitted(
    plan: _Plan, pieces: Mapping[str, Sequence[Piece]], narrow_bytes: int
) -> tuple[Builder, list[Mark]]:
    """The program of a plan, and where its steps begin."""
    builder, marks = Builder(), list[Mark]()
    builder.staging = _IDENTITY
    host = HostStream(
        [
            (item.name, item.units)
            for step in plan.steps
            for item in step.layer.weights
            if item.name not in pieces
        ]
    )
    scratch = narrow_bytes - plan.scratch[0]
    context = Context(builder, plan.tensors, pieces, _IDENTITY, scratch, host)
    builder.begin()
    host_io.identity(builder, _IDENTITY, context.scratch // WORD)
    ends = {
        step.layer.output: step for step in plan.steps if isinstance(step.layer, host_layers.Send)
    }
    for step, own in zip(plan.steps, plan.scratch[1:], strict=True):
        builder.room(_MOST_BUNDLES)
        title = f"{kind_of(step.layer)} {step.layer.name}"
        name = (
            ""
            if isinstance(step.layer, host_layers.Receive | host_layers.Send)
            else step.layer.name
        )
        marks.append(Mark(title, name, *builder.position, step.layer.origin))
        if not isinstance(step.layer, host_layers.Receive):
            host.prefetch(builder)
        last = not isinstance(step.layer, host_layers.Send) or ends[step.layer.output] is step
        with refusing(step.layer.origin):
            step.layer.emit(
                replace(context, tensors=step.tensors, scratch=narrow_bytes - own, last=last)
            )
        blocks = None if step.whole else step.layer.completes(step.tensors)
        # The end of the program waits for the last step.
        if blocks is None and step is not plan.steps[-1]:
            builder.barrier()
        if step.complete:
            _exchange(builder, step.whole or step.result, blocks)
    marks.append(Mark("end", "", *builder.position))
    builder.end()
    assert host.complete
    return builder, marks


def _encoded(builder: Builder, form: Emitted) -> tuple[list[Text], list[Symbol]]:
    """The sections and symbols of a program.

    Raises:
        Refused: an instruction of a step does not encode.
        InternalError: one does not that belongs to no step.
    """
    try:
        return builder.sections()
    except FormatError as error:
        origin = next((form.origin(*place) for *place, item in form.program if _fails(item)), "")
        if not origin:
            raise InternalError("the program does not encode", reason=str(error)) from error
        raise refused(origin, error) from error


def _fails(instruction: Instruction) -> bool:
    """Whether an instruction does not encode."""
    try:
        instruction.pack()
    except FormatError:
        return True
    return False


def legalized(graph: Graph, options: Options = DEFAULT) -> Legalizer:
    """All layers of a graph, with those that take its inputs and send its outputs.

    Raises:
        UnsupportedError: a node has no lowering.
    """
    legalizer = Legalizer(graph, options)
    legalizer.run()
    host_layers.attach(legalizer)
    return legalizer


@dataclass(frozen=True, slots=True)
class _Plan:
    """What runs, and where tensors are in narrow memory.

    Attributes:
        tensors: places of tensors by name, without those of intermediate images of segments.
        steps: layers in the order in which they run.
        lives: when tensors are in narrow memory.
        scratch: bytes at the top that the identity matrix, and then each step, use for themselves.
        used: bytes used from the bottom.
        patches: patches of depthwise convolutions.
        cycles: estimated cycles.
    """

    tensors: Mapping[str, Placed]
    steps: Sequence[Step]
    lives: Sequence[Live]
    scratch: Sequence[int]
    used: int
    patches: Mapping[depthwise.Depthwise, depthwise.Patch]
    cycles: float


def _plan(legalizer: Legalizer, narrow_bytes: int) -> _Plan:
    """Places for all tensors; some may be with the host for a while.

    Raises:
        CapacityError: they do not fit.
    """
    while True:
        try:
            return _planned(legalizer, narrow_bytes)
        except CapacityError:
            if not (spilling.spill(legalizer) or _interrupted(legalizer, narrow_bytes)):
                raise


def _interrupted(legalizer: Legalizer, narrow_bytes: int) -> bool:
    """Let an image wait with the host where nothing else helps; whether there is any."""
    reached = _search(legalizer).reached(narrow_bytes)
    return reached < len(legalizer.layers) and spilling.interrupt(legalizer, reached)


def _search(legalizer: Legalizer) -> strip_search.Search:
    """What finds segments."""
    steps = strips.steps(legalizer, [], _placed(legalizer))
    return strip_search.Search.of(legalizer, _lives(steps), _scratch(steps, patches=False))


def _planned(legalizer: Legalizer, narrow_bytes: int) -> _Plan:
    """Places for all tensors.

    Strips are as cheap as they can be in all of narrow memory. If addresses cannot be found then,
    it is the cheapest of strips that leave some of it free, and patches that take no more of it.

    Raises:
        CapacityError: they do not fit.
    """
    finder = _search(legalizer)
    first: CapacityError | None = None
    found: dict[depthwise.Overlap, _Plan] = {}
    tried: list[strips.Segment] | None = None
    for capacity in strip_search.capacities(narrow_bytes):
        try:
            segments = finder.choose(capacity)
        except CapacityError as error:
            first = first or error
            break
        if segments == tried:
            continue
        tried = segments
        try:
            _addressed(legalizer, segments, narrow_bytes)
        except CapacityError as error:
            first = first or error
            continue
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


def _addressed(legalizer: Legalizer, segments: Sequence[strips.Segment], narrow_bytes: int) -> None:
    """Find addresses without patches, which take long to choose and only add to what is taken.

    Raises:
        Refused: there are none.
    """
    tensors = _placed(legalizer, segments)
    steps = strips.steps(legalizer, segments, tensors)
    lives = _lives(steps, strips.sharings(legalizer, segments, tensors))
    _allocate(legalizer, lives, _scratch(steps, patches=False), narrow_bytes)


def _allocate(
    legalizer: Legalizer, lives: Sequence[Live], scratch: Sequence[int], narrow_bytes: int
) -> int:
    """Give tensors addresses in narrow memory; how many bytes from the bottom they use.

    Raises:
        Refused: one has no room; concerns the operator that makes it.
    """
    try:
        return allocate_narrow(lives, reserved=scratch, nbytes=narrow_bytes)
    except NoRoom as error:
        makers = [item.origin for item in legalizer.layers if item.writes == error.tensor.name]
        raise Refused(makers, error.what, reason=error.reason) from error


def _allocated(
    legalizer: Legalizer,
    segments: Sequence[strips.Segment],
    overlap: depthwise.Overlap,
    narrow_bytes: int,
) -> _Plan:
    """Places for all tensors with given segments.

    Raises:
        Refused: they do not fit.
    """
    tensors = _placed(legalizer, segments)
    steps = strips.steps(legalizer, segments, tensors)
    sharings = strips.sharings(legalizer, segments, tensors)
    cycles = depthwise.choose_patches(steps, 0, overlap, legalizer.options)
    cycles += sum(strip_search.cycles(step.layer, step.result) for step in steps)
    strips.widen(steps)
    pools.align(steps)
    sums.align(steps)
    strips.bind(steps)
    scratch = _scratch(steps)
    used = _allocate(legalizer, _lives(steps, sharings), scratch, narrow_bytes)
    strips.bind(steps)
    steps = strips.ordered(steps, sharings)
    patches = {
        layer: layer.patch for layer in legalizer.layers if isinstance(layer, depthwise.Depthwise)
    }
    return _Plan(tensors, steps, _lives(steps, sharings), _scratch(steps), used, patches, cycles)


def _scratch(steps: Sequence[Step], *, patches: bool = True) -> list[int]:
    """Narrow memory that the identity matrix, and then each step, use for themselves.

    Args:
        steps: the steps.
        patches: whether patches have been chosen; if not, what they need does not count.

    Raises:
        Refused: a layer cannot work with its tensors.
    """
    found = [_IDENTITY_BYTES]
    for step in steps:
        if patches or not isinstance(step.layer, depthwise.Depthwise):
            with refusing(step.layer.origin):
                found.append(step.layer.scratch_bytes(step.tensors))
        else:
            found.append(0)
    return found


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
    found: dict[str, Placed] = {}
    for layer in legalizer.layers:
        name = layer.writes
        if name in inner:
            continue
        type = legalizer.type(name)
        zero = unsigned_zero_point(type)
        if layer.makes_vector:
            found[name] = Vector(name, type.size, zero)
            continue
        shape = type.shape if len(type.shape) == 4 else (1, 1, 1, type.size)
        _, height, width, channels = shape
        needed = [region[name] for region in regions if name in region]
        rows, columns = [one for one, _ in needed], [one for _, one in needed]
        for reader, index in readers.get(name, []):
            if reader.makes_vector or id(reader) in stripped:
                continue
            result = legalizer.type(reader.writes).shape
            reach = reader.windows(index)
            rows.append(tuple(map(reach[0].needs, split(result[1], ROWS))))
            columns.append(tuple(map(reach[1].needs, split(result[2], COLUMNS))))
        found[name] = (Remote if layer.remote else Image)(
            name,
            halo.relayed(Axis.of(height, ROWS, rows)),
            halo.relayed(Axis.of(width, COLUMNS, columns)),
            channels,
            zero,
        )
    return found


def _lives(steps: Sequence[Step], sharings: Sequence[strips.Sharing] = ()) -> list[Live]:
    """When tensors are in narrow memory.

    Args:
        steps: the steps.
        sharings: segments that may write their results over what they read. Strips of these may
            run in either order, so that what lives longer than a strip lives for all of them.
    """
    born, last = dict[Placed, int](), dict[Placed, int]()
    for number, step in enumerate(steps, 1):
        result = step.whole or step.result
        born.setdefault(result, number)
        last[result] = number
        for name in step.layer.reads:
            last[step.tensors[name]] = number
    overlaps = dict[Placed, Overlap]()
    for sharing in sharings:
        own = steps[sharing.begin - 1 : sharing.end]
        for step in own:
            if step.whole is not None:
                born[step.whole] = min(born[step.whole], sharing.begin)
            for name in step.layer.reads:
                if born[step.tensors[name]] < sharing.begin:
                    last[step.tensors[name]] = max(last[step.tensors[name]], sharing.end)
        overlaps[sharing.result] = Overlap(sharing.source, sharing.below, sharing.above)
    return [
        Live(tensor, begin, last[tensor], overlaps.get(tensor)) for tensor, begin in born.items()
    ]


def parameter_rows(graph: Graph, options: Options = DEFAULT) -> int:
    """Rows of wide memory, of all tiles, that a program needs to have all its parameters there.

    Depthwise convolutions then compute no more positions at a time than takes the fewest rows.

    Args:
        graph: the graph.
        options: what the program may use of the chip, whatever they say about rows.

    Raises:
        UnsupportedError: a node has no lowering.
        CapacityError: narrow memory is too small.
    """
    legalizer = legalized(graph, replace(options, parameter_rows=0))
    plan = _plan(legalizer, options.narrow_bytes)
    depthwise.pack_weights(plan.patches)
    return _words(legalizer.layers)


def _words(layers: Iterable[Layer]) -> int:
    return sum(item.words for item in _items(layers))


def _items(layers: Iterable[Layer]) -> list[Weights]:
    """Weights of layers, those that several have once."""
    return list({id(item): item for layer in layers for item in layer.weights}.values())


def _staging(plan: _Plan, *, streaming: bool = False) -> int:
    """Rows at the top of wide memory for data, if parameters come from the host or if none do.

    Raises:
        Refused: a layer needs more rows than there are.
    """
    most = 0
    for step in plan.steps:
        layer, tensors = step.layer, step.tensors
        with refusing(layer.origin):
            streams = streaming and layer.streams
            rows = layer.streaming_rows(tensors) if streams else layer.staging_rows(tensors)
        if rows >= WIDE_ROWS and (streaming or not layer.streams):
            raise Refused(
                [layer.origin],
                f"it needs {1 + rows} rows of wide memory for its data",
                reason=f"tiles have {WIDE_ROWS}",
            )
        most = max(most, rows)
    return 1 + most


def _parameters(legalizer: Legalizer, plan: _Plan) -> tuple[Placement, int]:
    """Rows of wide memory for parameters that stay on the chip, and how many are for data.

    Raises:
        CapacityError: parameters that cannot come from the host do not fit.
    """
    options, layers, tensors = legalizer.options, legalizer.layers, plan.tensors
    shared = options.parameter_rows is not None
    staging = max(_staging(plan), options.staging)
    if _words(layers) <= options.free_rows(staging):
        with suppress(CapacityError):
            rows = WideRows(list(options.taken), WIDE_ROWS - staging, level=shared)
            return place_all(layers, tensors, rows), staging
    staging = max(_staging(plan, streaming=True), options.staging)
    rows = WideRows(list(options.taken), WIDE_ROWS - staging, level=shared)
    runs = Counter(id(step.layer) for step in plan.steps)
    demands = demands_of(layers, runs)
    return place_some(demands, tensors, rows, options.free_rows(staging)), staging


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
    if runs and left:
        raise CapacityError(f"{left} units of {item.name!r} have no rows")
    return Operand(
        name=item.name,
        kind=int(item.kind),
        lanes=item.lanes,
        prefix=item.prefix,
        data=item.data,
        runs=runs,
    )
