"""What programs ask of TFLite's interpreter, call by call, with the module as an argument.

Each class makes the calls of one program, in the order and in the way of its published source,
around arithmetic of our own.
"""

from __future__ import annotations

import ast
import queue
import threading
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fitzroy.base.types import Array

ON_CPU: Any = None
"""A device for programs that are to take LiteRT alone."""


def _interpreter(tflite: Any, path: Path, library: str, options: Mapping[str, str] | None) -> Any:
    """What programs do first, with an Edge TPU or without."""
    if options is ON_CPU:
        return tflite.Interpreter(model_path=str(path))
    delegate = tflite.load_delegate(library, options)
    return tflite.Interpreter(model_path=str(path), experimental_delegates=[delegate])


class Frigate:
    """Frigate's Edge TPU detector: SSD models, as it was until 0.16 and as it is since.

    Args:
        tflite: the module with the interpreter.
        path: the model.
        device: what its configuration says.
        later: whether it tells outputs apart by their shapes, as since 0.17.
    """

    def __init__(
        self, tflite: Any, path: Path, device: Mapping[str, str] | None, later: bool = False
    ) -> None:
        self.interpreter = _interpreter(tflite, path, "libedgetpu.so.1.0", device)
        self.interpreter.allocate_tensors()
        self.given = self.interpreter.get_input_details()
        self.taken = self.interpreter.get_output_details()
        self.later = later
        self.signed = self.given[0]["dtype"] == np.int8

    def _shown(self, index: int) -> Array:
        """An output itself, without its batch."""
        found: Array = self.interpreter.tensor(index)()[0]
        return found

    def detect_raw(self, pixels: Array) -> Array:
        """Objects as (class, score, top, left, bottom, right), the best first [20,6]."""
        if self.signed:
            pixels = np.bitwise_xor(pixels, 128).view(np.int8)
        self.interpreter.set_tensor(self.given[0]["index"], pixels)
        self.interpreter.invoke()
        if self.later:
            ranks = [len(item["shape"]) for item in self.taken]
            assert (ranks.count(3), ranks.count(1)) == (1, 1)
            for item in self.taken:
                if len(item["shape"]) == 2:
                    np.mod(np.float32(self.interpreter.tensor(item["index"])()[0][0]), 1)
        boxes, classes, scores = (self._shown(item["index"]) for item in self.taken[:3])
        count = int(self.interpreter.tensor(self.taken[3]["index"])()[0])
        found = np.zeros((20, 6), np.float32)
        for number in range(min(count, 20)):
            if scores[number] < 0.4:
                break
            found[number] = [classes[number], float(scores[number]), *boxes[number]]
        return found


class FrigateYolo(Frigate):
    """Frigate's detector for YOLO models with an output of logits and one of distances."""

    def __init__(self, tflite: Any, path: Path, device: Mapping[str, str] | None) -> None:
        super().__init__(tflite, path, device, later=True)
        assert len(self.taken) in (2, 3)
        by_width = {int(item["shape"][2]): item for item in self.taken if len(item["shape"]) == 3}
        self.boxes = by_width.pop(64)
        (self.scores,) = (item for width, item in by_width.items() if width > 1)

    def detect_raw(self, pixels: Array) -> Array:
        """The best class and the four distances of every candidate that is sure enough [n,5]."""
        shifted = np.bitwise_xor(pixels, 128).view(np.int8) if self.signed else pixels
        self.interpreter.set_tensor(self.given[0]["index"], shifted)
        self.interpreter.invoke()
        scale, zero = self.scores["quantization"]
        least = int(np.log(0.4 / 0.6) / scale + zero)
        stored = self.interpreter.get_tensor(self.scores["index"])[0]
        sure = np.max(stored, axis=1) >= least
        distances = self.interpreter.get_tensor(self.boxes["index"])[0][sure]
        scale, zero = self.boxes["quantization"]
        bins = ((distances.astype(np.float32) - zero) * scale).reshape(-1, 4, 16)
        powers = np.exp(bins - bins.max(axis=2, keepdims=True))
        far = (powers / powers.sum(axis=2, keepdims=True)) @ np.arange(16, dtype=np.float32)
        return np.column_stack([stored[sure].argmax(axis=1), far])


class Doods:
    """DOODS2's TFLite detector, which tries twice to load the delegate, and keeps a pool.

    Args:
        tflite: the module with the interpreter.
        path: the model.
        device: what `load_delegate` is given.
        size: how many interpreters there are at most.
    """

    def __init__(
        self, tflite: Any, path: Path, device: Mapping[str, str] | None, size: int = 1
    ) -> None:
        self.arguments = (tflite, path, "libedgetpu.so.1.0", device)
        self.changed = threading.Condition()
        self.waiting = [self._built()]
        self.more = size - 1
        self.given = self.waiting[0].get_input_details()
        self.taken = self.waiting[0].get_output_details()
        self.height, self.width = self.given[0]["shape"][1], self.given[0]["shape"][2]
        assert self.given[0]["dtype"] != np.float32

    def _built(self) -> Any:
        try:
            interpreter = _interpreter(*self.arguments)
        except ValueError:
            try:
                interpreter = _interpreter(*self.arguments)
            except ValueError:
                raise ValueError("no detector on an Edge TPU") from None
        interpreter.allocate_tensors()
        return interpreter

    def detect(self, image: Array) -> list[tuple[int, float, list[float]]]:
        """Class, percent and place of everything in an image of the model's size."""
        assert image.shape[:2] == (self.height, self.width)
        with self.changed:
            if not self.waiting and self.more:
                self.waiting.append(self._built())
                self.more -= 1
            self.changed.wait_for(lambda: self.waiting)
            interpreter = self.waiting.pop()
        interpreter.set_tensor(self.given[0]["index"], np.expand_dims(image, axis=0))
        interpreter.invoke()
        values = [interpreter.get_tensor(item["index"])[0] for item in self.taken]
        with self.changed:
            self.waiting.append(interpreter)
            self.changed.notify()
        if len(values) == 1:
            return [(n, score * 100.0, [0, 0, 1, 1]) for n, score in enumerate(values[0])]
        boxes, classes, scores, count = values
        assert count.size == 1
        return [(int(classes[n]), scores[n] * 100.0, boxes[n].tolist()) for n in range(int(count))]


class Ultralytics:
    """Ultralytics' backend for exported models, with the names that metadata in the file have."""

    def __init__(self, tflite: Any, path: Path, device: Mapping[str, str] | None) -> None:
        self.interpreter = _interpreter(tflite, path, "libedgetpu.so.1", device)
        self.interpreter.allocate_tensors()
        self.given = self.interpreter.get_input_details()
        self.taken = self.interpreter.get_output_details()
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
        self.names: dict[int, str] = ast.literal_eval(text)["names"]

    def forward(self, image: Array) -> list[Array]:
        """Outputs as real numbers, from float32 images [1,H,W,3] between 0 and 1."""
        height, width = image.shape[1:3]
        details = self.given[0]
        whole = details["dtype"] in (np.int8, np.int16)
        if whole:
            scale, zero = details["quantization"]
            image = (image / scale + zero).astype(details["dtype"])
        self.interpreter.set_tensor(details["index"], image)
        self.interpreter.invoke()
        found = []
        for output in self.taken:
            x = self.interpreter.get_tensor(output["index"])
            if whole:
                scale, zero = output["quantization"]
                x = (x.astype(np.float32) - zero) * scale
            if x.ndim == 3:
                x[:, [0, 2]] *= width
                x[:, [1, 3]] *= height
            found.append(x)
        return found


class Scrypted:
    """Scrypted's TensorFlow Lite plugin: an interpreter for every Edge TPU, else one on the CPU.

    Args:
        tflite: the module with the interpreter.
        edgetpu: PyCoral's module of that name.
        detect: PyCoral's adapter for detectors.
        common: PyCoral's adapter for images.
        paths: a model for the CPU, and the same one for the Edge TPU.
    """

    def __init__(
        self, tflite: Any, edgetpu: Any, detect: Any, common: Any, paths: Sequence[Path]
    ) -> None:
        self.detect, self.common = detect, common
        self.interpreters: queue.Queue[Any] = queue.Queue()
        source, compiled = map(str, paths)
        self.found = edgetpu.list_edge_tpus()
        made = []
        for number, _ in enumerate(self.found):
            made.append(edgetpu.make_interpreter(compiled, f":{number}"))
        if not made:
            made.append(tflite.Interpreter(model_path=source))
        for interpreter in made:
            interpreter.allocate_tensors()
            _, height, width, channels = interpreter.get_input_details()[0]["shape"]
            self.size = int(width), int(height), int(channels)
            self.interpreters.put(interpreter)
        self.executor = ThreadPoolExecutor(len(made), thread_name_prefix="tflite")

    def detect_once(self, image: Any) -> list[Any]:
        """The objects in an image, found on whichever interpreter is free."""
        return self.executor.submit(self._predict, image).result()

    def _predict(self, image: Any) -> list[Any]:
        interpreter = self.interpreters.get()
        try:
            self.common.set_input(interpreter, image)
            interpreter.invoke()
            found: list[Any] = self.detect.get_objects(
                interpreter, score_threshold=0.2, image_scale=(1, 1)
            )
            return found
        finally:
            self.interpreters.put(interpreter)
