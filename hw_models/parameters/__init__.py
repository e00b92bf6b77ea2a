"""Parameters of the Edge TPU: layout of operands in the blob and in wide memory, packing."""

from fitzroy.hw_models.parameters.constants import (
    one_hot,
    read_softmax_table,
    softmax_layout,
    softmax_table,
)
from fitzroy.hw_models.parameters.layouts import (
    BLOB_ALIGNMENT,
    BLOCK_CHANNELS,
    CHANNEL_GROUP,
    WIDE_ROW_BYTES,
    ConvolutionLayout,
    DepthwiseLayout,
    FilterLayout,
    Layout,
    Prefix,
    TableLayout,
    Word,
    WordKind,
    WordOrder,
)
from fitzroy.hw_models.parameters.packing import Parameters, pack, unpack
from fitzroy.hw_models.parameters.scaling import (
    ZeroBias,
    effective_scale,
    keeps_bias,
    prefix_for,
)

__all__ = [
    "BLOB_ALIGNMENT",
    "BLOCK_CHANNELS",
    "CHANNEL_GROUP",
    "WIDE_ROW_BYTES",
    "ConvolutionLayout",
    "DepthwiseLayout",
    "FilterLayout",
    "Layout",
    "Parameters",
    "Prefix",
    "TableLayout",
    "Word",
    "WordKind",
    "WordOrder",
    "ZeroBias",
    "effective_scale",
    "keeps_bias",
    "one_hot",
    "pack",
    "prefix_for",
    "read_softmax_table",
    "softmax_layout",
    "softmax_table",
    "unpack",
]
