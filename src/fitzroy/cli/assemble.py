"""``fitzroy as``: programs from assembly text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import Json, Quiet, Verb
from fitzroy.cli.terminal import Terminal


def assemble(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="What `fitzroy dis` prints.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where the result goes.", show_default=False
        ),
    ],
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="FILE",
            help="The compiled model to take everything but the instructions from. Objects and "
            "bytecode modules need none.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assemble a listing of [b]fitzroy dis[/b].

    With [b]--like[/b], the result is that file with the instructions of the listing: the same bytes
    if nothing was edited. After an edit, the host script is derived again from the program. The
    listing of an object becomes an object, that of a bytecode module a module.
    """
    from fitzroy.formats.bytecode_module import write_module
    from fitzroy.formats.object_file import write_object
    from fitzroy.hw_models.vm.text import assemble as parse_module
    from fitzroy.hw_models.vm.text import is_module
    from fitzroy.linker.objects.assembly import parse_packages
    from fitzroy.linker.objects.edit import with_programs
    from fitzroy.linker.objects.text import is_object, parse_object
    from fitzroy.linker.packages.container import read_container

    terminal = Terminal(json=json, quiet=quiet)
    check_output(output, [text, *([like] if like else [])])
    source = _decoded(read_file(text), text)
    if is_object(source) or is_module(source):
        if like is not None:
            raise UsageError("the listing is complete and needs no --like", where=text)
        changed = True
        if is_object(source):
            result = write_object(parse_object(source, text))
        else:
            result = write_module(parse_module(source, text)[0])
    elif like is None:
        raise UsageError(
            "a package is needed to put the instructions into",
            where=text,
            hint="give the compiled model with --like, or list an object with fitzroy dis --object",
        )
    else:
        container = read_container(read_file(like), like)
        programs = parse_packages(source, text)
        if not programs:
            raise FormatError("the listing has no program", path=text)
        result = container.replaced(with_programs(container.packages, programs))
        changed = result != container.data
    write_file(output, result)
    if json:
        terminal.document("as", {"output": str(output), "bytes": len(result), "changed": changed})
    else:
        same = "" if changed else f", the same as {like}"
        terminal.note(f"{len(result)} bytes written to {output}{same}")


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("the listing is not UTF-8 text", path=path, offset=error.start) from None


assemble_command = Verb(
    assemble,
    (
        "fitzroy as model.s --like model_edgetpu.tflite -o edited_edgetpu.tflite",
        "fitzroy as model.o.s -o model.o",
        "fitzroy as model.module.s -o model.module",
    ),
)
