"""Probes: their programs, their answers on simulated devices, and deviations that they find."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.driver.probe_mutants import MUTANTS, Mutant

from fitzroy.base.errors import DeviceError, FitzroyError
from fitzroy.base.types import Array
from fitzroy.driver.device.limits import DeadlineError
from fitzroy.driver.device.recovery import HOPELESS
from fitzroy.driver.probe.probe import Probe, Risk
from fitzroy.driver.probe.run import (
    DeviceLostError,
    Runner,
    digest,
    expectation,
    judged,
    linked,
    opener,
    predicted_seconds,
)
from fitzroy.driver.probe.suite import suite
from fitzroy.driver.probe.suite.forms import UnreachableError, draft, exemplars
from fitzroy.driver.runtime import simulator
from fitzroy.driver.runtime.devices import DeviceOptions
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.probe_report import Report, Status, read_report, write_report
from fitzroy.hw_models.edgetpu.verifier import record, verify
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.scalar import Scalar

PROBES = {probe.slug: probe for probe in suite()}
FORMS = [probe for probe in suite() if probe.slug.startswith("form-")]
"""Probes of single forms, of which CI takes a sample."""

OWN = [probe for probe in suite() if probe not in FORMS]
"""Probes with a formula of their own."""

SAMPLE = FORMS[::16]

QUEUES = {"queued-consumers", "waiting-outfeeds", "stored-word-infeed"}
"""Probes whose point is an order that the verifier refuses, because queues may be too short."""


@cache
def chunks(slug: str) -> list[list[Instruction]]:
    """The program of a probe."""
    executable = linked(PROBES[slug]).main
    streams = executable.instruction_bitstreams or ()
    return [
        disassemble(stream.bitstream.tobytes())
        for stream in streams
        if stream.bitstream is not None
    ]


def failing(probes: Iterable[Probe] = OWN) -> set[str]:
    """Probes with a formula that the simulator, as it is, does not answer as predicted."""
    return {probe.slug for probe in probes if not passes(probe)}


def passes(probe: Probe) -> bool:
    try:
        answer = SimulatedDevice().run(linked(probe), probe.inputs)
    except FitzroyError:
        return False
    return judged(probe, answer.tensors).status is Status.PREDICTED


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are decoded once for all mutants."""
    decoded: dict[bytes, list[Instruction]] = {}

    def once(data: bytes) -> list[Instruction]:
        if data not in decoded:
            decoded[data] = disassemble(data)
        return decoded[data]

    monkeypatch.setattr(simulator, "disassemble", once)


# --- the suite -----------------------------------------------------------------------------------


def test_probes_have_names_and_texts_of_their_own() -> None:
    slugs = [probe.slug for probe in suite()]
    assert max(Counter(slugs).values()) == 1
    for probe in suite():
        assert probe.title
        assert probe.settles
        assert probe.slug.startswith("control-") == (probe.risk is Risk.CONTROL)


def test_safe_probes_come_first() -> None:
    risks = [probe.risk for probe in suite()]
    assert risks == sorted(risks)
    assert suite()[0].risk is Risk.CONTROL


@pytest.mark.parametrize("slug", [probe.slug for probe in OWN + SAMPLE])
def test_a_program_has_at_most_the_form_that_it_is_about(slug: str) -> None:
    novel = {form(one) for chunk in chunks(slug) for one in chunk} - set(published())
    wanted = PROBES[slug].form
    assert novel == ({wanted} if wanted else set())


def test_controls_leave_nothing_that_published_programs_keep_to() -> None:
    for probe in suite():
        if probe.risk is Risk.CONTROL:
            assert not probe.form
            assert not probe.properties


@pytest.mark.parametrize("slug", sorted({probe.slug for probe in OWN} - QUEUES))
def test_programs_wait_for_all_they_must(slug: str) -> None:
    program = chunks(slug)
    # Many probes leave the envelope of published programs: that is what they are for.
    found = [one for one in verify(record(program), program) if one.rule != "envelope"]
    assert not [one for one in found if one.severity.name in ("ERROR", "WARNING")]


def test_formulas_agree_with_the_simulator() -> None:
    assert failing() == set()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_answers_do_not_depend_on_the_order_of_engines(seed: int) -> None:
    for probe in OWN + SAMPLE:
        answer = SimulatedDevice(seed=seed).run(linked(probe), probe.inputs)
        assert judged(probe, answer.tensors).status is Status.PREDICTED, probe.slug


def test_alternatives_are_other_answers() -> None:
    for probe in suite():
        for rule, outputs in probe.alternatives.items():
            result = judged(probe, outputs)
            assert result.status is Status.DIFFERS, (probe.slug, rule)
            assert result.rule
            assert result.differing >= len(result.differences) > 0


def test_the_digest_says_whether_two_suites_are_the_same() -> None:
    first = digest(suite())
    changed = replace(suite()[0], expected={"y": np.zeros(512, np.uint8)})
    assert digest(suite()) == first
    assert digest([changed, *suite()[1:]]) != first


def test_the_timing_model_knows_that_a_long_output_takes_longer() -> None:
    short, long = (predicted_seconds(PROBES[slug]) for slug in ("control-echo", "long-outfeed"))
    # 131,328 bytes leave the chip at far less than a gigabyte a second.
    assert long > short + 131328e-9


# --- deviations ----------------------------------------------------------------------------------


def test_there_are_enough_deviations() -> None:
    assert len(MUTANTS) >= 40
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1
    found = set().union(*(mutant.found for mutant in MUTANTS))
    assert found <= {probe.slug for probe in OWN}


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_deviation_is_found_by_the_probes_that_should(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, quick: None, full: bool
) -> None:
    assert mutant.found
    # Of the probes that must not notice, each deviation meets others.
    turn = MUTANTS.index(mutant)
    met = [
        probe
        for number, probe in enumerate(OWN)
        if full or probe.slug in mutant.found or (number + turn) % 5 == 0
    ]
    mutant.plant(monkeypatch)
    assert failing(met) == mutant.found


def test_every_property_has_a_probe_that_a_deviation_fails() -> None:
    found = set().union(*(mutant.found for mutant in MUTANTS))
    properties = {name for probe in OWN for name in probe.properties}
    assert properties == {name for slug in found for name in PROBES[slug].properties}


# --- forms ---------------------------------------------------------------------------------------


def check_form(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe has its form, and notices if the instruction is not executed."""
    program = chunks(probe.slug)
    novel = {form(one) for chunk in program for one in chunk} - set(published())
    assert novel == {probe.form}
    assert passes(probe)

    def without(data: bytes) -> list[Instruction]:
        found = disassemble(data)
        kept = [one for one in found if form(one) != probe.form]
        assert len(found) - len(kept) == 1
        # Empty bundles keep what comes after where loops and branches expect it.
        gone = found.index(next(one for one in found if form(one) == probe.form))
        return [*kept[:gone], *[Scalar()] * found[gone].bundles(), *kept[gone:]]

    monkeypatch.setattr(simulator, "disassemble", without)
    assert not passes(probe)


@pytest.mark.parametrize("probe", SAMPLE, ids=lambda probe: probe.slug)
def test_a_form_is_executed_or_missed(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    check_form(probe, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("probe", FORMS, ids=lambda probe: probe.slug)
def test_every_form_is_executed_or_missed(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    check_form(probe, monkeypatch)


def test_exemplars_are_what_probes_execute() -> None:
    forms = [form(one) for one in exemplars()]
    assert len(set(forms)) == len(forms) == len(FORMS)
    assert not set(forms) & set(published())
    # Drafts change nothing about an instruction that was drafted before.
    for one in exemplars()[::16]:
        again = draft(one).instruction
        if isinstance(again, TileInstruction) and isinstance(one, TileInstruction):
            # Sequence numbers are given to instructions where they stand.
            again = replace(again, seq=one.seq)
        assert again == one


def test_an_instruction_that_no_probe_can_isolate_is_refused() -> None:
    with pytest.raises(UnreachableError, match="no probe isolates tile_fence"):
        draft(TileFence())


# --- running -------------------------------------------------------------------------------------


class Odd:
    """A device that answers some programs in its own way.

    Args:
        faults: what it does with the program of a probe: raise, or change its outputs.
    """

    description = "a device that deviates"

    def __init__(self, faults: Mapping[str, Any]) -> None:
        self.faults = {id(linked(PROBES[slug])): fault for slug, fault in faults.items()}
        self.runs = 0
        self.closed = False

    def run(self, package: Any, inputs: Any, *, timeout: float | None = None) -> Any:
        assert timeout is not None
        self.runs += 1
        fault = self.faults.get(id(package))
        if isinstance(fault, list):
            fault = fault.pop(0) if fault else None
        if isinstance(fault, FitzroyError):
            raise fault
        answer = SimulatedDevice().run(package, inputs)
        return replace(answer, tensors=fault(answer.tensors)) if fault else answer

    def close(self) -> None:
        self.closed = True


def runner(device: Odd, repeats: int = 1) -> Runner:
    opened: Any = lambda: device  # noqa: E731
    return Runner(opened, seconds=1.0, repeats=repeats)


def flipped(tensors: Mapping[str, Array]) -> Mapping[str, Array]:
    data = tensors["y"].copy()
    data[5] ^= 0x80
    return {**tensors, "y": data}


CHOSEN = ["control-echo", "control-copy", "round-ties", "control-fill"]


@pytest.mark.long
def test_all_answers_are_as_predicted_on_the_virtual_device() -> None:
    asked = Runner(opener("sim", DeviceOptions(), 30.0), seconds=30.0, repeats=1)
    results = list(asked.results(OWN + SAMPLE))
    asked.close()
    assert [result.slug for result in results] == [probe.slug for probe in OWN + SAMPLE]
    assert {result.status for result in results} == {Status.PREDICTED}
    assert all(result.seconds > 0 for result in results)


def test_a_hang_does_not_end_the_others() -> None:
    device = Odd({"round-ties": DeadlineError("no result")})
    results = list(runner(device).results([PROBES[slug] for slug in CHOSEN]))
    statuses = [result.status for result in results]
    assert statuses == [Status.PREDICTED, Status.PREDICTED, Status.HANGS, Status.PREDICTED]
    assert results[2].error == "DeadlineError"
    assert not results[2].observed


def test_differences_are_listed_and_rules_are_named() -> None:
    up = PROBES["round-ties"].alternatives["halves up"]
    device = Odd({"round-ties": lambda _: up, "control-copy": flipped})
    results = {one.slug: one for one in runner(device).results([PROBES[s] for s in CHOSEN])}
    assert results["round-ties"].rule == "halves up"
    copy = results["control-copy"]
    expected = int(expectation(PROBES["control-copy"])["y"][5])
    assert copy.status is Status.DIFFERS
    assert copy.differences == ((5, expected, expected ^ 0x80),)
    assert not copy.rule


def test_an_answer_that_changes_from_run_to_run_is_seen() -> None:
    device = Odd({"control-copy": [None, None, flipped]})
    (result,) = runner(device, repeats=3).results([PROBES["control-copy"]])
    assert result.status is Status.DIFFERS


def test_a_device_that_no_longer_works_is_opened_anew() -> None:
    broken = Odd({"control-echo": DeviceError("stuck"), "round-ties": DeviceError("stuck")})
    devices = [broken, Odd({})]
    opened: Any = lambda: devices.pop(0)  # noqa: E731
    asked = Runner(opened, seconds=1.0, repeats=1)
    results = list(asked.results([PROBES["round-ties"], PROBES["control-copy"]]))
    assert [result.status for result in results] == [Status.FAILS, Status.PREDICTED]
    assert broken.closed


def test_a_device_that_is_gone_ends_the_suite_and_keeps_the_answers() -> None:
    gone = DeviceError("gone")
    device = Odd({"control-echo": [None, gone, gone, gone], "round-ties": gone})
    answers = runner(device).results([PROBES[slug] for slug in CHOSEN])
    assert [next(answers).status.name for _ in range(3)] == ["PREDICTED", "PREDICTED", "FAILS"]
    with pytest.raises(DeviceLostError):
        next(answers)


def test_what_only_a_person_can_help_is_raised() -> None:
    device = Odd({"control-echo": HOPELESS[0]("no access")})
    with pytest.raises(HOPELESS[0]):
        next(runner(device).results([PROBES["control-echo"]]))


# --- reports -------------------------------------------------------------------------------------


@pytest.fixture
def report() -> Report:
    device = Odd({"round-ties": flipped})
    results = tuple(runner(device).results([PROBES[s] for s in [*CHOSEN, "load-with-alu"]]))
    return Report("sim", digest(suite()), "fitzroy", "", "Linux x86_64", "now", results)


def test_a_report_can_be_read_again(report: Report) -> None:
    data = write_report(report)
    assert read_report(data) == report
    assert write_report(read_report(data)) == data


def test_what_passes_is_confirmed(report: Report) -> None:
    assert report.confirmed == {
        "scalar-load-alone",
        "scalar load=register alu=shr immediate_b=1",
    }


def test_a_device_that_fails_a_control_confirms_nothing(report: Report) -> None:
    results = [
        replace(one, status=Status.FAILS) if one.slug == "control-fill" else one
        for one in report.results
    ]
    assert not replace(report, results=tuple(results)).confirmed


def test_a_property_that_one_probe_denies_is_not_confirmed(report: Report) -> None:
    denied = replace(
        report.results[2], slug="another", properties=("scalar-load-alone",), status=Status.HANGS
    )
    confirmed = replace(report, results=(*report.results, denied)).confirmed
    assert "scalar-load-alone" not in confirmed


def test_a_report_names_nobody(report: Report) -> None:
    document = json.loads(write_report(report))
    assert set(document) == {
        "format", "version", "device", "suite", "producer", "firmware", "host", "started",
        "results",
    }  # fmt: skip
