"""Models that verbs take, and parts of them by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.terminal import Terminal
from fitzroy.compiler.frontends.frontend import frontend_for
from fitzroy.compiler.ir import Graph


def check_model(path: str) -> None:
    """Refuse what is no model before anything else is judged.

    Raises:
        UsageError: the file cannot be read, or holds something else.
        FormatError: it is of no known format.
    """
    frontend_for(read_file(path), path)


def warn_of(terminal: Terminal, graph: Graph) -> None:
    """Print what is remarkable of a model."""
    for remark in graph.remarks:
        terminal.warn(remark.what, [f"hint: {remark.hint}"] if remark.hint else ())


def resolve_outputs(graph: Graph, texts: Sequence[str]) -> list[str]:
    """Names of values from the option ``--outputs``.

    A text that is the name of a value is taken whole; otherwise commas separate names.

    Raises:
        UsageError: there is no such value; names similar ones.
    """
    names: list[str] = []
    for text in texts:
        names += [text] if text in graph.values else _split(graph, text)
    return list(dict.fromkeys(names))


def _split(graph: Graph, text: str) -> list[str]:
    result, parts = [], text.split(",")
    while parts:
        # Names may contain commas themselves, so the longest that exists is taken.
        for end in range(len(parts), 0, -1):
            name = ",".join(parts[:end])
            if name in graph.values:
                break
        else:
            raise _unknown(graph, parts[0])
        result.append(name)
        parts = parts[end:]
    return result


def _unknown(graph: Graph, name: str) -> UsageError:
    computed = [name for node in graph.nodes() for name in node.outputs]
    close = difflib.get_close_matches(name, computed, 3, 0.5)
    hint = (
        f"similar: {', '.join(map(repr, close))}"
        if close
        else "names: see fitzroy inspect MODEL --json"
    )
    return UsageError(f"no value named {name!r}", where=graph.name, hint=hint)
