"""The virtual machine: verifier, interpreter against an evaluator, assembly."""

from __future__ import annotations

import json
import random

import pytest
from tests.hw_models.test_vm_conformance import TYPES, cases_path
from tests.hw_models.vm_host import Host
from tests.hw_models.vm_programs import Evaluator, Outcome, random_program
from tests.support import corpus

from fitzroy.base.errors import FormatError
from fitzroy.formats import flat
from fitzroy.formats.bytecode_module import BytecodeModule, read_module, write_module
from fitzroy.hw_models.vm.context import Context, check_types
from fitzroy.hw_models.vm.objects import ByteBuffer, Object
from fitzroy.hw_models.vm.opcodes import OPCODES, Dialect
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap
from fitzroy.hw_models.vm.text import assemble, disassemble
from fitzroy.hw_models.vm.verifier import dialect_of, faults, verify

SHARD, QUICK, FULL = 100, 6, 100
BUDGET = 200


def played(module: BytecodeModule, seed: int) -> list[Outcome]:
    """Outcomes of some calls by the interpreter."""
    found = []
    context = Context([module], budget=BUDGET)
    for a, b in arguments(seed):
        try:
            results = context.invoke("main", [a, b])
        except VmTrap:
            found.append(Outcome("trap", (), context.steps))
        except VmError as error:
            kind = {Status.OUT_OF_RANGE: "range", Status.RESOURCE_EXHAUSTED: "budget"}
            found.append(Outcome(kind[error.status], (), context.steps))
        else:
            values = [v.data[0] if isinstance(v, ByteBuffer) else v for v in results]
            found.append(Outcome("ok", tuple(values), context.steps))
    return found


def arguments(seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    edges = (0, 1, -1, 7, -(1 << 31), (1 << 31) - 1, rng.randrange(-(1 << 31), 1 << 31))
    return [(rng.choice(edges), rng.choice(edges)) for _ in range(3)]


@pytest.mark.parametrize(
    "shard",
    [
        pytest.param(number, marks=[] if number < QUICK else [pytest.mark.slow])
        for number in range(FULL)
    ],
)
def test_random_programs(shard: int) -> None:
    kinds = set()
    for seed in range(SHARD * shard, SHARD * (shard + 1)):
        module = random_program(seed)
        assert list(faults(module)) == [], seed
        evaluator = Evaluator(module, BUDGET)
        expected = [evaluator.call(a, b) for a, b in arguments(seed)]
        assert played(module, seed) == expected, f"seed {seed}\n{disassemble(module)}"
        kinds |= {outcome.kind for outcome in expected}
    assert "ok" in kinds
    assert len(kinds) >= 3


def test_random_programs_survive_assembly_and_files() -> None:
    for seed in range(100):
        module = random_program(seed)
        again, dialect = assemble(disassemble(module))
        assert dialect is Dialect.B
        assert flat.diff(read_module(write_module(module)), again) == []


def test_references_are_counted() -> None:
    """Whatever happens, nothing is left but what segments and globals hold."""
    for seed in range(200):
        module = random_program(seed)
        context = Context([module], budget=BUDGET)
        held: list[ByteBuffer] = []
        for item in context._modules:
            held += [item for item in item.rodata if isinstance(item, ByteBuffer)]  # type: ignore[union-attr]
        for a, b in arguments(seed):
            try:
                results = context.invoke("main", [a, b])
            except VmError:
                continue
            for value in results:
                if isinstance(value, Object):
                    value.release()
        assert all(buffer.references >= 1 for buffer in held)


ACCEPTED = {"load_ok_i32_count_128_wraps"}
"""Cases that a stricter verifier refuses: 128 registers, whose byte is -128, work on the VM."""

# --- cases ----------------------------------------------------------------------------------------


def module_of(name: str) -> BytecodeModule:
    corpus()
    return read_module((cases_path() / f"{name}.module").read_bytes(), name)


@pytest.mark.corpus
def test_strictness_of_cases() -> None:
    corpus()
    judged = 0
    for name in json.loads((cases_path() / "index.json").read_text()):
        content = json.loads((cases_path() / f"{name}.json").read_text())
        if any(row.get("load", "OK") != "OK" for row in content["expect"]):
            continue
        found = [fault for file in content["modules"] for fault in faults(module_of(file[:-7]))]
        assert (not found) == (content["strict_ok"] or name in ACCEPTED), (name, found)
        judged += 1
    assert judged >= 40


@pytest.mark.corpus
def test_hostile_modules() -> None:
    """Each is refused, or its calls trap."""
    corpus()
    refused = 0
    for item in json.loads((cases_path() / "hostile.json").read_text()):
        module = module_of(item["module"][:-7])
        try:
            verify(module)
        except FormatError:
            refused += 1
        # Who does not verify gets no exception of another kind either.
        host = Host()
        check_types(module, TYPES)
        context = Context([*host.modules(), module])
        for call in item["calls"]:
            try:
                context.invoke(call["export"], [host.value(value) for value in call["args"]])
            except VmError as error:
                trapped = isinstance(error, VmTrap)
            else:
                trapped = False
        assert trapped or item["name"] not in ("div_by_zero", "rem_by_zero_u", "div_min_by_minus1")
    assert refused == 15


@pytest.mark.corpus
def test_dialects() -> None:
    assert dialect_of(module_of("genA_globals")) is Dialect.A
    assert dialect_of(module_of("alu")) is Dialect.B
    with pytest.raises(FormatError, match="no opcode"):
        dialect_of(module_of("unknown_opcode"))


@pytest.mark.corpus
def test_assembly_of_cases() -> None:
    corpus()
    count = 0
    for path in sorted(cases_path().glob("*.module")):
        try:
            module = read_module(path.read_bytes())
        except FormatError:
            continue
        dialect = Dialect.A if path.stem == "genA_globals" else Dialect.B
        text = disassemble(module, dialect)
        again, found = assemble(text)
        assert found is dialect
        assert disassemble(again, dialect) == text
        # The one member of compression has no content, and no reader looks at it.
        assert [line for line in flat.diff(module, again) if "compression" not in line] == []
        count += 1
    assert count == 68


# --- assembly -------------------------------------------------------------------------------------

TEXT = """\
.module "demo" ; a comment
.type "i32"
.type "!iree.byte_buffer"
.state globals=4 refs=1
.import "host.print" (type#1) -> ()
.rodata 0001
.data 02
.function "count" (type#0) -> (type#0) i32=3 ref=1
.attribute "f" "I6!S3!t6R6!S3!t6"
    const.i32.zero %i1
    const.i32 1 %i2
loop:
    cmp.lt.i32.s %i1 %i0 %i2
    cond_br %i2 body() done(%i1 -> %i0)
body:
    const.i32 1 %i2
    add.i32 %i1 %i2 %i1
    const.ref.rodata rodata#0 %r0
    call import#0 (%r0!) -> ()
    br loop()
done:
    return (%i0)
.export "count" function#0 (type#0) -> (type#0)
"""


def test_assembled_program_runs() -> None:
    from fitzroy.hw_models.vm.context import NativeModule
    from fitzroy.hw_models.vm.functions import Call

    module, _ = assemble(TEXT)
    verify(module)
    seen = []

    def show(call: Call) -> list[None]:
        (buffer,) = call.arguments
        assert isinstance(buffer, ByteBuffer)
        seen.append(bytes(buffer.data))
        return []

    with Context([NativeModule("host", {"print": show}), module]) as context:
        assert context.invoke("count", [3]) == [3]
        assert context.steps == 2 + 4 * 2 + 3 * 5 + 1
    assert seen == [b"\x00\x01\x02"] * 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    frobnicate %i0", "line 17: 'frobnicate' is no opcode"),
        ("    add.i32 %i0 %i1", "line 17: add.i32 has 3 operands, not 2"),
        ("    add.i32 %i0 %i1 %i128", "line 17: .* is no register"),
        ("    add.i32 %i0 %i1 %r0", "line 17: .*where a i32 register"),
        ("    br nowhere()", "line 17: there is no label"),
        ("    shl.i32 %i0 32 %i0", "line 17: distance of a shift 32"),
        ("loop:", "line 17: the label loop is there twice"),
        (".frobnicate", "line 17: .frobnicate is no directive"),
        ('    trace "x (%i0)', "line 17: .* cannot be read"),
        ("    return %i0", "line 17: .*list in parentheses"),
    ],
)
def test_faults_of_texts(line: str, message: str) -> None:
    lines = TEXT.splitlines()
    lines.insert(16, line)
    with pytest.raises(FormatError, match=message):
        assemble("\n".join(lines))


def test_dialects_differ_in_the_first_opcodes_only() -> None:
    first, later = OPCODES[Dialect.A], OPCODES[Dialect.B]
    assert {code for code in first if code >= 8} == {code for code in later if code >= 8}
    assert len(later) == 55


def test_calls_are_checked() -> None:
    module, _ = assemble(
        TEXT.replace('.import "host.print" (type#1) -> ()\n', "").replace(
            "    call import#0 (%r0!) -> ()\n", ""
        )
    )
    context = Context([module])
    with pytest.raises(VmError, match="arguments") as caught:
        context.invoke("count", [])
    assert caught.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(VmError) as caught:
        context.invoke("nope", [])
    assert caught.value.status is Status.NOT_FOUND
    with pytest.raises(VmError, match=r"demo\.count, byte"):
        Context([module], budget=10).invoke("count", [1 << 20])
    with pytest.raises(VmError) as caught:
        Context([assemble(TEXT)[0]])
    assert caught.value.status is Status.NOT_FOUND
