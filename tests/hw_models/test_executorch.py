from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import fitzroy
from fitzroy.base.errors import SimulationError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.driver.runtime import ExecuTorchRuntime, available
from fitzroy.formats import executorch as et
from fitzroy.formats.method import DelegateCall, KernelCall, Method, TensorList, TensorValue, Value
from fitzroy.hw_models.executorch import KERNELS, run_method
from fitzroy.linker.packages.executorch import link_program

DTYPES = (DType.BOOL, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32)
END = (1 << 63) - 1


def numbers(dtype: DType, shape: tuple[int, ...], seed: int = 1) -> Array:
    """Varied values without extremes: negative ones where the type has them, halves for floats."""
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_float:
        return (rng.integers(-12, 13, shape) / 4).astype(dtype.numpy)
    low = 0 if dtype.limits[0] == 0 else -6
    return rng.integers(low, 7, shape).astype(dtype.numpy)


def positive(dtype: DType, shape: tuple[int, ...], seed: int = 2) -> Array:
    """Values above zero, so that everything can be divided by them."""
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return np.ones(shape, bool)
    values = rng.integers(1, 5, shape)
    return (values / 2 if dtype.is_float else values).astype(dtype.numpy)


def distinct(dtype: DType, shape: tuple[int, ...], seed: int = 3) -> Array:
    """No value twice, where the type has so many: the library breaks ties as it likes."""
    size = int(np.prod(shape))
    values = np.random.default_rng(seed).permutation(size)
    if dtype is not DType.BOOL and dtype.limits[0] < 0 if dtype.is_integer else dtype.is_float:
        values = values - size // 2
    return values.reshape(shape).astype(dtype.numpy)


Sample = tuple[list[Any], tuple[DType, ...]]
Maker = Callable[[DType], Sample]


def same(*rest: Any, shape: tuple[int, ...] = (2, 3, 4)) -> Maker:
    """One operand, further arguments, a result of the operand's type."""
    return lambda dtype: ([numbers(dtype, shape), *rest], (dtype,))


def gives(out: DType, *rest: Any, shape: tuple[int, ...] = (2, 3, 4)) -> Maker:
    return lambda dtype: ([numbers(dtype, shape), *rest], (out,))


def pair(*rest: Any, out: DType | None = None) -> Maker:
    """Two operands of one type that broadcast."""

    def make(dtype: DType) -> Sample:
        operands = [numbers(dtype, (2, 3, 4)), positive(dtype, (3, 1))]
        return [*operands, *rest], (out or dtype,)

    return make


def inexact(dtype: DType) -> DType:
    return dtype if dtype.is_float else DType.FLOAT32


def real(make: Callable[[DType], Array]) -> Maker:
    return lambda dtype: ([make(dtype)], (inexact(dtype),))


def wide(dtype: DType) -> DType:
    return dtype if dtype.is_float else DType.INT64


def widened(*rest: Any) -> Maker:
    return lambda dtype: ([positive(dtype, (2, 3, 4)), *rest], (wide(dtype),))


def scalar(*rest: Any, out: DType | None = None) -> Maker:
    def make(dtype: DType) -> Sample:
        number: Any = 1.5 if dtype.is_float else 3
        if dtype is DType.BOOL:
            number = True
        return [numbers(dtype, (2, 3, 4)), number, *rest], (out or dtype,)

    return make


def extremes(dtype: DType) -> Array:
    """The ends of the type's range; NaN and infinity for floats."""
    if dtype.is_float:
        return np.array([[1, np.nan, -2, 0], [3, np.inf, -np.inf, 0.5]], dtype.numpy)
    low, high = (0, 1) if dtype is DType.BOOL else dtype.limits
    return np.array([[low, high, 0, 1], [high, low, low, high]], dtype.numpy)


B, I64, F32 = DType.BOOL, DType.INT64, DType.FLOAT32
INDEX = np.array([[1, 0, 2, 1]], np.int64)
SAMPLES: dict[str, Maker] = {
    "aten::add.out": pair(2),
    "aten::add.Scalar_out": scalar(1),
    "aten::sub.out": pair(1),
    "aten::sub.Scalar_out": scalar(2),
    "aten::mul.out": pair(),
    "aten::mul.Scalar_out": scalar(),
    "aten::div.out": lambda d: ([numbers(d, (2, 3)), positive(d, (3,))], (inexact(d),)),
    "aten::div.Scalar_out": lambda d: ([numbers(d, (2, 3)), 2], (inexact(d),)),
    "aten::div.out_mode": pair("floor"),
    "aten::div.Scalar_mode_out": scalar("trunc"),
    "aten::floor_divide.out": pair(),
    "aten::fmod.Tensor_out": pair(),
    "aten::fmod.Scalar_out": scalar(),
    "aten::remainder.Tensor_out": pair(),
    "aten::remainder.Scalar_out": scalar(),
    "aten::atan2.out": lambda d: ([numbers(d, (2, 3)), numbers(d, (3,), 5)], (inexact(d),)),
    "aten::maximum.out": pair(),
    "aten::minimum.out": pair(),
    **{
        f"aten::{name}.{kind}_out": make(out=B)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for kind, make in (("Tensor", pair), ("Scalar", scalar))
    },
    **{f"aten::logical_{name}.out": pair(out=B) for name in ("and", "or", "xor")},
    **{f"aten::bitwise_{name}.Tensor_out": pair() for name in ("and", "or", "xor")},
    **{f"aten::bitwise_{name}.Scalar_out": scalar() for name in ("and", "or", "xor")},
    "aten::pow.Tensor_Tensor_out": lambda d: ([positive(d, (2, 3)), positive(d, (3,))], (d,)),
    "aten::pow.Tensor_Scalar_out": lambda d: ([positive(d, (2, 3)), 3], (d,)),
    **{
        f"aten::{name}.out": real(lambda d: numbers(d, (2, 3)))
        for name in (
            "asinh", "atan", "cos", "cosh", "erf", "exp", "expm1", "sigmoid", "sin", "sinh",
            "tan", "tanh",
        )
    },
    **{
        f"aten::{name}.out": real(lambda d: positive(d, (2, 3)))
        for name in ("acosh", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt")
    },
    **{
        f"aten::{name}.out": real(
            lambda d: np.array([0, 0.5, 1] if d.is_float else [0, 1, 1]).astype(d.numpy)
        )
        for name in ("acos", "asin", "atanh")
    },
    **{
        f"aten::{name}.out": same()
        for name in ("abs", "bitwise_not", "ceil", "floor", "neg", "relu", "round", "sign", "trunc")
    },
    **{f"aten::{name}.out": gives(B) for name in ("isinf", "isnan", "logical_not")},
    "aten::clamp.out": same(1, 3),
    "aten::hardtanh.out": same(0, 3),
    "aten::leaky_relu.out": same(0.25),
    "aten::elu.out": same(1.5, 1, 1),
    "aten::gelu.out": same("none"),
    "aten::where.self_out": lambda d: (
        [numbers(B, (2, 3)), numbers(d, (2, 3)), positive(d, (3,))], (d,),
    ),
    "aten::masked_fill.Scalar_out": lambda d: (
        [numbers(d, (2, 3)), numbers(B, (2, 3)), True if d is B else 2], (d,),
    ),
    "aten::full.out": lambda d: ([(2, 3), 2], (d,)),
    "aten::full_like.out": same(True, None),
    "aten::amax.out": same((1, -1), True),
    "aten::amin.out": same((0,), False),
    "aten::argmax.out": gives(I64, 1, False),
    "aten::argmin.out": gives(I64, None, False),
    "aten::max.dim_max": lambda d: ([numbers(d, (2, 3, 4)), 2, False], (d, I64)),
    "aten::min.dim_min": lambda d: ([numbers(d, (2, 3, 4)), 0, True], (d, I64)),
    "aten::mean.out": lambda d: ([numbers(d, (2, 3, 4)), (2, 1), True, None], (inexact(d),)),
    "aten::sum.IntList_out": widened((0, 2), False, None),
    "aten::prod.int_out": widened(1, True, None),
    "aten::prod.out": lambda d: ([positive(d, (2, 3)), None], (wide(d),)),
    "aten::any.out": gives(B, 1, False),
    "aten::any.dims_out": gives(B, (0, 2), True),
    "aten::var.correction_out": same((1,), 1, False),
    "aten::cumsum.out": widened(1, None),
    "aten::native_layer_norm.out": lambda d: (
        [numbers(d, (2, 3, 4)), (3, 4), numbers(d, (3, 4), 4), numbers(d, (3, 4), 5), 1e-5],
        (d, d, d),
    ),
    "aten::_softmax.out": same(-1, False),
    "aten::_log_softmax.out": same(1, False),
    "aten::topk.values": lambda d: ([distinct(d, (2, 3, 4)), 2, -1, True, True], (d, I64)),
    "aten::mm.out": lambda d: ([numbers(d, (2, 3)), numbers(d, (3, 4))], (d,)),
    "aten::bmm.out": lambda d: ([numbers(d, (2, 2, 3)), numbers(d, (2, 3, 4))], (d,)),
    "aten::clone.out": same(None),
    "dim_order_ops::_clone_dim_order.out": same(False, None),
    "aten::_to_copy.out": gives(F32, False, None),
    "dim_order_ops::_to_dim_order_copy.out": gives(F32, False, None),
    "aten::alias_copy.out": same(),
    "aten::view_copy.out": same((4, -1)),
    "aten::permute_copy.out": same((2, 0, 1)),
    "aten::transpose_copy.int_out": same(0, -1),
    "aten::squeeze_copy.dims_out": same((1, -1), shape=(2, 1, 3, 1)),
    "aten::unsqueeze_copy.out": same(-1),
    "aten::expand_copy.out": same((2, -1, 3, 4), False, shape=(2, 3, 1)),
    "aten::repeat.out": same((2, 1, 3, 1)),
    "aten::flip.out": same((0, -1)),
    "aten::roll.out": same((1, -2), (0, 2)),
    "aten::slice_copy.Tensor_out": same(-1, 1, END, 2),
    "aten::select_copy.int_out": same(1, -1),
    "aten::cat.out": lambda d: ([[numbers(d, (2, 3)), numbers(d, (2, 1))], 1], (d,)),
    "aten::stack.out": lambda d: ([[numbers(d, (2, 3)), positive(d, (2, 3))], 1], (d,)),
    "aten::split_with_sizes_copy.out": lambda d: ([numbers(d, (2, 5)), (2, 3), -1], (d, d)),
    "aten::split_copy.Tensor_out": lambda d: ([numbers(d, (2, 5)), 3, 1], (d, d)),
    "aten::unbind_copy.int_out": lambda d: ([numbers(d, (2, 2)), 1], (d, d)),
    "aten::constant_pad_nd.out": lambda d: (
        [numbers(d, (2, 3, 4)), (1, 2, 3, 0), True if d is B else 2], (d,),
    ),
    "aten::reflection_pad2d.out": same((1, 2, 2, 0)),
    "aten::gather.out": lambda d: ([numbers(d, (3, 4)), 0, INDEX, False], (d,)),
    "aten::scatter.src_out": lambda d: (
        [numbers(d, (3, 4)), 0, INDEX, positive(d, (2, 4))], (d,),
    ),
    "aten::index_select.out": same(1, INDEX[0]),
    "aten::embedding.out": same(INDEX, -1, False, False, shape=(3, 4)),
    "aten::tril.out": same(1),
    "aten::pixel_shuffle.out": same(2, shape=(1, 8, 3, 2)),
    "aten::pixel_unshuffle.out": same(2, shape=(1, 2, 4, 6)),
    "aten::upsample_nearest2d.vec_out": same((7, 5), None, shape=(1, 2, 3, 4)),
}  # fmt: skip
VARIANTS: tuple[tuple[str, Maker], ...] = (
    ("aten::div.out_mode", pair("trunc")),
    ("aten::div.Scalar_mode_out", scalar("floor")),
    ("aten::gelu.out", same("tanh")),
    ("aten::argmax.out", gives(I64, None, False)),
    ("aten::argmin.out", gives(I64, -1, True)),
    ("aten::clamp.out", same(None, 2)),
    ("aten::mean.out", same((), False, None)),
    ("aten::sum.IntList_out", widened((), True, None)),
    ("aten::upsample_nearest2d.vec_out", same(None, (2.0, 1.5), shape=(1, 2, 3, 4))),
    ("aten::slice_copy.Tensor_out", same(0, None, 1, 1)),
    *(
        (f"aten::{name}.out", lambda d: ([extremes(d), extremes(d)[::-1].copy(), 1], (d,)))
        for name in ("add", "sub")
    ),
    ("aten::mul.out", lambda d: ([extremes(d), extremes(d)], (d,))),
    ("aten::maximum.out", lambda d: ([extremes(d), positive(d, (2, 4))], (d,))),
    ("aten::minimum.out", lambda d: ([extremes(d), positive(d, (2, 4))], (d,))),
    ("aten::neg.out", lambda d: ([extremes(d)], (d,))),
    ("aten::relu.out", lambda d: ([extremes(d)], (d,))),
    ("aten::sign.out", lambda d: ([extremes(d)], (d,))),
    ("aten::isnan.out", lambda d: ([extremes(d)], (B,))),
    ("aten::isinf.out", lambda d: ([extremes(d)], (B,))),
    ("aten::amax.out", lambda d: ([extremes(d), (1,), False], (d,))),
    ("aten::argmax.out", lambda d: ([extremes(d), 1, False], (I64,))),
    ("aten::argmin.out", lambda d: ([extremes(d), 0, False], (I64,))),
    ("aten::clamp.out", lambda d: ([extremes(d), 1, 3], (d,))),
    ("aten::sum.IntList_out", lambda d: ([extremes(d)[:, 2:], (0,), False, None], (wide(d),))),
    ("aten::logical_not.out", lambda d: ([extremes(d)], (B,))),
    ("aten::add.out", lambda d: ([numbers(d, (2, 3)), numbers(F32, (3,)), 1], (F32,))),
    ("aten::mul.Scalar_out", lambda d: ([numbers(d, (2, 3)), 0.5], (inexact(d),))),
    (
        "aten::topk.values",
        lambda d: ([distinct(d, (2, 3, 4)), 2, 1, False, True], (d, I64)),
    ),
)
CASES = [
    pytest.param(SAMPLES[key], key, dtype, id=f"{key}-{dtype.value}")
    for key, kernel in KERNELS.items()
    for dtype in (sorted(kernel.dtypes, key=lambda d: d.value) or DTYPES)
] + [
    pytest.param(make, key, dtype, id=f"{key}-variant{number}-{dtype.value}")
    for number, (key, make) in enumerate(VARIANTS)
    for dtype in sorted(KERNELS[key].dtypes, key=lambda d: d.value)
]


def compute(key: str, args: Sequence[Any], outs: Sequence[DType]) -> list[Array]:
    with np.errstate(all="ignore"):
        result = KERNELS[key].compute(*args, out=tuple(out.numpy for out in outs))
        arrays = result if isinstance(result, tuple) else (result,)
        return [np.array(array).astype(out.numpy) for array, out in zip(arrays, outs, strict=True)]


def single_call(key: str, args: Sequence[Any], outs: Sequence[TensorType]) -> Method:
    """A method that calls one kernel; its tensor operands are the method's inputs."""
    values: list[Value] = []
    inputs: list[int] = []

    def tensor(array: Array) -> int:
        name = f"in{len(inputs)}"
        values.append(TensorValue(name, TensorType(array.shape, DType.of(array))))
        inputs.append(len(values) - 1)
        return len(values) - 1

    def argument(item: Any) -> int:
        if isinstance(item, np.ndarray):
            return tensor(item)
        if isinstance(item, list):
            item = TensorList(tuple(tensor(array) for array in item))
        values.append(item)
        return len(values) - 1

    call = [argument(item) for item in args]
    results = []
    for number, kind in enumerate(outs):
        values.append(TensorValue(f"out{number}", kind))
        results.append(len(values) - 1)
    kernel = KERNELS[key]
    if kernel.outputs == 1:
        call += [results[0], results[0]]
    else:
        values.append(TensorList(tuple(results)))
        listed = len(values) - 1
        call += [listed, listed] if kernel.outputs is None else [*results, listed]
    calls = (KernelCall(kernel.name, kernel.overload, tuple(call)),)
    return Method("forward", tuple(values), tuple(inputs), tuple(results), calls)


def operands(args: Sequence[Any]) -> list[Array]:
    flat = [item if isinstance(item, list) else [item] for item in args]
    return [array for items in flat for array in items if isinstance(array, np.ndarray)]


def built(make: Maker, key: str, dtype: DType) -> tuple[bytes, list[Array], list[Array]]:
    args, outs = make(dtype)
    expected = compute(key, args, outs)
    kinds = [TensorType(a.shape, out) for a, out in zip(expected, outs, strict=True)]
    return link_program([single_call(key, args, kinds)]), operands(args), expected


def assert_close(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    if not available():
        pytest.skip("executorch is not installed")
    with ExecuTorchRuntime(threads=1, timeout=20) as opened:
        yield opened


def test_every_kernel_has_a_sample() -> None:
    assert set(SAMPLES) == set(KERNELS)


@pytest.mark.parametrize(("make", "key", "dtype"), CASES)
def test_interpreter_runs_kernel(make: Maker, key: str, dtype: DType) -> None:
    data, inputs, expected = built(make, key, dtype)
    for found, wanted in zip(run_method(et.read_program(data), inputs), expected, strict=True):
        assert_close(found, wanted)


@pytest.mark.runtime
@pytest.mark.parametrize(("make", "key", "dtype"), CASES)
def test_kernel_equals_the_runtime(
    runtime: ExecuTorchRuntime, make: Maker, key: str, dtype: DType
) -> None:
    data, inputs, expected = built(make, key, dtype)
    with runtime.load(data) as session:
        for found, wanted in zip(session.run(inputs), expected, strict=True):
            assert_close(found, wanted)


@pytest.mark.runtime
def test_scalars_go_into_a_delegate_and_come_out_of_it(runtime: ExecuTorchRuntime) -> None:
    one = TensorType((1,), DType.FLOAT32)
    graph = Graph("g")
    names = [graph.add_input(name, one) for name in ("a", "b")]
    graph.outputs = [graph.emit("mul", names, one, ActivationAttributes(), stem="y")]
    (subgraph,) = fitzroy.compile(graph).lowered["forward"].subgraphs
    assert subgraph.arguments == ("a", "b", "y")
    scalar = TensorType((), DType.FLOAT32)
    values = tuple(TensorValue(name, scalar) for name in subgraph.arguments)
    calls = (DelegateCall(et.XNNPACK_BACKEND, subgraph.blob, (0, 1, 2)),)
    data = link_program([Method("forward", values, (0, 1), (2,), calls)])
    inputs = [np.array(x, np.float32) for x in (2.5, -3.0)]
    (modelled,) = run_method(et.read_program(data), inputs)
    with runtime.load(data) as session:
        (found,) = session.run(inputs)
    assert found.shape == modelled.shape == ()
    assert found == modelled == np.float32(-7.5)


@pytest.mark.runtime
def test_runtime_has_every_kernel(runtime: ExecuTorchRuntime) -> None:
    assert set(KERNELS) <= set(runtime.kernels())


def chain_of_relus(count: int) -> Method:
    """Input, `count` times ``relu``, output; all of one type."""
    kind = TensorType((2, 3), F32)
    values = tuple(TensorValue(f"t{number}", kind) for number in range(count + 1))
    calls = tuple(
        KernelCall("aten::relu", "out", (number, number + 1, number + 1)) for number in range(count)
    )
    return Method("forward", values, (0,), (count,), calls)


def test_model_uses_the_memory_plan() -> None:
    file = et.read_program(link_program([chain_of_relus(3)]))
    array = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.testing.assert_array_equal(run_method(file, [array])[0], np.maximum(array, 0))
    values = file.program.execution_plan[0].values if file.program.execution_plan else None
    assert values is not None
    first, second = values[0].val, values[1].val
    assert isinstance(first, et.Tensor)
    assert isinstance(second, et.Tensor)
    # A constant of ones written over the input shows in a plan that lets both share memory.
    add = Method(
        "forward",
        (*(TensorValue(n, TensorType((2, 3), F32)) for n in "abc"), 1),
        (0,),
        (2,),
        (
            KernelCall("aten::exp", "out", (0, 1, 1)),
            KernelCall("aten::add", "out", (0, 1, 3, 2, 2)),
        ),
    )
    file = et.read_program(link_program([add]))
    right = run_method(file, [array])[0]
    np.testing.assert_allclose(right, array + np.exp(array), rtol=1e-6)
    overlapping = (file.program.execution_plan or [])[0].values or []
    a, b = overlapping[0].val, overlapping[1].val
    assert isinstance(a, et.Tensor)
    assert isinstance(b, et.Tensor)
    b.allocation_info = a.allocation_info
    wrong = run_method(file, [array])[0]
    np.testing.assert_allclose(wrong, 2 * np.exp(array), rtol=1e-6)


def test_control_flow() -> None:
    method = Method(
        "forward",
        (
            TensorValue("x", TensorType((), B)),
            TensorValue("y", TensorType((), B)),
        ),
        (0,),
        (1,),
        (
            KernelCall("aten::logical_not", "out", (0, 1, 1)),
            KernelCall("aten::logical_not", "out", (1, 1, 1)),
        ),
    )
    program = et.read_program(link_program([method])).program
    chain = ((program.execution_plan or [])[0].chains or [])[0]
    steps = chain.instructions or []
    jump = et.JumpFalseCall(cond_value_index=0, destination_instruction=3)
    chain.instructions = [steps[0], et.Instruction(instr_args=jump), steps[1]]
    file = et.read_program(et.write_program(program))
    # True: negated twice. False: the second negation is jumped over.
    assert run_method(file, [np.array(True)])[0]
    assert run_method(file, [np.array(False)])[0]


@pytest.mark.long
def test_faults() -> None:
    data = link_program([chain_of_relus(1)])
    file = et.read_program(data)
    array = np.zeros((2, 3), np.float32)
    with pytest.raises(UsageError, match="no method 'other'"):
        run_method(file, [array], "other")
    with pytest.raises(UsageError, match="takes 1 inputs"):
        run_method(file, [])
    with pytest.raises(UsageError, match="type float32"):
        run_method(file, [array.astype(np.float64)])
    with pytest.raises(SimulationError, match="does not fit a tensor"):
        run_method(file, [array[:1]])
    kind = TensorType((2, 3), F32)
    values = (TensorValue("x", kind), TensorValue("y", kind), TensorValue("z", kind), 1)
    unwritten = Method(
        "forward", values, (0,), (2,), (KernelCall("aten::add", "out", (0, 1, 3, 2, 2)),)
    )
    with pytest.raises(SimulationError, match="nothing wrote"):
        run_method(et.read_program(link_program([unwritten])), [array])
    unknown = Method("forward", values[:2], (0,), (1,), (KernelCall("my::op", "out", (0, 1, 1)),))
    with pytest.raises(UnsupportedError, match=r"kernel my::op\.out has no model"):
        run_method(et.read_program(link_program([unknown])), [array])
