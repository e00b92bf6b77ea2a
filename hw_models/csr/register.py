"""What a register is: address, layout, reset value, and what a write does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from fitzroy.base.bits import Record
from fitzroy.base.errors import FormatError
from fitzroy.base.evidence import Evidence


class Access(Enum):
    """How the driver uses a register; the value is the text for documentation."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read, write"


@dataclass(frozen=True, slots=True)
class Register:
    """One register.

    Attributes:
        name: name in the published driver.
        address: byte address, as it goes into a control transfer.
        layout: meaning of the bits; its width is the width of an access.
        doc: one line for the reference page.
        unit: block of the chip.
        reset: value after the firmware has started.
        access: how the driver uses it.
        read_only: fields that a write does not change.
        write_one_to_clear: fields whose bits a written 1 clears and a written 0 keeps.
        effect: what else an access does.
        reset_evidence: how well the reset value is known.
        evidence: how well address and meaning are known.
    """

    name: str
    address: int
    layout: type[Record]
    doc: str
    unit: str
    reset: int = 0
    access: Access = Access.READ_WRITE
    read_only: tuple[str, ...] = ()
    write_one_to_clear: tuple[str, ...] = ()
    effect: str = ""
    reset_evidence: Evidence = Evidence.ASSUMED
    evidence: Evidence = Evidence.SOURCE

    @property
    def width(self) -> int:
        """Bits of an access: 32 or 64."""
        return self.layout.width

    def value(self, **fields: Any) -> int:
        """The number in which these fields have these values and all others their defaults.

        Raises:
            FormatError: there is no such field, or a value does not fit it.
        """
        for name in fields:
            self._mask(name)
        return self.layout(**fields).pack()

    def fields(self, value: int) -> Record:
        """The fields of a number.

        Raises:
            FormatError: reserved bits are set, or a field holds a number without a meaning.
        """
        return self.layout.unpack(value)

    def field(self, value: int, name: str) -> Any:
        """One field of a number, whatever the other bits are.

        Raises:
            FormatError: there is no such field, or it holds a number without a meaning.
        """
        mask = self._mask(name)
        spec = self.layout.field(name)
        return spec.codec.decode((value & mask) >> spec.first)

    def changed(self, value: int, **fields: Any) -> int:
        """A number with some fields changed and all other bits kept, reserved ones too.

        Raises:
            FormatError: there is no such field, or a value does not fit it.
        """
        for name, content in fields.items():
            mask = self._mask(name)
            spec = self.layout.field(name)
            value = value & ~mask | spec.codec.encode(content) << spec.first
        return value

    def written(self, stored: int, value: int) -> int:
        """What the register holds after a write, as far as the device's own work is left out.

        Args:
            stored: value before.
            value: value written.
        """
        kept = cleared = 0
        for name in self.read_only:
            kept |= self._mask(name)
        for name in self.write_one_to_clear:
            cleared |= self._mask(name)
        return (
            stored & kept
            | stored & ~value & cleared
            | value & ~(kept | cleared) & (1 << self.width) - 1
        )

    def _mask(self, name: str) -> int:
        spec = self.layout.declared().by_name.get(name)
        if spec is None:
            raise FormatError(
                f"register {self.name} has no field {name!r}",
                hint=f"its fields are {', '.join(f.name for f in self.layout.fields())}",
            )
        return (1 << spec.width) - 1 << spec.first
