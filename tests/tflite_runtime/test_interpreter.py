"""TFLite's interpreter, beside LiteRT's own: the same details, values and errors."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.programs.models import detector
from tests.support import corpus_params, need_litert
from tests.tflite_runtime.models import DIGITS, compiled_digits, image, tensors_of_every_kind

import fitzroy
from fitzroy.ai_edge_litert import interpreter as other_name
from fitzroy.base.errors import DeviceError, SimulationError
from fitzroy.driver.runtime import litert
from fitzroy.execution.details import tensor_details
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints
from fitzroy.tflite_runtime import interpreter as ours
from fitzroy.tflite_runtime.compiled import CompiledModel
from fitzroy.tflite_runtime.interpreter import Interpreter, OpResolverType, load_delegate

DIRECT = {"device": "sim:direct"}


@pytest.fixture
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models run here as where LiteRT is not installed, and as compiled ones do."""
    monkeypatch.setattr(litert, "available", lambda: False)


def theirs() -> Any:
    """LiteRT's module."""
    need_litert()
    from ai_edge_litert import interpreter

    return interpreter


def ready(module: Any, model: bytes) -> Any:
    """An interpreter whose tensors are allocated."""
    interpreter = module.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return interpreter


# --- details -------------------------------------------------------------------------------------


def assert_same_details(data: bytes) -> None:
    wanted = theirs().Interpreter(model_content=data)
    for number, graph in enumerate(tflite.read_model(data).subgraphs or []):
        every = (tensor_details(item, index) for index, item in enumerate(graph.tensors or ()))
        found = [details for details in every if details is not None]
        assert repr(found) == repr(wanted.get_tensor_details(number))


def test_details_are_those_of_litert() -> None:
    assert_same_details(tensors_of_every_kind())
    assert_same_details(DIGITS.read_bytes())
    assert_same_details(compiled_digits())


@pytest.mark.parametrize("path", corpus_params(quick=6))
def test_details_of_real_models_are_those_of_litert(path: Path) -> None:
    assert_same_details(path.read_bytes())


def test_inputs_and_outputs_of_a_compiled_model_are_described_as_by_litert() -> None:
    wanted = theirs().Interpreter(model_content=compiled_digits())
    delegate = load_delegate("libedgetpu.so.1", DIRECT)
    found = Interpreter(model_content=compiled_digits(), experimental_delegates=[delegate])
    for interpreter in (found, Interpreter(model_content=compiled_digits())):
        assert repr(interpreter.get_input_details()) == repr(wanted.get_input_details())
        assert repr(interpreter.get_output_details()) == repr(wanted.get_output_details())
        assert repr(interpreter.get_tensor_details()) == repr(wanted.get_tensor_details())
        assert interpreter.num_subgraphs() == wanted.num_subgraphs()
        assert interpreter.get_signature_list() == wanted.get_signature_list()
        assert repr(interpreter._get_ops_details()) == repr(wanted._get_ops_details())


# --- calls ---------------------------------------------------------------------------------------

ROW = np.array([[1, -2, 3]], np.float32)
INPUT, OUTPUT, CONSTANT, BETWEEN = 33, 34, 31, 0
"""Tensors of `tensors_of_every_kind`; the last holds nothing."""


def _with_view(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def called(interpreter: Any) -> Any:
        view = interpreter.tensor(INPUT)()[0]
        try:
            return call(interpreter)
        finally:
            del view

    return called


CALLS: dict[str, Callable[[Any], Any]] = {
    "another type": lambda i: i.set_tensor(INPUT, ROW.astype(np.int8)),
    "another rank": lambda i: i.set_tensor(INPUT, ROW[0]),
    "another extent": lambda i: i.set_tensor(INPUT, ROW[:, :2]),
    "a list of integers": lambda i: i.set_tensor(INPUT, [[1, 2, 3]]),
    "texts": lambda i: i.set_tensor(INPUT, [["a", "b", "c"]]),
    "no tensor": lambda i: i.set_tensor(1000, ROW),
    "a negative tensor": lambda i: i.set_tensor(-1, ROW),
    "a tensor by name": lambda i: i.set_tensor("input", ROW),
    "a number of numpy": lambda i: i.set_tensor(np.int64(INPUT), ROW),
    "not in order": lambda i: i.set_tensor(INPUT, np.asfortranarray(ROW)),
    "get nothing": lambda i: i.get_tensor(1000),
    "get a constant": lambda i: i.get_tensor(CONSTANT),
    "get of no subgraph": lambda i: i.get_tensor(INPUT, 7),
    "look at nothing": lambda i: i.tensor(1000)(),
    "describe no subgraph": lambda i: i.get_tensor_details(1),
    "a negative subgraph": lambda i: i.get_tensor_details(-1),
    "invoke with an array": _with_view(lambda i: i.invoke()),
    "allocate with an array": _with_view(lambda i: i.allocate_tensors()),
    "resize with an array": _with_view(lambda i: i.resize_tensor_input(INPUT, [1, 3])),
    "get with an array": _with_view(lambda i: i.get_tensor(CONSTANT)),
    "the same shape": lambda i: i.resize_tensor_input(INPUT, [1, 3]),
    "which signature": lambda i: i.get_signature_runner(),
    "no signature": lambda i: i.get_signature_runner("three"),
    "too few inputs": lambda i: i.get_signature_runner("one")(),
    "another input": lambda i: i.get_signature_runner("one")(z=ROW),
    "an input of another type": lambda i: i.get_signature_runner("one")(x=ROW.astype(np.int8)),
    "one result": lambda i: i.get_signature_runner("one")(x=ROW),
    "two results": lambda i: i.get_signature_runner("two")(x=ROW),
    "signatures": lambda i: i.get_signature_list(),
    "numbers of signatures": lambda i: i._get_full_signature_list(),
    "inputs of a signature": lambda i: i.get_signature_runner("two").get_input_details(),
    "outputs of a signature": lambda i: i.get_signature_runner("two").get_output_details(),
    "reset": lambda i: i.reset_all_variables(),
}


def outcome(call: Callable[[Any], Any], interpreter: Any) -> tuple[type, str]:
    """The built-in kind of an error and the beginning of its text, or a result as text."""
    try:
        return type(None), repr(call(interpreter))
    except (ValueError, RuntimeError, TypeError) as error:
        kinds = (ValueError, RuntimeError, TypeError)
        kind = next(kind for kind in kinds if isinstance(error, kind))
        # The interpreter of LiteRT counts tensors of kernels, too, and breaks its lines elsewhere.
        text = " ".join(str(error).split())
        return kind, text.split(" max tensor index")[0]


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.filterwarnings("ignore:.*LiteRT is not installed")
@pytest.mark.parametrize("name", CALLS)
def test_calls_give_what_they_give_on_litert(name: str) -> None:
    data = tensors_of_every_kind()
    kind, wanted = outcome(CALLS[name], ready(theirs(), data))
    found = outcome(CALLS[name], ready(ours, data))
    assert found[0] is kind
    if kind is type(None):
        assert found[1] == wanted
    elif kind is TypeError:
        assert "incompatible function arguments" in wanted
        assert found[1].startswith("incompatible function arguments")
    else:
        assert found[1].startswith(wanted.removesuffix(".")[:90])


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.filterwarnings("ignore:.*LiteRT is not installed")
@pytest.mark.parametrize(
    "call",
    [
        lambda i: i.invoke(),
        lambda i: i.set_tensor(INPUT, ROW),
        lambda i: i.get_tensor(OUTPUT),
        lambda i: i.tensor(INPUT)(),
        lambda i: i.get_tensor(CONSTANT),
    ],
)
def test_calls_before_allocation(call: Callable[[Any], Any]) -> None:
    data = tensors_of_every_kind()
    wanted = outcome(call, theirs().Interpreter(model_content=data))
    found = outcome(call, Interpreter(model_content=data))
    assert found[0] is wanted[0]
    assert found[1].startswith(wanted[1].removesuffix("."))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"model_path": "a.tflite", "model_content": b"x"},
        {"model_path": "no such file.tflite"},
        {"model_content": b"edgetpu-custom-op and garbage"},
        {"model_content": bytearray(b"edgetpu-custom-op")},
        {"model_path": str(DIGITS), "num_threads": 0},
        {"model_path": str(DIGITS), "num_threads": "2"},
        {"model_path": str(DIGITS), "experimental_op_resolver_type": 7},
        {"model_path": str(DIGITS), "no_such_option": 1},
    ],
)
def test_arguments_are_refused_as_by_litert(arguments: dict[str, Any]) -> None:
    kind, text = outcome(lambda module: module.Interpreter(**arguments), theirs())
    found = outcome(lambda module: module.Interpreter(**arguments), ours)
    assert found[0] is kind
    if kind is not TypeError and b"garbage" not in arguments.get("model_content", b""):
        assert found[1].startswith(text.split("The model allocation")[0])


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.filterwarnings("ignore:.*LiteRT is not installed")
@pytest.mark.parametrize("points", [[], [1, 2]])
def test_quantizations_are_refused_as_by_litert(points: list[int]) -> None:
    model = tflite.read_model(tensors_of_every_kind())
    tensor = ((model.subgraphs or [])[0].tensors or [])[BETWEEN]
    scales, zeros = np.array([0.5], np.float32), np.array(points, np.int64)
    tensor.quantization = tflite.QuantizationParameters(scale=scales, zero_point=zeros)
    data = tflite.write_model(model)
    for module in (ours, theirs()):
        kind, _ = outcome(lambda m: m.Interpreter(model_content=data), module)
        assert kind is ValueError


# --- models for the Edge TPU ---------------------------------------------------------------------


def on_simulator(**options: Any) -> Interpreter:
    delegate = load_delegate("libedgetpu.so.1", DIRECT)
    return Interpreter(
        model_content=compiled_digits(), experimental_delegates=[delegate], **options
    )


def test_a_compiled_model_computes_what_its_parts_do() -> None:
    interpreter = on_simulator()
    interpreter.allocate_tensors()
    [given], [taken] = interpreter.get_input_details(), interpreter.get_output_details()
    wanted = fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image()})["probabilities"]
    interpreter.set_tensor(given["index"], image())
    interpreter.invoke()
    found = interpreter.get_tensor(taken["index"])
    assert np.abs(found.astype(int) - wanted).max() <= 1
    # Arrays show what the next inference gives.
    show = interpreter.tensor(taken["index"])
    interpreter.tensor(given["index"])()[...] = image(1)
    interpreter.invoke()
    np.testing.assert_array_equal(show(), interpreter.get_tensor(taken["index"]))
    assert (show() != found).any()


def test_signatures_of_a_compiled_model() -> None:
    model = tflite.read_model(compiled_digits())
    main = (model.subgraphs or [])[0]
    (source,), (target,) = ints(main.inputs), ints(main.outputs)
    model.signature_defs = [
        tflite.SignatureDef(
            signature_key="serving_default",
            inputs=[tflite.TensorMap(name="pixels", tensor_index=source)],
            outputs=[tflite.TensorMap(name="digits", tensor_index=target)],
        )
    ]
    delegate = load_delegate("libedgetpu.so.1", DIRECT)
    interpreter = Interpreter(
        model_content=tflite.write_model(model), experimental_delegates=[delegate]
    )
    runner = interpreter.get_signature_runner()
    found = runner(pixels=image(3))
    assert list(found) == ["digits"]
    other = on_simulator()
    other.allocate_tensors()
    other.set_tensor(source, image(3))
    other.invoke()
    np.testing.assert_array_equal(found["digits"], other.get_tensor(target))
    with pytest.raises(ValueError, match="cannot be resized"):
        runner(pixels=image(3)[:, :4])


def test_a_compiled_model_needs_a_delegate() -> None:
    interpreter, other = (
        module.Interpreter(model_content=compiled_digits()) for module in (ours, theirs())
    )
    wanted, found = (outcome(lambda i: i.allocate_tensors(), i) for i in (other, interpreter))
    assert found[0] is wanted[0] is RuntimeError
    assert found[1].split(".")[0] in wanted[1]
    with pytest.raises(ValueError, match="object is no delegate"):
        Interpreter(model_content=compiled_digits(), experimental_delegates=[object()])


def test_values_inside_a_compiled_model_are_not_there() -> None:
    interpreter = on_simulator()
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()[0]
    with pytest.raises(ValueError, match=r"cannot be resized to \[2, 8, 8, 1\].*\[1, 8, 8, 1\]"):
        interpreter.resize_tensor_input(details["index"], [2, 8, 8, 1])
    with pytest.raises(RuntimeError, match="is no input"):
        interpreter.resize_tensor_input(interpreter.get_output_details()[0]["index"], [1, 10])
    with pytest.raises(ValueError, match="does not give values between operators"):
        on_simulator(experimental_preserve_all_tensors=True)


def test_a_model_that_metadata_follow_is_read(tmp_path: Path) -> None:
    buffer = io.BytesIO(compiled_digits())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("metadata.json", "{'names': ['zero']}")
    path = tmp_path / "m_edgetpu.tflite"
    path.write_bytes(buffer.getvalue())
    delegate = load_delegate("libedgetpu.so.1", DIRECT)
    interpreter = Interpreter(model_path=path, experimental_delegates=[delegate])
    # The model may be gone by now, as files made for a while are.
    path.unlink()
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_faults_of_devices_are_runtime_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = on_simulator()
    interpreter.allocate_tensors()
    for error in (DeviceError("gone", hint="plug it in"), SimulationError("stuck", where="tile 3")):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("fitzroy.driver.runtime.devices.DirectSimulator.run", fail)
        with pytest.raises(RuntimeError) as caught:
            interpreter.invoke()
        assert isinstance(caught.value, type(error))
        assert str(error) in str(caught.value)
        assert caught.value.exit_code == error.exit_code


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads_are_those_of_litert(threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Noted:
        def __init__(self, data: bytes, *, xnnpack: bool, threads: int = 1) -> None:
            made.append(threads)

    need_litert()
    monkeypatch.setattr(litert, "LiteRtModel", Noted)
    delegate = load_delegate("libedgetpu.so.1", DIRECT)
    Interpreter(
        model_content=detector().compiled, experimental_delegates=[delegate], num_threads=threads
    )
    assert made == [threads or 1]


def test_resolvers_choose_how_the_host_rounds() -> None:
    for resolver in OpResolverType:
        on_simulator(experimental_op_resolver_type=resolver)
        on_simulator(experimental_op_resolver_type=theirs().OpResolverType[resolver.name])


# --- models for the host -------------------------------------------------------------------------


def test_other_models_run_on_litert() -> None:
    litert = ready(theirs(), DIGITS.read_bytes())
    interpreter = Interpreter(
        model_path=str(DIGITS),
        experimental_delegates=[load_delegate("libedgetpu.so.1", DIRECT)],
        num_threads=2,
    )
    interpreter.allocate_tensors()
    for item in (litert, interpreter):
        item.resize_tensor_input(item.get_input_details()[0]["index"], [2, 8, 8, 1])
        item.allocate_tensors()
        item.set_tensor(item.get_input_details()[0]["index"], np.concatenate([image(), image(1)]))
        item.invoke()
    index = litert.get_output_details()[0]["index"]
    assert interpreter.get_tensor(index).shape == (2, 10)
    np.testing.assert_array_equal(interpreter.get_tensor(index), litert.get_tensor(index))


@pytest.mark.usefixtures("on_numpy")
def test_without_litert_a_warning_says_what_computes() -> None:
    with pytest.warns(RuntimeWarning, match="LiteRT is not installed"):
        interpreter = Interpreter(model_path=str(DIGITS))
    assert isinstance(interpreter._runtime, CompiledModel)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image())
    interpreter.invoke()
    wanted = fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image()})["probabilities"]
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_array_equal(found, wanted)


def test_both_names_are_one() -> None:
    assert other_name.Interpreter is Interpreter
    assert {*other_name.__all__} == {*ours.__all__}
