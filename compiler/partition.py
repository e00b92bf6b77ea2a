"""Partitioning: which target runs which node.

Targets are tried in order for every node; the first that has no objection takes it. Nodes of one
target are then gathered into as few groups as the dataflow permits: a node's level is the number
of changes of target on the way to it, so that nodes of equal level never wait for one another
across a group's border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Operator, Reject


@dataclass(frozen=True, slots=True)
class Target:
    """Something that runs nodes.

    Attributes:
        name: its name in reports.
        rejects: every reason why it cannot run a call.
    """

    name: str
    rejects: Callable[[Operator, Call], Iterator[Reject]]


XNNPACK = Target("xnnpack", lambda operator, call: operator.reject_xnnpack(call))
PORTABLE = Target("portable", lambda operator, call: operator.reject_portable(call))


@dataclass(frozen=True, slots=True)
class Placement:
    """A group of nodes that one target runs together.

    Attributes:
        target: name of the target; empty if no target takes the nodes.
        nodes: the nodes, producers before consumers.
        rejects: why targets that come first in order did not take them.
    """

    target: str
    nodes: tuple[Node, ...]
    rejects: tuple[Diagnostic, ...] = ()


def title(node: Node) -> str:
    """A node as diagnostics name it."""
    return f"{node.op} {node.name!r}" + (f" ({node.origin})" if node.origin else "")


def diagnose(graph: Graph, node: Node, target: Target) -> list[Diagnostic]:
    """Every reason why a target cannot run a node."""
    call, where = Call.of(graph, node), title(node)
    # An operand that is read twice objects twice.
    return [
        Diagnostic(Severity.WARNING, reject.rule, where, reject.reason, hint=reject.hint)
        for reject in dict.fromkeys(target.rejects(OPS[node.op], call))
    ]


def partition(graph: Graph, targets: Sequence[Target] = (XNNPACK, PORTABLE)) -> list[Placement]:
    """Groups of nodes in an order in which they can run.

    Nodes that no target takes form groups with an empty target name; the caller decides whether
    that is an error.
    """
    levels: dict[str, int] = {}
    groups: dict[tuple[int, int], list[Node]] = {}
    reasons: dict[tuple[int, int], list[Diagnostic]] = {}
    choices: dict[str, int] = {}
    for node in graph.nodes():
        choice, rejects = len(targets), []
        for index, target in enumerate(targets):
            found = diagnose(graph, node, target)
            if not found:
                choice = index
                break
            rejects += [reject for reject in found if reject not in rejects]
        level = 0
        for name in node.inputs:
            producer = None if name is None else graph.producer(name)
            if producer is not None:
                change = choices[producer.name] != choice
                level = max(level, levels[producer.name] + change)
        levels[node.name], choices[node.name] = level, choice
        groups.setdefault((level, choice), []).append(node)
        reasons.setdefault((level, choice), []).extend(rejects)
    return [
        Placement(
            targets[choice].name if choice < len(targets) else "",
            tuple(groups[level, choice]),
            tuple(reasons[level, choice]),
        )
        for level, choice in sorted(groups)
    ]
