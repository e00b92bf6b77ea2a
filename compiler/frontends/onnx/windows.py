"""Windows of ONNX's convolutions and pools, and images of one, two or more dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.shape import padded
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape, Tensor, channels_last
from fitzroy.compiler.ops.windows import Padding, PaddingScheme, Pair, scheme_of

NHWC = channels_last(4)


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows move over an image, one number for each spatial dimension.

    Attributes:
        kernel: extents of the window.
        stride: steps.
        dilation: distances between elements of the window.
        before: padding before each dimension.
        after: padding after each dimension, as far as the model gives it.
        beyond: more of it, which the last windows need because their number is rounded up.
    """

    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    beyond: Shape

    @property
    def ends(self) -> Shape:
        """All padding after each dimension."""
        return tuple(a + b for a, b in zip(self.after, self.beyond, strict=True))

    @property
    def reach(self) -> Shape:
        """Extents of the window with what lies between its elements."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def turned(self) -> Windows:
        """The windows on an image whose rows are columns."""
        fields = (self.kernel, self.stride, self.dilation, self.before, self.after, self.beyond)
        return Windows(*(values[::-1] for values in fields))

    def along(self, axes: Sequence[int]) -> Windows:
        """The windows along one or two dimensions; along a second one they may have one element."""
        fields = (self.kernel, self.stride, self.dilation, self.before, self.after, self.beyond)
        neutral = (1, 1, 1, 0, 0, 0)
        rest = 2 - len(axes)
        return Windows(
            *(
                (*(values[axis] for axis in axes), *(one,) * rest)
                for values, one in zip(fields, neutral, strict=True)
            )
        )

    def outputs(self, image: Sequence[int]) -> Shape:
        """Extents of what windows on an image give."""
        rows = zip(image, self.before, self.ends, self.reach, self.stride, strict=True)
        return tuple((e + b + a - r) // s + 1 for e, b, a, r, s in rows)


def windows(op: Operation, image: Shape, kernel: Shape | None) -> Windows:
    """The windows that the attributes of an operator describe.

    Args:
        op: a convolution or a pool.
        image: extents of the image without channels.
        kernel: extents of the filter; None if an attribute gives them.

    Raises:
        Refusal: attributes do not fit the image.
    """
    rank = len(image)
    size = op.integers("kernel_shape") or kernel or ()
    stride = op.integers("strides") or (1,) * rank
    dilation = op.integers("dilations") or (1,) * rank
    pads = op.integers("pads") or (0,) * (2 * rank)
    lengths = (len(size), len(stride), len(dilation), len(pads) // 2)
    if lengths != (rank,) * 4 or (kernel and kernel != size):
        raise Refusal("onnx-type-rule", f"windows of {lengths} dimensions on {rank}")
    if min((*size, *stride, *dilation), default=1) < 1 or min(pads, default=0) < 0:
        raise Refusal("onnx-attribute", f"kernel {size}, strides {stride}, dilations {dilation}")
    auto = op.text("auto_pad", "NOTSET")
    before, after = pads[:rank], pads[rank:]
    reach = tuple((k - 1) * d + 1 for k, d in zip(size, dilation, strict=True))
    if auto == "VALID":
        before = after = (0,) * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = _same(image, reach, stride, lower=auto == "SAME_LOWER")
    elif auto != "NOTSET":
        raise Refusal("onnx-attribute", f"auto_pad {auto!r}")
    beyond = (0,) * rank
    if op.integer("ceil_mode") and auto == "NOTSET":
        beyond = _rounded_up(image, reach, stride, before, after)
    found = _within(Windows(size, stride, dilation, before, after, beyond), image)
    if min(found.outputs(image), default=1) < 1:
        raise Refusal("onnx-type-rule", f"a window of {list(size)} does not fit {list(image)}")
    return found


def _same(image: Shape, reach: Shape, stride: Shape, *, lower: bool) -> tuple[Shape, Shape]:
    """Padding that gives one window per step; its odd element lies before, or after."""
    small, large = [], []
    for extent, size, step in zip(image, reach, stride, strict=True):
        total = max((-(-extent // step) - 1) * step + size - extent, 0)
        small.append(total // 2)
        large.append(total - total // 2)
    return (tuple(large), tuple(small)) if lower else (tuple(small), tuple(large))


def _rounded_up(image: Shape, reach: Shape, stride: Shape, before: Shape, after: Shape) -> Shape:
    """Padding for a last window that begins within the image or what lies before it."""
    beyond = []
    for extent, size, step, low, high in zip(image, reach, stride, before, after, strict=True):
        count = -(-(extent + low + high - size) // step) + 1
        if (count - 1) * step >= extent + low:
            count -= 1
        beyond.append(max((count - 1) * step + size - extent - low - high, 0))
    return tuple(beyond)


def _within(w: Windows, image: Shape) -> Windows:
    """Windows without what lies beyond the padding in a dimension that has a single one.

    Models pool images of any size with a window of more than they have: it is cut, not filled.
    """
    kernel, beyond = list(w.kernel), list(w.beyond)
    for axis, count in enumerate(w.outputs(image)):
        if count == 1 and w.dilation[axis] == 1:
            kernel[axis] -= beyond[axis]
            beyond[axis] = 0
    return replace(w, kernel=tuple(kernel), beyond=tuple(beyond))


def placed(build: Builder, x: Tensor, w: Windows, value: float) -> tuple[Tensor, Padding]:
    """An image [N,C,H,W] and the padding scheme of an operator that reads it.

    Amounts that no scheme gives become padding of its own.
    """
    edges = (w.before[0], w.ends[0], w.before[1], w.ends[1])
    image = (x.shape[2], x.shape[3])
    scheme = scheme_of(edges, image, pair(w.kernel), pair(w.stride), pair(w.dilation))
    if scheme is not None:
        return x, scheme
    before, after = (0, 0, *w.before), (0, 0, *w.ends)
    return padded(build, x, before, after, value), PaddingScheme.VALID


def pair(extents: Shape) -> Pair:
    """Height and width."""
    return extents[0], extents[1]


def flat_windows(w: Windows) -> Windows:
    """Windows on a row, as windows on an image of height 1."""
    return Windows(
        (1, *w.kernel), (1, *w.stride), (1, *w.dilation),
        (0, *w.before), (0, *w.after), (0, *w.beyond),
    )  # fmt: skip


def as_image(build: Builder, x: Tensor) -> Tensor:
    """A row [N,C,L] as an image [N,C,1,L]; an image stays as it is."""
    if x.rank == 4:
        return x
    return build.reshape(x, (*x.shape[:2], 1, x.shape[2]))


def as_row(build: Builder, x: Tensor, rank: int) -> Tensor:
    """An image [N,C,1,L] as a row again, if there was one."""
    if rank == 4:
        return x
    return build.channels_last(build.reshape(x, (*x.shape[:2], x.shape[3])))


def demand_image(op: Operation, x: Tensor) -> None:
    """Refuse images of other than one or two dimensions.

    Raises:
        Refusal: it has none, or three.
    """
    if x.rank not in (3, 4):
        raise Refusal("onnx-rank", f"{op.name} of {x.rank} dimensions; 3 and 4 are known")
    if 0 in x.shape:
        raise Refusal("onnx-rank", f"{op.name} of an empty tensor {list(x.shape)}")
