"""What is in a bytecode module, as plain dicts and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.cli.terminal import Column, Terminal, count, size
from fitzroy.formats import reflection
from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    FunctionSignatureDef,
    read_module,
)
from fitzroy.formats.detect import detect
from fitzroy.hw_models.vm.definedness import undefined_reads
from fitzroy.hw_models.vm.opcodes import Dialect, decode_all
from fitzroy.hw_models.vm.verifier import dialect_of

Document = Mapping[str, Any]


def describe_module(data: bytes, path: str) -> dict[str, Any]:
    """A module, which is verified on the way.

    Raises:
        FormatError: the virtual machine would refuse the module, or not survive it.
    """
    module = read_module(data, path)
    dialect = dialect_of(module, path)
    state = module.module_state
    return {
        "name": module.name,
        "dialect": dialect.name,
        "types": list(module.type_names),
        "imports": [
            {"name": item.full_name, **_signature(module, item.signature)}
            for item in module.imported_functions or ()
        ],
        "exports": [
            {"name": item.local_name, "function": item.internal_ordinal}
            for item in module.exported_functions or ()
        ],
        "functions": [
            _function(module, number, dialect) for number in range(len(module.descriptors))
        ],
        "rodata": [_segment(item.data) for item in module.rodata_segments or ()],
        "global_bytes": 0 if state is None else state.global_bytes_capacity,
        "global_refs": 0 if state is None else state.global_ref_count,
        "warnings": [f"{where}: {what}" for where, what in undefined_reads(module, dialect)],
    }


def _signature(module: BytecodeModule, signature: FunctionSignatureDef | None) -> dict[str, Any]:
    names = module.type_names
    if signature is None:
        return {"arguments": [], "results": []}
    return {
        "arguments": [names[kind] for kind in signature.arguments],
        "results": [names[kind] for kind in signature.results],
    }


def _function(module: BytecodeModule, number: int, dialect: Dialect) -> dict[str, Any]:
    function = (module.internal_functions or [])[number]
    place = module.descriptors[number]
    found: dict[str, Any] = {
        "name": function.local_name,
        **_signature(module, function.signature),
        "i32_registers": place.i32_registers,
        "ref_registers": place.ref_registers,
        "code_bytes": place.length,
        "instructions": sum(1 for _ in decode_all(module.code(number), dialect)),
    }
    assert function.signature is not None
    tensors = reflection.tensors(function.signature)
    if tensors is not None:
        for side, items in zip(("inputs", "outputs"), tensors, strict=True):
            found[side] = [{"name": item.name, "type": str(item.type)} for item in items]
    return found


def _segment(data: Array | None) -> dict[str, Any]:
    content = b"" if data is None else bytes(data)
    try:
        kind = detect(content).value
    except FormatError:
        kind = "data"
    return {"bytes": len(content), "kind": kind}


def show_module(terminal: Terminal, document: Document) -> None:
    """Print a module."""
    for warning in document["warnings"]:
        terminal.warn(warning)
    terminal.fields(
        [
            ("name", document["name"]),
            ("opcodes", f"dialect {document['dialect']}"),
            ("types", ", ".join(document["types"])),
            (
                "globals",
                f"{size(document['global_bytes'])} of numbers, "
                f"{count(document['global_refs'], 'reference')}",
            ),
        ]
    )
    exported = {item["function"]: item["name"] for item in document["exports"]}
    for number, function in enumerate(document["functions"]):
        name = exported.get(number)
        title = f"function {number}" + (f", exported as {name!r}" if name else "")
        terminal.heading(title)
        terminal.fields(
            [
                ("signature", signature_text(function)),
                (
                    "code",
                    f"{count(function['instructions'], 'instruction')}, "
                    f"{size(function['code_bytes'])}",
                ),
                ("registers", f"{function['i32_registers']} i32, {function['ref_registers']} ref"),
                *(
                    (side[:-1], f"{tensor['name']}: {tensor['type']}")
                    for side in ("inputs", "outputs")
                    for tensor in function.get(side, ())
                ),
            ]
        )
    if document["imports"]:
        terminal.heading("imports")
        terminal.table(
            (Column("name", style="cyan"), Column("signature")),
            [[item["name"], signature_text(item)] for item in document["imports"]],
        )
    if document["rodata"]:
        terminal.heading("read-only data")
        terminal.table(
            (Column("#", right=True), Column("content"), Column("size", right=True)),
            [
                [str(number), item["kind"], size(item["bytes"])]
                for number, item in enumerate(document["rodata"])
            ],
        )


def signature_text(item: Document) -> str:
    """Types of arguments and results."""
    sides = (", ".join(item[side]) for side in ("arguments", "results"))
    return " -> ".join(f"({side})" for side in sides)
