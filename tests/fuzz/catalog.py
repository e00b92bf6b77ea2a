"""All targets by name."""

from __future__ import annotations

from tests.fuzz import seeds, targets, usb_host
from tests.fuzz.bitstreams import bitstream_mutant
from tests.fuzz.listings import listing_mutant
from tests.fuzz.subject import Subject
from tests.fuzz.tables import object_mutant, package_mutant, table_mutant, wrapped_mutant

from fitzroy.formats import (
    bundled,
    bytecode_module,
    custom_op,
    darwinn,
    executorch,
    tflite,
    xnnpack,
)
from fitzroy.formats.detect import FileKind
from fitzroy.formats.object_file import read_object
from fitzroy.formats.probe_report import read_report
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.vm import text as module_text
from fitzroy.hw_models.vm.verifier import dialect_of
from fitzroy.linker.objects.assembly import parse_packages
from fitzroy.linker.objects.text import is_object, parse_object

SUBJECTS: dict[str, Subject] = {
    "tflite": Subject(
        seeds.tflite_files,
        targets.tflite_target,
        tflite.read_model,
        (FileKind.TFLITE,),
        lambda rng, seed, _: table_mutant(rng, seed),
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
    ),
    "assembly": Subject(
        seeds.assembly_files,
        targets.assembly_target,
        lambda data: (parse_object if is_object(data.decode()) else parse_packages)(data.decode()),
        change=listing_mutant,
    ),
    "bitstream": Subject(
        seeds.bitstream_files,
        targets.bitstream_target,
        disassemble,
        change=bitstream_mutant,
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
    ),
    "usbip": Subject(seeds.usbip_files, targets.usbip_target, targets.usbip_messages),
    "usb": Subject(
        usb_host.scripts,
        lambda data: usb_host.play(data, targets.BUDGET),
        usb_host.read_script,
        change=usb_host.script_mutant,
    ),
}
