"""ONNX models that choose boxes: what is left out of them, and what is listed in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler.onnx.models import helper, model, read
from tests.support import need

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections

Floats = npt.NDArray[np.float32]

SIDE, STRIDE, CLASSES, BESIDE = 64, 8, 3, 2
CELLS = SIDE // STRIDE
COUNT = CELLS * CELLS
SCORE, OVERLAP = 0.3, 0.4
MOST = COUNT
UP_TO_CHOICE = Reading(keep_layout=True, before_choice=True)


def constants(classes: int) -> dict[str, Any]:
    random = np.random.default_rng(6)
    x, y = np.meshgrid(np.arange(CELLS), np.arange(CELLS))
    points = (np.stack([x.ravel(), y.ravel()], 1)[None] + 0.5) * STRIDE
    wide = 4 + classes
    bias = np.concatenate([np.full(4, 12), np.full(classes, -1.5 if classes > 1 else 0.0)])
    return {
        "filters": (random.normal(0, 1.5, (wide, 3, STRIDE, STRIDE)) / STRIDE).astype(np.float32),
        "bias": bias.astype(np.float32),
        "points": points.astype(np.float32),
        "rows": np.array([1, wide, COUNT]),
        "box": np.array([2, 2]),
        "parts": np.array([4, classes]),
        "score": np.array([SCORE], np.float32),
        "overlap": np.array([OVERLAP], np.float32),
        "most": np.array([MOST]),
        "zero": np.array(0),
        "one": np.array([0]),
        "two": np.array([2]),
        "last": np.array([-1]),
        "flat": np.array([-1]),
        "column": np.array([-1, 1]),
        "apart": np.array(1000, np.float32),
    }


def decoded() -> list[Any]:
    """Distances from the middles of cells as corners [1,n,4], and scores [1,n,c]."""
    node = helper().make_node
    return [
        node("Conv", ["image", "filters", "bias"], ["layer"], strides=[STRIDE, STRIDE]),
        node("Reshape", ["layer", "rows"], ["channels"]),
        node("Transpose", ["channels"], ["numbers"], perm=[0, 2, 1]),
        node("Split", ["numbers", "parts"], ["distances", "logits"], axis=2),
        node("Split", ["distances", "box"], ["before", "after"], axis=2),
        node("Sub", ["points", "before"], ["low"]),
        node("Add", ["points", "after"], ["high"]),
        node("Sigmoid", ["logits"], ["sigmoid"]),
        node("Concat", ["low", "high", "sigmoid"], ["joint"], axis=2),
        node("Split", ["joint", "parts"], ["boxes", "scores"], axis=2),
        node("ReduceMax", ["scores"], ["best"], axes=[2], keepdims=0),
        node("ArgMax", ["scores"], ["label"], axis=2, keepdims=0),
    ]


def compressed(classes: int = CLASSES) -> bytes:
    """Boxes with a sufficient score are told first, then the best of them, as Ultralytics does."""
    node = helper().make_node
    chosen = [("boxes", "box1"), ("best", "best1"), ("label", "label1")]
    nodes = [
        *(node("Gather", [name, "zero"], [one], axis=0) for name, one in chosen),
        node("Greater", ["best1", "score"], ["sure"]),
        node("NonZero", ["sure"], ["places"]),
        node("Transpose", ["places"], ["where"], perm=[1, 0]),
        *(node("GatherND", [one, "where"], [f"some {one}"]) for _, one in chosen),
        node("Cast", ["some label1"], ["number"], to=1),
        node("Mul", ["number", "apart"], ["offset"]),
        node("Reshape", ["offset", "column"], ["offsets"]),
        node("Add", ["some box1", "offsets"], ["moved"]),
        node("Unsqueeze", ["moved", "one"], ["moved1"]),
        node("Reshape", ["some best1", "column"], ["scored"]),
        node("Transpose", ["scored"], ["scored1"], perm=[1, 0]),
        node("Unsqueeze", ["scored1", "one"], ["scored2"]),
        node("NonMaxSuppression", ["moved1", "scored2", "most", "overlap"], ["kept"]),
        node("Gather", ["kept", "two"], ["index"], axis=1),
        node("Reshape", ["index", "flat"], ["indices"]),
        node("Gather", ["some box1", "indices"], ["a"], axis=0),
        node("Gather", ["scored", "indices"], ["b"], axis=0),
        node("Reshape", ["number", "column"], ["numbers1"]),
        node("Gather", ["numbers1", "indices"], ["c"], axis=0),
        node("Concat", ["a", "b", "c"], ["objects"], axis=1),
    ]
    image = ("image", [1, 3, SIDE, SIDE])
    return model([*decoded(), *nodes], [image], ["objects"], constants(classes))


def suppressed() -> bytes:
    """All boxes are suppressed by their best classes, which move them apart, as YOLOv7 does."""
    node = helper().make_node
    nodes = [
        node("Unsqueeze", ["label", "last"], ["label1"]),
        node("Cast", ["label1"], ["number"], to=1),
        node("Mul", ["number", "apart"], ["offsets"]),
        node("Add", ["boxes", "offsets"], ["moved"]),
        node("Unsqueeze", ["best", "last"], ["best1"]),
        node("Transpose", ["best1"], ["best2"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["moved", "best2", "most", "overlap", "score"], ["kept"]),
        node("Gather", ["kept", "two"], ["index"], axis=1),
        node("Reshape", ["index", "flat"], ["indices"]),
        *(
            node("Gather", [name, "indices"], [f"some {name}"], axis=1)
            for name in ("boxes", "best1", "number")
        ),
        node("Concat", ["some boxes", "some best1", "some number"], ["rows1"], axis=2),
        node("Gather", ["rows1", "zero"], ["objects"], axis=0),
    ]
    image = ("image", [1, 3, SIDE, SIDE])
    return model([*decoded(), *nodes], [image], ["objects"], constants(CLASSES))


MODELS = {
    "compressed": compressed,
    "one class": lambda: compressed(1),
    "suppressed": suppressed,
}


@pytest.mark.parametrize("kind", MODELS)
def test_objects_are_those_that_the_model_chooses(kind: str) -> None:
    """ONNX Runtime runs the model with its choice."""
    need("onnxruntime", "onnx")
    import onnxruntime

    data = MODELS[kind]()
    image = np.random.default_rng(1).random((1, 3, SIDE, SIDE), np.float32)
    (wanted,) = onnxruntime.InferenceSession(data).run(None, {"image": image})
    graph = read(data, UP_TO_CHOICE)
    options = HeadOptions(True, score_threshold=SCORE, overlap=OVERLAP, most=MOST)
    result = with_detections(graph, options)
    found = fitzroy.evaluate(result, {"image": image})[result.outputs[0]]
    assert 2 < len(wanted) < MOST
    np.testing.assert_allclose(found[: len(wanted)], wanted, rtol=1e-4, atol=1e-4)
    assert not found[len(wanted) :].any()


@pytest.mark.parametrize("kind", ["compressed", "suppressed"])
def test_a_choice_that_is_left_out_is_told(kind: str) -> None:
    """With the limits that are constants of the suppression."""
    (remark,) = read(MODELS[kind](), UP_TO_CHOICE).remarks
    assert remark.code == "onnx-choice"
    assert "--overlap 0.4" in remark.hint
    assert ("--score-threshold 0.3" in remark.hint) == (kind == "suppressed")


def test_what_a_choice_reads_are_the_outputs() -> None:
    graph = read(compressed(), UP_TO_CHOICE)
    assert set(graph.outputs) == {"sure", "box1", "best1", "label1"}
    assert graph.type("box1").shape == (COUNT, 4)


def test_what_a_choice_reads_may_be_an_output_already() -> None:
    node = helper().make_node
    nodes = [
        node("Relu", ["boxes"], ["y"]),
        node("NonMaxSuppression", ["y", "scores"], ["kept"]),
        node("Cast", ["kept"], ["z"], to=1),
    ]
    graph = read(
        model(nodes, [("boxes", [1, 8, 4]), ("scores", [1, 1, 8])], ["y", "z"]), UP_TO_CHOICE
    )
    assert graph.outputs == ["y", "scores"]


def test_a_model_that_chooses_nothing_is_read_whole() -> None:
    """Elements that are not zero are no boxes, if no boxes are suppressed."""
    node = helper().make_node
    data = model([node("Relu", ["x"], ["y"]), node("NonZero", ["y"], ["z"])], [("x", [2])], ["z"])
    with pytest.raises(UnsupportedError, match="known for constants only"):
        read(data, UP_TO_CHOICE)


def test_a_choice_inside_a_branch_is_refused() -> None:
    """What it reads is not what the graph around it has."""
    made = helper()
    kept = made.make_tensor_value_info("kept", 7, None)
    choice = made.make_node("NonMaxSuppression", ["boxes", "scores"], ["kept"])
    branch = made.make_graph([choice], "some", [], [kept])
    node = made.make_node("If", ["any"], ["z"], then_branch=branch, else_branch=branch)
    cast = made.make_node("Cast", ["z"], ["y"], to=1)
    inputs = [("boxes", [1, 8, 4]), ("scores", [1, 1, 8])]
    data = model([node, cast], inputs, ["y"], {"any": np.array(True)})
    with pytest.raises(UnsupportedError, match="boxes are chosen inside a branch"):
        read(data, UP_TO_CHOICE)
