"""Graphs in text form."""

from __future__ import annotations

from fitzroy.compiler.frontends.frontend import PLAINLY, Frontend, Reading
from fitzroy.compiler.ir import Graph, parse_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.formats.detect import FileKind


class TextFrontend(Frontend):
    """Reads what `fitzroy opt` and ``--dump`` write."""

    name = "text"
    title = FileKind.GRAPH_TEXT.value
    kind = FileKind.GRAPH_TEXT

    def read(self, data: bytes, path: str, how: Reading = PLAINLY) -> Graph:
        """The graph of a text, which has no others."""
        return parse_graph(data.decode("utf-8", "replace"), attributes_of, path=path)
