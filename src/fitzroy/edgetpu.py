"""The name by which scripts import the compiler for the Edge TPU; see `compilation`."""

from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    MappedSegment,
    compile_edgetpu,
    compile_together,
)
from fitzroy.compilation.segments import compile_segments
from fitzroy.compilation.source import Source

__all__ = [
    "EdgeTpuCompilation",
    "MappedSegment",
    "Source",
    "compile_edgetpu",
    "compile_segments",
    "compile_together",
]
