"""Options of verbs in groups: dataclasses that stand for several parameters of a verb.

A parameter of a verb's function that is annotated with a dataclass becomes one option for each of
its fields. Fields are annotated as parameters are, or are made by `fitzroy.base.options.option`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from fitzroy.base.options import declared


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A function for the parser in the place of one that takes groups of options."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += _parameters(kind)
        else:
            shown = _shown(*_split(parameter.name, kind), None)
            parameters.append(
                parameter.replace(annotation=shown, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @wraps(function)
    def called(**values: Any) -> None:
        made = {
            name: kind(**{item.name: values.pop(item.name) for item in fields(kind)})
            for name, kind in groups.items()
        }
        function(**values, **made)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {item.name: item.annotation for item in parameters}
    return called


def _parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    """Parameters for the fields of a group."""
    hints = get_type_hints(group, include_extras=True)
    for item in fields(group):
        yield inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.default,
            annotation=_annotation(item, hints[item.name], getattr(group, "panel", None)),
        )


def _annotation(item: Field[Any], hint: Any, panel: str | None) -> Any:
    """The type of a field with what the parser is to know of it."""
    said = declared(item.metadata)
    if said is not None:
        dashed = item.name.replace("_", "-")
        negated = item.default is True or (item.default is None and _is_flag(hint))
        flag = f"--{dashed}/--no-{dashed}" if negated else f"--{dashed}"
        info: ParameterInfo = typer.Option(
            *filter(None, (flag, said.short)),
            help=said.help,
            metavar=said.metavar or None,
            show_default=item.default is not None and not isinstance(item.default, bool),
        )
        kind = hint
    else:
        kind, info = _split(item.name, hint)
    return _shown(kind, info, panel)


def _is_flag(kind: Any) -> bool:
    """Whether a parameter is yes or no, or neither."""
    return bool in (kind, *get_args(kind))


def _shown(kind: Any, info: ParameterInfo, panel: str | None) -> Any:
    """A parameter whose help text has a heading, and something that stands for its value."""
    info = copy.copy(info)
    if info.rich_help_panel is None:
        info.rich_help_panel = panel
    if info.metavar is None and not _is_flag(kind):
        types = [kind, *get_args(kind)]
        choices = next((t for t in types if isinstance(t, type) and issubclass(t, Enum)), None)
        info.metavar = "|".join(str(choice.value) for choice in choices) if choices else "VALUE"
    return Annotated[kind, info]


def _split(name: str, hint: Any) -> tuple[Any, ParameterInfo]:
    """Type and declaration of a field that is annotated as parameters are."""
    if get_origin(hint) is Annotated:
        kind, *extras = get_args(hint)
        for extra in extras:
            if isinstance(extra, ParameterInfo):
                return kind, extra
    raise TypeError(f"{name} is no option")
