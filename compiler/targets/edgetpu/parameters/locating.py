"""Where a compiled model keeps the operands of its source.

`locate` finds them in the parameter blobs by their content; `place` by their order and sizes,
whatever their content.

Facts: parameter blobs of published compiled models, reproduced byte for byte from their sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import FormatError, LinkError
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    Bytes,
    FilterOperand,
    MoverOperand,
    Operand,
    SequenceOperand,
    SoftmaxOperand,
)
from fitzroy.hw_models.parameters import (
    BLOB_ALIGNMENT,
    FilterLayout,
    Layout,
    read_softmax_table,
    unpack,
)


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operand lies.

    Attributes:
        operand: the operand.
        blob: which of the blobs it is in.
        offset: byte offset in that blob.
        layouts: the layouts of this size that agree with the bytes found there; more than one if
            they do not tell the orders of weight words apart.
    """

    operand: Operand
    blob: int
    offset: int
    layouts: tuple[Layout, ...]

    @property
    def end(self) -> int:
        """Byte offset after the operand."""
        return self.offset + self.layouts[0].nbytes


def locate(wanted: Sequence[Operand], blobs: Sequence[Bytes]) -> list[Location]:
    """Find the operands of the model that was compiled, by their bytes.

    Compilers do not always keep the order of operators, and move operators' constants in between;
    so everything is searched. Equal operands are taken in order.

    Args:
        wanted: operands of the source.
        blobs: parameter blobs of the package's executables.

    Returns:
        One location per operand in their order; optional ones that occur nowhere are left out.

    Raises:
        LinkError: naming the operators that were not found.
    """
    places, missing = search(wanted, blobs)
    if missing:
        names = ", ".join(operand.name for operand in missing)
        raise LinkError(
            f"{len(missing)} of {len(wanted)} operands are not in the compiled model",
            reason=names,
            hint="give the source from which the model was compiled, and only what it maps",
        )
    return places


def search(
    wanted: Sequence[Operand], blobs: Sequence[Bytes]
) -> tuple[list[Location], list[Operand]]:
    """What `locate` finds, and the required operands that it does not."""
    contents = [blob.tobytes() for blob in blobs]
    free = [np.ones(len(blob) // BLOB_ALIGNMENT, bool) for blob in blobs]
    places: dict[int, Location] = {}
    # What need not be there must not take the place of what must, nor of anything longer.
    order = sorted(
        range(len(wanted)),
        key=lambda n: (wanted[n].optional, -wanted[n].layouts[0].nbytes * wanted[n].optional),
    )
    for number in order:
        found = next(_finds(wanted[number], contents, free), None)
        if found is not None:
            places[number] = found
            units = slice(found.offset // BLOB_ALIGNMENT, found.end // BLOB_ALIGNMENT)
            free[found.blob][units] = False
    missing = [o for n, o in enumerate(wanted) if n not in places and not o.optional]
    return [places[number] for number in sorted(places)], missing


def _finds(
    operand: Operand, contents: Sequence[bytes], free: Sequence[npt.NDArray[np.bool_]]
) -> Iterator[Location]:
    """Places that hold the operand's bytes and belong to no other, in order."""
    packed = [(layout, operand.pack(layout).tobytes()) for layout in operand.layouts]
    for _, data in packed:
        for number, content in enumerate(contents):
            offset = content.find(data)
            while offset >= 0:
                units = slice(offset // BLOB_ALIGNMENT, (offset + len(data)) // BLOB_ALIGNMENT)
                if offset % BLOB_ALIGNMENT == 0 and free[number][units].all():
                    layouts = tuple(other for other, same in packed if same == data)
                    yield Location(operand, number, offset, layouts)
                offset = content.find(data, units.start * BLOB_ALIGNMENT + BLOB_ALIGNMENT)


_Reached = dict[tuple[int, ...], tuple[int, tuple[Location, ...]]]
"""Ends of what is placed in every blob, with the number of ways to get there and one of them."""


def place(wanted: Sequence[Operand], blobs: Sequence[Bytes]) -> list[Location]:
    """Find where operands belong from their order and sizes, whatever weights are there.

    For a source with other weights than the compiled model's. The operands must fill every blob in
    the order of operators, except for rows of zeros and ones in between: the one-hot convolutions
    by which compilers move elements, which get no locations. Bytes that no parameter occupies, and
    zero points per channel, must be what the layouts say.

    Args:
        wanted: operands of a source with the same operators.
        blobs: parameter blobs of the package's executables.

    Returns:
        One location per operand in their order, without one-hot convolutions and without optional
        ones that the model lacks.

    Raises:
        LinkError: naming the operator that does not fit, or that there is no single way.
    """
    for number, blob in enumerate(blobs):
        if blob.size % BLOB_ALIGNMENT:
            raise LinkError(
                f"parameter blob {number} has {blob.size} bytes, no multiple of {BLOB_ALIGNMENT}"
            )
    movers = [_mover_rows(blob) for blob in blobs]
    reached: _Reached = {(0,) * len(blobs): (1, ())}
    for operand in wanted:
        if isinstance(operand, MoverOperand):
            continue
        following = _following(operand, reached, blobs, movers)
        if not following:
            raise LinkError(
                f"the parameters of {operand.name} do not fit where they should be",
                reason=f"layouts {', '.join(map(str, operand.layouts))}",
                hint=_ORIGINAL,
            )
        reached = following
    complete = [
        found
        for ends, found in reached.items()
        if all(_is_end(end, skips) for end, skips in zip(ends, movers, strict=True))
    ]
    ways = sum(count for count, _ in complete)
    if ways != 1:
        raise LinkError(
            f"there are {ways} ways to place {len(wanted)} operands in "
            f"{sum(blob.size for blob in blobs)} bytes of parameters",
            hint=_ORIGINAL,
        )
    return list(complete[0][1])


def _following(
    operand: Operand, reached: _Reached, blobs: Sequence[Bytes], movers: Sequence[Sequence[int]]
) -> _Reached:
    """What can be reached by placing one more operand; nothing if it fits nowhere."""
    following: _Reached = {}
    known: dict[tuple[int, int], tuple[Location, ...]] = {}
    for ends, (ways, path) in reached.items():
        steps = [(ends, path)] if operand.optional else []
        for number, end in enumerate(ends):
            if (number, end) not in known:
                known[number, end] = tuple(
                    _fits(operand, number, end, blobs[number], movers[number])
                )
            for location in known[number, end]:
                moved = (*ends[:number], location.end, *ends[number + 1 :])
                steps.append((moved, (*path, location)))
        for moved, longer in steps:
            count, first = following.get(moved, (0, longer))
            following[moved] = (count + ways, first)
    return following


_ORIGINAL = "give the source from which the model was compiled as well"


def _mover_rows(blob: Bytes) -> list[int]:
    """How many rows of 64 bytes from each on may belong to one-hot convolutions.

    Their weights are zeros and ones, with a zero point and biases of zero. One entry per row and
    one for the end.
    """
    rows = blob.reshape(-1, BLOB_ALIGNMENT)
    counts = [0]
    for is_mover in np.asarray((rows <= 1).all(axis=1))[::-1]:
        counts.append(counts[-1] + 1 if is_mover else 0)
    return counts[::-1]


def _is_end(offset: int, movers: Sequence[int]) -> bool:
    row = offset // BLOB_ALIGNMENT
    return row + movers[row] == len(movers) - 1


def _fits(
    operand: Operand, number: int, end: int, blob: Bytes, movers: Sequence[int]
) -> Iterator[Location]:
    """Where an operand may lie in one blob, after what has been placed already."""
    sizes = dict.fromkeys(layout.nbytes for layout in operand.layouts)
    for skipped in range(movers[end // BLOB_ALIGNMENT] + 1):
        offset = end + skipped * BLOB_ALIGNMENT
        for size in sizes:
            data = blob[offset : offset + size]
            layouts = tuple(
                layout
                for layout in operand.layouts
                if layout.nbytes == size and _admits(operand, layout, data)
            )
            if layouts:
                yield Location(operand, number, offset, layouts)


def _admits(operand: Operand, layout: Layout, data: Bytes) -> bool:
    """Whether bytes may be other parameters of the same operator."""
    try:
        if isinstance(operand, SoftmaxOperand):
            read_softmax_table(operand.channels, data, unit_row=operand.unit_row(layout))
            return True
        if isinstance(operand, SequenceOperand):
            return np.array_equal(operand.pack(layout), data)
        assert isinstance(operand, FilterOperand)
        assert isinstance(layout, FilterLayout)
        found = unpack(layout, data)
    except FormatError:
        return False
    scales, zero_points = found.scales, operand.parameters.zero_points
    if scales is not None and not (np.isfinite(scales) & (scales > 0)).all():
        return False
    if not layout.prefix.zero_points:
        return True
    assert found.zero_points is not None
    assert zero_points is not None
    return np.array_equal(found.zero_points, zero_points)
