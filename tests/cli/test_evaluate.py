from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.evaluation import workers


@pytest.fixture
def classes(images: list[Path], tmp_path: Path) -> Path:
    """A folder for each digit."""
    folder = tmp_path / "classes"
    for picture in images:
        kind = folder / picture.stem.split("_")[1]
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, kind)
    return folder


def test_figures_of_a_model(fitzroy: Run, digits: Path, classes: Path) -> None:
    result = fitzroy("evaluate", digits, "--data", classes, "--metric", "top1", "--metric", "top5")
    assert (result.code, result.out.splitlines()[0]) == (0, f"{digits}: 10 examples on numpy")
    assert "top1    1.0000" in result.out
    assert "10 in " in result.err


def test_as_json(fitzroy: Run, digits: Path, classes: Path) -> None:
    result = fitzroy("evaluate", digits, "--data", classes, "--against", digits, "--json")
    document = json.loads(result.out)
    assert document["metrics"][0]["metric"] == "agreement"
    assert document["run"]["computed"] == 10


def test_floors(fitzroy: Run, digits: Path, classes: Path) -> None:
    arguments = ("evaluate", digits, "--data", classes, "--limit", 3)
    assert fitzroy(*arguments, "--min", "1").code == 0
    result = fitzroy(*arguments, "--min", "top1=1.5", "--json")
    assert result.code == 9
    assert "top1 is 1" in json.loads(result.out)["error"]["reason"]
    assert fitzroy(*arguments, "--min", "x").code == 2
    assert fitzroy(*arguments, "--min", "map=1").code == 2


def test_ctrl_c_and_on(
    fitzroy: Run, digits: Path, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = workers.serially

    def interrupted(*arguments: object) -> workers.Batches:
        batches = usual(*arguments)  # type: ignore[arg-type]
        yield next(batches)
        raise KeyboardInterrupt

    monkeypatch.setattr("fitzroy.evaluation.evaluate.serially", interrupted)
    result = fitzroy("evaluate", digits, "--data", classes)
    assert result.code == 130
    assert "go on with --resume digits_evaluation.jsonl" in result.err
    assert (tmp_path / "digits_evaluation.jsonl").stat().st_size > 100
    assert fitzroy("evaluate", digits, "--data", classes).code == 130
    assert (tmp_path / "digits_evaluation_2.jsonl").exists()
    monkeypatch.setattr("fitzroy.evaluation.evaluate.serially", usual)
    result = fitzroy("evaluate", digits, "--data", classes, "--resume", "digits_evaluation.jsonl")
    assert result.code == 0
    assert "taken from the records" in result.err


def test_bad_data(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("file,label\nnothing.png,1\n")
    result = fitzroy("evaluate", digits, "--data", "x.csv")
    assert result.code == 2
    assert "nothing.png" in result.err
    assert fitzroy("evaluate", digits, "--data", "nowhere.csv").code == 2
    assert fitzroy("evaluate", digits, "--data", tmp_path / "nowhere").code == 2
