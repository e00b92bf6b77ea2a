"""All targets by name."""

from __future__ import annotations

from tests.fuzz import (
    arrays,
    chip,
    command_line,
    detectors,
    evaluations,
    graphs,
    interfaces,
    model_tests,
    onnx_models,
    packed,
    seeds,
    sessions,
    stages,
    targets,
    usb_host,
    vectors,
)
from tests.fuzz.bitstreams import bitstream_mutant
from tests.fuzz.hostile import document_mutant
from tests.fuzz.listings import listing_mutant
from tests.fuzz.subject import Subject
from tests.fuzz.tables import object_mutant, package_mutant, table_mutant, wrapped_mutant

from fitzroy.compiler.frontends.onnx.reader import decode
from fitzroy.compiler.passes.heads.anchors import parse_anchors
from fitzroy.execution import hosts
from fitzroy.formats import (
    bundled,
    bytecode_module,
    compilation_record,
    custom_op,
    darwinn,
    executorch,
    tflite,
    xnnpack,
)
from fitzroy.formats.detect import FileKind
from fitzroy.formats.object_file import read_object
from fitzroy.formats.probe_report import read_report
from fitzroy.hw_models.chips import usb
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.vm import text as module_text
from fitzroy.hw_models.vm.verifier import dialect_of
from fitzroy.linker.objects.assembly import parse_packages
from fitzroy.linker.objects.text import is_object, parse_object

_TABLES = (
    FileKind.TFLITE,
    FileKind.PROGRAM,
    FileKind.XNNPACK,
    FileKind.DARWINN,
    FileKind.OBJECT,
    FileKind.MODULE,
)

SUBJECTS: dict[str, Subject] = {
    "tflite": Subject(
        seeds.tflite_files,
        targets.tflite_target,
        tflite.read_model,
        (FileKind.TFLITE,),
        lambda rng, seed, _: table_mutant(rng, seed),
    ),
    "onnx": Subject(
        onnx_models.onnx_files,
        onnx_models.onnx_target,
        lambda data: decode(data, "seed.onnx"),
        (FileKind.ONNX,),
        onnx_models.onnx_mutant,
    ),
    "detector": Subject(
        detectors.detector_files,
        detectors.detector_target,
        tflite.read_model,
        (FileKind.TFLITE,),
        lambda rng, seed, _: table_mutant(rng, seed),
        sample=25,
    ),
    "interpreter": Subject(
        interfaces.interpreter_files,
        interfaces.interpreter_target,
        interfaces.interpreter_target,
        (FileKind.TFLITE,),
        lambda rng, seed, _: table_mutant(rng, seed),
        sample=100,
    ),
    "learner": Subject(
        interfaces.learner_files,
        interfaces.learner_target,
        interfaces.learner_read,
        (FileKind.TFLITE,),
        lambda rng, seed, _: table_mutant(rng, seed),
        sample=100,
    ),
    "program": Subject(
        seeds.program_files,
        targets.program_target,
        executorch.read_program,
        (FileKind.PROGRAM,),
    ),
    "bundle": Subject(
        seeds.bundle_files,
        targets.bundle_target,
        bundled.read_bundle,
        (FileKind.BUNDLED_PROGRAM, FileKind.BUNDLED_PROGRAM_BP04),
    ),
    "xnnpack": Subject(
        seeds.xnnpack_files,
        targets.xnnpack_target,
        xnnpack.read_blob,
        (FileKind.XNNPACK,),
    ),
    "darwinn": Subject(
        seeds.darwinn_files,
        targets.darwinn_target,
        darwinn.read_package,
        (FileKind.DARWINN,),
        lambda rng, seed, _: package_mutant(rng, seed),
    ),
    "custom_op": Subject(
        seeds.custom_op_files,
        targets.custom_op_target,
        lambda data: custom_op.extract(tflite.read_model(data)),
        (FileKind.TFLITE,),
        lambda rng, seed, _: wrapped_mutant(rng, seed),
    ),
    "object": Subject(
        seeds.object_files,
        targets.object_target,
        read_object,
        (FileKind.OBJECT,),
        lambda rng, seed, _: object_mutant(rng, seed),
        sample=150,
    ),
    "assembly": Subject(
        seeds.assembly_files,
        targets.assembly_target,
        lambda data: (parse_object if is_object(data.decode()) else parse_packages)(data.decode()),
        change=listing_mutant,
        sample=150,
    ),
    "bitstream": Subject(
        seeds.bitstream_files,
        targets.bitstream_target,
        disassemble,
        change=bitstream_mutant,
        sample=150,
    ),
    "module": Subject(
        seeds.module_files,
        targets.module_target,
        lambda data: dialect_of(bytecode_module.read_module(data)),
        (FileKind.MODULE,),
    ),
    "module_listing": Subject(
        seeds.module_listing_files,
        targets.module_listing_target,
        lambda data: module_text.assemble(data.decode()),
    ),
    "probe_report": Subject(
        seeds.probe_reports,
        targets.probe_report_target,
        read_report,
        change=lambda rng, seed, _: document_mutant(rng, seed),
    ),
    "compilation_record": Subject(
        seeds.compilation_records,
        targets.compilation_record_target,
        compilation_record.decoded,
        change=lambda rng, seed, _: document_mutant(rng, seed),
    ),
    "host_profile": Subject(
        seeds.host_profiles,
        targets.host_profile_target,
        lambda data: hosts.parse(data, ""),
        change=lambda rng, seed, _: document_mutant(rng, seed),
    ),
    "anchors": Subject(
        seeds.anchor_files,
        targets.anchors_target,
        lambda data: parse_anchors(data, ""),
        change=lambda rng, seed, _: document_mutant(rng, seed),
    ),
    "object_store": Subject(seeds.object_stores, targets.object_store_target, usb.parts),
    "model_test": Subject(
        model_tests.specs, model_tests.as_spec, model_tests.as_spec, change=listing_mutant
    ),
    "document": Subject(
        model_tests.documents,
        model_tests.document_target,
        model_tests.read_document,
        change=lambda rng, seed, _: document_mutant(rng, seed),
    ),
    "data_set": Subject(evaluations.data_sets, evaluations.data_target, evaluations.as_data),
    "evaluation_records": Subject(
        evaluations.record_files, evaluations.as_records, evaluations.as_records
    ),
    "usbip": Subject(seeds.usbip_files, targets.usbip_target, targets.usbip_messages),
    "usb": Subject(
        usb_host.scripts,
        lambda data: usb_host.play(data, targets.BUDGET),
        usb_host.read_script,
        change=usb_host.script_mutant,
    ),
    "strings": Subject(
        seeds.table_files,
        vectors.shown_target,
        vectors.opened,
        _TABLES,
        vectors.text_mutant,
        blind=False,
        sample=100,
    ),
    "vectors": Subject(
        seeds.table_files,
        vectors.read_target,
        vectors.opened,
        _TABLES,
        vectors.vector_mutant,
        blind=False,
        sample=150,
    ),
    "npy": Subject(arrays.npy_files, arrays.as_npy, arrays.as_npy, change=arrays.npy_mutant),
    "npz": Subject(arrays.npz_files, arrays.as_npz, arrays.as_npz, change=arrays.npz_mutant),
    "image": Subject(arrays.images, arrays.as_image, arrays.as_image),
    "labels": Subject(
        arrays.labels_files, arrays.labels_target, arrays.as_labels, change=arrays.labels_mutant
    ),
    "packed_labels": Subject(
        packed.labelled_files, packed.target, tflite.read_model, (FileKind.TFLITE,), packed.change
    ),
    "graph_text": Subject(
        graphs.files, graphs.target, graphs.parse, (FileKind.GRAPH_TEXT,), graphs.text_mutant
    ),
    "stages": Subject(stages.files, stages.target, stages.read, change=listing_mutant, sample=200),
    "simulator": Subject(
        chip.simulated,
        chip.simulate,
        chip.read,
        (FileKind.DARWINN,),
        chip.program_mutant,
        blind=False,
        seconds=5.0,
        sample=30,
    ),
    "hints": Subject(
        chip.hinted,
        chip.drive,
        chip.read,
        (FileKind.DARWINN,),
        chip.hints_mutant,
        blind=False,
        sample=25,
    ),
    "recording": Subject(
        sessions.files, sessions.target, sessions.read, change=sessions.session_mutant, sample=100
    ),
    "command_line": Subject(
        command_line.command_lines,
        command_line.target,
        command_line.read,
        change=command_line.command_mutant,
        blind=False,
        seconds=5.0,
        sample=100,
    ),
}
