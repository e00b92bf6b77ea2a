from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.graphs import random_graph
from tests.work import calls_at_most

from fitzroy.base.errors import FormatError, InternalError, UsageError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Origin, Value, parse_graph, print_graph
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.opaque import OpaqueAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.reference import evaluate, verify

REAL = TensorType((1, 4), DType.FLOAT32)


def chain() -> Graph:
    graph = Graph("chain")
    graph.add_input("x", REAL)
    y = graph.emit("abs", ["x"], REAL, stem="y")
    z = graph.emit("exp", [y], REAL, stem="z")
    graph.outputs = [z]
    return graph


def test_copying_a_large_graph_is_cheap() -> None:
    """Rules that rewrite nodes copy the graph for each."""
    graph = Graph("long")
    value = graph.add_input("x", REAL)
    for _ in range(500):
        value = graph.emit("abs", [value], REAL)
    graph.outputs = [value]
    with calls_at_most(40):
        copy = graph.copy()
    assert copy.nodes() == graph.nodes()
    # Whoever changes a copy leaves the original as it was.
    copy.update(Node("abs", "exp", ("x",), ("abs",)))
    copy.remove("abs.499")
    assert graph.node("abs").op == "abs"
    assert len(graph.nodes()) == 500
    assert [node.op for node in copy.nodes()] == ["exp", *["abs"] * 498]


def test_a_graph_with_a_cycle_has_no_order() -> None:
    graph = Graph("circle")
    for name in ("a", "b"):
        graph.add_value(Value(name, REAL))
    graph.add_node(Node("first", "abs", ("a",), ("b",)))
    graph.add_node(Node("second", "abs", ("b",), ("a",)))
    with pytest.raises(InternalError, match="the graph has a cycle"):
        graph.nodes()


def test_nodes_are_topological_and_keep_insertion_order() -> None:
    graph = Graph("diamond")
    graph.add_input("x", REAL)
    left = graph.emit("abs", ["x"], REAL, stem="left")
    right = graph.emit("exp", ["x"], REAL, stem="right")
    graph.outputs = [graph.emit("add", [right, left], REAL, ActivationAttributes(), stem="sum")]
    assert [node.name for node in graph.nodes()] == ["left", "right", "sum"]
    assert [node.name for node in graph.consumers("x")] == ["left", "right"]
    producer = graph.producer("sum")
    assert producer is not None
    assert producer.inputs == ("right", "left")


def test_replace_uses_reaches_readers_and_outputs() -> None:
    graph = chain()
    other = graph.emit("floor", ["x"], REAL, stem="other")
    graph.replace_uses("y", other)
    graph.replace_uses("z", other)
    assert graph.outputs == [other]
    assert graph.prune() == 2
    assert [node.op for node in graph.nodes()] == ["floor"]
    assert set(graph.values) == {"x", "other"}


def test_update_keeps_the_place_in_the_order() -> None:
    graph = chain()
    graph.update(Node("y", "negate", ("x",), ("y",)))
    assert [node.op for node in graph.nodes()] == ["negate", "exp"]


def test_cut_computes_only_what_is_asked_for() -> None:
    cut = chain().cut(["y"])
    assert [node.name for node in cut.nodes()] == ["y"]
    with pytest.raises(UsageError, match="no value named 'nowhere'"):
        chain().cut(["nowhere"])


def test_copies_are_independent() -> None:
    graph = chain()
    copy = graph.copy()
    copy.emit("abs", ["z"], REAL)
    assert len(graph.nodes()) == 2
    assert len(copy.nodes()) == 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g: g.add_value(Value("x", REAL)), "defined twice"),
        (
            lambda g: g.add_node(Node("n", "abs", ("nowhere",), ("n",)), (REAL,)),
            "unknown 'nowhere'",
        ),
        (lambda g: g.add_node(Node("n", "abs", ("x",), ("y",))), "produced twice"),
        (lambda g: g.add_node(Node("y", "abs", ("x",), ("n",)), (REAL,)), "defined twice"),
        (lambda g: g.add_value(Value("c", REAL, np.zeros(3, np.float32))), "not have its type"),
    ],
)
def test_inconsistent_construction_is_refused(build: object, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        build(chain())  # type: ignore[operator]


def test_verify_names_the_node_and_the_rule() -> None:
    graph = chain()
    graph.add_node(Node("bad", "abs", ("z",), ("bad",)), (TensorType((2, 2), DType.FLOAT32),))
    with pytest.raises(
        InternalError, match=r"abs 'bad' is ill-typed.*shape \[2, 2\], not \[1, 4\]"
    ):
        verify(graph)


def test_text_form_of_a_small_graph() -> None:
    graph = Graph("small net")
    graph.add_input("image", TensorType((1, 4, 4, 1), DType.INT8, Quantization((0.5,), (-128,))))
    graph.add_value(
        Value(
            "w",
            TensorType((2, 1, 1, 1), DType.INT8, Quantization((0.5, 0.25), (0, 0), 0)),
            np.array([1, -1], np.int8).reshape(2, 1, 1, 1),
        )
    )
    out = TensorType((1, 4, 4, 2), DType.INT8, Quantization((1.0,), (3,)))
    attributes = ConvAttributes((1, 1), (1, 1), PaddingScheme.SAME, Activation.RELU6)
    origin = Origin("a.tflite", 0, 7)
    graph.add_node(
        Node("model/conv 1", "conv_2d", ("image", "w", None), ("y",), attributes, origin), (out,)
    )
    graph.outputs = ["y"]
    text = print_graph(graph)
    assert text == (
        'graph "small net" {\n'
        "  input %image : int8[1,4,4,1] quant(0.5 : -128)\n"
        "  const %w : int8[2,1,1,1] quant(0.5, 0.25 : 0 : axis 0)\n"
        "  %y : int8[1,4,4,2] quant(1.0 : 3) = conv_2d(%image, %w, _) {stride = [1, 1],"
        " dilation = [1, 1], padding = same, activation = relu6}"
        ' as %"model/conv 1" @ "a.tflite":0:7\n'
        "  output %y\n"
        "}\n"
        "data {\n"
        '  %w = "Af8="\n'
        "}\n"
    )
    again = parse_graph(text, attributes_of)
    assert print_graph(again) == text
    assert again.nodes() == graph.nodes()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_text_form_round_trips_random_graphs(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    text = print_graph(graph)
    again = parse_graph(text, attributes_of)
    assert print_graph(again) == text
    rng = np.random.default_rng(seed)
    inputs = {n: rng.integers(-128, 128, graph.type(n).shape, np.int8) for n in graph.inputs}
    ours, theirs = evaluate(graph, inputs), evaluate(again, inputs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in graph.outputs)


@pytest.mark.parametrize(
    "value",
    [
        OpaqueAttributes('quote " and \\ backslash\nline', b"\0\xff", 3),
        ClampAttributes(float("-inf"), 1e-30),
        ClampAttributes(-0.0, float("inf")),
    ],
)
def test_attributes_survive_the_text_form(value: ClampAttributes | OpaqueAttributes) -> None:
    graph = Graph("g")
    graph.add_input("x", REAL)
    op = "clamp" if isinstance(value, ClampAttributes) else "opaque"
    graph.outputs = [graph.emit(op, ["x"], REAL, value)]
    assert parse_graph(print_graph(graph), attributes_of).nodes()[0].attributes == value


def test_shortened_text_keeps_names_apart_and_lines_short() -> None:
    stem = "MobileNetV2/expanded_conv_2/depthwise/relu6/Relu6/and/more"
    names = [f"{stem};{other}" for other in ("first", "second")]
    graph = Graph("fused")
    graph.add_input(names[0], REAL)
    graph.add_value(Value(names[1], REAL))
    options = OpaqueAttributes(code="edgetpu-custom-op", options=bytes(9000))
    origin = Origin("/a/folder/model.tflite", 0, 0)
    graph.add_node(Node(names[1], "opaque", (names[0],), (names[1],), options, origin))
    graph.outputs = [names[1]]
    text = print_graph(graph, most=30)
    assert max(map(len, text.splitlines())) < 300
    lines = text.splitlines()
    first, second = lines[1].split()[1], lines[-2].split()[1]
    assert second == f"{first}~2"
    assert f" = opaque({first}) " in text
    assert "… 9,000 bytes" in text
    assert '@ "model.tflite":0:0' in text
    assert print_graph(graph).count(names[0]) == 2


def _listed(value: str) -> str:
    return f'graph "g" {{ input %x : int8[1] %y : int8[1] = reshape(%x) {{shape = {value}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "where .graph. is expected"),
        ("graph 5", "a string is expected"),
        ('graph "g" { output %x }', "output 'x' is not defined"),
        ('graph "g" { input %x : int9[1] }', "no element type 'int9'"),
        ('graph "g" { input %x : int8[-1] }', "negative extent"),
        ('graph "g" { input %x : int8[1] quant(1.0 : 0, 1) }', "2 zero points for 1 scales"),
        ('graph "g" { input %x : int8[1] quant(1.0 : 0 : axis 3) }', "1 scales along dimension 3"),
        ('graph "g" { input %x : int8[3] quant(1, 1 : 0 : axis 0) }', "2 scales along dimension 0"),
        ('graph "g" { input %x : int8[2] quant(1, 1 : 0) }', "2 scales of a whole tensor"),
        ('graph "g" { input %x : int8[1] quant(1 : 128) }', "zero point 128 of int8"),
        (f'graph "g" {{ input %x : int64[1] quant(1 : {"9" * 30}) }}', "zero point of 100 bits"),
        ('graph "g" { input %x : int64[1] quant(1 : 4294967296) }', "exceeds 32 bits"),
        ('graph "g" { input %x : float16[1] quant(1 : 0) }', "float16 with a quantization"),
        *(
            (
                f'graph "g" {{ input %x : int8[1] quant({scale} : 0) }}',
                "no positive, normal float32",
            )
            for scale in ("0", "-1", "1e-46", "1e-40", "1e39", "inf", "nan", "9" * 400)
        ),
        ('graph "g" { %y : float32[1] = clamp(%x) {min = 1e39} }', "float32 holds"),
        (f'graph "g" {{ %y : int8[1] = mean(%x) {{axes = [{"9" * 30}]}} }}', "of 100 bits"),
        ('graph "g" { const %x : int8[1] }', "no data for constant 'x'"),
        ('graph "g" { const %x : int8[1] } data { %x = "AAA" }', "base64"),
        ('graph "g" { const %x : int8[1] } data { %x = "AAAA" }', "3 bytes of data for 1"),
        ('graph "g" { %y : int8[1] = nonsense() }', "no operator 'nonsense'"),
        ('graph "g" { %y : float32[1] = abs(%x) }', "reads undefined 'x'"),
        ('graph "g" { input %x : int8[1] input %x : int8[1] }', "defined twice"),
        ('graph "g" { input %x : float32[1] %y : float32[1] = clamp(%x) {low = 1} }', "no 'low'"),
        ('graph "g" { } trailing', "after the graph"),
        ('graph "g" { ?', "unexpected character"),
        ('graph "\\q" { }', "escape"),
        (f'graph "g" {{ input %x : int8[{"9" * 5000}] }}', "integer"),
        (_listed("[" * 9 + "]" * 9), "lists within lists, more than 8 deep"),
        (_listed("[" * 100_000), "lists within lists, more than 8 deep"),
        (_listed("[" * 8 + "]" * 8), "where .* is expected"),
        ('graph "g" { input %x : int8[1] quant(1e-45 : 0) }', "no positive, normal float32"),
        ('graph "g" { input %x : int8[1] quant(1e39 : 0) }', "no positive, normal float32"),
        ('graph "g" { input %x : int8[1] quant(nan : 0) }', "no positive, normal float32"),
        ('graph "g" { input %x : int8[1] quant(0 : 0) }', "no positive, normal float32"),
    ],
)
def test_malformed_text_is_refused_with_a_place(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_graph(text, attributes_of, path="g.ir")
    assert caught.value.path == "g.ir"
    assert caught.value.offset is not None


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_text_gives_only_format_errors(data: st.DataObject) -> None:
    text = print_graph(random_graph(np.random.default_rng(1)))
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 5))
    patch = data.draw(st.text('abc%"[]{}(),:=@0159.-_ \n', max_size=4))
    with contextlib.suppress(FormatError):
        parse_graph(text[:at] + patch + text[at + length :], attributes_of)


def test_fresh_names_are_the_lowest_that_are_free() -> None:
    """Also after nodes and values are gone or have other names."""
    random, graph = np.random.default_rng(4), Graph("names")
    type = TensorType((1,), DType.FLOAT32)
    graph.outputs = [graph.add_input("x", type)]
    for _ in range(400):
        stem = str(random.choice(["x", "x.1", "x.007", "y", "y.2"]))
        taken = {*graph.values, *(node.name for node in graph.nodes())}
        assert graph.fresh(stem) == unused_name(stem, taken)
        name = graph.emit("neg", [graph.outputs[0]], type, stem=stem)
        choice = random.random()
        if choice < 0.6:
            graph.outputs = [name]
        elif choice < 0.7:
            graph.rename_output(graph.outputs[0], graph.fresh("y"))
        elif choice < 0.8:
            graph.remove(name)
        elif choice < 0.9:
            graph.prune()
        else:
            graph = graph.copy()


def test_names_of_one_stem_are_found_at_once() -> None:
    """The work for a name does not grow with the names that its stem has."""

    class Counted(dict[str, Value]):
        asked = 0

        def __contains__(self, key: object) -> bool:
            Counted.asked += 1
            return super().__contains__(key)

    graph = Graph("names")
    graph._values = Counted()
    type = TensorType((1,), DType.FLOAT32)
    name = graph.add_input("x", type)
    for _ in range(300):
        name = graph.emit("neg", [name], type)
    assert Counted.asked < 10 * 300
