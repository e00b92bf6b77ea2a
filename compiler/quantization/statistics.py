"""What the activations of a float32 graph are like on representative samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fitzroy.base.cores import cores
from fitzroy.base.errors import UsageError
from fitzroy.base.progress import counted
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.shape import LOWEST, PadAttributes
from fitzroy.compiler.reference import evaluate

Sample = Mapping[str, Array]
"""One array per graph input, of exactly its type."""

Floats = npt.NDArray[np.float32]

Range = tuple[float, float]

KEPT_ELEMENTS = 1 << 17
"""Most elements of an activation that are kept of all samples together."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an activation is like; channels are its last axis.

    Attributes:
        low: smallest element of each channel.
        high: largest element of each channel.
        mean: mean of each channel.
        square: mean square of each channel.
        typical: largest magnitude of each channel on half of the samples.
        count: number of elements of each channel that were seen.
        rows: [N, C], elements of some positions, to estimate distributions from.
    """

    low: Floats
    high: Floats
    mean: npt.NDArray[np.float64]
    square: npt.NDArray[np.float64]
    typical: Floats
    count: int
    rows: Floats

    @property
    def extrema(self) -> Range:
        """Smallest and largest element."""
        return float(self.low.min()), float(self.high.max())

    @property
    def reach(self) -> Floats:
        """Largest magnitude of each channel."""
        found: Floats = np.maximum(np.abs(self.low), np.abs(self.high))
        return found

    def divided(self, scale: Floats) -> Statistics:
        """The same activation after each channel is divided by a positive number."""
        return replace(
            self,
            low=self.low / scale,
            high=self.high / scale,
            mean=self.mean / scale,
            square=self.square / np.square(scale, dtype=np.float64),
            typical=self.typical / scale,
            rows=self.rows / scale,
        )

    @classmethod
    def joined(cls, parts: Sequence[Statistics]) -> Statistics:
        """Statistics of all samples from those of each."""
        count = sum(part.count for part in parts)
        weights = [part.count / count for part in parts]
        return cls(
            np.min([part.low for part in parts], axis=0),
            np.max([part.high for part in parts], axis=0),
            np.sum([w * part.mean for w, part in zip(weights, parts, strict=True)], axis=0),
            np.sum([w * part.square for w, part in zip(weights, parts, strict=True)], axis=0),
            np.median([part.typical for part in parts], axis=0),
            count,
            np.concatenate([part.rows for part in parts]),
        )


def _of(array: Array, kept: int, name: str, number: int, where: str) -> Statistics:
    """Statistics of an activation on one sample.

    Args:
        array: its elements.
        kept: about how many elements to keep.
        name: of the activation, for errors.
        number: of the sample, for errors.
        where: the graph, for errors.

    Raises:
        UsageError: an element is not finite.
    """
    channels = array.shape[-1] if array.ndim else 1
    rows = array.reshape(-1, channels)
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise UsageError(f"{name!r} is not finite on sample {number}", where=where)
    # A stride that has no factor in common with widths walks over all columns of an image.
    step = max(1, len(rows) * channels // max(kept, channels))
    step += step > 1 and step % 2 == 0
    offset = number % step
    square = np.einsum("ij,ij->j", rows, rows) / len(rows)
    return Statistics(
        low,
        high,
        rows.mean(axis=0, dtype=np.float32).astype(np.float64),
        square.astype(np.float64),
        np.maximum(np.abs(low), np.abs(high)),
        len(rows),
        rows[offset::step].copy(),
    )


def collect(
    graph: Graph, samples: Sequence[Sample], progress: Callable[[str], None] = lambda step: None
) -> dict[str, Statistics]:
    """Statistics of every float32 activation that has elements, over all samples.

    Fused activation functions count: statistics are those of the results.

    Args:
        graph: a verified float32 graph.
        samples: representative inputs.
        progress: called with what is under way.

    Raises:
        UsageError: there are no samples, one does not fit the inputs, or an activation is not
            finite.
        CapacityError: evaluation takes more memory than the budget has.
    """
    return _joined(_of_samples(graph, samples, progress))


def collect_usual(
    graph: Graph, samples: Sequence[Sample], progress: Callable[[str], None] = lambda step: None
) -> tuple[dict[str, Statistics], tuple[int, ...]]:
    """Statistics over all samples but exceptional ones, and the numbers of those.

    Raises:
        UsageError: as `collect`.
        CapacityError: likewise.
    """
    parts = _of_samples(graph, samples, progress)
    left_out = _exceptions(parts, graph.inputs)
    kept = [part for number, part in enumerate(parts) if number not in left_out]
    return _joined(kept), left_out


_FAR = 4.0
"""An activation is far out on a sample on which it reaches so many times as far as it does on three
quarters of the samples."""

_SHARE_FAR = 0.1
"""A sample is exceptional if more than this share of activations is far out on it. An object that
no other sample has takes few of them there."""

_MANY = 16
"""If more than one sample in so many is like that, none of them is exceptional."""


def _exceptions(
    parts: Sequence[Mapping[str, Statistics]], inputs: Collection[str]
) -> tuple[int, ...]:
    """Samples on which much of a network is far out of the range that it has on the others.

    Some networks amplify what a few pictures have, from layer to layer. 8-bit steps that hold this
    are too large for all other pictures. A sample that is far out itself, such as a loud sound, is
    to be expected, and does not count as exceptional.

    Args:
        parts: statistics of each sample.
        inputs: names of what the samples are.
    """
    names = list(parts[0])
    reaches = np.array([[part[name].reach.max() for part in parts] for name in names])
    if not reaches.size:
        return ()
    far = reaches > _FAR * np.quantile(reaches, 0.75, axis=1, keepdims=True)
    outside = far[[name in inputs for name in names]].any(axis=0)
    found = np.flatnonzero((far.mean(axis=0) > _SHARE_FAR) & ~outside)
    few = len(found) <= max(1, len(parts) // _MANY)
    return tuple(int(number) for number in found) if few else ()


def _joined(parts: Sequence[Mapping[str, Statistics]]) -> dict[str, Statistics]:
    """Statistics of all samples from those of each."""
    return {name: Statistics.joined([part[name] for part in parts]) for name in parts[0]}


def _of_samples(
    graph: Graph, samples: Sequence[Sample], progress: Callable[[str], None]
) -> list[dict[str, Statistics]]:
    """Statistics of each sample."""
    if not samples:
        raise UsageError("quantization needs at least one sample", where=graph.name)
    kept = max(1, KEPT_ELEMENTS // len(samples))
    bordered = _bordered(graph)

    def of_sample(number: int) -> dict[str, Statistics]:
        found: dict[str, Statistics] = {}

        def observe(name: str, array: Array) -> None:
            if graph.type(name).dtype is DType.FLOAT32 and array.size and name not in bordered:
                found[name] = _of(array, kept, name, number, graph.name)

        evaluate(graph, samples[number], observe=observe)
        for name, source in bordered.items():
            if source in found:
                found[name] = found[source]
        return found

    parts = []
    for number, found in enumerate(in_order(of_sample, range(len(samples)))):
        parts.append(found)
        progress(counted("sample", number + 1, len(samples), within=1.0))
    return parts


def _bordered(graph: Graph) -> dict[str, str]:
    """Values with borders that lose every comparison, and what lies inside, sources first.

    Such a border is no number that has to be stored: the least stored number stands for it.
    """
    return {
        node.outputs[0]: str(node.inputs[0])
        for node in graph.nodes()
        if isinstance(node.attributes, PadAttributes) and node.attributes.value <= LOWEST
    }


def calibrate(graph: Graph, samples: Sequence[Sample]) -> dict[str, Range]:
    """Smallest and largest element of every float32 activation over all samples.

    Args:
        graph: a verified float32 graph.
        samples: representative inputs.

    Raises:
        UsageError: as `collect`.
    """
    return {name: found.extrema for name, found in collect(graph, samples).items()}


# --- several samples at once ---------------------------------------------------------------------

In = TypeVar("In")
Out = TypeVar("Out")

_MOST_WORKERS = 4


def in_order(function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Results of a function, in order, computed by a few threads at once.

    numpy lets go of the interpreter while it computes. At most one item per thread is ahead of
    what is taken, so that results do not pile up.
    """
    workers = min(cores(), _MOST_WORKERS)
    with ThreadPoolExecutor(workers) as pool:
        ahead: list[Future[Out]] = []
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > workers:
                    yield ahead.pop(0).result()
            while ahead:
                yield ahead.pop(0).result()
        finally:
            for future in ahead:
                future.cancel()
