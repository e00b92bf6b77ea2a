"""Several inferences in one call: where their outputs go."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array
from fitzroy.cli.files import check_directory, directories, write_files
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Sample

_SUFFIXES = (".npy", ".npz", ".bin")
"""Suffixes of the files that outputs of several inferences are written to."""


def refuse_for_many(chosen: Sequence[Sample], options: Mapping[str, object]) -> None:
    """Refuse options that are about one inference.

    Raises:
        UsageError: one was given.
    """
    for option, value in options.items():
        if value is not None:
            raise UsageError(
                f"{option} is for one inference, and there are inputs for {len(chosen)}"
            )


def check_folder(target: Path | None, chosen: Sequence[Sample]) -> None:
    """Refuse outputs of several inferences where a file is meant, or inputs are.

    Args:
        target: where outputs go, None if nowhere.
        chosen: the inferences.

    Raises:
        UsageError: the target looks like a file or is one, or outputs could overwrite inputs.
    """
    if target is None:
        return
    check_directory(target)
    if target.suffix and not target.is_dir():
        raise UsageError(
            "outputs of several inferences go to a folder",
            where=str(target),
            hint="name one: -o outputs/",
        )
    for path in (Path(file) for sample in chosen for file in sample.files):
        if path.suffix in _SUFFIXES and _is_same(path.parent, target):
            raise UsageError(
                "outputs could overwrite inputs in the same folder",
                where=os.fspath(path),
                hint="name another folder: -o outputs/",
            )


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def write_folder(folder: Path, files: Sequence[tuple[Path, bytes]]) -> list[str]:
    """Write files of one inference to a folder, which is made if it is missing; their names.

    Raises:
        UsageError: one cannot be written.
    """
    with directories([folder]):
        write_files(files)
    return [os.fspath(path) for path, _ in files]


def folder_files(
    target: Path, name: str, outputs: Sequence[tuple[str, Array]], *, raw: bool = False
) -> list[tuple[Path, bytes]]:
    """Files for the outputs of one of several inferences.

    One output goes to ``NAME.npy``, several to ``NAME.npz``; as bare bytes, to ``NAME.bin`` or
    ``NAME_0.bin`` and so on.

    Args:
        target: the folder.
        name: the inference.
        outputs: its outputs by name, in order.
        raw: whether bare bytes are wanted.
    """
    suffix = ".bin" if raw else ".npy" if len(outputs) == 1 else ".npz"
    return arrays.output_files(target / f"{name}{suffix}", outputs, raw=raw)
