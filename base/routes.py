"""Formats of models that are not read here, and how to come from them to one that is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stranger:
    """A format that is not read here.

    Attributes:
        title: its name with an article.
        route: how a model of it becomes one that is read.
    """

    title: str
    route: str


_TORCH = (
    "litert_torch.convert(MODULE, INPUTS).export('model.tflite') of litert-torch, or "
    "torch.onnx.export(MODULE, INPUTS, 'model.onnx')"
)
_KERAS = (
    "in TensorFlow, tf.lite.TFLiteConverter.from_keras_model(tf.keras.models.load_model(FILE))"
    ".convert() gives a .tflite model"
)
_ORIGIN = "take the model that it was converted from, as .onnx or .tflite"

EXPORTED = Stranger(
    "a program of torch.export (.pt2)",
    f"load it with torch.export.load(FILE).module(), then {_TORCH}",
)
SCRIPT = Stranger("a TorchScript module", f"load it with torch.jit.load(FILE), then {_TORCH}")
CHECKPOINT = Stranger(
    "a checkpoint of PyTorch (.pt or .pth)",
    f"it may hold weights alone: load it into its module in Python, call eval(), then {_TORCH}",
)
SAFETENSORS = Stranger(
    "a file of weights (.safetensors), without the model",
    f"load it into its module in Python, call eval(), then {_TORCH}",
)
KERAS = Stranger("a Keras model (.keras)", _KERAS)
HDF5 = Stranger(
    "an HDF5 file, probably a Keras model (.h5)", f"{_KERAS}; weights alone need the Python code"
)
SAVED_MODEL = Stranger(
    "a TensorFlow SavedModel",
    "in TensorFlow, tf.lite.TFLiteConverter.from_saved_model(FOLDER).convert() gives a .tflite "
    "model; or python -m tf2onnx.convert --saved-model FOLDER --output model.onnx",
)
FROZEN = Stranger(
    "a graph of TensorFlow (.pb)",
    "python -m tf2onnx.convert --graphdef FILE --inputs NAME:0 --outputs NAME:0 "
    "--output model.onnx",
)
OPENVINO = Stranger("a model of OpenVINO (.xml and .bin)", _ORIGIN)
CORE_ML = Stranger("a Core ML model", _ORIGIN)
ARCHIVE = Stranger("a ZIP archive", "unpack it, or export the model as .tflite")

_FOLDERS = (
    ("saved_model.pb", SAVED_MODEL),
    ("Manifest.json", CORE_ML),
    ("coremldata.bin", CORE_ML),
    ("model.safetensors", SAFETENSORS),
)
_MEMBERS = (
    ("metadata.json config.json model.weights.h5", KERAS),
    ("saved_model.pb", SAVED_MODEL),
    ("Manifest.json", CORE_ML),
    ("models/model.json", EXPORTED),
    ("serialized_exported_program.json", EXPORTED),
    ("constants.pkl", SCRIPT),
    ("data.pkl", CHECKPOINT),
)


def of_folder(names: Collection[str]) -> Stranger | None:
    """What a folder with some files holds, None if it is nothing that is known."""
    return next((found for name, found in _FOLDERS if name in names), None)


def of_archive(names: Collection[str]) -> Stranger:
    """What a ZIP archive with some members is; these may be below one folder."""
    every = {*names, *(name.partition("/")[2] for name in names)}
    for members, found in _MEMBERS:
        if every.issuperset(members.split()):
            return found
    inside = sorted(name for name in names if name.endswith((".tflite", ".onnx")))
    if inside:
        return Stranger(ARCHIVE.title, f"unpack it: it holds {', '.join(inside[:_NAMED])}")
    return ARCHIVE


_NAMED = 4
"""Models inside of an archive that are named."""
