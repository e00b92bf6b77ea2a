"""``fitzroy compile --format module`` for models that no compiler for the Edge TPU has to touch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.compiled import is_compiled
from fitzroy.cli.files import directories, write_files
from fitzroy.cli.terminal import Terminal, count, size

if TYPE_CHECKING:
    from fitzroy.cli.compile_edgetpu import Request


def are_compiled(models: Sequence[str]) -> bool:
    """Whether models are compiled for the Edge TPU.

    Raises:
        UsageError: some are and some are not.
        FormatError: one is malformed.
    """
    from fitzroy.compiler.frontends.frontend import frontend_for
    from fitzroy.formats.detect import FileKind

    found = []
    for path in models:
        data = read_file(path)
        kind = frontend_for(data, path).kind
        found.append(kind is FileKind.TFLITE and is_compiled(data, path))
    if any(found) and not all(found):
        raise UsageError(
            "some models are compiled and some are not",
            reason=f"{models[found.index(True)]} has Edge TPU operators",
            hint="compile the others first, or give their sources",
        )
    return all(found)


def write_compiled(terminal: Terminal, request: Request) -> None:
    """Modules of models that are compiled for the Edge TPU.

    Raises:
        UsageError: an output that cannot be written.
        CapacityError: a model needs too many buffers at a time.
    """
    from fitzroy.compilation.modules import modules_of

    request.check()
    with terminal.working("writing modules"):
        models = {path: read_file(path) for path in request.models}
        contents = modules_of(models, joined=request.joins)
    _finish(terminal, request, contents)


def write_module(terminal: Terminal, request: Request, module: bytes) -> None:
    """The module of a model.

    Raises:
        UsageError: an output that cannot be written.
    """
    request.check()
    _finish(terminal, request, [module])


def _finish(terminal: Terminal, request: Request, contents: Sequence[bytes]) -> None:
    from fitzroy.cli.describe_module import describe_module

    files = dict(zip(request.targets, contents, strict=True))
    with directories([path.parent for path in files]):
        write_files(list(files.items()))
    modules: list[dict[str, Any]] = [
        {"path": os.fspath(path), "bytes": len(data), **describe_module(data, os.fspath(path))}
        for path, data in files.items()
    ]
    if terminal.json:
        terminal.document("compile-module", {"models": request.models, "files": modules})
    elif not terminal.quiet:
        for item in modules:
            exported = ", ".join(entry["name"] for entry in item["exports"])
            calls = count(len(item["rodata"]), "segment")
            terminal.line(
                f"wrote {item['path']}, {size(item['bytes'])}: {exported}, with {calls} of data",
                style="green",
            )
