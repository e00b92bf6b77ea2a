"""How does a quantized graph become an object for the linker?

`lower` is the whole path: `legalized` makes layers of nodes, `fitting.wide.assigned` gives tensors
and parameters their places, `program.emission.emitted` makes the instructions, and `_lowered` puts
sections, operands and ports into an `ObjectFile`. An observer sees the form that each stage gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from fitzroy.base.errors import CapacityError
from fitzroy.base.progress import advance
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.axes.orders import in_cheapest_orders
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.compiler.passes.unread import read_pixels
from fitzroy.compiler.targets.edgetpu import lowerings as lowerings_of_operators
from fitzroy.compiler.targets.edgetpu import reshaping
from fitzroy.compiler.targets.edgetpu.fitting.wide import assigned, fewest_rows
from fitzroy.compiler.targets.edgetpu.host import host_layers
from fitzroy.compiler.targets.edgetpu.host.dense_outputs import send_densely
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.legalize import RULES, Legalizer, Rule
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.layers.sharing import sharing_weights
from fitzroy.compiler.targets.edgetpu.lowerings.attention import taken_apart
from fitzroy.compiler.targets.edgetpu.lowerings.borders import padded_images
from fitzroy.compiler.targets.edgetpu.lowerings.channels_in_turn import channels_in_turn
from fitzroy.compiler.targets.edgetpu.lowerings.fully_connected import FullyConnected
from fitzroy.compiler.targets.edgetpu.lowerings.groups import ungrouped
from fitzroy.compiler.targets.edgetpu.lowerings.joined_products import joined_products
from fitzroy.compiler.targets.edgetpu.lowerings.tables import as_tables
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS, Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY
from fitzroy.compiler.targets.edgetpu.program.allocated import Allocated
from fitzroy.compiler.targets.edgetpu.program.confirmation import refuse_unproven
from fitzroy.compiler.targets.edgetpu.program.emission import emitted
from fitzroy.compiler.targets.edgetpu.program.stages import Legalized, Observer, Parameters
from fitzroy.formats.object_file import UNIT_BYTES, ObjectFile, Operand, Reserved, Resources, Run

PRODUCER = "fitzroy"
for _package in (lowerings_of_operators, reshaping):
    # Every module there declares how some operators are lowered.
    for _module in iter_modules(_package.__path__, f"{_package.__name__}."):
        import_module(_module.name)


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
    legalizer.layers += [replace(layer, origin=layer.origin or layer.name) for layer in layers]
    return _lowered(host_layers.layered(legalizer), observe)


def _lowered(layered: Layered, observe: Observer | None) -> ObjectFile:
    """The program of layers."""
    show: Observer = observe or (lambda form: None)
    graph, options = layered.graph, layered.options
    advance("memory", 0.0)
    show(Legalized.of(layered))
    assignment = assigned(layered)
    schedule = assignment.schedule
    show(Allocated.of(schedule))
    emission = emitted(assignment)
    assignment = emission.assignment
    show(Parameters.of(assignment))
    show(emission.form)
    if options.conservative or options.confirmed is not None:
        refuse_unproven(emission.form, options.confirmed, conservative=options.conservative)
    text, symbols = emission.encoded()
    pieces, first = assignment.residency.pieces, WIDE_ROWS - assignment.staging
    return ObjectFile(
        name=graph.name,
        chip="beagle",
        producer=PRODUCER,
        text=text,
        operands=[_operand(item, pieces.get(item.name, ())) for item in assignment.weights],
        symbols=symbols,
        inputs=[host_layers.input_port(graph, name) for name in graph.inputs],
        outputs=[host_layers.output_port(graph, name, schedule.steps) for name in graph.outputs],
        resources=Resources(
            narrow_bytes=assignment.used,
            scratch_bytes=emission.scratch_bytes,
            staging=[Reserved(tiles=EVERY, row=first, rows=assignment.staging)],
            estimated_cycles=round(emission.form.cycles),
        ),
    )


def legalized(graph: Graph, options: Options = DEFAULT) -> Layered:
    """All layers of a graph, with those that take its inputs and send its outputs.

    Raises:
        UnsupportedError: a node has no lowering.
    """
    whole = rewritten(graph, options)
    legalizer = Legalizer(whole.graph, options)
    legalizer.run(whole.origins)
    legalizer.layers[:] = sharing_weights(legalizer.layers, FullyConnected)
    send_densely(legalizer)
    return host_layers.layered(legalizer)


def rewritten(graph: Graph, options: Options) -> Rewritten:
    """A graph of the same outputs as it is legalized, where what a node becomes depends on others.

    Functions that several operators make up are looked up, pixels that nothing reads are not
    computed, columns or rows of the same matrix are multiplied together, axes have the order in
    which the least moves, products of matrices read parts of images, convolutions have no groups,
    borders are those of images, and those of depthwise convolutions fit, some channels at a time.
    """
    parts = Rewritten(graph).then(as_tables).then(read_pixels).then(joined_products)
    whole = parts.then(in_cheapest_orders).then(taken_apart).then(padded_images).then(ungrouped)
    return whole.then(partial(channels_in_turn, narrow_bytes=options.narrow_bytes))


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
    return fewest_rows(legalized(graph, replace(options, parameter_rows=0)))


def wanted_rows(graph: Graph, options: Options = DEFAULT) -> int:
    """Rows of wide memory, of all tiles, that the parameters of a program take on an empty chip.

    Args:
        graph: the graph.
        options: what the program may use of the chip, whatever they say about rows.

    Raises:
        UnsupportedError: a node has no lowering.
        Refused: the chip's memories are too small for some operators.
    """
    alone = replace(
        options, taken=DEFAULT.taken, parameter_rows=None, share=None, staging=DEFAULT.staging
    )
    pieces = assigned(legalized(graph, alone)).residency.pieces
    return sum(piece.words for some in pieces.values() for piece in some)


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
        data=item.content,
        runs=runs,
    )
