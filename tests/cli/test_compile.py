from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.support import need

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, parse_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.opaque import OpaqueAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes
from fitzroy.formats import bundled, tflite
from fitzroy.formats.executorch import read_program


def write_model(graph: Graph, path: Path) -> Path:
    path.write_bytes(tflite.write_model(export_model(graph)))
    return path


def mixed_graph(*, custom: bool) -> Graph:
    """A rectifier for XNNPACK, a maximum for portable kernels, and an operator for nobody."""
    graph = Graph("mixed")
    x = graph.add_input("x", TensorType((1, 6), DType.FLOAT32))
    y = graph.emit("abs", [x], TensorType((1, 6), DType.FLOAT32), stem="y")
    attributes = ArgAttributes(axis=1)
    best = graph.emit("arg_max", [y], TensorType((1,), DType.INT64), attributes, stem="best")
    graph.outputs = [best]
    if custom:
        secret = OpaqueAttributes("Secret", b"abc")
        graph.outputs = [
            graph.emit("opaque", [y], TensorType((1, 6), DType.FLOAT32), secret, stem="z")
        ]
    return graph


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write_model(mixed_graph(custom=False), tmp_path / "mixed.tflite")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return write_model(mixed_graph(custom=True), tmp_path / "secret.tflite")


def test_summary_and_default_destination(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", digits, "--target", "xnnpack")
    assert (result.code, result.err) == (0, "")
    assert os.listdir(tmp_path) == ["digits.pte"]
    assert "11 on xnnpack" in result.out
    assert "planned memory" in result.out
    assert "legalize-xnnpack" in result.out
    size = (tmp_path / "digits.pte").stat().st_size
    assert f"wrote digits.pte, {size / 1024:.1f} KiB" in result.out
    read_program((tmp_path / "digits.pte").read_bytes())


def test_json(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", digits, "-o", "x.pte", "--json")
    document = result.json
    size = (tmp_path / "x.pte").stat().st_size
    assert document["files"] == [{"path": "x.pte", "bytes": size}]
    assert document["program_bytes"] == size
    assert document["methods"]["forward"]["delegates"] == 1
    assert document["inputs"][0]["shape"] == [1, 8, 8, 1]
    assert document["planned_memory"]["forward"] > 0
    assert document["warnings"] == []


def test_quiet_prints_nothing(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("compile", digits, "--target", "xnnpack", "-q")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_equal_compilations_give_equal_bytes(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    for name in ("a.pte", "b.pte"):
        assert fitzroy("compile", digits, "-o", name).code == 0
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()


def test_bundles_beside_the_program(
    fitzroy: Run, digits: Path, images: list[Path], tmp_path: Path
) -> None:
    need("PIL", "images")
    result = fitzroy("compile", digits, "--bundle", *images[:3], "-o", "d.pte", "--json")
    assert result.code == 0
    bundle = bundled.read_bundle((tmp_path / "d.bpte").read_bytes())
    assert bundle.identifier == b"BP08"
    assert bytes(bundle.program) == (tmp_path / "d.pte").read_bytes()
    [suite] = bundle.suites
    assert len(suite.cases) == 3
    # The examples are named after their digit.
    best = [int(np.asarray(case.outputs[0]).argmax()) for case in suite.cases]
    assert best == [int(image.name.split("_")[1]) for image in images[:3]]


def test_only_the_bundle(fitzroy: Run, digits: Path, images: list[Path], tmp_path: Path) -> None:
    need("PIL", "images")
    assert fitzroy("compile", digits, "-o", "d.bpte", "--bundle", images[0]).code == 0
    assert os.listdir(tmp_path) == ["d.bpte"]
    refused = fitzroy("compile", digits, "-o", "d.bpte")
    assert refused.code == 2
    assert "--bundle" in refused.err


def test_dump_can_be_compiled_again(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    assert fitzroy("compile", digits, "-o", "a.pte", "--dump", "stages").code == 0
    dumps = sorted((tmp_path / "stages").glob("*legalize-xnnpack.ir"))
    assert len(dumps) == 1
    assert fitzroy("compile", dumps[0], "-o", "b.pte").code == 0
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()
    (tmp_path / "file").touch()
    assert fitzroy("compile", digits, "-o", "c.pte", "--dump", "file").code == 2


def test_portable_kernels_are_warned_of(fitzroy: Run, mixed: Path) -> None:
    result = fitzroy("compile", mixed, "-q")
    assert (result.code, result.out) == (0, "")
    assert "warning: 1 node not on XNNPACK but on portable kernels" in result.err
    assert "arg_max" in result.err
    [warning] = fitzroy("compile", mixed, "--json").json["warnings"]
    assert warning["code"] == "xnnpack-operator"


def test_what_cannot_be_placed_is_refused_with_reasons(
    fitzroy: Run, secret: Path, tmp_path: Path
) -> None:
    result = fitzroy("compile", secret)
    assert (result.code, result.out) == (4, "")
    assert "Secret" in result.err
    assert "--outputs 'y'" in result.err
    assert os.listdir(tmp_path) == ["secret.tflite"]
    assert fitzroy("compile", secret, "--json").json["error"]["rejects"]
    assert fitzroy("compile", secret, "--outputs", "y").code == 0


def test_outputs_are_chosen_by_name(fitzroy: Run, secret: Path) -> None:
    unknown = fitzroy("compile", secret, "--outputs", "y,bes")
    assert unknown.code == 2
    assert "no value named 'bes'" in unknown.err
    names = fitzroy("compile", secret, "--outputs", "y,x", "--json").json["outputs"]
    assert [tensor["name"] for tensor in names] == ["y", "x"]


def test_names_with_commas(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("commas")
    type = TensorType((2,), DType.FLOAT32)
    graph.add_input("x", type)
    first = graph.emit("abs", ["x"], type, stem="a,b")
    graph.outputs = [graph.emit("abs", [first], type, stem="c")]
    path = write_model(graph, tmp_path / "m.tflite")
    names = fitzroy("compile", path, "--outputs", "c,a,b", "--json").json["outputs"]
    assert [tensor["name"] for tensor in names] == ["c", "a,b"]


def test_programs_are_no_models(fitzroy: Run, program: Path) -> None:
    for verb in ("compile", "explain", "opt"):
        result = fitzroy(verb, program)
        assert result.code == 2
        assert "this is an ExecuTorch program" in result.err


def test_inputs_are_never_overwritten(fitzroy: Run, digits: Path, images: list[Path]) -> None:
    for output in (digits, images[0]):
        before = output.read_bytes()
        result = fitzroy(
            "compile", digits, "--target", "xnnpack", "-o", output, "--bundle", images[0]
        )
        assert result.code == 2
        assert "overwrite" in result.err
        assert output.read_bytes() == before


def test_bad_test_cases(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 9), np.int8))
    result = fitzroy("compile", digits, "--target", "xnnpack", "--bundle", "x.npy")
    assert result.code == 2
    assert "int8[1,8,8,1]" in result.err
    assert "int8[1,9]" in result.err


# --- explain -------------------------------------------------------------------------------------


def test_explain_has_a_row_per_operator(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("explain", digits, "--target", "xnnpack")
    assert (result.code, result.err) == (0, "")
    rows = result.out.splitlines()
    assert rows[1].split() == ["0", "CONV_2D", "int8[1,8,8,16]", "xnnpack"]
    assert "9 operators: 9 on xnnpack" in result.out
    document = fitzroy("explain", digits, "--target", "xnnpack", "--json").json
    assert [row["index"] for row in document["operators"]] == list(range(9))
    softmax = document["operators"][8]
    assert [node["op"] for node in softmax["nodes"]] == ["dequantize", "softmax", "quantize"]


def test_explain_takes_the_target_that_compile_takes(
    fitzroy: Run, digits: Path, mixed: Path
) -> None:
    assert fitzroy("explain", digits, "--json").json["target"] == "edgetpu"
    assert fitzroy("explain", mixed, "--json").json["target"] == "xnnpack"


def test_explain_gives_reasons(fitzroy: Run, mixed: Path, secret: Path) -> None:
    portable = fitzroy("explain", mixed)
    assert portable.code == 0
    assert "xnnpack-operator: XNNPACK has no node for arg_max" in portable.out
    refused = fitzroy("explain", secret)
    assert refused.code == 4
    assert "Secret" in refused.out
    assert "nowhere" in refused.out
    assert "ABS" in refused.out
    assert "hint: compile up to it with --outputs 'y'" in refused.out
    assert "error: 1 operator cannot be placed" in refused.err
    document = fitzroy("explain", secret, "--json")
    assert document.code == document.json["error"]["exit_code"] == 4
    assert [row["placed"] for row in document.json["operators"]] == ["xnnpack", "unused", "nowhere"]
    assert fitzroy("explain", secret, "--outputs", "y").code == 0


# --- opt -----------------------------------------------------------------------------------------


def test_opt_prints_a_graph_that_can_be_read_back(
    fitzroy: Run, digits: Path, tmp_path: Path
) -> None:
    passes = ("--passes", "dead-code,fold-constants", "--passes", "simplify")
    result = fitzroy("opt", digits, *passes, "--full")
    assert result.code == 0
    assert len(parse_graph(result.out, attributes_of).nodes()) == 9
    assert [line.split(":")[0] for line in result.err.splitlines()] == [
        "dead-code", "fold-constants", "simplify",
    ]  # fmt: skip
    written = fitzroy("opt", digits, "--passes", "dead-code,fold-constants,simplify", "-o", "g.ir")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "g.ir").read_text() == result.out
    assert fitzroy("opt", "g.ir", "-q", "--full").out == result.out
    short = fitzroy("opt", digits, *passes, "-q").out
    assert max(map(len, short.splitlines())) < 300 < max(map(len, result.out.splitlines()))
    assert ' bytes"' in short
    assert " numbers : 0 : axis 0)" in short


def test_opt_without_data_is_short(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("opt", digits, "--no-data")
    assert result.code == 0
    assert "data {" not in result.out
    assert 3 * len(result.out) < len(fitzroy("opt", digits, "--full").out)


def test_opt_lists_passes_and_knows_their_names(fitzroy: Run, digits: Path) -> None:
    listing = fitzroy("opt", "--list")
    assert listing.code == 0
    assert re.search(r"^legalize-xnnpack +Rewrite operators", listing.out, re.MULTILINE)
    wrong = fitzroy("opt", digits, "--passes", "simplfy")
    assert wrong.code == 2
    assert "did you mean 'simplify'?" in wrong.err
    assert fitzroy("opt").code == 2
