"""Structures of detectors that no installed package builds, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


def block(before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1, *,
          act: type[nn.Module] | None = nn.SiLU) -> nn.Sequential:  # fmt: skip
    """Convolution, batch normalization, activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]
    return nn.Sequential(*layers, *([] if act is None else [act()]))


def separable(before: int, after: int, kernel: int = 3, stride: int = 1, *,
              act: type[nn.Module] = nn.SiLU) -> nn.Sequential:  # fmt: skip
    """A depthwise convolution and a 1 x 1 one."""
    return nn.Sequential(
        block(before, before, kernel, stride, before, act=act), block(before, after, act=act)
    )


class Bottleneck(nn.Module):
    """Two convolutions, with a shortcut."""

    def __init__(self, channels: int, *, shortcut: bool, deep: bool) -> None:
        super().__init__()
        second = separable if deep else _dense
        self.body = nn.Sequential(block(channels, channels), second(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: Any) -> Any:
        """The sum, or the convolutions alone."""
        return x + self.body(x) if self.shortcut else self.body(x)


def _dense(before: int, after: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return block(before, after, kernel, stride)


class CrossStage(nn.Module):
    """A cross stage partial block: half of the channels goes through bottlenecks."""

    def __init__(
        self, before: int, after: int, count: int, *, shortcut: bool = True, deep: bool = False
    ) -> None:
        super().__init__()
        half = after // 2
        self.one, self.two = block(before, half), block(before, half)
        self.body = nn.Sequential(
            *(Bottleneck(half, shortcut=shortcut, deep=deep) for _ in range(count))
        )
        self.last = block(2 * half, after)

    def forward(self, x: Any) -> Any:
        """Both halves joined."""
        return self.last(torch.cat([self.body(self.one(x)), self.two(x)], 1))


class SpatialPyramid(nn.Module):
    """Maxima of windows of three sizes, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = block(channels, channels // 2)
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (5, 9, 13))
        self.two = block(channels // 2 * 4, channels)

    def forward(self, x: Any) -> Any:
        """As many channels as before."""
        x = self.one(x)
        return self.two(torch.cat([x, *(pool(x) for pool in self.pools)], 1))


class Yolox(nn.Module):
    """YOLOX: Focus, CSPDarknet, PAFPN, decoupled head; boxes and scores of all scales joined."""

    def __init__(self, width: float, depth: float, *, deep: bool, classes: int = 80) -> None:
        super().__init__()
        conv = separable if deep else _dense
        base, n = int(64 * width), max(round(3 * depth), 1)
        c3, c4, c5 = 4 * base, 8 * base, 16 * base
        self.stem = block(12, base, 3)
        self.dark2 = nn.Sequential(
            conv(base, 2 * base, 3, 2), CrossStage(2 * base, 2 * base, n, deep=deep)
        )
        self.dark3 = nn.Sequential(conv(2 * base, c3, 3, 2), CrossStage(c3, c3, 3 * n, deep=deep))
        self.dark4 = nn.Sequential(conv(c3, c4, 3, 2), CrossStage(c4, c4, 3 * n, deep=deep))
        self.dark5 = nn.Sequential(
            conv(c4, c5, 3, 2),
            SpatialPyramid(c5),
            CrossStage(c5, c5, n, shortcut=False, deep=deep),
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.lateral, self.reduce = block(c5, c4), block(c4, c3)
        self.p4 = CrossStage(2 * c4, c4, n, shortcut=False, deep=deep)
        self.p3 = CrossStage(2 * c3, c3, n, shortcut=False, deep=deep)
        self.down3, self.down4 = conv(c3, c3, 3, 2), conv(c4, c4, 3, 2)
        self.n4 = CrossStage(2 * c3, c4, n, shortcut=False, deep=deep)
        self.n5 = CrossStage(2 * c4, c5, n, shortcut=False, deep=deep)
        inner = int(256 * width)
        self.heads = nn.ModuleList(_YoloxHead(c, inner, classes, conv) for c in (c3, c4, c5))

    def forward(self, x: Any) -> Any:
        """[1, positions, 5 + classes]."""
        x = torch.cat([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], 1)
        x3 = self.dark3(self.dark2(self.stem(x)))
        x4 = self.dark4(x3)
        lateral = self.lateral(self.dark5(x4))
        reduced = self.reduce(self.p4(torch.cat([self.up(lateral), x4], 1)))
        first = self.p3(torch.cat([self.up(reduced), x3], 1))
        second = self.n4(torch.cat([self.down3(first), reduced], 1))
        third = self.n5(torch.cat([self.down4(second), lateral], 1))
        found = [head(y) for head, y in zip(self.heads, (first, second, third), strict=True)]
        return torch.cat([y.flatten(2) for y in found], 2).permute(0, 2, 1)


class _YoloxHead(nn.Module):
    def __init__(self, before: int, inner: int, classes: int, conv: Any) -> None:
        super().__init__()
        self.stem = block(before, inner)
        self.classes, self.boxes = (
            nn.Sequential(conv(inner, inner, 3), conv(inner, inner, 3)) for _ in range(2)
        )
        self.score, self.box = nn.Conv2d(inner, classes, 1), nn.Conv2d(inner, 4, 1)
        self.object = nn.Conv2d(inner, 1, 1)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        boxes = self.boxes(x)
        scores = self.score(self.classes(x)).sigmoid()
        return torch.cat([self.box(boxes), self.object(boxes).sigmoid(), scores], 1)


def shuffled(x: Any) -> Any:
    """Channels of two groups in turn."""
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class _ShuffleUnit(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        half, self.stride, act = after // 2, stride, nn.ReLU6
        side = nn.Sequential(
            block(before, before, 3, 2, before, act=None), block(before, half, act=act)
        )
        self.side = side if stride > 1 else nn.Identity()
        self.body = nn.Sequential(
            block(before if stride > 1 else half, half, act=act),
            block(half, half, 3, stride, half, act=None),
            block(half, half, act=act),
        )

    def forward(self, x: Any) -> Any:
        if self.stride > 1:
            return shuffled(torch.cat([self.side(x), self.body(x)], 1))
        one, two = x.chunk(2, dim=1)
        return shuffled(torch.cat([one, self.body(two)], 1))


class NanoDet(nn.Module):
    """NanoDet-Plus: ShuffleNet v2, a ghost-free PAN of depthwise blocks, heads with DFL of 8."""

    def __init__(self, classes: int = 80, inner: int = 96, bins: int = 8) -> None:
        super().__init__()
        act = nn.ReLU6
        self.stem = nn.Sequential(block(3, 24, 3, 2, act=act), nn.MaxPool2d(3, 2, 1))
        sizes, before, stages = (116, 232, 464), 24, list[nn.Module]()
        for size, count in zip(sizes, (4, 8, 4), strict=True):
            units = [_ShuffleUnit(before, size, 2)]
            units += [_ShuffleUnit(size, size, 1) for _ in range(count - 1)]
            stages.append(nn.Sequential(*units))
            before = size
        self.stages = nn.ModuleList(stages)
        self.reduce = nn.ModuleList(block(size, inner, act=act) for size in sizes)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.top = nn.ModuleList(separable(2 * inner, inner, 5, act=act) for _ in range(2))
        self.down = nn.ModuleList(separable(inner, inner, 5, 2, act=act) for _ in range(3))
        self.join = nn.ModuleList(separable(2 * inner, inner, 5, act=act) for _ in range(2))
        self.heads = nn.ModuleList(
            nn.Sequential(
                separable(inner, inner, 5, act=act),
                separable(inner, inner, 5, act=act),
                nn.Conv2d(inner, classes + 4 * bins, 1),
            )
            for _ in range(4)
        )
        self.classes = classes

    def forward(self, x: Any) -> Any:
        """[1, positions, classes + 4 * bins]: scores and logits of distances, as it is exported."""
        found, x = list[Any](), self.stem(x)
        for stage, reduce in zip(self.stages, self.reduce, strict=True):
            x = stage(x)
            found.append(reduce(x))
        c3, c4, c5 = found
        p4 = self.top[0](torch.cat([self.up(c5), c4], 1))
        p3 = self.top[1](torch.cat([self.up(p4), c3], 1))
        n4 = self.join[0](torch.cat([self.down[0](p3), p4], 1))
        n5 = self.join[1](torch.cat([self.down[1](n4), c5], 1))
        scales = (p3, n4, n5, self.down[2](n5))
        outs = []
        for head, y in zip(self.heads, scales, strict=True):
            numbers = head(y)
            scores, boxes = numbers.split([self.classes, numbers.shape[1] - self.classes], 1)
            outs.append(torch.cat([scores.sigmoid(), boxes], 1).flatten(2))
        return torch.cat(outs, 2).permute(0, 2, 1)


class _Inverted(nn.Module):
    def __init__(self, before: int, after: int, stride: int, expand: int, kernel: int = 3) -> None:
        super().__init__()
        inner, act = before * expand, nn.ReLU6
        layers = [] if expand == 1 else [block(before, inner, act=act)]
        layers += [block(inner, inner, kernel, stride, inner, act=act)]
        self.body = nn.Sequential(*layers, block(inner, after, act=None))
        self.adds = stride == 1 and before == after

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v1() -> tuple[nn.ModuleList, list[int]]:
    """Two parts of MobileNet v1, with strides 16 and 32, and their channels."""
    act, layers, before = nn.ReLU6, [block(3, 32, 3, 2, act=nn.ReLU6)], 32
    sizes = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5)
    for after, stride in sizes:
        layers.append(separable(before, after, 3, stride, act=act))
        before = after
    last = nn.Sequential(separable(512, 1024, 3, 2, act=act), separable(1024, 1024, 3, act=act))
    return nn.ModuleList([nn.Sequential(*layers), last]), [512, 1024]


def mobilenet_v2() -> tuple[nn.ModuleList, list[int]]:
    """Two parts of MobileNet v2 likewise."""
    parts: list[nn.Module] = [block(3, 32, 3, 2, act=nn.ReLU6), _Inverted(32, 16, 1, 1)]
    before, cut = 16, 0
    for after, count, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2),
                                 (320, 1, 1)):  # fmt: skip
        if after == 160:
            cut = len(parts)
        for number in range(count):
            parts.append(_Inverted(before, after, stride if not number else 1, 6))
            before = after
    parts.append(block(320, 1280, act=nn.ReLU6))
    return nn.ModuleList([nn.Sequential(*parts[:cut]), nn.Sequential(*parts[cut:])]), [96, 1280]


class _Fused(nn.Module):
    """An inverted bottleneck whose expansion is a convolution of the whole kernel."""

    def __init__(self, before: int, after: int, stride: int, expand: int, kernel: int = 3) -> None:
        super().__init__()
        inner, act = before * expand, nn.ReLU6
        self.body = nn.Sequential(
            block(before, inner, kernel, stride, act=act), block(inner, after, act=None)
        )
        self.adds = stride == 1 and before == after

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


_MOBILEDET: tuple[tuple[type[nn.Module], int, int, int, int], ...] = (
    (_Fused, 16, 2, 8, 3), (_Fused, 16, 1, 4, 3), (_Fused, 16, 1, 8, 3), (_Fused, 16, 1, 4, 3),
    (_Fused, 40, 2, 8, 5), *[(_Fused, 40, 1, 4, 3)] * 3,
    (_Inverted, 72, 2, 8, 3), (_Inverted, 72, 1, 8, 3), *[(_Fused, 72, 1, 4, 3)] * 2,
    *[(_Inverted, 96, 1, 8, 5)] * 2, *[(_Inverted, 96, 1, 8, 3)] * 2,
    (_Inverted, 120, 2, 8, 5), (_Inverted, 120, 1, 8, 3), (_Inverted, 120, 1, 4, 5),
    (_Inverted, 120, 1, 8, 3), (_Inverted, 384, 1, 8, 5),
)  # fmt: skip
"""Blocks of MobileDet for the Edge TPU, from its paper (arXiv 2004.14525) and code: kind, channels,
stride, expansion, kernel."""


def mobiledet() -> tuple[nn.ModuleList, list[int]]:
    """Two parts of MobileDet for the Edge TPU likewise."""
    act = nn.ReLU6
    parts: list[nn.Module] = [
        block(3, 32, 3, 2, act=act), block(32, 8, act=act), block(8, 12, 3, act=act),
        block(12, 16, act=None),
    ]  # fmt: skip
    before, cut = 16, 0
    for kind, after, stride, expand, kernel in _MOBILEDET:
        if after == 120 and not cut:
            cut = len(parts)
        parts.append(kind(before, after, stride, expand, kernel))
        before = after
    return nn.ModuleList([nn.Sequential(*parts[:cut]), nn.Sequential(*parts[cut:])]), [96, 384]


class Ssd(nn.Module):
    """SSD on a backbone of two scales: six scales, boxes and scores of all anchors joined."""

    def __init__(self, base: Any, classes: int = 91, *, light: bool = False) -> None:
        super().__init__()
        act = nn.ReLU6
        self.base, sizes = base()
        extras, before = list[nn.Module](), sizes[-1]
        for after in (512, 256, 256, 128):
            down = separable if light else block
            extras.append(
                nn.Sequential(
                    block(before, after // 2, act=act), down(after // 2, after, 3, 2, act=act)
                )
            )
            before = after
        self.extras = nn.ModuleList(extras)
        sizes = [*sizes, 512, 256, 256, 128]
        anchors = (3, 6, 6, 6, 6, 6)
        self.boxes, self.scores = (
            nn.ModuleList(_predictor(c, n * k, light) for c, n in zip(sizes, anchors, strict=True))
            for k in (4, classes)
        )
        self.classes = classes

    def forward(self, x: Any) -> Any:
        """Boxes [1, anchors, 4] and scores [1, anchors, classes]."""
        found = list[Any]()
        for part in (*self.base, *self.extras):
            x = part(x)
            found.append(x)
        boxes = _rows(self.boxes, found, 4)
        return boxes, _rows(self.scores, found, self.classes).sigmoid()


def _predictor(channels: int, outputs: int, light: bool) -> nn.Module:
    if light:
        return nn.Sequential(
            block(channels, channels, 3, 1, channels, act=nn.ReLU6), nn.Conv2d(channels, outputs, 1)
        )
    return nn.Conv2d(channels, outputs, 1)


def _rows(layers: Any, images: Sequence[Any], width: int) -> Any:
    """Rows of all positions and anchors, as TensorFlow orders them."""
    found = []
    for layer, image in zip(layers, images, strict=True):
        y = layer(image).permute(0, 2, 3, 1)
        found.append(y.reshape(1, -1, width))
    return torch.cat(found, 1)


class FpnLite(nn.Module):
    """SSD MobileNet v2 FPNLite: a pyramid of five scales, predictors that these share."""

    def __init__(self, classes: int = 91, inner: int = 128, anchors: int = 6) -> None:
        super().__init__()
        act = nn.ReLU6
        base, _ = mobilenet_v2()
        layers = list(base[0])
        self.parts = nn.ModuleList(
            [nn.Sequential(*layers[:7]), nn.Sequential(*layers[7:]), base[1]]
        )
        self.lateral = nn.ModuleList(block(c, inner, act=None) for c in (32, 96, 1280))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.smooth = nn.ModuleList(separable(inner, inner, act=act) for _ in range(2))
        self.down = nn.ModuleList(block(inner, inner, 3, 2, act=act) for _ in range(2))
        self.tower = nn.Sequential(*(separable(inner, inner, act=act) for _ in range(4)))
        self.box, self.score = (
            nn.Conv2d(inner, anchors * 4, 3, padding=1),
            nn.Conv2d(inner, anchors * classes, 3, padding=1),
        )
        self.classes = classes

    def forward(self, x: Any) -> Any:
        """Boxes [1, anchors, 4] and scores [1, anchors, classes]."""
        found = list[Any]()
        for part, lateral in zip(self.parts, self.lateral, strict=True):
            x = part(x)
            found.append(lateral(x))
        p5 = found[2]
        p4 = self.up(p5) + found[1]
        p3 = self.up(p4) + found[0]
        p6 = self.down[0](p5)
        scales = [self.smooth[0](p3), self.smooth[1](p4), p5, p6, self.down[1](p6)]
        towers = [self.tower(scale) for scale in scales]
        count = len(towers)
        boxes = _rows([self.box] * count, towers, 4)
        return boxes, _rows([self.score] * count, towers, self.classes).sigmoid()


class MoveNet(nn.Module):
    """MoveNet for one person: MobileNet v2, a pyramid down to a stride of 4, heads of four maps."""

    def __init__(self, keypoints: int = 17) -> None:
        super().__init__()
        base, _ = mobilenet_v2()
        layers, last = list(base[0]), base[1]
        # The scales end with the last blocks of 24, 32 and 64 channels, and with 1280.
        self.parts = nn.ModuleList(
            [
                nn.Sequential(*layers[:4]),
                nn.Sequential(*layers[4:7]),
                nn.Sequential(*layers[7:11]),
                nn.Sequential(*layers[11:], last),
            ]
        )
        sizes = (24, 32, 64, 64)
        self.lateral = nn.ModuleList(
            nn.Conv2d(before, after, 1)
            for before, after in zip((24, 32, 64, 1280), sizes, strict=True)
        )
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.smooth = nn.ModuleList(
            self._separable(before, after) for before, after in ((64, 32), (32, 24), (24, 24))
        )
        self.heads = nn.ModuleList(
            nn.Sequential(self._separable(24, 96), nn.Conv2d(96, count, 1))
            for count in (1, keypoints, 2 * keypoints, 2 * keypoints)
        )

    @staticmethod
    def _separable(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False),
            block(before, after, act=nn.ReLU),
        )

    def forward(self, x: Any) -> Any:
        """Maps of a stride of 4: the person's centre, keypoints, their places from it, offsets."""
        found = list[Any]()
        for part, lateral in zip(self.parts, self.lateral, strict=True):
            x = part(x)
            found.append(lateral(x))
        y = found.pop()
        for smooth in self.smooth:
            y = smooth(self.up(y) + found.pop())
        centre, heat, places, offsets = (head(y) for head in self.heads)
        return centre.sigmoid(), heat.sigmoid(), places, offsets


class UNet(nn.Module):
    """A U-Net of four scales with transposed convolutions."""

    def __init__(self, width: int = 16, classes: int = 2) -> None:
        super().__init__()
        sizes = [width << k for k in range(5)]
        self.down = nn.ModuleList(
            self._pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in sizes[-2::-1])
        self.join = nn.ModuleList(self._pair(2 * c, c) for c in sizes[-2::-1])
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            block(before, after, 3, act=nn.ReLU), block(after, after, 3, act=nn.ReLU)
        )

    def forward(self, x: Any) -> Any:
        """[1, classes, H, W]."""
        kept = list[Any]()
        for layer in self.down[:-1]:
            x = layer(x)
            kept.append(x)
            x = self.pool(x)
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)
