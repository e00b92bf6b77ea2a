"""Custom operators of TFLite that are published, and have a class here."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, asdict, fields
from enum import StrEnum
from typing import Any, ClassVar

from fitzroy.compiler.ops.definition import (
    Call,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
)
from fitzroy.formats import flexbuffer


class PostProcessing(Operator):
    """Base of custom operators that are published; their users run them on the host.

    Options are a flexbuffer map whose keys are the attributes, which are numbers or choices.

    Class attributes:
        choices: enumerations of attributes by their names.
        infinite: attributes that may be infinite.
    """

    results = None
    choices: ClassVar[Mapping[str, type[StrEnum]]] = {}
    infinite: ClassVar[Collection[str]] = ()

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        found = flexbuffer.decode(options) if options else {}
        if not isinstance(found, dict):
            raise TypeRuleError("the options are no map")
        values = {}
        for item in fields(self.attributes):
            value = found.get(item.name, None if item.default is MISSING else item.default)
            values[item.name] = self._value(item.name, item.type, value)
        return Imported(self.attributes(**values))

    def _value(self, name: str, kind: Any, value: object) -> object:
        """An option as an attribute.

        Raises:
            TypeRuleError: it is none.
        """
        if kind in self.choices:
            texts = [choice.value for choice in self.choices[kind]]
            if isinstance(value, flexbuffer.Bytes):
                value = value.text()
            if not isinstance(value, str) or value not in texts:
                raise TypeRuleError(f"the option {name} is {value!r}, not {', '.join(texts)}")
            return self.choices[kind](value)
        kinds = int | float if kind == "float" else int
        bounded = isinstance(value, kinds) and math.isfinite(value)
        if not bounded and not (name in self.infinite and value in (-math.inf, math.inf)):
            raise TypeRuleError(f"the options have no number {name}")
        return _CASTS[kind](value)

    def to_tflite(self, call: Call) -> Exported:
        return Exported(self.custom, flexbuffer.encode(asdict(call.attributes(self.attributes))))


_CASTS: dict[Any, Callable[[Any], object]] = {"int": int, "float": float, "bool": bool}
"""How an option becomes an attribute, by the attribute's annotation."""


def cut_hint(call: Call) -> str:
    """How to compile the part of a model before a custom operator; empty if there is none."""
    names = [
        value.name
        for value in call.inputs
        if value is not None and not value.is_constant and value.name not in call.graph_inputs
    ]
    return f"compile up to it with --outputs '{','.join(names)}'" if names else ""
