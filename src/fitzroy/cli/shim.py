"""``fitzroy shim``: packages by which programs that cannot be changed take FitzRoy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.files import write_files
from fitzroy.cli.help import Json, Quiet, Verb
from fitzroy.cli.terminal import Terminal, count


def shim(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the packages; it may exist.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Write one package, tflite_runtime or pycoral. [dim]default: both[/dim]",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write packages named tflite_runtime and pycoral that forward to FitzRoy.

    A program that imports these runs on FitzRoy unchanged: with PYTHONPATH=DIR in its environment,
    or after [b]pip install DIR[/b] in its own Python environment. Other packages in the folder are
    left alone.
    """
    from fitzroy.tflite_runtime.shim import MARK, PACKAGES, shim_files

    terminal = Terminal(json=json, quiet=quiet)
    names = list(dict.fromkeys(only)) if only else list(PACKAGES)
    files = [(folder / path, text.encode()) for path, text in shim_files(names).items()]
    for path, _ in files:
        if path.exists() and MARK.encode() not in read_file(path):
            raise UsageError(
                "a file of others is there",
                reason=f"it does not say that it {MARK}",
                where=os.fspath(path),
                hint="name another folder",
            )
    for path, _ in files:
        _make(path.parent)
    write_files(files)
    if terminal.json:
        terminal.document("shim", {"folder": os.fspath(folder), "packages": names})
    elif not terminal.quiet:
        terminal.line(f"wrote {' and '.join(names)}, {count(len(files), 'file')}", style="green")
        terminal.note(f"programs take them with PYTHONPATH={folder}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            "the folder cannot be made", reason=reason, where=os.fspath(folder)
        ) from None


shim_command = Verb(
    shim,
    (
        "fitzroy shim ~/fitzroy-shim && PYTHONPATH=~/fitzroy-shim python program.py",
        "fitzroy shim shim --only tflite_runtime && pip install ./shim",
    ),
)
