"""In which order do layers take less narrow memory?

Graphs list operators of parallel branches side by side, such as the heads of an attention: products
of all heads, then softmaxes of all heads. Depth first, a branch is finished before the next begins,
so that its images need not wait for those of the others.
"""

from __future__ import annotations

from dataclasses import replace

from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered


def depth_first(layered: Layered) -> Layered:
    """The layers in an order in which each comes right before what needs it, if it can.

    Layers whose results nobody reads, such as outputs, keep their order.
    """
    makers = {layer.writes: layer for layer in layered.layers}
    read = {name for layer in layered.layers for name in layer.reads}
    order: dict[Layer, None] = {}
    for last in layered.layers:
        waiting = [] if last.writes in read else [last]
        while waiting:
            layer = waiting[-1]
            before = [makers[name] for name in layer.reads if makers[name] not in order]
            if before:
                waiting.append(before[0])
            else:
                order[waiting.pop()] = None
    return replace(layered, layers=tuple(order))
