"""Versions of TFLite's builtin operators.

A model states for every operator the version that has all of what it uses, and a runtime refuses
those that are newer than its own.
"""

from __future__ import annotations

from types import MappingProxyType

VERSIONS = MappingProxyType({
    "ADD": 6, "AVERAGE_POOL_2D": 3, "CONCATENATION": 7, "CONV_2D": 8, "DEPTHWISE_CONV_2D": 7,
    "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 9, "EMBEDDING_LOOKUP": 5, "FULLY_CONNECTED": 14,
    "L2_NORMALIZATION": 2, "LOGISTIC": 3, "LSTM": 4, "MAX_POOL_2D": 3, "MUL": 8, "RELU": 3,
    "RELU6": 3, "RESIZE_BILINEAR": 4, "RNN": 3, "SOFTMAX": 4, "SPACE_TO_DEPTH": 2, "SVDF": 4,
    "TANH": 3, "PAD": 6, "UNIDIRECTIONAL_SEQUENCE_RNN": 3, "GATHER": 8, "BATCH_TO_SPACE_ND": 4,
    "SPACE_TO_BATCH_ND": 4, "TRANSPOSE": 9, "MEAN": 3, "SUB": 5, "DIV": 2, "SQUEEZE": 2,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 4, "STRIDED_SLICE": 8, "BIDIRECTIONAL_SEQUENCE_RNN": 3,
    "EXP": 2, "TOPK_V2": 3, "SPLIT": 5, "LOG_SOFTMAX": 2, "BIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "CAST": 9, "MAXIMUM": 4, "ARG_MAX": 3, "MINIMUM": 4, "LESS": 3, "PADV2": 6, "GREATER": 2,
    "GREATER_EQUAL": 3, "LESS_EQUAL": 2, "SELECT": 4, "SLICE": 8, "SIN": 2, "TRANSPOSE_CONV": 5,
    "SPARSE_TO_DENSE": 3, "TILE": 3, "EQUAL": 5, "NOT_EQUAL": 4, "LOG": 2, "SUM": 2, "SQRT": 2,
    "RSQRT": 3, "ARG_MIN": 3, "FAKE_QUANT": 2, "REDUCE_PROD": 2, "REDUCE_MAX": 3, "PACK": 5,
    "UNPACK": 6, "REDUCE_MIN": 3, "FLOOR_DIV": 3, "FILL": 5, "FLOOR_MOD": 2, "RANGE": 2,
    "RESIZE_NEAREST_NEIGHBOR": 4, "LEAKY_RELU": 2, "SQUARED_DIFFERENCE": 2, "MIRROR_PAD": 3,
    "ABS": 5, "SPLIT_V": 3, "REVERSE_V2": 4, "GATHER_ND": 6, "COS": 2, "WHERE": 2, "QUANTIZE": 6,
    "SELECT_V2": 2, "BATCH_MATMUL": 4, "BROADCAST_TO": 4, "GELU": 3, "DYNAMIC_UPDATE_SLICE": 6,
    "SIGN": 2,
})  # fmt: skip
"""Newest versions by name, as LiteRT 2.3 has kernels for them; those of all others are 1."""
