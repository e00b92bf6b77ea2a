"""A compiled model held to what a test file asks of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from fitzroy.base.errors import FitzroyError, SimulationError
from fitzroy.testing.figures import MEASURED, ModelFigures, model_figures
from fitzroy.testing.inferring import inferences
from fitzroy.testing.results import Check, Kind, Status, TestReport, failure, limited
from fitzroy.testing.spec import OperatorRules, Spec
from fitzroy.testing.subject import Opening, Progress, Subject, opened, subject

_NO_FIGURE = SimulationError.exit_code


def judge(
    spec: Spec,
    device: str | None = None,
    progress: Progress = lambda _: None,
    opening: Opening = opened,
) -> TestReport:
    """Check everything that a test file asks.

    What goes wrong, from the model to the device, is a check that ended in an error.

    Args:
        spec: what it asks.
        device: the device, None for that of the test file.
        progress: is told what is under way.
        opening: opens a device by its name.
    """
    begin = time.perf_counter()
    checks: list[Check] = []
    figures, ran_on = None, ""
    try:
        source = spec.source and spec.file(spec.source)
        found = subject(spec.file(spec.model), source, spec.options, progress, spec.how)
        progress("estimating")
        figures = model_figures(found.data, spec.model, spec.conditions)
        checks += _operators(spec.operators, found, figures)
        checks += _limits(spec.limits, figures)
        if spec.cases or spec.accuracies or spec.measured:
            ran_on, more = inferences(spec, found, (device or spec.device, opening), progress)
            checks += more
    except FitzroyError as error:
        checks.append(failure(Kind.MODEL, spec.model, error))
    seconds = time.perf_counter() - begin
    return TestReport(spec.path, spec.model, ran_on, tuple(checks), figures, seconds)


def _operators(rules: OperatorRules, found: Subject, figures: ModelFigures) -> Iterator[Check]:
    """Whether operators run where they have to."""
    host = {name.upper(): count for name, count in (figures.host or {}).items()}
    for name in rules.on_chip:
        left = host.get(name.upper(), 0)
        status = Status.FAILED if left else Status.PASSED
        text = f"{left} on the host, 0 allowed" if left else "none on the host"
        if found.operators is not None and name.upper() not in found.operators:
            status, text = Status.FAILED, "the model has no such operator"
        yield Check(Kind.OPERATORS, f"{name} on the chip", status, text, 0.0, left, 0)
    if rules.on_host is not None:
        allowed = {name.upper() for name in rules.on_host}
        others = {name: count for name, count in host.items() if name not in allowed}
        text = ", ".join(f"{name} ×{count}" for name, count in others.items())
        yield Check(
            Kind.OPERATORS,
            "the host",
            Status.FAILED if others else Status.PASSED,
            f"computes {text}, too" if others else "computes nothing else",
            0.0,
            sum(others.values()),
            0,
        )


def _limits(limits: Mapping[str, float], figures: ModelFigures) -> Iterator[Check]:
    """Whether figures keep to their limits; those that are measured come later."""
    for name, limit in limits.items():
        if name in MEASURED:
            continue
        if name in figures.values:
            yield limited(name, figures.values[name], limit)
        else:
            why = figures.doubt or "the model has no such figure"
            yield Check(Kind.LIMIT, name, Status.ERROR, why, wanted=limit, exit_code=_NO_FIGURE)
