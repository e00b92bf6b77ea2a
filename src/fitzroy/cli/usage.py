"""Help texts: options in panels, with names and what stands for values never cut."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from fitzroy.cli.help import REST

_WIDEST = 100
_NARROWEST = 40
_MARGIN = 2
_COLUMN = 28
"""Where texts begin; one whose name is longer begins on a line of its own."""


class Command(TyperCommand):
    """A verb whose help ends with examples."""

    examples: tuple[str, ...] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help text."""
        page = _Page()
        page.usage(ctx, [item for item in self.params if _is_argument(item)])
        page.prose(self.help or "")
        page.options(self.get_params(ctx))
        page.examples(self.examples)


class Group(TyperGroup):
    """Several verbs, whose help ends with examples."""

    examples: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the verbs; asking for them makes none."""
        return [*self.commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help text."""
        page = _Page()
        page.usage(ctx, [], "COMMAND ...")
        page.prose(self.help or "")
        page.options(self.get_params(ctx))
        page.heading("Commands")
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                page.entry(Text(name, "cyan"), Text.from_markup(_sentence(command.help or "")))
        page.examples(self.examples)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _sentence(text: str) -> str:
    """The first paragraph of a text without its full stop."""
    return text.partition("\n")[0].removesuffix(".")


class _Page:
    """A help text that goes to stdout."""

    def __init__(self) -> None:
        width = shutil.get_terminal_size().columns
        self.width = max(min(width, _WIDEST), _NARROWEST)
        self.console = Console(width=self.width, highlight=False, emoji=False)

    def line(self, text: Text, indent: int = 0) -> None:
        """Print a text with all of its lines indented."""
        for line in text.wrap(self.console, self.width - indent):
            line.rstrip()
            self.console.print(Text(" " * indent) + line, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.console.print()
        self.line(Text(text, "bold"))

    def usage(self, ctx: Any, arguments: Sequence[Any], more: str = "") -> None:
        """Print how the verb is called."""
        names = [_value(item) if item.required else f"[{_value(item)}]" for item in arguments]
        words = [ctx.command_path, "[OPTIONS]", *names, *([more] if more else [])]
        self.line(Text("Usage: ", "bold") + Text(" ".join(words)))

    def prose(self, text: str) -> None:
        """Print paragraphs."""
        for paragraph in text.split("\n\n"):
            self.console.print()
            self.line(Text.from_markup(paragraph))

    def options(self, parameters: Iterable[Any]) -> None:
        """Print arguments and options under the headings that they belong to."""
        panels: dict[str, list[Any]] = {}
        for item in parameters:
            if not getattr(item, "hidden", False):
                rest = "Arguments" if _is_argument(item) else REST
                panels.setdefault(getattr(item, "rich_help_panel", None) or rest, []).append(item)
        # What every verb has comes last.
        for title in sorted(panels, key=lambda title: title == REST):
            self.heading(title)
            for item in panels[title]:
                self.entry(_name(item), _meaning(item))

    def entry(self, name: Text, meaning: Text) -> None:
        """Print a name, and beside or below it what it means."""
        lines: list[Text] = [*meaning.wrap(self.console, self.width - _COLUMN)]
        for line in lines:
            line.rstrip()
        if len(name) > _COLUMN - _MARGIN - 2:
            self.line(name, _MARGIN)
        elif lines:
            gap = " " * (_COLUMN - _MARGIN - len(name))
            self.console.print(Text(" " * _MARGIN) + name + gap + lines.pop(0), soft_wrap=True)
        else:
            self.line(name, _MARGIN)
        for line in lines:
            self.console.print(Text(" " * _COLUMN) + line, soft_wrap=True)

    def examples(self, lines: Sequence[str]) -> None:
        """Print command lines."""
        if lines:
            self.heading("Examples")
        for line in lines:
            self.console.print(Text(" " * _MARGIN + line), soft_wrap=True)
        self.console.print()


def _name(parameter: Any) -> Text:
    """Names of an option with what stands for its value, or what stands for an argument."""
    value = _value(parameter)
    if _is_argument(parameter):
        return Text(value, "cyan")
    names = sorted([*parameter.opts, *parameter.secondary_opts], key=lambda name: name[:2] == "--")
    found = Text(", ".join(names), "cyan")
    return found + Text(f" {value}", "yellow") if value else found


def _value(parameter: Any) -> str:
    """What stands for the value of a parameter; empty for a flag."""
    return "" if getattr(parameter, "is_flag", False) else str(parameter.metavar or "VALUE")


def _meaning(parameter: Any) -> Text:
    return Text(" ").join(_sentences(parameter))


def _sentences(parameter: Any) -> Iterator[Text]:
    """What a parameter does, and what it is unless told otherwise."""
    if parameter.help:
        yield Text.from_markup(parameter.help)
    default = parameter.default
    if getattr(parameter, "show_default", False) and default not in (None, (), [], False, True):
        yield Text(f"(default: {getattr(default, 'value', default)})", "dim")
