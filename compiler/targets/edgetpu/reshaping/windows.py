"""Images that are windows of pixels one after the other, so that tiles own whole windows.

Vision transformers with windows compute attention within each window by itself. Where the pixels
of a window follow each other along a row of the image, and rows and columns of tiles divide the
windows evenly, everything that is computed within windows stays on a tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.shape import Shape
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import COLUMNS, ROWS, TILES

_PRODUCT_RANK = 3


def divides_evenly(windows: int) -> bool:
    """Whether all tiles can own as many of some windows."""
    return windows > 0 and windows % TILES == 0


def heads_divide_evenly(windows: int, heads: int) -> bool:
    """Whether rows of tiles can own as many windows each, and columns of tiles as many heads."""
    return windows > 0 and windows % ROWS == 0 and heads % COLUMNS == 0


def grid_of(windows: int, pixels: int) -> tuple[int, int]:
    """Rows and columns of an image of windows, the squarest one of which tiles own whole windows.

    Args:
        windows: how many, which divide evenly.
        pixels: of a window.
    """
    options = [
        (rows, windows // rows)
        for rows in range(ROWS, windows // COLUMNS + 1, ROWS)
        if windows % (rows * COLUMNS) == 0
    ]
    rows, columns = min(options, key=lambda one: abs(one[0] - one[1]))
    return rows, columns * pixels


def has_whole_windows(shape: Sequence[int], windows: int, pixels: int) -> bool:
    """Whether tiles own whole windows of an image [1,H,W,C] that is nothing else."""
    _, height, width, _ = shape
    even = height % ROWS == 0 and width % (COLUMNS * pixels) == 0
    return even and has_whole_rows(shape, windows, pixels)


def has_whole_rows(shape: Sequence[int], windows: int, pixels: int) -> bool:
    """Whether the pixels of each window follow each other in a row of an image [1,H,W,C]."""
    _, height, width, _ = shape
    return height * width == windows * pixels and width % pixels == 0


def multiplied_together(graph: Graph, shape: Shape) -> int:
    """How many windows a graph multiplies together, of those of a value [windows,pixels,C].

    These are as many as it has, or several times as many if heads are windows; none if it is no
    such value, or if tiles would not own as many each.

    Args:
        graph: the graph.
        shape: shape of the value.
    """
    if len(shape) != _PRODUCT_RANK or shape[0] == 1:
        return 0
    windows, pixels, _ = shape
    products = [
        graph.type(node.outputs[0]).shape for node in graph.nodes() if node.op == "batch_matmul"
    ]
    found = {
        after[0]
        for after in products
        if len(after) == _PRODUCT_RANK and after[1:] == (pixels, pixels)
    }
    counts = [count for count in found if count % windows == 0 and divides_evenly(count)]
    return min(counts, default=0)
