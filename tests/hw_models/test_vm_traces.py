"""Modules that the virtual machine of March 2020 was seen to execute, or to crash on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support import corpus_path

from fitzroy.base.errors import CapacityError, FitzroyError, FormatError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.targets.vm.program import (
    EntryPoint,
    Executor,
    Invocation,
    host_program,
)
from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    ModuleStateDef,
    RodataSegmentDef,
    check,
    read_module,
)
from fitzroy.formats.reflection import Tensor
from fitzroy.hw_models.vm.context import Context, NativeModule
from fitzroy.hw_models.vm.definedness import undefined_reads
from fitzroy.hw_models.vm.functions import Call
from fitzroy.hw_models.vm.objects import MutableByteBuffer, Object, Value
from fitzroy.hw_models.vm.opcodes import Dialect
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap
from fitzroy.hw_models.vm.text import assemble
from fitzroy.hw_models.vm.verifier import dialect_of, faults


class Numbered(MutableByteBuffer):
    """A buffer that says when it is destroyed."""

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(b"\0" * 4)
        self.host, self.name = host, name

    def destroyed(self) -> None:
        self.host.log.append(f"destroy {self.name}")


@dataclass
class Host:
    """A module ``h`` whose functions say that they are called."""

    log: list[str] = field(default_factory=list)
    made: int = 0

    def module(self) -> NativeModule:
        return NativeModule(
            "h",
            {
                "new": self._new,
                "swap": self._new,
                "take": lambda call: self._said("take", [234053668]),
                "log": lambda call: self._said("log", []),
                "var": lambda call: self._said("var", []),
                "fail": self._fail,
            },
        )

    def _said(self, name: str, results: Sequence[Value]) -> Sequence[Value]:
        self.log.append(f"import h.{name}")
        return results

    def _new(self, call: Call) -> Sequence[Value]:
        self.log.append("import h.swap" if call.arguments else "import h.new")
        self.made += 1
        return [Numbered(self, f"n{self.made - 1}")]

    def _fail(self, call: Call) -> Sequence[Value]:
        self.log.append("import h.fail")
        (status,) = call.arguments
        assert isinstance(status, int)
        raise VmError(Status(status), "as it was asked to")


def arguments(text: str, host: Host) -> list[Value]:
    words = text.split()
    buffers = iter(range(len(words)))
    return [
        Numbered(host, f"a{next(buffers)}") if word.startswith("rw") else int(word)
        for word in words
    ]


def played(modules: Sequence[BytecodeModule], calls: Sequence[str]) -> list[str]:
    """What a host sees of calls, in the words of the traces."""
    host = Host()
    try:
        context = Context(
            [
                host.module(),
                NativeModule("a", {"": lambda call: [5]}),
                *((module, dialect_of(module)) for module in modules),
            ]
        )
    except VmTrap:
        return [*host.log, "trap"]
    except VmError as error:
        return [*host.log, f"context {error.status.value}"]
    host.log.append("context 0")
    for call in calls:
        name, _, rest = call.strip().partition(" ")
        given = arguments(rest, host)
        try:
            results = context.invoke(name, given)
            shown = [
                "null" if value is None else value.name if isinstance(value, Numbered) else value
                for value in results
            ]
            host.log += ["status 0", " ".join(["results", *map(str, shown)])]
            for value in results:
                if isinstance(value, Object):
                    value.release()
        except VmTrap:
            host.log.append("trap")
        except VmError as error:
            host.log += [f"status {error.status.value}", "results"]
        for value in given:
            if isinstance(value, Object):
                value.release()
    context.close()
    return host.log


# --- traces ---------------------------------------------------------------------------------------


def traces() -> list[Any]:
    folder = corpus_path().parent / "study" / "vm"
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        return [pytest.param(folder, marks=pytest.mark.skip(reason=f"no traces at {folder}"))]
    return [pytest.param(path, id=path.stem, marks=pytest.mark.corpus) for path in paths]


def recorded(path: Path) -> tuple[list[Path], list[str], bool, list[str]]:
    """Modules, calls, whether the virtual machine survived, and what its host saw."""
    text = path.read_text()
    names, calls = (
        re.search(rf"^{word}: (.*)$", text, re.MULTILINE) for word in ("modules", "calls")
    )
    assert names is not None
    assert calls is not None
    real = text[text.index("real VM") : text.index("FitzRoy:")]
    survived = "([0, 0])" in real
    kept = re.compile(r"import h\.\w+|destroy n\d+|context \d+|status \d+|results.*")
    lines = [found.group() for line in real.splitlines() if (found := kept.match(line))]
    lines = [re.sub(r"#\S+", "", line).strip() for line in lines]
    files = [path.parent / name for name in names.group(1).split()]
    return files, calls.group(1).split(";"), survived, lines


def without_arguments(lines: Sequence[str]) -> list[str]:
    """What is seen of objects that the module makes: those of the caller are the caller's."""
    return [line for line in lines if not line.startswith("destroy a")]


@pytest.mark.parametrize("path", traces())
def test_modules_agree_or_are_refused(path: Path) -> None:
    files, calls, survived, expected = recorded(path)
    try:
        modules = [read_module(file.read_bytes(), file.name) for file in files]
        for module in modules:
            dialect_of(module)
        found = played(modules, calls)
    except FitzroyError:
        return
    if not survived:
        # Whoever comes here is refused when modules are linked, or traps as the division does.
        assert found[-1] in ("trap", "context 3"), found
        return
    if path.stem == "args_wrong":
        # The VM takes any arguments; calls with others than a function has are refused here.
        assert [line for line in found if line.startswith("status")] == [
            "status 3",
            "status 0",
            "status 3",
        ]
        return
    if path.stem == "unreachable_native_status":
        # A name that nothing exports has no trace on the VM.
        found = [line for line in found if line != "status 5"]
        assert [x for x in found if x != "results"] == [x for x in expected if x != "results"]
        return
    assert without_arguments(found) == expected


# --- each cause -----------------------------------------------------------------------------------


def module_of(text: str) -> BytecodeModule:
    return assemble(text)[0]


HEAD = """\
.module "m"
.type "i32"
.type "!iree.mutable_byte_buffer"
"""


def variadic(kind: int, count: int) -> BytecodeModule:
    """A call of an import with many arguments of a type."""
    given = ", ".join(["%r0" if kind else "%i0"] * count)
    return module_of(
        HEAD
        + f""".import "h.var" (type#{kind}, type#{kind}) -> ()
.function "main" (type#{kind}) -> () i32=1 ref=1
    call.variadic import#0 ({count // 2}, {count - count // 2}) ({given}) -> ()
    return ()
.export "main" function#0 (type#{kind}) -> ()
"""
    )


@pytest.mark.parametrize(("kind", "most"), [(0, 128), (1, 64)])
def test_arguments_of_imports_fit_a_frame(kind: int, most: int) -> None:
    assert list(faults(variadic(kind, most))) == []
    (fault,) = faults(variadic(kind, most + 1))
    assert f"{most + 1} " in fault[1]
    assert f"holds {most}" in fault[1]


def test_programs_of_models_keep_to_a_frame() -> None:
    type = TensorType((1,), DType.INT8)

    def program(states: int) -> BytecodeModule:
        x, y = Tensor("x", type), Tensor("y", type)
        call = Invocation(
            Executor.TFLITE, b"data", ("x",), ("y",), tuple(bytes([k]) for k in range(states))
        )
        return host_program("v1_0.25", [EntryPoint("main", (x,), (y,), (call,))])

    module = program(30)
    assert list(faults(module)) == []
    assert module.name == "v1_0_25"
    with pytest.raises(CapacityError, match="takes 65 buffers"):
        program(31)


@pytest.mark.parametrize(
    ("size", "references", "match"), [(-4, 0, "-4 bytes"), (3, 0, "3 bytes"), (0, -1, "-1 ref")]
)
def test_sizes_of_the_state_are_sizes(size: int, references: int, match: str) -> None:
    module = variadic(0, 1)
    module.module_state = ModuleStateDef(global_bytes_capacity=size, global_ref_count=references)
    with pytest.raises(FormatError, match=match):
        check(module)


def test_read_only_data_has_bytes() -> None:
    module = variadic(0, 1)
    module.rodata_segments = [RodataSegmentDef()]
    with pytest.raises(FormatError, match="no bytes"):
        check(module)


def test_imports_have_the_signature_of_their_export() -> None:
    exports = module_of(
        """\
.module "lib"
.type "!iree.mutable_byte_buffer"
.type "i32"
.function "f" (type#0) -> (type#1) i32=1 ref=1
    cmp.nz.ref %r0 %i0
    return (%i0)
.export "f" function#0 (type#0) -> (type#1)
"""
    )

    def importer(argument: int) -> BytecodeModule:
        return module_of(
            HEAD
            + f""".import "lib.f" (type#{argument}) -> (type#0)
.function "main" () -> (type#0) i32=1 ref=1
    call import#0 ({"%r0" if argument else "%i0"}) -> (%i0)
    return (%i0)
.export "main" function#0 () -> (type#0)
"""
        )

    # Types are compared by name: modules number them as they like.
    assert Context([exports, importer(1)]).invoke("main") == [0]
    with pytest.raises(VmError, match=r"m imports it as \(i32\) -> \(i32\)"):
        Context([exports, importer(0)])


def test_reads_of_integers_that_nothing_wrote() -> None:
    module = module_of(
        HEAD
        + """\
.function "main" (type#0) -> (type#0) i32=4 ref=0
    cond_br %i0 one(%i0 -> %i1) other()
one:
    const.i32 1 %i2
    br join()
other:
    const.i32 2 %i1
    br join(%i1 -> %i3)
join:
    add.i32 %i1 %i2 %i0
    add.i32 %i0 %i3 %i0
    return (%i0)
.export "main" function#0 (type#0) -> (type#0)
"""
    )
    assert list(faults(module)) == []
    found = [what.split(" ")[0] for _, what in undefined_reads(module, Dialect.B)]
    assert found == ["%i2", "%i3"]


def test_integers_of_a_frame_stay_for_the_next_one_of_its_depth() -> None:
    module = module_of(
        HEAD
        + """\
.function "main" () -> (type#0, type#0) i32=2 ref=0
    call function#1 () -> (%i0)
    call function#1 () -> (%i1)
    return (%i0, %i1)
.function "f" () -> (type#0) i32=2 ref=0
    trunc.i8 %i1 %i0
    const.i32 7 %i1
    return (%i0)
.export "main" function#0 () -> (type#0, type#0)
"""
    )
    context = Context([module])
    assert context.invoke("main") == [0, 7]
    assert context.invoke("main") == [0, 7]
