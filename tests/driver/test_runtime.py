from __future__ import annotations

import io
import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests import official
from tests.support import need_executorch

from fitzroy.base.errors import DeviceError, FormatError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.driver.runtime import (
    ExecuTorchRuntime,
    MethodInfo,
    OracleRuntime,
    Port,
    Runtime,
    available,
)
from fitzroy.driver.runtime.wire import receive, send
from fitzroy.formats import bundled, xnnpack
from fitzroy.formats import executorch as et
from fitzroy.formats.method import DelegateCall, KernelCall, Method, TensorValue
from fitzroy.linker.packages.executorch import link_program

KIND = TensorType((2, 3), DType.FLOAT32)
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def scaled(name: str = "forward", factor: float = 3.0) -> Method:
    """Outputs: input times a constant, and its rectified form."""
    values = (
        TensorValue("x", KIND),
        TensorValue("factor", TensorType((1,), DType.FLOAT32), np.array([factor], np.float32)),
        TensorValue("product", KIND),
        TensorValue("positive", KIND),
    )
    calls = (
        KernelCall("aten::mul", "out", (0, 1, 2, 2)),
        KernelCall("aten::relu", "out", (2, 3, 3)),
    )
    return Method(name, values, (0,), (2, 3), calls)


def program(factor: float = 3.0) -> bytes:
    return link_program([scaled(factor=factor), scaled("half", 0.5)])


@pytest.fixture(scope="module")
def real() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1, timeout=30) as opened:
        yield opened


@pytest.fixture(
    params=[pytest.param("executorch", marks=pytest.mark.runtime), "oracle"], scope="module"
)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = (
        OracleRuntime() if request.param == "oracle" else request.getfixturevalue("real")
    )
    return found


def test_run(runtime: Runtime) -> None:
    with runtime.load(program()) as session:
        port = Port("x", KIND)
        assert session.methods[0] == MethodInfo(
            "forward", (port,), (Port("product", KIND), Port("positive", KIND))
        )
        assert [info.name for info in session.methods] == ["forward", "half"]
        product, rectified = session.run([X])
        np.testing.assert_array_equal(product, 3 * X)
        np.testing.assert_array_equal(rectified, np.maximum(3 * X, 0))
        np.testing.assert_array_equal(session.run([X], "half")[0], X / 2)
        # Arrays need not be contiguous.
        turned = np.ascontiguousarray(X.T).T
        np.testing.assert_array_equal(session.run([turned])[0], 3 * X)


def test_load_file(runtime: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "a.pte"
    path.write_bytes(program())
    with runtime.load_file(path) as session:
        np.testing.assert_array_equal(session.run([X])[0], 3 * X)
    with pytest.raises(UsageError, match="no such file"):
        runtime.load_file(tmp_path / "absent.pte")


def test_many_sessions_at_once(runtime: Runtime) -> None:
    sessions = [runtime.load(program(float(n))) for n in range(1, 6)]
    for factor, session in enumerate(sessions, start=1):
        np.testing.assert_array_equal(session.run([X])[0], factor * X)
    sessions[0].close()
    sessions[0].close()
    np.testing.assert_array_equal(sessions[4].run([X])[0], 5 * X)
    with pytest.raises(UsageError, match="closed"):
        sessions[0].run([X])
    for session in sessions:
        session.close()


def test_bad_requests(runtime: Runtime) -> None:
    with runtime.load(program()) as session:
        with pytest.raises(UsageError, match="'other': the program has 'forward', 'half'"):
            session.run([X], "other")
        with pytest.raises(UsageError, match="takes 1 inputs: 2 are given"):
            session.run([X, X])
        with pytest.raises(UsageError, match="input x has shape"):
            session.run([X[:1]])
        with pytest.raises(UsageError, match="input x has elements of type float32"):
            session.run([X.astype(np.int32)])
    with pytest.raises(FormatError, match=r"a\.pte"):
        runtime.load(b"\0" * 100, "a.pte")


def delegated() -> bytes:
    """Argmax of input times a constant; XNNPACK multiplies, a kernel searches."""
    graph = xnnpack.XNNGraph(
        xvalues=[
            xnnpack.XValue(
                value=xnnpack.TensorValue(
                    datatype=xnnpack.DataType.FP32,
                    num_dims=2,
                    dims=np.array([2, 3], np.uint32),
                    external_id=number,
                    id_out=number,
                    flags=xnnpack.ValueFlag.EXTERNAL_OUTPUT
                    if number == 2
                    else xnnpack.ValueFlag.EXTERNAL_INPUT,
                )
            )
            for number in range(3)
        ],
        xnodes=[xnnpack.XNode(node=xnnpack.XNNMultiply(input1_id=0, input2_id=1, output_id=2))],
        num_externs=3,
        input_ids=np.array([0, 1], np.uint32),
        output_ids=np.array([2], np.uint32),
        constant_data=[xnnpack.ConstantDataOffset()],
    )
    values = (
        TensorValue("x", KIND),
        TensorValue("factor", KIND, np.array([[1, -2, 3], [4, -5, 6]], np.float32)),
        TensorValue("product", KIND),
        1,
        False,
        TensorValue("best", TensorType((2,), DType.INT64)),
    )
    calls = (
        DelegateCall(et.XNNPACK_BACKEND, xnnpack.write_blob(graph), (0, 1, 2)),
        KernelCall("aten::argmax", "out", (2, 3, 4, 5, 5)),
    )
    return link_program([Method("forward", values, (0,), (2, 5), calls)])


def test_delegate_and_kernel(runtime: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "mixed.pte"
    path.write_bytes(delegated())
    product = X * np.array([[1, -2, 3], [4, -5, 6]], np.float32)
    for session in (runtime.load(delegated()), runtime.load_file(path)):
        with session:
            for _ in range(2):
                found, best = session.run([X])
                np.testing.assert_array_equal(found, product)
                np.testing.assert_array_equal(best, product.argmax(1))


@pytest.mark.slow
@pytest.mark.runtime
@pytest.mark.parametrize("kind", official.KINDS)
def test_programs_of_the_official_exporter(
    kind: str, real: ExecuTorchRuntime, tmp_path: Path
) -> None:
    path = tmp_path / "net.pte"
    official.export(kind, path)
    image = np.random.default_rng(5).normal(size=official.SHAPE).astype(np.float32)
    with real.load_file(path) as one, OracleRuntime().load_file(path) as other:
        assert one.methods == other.methods
        for found, wanted in zip(one.run([image]), other.run([image]), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def unknown_backend() -> bytes:
    values = (TensorValue("x", KIND), TensorValue("y", KIND))
    calls = (DelegateCall("Nobody", b"blob", (0, 1)),)
    return link_program([Method("forward", values, (0,), (1,), calls)])


def unknown_kernel() -> bytes:
    values = (TensorValue("x", KIND), TensorValue("y", KIND))
    calls = (KernelCall("aten::nothing", "out", (0, 1, 1)),)
    return link_program([Method("forward", values, (0,), (1,), calls)])


def test_oracle_refuses_what_it_cannot_model() -> None:
    with pytest.raises(UnsupportedError, match="'Nobody'"):
        OracleRuntime().load(unknown_backend())
    with pytest.raises(UnsupportedError, match="aten::nothing"):
        OracleRuntime().load(unknown_kernel())


@pytest.mark.runtime
def test_refusals_are_explained(real: ExecuTorchRuntime) -> None:
    with pytest.raises(DeviceError, match="0x20 means not found") as caught:
        real.load(unknown_backend(), "a.pte")
    assert "Nobody" in caught.value.reason
    assert caught.value.where == "a.pte"
    with pytest.raises(DeviceError, match="0x14 means the runtime lacks a kernel"):
        real.load(unknown_kernel())
    # The worker is still usable.
    with real.load(program()) as session:
        np.testing.assert_array_equal(session.run([X])[0], 3 * X)


@pytest.mark.runtime
def test_time(real: ExecuTorchRuntime) -> None:
    with real.load(program()) as session:
        seconds = session.time([X], 5)
        assert len(seconds) == 5
        assert all(0 < value < 1 for value in seconds)
        with pytest.raises(UsageError, match="at least one run"):
            session.time([X], 0)


@pytest.mark.long
@pytest.mark.runtime
def test_crash_and_hang_become_device_errors() -> None:
    need_executorch()
    with ExecuTorchRuntime(timeout=30) as runtime:
        session = runtime.load(program())
        child = runtime._child
        assert child is not None
        os.kill(child.process.pid, signal.SIGSEGV)
        child.process.wait()
        with pytest.raises(DeviceError, match="has ended"):
            session.run([X])
        session.close()
        session = runtime.load(program())
        child = runtime._child
        assert child is not None
        os.kill(child.process.pid, signal.SIGSTOP)
        runtime.timeout = 0.2
        with pytest.raises(DeviceError, match=r"no answer within 0\.2 s"):
            session.run([X])


@pytest.mark.long
@pytest.mark.runtime
def test_crash_during_a_request_names_the_signal() -> None:
    need_executorch()
    file = et.read_program(program())
    plan = file.plan("forward")
    assert plan is not None
    for value in plan.values or ():
        if isinstance(value.val, et.Tensor) and value.val.name == "positive":
            # The library's verification of bundles gives unplanned outputs no memory.
            value.val.allocation_info = None
    suite = bundled.Suite("forward", (bundled.Case((X,), (X, X)),))
    data = bundled.write_bundle(et.write_program(file.program, file.segments), [suite])
    with ExecuTorchRuntime(timeout=30) as runtime:
        with pytest.raises(DeviceError, match=r"crashed with SIG[A-Z]+ \(\d+\)"):
            runtime.verify_bundle(data)
        runtime.verify_bundle(bundle())


def bundle(shift: float = 0.0, *, old: bool = False) -> bytes:
    outputs = (3 * X + np.float32(shift), np.maximum(3 * X, 0))
    suite = bundled.Suite("forward", (bundled.Case((X,), outputs),))
    if old:
        return bundled.write_old_bundle(bundled.Bundle(b"BP04", memoryview(program()), (suite,)))
    return bundled.write_bundle(program(), [suite])


@pytest.mark.runtime
def test_bundle(real: ExecuTorchRuntime) -> None:
    real.verify_bundle(bundle())
    with pytest.raises(DeviceError, match="the outputs differ from the expected ones"):
        real.verify_bundle(bundle(0.5))
    real.verify_bundle(bundle(0.5), atol=0.6)
    with pytest.raises(UsageError, match="no case 1 for method 'forward': it has 1"):
        real.verify_bundle(bundle(), case=1)
    with pytest.raises(UsageError, match="no case 0 for method 'half': it has 0"):
        real.verify_bundle(bundle(), "half")
    with pytest.raises(FormatError, match="layout BP04"):
        real.verify_bundle(bundle(old=True))


@pytest.mark.runtime
def test_bad_options() -> None:
    need_executorch()
    with pytest.raises(UsageError, match="at least one thread"):
        ExecuTorchRuntime(threads=0)
    with pytest.raises(UsageError, match="timeout must be positive"):
        ExecuTorchRuntime(timeout=0)


def test_absent_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", absent)
    assert not available()
    with pytest.raises(UsageError, match="not installed"):
        ExecuTorchRuntime()


def test_wire_round_trip() -> None:
    stream = io.BytesIO()
    arrays: list[Array] = [X, X.T, np.zeros((0, 3), np.int8), np.array(True), np.array([1 << 40])]
    send(stream, {"command": "run", "number": 3}, arrays)
    stream.seek(0)
    message = receive(stream)
    assert message.fields == {"command": "run", "number": 3}
    for found, wanted in zip(message.arrays, arrays, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        assert found.shape == wanted.shape
    with pytest.raises(EOFError):
        receive(stream)


def test_wire_truncation() -> None:
    stream = io.BytesIO()
    send(stream, {}, [X])
    data = stream.getvalue()
    assert struct.unpack_from("<I", data)[0] < len(data)
    for size in range(len(data)):
        with pytest.raises(EOFError):
            receive(io.BytesIO(data[:size]))
