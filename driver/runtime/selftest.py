"""A small program that shows that a device works: it sends a row through a tile and back."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link

SIZE = 256
"""Bytes of the row."""

PROGRAM = """
.chip beagle
.object {"name":"echo"}
.resources {"narrow_bytes":0,"staging":[{"tiles":1,"row":2048,"rows":1}],"scratch_bytes":0,\
"batch_size":1,"estimated_cycles":0}
.input {"name":"x","size_bytes":256,"y_dim":8,"x_dim":8,"z_dim":4,"data_type":0,\
"numerics":{"zero_point":128,"dequantization_factor":0.5},"any_layer":{},\
"any_layer_type":"InputLayer"}
.output {"name":"y","size_bytes":256,"y_dim":1,"x_dim":1,"z_dim":256,"data_type":0,\
"numerics":{"zero_point":128,"dequantization_factor":0.5},"any_layer":{},\
"any_layer_type":"OutputLayer"}
.text {}
    tile_fence tiles=all set=all idle=all signal
    scalar_fence clear=all set=all wait_tiles tiles=all idle=all
    mov s1, low(input, "x")
    mov s2, high(input, "x")
    mov s3, low(output, "y")
    mov s4, high(output, "y")
    mov s5, 256 | descriptor address_low, s1
    mov s6, 1 | descriptor address_high, s2
    descriptor size, s5
    descriptor tag, s6
    issue
    mov s6, 3 | descriptor address_low, s3
    descriptor address_high, s4
    descriptor tag, s6
    issue
    pop memory=activation popped=@0
        buffer: 0 [32*1]
    ring_consume_a tiles=r0c0
        wide: 0x800 [1*1]
    infeed memory=activation destination=r0c0 row_words=64
        buffer: 0 [32*1]
        wait: avdata_pop>=1+1*i@0
    tile_fence tiles=r0c0 idle=ring_consume_a
    outfeed to_host row_words=64
        buffer: 0 [32*0]
    ring_produce tiles=r0c0 to_outfeed
        wide: 0x800 [1*1]
    tile_fence tiles=all idle=all signal end=3
    scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed
    mov s5, 0
    mov s6, 4 | descriptor address_low, s5
    descriptor address_high, s5
    descriptor size, s5
    descriptor tag, s6
    issue
    halt end_program
    nop
    nop
    nop
    nop
"""
"""Sends a row of input "x" to a tile, and from there to output "y"."""

_RUNS = 5


@cache
def package() -> PackageFile:
    """The program as a package."""
    return link([parse_object(PROGRAM)])[0]


def check(device: EdgeTpu) -> float:
    """Run the program several times.

    Returns:
        seconds of the last inference.

    Raises:
        DeviceError: the device fails, or gives back something else than it was given.
    """
    seconds = 0.0
    for turn in range(_RUNS):
        row: Array = (np.arange(SIZE) * 7 + turn).astype(np.uint8)
        began = time.perf_counter()
        answer = device.run(package(), {"x": row}).tensors["y"]
        seconds = time.perf_counter() - began
        wrong = int((answer != row).sum())
        if wrong:
            raise DeviceError(
                "the device computes something else",
                reason=f"{wrong} of {SIZE} bytes differ",
                where=device.description,
            )
    return seconds
