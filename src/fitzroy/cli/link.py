"""``fitzroy link``: packages from relocatable objects, or from packages linked before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.files import check_directory, check_output, directories, write_files
from fitzroy.cli.help import Printed, Verb
from fitzroy.cli.terminal import Column, Terminal

if TYPE_CHECKING:
    from fitzroy.formats.darwinn import PackageFile
    from fitzroy.formats.object_file import ObjectFile
    from fitzroy.linker.packages.container import Container


class LinkFormat(Enum):
    """What a result is."""

    TFLITE = "tflite"
    PACKAGE = "package"
    OBJECT = "object"


@dataclass(frozen=True)
class _Source:
    """A file to link and what is in it; `container` is None for an object."""

    path: str
    objects: list[ObjectFile]
    container: Container | None


@dataclass(frozen=True)
class Results:
    """Where results go, and what they are.

    Attributes:
        output: the result of one file.
        directory: where those of several go.
        form: what they are.
    """

    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The result of one file.", show_default=False
        ),
    ] = None
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            "-d",
            metavar="DIR",
            help="Directory for the results of several files, named after them; created if "
            "necessary.",
            show_default=False,
        ),
    ] = None
    form: Annotated[
        LinkFormat,
        typer.Option(
            "--format",
            help="A model with the Edge TPU operator, the package alone, or an object to link "
            "later.",
        ),
    ] = LinkFormat.TFLITE


def link(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Objects (FZO1), compiled models (*_edgetpu.tflite) or DarwiNN packages; the "
            "first ones get memory first.",
            show_default=False,
        ),
    ],
    results: Results,
    printed: Printed,
    runtime: Annotated[
        int,
        typer.Option(
            "--min-runtime-version",
            metavar="N",
            help="Oldest runtime that must be able to load the packages: 10 to 14.",
        ),
    ] = 14,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="N",
            help="Caching token; by default derived from the parameters.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Link objects or compiled models into packages.

    Linking assigns rows of on-chip memory to parameters, resolves instructions, derives the host
    script from the program, and generates a parameter-caching program. Files that are linked
    together share the memory and one caching token: the driver alternates between them without
    reloading parameters. Parameters that do not fit are sent with every inference, which takes
    longer.
    """
    from fitzroy.base.bits import integer
    from fitzroy.formats.object_file import write_object
    from fitzroy.linker.packages.darwinn import LinkOptions
    from fitzroy.linker.packages.darwinn import link as link_objects
    from fitzroy.linker.resolve.caching import Generation

    terminal, form = printed.terminal, results.form
    outputs = _outputs(files, results.output, results.directory, form)
    options = LinkOptions(
        Generation.for_runtime(runtime), None if token is None else integer(token)
    )
    sources = [_read(path) for path in files]
    if form is LinkFormat.OBJECT:
        for source in sources:
            if len(source.objects) != 1:
                raise UsageError(
                    f"the model has {len(source.objects)} packages, an object holds one",
                    where=source.path,
                )
        _write(
            results.directory,
            [
                (path, write_object(source.objects[0]))
                for source, path in zip(sources, outputs, strict=True)
            ],
        )
        _report(terminal, files, outputs, None)
        return
    objects = [found for source in sources for found in source.objects]
    packages = iter(link_objects(objects, options))
    linked: list[list[PackageFile]] = [[next(packages) for _ in s.objects] for s in sources]
    data = [_written(s, found, form) for s, found in zip(sources, linked, strict=True)]
    _write(results.directory, list(zip(outputs, data, strict=True)))
    _report(terminal, files, outputs, linked)


def _write(directory: Path | None, files: list[tuple[Path, bytes]]) -> None:
    """Write all results, into a directory that is made if need be, or none."""
    with directories([] if directory is None else [directory]):
        write_files(files)


def _outputs(
    files: list[str], output: Path | None, directory: Path | None, form: LinkFormat
) -> list[Path]:
    """Where each result goes.

    Raises:
        UsageError: not exactly one of the options, or a path that cannot be written.
    """
    if (output is None) == (directory is None):
        raise UsageError(
            "say where the results go", hint="give -o FILE for one, -d DIR for several"
        )
    if output is not None:
        if len(files) != 1:
            raise UsageError(f"{len(files)} files and one output", hint="give a directory with -d")
        outputs = [output]
    else:
        assert directory is not None
        endings = {LinkFormat.TFLITE: ".tflite", LinkFormat.PACKAGE: ".dwn"}
        outputs = [directory / (Path(f).stem + endings.get(form, ".o")) for f in files]
        if len(set(outputs)) != len(outputs):
            raise UsageError("two files have the same name", hint="rename one of them")
    if directory is not None:
        check_directory(directory)
    for path in outputs:
        if directory is None or os.path.exists(directory):
            check_output(path, files)
    return outputs


def _read(path: str) -> _Source:
    from fitzroy.formats.detect import FileKind, detect
    from fitzroy.formats.object_file import read_object
    from fitzroy.linker.objects.recover import recover
    from fitzroy.linker.packages.container import read_container

    data = read_file(path)
    if detect(data, path) is FileKind.OBJECT:
        return _Source(path, [read_object(data, path)], None)
    container = read_container(data, path)
    objects = [recover(package, package.main.name or "") for package in container.packages]
    return _Source(path, objects, container)


def _written(source: _Source, packages: list[PackageFile], form: LinkFormat) -> bytes:
    """The bytes of a result.

    Raises:
        UsageError: a package alone of a model with several.
    """
    from fitzroy.formats.darwinn import write_package
    from fitzroy.formats.tflite import write_model
    from fitzroy.linker.packages.container import wrapped

    if form is LinkFormat.PACKAGE:
        if len(packages) != 1:
            raise UsageError(
                f"the model has {len(packages)} packages", where=source.path,
                hint="leave out --format package",
            )  # fmt: skip
        return write_package(packages[0])
    if source.container is not None and source.container.model is not None:
        return source.container.replaced(packages)
    return write_model(wrapped(packages[0], packages[0].main.name or "main"))


def _report(
    terminal: Terminal,
    files: list[str],
    outputs: Iterable[Path],
    linked: list[list[PackageFile]] | None,
) -> None:
    from fitzroy.formats.darwinn import token_text

    rows = []
    for index, (file, path) in enumerate(zip(files, outputs, strict=True)):
        row: dict[str, object] = {"file": file, "output": str(path)}
        if linked is not None:
            main = [package.main for package in linked[index]]
            cached = [package.caching for package in linked[index]]
            row |= {
                "chunks": sum(len(e.instruction_bitstreams or ()) for e in main),
                "cached_bytes": sum(
                    len(e.parameters) for e in cached if e and e.parameters is not None
                ),
                "streamed_bytes": sum(len(e.parameters) for e in main if e.parameters is not None),
                "token": token_text(main[0].parameter_caching_token),
            }
        rows.append(row)
    if terminal.json:
        terminal.document("link", {"results": rows})
        return
    if terminal.quiet:
        return
    columns = [
        Column("output"),
        *(
            [
                Column("chunks", True),
                Column("cached B", True),
                Column("streamed B", True),
                Column("token", True),
            ]
            if linked
            else []
        ),
    ]
    keys = ("output", "chunks", "cached_bytes", "streamed_bytes", "token")
    cells = [[row[key] for key in keys if key in row] for row in rows]
    terminal.table(columns, [["none" if x is None else str(x) for x in row] for row in cells])


link_command = Verb(
    link,
    (
        "fitzroy link model.o -o model_edgetpu.tflite",
        "fitzroy link a_edgetpu.tflite b_edgetpu.tflite -d together",
        "fitzroy link model_edgetpu.tflite --format object -o model.o",
    ),
)
