"""The public functions, and the one result that all targets give."""

from __future__ import annotations

from pathlib import Path

import pytest

import fitzroy
from fitzroy import api
from fitzroy.api import Model
from fitzroy.base.errors import UsageError
from fitzroy.compiler.targets.target import TARGETS

DIGITS = Path(__file__).parent.parent / "examples" / "models" / "digits.tflite"


def test_every_public_function_is_on_one_screen() -> None:
    assert set(fitzroy.__all__) - {"__version__"} <= set(api.__all__)
    for name in api.__all__:
        assert getattr(api, name) is getattr(fitzroy, name, getattr(api, name))
        assert f"`{name}`" in (api.__doc__ or "") or not name[0].islower()


def test_names_that_scripts_use() -> None:
    from fitzroy.api import EdgeTpuProgram
    from fitzroy.edgetpu import compile_edgetpu
    from fitzroy.estimate import estimate

    assert compile_edgetpu is fitzroy.compile_edgetpu
    assert {EdgeTpuProgram.__name__, estimate.__name__} == {"EdgeTpuProgram", "estimate"}


@pytest.mark.parametrize("target", TARGETS.own)
def test_all_targets_give_one_kind_of_result(target: str, tmp_path: Path) -> None:
    model: Model = DIGITS
    if target == "portable":
        # Its kernels compute plain numbers only.
        model = fitzroy.load(DIGITS)
        model = model.cut([model.inputs[0]])
    told: list[str] = []
    result = fitzroy.compile(model, target=target, dump=tmp_path / "dump", progress=told.append)
    assert isinstance(result, fitzroy.Compilation)
    assert (result.target, result.data[4:8]) == (
        target,
        {"edgetpu": b"TFL3", "vm": b"BMOD"}.get(target, b"ET12"),
    )
    assert told[0] == "import"
    assert result.stages[0].name == "import"
    assert result.seconds > 0
    assert f"{len(result.data):,} bytes" in repr(result)
    assert str(result).startswith(f"{target}: {TARGETS.get(target).summary}")
    assert [*(tmp_path / "dump").iterdir()]
    time = result.estimate()
    assert time is None if target != "edgetpu" else time is not None and 100 < time < 10_000
    if target != "portable":
        assert sum(result.placed.values()) == len(next(iter(result.legalized.values())).nodes())


def test_compile_for_the_edge_tpu_is_compile_edgetpu() -> None:
    plain = fitzroy.compile(DIGITS, target="edgetpu", partition="all")
    assert plain.data == fitzroy.compile_edgetpu(DIGITS, costs=None).data
    assert plain.placed == {"edgetpu": len(plain.graphs["main"].nodes())}
    with pytest.raises(UsageError, match="compile_together"):
        fitzroy.compile({"a": DIGITS, "b": DIGITS}, target="edgetpu")
    with pytest.raises(UsageError, match="partition cannot be 'some'"):
        fitzroy.compile(DIGITS, target="edgetpu", partition="some")
    with pytest.raises(UsageError, match="no target 'gpu'"):
        fitzroy.compile(DIGITS, target="gpu")


def test_a_module_of_the_virtual_machine_runs() -> None:
    import numpy as np

    graph = fitzroy.load(DIGITS)
    (name,) = graph.inputs
    x = np.full(graph.type(name).shape, 3, graph.type(name).dtype.numpy)
    with fitzroy.ModuleProgram(fitzroy.compile(DIGITS, target="vm").data) as program:
        found = program.run({name: x})
    wanted = fitzroy.evaluate(graph, {name: x})
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_array_equal(found[key], wanted[key])


def test_objects_say_what_they_are() -> None:
    graph = fitzroy.load(DIGITS)
    assert repr(graph).startswith("<Graph 'digits': image -> probabilities, ")
    assert f"{len(graph.nodes())} nodes" in repr(graph)
    lines = str(graph).splitlines()
    assert len(lines) == 1 + len(graph.nodes()) + len(graph.inputs) + len(graph.outputs)
    assert "  max_pool_2d(conv.1) -> pool: int8[1,4,4,32] scale" in str(graph)
    compiled = fitzroy.compile_edgetpu(DIGITS)
    assert "on the chip in 1 parts, 0 on the host" in repr(compiled)
    assert len(repr(compiled.source)) < 200
    assert len(repr(compiled.segments[0])) < 200
    with fitzroy.Interpreter(DIGITS.read_bytes()) as interpreter:
        assert repr(interpreter).endswith("on reference>")
