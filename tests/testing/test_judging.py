"""Models held to test files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.sharing import shared

import fitzroy
from fitzroy.base.errors import UsageError
from fitzroy.testing.judging import judge
from fitzroy.testing.results import Check, Kind, Status, TestReport, document, failure, junit
from fitzroy.testing.spec import parse_spec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The digits model, compiled, with its images and labels."""
    source = EXAMPLES / "models" / "digits.tflite"
    data = shared(("compiled", source.read_bytes()), lambda: fitzroy.compile_edgetpu(source).data)
    (tmp_path / "digits_edgetpu.tflite").write_bytes(data)
    shutil.copy(source, tmp_path)
    shutil.copy(EXAMPLES / "models" / "digits_labels.txt", tmp_path / "labels.txt")
    shutil.copytree(EXAMPLES / "images", tmp_path / "images")
    return tmp_path


COMPILED = 'model = "digits_edgetpu.tflite"\nsource = "digits.tflite"\nlabels = "labels.txt"\n'
FOUR = '[[case]]\ninput = "images/digit_4_1.png"\n'


def judged(folder: Path, text: str, device: str | None = "twin") -> TestReport:
    return judge(parse_spec(text.encode(), str(folder / "t.toml")), device)


def only(report: TestReport) -> Check:
    (check,) = report.checks
    return check


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("cycles = 20000", Status.PASSED),
        ("cycles = 100", Status.FAILED),
        ("latency_us = 1000", Status.PASSED),
        ("latency_us = 10", Status.FAILED),
        ("host_operators = 0", Status.PASSED),
        ("narrow_bytes = 10", Status.FAILED),
        ("transfer_bytes = 100000", Status.PASSED),
        ("mapped_operators = 1", Status.ERROR),
        ("measured_us = 5", Status.SKIPPED),
    ],
)
def test_limits(folder: Path, limit: str, status: Status) -> None:
    report = judged(folder, f"{COMPILED}[limits]\n{limit}\n")
    check = only(report)
    assert (check.kind, check.name, check.status) == (Kind.LIMIT, limit.split()[0], status)
    assert report.passed == (status in (Status.PASSED, Status.SKIPPED))
    if status is Status.FAILED:
        assert check.found is not None
        assert check.wanted is not None
        assert check.found > check.wanted


def test_cases_take_archives(folder: Path) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    np.savez(folder / "x.npz", image=x, others=x)
    (folder / "x.raw").write_bytes(x.tobytes())
    failed = only(judged(folder, f'{COMPILED}[[case]]\ninput = "x.raw"\nsha256 = "{"0" * 64}"\n'))
    (digest,) = {*re.findall("[0-9a-f]{64}", failed.text)} - {"0" * 64}
    text = f'{COMPILED}[[case]]\ninput = "x.npz"\nsha256 = "{digest}"\n'
    assert only(judged(folder, text)).status is Status.PASSED


def test_predictions_go_by_their_conditions(folder: Path) -> None:
    slow, fast = (
        judged(folder, f'{COMPILED}[predict]\nclock = "{clock}"\n[limits]\nlatency_us = 1\n')
        for clock in ("low", "max")
    )
    found = [only(report).found for report in (slow, fast)]
    assert None not in found
    assert found[0] > found[1]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rule", "status", "text"),
    [
        ('on_chip = ["conv_2d", "SOFTMAX"]', Status.PASSED, "none on the host"),
        ('on_chip = ["CONV_3D"]', Status.FAILED, "the model has no such operator"),
        ("on_host = []", Status.PASSED, "computes nothing else"),
    ],
)
def test_operators(folder: Path, rule: str, status: Status, text: str) -> None:
    report = judged(folder, f"{COMPILED}[operators]\n{rule}\n")
    assert {check.status for check in report.checks} == {status}
    assert report.checks[0].text == text


def test_operators_that_were_left_to_the_host(folder: Path) -> None:
    # Nothing of the source fits the chip: everything is left, with the rule that names it.
    text = 'model = "digits.tflite"\ncompile = { keep = true }\n'
    report = judged(folder, text)
    assert only(report).status is Status.ERROR
    assert only(report).kind is Kind.MODEL


@pytest.mark.parametrize("device", ["twin", "sim:direct"])
def test_cases(folder: Path, device: str) -> None:
    report = judged(
        folder,
        f'{COMPILED}{FOUR}top = 4\n{FOUR}name = "labelled"\ntop = "4"\n'
        f'{FOUR}name = "wrong"\ntop = 7\n',
        device,
    )
    assert [check.status for check in report.checks] == [
        Status.PASSED,
        Status.PASSED,
        Status.FAILED,
    ]
    assert report.checks[2].text == "the best class is 4 (4), not 7 (7)"


def test_expected_arrays_and_digests(folder: Path) -> None:
    base = f"{COMPILED}{FOUR}"
    wrong = judged(folder, f'{base}sha256 = "{"0" * 64}"\n')
    text = only(wrong).text
    assert text.startswith("probabilities: its SHA-256 is ")
    digest = text.split()[4].rstrip(",")
    assert judged(folder, f'{base}sha256 = "{digest}"\n').passed
    assert judged(folder, f'{base}sha256 = {{ probabilities = "{digest}" }}\n').passed
    strange = judged(folder, f'{base}sha256 = {{ y = "{digest}" }}\n')
    assert "no output 'y'" in only(strange).text
    np.save(folder / "y.npy", np.full((1, 10), -128, np.int8))
    off = only(judged(folder, f'{base}expect = "y.npy"\n'))
    assert off.status is Status.FAILED
    assert "elements differ, by at most" in off.text
    assert judged(folder, f'{base}expect = "y.npy"\ntolerance = 255\n').passed


def test_accuracies(folder: Path) -> None:
    data = f'{COMPILED}[[accuracy]]\ndata = "images"\nnames = "digit_{{class}}_"\n'
    report = judged(folder, data + "top1 = 0.9\ntop3 = 1\n")
    assert [check.name for check in report.checks] == ["images top-1", "images top-3"]
    assert report.checks[1].text == "10 of 10 (100.00%), at least 100.00%"
    # The same images with other classes are wrong.
    for path in sorted((folder / "images").iterdir()):
        digit = (int(path.name.split("_")[1]) + 1) % 10
        (folder / "others" / str(digit)).mkdir(parents=True)
        shutil.copy(path, folder / "others" / str(digit))
    wrong = judged(folder, f'{COMPILED}[[accuracy]]\ndata = "others"\ntop1 = 0.5\nsamples = 4\n')
    check = only(wrong)
    assert (check.status, check.found, check.wanted) == (Status.FAILED, 0.0, 0.5)
    assert check.text.startswith("0 of 4 (0.00%), at least 50.00%; wrong are digit_")
    assert check.text.endswith("and 1 more")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{COMPILED}{FOUR}top = 'cat'\n", "no class 'cat'"),
        (f"{COMPILED}[[case]]\ninput = 'images'\ntop = 1\n", "one inference, and 10 are given"),
        (f"{COMPILED}[[case]]\ninput = 'nothing.png'\ntop = 1\n", "no such file"),
        (f"{COMPILED}[[accuracy]]\ndata = 'none'\ntop1 = 1\n", "the folder cannot be read"),
        (f"{COMPILED}[[accuracy]]\ndata = 'images'\ntop1 = 1\n", "0 labelled samples"),
        (
            f"{COMPILED}[[accuracy]]\ndata = 'images'\nnames = 'x_{{class}}_'\ntop1 = 1\n",
            "has no class",
        ),
        ("model = 'nothing.tflite'\n", "no such file"),
        ("model = 'digits.tflite'\nsource = 'digits.tflite'\n", "a source for a model that is not"),
        (f"{COMPILED}compile = {{ x = 1 }}\n", "options of the compiler for a model that is"),
    ],
)
def test_what_goes_wrong_is_a_result(folder: Path, text: str, what: str) -> None:
    check = only(judged(folder, text))
    assert (check.status, check.exit_code) == (Status.ERROR, 2)
    assert what in check.text


def test_a_twin_needs_the_source(folder: Path) -> None:
    report = judged(folder, f"model = 'digits_edgetpu.tflite'\n{FOUR}top = 4\n")
    assert "only the compiled one is known" in only(report).text


def test_reports(folder: Path) -> None:
    report = judged(folder, f"{COMPILED}[limits]\ncycles = 1\nlatency_us = 1000\nmeasured_us = 1\n")
    counts = document(report)["counts"]
    assert counts == {"passed": 1, "failed": 1, "error": 0, "skipped": 1}
    odd = failure(Kind.MODEL, "a\0<b>", UsageError("x\x1b[31m", reason="y"))
    both = TestReport("p.toml", "m", "", (*report.checks, odd), None, 1.5)
    root = ElementTree.fromstring(junit([report, both]))
    first, second = root.findall("testsuite")
    assert (first.get("tests"), first.get("failures"), first.get("skipped")) == ("3", "1", "1")
    assert (second.get("errors"), second.get("time")) == ("1", "1.500")
    assert [case.get("name") for case in first.findall("testcase")] == [
        "latency_us",
        "cycles",
        "measured_us",
    ]
    message = second.findall("testcase")[-1].find("error")
    assert message is not None
    assert message.get("message") == "x\\u001b[31m: y"
