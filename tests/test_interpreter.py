"""Whole models: parts on a device and on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus, need_litert

import fitzroy
from fitzroy.base.errors import CapacityError, SimulationError, UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.driver.runtime.simulator import PackageOutputs, SimulatedDevice
from fitzroy.execution.interpreter import Interpreter, signature_tensors
from fitzroy.execution.parts import DevicePart, Host, HostPart
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats import tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.flat import ints
from fitzroy.hw_models.numerics import Arithmetic

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "models" / "digits.tflite"
DIRECT = "sim:direct"


def framed() -> Graph:
    """The digits model with float borders, as converters make them."""
    graph = fitzroy.load(DIGITS)
    graph.inputs = ["pixels"]
    graph.add_value(Value("pixels", TensorType(graph.type("image").shape, DType.FLOAT32)))
    graph.add_node(Node("to stored", "quantize", ("pixels",), ("image",)))
    scores = TensorType(graph.type("probabilities").shape, DType.FLOAT32)
    graph.outputs = [graph.emit("dequantize", ["probabilities"], scores, stem="scores")]
    return graph


@cache
def compiled(name: str) -> bytes:
    """A model compiled for the Edge TPU."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = DIGITS
        if name == "framed":
            path = Path(folder) / "framed.tflite"
            path.write_bytes(tflite.write_model(export_model(framed())))
        return fitzroy.compile_edgetpu(path).data


def pixels(seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0, 1, (1, 8, 8, 1)).astype(np.float32)


class Listener:
    """A device that others see used."""

    def __init__(self) -> None:
        self.description = "a listener"
        self.device = SimulatedDevice()
        self.packages: list[PackageFile] = []

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> PackageOutputs:
        self.packages.append(package)
        return self.device.run(package, inputs)


# --- running -------------------------------------------------------------------------------------


def test_parts_in_order() -> None:
    with Interpreter(compiled("framed"), device=DIRECT) as interpreter:
        first, middle, last = interpreter.parts
        assert isinstance(middle, DevicePart)
        assert [part.title for part in (first, last)] == ["QUANTIZE", "DEQUANTIZE"]
        assert [part.where for part in interpreter.parts] == ["reference", "Edge TPU", "reference"]
        interpreter.run({"pixels": pixels()})
        assert [item.part for item in interpreter.timings] == [first, middle, last]
        assert all(item.seconds > 0 for item in interpreter.timings)


def test_outputs_are_those_of_the_parts_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "digits_edgetpu.tflite"
    path.write_bytes(compiled("framed"))
    graph = framed()
    stored = fitzroy.evaluate(graph.cut(["image"]), {"pixels": pixels()})["image"]
    by_hand = fitzroy.simulate(path, {"image": stored})["probabilities"]
    scale = graph.type("probabilities").quantization
    assert scale is not None
    with Interpreter(path, device=DIRECT) as interpreter:
        found = interpreter.run({"pixels": pixels()})["scores"]
    np.testing.assert_array_equal(found, (by_hand + np.float32(128)) * np.float32(scale.scale[0]))


def test_a_model_without_edge_tpu_operators_needs_no_device() -> None:
    interpreter = Interpreter(DIGITS, device="no such device")
    assert interpreter.device is None
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    found = interpreter.run({"image": image})
    wanted = fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image})
    np.testing.assert_array_equal(found["probabilities"], wanted["probabilities"])


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_litert_computes_the_host_parts(arithmetic: Arithmetic) -> None:
    need_litert()
    results = []
    for host in (Host.REFERENCE, Host.LITERT):
        with Interpreter(
            compiled("framed"), device=DIRECT, host=host, arithmetic=arithmetic
        ) as interpreter:
            hosts = {part.where for part in interpreter.parts if isinstance(part, HostPart)}
            assert hosts == {"LiteRT" if host is Host.LITERT else "reference"}
            results.append(interpreter.run({"pixels": pixels()})["scores"])
    np.testing.assert_array_equal(results[0], results[1])


def test_litert_is_taken_only_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.driver.runtime.litert.available", lambda: False)
    with pytest.raises(UsageError, match="LiteRT is not installed"):
        Interpreter(DIGITS, host="litert")
    assert [part.where for part in Interpreter(DIGITS, host="auto").parts] == ["reference"]
    with pytest.raises(UsageError, match="no host 'gpu'"):
        Interpreter(DIGITS, host="gpu")


def test_inputs_that_call_themselves_variables() -> None:
    """What the caller gives is an input, as in the source model, and no state of the program."""
    model = tflite.read_model(compiled("digits"))
    [graph] = model.subgraphs or []
    assert graph.inputs is not None
    tensors = list(graph.tensors or ())
    tensors[graph.inputs[0]] = replace(tensors[graph.inputs[0]], is_variable=True)
    changed = replace(model, subgraphs=[replace(graph, tensors=tensors)])
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    results = []
    for data in (compiled("digits"), tflite.write_model(changed)):
        with Interpreter(data, device=DIRECT) as interpreter:
            results.append(interpreter.run({"image": image})["probabilities"])
    np.testing.assert_array_equal(results[0], results[1])


def test_tensors_beyond_the_budget() -> None:
    model = tflite.read_model(DIGITS.read_bytes())
    [graph] = model.subgraphs or []
    assert graph.inputs is not None
    tensors = list(graph.tensors or ())
    shape = np.array([1, 30_000, 30_000, 30], np.int32)
    tensors[graph.inputs[0]] = replace(tensors[graph.inputs[0]], shape=shape, shape_signature=None)
    operators = [
        tflite.Operator(
            inputs=graph.inputs, outputs=np.array([len(tensors)], np.int32), opcode_index=0
        )
    ]
    tensors.append(replace(tensors[graph.inputs[0]], name="result"))
    changed = replace(
        model,
        operator_codes=[tflite.operator_code(tflite.BuiltinOperator.ABS)],
        subgraphs=[
            replace(
                graph,
                tensors=tensors,
                operators=operators,
                outputs=np.array([len(tensors) - 1], np.int32),
            )
        ],
    )
    with pytest.raises(CapacityError, match=r"int8\[1,30000,30000,30\].*25.1 GiB"):
        Interpreter(tflite.write_model(changed))


def test_an_open_device_is_shared_and_stays_open() -> None:
    with DirectSimulator() as device:
        for _ in range(2):
            with Interpreter(compiled("digits"), device=device) as interpreter:
                interpreter.invoke()


def test_packages_are_read_once() -> None:
    listener = Listener()
    interpreter = Interpreter(compiled("digits"), device=listener)  # type: ignore[arg-type]
    interpreter.invoke()
    interpreter.invoke()
    first, second = listener.packages
    # Devices tell by identity whether parameters are on the chip.
    assert first is second


def test_faults_of_a_program_name_the_model(tmp_path: Path) -> None:
    class Broken(Listener):
        def run(
            self,
            package: PackageFile,
            inputs: Mapping[str, Array],
            *,
            timeout: float | None = None,
        ) -> PackageOutputs:
            raise SimulationError("stuck", where="tile 3")

    path = tmp_path / "m_edgetpu.tflite"
    path.write_bytes(compiled("digits"))
    with pytest.raises(SimulationError, match=r"m_edgetpu.tflite, tile 3: stuck"):
        Interpreter(path, device=Broken()).invoke()  # type: ignore[arg-type]


def test_an_output_may_be_listed_twice() -> None:
    usual = tflite.read_model(DIGITS.read_bytes())
    (subgraph,) = usual.subgraphs or []
    (index,) = ints(subgraph.outputs)
    twice = replace(subgraph, outputs=np.array([index, index], np.int32))
    data = tflite.write_model(replace(usual, subgraphs=[twice]))
    with Interpreter(data) as interpreter:
        details = interpreter.get_output_details()
        assert [item["index"] for item in details] == [index, index]
        interpreter.invoke()
        assert interpreter.get_tensor(index).any()


# --- tensors -------------------------------------------------------------------------------------


def test_tensors_are_those_of_tflite() -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter as LiteRt

    theirs = LiteRt(model_path=str(DIGITS))
    theirs.allocate_tensors()
    ours = Interpreter(DIGITS)
    ours.allocate_tensors()
    for wanted, found in (
        (theirs.get_input_details(), ours.get_input_details()),
        (theirs.get_output_details(), ours.get_output_details()),
    ):
        for their, our in zip(wanted, found, strict=True):
            assert our.keys() == their.keys()
            for key in ("name", "index", "dtype", "sparsity_parameters"):
                assert our[key] == their[key]
            assert our["quantization"] == pytest.approx(their["quantization"])
            np.testing.assert_array_equal(our["shape"], their["shape"])
            np.testing.assert_array_equal(our["shape_signature"], their["shape_signature"])
            # LiteRT has further parameters, for schemes that TFLite does not have.
            for key, value in our["quantization_parameters"].items():
                np.testing.assert_array_equal(their["quantization_parameters"][key], value)


def test_tensors_can_be_written_and_read() -> None:
    interpreter = Interpreter(DIGITS)
    source = interpreter.get_input_details()[0]["index"]
    target = interpreter.get_output_details()[0]["index"]
    image = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    view = interpreter.tensor(target)
    interpreter.set_tensor(source, image)
    interpreter.invoke()
    before = interpreter.get_tensor(target)
    np.testing.assert_array_equal(view(), before)
    interpreter.tensor(source)()[...] = image[:, ::-1]
    interpreter.invoke()
    wanted = fitzroy.evaluate(interpreter.graph, {"image": image[:, ::-1]})
    np.testing.assert_array_equal(view(), wanted["probabilities"])
    np.testing.assert_array_equal(interpreter.get_tensor(source), image[:, ::-1])


def test_wrong_tensors_are_refused() -> None:
    interpreter = Interpreter(DIGITS)
    source = interpreter.get_input_details()[0]["index"]
    target = interpreter.get_output_details()[0]["index"]
    with pytest.raises(UsageError, match=r"is int8\[1,8,8,1\].*uint8"):
        interpreter.set_tensor(source, np.zeros((1, 8, 8, 1), np.uint8))
    with pytest.raises(UsageError, match="is no input"):
        interpreter.set_tensor(target, np.zeros((1, 10), np.int8))
    with pytest.raises(UsageError, match="no input and no output"):
        interpreter.get_tensor(10_000)
    with pytest.raises(UsageError, match="'image' is missing"):
        interpreter.run({})


def test_signatures() -> None:
    model = tflite.read_model(DIGITS.read_bytes())
    main = (model.subgraphs or [])[0]
    assert main.inputs is not None
    assert main.outputs is not None
    (source,), (target,) = main.inputs.tolist(), main.outputs.tolist()
    model.signature_defs = [
        tflite.SignatureDef(
            inputs=[tflite.TensorMap(name="x", tensor_index=source)],
            outputs=[tflite.TensorMap(name="output_0", tensor_index=target)],
            signature_key="serving_default",
        )
    ]
    interpreter = Interpreter(tflite.write_model(model))
    assert interpreter.get_signature_list() == {
        "serving_default": {"inputs": ["x"], "outputs": ["output_0"]}
    }
    assert signature_tensors(model)["serving_default"]["outputs"] == {"output_0": target}


# --- the corpus ----------------------------------------------------------------------------------


def by_hand(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of a model with one package: what is before it, the package, and what is after."""
    graph = fitzroy.load(path)
    program = EdgeTpuProgram.load(path)
    before = graph.cut([*program.inputs])
    given = fitzroy.evaluate(before, {name: inputs[name] for name in before.inputs})
    computed = program.simulate(given).outputs
    behind = graph.copy()
    (package,) = (node for node in behind.nodes() if node.op == "opaque")
    behind.remove(package.name)
    behind.inputs = [*program.outputs]
    behind.prune()
    return fitzroy.evaluate(behind, computed)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize(
    "model",
    [
        "yamnet_spectra_in",
        pytest.param("deeplabv3_mnv2_dm05_pascal_quant", marks=pytest.mark.slow),
        pytest.param("posenet_mobilenet_v1_075_353_481_16_quant_decoder", marks=pytest.mark.slow),
        pytest.param("bodypix_mobilenet_v1_075_512_512_16_quant_decoder", marks=pytest.mark.slow),
    ],
)
def test_models_with_operators_on_the_host(model: str) -> None:
    path = corpus() / "coral" / f"{model}_edgetpu.tflite"
    with Interpreter(path, device=DIRECT) as interpreter:
        rng = np.random.default_rng(3)
        inputs = {}
        for name in interpreter.graph.inputs:
            type = interpreter.graph.type(name)
            drawn = (
                rng.normal(size=type.shape)
                if type.dtype.is_float
                else rng.integers(0, 256, type.shape)
            )
            inputs[name] = drawn.astype(type.dtype.numpy)
        found = interpreter.run(inputs)
    wanted = by_hand(path, inputs)
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.corpus
@pytest.mark.slow
def test_states_go_on_to_the_next_inference() -> None:
    path = corpus() / "coral" / "keras_lstm_mnist_ptq_edgetpu.tflite"
    program = EdgeTpuProgram.load(path)
    ((name, type),) = program.inputs.items()
    x = np.random.default_rng(0).integers(0, 256, type.shape).astype(np.uint8)
    first = program.simulate({name: x})
    carried = program.carried(first.device.tensors)
    assert carried.keys() == program.states.keys()
    second = program.simulate({name: x} | carried)
    with Interpreter(path, device=DIRECT) as interpreter:
        (output,) = interpreter.graph.outputs
        for wanted in (first, second):
            found = interpreter.run({interpreter.graph.inputs[0]: x})[output]
            np.testing.assert_array_equal(found, next(iter(wanted.outputs.values())))
        interpreter.reset_all_variables()
        found = interpreter.run({interpreter.graph.inputs[0]: x})[output]
        np.testing.assert_array_equal(found, next(iter(first.outputs.values())))
    assert any((carried[key] != 0).any() for key in carried)


@pytest.mark.corpus
@pytest.mark.slow
def test_a_detector_of_our_own_compiler(tmp_path: Path) -> None:
    source = corpus() / "coral" / "traffic_model.tflite"
    path = tmp_path / "traffic_model_edgetpu.tflite"
    path.write_bytes(fitzroy.compile_edgetpu(source).data)
    graph = fitzroy.load(source)
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.integers(0, 256, graph.type(name).shape).astype(np.uint8) for name in graph.inputs
    }
    with Interpreter(path, device=DIRECT) as interpreter:
        assert interpreter.parts[-1].title == "detection_post_process"
        found = interpreter.run(inputs)
    wanted = by_hand(path, inputs)
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.corpus
@pytest.mark.slow
def test_models_compiled_together_share_a_chip() -> None:
    small, large = "mobilenet_v1_0.25_128_quant", "mobilenet_v1_0.5_160_quant"
    paths = [
        corpus() / "coral" / f"{first}_cocompiled_with_{second}_edgetpu.tflite"
        for first, second in ((small, large), (large, small))
    ]
    x = [np.full((1, side, side, 3), 90, np.uint8) for side in (128, 160)]
    alone = [fitzroy.simulate(path, [image]) for path, image in zip(paths, x, strict=True)]
    with DirectSimulator() as device:
        models = [Interpreter(path, device=device) for path in paths]
        for number in (0, 1, 0):
            model = models[number]
            found = model.run({model.graph.inputs[0]: x[number]})
            for name, wanted in zip(found, alone[number].values(), strict=True):
                np.testing.assert_array_equal(found[name], wanted)
