"""Detectors and other image models, built from their descriptions without a download.

Ultralytics builds its models from the YAML files that it ships, torchvision, timm and effdet from
code; what no package builds is written out here. Weights are random. Batch normalizations get the
statistics of photographs, so that activations are of the size that trained models have.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitzroy.base.types import Array

_OPSET = 17
_SEED = 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model that can be built.

    Attributes:
        name: what the table calls it.
        packages: what has to be installed, beside torch.
        make: the module for square pictures of a size.
        sizes: sizes of its pictures.
    """

    name: str
    packages: tuple[str, ...]
    make: Callable[[int], Any]
    sizes: tuple[int, ...] = (320, 640)

    def missing(self) -> str | None:
        """The first package that is not installed."""
        wanted = ("torch", "onnx", *self.packages)
        return next((name for name in wanted if importlib.util.find_spec(name) is None), None)

    def export(self, size: int, pictures: Sequence[Array], path: Path) -> None:
        """Write the model as ONNX.

        Args:
            size: height and width of its pictures.
            pictures: float32[1,size,size,3] from 0 to 1, for statistics.
            path: the file.
        """
        import torch

        torch.manual_seed(_SEED)
        module = self.make(size)
        batch = torch.cat([torch.from_numpy(p).permute(0, 3, 1, 2) for p in pictures])
        _settle(module, batch)
        prepare = getattr(module, "prepare_export", None)
        if prepare is not None:
            module = prepare()
        module.eval()
        with torch.no_grad():
            torch.onnx.export(
                module, (batch[:1],), str(path), opset_version=_OPSET, dynamo=False,
                input_names=["images"],
            )  # fmt: skip


def _settle(module: Any, batch: Any) -> None:
    """Give batch normalizations the statistics of pictures."""
    import torch

    module.train()
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        module(batch)
    module.eval()


# --- Ultralytics ---------------------------------------------------------------------------------


def _ultralytics(name: str, *, end_to_end: bool = False) -> Callable[[int], Any]:
    def make(size: int) -> Any:
        import torch

        tasks: Any = importlib.import_module("ultralytics.nn.tasks")
        kinds = {"-seg": tasks.SegmentationModel, "-pose": tasks.PoseModel}
        kind = next((k for suffix, k in kinds.items() if name.endswith(suffix)), None)
        built = (kind or tasks.DetectionModel)(f"{name}.yaml", verbose=False)

        class Exported(torch.nn.Module):
            """The model as `yolo export` prepares it."""

            def __init__(self) -> None:
                super().__init__()
                self.model = built

            def forward(self, x: Any) -> Any:
                return self.model(x)

            def prepare_export(self) -> Any:
                """Normalizations folded, heads in their form for files."""
                head = self.model.model[-1]
                if hasattr(self.model, "end2end"):
                    self.model.end2end = end_to_end
                self.model.eval()
                self.model = self.model.fuse(verbose=False)
                head.export, head.format, head.dynamic = True, "onnx", False
                for module in self.model.modules():
                    if type(module).__name__ in ("C2f", "C3k2", "C2fCIB"):
                        module.forward = module.forward_split
                return self

        _likely(built.model[-1])
        return Exported()

    return make


def _likely(head: Any) -> None:
    """Logits of a head that make scores of all sizes, where training begins near zero."""
    import torch

    for name, layer in head.named_modules():
        if isinstance(layer, torch.nn.Conv2d) and "cv3" in name and layer.bias is not None:
            layer.bias.data.fill_(-1.0)
            layer.weight.data.mul_(3.0)


# --- torchvision, timm, effdet, and what is written out here --------------------------------------


def _heads_of(name: str) -> Callable[[int], Any]:
    """Boxes and logits of a detector of torchvision, whose anchors Python computes."""

    def make(_: int) -> Any:
        import torch

        models: Any = importlib.import_module("torchvision.models.detection")
        built = getattr(models, name)(weights=None, weights_backbone=None)

        class Heads(torch.nn.Module):
            """Without transforms and anchors."""

            def __init__(self) -> None:
                super().__init__()
                self.body, self.head = built.backbone, built.head

            def forward(self, x: Any) -> Any:
                found = self.head(list(self.body(x).values()))
                return found["bbox_regression"], found["cls_logits"]

        return Heads()

    return make


def _segmentation(name: str) -> Callable[[int], Any]:
    """A segmentation model of torchvision."""

    def make(_: int) -> Any:
        import torch

        models: Any = importlib.import_module("torchvision.models.segmentation")
        built = getattr(models, name)(weights=None, weights_backbone=None)

        class Only(torch.nn.Module):
            """The one result of interest."""

            def __init__(self) -> None:
                super().__init__()
                self.model = built

            def forward(self, x: Any) -> Any:
                return self.model(x)["out"]

        return Only()

    return make


def _timm(name: str) -> Callable[[int], Any]:
    def make(size: int) -> Any:
        more = {"img_size": size} if name.startswith("vit") else {}
        timm: Any = importlib.import_module("timm")
        layers: Any = importlib.import_module("timm.layers")
        layers.set_fused_attn(False)
        return timm.create_model(name, pretrained=False, **more)

    return make


def _effdet(name: str) -> Callable[[int], Any]:
    def make(size: int) -> Any:
        effdet: Any = importlib.import_module("effdet")
        more = {"image_size": (size, size)}
        return effdet.create_model(
            name, bench_task="", pretrained=False, pretrained_backbone=False, **more
        )

    return make


def _written(name: str, **more: Any) -> Callable[[int], Any]:
    """A structure of `benchmarks.structures`."""

    def make(_: int) -> Any:
        structures: Any = importlib.import_module("benchmarks.structures")
        kind = getattr(structures, name)
        base = {key: getattr(structures, value) for key, value in more.items() if key == "base"}
        return kind(**{**more, **base})

    return make


_YOLO = (
    "yolov5n", "yolov5s", "yolov8n", "yolov8s", "yolov8n-seg", "yolov8s-seg", "yolov8n-pose",
    "yolov8s-pose", "yolov9t", "yolov10n", "yolo11n", "yolo11s", "yolo11n-seg", "yolo11n-pose",
    "yolo12n", "yolo26n",
)  # fmt: skip

_LITE = (("lite0", 320), ("lite1", 384), ("lite2", 448), ("lite3", 512))


def architectures() -> tuple[Architecture, ...]:
    """All of them."""
    return (
        *(Architecture(n, ("ultralytics",), _ultralytics(n)) for n in _YOLO),
        Architecture("yolox-nano", (), _written("Yolox", width=0.25, depth=0.33, deep=True)),
        Architecture("yolox-tiny", (), _written("Yolox", width=0.375, depth=0.33, deep=False)),
        Architecture("nanodet-plus", (), _written("NanoDet")),
        Architecture("ssd-mobilenet-v1", (), _written("Ssd", base="mobilenet_v1")),
        Architecture("ssd-mobilenet-v2", (), _written("Ssd", base="mobilenet_v2")),
        Architecture("ssdlite-mobilenet-v2", (), _written("Ssd", base="mobilenet_v2", light=True)),
        Architecture("ssdlite-mobiledet", (), _written("Ssd", base="mobiledet", light=True)),
        Architecture("ssd-mobilenet-v2-fpnlite", (), _written("FpnLite")),
        Architecture(
            "ssdlite-mobilenet-v3", ("torchvision",), _heads_of("ssdlite320_mobilenet_v3_large")
        ),
        Architecture("ssd300-vgg16", ("torchvision",), _heads_of("ssd300_vgg16"), (300,)),
        *(
            Architecture(
                f"efficientdet-{n}", ("effdet", "timm"), _effdet(f"tf_efficientdet_{n}"), (size,)
            )
            for n, size in _LITE
        ),
        Architecture("movenet", (), _written("MoveNet"), (192, 256)),
        Architecture("mobilenet-v3", ("timm",), _timm("mobilenetv3_large_100"), (224, 320)),
        Architecture("efficientnet-lite0", ("timm",), _timm("efficientnet_lite0"), (224, 320)),
        Architecture("vit-tiny", ("timm",), _timm("vit_tiny_patch16_224"), (224,)),
        Architecture("deeplab-v3", ("torchvision",), _segmentation("deeplabv3_mobilenet_v3_large")),
        Architecture("unet", (), _written("UNet")),
    )
