"""Passes as text in, text out, and as meaning kept on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.graphs import random_graph
from tests.compiler.zoo import random_inputs

from fitzroy.base.errors import InternalError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, parse_graph, print_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.definition import Reject
from fitzroy.compiler.partition import Decided, partition
from fitzroy.compiler.passes.base import PASSES, Pass, run_passes
from fitzroy.compiler.passes.uint8 import LegalizeUint8, centre
from fitzroy.compiler.pipeline import CANONICALIZE
from fitzroy.compiler.reference import evaluate

Q = "quant(0.5 : 0)"

CASES = {
    "fold-constants": (
        """
  input %x : float32[2]
  const %c : float32[2]
  %d : float32[2] = abs(%c)
  %y : float32[2] = add(%x, %d) {activation = none}
  output %y
} data { %c = "AACAvwAAAEA=" }
""",
        """
  input %x : float32[2]
  const %d : float32[2]
  %y : float32[2] = add(%x, %d) {activation = none}
  output %y
}
""",
    ),
    "dead-code": (
        """
  input %x : float32[2]
  %a : float32[2] = abs(%x)
  %b : float32[2] = exp(%a)
  output %a
}
""",
        """
  input %x : float32[2]
  %a : float32[2] = abs(%x)
  output %a
}
""",
    ),
    "simplify": (
        """
  input %x : float32[2,3]
  %a : float32[6] = reshape(%x) {shape = [6]}
  %b : float32[3,2] = reshape(%a) {shape = [3, 2]}
  %c : float32[3,2] = transpose(%b) {perm = [0, 1]}
  %d : float32[3,2] = exp(%c)
  const %zeros : float32[2]
  const %one : float32[1]
  %e : float32[3,2] = add(%zeros, %d) {activation = none}
  %f : float32[3,2] = mul(%e, %one) {activation = none}
  %g : float32[3,2] = sub(%f, %zeros) {activation = none}
  %h : float32[3,2] = div(%g, %one) {activation = none}
  %y : float32[3,2] = copy(%h)
  output %y
} data { %zeros = "AAAAAAAAAAA=" %one = "AACAPw==" }
""",
        """
  input %x : float32[2,3]
  %b : float32[3,2] = reshape(%x) {shape = [3, 2]}
  %y : float32[3,2] = exp(%b) as %d
  output %y
}
""",
    ),
    "unread-pixels": (
        """
  input %x : float32[1,4,4,2]
  %a : float32[1,4,4,2] = resize_nearest_neighbor(%x) {size = [4, 4], sampling = legacy}
  const %c : float32[1,4,1]
  %b : float32[1,4,4,2] = max_pool_2d(%a) {kernel = [1, 3], stride = [1, 1], padding = same, activation = none}
  %d : float32[1,4,4,2] = add(%b, %c) {activation = none}
  %y : float32[1,2,2,2] = strided_slice(%d) {begin = [0, 1, 0, 0], size = [1, 2, 2, 2], stride = [1, 2, 2, 1]}
  output %y
} data { %c = "AAAAAAAAgD8AAABAAABAQA==" }
""",
        """
  input %x : float32[1,4,4,2]
  const %c/read : float32[1,2,1]
  %a : float32[1,4,4,2] = resize_nearest_neighbor(%x) {size = [4, 4], sampling = legacy}
  %a/read : float32[1,2,4,2] = strided_slice(%a) {begin = [0, 1, 0, 0], size = [1, 2, 4, 2], stride = [1, 2, 1, 1]}
  %b : float32[1,2,2,2] = max_pool_2d(%a/read) {kernel = [1, 3], stride = [1, 2], padding = [0, 0, 1, 0], activation = none}
  %d : float32[1,2,2,2] = add(%b, %c/read) {activation = none}
  %y : float32[1,2,2,2] = strided_slice(%d) {begin = [0, 0, 0, 0], size = [1, 2, 2, 2], stride = [1, 1, 1, 1]}
  output %y
}
""",
    ),
    "fuse-activations": (
        f"""
  input %x : int8[2] {Q}
  %a : int8[2] {Q} = add(%x, %x) {{activation = none}}
  %y : int8[2] {Q} = clamp(%a) {{min = 0.0, max = 6.0}}
  output %y
}}
""",
        f"""
  input %x : int8[2] {Q}
  %y : int8[2] {Q} = add(%x, %x) {{activation = relu6}} as %a
  output %y
}}
""",
    ),
    "fold-padding": (
        """
  input %x : float32[1,4,4,1]
  const %w : float32[1,1,1,1]
  %p : float32[1,5,6,1] = pad(%x) {before = [0, 0, 1, 0], after = [0, 1, 1, 0], value = 0.0}
  %y : float32[1,5,6,1] = conv_2d(%p, %w) {stride = [1, 1], dilation = [1, 1], padding = [0, 0, 0, 0], activation = none}
  output %y
} data { %w = "AACAPw==" }
""",
        """
  input %x : float32[1,4,4,1]
  const %w : float32[1,1,1,1]
  %y : float32[1,5,6,1] = conv_2d(%x, %w) {stride = [1, 1], dilation = [1, 1], padding = [0, 1, 1, 1], activation = none}
  output %y
}
""",
    ),
    "explicit-padding": (
        """
  input %x : float32[1,5,4,1]
  %y : float32[1,3,2,1] = max_pool_2d(%x) {kernel = [3, 3], stride = [2, 2], padding = same, activation = none}
  output %y
}
""",
        """
  input %x : float32[1,5,4,1]
  %y : float32[1,3,2,1] = max_pool_2d(%x) {kernel = [3, 3], stride = [2, 2], padding = [1, 1, 0, 1], activation = none}
  output %y
}
""",
    ),
    "legalize-xnnpack": (
        """
  input %x : int8[1,4] quant(0.5 : 0)
  %y : int8[1,4] quant(0.00390625 : -128) = softmax(%x) {beta = 1.0}
  output %y
}
""",
        """
  input %x : int8[1,4] quant(0.5 : 0)
  %y/dequantize : float32[1,4] = dequantize(%x)
  %y/softmax : float32[1,4] = softmax(%y/dequantize) {beta = 1.0}
  %y : int8[1,4] quant(0.00390625 : -128) = quantize(%y/softmax) as %y/quantize
  output %y
}
""",
    ),
    "channels-last-outputs": (
        """
  input %x : float32[1,2,3,4]
  %a : float32[1,2,3,4] = abs(%x)
  %y : float32[1,4,2,3] = transpose(%a) {perm = [0, 3, 1, 2]}
  %b : float32[1,2,3,4] = exp(%x)
  %z : float32[1,3,4,2] = transpose(%b) {perm = [0, 2, 3, 1]}
  %u : float32[1,4,2,3] = transpose(%x) {perm = [0, 3, 1, 2]}
  output %y
  output %z
  output %u
}
""",
        """
  input %x : float32[1,2,3,4]
  %b : float32[1,2,3,4] = exp(%x)
  %z : float32[1,3,4,2] = transpose(%b) {perm = [0, 2, 3, 1]}
  %u : float32[1,4,2,3] = transpose(%x) {perm = [0, 3, 1, 2]}
  %y : float32[1,2,3,4] = abs(%x) as %a
  output %y
  output %z
  output %u
}
""",
    ),
    "integer-borders": (
        """
  input %x : float32[1,4]
  input %z : float32[1,4]
  %a : int8[1,4] quant(0.5 : 0) = quantize(%x)
  %b : int8[1,4] quant(0.5 : 0) = quantize(%x)
  %c : int8[1,4] quant(0.25 : 0) = quantize(%z)
  %d : int8[1,4] quant(0.5 : 0) = quantize(%z)
  %e : int8[1,4] quant(1.0 : 0) = add(%a, %b) {activation = none}
  %f : int8[1,4] quant(1.0 : 0) = add(%c, %d) {activation = none}
  %g : int8[1,4] quant(1.0 : 0) = add(%e, %f) {activation = none}
  %y : float32[1,4] = dequantize(%g)
  %u : float32[1,4] = dequantize(%f)
  %v : float32[1,4] = abs(%u)
  output %y
  output %u
  output %v
}
""",
        """
  input %x : int8[1,4] quant(0.5 : 0)
  input %z : float32[1,4]
  %c : int8[1,4] quant(0.25 : 0) = quantize(%z)
  %d : int8[1,4] quant(0.5 : 0) = quantize(%z)
  %e : int8[1,4] quant(1.0 : 0) = add(%x, %x) {activation = none}
  %f : int8[1,4] quant(1.0 : 0) = add(%c, %d) {activation = none}
  %u : float32[1,4] = dequantize(%f)
  %v : float32[1,4] = abs(%u)
  %y : int8[1,4] quant(1.0 : 0) = add(%e, %f) {activation = none} as %g
  output %y
  output %u
  output %v
}
""",
    ),
}


def test_rectifiers_after_reshapes_are_part_of_the_operator_before_them() -> None:
    text = f"""graph "g" {{
  input %x : int8[2,2] {Q}
  %a : int8[2,2] {Q} = add(%x, %x) {{activation = none}}
  %b : int8[1,4] {Q} = reshape(%a) {{shape = [1, 4]}}
  %c : int8[4] {Q} = reshape(%b) {{shape = [4]}}
  %y : int8[4] {Q} = clamp(%c) {{min = 0.0, max = inf}}
  output %y
}}"""
    graph = parse_graph(text, attributes_of)
    fused = run_passes(graph, [PASSES.get("fuse-activations")])
    assert [node.op for node in fused.nodes()] == ["add", "reshape", "reshape"]
    x = np.array([[-3, 4], [5, -6]], np.int8)
    np.testing.assert_array_equal(evaluate(fused, {"x": x})["y"], evaluate(graph, {"x": x})["y"])
    assert evaluate(fused, {"x": x})["y"].min() == 0


@pytest.mark.parametrize("name", CASES)
def test_pass(name: str) -> None:
    before, after = CASES[name]
    graph = parse_graph('graph "g" {' + before, attributes_of)
    result = run_passes(graph, [PASSES.get(name)])
    assert print_graph(result, data=False).strip() == 'graph "g" {' + after.rstrip()
    assert print_graph(run_passes(result, [PASSES.get(name)])) == print_graph(result)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # The clamp's input is read elsewhere, so it must stay.
        (
            "fuse-activations",
            """
  input %x : float32[2]
  %a : float32[2] = add(%x, %x) {activation = none}
  %b : float32[2] = clamp(%a) {min = 0.0, max = 6.0}
  %y : float32[2] = add(%a, %b) {activation = none}
  output %y
}
""",
        ),
        # The clamp's operand is read elsewhere after a reshape.
        (
            "fuse-activations",
            """
  input %x : float32[2,2]
  %a : float32[2,2] = add(%x, %x) {activation = none}
  %r : float32[4] = reshape(%a) {shape = [4]}
  %b : float32[4] = clamp(%r) {min = 0.0, max = 6.0}
  %y : float32[2,2] = abs(%a)
  output %b
  output %y
}
""",
        ),
        # What lies between is no reshape.
        (
            "fuse-activations",
            """
  input %x : float32[2,3]
  %a : float32[2,3] = add(%x, %x) {activation = none}
  %r : float32[3,2] = transpose(%a) {perm = [1, 0]}
  %y : float32[3,2] = clamp(%r) {min = 0.0, max = 6.0}
  output %y
}
""",
        ),
        # Padding with a value other than zero is not what a convolution pads with.
        (
            "fold-padding",
            """
  input %x : float32[1,4,4,1]
  input %w : float32[1,1,1,1]
  %p : float32[1,5,4,1] = pad(%x) {before = [0, 1, 0, 0], after = [0, 0, 0, 0], value = 1.0}
  %y : float32[1,5,4,1] = conv_2d(%p, %w) {stride = [1, 1], dilation = [1, 1], padding = [0, 0, 0, 0], activation = none}
  output %y
}
""",
        ),
        # Zero less a number, one divided by it, and clamped sums with zero are something else.
        (
            "simplify",
            """
  input %x : float32[2]
  const %zero : float32[1]
  const %one : float32[1]
  %a : float32[2] = sub(%zero, %x) {activation = none}
  %b : float32[2] = div(%one, %a) {activation = none}
  %c : float32[2] = add(%b, %zero) {activation = relu}
  %y : float32[2] = exp(%c)
  output %y
} data { %zero = "AAAAAA==" %one = "AACAPw==" }
""",
        ),
        # An output keeps a value of its own.
        (
            "simplify",
            """
  input %x : float32[2]
  %y : float32[2] = copy(%x)
  output %y
}
""",
        ),
    ],
)
def test_pass_leaves_alone(name: str, text: str) -> None:
    graph = parse_graph('graph "g" {' + text, attributes_of)
    assert print_graph(run_passes(graph, [PASSES.get(name)])) == print_graph(graph)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("seed", range(8))
def test_canonical_form_means_the_same(seed: int, dtype: DType) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, dtype, nodes=10)
    inputs = random_inputs(graph, rng)
    wanted = evaluate(graph, inputs)
    after = evaluate(run_passes(graph, CANONICALIZE), inputs)
    for name in graph.outputs:
        np.testing.assert_array_equal(after[name], wanted[name])


@pytest.mark.parametrize("seed", range(8))
def test_fast_uint8_keeps_types_at_the_border_and_stays_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, DType.UINT8, nodes=4)
    result = run_passes(graph, [LegalizeUint8()])
    for name in (*graph.inputs, *graph.outputs):
        assert result.type(name) == graph.type(name)
    inner = {v.type.dtype for v in result.values.values()} - {DType.INT32}
    assert DType.INT8 in inner
    for node in result.nodes():
        if node.op != "quantize":
            assert all(result.type(n).dtype is DType.INT8 for n in node.outputs)


def test_centred_filters_are_exact_where_they_fit() -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(10, 200, (6, 3, 3, 4), np.uint8)
    data[2] = 255
    stored, scale, factor = centre(data, Quantization.per_tensor(0.02, 100), 0)
    centred = data.astype(int) - 100
    fits = np.array([row.min() >= -128 and row.max() <= 127 for row in centred])
    assert not fits[2]
    np.testing.assert_array_equal(stored[fits], centred[fits])
    assert stored[2].max() == 127
    np.testing.assert_allclose(stored[2] * scale[2], centred[2] * 0.02, rtol=0.01)
    assert (factor[fits] == 1).all()


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    class Break(Pass):
        name = "break"

        def run(self, graph: Graph) -> Graph:
            type = TensorType((7,), DType.FLOAT32)
            graph.add_node(Node("bad", "abs", ("x",), ("bad",)), (type,))
            return graph

    graph = Graph("g")
    graph.add_input("x", TensorType((1,), DType.FLOAT32))
    graph.outputs = [graph.emit("abs", ["x"], TensorType((1,), DType.FLOAT32))]
    with pytest.raises(InternalError, match="pass break broke the graph"):
        run_passes(graph, [Break()])
    assert len(graph.nodes()) == 1


def test_groups_never_wait_for_one_another_in_a_circle() -> None:
    no = Reject("taste", "not to my taste")
    type = TensorType((1,), DType.FLOAT32)
    graph = Graph("g")
    graph.add_input("x", type)
    a = graph.emit("abs", ["x"], type, stem="a")
    b = graph.emit("exp", [a], type, stem="b")
    graph.outputs = [graph.emit("maximum", [a, b], type, stem="c")]
    picky = Decided("picky", {n.name: (no,) for n in graph.nodes() if n.op != "abs"})
    groups = partition(graph, (picky, Decided("other")))
    assert all(reject.code == "taste" for reject in groups[1].rejects)
    assert [(p.target, [n.name for n in p.nodes]) for p in groups] == [
        ("picky", ["a"]),
        ("other", ["b", "c"]),
    ]
    done = {"x"}
    for group in groups:
        for node in group.nodes:
            assert done.issuperset(n for n in node.inputs if n)
            done.update(node.outputs)


def test_nodes_wait_for_readers_of_their_target_alone() -> None:
    """A result that another target reads is moved there, whenever it is computed."""
    no = Reject("taste", "not to my taste")
    type = TensorType((1,), DType.FLOAT32)
    graph = Graph("g")
    graph.add_input("x", type)
    first, early = (graph.emit("abs", ["x"], type, stem=stem) for stem in ("first", "early"))
    late = graph.emit("abs", ["x"], type, stem="late")
    other = graph.emit("exp", [first], type, stem="other")
    second = graph.emit("maximum", [graph.emit("abs", [other], type, stem="abs"), late], type)
    graph.outputs = [graph.emit("pow", [second, early], type, stem="end")]
    picky = Decided("picky", {n.name: (no,) for n in graph.nodes() if n.op in ("exp", "pow")})
    groups = partition(graph, (picky, Decided("other")))
    assert [(p.target, sorted(n.name for n in p.nodes)) for p in groups] == [
        ("picky", ["early", "first"]),
        ("other", ["other"]),
        ("picky", ["abs", "late", "maximum"]),
        ("other", ["end"]),
    ]
