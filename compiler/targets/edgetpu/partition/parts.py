"""The first form of a model: groups of operators on the chip and on the host, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.compiler.ir import Node
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.targets.edgetpu.program.records import Names, Record, Words
from fitzroy.compiler.targets.edgetpu.program.stages import Readable


@dataclass(frozen=True)
class Operator(Record):
    """A node, with what it reads and makes."""

    template = "{op} {name}: from {reads} to {makes}"

    op: Words
    name: str
    reads: Names
    makes: Names

    @classmethod
    def of(cls, node: Node) -> Operator:
        """What the text says of a node."""
        reads = tuple(name for name in node.inputs if name is not None)
        return cls(Words(node.op), node.name, reads, node.outputs)


@dataclass(frozen=True)
class Reason(Record):
    """Why a node of a group is not on the chip."""

    template = "{code} at {where}: {what}, {reason}, {hint}"

    code: Words
    where: str
    what: str
    reason: str
    hint: str

    @classmethod
    def of(cls, reject: Diagnostic) -> Reason:
        """What the text says of a reason."""
        return cls(Words(reject.code), reject.where, reject.what, reject.reason, reject.hint)


@dataclass(frozen=True)
class Group(Record):
    """Nodes that run together."""

    template = "on {target}"

    target: Words
    nodes: tuple[Operator, ...]
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, placement: Placement) -> Group:
        """What the text says of a group."""
        return cls(
            Words(placement.target),
            tuple(map(Operator.of, placement.nodes)),
            tuple(map(Reason.of, placement.rejects)),
        )


@dataclass(frozen=True)
class Parts(Readable):
    """Groups of nodes.

    Attributes:
        groups: the groups in the order in which they run.
    """

    stage = "parts"

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, placements: Sequence[Placement]) -> Parts:
        """The form of groups."""
        return cls(tuple(map(Group.of, placements)))

    def faults(self) -> Iterator[str]:
        """Values that are read before they are made, or made twice; groups of nothing."""
        nodes = [node for group in self.groups for node in group.nodes]
        made = {name for node in nodes for name in node.makes}
        known: set[str] = set()
        for node in nodes:
            for name in node.reads:
                if name in made and name not in known:
                    yield f"{node.name!r} reads {name!r} before it is made"
            for name in node.makes:
                if name in known:
                    yield f"{node.name!r} makes {name!r}, which is there"
                known.add(name)
        for number, group in enumerate(self.groups):
            if not group.nodes:
                yield f"group {number} has no nodes"
