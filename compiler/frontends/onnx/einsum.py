"""ONNX's Einsum, as far as it is a product of matrices, a permutation and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.matmul import multiplied
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.reduction import reduced
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor


@imports("Einsum")
def einsum(op: Operation) -> Tensor:
    """Sums of products of elements whose dimensions are named.

    Raises:
        Refusal: a name occurs twice in an operand.
    """
    terms, result = _terms(op)
    build = op.build
    operands = [op.input(index) for index in range(len(terms))]
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, operands, strict=True):
        if len(term) != tensor.rank or len(set(term)) < len(term):
            raise Refusal("onnx-attribute", f"Einsum of {tensor.rank} dimensions named {term}")
        for name, extent in zip(term, tensor.shape, strict=True):
            if extents.setdefault(name, extent) != extent:
                raise Refusal("onnx-attribute", f"Einsum with {name!r} of several extents")
    if not set(result) <= set(extents):
        raise Refusal("onnx-attribute", f"Einsum with {result!r} of nothing")
    while len(terms) > 2:
        # Two at a time, from the left; what the others still need stays.
        needed = set(result).union(*terms[2:])
        _sum_alone(build, operands, terms, needed)
        part = "".join(dict.fromkeys(name for name in terms[0] + terms[1] if name in needed))
        joined = _product(build, operands[:2], terms[:2], (part, extents))
        operands, terms = [joined, *operands[2:]], [part, *terms[2:]]
    _sum_alone(build, operands, terms, set(result))
    if len(terms) == 1:
        return build.transpose(operands[0], [terms[0].index(name) for name in result])
    return _product(build, operands, terms, (result, extents))


def _sum_alone(build: Builder, operands: list[Tensor], terms: list[str], needed: set[str]) -> None:
    """Sum what only one of the first two operands has, and nothing else needs."""
    for index, term in enumerate(terms[:2]):
        others = needed.union(*(t for i, t in enumerate(terms) if i != index))
        gone = tuple(axis for axis, name in enumerate(term) if name not in others)
        if gone:
            operands[index] = reduced(build, "sum", operands[index], gone, keep=False)
            terms[index] = "".join(name for name in term if name in others)


def _terms(op: Operation) -> tuple[list[str], str]:
    """Names of dimensions of each operand, and of the result; dots become names of their own."""
    text = op.text("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(op.inputs):
        raise Refusal("onnx-attribute", f"Einsum {text!r} of {len(op.inputs)} operands")
    longest = max(
        (op.input(i).rank - len(t) + 3 for i, t in enumerate(terms) if "..." in t), default=0
    )
    dots = "".join(chr(0x3B1 + index) for index in range(max(longest, 0)))
    named = [
        term.replace("...", dots[len(dots) - max(op.input(i).rank - len(term) + 3, 0) :])
        for i, term in enumerate(terms)
    ]
    if arrow:
        return named, right.replace("...", dots)
    every = "".join(terms).replace("...", "")
    once = sorted(name for name in set(every) if every.count(name) == 1)
    return named, dots + "".join(once)


def _product(
    build: Builder,
    operands: Sequence[Tensor],
    terms: Sequence[str],
    wanted: tuple[str, dict[str, int]],
) -> Tensor:
    """The product of two operands, as one of matrices [batch, rows, columns]."""
    result, extents = wanted
    first, second = terms
    batch = [name for name in first if name in second and name in result]
    summed = [name for name in first if name in second and name not in result]
    rows = [name for name in first if name not in second]
    columns = [name for name in second if name not in first]

    def size(names: Sequence[str]) -> int:
        return math.prod(extents[name] for name in names)

    a = build.transpose(operands[0], [first.index(name) for name in (*batch, *rows, *summed)])
    b = build.transpose(operands[1], [second.index(name) for name in (*batch, *summed, *columns)])
    a = build.reshape(a, (size(batch), size(rows), size(summed)))
    b = build.reshape(b, (size(batch), size(summed), size(columns)))
    product = multiplied(build, a, b)
    order = [*batch, *rows, *columns]
    product = build.reshape(product, tuple(extents[name] for name in order))
    return build.transpose(product, [order.index(name) for name in result])
