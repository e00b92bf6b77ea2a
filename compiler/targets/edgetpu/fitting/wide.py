"""What lies in wide memory: which parameters, and how many rows for data in transit?

`assigned` is the whole choice of places. It begins with narrow memory (`narrow.arranged`). Then it
decides how convolutions stage their weights, because that takes rows that parameters would need.
Parameters get the other rows; if they do not fit, patches are made as small as possible first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.progress import advance
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.fitting import channels, milestones, patch_choice
from fitzroy.compiler.targets.edgetpu.fitting.narrow import Arrangement, arranged
from fitzroy.compiler.targets.edgetpu.fitting.residency import (
    Residency,
    demands_of,
    place_all,
    place_some,
)
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.staging import choose_staging
from fitzroy.compiler.targets.edgetpu.host.flow import flows
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights, matrix_rows
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused, refusing
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS, Taken, WideRows
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Placed, Vector
from fitzroy.formats.object_file import OperandKind

IDENTITY = WIDE_ROWS - 1
"""Row of wide memory with the identity matrix, after those for other data, if programs make it."""

_STAGING_ROWS = (1024, 768, 512, 384, 256, 192)
"""Rows of wide memory that convolutions may take for data, the first that parameters leave free."""

_MATRIX_LANES = 16
"""Lanes of the narrowest rows that are loaded."""

_PARAMETER_SHARE = 0.97
"""Part of the rows that parameters fill; some are lost between operands."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """A schedule with everything in its place.

    Attributes:
        schedule: the steps, whose layers have weights and whose tensors have addresses.
        residency: where weights lie that stay on the chip.
        staging: rows at the top of wide memory for data.
        used: bytes of narrow memory used from the bottom.
        matrices: small matrices that all tiles have beside the weights of layers, if there are any.
    """

    schedule: Schedule
    residency: Residency
    staging: int
    used: int
    matrices: Weights | None = None

    @property
    def weights(self) -> list[Weights]:
        """Weights of all layers, and matrices."""
        found = items(self.schedule.layered.layers)
        return found if self.matrices is None else [*found, self.matrices]

    @property
    def matrices_name(self) -> str:
        """A name for matrices, which no weights have."""
        return unused_name("matrices", {item.name for item in self.weights})

    @property
    def room_for_matrices(self) -> int:
        """Rows of each tile for matrices; none if no parameters stay on the chip."""
        held = [piece.words for some in self.residency.pieces.values() for piece in some]
        if not held:
            return 0
        free, options = self.residency.free, self.schedule.layered.options
        left = options.free_rows(self.staging) - sum(held)
        return max(0, min(free.limit - max(free.used), left // TILES))

    def with_matrices(self, rows: Sequence[Row]) -> Assignment:
        """The same with rows of matrices, at most as many as there is room for."""
        if not rows:
            return self
        lanes = -(-max(map(len, rows)) // _MATRIX_LANES) * _MATRIX_LANES
        words = np.zeros((len(rows), lanes), "<u4")
        for place, row in zip(words, rows, strict=True):
            place[: len(row)] = row
        name = self.matrices_name
        data = np.tile(words.view(np.uint8).reshape(-1), TILES)
        count = len(rows) * TILES
        item = Weights(name, OperandKind.MATRICES, lanes, 0, data, count, TILES)
        taken = self.residency.free.blocks(len(rows), TILES)
        assert isinstance(taken, Taken)
        pieces = {**self.residency.pieces, name: taken.pieces}
        residency = replace(self.residency, pieces=pieces, free=taken.rows)
        return replace(self, residency=residency, matrices=item)


def assigned(layered: Layered) -> Assignment:
    """Places of all tensors and parameters.

    Raises:
        Refused: the chip's memories are too small for an operator.
    """
    options, arrangement = layered.options, arranged(layered)
    advance("memory", milestones.STAGING)
    staged = _staged(arrangement, options)
    complete = _complete(staged.schedule, options)
    if complete is None and options.recipes.both:
        return assigned(replace(layered, options=replace(options, both=False)))
    found = _assigned(
        arrangement, staged.schedule, complete or _parameters(staged.schedule, options)
    )
    if found.residency.complete or arrangement.patches.compact:
        return found
    # Patches take as few rows as they can before anything comes from the host.
    again = arrangement.layered.with_layers(staged.layers)
    again = replace(again, options=replace(options, parameter_rows=0))
    arrangement = arranged(again)
    schedule = _staged(arrangement, options).schedule
    return _assigned(arrangement, schedule, _parameters(schedule, options))


@dataclass(frozen=True, eq=False)
class _Staged:
    """A schedule whose depthwise convolutions have weights, and how others stage theirs.

    Attributes:
        schedule: the schedule.
        layers: layers with the way in which they stage weights.
    """

    schedule: Schedule
    layers: Mapping[Layer, Layer]


def _staged(arrangement: Arrangement, options: Options) -> _Staged:
    """Choose how convolutions stage their weights; staging takes no rows that parameters need."""
    schedule = arrangement.schedule
    schedule = schedule.with_layers(patch_choice.packed(schedule.layered.layers))
    schedule = schedule.with_layers(channels.freed(schedule.steps, options.recipes))
    needed = _words(schedule.layered.layers) / _PARAMETER_SHARE
    needed += TILES * matrix_rows(schedule.layered.layers)
    room = next((rows for rows in _STAGING_ROWS if needed <= options.free_rows(rows)), 0)
    patches = arrangement.patches
    # Patches may have spent half of it.
    cost = options.recipes.cost / (2 if patches.layers else 1)
    # Other layers than convolutions are estimated too roughly to spend a share of their cycles.
    layers: Mapping[Layer, Layer] = {}
    if options.search.staging:
        phases = zip(schedule.steps, flows(schedule.steps, options, lambda _: True), strict=True)
        flowing = {step.layer for step, flow in phases if flow.arriving and flow.departing}
        layers = choose_staging(schedule.steps, cost, patches.cycles, IDENTITY, room, flowing)
    schedule = schedule.with_layers(layers)
    return _Staged(schedule.with_layers(channels.parted(schedule.steps)), layers)


def _assigned(
    arrangement: Arrangement, schedule: Schedule, parameters: tuple[Residency, int]
) -> Assignment:
    """A schedule whose parameters have places, with the rows for data."""
    residency, staging = parameters
    layers: dict[Layer, Layer] = {
        layer: replace(layer, weights=weights) for layer, weights in residency.weights.items()
    }
    firsts: dict[Placed, Placed] = {
        tensor: replace(tensor, first=residency.firsts[name])
        for name, tensor in schedule.tensors.items()
        if isinstance(tensor, Vector) and name in residency.firsts
    }
    schedule = schedule.with_layers(layers).changed(firsts)
    return Assignment(schedule, residency, staging, arrangement.used)


def _complete(schedule: Schedule, options: Options) -> tuple[Residency, int] | None:
    """Rows of wide memory for all parameters, and how many are for data; None if they do not fit.

    Raises:
        Refused: a layer needs more rows for data than there are.
    """
    layers, tensors = schedule.layered.layers, schedule.tensors
    staging = max(_staging(schedule), options.staging)
    if _words(layers) > options.free_rows(staging):
        return None
    limit = WIDE_ROWS - staging
    for kept_free in (matrix_rows(layers), 0):
        rows = WideRows(options.taken, limit - kept_free, level=options.shared)
        found = place_all(layers, tensors, rows)
        if isinstance(found, Residency):
            return replace(found, free=replace(found.free, limit=limit)), staging
    return None


def _parameters(schedule: Schedule, options: Options) -> tuple[Residency, int]:
    """Rows of wide memory for parameters that stay on the chip, and how many are for data.

    Raises:
        Refused: parameters that cannot come from the host do not fit.
    """
    complete = _complete(schedule, options)
    if complete is not None:
        return complete
    layers, tensors = schedule.layered.layers, schedule.tensors
    staging = max(_staging(schedule, streaming=True), options.staging)
    rows = WideRows(options.taken, WIDE_ROWS - staging, level=options.shared)
    demands = demands_of(layers, Counter(step.layer for step in schedule.steps))
    found = place_some(demands, tensors, rows, options.free_rows(staging))
    if isinstance(found, Refused):
        raise found
    return found, staging


def _staging(schedule: Schedule, *, streaming: bool = False) -> int:
    """Rows at the top of wide memory for data, if parameters come from the host or if none do.

    Raises:
        Refused: a layer needs more rows than there are.
    """
    most = 0
    phases = flows(schedule.steps, schedule.layered.options, lambda _: True)
    for step, flow in zip(schedule.steps, phases, strict=True):
        layer, tensors = step.layer, step.tensors
        with refusing(layer.origin):
            streams = streaming and layer.streams
            rows = layer.streaming_rows(tensors) if streams else layer.staging_rows(tensors)
            rows += flow.above
        if rows >= WIDE_ROWS and (streaming or not layer.streams):
            raise Refused(
                [layer.origin],
                f"it needs {1 + rows} rows of wide memory for its data",
                reason=f"tiles have {WIDE_ROWS}",
            )
        most = max(most, rows)
    return 1 + most


def fewest_rows(layered: Layered) -> int:
    """Rows of wide memory, of all tiles, that all parameters take.

    Args:
        layered: layers whose options let patches take the fewest rows.

    Raises:
        Refused: narrow memory is too small.
    """
    layers = arranged(layered).schedule.layered.layers
    packed = patch_choice.packed(layers)
    return _words(packed.get(layer, layer) for layer in layers)


def _words(layers: Iterable[Layer]) -> int:
    return sum(item.words for item in items(layers))


def items(layers: Iterable[Layer]) -> list[Weights]:
    """Weights of layers, those that several have once."""
    return list({id(item): item for layer in layers for item in layer.weights}.values())
