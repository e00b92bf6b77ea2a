"""``fitzroy probe``, and what ``fitzroy compile`` makes of its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import Run

from fitzroy.driver.probe import run as running
from fitzroy.driver.probe.suite import suite
from fitzroy.formats.probe_report import read_report
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.linker.packages.container import read_container
from fitzroy.report.forms import instructions

CHOSEN = "control-echo,control-copy,round-ties,load-with-alu"


def test_the_suite_is_listed(fitzroy: Run) -> None:
    answer = fitzroy("probe", "--list", "--json")
    assert answer.code == 0
    probes = answer.json["probes"]
    assert [one["slug"] for one in probes] == [one.slug for one in suite()]
    answer = fitzroy("probe", "--list", "--only", "round-")
    assert answer.code == 0
    assert "round-ties" in answer.out
    assert "control-echo" not in answer.out


def test_a_report_is_written_and_a_table_printed(fitzroy: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    answer = fitzroy("probe", "--device", "sim", "-o", str(path), "--only", CHOSEN)
    assert answer.code == 0, answer.err
    assert "as predicted: 4 probes" in answer.out
    report = read_report(path.read_bytes())
    assert [one.slug for one in report.results] == [
        "control-echo", "control-copy", "round-ties", "load-with-alu",
    ]  # fmt: skip
    assert report.device == "sim"
    assert str(tmp_path) not in path.read_text()


def test_a_report_is_complete_after_every_probe_and_can_be_resumed(
    fitzroy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.json"
    usual = running.Runner._answered
    asked: list[str] = []

    def answered(self: Any, probe: Any) -> Any:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(probe.slug)
        return usual(self, probe)

    monkeypatch.setattr(running.Runner, "_answered", answered)
    arguments = ("probe", "--device", "sim:direct", "-o", str(path), "--only", CHOSEN)
    assert fitzroy(*arguments).code == 130
    assert [one.slug for one in read_report(path.read_bytes()).results] == asked
    monkeypatch.setattr(running.Runner, "_answered", usual)
    answer = fitzroy(*arguments, "--resume")
    assert answer.code == 0
    assert len(read_report(path.read_bytes()).results) == 4


def test_a_device_that_differs_has_an_exit_code_of_its_own(
    fitzroy: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = running.judged
    up = next(one for one in suite() if one.slug == "round-ties").alternatives["halves up"]
    monkeypatch.setattr(
        running,
        "judged",
        lambda probe, outputs: usual(probe, up if probe.slug == "round-ties" else outputs),
    )
    arguments = ("probe", "--device", "sim:direct", "--only", CHOSEN)
    answer = fitzroy(*arguments)
    assert answer.code == 9
    assert "halves up" in answer.out
    answer = fitzroy(*arguments, "--json")
    assert answer.code == 9
    statuses = [one["status"] for one in answer.json["results"]]
    assert statuses.count("differs") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--only", "nothing"), "no probe 'nothing'"),
        (("--resume",), "--resume needs the report"),
        (("--device", "toaster"), "no device 'toaster'"),
        (("--device", "sim:direct", "-o", "missing/p.json"), "directory of the output"),
    ],
)
def test_wrong_requests_are_refused(fitzroy: Run, arguments: tuple[str, ...], text: str) -> None:
    answer = fitzroy("probe", *arguments)
    assert answer.code == 2
    assert text in answer.err


def test_a_report_of_another_suite_is_not_resumed(fitzroy: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    arguments = ("probe", "--device", "sim:direct", "-o", str(path), "--only", "control-echo")
    assert fitzroy(*arguments).code == 0
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"suite": "0" * 64}))
    answer = fitzroy(*arguments, "--resume")
    assert answer.code == 2
    assert "another suite" in answer.err
    path.write_text("{}")
    assert fitzroy(*arguments, "--resume").code == 3


# --- fitzroy compile --confirmed -----------------------------------------------------------------


def test_only_what_is_published_or_confirmed_is_compiled(
    fitzroy: Run, tmp_path: Path, digits: Path
) -> None:
    report, output = tmp_path / "p.json", tmp_path / "m_edgetpu.tflite"
    arguments = ("compile", digits, "--target", "edgetpu", "--no-estimate", "-o", output)
    assert fitzroy(*arguments).code == 0
    novel = {form(one) for _, one in instructions(read_container(output.read_bytes()).packages)}
    novel -= set(published())
    assert fitzroy("probe", "--device", "sim:direct", "--only", CHOSEN, "-o", report).code == 0
    usual = output.read_bytes()
    output.unlink()
    answer = fitzroy(*arguments, "--confirmed", report)
    assert "of a simulator" in answer.err
    assert answer.code == 0
    left = {form(one) for _, one in instructions(read_container(output.read_bytes()).packages)}
    assert not left - set(published())
    # Operators that need other forms stay on the host, and the table says why.
    assert ("neither published nor confirmed" in answer.out) == bool(novel)
    # With every form of the program confirmed, it is the same as without the option.
    document = json.loads(report.read_text())
    document["results"][-1]["forms"] = sorted(novel)
    report.write_text(json.dumps(document))
    assert fitzroy(*arguments, "--confirmed", report).code == 0
    assert output.read_bytes() == usual


def test_a_report_that_is_none_is_refused(fitzroy: Run, tmp_path: Path) -> None:
    report = tmp_path / "p.json"
    report.write_bytes(np.arange(64, dtype=np.uint8).tobytes())
    model = tmp_path / "m.tflite"
    model.write_bytes(b"")
    answer = fitzroy("compile", str(model), "--target", "edgetpu", "--confirmed", str(report))
    assert answer.code in (2, 3)
    assert answer.err
