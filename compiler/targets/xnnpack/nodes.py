"""How XNNPACK runs operators: the rules that reject a call, and the node that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fitzroy.compiler.ops import convolution as conv
from fitzroy.compiler.ops.convolution import TransposeConv, TransposeConvAttributes
from fitzroy.compiler.ops.definition import OPS, Call, Reject, operator_of
from fitzroy.compiler.ops.elementwise import (
    Binary,
    ClampAttributes,
    Conversion,
    EluAttributes,
    GeluAttributes,
    LeakyReluAttributes,
)
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import ArgMaxPoolAttributes, Pool
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.targets.target import Lowering
from fitzroy.compiler.targets.xnnpack import rules
from fitzroy.compiler.targets.xnnpack.emitter import SubgraphEmitter
from fitzroy.formats import xnnpack as xnn
from fitzroy.hw_models.numerics import Sampling

Rules = Callable[[Call], Iterator[Reject]]
Emit = Callable[[Call, SubgraphEmitter], None]

NODES: dict[str, Lowering] = {}
"""How operators become nodes, by their names."""


def node(op: str, rejects: Rules) -> Callable[[Emit], Emit]:
    """Declare the node of an operator.

    Args:
        op: name of the operator.
        rejects: every reason why a call cannot be such a node.
    """

    def declare(emit: Emit) -> Emit:
        NODES[op] = Lowering(emit, rejects)
        return emit

    return declare


def _ends(call: Call, emitter: SubgraphEmitter) -> dict[str, Any]:
    """Fields of a node with one input and one output."""
    return {
        "input_id": emitter.value(call.operand(0).name),
        "output_id": emitter.value(call.result.name),
    }


def _padding(edges: tuple[int, int, int, int]) -> dict[str, int]:
    """Fields of a node that pads: from top, bottom, left and right."""
    top, bottom, left, right = edges
    return {
        "padding_top": top, "padding_right": right,
        "padding_bottom": bottom, "padding_left": left,
    }  # fmt: skip


# --- windows -------------------------------------------------------------------------------------


def _convolution_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.weighted(call, channel_axis=OPS[call.node.op].channel_axis)
    a, kernel = conv.conv_attributes(call), call.type(1).shape
    yield from rules.window(a.stride, a.dilation, conv.edges(call, (kernel[1], kernel[2])))


def _convolution(call: Call) -> dict[str, Any]:
    """Fields that both kinds of convolutions have."""
    kernel, a = call.type(1).shape, conv.conv_attributes(call)
    return {
        **_padding(conv.edges(call, (kernel[1], kernel[2]))),
        "kernel_height": kernel[1], "kernel_width": kernel[2],
        "subsampling_height": a.stride[0], "subsampling_width": a.stride[1],
        "dilation_height": a.dilation[0], "dilation_width": a.dilation[1],
    }  # fmt: skip


@node("conv_2d", _convolution_rejects)
def _conv_2d(call: Call, emitter: SubgraphEmitter) -> None:
    kernel = call.type(1).shape
    groups = call.type(0).shape[3] // kernel[3]
    emitter.add(
        xnn.XNNConv2d(
            **_convolution(call), group_input_channels=kernel[3],
            group_output_channels=kernel[0] // groups, groups=groups, **emitter.weighted(call),
        ),
        conv.conv_attributes(call).activation.bounds,
    )  # fmt: skip


@node("depthwise_conv_2d", _convolution_rejects)
def _depthwise_conv_2d(call: Call, emitter: SubgraphEmitter) -> None:
    channels = call.type(0).shape[3]
    emitter.add(
        xnn.XNNDepthwiseConv2d(
            **_convolution(call), group_input_channels=1,
            group_output_channels=call.type(1).shape[3] // channels, groups=channels,
            **emitter.weighted(call),
        ),
        conv.conv_attributes(call).activation.bounds,
    )  # fmt: skip


def _transpose_conv_rejects(call: Call) -> Iterator[Reject]:
    axis, a = OPS[call.node.op].channel_axis, call.attributes(TransposeConvAttributes)
    yield from rules.weighted(call, channel_axis=axis, filter_zero_point_ignored=True)
    yield from rules.window(a.stride, a.padding)


@node("transpose_conv", _transpose_conv_rejects)
def _transpose_conv(call: Call, emitter: SubgraphEmitter) -> None:
    kernel, a = call.type(1).shape, call.attributes(TransposeConvAttributes)
    adjustment = operator_of(call, TransposeConv).adjustment(call)
    emitter.add(
        xnn.XNNConvTranspose2d(
            **_padding(a.padding),
            kernel_height=kernel[1], kernel_width=kernel[2],
            subsampling_height=a.stride[0], subsampling_width=a.stride[1],
            dilation_height=1, dilation_width=1,
            group_input_channels=kernel[3], group_output_channels=kernel[0], groups=1,
            adjustment_height=adjustment[0], adjustment_width=adjustment[1],
            **emitter.weighted(call),
        ),
        a.activation.bounds,
    )  # fmt: skip


def _pool_rejects(call: Call) -> Iterator[Reject]:
    operator = operator_of(call, Pool)
    a, edges = operator.pool(call), operator.edges(call)
    if a.kernel == (1, 1):
        yield Reject("xnnpack-pool-window", "a window of one element, which the runtime refuses")
    yield from rules.window(a.kernel, a.stride, edges)
    top, bottom, left, right = edges
    if max(top, bottom) >= a.kernel[0] or max(left, right) >= a.kernel[1]:
        yield Reject("xnnpack-pool-padding", "a window may lie in the padding entirely")


def _average_pool_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.activations(rules.variables(call), integers=False)
    yield from _pool_rejects(call)


def _max_pool_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.mover(call)
    yield from _pool_rejects(call)


def _pool(kind: type[xnn.Pooling]) -> Emit:
    def emit(call: Call, emitter: SubgraphEmitter) -> None:
        operator = operator_of(call, Pool)
        a = operator.pool(call)
        emitter.add(
            kind(
                **_padding(operator.edges(call)),
                pooling_height=a.kernel[0], pooling_width=a.kernel[1],
                stride_height=a.stride[0], stride_width=a.stride[1],
                dilation_height=1, dilation_width=1, **_ends(call, emitter),
            ),
            a.activation.bounds,
        )  # fmt: skip

    return emit


node("average_pool_2d", _average_pool_rejects)(_pool(xnn.XNNAvgPooling2d))
node("max_pool_2d", _max_pool_rejects)(_pool(xnn.XNNMaxPooling2d))


def _arg_max_pool_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.activations((call.operand(0), call.outputs[0]), integers=False)
    if call.attributes(ArgMaxPoolAttributes).kernel == (1, 1):
        yield Reject("xnnpack-pool-window", "a window of one element, which the runtime refuses")


@node("arg_max_pool_2d", _arg_max_pool_rejects)
def _arg_max_pool(call: Call, emitter: SubgraphEmitter) -> None:
    kernel = call.attributes(ArgMaxPoolAttributes).kernel
    emitter.add(
        xnn.XNNArgMaxPooling2d(
            pooling_height=kernel[0],
            pooling_width=kernel[1],
            input_id=emitter.value(call.operand(0).name),
            output_value_id=emitter.value(call.outputs[0].name),
            output_index_id=emitter.value(call.outputs[1].name),
        )
    )


_SAMPLING = {
    Sampling.HALF_PIXEL: 0,
    Sampling.ALIGN_CORNERS: int(xnn.NodeFlag.ALIGN_CORNERS),
    Sampling.LEGACY: int(xnn.NodeFlag.TENSORFLOW_LEGACY_MODE),
}


@node("resize_bilinear", rules.mover)
def _resize_bilinear(call: Call, emitter: SubgraphEmitter) -> None:
    a = call.attributes(ResizeAttributes)
    emitter.add(
        xnn.XNNStaticResizeBilinear2D(
            new_height=a.size[0],
            new_width=a.size[1],
            flags=_SAMPLING[a.sampling],
            **_ends(call, emitter),
        )
    )


# --- matrices ------------------------------------------------------------------------------------


def _fully_connected_rejects(call: Call) -> Iterator[Reject]:
    axis = OPS[call.node.op].channel_axis
    yield from rules.weighted(call, channel_axis=axis, filter_zero_point_ignored=True)
    # The runtime loads other ranks, and fails only when the program is executed.
    for value in (call.operand(0), call.result):
        if value.type.rank != 2:
            yield Reject("xnnpack-fc-rank", f"{value.name!r} has rank {value.type.rank}, not 2")


@node("fully_connected", _fully_connected_rejects)
def _fully_connected(call: Call, emitter: SubgraphEmitter) -> None:
    bounds = call.attributes(FullyConnectedAttributes).activation.bounds
    emitter.add(xnn.XNNFullyConnected(**emitter.weighted(call)), bounds)


def _batch_matmul_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.activations(rules.variables(call), integers=False)
    a = call.attributes(BatchMatMulAttributes)
    if a.adj_x or a.adj_y:
        yield Reject("xnnpack-matmul-adjoint", "an operand is transposed")
    for value in rules.variables(call):
        if value.type.rank < 3:
            yield Reject(
                "xnnpack-matmul-rank", f"{value.name!r} has rank {value.type.rank}, at least 3"
            )


@node("batch_matmul", _batch_matmul_rejects)
def _batch_matmul(call: Call, emitter: SubgraphEmitter) -> None:
    emitter.binary(xnn.XNNBatchMatrixMultiply, call)


# --- elementwise ---------------------------------------------------------------------------------


def _function(kind: type[xnn.NodeTable]) -> Emit:
    def emit(call: Call, emitter: SubgraphEmitter) -> None:
        emitter.add(kind(**_ends(call, emitter)))

    return emit


for _name, _kind in {
    "abs": xnn.XNNAbs,
    "ceil": xnn.XNNCeiling,
    "cos": xnn.XNNCos,
    "exp": xnn.XNNExp,
    "floor": xnn.XNNFloor,
    "hardswish": xnn.XNNHardswish,
    "log": xnn.XNNLog,
    "negate": xnn.XNNNegate,
    "rsqrt": xnn.XNNReciprocalSquareRoot,
    "sigmoid": xnn.XNNSigmoid,
    "sin": xnn.XNNSin,
    "sqrt": xnn.XNNSquareRoot,
    "square": xnn.XNNSquare,
    "tanh": xnn.XNNTanh,
}.items():
    node(_name, rules.elementwise)(_function(_kind))


def _gelu_rejects(call: Call) -> Iterator[Reject]:
    if call.attributes(GeluAttributes).approximate:
        yield Reject(
            "xnnpack-gelu-approximate",
            "the tanh approximation of GELU has no XNNPACK node",
            "export the model with approximate=False",
        )
    yield from rules.elementwise(call)


node("gelu", _gelu_rejects)(_function(xnn.XNNGelu))


@node("elu", rules.elementwise)
def _elu(call: Call, emitter: SubgraphEmitter) -> None:
    emitter.add(xnn.XNNELU(alpha=call.attributes(EluAttributes).alpha, **_ends(call, emitter)))


def _leaky_relu_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.elementwise(call)
    if not OPS[call.node.op].scales_fit(call):
        yield Reject(
            "xnnpack-scale-ratio",
            "input scale to output scale, and times the slope, must lie within 2**-8 and 2**7",
        )


@node("leaky_relu", _leaky_relu_rejects)
def _leaky_relu(call: Call, emitter: SubgraphEmitter) -> None:
    slope = call.attributes(LeakyReluAttributes).alpha
    emitter.add(xnn.XNNLeakyReLU(negative_slope=slope, **_ends(call, emitter)))


def _clamp_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.elementwise(call)
    yield from rules.same_quantization((call.operand(0), call.result))


@node("clamp", _clamp_rejects)
def _clamp(call: Call, emitter: SubgraphEmitter) -> None:
    a = call.attributes(ClampAttributes)
    emitter.add(xnn.XNNClamp(**_ends(call, emitter)), (a.min, a.max))


def _conversion_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.activations(rules.variables(call))
    if not operator_of(call, Conversion).scales_fit(call):
        before, after = call.type().quantization, call.result.type.quantization
        assert before is not None
        assert after is not None
        yield Reject(
            "xnnpack-scale-ratio",
            f"scales {before.scale[0]:.4g} and {after.scale[0]:.4g};"
            " their ratio must lie within 2**-8 and 2**7",
        )


@node("quantize", _conversion_rejects)
@node("dequantize", _conversion_rejects)
def _conversion(call: Call, emitter: SubgraphEmitter) -> None:
    emitter.unary(xnn.XNNConvert, call)


def _binary_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.elementwise(call)
    operator = operator_of(call, Binary)
    if not operator.scales_fit(call):
        yield Reject(
            "xnnpack-scale-ratio",
            "the larger input scale must be at least 2**-11 and below 2**20 output scales"
            if operator.kernel in ("add", "subtract")
            else "the product of the input scales must be below 2**8 output scales",
        )


def _binary(kind: type[xnn.Binary]) -> Emit:
    def emit(call: Call, emitter: SubgraphEmitter) -> None:
        emitter.binary(kind, call, operator_of(call, Binary).bounds(call))

    return emit


_BINARIES: dict[str, type[xnn.Binary]] = {
    "add": xnn.XNNAdd,
    "div": xnn.XNNDiv,
    "maximum": xnn.XNNMaximum,
    "minimum": xnn.XNNMinimum,
    "mul": xnn.XNNMultiply,
    "prelu": xnn.XNNPReLU,
    "sub": xnn.XNNSubtract,
}
for _name, _pair in _BINARIES.items():
    node(_name, _binary_rejects)(_binary(_pair))


# --- reductions and normalization ----------------------------------------------------------------


def _mean_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.elementwise(call)
    axes, rank = call.attributes(ReductionAttributes).axes, call.type().rank
    if rank != 4 or axes != (1, 2):
        yield Reject(
            "xnnpack-mean-axes", f"axes {axes} of {rank} dimensions; only (1, 2) of 4 are possible"
        )


@node("mean", _mean_rejects)
def _mean(call: Call, emitter: SubgraphEmitter) -> None:
    keeps = call.attributes(ReductionAttributes).keep_dims
    flags = int(xnn.NodeFlag.KEEP_DIMS) if keeps else 0
    emitter.unary(xnn.XNNGlobalAvgPooling2d, call, flags=flags)


def _softmax_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.activations(rules.variables(call), integers=False)
    beta = call.attributes(SoftmaxAttributes).beta
    if beta != 1:
        yield Reject("xnnpack-softmax-beta", f"beta is {beta}, not 1")


@node("softmax", _softmax_rejects)
def _softmax(call: Call, emitter: SubgraphEmitter) -> None:
    emitter.unary(xnn.XNNSoftmax, call)


# --- moving elements -----------------------------------------------------------------------------


@node("copy", rules.mover)
def _copy(call: Call, emitter: SubgraphEmitter) -> None:
    emitter.unary(xnn.XNNCopy, call)


@node("reshape", rules.mover)
def _reshape(call: Call, emitter: SubgraphEmitter) -> None:
    shape = call.attributes(ReshapeAttributes).shape
    emitter.add(
        xnn.XNNStaticReshape(
            num_dims=len(shape), new_shape=np.array(shape, np.uint32), **_ends(call, emitter)
        )
    )


def _transpose_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.mover(call)
    if call.type().rank == 0:
        yield Reject("xnnpack-rank", "a scalar has nothing to transpose")


@node("transpose", _transpose_rejects)
def _transpose(call: Call, emitter: SubgraphEmitter) -> None:
    perm = call.attributes(TransposeAttributes).perm
    emitter.add(
        xnn.XNNStaticTranspose(
            num_dims=len(perm), perm=np.array(perm, np.uint32), **_ends(call, emitter)
        )
    )


@node("pad", rules.mover)
def _pad(call: Call, emitter: SubgraphEmitter) -> None:
    a = call.attributes(PadAttributes)
    emitter.add(
        xnn.XNNStaticConstantPad(
            pre_paddings=np.array(a.before, np.uint32),
            post_paddings=np.array(a.after, np.uint32),
            padding_value=a.value,
            **_ends(call, emitter),
        )
    )


_CONCATENATIONS: dict[int, type[xnn.NodeTable]] = {
    2: xnn.XNNConcatenate2,
    3: xnn.XNNConcatenate3,
    4: xnn.XNNConcatenate4,
    5: xnn.XNNConcatenate5,
}


def _concatenation_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.mover(call)
    if not 2 <= len(call.inputs) <= rules.MOST_CONCATENATED:
        yield Reject(
            "xnnpack-concat-arity",
            f"{len(call.inputs)} inputs; 2 to {rules.MOST_CONCATENATED} are possible",
        )


@node("concatenation", _concatenation_rejects)
def _concatenation(call: Call, emitter: SubgraphEmitter) -> None:
    fields: dict[str, Any] = {
        f"input{i}_id": emitter.value(call.operand(i - 1).name)
        for i in range(1, len(call.inputs) + 1)
    }
    fields |= {
        "axis": call.attributes(ConcatenationAttributes).axis,
        "output_id": emitter.value(call.result.name),
    }
    emitter.add(_CONCATENATIONS[len(call.inputs)](**fields))


def _slice_rejects(call: Call) -> Iterator[Reject]:
    yield from rules.mover(call)
    stride = call.attributes(StridedSliceAttributes).stride
    if any(step != 1 for step in stride):
        yield Reject("xnnpack-slice-stride", f"strides {stride}, not 1")
    if call.type().rank == 0:
        yield Reject("xnnpack-rank", "a scalar has nothing to slice")


@node("strided_slice", _slice_rejects)
def _strided_slice(call: Call, emitter: SubgraphEmitter) -> None:
    a = call.attributes(StridedSliceAttributes)
    emitter.add(
        xnn.XNNStaticSlice(
            num_dims=len(a.begin),
            offsets=np.array(a.begin, np.uint32),
            sizes=np.array(a.size, np.uint32),
            **_ends(call, emitter),
        )
    )
