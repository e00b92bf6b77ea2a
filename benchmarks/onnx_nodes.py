"""The ONNX frontend on ONNX's own test cases: ``python -m benchmarks.onnx_nodes [--show PART]``.

Every node case of ``onnx.backend.test`` is imported and evaluated by reference semantics, and its
outputs are compared with those that the case expects, within the tolerance that the case states.
Operands that say what is computed rather than being computed with (shapes, axes) are inputs of the
cases; those that the frontend asks for are made constants, one after the other. Writes
``benchmarks/results/onnx_nodes.json``, of which ``docs/onnx.md`` is made.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.report import onnx
from benchmarks.support import ROOT, read_results, write_results
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.frontend import OnnxFrontend
from fitzroy.compiler.frontends.onnx.reader import library, native
from fitzroy.compiler.frontends.onnx.suppression import NOTHING
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate, verify

_VARIES = re.compile(r"operand (\d+), the [^,]+, varies")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        case: its name.
        operator: name of its operator.
        passed: whether every output is as expected.
        rule: by which rule it was refused; empty if it was not.
        reason: the refusal, or the difference.
    """

    case: str
    operator: str
    passed: bool
    rule: str = ""
    reason: str = ""


@cache
def cases() -> dict[str, Any]:
    """All node cases by name."""
    library()
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    return {case.name: case for case in collected if case.model is not None and case.data_sets}


def operator_of(case: Any) -> str:
    """The operator that a case is about, or what its nodes are."""
    nodes = case.model.graph.node
    if len(nodes) == 1 and "_expanded" not in case.name:
        return str(nodes[0].op_type)
    return "bodies of functions" if "_expanded" in case.name else "several"


def judge(case: Any) -> Outcome:
    """Import a case, compute it, and compare its outputs; TFLite must be able to express it."""
    operator = operator_of(case)
    inputs, wanted = ([_decoded(value) for value in values] for values in case.data_sets[0])
    try:
        graph, known = _imported(case.model, inputs)
        verify(graph)
        export_model(graph)
        feeds = {name: _stored(known[name], graph, name) for name in graph.inputs}
        found = evaluate(graph, feeds)
    except UnsupportedError as error:
        if not error.rejects:
            return Outcome(case.name, operator, False, "onnx-shape", str(error))
        first = error.rejects[0]
        return Outcome(case.name, operator, False, first.code, first.what)
    except Exception as error:
        # Whatever else happens is a fault, and the other cases are judged all the same.
        return Outcome(case.name, operator, False, "", f"{type(error).__name__}: {error}")
    for index, (output, expected) in enumerate(zip(case.model.graph.output, wanted, strict=True)):
        reason = _difference(_selected(found[output.name], operator), expected, case)
        if reason:
            return Outcome(case.name, operator, False, "", f"output {index}: {reason}")
    return Outcome(case.name, operator, True)


def _decoded(value: Any) -> Any:
    """A value of a case; some come as protocol buffers."""
    package = library()
    if isinstance(value, package.TensorProto):
        return package.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _imported(model: Any, inputs: Sequence[Any]) -> tuple[Graph, dict[str, Any]]:
    """The graph of a case, with parameters as constants, and the inputs that are left by name."""
    package = library()
    model = package.ModelProto.FromString(model.SerializeToString())
    names = [info.name for info in model.graph.input]
    known = dict(zip(names, inputs, strict=True))
    while True:
        shapes = {n: np.shape(known[n]) for n in names if isinstance(known[n], np.ndarray)}
        try:
            how = Reading(shapes=shapes, keep_layout=True)
            return OnnxFrontend().read(model.SerializeToString(), "", how), known
        except UnsupportedError as error:
            name = _parameter(model, error, names)
            if name is None or not isinstance(known[name], np.ndarray):
                raise
            tensor = package.numpy_helper.from_array(known[name], name)
            model.graph.initializer.append(tensor)
            names.remove(name)
            kept = [info for info in model.graph.input if info.name != name]
            del model.graph.input[:]
            model.graph.input.extend(kept)


def _parameter(model: Any, error: UnsupportedError, names: Sequence[str]) -> str | None:
    """The input that has to be a constant, or None."""
    for reject in error.rejects:
        match = _VARIES.search(reject.what)
        where = re.match(r"operator (\d+)", reject.where)
        if match and where:
            operands = model.graph.node[int(where[1])].input
            index = int(match[1])
            if index < len(operands) and operands[index] in names:
                return str(operands[index])
    return None


def _stored(value: Any, graph: Graph, name: str) -> Array:
    """An input of a case in the type that the graph has."""
    return native(np.asarray(value)).astype(graph.type(name).dtype.numpy)


def _difference(found: Array, expected: Any, case: Any) -> str:
    """How an output differs; empty if it does not."""
    if not isinstance(expected, np.ndarray):
        return "the case expects no tensor"
    expected = native(expected)
    if found.shape != expected.shape:
        return f"shape {list(found.shape)}, not {list(expected.shape)}"
    if found.dtype != expected.dtype:
        return f"{found.dtype}, not {expected.dtype}"
    if expected.dtype.kind == "f":
        near = np.isclose(
            found, expected, rtol=case.rtol, atol=_least(case, expected), equal_nan=True
        )
    else:
        near = found == expected
    if near.all():
        return ""
    count = int(near.size - near.sum())
    return f"{count} of {near.size} elements differ"


def _least(case: Any, expected: Array) -> float:
    """The absolute tolerance of a case; waves that cancel leave rounding beside the largest sum."""
    least = float(case.atol)
    if case.model.graph.node[0].op_type == "DFT":
        least = max(least, 1e-6 * float(np.abs(expected).max(initial=0)))
    return least


def _selected(found: Array, operator: str) -> Array:
    """Rows of boxes that are selected; graphs have rows of -1 for the others."""
    return found[(found != NOTHING).any(axis=1)] if operator == "NonMaxSuppression" else found


def table(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """For each operator, how many cases pass, and names of the others by rule."""
    rows: dict[str, dict[str, Any]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.operator, outcome.case)):
        row = rows.setdefault(outcome.operator, {"passed": 0, "refused": {}})
        if outcome.passed:
            row["passed"] += 1
        else:
            row["refused"].setdefault(outcome.rule or "fault", []).append(outcome.case)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Judge all cases; the exit code is 1 if one is neither passed nor refused by a rule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_nodes")
    parser.add_argument("--show", metavar="PART", help="print cases whose name has this part")
    options = parser.parse_args(argv)
    chosen = [case for name, case in cases().items() if (options.show or "") in name]
    outcomes = [judge(case) for case in chosen]
    faults = [outcome for outcome in outcomes if not outcome.passed and not outcome.rule]
    for outcome in outcomes if options.show is not None else faults:
        state = "passed" if outcome.passed else outcome.rule or "DIFFERS"
        print(f"{outcome.case} ({outcome.operator}): {state} {outcome.reason}")
    passed = sum(outcome.passed for outcome in outcomes)
    print(f"{passed} of {len(outcomes)} pass, {len(faults)} differ")
    if options.show is None:
        write_results("onnx_nodes", {"onnx": library().__version__, "operators": table(outcomes)})
        (ROOT / "docs" / "onnx.md").write_text(onnx(read_results("onnx_nodes")))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
