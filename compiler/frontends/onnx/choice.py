"""Detectors that choose boxes themselves, by non-maximum suppression: what is left out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.order import nodes_of

if TYPE_CHECKING:
    from onnx import GraphProto

_SUPPRESSION = "NonMaxSuppression"

CHOOSERS = (_SUPPRESSION, "NonZero")
"""Operators that choose: what they give says which elements of other values count."""

_OVERLAP, _SCORE = 3, 4
"""Places of limits among the operands of a non-maximum suppression."""


def chooses_boxes(proto: GraphProto) -> bool:
    """Whether a model suppresses boxes itself."""
    return any(node.op_type == _SUPPRESSION for node in nodes_of(proto))


def choice_left_out(proto: GraphProto, constant: Callable[[str], Array | None]) -> Diagnostic:
    """What to say of a model whose choice is left out.

    Args:
        proto: the model.
        constant: elements of constants by name; None for other values.
    """
    said = []
    for node in proto.node:
        if node.op_type != _SUPPRESSION:
            continue
        for place, what in ((_OVERLAP, "--overlap"), (_SCORE, "--score-threshold")):
            found = constant(node.input[place]) if place < len(node.input) else None
            if found is not None and found.size == 1:
                said.append(f"{what} {float(found.reshape(-1)[0]):g}")
    limits = f"; the model's own limits are {' and '.join(dict.fromkeys(said))}" if said else ""
    return Diagnostic(
        Severity.WARNING,
        "onnx-choice",
        proto.name,
        "the model's own non-maximum suppression is left out",
        hint=f"--overlap, --score-threshold and --most say which objects are listed{limits}",
    )
