"""Programs of probes as assembly text: pieces in forms of published programs.

A sketch begins and ends as published programs do, fetches its inputs, and sends its outputs. What
a probe is about is the only thing in it that need not be published.
"""

from __future__ import annotations

import json

from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.object_file import UNIT_BYTES
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.macros import AddressRegisters, add_to_address
from fitzroy.hw_models.isa.text import instruction_lines
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link

ROW_BYTES = BEAGLE.memories.wide.element_bytes
ROW_WORDS = BEAGLE.compute.lanes
INPUT_UNIT = BEAGLE.memories.activation_buffer.element_bytes
OUTPUT_UNIT = BEAGLE.limits.host_output_unit

FIRST_ROW = 0x100
"""Row of wide memory at which inputs of sketches begin."""

RESULT_ROW = 0x600
"""Row of wide memory from which outputs of sketches are sent."""

_AFTER_ISSUE = 18
"""Bundles from the issue of a descriptor to the next write of one, the least in published code."""

_CREDIT = 32764
"""Units that published programs let a pop be ahead of the infeed."""


class Sketch:
    """A program under construction.

    Args:
        handshake: whether the tiles report a second time before their first instruction.
        end_fence: whether a fence of the tiles stands before tokens are awaited at the end.
    """

    def __init__(self, *, handshake: bool = True, end_fence: bool = True) -> None:
        self._lines: list[str] = []
        self._sections: list[tuple[dict[str, object], list[str]]] = []
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._parameters = b""
        self._end_fence = end_fence
        self.tokens = [0, 0]
        """Ring tokens of channels A and B that the program has produced."""
        self._units = 0
        self._labels = 0
        self.asm("tile_fence tiles=all set=all idle=all signal")
        self.asm("scalar_fence clear=all set=all wait_tiles tiles=all idle=all")
        self.asm("scalar_fence set=avdata_pop+avdata_infeed idle=infeed+outfeed")
        if handshake:
            self.handshake()
        self.asm(f"scalar_fence set=avdata_infeed value={_CREDIT} idle=infeed+outfeed")
        self.asm("scalar_fence set=avdata_pop idle=infeed+outfeed")

    def asm(self, text: str) -> None:
        """Append assembly text."""
        self._lines.extend(line for line in text.strip("\n").splitlines())

    def label(self) -> str:
        """A label that no other line has."""
        self._labels += 1
        return f"L{self._labels}"

    # --- synchronization -------------------------------------------------------------------------

    def handshake(self) -> None:
        """Wait for all tiles and for the ring's streams."""
        self.asm("tile_fence tiles=all idle=all signal")
        self.asm("scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed")

    def fence(self) -> None:
        """Tiles finish what they have, and their flags become zero."""
        self.asm("tile_fence tiles=all set=local idle=all")

    def chunk(self, *, fence: bool = True) -> None:
        """End the chunk; the next one begins with a fence of the tiles."""
        self.asm("tile_fence tiles=all idle=all")
        self.asm("halt\nnop\nnop\nnop\nnop")
        self._sections.append(({"ends_chunk": True}, self._lines))
        self._lines = []
        if fence:
            self.fence()

    # --- host ------------------------------------------------------------------------------------

    def descriptor(
        self,
        kind: str,
        name: str,
        size: int,
        *,
        offset: int = 0,
        layer: int = 0,
        spaced: bool = True,
    ) -> None:
        """Ask for an input, or announce an output.

        Args:
            kind: ``input`` or ``output``.
            name: of the layer, which is declared when it is first used.
            size: bytes.
            offset: bytes before them in the layer.
            layer: bytes of the layer, 0 for `size`.
            spaced: whether the next descriptor is as far away as in published programs.
        """
        layers = self._inputs if kind == "input" else self._outputs
        layers.setdefault(name, layer or size)
        tag = {"input": 1, "output": 3}[kind]
        self.asm(
            f"""
            mov s10, high({kind}, "{name}")
            mov s11, low({kind}, "{name}")
            mov s5, s11
            mov s4, s10"""
        )
        if offset:
            address = AddressRegisters(low=5, high=4)
            for bundle in add_to_address(address, address, offset, partial=8):
                self._lines.extend(instruction_lines(bundle))
        self.issue(tag, size)
        if spaced:
            self.gap(_AFTER_ISSUE)

    def issue(self, tag: int, size: int) -> None:
        """Issue a descriptor of the address in s5 and s4."""
        self.asm(
            f"""
            mov s6, s5
            mov s7, s4
            descriptor address_low, s6
            mov s8, {size} | descriptor address_high, s7
            mov s9, {tag} | descriptor size, s8
            descriptor tag, s9
            issue"""
        )

    def gap(self, bundles: int) -> None:
        """Empty bundles."""
        self._lines.extend(["nop"] * bundles)

    def pop(self, size: int) -> None:
        """Take bytes of inputs from the host into the activation buffer."""
        units = size // INPUT_UNIT
        self.asm(
            f"""
            pop memory=activation popped=@0
                buffer: {self._units} [{units}*1]
                wait: avdata_infeed>={self._units}+1*i@0"""
        )

    def infeed(
        self, size: int, tiles: str = "r0c0", words: int = ROW_WORDS, *, turns: int = 0
    ) -> None:
        """Send bytes that were popped to tiles.

        Args:
            size: bytes.
            tiles: who receives them.
            words: of a row.
            turns: how often the address has gone round the buffer, which changes nothing.
        """
        units = size // INPUT_UNIT
        base = self._units + turns * BEAGLE.memories.activation_buffer.elements
        self.asm(
            f"""
            infeed memory=activation infed=@0 destination={tiles} row_words={words}
                buffer: {base} [{units}*1]
                wait: avdata_pop>={self._units + 1}+1*i@0"""
        )
        self._units += units

    def stream(self, data: bytes) -> None:
        """Ask for parameters, which are part of the package, and pop them.

        Args:
            data: whole units of 64 bytes.
        """
        units, room = len(data) // UNIT_BYTES, BEAGLE.memories.parameter_buffer.elements
        self._parameters = data
        self.asm(
            f"""
            pop popped=@0
                buffer: 0 [{units}*1]
                wait: parameter_infeed>={1 - room}+1*i@0
            mov s10, high(parameters)
            mov s11, low(parameters)
            mov s5, s11
            mov s4, s10"""
        )
        self.issue(2, len(data))
        self.gap(_AFTER_ISSUE)

    def consume(self, row: int, rows: int, tiles: str = "r0c0") -> None:
        """Store rows of channel A."""
        self.asm(f"ring_consume_a tiles={tiles}\n    wide: {row} [{rows}*1]")

    def load(self, rows: int, row: int = FIRST_ROW, tiles: str = "r0c0", name: str = "x") -> None:
        """Fetch an input of whole rows into wide memory of tiles."""
        size = rows * ROW_BYTES
        self.pop(size)
        self.descriptor("input", name, size)
        self.consume(row, rows, tiles)
        self.infeed(size, tiles)
        self.fence()
        self.handshake()

    # --- between the memories of a tile ----------------------------------------------------------

    def unpack(self, row: int, rows: int, word: int, tiles: str = "r0c0") -> None:
        """Copy two rows or more to consecutive words of narrow memory."""
        self.asm(
            f"""
            wide_to_narrow tiles={tiles} pack_level=2
                wide: {row} [{rows}*1]
                narrow: {word} [{ROW_WORDS}*1 {rows}*{ROW_WORDS}]"""
        )
        self.asm("tile_fence tiles=all idle=all")

    def pack(self, word: int, words: int, row: int = RESULT_ROW, tiles: str = "r0c0") -> None:
        """Copy words of narrow memory to rows."""
        rows = -(-words // ROW_WORDS)
        wide = f"{row} [{rows}*1]" if rows > 1 else f"{row}"
        self.asm("tile_fence tiles=all idle=all")
        self.asm(
            f"""
            narrow_to_wide tiles={tiles} pack_level=1
                narrow: {word} [{words}*1]
                wide: {wide}"""
        )
        if rows == 1:
            self.asm("    wait: mesh_south_in>=0+0*i@1")

    def scaling(self, row: int, entry: int, tiles: str = "r0c0") -> None:
        """Copy a row to 32 entries of scaling memory."""
        self.asm(
            f"""
            wide_to_narrow tiles={tiles} wide_to_narrow=@2 to_scaling pack_level=1
                wide: {row} [1*1]
                narrow: {entry} [32*1 1*64] ping(2, 32)
                wait: avdata>=-1+1*i@2 write"""
        )

    # --- outputs ---------------------------------------------------------------------------------

    def announce(self, row: int, size: int, tile: str = "r0c0") -> None:
        """Send rows of a tile to the outfeed, with a token of channel B."""
        rows = -(-size // ROW_BYTES)
        wide, tokens = f"{row}", 1
        if rows > 1:
            wide, tokens = f"{row} [{rows // 2}*1 2*{rows // 2}]", 2
        self.asm(
            f"""
            ring_produce tiles={tile} token=@1 channel=1 to_outfeed
                wide: {wide}
                wait: ring_producer_a>={signed16(self.tokens[0] - tokens + 1)}+1*i@1
                wait: ring_producer_b>={signed16(self.tokens[1])}+1*i@1"""
        )
        self.tokens[1] += tokens

    def outfeed(self, size: int) -> None:
        """Pass rows on to the host."""
        self.asm(
            f"""
            outfeed outfed=@1 row_words=64 to_host
                buffer: 0 [{size // OUTPUT_UNIT}*0]"""
        )

    def send(self, size: int, row: int = RESULT_ROW, tile: str = "r0c0", name: str = "y") -> None:
        """Send rows of a tile to an output, one row or an even number of them."""
        self.asm("tile_fence tiles=all idle=all")
        self.descriptor("output", name, size)
        self.outfeed(size)
        self.announce(row, size, tile)

    def result(self, word: int, size: int, tile: str = "r0c0", name: str = "y") -> None:
        """Send words of narrow memory to an output."""
        self.pack(word, size // 4, tiles=tile)
        self.send(size, tile=tile, name=name)

    # --- the end ---------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._end_fence:
            self.fence()
        a, b = self.tokens
        self.asm(
            f"""
            scalar_fence set=producer_a+producer_b wait=producer_a+producer_b idle=infeed+outfeed
                thresholds: thresholds=0,0,0,0,0,{signed16(a)},{signed16(b)}
            tile_fence tiles=all set=ring_producer_a+ring_producer_b idle=all signal
            scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed
            tile_fence tiles=all idle=all signal end=3
            scalar_fence clear=all wait_tiles tiles=all idle=infeed+outfeed
            mov s4, 0
            mov s5, 0"""
        )
        self.issue(4, 0)
        self.asm("halt end_program\nnop\nnop\nnop\nnop")

    def text(self, name: str) -> str:
        """The finished program as an object's listing."""
        lines, sections = list(self._lines), list(self._sections)
        self._end()
        sections.append(({}, self._lines))
        self._lines = lines
        head = [
            ".chip beagle",
            f'.object {{"name":{json.dumps(name)}}}',
            f".resources {json.dumps(_RESOURCES)}",
            *(f".input {json.dumps(_layer(*one, 'InputLayer'))}" for one in self._inputs.items()),
            *(
                f".output {json.dumps(_layer(*one, 'OutputLayer'))}"
                for one in self._outputs.items()
            ),
        ]
        if self._parameters:
            head.append('.operand {"name":"parameters","kind":1,"lanes":64}')
            head.append(f".data {self._parameters.hex()}")
        for options, body in sections:
            head.append(f".text {json.dumps(options)}")
            head.extend(body)
        return "\n".join(head) + "\n"


_RESOURCES = {
    "narrow_bytes": BEAGLE.memories.narrow.size,
    "staging": [{"tiles": 0xFFFF, "row": 0, "rows": BEAGLE.memories.wide.elements}],
    "scratch_bytes": 0,
    "batch_size": 1,
    "estimated_cycles": 0,
}


def _layer(name: str, size: int, kind: str) -> dict[str, object]:
    return {
        "name": name,
        "size_bytes": size,
        "y_dim": 1,
        "x_dim": 1,
        "z_dim": size,
        "data_type": 0,
        "numerics": {"zero_point": 0, "dequantization_factor": 1.0},
        "any_layer": {},
        "any_layer_type": kind,
    }


def packaged(text: str) -> PackageFile:
    """The package of an object's listing.

    Raises:
        FormatError: the text makes no object.
        LinkError: the object makes no program.
    """
    return link([parse_object(text)])[0]
