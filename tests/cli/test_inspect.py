from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.support import corpus

from fitzroy.base.types import DType, TensorType
from fitzroy.cli.describe import describe
from fitzroy.formats import bundled, tflite
from fitzroy.formats.executorch import read_program
from fitzroy.formats.method import KernelCall, Method, TensorValue
from fitzroy.linker.packages.executorch import link_program


def test_models(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("inspect", digits, "--full")
    assert (result.code, result.err) == (0, "")
    assert "TFLite model" in result.out
    assert "CONV_2D ×4" in result.out
    assert "int8[1,8,8,1]  scale 0.003921569, zero point -128" in result.out
    [graph] = fitzroy("inspect", digits, "--json").json["subgraphs"]
    assert graph["histogram"]["CONV_2D"] == 4
    assert len(graph["operators"]) == 9
    assert graph["inputs"][0]["quantization"]["zero_point"] == [-128]


def test_summary_of_a_source_model(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("inspect", digits)
    assert result.code == 0
    rows = dict(re.findall(r"^(\S.*?)  +(.*)$", result.out, re.MULTILINE))
    assert rows["what"] == "TFLite model, 52.9 KiB"
    assert rows["input"].startswith("image: int8[1,8,8,1], scale")
    assert rows["operators"].startswith("9: CONV_2D ×4")
    assert rows["weights"] == "44.4 KiB, fewer than the 8.1 MiB that the chip can keep"
    assert "arithmetic" not in rows
    assert "fitzroy explain" in result.out


def test_summary_of_float_models(fitzroy: Run, digits: Path) -> None:
    detector = digits.parents[1] / "detector" / "detector.tflite"
    assert "--calibrate quantizes it" in fitzroy("inspect", detector).out


def test_summary_of_programs(fitzroy: Run, program: Path) -> None:
    out = fitzroy("inspect", program).out
    assert "XnnpackBackend  49.6 KiB: Conv2d ×4" in out
    assert "segments" not in out


def test_programs(fitzroy: Run, program: Path) -> None:
    result = fitzroy("inspect", program, "--full")
    assert result.code == 0
    for text in ("method 'forward'", "XnnpackBackend", "Conv2d ×4", "planned memory", "segments"):
        assert text in result.out
    [method] = fitzroy("inspect", program, "--json").json["methods"]
    # Programs store no quantization; it comes from the delegate.
    assert method["inputs"][0]["quantization"]["zero_point"] == [-128]
    assert method["inputs"][0]["dtype"] == "int8"
    assert method["outputs"][0]["quantization"]["scale"] == [1 / 256]
    [delegate] = method["delegates"]
    assert delegate["graph"]["histogram"]["Convert"] == 2
    clamps = [row.get("clamp") for row in delegate["graph"]["operators"]]
    assert clamps[0] == [0, "inf"]


def test_delegate_blobs(fitzroy: Run, program: Path, tmp_path: Path) -> None:
    file = read_program(program.read_bytes())
    [plan] = file.program.execution_plan or []
    [delegate] = plan.delegates or []
    (tmp_path / "graph.xnn").write_bytes(file.delegate_data(delegate))
    document = fitzroy("inspect", "graph.xnn", "--json").json
    assert document["kind"] == "XNNPACK graph"
    assert document["histogram"]["Conv2d"] == 4
    assert "Softmax" in fitzroy("inspect", "graph.xnn", "--full").out


def test_kernel_calls(fitzroy: Run, tmp_path: Path) -> None:
    type = TensorType((4,), DType.FLOAT32)
    values = (TensorValue("x", type), TensorValue("y", type))
    call = KernelCall("aten::neg", "out", (0, 1, 1))
    (tmp_path / "k.pte").write_bytes(link_program([Method("forward", values, (0,), (1,), (call,))]))
    result = fitzroy("inspect", "k.pte", "--full")
    assert "aten::neg.out ×1" in result.out
    [method] = fitzroy("inspect", "k.pte", "--json").json["methods"]
    assert method["calls"] == [{"call": "kernel", "name": "aten::neg.out", "args": [0, 1, 1]}]
    assert "quantization" not in method["inputs"][0]


@pytest.mark.parametrize("old", [False, True])
def test_bundles(fitzroy: Run, program: Path, tmp_path: Path, old: bool) -> None:
    case = bundled.Case((np.zeros((1, 8, 8, 1), np.int8), 7), (np.zeros((1, 10), np.int8),))
    metadata: dict[str, bundled.Extra] = {"note": "hello", "blob": b"abc"} if old else {}
    suite = bundled.Suite("forward", (case, case), metadata)
    data = program.read_bytes()
    if old:
        view = memoryview(data)
        written = bundled.write_old_bundle(bundled.Bundle(b"BP04", view, (suite,), {"k": 1}))
    else:
        written = bundled.write_bundle(data, [suite])
    (tmp_path / "b.bpte").write_bytes(written)
    result = fitzroy("inspect", "b.bpte", "--full")
    assert result.code == 0
    assert "2 test cases for 'forward'" in result.out
    assert ("BP04" if old else "BP08") in result.out
    assert "int8[1,8,8,1] 7" in result.out
    assert "method 'forward'" in result.out
    document = fitzroy("inspect", "b.bpte", "--json").json
    assert document["suites"][0]["cases"][0]["inputs"][1]["value"] == 7
    assert document["program"]["bytes"] == len(data)
    if old:
        assert document["suites"][0]["metadata"] == {"note": "hello", "blob": {"bytes": 3}}
    assert {"bundle", "program", "xnnpack"} <= fitzroy("inspect", "b.bpte", "--tables").json.keys()


def test_graph_texts(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    assert fitzroy("opt", digits, "-o", "g.ir").code == 0
    [graph] = fitzroy("inspect", "g.ir", "--json").json["subgraphs"]
    assert graph["histogram"]["conv_2d"] == 4
    assert "conv_2d ×4" in fitzroy("inspect", "g.ir", "--full").out
    assert fitzroy("inspect", "g.ir", "--tables").code == 3
    (tmp_path / "bad.ir").write_bytes(b"graph \xff")
    assert fitzroy("inspect", "bad.ir").code == 3


def test_tables(fitzroy: Run, digits: Path, program: Path) -> None:
    assert fitzroy("inspect", digits, "--tables").json["version"] == 3
    assert fitzroy("inspect", program, "--tables").json["program"]["execution_plan"]


def test_a_module_that_is_none(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x10\0\0\0BMOD" + bytes(32))
    for arguments in (["inspect", "x.bin"], ["inspect", "x.bin", "--tables"], ["run", "x.bin"]):
        result = fitzroy(*arguments)
        assert result.code == 3
        assert "x.bin" in result.err


def _with_custom_operator(code: str) -> bytes:
    model = tflite.Model(
        version=3,
        operator_codes=[
            tflite.OperatorCode(builtin_code=32, deprecated_builtin_code=32, custom_code=code)
        ],
        subgraphs=[
            tflite.SubGraph(
                # STRING has no counterpart in the compiler; inspecting it works all the same.
                tensors=[tflite.Tensor(name="x", type=5, shape=np.array([3], np.int32))],
                inputs=np.array([0], np.int32),
                outputs=np.array([0], np.int32),
                operators=[
                    tflite.Operator(
                        inputs=np.array([0, -1], np.int32),
                        outputs=np.array([0], np.int32),
                        custom_options=np.frombuffer(b"x" * 200, np.uint8),
                    )
                ],
            )
        ],
        buffers=[tflite.Buffer()],
    )
    return tflite.write_model(model)


def test_custom_operators_show_their_sizes() -> None:
    [operator] = describe(_with_custom_operator("Custom"), "x")["subgraphs"][0]["operators"]
    assert operator["op"] == "Custom"
    assert operator["custom_options_bytes"] == 200
    assert operator["inputs"] == [{"name": "x", "dtype": "string", "shape": [3]}, None]


def test_edge_tpu_operators_need_a_package(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "x.tflite").write_bytes(_with_custom_operator("edgetpu-custom-op"))
    assert fitzroy("inspect", "x.tflite").code == 3


@pytest.mark.corpus
def test_explain_refuses_compiled_models(fitzroy: Run) -> None:
    path = corpus() / "coral" / "mobilenet_v1_0.25_128_quant_edgetpu.tflite"
    result = fitzroy("explain", path)
    assert result.code == 4
    assert "compiled for the Edge TPU already" in result.err
