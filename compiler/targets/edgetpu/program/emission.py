"""How does a schedule with everything in its place become instructions?

`emitted` walks the steps. Before each it makes room in the chunk and asks the host ahead for
parameters and inputs; then the layer emits its instructions into the `Builder`; then the phase
ends and windows are exchanged. `Emission.encoded` gives the sections. If an instruction does not
encode, the operator that it belongs to is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.progress import along
from fitzroy.compiler.targets.edgetpu.fitting import milestones
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.wide import IDENTITY, Assignment
from fitzroy.compiler.targets.edgetpu.host import host_layers
from fitzroy.compiler.targets.edgetpu.host.flow import flows
from fitzroy.compiler.targets.edgetpu.instructions.builder import CHUNK_BUNDLES, Builder
from fitzroy.compiler.targets.edgetpu.layers import halo, matrices
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Flow, Step
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import LOADED, MatrixRows
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused, refused, refusing
from fitzroy.compiler.targets.edgetpu.layers.streaming import HostStream
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD, Image, Placed
from fitzroy.compiler.targets.edgetpu.program.choices import Choice, choice_of
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted, Mark
from fitzroy.compiler.targets.edgetpu.program.expected import Course, expected
from fitzroy.formats.object_file import Symbol, Text
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.tensor import NluTable

_MOST_BUNDLES = 6_000
"""Bundles of a layer with its exchanges, at most."""


@dataclass(frozen=True, eq=False)
class Emission:
    """The instructions of a program.

    Attributes:
        assignment: where everything lies, with matrices that the instructions read.
        form: the instructions, and where steps begin.
        builder: what has made them, and knows their symbols.
    """

    assignment: Assignment
    form: Emitted
    builder: Builder

    @property
    def scratch_bytes(self) -> int:
        """Size of the host's scratch buffer."""
        return self.builder.scratch_bytes

    def encoded(self) -> tuple[list[Text], list[Symbol]]:
        """The sections and symbols of the program.

        Raises:
            Refused: an instruction of a step does not encode.
            InternalError: one does not that belongs to no step.
        """
        try:
            return self.builder.sections()
        except FormatError as error:
            form = self.form
            origins = (form.origin(*place) for *place, item in form.program if _fails(item))
            origin = next(origins, "")
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


def emitted(assignment: Assignment) -> Emission:
    """The instructions of a schedule, and the matrices that are loaded for them.

    They make the identity matrix themselves if they use it and it is not loaded.

    Raises:
        Refused: those of a step cannot be made.
    """
    rows = MatrixRows(assignment.room_for_matrices, IDENTITY)
    made = not rows.room
    emission = _emitted(assignment, rows, made=made)
    return emission if rows.needs_identity or not made else _emitted(assignment, rows, made=False)


def _emitted(assignment: Assignment, rows: MatrixRows, *, made: bool) -> Emission:
    """The instructions of a schedule, of which the first may make the identity matrix."""
    schedule, pieces = assignment.schedule, assignment.residency.pieces
    builder = Builder()
    builder.staging = IDENTITY
    builder.loaded = LOADED, assignment.matrices_name, assignment.residency.free.groups
    context = _context(assignment, builder, rows)
    builder.begin()
    if made:
        matrices.put_identity(builder, IDENTITY, context.scratch // WORD)
    phases = flows(schedule.steps, schedule.layered.options, pieces.__contains__)
    marks, choices = _emit(context, schedule, phases)
    builder.end()
    assert context.host.complete
    assert context.inputs.complete
    program = list(builder.program)
    course = Course(
        schedule.steps,
        phases,
        choices,
        [(mark.chunk, mark.bundle) for mark in marks],
        builder.requests,
        _chunk_bytes(program),
        pieces,
        made,
    )
    cycles = [*expected(course), 0.0]
    marks = [replace(mark, cycles=some) for mark, some in zip(marks, cycles, strict=True)]
    return Emission(assignment.with_matrices(rows.rows), Emitted(marks, program), builder)


def _context(assignment: Assignment, builder: Builder, rows: MatrixRows) -> Context:
    """The context in which the identity matrix is emitted; steps have their own scratch memory."""
    schedule, pieces = assignment.schedule, assignment.residency.pieces
    sent = [
        (item.name, item.units)
        for step in schedule.steps
        for item in step.layer.weights
        if item.name not in pieces
    ]
    return Context(
        builder,
        schedule.tensors,
        pieces,
        rows,
        schedule.layered.options.narrow_bytes - schedule.scratch[0],
        HostStream(sent),
        host_layers.input_stream(schedule.steps),
        host_layers.kept_images(schedule.steps),
        recipes=schedule.layered.options.recipes,
    )


def _emit(
    context: Context, schedule: Schedule, phases: Sequence[Flow]
) -> tuple[list[Mark], list[Choice]]:
    """Emit all steps.

    Args:
        context: the context; tensors, scratch memory and flow are set for each step.
        schedule: the steps.
        phases: what the phase of each step brings from the host, and sends there.

    Returns:
        Where steps begin and the last one ends, and how each step is done.

    Raises:
        Refused: the instructions of a step cannot be made.
    """
    builder, steps, options = context.builder, schedule.steps, schedule.layered.options
    marks, choices = list[Mark](), list[Choice]()
    ends = {step.layer.output: step for step in steps if isinstance(step.layer, host_layers.Send)}
    needed = [*zip(steps, schedule.scratch[1:], phases, _tables(steps, phases), strict=True)]
    for step, nbytes, flow, table in along(needed, "instructions", *milestones.INSTRUCTIONS):
        if options.paced:
            builder.pace()
        if not flow.joined:
            # No chunk ends between the steps of a phase.
            builder.room(_MOST_BUNDLES)
        choices.append(choice_of(step))
        mark = _mark(step, builder)
        marks.append(replace(mark, variant=choices[-1].variant, joined=flow.joined))
        last = not isinstance(step.layer, host_layers.Send) or ends[step.layer.output] is step
        scratch = options.narrow_bytes - nbytes
        own = replace(context, tensors=step.tensors, scratch=scratch, last=last, flow=flow)
        before = context.matrices.cycles
        _emit_step(own, step, table)
        if choices[-1].cycles:
            making = context.matrices.cycles - before
            choices[-1] = replace(choices[-1], cycles=choices[-1].cycles + making)
        _complete(builder, step, flow, last=step is steps[-1])
        _demand_room(builder, step)
    marks.append(Mark("end", "", *builder.position, kind="end"))
    return marks, choices


def _tables(steps: Sequence[Step], phases: Sequence[Flow]) -> list[NluTable | None]:
    """The function that is loaded before each step: where a phase begins, for all of its steps.

    Nothing else waits for operations before it that may use another function.
    """
    found: list[NluTable | None] = [None] * len(steps)
    first = 0
    for number, (step, flow) in enumerate(zip(steps, phases, strict=True)):
        first = first if flow.joined else number
        if step.layer.table is not None:
            assert found[first] is None, "a phase has one function"
            found[first] = step.layer.table
    return found


def _emit_step(context: Context, step: Step, table: NluTable | None) -> None:
    """Request what a step takes from the host, then emit its instructions."""
    if not step.layer.received:
        context.host.prefetch(context.builder)
    # What a step takes is under way before the tiles are waited for.
    context.inputs.ahead(context.builder, len(host_layers.pieces(step)) or 1)
    if table is not None:
        context.builder.load(table)
    with refusing(step.layer.origin):
        step.layer.emit(context)


def _demand_room(builder: Builder, step: Step) -> None:
    """Refuse a step whose instructions do not fit a chunk.

    Raises:
        Refused: they are too many.
    """
    if builder.overfull:
        raise Refused(
            [step.layer.origin],
            f"{step.layer.name!r} takes too many instructions",
            reason=f"with it a chunk has {builder.position[1]} bundles, of which it holds "
            f"{CHUNK_BUNDLES}",
            hint="split it into smaller operators",
        )


def _chunk_bytes(program: Sequence[tuple[int, int, Instruction]]) -> list[int]:
    """Bytes of the chunks of a program, from the places of its instructions."""
    ends = {number: bundle + item.bundles() for number, bundle, item in program}
    return [BUNDLE_BYTES * ends[number] for number in sorted(ends)]


def _mark(step: Step, builder: Builder) -> Mark:
    """What begins at the place that the program has reached."""
    layer = step.layer
    name = "" if isinstance(layer, host_layers.Receive | host_layers.Send) else layer.name
    title = f"{layer.kind} {layer.name}"
    return Mark(title, name, *builder.position, layer.origin, layer.kind)


def _complete(builder: Builder, step: Step, flow: Flow, *, last: bool) -> None:
    """End a step: its phase, and the exchange of windows if its result is complete.

    The end of the program waits for the last step.
    """
    if flow.joins:
        if isinstance(step.layer, host_layers.Receive) and flow.arriving is not None:
            halo.exchange(builder, flow.arriving.image, counted=flow.arriving.counted)
        return
    if flow.arriving is not None:
        # Counters go on from what has arrived, and no tile sends before that is all.
        builder.sync()
        if step.complete:
            _exchange(builder, step.whole or step.result, None)
        return
    blocks = None if step.whole else step.layer.completes(step.tensors)
    if blocks is None and not last:
        builder.barrier()
    if step.complete:
        _exchange(builder, step.whole or step.result, blocks)


def _exchange(builder: Builder, tensor: Placed, blocks: halo.Blocks | None) -> None:
    """Fill the windows of a tensor, in the phase that computes it or in one of its own."""
    exchanged = isinstance(tensor, Image) and halo.exchange(builder, tensor, blocks)
    if exchanged or blocks is not None:
        builder.barrier()
