"""``fitzroy dis``: the instructions of compiled programs as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import Json, Quiet, Verb
from fitzroy.cli.terminal import Terminal

if TYPE_CHECKING:
    from fitzroy.linker.packages.container import Container


def disassemble(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A compiled model (*_edgetpu.tflite), a DarwiNN package or executable, an "
            "object, or a bytecode module.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the text there.", show_default=False
        ),
    ] = None,
    package: Annotated[
        int | None,
        typer.Option(
            "--package",
            metavar="N",
            help="Only the N-th package of a model with several.",
            show_default=False,
        ),
    ] = None,
    as_object: Annotated[
        bool,
        typer.Option(
            "--object",
            help="Write a relocatable object: parameters with their data, and symbols where the "
            "program refers to their rows.",
        ),
    ] = False,
    comments: Annotated[
        bool, typer.Option("--comments/--no-comments", help="Add sizes in bytes as comments.")
    ] = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the programs of a compiled model, or a bytecode module, as assembly text.

    Tiles are written as rectangles of the 4 x 4 grid, address sequences as loops; flags, and fields
    that the driver fills in, have names. [b]fitzroy as[/b] assembles the text into the same bytes.
    """
    from fitzroy.formats.detect import FileKind, detect
    from fitzroy.formats.object_file import read_object
    from fitzroy.linker.objects.assembly import package_listing
    from fitzroy.linker.objects.recover import recover
    from fitzroy.linker.objects.text import object_listing
    from fitzroy.linker.packages.container import read_container

    terminal = Terminal(json=json, quiet=quiet)
    if output is not None:
        check_output(output, [file])
    data = read_file(file)
    kind = detect(data, file)
    if kind in (FileKind.OBJECT, FileKind.MODULE) and package is not None:
        raise UsageError(f"a {kind.value} has no packages", hint="leave out --package")
    if kind is FileKind.OBJECT:
        lines = list(object_listing(read_object(data, file), comments=comments))
    elif kind is FileKind.MODULE:
        lines = _module_listing(data, file)
    else:
        container = read_container(data, file)
        chosen = _chosen(container, package)
        packages = [(number, container.packages[number]) for number in chosen]
        if as_object:
            if len(packages) != 1:
                raise UsageError(
                    f"the model has {len(packages)} packages, an object holds one",
                    where=file,
                    hint="choose one with --package N",
                )
            found = recover(packages[0][1], Path(file).stem)
            lines = list(object_listing(found, comments=comments))
        else:
            lines = list(package_listing(packages, comments=comments))
    text = "\n".join(lines) + "\n"
    if output is not None:
        write_file(output, text.encode())
    if json:
        terminal.document(
            "dis",
            {"file": file, "output": output and str(output), "lines": len(lines)}
            | ({} if output else {"text": text}),
        )
    elif output is None:
        terminal.raw(text)
    else:
        terminal.note(f"{len(lines)} lines written to {output}")


def _module_listing(data: bytes, file: str) -> list[str]:
    """Text of a bytecode module, which need not verify."""
    from fitzroy.formats.bytecode_module import read_module
    from fitzroy.hw_models.vm.opcodes import Dialect
    from fitzroy.hw_models.vm.text import disassemble as module_text
    from fitzroy.hw_models.vm.verifier import dialect_of

    module = read_module(data, file)
    try:
        dialect = dialect_of(module, file)
    except FormatError:
        dialect = Dialect.B
    return module_text(module, dialect).splitlines()


def _chosen(container: Container, package: int | None) -> list[int]:
    """Numbers of the packages to print.

    Raises:
        UsageError: there is no such package.
    """
    if package is None:
        return list(range(len(container.packages)))
    if not 0 <= package < len(container.packages):
        raise UsageError(
            f"there is no package {package}",
            reason=f"the model has {len(container.packages)}, counted from 0",
            where=container.path,
        )
    return [package]


disassemble_command = Verb(
    disassemble,
    (
        "fitzroy dis model_edgetpu.tflite -o model.s",
        "fitzroy dis model_edgetpu.tflite --object -o model.o.s",
        "fitzroy dis model_edgetpu.tflite | grep -c ring_produce",
        "fitzroy dis model.module -o model.module.s",
    ),
)
