"""What a file of each format goes through: its reader, and all that looks at the result."""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from tests.fuzz import programs

from fitzroy.base.errors import FitzroyError, FormatError, InternalError, UnsupportedError
from fitzroy.compilation.build import compile
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ops.box_coding import ANCHOR
from fitzroy.compiler.passes.heads.anchors import YOLO_BOXES, Grid, Yolo, parse_anchors
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.xnnpack.options import Uint8Policy
from fitzroy.execution import hosts
from fitzroy.formats import (
    bundled,
    bytecode_module,
    compilation_record,
    custom_op,
    darwinn,
    executorch,
    flat,
    tflite,
    xnnpack,
)
from fitzroy.formats.darwinn import ExecutableType
from fitzroy.formats.detect import FileKind
from fitzroy.formats.object_file import ObjectFile, read_object, write_object
from fitzroy.formats.probe_report import read_report, write_report
from fitzroy.hw_models.chips.usb import simulation_request
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import assemble, bundle_count, disassemble
from fitzroy.hw_models.isa.text import Chunk, ChunkParser, Numbering, listing, uncommented
from fitzroy.hw_models.usb_device.usbip import messages
from fitzroy.hw_models.usb_device.usbip.session import transfer_of
from fitzroy.hw_models.vm import text as module_text
from fitzroy.hw_models.vm.context import Context, NativeModule, check_types
from fitzroy.hw_models.vm.functions import NativeFunction
from fitzroy.hw_models.vm.objects import MutableByteBuffer, Value
from fitzroy.hw_models.vm.verifier import dialect_of
from fitzroy.hw_models.xnnpack.values import read_values
from fitzroy.linker.objects.assembly import executable_chunks, package_listing, parse_packages
from fitzroy.linker.objects.edit import with_programs
from fitzroy.linker.objects.recover import recover
from fitzroy.linker.objects.symbols import reference_of
from fitzroy.linker.objects.text import is_object, object_listing, parse_object
from fitzroy.linker.packages.container import Container
from fitzroy.linker.packages.darwinn import LinkOptions, link
from fitzroy.linker.resolve.caching import (
    Generation,
    caching_program,
    segments_of,
    streamed_segments,
)
from fitzroy.linker.resolve.fields import AddressField
from fitzroy.linker.schedule import derive

BUDGET = 100_000
"""Most steps of the scalar core in a case, several times what any seed needs."""


def tflite_target(data: bytes) -> None:
    model = tflite.read_model(data, "fuzz.tflite")
    for subgraph in model.subgraphs or ():
        for operator in subgraph.operators or ():
            with contextlib.suppress(UnsupportedError):
                tflite.operator_name(model, operator)
        for tensor in subgraph.tensors or ():
            with contextlib.suppress(FormatError, UnsupportedError):
                tflite.type_of(tensor)
            with contextlib.suppress(FormatError, UnsupportedError):
                tflite.constant(model, tensor)
    with contextlib.suppress(UnsupportedError):
        again = tflite.read_model(tflite.write_model(model))
        if again != model:
            raise AssertionError("a model changes when written and read")
    for number in range(len(model.subgraphs or ())):
        graph = import_model(model, path="fuzz.tflite", subgraph=number)
        verify(graph)
        for policy in Uint8Policy:
            with contextlib.suppress(UnsupportedError):
                compile(graph, uint8=policy)


def xnnpack_target(data: bytes) -> None:
    blob = xnnpack.read_blob(data, path="fuzz.xnn")
    flat.as_dict(blob.graph)
    for index in range(1, len(blob.graph.constant_data or blob.graph.constant_buffer or ())):
        with contextlib.suppress(FormatError):
            xnnpack.constant_bytes(blob, index)
    read_values(blob, lambda _: memoryview(bytes(8)), "fuzz.xnn")


def program_target(data: bytes) -> None:
    file = executorch.read_program(data, path="fuzz.pte")
    flat.as_dict(file.program)
    refusals: list[FormatError | UnsupportedError] = []
    for plan in file.program.execution_plan or ():
        for value in plan.values or ():
            if isinstance(value.val, executorch.Tensor):
                try:
                    held = file.tensor_data(value.val)
                    if held is not None:
                        executorch.tensor_array(value.val, held)
                except FormatError as error:
                    refusals.append(error)
        for delegate in plan.delegates or ():
            try:
                blob = xnnpack.read_blob(file.delegate_data(delegate), path="fuzz.pte")
                read_values(blob, file.named, "fuzz.pte")
            except (FormatError, UnsupportedError) as error:
                refusals.append(error)
    if refusals:
        raise refusals[0]


def bundle_target(data: bytes) -> None:
    bundle = bundled.read_bundle(data, path="fuzz.bpte")
    file = executorch.read_program(bundle.program, path="fuzz.bpte")
    for method in file.methods:
        bundle.suite(method)


def darwinn_target(data: bytes) -> None:
    file = darwinn.read_package(data, path="fuzz.darwinn")
    flat.as_dict(file.package)
    _ = file.main, file.caching
    for executable in file.executables:
        flat.as_dict(executable)
        again = darwinn.read_executable(darwinn.write_executable(executable))
        if flat.diff(executable, again):
            raise AssertionError("an executable changes when written and read")
        for layer in (*executable.inputs.values(), *executable.outputs.values()):
            _ = layer.packed_bytes
    if darwinn.diff(file, darwinn.read_package(darwinn.write_package(file))):
        raise AssertionError("a package changes when written and read")


def custom_op_target(data: bytes) -> None:
    model = changed = tflite.read_model(data, "fuzz.tflite")
    ops = custom_op.extract(model, "fuzz.tflite", data)
    refusals: list[FormatError | UnsupportedError] = []
    for index, op in enumerate(ops):
        try:
            op.layers(op.read().main)
        except (FormatError, UnsupportedError) as error:
            refusals.append(error)
        changed = custom_op.replace(changed, index, op.package)
    with contextlib.suppress(UnsupportedError):
        written = tflite.write_model(changed)
        again = custom_op.extract(tflite.read_model(written), data=written)
        for op, other in zip(ops, again, strict=True):
            if op.package != other.package or op.options.keys() != other.options.keys():
                raise AssertionError("options change when written and read")
    if refusals:
        raise refusals[0]


def object_target(data: bytes) -> None:
    file = read_object(data, "fuzz.o")
    flat.as_dict(file)
    if flat.diff(file, read_object(write_object(file))):
        raise AssertionError("an object changes when written and read")
    # Linking takes long: each case is linked in one of six ways, and every other one is listed.
    salt = zlib.crc32(data)
    generation = list(Generation)[salt % len(Generation)]
    others = programs.objects()[1:2] if salt & 1 << 8 else ()
    with collected() as attempt:
        if salt & 1 << 9:
            with attempt:
                _check_listing(file)
        with attempt:
            linked = link([file, *others], LinkOptions(generation, budget=BUDGET))
            again = darwinn.read_package(darwinn.write_package(linked[0]))
            write_object(recover(again, "again"))


def _check_listing(file: ObjectFile) -> None:
    """The text of an object gives an object with the same text."""
    lines = list(object_listing(file))
    again = parse_object("\n".join(lines))
    write_object(again)
    if list(object_listing(again)) != lines:
        raise AssertionError("the listing of an object changes when parsed and printed")


def assembly_target(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FormatError("not UTF-8", path="fuzz.s") from None
    if is_object(text):
        found = parse_object(text, "fuzz.s")
        _check_listing(read_object(write_object(found)))
        return
    packages = programs.packages()
    edited = with_programs(packages, parse_packages(text, "fuzz.s"), budget=BUDGET)
    for program in parse_packages("\n".join(package_listing(enumerate(edited)))):
        executable = edited[program.package].of_kind(program.type)
        assert executable is not None
        if _content(program.chunks) != _content(executable_chunks(executable)):
            raise AssertionError("a program changes when printed and parsed")
    for old, new in zip(packages, edited, strict=True):
        written = Container(FileKind.DARWINN, b"", (old,)).replaced([new])
        if written and darwinn.diff(new, darwinn.read_package(written)):
            raise AssertionError("a package changes when written and read")


def _content(chunks: Sequence[Chunk]) -> list[tuple[bytes, dict[int, str]]]:
    return [(assemble(chunk.instructions), chunk.symbols) for chunk in chunks]


def bitstream_target(data: bytes) -> None:
    instructions = disassemble(data, path="fuzz.bin")
    if assemble(instructions) != data:
        raise AssertionError("a bitstream changes when disassembled and assembled")
    chunks = programs.split(instructions)
    fields = programs.fields(chunks)
    with collected() as attempt:
        with attempt:
            _check_program_listing(chunks, fields, len(data))
        with attempt:
            derive(chunks, fields, fences=len(data) % 32 == 0, budget=BUDGET)
        with attempt:
            _check_segments(instructions)
        with attempt:
            streamed_segments(instructions, [(0, 1 << 20), (64, 64)])
        with attempt:
            _check_recovery(chunks, fields)


def _check_program_listing(
    chunks: Sequence[Sequence[Instruction]], fields: Sequence[AddressField], salt: int
) -> None:
    """Chunks with symbols at their fields, and at one other place, survive their text."""
    parser = ChunkParser("fuzz.s")
    numbering = Numbering()
    for index, chunk in enumerate(chunks):
        symbols = {salt * 7919 % (bundle_count(chunk) * BUNDLE_BITS): 'row("fuzz")'} | {
            field.bit: reference_of(field).text() for field in fields if field.chunk == index
        }
        lines = listing(chunk, symbols=symbols, numbering=numbering)
        for number, line in enumerate(lines, start=1):
            parser.line(number, uncommented(line))
        again = parser.finish()
        if assemble(again.instructions) != assemble(chunk) or again.symbols != symbols:
            raise AssertionError("a bitstream changes when printed and parsed")


def _check_segments(instructions: Sequence[Instruction]) -> None:
    """Segments of any program are those of programs that are made for them."""
    segments = sorted(segments_of(instructions), key=lambda segment: segment.position)
    for generation in Generation if segments else ():
        made = segments_of(caching_program(segments, generation=generation).instructions)
        if [replace(item, operand=0) for item in made] != [
            replace(item, operand=0) for item in segments
        ]:
            raise AssertionError("segments change when a program is made for them")


def _check_recovery(
    chunks: Sequence[Sequence[Instruction]], fields: Sequence[AddressField]
) -> None:
    """Recovery of a package whose programs are both this one."""
    streams = [
        darwinn.InstructionBitstream(
            bitstream=np.frombuffer(assemble(chunk), np.uint8),
            field_offsets=[field.offset() for field in fields if field.chunk == number],
        )
        for number, chunk in enumerate(chunks)
    ]
    executables = [
        darwinn.Executable(
            batch_size=1,
            instruction_bitstreams=streams,
            type=int(kind),
            parameters=np.zeros(1 << 14, np.uint8),
        )
        for kind in (ExecutableType.EXECUTION_ONLY, ExecutableType.PARAMETER_CACHING)
    ]
    write_object(recover(darwinn.PackageFile(executables=executables), "fuzz"))


def usbip_messages(data: bytes) -> list[messages.Message]:
    """What a server is sent on a connection, or the list that a client is sent."""
    stream = io.BytesIO(data)
    if data[2:4] == messages.OpCode.REPLY_LIST.to_bytes(2, "big"):
        return [part for entry, inner in messages.read_list(stream) for part in (entry, *inner)]
    first = messages.read_op(stream)
    found: list[messages.Message] = list(first or ())
    if first is None or first[0].code is not messages.OpCode.REQUEST_IMPORT:
        return found
    while (request := messages.read_urb(stream)) is not None:
        urb, payload = request
        if isinstance(urb, messages.Submit):
            transfer = transfer_of(urb, payload)
            if len(transfer.data) + transfer.length != urb.length:
                raise AssertionError("a transfer has another size than its request")
        found.append(urb)
    return found


def usbip_target(data: bytes) -> None:
    for message in usbip_messages(data):
        if type(message).unpack(message.pack()) != message:
            raise AssertionError("a message changes when written and read")


def module_target(data: bytes) -> None:
    module = bytecode_module.read_module(data, "fuzz.module")
    flat.as_dict(module)
    if flat.diff(module, bytecode_module.read_module(bytecode_module.write_module(module))):
        raise AssertionError("a module changes when written and read")
    dialect = dialect_of(module, "fuzz.module")
    listing_of = module_text.disassemble(module, dialect)
    again, _ = module_text.assemble(listing_of)
    if module_text.disassemble(again, dialect) != listing_of:
        raise AssertionError("the listing of a module changes when parsed and printed")
    check_types(module)
    with Context([*module_host(), (module, dialect)], budget=BUDGET) as context:
        for item in module.exported_functions or ():
            signature = (module.internal_functions or [])[item.internal_ordinal].signature
            assert signature is not None
            arguments: list[Value] = [
                7 if module.type_names[kind] == "i32" else MutableByteBuffer(bytes(8))
                for kind in signature.arguments
            ]
            context.invoke(item.local_name or "", arguments)


def module_listing_target(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FormatError("not UTF-8", path="fuzz.s") from None
    module, dialect = module_text.assemble(text, "fuzz.s")
    printed = module_text.disassemble(module, dialect)
    if module_text.disassemble(*module_text.assemble(printed)) != printed:
        raise AssertionError("the listing of a module changes when parsed and printed")


def module_host() -> list[NativeModule]:
    """Imports of the seeds: buffers, and executors that do nothing."""
    nothing: dict[str, NativeFunction] = {"execute": lambda call: [], "invoke": lambda call: []}
    allocate: dict[str, NativeFunction] = {
        "alloc": lambda call: [MutableByteBuffer(bytes(8))],
        "clone": lambda call: [MutableByteBuffer(bytes(8))],
    }
    executors = ("darwinn", "xnnpack", "tflite")
    return [
        NativeModule("buffer", allocate),
        *(NativeModule(name, nothing) for name in executors),
    ]


class _Attempts:
    """Steps of which each may be refused; the first refusal counts in the end."""

    def __init__(self) -> None:
        self.refusal: FitzroyError | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, FitzroyError) and not isinstance(error, InternalError):
            self.refusal = self.refusal or error
            return True
        return False


@contextlib.contextmanager
def collected() -> Iterator[_Attempts]:
    """Attempts at several steps; raises the first refusal among them."""
    attempts = _Attempts()
    yield attempts
    if attempts.refusal is not None:
        raise attempts.refusal


def probe_report_target(data: bytes) -> None:
    report = read_report(data, "fuzz.json")
    if read_report(write_report(report)) != report:
        raise AssertionError("a report changes when written and read")
    for text in report.confirmed:
        if not text.isascii() or not text.isprintable():
            raise AssertionError(f"{text!r} is confirmed")


def compilation_record_target(data: bytes) -> None:
    record = compilation_record.decoded(data, "fuzz.tflite")
    if record is None:
        return
    if compilation_record.decoded(compilation_record.encoded(record)) != record:
        raise AssertionError("a record changes when written and read")


def object_store_target(data: bytes) -> None:
    """What a silent device says of itself."""
    request = simulation_request(data)
    if request is not None and not 0 <= request <= 255:
        raise AssertionError(f"a request of {request}")


def anchors_target(data: bytes) -> None:
    found = parse_anchors(data, "fuzz.json")
    if isinstance(found, Yolo):
        # As many levels as there are anchors for; more than there are cells for are refused.
        levels = min(len(found.extents) // YOLO_BOXES, 4)
        grids = [Grid(8 >> level, 8 >> level, YOLO_BOXES) for level in range(levels)]
        found = found.anchors((64, 64), grids)
    if found.rows.shape[1] != ANCHOR or not found.coding.has_anchors:
        raise AssertionError("anchors are no rows of a coding that has some")


def host_profile_target(data: bytes) -> None:
    host = hosts.parse(data, "fuzz.json")
    document = {"format": hosts.FORMAT, "version": hosts.VERSION, "constants": hosts.values(host)}
    if hosts.parse(json.dumps(document).encode(), "again.json") != host:
        raise AssertionError("a profile changes when written and read")
