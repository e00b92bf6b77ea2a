"""What IREE's own virtual machine did with modules, recorded in case files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hw_models.vm_host import OBJECT, Host
from tests.support import corpus, corpus_path

from fitzroy.base.errors import FormatError
from fitzroy.formats import flat
from fitzroy.formats.bytecode_module import BytecodeModule, read_module, write_module
from fitzroy.hw_models.vm.context import REF_TYPES, Context, check_types
from fitzroy.hw_models.vm.functions import Trace
from fitzroy.hw_models.vm.objects import Object, Value
from fitzroy.hw_models.vm.opcodes import Dialect
from fitzroy.hw_models.vm.status import VmError

pytestmark = pytest.mark.corpus

TYPES = REF_TYPES | {OBJECT}
EARLIER = "genA_globals"
_ABBREVIATED = {"branch": "br", "condbranch": "condbr"}


def cases_path() -> Path:
    return corpus_path().parent / "formats" / "iree-vm" / "cases"


def names() -> list[Any]:
    path = cases_path() / "index.json"
    if not path.is_file():
        return [pytest.param("", marks=pytest.mark.skip(reason=f"no cases at {path.parent}"))]
    return [*json.loads(path.read_text()), EARLIER]


def case(name: str) -> dict[str, Any]:
    corpus()
    return json.loads((cases_path() / f"{name}.json").read_text())  # type: ignore[no-any-return]


def load(name: str, dialect: Dialect) -> tuple[dict[str, Any], BytecodeModule | None]:
    """The row that loading a module gives."""
    try:
        module = read_module((cases_path() / name).read_bytes(), name)
        check_types(module, TYPES)
    except (FormatError, VmError):
        return {"load": "INVALID_ARGUMENT"}, None
    functions = module.internal_functions or []
    exports = []
    for item in module.exported_functions or ():
        signature = functions[item.internal_ordinal].signature
        assert item.signature is not None
        assert signature is not None
        attributes = {entry.key: entry.value for entry in signature.reflection_attrs or ()}
        exports.append(
            {
                "name": item.local_name,
                "ordinal": item.internal_ordinal,
                "args": len(item.signature.arguments),
                "results": len(item.signature.results),
                "reflection": attributes,
            }
        )
    imports = len(module.imported_functions or ())
    return {"load": "OK", "name": module.name, "imports": imports, "exports": exports}, module


def released(values: list[Value]) -> None:
    for value in values:
        if isinstance(value, Object):
            value.release()


def played(name: str) -> tuple[list[dict[str, Any]], Trace]:
    """All rows of a case, and what was executed."""
    content = case(name)
    dialect = Dialect.A if name == EARLIER else Dialect.B
    host, trace, rows = Host(), Trace(), list[dict[str, Any]]()
    modules = []
    for file in content["modules"]:
        row, module = load(file, dialect)
        rows.append(row)
        if module is None:
            return rows, trace
        modules.append((module, dialect))
    try:
        context = Context([*host.modules(), *modules], trace=trace)
    except VmError as error:
        rows.append({"context": error.status.name, "log": host.taken()})
        return rows, trace
    rows.append({"context": "OK", "log": host.taken()})
    for call in content["calls"]:
        arguments = [host.value(item) for item in call["args"]]
        status, results = "OK", list[Value]()
        try:
            results = context.invoke(call["export"], arguments)
        except VmError as error:
            status = error.status.name
        row = {
            "call": call["export"],
            "status": status,
            "results": [host.shown(value) for value in results],
            "args_after": [host.shown(value) for value in arguments],
            "log": host.taken(),
        }
        released(arguments)
        released(results)
        rows.append({**row, "after_release": host.taken(), "live": host.live})
    context.close()
    rows.append({"teardown": host.taken(), "live": host.live})
    return rows, trace


@pytest.mark.long
@pytest.mark.parametrize("name", names())
def test_results_and_side_effects(name: str) -> None:
    rows, _ = played(name)
    assert rows == case(name)["expect"]


@pytest.mark.parametrize("name", names())
def test_executed_instructions(name: str) -> None:
    content = case(name)
    _, trace = played(name)
    assert len(trace) == content.get("executed_count", len(trace))
    if content.get("executed") is not None:
        plain = [[pc, opcode.name.replace(".", "").replace("_", "")] for pc, opcode in trace]
        known = [[pc, kind.lower()] for pc, kind in content["executed"]]
        assert plain == [[pc, _ABBREVIATED.get(kind, kind)] for pc, kind in known]


def test_tables_are_written_as_they_were_read() -> None:
    corpus()
    count = 0
    for path in sorted(cases_path().glob("*.module")):
        try:
            module = read_module(path.read_bytes())
        except FormatError:
            continue
        again = read_module(write_module(module))
        assert flat.diff(module, again) == []
        count += 1
    assert count >= 40
