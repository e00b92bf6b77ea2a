from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.driver.edgetpu_programs import ECHO, SIZE
from tests.support import corpus_params

from fitzroy.base.errors import FormatError, LinkError
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import custom_op, darwinn, flat, tflite
from fitzroy.formats.darwinn import (
    Description,
    Direction,
    DmaDescriptorHint,
    DmaHint,
    DmaHints,
    Executable,
    FenceHint,
    FieldOffset,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Meta,
    Position,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import assemble, bundle_count, chunk
from fitzroy.hw_models.isa.scalar import (
    Alu,
    Branch,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Load,
    Scalar,
    Store,
)
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.resolve.fields import AddressField, Buffer, address_fields
from fitzroy.linker.schedule import (
    AwaitInterrupt,
    Fence,
    ReceiveOutput,
    ReceiveScratch,
    Script,
    SendInput,
    SendInstructions,
    SendParameters,
    SendScratch,
    Step,
    derive,
    derive_executable,
    fenced,
    from_hints,
    joined,
    to_hints,
)
from fitzroy.linker.schedule.check import demand_script

INPUT = Buffer(Description.BASE_ADDRESS_INPUT_ACTIVATION, "in")
OUTPUT = Buffer(Description.BASE_ADDRESS_OUTPUT_ACTIVATION, "out")
PARAMETERS = Buffer(Description.BASE_ADDRESS_PARAMETER)
SCRATCH = Buffer(Description.BASE_ADDRESS_SCRATCH)
TAGS = {
    INPUT: DescriptorTag.INPUT,
    OUTPUT: DescriptorTag.OUTPUT,
    PARAMETERS: DescriptorTag.PARAMETERS,
}

LOW, HIGH, TEMPORARY = 1, 2, 3
IMMEDIATE_BIT = Scalar.field("immediate").first


def mov(to: int, value: int) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=to, immediate=value)


class Program:
    """A chunk under construction, with its fields."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.body: list[Instruction] = []
        self.fields: list[AddressField] = []

    def base(self, buffer: Buffer) -> Program:
        for register, position in ((LOW, Position.LOWER_32BIT), (HIGH, Position.UPPER_32BIT)):
            bit = (1 + bundle_count(self.body)) * BUNDLE_BITS + IMMEDIATE_BIT
            self.fields.append(AddressField(self.number, bit, buffer, position))
            self.body.append(mov(register, 0xDEAD))
        return self

    def advance(self, offset: int, *, carry: bool = True) -> Program:
        """Add to the address, as the vendor's compiler does: without an unsigned comparison."""
        if carry:
            self.body += [
                Scalar(alu=Alu.LT, immediate_b=True, to=0, a=LOW, immediate=0),
                Scalar(alu=Alu.NE, to=1, a=LOW, immediate=LOW),
                Scalar(
                    alu=Alu.AND, immediate_b=True, to=TEMPORARY, a=LOW, immediate=0x7FFFFFFF
                ),
                replace(self._add(TEMPORARY, offset), predicated=True, predicate=0, sense=True),
                Scalar(alu=Alu.LT, immediate_b=True, to=1, a=TEMPORARY, immediate=0,
                       predicated=True, predicate=0, sense=True),
            ]  # fmt: skip
        self.body.append(self._add(LOW, offset))
        if carry:
            self.body.append(replace(self._add(HIGH, 1), predicated=True, predicate=1, sense=True))
        return self

    def _add(self, register: int, value: int) -> Scalar:
        return Scalar(alu=Alu.ADD, immediate_b=True, to=register, a=register, immediate=value)

    def issue(self, size: int, tag: int) -> Program:
        words = {DescriptorSlot.SIZE: size, DescriptorSlot.TAG: tag}
        for slot, register in (
            (DescriptorSlot.ADDRESS_LOW, LOW),
            (DescriptorSlot.ADDRESS_HIGH, HIGH),
        ):
            self.body.append(
                Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=register)
            )
        for slot, word in words.items():
            self.body += [
                mov(9, word), Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=9),
            ]  # fmt: skip
        self.body.append(Scalar(store=Store.ISSUE))
        return self

    def transfer(self, buffer: Buffer, offset: int, size: int, tag: int | None = None) -> Program:
        self.base(buffer)
        if offset:
            self.advance(offset)
        return self.issue(size, TAGS[buffer] if tag is None else tag)

    def interrupt(self) -> Program:
        self.body += [mov(LOW, 0), mov(HIGH, 0)]
        return self.issue(0, DescriptorTag.INTERRUPT_0)

    def chunk(self, *, end: bool = True) -> list[Instruction]:
        return chunk([*self.body, Halt(end_program=end)])

    def derive(self, *, fences: bool = False) -> Script:
        return derive([self.chunk()], self.fields, fences=fences)


def test_a_program() -> None:
    program = (
        Program()
        .transfer(PARAMETERS, 0, 64)
        .transfer(INPUT, 0, 800)
        .transfer(INPUT, 0x12345678, 16)
        .transfer(OUTPUT, 8, 24)
        .interrupt()
    )
    assert program.derive() == Script(
        (
            SendInstructions(0),
            SendParameters(0, 64),
            SendInput("in", 0, 0, 800),
            SendInput("in", 0, 0x12345678, 16),
            ReceiveOutput("out", 0, 8, 24),
            AwaitInterrupt(0),
        )
    )


def test_adjacent_transfers_are_joined() -> None:
    program = (
        Program()
        .transfer(INPUT, 0, 64)
        .transfer(INPUT, 64, 64)
        .transfer(OUTPUT, 128, 64)
        .transfer(OUTPUT, 64, 64)
        .transfer(INPUT, 128, 8)
    )
    assert program.derive().steps[1:] == (
        SendInput("in", 0, 0, 128),
        ReceiveOutput("out", 0, 128, 64),
        ReceiveOutput("out", 0, 64, 64),
        SendInput("in", 0, 128, 8),
    )


def test_joining_needs_the_same_buffer() -> None:
    steps: list[Step] = [
        SendInput("a", 0, 0, 8), SendInput("a", 1, 8, 8), SendInput("b", 1, 16, 8),
        SendScratch(0, 8), ReceiveScratch(8, 8), Fence(), ReceiveScratch(16, 8),
        ReceiveScratch(24, 8),
    ]  # fmt: skip
    assert joined(steps) == (*steps[:-2], ReceiveScratch(16, 16))


def test_several_chunks() -> None:
    first = Program().transfer(INPUT, 0, 8)
    second = Program(1).transfer(INPUT, 8, 8).transfer(OUTPUT, 0, 8).interrupt()
    script = derive([first.chunk(end=False), second.chunk()], [*first.fields, *second.fields])
    assert script.steps == (
        SendInstructions(0),
        SendInput("in", 0, 0, 8),
        SendInstructions(1),
        SendInput("in", 0, 8, 8),
        ReceiveOutput("out", 0, 0, 8),
        AwaitInterrupt(0),
    )


def test_batches_are_different_buffers() -> None:
    program = Program()
    for batch in (1, 0):
        program.transfer(replace(INPUT, batch=batch), 0, 8, DescriptorTag.INPUT)
    assert program.derive().steps[1:] == (SendInput("in", 1, 0, 8), SendInput("in", 0, 0, 8))


def test_fences_around_scratch() -> None:
    program = (
        Program()
        .transfer(SCRATCH, 0, 32, DescriptorTag.OUTPUT)
        .transfer(SCRATCH, 64, 8, DescriptorTag.INPUT)
        .transfer(SCRATCH, 24, 16, DescriptorTag.INPUT)
        .transfer(SCRATCH, 0, 8, DescriptorTag.INPUT)
    )
    plain = program.derive().steps
    assert plain == (
        SendInstructions(0), ReceiveScratch(0, 32), SendScratch(64, 8), SendScratch(24, 16),
        SendScratch(0, 8),
    )  # fmt: skip
    # One fence completes everything before it.
    assert program.derive(fences=True).steps == (*plain[:3], Fence(), *plain[3:])
    assert fenced((*plain[:2], Fence(), *plain[3:])) == (*plain[:2], Fence(), *plain[3:])


def test_missing_carry_is_found() -> None:
    program = Program().base(INPUT).advance(64, carry=False).issue(8, DescriptorTag.INPUT)
    with pytest.raises(LinkError, match="depends on where buffers are") as caught:
        program.derive()
    assert "input activation 'in' + 64" in caught.value.reason


def test_course_that_depends_on_addresses_is_found() -> None:
    program = Program().base(INPUT)
    program.body += [
        Scalar(alu=Alu.EQ, immediate_b=True, to=0, a=LOW, immediate=0),
        Branch(conditional=True, condition=0, condition_sense=True, offset=8),
    ]
    program.issue(8, DescriptorTag.INPUT)
    with pytest.raises(LinkError, match="depends on where buffers are"):
        program.derive()


def test_data_dependent_programs_have_a_prefix() -> None:
    program = Program().transfer(INPUT, 0, 8)
    program.body += [
        Scalar(load=Load.ABSOLUTE, load_address=5, load_to=7),
        Scalar(alu=Alu.EQ, immediate_b=True, to=0, a=7, immediate=0),
        Branch(conditional=True, condition=0, condition_sense=True, offset=1),
    ]
    program.transfer(OUTPUT, 0, 8)
    assert program.derive() == Script((SendInstructions(0), SendInput("in", 0, 0, 8)), False)


@pytest.mark.parametrize(
    ("match", "program"),
    [
        ("not in any buffer", Program().transfer(INPUT, 0, 8).interrupt().issue(8, 1)),
        ("wrong buffer", Program().transfer(INPUT, 0, 8, DescriptorTag.OUTPUT)),
        ("wrong buffer", Program().transfer(SCRATCH, 0, 8, DescriptorTag.PARAMETERS)),
        ("an interrupt that transfers", Program().transfer(INPUT, 0, 8, 4)),
        ("cannot be executed", Program().issue(8, 1)),
    ],
)
def test_faulty_programs(match: str, program: Program) -> None:
    with pytest.raises(LinkError, match=match):
        program.derive()


@pytest.mark.parametrize("field", [
    AddressField(1, 70, INPUT, Position.LOWER_32BIT),
    AddressField(0, -1, INPUT, Position.LOWER_32BIT),
    AddressField(0, 3 * BUNDLE_BITS + 100, INPUT, Position.LOWER_32BIT),
    AddressField(0, 1 << 30, INPUT, Position.LOWER_32BIT),
])  # fmt: skip
def test_faulty_fixups(field: AddressField) -> None:
    program = Program().transfer(INPUT, 0, 8)
    with pytest.raises(LinkError, match="a field "):
        derive([program.chunk()], [*program.fields, field])


def test_executables() -> None:
    program = Program().transfer(INPUT, 0, 8).interrupt()
    fields = [
        FieldOffset(
            meta=Meta(desc=item.buffer.desc, name=item.buffer.name, position=item.position),
            offset_bit=item.bit,
        )
        for item in program.fields
    ]
    stream = InstructionBitstream(
        bitstream=np.frombuffer(assemble(program.chunk()), np.uint8), field_offsets=fields
    )
    executable = Executable(batch_size=1, instruction_bitstreams=[stream])
    assert address_fields(executable) == tuple(program.fields)
    assert derive_executable(executable) == program.derive()
    fields[0].meta = None
    with pytest.raises(LinkError, match="has no name"):
        address_fields(executable)


# --- hints ---------------------------------------------------------------------------------------

ALL = Script(
    (
        SendInstructions(0), SendParameters(0, 64), SendInput("in", 2, 8, 16), ReceiveScratch(0, 8),
        Fence(), SendScratch(0, 8), SendInstructions(1), ReceiveOutput("out", 0, 16, 4),
        AwaitInterrupt(3),
    ),
    deterministic=False,
)  # fmt: skip


def test_hints_say_all_of_a_script() -> None:
    hints = to_hints(ALL)
    assert from_hints(hints) == ALL
    assert hints.hints is not None
    assert [type(hint.any_hint) for hint in hints.hints] == [
        InstructionHint, DmaDescriptorHint, DmaDescriptorHint, DmaDescriptorHint, FenceHint,
        DmaDescriptorHint, InstructionHint, DmaDescriptorHint, InterruptHint,
    ]  # fmt: skip
    assert from_hints(flat.decode(DmaHints, flat.encode(hints))) == ALL
    assert from_hints(DmaHints()) == Script((), False)


def test_hints_that_do_not_fit() -> None:
    for step in (SendParameters(1 << 31, 8), SendParameters(0, 1 << 31), SendParameters(-8, 8)):
        with pytest.raises(LinkError, match="hints reach up to"):
            to_hints(Script((step,)))


@pytest.mark.parametrize(
    ("match", "hint"),
    [
        ("no kind", DmaHint()),
        ("no buffer", DmaHint(any_hint=DmaDescriptorHint())),
        ("direction 1", DmaHint(
            any_hint=DmaDescriptorHint(meta=Meta(desc=Description.BASE_ADDRESS_PARAMETER)),
            direction=Direction.OUTFEED,
        )),
        ("buffer 9", DmaHint(any_hint=DmaDescriptorHint(meta=Meta(desc=9)))),
    ],
)  # fmt: skip
def test_faulty_hints(match: str, hint: DmaHint) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        from_hints(DmaHints(hints=[DmaHint(any_hint=FenceHint()), hint]))
    assert caught.value.table == "DmaHints.hints[1]"


# --- compiled models -----------------------------------------------------------------------------


def executables(path: Path) -> list[Executable]:
    data = path.read_bytes()
    if path.suffix == ".bin":
        return [darwinn.read_executable(data, str(path))]
    operators = custom_op.extract(tflite.read_model(data, str(path)))
    return [item for operator in operators for item in operator.read().executables]


@pytest.mark.parametrize(
    "path",
    corpus_params("**/*edgetpu*.tflite") + corpus_params("**/*.executable.bin", quick=2),
)
def test_compiled_models(path: Path) -> None:
    found = executables(path)
    assert found
    for executable in found:
        stored = executable.dma_hints
        assert stored is not None
        script = derive_executable(executable)
        assert script == from_hints(stored)
        # Every byte that the tables say is the same, too.
        assert flat.diff(to_hints(script), stored) == []
        assert script.deterministic or "lstm" in path.name


# --- scripts of packages -------------------------------------------------------------------------


def with_script(*steps: Step, deterministic: bool = True) -> Executable:
    """The program of the self-test with another script for the host."""
    (package,) = link([parse_object(ECHO)])
    hints = to_hints(Script(steps, deterministic))
    return dataclasses.replace(package.main, dma_hints=hints)


CODE, GIVE = SendInstructions(0), SendInput("x", 0, 0, SIZE)
TAKE, END = ReceiveOutput("y", 0, 0, SIZE), AwaitInterrupt(0)


@pytest.mark.parametrize(
    "steps",
    [
        (CODE, GIVE, TAKE, END),
        (CODE, Fence(), GIVE, TAKE, Fence(), END),
        (CODE, SendInput("x", 0, 0, 64), SendInput("x", 0, 64, SIZE - 64), TAKE, END),
    ],
    ids=["plain", "fences", "parts"],
)
def test_scripts_that_fit(steps: tuple[Step, ...]) -> None:
    demand_script(with_script(*steps))
    demand_script(dataclasses.replace(with_script(*steps), dma_hints=None))


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ((), r"step 0, the hints say no more.*SendInstructions"),
        ((GIVE, CODE, TAKE, END), r"step 0.*SendInput.*SendInstructions"),
        ((CODE, TAKE, GIVE, END), r"step 1.*ReceiveOutput.*SendInput"),
        ((CODE, GIVE, TAKE), r"step 3, the hints say no more"),
        ((CODE, GIVE, TAKE, END, END), r"step 4.*AwaitInterrupt.*needs no more"),
        ((CODE, SendInput("x", 0, 64, SIZE - 64), TAKE, END), r"step 1.*offset=64.*offset=0"),
        ((CODE, SendInput("x", 0, 0, SIZE - 4), TAKE, END), r"step 1.*size=252.*size=256"),
        ((CODE, SendInput("w", 0, 0, SIZE), TAKE, END), r"step 1.*'w'.*'x'"),
        ((CODE, GIVE, TAKE, AwaitInterrupt(1)), r"step 3"),
        ((CODE, CODE, GIVE, TAKE, END), r"step 1"),
    ],
)
def test_scripts_that_do_not_fit(steps: tuple[Step, ...], what: str) -> None:
    executable = with_script(*steps)
    with pytest.raises(FormatError, match=what):
        demand_script(executable)
    (package,) = link([parse_object(ECHO)])
    package = dataclasses.replace(package, executables=[executable])
    with pytest.raises(FormatError, match="not that of the program"):
        SimulatedDevice().run(package, {"x": np.zeros(SIZE, np.uint8)})


def test_courses_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="depends on data"):
        demand_script(with_script(CODE, GIVE, TAKE, END, deterministic=False))
