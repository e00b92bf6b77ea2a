"""The explorer's page and its data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.test_html import HOSTILE, computing, data_of, read

from fitzroy.base.errors import CapacityError
from fitzroy.compilation.exploring import explored
from fitzroy.formats.compilation_record import Step
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.report import explorer
from fitzroy.report.explorer import Explored, Part, page

DIGITS = Path(__file__).parents[2] / "examples" / "models" / "digits.tflite"


def part(**changes: object) -> Part:
    """A program of which all instructions were issued."""
    run = computing(**changes)
    issued = [item.instruction for item in run.timeline.issued]
    body: list[Instruction] = [type(issued[0])() for _ in range(2)]
    return Part(run, [body])


def model(path: str = "model.tflite", **changes: object) -> Explored:
    item = {
        "index": 0,
        "operator": path,
        "name": path,
        "type": path,
        "subgraph": 0,
        "layers": [path],
        "reasons": [],
    }
    edges = [
        {"from": None, "to": 0, "name": path, "bytes": 1},
        {"from": 0, "to": None, "name": f"{path}1", "bytes": 1},
    ]
    return Explored(path, [item], edges, [part(**changes)])


def test_names_do_not_break_out() -> None:
    steps = (Step(0, 0, HOSTILE, HOSTILE, 0),)
    text = page(model(HOSTILE, name=HOSTILE, steps=steps))
    reader = read(text)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    assert data_of(text)["parts"][0]["groups"][0]["operator"] == 0
    assert "://" not in text


def test_tensors_that_cross_are_counted_once_each() -> None:
    first = model()
    host = {**first.operators[0], "index": 1, "subgraph": None}
    edges: list[dict[str, Any]] = [
        {"from": 0, "to": 1, "name": "a", "bytes": 1},
        {"from": 0, "to": 1, "name": "b", "bytes": 1},
        {"from": 0, "to": None, "name": "b", "bytes": 1},
    ]
    text = page(replace(first, operators=[first.operators[0], host], edges=edges))
    assert "transfers between host and chip, of 2 tensors, are dashed" in text


def test_programs_that_are_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "MOST_INSTRUCTIONS", 1)
    with pytest.raises(CapacityError, match="2 instructions") as raised:
        page(model())
    assert "--package" in raised.value.hint


def test_layers_that_nobody_knows_are_phases() -> None:
    data = data_of(page(model()))
    names = [group["full"] for group in data["parts"][0]["groups"]]
    assert names
    assert all(group["operator"] is None for group in data["parts"][0]["groups"])


def test_an_operator_that_is_a_whole_program_has_all_of_its_cycles() -> None:
    # The record of the compilation knows operators of the source by indices of their own.
    seen = model(steps=(Step(0, 0, "conv", "conv", 0), Step(0, 1, "mean", "mean", 6)))
    compiled = replace(seen, parts=[replace(seen.parts[0], key="p0")])
    text = page(compiled)
    groups = data_of(text)["parts"][0]["groups"]
    total = sum(group["cycles"] for group in groups)
    assert 0 < groups[0]["cycles"] < total
    assert f"subgraph 0, {total:,.0f} cycles" in text


@pytest.mark.long
def test_a_source_is_compiled_and_every_instruction_is_explained() -> None:
    found = explored(DIGITS)
    text = page(found)
    read(text)
    data = data_of(text)
    (program,) = data["parts"]
    run = found.parts[0].run
    assert len(program["places"]) == len(program["group"]) == len(program["instructions"])
    assert sum(group["cycles"] for group in program["groups"]) == pytest.approx(
        run.timeline.cycles, abs=len(program["groups"])
    )
    # Each operator has a layer, and each layer the instructions from where it begins.
    operators = {group["operator"] for group in program["groups"]}
    assert operators >= set(range(9))
    assert program["group"] == sorted(program["group"])
    for place, group in zip(program["places"], program["group"], strict=True):
        step = run.steps[group]
        # What comes before all layers counts to the first.
        assert group == 0 or (step.chunk, step.bundle) <= (place[0], max(0, place[1] - 1))
    for kind, line, values in program["instructions"]:
        fields = data["kinds"][kind]["fields"]
        assert data["texts"][line]
        assert all(fields[number][3] for number in values[::2])
    spans = [span for span in program["spans"] if span[1] >= 0]
    assert len(spans) > len(program["spans"]) / 2
    # What engines execute has a time, in the tile that is shown or in another one.
    timed = {span[1] for span in [*spans, *program["elsewhere"]]}
    engines = {
        number
        for number, (kind, *_) in enumerate(program["instructions"])
        if data["kinds"][kind]["unit"].endswith("engine")
    }
    assert engines
    assert engines <= timed
    assert not {span[1] for span in spans} & {span[1] for span in program["elsewhere"]}
    # Every operator of the drawing is one that layers know.
    keys = {attrs["data-op"] for tag, attrs in read(text).tags if tag == "g" and "data-op" in attrs}
    assert keys == {f"o{number}" for number in range(9)}


@pytest.mark.long
def test_pages_are_equal_for_equal_models() -> None:
    first = page(explored(DIGITS))
    assert page(explored(DIGITS)) == first
    assert len(first) < 200_000


def test_parts_without_instructions() -> None:
    empty = Part(replace(computing(), steps=()), [])
    read(page(Explored("m", [], [], [empty])))
    read(page(Explored("m", [], [], [])))
