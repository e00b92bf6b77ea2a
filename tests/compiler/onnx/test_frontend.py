"""Reading ONNX models: borders, constants, shapes that are open, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, helper, model, operators, read

from fitzroy.base import budget
from fitzroy.base.errors import CapacityError, FormatError, UnsupportedError, UsageError
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.reader import decode
from fitzroy.compiler.reference import evaluate
from fitzroy.formats.detect import FileKind, detect

RNG = np.random.default_rng(7)


def test_is_told_by_content() -> None:
    data = model([helper().make_node("Relu", ["x"], ["y"])], [("x", [2])], ["y"])
    assert detect(data) is FileKind.ONNX


def test_open_first_extent_counts_one() -> None:
    data = model([helper().make_node("Relu", ["x"], ["y"])], [("x", ["batch", 3])], ["y"])
    assert read(data).type("y").shape == (1, 3)
    how = Reading(shapes={"x": (4, 3)})
    assert read(data, how).type("y").shape == (4, 3)
    assert read(data, Reading(shapes={"0": (5, 3)})).type("y").shape == (5, 3)


def test_other_open_extents_are_asked_for() -> None:
    data = model([helper().make_node("Relu", ["x"], ["y"])], [("x", ["n", 3, "h"])], ["y"])
    with pytest.raises(UnsupportedError, match="--input x="):
        read(data)
    with pytest.raises(UsageError, match="has shape \\?x3x\\?, not 1x4x5"):
        read(data, Reading(shapes={"x": (1, 4, 5)}))
    with pytest.raises(UsageError, match="no input 'z'"):
        read(data, Reading(shapes={"z": (1,)}))


def test_shape_arithmetic_is_done_at_once() -> None:
    node = helper().make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["n"], axis=0),
        node("Mul", ["n", "two"], ["m"]),
        node("Concat", ["m", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {
        "first": np.array([0]), "two": np.array([2]), "rest": np.array([-1]),
    }  # fmt: skip
    data = model(nodes, [("x", [3, 4])], ["y"], constants)
    graph = compare(data, {"x": RNG.standard_normal((3, 4)).astype(np.float32)})
    assert operators(graph) == ["reshape"]
    assert graph.type("y").shape == (6, 2)


def test_operators_that_nothing_needs_are_left_out() -> None:
    node = helper().make_node
    nodes = [node("Relu", ["x"], ["y"]), node("Unknown", ["x"], ["z"])]
    assert operators(read(model(nodes, [("x", [2])], ["y"]))) == ["clamp"]


def test_every_refusal_is_said_at_once() -> None:
    node = helper().make_node
    nodes = [
        node("Unknown", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Other", ["x"], ["c"]),
        node("Add", ["b", "c"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        read(model(nodes, [("x", [2])], ["y"]))
    assert [reject.code for reject in caught.value.rejects] == ["onnx-operator"] * 2
    assert "operator 2 (Other, 'c')" in str(caught.value)


def test_input_and_constant_may_be_outputs() -> None:
    nodes = [helper().make_node("Identity", ["x"], ["y"])]
    data = model(nodes, [("x", [2])], ["y", "x", "c"], {"c": np.ones(3, np.float32)})
    found = evaluate(read(data), {"x": np.array([1, 2], np.float32)})
    assert {name: array.tolist() for name, array in found.items()} == {
        "y": [1, 2], "x": [1, 2], "c": [1, 1, 1],
    }  # fmt: skip


def test_values_may_be_several_outputs() -> None:
    node = helper().make_node
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["b"]),
        node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=0),
        node("LayerNormalization", ["x", "one"], ["y", "mean"], axis=0),
        node("Identity", ["mean"], ["z"]),
    ]
    outputs = ["z", "y", "b", "a", "mean", "m"]
    data = model(nodes, [("x", [3])], outputs, {"one": np.ones(3, np.float32)})
    assert compare(data, {"x": np.array([1, -2, 5], np.float32)}).outputs == outputs


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Relu", ["y"], ["y"])], "read before anything gives it"),
        ([("Relu", ["b"], ["a"]), ("Relu", ["a"], ["b"]), ("Relu", ["b"], ["y"])], "read before"),
        ([("Relu", ["x"], ["y"]), ("Abs", ["x"], ["y"])], "given twice"),
        ([("Relu", ["x"], ["x"]), ("Relu", ["x"], ["y"])], "given twice"),
    ],
)
def test_nodes_that_form_no_graph(
    nodes: list[tuple[str, list[str], list[str]]], message: str
) -> None:
    made = [helper().make_node(*node) for node in nodes]
    with pytest.raises(FormatError, match=message):
        read(model(made, [("x", [2])], ["y"]))


def test_nodes_in_any_order() -> None:
    # As in models that were converted to float16: the border comes last.
    node = helper().make_node
    nodes = [
        node("Conv", ["half", "filter"], ["sum"]),
        node("Cast", ["sum"], ["y"], to=1),
        node("Cast", ["x"], ["half"], to=10),
    ]
    constants = {"filter": RNG.standard_normal((4, 3, 1, 1)).astype(np.float16)}
    found = read(model(nodes, [("x", [1, 3, 5, 6])], ["y"], constants))
    expected = read(model([nodes[2], *nodes[:2]], [("x", [1, 3, 5, 6])], ["y"], constants))
    assert str(found) == str(expected)


def test_what_a_branch_reads_runs_before_it() -> None:
    make = helper()
    branches = {
        f"{name}_branch": make.make_graph(
            [make.make_node(op, ["late"], [name])], name, [],
            [make.make_tensor_value_info(name, 1, [2])],
        )
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }  # fmt: skip
    nodes = [
        make.make_node("If", ["known"], ["y"], **branches),
        make.make_node("Abs", ["x"], ["late"]),
    ]
    data = model(nodes, [("x", [2])], ["y"], {"known": np.array(True)})
    found = evaluate(read(data), {"x": np.array([-1, 2], np.float32)})
    assert found["y"].tolist() == [1, 2]


def test_models_that_select_boxes_have_a_remedy() -> None:
    node = helper().make_node
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores"], ["kept"]),
        node("NonZero", ["x"], ["y"]),
    ]
    with pytest.raises(UnsupportedError, match="export it without NonMaxSuppression") as caught:
        read(model(nodes, [("x", [2])], ["y"]))
    assert "NonZero" in caught.value.rejects[0].where


def test_models_that_select_boxes_in_a_branch_have_a_remedy() -> None:
    """torchvision's detectors suppress boxes only if there are any."""
    node, graph = helper().make_node, helper().make_graph
    kept = helper().make_tensor_value_info("kept", 7, None)
    branch = graph([node("NonMaxSuppression", ["boxes", "scores"], ["kept"])], "some", [], [kept])
    nodes = [
        node("NonZero", ["x"], ["y"]),
        node("If", ["any"], ["z"], then_branch=branch, else_branch=branch),
    ]
    with pytest.raises(UnsupportedError, match="only the backbone and the head"):
        read(model(nodes, [("x", [2])], ["y"]))


@pytest.mark.parametrize("opset", [1, 6, 99])
def test_unknown_operator_sets(opset: int) -> None:
    data = model([helper().make_node("Relu", ["x"], ["y"])], [("x", [2])], ["y"], opset=opset)
    with pytest.raises(UnsupportedError, match=f"operator set {opset} of ONNX"):
        read(data)


def test_bytes_that_are_no_model() -> None:
    helper()
    with pytest.raises(FormatError, match="no ONNX model"):
        decode(b"\x08\x07\x12\xff\xff", "x.onnx")
    with pytest.raises(FormatError, match="holds no graph"):
        decode(b"\x08\x07", "x.onnx")


def external(location: str, **fields: int) -> bytes:
    """A model whose one constant of two numbers lies in another file."""
    h = helper()
    import onnx

    made = onnx.ModelProto.FromString(
        model([h.make_node("Add", ["x", "c"], ["y"])], [("x", [2])], ["y"])
    )
    tensor = made.graph.initializer.add()
    tensor.name, tensor.data_type = "c", onnx.TensorProto.FLOAT
    tensor.dims.append(2)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return bytes(made.SerializeToString())


def test_external_data_of_the_folder(tmp_path: Path) -> None:
    helper()
    (tmp_path / "data.bin").write_bytes(b"\0" * 4 + np.array([1, 2], np.float32).tobytes())
    graph = read(external("data.bin", offset=4, length=8), path=str(tmp_path / "m.onnx"))
    found = evaluate(graph, {"x": np.zeros(2, np.float32)})
    assert found["y"].tolist() == [1, 2]


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "missing", "", "link", "."])
def test_external_data_elsewhere(tmp_path: Path, location: str) -> None:
    helper()
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError, match="no file in the model's folder"):
        read(external(location), path=str(folder / "m.onnx"))


def test_external_data_too_short(tmp_path: Path) -> None:
    helper()
    (tmp_path / "data.bin").write_bytes(b"\0" * 4)
    with pytest.raises(FormatError, match="which has 4"):
        read(external("data.bin", length=8), path=str(tmp_path / "m.onnx"))
    with pytest.raises(FormatError, match=r"do not fit|hold no"):
        read(external("data.bin"), path=str(tmp_path / "m.onnx"))


@pytest.mark.parametrize("dtype", [np.complex64, np.str_])
def test_constants_of_other_elements_are_refused(dtype: type) -> None:
    data = model(
        [helper().make_node("Tile", ["x", "c"], ["y"])], [("x", [2])], ["y"],
        {"c": np.array([1]).astype(dtype)},
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="onnx-element-type"):
        read(data)


def test_constants_are_counted_before_they_are_made() -> None:
    node = helper().make_node
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])]
    data = model(nodes, [("x", [2])], ["y"], {"s": np.array([1 << 20, 1 << 20])})
    with budget.limited(1 << 20), pytest.raises(CapacityError, match="a constant of shape"):
        read(data)


def test_filters_of_volumes_that_do_not_fit_are_refused() -> None:
    shape, node = [1, 2, 3, 4, 4], helper().make_node
    for group, filter, offsets in ((1, (2, 2, 3, 3, 3), 3), (2, (3, 1, 3, 3, 3), 3)):
        made = {"w": np.ones(filter, np.float32), "b": np.ones(offsets, np.float32)}
        data = model(
            [node("Conv", ["x", "w", "b"], ["y"], group=group)], [("x", shape)], ["y"], made
        )
        with pytest.raises(UnsupportedError, match=r"an offset \[3\] for 2|3 results of 2 groups"):
            read(data)
