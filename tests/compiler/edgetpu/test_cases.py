"""Golden texts of the stages: small graphs, and what each stage makes of them.

A case is a file: what it shows, options of the code generator, a graph whose constants are drawn by
their names, and for some stages the text of their form. ``pytest --renew`` with this file writes
these texts again; read the difference before you keep it.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph, parse_graph, print_graph
from fitzroy.compiler.ops.definition import attributes_of
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.fitting.wide import assigned
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.partition.parts import Parts
from fitzroy.compiler.targets.edgetpu.program.allocated import Allocated
from fitzroy.compiler.targets.edgetpu.program.emission import emitted
from fitzroy.compiler.targets.edgetpu.program.emitted import Outline
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lowerings
from fitzroy.compiler.targets.edgetpu.program.stages import (
    Legalized,
    Parameters,
    Readable,
    text,
)

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*.txt"))
FORMS: Mapping[str, type[Readable]] = {
    form.stage: form for form in (Parts, Legalized, Allocated, Parameters, Outline)
}


@dataclass(frozen=True)
class Case:
    """A graph, and the forms that it takes.

    Attributes:
        about: what it shows.
        options: options of the code generator by name.
        graph: the graph as text, without the elements of constants.
        stages: texts by name of the stage, and number of the part of the graph.
    """

    about: str
    options: Mapping[str, Any]
    graph: str
    stages: Mapping[tuple[str, int], str]

    @classmethod
    def read(cls, content: str) -> Case:
        """A case from its file."""
        head, *sections = re.split(r"^--- (.*)\n", content, flags=re.MULTILINE)
        about, *settings = head.splitlines()
        options = {
            name: ast.literal_eval(value)
            for name, value in (line.split(" = ") for line in settings)
        }
        found = dict(zip(sections[::2], sections[1::2], strict=True))
        graph = found.pop("graph")
        stages = {_stage(title): expected for title, expected in found.items()}
        return cls(about.removeprefix("; "), options, graph, stages)

    def lines(self) -> Iterator[str]:
        """The file."""
        yield f"; {self.about}\n"
        yield from (f"{name} = {value!r}\n" for name, value in self.options.items())
        yield f"--- graph\n{self.graph}"
        for (stage, number), content in self.stages.items():
            yield f"--- {stage}{f' of part {number}' if number else ''}\n{content}"

    def forms(self) -> Iterator[Readable]:
        """The forms of its stages."""
        graph = parse_graph(self.graph, attributes_of, fill=drawn)
        verify(graph)
        for stage, number in self.stages:
            yield form(graph, Options(**self.options), stage, number)


def _stage(title: str) -> tuple[str, int]:
    stage, _, number = title.partition(" of part ")
    return stage, int(number or 0)


def drawn(name: str, type: TensorType) -> Array:
    """Elements of a constant by its name: zero points, falling numbers, or else random ones."""
    if name.startswith("zero") and type.quantization is not None:
        return np.full(type.shape, type.quantization.zero_point[0], type.dtype.numpy)
    if name.startswith("falling"):
        return np.arange(type.size)[::-1].astype(type.dtype.numpy).reshape(type.shape)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    low, high = (-1000, 1000) if type.dtype.numpy.itemsize > 1 else type.dtype.limits
    return rng.integers(low, high, type.shape, type.dtype.numpy, endpoint=True)


def form(graph: Graph, options: Options, stage: str, number: int) -> Readable:
    """What a stage makes of a part of a graph; only this stage and those before it run."""
    segments, placements = divide(graph, options)
    if stage == Parts.stage:
        return Parts.of(placements)
    layered = legalized(segments[number].graph, options)
    if stage == Legalized.stage:
        return Legalized.of(layered)
    assignment = assigned(layered)
    if stage == Allocated.stage:
        return Allocated.of(assignment.schedule)
    if stage == Parameters.stage:
        return Parameters.of(assignment)
    assert stage == Outline.stage
    return emitted(assignment).form.outline()


@cache
def case(path: Path) -> Case:
    """A case of the folder."""
    return Case.read(path.read_text())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_stages_give_the_texts_of_cases(path: Path, pytestconfig: pytest.Config) -> None:
    wanted = case(path)
    forms = list(wanted.forms())
    for one in forms:
        one.check()
    stages = dict(zip(wanted.stages, (text(one.lines()) for one in forms), strict=True))
    if pytestconfig.getoption("--renew"):
        path.write_text("".join(replace(wanted, stages=stages).lines()))
    else:
        assert stages == wanted.stages


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_texts_of_cases_parse_back(path: Path) -> None:
    """A text is the one canonical form of what it says, and that keeps the rules of its stage."""
    found = case(path)
    assert "".join(found.lines()) == path.read_text()
    graph = parse_graph(found.graph, attributes_of, fill=drawn)
    assert print_graph(graph, data=False) == found.graph
    for (stage, _), content in found.stages.items():
        one = FORMS[stage].parse(content)
        assert text(one.lines()) == content
        assert not list(one.faults())


def kinds(kind: Any) -> Iterator[str]:
    """What the layers of the product are, in words."""
    for one in kind.__subclasses__():
        yield from kinds(one)
        if not isabstract(one) and one.__module__.startswith("fitzroy."):
            yield one.kind


def test_cases_cover_every_operator_layer_and_stage() -> None:
    cases = [case(path) for path in CASES]
    assert len(cases) >= 60
    graphs = [parse_graph(one.graph, attributes_of, fill=drawn) for one in cases]
    assert {node.op for graph in graphs for node in graph.nodes()} >= set(lowerings())
    texts = [
        FORMS[stage].parse(content) for one in cases for (stage, _), content in one.stages.items()
    ]
    found = {layer.kind for one in texts if isinstance(one, Legalized) for layer in one.layers}
    found |= {step.kind for one in texts if isinstance(one, Allocated) for step in one.steps}
    assert set(kinds(Layer)) <= found
    stages = [stage for one in cases for stage, _ in one.stages]
    assert all(stages.count(stage) >= 5 for stage in FORMS)


@pytest.mark.parametrize("path", CASES[::9], ids=lambda path: path.stem)
def test_changed_texts_are_noticed(path: Path) -> None:
    """Another number anywhere is another form, or none; it never reads as the same."""
    for (stage, _), content in case(path).stages.items():
        same = FORMS[stage].parse(content)
        for found in list(re.finditer(r"\d+", content))[::5]:
            other = f"{content[: found.start()]}{int(found[0]) + 1}{content[found.end() :]}"
            try:
                assert FORMS[stage].parse(other) != same
            except FormatError:
                continue
