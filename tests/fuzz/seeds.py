"""Small well-formed files that mutations start from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tests.compiler import test_tflite_features
from tests.compiler.zoo_plain import zoo_plain
from tests.formats import test_custom_op, test_darwinn, test_tflite, test_xnnpack_format
from tests.fuzz import programs
from tests.hw_models.vm_programs import random_program
from tests.support import corpus_models

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.targets.vm.program import EntryPoint, Executor, Invocation, host_program
from fitzroy.execution.hosts import FORMAT, VERSION, values
from fitzroy.formats import bundled, custom_op, darwinn, executorch, flat, sparse, tflite, xnnpack
from fitzroy.formats.bytecode_module import BytecodeModule, write_module
from fitzroy.formats.compilation_record import (
    CompilationRecord,
    GeneratorOptions,
    PackageRecord,
    Step,
    encoded,
)
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.method import DelegateCall, KernelCall, Method, TensorList, TensorValue
from fitzroy.formats.object_file import write_object
from fitzroy.formats.probe_report import Report, Result, Status, write_report
from fitzroy.formats.reflection import Tensor
from fitzroy.formats.source_digest import OperatorDigest
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import USB2, USB3
from fitzroy.hw_models.chips.usb import object_store
from fitzroy.hw_models.usb_device.usbip import messages as usbip
from fitzroy.hw_models.vm.text import disassemble
from fitzroy.linker.objects.assembly import package_listing
from fitzroy.linker.objects.recover import recover
from fitzroy.linker.objects.text import object_listing
from fitzroy.linker.packages.executorch import link_program

MOST_BYTES = 64 << 10
"""Files of the corpus up to this size serve as seeds."""


def corpus_files(pattern: str) -> list[bytes]:
    return [
        path.read_bytes() for path in corpus_models(pattern) if path.stat().st_size < MOST_BYTES
    ]


def _features() -> Iterator[bytes]:
    """One model of every operator on plain numbers, and those with variables and open shapes."""
    seen: set[str] = set()
    for graph in zoo_plain().values():
        if graph.name not in seen:
            seen.add(graph.name)
            yield tflite.write_model(export_model(graph))
    yield from (file.data() for file in test_tflite_features.examples())


def tflite_files() -> list[bytes]:
    outside, offset = test_tflite.behind(8)
    every = test_tflite.model()
    main = test_tflite.main(every)
    every.operator_codes = [tflite.operator_code(code) for code in tflite.BuiltinOperator]
    main.operators = [
        tflite.Operator(
            opcode_index=number,
            inputs=np.array([0, -1]),
            outputs=np.array([3 + number]),
            builtin_options=cls(),
            intermediates=np.array([2]),
        )
        for number, cls in enumerate(tflite.BUILTIN_OPTIONS)
    ]
    main.tensors = (main.tensors or []) + [
        tflite.Tensor(name=f"t{number}", shape=np.array([1, 2]), type=9)
        for number in range(1, len(tflite.BUILTIN_OPTIONS))
    ]
    odd = test_tflite.model()
    weights = test_tflite.tensor(odd, 1)
    weights.quantization = tflite.QuantizationParameters(
        details=tflite.BlockwiseQuantization(block_shape=np.array([1, 2]))
    )
    weights.sparsity = sparse.SparsityParameters(
        traversal_order=np.array([0, 1]),
        dim_metadata=[
            sparse.DimensionMetadata(
                format=1,
                array_segments=sparse.Uint8Vector(values=np.array([0, 1])),
                array_indices=sparse.Uint16Vector(values=np.array([1])),
            )
        ],
    )
    return [
        *_features(),
        tflite.write_model(test_tflite.model()),
        outside.ljust(offset, b"\0") + bytes(range(11)),
        tflite.write_model(every),
        tflite.write_model(odd),
        *corpus_files("**/*.tflite"),
    ]


def xnnpack_files() -> list[bytes]:
    graph, constants = test_xnnpack_format.graph(), test_xnnpack_format.CONSTANTS
    every = test_xnnpack_format.graph()
    every.xnodes = [xnnpack.XNode(node=cls()) for cls in xnnpack.NODE_TYPES]
    inline = test_xnnpack_format.graph()
    inline.constant_data = None
    inline.constant_buffer = [
        xnnpack.Buffer(),
        xnnpack.Buffer(storage=np.arange(8, dtype=np.uint8)),
    ]
    named = test_xnnpack_format.graph()
    named.constant_data = [
        xnnpack.ConstantDataOffset(),
        xnnpack.ConstantDataOffset(offset=xnnpack.NAMED_OFFSET, named_key="weights"),
    ]
    return [
        xnnpack.write_blob(graph, constants),
        xnnpack.write_blob(every, constants),
        flat.encode(inline, identifier=b"XN01"),
        xnnpack.write_blob(named),
    ]


def method(name: str = "forward") -> Method:
    """A delegate call between kernel calls, with constants and values of every kind."""
    row, pair = TensorType((1, 4), DType.INT8), TensorType((1, 2), DType.INT8)
    blob = xnnpack.write_blob(test_xnnpack_format.graph(), test_xnnpack_format.CONSTANTS)
    return Method(
        name=name,
        values=(
            TensorValue("in", row),
            TensorValue("constant", row, np.arange(4, dtype=np.int8).reshape(1, 4)),
            TensorValue("sum", row),
            TensorValue("out", pair),
            TensorList((0, 1)),
            1,
            1.5,
            True,
            None,
            "text",
            (1, 2),
            (0.5,),
        ),
        inputs=(0,),
        outputs=(3,),
        calls=(
            KernelCall("aten::add", "out", (0, 1, 5, 2, 2)),
            DelegateCall("XnnpackBackend", blob, (2, 3)),
        ),
    )


def program_files() -> list[bytes]:
    linked = link_program([method(), method("other")])
    file = executorch.read_program(linked)
    delegates = [
        executorch.BackendDelegateInlineData(data=np.frombuffer(segment, np.uint8))
        for segment in file.segments[1:]
    ]
    inline = executorch.read_program(link_program([method()])).program
    inline.segments = None
    inline.backend_delegate_data = delegates
    inline.constant_segment = executorch.SubsegmentOffsets(offsets=np.array([0], np.uint64))
    inline.constant_buffer = [
        executorch.Buffer(),
        executorch.Buffer(storage=np.arange(4, dtype=np.uint8)),
    ]
    for delegate in (inline.execution_plan or [])[0].delegates or ():
        delegate.processed = executorch.BackendDelegateDataReference(index=0)
    return [link_program([method()]), linked, executorch.write_program(inline)]


def bundle_files() -> list[bytes]:
    program = link_program([method()])
    case = bundled.Case(
        inputs=(np.arange(4, dtype=np.int8).reshape(1, 4), 3, 0.5, True),
        outputs=(np.zeros((1, 2), np.int8),),
    )
    suites = (bundled.Suite("forward", (case, case)),)
    old = bundled.Bundle(
        bundled.OLD_IDENTIFIER,
        memoryview(program),
        suites,
        {"text": "a", "number": 1, "bytes": b"abc", "real": 0.5, "flag": True},
    )
    return [bundled.write_bundle(program, suites), bundled.write_old_bundle(old)]


def darwinn_files() -> list[bytes]:
    alone = test_darwinn.package(test_darwinn.execution(darwinn.ExecutableType.STAND_ALONE))
    old = test_darwinn.package(test_darwinn.caching())
    old.package.min_runtime_version = 9
    return [
        darwinn.write_package(test_darwinn.package()),
        darwinn.write_package(alone),
        darwinn.write_package(old),
        *(
            bytes(op.package)
            for content in corpus_files("**/*edgetpu.tflite")
            for op in custom_op.extract(tflite.read_model(content))
        ),
    ]


def custom_op_files() -> list[bytes]:
    return [
        tflite.write_model(test_custom_op.wrapped()),
        tflite.write_model(test_custom_op.several()),
        *corpus_files("**/*edgetpu.tflite"),
    ]


def corpus_packages() -> list[PackageFile]:
    return [
        op.read()
        for content in corpus_files("**/*edgetpu.tflite")
        for op in custom_op.extract(tflite.read_model(content))
    ]


def object_files() -> list[bytes]:
    recovered = [write_object(recover(file, "model")) for file in corpus_packages()]
    return [*map(write_object, programs.objects()), *_smallest(recovered, 2)]


def assembly_files() -> list[bytes]:
    made = programs.objects()
    listings = [
        package_listing(enumerate(programs.packages())),
        *(package_listing([(number, file)]) for number, file in enumerate(programs.packages())),
        package_listing([(0, programs.packages()[0])], comments=False),
        *(object_listing(item) for item in made),
        object_listing(made[0], comments=False),
    ]
    return ["\n".join(listing).encode() for listing in listings]


def bitstream_files() -> list[bytes]:
    """All chunks of a program one after the other, with the fields marked."""
    own, others = (
        [programs.marked(executable) for file in files for executable in file.executables]
        for files in (programs.packages(), corpus_packages())
    )
    return [*own, *_smallest(others, 6)]


def modules() -> list[BytecodeModule]:
    """Random programs, and host programs of several calls with states and constants."""
    image = TensorType((1, 2, 2, 2), DType.INT8)
    names = {name: Tensor(name, image) for name in "xaby"}
    calls = (
        Invocation(Executor.DARWINN, b"one", ("x",), ("a",), (bytes(8),)),
        Invocation(Executor.TFLITE, b"two", ("a", "b"), ("y",)),
    )
    entry = EntryPoint(
        "main", (names["x"],), (names["y"], names["b"]), calls, names, {"b": bytes(8)}
    )
    return [host_program("host", [entry]), *map(random_program, range(6))]


def module_files() -> list[bytes]:
    return list(map(write_module, modules()))


def module_listing_files() -> list[bytes]:
    return [disassemble(module).encode() for module in modules()]


def usbip_files() -> list[bytes]:
    """A connection that imports a device and uses it, and the list that a server sends."""
    setup = bytes.fromhex("8006000100001200")
    inward, unlink = usbip.Direction.IN, usbip.Command.UNLINK
    requests = [
        usbip.OpHeader(code=usbip.OpCode.REQUEST_IMPORT).pack(),
        usbip.ImportBody("1-1").pack(),
        usbip.Submit(seq=1, devid=0x10002, direction=inward, length=18, setup=setup).pack(),
        usbip.Submit(seq=2, devid=0x10002, endpoint=1, length=24).pack() + bytes(range(24)),
        usbip.Submit(seq=3, direction=inward, endpoint=2, length=1 << 20, packets=0).pack(),
        usbip.Unlink(command=unlink, seq=4, devid=0x10002, victim=3).pack(),
    ]
    entry = usbip.DeviceEntry("/a", "1-1", 1, 2, 5, 0x18D1, 0x9302, 0x100, configurations=1)
    interfaces = [usbip.InterfaceEntry(255, 255, 255)]
    devices = [(dataclasses.replace(entry, interfaces=1), interfaces), (entry, [])]
    return [b"".join(requests), usbip.OpHeader().pack(), usbip.list_reply(devices)]


def _smallest(contents: list[bytes], count: int) -> list[bytes]:
    """The smallest ones, no two of a size: every case executes one."""
    by_size = {len(content): content for content in contents}
    return [content for _, content in sorted(by_size.items())][:count]


def probe_reports() -> list[bytes]:
    digest = "0123456789abcdef" * 4
    passed = Result(
        "load-with-alu",
        Status.PREDICTED,
        ("scalar load=register alu=shr immediate_b=1",),
        ("scalar-load-alone",),
        digest,
        digest,
        32,
        seconds=0.0004,
        predicted_seconds=0.0003,
    )
    differs = Result(
        "round-ties",
        Status.DIFFERS,
        expected=digest,
        observed=digest[::-1],
        size=256,
        differing=2,
        differences=((1, 64, 65), (3, 65, 66)),
        rule="halves up",
    )
    hangs = Result(
        "queued-consumers", Status.HANGS, expected=digest, size=64, error="DeadlineError"
    )
    head = ("usb", digest, "fitzroy", digest, "Linux aarch64", "2026-01-31T12:00:00Z")
    return [
        write_report(Report(*head)),
        write_report(Report(*head, (passed,))),
        write_report(Report(*head, (passed, differs, hangs))),
    ]


def host_profiles() -> list[bytes]:
    """Profiles of the hosts with USB that come with the chip."""
    return [
        json.dumps(
            {"format": FORMAT, "version": VERSION, "constants": values(host)}, indent=1
        ).encode()
        for host in BEAGLE.hosts.values()
        if host.bus in (USB2, USB3)
    ]


def anchor_files() -> list[bytes]:
    """Anchors of two boxes, with and without all that may be left out, and those of a YOLO."""
    rows = {"anchors": [[4, 4, 8, 8], [12, 4, 8, 16.5]]}
    more = {"coding": "exponential", "factors": [0.1, 0.2], "y_first": True, "scores": "softmax"}
    yolo = {"decoder": "yolov5", "anchors": [[4, 8.5], [16, 9], [12, 30]] * 2}
    files = (rows, {**rows, **more, "background": 1}, yolo)
    return [json.dumps(found).encode() for found in files]


def object_stores() -> list[bytes]:
    """Object stores of an accelerator, and of one that is simulated."""
    return [object_store(), object_store(simulated=True)]


def compilation_records() -> list[bytes]:
    """Records of no package, one and two."""
    options = GeneratorOptions(196608, tuple(range(16)), None, 201, False)
    few = PackageRecord((0,), options, (12,), (Step(0, 1, "send", "y", 0), Step(0, 9, "end", "")))
    many = PackageRecord(
        (1, 2, 5),
        replace(options, parameter_rows=7, conservative=True),
        (900, 40),
        tuple(Step(n // 8, n % 8 * 5, "dense", f"layer {n}", n % 3) for n in range(16)),
        tuple(OperatorDigest(f"layer {n}", f"{n:016x}", "0123456789abcdef") for n in range(3)),
    )
    return [encoded(CompilationRecord("0.1.0", packages)) for packages in ((), (few,), (few, many))]


def table_files() -> list[bytes]:
    """Small files with texts and vectors of bytes, some of every format that has tables."""
    return [
        content
        for files in (
            tflite_files, program_files, xnnpack_files, darwinn_files, custom_op_files,
            object_files, module_files,
        )
        for content in _smallest(files(), 6)
    ]  # fmt: skip
