"""Partitioning: which target runs which node.

Targets are tried in order for every node; the first that has no objection takes it. Nodes of one
target are then gathered into as few groups as the dataflow permits: groups run in slots that go
round the targets, and nodes of one slot never wait for one another across its border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.compiler.ir import Graph, Node, Origin
from fitzroy.compiler.ops.definition import Call, Reject


class Runner(Protocol):
    """Something that runs nodes: a target, or what is left to decide by name."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    def rejects(self, call: Call) -> Iterator[Reject]:
        """Every reason why it cannot run a call."""


Rejects = tuple[Reject, ...]
"""All reasons why something does not run a node."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Runs all nodes but some that are known.

    Attributes:
        name: its name in reports.
        rejected: why it does not run nodes, by their names.
    """

    name: str
    rejected: Mapping[str, Rejects] = field(default_factory=dict)

    def rejects(self, call: Call) -> Iterator[Reject]:
        """The reasons that are known."""
        yield from self.rejected.get(call.node.name, ())


HOST = Decided("host")
"""What runs the nodes that a device leaves in a model."""


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
    return f"{node.spelled} {node.name!r}" + (f" ({node.origin})" if node.origin else "")


def diagnose(graph: Graph, node: Node, target: Runner) -> list[Diagnostic]:
    """Every reason why a target cannot run a node."""
    call, where = Call.of(graph, node), title(node)
    # An operand that is read twice objects twice.
    return [
        Diagnostic(Severity.WARNING, reject.rule, where, reject.reason, hint=reject.hint)
        for reject in dict.fromkeys(target.rejects(call))
    ]


def partition(
    graph: Graph, targets: Sequence[Runner], families: Sequence[Sequence[Node]] = ()
) -> list[Placement]:
    """Groups of nodes in an order in which they can run.

    Nodes that no target takes form groups with an empty target name; the caller decides whether
    that is an error.

    Args:
        graph: the graph.
        targets: what is asked, in order.
        families: nodes that have to be in one group, as `families_of` finds them. The same target
            takes all of a family, and nothing else lies between them.
    """
    choices, rejects = _chosen(graph, targets)
    slots = _slots(graph, choices, len(targets) + 1, families)
    groups: dict[int, list[Node]] = {}
    for node in graph.nodes():
        groups.setdefault(slots[node.name], []).append(node)
    found = []
    for slot in sorted(groups):
        nodes = tuple(groups[slot])
        choice = choices[nodes[0].name]
        found.append(
            Placement(
                targets[choice].name if choice < len(targets) else "",
                nodes,
                tuple(reject for node in nodes for reject in rejects[node.name]),
            )
        )
    return found


def families_of(graph: Graph) -> list[list[Node]]:
    """Nodes that one operator of a file has become, where these are several."""
    families: dict[Origin, list[Node]] = {}
    for node in graph.nodes():
        if node.origin is not None:
            families.setdefault(node.origin, []).append(node)
    return [nodes for nodes in families.values() if len(nodes) > 1]


def _chosen(
    graph: Graph, targets: Sequence[Runner]
) -> tuple[dict[str, int], dict[str, list[Diagnostic]]]:
    """The target of every node by its number, and why the ones before do not take it."""
    choices: dict[str, int] = {}
    rejects: dict[str, list[Diagnostic]] = {}
    for node in graph.nodes():
        choices[node.name], rejects[node.name] = len(targets), []
        for index, target in enumerate(targets):
            found = diagnose(graph, node, target)
            if not found:
                choices[node.name] = index
                break
            rejects[node.name] += [item for item in found if item not in rejects[node.name]]
    return choices, rejects


def _slots(
    graph: Graph,
    choices: Mapping[str, int],
    count: int,
    families: Sequence[Sequence[Node]] = (),
) -> dict[str, int]:
    """In which slot each node runs; slots go round the choices, the first choice last.

    Nodes run as early as they can, which makes as few groups as the longest way has. One whose
    result is only read later is put off to the group of a reader if what it reads is no more than
    what it writes: then less is kept, or moved between targets. If its readers run on another
    target, what it writes is moved anyway.
    """
    slots: dict[str, int] = {}
    for node in graph.nodes():
        producers = [graph.producer(name) for name in node.inputs if name is not None]
        earliest = max((slots[item.name] for item in producers if item is not None), default=0)
        slots[node.name] = earliest + (count - 1 - choices[node.name] - earliest) % count
    tied = set[str]()
    for nodes in families:
        tied.update(node.name for node in nodes)
        slots |= dict.fromkeys((node.name for node in nodes), max(slots[n.name] for n in nodes))
    for node in reversed(graph.nodes()):
        readers = [reader for name in node.outputs for reader in graph.consumers(name)]
        if node.name in tied or not readers or any(name in graph.outputs for name in node.outputs):
            continue
        latest = min(slots[reader.name] for reader in readers)
        shared = (latest - (count - 1 - choices[node.name])) % count == 0
        if shared and latest > slots[node.name] and _read(graph, node) <= _written(graph, node):
            slots[node.name] = latest
    return slots


def _read(graph: Graph, node: Node) -> int:
    """Bytes that a node reads of other nodes and of inputs."""
    names = {name for name in node.inputs if name is not None}
    return sum(graph.type(name).nbytes for name in names if not graph.value(name).is_constant)


def _written(graph: Graph, node: Node) -> int:
    return sum(graph.type(name).nbytes for name in node.outputs)
