from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.targets.edgetpu.parameters.locating import locate
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    mapped_nodes,
    operands,
    with_prefix,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import output_stage
from fitzroy.compiler.targets.edgetpu.patching.apply import (
    PatchReport,
    patch_model,
    patch_weights,
)
from fitzroy.compiler.targets.edgetpu.patching.matching import (
    assign,
    differences,
    sites,
    tensor_operations,
    word_order,
)
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import (
    DataType,
    Executable,
    ExecutableType,
    InputLayer,
    InstructionBitstream,
    Layer,
    NumericsConstants,
    OutputLayer,
    PackageFile,
    caching_token,
    diff,
    read_package,
    write_package,
)
from fitzroy.formats.flat import ints
from fitzroy.hw_models.isa.program import assemble, chunk, disassemble
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import traversal
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    FilterLayout,
    Prefix,
    WordOrder,
    ZeroBias,
    unpack,
)

# --- a compiler of one tensor operation per operator ---------------------------------------------

INNER = WordOrder.IC_INNER


def activation(*shape: int, scale: float = 0.5, zero: int = 3) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization.per_tensor(scale, zero))


@dataclass
class Source:
    """A source under construction; `seed` decides on weights only."""

    seed: int = 0
    weight_scale: float = 0.01
    per_channel: bool = True
    zero_bias: bool = False

    def __post_init__(self) -> None:
        self.graph, self.rng = Graph("g"), np.random.default_rng(self.seed)

    def weights(self, shape: tuple[int, ...], axis: int) -> str:
        data = self.rng.integers(-127, 127, shape, np.int8, endpoint=True)
        scale = self.rng.uniform(0.5, 1.5, shape[axis]) * self.weight_scale
        scales = tuple(float(np.float32(s)) for s in scale)
        quantization = Quantization(scales, (0,) * len(scales), axis)
        if not self.per_channel:
            quantization = Quantization.per_tensor(scales[0])
        return self.graph.add_constant("w", data, quantization)

    def bias(self, count: int) -> str:
        data = self.rng.integers(1, 99, count, np.int32) * (0 if self.zero_bias else 1)
        return self.graph.add_constant("b", data.astype(np.int32), Quantization((1.0,), (0,)))

    def conv(
        self, x: str, count: int, size: int = 3, scale: float = 0.5, relu: bool = False
    ) -> str:
        _, rows, columns, depth = self.graph.type(x).shape
        inputs = [x, self.weights((count, size, size, depth), 0), self.bias(count)]
        attributes = ConvAttributes(
            padding=PaddingScheme.SAME, activation=Activation.RELU6 if relu else Activation.NONE
        )
        result = activation(1, rows, columns, count, scale=scale)
        return self.graph.emit("conv_2d", inputs, result, attributes)

    def dense(self, x: str, count: int) -> str:
        inputs = [x, self.weights((count, self.graph.type(x).size), 0), self.bias(count)]
        return self.graph.emit(
            "fully_connected", inputs, activation(1, count), FullyConnectedAttributes()
        )

    def add(self, x: str, y: str, scale: float = 0.5) -> str:
        type = replace(self.graph.type(x), quantization=Quantization.per_tensor(scale, 3))
        return self.graph.emit("add", [x, y], type, ActivationAttributes())


def network(
    seed: int = 0, *, weight_scale: float = 0.01, per_channel: bool = True,
    zero_bias: bool = False, scale: float = 0.5, inner: float = 0.5, relu: bool = False,
) -> Graph:  # fmt: skip
    """Two convolutions, a sum and a fully connected layer."""
    source = Source(seed, weight_scale, per_channel, zero_bias)
    x = source.graph.add_input("x", activation(1, 4, 4, 8))
    first = source.conv(x, 12, scale=inner, relu=relu)
    second = source.conv(first, 8, scale=scale)
    source.graph.outputs = [source.dense(source.add(second, x), 6)]
    source.graph.rename_output(source.graph.outputs[0], "y")
    return source.graph


def run_of(layout: FilterLayout) -> list[tuple[int, int]]:
    """Loops over the activations of one output, in the order of a layout."""
    rows, columns = layout.kernel
    pixel = 4 * layout.input_groups
    loops = [(columns, pixel), (rows, 16 * pixel)]
    group = (layout.input_groups, 4)
    inner = isinstance(layout, ConvolutionLayout) and layout.order is INNER
    return [group, *loops] if inner else [*loops, group]


def compiled(
    graph: Graph, zero_bias: ZeroBias = ZeroBias.KEEP, order: WordOrder = WordOrder.IC_OUTER,
    version: int = 13,
) -> PackageFile:  # fmt: skip
    """A package that holds what patching looks at."""
    blobs, program = [], []
    for node in graph.nodes():
        call = Call.of(graph, node)
        for operand in operands(graph, zero_bias=zero_bias, nodes=[node]):
            assert isinstance(operand, FilterOperand)
            layout = operand.layout
            if isinstance(layout, ConvolutionLayout):
                layout = replace(layout, order=order)
            blobs.append(operand.pack(layout))
            run = run_of(layout)
            stage = dataclasses.asdict(output_stage(call, layout.prefix))
            program.append(
                TensorOp(
                    loops=(*(count for count, _ in run), 9, 1, 1, 1, 1),
                    a=traversal(64, [*run, (9, 0)], rank=8),
                    d=traversal(0, [(layout.weight_words, 0), (9, 0)], rank=8, ping_pong=(1, 4)),
                    accumulate=True, trained=True, lanes=-(-layout.channels // 4) * 4, **stage,
                )
            )  # fmt: skip
        if node.op == "add":
            stage = dataclasses.asdict(output_stage(call))
            program.append(TensorOp(accumulate=True, c16=True, **stage))
    main = Executable(
        type=ExecutableType.EXECUTION_ONLY,
        batch_size=1,
        parameter_caching_token=77,
        instruction_bitstreams=[
            InstructionBitstream(bitstream=np.frombuffer(assemble(chunk(program)), np.uint8))
        ],
        input_layers=[layer(graph, name, InputLayer()) for name in graph.inputs],
        output_layers=[layer(graph, name, OutputLayer()) for name in graph.outputs],
    )
    caching = Executable(
        type=ExecutableType.PARAMETER_CACHING,
        batch_size=1,
        parameter_caching_token=77,
        parameters=np.concatenate(blobs),
        instruction_bitstreams=[
            InstructionBitstream(bitstream=np.frombuffer(assemble(chunk([])), np.uint8))
        ],
    )
    file = PackageFile(executables=[main, caching])
    file.package.min_runtime_version = version
    return read_package(write_package(file))


def layer(graph: Graph, name: str, kind: InputLayer | OutputLayer) -> Layer:
    type = graph.type(name)
    q = type.quantization
    assert q is not None
    return Layer(
        name=name, size_bytes=type.nbytes, y_dim=1, x_dim=1, z_dim=type.size, any_layer=kind,
        data_type=DataType.SIGNED_FIXED_POINT8,
        numerics=NumericsConstants(
            zero_point=q.zero_point[0] + 128, dequantization_factor=q.scale[0]
        ),
    )  # fmt: skip


def test_a_package_patched_with_its_own_source_stays_as_it_is() -> None:
    graph = network()
    package = compiled(graph)
    for original in (graph, None):
        patched, report = patch_weights(package, graph, original)
        assert diff(package, patched) == []
        assert (report.changed, report.instructions, report.token) == (0, 0, (77, 77))
        assert report.diagnostics == ()
        assert [operand.operator.partition(" ")[0] for operand in report.operands] == [
            "conv_2d", "conv_2d", "fully_connected",
        ]  # fmt: skip
        assert len(report.checked) == 4


@pytest.mark.parametrize("order", list(WordOrder))
@pytest.mark.parametrize("alone", [False, True])
def test_a_patched_package_is_what_the_retrained_source_compiles_to(
    order: WordOrder, alone: bool
) -> None:
    before, after = network(0), network(1, weight_scale=0.02)
    patched, report = patch_weights(compiled(before, order=order), after, None if alone else before)
    wanted = compiled(after, order=order)
    found = [line for line in diff(wanted, patched) if "token" not in line]
    assert found == []
    assert report.changed > 2000
    blob = patched.executables[1].parameters
    assert blob is not None
    token = caching_token([blob])
    assert report.token == (77, token)
    assert {item.parameter_caching_token for item in patched.executables} == {token}
    assert [note.code for note in report.diagnostics] == ["edgetpu-patch-token"]
    assert read_package(write_package(patched)).main.parameter_caching_token == token


@pytest.mark.parametrize("alone", [False, True])
def test_a_scale_for_all_channels_is_changed_in_the_instructions(alone: bool) -> None:
    before = network(0, per_channel=False)
    after = network(1, per_channel=False, weight_scale=0.015)
    patched, report = patch_weights(compiled(before), after, None if alone else before)
    assert [line for line in diff(compiled(after), patched) if "token" not in line] == []
    assert report.instructions == 3
    for operand in report.operands:
        ((name, old, new),) = operand.constants
        assert name == "scale"
        assert new != old


def test_the_scale_between_two_convolutions_may_change() -> None:
    before, after = network(0), network(1, inner=0.625)
    patched, _ = patch_weights(compiled(before), after, before)
    assert [line for line in diff(compiled(after), patched) if "token" not in line] == []


def test_other_activations_are_refused_by_name() -> None:
    before = network(0)
    package = compiled(before)
    after = network(1, scale=0.625)
    with pytest.raises(
        UnsupportedError, match=r"add 'add': 'conv_2d.1' has scale 0\.625"
    ) as caught:
        patch_weights(package, after, before)
    assert "keep the quantization of activations" in str(caught.value)
    with pytest.raises(UnsupportedError, match="add 'add': no instruction has its constants"):
        patch_weights(package, after)
    clamped = network(0, relu=True)
    with pytest.raises(UnsupportedError, match=r"conv_2d 'conv_2d': maximum is 12 in the comp"):
        patch_weights(compiled(clamped), network(1, relu=True, inner=0.625), clamped)
    with pytest.raises(UnsupportedError, match=r"conv_2d 'conv_2d': no instruction computes it"):
        patch_weights(compiled(clamped), network(1, relu=True, inner=0.625))
    x = before.value("x")
    moved = before.copy()
    moved.set_value(replace(x, type=activation(1, 4, 4, 8, scale=0.75)))
    with pytest.raises(LinkError, match="layer 'x' does not have the type of the source's"):
        patch_weights(package, moved, before)


def test_vectors_that_the_program_reads_are_written_out() -> None:
    # All biases have become zero, and all weights have one scale.
    before, after = network(0), network(1, zero_bias=True, per_channel=False)
    package = compiled(before)
    for original in (before, None):
        patched, report = patch_weights(package, after, original)
        assert patched.main.instruction_bitstreams is package.main.instruction_bitstreams
        blob = patched.executables[1].parameters
        assert blob is not None
        for operand in report.operands:
            layout = operand.layout
            assert isinstance(layout, FilterLayout)
            assert layout.prefix == Prefix(scales=True, biases=True, zero_points=True)
            held = unpack(layout, blob[operand.offset : operand.offset + operand.nbytes])
            assert held.scales is not None
            assert held.biases is not None
            assert len(set(held.scales.tolist())) == 1
            assert not held.biases.any()
    with_zeros = compiled(network(0, zero_bias=True), ZeroBias.DROP, version=14)
    with pytest.raises(UnsupportedError, match="it has biases; the compiled model has none"):
        patch_weights(with_zeros, network(1), network(0, zero_bias=True))
    tensorwise = network(0, per_channel=False)
    with pytest.raises(UnsupportedError, match="different effective scales") as caught:
        patch_weights(compiled(tensorwise), network(1), tensorwise)
    assert len(caught.value.rejects) == 3


def test_sources_of_another_structure_are_refused() -> None:
    before = network(0)
    package = compiled(before)
    short = before.cut([before.nodes()[2].outputs[0]])
    with pytest.raises(LinkError, match="has 3 operators, the original one 4"):
        patch_weights(package, short, before)
    other = network(0, relu=True)
    with pytest.raises(LinkError, match="conv_2d 'conv_2d' in place of conv_2d 'conv_2d'"):
        patch_weights(package, other, before)
    with pytest.raises(LinkError, match="3 operators are not in the compiled model"):
        patch_weights(package, before, network(5))


def test_a_missing_order_of_words_is_refused() -> None:
    before = network(0)
    package = compiled(before)
    (stream,) = package.main.instruction_bitstreams or []
    assert stream.bitstream is not None
    program = [
        replace(item, a=traversal(0, [(9, 1)], rank=8)) if isinstance(item, TensorOp) else item
        for item in disassemble(stream.bitstream.tobytes())
    ]
    stream.bitstream = np.frombuffer(assemble(program), np.uint8)
    with pytest.raises(UnsupportedError, match="order of its weight words cannot be told"):
        patch_weights(package, before)
    assert patch_weights(package, before, before)[1].changed == 0


def test_branches_that_cannot_be_told_apart_need_the_original() -> None:
    def branches(seed: int) -> Graph:
        source = Source(seed, per_channel=False)
        x = source.graph.add_input("x", activation(1, 4, 4, 8))
        left, right = source.conv(x, 8), source.conv(x, 8)
        source.graph.outputs = [source.add(left, right)]
        return source.graph

    before, after = branches(0), branches(1)
    with pytest.raises(LinkError, match="several ways to match") as caught:
        patch_weights(compiled(before), after)
    assert "'conv_2d.1'" not in str(caught.value)
    assert "conv_2d, conv_2d.1" in str(caught.value)
    patched, _ = patch_weights(compiled(before), after, before)
    assert [line for line in diff(compiled(after), patched) if "token" not in line] == []


def test_assignments_follow_dependencies() -> None:
    none: frozenset[str] = frozenset()
    chain = {"a": none, "b": frozenset({"a"})}
    both = {"a": [0, 1], "b": [0, 1]}
    assert assign(both, chain, frozenset({0, 1})) == [{"a": 0, "b": 1}]
    assert len(assign(both, {"a": none, "b": none}, frozenset({0, 1}))) == 2
    assert assign({"a": [0]}, {"a": none}, frozenset({0, 1})) == []
    assert assign({}, {}, frozenset()) == [{}]


def test_orders_of_words_are_read_from_loops() -> None:
    layout = ConvolutionLayout(channels=8, in_channels=8, kernel=(3, 2))
    for order in WordOrder:
        run = run_of(replace(layout, order=order))
        operation = TensorOp(
            loops=(*(count for count, _ in run), 1, 1, 1, 1, 1),
            a=traversal(7, run, rank=8), accumulate=True,
        )  # fmt: skip
        assert word_order(layout, operation) is order
        # Partial sums: positions lie between the loops of a reduction.
        split = [*run[:2], (5, 1000), run[2]]
        operation = TensorOp(
            loops=(*(count for count, _ in split), 1, 1, 1, 1),
            a=traversal(7, split, rank=8), reduction=0b1011,
        )  # fmt: skip
        assert word_order(layout, operation) is order
    assert word_order(layout, replace(operation, reduction=3)) is None
    assert word_order(layout, replace(operation, a=traversal(0, [(6, 3)], rank=8))) is None


def test_models_are_patched_with_operators_on_the_cpu() -> None:
    """The chip computes a convolution, the CPU a fully connected layer after it."""

    def both(seed: int) -> Graph:
        source = Source(seed)
        x = source.graph.add_input("x", activation(1, 4, 4, 8))
        source.graph.outputs = [source.dense(source.conv(x, 8), 6)]
        return source.graph

    before, after = both(0), both(1)
    package = compiled(before.cut(["conv_2d"]))
    wrapped = custom_op.wrap(
        write_package(package), {"x": before.type("x")}, {"conv_2d": before.type("conv_2d")}
    )
    model = with_cpu(wrapped, export_model(before))
    patched, report = patch_model(model, export_model(after), export_model(before))
    assert report.constants == ("w.1", "b.1")
    assert len(report.packages) == 1
    patched = tflite.read_model(tflite.write_model(patched))
    (subgraph,) = patched.subgraphs or []
    held = {tensor.name: tensor for tensor in subgraph.tensors or ()}
    for name in ("w.1", "b.1"):
        found, wanted = tflite.constant(patched, held[name]), after.value(name).data
        assert found is not None
        assert wanted is not None
        assert np.array_equal(found, wanted)
        assert tflite.type_of(held[name]) == after.type(name)
    again, second = patch_model(patched, export_model(after), export_model(after))
    assert (second.constants, second.packages[0].changed) == ((), 0)
    assert tflite.write_model(again) == tflite.write_model(patched)
    moved = after.copy()
    moved.set_value(Value("fully_connected", activation(1, 6, scale=0.75)))
    with pytest.raises(LinkError, match="the tensor 'fully_connected' is int8"):
        patch_model(model, export_model(moved))
    with pytest.raises(LinkError, match="the model has no package"):
        patch_model(export_model(before), export_model(after))


def with_cpu(wrapped: tflite.Model, source: tflite.Model) -> tflite.Model:
    """A model with the last operator of the source after its package."""
    (host,), (guest,) = wrapped.subgraphs or [], source.subgraphs or []
    tensors, buffers = list(host.tensors or ()), list(wrapped.buffers or ())
    (operator,) = (guest.operators or [])[-1:]
    names = {tensor.name: index for index, tensor in enumerate(tensors)}
    moved = []
    for index in (*ints(operator.inputs), *ints(operator.outputs)):
        tensor = (guest.tensors or ())[index]
        if tensor.name not in names:
            names[tensor.name] = len(tensors)
            buffers.append((source.buffers or ())[tensor.buffer])
            tensors.append(replace(tensor, buffer=len(buffers) - 1))
        moved.append(names[tensor.name])
    code = (source.operator_codes or ())[operator.opcode_index]
    codes = [*(wrapped.operator_codes or ()), code]
    behind = replace(
        operator,
        opcode_index=len(codes) - 1,
        inputs=np.array(moved[:-1], np.int32),
        outputs=np.array(moved[-1:], np.int32),
    )
    subgraph = replace(
        host, tensors=tensors, operators=[*(host.operators or ()), behind],
        outputs=np.array(moved[-1:], np.int32),
    )  # fmt: skip
    return replace(wrapped, subgraphs=[subgraph], buffers=buffers, operator_codes=codes)


# --- corpus --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A compiled model and its source."""

    name: str
    model: tflite.Model
    source: tflite.Model


def cases() -> Iterator[Case]:
    root = corpus()
    for path in sorted(root.glob("**/*_edgetpu.tflite")):
        stem = path.name.partition("_edgetpu")[0].partition("_cocompiled_with")[0]
        source = path.with_name(stem + ".tflite")
        if source.is_file():
            name = str(path.relative_to(root)).removesuffix("_edgetpu.tflite")
            yield Case(name, read(path), read(source))


def read(path: Path) -> tflite.Model:
    return tflite.read_model(path.read_bytes(), str(path))


def retrained(model: tflite.Model, *, scales: bool) -> tflite.Model:
    """A source with random weights and biases; with other scales of weights if asked for."""
    rng = np.random.default_rng(0)
    buffers, subgraphs = list(model.buffers or ()), []
    for subgraph in model.subgraphs or ():
        tensors, done = list(subgraph.tensors or ()), set[int]()

        def write(index: int, data: Array, tensors: list[tflite.Tensor] = tensors) -> None:
            raw = np.frombuffer(data.tobytes(), np.uint8)
            buffers.append(tflite.Buffer(data=raw))
            tensors[index] = replace(tensors[index], buffer=len(buffers) - 1)

        for operator in subgraph.operators or ():
            name, inputs = tflite.operator_name(model, operator), ints(operator.inputs)
            lstm = name == "UNIDIRECTIONAL_SEQUENCE_LSTM"
            if not lstm and name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                continue
            for index in [*inputs[1:9], *inputs[12:16]] if lstm else inputs[1:3]:
                if index < 0 or index in done:
                    continue
                done.add(index)
                data = tflite.constant(model, tensors[index])
                assert data is not None
                if data.dtype.itemsize > 1 and not data.any():
                    continue
                low = 1 if data.dtype == np.uint8 else -127
                write(index, rng.integers(low, low + 254, data.shape).astype(data.dtype))
                quantization = tensors[index].quantization
                if not scales or lstm or data.dtype.itemsize > 1 or quantization is None:
                    continue
                assert quantization.scale is not None
                factors = rng.uniform(0.8, 1.25, len(quantization.scale))
                other = replace(quantization, scale=(quantization.scale * factors).astype("f4"))
                if data.dtype == np.uint8:
                    other = replace(other, zero_point=np.array([rng.integers(90, 150)]))
                tensors[index] = replace(tensors[index], quantization=other)
        subgraphs.append(replace(subgraph, tensors=tensors))
    return replace(model, buffers=buffers, subgraphs=subgraphs)


def check(
    case: Case, source: tflite.Model, patched: tflite.Model, reports: Sequence[PatchReport]
) -> None:
    """Check a patched model by finding the retrained operands in it."""
    graph = import_model(source)
    ops = custom_op.extract(case.model), custom_op.extract(patched)
    for before_op, after_op, report in zip(*ops, reports, strict=True):
        before, after = before_op.read(), after_op.read()
        nodes = mapped_nodes(graph, after.main.inputs, after.main.outputs)
        natural = [
            o for o in operands(graph, zero_bias=ZeroBias.KEEP, nodes=nodes) if not o.optional
        ]
        assert [o.name for o in natural] == [part.operator for part in report.operands]
        wanted = []
        for operand, part in zip(natural, report.operands, strict=True):
            assert isinstance(operand, FilterOperand)
            assert isinstance(part.layout, FilterLayout)
            wanted.append(with_prefix(graph, operand, part.layout.prefix))
        blobs = [
            [np.empty(0, np.uint8) if e.parameters is None else e.parameters for e in p.executables]
            for p in (before, after)
        ]
        rest = [np.ones(blob.size, bool) for blob in blobs[1]]
        for place in locate(wanted, blobs[1]):
            rest[place.blob][place.offset : place.end] = False
        for old, new, same in zip(*blobs, rest, strict=True):
            assert np.array_equal(old[same], new[same])
        streams = before.main.instruction_bitstreams or (), after.main.instruction_bitstreams or ()
        changed = 0
        for a, b in zip(*streams, strict=True):
            assert a.bitstream is not None
            assert b.bitstream is not None
            programs = disassemble(a.bitstream.tobytes()), disassemble(b.bitstream.tobytes())
            pairs = zip(*programs, strict=True)
            for old_op, new_op in pairs:
                if old_op != new_op:
                    assert isinstance(old_op, TensorOp)
                    assert isinstance(new_op, TensorOp)
                    values = {n: getattr(new_op, n) for n in ("scale", "c_zero_point")}
                    assert replace(old_op, **values) == new_op
                    changed += 1
        assert changed == report.instructions
        found = sites(tensor_operations(after.main))
        for operand in wanted:
            if not operand.part:
                stage = output_stage(Call.of(graph, operand.node), operand.layout.prefix)
                assert any(
                    not differences(stage, site.first)
                    for site in found
                    if site.fits(operand.layout)
                )


WRONG_SOURCE = "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder"
"""Its published source has other output scales than the compiled model."""

NEED_ORIGINAL = {
    "coral/keras_lstm_mnist_ptq",
    "coral/posenet_mobilenet_v1_075_353_481_16_quant_decoder",
    "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder",
    "layers/model_dense_2x2x3x100x100",
}
"""Operands that cannot be placed by order and sizes, and constants of an LSTM."""

ONE_SCALE = {"templates/gabor_128x128_7k_4o_2s", "templates/gabor_64x64_7k_4o_2s",
             "templates/gabor_64x64_p4"}  # fmt: skip
"""Weights have a scale per channel, but all are equal and the program holds only one."""

PARALLEL = {
    "coral/deeplabv3_mnv2_dm05_pascal_quant",
    "templates/bright_16x16",
    "templates/color_cyan_128x128",
    "templates/color_red_64x64",
    "templates/looming_128x128_3x3",
}
"""Parallel operators of the same sizes with one scale each."""


@pytest.mark.long
@pytest.mark.corpus
def test_the_corpus_patched_with_its_own_sources() -> None:
    patched = 0
    for case in cases():
        if case.name == WRONG_SOURCE:
            with pytest.raises(LinkError, match="layer 'float_heatmaps' does not have the type"):
                patch_model(case.model, case.source, case.source)
            continue
        result, report = patch_model(case.model, case.source, case.source)
        assert (report.constants, report.diagnostics) == ((), ())
        for a, b in zip(custom_op.extract(case.model), custom_op.extract(result), strict=True):
            assert diff(a.read(), b.read()) == []
        patched += 1
    assert patched == 58


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("scales", [False, True])
def test_the_corpus_patched_with_random_weights(scales: bool) -> None:
    refused: dict[str, set[str]] = {"with": set(), "without": set()}
    operand_count = byte_count = instruction_count = 0
    for case in cases():
        source = retrained(case.source, scales=scales)
        written: dict[str, bytes] = {}
        for how, original in (("with", case.source), ("without", None)):
            try:
                patched, report = patch_model(case.model, source, original)
            except (LinkError, UnsupportedError):
                refused[how].add(case.name)
                continue
            check(case, source, patched, report.packages)
            written[how] = tflite.write_model(patched)
            if how == "with":
                operand_count += sum(len(package.operands) for package in report.packages)
                byte_count += sum(package.changed for package in report.packages)
                instruction_count += sum(package.instructions for package in report.packages)
        assert len(set(written.values())) <= 1
    unable = {WRONG_SOURCE} | (ONE_SCALE if scales else set())
    assert refused["with"] == unable
    assert refused["without"] == unable | NEED_ORIGINAL | (PARALLEL if scales else set())
    assert operand_count == (491 if scales else 494)
    assert byte_count > 20_000_000
    assert instruction_count == (969 if scales else 0)
