"""Where elements of inputs and outputs lie in the host's buffers.

`relayout` turns the bytes that tiles send into tensors and back, `host` adds padding and the bias
of signed types; `hw_models.edgetpu.output_layouts` makes the tables of outputs from what each tile
computes.
"""

from fitzroy.hw_models.edgetpu.output_layouts import (
    Ownership,
    default_ownership,
    output_layout,
    output_shape_info,
    ownership_of,
    split,
)
from fitzroy.linker.layouts.host import (
    InputEncoder,
    decode_output,
    encode_input,
    encode_output,
    flip_signs,
)
from fitzroy.linker.layouts.relayout import GridMap, OutputMap, SliceMap, output_map

__all__ = [
    "GridMap",
    "InputEncoder",
    "OutputMap",
    "Ownership",
    "SliceMap",
    "decode_output",
    "default_ownership",
    "encode_input",
    "encode_output",
    "flip_signs",
    "output_layout",
    "output_map",
    "output_shape_info",
    "ownership_of",
    "split",
]
