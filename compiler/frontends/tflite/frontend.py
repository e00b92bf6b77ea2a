"""TFLite models in the registry of frontends."""

from __future__ import annotations

from fitzroy.compiler.frontends.frontend import PLAINLY, Frontend, Reading
from fitzroy.compiler.frontends.tflite.importer import import_model
from fitzroy.compiler.frontends.tflite.shapes import fitting_shapes, given_shapes
from fitzroy.compiler.ir import Graph
from fitzroy.formats import tflite
from fitzroy.formats.detect import FileKind


class TfliteFrontend(Frontend):
    """Reads TFLite models."""

    name = "tflite"
    title = FileKind.TFLITE.value
    kind = FileKind.TFLITE

    def read(self, data: bytes, path: str, how: Reading = PLAINLY) -> Graph:
        """The graph of one subgraph of a model."""
        model = tflite.read_model(data, path)
        arrays = fitting_shapes(model, how.arrays) if how.arrays else {}
        shapes = {**arrays, **given_shapes(how, path)}
        return import_model(model, path=path, subgraph=how.subgraph, shapes=shapes)
