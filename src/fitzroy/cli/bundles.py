"""Bundled programs: whether each of their test cases gives the outputs that it expects."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from fitzroy.base.errors import DeviceError, FitzroyError, SimulationError, UsageError
from fitzroy.base.progress import counted
from fitzroy.cli.runners import EXECUTORCH, Options, refuse, runtime_of
from fitzroy.cli.terminal import Column, Terminal, count, error_document

if TYPE_CHECKING:
    from fitzroy.driver.runtime import Runtime, Session
    from fitzroy.formats.bundled import Case

_RTOL, _ATOL = 1e-5, 1e-8


def verify(terminal: Terminal, data: bytes, path: str, options: Options) -> None:
    """Run every test case of a bundled program and compare the outputs.

    Raises:
        typer.Exit: with the exit code of the runtime's kind of error, if a case fails.
    """
    from fitzroy.formats import bundled

    refuse("a program", {"--arithmetic": options.arithmetic}, path)
    bundle = bundled.read_bundle(data, path=path)
    suites = [s for s in bundle.suites if options.method in (None, s.method)]
    if options.method is not None and not suites:
        known = ", ".join(repr(suite.method) for suite in bundle.suites) or "none"
        raise UsageError(
            f"no test cases for {options.method!r}",
            reason=f"there are some for {known}",
            where=path,
        )
    cases: list[dict[str, Any]] = []
    with ExitStack() as stack:
        how, runtime = runtime_of(options, path, stack)
        session = stack.enter_context(runtime.load(bytes(bundle.program), path))
        progress = stack.enter_context(terminal.working(f"running on {how}"))
        for suite in suites:
            for number, case in enumerate(suite.cases):
                progress(counted("case", number + 1, len(suite.cases), f" for {suite.method}"))
                difference = _check(session, suite.method, case)
                if not difference and bundle.identifier == bundled.IDENTIFIER:
                    difference = _verdict(runtime, data, suite.method, number)
                entry = {"method": suite.method, "case": number, "passed": not difference}
                cases.append(entry | ({"difference": difference} if difference else {}))
    failed = [case for case in cases if not case["passed"]]
    kind: type[FitzroyError] = DeviceError if how == EXECUTORCH else SimulationError
    error = kind(
        f"{len(failed)} of {count(len(cases), 'test case')} failed",
        reason=f"the outputs of {how} differ from the expected ones",
        where=path,
    )
    if terminal.json:
        document: dict[str, Any] = {"file": path, "ran_on": how, "cases": cases}
        terminal.document(
            "run-bundle", document | ({"error": error_document(error)} if failed else {})
        )
    else:
        terminal.note(f"ran on {how}")
        columns = (Column("method"), Column("case", right=True), Column("result"))
        rows = [
            [case["method"], str(case["case"]), case.get("difference") or "as expected"]
            for case in cases
        ]
        if rows:
            terminal.table(columns, rows)
        else:
            terminal.warn("the bundle has no test cases")
        if failed:
            terminal.error(error)
    if failed:
        raise typer.Exit(error.exit_code)


def _check(session: Session, method: str, case: Case) -> str:
    """How the outputs of a case differ from the expected ones; empty if they do not.

    Floating-point numbers may differ by as much as the runtime's own check allows; everything
    else must be equal.
    """
    results = session.run([np.asarray(item) for item in case.inputs], method)
    if len(results) != len(case.outputs):
        return f"{len(results)} outputs, {len(case.outputs)} expected"
    for number, (found, item) in enumerate(zip(results, case.outputs, strict=True)):
        wanted = np.asarray(item)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            kinds = [f"{a.dtype}{list(a.shape)}" for a in (found, wanted)]
            return f"output {number} is {kinds[0]}, {kinds[1]} expected"
        if wanted.dtype.kind == "f":
            same = np.isclose(found, wanted, rtol=_RTOL, atol=_ATOL, equal_nan=True)
        else:
            same = found == wanted
        if not same.all():
            error = np.abs(found.astype(np.float64) - wanted.astype(np.float64))[~same]
            return (
                f"output {number}: {error.size} of {same.size} elements differ,"
                f" by at most {error.max():.6g}"
            )
    return ""


def _verdict(runtime: Runtime, data: bytes, method: str, number: int) -> str:
    """What ExecuTorch's own check of a bundled program objects to; empty without objection."""
    from fitzroy.driver.runtime import ExecuTorchRuntime

    if not isinstance(runtime, ExecuTorchRuntime):
        return ""
    try:
        runtime.verify_bundle(data, method, number, rtol=_RTOL, atol=_ATOL)
    except DeviceError as error:
        return error.reason.partition("\n")[0]
    return ""
