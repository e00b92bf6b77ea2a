"""Targets: what they run, what they reject and why, and their options."""

from __future__ import annotations

import contextlib
import inspect

import pytest
from tests.compiler.edgetpu_models import random_model
from tests.compiler.zoo import zoo

import fitzroy
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops import definition
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.partition import diagnose
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.target import TARGETS, Target
from fitzroy.compiler.targets.xnnpack.options import Uint8Policy

ALL = [TARGETS.get(name) for name in TARGETS.own]


@pytest.mark.parametrize("target", ALL, ids=lambda target: target.name)
def test_lowerings_are_for_operators_that_exist(target: Target) -> None:
    assert target.lowerings().keys() <= OPS.keys()
    assert set(target.rewrites()) <= OPS.keys()
    for name in OPS:
        assert bool(target.supports(name)) == (
            name in target.lowerings() or name in target.rewrites()
        )


@pytest.mark.parametrize("target", ALL, ids=lambda target: target.name)
def test_every_call_is_judged_before_anything_is_lowered(target: Target) -> None:
    for name, graph in zoo().items():
        for node in graph.nodes():
            rejects = list(target.rejects(Call.of(graph, node)))
            assert rejects or node.op in target.lowerings(), name
            assert all(reject.rule and reject.reason for reject in rejects)


def test_operators_name_no_targets() -> None:
    for operator in OPS.values():
        module = inspect.getmodule(type(operator))
        assert module is not None
        assert "compiler.targets" not in inspect.getsource(module)
    assert "compiler.targets" not in inspect.getsource(definition)


def floats() -> Graph:
    """A sum of two tensors that the chip cannot take."""
    graph = Graph("floats")
    type = TensorType((1, 4), DType.FLOAT32)
    a, b = graph.add_input("a", type), graph.add_input("b", type)
    graph.outputs = [graph.emit("add", [a, b], type, ActivationAttributes(), stem="sum")]
    return graph


def test_the_edge_tpu_gives_every_reason() -> None:
    graph = floats()
    (node,) = graph.nodes()
    found = diagnose(graph, node, TARGETS.get("edgetpu"))
    assert [item.code for item in found] == ["edgetpu-type"] * 3
    for name, item in zip((*graph.inputs, *graph.outputs), found, strict=True):
        assert repr(name) in item.what
    assert refusals(graph).keys() == {node.name}
    _, (placement,) = fitzroy.explain(graph, target="edgetpu")
    assert (placement.target, len(placement.rejects)) == ("host", 3)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("conv_2d", ((1, 8, 8, 4), (4, 3, 3, 4), (1, 6, 6, 4)), ConvAttributes()),
        ("depthwise_conv_2d", ((1, 8, 8, 4), (1, 3, 3, 4), (1, 6, 6, 4)), ConvAttributes()),
        (
            "transpose_conv",
            ((1, 4, 4, 4), (4, 2, 2, 4), (1, 5, 5, 4)),
            TransposeConvAttributes(output=(5, 5)),
        ),
    ],
)
def test_the_edge_tpu_takes_no_weights_that_are_computed(
    op: str, shapes: tuple[tuple[int, ...], ...], attributes: Attributes
) -> None:
    graph, scale = Graph("computed"), Quantization.per_tensor(0.1, 0)
    types = [TensorType(shape, DType.INT8, scale) for shape in shapes]
    x, w = graph.add_input("x", types[0]), graph.add_input("w", types[1])
    graph.outputs = [graph.emit(op, [x, w], types[2], attributes)]
    verify(graph)
    (node,) = graph.nodes()
    (reject,) = TARGETS.get("edgetpu").rejects(Call.of(graph, node))
    assert reject.rule == "edgetpu-weights"
    with pytest.raises(UnsupportedError):
        Legalizer(graph).legalize(node)


def test_the_rules_of_the_edge_tpu_reject_nothing_that_can_be_mapped() -> None:
    chip = TARGETS.get("edgetpu")
    graphs = [*zoo().values(), *map(random_model, range(12))]
    rejected = 0
    for graph in graphs:
        legalizer = Legalizer(graph)
        for node in graph.nodes():
            if node.op not in chip.lowerings():
                continue
            trial = legalizer.split()
            if [*chip.rejects(Call.of(graph, node))]:
                rejected += 1
                with pytest.raises(UnsupportedError):
                    trial.legalize(node)
                continue
            with contextlib.suppress(UnsupportedError):
                trial.legalize(node)
                legalizer = trial
    assert rejected > 20


def test_options_by_name() -> None:
    xnnpack = TARGETS.get("xnnpack")
    assert xnnpack.chosen({"uint8": "fast"}).uint8 is Uint8Policy.FAST
    assert xnnpack.chosen({}).uint8 is Uint8Policy.EXACT
    with pytest.raises(UsageError, match=r"uint8 cannot be 'slow'.*values: exact, fast"):
        xnnpack.chosen({"uint8": "slow"})
    with pytest.raises(
        UsageError, match=r"the target vm has no option 'uint8'.*options: accelerator"
    ):
        TARGETS.get("vm").chosen({"uint8": "fast"})


def test_portable_kernels_alone() -> None:
    program = fitzroy.compile(zoo()["transpose-float32"], target="portable")
    assert {p.target for p in program.placements["forward"]} == {"portable"}
