"""A package of somebody else with a frontend, a pass and a target, used from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Run

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph

CODE = '''
"""Chains of absolute values, written as TOY and a number."""

from dataclasses import dataclass

from fitzroy.base.errors import FormatError
from fitzroy.base.options import option
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.frontend import PLAINLY, Frontend
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.targets.target import Lowering, Target


class ToyFrontend(Frontend):
    name = "toy"
    title = "toy model"

    def recognizes(self, data, path):
        return data.startswith(b"TOY")

    def read(self, data, path, how=PLAINLY):
        try:
            count = int(data[3:])
        except ValueError:
            raise FormatError("no number follows TOY", path=path, offset=3) from None
        graph, type = Graph("toy"), TensorType((4,), DType.FLOAT32)
        value = graph.add_input("x", type)
        for _ in range(count):
            value = graph.emit("abs", [value], type)
        graph.outputs = [graph.emit("floor", [value], type)]
        return graph


@dataclass(frozen=True)
class DropRepeats(Pass):
    """Leave out absolute values of absolute values."""

    name = "drop-repeats"

    def run(self, graph):
        for name in [node.name for node in graph.nodes()]:
            node = graph.node(name)
            before = graph.producer(node.inputs[0])
            if node.op == "abs" and before is not None and before.op == "abs":
                graph.replace_uses(node.outputs[0], node.inputs[0])
        graph.prune()
        return graph


def writable(call):
    if call.type().rank != 1:
        yield Reject("listing-rank", f"rank {call.type().rank}, not 1")


@dataclass(frozen=True)
class ListingOptions:
    shout: bool = option(False, "Write in capitals.")


class Listing(Target):
    """One line per node."""

    name = "listing"
    title = "listing"
    summary = "a text of one line per node"
    suffix = ".txt"
    options = ListingOptions

    def lowerings(self):
        def emit(call, lines):
            lines.append(f"{call.node.op} {call.operand(0).name} {call.result.name}")

        return {op: Lowering(emit, writable) for op in ("abs", "floor")}

    def passes(self, options):
        return (DropRepeats(),)

    def lower(self, graph, placements, name, options):
        lines = [f"function {name}"]
        for placement in placements:
            for node in placement.nodes:
                self.lowerings()[node.op].emit(Call.of(graph, node), lines)
        text = "\\n".join(lines) + "\\n"
        return (text.upper() if options.shout else text).encode()
'''

ENTRIES = """
[fitzroy.frontends]
toy = toy_fitzroy:ToyFrontend

[fitzroy.passes]
drop-repeats = toy_fitzroy:DropRepeats

[fitzroy.targets]
listing = toy_fitzroy:Listing
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A toy model, while the package is installed."""
    site = tmp_path / "site"
    info = site / "toy_fitzroy-0.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-fitzroy\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (site / "toy_fitzroy.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    path = tmp_path / "chain.toy"
    path.write_bytes(b"TOY 3")
    yield path
    sys.modules.pop("toy_fitzroy", None)


def test_its_pass_runs_on_what_its_frontend_reads(model: Path, fitzroy: Run) -> None:
    assert "drop-repeats" in fitzroy("opt", "--list").out
    assert fitzroy("opt", model).out.count(" = abs(") == 3
    result = fitzroy("opt", model, "--passes", "drop-repeats")
    assert result.code == 0
    assert result.out.count(" = abs(") == 1
    assert "drop-repeats: 4 nodes to 2" in result.err


def test_its_pass_runs_before_those_of_a_target(model: Path, fitzroy: Run, tmp_path: Path) -> None:
    nodes = []
    for passes in ((), ("--passes", "drop-repeats")):
        options = ("--target", "vm", "-o", tmp_path / "c.module", *passes)
        document = fitzroy("compile", model, *options, "--json").json
        nodes.append(document["methods"]["main"]["nodes"]["vm"])
    assert nodes == [4, 2]
    unknown = fitzroy("compile", model, "--target", "vm", "--passes", "drop-all")
    assert (unknown.code, "no pass 'drop-all'" in unknown.err) == (2, True)


def test_its_target_compiles_and_explains(model: Path, fitzroy: Run, tmp_path: Path) -> None:
    result = fitzroy("compile", model, "--target", "listing", "-o", tmp_path / "chain.txt")
    assert result.code == 0, result.err
    lines = (tmp_path / "chain.txt").read_text().splitlines()
    assert lines[0] == "function forward"
    assert [line.split()[0] for line in lines[1:]] == ["abs", "floor"]
    explained = fitzroy("explain", model, "--target", "listing", "--json").json
    assert {row["placed"] for row in explained["operators"]} <= {"listing", "merged"}
    document = fitzroy("compile", model, "--target", "listing", "-o", tmp_path / "b.txt", "--json")
    assert document.json["methods"]["forward"]["nodes"] == {"listing": 2}
    chosen = ("--target", "listing", "--option", "shout=true", "-o", tmp_path / "c.txt")
    assert fitzroy("compile", model, *chosen).code == 0
    assert (tmp_path / "c.txt").read_text().startswith("FUNCTION FORWARD\n")
    wrong = fitzroy("compile", model, "--target", "listing", "--option", "shout=loud")
    assert (wrong.code, "shout cannot be 'loud'" in wrong.err) == (2, True)


def test_targets_of_ours_take_what_its_frontend_reads(
    model: Path, fitzroy: Run, tmp_path: Path
) -> None:
    for target in ("xnnpack", "vm"):
        result = fitzroy("compile", model, "--target", target, "-o", tmp_path / f"c.{target}")
        assert result.code == 0, result.err
    model.write_bytes(b"TOY many")
    result = fitzroy("compile", model, "--target", "xnnpack")
    assert (result.code, "no number follows TOY" in result.err) == (3, True)


def test_what_it_rejects_is_refused_with_its_reasons(
    model: Path, fitzroy: Run, tmp_path: Path
) -> None:
    graph = tmp_path / "g.ir"
    graph.write_text(
        'graph "g" {\n  input %x : float32[2,2]\n  %y : float32[2,2] = abs(%x)\n'
        "  %z : float32[2,2] = exp(%y)\n  output %z\n}\n"
    )
    result = fitzroy("compile", graph, "--target", "listing")
    assert result.code == 4
    assert "rank 2, not 1" in result.err
    assert "listing has no exp" in result.err


def test_a_module_has_no_parts_for_it(model: Path, fitzroy: Run) -> None:
    result = fitzroy("compile", model, "--target", "listing", "--format", "module")
    assert (result.code, "no parts for the target listing" in result.err) == (2, True)


def test_the_example_of_the_documentation_lowers_a_graph() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    target = names["Listing"]()
    graph, type = Graph("g"), TensorType((4,), DType.FLOAT32)
    graph.add_input("x", type)
    graph.outputs = [graph.emit("abs", ["x"], type, stem="y")]
    placements = target.place(graph, target.chosen({}))
    assert [item.target for item in placements] == ["listing"]
    assert target.lower(graph, placements, "main", target.chosen({})) == b"abs y"


def test_without_it_nothing_is_known(fitzroy: Run, tmp_path: Path) -> None:
    path = tmp_path / "chain.toy"
    path.write_bytes(b"TOY 3")
    assert fitzroy("opt", path).code == 3
    digits = Path(__file__).parents[2] / "examples" / "models" / "digits.tflite"
    result = fitzroy("compile", digits, "--target", "listing")
    assert (result.code, "no target 'listing'" in result.err) == (2, True)
