"""Models that verbs take, and parts of them by name."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.terminal import Terminal
from fitzroy.compiler.frontends.frontend import Given, Reading, frontend_for, is_given
from fitzroy.compiler.ir import Graph

_SHAPE = re.compile(r"[1-9]\d{0,9}(x\d{1,10})*|0|scalar", re.ASCII)


@dataclass(frozen=True)
class Importing:
    """How models are read, where their files leave that open.

    Attributes:
        input: shapes of inputs, as ``NAME=AxBxC``, and values that inputs are fixed to, as
            ``NAME=VALUE``.
        keep_layout: whether image inputs of an ONNX model stay [N,C,H,W].
    """

    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=AxBxC",
            help="Shape of an input with open dimensions, in the model's own order, as in "
            "images=1x3x320x320. In ONNX models also another shape than the file states, if its "
            "operators take it; or a value that the input is fixed to, as in sr=16000 for a "
            "number, or sizes=\\[640,480]. Once per input.",
            show_default=False,
            rich_help_panel="Inputs of the model",
        ),
    ] = None
    keep_layout: Annotated[
        bool,
        typer.Option(
            "--keep-layout",
            help="Keep the order [N,C,H,W] of image inputs; by default they become [N,H,W,C]. "
            "Only in ONNX models.",
            show_default=False,
            rich_help_panel="Inputs of the model",
        ),
    ] = False

    @property
    def arguments(self) -> list[str]:
        """The options, as they were given on the command line."""
        given = [word for text in self.input or () for word in ("--input", text)]
        return [*given, *(["--keep-layout"] if self.keep_layout else [])]

    @property
    def how(self) -> Reading:
        """What to read of a model.

        Raises:
            UsageError: a text is no shape and no value.
        """
        return replace(reading_of(self.input or ()), keep_layout=self.keep_layout)

    def over(self, how: Reading) -> Reading:
        """What to read where something has been said already; options count first.

        Raises:
            UsageError: a text is no shape and no value.
        """
        said = self.how
        return replace(
            how,
            shapes={**how.shapes, **said.shapes},
            values={**how.values, **said.values},
            keep_layout=how.keep_layout or said.keep_layout,
        )


def reading_of(texts: Sequence[str]) -> Reading:
    """What to read of a model of whose inputs something is said.

    Args:
        texts: shapes as ``NAME=AxBxC`` and values as ``NAME=VALUE``.

    Raises:
        UsageError: a text is no shape and no value.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    values: dict[str, Given] = {}
    for text in texts:
        name, _, said = text.rpartition("=")
        shape, value = _shape(said), _given_value(said)
        if not name or (shape is None and value is None):
            raise UsageError(
                f"--input {text}",
                reason="it is no shape and no value of an input",
                hint="write NAME=AxBxC, as in --input images=1x3x320x320, or a number, as in "
                "sr=16000",
            )
        # One whole number alone is both; the input's dimensions say which is meant.
        if shape is not None:
            shapes[name] = shape
        if value is not None:
            values[name] = value
    return Reading(shapes=shapes, values=values)


def split_inputs(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """What `reading_of` takes of the texts of an option that takes files, too, and the files.

    What names a file or a folder is one.
    """
    said: list[str] = []
    files: list[str] = []
    for text in texts:
        name, _, value = text.rpartition("=")
        known = bool(name) and (_shape(value) is not None or _given_value(value) is not None)
        there = os.path.exists(text) or os.path.exists(value)
        (said if known and not there else files).append(text)
    return said, files


def _shape(text: str) -> tuple[int, ...] | None:
    if not _SHAPE.fullmatch(text):
        return None
    return () if text == "scalar" else tuple(map(int, text.split("x")))


def _given_value(text: str) -> Given | None:
    """A number, or lists of numbers, as JSON writes them; None if the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_given(value) else None


def check_model(path: str) -> None:
    """Refuse what is no model before anything else is judged.

    Raises:
        UsageError: the file cannot be read, or holds something else.
        FormatError: it is of no known format.
    """
    frontend_for(read_file(path), path)


def give_labels(graph: Graph, file: str | None) -> None:
    """Give a model the labels of a file, if one is named.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is malformed.
    """
    if file is not None:
        from fitzroy.execution.arrays import load_labels

        graph.labels = load_labels(file)


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
