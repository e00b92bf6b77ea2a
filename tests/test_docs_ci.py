"""The page on continuous integration lists what there is, and its workflow works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fitzroy.testing.figures import FIGURES
from fitzroy.testing.judging import judge
from fitzroy.testing.spec import read_spec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ci.md"
EXAMPLES = ROOT / "examples"
WORKFLOW = EXAMPLES / "ci" / "edgetpu.yml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page begins with: the model, its labels, and images."""
    shutil.copy(EXAMPLES / "models" / "digits.tflite", tmp_path)
    shutil.copy(EXAMPLES / "models" / "digits_labels.txt", tmp_path / "labels.txt")
    shutil.copytree(EXAMPLES / "images", tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_all_figures_and_keys() -> None:
    page = PAGE.read_text()
    assert [name for name in FIGURES if f"`{name}`" not in page] == []
    keys = "model source compile device labels mean std runs [predict] [limits] [operators]"
    for key in (*keys.split(), "[[case]]", "[[accuracy]]"):
        assert f"`{key}`" in page


def test_the_test_file_of_this_repository_holds() -> None:
    report = judge(read_spec(str(EXAMPLES / "ci" / "digits.toml")), "twin")
    assert [check.text for check in report.checks if check.status != "passed"] == []
    assert len(report.checks) == 11


# --- the workflow --------------------------------------------------------------------------------


def steps() -> Iterator[tuple[str, str]]:
    """Names and scripts of the workflow's steps."""
    for step in re.split(r"^      - ", WORKFLOW.read_text(), flags=re.MULTILINE)[1:]:
        name = step.partition("name: ")[2].partition("\n")[0]
        script = re.search(r"^        run: (?:\|\n((?: {10}.*\n|\n)+)|(.*)\n)", step, re.MULTILINE)
        if script is not None:
            yield name, re.sub(r"^ {10}", "", script[1] or script[2], flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "script"), [*steps()])
def test_scripts_of_the_workflow_are_shell(name: str, script: str) -> None:
    checked = re.sub(r"\$\{\{.*?\}\}", "1", script)
    result = subprocess.run(
        ["bash", "-n", "-c", checked], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{name}: {result.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("red", [False, True])
def test_the_workflow_compares(folder: Path, red: bool) -> None:
    scripts = dict(steps())
    command = folder / "bin" / "fitzroy"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m fitzroy "$@"\n')
    command.chmod(0o755)
    for place in (folder / "base", folder):
        (place / "models").mkdir(parents=True)
        shutil.copy(EXAMPLES / "models" / "digits.tflite", place / "models")
        extra = "compile = { conservative = true }\n" if red and place == folder else ""
        limits = "[limits]\ncycles = 11000\n"
        (place / "models" / "digits.toml").write_text(f'model = "digits.tflite"\n{extra}{limits}')
    (folder / "models" / "more.toml").write_text('model = "digits.tflite"\n')
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }

    def run(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", scripts[name]],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    tested = run("Test the models")
    assert tested.returncode == (9 if red else 0), tested.stdout + tested.stderr
    assert (folder / "results.xml").is_file()
    compared = run("Compare the models")
    assert compared.returncode == 0, compared.stderr
    comment = (folder / "comment.md").read_text()
    assert comment == (folder / "summary.md").read_text()
    assert comment.startswith("## Edge TPU models\n### models/digits.toml in before.json → ")
    assert "### models/more.toml is new" in comment
    assert "| cycles of the chip |" in comment
    assert ("layers changed" in comment) == red
