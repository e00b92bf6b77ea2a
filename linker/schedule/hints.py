"""Steps of the host as the DMA hints of an executable, and back."""

from __future__ import annotations

from fitzroy.base.errors import FormatError, LinkError
from fitzroy.formats.darwinn import (
    AnyHint,
    Description,
    Direction,
    DmaDescriptorHint,
    DmaHint,
    DmaHints,
    FenceHint,
    InstructionHint,
    InterruptHint,
    Meta,
)
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
)

_BUFFERS: dict[type, tuple[Description, Direction]] = {
    SendInput: (Description.BASE_ADDRESS_INPUT_ACTIVATION, Direction.INFEED),
    SendParameters: (Description.BASE_ADDRESS_PARAMETER, Direction.INFEED),
    SendScratch: (Description.BASE_ADDRESS_SCRATCH, Direction.INFEED),
    ReceiveOutput: (Description.BASE_ADDRESS_OUTPUT_ACTIVATION, Direction.OUTFEED),
    ReceiveScratch: (Description.BASE_ADDRESS_SCRATCH, Direction.OUTFEED),
}
_TRANSFERS: dict[tuple[int, int], type] = {key: step for step, key in _BUFFERS.items()}

_LARGEST = (1 << 31) - 1
"""Offsets and sizes are stored as int32."""


def to_hints(script: Script) -> DmaHints:
    """The tables of a script.

    Raises:
        LinkError: an offset or a size is too large for them.
    """
    return DmaHints(
        hints=[_hint(step) for step in script.steps], fully_deterministic=script.deterministic
    )


def _hint(step: Step) -> DmaHint:
    hint: AnyHint
    match step:
        case SendInstructions(chunk):
            return DmaHint(any_hint=InstructionHint(instruction_chunk_index=chunk))
        case AwaitInterrupt(number):
            return DmaHint(any_hint=InterruptHint(type=number), direction=Direction.OUTFEED)
        case Fence():
            return DmaHint(any_hint=FenceHint())
        case SendInput(name, batch) | ReceiveOutput(name, batch):
            meta = Meta(name=name, batch=batch)
        case _:
            # Named even where no name is needed, as in packages of the vendor.
            meta = Meta(name="")
    if not 0 <= step.offset <= step.offset + step.size <= _LARGEST:
        raise LinkError(
            f"a transfer of {step.size} bytes at {step.offset}",
            reason=f"hints reach up to {_LARGEST}",
        )
    desc, direction = _BUFFERS[type(step)]
    meta.desc = desc
    hint = DmaDescriptorHint(meta=meta, offset_in_bytes=step.offset, size_in_bytes=step.size)
    return DmaHint(any_hint=hint, direction=direction)


def from_hints(hints: DmaHints) -> Script:
    """The script that tables describe; inverse of `to_hints`.

    Raises:
        FormatError: a hint of no kind, of no buffer, or in the wrong direction.
    """
    steps = tuple(_step(hint, index) for index, hint in enumerate(hints.hints or ()))
    return Script(steps, hints.fully_deterministic)


def _step(hint: DmaHint, index: int) -> Step:
    step = hint.any_hint
    match step:
        case InstructionHint():
            return SendInstructions(step.instruction_chunk_index)
        case InterruptHint():
            return AwaitInterrupt(step.type)
        case FenceHint():
            return Fence()
        case None:
            raise _fault("a hint of no kind", index)
    if step.meta is None:
        raise _fault("it names no buffer", index)
    key = step.meta.desc, hint.direction
    kind = _TRANSFERS.get(key)
    if kind is None:
        raise _fault(f"buffer {key[0]} cannot be transferred in direction {key[1]}", index)
    if kind in (SendInput, ReceiveOutput):
        named: Step = kind(
            step.meta.name or "", step.meta.batch, step.offset_in_bytes, step.size_in_bytes
        )
        return named
    plain: Step = kind(step.offset_in_bytes, step.size_in_bytes)
    return plain


def _fault(what: str, index: int) -> FormatError:
    return FormatError(what, table=f"DmaHints.hints[{index}]")
