"""Representative inputs from folders, images and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fitzroy.base import budget
from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.execution.arrays import (
    IMAGE_SUFFIXES,
    Normalization,
    load_array,
    members,
    normalized_pixels,
)
from fitzroy.formats import npy, npz

Sample = dict[str, Array]
Named = tuple[str, Sample]
"""A sample, and where it came from."""

Range = tuple[float, float]


class Preprocess(StrEnum):
    """What pixels of 0 to 255 become."""

    UNIT = "0..1"
    TF = "tf"
    TORCH = "torch"
    IMAGENET = "imagenet"
    NONE = "none"


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_STANDARD = Normalization(tuple(255 * x for x in _MEAN), tuple(255 * x for x in _STD))
_RULES = {
    Preprocess.UNIT: Normalization((0.0,), (255.0,)),
    Preprocess.TF: Normalization((127.5,), (127.5,)),
    Preprocess.TORCH: _STANDARD,
    Preprocess.IMAGENET: _STANDARD,
    Preprocess.NONE: Normalization((0.0,), (1.0,)),
}
"""Keras's and torchvision's conventions."""


_PANEL = "Calibration"


@dataclass(frozen=True)
class Calibration:
    """Representative inputs, and what their pixels become.

    Attributes:
        calibrate: folders and files.
        samples: how many to take at most.
        preprocess: a convention for pixels.
        mean: what is subtracted from pixels.
        std: what pixels are divided by.
    """

    calibrate: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrate",
            metavar="X...",
            help="Representative inputs: folders of images or arrays, images, .npy, .npz (arrays "
            "named after the inputs); takes all values up to the next option. About a hundred "
            "samples like those that the model will see.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            metavar="N",
            min=1,
            help="Use at most N of them, at even distances.",
            rich_help_panel=_PANEL,
        ),
    ] = 128
    preprocess: Annotated[
        Preprocess | None,
        typer.Option(
            "--preprocess",
            help="Preprocessing of pixels, as in training: [b]0..1[/b] (pixel / 255), [b]tf[/b] "
            "(-1..1), [b]torch[/b] or [b]imagenet[/b] (0..1, minus ImageNet's mean, divided by its "
            "deviation), [b]none[/b] (0..255). Or use --mean and --std. [dim]default: 0..1[/dim]",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean",
            metavar="M",
            help="For images: real = (pixel - M) / S; one number, or one per channel.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    std: Annotated[
        str | None,
        typer.Option(
            "--std",
            metavar="S",
            help="See --mean.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def given_rule(self) -> Normalization | None:
        """What ``--mean`` and ``--std`` say pixels become; None if neither is given.

        Raises:
            UsageError: a text that is no list of numbers, or a standard deviation of 0.
        """
        return Normalization.parse(self.mean, self.std)

    @property
    def rule(self) -> Normalization:
        """What pixels become.

        Raises:
            UsageError: two rules, or numbers that are none.
        """
        given = self.given_rule
        if given is not None and self.preprocess is not None:
            raise UsageError(
                "--preprocess and --mean or --std both say what pixels become",
                hint="give one of them",
            )
        return given or _RULES[self.preprocess or Preprocess.UNIT]


@dataclass(frozen=True)
class Quantization(QuantizeOptions, Calibration):
    """How to quantize a model, and on what."""


def pixel_ranges(graph: Graph, paths: Sequence[str], rule: Normalization) -> dict[str, Range]:
    """The range of a graph's only input, if all samples are images: that of all pixels.

    Args:
        graph: whose input it is.
        paths: folders and files of samples.
        rule: what pixels become.
    """
    files = [file for path in paths for file in _files(path)]
    if len(graph.inputs) != 1 or graph.type(graph.inputs[0]).dtype is not DType.FLOAT32:
        return {}
    if not all(Path(file).suffix.lower() in IMAGE_SUFFIXES for file in files):
        return {}
    mean, std = np.broadcast_arrays(rule.mean, rule.std)
    ends = np.array([(0 - mean) / std, (255 - mean) / std])
    return {graph.inputs[0]: (float(ends.min()), float(ends.max()))}


def load_samples(
    graph: Graph, paths: Sequence[str], rule: Normalization, limit: int
) -> list[Named]:
    """Samples for a graph, with where they came from: one array per input each.

    Args:
        graph: whose inputs they are for.
        paths: folders, images, ``.npy`` with one or several samples, ``.npz``.
        rule: what pixels become.
        limit: how many samples to take at most, evenly spread over what there is.

    Raises:
        UsageError: there are none, or a file does not suit the inputs or holds numbers that are not
            finite.
        FormatError: a file is broken.
        CapacityError: they take more memory than the budget has.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > limit:
        files = [files[int(index)] for index in _spread(len(files), limit)]
    found: list[Named] = []
    each = sum(graph.type(name).nbytes for name in graph.inputs)
    for file in files:
        parts = _of_file(graph, file, rule)
        if not all(np.isfinite(array).all() for part in parts for array in part.values()):
            raise UsageError("the samples hold numbers that are not finite", where=file)
        several = len(parts) > 1
        found += [(f"{file}[{i}]" if several else file, part) for i, part in enumerate(parts)]
        budget.demand(each * len(found), "the samples", where=file)
    if len(found) > limit:
        found = [found[int(index)] for index in _spread(len(found), limit)]
    return found


def _spread(count: int, wanted: int) -> Array:
    """Indices of so many of a number of things, evenly spread."""
    return np.arange(wanted) * count // wanted


_SUFFIXES = IMAGE_SUFFIXES | {".npy", ".npz"}


def _files(path: str) -> list[str]:
    """Files of samples: a file itself, or those of a folder and its folders, in order.

    Raises:
        UsageError: a folder that holds none, or cannot be read.
    """
    if not os.path.isdir(path):
        return [path]

    def refuse(error: OSError) -> None:
        raise UsageError(
            "the folder cannot be read", reason=error.strerror or "", where=path
        ) from None

    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path, onerror=refuse)
        for name in names
        if Path(name).suffix.lower() in _SUFFIXES and not name.startswith(".")
    ]
    if not found:
        raise UsageError(
            "the folder holds no images and no arrays",
            where=path,
            hint=f"files are told by their names: {', '.join(sorted(_SUFFIXES))}",
        )
    return sorted(found)


def _of_file(graph: Graph, path: str, rule: Normalization) -> list[Sample]:
    """The samples of a file.

    Raises:
        UsageError: it does not suit the inputs.
        FormatError: it is broken.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return list(_of_archive(graph, path, rule))
    if len(graph.inputs) != 1:
        raise UsageError(
            f"one array for {len(graph.inputs)} inputs",
            where=path,
            hint=f"give .npz files with arrays named {', '.join(graph.inputs)}",
        )
    (name,) = graph.inputs
    type = graph.type(name)
    if suffix == ".npy":
        array = npy.read_npy(read_file(path), path)
        return [{name: part} for part in _parts(array, type, rule, path)]
    pictures = rule if suffix in IMAGE_SUFFIXES else None
    return [{name: load_array(path, type, pictures)}]


def _of_archive(graph: Graph, path: str, rule: Normalization) -> Iterator[Sample]:
    """The samples of an archive of arrays.

    Raises:
        UsageError: an input has no array, or they have different numbers of samples.
    """
    arrays = npz.read_npz(read_file(path), path)
    found = members(arrays, dict(enumerate(graph.inputs)), path)
    parts = {
        name: _parts(found[number], graph.type(name), rule, f"{path}: {name}")
        for number, name in enumerate(graph.inputs)
    }
    counts = {name: len(found) for name, found in parts.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
        raise UsageError("inputs have different numbers of samples", reason=text, where=path)
    for arrays_of_sample in zip(*parts.values(), strict=True):
        yield dict(zip(parts, arrays_of_sample, strict=True))


def _parts(array: Array, type: TensorType, rule: Normalization, path: str) -> list[Array]:
    """One or several samples of a tensor from an array.

    Integers for a float32 tensor are pixels. Dimensions of extent 1 may be missing.

    Raises:
        UsageError: shape or element type do not suit.
    """
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if type.dtype is DType.FLOAT32 and array.dtype == np.uint8:
        array = normalized_pixels(array, rule)
    if type.dtype is DType.FLOAT32 and array.dtype.kind == "f":
        array = array.astype(np.float32)
    if array.dtype != type.dtype.numpy or not _suits(array.shape, type.shape):
        raise UsageError(
            f"the input is {type}, and an array holds one or several of that",
            reason=f"the array is {array.dtype}[{','.join(map(str, array.shape))}]",
            where=path,
        )
    return list(np.ascontiguousarray(array).reshape(-1, *type.shape))


def _suits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of a shape holds one or several tensors of another."""
    dense = tuple(extent for extent in wanted if extent != 1)
    given = tuple(extent for extent in shape if extent != 1)
    if given == dense:
        return True
    if 0 in shape or 0 in wanted:
        return False
    if len(wanted) > 1 and shape[1:] == wanted[1:]:
        return shape[0] % wanted[0] == 0
    return shape[1:] == wanted or given[1:] == dense
