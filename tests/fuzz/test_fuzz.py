from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz import budget, harness
from tests.fuzz.__main__ import duration, main, record, table
from tests.fuzz.campaign import Campaign, identity
from tests.fuzz.catalog import SUBJECTS
from tests.fuzz.harness import Result, case_bytes, fuzz
from tests.fuzz.minimize import shortened
from tests.fuzz.subject import Subject

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.formats.detect import FileKind, detect


@pytest.mark.long
@pytest.mark.parametrize("name", SUBJECTS)
def test_mutants_are_read_or_refused(name: str) -> None:
    cases = SUBJECTS[name].sample
    result = fuzz(name, cases, seed=20)
    assert not result.failures, "\n".join(map(str, result.failures))
    assert result.outcomes.total() == cases
    assert "accepted" in result.outcomes
    assert len(result.outcomes) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_mutants_are_read_or_refused(name: str) -> None:
    result = fuzz(name, 16 * SUBJECTS[name].sample, seed=21)
    assert not result.failures, "\n".join(map(str, result.failures))


@pytest.mark.long
@pytest.mark.parametrize("name", SUBJECTS)
def test_seeds_are_well_formed_and_cases_reproducible(name: str) -> None:
    subject = SUBJECTS[name]
    seeds = subject.seeds()
    assert all(subject.read(content) for content in seeds)
    assert {kind_of(content) for content in seeds} <= set(subject.kinds)
    assert case_bytes(name, seeds, 1, 5) == case_bytes(name, subject.seeds(), 1, 5)
    assert len({case_bytes(name, seeds, 1, case) for case in range(50)}) > 25


def kind_of(content: bytes) -> FileKind | None:
    try:
        return detect(content)
    except FormatError:
        return None


Install = Callable[[Callable[[bytes], None]], None]


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a function the target ``odd``."""

    def install(target: Callable[[bytes], None]) -> None:
        subject = Subject(lambda: [b"a seed of some bytes"], target, lambda data: data)
        monkeypatch.setitem(SUBJECTS, "odd", subject)

    return install


def misbehave(error: BaseException) -> Callable[[bytes], None]:
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
        (FormatError(""), 3),
    ],
    ids=lambda item: type(item).__name__,
)
def test_the_harness_tells_failures(odd: Install, error: BaseException, failures: int) -> None:
    odd(misbehave(error))
    result = fuzz("odd", 3, 1)
    assert len(result.failures) == failures
    assert len(result.causes) == min(1, failures)
    assert result.outcomes.total() == 3


def greedy(_: bytes) -> None:
    assert np.ones(100 << 20, np.uint8).all()


def vast(_: bytes) -> None:
    np.zeros(1 << 40, np.uint8)


def slow(_: bytes) -> None:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def hang(_: bytes) -> None:
    while True:
        pass


def wait(_: bytes) -> None:
    time.sleep(60)


def warn(_: bytes) -> None:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "text"),
    [
        (greedy, "bytes held"),
        (vast, "MemoryError: Unable"),
        (warn, "RuntimeWarning: overflow (tests/fuzz/test_fuzz.py"),
    ],
)
@pytest.mark.parametrize("case", [0, 1], ids=["traced", "not traced"])
def test_every_case_has_budgets(
    odd: Install,
    target: Callable[[bytes], None],
    text: str,
    case: int,
) -> None:
    odd(target)
    (failure,) = fuzz("odd", 1, 1, first=case).failures
    assert text in str(failure)
    assert str(failure).startswith(f"seed 1 case {case}: ")


@pytest.mark.long
@pytest.mark.parametrize("target", [hang, wait])
def test_cases_that_do_not_end_are_interrupted(
    odd: Install, target: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "HANG_SECONDS", 0.3)
    monkeypatch.setattr(budget, "HANG_WALL_SECONDS", 0.6)
    odd(target)
    result = fuzz("odd", 5, 1)
    assert result.cases == 1, "threads may still be under way"
    assert "interrupted" in str(result.failures[0])


def test_slow_cases_are_failures(odd: Install) -> None:
    odd(slow)
    SUBJECTS["odd"] = replace(SUBJECTS["odd"], seconds=0.1)
    assert " s (accepted)" in str(fuzz("odd", 1, 1, first=1).failures[0])
    assert not fuzz("odd", 1, 1, first=0).failures, "traced cases may be slow"


def picky(data: bytes) -> None:
    if b"some" in data:
        raise ValueError(f"{len(data)} bytes")


def test_failures_are_shortened(odd: Install) -> None:
    odd(picky)
    cause = harness.attempt("odd", b"a seed of some bytes").cause
    assert cause.startswith("!ValueError at tests/fuzz/test_fuzz.py:")
    assert shortened("odd", b"a seed of some bytes", cause) == b"some"


@pytest.mark.long
def test_campaigns_write_reproducers(odd: Install, tmp_path: Path) -> None:
    odd(picky)
    told: list[str] = []
    campaign = Campaign(["odd", "usbip"], 1, output=tmp_path, most=40, tell=told.append)
    campaign.run()
    result = campaign.results["odd"]
    assert (result.cases, campaign.results["usbip"].cases) == (40, 40)
    assert len(result.failures) > 1
    assert len(told) == len(result.causes) == 1
    text, file = sorted(tmp_path.iterdir(), reverse=True)
    assert file.read_bytes() == b"some"
    assert "ValueError: " in text.read_text()
    assert f"--targets odd --replay {file.name}" in text.read_text()
    assert main(["--targets", "odd", "--replay", str(file)]) == 1
    assert "odd        40 " in "\n".join(table(campaign.results.values()))


@pytest.mark.long
def test_campaigns_survive_crashes(odd: Install) -> None:
    def crash(data: bytes) -> None:
        if b"some" not in data:
            os.kill(os.getpid(), signal.SIGKILL)

    odd(crash)
    campaign = Campaign(["odd"], 1, most=12, tell=lambda line: None)
    campaign.run()
    result = campaign.results["odd"]
    assert result.cases == 12
    died = [failure for failure in result.failures if "SIGKILL" in failure.what]
    assert died
    assert all(b"some" not in case_bytes("odd", [b"a seed of some bytes"], 1, f.case) for f in died)


def test_campaigns_end_in_time(odd: Install) -> None:
    odd(lambda data: None)
    campaign = Campaign(["odd"], 1)
    campaign.run(time.monotonic())
    assert campaign.results["odd"].cases > 0


def test_causes_have_names_for_files() -> None:
    one, other = identity("!ValueError at a/b.py:1"), identity("!ValueError at a/b.py:2")
    assert one.startswith("valueerror-at-a-b-py-1-")
    assert one != other


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "1d"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        duration(text)


def test_results_are_kept_by_target(tmp_path: Path) -> None:
    file = tmp_path / "results" / "fuzz.json"
    for name, cases in (("b", 1), ("a", 1), ("b", 2)):
        record(file, [Result(name, 1, 1, cases=cases)])
    text = file.read_text()
    assert text.index('"target": "a"') < text.index('"target": "b"')
    assert text.count('"target"') == 2
    assert '"cases": 2' in text


def test_mutations_that_fail_are_failures(odd: Install, tmp_path: Path) -> None:
    def change(*_: object) -> bytes:
        raise KeyError("odd")

    odd(lambda data: None)
    SUBJECTS["odd"] = replace(SUBJECTS["odd"], change=change, blind=False)
    campaign = Campaign(["odd"], 1, output=tmp_path, most=3, tell=lambda line: None)
    campaign.run()
    assert "KeyError('odd')" in str(campaign.results["odd"].failures[2])
    assert len(list(tmp_path.iterdir())) == 2
