"""Assembly language of the Edge TPU: text of instructions and its parser.

An instruction is a line with its mnemonic and ``field=value`` tokens, where fields that have
their default are left out, and one indented ``field: value`` line for each traversal, wait
condition and group of fields. Scalar bundles are written slot by slot, ``mov s1, 0x20 | issue``.
Sizes of chunks, sequence numbers of tile instructions and distances of branches are left out or
written as labels, so that instructions can be inserted and removed. A comment begins with ``;``.

Text and instructions determine each other: `parse` of what `listing` prints gives the same
instructions, bit for bit. Symbols, for values that a linker fills in, are expressions like
``low(parameters)`` that this module carries but does not interpret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitzroy.base.bits import (
    Codec,
    Field,
    Float32,
    Optional,
    Series,
    field_texts,
    integer,
    parse_fields,
)
from fitzroy.base.errors import FormatError
from fitzroy.hw_models.isa.catalog import BY_OPCODE, INSTRUCTIONS
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import (
    PREDICATE,
    REGISTER,
    Opcode,
    WatcherCodec,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import (
    NUMBERED,
    bundle_count,
    chunk,
    jump_target,
    next_seq,
    positions,
)
from fitzroy.hw_models.isa.scalar import (
    COMPARES,
    Alu,
    Branch,
    DescriptorSlot,
    Indexed,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.traversal import PrefixCodec, Traversal, TraversalCodec

# --- layout of the text of an instruction, derived from its declaration ---------------------------


def _is_line(codec: Codec) -> bool:
    """Whether a field's text has spaces and so needs a line of its own."""
    inner = codec.inner if isinstance(codec, Optional) else codec
    return isinstance(inner, TraversalCodec | PrefixCodec)


def _is_repeated(codec: Codec) -> bool:
    """Whether a field is a series of which each value gets a line."""
    return isinstance(codec, Series) and isinstance(codec.inner, WatcherCodec | Series)


@dataclass(frozen=True)
class _Layout:
    """Where each field of an instruction is written."""

    type: type[Instruction]
    header: tuple[Field, ...]
    lines: tuple[Field, ...]
    groups: tuple[tuple[str, tuple[Field, ...]], ...]
    line_names: frozenset[str]


def _layout(cls: type[Instruction]) -> _Layout:
    header, lines = [], []
    groups: dict[str, list[Field]] = {}
    for item in cls.fields():
        if item.name in ("op", "seq"):
            continue
        if _is_line(item.codec) or _is_repeated(item.codec):
            lines.append(item)
        elif item.group:
            groups.setdefault(item.group, []).append(item)
        else:
            header.append(item)
    names = frozenset(item.name for item in lines)
    return _Layout(
        cls,
        tuple(header),
        tuple(lines),
        tuple((name, tuple(fields)) for name, fields in groups.items()),
        names,
    )


_LAYOUTS = {cls: _layout(cls) for cls in INSTRUCTIONS}
_MNEMONICS = {opcode.name.lower(): opcode for opcode in Opcode}

_UNIT_BYTES = {"wide row": 256, "narrow word": 4, "quarter row": 256}


def _size_comment(instruction: Instruction, item: Field, value: Traversal) -> str:
    """How much a traversal covers: elements, and bytes where an element has a known size."""
    steps = value.steps
    if item.unit == "byte" and item.name == "b":
        return f"{_count(steps, 'word')}, {4 * steps} B"
    size = _UNIT_BYTES.get(item.unit, 0)
    if isinstance(instruction, WideToNarrow) and instruction.to_scaling and item.name == "narrow":
        return f"{_count(steps, 'entry')}, {8 * steps} B"
    noun = {"wide row": "row", "narrow word": "word"}.get(item.unit, "step")
    if size and noun != "step":
        return f"{_count(steps, noun)}, {size * steps} B"
    return _count(steps, noun)


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"


# --- scalar bundles ------------------------------------------------------------------------------

_FLOAT_ALU = frozenset({Alu.FADD, Alu.FSUB, Alu.FMUL, Alu.FMAX, Alu.FMIN})
_ALU_BY_NAME = {alu.name.lower(): alu for alu in Alu if alu is not Alu.NOP}
_SPECIAL_BY_NAME = {special.name.lower(): special for special in Special if special}
_SLOT_BY_NAME = {slot.name.lower(): slot for slot in DescriptorSlot}
_FLOAT = Float32()


def _memory(mode: int, address: int) -> str | None:
    """Operand of a load or store, None if there is no short form."""
    if mode == Load.ABSOLUTE:
        return f"[{address:#x}]"
    place = Indexed.unpack(address)
    if mode == Load.REGISTER:
        return f"[s{place.register}]" if not place.increment else None
    return f"[s{place.register}]+={place.increment}"


def _immediate(instruction: Scalar) -> str:
    value = instruction.immediate
    if not instruction.immediate_b:
        return f"s{value}"
    if instruction.alu in _FLOAT_ALU and value & 0x7F800000 != 0x7F800000:
        return f"{_FLOAT.text(_FLOAT.decode(value))}f"
    return hex(value) if value > 9 else str(value)


def _scalar_slots(instruction: Scalar, operand: str | None) -> list[str] | None:
    """Slots of a bundle, None if only the long form can express it."""
    i = instruction
    slots = []
    if i.alu is not Alu.NOP:
        if (not i.immediate_b and i.immediate > 31) or (i.alu in COMPARES and i.to > 7):
            return None
        to = f"{'p' if i.alu in COMPARES else 's'}{i.to}"
        b = operand or _immediate(i)
        if i.alu is Alu.MOV:
            if i.a:
                return None
            slots.append(f"mov {to}, {b}")
        else:
            slots.append(f"{i.alu.name.lower()} {to}, s{i.a}, {b}")
    elif i.immediate_b or i.to or i.a or i.immediate or operand:
        return None
    if i.load is not Load.NONE:
        memory = _memory(i.load, i.load_address)
        if memory is None:
            return None
        slots.append(f"load s{i.load_to}, {memory}")
    elif i.load_to or i.load_address:
        return None
    if i.store in (Store.ABSOLUTE, Store.REGISTER, Store.INCREMENT):
        memory = _memory(i.store, i.store_address)
        if memory is None:
            return None
        slots.append(f"store {memory}, s{i.store_from}")
    elif i.store is Store.DESCRIPTOR:
        if i.store_address not in _DESCRIPTOR_NAMES:
            return None
        slots.append(f"descriptor {_DESCRIPTOR_NAMES[i.store_address]}, s{i.store_from}")
    elif i.store is Store.PUSH:
        if i.store_address:
            return None
        slots.append(f"push s{i.store_from}")
    elif i.store_address or i.store_from:
        return None
    elif i.store is Store.ISSUE:
        slots.append("issue")
    if i.special is not Special.NONE:
        slots.append(f"{i.special.name.lower()} s{i.special_to}, s{i.special_from}")
    elif i.special_to or i.special_from:
        return None
    if not i.predicated and (i.predicate or i.sense):
        return None
    return slots


_DESCRIPTOR_NAMES = {slot.value: slot.name.lower() for slot in DescriptorSlot}


def _scalar_text(instruction: Scalar, operand: str | None) -> str | None:
    slots = _scalar_slots(instruction, operand)
    if slots is None:
        return None
    text = " | ".join(slots) or "nop"
    if instruction.predicated:
        return f"({'' if instruction.sense else '!'}p{instruction.predicate}) {text}"
    return text


_SYMBOL = re.compile(r"[a-z]\w{0,30}\((?:[^\"()]|\"[^\"]*\")*\)(?:[+-]\d{1,12})?")
_PREDICATED = re.compile(r"\((!?)(p\d)\) ")
_MEMORY = re.compile(r"\[(?:(0x[0-9a-f]{1,8}|\d{1,8})|(s\d{1,2}))\](?:\+=(\d{1,4}))?")


class _ScalarParser:
    """Slots of one bundle, collected into fields."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.symbol: str | None = None

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            if name in self.values:
                raise FormatError("two slots of one kind in a bundle")
            self.values[name] = value

    def memory(self, text: str) -> tuple[int, int]:
        """Mode and address field of a memory operand."""
        match = _MEMORY.fullmatch(text)
        if match is None:
            raise FormatError(
                f"{text[:40]!r} is not a memory operand",
                hint="write [0x10], [s6] or [s6]+=1",
            )
        absolute, register, increment = match.groups()
        if absolute:
            if increment:
                raise FormatError("only a register can be incremented")
            return Load.ABSOLUTE, integer(absolute)
        number = REGISTER.parse(register)
        if increment is None:
            return Load.REGISTER, Indexed(register=number).pack()
        place = Indexed(register=number, increment=integer(increment))
        return Load.INCREMENT, place.pack()

    def operand(self, text: str) -> None:
        if text.startswith("s") and text[1:].isdigit():
            self.set(immediate_b=False, immediate=REGISTER.encode(REGISTER.parse(text)))
        elif text.endswith("f") and not text.startswith("0x"):
            self.set(immediate_b=True, immediate=_FLOAT.encode(_FLOAT.parse(text[:-1])))
        elif _SYMBOL.fullmatch(text):
            self.symbol = text
            self.set(immediate_b=True, immediate=0)
        else:
            value = integer(text)
            if not -(1 << 31) <= value < 1 << 32:
                raise FormatError(f"{value} does not fit 32 bits")
            self.set(immediate_b=True, immediate=value & 0xFFFFFFFF)

    def slot(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        operands = _operands(rest)
        shape = (name, len(operands))
        if shape == ("mov", 2):
            self.set(alu=Alu.MOV, to=REGISTER.parse(operands[0]))
            self.operand(operands[1])
        elif name in _ALU_BY_NAME and len(operands) == 3:
            alu = _ALU_BY_NAME[name]
            target = PREDICATE if alu in COMPARES else REGISTER
            self.set(alu=alu, to=target.parse(operands[0]), a=REGISTER.parse(operands[1]))
            self.operand(operands[2])
        elif shape == ("load", 2):
            mode, address = self.memory(operands[1])
            self.set(load=Load(mode), load_to=REGISTER.parse(operands[0]), load_address=address)
        elif shape == ("store", 2):
            mode, address = self.memory(operands[0])
            self.set(store=Store(mode), store_address=address)
            self.set(store_from=REGISTER.parse(operands[1]))
        elif shape == ("descriptor", 2) and operands[0] in _SLOT_BY_NAME:
            self.set(store=Store.DESCRIPTOR, store_address=int(_SLOT_BY_NAME[operands[0]]))
            self.set(store_from=REGISTER.parse(operands[1]))
        elif shape == ("push", 1):
            self.set(store=Store.PUSH, store_from=REGISTER.parse(operands[0]))
        elif shape == ("issue", 0):
            self.set(store=Store.ISSUE)
        elif name in _SPECIAL_BY_NAME and len(operands) == 2:
            to, source = map(REGISTER.parse, operands)
            self.set(special=_SPECIAL_BY_NAME[name], special_to=to, special_from=source)
        elif shape != ("nop", 0):
            raise FormatError(f"{text[:60]!r} is not a slot of a scalar bundle")


def _operands(text: str) -> list[str]:
    """Operands between commas, where those after a parenthesis do not count."""
    if not text:
        return []
    opening = text.find("(")
    if opening < 0:
        return [item.strip() for item in text.split(",")]
    *operands, _ = text[:opening].split(", ")
    last = text[sum(len(operand) + 2 for operand in operands) :]
    return [*(operand.strip() for operand in operands), last.strip()]


_SCALAR_NAMES = {
    "nop", "mov", "load", "store", "descriptor", "push", "issue", *_ALU_BY_NAME, *_SPECIAL_BY_NAME
}  # fmt: skip


def _parse_scalar(text: str) -> tuple[dict[str, Any], str | None]:
    parser = _ScalarParser()
    match = _PREDICATED.match(text)
    if match is not None:
        predicate = PREDICATE.encode(PREDICATE.parse(match[2]))
        parser.set(predicated=True, predicate=predicate, sense=not match[1])
        text = text[match.end() :]
    for slot in text.split(" | "):
        parser.slot(slot.strip())
    return parser.values, parser.symbol


# --- fields that a linker fills in ---------------------------------------------------------------


def _places(cls: type[Instruction]) -> Iterator[tuple[str, int, int]]:
    """Name, first bit and width of the fields that a symbol can stand for."""
    for item in cls.fields():
        codec = item.codec.inner if isinstance(item.codec, Optional) else item.codec
        if isinstance(codec, TraversalCodec):
            yield f"{item.name}.base", item.first, codec.address
        elif not _is_line(codec) and item.width <= 32:
            yield item.name, item.first, item.width


_PLACES = {cls: {name: (bit, width) for name, bit, width in _places(cls)} for cls in INSTRUCTIONS}


def field_place(cls: type[Instruction], name: str) -> tuple[int, int]:
    """First bit and width of a field of an instruction; ``name.base`` of a traversal's base.

    Raises:
        FormatError: there is no such field, or no symbol can stand for it.
    """
    if name not in _PLACES[cls]:
        raise FormatError(f"{cls.__name__} has no place {name[:40]!r} for a symbol")
    return _PLACES[cls][name]


def field_widths(instructions: Sequence[Instruction], bits: Iterable[int]) -> dict[int, int]:
    """Widths of the fields of a program that begin at some bits; others are left out."""
    found: dict[int, int] = {}
    program = positions(instructions)
    begin, instruction = next(program, (0, None))
    for bit in sorted(bits):
        while instruction is not None and bit >= begin * BUNDLE_BITS + instruction.width:
            begin, instruction = next(program, (0, None))
        if instruction is not None:
            inside = bit - begin * BUNDLE_BITS
            for first, width in _PLACES[type(instruction)].values():
                if first == inside:
                    found[bit] = width
    return found


def _field_at(cls: type[Instruction], bit: int) -> str:
    """Name of the field that begins at a bit, or the number of the bit."""
    return next((name for name, place in _PLACES[cls].items() if place[0] == bit), str(bit))


# --- printing ------------------------------------------------------------------------------------


@dataclass
class Numbering:
    """Sequence number that the next tile instruction has unless it says otherwise."""

    next: int = 0


def listing(
    instructions: Sequence[Instruction],
    *,
    symbols: Mapping[int, str] | None = None,
    numbering: Numbering | None = None,
    comments: bool = True,
) -> Iterator[str]:
    """Lines of one chunk, without START and END where these follow from the rest.

    Args:
        instructions: the chunk.
        symbols: expressions by bit of the chunk where their values go.
        numbering: sequence number to expect; advanced to what follows the chunk.
        comments: add sizes in bytes as comments.

    Yields:
        Lines without newline.

    Raises:
        FormatError: the chunk does not begin with START.
    """
    if not instructions or instructions[0].op is not Opcode.START:
        raise FormatError("a chunk that does not begin with START", table="bundle 0")
    numbering = numbering or Numbering()
    places: dict[int, list[tuple[int, str]]] = {}
    starts = [bundle for bundle, _ in positions(instructions)]
    for bit, expression in sorted((symbols or {}).items()):
        bundle = _owner(starts, bit // BUNDLE_BITS)
        places.setdefault(bundle, []).append((bit - bundle * BUNDLE_BITS, expression))
    body = instructions[1:-1]
    # A START in the body would be taken for the chunk's own; symbols need a line to stand below.
    explicit = (bool(body) and body[0].op is Opcode.START) or bool(
        places.keys() & {starts[0], starts[-1]}
    )
    framed = len(instructions) >= 2 and not explicit and list(instructions) == chunk(body)
    labels = _labels(instructions, framed)
    last = len(instructions) - 1
    for index, (bundle, instruction) in enumerate(positions(instructions)):
        if bundle in labels:
            yield f"{labels[bundle]}:"
        if framed and index in (0, last):
            continue
        yield from _instruction_lines(
            instruction, bundle, places.get(bundle, ()), labels, numbering, comments
        )
    if (end := bundle_count(instructions)) in labels:
        yield f"{labels[end]}:"


def instruction_lines(instruction: Instruction) -> Iterator[str]:
    """Lines of an instruction on its own: without sequence number, branches with distances.

    Yields:
        Lines without newline.
    """
    numbering = Numbering(instruction.seq if isinstance(instruction, NUMBERED) else 0)
    yield from _instruction_lines(instruction, 0, (), {}, numbering, comments=True)


def _owner(starts: list[int], bundle: int) -> int:
    """First bundle of the instruction that a bundle belongs to."""
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= bundle else (low, middle)
    return starts[low]


def _labels(instructions: Sequence[Instruction], framed: bool) -> dict[int, str]:
    """Names of the bundles that branches and loops refer to, if instructions begin there.

    In a framed chunk, nothing stands for START and for what is after END.
    """
    targets = {
        target
        for bundle, instruction in positions(instructions)
        if (target := jump_target(bundle, instruction)) is not None
    }
    if not targets:
        return {}
    begins = {bundle for bundle, _ in positions(instructions)}
    if framed:
        begins.remove(0)
    else:
        begins.add(bundle_count(instructions))
    return {bundle: f"L{number}" for number, bundle in enumerate(sorted(targets & begins))}


def _instruction_lines(
    instruction: Instruction,
    bundle: int,
    places: Iterable[tuple[int, str]],
    labels: Mapping[int, str],
    numbering: Numbering,
    comments: bool,
) -> Iterator[str]:
    cls = type(instruction)
    extra = list(places)
    if isinstance(instruction, Scalar):
        at = Scalar.field("immediate").first
        symbol = next((place for place in extra if place[0] == at), None)
        if not instruction.immediate_b or instruction.immediate:
            symbol = None
        text = _scalar_text(instruction, symbol[1] if symbol else None)
        if text is not None:
            yield f"    {text}"
            yield from _place_lines(cls, [place for place in extra if place is not symbol])
            return
    layout = _LAYOUTS[cls]
    tokens = [f"    {instruction.op.name.lower()}"]
    target = jump_target(bundle, instruction)
    if target is not None and target in labels:
        tokens.append(f"target={labels[target]}")
        skip = "offset" if cls is Branch else "length"
        header = tuple(item for item in layout.header if item.name != skip)
    else:
        header = layout.header
    tokens += field_texts(instruction, header)
    if isinstance(instruction, NUMBERED):
        if instruction.seq != numbering.next:
            tokens.append(f"seq={instruction.seq}")
        numbering.next = next_seq(instruction.seq)
    yield " ".join(tokens)
    for item in layout.lines:
        value = getattr(instruction, item.name)
        codec = item.codec
        if isinstance(codec, Series):
            used = codec.count
            while used and not codec.inner.encode(value[used - 1]):
                used -= 1
            for one in value[:used]:
                yield f"        {item.name}: {codec.inner.text(one)}"
        elif value is not None:
            text = f"        {item.name}: {codec.text(value)}"
            if comments and isinstance(value, Traversal):
                yield f"{text:<60}; {_size_comment(instruction, item, value)}"
            else:
                yield text
    for group, fields in layout.groups:
        texts = field_texts(instruction, fields)
        if texts:
            yield f"        {group}: {' '.join(texts)}"
    yield from _place_lines(cls, extra)


def _place_lines(cls: type[Instruction], places: Iterable[tuple[int, str]]) -> Iterator[str]:
    for bit, expression in places:
        yield f"        symbol: {_field_at(cls, bit)} {expression}"


# --- parsing -------------------------------------------------------------------------------------


@dataclass
class Chunk:
    """What a text says of one chunk.

    Attributes:
        instructions: with START and END.
        symbols: expressions by bit of the chunk.
        lines: numbers of the lines that the instructions with these symbols begin on.
    """

    instructions: list[Instruction] = field(default_factory=list)
    symbols: dict[int, str] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)


@dataclass
class _Draft:
    """An instruction of which not all lines have been read."""

    opcode: Opcode
    line: int
    values: dict[str, Any]
    series: dict[str, list[Any]] = field(default_factory=dict)
    symbols: list[tuple[int, str]] = field(default_factory=list)
    target: str = ""


class ChunkParser:
    """Reads the lines of one chunk after the other.

    Args:
        path: name of the file, for errors.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._numbering = Numbering()
        self._drafts: list[_Draft] = []
        self._labels: dict[str, int] = {}
        self._bundle = 0
        self._cache: dict[str, tuple[dict[str, Any], str | None]] = {}

    def restart_numbering(self) -> None:
        """Count tile instructions from zero: a program begins."""
        self._numbering = Numbering()

    def line(self, number: int, text: str) -> None:
        """Read one line; `text` has no comment and is not empty.

        Raises:
            FormatError: it is not a line of assembly; names the line.
        """
        try:
            self._line(number, text)
        except FormatError as error:
            raise self._located(error, number) from None

    def _located(self, error: FormatError, number: int) -> FormatError:
        where = f", {error.table}" if error.table else ""
        return FormatError(
            error.what, path=self._path, table=f"line {number}{where}", hint=error.hint
        )

    def _line(self, number: int, text: str) -> None:
        name, colon, rest = text.partition(":")
        if colon and name.isidentifier() and (not rest or rest[0] == " "):
            if rest:
                self._continuation(name, rest.strip())
            elif name in self._labels:
                raise FormatError(f"the label {name[:40]!r} is there twice")
            else:
                self._labels[name] = self._bundle
            return
        mnemonic, _, rest = text.partition(" ")
        if mnemonic in _MNEMONICS:
            opcode = _MNEMONICS[mnemonic]
            draft = _Draft(opcode, number, {})
            tokens = rest.split()
            for token in [token for token in tokens if token.startswith("target=")]:
                draft.target = token.removeprefix("target=")
                tokens.remove(token)
            draft.values = parse_fields(BY_OPCODE[opcode], tokens)
            if "op" in draft.values:
                raise FormatError("the mnemonic says the operation")
        elif mnemonic in _SCALAR_NAMES or text.startswith("("):
            # Bundles repeat a lot.
            known = self._cache.get(text)
            if known is None:
                known = self._cache[text] = _parse_scalar(text)
            values, symbol = known
            draft = _Draft(Opcode.SCALAR, number, values)
            if symbol is not None:
                draft.symbols.append((Scalar.field("immediate").first, symbol))
        else:
            raise FormatError(
                f"{mnemonic[:40]!r} is no instruction",
                hint=f"known are {', '.join(_MNEMONICS)} and slots of scalar bundles",
            )
        self._drafts.append(draft)
        self._bundle += BY_OPCODE[draft.opcode].bundles()

    def _continuation(self, name: str, text: str) -> None:
        if not self._drafts:
            raise FormatError(f"{name[:40]}: belongs to no instruction")
        draft = self._drafts[-1]
        cls = BY_OPCODE[draft.opcode]
        layout = _LAYOUTS[cls]
        if name in layout.line_names:
            codec = cls.field(name).codec
            if isinstance(codec, Series):
                draft.series.setdefault(name, []).append(codec.inner.parse(text))
            elif name in draft.values:
                raise FormatError(f"{name} is given twice")
            else:
                draft.values[name] = codec.parse(text)
        elif name == "symbol":
            place, _, expression = text.partition(" ")
            bit = integer(place) if place.isdigit() else field_place(cls, place)[0]
            if not 0 <= bit <= cls.width - 1 or not _SYMBOL.fullmatch(expression):
                raise FormatError(f"{text[:60]!r} is not a place and a symbol")
            draft.symbols.append((bit, expression))
        elif any(name == group for group, _ in layout.groups):
            values = parse_fields(cls, text.split())
            if values.keys() & draft.values.keys():
                raise FormatError(f"a field of {name} is given twice")
            draft.values |= values
        else:
            raise FormatError(f"{cls.__name__} has no line {name[:40]!r}")

    def finish(self) -> Chunk:
        """The chunk that the lines since the last call make.

        Raises:
            FormatError: a missing label, or a value that does not fit.
        """
        result = Chunk()
        # Mostly START is implied, and everything else begins one bundle later.
        shift = 0 if self._drafts and self._drafts[0].opcode is Opcode.START else 1
        bundle = shift
        for draft in self._drafts:
            try:
                instruction = self._build(draft, bundle, shift)
            except FormatError as error:
                raise self._located(error, draft.line) from None
            result.instructions.append(instruction)
            for bit, expression in draft.symbols:
                place = bundle * BUNDLE_BITS + bit
                if place in result.symbols:
                    raise self._located(FormatError("two symbols in one place"), draft.line)
                result.symbols[place] = expression
                result.lines[place] = draft.line
            bundle += instruction.bundles()
        if shift:
            result.instructions = chunk(result.instructions)
        self._drafts, self._labels, self._bundle = [], {}, 0
        return result

    def _build(self, draft: _Draft, bundle: int, shift: int) -> Instruction:
        cls = BY_OPCODE[draft.opcode]
        values = dict(draft.values)
        for name, items in draft.series.items():
            codec = cls.field(name).codec
            assert isinstance(codec, Series)
            values[name] = codec.padded(items)
        if draft.target:
            if draft.target not in self._labels:
                raise FormatError(f"there is no label {draft.target[:40]!r}")
            distance = self._labels[draft.target] + shift - bundle
            if cls is Branch:
                values["offset"] = distance
            elif cls is Loop:
                values["length"] = distance - 1
            else:
                raise FormatError("only branches and loops have a target")
        if issubclass(cls, NUMBERED):
            seq = values.setdefault("seq", self._numbering.next)
            self._numbering.next = next_seq(seq)
        instruction = cls(op=draft.opcode, **values)
        instruction.pack()  # so that a value that does not fit is reported with its line
        return instruction


def uncommented(line: str) -> str:
    """A line without its comment and the space around it."""
    if ";" in line:
        quoted = False
        for index, character in enumerate(line):
            if character == '"':
                quoted = not quoted
            elif character == ";" and not quoted:
                line = line[:index]
                break
    return line.strip()
