"""An executable as it runs on the simulator, and what its program asked the host for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.formats.darwinn import Executable
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.scalar import Descriptor
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.program import bundle_count
from fitzroy.hw_models.isa.scalar import DescriptorTag


@dataclass(frozen=True, eq=False)
class Stage:
    """An executable of a package as it runs.

    Attributes:
        executable: the executable.
        name: ``caching`` if it loads parameters, else ``main``.
        chunks: its instructions, with the addresses of buffers filled in.
        recording: what the scalar core did so far, None if nothing is recorded.
    """

    executable: Executable
    name: str
    chunks: Sequence[Sequence[Instruction]]
    recording: Recording | None

    @property
    def chunk_sizes(self) -> list[int]:
        """Bytes of each chunk."""
        return [BUNDLE_BYTES * bundle_count(chunk) for chunk in self.chunks]

    @property
    def positions(self) -> int:
        """Positions in y and x of all outputs, which a host puts in order one by one."""
        return sum(
            layer.y_dim * layer.x_dim * layer.execution_count_per_inference
            for layer in self.executable.outputs.values()
        )

    def requested(self, tag: DescriptorTag) -> int:
        """Bytes that the program asked the host for, or sent it; 0 if nothing is recorded."""
        entries = self.recording.entries if self.recording is not None else ()
        return sum(
            entry.size for _, entry in entries if isinstance(entry, Descriptor) and entry.tag is tag
        )
