"""Parts of help texts and options that verbs share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the command line.

    Attributes:
        function: what the parser calls; its signature declares the arguments, its docstring is
            the help text.
        examples: command lines for the end of the help text.
    """

    function: Callable[..., Any]
    examples: tuple[str, ...]

    @property
    def text(self) -> str:
        """The help text, one line per paragraph, because terminals differ in width."""
        paragraphs = inspect.cleandoc(self.function.__doc__ or "").split("\n\n")
        return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document, also for errors.", show_default=False),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no remarks, only warnings and errors.")
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="A,B",
        help="Take only the part of the model that computes these values.",
        show_default=False,
    ),
]
