"""Writes the generated pages of this folder; ``--check`` compares instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path

from docs.envelope_pages import envelope, probes
from docs.isa_pages import isa
from docs.markdown_parts import (
    NOTICE,
    evidence_levels,
    field_table,
    first_line,
    inner_codecs,
    link,
    member_table,
    prose,
    table,
)

from fitzroy.base.bits import (
    Field,
    Record,
)
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.passes.base import PASSES
from fitzroy.compiler.targets.target import TARGETS
from fitzroy.hw_models.chips import usb
from fitzroy.hw_models.chips.catalog import CHIPS
from fitzroy.hw_models.chips.facts import facts
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.register import Register
from fitzroy.hw_models.isa.catalog import INSTRUCTIONS
from fitzroy.hw_models.isa.traversal import (
    TraversalCodec,
)
from fitzroy.hw_models.vm import opcodes as vm_opcodes
from fitzroy.hw_models.vm import operands as vm_operands

FOLDER = Path(__file__).parent


def operators() -> str:
    """The operator support table."""
    targets = [TARGETS.get(name) for name in TARGETS.own]
    lines = [
        NOTICE + "# Operators\n",
        "Which operators run on which target: for users who choose or change a model. The table",
        "has a row for every operator of the IR and a column for every built-in target.\n",
        "`fitzroy explain MODEL` shows where each operator of a model runs, and every reason why",
        "it does not run elsewhere.\n",
        "| entry | meaning |",
        "|---|---|",
        "| *rule* | the code generator of the Edge TPU has a rule for it |",
        "| *node* | the XNNPACK delegate has a node for it, for the types that its rules allow |",
        "| *kernel* | a portable kernel of the ExecuTorch runtime computes it |",
        "| *TFLite* | the host of a bytecode module runs it as a TFLite operator |",
        "| *rewritten* | passes replace it by other operators |\n",
        f"| operator | operands | TFLite | meaning | {' | '.join(t.title for t in targets)} |",
        "|---|---|---|---|" + "---|" * len(targets),
    ]
    for name in sorted(OPS):
        operator = OPS[name]
        operands = ", ".join(operator.operands) if len(operator.operands) < 6 else "see source"
        tflite = ", ".join(filter(None, (*operator.tflite, operator.custom)))
        support = " | ".join(target.supports(name) for target in targets)
        lines.append(f"| `{name}` | {operands} | {tflite} | {first_line(operator)} | {support} |")
    return "\n".join(lines) + "\n"


def passes() -> str:
    """The list of passes."""
    lines = [
        NOTICE + "# Passes\n",
        "The passes that rewrite a graph, and their order for each target: for users who inspect",
        "the graph between passes, or write a pass. `fitzroy opt MODEL --passes a,b` runs passes",
        "by name and prints the graph.\n",
        "| pass | what it does |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {first_line(PASSES.get(name))} |" for name in sorted(PASSES.own)]
    lines += [
        "\n## Targets\n",
        "The steps for each target, from the imported graph to a file. A node runs on the first of",
        "the listed targets that does not reject it. If the column *the rest on* is empty, a model",
        "with nodes that all of these reject is refused.\n",
        "| target | passes | nodes run on | the rest on | function | file |",
        "|---|---|---|---|---|---|",
    ]
    for target in (TARGETS.get(name) for name in TARGETS.own):
        steps = ", ".join(f"`{step.name}`" for step in target.passes(target.options()))
        places = ", ".join((target.name, *target.fallbacks))
        lines.append(
            f"| `{target.name}` | {steps} | {places} | {target.rest} | `{target.entry}` "
            f"| `{target.suffix}` |"
        )
    return "\n".join(lines) + "\n"


def _register_remarks(register: Register) -> Callable[[Field], str]:
    def remark(field: Field) -> str:
        if field.name in register.read_only:
            return " (read only)"
        return " (write 1 to clear)" if field.name in register.write_one_to_clear else ""

    return remark


def registers() -> str:
    """Reference of the control and status registers."""
    by_layout: dict[type[Record], list[Register]] = {}
    for register in csr.REGISTERS:
        by_layout.setdefault(register.layout, []).append(register)
    lines = [
        NOTICE + "# Registers of beagle\n",
        "The control and status registers that a host driver uses: for authors of drivers, and for",
        "users who read recorded sessions. `hw_models/csr` declares them.\n",
        "Over USB, a register is read and written with a vendor control transfer:",
        f"bmRequestType {usb.RequestType.VENDOR_IN:#04x} to read and",
        f"{usb.RequestType.VENDOR_OUT:#04x} to write, bRequest {usb.CsrRequest.ACCESS_32} for 32",
        f"bits and {usb.CsrRequest.ACCESS_64} for 64, wValue and wIndex the low and high halves of",
        "the address. Registers at 0x40000 and above have 64 bits, those below have 32.\n",
        "## Map\n",
        *table(
            ("address", "name", "bits", "block", "access", "reset", "known", "what", "layout"),
            (
                (
                    f"`{r.address:#07x}`",
                    f"`{r.name}`",
                    r.width,
                    r.unit,
                    r.access.value,
                    f"{r.reset:#x}",
                    r.reset_evidence.name,
                    r.doc + (f"; {r.effect}" if r.effect else ""),
                    link(r.layout.__name__),
                )
                for r in csr.REGISTERS
            ),
        ),
        "*access* is how the driver uses a register. *reset* is the value after the firmware has",
        "started, and *known* is the evidence for it.\n",
        "## Run control\n",
        "A write to the run control of a tile engine reaches the tiles that `tileconfig0` selects.",
        "The driver writes the registers in this order:\n",
        *table(
            ("engine", "register"),
            (
                (name, f"`{register.name}`")
                for name, register in (
                    ("scalar core", csr.SCALAR_CORE_RUN_CONTROL),
                    *((e.name.lower(), r) for e, r in csr.STREAM_RUN_CONTROLS.items()),
                    *((e.name.lower(), r) for e, r in csr.TILE_RUN_CONTROLS.items()),
                )
            ),
        ),
        "## Interrupts of the chip\n",
        *table(
            ("id", "interrupt", "control", "status"),
            (
                (
                    interrupt.value,
                    interrupt.name.lower().replace("_", " "),
                    f"`{csr.TOP_LEVEL_CONTROLS[interrupt].name}`",
                    f"`{csr.TOP_LEVEL_STATUSES[interrupt].name}`",
                )
                for interrupt in csr.TopLevelInterrupt
            ),
        ),
        "## Layouts\n",
    ]
    for layout, users in by_layout.items():
        lines += [
            f"### {layout.__name__}\n",
            prose(layout),
            f"Registers: {', '.join(f'`{r.name}`' for r in users)}.\n",
            *field_table(layout.fields(), _register_remarks(users[0])),
        ]
    lines += ["## Numbers and names\n", *member_table(usb.Tag)]
    evidence = [r.reset_evidence for r in csr.REGISTERS]
    evidence += [f.evidence for layout in by_layout for f in layout.fields()]
    lines += evidence_levels(evidence)
    return "\n".join(lines).rstrip() + "\n"


def _address_widths() -> Iterator[tuple[object, ...]]:
    seen = set()
    for instruction in INSTRUCTIONS:
        for field in instruction.fields():
            for codec in inner_codecs(field.codec):
                if isinstance(codec, TraversalCodec) and field.unit:
                    row = (field.unit, codec.rank, codec.address)
                    if row not in seen:
                        seen.add(row)
                        yield row


def chip() -> str:
    """The numbers of the chips, and what goes over their USB ports."""
    lines = [
        NOTICE + "# Chips\n",
        "Every number that FitzRoy knows about the chip, with its unit, evidence and source: for",
        "users who check a claim of these pages or need a number for a tool.\n",
    ]
    evidence = []
    for name, one in CHIPS.items():
        rows = list(facts(one))
        evidence += [row.evidence for row in rows]
        lines += [
            f"## {name}\n",
            f"`from fitzroy.hw_models.chips.catalog import chip`; `chip({name!r}).tiles.rows` is",
            "a plain number, and `fitzroy.hw_models.chips.facts.facts` returns the rows below.\n",
            *table(
                ("fact", "value", "unit", "what", "evidence", "source"),
                (
                    (
                        f"`{row.name}`",
                        _value(row.name, row.value),
                        row.unit,
                        row.doc,
                        row.evidence.name,
                        row.source,
                    )
                    for row in rows
                ),
            ),
        ]
    lines += [
        "## What instructions can address\n",
        "Derived from the [instruction set](isa.md): the number of dimensions of traversals over",
        "each kind of element, and the width of their addresses.\n",
        *table(("element", "dimensions", "address bits"), _address_widths()),
        "The instruction set also defines the number of registers, predicates, flags and",
        "engines.\n",
        "## Messages on USB\n",
    ]
    messages: tuple[type[Record], ...] = (
        usb.StreamHeader,
        usb.Event,
        usb.InterruptPacket,
        usb.DfuStatus,
    )
    for message in messages:
        lines += [
            f"### {message.__name__}\n",
            f"{prose(message).strip()} {message.width // 8} bytes.\n",
            *field_table(message.fields()),
        ]
    lines += member_table(usb.Tag)
    lines += member_table(usb.DfuState)
    evidence += [f.evidence for message in messages for f in message.fields()]
    lines += evidence_levels(evidence)
    return "\n".join(lines).rstrip() + "\n"


# Last words of the names of facts that are written in hexadecimal.
_HEXADECIMAL = ("address", "class", "product", "protocol", "subclass", "vendor")


def _value(name: str, value: object) -> str:
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, int) and name.endswith(_HEXADECIMAL):
        return f"{value:#04x}"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def bytecode() -> str:
    """The opcodes of bytecode modules."""
    lines = [
        NOTICE + "# Opcodes of bytecode modules\n",
        "The instructions of bytecode modules and their encodings: for users who read, write or",
        "verify modules with their own tools. [modules.md](modules.md) describes modules, their",
        "verification and their execution.\n",
        "## Operands\n",
        *table(
            ("letter", "operand"),
            [(f"`{letter}`", codec.meaning) for letter, codec in vm_operands.KINDS.items()],
        ),
    ]
    for dialect, opcodes_of in vm_opcodes.OPCODES.items():
        rows = [
            (f"{code:02x}", f"`{item.name}`", " ".join(item.kinds), item.meaning)
            for code, item in sorted(opcodes_of.items())
            if dialect is vm_opcodes.Dialect.B or item not in vm_opcodes.COMMON
        ]
        title = f"## Dialect {dialect.name}: {dialect.value}\n"
        note = "All other opcodes are those of dialect B.\n"
        lines += [title, *([note] if dialect is vm_opcodes.Dialect.A else [])]
        lines += table(("code", "opcode", "operands", "meaning"), rows)
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "operators.md": operators,
    "passes.md": passes,
    "isa.md": isa,
    "csr.md": registers,
    "chip.md": chip,
    "bytecode.md": bytecode,
    "envelope.md": envelope,
    "probes.md": probes,
}


def stale() -> list[str]:
    """Names of pages that differ from what the code says."""
    return [
        name
        for name, page in PAGES.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != page()
    ]


def main() -> int:
    """Write the pages, or name those that are out of date."""
    if "--check" in sys.argv[1:]:
        for name in stale():
            print(f"docs/{name} is out of date; run `make docs`")
        return 1 if stale() else 0
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
