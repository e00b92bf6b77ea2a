"""Values that are the elements of others, one after the other, without a place of their own.

Reshaping, and joining vectors, moves nothing as long as nobody on the chip reads the result: the
parts go to the host where they are, and the layout of the output gives their order. That is how
the heads of detectors end, of several scales. Operators of single elements work on the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import (
    IMAGE_RANK,
    RULES,
    Legalizer,
    legalizes,
    puts_views,
    several,
)
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.parameters.requantization import copy_stage
from fitzroy.compiler.targets.edgetpu.reshaping.image_reshapes import reshaped_image
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_image_of, as_vector, join_words
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    are_images,
    assemble,
    concatenate,
    join,
    keeps_bytes,
    pointwise,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector


@puts_views
def put(legalizer: Legalizer, name: str) -> None:
    """Make a tensor of a view, with a place of its own."""
    parts, type = legalizer.views[name], legalizer.type(name)
    lies_as_vector = _lies_as_vector(type)
    if len(parts) == 1 and not lies_as_vector:
        image = reshaped_image(legalizer, parts[0], type.shape, f"{name}.image")
        if image is not None:
            legalizer.aliases[name] = image
            return
    # Parts of several images cannot be joined in their shape, which is not that of one image.
    keeps_shape = lies_as_vector and not several(type)
    flat = type if keeps_shape else type.with_shape((1, type.size))
    if len(parts) == 1:
        vector = as_vector(legalizer, parts[0])
    elif parts in legalizer.joined:
        vector = legalizer.joined[parts]
    else:
        vector = legalizer.joined[parts] = temporary(legalizer, f"{name}.joined", flat)
        if not join_words(legalizer, vector, parts, vector):
            ends = [(as_vector(legalizer, part), 0, legalizer.type(part).size) for part in parts]
            join(legalizer, vector, vector, flat, ends)
    if lies_as_vector:
        legalizer.aliases[name] = vector
        return
    legalizer.aliases[name] = as_image_of(legalizer, vector, type.shape, f"{name}.image")


def _lies_as_vector(type: TensorType) -> bool:
    return len(type.shape) != IMAGE_RANK or several(type) or math.prod(type.shape[:-1]) == 1


def _works_on_parts(node: Node) -> bool:
    return len(node.inputs) == 1 and OPS[node.op].elementwise


def apply_to_parts(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an elementwise operator for each part of its operand, if that is a view."""
    node, before, after = call.node, call.type(), call.result.type
    parts = legalizer.views.get(node.inputs[0] or "") if node.inputs else None
    if parts is None or not _works_on_parts(node):
        return False
    places = []
    for number, part in enumerate(parts):
        shape = legalizer.type(part).shape
        own = temporary(legalizer, f"{node.outputs[0]}.{number}", replace(after, shape=shape))
        single = Graph(legalizer.graph.name)
        single.add_input(part, replace(before, shape=shape))
        single.add_node(
            replace(node, name=f"{node.name}.{number}", inputs=(part,), outputs=(own,)),
            [legalizer.types[own]],
        )
        (only,) = single.nodes()
        RULES[node.op](replace(legalizer, graph=single), Call.of(single, only))
        places.append(legalizer.place(own))
    legalizer.views[node.outputs[0]] = tuple(places)
    return True


@requires("reshape")
def _same_numbers(call: Call) -> Iterator[Reject]:
    """Elements stay as they are."""
    before, after = call.type(), call.result.type
    if (before.dtype, before.quantization) != (after.dtype, after.quantization):
        yield refused(
            call, f"changes the quantization, {before} to {after}", "requantize before it"
        )


@legalizes("reshape")
def _reshape(legalizer: Legalizer, call: Call) -> None:
    source, result = call.node.inputs[0] or "", call.node.outputs[0]
    after = call.result.type
    parts = legalizer.parts(source)
    if len(parts) == 1 and _same(legalizer, parts[0], result, after):
        legalizer.aliases[result] = parts[0]
    else:
        legalizer.views[result] = parts


def _same(legalizer: Legalizer, place: str, result: str, after: TensorType) -> bool:
    """Whether a place is that of a result of reshaping too."""
    if is_vector(legalizer, place):
        return _lies_as_vector(after)
    graph = legalizer.graph
    readers = {node.op for node in graph.consumers(result)}
    # Fully connected layers read images in any shape.
    anywhere = result not in graph.outputs and readers == {"fully_connected"}
    return legalizer.type(place).shape == after.shape or (_lies_as_vector(after) and anywhere)


@legalizes("concatenation")
def _concatenation(legalizer: Legalizer, call: Call) -> None:
    axis, after = call.attributes(ConcatenationAttributes).axis, call.result.type
    names = [name or "" for name in call.node.inputs]
    if _below_each_other(legalizer, call):
        return
    in_order = math.prod(after.shape[:axis]) == 1
    images = len(after.shape) == IMAGE_RANK and after.shape[0] == 1
    if images and not (in_order and _needs_no_image(legalizer, call)):
        concatenate(legalizer, call)
        return
    if not in_order:
        _interleaved(legalizer, call, axis)
        return
    places = []
    for number, part in enumerate(part for name in names for part in legalizer.parts(name)):
        before = legalizer.type(part)
        if not keeps_bytes(before, after):
            own = f"{call.node.name}.{number}"
            result = temporary(legalizer, own, replace(after, shape=before.shape))
            pointwise(legalizer, own, part, result, copy_stage(before, after))
            part = result
        places.append(part)
    legalizer.views[call.result.name] = tuple(places)


def _below_each_other(legalizer: Legalizer, call: Call) -> bool:
    """Join values [1,1,n,c] as rows, if they are views of images of one shape.

    The images are stacked as they lie, and the result is a view of the stack.

    Returns:
        Whether it did.
    """
    axis, after = call.attributes(ConcatenationAttributes).axis, call.result.type
    if axis != 1 or len(after.shape) != IMAGE_RANK:
        return False
    places = [part for name in call.node.inputs for part in legalizer.parts(name or "")]
    shapes = {legalizer.type(place).shape for place in places}
    rows = {value.type.shape for value in call.inputs if value is not None}
    if len(places) > len(call.inputs) or len(shapes) != 1 or len(rows) != 1:
        return False
    ((_, single, *_),), ((_, height, width, channels),) = rows, shapes
    kept = all(keeps_bytes(legalizer.type(place), after) for place in places)
    if single != 1 or not kept or not are_images(legalizer, places, after.shape[-1]):
        return False
    whole = after.with_shape((1, len(places) * height, width, channels))
    sections = [
        (place, Section(Run(height, target=number * height), Run(width), channels))
        for number, place in enumerate(places)
    ]
    image = temporary(legalizer, f"{call.node.name}.rows", whole)
    assemble(legalizer, image, image, whole, sections)
    legalizer.views[call.result.name] = (image,)
    return True


def _interleaved(legalizer: Legalizer, call: Call, axis: int) -> None:
    """Parts of several rows, as channels of images with a pixel for each row."""
    rewriting, after = Rewriting.of(legalizer, call), call.result.type
    rows = math.prod(after.shape[:axis])
    names = [
        rewriting.reshape(value.name, (1, *grid(rows), value.type.size // rows))
        for value in (call.operand(index) for index in range(len(call.inputs)))
    ]
    type = replace(after, shape=(1, *grid(rows), after.size // rows))
    joined = rewriting.emit("concatenation", names, type, ConcatenationAttributes(IMAGE_RANK - 1))
    rewriting.reshape(joined, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _needs_no_image(legalizer: Legalizer, call: Call) -> bool:
    """Whether images would be joined for nobody, or are vectors."""
    graph = legalizer.graph

    def goes_out(name: str) -> bool:
        return all(
            (_works_on_parts(node) or node.op == "reshape") and goes_out(node.outputs[0])
            for node in graph.consumers(name)
        )

    parts = [part for name in call.node.inputs for part in legalizer.parts(name or "")]
    return goes_out(call.result.name) or (
        math.prod(call.result.type.shape[:-1]) == 1
        and any(is_vector(legalizer, part) for part in parts)
    )
