"""Kernels: instructions described by named axes, and by what is acquired and published per axis.

What kernels are written with is here; layers of operators take it from where it is defined.
"""

from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, Condition, free, full, once
from fitzroy.compiler.targets.edgetpu.kernels.contraction import Contraction, Lanes
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import (
    ACTIVATIONS,
    PARAMETERS,
    HostBuffer,
    to_host,
)
from fitzroy.compiler.targets.edgetpu.kernels.queues import Sending, Taking
from fitzroy.compiler.targets.edgetpu.kernels.tensor import (
    PLAIN,
    QUARTER,
    Axis,
    Nest,
    moves,
    single_bytes,
)
from fitzroy.compiler.targets.edgetpu.kernels.transfers import (
    consume,
    exchange_words,
    fill,
    pack,
    produce,
    unpack,
)
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import Vectors, WeightStream, send

__all__ = [
    "ACTIVATIONS",
    "PARAMETERS",
    "PLAIN",
    "QUARTER",
    "WHOLE",
    "Axis",
    "Condition",
    "Contraction",
    "HostBuffer",
    "Lanes",
    "Nest",
    "Sending",
    "Taking",
    "Vectors",
    "Walk",
    "WeightStream",
    "consume",
    "exchange_words",
    "fill",
    "free",
    "full",
    "moves",
    "once",
    "pack",
    "produce",
    "send",
    "single_bytes",
    "to_host",
    "unpack",
    "walk",
]
