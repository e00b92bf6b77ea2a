"""``fitzroy schema``: what JSON documents look like."""

from __future__ import annotations

import json as encoding
from typing import Annotated

import typer

from fitzroy.cli.help import Json, Verb
from fitzroy.cli.terminal import Column, Terminal


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The schema that a document names, with or without fitzroy-.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the JSON Schema of a document, or list all schemas.

    Every document names its schema in "schema" and "schema_version". The version increases if a
    field is removed or changes its meaning; fields may be added at any time.
    """
    from fitzroy.report import documents

    terminal = Terminal(json=json)
    if name is not None:
        terminal.raw(encoding.dumps(documents.schema(name), indent=2, ensure_ascii=False) + "\n")
        return
    titles = {item: documents.schema(item)["title"] for item in documents.VERSIONS}
    if json:
        listed = [
            {"name": item, "version": documents.VERSIONS[item], "title": title}
            for item, title in titles.items()
        ]
        terminal.document("schemas", {"schemas": listed})
        return
    terminal.table(
        (Column("schema", style="cyan", keep=True), Column("version", right=True), Column("of")),
        [[item, str(documents.VERSIONS[item]), title] for item, title in titles.items()],
    )


schema_command = Verb(
    schema,
    ("fitzroy schema", "fitzroy schema sim", "fitzroy schema compile > compile.schema.json"),
)
