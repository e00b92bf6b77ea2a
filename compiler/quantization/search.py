"""The best of several quantized models, by what they compute on samples.

Which methods are best depends on the model. Candidates differ in one choice from the best that is
known, and take its place if the outputs are closer to float32 on samples that nothing was fitted
to. How many are tried is a number, not a time, so that equal inputs give equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fitzroy.base.progress import counted
from fitzroy.compiler.quantization.calibrated import Progress, Quantized, Recipe
from fitzroy.compiler.quantization.comparison import Difference, compare
from fitzroy.compiler.quantization.options import RangeMethod
from fitzroy.compiler.quantization.ranges import COHERENT
from fitzroy.compiler.quantization.statistics import Sample

_LOSS = 0.25
"""By how many dB an output may get worse where all together get better."""

_FINEST = 100.0
"""dB from which an output is as good as it can be."""


def best_of(
    made: Callable[[Recipe], Quantized],
    recipe: Recipe,
    samples: Sequence[Sample],
    trials: int,
    progress: Progress = lambda step: None,
) -> Quantized:
    """The quantized model whose outputs are closest to float32.

    Args:
        made: gives a candidate.
        recipe: of the first one.
        samples: inputs to compare on.
        trials: most candidates, at least 1.
        progress: called with what is under way.
    """
    best = made(recipe)
    level = _levels(best, samples)
    for number, change in zip(range(1, trials), _changes(), strict=False):
        progress(counted("candidate", number + 1, trials))
        tried = change(recipe)
        if tried == recipe:
            continue
        candidate = made(tried)
        found = _levels(candidate, samples)
        gains = [found[name] - level[name] for name in level]
        if sum(gains) > 0 and min(gains) > -_LOSS:
            best, level, recipe = candidate, found, tried
    return best


def _changes() -> Iterator[Callable[[Recipe], Recipe]]:
    """What candidates do differently, most promising first."""
    yield lambda recipe: replace(recipe, fits=True)
    yield lambda recipe: replace(recipe, coherent=4 * COHERENT)
    yield lambda recipe: replace(recipe, coherent=COHERENT / 4)
    yield lambda recipe: replace(recipe, ranges=RangeMethod.MINMAX)
    yield lambda recipe: replace(recipe, fits=not recipe.fits)


def _levels(quantized: Quantized, samples: Sequence[Sample]) -> Mapping[str, float]:
    """Signal to noise of every output, in dB."""
    outputs: Mapping[str, Difference] = compare(quantized.source, quantized.graph, samples).outputs
    return {name: min(off.decibels, _FINEST) for name, off in outputs.items()}
