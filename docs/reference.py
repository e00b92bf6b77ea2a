"""Reference pages of the site that follow from the code: command line, errors, JSON schemas.

The site makes them whenever it is built, so that no verb, option or error is ever missing. They
are not kept in the repository.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from docs import layouts

import fitzroy.base.errors
from fitzroy.base.errors import FitzroyError
from fitzroy.cli.help import Verb
from fitzroy.cli.verbs import VERBS, Commands, declared
from fitzroy.report import documents

_MARKUP = re.compile(r"\[/?[a-z ]*\]")
_PROSE_ONLY = re.compile(r"\n(Args|Returns|Raises):.*", re.DOTALL)

REMEDIES: dict[str, str] = {
    "FitzroyError": "see the kinds below",
    "UsageError": "correct the command as the message says; `fitzroy COMMAND --help` has examples",
    "FormatError": "check that the file is complete and of the expected kind; "
    "`fitzroy inspect FILE` shows its readable parts",
    "UnsupportedError": "`fitzroy explain MODEL` lists every operator with the rule and what to "
    "change in the model",
    "CapacityError": "reduce what the message names, or raise the limit that it names",
    "LinkError": "link objects for the same chip, and provide all symbols that they need",
    "DeviceError": "`fitzroy doctor` checks library, permissions, firmware and link step by step",
    "SimulationError": "for a program of another compiler: report it with the file; for an edited "
    "program: `fitzroy debug` stops at the instruction",
    "MismatchError": "see which expectation failed; the exit code is meant for scripts and CI",
    "InternalError": "a bug in FitzRoy: report it with the message and the command",
}
"""What a user does about each kind of error."""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _plain(text: str | None) -> str:
    return _MARKUP.sub("", inspect.cleandoc(text or ""))


def _parameters(command: Any) -> Iterator[str]:
    for item in command.params:
        if getattr(item, "hidden", False):
            continue
        if item.param_type_name == "argument":
            name = f"`{item.metavar or item.name.upper()}`"
        else:
            name = ", ".join(f"`{part}`" for part in [*item.opts, *item.secondary_opts])
            if not item.is_flag:
                name += f" {_cell(item.metavar or str(item.type.name).upper())}"
        yield f"| {name} | {_cell(_plain(item.help))} |"


def _verb(name: str, command: Any, examples: Iterable[str], depth: int) -> Iterator[str]:
    yield from [f"{'#' * depth} fitzroy {name}", "", _plain(command.help), ""]
    rows = list(_parameters(command))
    if rows:
        yield from ["| option | meaning |", "|---|---|", *rows, ""]
    if examples:
        yield from ["```console", *examples, "```", ""]


def commands() -> str:
    """Every verb with its options and examples, from the declarations of the parser."""
    parser = Commands()
    lines = [
        "# Command line",
        "",
        "All commands with their options and examples: for users of FitzRoy in a shell or a "
        "script. `fitzroy COMMAND --help` prints the same. Commands with `--json` print a "
        "document that "
        "follows a [schema](schemas.md). [Errors](errors.md) lists the exit codes.",
        "",
    ]
    for name in VERBS:
        verb = declared(name)
        lines += _verb(name, parser[name], verb.examples, 2)
        if not isinstance(verb, Verb):
            for part, inner in verb.verbs.items():
                lines += _verb(f"{name} {part}", parser[name].commands[part], inner.examples, 3)
    return "\n".join(lines) + "\n"


def error_kinds() -> list[type[FitzroyError]]:
    """All kinds of errors by exit code."""
    found = inspect.getmembers(fitzroy.base.errors, inspect.isclass)
    kinds = [kind for _, kind in found if issubclass(kind, FitzroyError)]
    return sorted(kinds, key=lambda kind: (kind.exit_code, kind.__name__))


def errors() -> str:
    """Every kind of error with its exit code and what to do."""
    lines = [
        "# Errors",
        "",
        "All kinds of errors and their remedies: for users who got an error message, and for "
        "authors of scripts that act on exit codes. Every error that a user, a file or a device "
        "can cause is one of these. Its message says what happened, why (with both numbers), "
        "where, and what to do. The command line turns errors into exit codes, which stay the "
        "same between versions; "
        "[robustness](robustness.md) describes how this is tested.",
        "",
        "| exit code | Python | meaning | remedy |",
        "|---|---|---|---|",
        "| 0 | | success | |",
    ]
    for kind in error_kinds():
        meaning = _cell(_PROSE_ONLY.sub("", inspect.getdoc(kind) or ""))
        remedy = REMEDIES[kind.__name__]
        lines.append(f"| {kind.exit_code} | `{kind.__name__}` | {meaning} | {remedy} |")
    lines += [
        "| 130 | | interrupted from the keyboard | |",
        "| 141 | | the reader of the output went away | |",
    ]
    return "\n".join(lines) + "\n"


def schemas() -> str:
    """The JSON schemas, by the verbs that print the documents."""
    lines = [
        "# JSON schemas",
        "",
        "The schemas of `--json` output: for authors of tools that read it. Every document "
        "follows one "
        "of these schemas (JSON Schema 2020-12). `fitzroy schema NAME` prints a schema.",
        "",
    ]
    for name, version in documents.VERSIONS.items():
        document = documents.schema(name)
        lines += [f"## {name}", "", f"{document['title']}. Version {version}.", ""]
        lines += [f'??? note "fitzroy schema {name}"', "", "    ```json"]
        text = json.dumps(document, indent=2, ensure_ascii=False)
        lines += [f"    {line}" for line in text.splitlines()]
        lines += ["    ```", ""]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "errors.md": errors,
    "formats.md": layouts.formats,
    "schemas.md": schemas,
}
"""What makes each page, by its name in the site."""
