"""Patches and windows of images, whose pixels move as boxes, on the simulated Edge TPU."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.compiler.edgetpu_models import assert_exact
from tests.compiler.test_axis_orders import Tokens, attention_of_patches

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized

Shape = tuple[int, ...]


def _kinds(graph: Graph) -> Counter[str]:
    return Counter(layer.kind for layer in legalized(graph).layers)


def _moved(image: Shape, divided: Shape, perm: Shape, result: Shape) -> Graph:
    """An image, divided, moved, and read in another shape."""
    model = Tokens(2)
    x = model.connected(model.start(image), image[-1])
    x = model.transpose(model.reshape(x, *divided), *perm)
    return model.ended(model.connected(model.reshape(x, *result), 8))


@pytest.mark.parametrize(
    ("image", "divided", "perm", "result"),
    [
        # Patches: rows and columns of them, or as many images.
        ((1, 8, 8, 12), (4, 2, 4, 2, 12), (1, 3, 0, 2, 4), (4, 16, 12)),
        ((1, 12, 8, 7), (6, 2, 4, 2, 7), (1, 3, 0, 2, 4), (4, 24, 7)),
        ((1, 16, 4, 8), (1, 2, 2, 4, 4, 8), (0, 2, 1, 3, 4, 5), (1, 16, 4, 8)),
        # Back again.
        ((1, 16, 4, 12), (2, 2, 4, 4, 12), (2, 0, 3, 1, 4), (1, 8, 8, 12)),
        # Windows.
        ((1, 14, 14, 8), (2, 7, 2, 7, 8), (0, 2, 1, 3, 4), (4, 49, 8)),
        ((1, 6, 8, 5), (2, 3, 2, 4, 5), (0, 2, 1, 3, 4), (4, 12, 5)),
        # Between pixels and channels.
        ((1, 6, 6, 16), (1, 6, 6, 2, 2, 4), (0, 1, 3, 2, 4, 5), (1, 12, 12, 4)),
        ((1, 6, 6, 4), (1, 3, 2, 3, 2, 4), (0, 1, 3, 2, 4, 5), (1, 3, 3, 16)),
        ((1, 5, 8, 12), (1, 40, 3, 4), (0, 2, 1, 3), (1, 3, 40, 4)),
    ],
)
def test_pixels_move_as_boxes(image: Shape, divided: Shape, perm: Shape, result: Shape) -> None:
    graph = _moved(image, divided, perm, result)
    found = _kinds(graph)
    assert found["assembly"] == 1
    assert not found["elements"]
    assert_exact(graph)


@pytest.mark.parametrize(
    ("image", "divided", "perm", "result"),
    [
        # Each pixel would be a box.
        ((1, 6, 9, 8), (1, 6, 9, 8), (0, 2, 1, 3), (1, 9, 6, 8)),
        # Channels do not stay together.
        ((1, 4, 6, 8), (1, 4, 6, 8), (0, 3, 1, 2), (1, 8, 4, 6)),
    ],
)
def test_other_elements_move_alone(
    image: Shape, divided: Shape, perm: Shape, result: Shape
) -> None:
    graph = _moved(image, divided, perm, result)
    assert not _kinds(graph)["assembly"]
    assert_exact(graph)


def test_attention_of_patches_reads_parts_of_the_image() -> None:
    graph = attention_of_patches()
    assert not refusals(graph)
    found = _kinds(graph)
    assert not found["elements"]
    assert not found["to image"]
    assert_exact(graph)


def test_pixels_move_to_the_shape_in_which_several_operators_read_them() -> None:
    """Patches as channels, of which a mean and a difference are taken."""
    model = Tokens(2)
    x = model.connected(model.start((1, 8, 8, 8)), 8)
    x = model.transpose(model.reshape(x, 1, 4, 2, 4, 2, 8), 0, 1, 3, 4, 2, 5)
    one, other = (model.reshape(x, 1, 4, 4, 32) for _ in range(2))
    graph = model.ended(model.binary("sub", one, model.mean(other, 3)))
    found = _kinds(graph)
    assert not found["to vector"]
    assert not found["to image"]
    assert_exact(graph)
