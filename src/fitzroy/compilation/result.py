"""What a compilation gives, the same for every target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Stage
from fitzroy.compiler.targets.executorch.lower import Lowered
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.formats.darwinn import PackageFile
from fitzroy.report import units
from fitzroy.report.notebook import facts


@dataclass(frozen=True, repr=False)
class Compilation:
    """A compiled model and how it came about.

    Attributes:
        target: name of the target.
        what: what the target makes, as a phrase.
        data: the file.
        graphs: the imported graph of each method, cut to the chosen outputs.
        legalized: the graph of each method as it was lowered.
        placements: groups of nodes of each method, what runs them, and why nothing before that.
        lowered: what the target made of each method before linking.
        stages: what each pass and step did, in order.
        packages: programs of the Edge TPU in the file, in the order in which they run.
    """

    target: str
    what: str
    data: bytes
    graphs: Mapping[str, Graph]
    legalized: Mapping[str, Graph]
    placements: Mapping[str, tuple[Placement, ...]]
    lowered: Mapping[str, Any]
    stages: tuple[Stage, ...]
    packages: tuple[PackageFile, ...] = ()

    @property
    def inputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Names and types of the first method's inputs."""
        graph = next(iter(self.graphs.values()))
        return tuple((name, graph.type(name)) for name in graph.inputs)

    @property
    def outputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Names and types of the first method's outputs."""
        graph = next(iter(self.graphs.values()))
        return tuple((name, graph.type(name)) for name in graph.outputs)

    @property
    def placed(self) -> dict[str, int]:
        """How many nodes run where, by the names of targets."""
        counts: Counter[str] = Counter()
        for _, placement in self._groups():
            counts[placement.target] += len(placement.nodes)
        return dict(counts)

    @property
    def reasons(self) -> tuple[Diagnostic, ...]:
        """Why nodes do not run on the first target."""
        return tuple(reject for _, placement in self._groups() for reject in placement.rejects)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(stage.seconds for stage in self.stages)

    def estimate(self, conditions: Conditions | None = None) -> float | None:
        """Microseconds of an inference on the timing model, without what the host computes.

        Args:
            conditions: clock and host.

        Returns:
            None if nothing runs on the Edge TPU: there is no model of other targets' times.

        Raises:
            UsageError: an unknown clock or host.
        """
        if not self.packages:
            return None
        runs = (estimate(package, self.target, conditions) for package in self.packages)
        return sum(run.timeline.total for run in runs)

    def summary(self) -> dict[str, object]:
        """Figures of the compilation, fit for JSON."""
        return {
            "methods": {name: self._method(name) for name in self.placements},
            "program_bytes": len(self.data),
            "stages": [
                {"name": s.name, "seconds": s.seconds, "nodes": s.after} for s in self.stages
            ],
            "seconds": self.seconds,
        }

    def _method(self, name: str) -> dict[str, object]:
        """Figures of a method."""
        placed: Counter[str] = Counter()
        for placement in self.placements[name]:
            placed[placement.target] += len(placement.nodes)
        lowered = self.lowered[name]
        subgraphs = lowered.subgraphs if isinstance(lowered, Lowered) else ()
        return {
            "operators": len(self.graphs[name].nodes()),
            "nodes": dict(placed),
            "delegates": len(subgraphs),
            "delegate_nodes": sum(subgraph.nodes for subgraph in subgraphs),
            "delegate_bytes": sum(len(subgraph.blob) for subgraph in subgraphs),
        }

    def _groups(self) -> Iterator[tuple[str, Placement]]:
        for name, placements in self.placements.items():
            for placement in placements:
                yield name, placement

    def _repr_html_(self) -> str:
        """What was made and where nodes run, for notebooks."""
        rows = [(f"input {name}", str(type)) for name, type in self.inputs]
        rows += [(f"output {name}", str(type)) for name, type in self.outputs]
        rows += [(f"nodes on {target}", f"{nodes:,}") for target, nodes in self.placed.items()]
        if (time := self.estimate()) is not None:
            rows.append(("inference on the chip", units.time(time)))
        rows += [("left to the next target", str(reason)) for reason in self.reasons]
        return facts(f"{self.target}: {self.what}, {units.size(len(self.data))}", rows)

    def __repr__(self) -> str:
        placed = ", ".join(f"{count} on {target}" for target, count in self.placed.items())
        nodes = sum(self.placed.values())
        return (
            f"<Compilation for {self.target}: {len(self.data):,} bytes, {nodes} nodes, {placed}, "
            f"{self.seconds:.2f} s>"
        )

    def __str__(self) -> str:
        lines = [f"{self.target}: {self.what}, {len(self.data):,} bytes"]
        for side, tensors in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"  {side} {name}: {type}" for name, type in tensors]
        for name, placement in self._groups():
            ops = Counter(node.op for node in placement.nodes)
            text = ", ".join(op if n == 1 else f"{op} x {n}" for op, n in ops.items())
            lines.append(f"  {name}: {placement.target}: {text}")
            lines += [f"    {reject}" for reject in placement.rejects]
        return "\n".join(lines)
