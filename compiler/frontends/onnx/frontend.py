"""The frontend of ONNX models."""

from __future__ import annotations

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.frontend import PLAINLY, Frontend, Reading
from fitzroy.compiler.frontends.onnx import reader
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.borders import ChannelsLastInputs
from fitzroy.compiler.passes.canonicalize import FoldConstants, FuseActivations, Simplify
from fitzroy.compiler.passes.constant_matrices import ConstantMatrices
from fitzroy.compiler.passes.fold_scales import FoldScales
from fitzroy.compiler.passes.fuse_quantized import FuseQuantized
from fitzroy.compiler.passes.rows import RowsAsImages
from fitzroy.compiler.passes.uint8 import LegalizeUint8
from fitzroy.formats.detect import FileKind

CLEANING: tuple[Pass, ...] = (
    Simplify(),
    RowsAsImages(),
    Simplify(),
    FoldScales(),
    FuseActivations(),
    FuseQuantized(),
    FoldConstants(filters=False),
    ConstantMatrices(),
    Simplify(),
)
"""Passes that make of ONNX's operators those that TFLite's converter would have written."""


class OnnxFrontend(Frontend):
    """Reads ONNX models, with the package ``onnx``."""

    name = "onnx"
    title = FileKind.ONNX.value
    kind = FileKind.ONNX

    def read(self, data: bytes, path: str, how: Reading = PLAINLY) -> Graph:
        """The graph of a model; images have channels last unless the layout is to be kept."""
        proto = reader.decode(data, path)
        # Importing operators takes the package, too.
        from fitzroy.compiler.frontends.onnx.model import import_model

        graph = import_model(proto, path=path, how=how)
        steps = [*CLEANING] if how.keep_layout else [*CLEANING, ChannelsLastInputs()]
        for step in steps:
            graph = step.run(graph)
        graph = LegalizeUint8().run(graph) if _is_mixed(graph) else graph
        found = reader.labels(proto)
        graph.labels, graph.files = found.labels, reader.files(proto, found)
        graph.remarks += found.remarks(path or graph.name)
        return graph


def _is_mixed(graph: Graph) -> bool:
    """Whether int8 filters meet uint8 activations, which no runtime of ours computes."""
    for node in graph.nodes():
        if OPS[node.op].channel_axis is not None:
            image, kernel = (graph.type(str(name)).dtype for name in node.inputs[:2])
            if image is DType.UINT8 and kernel is DType.INT8:
                return True
    return False
