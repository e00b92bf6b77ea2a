"""Transposition."""

from __future__ import annotations

from collections.abc import Sequence

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.targets.edgetpu.codegen.elements import distances, take_elements
from fitzroy.compiler.targets.edgetpu.codegen.legalize import RULES, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.shapes import keeps_bytes


def _keeps_order(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether only axes of one element change their places."""
    moved = [axis for axis in perm if shape[axis] > 1]
    return moved == sorted(moved)


@legalizes("transpose")
def _transpose(legalizer: Legalizer, call: Call) -> None:
    node, before, after = call.node, call.type(), call.result.type
    perm = call.attributes(TransposeAttributes).perm
    if not keeps_bytes(before, after):
        raise UnsupportedError(f"transpose {node.name!r} changes the quantization")
    if (
        len(after.shape) <= 4
        and _keeps_order(before.shape, perm)
        and after.shape[0] in (1, after.size)
    ):
        RULES["reshape"](legalizer, call)
        return
    source = legalizer.place(node.inputs[0] or "")
    steps = distances(legalizer, source, before.shape)
    strides = [steps[axis] for axis in perm]
    take_elements(legalizer, node.name, source, (node.outputs[0], after), 0, strides)
