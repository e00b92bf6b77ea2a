"""Operators of a file that become several nodes, and nodes that become constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support import need_litert

import fitzroy
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.partition import HOST, Decided, Placement, families_of, partition
from fitzroy.execution.interpreter import Interpreter
from fitzroy.formats import tflite

_INT8, _INT32, _FLOAT = (
    int(kind)
    for kind in (tflite.TensorType.INT8, tflite.TensorType.INT32, tflite.TensorType.FLOAT32)
)
_FROM, _TO = np.array([0, 2, 0, 0], np.int32), np.array([1, 3, 8, 16], np.int32)


class Writer:
    """A model that grows by tensors and operators."""

    def __init__(self) -> None:
        self.tensors: list[tflite.Tensor] = []
        self.buffers = [tflite.Buffer()]
        self.codes: list[tflite.OperatorCode] = []
        self.operators: list[tflite.Operator] = []

    def tensor(self, *shape: int, kind: int = _INT8, data: Array | None = None) -> int:
        if data is not None:
            self.buffers.append(tflite.Buffer(data=data.reshape(-1).view(np.uint8)))
        scale = tflite.QuantizationParameters(
            scale=np.array([1 / 128], np.float32), zero_point=np.array([0], np.int64)
        )
        self.tensors.append(
            tflite.Tensor(
                name=f"t{len(self.tensors)}",
                shape=np.array(shape, np.int32),
                type=kind,
                buffer=0 if data is None else len(self.buffers) - 1,
                quantization=scale if kind == _INT8 else None,
            )
        )
        return len(self.tensors) - 1

    def operator(
        self, name: str, inputs: list[int], output: int, options: tflite.Options | None = None
    ) -> int:
        self.codes.append(tflite.operator_code(tflite.BuiltinOperator[name]))
        self.operators.append(
            tflite.Operator(
                opcode_index=len(self.codes) - 1,
                inputs=np.array(inputs, np.int32),
                outputs=np.array([output], np.int32),
                builtin_options=options,
            )
        )
        return output

    def bytes(self, first: int, last: int) -> bytes:
        main = tflite.SubGraph(
            tensors=self.tensors,
            inputs=np.array([first], np.int32),
            outputs=np.array([last], np.int32),
            operators=self.operators,
            name="main",
        )
        return tflite.write_model(
            tflite.Model(
                version=3, operator_codes=self.codes, subgraphs=[main], buffers=self.buffers
            )
        )


def sliced(*, real: bool = False) -> bytes:
    """``tanh``, then ``x[:, 2]``, then operators on real numbers; or all of it on real numbers."""
    w, kind = Writer(), _FLOAT if real else _INT8
    x = w.tensor(1, 8, 8, 16, kind=kind)
    y = w.operator("TANH", [x], w.tensor(1, 8, 8, 16, kind=kind))
    ends = [w.tensor(4, kind=_INT32, data=data) for data in (_FROM, _TO, np.ones(4, np.int32))]
    row = tflite.StridedSliceOptions(shrink_axis_mask=2)
    y = w.operator("STRIDED_SLICE", [y, *ends], w.tensor(1, 8, 16, kind=kind), row)
    if not real:
        y = w.operator("DEQUANTIZE", [y], w.tensor(1, 8, 16, kind=_FLOAT))
    return w.bytes(x, w.operator("ABS", [y], w.tensor(1, 8, 16, kind=_FLOAT)))


def shaped() -> bytes:
    """What reshapes by a shape that other operators compute of it."""
    w = Writer()
    x = w.tensor(1, 8, 8, 16, kind=_FLOAT)
    shape = w.operator("SHAPE", [x], w.tensor(4, kind=_INT32), tflite.ShapeOptions(out_type=_INT32))
    y = w.operator("NEG", [x], w.tensor(1, 8, 8, 16, kind=_FLOAT))
    return w.bytes(x, w.operator("RESHAPE", [y, shape], w.tensor(1, 8, 8, 16, kind=_FLOAT)))


def on_litert(data: bytes, x: Array) -> Array:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter as LiteRt

    runtime = LiteRt(model_content=data)
    runtime.allocate_tensors()
    runtime.set_tensor(runtime.get_input_details()[0]["index"], x)
    runtime.invoke()
    return np.array(runtime.get_tensor(runtime.get_output_details()[0]["index"]))


def ran(data: bytes, x: Array, host: str) -> Array:
    with Interpreter(data, device="sim:direct", host=host) as interpreter:
        name = interpreter.get_input_details()[0]["name"]
        [found] = interpreter.run({name: x}).values()
    return found


@pytest.mark.parametrize("host", ["reference", "litert"])
@pytest.mark.parametrize("make", [lambda: sliced(real=True), shaped], ids=["sliced", "shaped"])
def test_hosts_compute_whole_operators(make: object, host: str) -> None:
    assert callable(make)
    data = make()
    x = np.random.default_rng(1).normal(size=(1, 8, 8, 16)).astype(np.float32)
    np.testing.assert_allclose(ran(data, x, host), on_litert(data, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("refused", ["", "strided_slice", "reshape"])
def test_an_operator_is_on_the_chip_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    from fitzroy.compiler.targets.edgetpu.partition import rules

    data = sliced()
    path = tmp_path / "sliced.tflite"
    path.write_bytes(data)
    if refused:
        kept = {name: item for name, item in rules.lowerings().items() if name != refused}
        monkeypatch.setattr(rules, "lowerings", lambda: kept)
    result = fitzroy.compile_edgetpu(path, costs=None)
    names = [node.spelled for node in result.mapped]
    assert names == (["TANH"] if refused else ["TANH", "STRIDED_SLICE"])
    assert len(result.operators) == 4
    x = np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 16)).astype(np.int8)
    for host in ("reference", "litert"):
        np.testing.assert_allclose(ran(result.data, x, host), on_litert(data, x), atol=1 / 127)
    if refused:
        assert {r.code for r in result.reasons if "STRIDED_SLICE" in r.where} == {
            "edgetpu-lowering"
        }


def test_families_are_in_one_group() -> None:
    graph = import_model(tflite.read_model(sliced()))
    [family] = families_of(graph)
    assert [node.op for node in family] == ["strided_slice", "reshape"]
    groups = partition(graph, (Decided("chip"), HOST), families_of(graph))
    assert any(set(family) <= set(group.nodes) for group in groups)


def test_explanations_have_a_row_per_operator(tmp_path: Path) -> None:
    from fitzroy.cli.explain import explain_rows

    path = tmp_path / "sliced.tflite"
    path.write_bytes(sliced())
    graph = fitzroy.load(path)
    rows = explain_rows(graph, *fitzroy.explain(graph, target="edgetpu"))
    assert [(row.index, row.op) for row in rows] == [
        (0, "TANH"), (1, "STRIDED_SLICE"), (2, "DEQUANTIZE"), (3, "ABS")
    ]  # fmt: skip
    assert rows[1].shape == "int8[1,8,16]"
    assert [op for op, _ in rows[1].nodes] == ["strided_slice", "reshape"]


@pytest.mark.parametrize(("named", "expected"), [(True, "TANH"), (False, "tanh")])
def test_what_passes_insert_is_spelled_as_the_model_is(named: bool, expected: str) -> None:
    from fitzroy.cli.explain import explain_rows

    graph = import_model(tflite.read_model(sliced()))
    if not named:
        for node in graph.nodes():
            graph.update(replace(node, origin=None))
    legalized = graph.copy()
    name = graph.outputs[0]
    more = legalized.producer(legalized.emit("tanh", (name,), graph.type(name)))
    assert more is not None
    rows = explain_rows(graph, legalized, [Placement("chip", tuple(legalized.nodes()))])
    assert [row.op for row in rows if row.index is None] == [expected]
    assert rows[-1].name == more.outputs[0]
