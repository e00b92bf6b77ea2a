"""TFLite models: the schema, the reader, the writer, and typed access to tensors.

The declarations follow the published schema, version 3 with identifier ``TFL3``, including all
option tables of builtin operators. Fields that the schema has retired are neither read nor
written.

Facts: the published TFLite schema, as the LiteRT runtime 2.3.0 carries it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from fitzroy.base import types
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array, DType, Quantization
from fitzroy.formats import flat, sparse
from fitzroy.formats.flat import (
    Table,
    UnknownMember,
    ints,
    scalar,
    skipped,
    string,
    table,
    tables,
    union,
    vector,
)

if TYPE_CHECKING:
    from fitzroy.formats.archive import Archive

OPTIONS_ALIGNMENT = 16
"""Alignment in bytes of custom options in written models, so that delegates' data is aligned."""

IDENTIFIER = b"TFL3"
VERSION = 3
"""The only schema version that was ever released with this identifier."""

METADATA = "TFLITE_METADATA"
"""Name of the metadata entry that describes inputs and outputs, see `formats.tflite_metadata`."""

_ARCHIVE_MARK, _ARCHIVE_TAIL = b"PK\x05\x06", 22 + 0xFFFF
"""What a file that ends in an archive has among its last bytes, and how many these are."""

BUFFER_ALIGNMENT = 16
"""Bytes to which the data of every buffer is aligned in the file."""


class TensorType(IntEnum):
    """Element types of tensors."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19
    UINT4 = 20
    FLOAT8_E4M3FN = 21
    FLOAT8_E5M2 = 22


class BuiltinOperator(IntEnum):
    """Codes of the builtin operators."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEPTH_TO_SPACE = 5
    DEQUANTIZE = 6
    EMBEDDING_LOOKUP = 7
    FLOOR = 8
    FULLY_CONNECTED = 9
    HASHTABLE_LOOKUP = 10
    L2_NORMALIZATION = 11
    L2_POOL_2D = 12
    LOCAL_RESPONSE_NORMALIZATION = 13
    LOGISTIC = 14
    LSH_PROJECTION = 15
    LSTM = 16
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU_N1_TO_1 = 20
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    RNN = 24
    SOFTMAX = 25
    SPACE_TO_DEPTH = 26
    SVDF = 27
    TANH = 28
    CONCAT_EMBEDDINGS = 29
    SKIP_GRAM = 30
    CALL = 31
    CUSTOM = 32
    EMBEDDING_LOOKUP_SPARSE = 33
    PAD = 34
    UNIDIRECTIONAL_SEQUENCE_RNN = 35
    GATHER = 36
    BATCH_TO_SPACE_ND = 37
    SPACE_TO_BATCH_ND = 38
    TRANSPOSE = 39
    MEAN = 40
    SUB = 41
    DIV = 42
    SQUEEZE = 43
    UNIDIRECTIONAL_SEQUENCE_LSTM = 44
    STRIDED_SLICE = 45
    BIDIRECTIONAL_SEQUENCE_RNN = 46
    EXP = 47
    TOPK_V2 = 48
    SPLIT = 49
    LOG_SOFTMAX = 50
    DELEGATE = 51
    BIDIRECTIONAL_SEQUENCE_LSTM = 52
    CAST = 53
    PRELU = 54
    MAXIMUM = 55
    ARG_MAX = 56
    MINIMUM = 57
    LESS = 58
    NEG = 59
    PADV2 = 60
    GREATER = 61
    GREATER_EQUAL = 62
    LESS_EQUAL = 63
    SELECT = 64
    SLICE = 65
    SIN = 66
    TRANSPOSE_CONV = 67
    SPARSE_TO_DENSE = 68
    TILE = 69
    EXPAND_DIMS = 70
    EQUAL = 71
    NOT_EQUAL = 72
    LOG = 73
    SUM = 74
    SQRT = 75
    RSQRT = 76
    SHAPE = 77
    POW = 78
    ARG_MIN = 79
    FAKE_QUANT = 80
    REDUCE_PROD = 81
    REDUCE_MAX = 82
    PACK = 83
    LOGICAL_OR = 84
    ONE_HOT = 85
    LOGICAL_AND = 86
    LOGICAL_NOT = 87
    UNPACK = 88
    REDUCE_MIN = 89
    FLOOR_DIV = 90
    REDUCE_ANY = 91
    SQUARE = 92
    ZEROS_LIKE = 93
    FILL = 94
    FLOOR_MOD = 95
    RANGE = 96
    RESIZE_NEAREST_NEIGHBOR = 97
    LEAKY_RELU = 98
    SQUARED_DIFFERENCE = 99
    MIRROR_PAD = 100
    ABS = 101
    SPLIT_V = 102
    UNIQUE = 103
    CEIL = 104
    REVERSE_V2 = 105
    ADD_N = 106
    GATHER_ND = 107
    COS = 108
    WHERE = 109
    RANK = 110
    ELU = 111
    REVERSE_SEQUENCE = 112
    MATRIX_DIAG = 113
    QUANTIZE = 114
    MATRIX_SET_DIAG = 115
    ROUND = 116
    HARD_SWISH = 117
    IF = 118
    WHILE = 119
    NON_MAX_SUPPRESSION_V4 = 120
    NON_MAX_SUPPRESSION_V5 = 121
    SCATTER_ND = 122
    SELECT_V2 = 123
    DENSIFY = 124
    SEGMENT_SUM = 125
    BATCH_MATMUL = 126
    PLACEHOLDER_FOR_GREATER_OP_CODES = 127
    CUMSUM = 128
    CALL_ONCE = 129
    BROADCAST_TO = 130
    RFFT2D = 131
    CONV_3D = 132
    IMAG = 133
    REAL = 134
    COMPLEX_ABS = 135
    HASHTABLE = 136
    HASHTABLE_FIND = 137
    HASHTABLE_IMPORT = 138
    HASHTABLE_SIZE = 139
    REDUCE_ALL = 140
    CONV_3D_TRANSPOSE = 141
    VAR_HANDLE = 142
    READ_VARIABLE = 143
    ASSIGN_VARIABLE = 144
    BROADCAST_ARGS = 145
    RANDOM_STANDARD_NORMAL = 146
    BUCKETIZE = 147
    RANDOM_UNIFORM = 148
    MULTINOMIAL = 149
    GELU = 150
    DYNAMIC_UPDATE_SLICE = 151
    RELU_0_TO_1 = 152
    UNSORTED_SEGMENT_PROD = 153
    UNSORTED_SEGMENT_MAX = 154
    UNSORTED_SEGMENT_SUM = 155
    ATAN2 = 156
    UNSORTED_SEGMENT_MIN = 157
    SIGN = 158
    BITCAST = 159
    BITWISE_XOR = 160
    RIGHT_SHIFT = 161
    STABLEHLO_LOGISTIC = 162
    STABLEHLO_ADD = 163
    STABLEHLO_DIVIDE = 164
    STABLEHLO_MULTIPLY = 165
    STABLEHLO_MAXIMUM = 166
    STABLEHLO_RESHAPE = 167
    STABLEHLO_CLAMP = 168
    STABLEHLO_CONCATENATE = 169
    STABLEHLO_BROADCAST_IN_DIM = 170
    STABLEHLO_CONVOLUTION = 171
    STABLEHLO_SLICE = 172
    STABLEHLO_CUSTOM_CALL = 173
    STABLEHLO_REDUCE = 174
    STABLEHLO_ABS = 175
    STABLEHLO_AND = 176
    STABLEHLO_COSINE = 177
    STABLEHLO_EXPONENTIAL = 178
    STABLEHLO_FLOOR = 179
    STABLEHLO_LOG = 180
    STABLEHLO_MINIMUM = 181
    STABLEHLO_NEGATE = 182
    STABLEHLO_OR = 183
    STABLEHLO_POWER = 184
    STABLEHLO_REMAINDER = 185
    STABLEHLO_RSQRT = 186
    STABLEHLO_SELECT = 187
    STABLEHLO_SUBTRACT = 188
    STABLEHLO_TANH = 189
    STABLEHLO_SCATTER = 190
    STABLEHLO_COMPARE = 191
    STABLEHLO_CONVERT = 192
    STABLEHLO_DYNAMIC_SLICE = 193
    STABLEHLO_DYNAMIC_UPDATE_SLICE = 194
    STABLEHLO_PAD = 195
    STABLEHLO_IOTA = 196
    STABLEHLO_DOT_GENERAL = 197
    STABLEHLO_REDUCE_WINDOW = 198
    STABLEHLO_SORT = 199
    STABLEHLO_WHILE = 200
    STABLEHLO_GATHER = 201
    STABLEHLO_TRANSPOSE = 202
    DILATE = 203
    STABLEHLO_RNG_BIT_GENERATOR = 204
    REDUCE_WINDOW = 205
    STABLEHLO_COMPOSITE = 206
    STABLEHLO_SHIFT_LEFT = 207
    STABLEHLO_CBRT = 208
    STABLEHLO_CASE = 209


class ActivationFunctionType(IntEnum):
    """Activation fused into an operator."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class Padding(IntEnum):
    """How windows meet the border of a tensor."""

    SAME = 0
    VALID = 1


class MirrorPadMode(IntEnum):
    """What MIRROR_PAD repeats: the border included, or not."""

    REFLECT = 0
    SYMMETRIC = 1


class FullyConnectedOptionsWeightsFormat(IntEnum):
    """Order of the weights of FULLY_CONNECTED."""

    DEFAULT = 0
    SHUFFLED4x16INT8 = 1


class LSTMKernelType(IntEnum):
    """Which LSTM cell is meant."""

    FULL = 0
    BASIC = 1


class CombinerType(IntEnum):
    """How EMBEDDING_LOOKUP_SPARSE combines rows."""

    SUM = 0
    MEAN = 1
    SQRTN = 2


class LSHProjectionType(IntEnum):
    """Density of an LSH_PROJECTION."""

    UNKNOWN = 0
    SPARSE = 1
    DENSE = 2


class ReduceWindowFunction(IntEnum):
    """Reduction of REDUCE_WINDOW."""

    UNSUPPORTED = 0
    ADD = 1
    MUL = 2
    MINIMUM = 3
    MAXIMUM = 4
    ALL = 5
    ANY = 6


class Options(Table):
    """Base of the option tables of operators."""

    __slots__ = ()


@dataclass(eq=False, slots=True, kw_only=True)
class Conv2DOptions(Options):
    """Options of CONV_2D."""

    padding: int = scalar("i1")
    stride_w: int = scalar("i4")
    stride_h: int = scalar("i4")
    fused_activation_function: int = scalar("i1")
    dilation_w_factor: int = scalar("i4", 1)
    dilation_h_factor: int = scalar("i4", 1)
    quantized_bias_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class DepthwiseConv2DOptions(Options):
    """Options of DEPTHWISE_CONV_2D."""

    padding: int = scalar("i1")
    stride_w: int = scalar("i4")
    stride_h: int = scalar("i4")
    depth_multiplier: int = scalar("i4")
    fused_activation_function: int = scalar("i1")
    dilation_w_factor: int = scalar("i4", 1)
    dilation_h_factor: int = scalar("i4", 1)


@dataclass(eq=False, slots=True, kw_only=True)
class ConcatEmbeddingsOptions(Options):
    """Options of CONCAT_EMBEDDINGS."""

    num_channels: int = scalar("i4")
    num_columns_per_channel: Array | None = vector("i4")
    embedding_dim_per_channel: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class LSHProjectionOptions(Options):
    """Options of LSH_PROJECTION."""

    type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class Pool2DOptions(Options):
    """Options of AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

    padding: int = scalar("i1")
    stride_w: int = scalar("i4")
    stride_h: int = scalar("i4")
    filter_width: int = scalar("i4")
    filter_height: int = scalar("i4")
    fused_activation_function: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class SVDFOptions(Options):
    """Options of SVDF."""

    rank: int = scalar("i4")
    fused_activation_function: int = scalar("i1")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class RNNOptions(Options):
    """Options of RNN."""

    fused_activation_function: int = scalar("i1")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class FullyConnectedOptions(Options):
    """Options of FULLY_CONNECTED."""

    fused_activation_function: int = scalar("i1")
    weights_format: int = scalar("i1")
    keep_num_dims: bool = scalar("?")
    asymmetric_quantize_inputs: bool = scalar("?")
    quantized_bias_type: int = scalar("i1")
    quant_spec: Array | None = vector("u1")


@dataclass(eq=False, slots=True, kw_only=True)
class SoftmaxOptions(Options):
    """Options of SOFTMAX."""

    beta: float = scalar("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class ConcatenationOptions(Options):
    """Options of CONCATENATION."""

    axis: int = scalar("i4")
    fused_activation_function: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class AddOptions(Options):
    """Options of ADD."""

    fused_activation_function: int = scalar("i1")
    pot_scale_int16: bool = scalar("?", 1)


@dataclass(eq=False, slots=True, kw_only=True)
class L2NormOptions(Options):
    """Options of L2_NORMALIZATION."""

    fused_activation_function: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class LocalResponseNormalizationOptions(Options):
    """Options of LOCAL_RESPONSE_NORMALIZATION."""

    radius: int = scalar("i4")
    bias: float = scalar("f4")
    alpha: float = scalar("f4")
    beta: float = scalar("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class LSTMOptions(Options):
    """Options of LSTM."""

    fused_activation_function: int = scalar("i1")
    cell_clip: float = scalar("f4")
    proj_clip: float = scalar("f4")
    kernel_type: int = scalar("i1")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class ResizeBilinearOptions(Options):
    """Options of RESIZE_BILINEAR."""

    _retired: None = skipped(2)
    align_corners: bool = scalar("?")
    half_pixel_centers: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class CallOptions(Options):
    """Options of CALL."""

    subgraph: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class ReshapeOptions(Options):
    """Options of RESHAPE."""

    new_shape: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class SkipGramOptions(Options):
    """Options of SKIP_GRAM."""

    ngram_size: int = scalar("i4")
    max_skip_size: int = scalar("i4")
    include_all_ngrams: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class SpaceToDepthOptions(Options):
    """Options of SPACE_TO_DEPTH."""

    block_size: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class EmbeddingLookupSparseOptions(Options):
    """Options of EMBEDDING_LOOKUP_SPARSE."""

    combiner: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class MulOptions(Options):
    """Options of MUL."""

    fused_activation_function: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class GatherOptions(Options):
    """Options of GATHER."""

    axis: int = scalar("i4")
    batch_dims: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class ReducerOptions(Options):
    """Options of MEAN, SUM and the REDUCE family."""

    keep_dims: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class SubOptions(Options):
    """Options of SUB."""

    fused_activation_function: int = scalar("i1")
    pot_scale_int16: bool = scalar("?", 1)


@dataclass(eq=False, slots=True, kw_only=True)
class DivOptions(Options):
    """Options of DIV."""

    fused_activation_function: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class SqueezeOptions(Options):
    """Options of SQUEEZE."""

    squeeze_dims: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class SequenceRNNOptions(Options):
    """Options of UNIDIRECTIONAL_SEQUENCE_RNN."""

    time_major: bool = scalar("?")
    fused_activation_function: int = scalar("i1")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class StridedSliceOptions(Options):
    """Options of STRIDED_SLICE."""

    begin_mask: int = scalar("i4")
    end_mask: int = scalar("i4")
    ellipsis_mask: int = scalar("i4")
    new_axis_mask: int = scalar("i4")
    shrink_axis_mask: int = scalar("i4")
    offset: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class SplitOptions(Options):
    """Options of SPLIT."""

    num_splits: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class CastOptions(Options):
    """Options of CAST."""

    in_data_type: int = scalar("i1")
    out_data_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class ArgMaxOptions(Options):
    """Options of ARG_MAX."""

    output_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class TransposeConvOptions(Options):
    """Options of TRANSPOSE_CONV."""

    padding: int = scalar("i1")
    stride_w: int = scalar("i4")
    stride_h: int = scalar("i4")
    fused_activation_function: int = scalar("i1")
    quantized_bias_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class SparseToDenseOptions(Options):
    """Options of SPARSE_TO_DENSE."""

    validate_indices: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class ShapeOptions(Options):
    """Options of SHAPE."""

    out_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class ArgMinOptions(Options):
    """Options of ARG_MIN."""

    output_type: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class FakeQuantOptions(Options):
    """Options of FAKE_QUANT."""

    min: float = scalar("f4")
    max: float = scalar("f4")
    num_bits: int = scalar("i4")
    narrow_range: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class PackOptions(Options):
    """Options of PACK."""

    values_count: int = scalar("i4")
    axis: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class OneHotOptions(Options):
    """Options of ONE_HOT."""

    axis: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class UnpackOptions(Options):
    """Options of UNPACK."""

    num: int = scalar("i4")
    axis: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class BidirectionalSequenceLSTMOptions(Options):
    """Options of BIDIRECTIONAL_SEQUENCE_LSTM."""

    fused_activation_function: int = scalar("i1")
    cell_clip: float = scalar("f4")
    proj_clip: float = scalar("f4")
    merge_outputs: bool = scalar("?")
    time_major: bool = scalar("?", 1)
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class BidirectionalSequenceRNNOptions(Options):
    """Options of BIDIRECTIONAL_SEQUENCE_RNN."""

    time_major: bool = scalar("?")
    fused_activation_function: int = scalar("i1")
    merge_outputs: bool = scalar("?")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class UnidirectionalSequenceLSTMOptions(Options):
    """Options of UNIDIRECTIONAL_SEQUENCE_LSTM."""

    fused_activation_function: int = scalar("i1")
    cell_clip: float = scalar("f4")
    proj_clip: float = scalar("f4")
    time_major: bool = scalar("?")
    asymmetric_quantize_inputs: bool = scalar("?")
    diagonal_recurrent_tensors: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class ResizeNearestNeighborOptions(Options):
    """Options of RESIZE_NEAREST_NEIGHBOR."""

    align_corners: bool = scalar("?")
    half_pixel_centers: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class LeakyReluOptions(Options):
    """Options of LEAKY_RELU."""

    alpha: float = scalar("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class MirrorPadOptions(Options):
    """Options of MIRROR_PAD."""

    mode: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class SplitVOptions(Options):
    """Options of SPLIT_V."""

    num_splits: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class UniqueOptions(Options):
    """Options of UNIQUE."""

    idx_out_type: int = scalar("i1", 2)


@dataclass(eq=False, slots=True, kw_only=True)
class ReverseSequenceOptions(Options):
    """Options of REVERSE_SEQUENCE."""

    seq_dim: int = scalar("i4")
    batch_dim: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class IfOptions(Options):
    """Options of IF."""

    then_subgraph_index: int = scalar("i4")
    else_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class WhileOptions(Options):
    """Options of WHILE."""

    cond_subgraph_index: int = scalar("i4")
    body_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class DepthToSpaceOptions(Options):
    """Options of DEPTH_TO_SPACE."""

    block_size: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class BatchMatMulOptions(Options):
    """Options of BATCH_MATMUL."""

    adj_x: bool = scalar("?")
    adj_y: bool = scalar("?")
    asymmetric_quantize_inputs: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class CumsumOptions(Options):
    """Options of CUMSUM."""

    exclusive: bool = scalar("?")
    reverse: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class CallOnceOptions(Options):
    """Options of CALL_ONCE."""

    init_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class Conv3DOptions(Options):
    """Options of CONV_3D and CONV_3D_TRANSPOSE."""

    padding: int = scalar("i1")
    stride_d: int = scalar("i4")
    stride_w: int = scalar("i4")
    stride_h: int = scalar("i4")
    fused_activation_function: int = scalar("i1")
    dilation_d_factor: int = scalar("i4", 1)
    dilation_w_factor: int = scalar("i4", 1)
    dilation_h_factor: int = scalar("i4", 1)


@dataclass(eq=False, slots=True, kw_only=True)
class HashtableOptions(Options):
    """Options of HASHTABLE."""

    table_id: int = scalar("i4")
    key_dtype: int = scalar("i1")
    value_dtype: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class VarHandleOptions(Options):
    """Options of VAR_HANDLE."""

    container: str | None = string()
    shared_name: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class RandomOptions(Options):
    """Options of RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL and MULTINOMIAL."""

    seed: int = scalar("i8")
    seed2: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class BucketizeOptions(Options):
    """Options of BUCKETIZE."""

    boundaries: Array | None = vector("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class GeluOptions(Options):
    """Options of GELU."""

    approximate: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloConcatenateOptions(Options):
    """Options of STABLEHLO_CONCATENATE."""

    dimension: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloBroadcastInDimOptions(Options):
    """Options of STABLEHLO_BROADCAST_IN_DIM."""

    broadcast_dimensions: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloSliceOptions(Options):
    """Options of STABLEHLO_SLICE."""

    start_indices: Array | None = vector("i8")
    limit_indices: Array | None = vector("i8")
    strides: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloConvolutionOptions(Options):
    """Options of STABLEHLO_CONVOLUTION."""

    window_strides: Array | None = vector("i8")
    padding: Array | None = vector("i8")
    lhs_dilation: Array | None = vector("i8")
    rhs_dilation: Array | None = vector("i8")
    window_reversal: Array | None = vector("?")
    input_batch_dimension: int = scalar("i8")
    input_feature_dimension: int = scalar("i8")
    input_spatial_dimensions: Array | None = vector("i8")
    kernel_input_feature_dimension: int = scalar("i8")
    kernel_output_feature_dimension: int = scalar("i8")
    kernel_spatial_dimensions: Array | None = vector("i8")
    output_batch_dimension: int = scalar("i8")
    output_feature_dimension: int = scalar("i8")
    output_spatial_dimensions: Array | None = vector("i8")
    feature_group_count: int = scalar("i8")
    batch_group_count: int = scalar("i8")
    precision_config: Array | None = vector("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloCustomCallOptions(Options):
    """Options of STABLEHLO_CUSTOM_CALL."""

    call_target_name: str | None = string()
    has_side_effect: bool = scalar("?")
    backend_config: str | None = string()
    api_version: int = scalar("i4")
    called_computations: Array | None = vector("i4")
    custom_attributes: Array | None = vector("u1")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloReduceOptions(Options):
    """Options of STABLEHLO_REDUCE."""

    dimensions: Array | None = vector("i8")
    body_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloScatterOptions(Options):
    """Options of STABLEHLO_SCATTER."""

    indices_are_sorted: bool = scalar("?")
    update_window_dims: Array | None = vector("i8")
    inserted_window_dims: Array | None = vector("i8")
    scatter_dims_to_operand_dims: Array | None = vector("i8")
    index_vector_dim: int = scalar("i8")
    unique_indices: bool = scalar("?")
    update_computation_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloCompareOptions(Options):
    """Options of STABLEHLO_COMPARE."""

    comparison_direction: int = scalar("u4")
    compare_type: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloDynamicSliceOptions(Options):
    """Options of STABLEHLO_DYNAMIC_SLICE."""

    slice_sizes: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloPadOptions(Options):
    """Options of STABLEHLO_PAD."""

    edge_padding_low: Array | None = vector("i8")
    edge_padding_high: Array | None = vector("i8")
    interior_padding: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloIotaOptions(Options):
    """Options of STABLEHLO_IOTA."""

    iota_dimension: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloDotGeneralOptions(Options):
    """Options of STABLEHLO_DOT_GENERAL."""

    lhs_batching_dimensions: Array | None = vector("i8")
    rhs_batching_dimensions: Array | None = vector("i8")
    lhs_contracting_dimensions: Array | None = vector("i8")
    rhs_contracting_dimensions: Array | None = vector("i8")
    precision_config: Array | None = vector("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloReduceWindowOptions(Options):
    """Options of STABLEHLO_REDUCE_WINDOW."""

    window_dimensions: Array | None = vector("i8")
    window_strides: Array | None = vector("i8")
    base_dilations: Array | None = vector("i8")
    window_dilations: Array | None = vector("i8")
    padding: Array | None = vector("i8")
    body_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloSortOptions(Options):
    """Options of STABLEHLO_SORT."""

    dimension: int = scalar("i8")
    is_stable: bool = scalar("?")
    comparator_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloWhileOptions(Options):
    """Options of STABLEHLO_WHILE."""

    cond_subgraph_index: int = scalar("i4")
    body_subgraph_index: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloGatherOptions(Options):
    """Options of STABLEHLO_GATHER."""

    offset_dims: Array | None = vector("i8")
    collapsed_slice_dims: Array | None = vector("i8")
    start_index_map: Array | None = vector("i8")
    index_vector_dim: int = scalar("i8")
    slice_sizes: Array | None = vector("i8")
    indices_are_sorted: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloTransposeOptions(Options):
    """Options of STABLEHLO_TRANSPOSE."""

    permutation: Array | None = vector("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloRngBitGeneratorOptions(Options):
    """Options of STABLEHLO_RNG_BIT_GENERATOR."""

    algorithm: int = scalar("i1")


@dataclass(eq=False, slots=True, kw_only=True)
class ReduceWindowOptions(Options):
    """Options of REDUCE_WINDOW."""

    reduce_function: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StableHLOCompositeOptions(Options):
    """Options of STABLEHLO_COMPOSITE."""

    name: str | None = string()
    decomposition_subgraph_index: int = scalar("i4")
    composite_attributes: Array | None = vector("u1")
    composite_attributes_format: int = scalar("i1")
    version: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class StablehloCaseOptions(Options):
    """Options of STABLEHLO_CASE."""

    branch_subgraph_indices: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class _NoOptions(Options):
    pass


def _empty(name: str) -> type[Options]:
    """The table of an operator that has no options."""
    return type(name, (_NoOptions,), {"__slots__": (), "__module__": __name__})


PadOptions = _empty("PadOptions")
BatchToSpaceNDOptions = _empty("BatchToSpaceNDOptions")
SpaceToBatchNDOptions = _empty("SpaceToBatchNDOptions")
TransposeOptions = _empty("TransposeOptions")
ExpOptions = _empty("ExpOptions")
TopKV2Options = _empty("TopKV2Options")
LogSoftmaxOptions = _empty("LogSoftmaxOptions")
DequantizeOptions = _empty("DequantizeOptions")
MaximumMinimumOptions = _empty("MaximumMinimumOptions")
LessOptions = _empty("LessOptions")
NegOptions = _empty("NegOptions")
PadV2Options = _empty("PadV2Options")
GreaterOptions = _empty("GreaterOptions")
GreaterEqualOptions = _empty("GreaterEqualOptions")
LessEqualOptions = _empty("LessEqualOptions")
SelectOptions = _empty("SelectOptions")
SliceOptions = _empty("SliceOptions")
TileOptions = _empty("TileOptions")
ExpandDimsOptions = _empty("ExpandDimsOptions")
EqualOptions = _empty("EqualOptions")
NotEqualOptions = _empty("NotEqualOptions")
PowOptions = _empty("PowOptions")
LogicalOrOptions = _empty("LogicalOrOptions")
LogicalAndOptions = _empty("LogicalAndOptions")
LogicalNotOptions = _empty("LogicalNotOptions")
FloorDivOptions = _empty("FloorDivOptions")
SquareOptions = _empty("SquareOptions")
ZerosLikeOptions = _empty("ZerosLikeOptions")
FillOptions = _empty("FillOptions")
FloorModOptions = _empty("FloorModOptions")
RangeOptions = _empty("RangeOptions")
SquaredDifferenceOptions = _empty("SquaredDifferenceOptions")
AbsOptions = _empty("AbsOptions")
ReverseV2Options = _empty("ReverseV2Options")
AddNOptions = _empty("AddNOptions")
GatherNdOptions = _empty("GatherNdOptions")
CosOptions = _empty("CosOptions")
WhereOptions = _empty("WhereOptions")
RankOptions = _empty("RankOptions")
MatrixDiagOptions = _empty("MatrixDiagOptions")
QuantizeOptions = _empty("QuantizeOptions")
MatrixSetDiagOptions = _empty("MatrixSetDiagOptions")
HardSwishOptions = _empty("HardSwishOptions")
NonMaxSuppressionV4Options = _empty("NonMaxSuppressionV4Options")
NonMaxSuppressionV5Options = _empty("NonMaxSuppressionV5Options")
ScatterNdOptions = _empty("ScatterNdOptions")
SelectV2Options = _empty("SelectV2Options")
DensifyOptions = _empty("DensifyOptions")
SegmentSumOptions = _empty("SegmentSumOptions")
BroadcastToOptions = _empty("BroadcastToOptions")
Rfft2dOptions = _empty("Rfft2dOptions")
HashtableFindOptions = _empty("HashtableFindOptions")
HashtableImportOptions = _empty("HashtableImportOptions")
HashtableSizeOptions = _empty("HashtableSizeOptions")
ReadVariableOptions = _empty("ReadVariableOptions")
AssignVariableOptions = _empty("AssignVariableOptions")
DynamicUpdateSliceOptions = _empty("DynamicUpdateSliceOptions")
UnsortedSegmentProdOptions = _empty("UnsortedSegmentProdOptions")
UnsortedSegmentMaxOptions = _empty("UnsortedSegmentMaxOptions")
UnsortedSegmentMinOptions = _empty("UnsortedSegmentMinOptions")
UnsortedSegmentSumOptions = _empty("UnsortedSegmentSumOptions")
ATan2Options = _empty("ATan2Options")
SignOptions = _empty("SignOptions")
BitcastOptions = _empty("BitcastOptions")
BitwiseXorOptions = _empty("BitwiseXorOptions")
RightShiftOptions = _empty("RightShiftOptions")
DilateOptions = _empty("DilateOptions")
StablehloShiftLeftOptions = _empty("StablehloShiftLeftOptions")

BUILTIN_OPTIONS: tuple[type[Options], ...] = (
    Conv2DOptions,
    DepthwiseConv2DOptions,
    ConcatEmbeddingsOptions,
    LSHProjectionOptions,
    Pool2DOptions,
    SVDFOptions,
    RNNOptions,
    FullyConnectedOptions,
    SoftmaxOptions,
    ConcatenationOptions,
    AddOptions,
    L2NormOptions,
    LocalResponseNormalizationOptions,
    LSTMOptions,
    ResizeBilinearOptions,
    CallOptions,
    ReshapeOptions,
    SkipGramOptions,
    SpaceToDepthOptions,
    EmbeddingLookupSparseOptions,
    MulOptions,
    PadOptions,
    GatherOptions,
    BatchToSpaceNDOptions,
    SpaceToBatchNDOptions,
    TransposeOptions,
    ReducerOptions,
    SubOptions,
    DivOptions,
    SqueezeOptions,
    SequenceRNNOptions,
    StridedSliceOptions,
    ExpOptions,
    TopKV2Options,
    SplitOptions,
    LogSoftmaxOptions,
    CastOptions,
    DequantizeOptions,
    MaximumMinimumOptions,
    ArgMaxOptions,
    LessOptions,
    NegOptions,
    PadV2Options,
    GreaterOptions,
    GreaterEqualOptions,
    LessEqualOptions,
    SelectOptions,
    SliceOptions,
    TransposeConvOptions,
    SparseToDenseOptions,
    TileOptions,
    ExpandDimsOptions,
    EqualOptions,
    NotEqualOptions,
    ShapeOptions,
    PowOptions,
    ArgMinOptions,
    FakeQuantOptions,
    PackOptions,
    LogicalOrOptions,
    OneHotOptions,
    LogicalAndOptions,
    LogicalNotOptions,
    UnpackOptions,
    FloorDivOptions,
    SquareOptions,
    ZerosLikeOptions,
    FillOptions,
    BidirectionalSequenceLSTMOptions,
    BidirectionalSequenceRNNOptions,
    UnidirectionalSequenceLSTMOptions,
    FloorModOptions,
    RangeOptions,
    ResizeNearestNeighborOptions,
    LeakyReluOptions,
    SquaredDifferenceOptions,
    MirrorPadOptions,
    AbsOptions,
    SplitVOptions,
    UniqueOptions,
    ReverseV2Options,
    AddNOptions,
    GatherNdOptions,
    CosOptions,
    WhereOptions,
    RankOptions,
    ReverseSequenceOptions,
    MatrixDiagOptions,
    QuantizeOptions,
    MatrixSetDiagOptions,
    HardSwishOptions,
    IfOptions,
    WhileOptions,
    DepthToSpaceOptions,
    NonMaxSuppressionV4Options,
    NonMaxSuppressionV5Options,
    ScatterNdOptions,
    SelectV2Options,
    DensifyOptions,
    SegmentSumOptions,
    BatchMatMulOptions,
    CumsumOptions,
    CallOnceOptions,
    BroadcastToOptions,
    Rfft2dOptions,
    Conv3DOptions,
    HashtableOptions,
    HashtableFindOptions,
    HashtableImportOptions,
    HashtableSizeOptions,
    VarHandleOptions,
    ReadVariableOptions,
    AssignVariableOptions,
    RandomOptions,
    BucketizeOptions,
    GeluOptions,
    DynamicUpdateSliceOptions,
    UnsortedSegmentProdOptions,
    UnsortedSegmentMaxOptions,
    UnsortedSegmentMinOptions,
    UnsortedSegmentSumOptions,
    ATan2Options,
    SignOptions,
    BitcastOptions,
    BitwiseXorOptions,
    RightShiftOptions,
)
"""Option tables in the order of the schema's union, whose codes start at 1."""

BUILTIN_OPTIONS_2: tuple[type[Options], ...] = (
    StablehloConcatenateOptions,
    StablehloBroadcastInDimOptions,
    StablehloSliceOptions,
    StablehloConvolutionOptions,
    StablehloCustomCallOptions,
    StablehloReduceOptions,
    StablehloScatterOptions,
    StablehloCompareOptions,
    StablehloDynamicSliceOptions,
    StablehloPadOptions,
    StablehloIotaOptions,
    StablehloDotGeneralOptions,
    StablehloReduceWindowOptions,
    StablehloSortOptions,
    StablehloWhileOptions,
    StablehloGatherOptions,
    StablehloTransposeOptions,
    DilateOptions,
    StablehloRngBitGeneratorOptions,
    ReduceWindowOptions,
    StableHLOCompositeOptions,
    StablehloShiftLeftOptions,
    StablehloCaseOptions,
)
"""The second union, begun when a wider one was needed; codes start at 1."""


@dataclass(eq=False, slots=True, kw_only=True)
class CustomQuantization(Table):
    """Quantization that only its producer understands."""

    custom: Array | None = vector("u1", align=16)


@dataclass(eq=False, slots=True, kw_only=True)
class BlockwiseQuantization(Table):
    """One scale per block of elements, held in another tensor."""

    scales: int = scalar("i4")
    zero_points: int = scalar("i4")
    block_size: int = scalar("i4")
    block_shape: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class MultiAxisQuantization(Table):
    """Scales along several dimensions, held in another tensor."""

    scales: int = scalar("i4")
    zero_points: int = scalar("i4")
    block_size: int = scalar("i4")
    quantized_dimensions: Array | None = vector("i4")


QuantizationDetails = CustomQuantization | BlockwiseQuantization | MultiAxisQuantization


@dataclass(eq=False, slots=True, kw_only=True)
class QuantizationParameters(Table):
    """Scales and zero points: one, or one per slice along `quantized_dimension`."""

    min: Array | None = vector("f4")
    max: Array | None = vector("f4")
    scale: Array | None = vector("f4")
    zero_point: Array | None = vector("i8")
    details: QuantizationDetails | UnknownMember | None = union(
        (CustomQuantization, BlockwiseQuantization, MultiAxisQuantization), opaque=True
    )
    quantized_dimension: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class VariantSubType(Table):
    """Type of what a VARIANT tensor holds."""

    shape: Array | None = vector("i4")
    type: int = scalar("i1")
    has_rank: bool = scalar("?")


@dataclass(eq=False, slots=True, kw_only=True)
class Tensor(Table):
    """A tensor; `buffer` 0 means no constant data, `external_buffer` is an id or 0."""

    shape: Array | None = vector("i4")
    type: int = scalar("i1")
    buffer: int = scalar("u4")
    name: str | None = string()
    quantization: QuantizationParameters | None = table(QuantizationParameters)
    is_variable: bool = scalar("?")
    sparsity: sparse.SparsityParameters | None = table(sparse.SparsityParameters)
    shape_signature: Array | None = vector("i4")
    has_rank: bool = scalar("?")
    variant_tensors: list[VariantSubType] | None = tables(VariantSubType)
    external_buffer: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class OperatorCode(Table):
    """An operator of the model: a builtin code, or CUSTOM and a name."""

    deprecated_builtin_code: int = scalar("i1")
    custom_code: str | None = string()
    version: int = scalar("i4", 1)
    builtin_code: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class Operator(Table):
    """A node; input -1 means that an optional input is absent."""

    opcode_index: int = scalar("u4")
    inputs: Array | None = vector("i4")
    outputs: Array | None = vector("i4")
    builtin_options: Options | UnknownMember | None = union(BUILTIN_OPTIONS, opaque=True)
    custom_options: Array | None = vector("u1", align=OPTIONS_ALIGNMENT)
    custom_options_format: int = scalar("i1")
    mutating_variable_inputs: Array | None = vector("?")
    intermediates: Array | None = vector("i4")
    large_custom_options_offset: int = scalar("u8")
    large_custom_options_size: int = scalar("u8")
    builtin_options2: Options | UnknownMember | None = union(BUILTIN_OPTIONS_2, opaque=True)
    debug_metadata_index: int = scalar("i4", -1)


@dataclass(eq=False, slots=True, kw_only=True)
class SubGraph(Table):
    """A function of the model; operators are in order of execution."""

    tensors: list[Tensor] | None = tables(Tensor)
    inputs: Array | None = vector("i4")
    outputs: Array | None = vector("i4")
    operators: list[Operator] | None = tables(Operator)
    name: str | None = string()
    debug_metadata_index: int = scalar("i4", -1)


@dataclass(eq=False, slots=True, kw_only=True)
class Buffer(Table):
    """Bytes; `offset` and `size` place them after the flatbuffer (see `read_model`)."""

    data: Array | None = vector("u1", align=16)
    offset: int = scalar("u8")
    size: int = scalar("u8")


@dataclass(eq=False, slots=True, kw_only=True)
class ExternalBufferGroup(Table):
    """A file that holds buffers."""

    name: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class ExternalBuffer(Table):
    """Bytes in a file of their own."""

    id: int = scalar("u4")
    group: int = scalar("u4")
    offset: int = scalar("u8")
    length: int = scalar("u8")
    packing: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class Metadata(Table):
    """A named buffer."""

    name: str | None = string()
    buffer: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class TensorMap(Table):
    """A name for a tensor of a signature."""

    name: str | None = string()
    tensor_index: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class SignatureDef(Table):
    """A named entry point."""

    inputs: list[TensorMap] | None = tables(TensorMap)
    outputs: list[TensorMap] | None = tables(TensorMap)
    signature_key: str | None = string()
    _retired: None = skipped()
    subgraph_index: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Model(Table):
    """The root table."""

    version: int = scalar("u4")
    operator_codes: list[OperatorCode] | None = tables(OperatorCode)
    subgraphs: list[SubGraph] | None = tables(SubGraph)
    description: str | None = string()
    buffers: list[Buffer] | None = tables(Buffer)
    metadata_buffer: Array | None = vector("i4")
    metadata: list[Metadata] | None = tables(Metadata)
    signature_defs: list[SignatureDef] | None = tables(SignatureDef)
    external_buffer_groups: list[ExternalBufferGroup] | None = tables(ExternalBufferGroup)
    external_buffers: list[ExternalBuffer] | None = tables(ExternalBuffer)
    archive: Archive | None = None
    """Files that are packed after the flatbuffer."""


DTYPES: dict[int, DType] = {
    TensorType.BOOL: DType.BOOL,
    TensorType.INT8: DType.INT8,
    TensorType.UINT8: DType.UINT8,
    TensorType.INT16: DType.INT16,
    TensorType.UINT16: DType.UINT16,
    TensorType.INT32: DType.INT32,
    TensorType.UINT32: DType.UINT32,
    TensorType.INT64: DType.INT64,
    TensorType.UINT64: DType.UINT64,
    TensorType.FLOAT16: DType.FLOAT16,
    TensorType.FLOAT32: DType.FLOAT32,
    TensorType.FLOAT64: DType.FLOAT64,
    TensorType.COMPLEX64: DType.COMPLEX64,
}
"""Element types that have a counterpart outside TFLite."""

TENSOR_TYPES = {dtype: TensorType(code) for code, dtype in DTYPES.items()}
"""The inverse of `DTYPES`; every `DType` is listed."""


# --- reading and writing -------------------------------------------------------------------------


def read_model(data: bytes | bytearray | memoryview, path: str = "") -> Model:
    """Read a TFLite model and check every index in it.

    Constants are views of `data`. Buffers and custom options that a large model keeps after the
    flatbuffer are given the same way, as if they were inside, with their offset and size 0. What is
    packed at the end of the file is read as far as it can be, see `formats.archive`.

    Args:
        data: the whole file.
        path: name of the file, for errors.

    Raises:
        FormatError: the bytes are malformed, or an index leads nowhere.
    """
    view = memoryview(data).toreadonly().cast("B")
    model = flat.decode(Model, view, identifiers=(IDENTIFIER,), path=path)
    _fetch_outside(model, view, path)
    validate(model, path)
    if _ARCHIVE_MARK in bytes(view[-_ARCHIVE_TAIL:]):
        # Few models have one.
        from fitzroy.formats.archive import unpacked

        model.archive = unpacked(view)
    return model


def write_model(model: Model) -> bytes:
    """Write a model; all data go inside the flatbuffer, and packed files after it.

    Raises:
        FormatError: an index leads nowhere, or there are too many packed files.
        UnsupportedError: the model holds a table that the schema here does not know, or has more
            than the 2 GiB that a flatbuffer can address.
    """
    validate(model)
    _refuse_unknown(model)
    size = sum(buffer.data.nbytes for buffer in model.buffers or () if buffer.data is not None)
    if size >= 1 << 31:
        raise UnsupportedError(f"{size} bytes of constants; a flatbuffer addresses 2 GiB")
    data = flat.encode(model, identifier=IDENTIFIER)
    if model.archive is None or not model.archive.files:
        return data
    from fitzroy.formats.archive import packed

    return data + packed(model.archive.files, len(data))


def validate(model: Model, path: str = "") -> None:
    """Check the version and every index of a model.

    Raises:
        FormatError: naming the table, the index and the limit.
    """
    if model.version != VERSION:
        raise FormatError(
            f"schema version {model.version}, expected {VERSION}", path=path, table="Model"
        )
    if not model.subgraphs:
        raise FormatError("the model has no subgraph", path=path, table="Model")
    check = _Indices(path)
    subgraphs = len(model.subgraphs)
    # Buffer 0 means "no data" even in a file that lists no buffers at all.
    buffers = max(len(model.buffers or ()), 1)
    external = {0, *(item.id for item in model.external_buffers or ())}
    for number, group in enumerate(model.external_buffers or ()):
        check(
            "group", (group.group,), len(model.external_buffer_groups or ()),
            f"ExternalBuffer {number}",
        )  # fmt: skip
    for number, subgraph in enumerate(model.subgraphs):
        tensors = len(subgraph.tensors or ())
        name = f"SubGraph {number}"
        check("tensor", ints(subgraph.inputs), tensors, f"{name}.inputs")
        check("tensor", ints(subgraph.outputs), tensors, f"{name}.outputs")
        for index, tensor in enumerate(subgraph.tensors or ()):
            check("buffer", (tensor.buffer,), buffers, f"{name}, Tensor {index}")
            if tensor.external_buffer not in external:
                raise FormatError(
                    f"no external buffer has the id {tensor.external_buffer}",
                    path=path, table=f"{name}, Tensor {index}",
                )  # fmt: skip
        for index, operator in enumerate(subgraph.operators or ()):
            where = f"{name}, Operator {index}"
            codes = len(model.operator_codes or ())
            check("operator code", (operator.opcode_index,), codes, where)
            check("tensor", ints(operator.inputs), tensors, f"{where}.inputs", lowest=-1)
            check("tensor", ints(operator.outputs), tensors, f"{where}.outputs")
            check(
                "tensor", ints(operator.intermediates), tensors, f"{where}.intermediates", lowest=-1
            )
            for field in _SUBGRAPH_FIELDS.get(type(operator.builtin_options), ()):
                called = getattr(operator.builtin_options, field)
                check("subgraph", (called,), subgraphs, f"{where}.{field}")
    for number, signature in enumerate(model.signature_defs or ()):
        name = f"SignatureDef {number}"
        check("subgraph", (signature.subgraph_index,), subgraphs, name)
        tensors = len(model.subgraphs[signature.subgraph_index].tensors or ())
        for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
            check("tensor", (entry.tensor_index,), tensors, f"{name}, TensorMap {entry.name}")


def stale_metadata(model: Model) -> list[str]:
    """What metadata refers to buffers that the model does not have.

    Tools that remove buffers may leave such entries behind; no operator reads them.
    """
    count = max(len(model.buffers or ()), 1)
    entries = [(repr(item.name or ""), item.buffer) for item in model.metadata or ()]
    entries += [("the list of metadata buffers", index) for index in ints(model.metadata_buffer)]
    return [
        f"{name} names buffer {index} of {count}"
        for name, index in entries
        if not 0 <= index < count
    ]


@dataclass(frozen=True)
class _Indices:
    path: str

    def __call__(
        self, what: str, indices: Iterable[int], count: int, table: str, lowest: int = 0
    ) -> None:
        for index in indices:
            if not lowest <= index < count:
                raise FormatError(f"{what} {index} of {count}", path=self.path, table=table)


_SUBGRAPH_FIELDS: dict[type[object], tuple[str, ...]] = {
    CallOptions: ("subgraph",),
    CallOnceOptions: ("init_subgraph_index",),
    IfOptions: ("then_subgraph_index", "else_subgraph_index"),
    WhileOptions: ("cond_subgraph_index", "body_subgraph_index"),
}


def _fetch_outside(model: Model, view: memoryview, path: str) -> None:
    """Replace places after the flatbuffer by views of the bytes there.

    Offsets 0 and 1 mean that there is no such place. As inside the flatbuffer, places may be
    shared, but not so often that they come to many times the file.
    """
    room = 4 * len(view)

    def fetch(offset: int, size: int, table: str) -> Array:
        nonlocal room
        room -= size
        if offset + size > len(view) or room < 0:
            raise FormatError(
                f"{size} bytes at {offset} of a file of {len(view)}",
                path=path, offset=min(offset, len(view)), table=table,
            )  # fmt: skip
        return np.frombuffer(view[offset : offset + size], np.uint8)

    for number, buffer in enumerate(model.buffers or ()):
        if buffer.offset > 1:
            buffer.data = fetch(buffer.offset, buffer.size, f"Buffer {number}")
        buffer.offset = buffer.size = 0
    for number, subgraph in enumerate(model.subgraphs or ()):
        for index, operator in enumerate(subgraph.operators or ()):
            if operator.large_custom_options_offset > 1:
                operator.custom_options = fetch(
                    operator.large_custom_options_offset,
                    operator.large_custom_options_size,
                    f"SubGraph {number}, Operator {index}",
                )
            operator.large_custom_options_offset = operator.large_custom_options_size = 0


def _refuse_unknown(model: Model) -> None:
    for subgraph_number, subgraph in enumerate(model.subgraphs or ()):
        for number, operator in enumerate(subgraph.operators or ()):
            for field in ("builtin_options", "builtin_options2"):
                options = getattr(operator, field)
                if isinstance(options, UnknownMember):
                    raise UnsupportedError(
                        f"{field} of the unknown kind {options.code} cannot be written",
                        where=f"SubGraph {subgraph_number}, Operator {number}",
                    )
        for tensor in subgraph.tensors or ():
            if any(isinstance(item, UnknownMember) for item in _unions_of(tensor)):
                raise UnsupportedError(
                    "quantization or sparsity of an unknown kind cannot be written",
                    where=f"tensor {tensor.name!r}",
                )


def _unions_of(tensor: Tensor) -> Iterator[object]:
    if tensor.quantization is not None:
        yield tensor.quantization.details
    if tensor.sparsity is not None:
        for dimension in tensor.sparsity.dim_metadata or ():
            yield dimension.array_segments
            yield dimension.array_indices


# --- typed access --------------------------------------------------------------------------------


def builtin_number(code: OperatorCode) -> int:
    """The number of the builtin operator that a code stands for: the greater of its two fields."""
    return max(code.builtin_code, code.deprecated_builtin_code)


def is_custom(code: OperatorCode) -> bool:
    """Whether an operator code is that of a custom operator."""
    return builtin_number(code) == BuiltinOperator.CUSTOM


def operator_code(code: BuiltinOperator, *, version: int = 1) -> OperatorCode:
    """The operator code of a builtin operator, with both of its fields filled."""
    return OperatorCode(
        builtin_code=int(code), deprecated_builtin_code=min(int(code), 127), version=version
    )


_NAMES: dict[int, str] = {code: code.name for code in BuiltinOperator}
"""Names of operators by their numbers."""


def operator_name(model: Model, operator: Operator) -> str:
    """The operator's name in the schema; for a custom operator, its own name.

    An operator that the schema here does not know is named by its number.
    """
    return code_name((model.operator_codes or [])[operator.opcode_index])


def code_name(code: OperatorCode) -> str:
    """What an operator code stands for, as `operator_name` spells it."""
    if is_custom(code):
        return code.custom_code or BuiltinOperator.CUSTOM.name
    number = builtin_number(code)
    return _NAMES.get(number, f"BUILTIN_{number}")


TYPE_HINTS: dict[int, str] = {
    TensorType.STRING: "compute on strings before and after the model, and convert the rest of it"
}
"""What to do about tensors of element types without counterpart."""


def dtype_of(tensor: Tensor) -> DType:
    """Element type of a tensor.

    Raises:
        UnsupportedError: a type without counterpart, such as STRING or INT4.
    """
    dtype = DTYPES.get(tensor.type)
    if dtype is None:
        name = TensorType(tensor.type).name if tensor.type in set(TensorType) else "unknown"
        raise UnsupportedError(
            f"element type {name} ({tensor.type})",
            where=f"tensor {tensor.name!r}",
            hint=TYPE_HINTS.get(tensor.type, ""),
        )
    return dtype


def shape_of(tensor: Tensor, path: str = "") -> tuple[int, ...]:
    """Shape of a tensor; extents that are open until run time are given as the file has them.

    Raises:
        FormatError: a negative extent.
    """
    shape = ints(tensor.shape)
    if any(extent < 0 for extent in shape):
        raise FormatError(f"shape {list(shape)}", path=path, table=f"Tensor {tensor.name!r}")
    return shape


def quantization_of(tensor: Tensor, path: str = "") -> Quantization | None:
    """Quantization of a tensor, None if it has no scale.

    One zero point may serve many scales, and none means 0.

    Raises:
        FormatError: counts of scales, zero points and slices do not agree.
        UnsupportedError: quantization that is not affine, or per block.
    """
    parameters = tensor.quantization
    if parameters is None:
        return None
    name = f"Tensor {tensor.name!r}"
    if parameters.details is not None:
        raise UnsupportedError(
            f"quantization by {type(parameters.details).__name__}", where=f"tensor {tensor.name!r}"
        )
    if parameters.scale is None or not len(parameters.scale):
        return None
    scale = tuple(float(value) for value in parameters.scale)
    zero_point = ints(parameters.zero_point) or (0,)
    if len(zero_point) == 1:
        zero_point *= len(scale)
    axis = None if len(scale) == 1 else parameters.quantized_dimension
    found = Quantization(scale, zero_point, axis)
    fault = found.fault(shape_of(tensor, path))
    if fault:
        raise FormatError(fault, path=path, table=name)
    return found


def type_of(tensor: Tensor, path: str = "") -> types.TensorType:
    """Shape, element type and quantization of a tensor.

    Raises:
        FormatError: the shape or the quantization is malformed.
        UnsupportedError: an element type or a quantization without counterpart.
    """
    type = types.TensorType(shape_of(tensor, path), dtype_of(tensor), quantization_of(tensor, path))
    fault = type.fault() if type.dtype.is_integer else ""
    if fault:
        raise FormatError(fault, path=path, table=f"Tensor {tensor.name!r}")
    return type


def buffer_bytes(model: Model, index: int, path: str = "") -> memoryview:
    """Bytes of a buffer, as a view of the file; empty if there are none.

    Raises:
        FormatError: there is no such buffer.
    """
    buffers = model.buffers or [Buffer()]
    if not 0 <= index < len(buffers):
        raise FormatError(f"buffer {index} of {len(buffers)}", path=path, table="Model")
    data = buffers[index].data
    return memoryview(b"") if data is None else np.ascontiguousarray(data, np.uint8).data


def constant(model: Model, tensor: Tensor, path: str = "") -> Array | None:
    """The value of a constant tensor, as a read-only view of the file unless it is sparse.

    Returns:
        An array of the tensor's shape and element type, or None if the tensor is computed.

    Raises:
        FormatError: the buffer does not hold as many bytes as the shape and type ask for.
        CapacityError: sparse data stands for more elements than the budget has memory for.
        UnsupportedError: data in a file of its own, or an element type without counterpart.
    """
    if tensor.external_buffer:
        raise UnsupportedError(
            "constant data in a file of its own", where=f"tensor {tensor.name!r}"
        )
    data = buffer_bytes(model, tensor.buffer, path)
    if not data:
        return None
    shape, dtype = shape_of(tensor, path), dtype_of(tensor)
    if tensor.sparsity is not None:
        if len(data) % dtype.itemsize:
            raise FormatError(
                f"{len(data)} bytes of {dtype.value}", path=path, table=f"Tensor {tensor.name!r}"
            )
        stored = np.frombuffer(data, dtype.numpy.newbyteorder("<"))
        return sparse.dense(tensor.sparsity, stored, shape, tensor.name or "", path)
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise FormatError(
            f"buffer {tensor.buffer} holds {len(data)} bytes, {dtype.value}{list(shape)}"
            f" takes {wanted}",
            path=path, table=f"Tensor {tensor.name!r}",
        )  # fmt: skip
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).reshape(shape)
