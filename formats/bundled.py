"""Bundled programs: an ExecuTorch program with inputs and expected outputs (``.bpte``).

Two layouts exist. ``BP08`` is what runtimes read; ``BP04`` preceded the first release, names no
methods, and carries attachments. Both are read; new bundles are written as BP08.

Facts: the published schemas ``bundled_program_schema.fbs``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array, DType
from fitzroy.formats import flat
from fitzroy.formats.executorch import DTYPES, SCALAR_TYPES, read_program
from fitzroy.formats.flat import Table, ints, scalar, string, table, tables, union, vector

IDENTIFIER = b"BP08"
OLD_IDENTIFIER = b"BP04"
_VERSION = 0


@dataclass(eq=False, slots=True, kw_only=True)
class Tensor(Table):
    """An array, with the order of dimensions in memory."""

    scalar_type: int = scalar("i1")
    sizes: Array | None = vector("i4")
    data: Array | None = vector("u1", align=16)
    dim_order: Array | None = vector("u1")


@dataclass(eq=False, slots=True, kw_only=True)
class Int(Table):
    """An integer."""

    int_val: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class Bool(Table):
    """A truth value."""

    bool_val: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class Double(Table):
    """A floating-point number."""

    double_val: float = scalar("f8")


@dataclass(eq=False, slots=True, kw_only=True)
class Value(Table):
    """An input or an expected output."""

    val: Table | None = union((Tensor, Int, Bool, Double))


@dataclass(eq=False, slots=True, kw_only=True)
class TestCase(Table):
    """Inputs and what they should produce."""

    __test__ = False

    inputs: list[Value] | None = tables(Value)
    expected_outputs: list[Value] | None = tables(Value)


@dataclass(eq=False, slots=True, kw_only=True)
class TestSuite(Table):
    """Test cases of one method, by name."""

    __test__ = False

    method_name: str | None = string()
    test_cases: list[TestCase] | None = tables(TestCase)


@dataclass(eq=False, slots=True, kw_only=True)
class BundledProgram(Table):
    """The root table of BP08."""

    version: int = scalar("u4")
    method_test_suites: list[TestSuite] | None = tables(TestSuite)
    program: Array | None = vector("u1", align=32)


@dataclass(eq=False, slots=True, kw_only=True)
class String(Table):
    """A string in an attachment."""

    string_value: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class Bytes(Table):
    """Bytes in an attachment."""

    bytes_value: Array | None = vector("u1")


@dataclass(eq=False, slots=True, kw_only=True)
class AttachmentValue(Table):
    """Contents of an attachment."""

    val: Table | None = union((Bytes, Int, Double, Bool, String))


@dataclass(eq=False, slots=True, kw_only=True)
class Attachment(Table):
    """Named extra data of BP04."""

    key: str | None = string()
    val: AttachmentValue | None = table(AttachmentValue)


@dataclass(eq=False, slots=True, kw_only=True)
class ExecutionPlanTest(Table):
    """Test cases of the method with the same index, in BP04."""

    test_sets: list[TestCase] | None = tables(TestCase)
    metadata: list[Attachment] | None = tables(Attachment)


@dataclass(eq=False, slots=True, kw_only=True)
class OldBundledProgram(Table):
    """The root table of BP04."""

    version: int = scalar("u4")
    attachments: list[Attachment] | None = tables(Attachment)
    execution_plan_tests: list[ExecutionPlanTest] | None = tables(ExecutionPlanTest)
    program: Array | None = vector("u1", align=16)


Item = Array | bool | int | float
"""An input or expected output in Python."""

Extra = bytes | int | float | bool | str
"""Contents of an attachment in Python."""


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A test case.

    Attributes:
        inputs: one per input of the method; arrays, or plain numbers for scalar inputs.
        outputs: what is expected, one per output.
    """

    inputs: tuple[Item, ...]
    outputs: tuple[Item, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Suite:
    """The test cases of a method.

    Attributes:
        method: name of the method.
        cases: its test cases.
        metadata: attachments of the method; only BP04 has them.
    """

    method: str
    cases: tuple[Case, ...]
    metadata: Mapping[str, Extra] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Bundle:
    """A bundled program.

    Attributes:
        identifier: ``BP08`` or ``BP04``.
        program: the bytes of the program, a view of the file.
        suites: test suites, in order of the file.
        attachments: attachments of the file; only BP04 has them.
    """

    identifier: bytes
    program: memoryview
    suites: tuple[Suite, ...]
    attachments: Mapping[str, Extra] = field(default_factory=dict)

    def suite(self, method: str) -> Suite | None:
        """The test suite of a method, or None."""
        for suite in self.suites:
            if suite.method == method:
                return suite
        return None


def read_bundle(data: bytes | bytearray | memoryview, *, path: str = "") -> Bundle:
    """Read a bundled program of either layout.

    Methods of BP04 get their names from the program inside, which is checked for that.

    Args:
        data: the whole file; the result refers to it.
        path: name of the file, for errors.

    Raises:
        FormatError: whatever is wrong with the bytes.
    """
    if flat.identifier(data) == OLD_IDENTIFIER:
        return _read_old(data, path)
    root = flat.decode(BundledProgram, data, identifiers=(IDENTIFIER,), path=path)
    suites = []
    for number, suite in enumerate(root.method_test_suites or ()):
        where = f"method_test_suites[{number}]"
        if not suite.method_name:
            raise FormatError("a test suite without a method", path=path, table=where)
        suites.append(Suite(suite.method_name, _cases(suite.test_cases, path, where)))
    return Bundle(IDENTIFIER, _program(root.program, path), tuple(suites))


def _read_old(data: bytes | bytearray | memoryview, path: str) -> Bundle:
    root = flat.decode(OldBundledProgram, data, identifiers=(OLD_IDENTIFIER,), path=path)
    contents = _program(root.program, path)
    methods = read_program(contents, path=path).methods
    tests = root.execution_plan_tests or []
    if len(tests) > len(methods):
        raise FormatError(
            f"tests for {len(tests)} methods of a program with {len(methods)}",
            path=path,
            table="execution_plan_tests",
        )
    suites = tuple(
        Suite(
            method,
            _cases(test.test_sets, path, f"execution_plan_tests[{number}]"),
            _extras(test.metadata, path, f"execution_plan_tests[{number}].metadata"),
        )
        for number, (method, test) in enumerate(zip(methods, tests, strict=False))
    )
    attachments = _extras(root.attachments, path, "attachments")
    return Bundle(OLD_IDENTIFIER, contents, suites, attachments)


def _program(data: Array | None, path: str) -> memoryview:
    if data is None or not data.size:
        raise FormatError("a bundle without a program", path=path, table="BundledProgram.program")
    return data.data.cast("B")


def _cases(cases: Sequence[TestCase] | None, path: str, where: str) -> tuple[Case, ...]:
    return tuple(
        Case(
            _items(case.inputs, path, f"{where}[{number}].inputs"),
            _items(case.expected_outputs, path, f"{where}[{number}].expected_outputs"),
        )
        for number, case in enumerate(cases or ())
    )


def _items(values: Sequence[Value] | None, path: str, where: str) -> tuple[Item, ...]:
    return tuple(
        _item(value.val, path, f"{where}[{number}]") for number, value in enumerate(values or ())
    )


def _item(value: Table | None, path: str, where: str) -> Item:
    if isinstance(value, Int):
        return value.int_val
    if isinstance(value, Bool):
        return value.bool_val
    if isinstance(value, Double):
        return value.double_val
    if not isinstance(value, Tensor):
        raise FormatError("a value without contents", path=path, table=where)
    shape = ints(value.sizes)
    order = ints(value.dim_order) if value.dim_order is not None else tuple(range(len(shape)))
    dtype = DTYPES.get(value.scalar_type)
    if dtype is None:
        raise FormatError(f"scalar type {value.scalar_type}", path=path, table=where)
    if any(size < 0 for size in shape):
        raise FormatError(f"a negative extent in {list(shape)}", path=path, table=where)
    if sorted(order) != list(range(len(shape))):
        raise FormatError(
            f"dimension order {list(order)} of a tensor of rank {len(shape)}",
            path=path,
            table=where,
        )
    data = np.empty(0, np.uint8) if value.data is None else value.data
    size = math.prod(shape) * dtype.itemsize
    if data.size != size or len(shape) > 32:
        raise FormatError(
            f"{data.size} bytes for {dtype.value}{list(shape)}, which has {size}",
            path=path,
            table=where,
        )
    stored = data.view(dtype.numpy).reshape([shape[axis] for axis in order])
    return stored.transpose(np.argsort(order).tolist() if order else ())


def _extras(entries: Sequence[Attachment] | None, path: str, where: str) -> dict[str, Extra]:
    result: dict[str, Extra] = {}
    for number, entry in enumerate(entries or ()):
        value = entry.val.val if entry.val is not None else None
        key = entry.key or ""
        if isinstance(value, Bytes):
            result[key] = b"" if value.bytes_value is None else value.bytes_value.tobytes()
        elif isinstance(value, String):
            result[key] = value.string_value or ""
        elif isinstance(value, Int | Bool | Double):
            result[key] = _number(value)
        else:
            raise FormatError(
                "an attachment without contents", path=path, table=f"{where}[{number}]"
            )
    return result


def _number(value: Int | Bool | Double) -> int | float | bool:
    if isinstance(value, Int):
        return value.int_val
    return value.bool_val if isinstance(value, Bool) else value.double_val


def write_bundle(program: bytes | bytearray | memoryview, suites: Sequence[Suite]) -> bytes:
    """Write a bundled program as BP08; equal arguments give equal bytes.

    Args:
        program: the bytes of the program.
        suites: test suites; BP08 has no place for their metadata, which must be empty.

    Raises:
        ValueError: a value that the schema cannot hold, or metadata.
    """
    if any(suite.metadata for suite in suites):
        raise ValueError("BP08 has no place for metadata")
    root = BundledProgram(
        version=_VERSION,
        method_test_suites=[
            TestSuite(
                method_name=suite.method,
                test_cases=[
                    TestCase(
                        inputs=[_value(item) for item in case.inputs],
                        expected_outputs=[_value(item) for item in case.outputs],
                    )
                    for case in suite.cases
                ],
            )
            for suite in suites
        ],
        program=np.frombuffer(program, np.uint8),
    )
    return flat.encode(root, identifier=IDENTIFIER)


def write_old_bundle(bundle: Bundle) -> bytes:
    """Write a bundle as BP04, for tools that still read it; methods lose their names.

    Raises:
        ValueError: a value that the schema cannot hold.
    """
    root = OldBundledProgram(
        version=_VERSION,
        attachments=_attachments(bundle.attachments),
        execution_plan_tests=[
            ExecutionPlanTest(
                test_sets=[
                    TestCase(
                        inputs=[_value(item) for item in case.inputs],
                        expected_outputs=[_value(item) for item in case.outputs],
                    )
                    for case in suite.cases
                ],
                metadata=_attachments(suite.metadata),
            )
            for suite in bundle.suites
        ],
        program=np.frombuffer(bundle.program, np.uint8),
    )
    return flat.encode(root, identifier=OLD_IDENTIFIER)


def _value(item: Item) -> Value:
    if isinstance(item, np.ndarray):
        dense = np.ascontiguousarray(item)
        return Value(
            val=Tensor(
                scalar_type=SCALAR_TYPES[DType.of(item)],
                sizes=np.asarray(item.shape, np.int32),
                data=dense.reshape(-1).view(np.uint8),
                dim_order=np.arange(item.ndim, dtype=np.uint8),
            )
        )
    return Value(val=_plain(item))


def _plain(item: bool | int | float) -> Table:
    if isinstance(item, bool):
        return Bool(bool_val=item)
    return Int(int_val=item) if isinstance(item, int) else Double(double_val=item)


def _attachments(extras: Mapping[str, Extra]) -> list[Attachment]:
    result = []
    for key, value in extras.items():
        if isinstance(value, bytes):
            val: Table = Bytes(bytes_value=np.frombuffer(value, np.uint8))
        elif isinstance(value, str):
            val = String(string_value=value)
        else:
            val = _plain(value)
        result.append(Attachment(key=key, val=AttachmentValue(val=val)))
    return result
