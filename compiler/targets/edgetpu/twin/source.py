"""How the source of a package is known again: digests of its operators, and what differs in them.

Operators are taken in an order that follows from the graph alone: each after those whose results
it takes, beginning with those of the first output. Values have no names in digests, except those
that come in and go out, which are layers of the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from fitzroy.base.errors import UsageError
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ir.text import print_attributes, print_type
from fitzroy.formats.source_digest import DIGEST_BYTES, OperatorDigest

_MOST_NAMED = 3
"""Operators that an error names; the rest are counted."""


def digests_of(graph: Graph) -> tuple[OperatorDigest, ...]:
    """Digests of the operators of a graph, in their order.

    Args:
        graph: what one package computes.
    """
    given = {name: f"input {name}" for name in graph.inputs}
    found = []
    for number, node in enumerate(_ordered(graph)):
        found.append(_digest(graph, node, given))
        given |= {name: f"{number}.{place}" for place, name in enumerate(node.outputs)}
    return tuple(found)


def demand_source(
    recorded: Sequence[OperatorDigest], found: Sequence[OperatorDigest], where: str
) -> None:
    """Demand that a graph is the source of a package.

    Args:
        recorded: digests of the operators that the package was compiled from.
        found: those of the graph.
        where: the model that the graph is from, and the package, for errors.

    Raises:
        UsageError: it is another; names the operators that differ, and what differs in them.
    """
    reason = _difference(recorded, found)
    if reason:
        raise UsageError(
            "the model is not the one that the package was compiled from",
            reason=reason,
            where=where,
            hint="give the quantized model that it was compiled from, or compile this one",
        )


def _difference(recorded: Sequence[OperatorDigest], found: Sequence[OperatorDigest]) -> str:
    """What differs, for people; empty if nothing does."""
    if len(recorded) != len(found):
        return f"the package has {len(recorded)} operators of it, the model {len(found)}"
    forms, constants = (
        [
            repr(other.name)
            for one, other in zip(recorded, found, strict=True)
            if getattr(one, kind) != getattr(other, kind)
        ]
        for kind in ("form", "constants")
    )
    parts = [
        f"{what} of {len(names)} of {len(found)} operators differ: {_listed(names)}"
        for what, names in (
            ("constants", constants),
            ("operands, attributes, types or quantization", forms),
        )
        if names
    ]
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _digest(graph: Graph, node: Node, given: Mapping[str, str]) -> OperatorDigest:
    """The digest of an operator.

    Args:
        graph: its graph.
        node: the operator.
        given: values that come in or were computed, by name, as digests have them.
    """
    constants = blake2b(digest_size=DIGEST_BYTES)
    lines = [node.op, print_attributes(node.attributes)]
    for name in node.inputs:
        if name is None:
            lines.append("absent")
            continue
        value = graph.value(name)
        lines.append(f"{given.get(name, 'constant')} : {_type(value.type)}")
        if value.data is not None:
            data = value.data.astype(value.data.dtype.newbyteorder("<"), copy=False)
            constants.update(data.tobytes())
    for name in node.outputs:
        goal = f"output {name}" if name in graph.outputs else "result"
        lines.append(f"{goal} : {_type(graph.type(name))}")
    form = blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    return OperatorDigest(node.outputs[0], form.hexdigest(), constants.hexdigest())


def _type(type: TensorType) -> str:
    """A type as digests have it; files do not tell one scale along an axis from one of a tensor."""
    q = type.quantization
    if q is not None and not q.is_per_tensor and len(q.scale) == 1:
        type = replace(type, quantization=replace(q, axis=None))
    return print_type(type)


def _ordered(graph: Graph) -> Iterator[Node]:
    """Operators that outputs need, each after those whose results it takes."""
    waiting = [
        node for name in sorted(graph.outputs, reverse=True) if (node := graph.producer(name))
    ]
    begun: set[str] = set()
    ended: set[str] = set()
    while waiting:
        node = waiting[-1]
        if node.name in begun:
            waiting.pop()
            if node.name not in ended:
                ended.add(node.name)
                yield node
            continue
        begun.add(node.name)
        makers = [graph.producer(name) for name in reversed(node.inputs) if name is not None]
        waiting += [maker for maker in makers if maker is not None and maker.name not in begun]
