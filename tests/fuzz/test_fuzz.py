from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fuzz import harness, targets
from tests.fuzz.__main__ import record
from tests.fuzz.harness import Result, case_bytes, fuzz
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import KINDS, READERS, TARGETS

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.formats.detect import FileKind, detect


@pytest.mark.long
@pytest.mark.parametrize("name", SEEDS)
def test_mutants_are_read_or_refused(name: str) -> None:
    result = fuzz(name, 300, seed=20)
    assert not result.failures, "\n".join(map(str, result.failures))
    assert result.outcomes.total() == 300
    assert {"accepted", "FormatError"} <= result.outcomes.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_many_mutants_are_read_or_refused(name: str) -> None:
    result = fuzz(name, 5000, seed=21)
    assert not result.failures, "\n".join(map(str, result.failures))


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_well_formed_and_cases_reproducible(name: str) -> None:
    seeds = SEEDS[name]()
    assert all(READERS[name](content) for content in seeds)
    assert {kind_of(content) for content in seeds} <= set(KINDS[name])
    assert case_bytes(name, seeds, 1, 5) == case_bytes(name, SEEDS[name](), 1, 5)
    assert len({case_bytes(name, seeds, 1, case) for case in range(50)}) > 25


def kind_of(content: bytes) -> FileKind | None:
    try:
        return detect(content)
    except FormatError:
        return None


def misbehave(error: BaseException) -> targets.Target:
    def target(_: bytes) -> None:
        raise error

    return target


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        (FormatError("bad"), 0),
        (InternalError("broken"), 3),
        (ValueError("broken"), 3),
        (AssertionError("broken"), 3),
        (RecursionError("deep"), 3),
        (MemoryError(), 3),
    ],
    ids=lambda item: type(item).__name__,
)
def test_the_harness_tells_failures(
    error: BaseException, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SEEDS, "odd", lambda: [b"seed"])
    monkeypatch.setitem(TARGETS, "odd", lambda _: None)
    result = Result("odd", 3, 1, 1)
    monkeypatch.setitem(TARGETS, "odd", misbehave(error))
    for case in range(3):
        harness._run_case(result, "odd", [b"seed"], case)
    assert len(result.failures) == failures
    assert result.outcomes.total() == 3


@pytest.mark.long
def test_the_harness_tells_slow_and_greedy_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(_: bytes) -> None:
        assert len(bytearray(64 << 20))

    def slow(_: bytes) -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    def hang(_: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(harness, "SECONDS", 0.1)
    monkeypatch.setattr(harness, "HANG_SECONDS", 0.3)
    result = Result("odd", 3, 1, 1)
    for case, target in enumerate((greedy, slow, hang)):
        monkeypatch.setitem(TARGETS, "odd", target)
        harness._run_case(result, "odd", [b"seed"], case)
    texts = [str(failure) for failure in result.failures]
    assert [text.split(":")[0] for text in texts] == [f"seed 1 case {case}" for case in range(3)]
    assert "bytes held" in texts[0]
    assert "0.2 s" in texts[1]
    assert "interrupted" in texts[2]


def test_results_are_kept_by_format(tmp_path: Path) -> None:
    file = tmp_path / "results" / "fuzz.json"
    for result in (Result("b", 1, 1, 1), Result("a", 1, 1, 1), Result("b", 2, 1, 1)):
        record(file, result)
    text = file.read_text()
    assert text.index('"format": "a"') < text.index('"format": "b"')
    assert text.count('"format"') == 2
    assert '"cases": 2' in text
