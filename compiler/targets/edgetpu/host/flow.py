"""Which layers compute in the phase that brings what they read, or that sends what they make?

With a phase for each, a layer waits until its whole input has arrived, and an output until the
layer has finished on all tiles. In a shared phase, a tile begins as soon as it has its own rows,
and a row leaves as soon as it is complete; flags say when. This also saves the fences between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

from fitzroy.compiler.targets.edgetpu.host import inputs
from fitzroy.compiler.targets.edgetpu.host.host_layers import Receive, ToHost
from fitzroy.compiler.targets.edgetpu.layers.layer import Arrival, Departure, Flow, Step
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Image

_SHARE = 6
"""How many times the bytes of rows on their way narrow memory must have, at least, for a layer to
compute beside them."""

_KINDS = 2
"""Most sets of neighbours that tiles may wait for: each set needs an instruction of its own."""


def flows(steps: Sequence[Step], options: Options, resident: Callable[[str], bool]) -> list[Flow]:
    """What the phase of each step brings from the host, and sends there.

    Args:
        steps: the steps.
        options: what the program may use.
        resident: whether weights, by their name, are on the chip. Those from the host have no turn
            on the ring, so that nothing else flows in their phase.
    """
    found: list[Flow] = []
    before = Flow()
    for step, following in zip_longest(steps, steps[1:]):
        flow, before = before, Flow()
        if following is not None and not options.conservative:
            reader = step if step.layer.weights else following
            free = all(resident(item.name) for item in reader.layer.weights)
            arriving = _arrival(step, following, options) if free else None
            departing = _departure(step, following, flow.arriving) if free else None
            if arriving is not None or departing is not None:
                above = flow.above + step.layer.staging_rows(step.tensors)
                before = Flow(arriving, departing, above, joined=True)
                flow = replace(
                    flow,
                    arriving=arriving or flow.arriving,
                    departing=departing or flow.departing,
                    joins=True,
                )
        found.append(flow)
    return found


def awaiting(step: Step, following: Step, options: Options) -> bool:
    """Whether a step may compute while the one before it receives what it reads.

    If so, the scratch memory of the one before must stay reserved while the step computes.

    Args:
        step: the step before.
        following: the step; patches and addresses need not be known yet.
        options: what the program may use.
    """
    layer, image, reader = step.layer, step.result, following.layer
    if options.conservative or not isinstance(layer, Receive) or not isinstance(image, Image):
        return False
    if step.whole is not None or not reader.early or following.tensors[reader.reads[0]] != image:
        return False
    return _SHARE * layer.scratch_bytes(step.tensors) <= options.narrow_bytes


def _arrival(step: Step, following: Step, options: Options) -> Arrival | None:
    """How a step brings what the next one computes from in the same phase; None if it does not."""
    if not awaiting(step, following, options):
        return None
    layer, image, reader = step.layer, step.result, following.layer
    assert isinstance(layer, Receive)
    assert isinstance(image, Image)
    # Infeeds have no turn on channel A, so that no weights may come there.
    progress = reader.progress(following.tensors)
    if progress is None or not progress.free or any(item.beside for item in reader.weights):
        return None
    result = following.result
    if image.base < result.base + result.nbytes and result.base < image.base + image.nbytes:
        # Neighbours may still need what the result would lie on.
        return None
    arriving = Arrival(image, inputs.copies(image, compact=layer.compact))
    active = [tile for tile in range(TILES) if following.result.active(tile)]
    if len({tuple(arriving.complete(tile)) for tile in active}) > _KINDS:
        return None
    return arriving


def _departure(step: Step, following: Step, arriving: Arrival | None) -> Departure | None:
    """How a step computes what the next one sends in the same phase; None if it does not.

    Args:
        step: the step.
        following: the next one.
        arriving: how the phase brings what the step computes from, if it does.
    """
    image, sender, sent = step.result, following.layer, following.result
    if not isinstance(sender, ToHost) or not isinstance(image, Image):
        return None
    if not isinstance(sent, Image) or following.tensors[sender.reads[0]] != image:
        return None
    if image.rows.exchanged or image.columns.exchanged:
        return None
    progress = step.layer.progress(step.tensors)
    return None if progress is None else Departure(progress, arriving)
