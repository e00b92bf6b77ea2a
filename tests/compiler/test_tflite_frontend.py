from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, zoo
from tests.support import corpus, need_litert

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS, TFLITE
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.opaque import OpaqueAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.formats import tflite
from fitzroy.formats.tflite_versions import VERSIONS

ZOO = zoo()
EXPORTABLE = {
    name: graph for name, graph in ZOO.items() if TFLITE.keys() & set(OPS[graph.name].tflite)
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


def opaque(model: tflite.Model) -> OpaqueAttributes:
    """The attributes of the only operator of a model, which is opaque."""
    graph = import_model(model)
    verify(graph)
    [node] = graph.nodes()
    assert node.op == "opaque"
    assert isinstance(node.attributes, OpaqueAttributes)
    return node.attributes


def test_builtin_operators_without_class_keep_their_options() -> None:
    options = tflite.RandomOptions(seed=3, seed2=-4)
    code = tflite.operator_code(tflite.BuiltinOperator.RANDOM_UNIFORM)
    model = tiny(code, builtin_options=options)
    found = opaque(model)
    assert (found.code, found.version, found.builtin) == ("RANDOM_UNIFORM", 1, 148)
    assert "docs/operators.md" in found.reason
    again = export_model(import_model(model))
    [operator] = (again.subgraphs or [])[0].operators or []
    assert operator.builtin_options == options
    assert opaque(tflite.read_model(tflite.write_model(again))) == found


def test_newer_versions_of_operators_are_opaque() -> None:
    newest = VERSIONS["ABS"]
    for version in (1, newest):
        code = tflite.operator_code(tflite.BuiltinOperator.ABS, version=version)
        assert import_model(tiny(code)).nodes()[0].op == "abs"
    found = opaque(tiny(tflite.operator_code(tflite.BuiltinOperator.ABS, version=newest + 1)))
    assert found.version == newest + 1
    assert found.reason == f"version {newest + 1}, {newest} is the newest that is known"


def test_codes_of_the_future_are_named_by_number() -> None:
    found = opaque(tiny(tflite.OperatorCode(builtin_code=4000)))
    assert (found.code, found.builtin) == ("BUILTIN_4000", 4000)
    with pytest.raises(UnsupportedError, match="BUILTIN_4000"):
        export_model(import_model(tiny(tflite.OperatorCode(builtin_code=4000))))


def test_operators_with_constants_of_foreign_types_are_opaque() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ADD))
    [main] = model.subgraphs or []
    words = tflite.Tensor(
        shape=np.array([1], np.int32), type=int(tflite.TensorType.STRING), name="words", buffer=1
    )
    assert main.tensors is not None
    assert main.operators is not None
    main.tensors.append(words)
    main.operators[0].inputs = np.array([0, 2], np.int32)
    model.buffers = [tflite.Buffer(), tflite.Buffer(data=np.zeros(8, np.uint8))]
    found = opaque(model)
    assert not found.whole
    assert found.reason == "its operand tensor 'words' has element type STRING (5)"
    assert "strings" in found.hint
    with pytest.raises(UnsupportedError, match="only the file"):
        export_model(import_model(model))


def test_inputs_of_foreign_types_are_refused_with_what_reads_them() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ABS))
    tensors = (model.subgraphs or [])[0].tensors or []
    tensors[0].type = int(tflite.TensorType.STRING)
    with pytest.raises(UnsupportedError, match="has element type STRING") as caught:
        import_model(model, path="m.tflite")
    assert caught.value.where == "m.tflite"
    assert "strings" in caught.value.hint
    (reader,) = caught.value.rejects
    assert reader.where.startswith("operator 0 (ABS")


def test_results_of_foreign_types_are_refused_by_operator() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ABS))
    tensors = (model.subgraphs or [])[0].tensors or []
    tensors[1].type = int(tflite.TensorType.STRING)
    with pytest.raises(UnsupportedError) as caught:
        import_model(model, path="m.tflite")
    assert caught.value.where == "m.tflite"
    (reject,) = caught.value.rejects
    assert reject.where == "operator 0 (ABS, 'out')"
    assert "STRING" in reject.what


def test_operators_that_call_subgraphs_are_not_exported_without_them() -> None:
    options = tflite.CallOptions(subgraph=0)
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.CALL), builtin_options=options)
    assert opaque(model).whole
    with pytest.raises(UnsupportedError, match="what CALL calls"):
        export_model(import_model(model))


def test_custom_operators_keep_their_bytes() -> None:
    code = tflite.OperatorCode(
        deprecated_builtin_code=32, builtin_code=32, custom_code="Mine", version=2
    )
    options = np.arange(7, dtype=np.uint8)
    graph = import_model(tiny(code, custom_options=options))
    attributes = graph.nodes()[0].attributes
    reason = "a custom operator, which only its author knows"
    assert attributes == OpaqueAttributes("Mine", options.tobytes(), 2, reason=reason)
    again = export_model(graph)
    assert again.operator_codes is not None
    assert again.operator_codes[0].custom_code == "Mine"
    assert import_model(again).nodes()[0].attributes == attributes


def test_an_operator_of_wrong_shape_is_opaque() -> None:
    model = tiny(tflite.operator_code(tflite.BuiltinOperator.ABS))
    assert model.subgraphs is not None
    assert model.subgraphs[0].tensors is not None
    model.subgraphs[0].tensors[1].shape = np.array([5], np.int32)
    assert opaque(model).reason == "result 'out' has shape [5], not [4]"


def test_options_of_another_operator_make_it_opaque() -> None:
    model = tiny(
        tflite.operator_code(tflite.BuiltinOperator.LEAKY_RELU), builtin_options=tflite.AddOptions()
    )
    assert "do not fit LEAKY_RELU" in opaque(model).reason


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


@pytest.mark.parametrize("padding", PaddingScheme)
def test_schemes_of_padding_stay(padding: PaddingScheme) -> None:
    """Also where both come to the same amounts: sources are known again by their attributes."""
    graph = Graph("point")
    graph.add_input("image", TensorType((1, 4, 4, 3), DType.FLOAT32))
    filters = graph.add_constant("filters", np.ones((5, 1, 1, 3), np.float32))
    result = TensorType((1, 4, 4, 5), DType.FLOAT32)
    attributes = ConvAttributes(padding=padding)
    bias = graph.add_constant("bias", np.zeros(5, np.float32))
    graph.outputs = [graph.emit("conv_2d", ["image", filters, bias], result, attributes)]
    (node,) = import_model(export_model(graph)).nodes()
    assert node.attributes == attributes


def test_export_names_what_tflite_lacks() -> None:
    graph = Graph("g")
    type = TensorType((1, 4, 4, 1), DType.FLOAT32)
    graph.add_input("x", type)
    from fitzroy.compiler.ops.elementwise import ClampAttributes

    graph.outputs = [graph.emit("clamp", ["x"], type, ClampAttributes(-0.5, 0.5))]
    with pytest.raises(UnsupportedError, match=r"no clamp to -0.5 to 0.5"):
        export_model(graph)


def test_recurrent_layers_are_exported_with_options_and_states() -> None:
    need_litert()
    path = corpus() / "coral/keras_lstm_mnist_ptq.tflite"
    graph = import_model(tflite.read_model(path.read_bytes()))
    written = tflite.write_model(export_model(graph))
    rng, (name,) = np.random.default_rng(0), graph.inputs
    type = graph.type(name)
    for _ in range(2):
        x = rng.integers(*type.dtype.limits, type.shape, endpoint=True).astype(type.dtype.numpy)
        (wanted,) = LiteRtModel(path.read_bytes(), xnnpack=False).run([x])
        (found,) = LiteRtModel(written, xnnpack=False).run([x])
        np.testing.assert_array_equal(found, wanted)
