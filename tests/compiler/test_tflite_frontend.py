from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, zoo
from tests.support import need_litert

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS, TFLITE
from fitzroy.compiler.ops.custom import CustomAttributes
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.formats import tflite

ZOO = zoo()
EXPORTABLE = {
    name: graph
    for name, graph in ZOO.items()
    if TFLITE.keys() & set(OPS[graph.name].tflite) and not name.startswith("unidirectional")
}


def exported(graph: Graph) -> tflite.Model | None:
    """The model, or None where TFLite has no form for the attributes."""
    try:
        return export_model(graph, description="test")
    except UnsupportedError:
        return None


@pytest.mark.parametrize("name", EXPORTABLE)
def test_export_then_import_means_the_same(name: str) -> None:
    graph = EXPORTABLE[name]
    model = exported(graph)
    if model is None:
        assert name in {
            "clamp-float32", "clamp-int8", "clamp-uint8", "elu-float32", "elu-int8", "elu-uint8",
            "pad-int8-value", "pad-uint8-value",
            "transpose_conv-float32", "transpose_conv-int8", "transpose_conv-int8-channels",
            "transpose_conv-uint8",
        }  # fmt: skip
        return
    again = import_model(tflite.read_model(tflite.write_model(model)), path="m.tflite")
    verify(again)
    inputs = random_inputs(graph, np.random.default_rng(0))
    ours = evaluate(graph, inputs)
    theirs = evaluate(again, dict(zip(again.inputs, inputs.values(), strict=True)))
    for a, b in zip(graph.outputs, again.outputs, strict=True):
        np.testing.assert_array_equal(ours[a], theirs[b])


@pytest.mark.parametrize("name", [n for n in EXPORTABLE if n.endswith("float32")])
def test_litert_computes_exported_float_operators(name: str) -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    graph = EXPORTABLE[name]
    model = exported(graph)
    if model is None or graph.name in ("cast",):
        return
    interpreter = Interpreter(model_content=tflite.write_model(model), num_threads=1)
    interpreter.allocate_tensors()
    inputs = random_inputs(graph, np.random.default_rng(0))
    for detail, array in zip(interpreter.get_input_details(), inputs.values(), strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    wanted = evaluate(graph, inputs)
    for detail, output in zip(interpreter.get_output_details(), graph.outputs, strict=True):
        np.testing.assert_allclose(
            interpreter.get_tensor(detail["index"]), wanted[output], rtol=1e-4, atol=1e-5
        )


def tiny(code: tflite.OperatorCode, **fields: object) -> tflite.Model:
    tensors = [
        tflite.Tensor(shape=np.array([4], np.int32), type=0, name=name) for name in ("in", "out")
    ]
    operator = tflite.Operator(
        inputs=np.array([0], np.int32),
        outputs=np.array([1], np.int32),
        **fields,  # type: ignore[arg-type]
    )
    subgraph = tflite.SubGraph(
        tensors=tensors, inputs=np.array([0], np.int32), outputs=np.array([1], np.int32),
        operators=[operator], name="main",
    )  # fmt: skip
    return tflite.Model(
        version=3, operator_codes=[code], subgraphs=[subgraph], buffers=[tflite.Buffer()]
    )


def test_unknown_operators_are_named_with_index_and_result() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.HASHTABLE_LOOKUP))
    with pytest.raises(UnsupportedError) as caught:
        import_model(model, path="m.tflite")
    assert caught.value.where == "m.tflite"
    (reject,) = caught.value.rejects
    assert reject.where == "operator 0 (HASHTABLE_LOOKUP, 'out')"
    assert "HASHTABLE_LOOKUP" in reject.what


def test_codes_of_the_future_are_refused_by_number() -> None:
    with pytest.raises(UnsupportedError) as caught:
        import_model(tiny(tflite.OperatorCode(builtin_code=4000)))
    assert "4000" in caught.value.rejects[0].what


def test_custom_operators_keep_their_bytes() -> None:
    code = tflite.OperatorCode(
        deprecated_builtin_code=32, builtin_code=32, custom_code="Mine", version=2
    )
    options = np.arange(7, dtype=np.uint8)
    graph = import_model(tiny(code, custom_options=options))
    attributes = graph.nodes()[0].attributes
    assert attributes == CustomAttributes("Mine", options.tobytes(), 2)
    again = export_model(graph)
    assert again.operator_codes is not None
    assert again.operator_codes[0].custom_code == "Mine"
    assert import_model(again).nodes()[0].attributes == attributes


def test_an_operator_of_wrong_shape_is_one_diagnostic() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ABS))
    assert model.subgraphs is not None
    assert model.subgraphs[0].tensors is not None
    model.subgraphs[0].tensors[1].shape = np.array([5], np.int32)
    with pytest.raises(UnsupportedError, match=r"shape \[5\], not \[4\]"):
        import_model(model)


def test_options_of_another_operator_are_refused() -> None:
    model = tiny(
        tflite.operator_code(tflite.BuiltinOperator.LEAKY_RELU), builtin_options=tflite.AddOptions()
    )
    with pytest.raises(UnsupportedError, match="do not fit LEAKY_RELU"):
        import_model(model)


@pytest.mark.parametrize(
    ("outputs", "message"), [([1, 1], "two operators|twice"), ([0], "an input and")]
)
def test_tensors_have_one_source(outputs: list[int], message: str) -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ABS))
    assert model.subgraphs is not None
    assert model.subgraphs[0].operators is not None
    model.subgraphs[0].operators[0].outputs = np.array(outputs, np.int32)
    with pytest.raises(FitzroyError, match=message):
        import_model(model)


def test_a_missing_subgraph_is_named() -> None:
    with pytest.raises(FormatError, match="subgraph 3 of 1"):
        import_model(tiny(tflite.operator_code(tflite.BuiltinOperator.ABS)), subgraph=3)


def test_export_names_what_tflite_lacks() -> None:
    graph = Graph("g")
    type = TensorType((1, 4, 4, 1), DType.FLOAT32)
    graph.add_input("x", type)
    from fitzroy.compiler.ops.elementwise import ClampAttributes

    graph.outputs = [graph.emit("clamp", ["x"], type, ClampAttributes(-0.5, 0.5))]
    with pytest.raises(UnsupportedError, match=r"no clamp to -0.5 to 0.5"):
        export_model(graph)
