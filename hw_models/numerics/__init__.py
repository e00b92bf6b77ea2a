"""Numpy kernels with the integer arithmetic of the targets.

Activations are NHWC and filters have TFLite's layouts. Kernels without a prefix calculate as
XNNPACK does on x86; `fitzroy.hw_models.numerics.tflite` has TFLite's reference kernels.
"""

from fitzroy.hw_models.numerics.arrays import batch_matmul, concatenate, pad, slice_box, softmax
from fitzroy.hw_models.numerics.binary import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    prelu,
    subtract,
)
from fitzroy.hw_models.numerics.convolution import (
    Padding,
    Pair,
    accumulate_conv_2d,
    accumulate_depthwise_conv_2d,
    accumulate_fully_connected,
    accumulate_transpose_conv_2d,
    conv_2d,
    conv_output_extent,
    depthwise_conv_2d,
    fully_connected,
    requantization_scale,
    same_padding,
    transpose_conv_2d,
)
from fitzroy.hw_models.numerics.limits import conversion_fits, product_fits, sum_fits
from fitzroy.hw_models.numerics.polynomials import Polynomials, horner
from fitzroy.hw_models.numerics.pooling import (
    arg_max_pool,
    average_pool,
    global_average_pool,
    max_pool,
    mean,
    pool_counts,
)
from fitzroy.hw_models.numerics.requantization import (
    Arithmetic,
    dequantize,
    quantize,
    quantized_range,
    requantize,
)
from fitzroy.hw_models.numerics.resize import Sampling, resize_bilinear, resize_nearest
from fitzroy.hw_models.numerics.unary import REAL_FUNCTIONS, convert, unary

__all__ = [
    "REAL_FUNCTIONS",
    "Arithmetic",
    "Padding",
    "Pair",
    "Polynomials",
    "Sampling",
    "accumulate_conv_2d",
    "accumulate_depthwise_conv_2d",
    "accumulate_fully_connected",
    "accumulate_transpose_conv_2d",
    "add",
    "arg_max_pool",
    "average_pool",
    "batch_matmul",
    "concatenate",
    "conv_2d",
    "conv_output_extent",
    "conversion_fits",
    "convert",
    "depthwise_conv_2d",
    "dequantize",
    "divide",
    "fully_connected",
    "global_average_pool",
    "horner",
    "max_pool",
    "maximum",
    "mean",
    "minimum",
    "multiply",
    "pad",
    "pool_counts",
    "prelu",
    "product_fits",
    "quantize",
    "quantized_range",
    "requantization_scale",
    "requantize",
    "resize_bilinear",
    "resize_nearest",
    "same_padding",
    "slice_box",
    "softmax",
    "subtract",
    "sum_fits",
    "transpose_conv_2d",
    "unary",
]
