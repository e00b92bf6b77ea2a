"""Models from files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.files import read_file
from fitzroy.compiler.frontends.frontend import Reading, frontend_for
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import verify

Model = str | os.PathLike[str] | Graph
"""A model: its file, or its graph."""


def load(
    path: str | os.PathLike[str],
    *,
    subgraph: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    keep_layout: bool = False,
) -> Graph:
    """The graph of a model, whose format is told by its content.

    Args:
        path: a ``.tflite`` or ``.onnx`` model, a graph in text form, or what another frontend
            reads.
        subgraph: which subgraph of a TFLite model; 0 is its main one.
        shapes: shapes of inputs by name, for extents that an ONNX model leaves open.
        keep_layout: whether inputs of an ONNX model that are images stay [N,C,H,W]; otherwise they
            become [N,H,W,C]. Outputs always keep their order of dimensions.

    Raises:
        UsageError: the file cannot be read, or is a program rather than a model.
        FormatError: the file is malformed.
        UnsupportedError: the model has operators without counterpart.
    """
    name, data = os.fspath(path), read_file(path)
    how = Reading(subgraph, shapes or {}, keep_layout)
    graph = frontend_for(data, name).read(data, name, how)
    try:
        verify(graph)
    except InternalError as error:
        raise FormatError(f"the graph is inconsistent: {error}", path=name) from None
    return graph
