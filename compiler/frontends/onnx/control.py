"""ONNX's control flow, as far as it is known before the model runs."""

from __future__ import annotations

from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor


@imports("If")
def condition(op: Operation) -> list[Tensor]:
    """The results of the branch that a constant condition chooses.

    Raises:
        Refusal: the condition is computed at run time, or the branch cannot be imported.
    """
    known = op.input().data
    if known is None or known.size != 1:
        raise Refusal(
            "onnx-control-flow",
            "the condition is computed at run time",
            "export the model for one case, or take a part of it with --outputs",
        )
    name = "then_branch" if known.any() else "else_branch"
    body = op.fields.get(name)
    if body is None or not hasattr(body, "node"):
        raise Refusal("onnx-attribute", f"there is no {name}")
    return op.branch(body)
