"""Custom operators of TFLite that are published, and have a class here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields
from typing import Any

from fitzroy.compiler.ops.definition import (
    Call,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    demand,
)
from fitzroy.formats import flexbuffer


class PostProcessing(Operator):
    """Base of custom operators that are published; their users run them on the host.

    Options are a flexbuffer map whose keys are the attributes, which are numbers.
    """

    results = None

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        found = flexbuffer.decode(options) if options else {}
        if not isinstance(found, dict):
            raise TypeRuleError("the options are no map")
        values = {}
        for item in fields(self.attributes):
            value = found.get(item.name, None if item.default is MISSING else item.default)
            kinds = int | float if item.type == "float" else int
            demand(
                isinstance(value, kinds) and math.isfinite(value),
                f"the options have no number {item.name}",
            )
            values[item.name] = _CASTS[item.type](value)
        return Imported(self.attributes(**values))

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
