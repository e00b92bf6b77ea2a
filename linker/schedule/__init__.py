"""What the host does while a program runs: the steps, and where they come from.

`derive` finds them by executing the scalar program, `to_hints` and `from_hints` translate them to
and from the tables of a package.
"""

from fitzroy.linker.schedule.derive import derive, derive_executable
from fitzroy.linker.schedule.hints import from_hints, to_hints
from fitzroy.linker.schedule.steps import (
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
    fenced,
    joined,
)

__all__ = [
    "AwaitInterrupt",
    "Fence",
    "ReceiveOutput",
    "ReceiveScratch",
    "Script",
    "SendInput",
    "SendInstructions",
    "SendParameters",
    "SendScratch",
    "Step",
    "derive",
    "derive_executable",
    "fenced",
    "from_hints",
    "joined",
    "to_hints",
]
