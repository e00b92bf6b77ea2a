"""``inspect`` on packages, executables and objects made here, and on all of the corpus."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import Run
from tests.linker.edgetpu import small_object
from tests.support import corpus, corpus_params

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.cli.describe import describe
from fitzroy.cli.describe_layers import layer
from fitzroy.cli.inspect_summary import show_summary
from fitzroy.cli.terminal import Terminal
from fitzroy.formats import darwinn, flat, tflite
from fitzroy.formats.darwinn import (
    DataType,
    DmaDescriptorHint,
    Executable,
    InputLayer,
    Layer,
    NumericsConstants,
    OutputLayer,
    PackageFile,
)
from fitzroy.formats.object_file import ObjectFile, write_object
from fitzroy.hw_models.isa.program import assemble, chunk
from fitzroy.hw_models.isa.scalar import Branch, Halt
from fitzroy.linker.layouts import output_layout, output_shape_info
from fitzroy.linker.packages.container import wrapped
from fitzroy.linker.packages.darwinn import link

Document = dict[str, Any]


def _package(rows: int = 2, tile: int = 0) -> PackageFile:
    return link([small_object(rows=rows, tile=tile)])[0]


def _described(file: PackageFile) -> Document:
    return describe(darwinn.write_package(file), "p.dwn")


# --- packages ------------------------------------------------------------------------------------


def test_packages() -> None:
    document = _described(_package(rows=3, tile=6))
    assert document["kind"] == "DarwiNN package"
    assert document["min_runtime_version"] == 14
    assert document["diagnostics"] == []
    assert document["parameter_caching_token"].startswith("0x")
    main, caching = document["executables"]
    assert (main["type"], caching["type"]) == ("EXECUTION_ONLY", "PARAMETER_CACHING")
    assert main["parameter_caching_token"] == document["parameter_caching_token"]
    assert main["narrow_bytes"] == 64
    assert main["stored_cycles"] is None
    [chunk] = main["chunks"]
    assert chunk["bytes"] == 16 * chunk["bundles"] == 16 * main["instructions"]["bundles"]
    assert chunk["addresses"] == len(main["addresses"]) == 4


def test_memory_of_tiles() -> None:
    memory = _described(_package(rows=3, tile=6))["memory"]
    assert memory["narrow"] == {"bytes": 64, "of": 196_608}
    assert memory["wide"]["rows"] == 2080
    assert memory["wide"]["parameters"] == [[0] * 4, [0, 0, 3, 0], [0] * 4, [0] * 4]
    assert memory["wide"]["staging"] == [[0] * 4] * 4
    assert memory["parameters"]["cached_bytes"] == 3 * 256
    assert memory["parameters"]["streamed_bytes"] == 0
    assert memory["parameters"]["tile_bytes"][1] == [0, 0, 3 * 256, 0]


def test_operands_that_are_loaded() -> None:
    main, caching = _described(_package(rows=3, tile=6))["executables"]
    assert main["loads"] is None
    assert caching["streams"] is None
    assert main["streams"] == {"infeeds": [], "fault": None}
    assert caching["loads"]["fault"] is None
    [operand] = caching["loads"]["operands"]
    assert operand == {
        "bytes": 768,
        "rows": 3,
        "lanes": 64,
        "prefix_words": 0,
        "segments": [{"tile": 6, "row": 0, "rows": 3, "offset": 0, "bytes": 768}],
    }


def test_instruction_statistics() -> None:
    statistics = _described(_package())["executables"][0]["instructions"]
    opcodes = statistics["opcodes"]
    assert opcodes["RING_PRODUCE"] == {
        "count": 1,
        "bundles": 4,
        "share": round(4 / statistics["bundles"], 6),
    }
    assert sum(item["bundles"] for item in opcodes.values()) == statistics["bundles"]
    assert sum(item["count"] for item in opcodes.values()) == statistics["count"]
    bundles = [item["bundles"] for item in opcodes.values()]
    assert bundles == sorted(bundles, reverse=True)


def test_addresses_that_the_driver_fills() -> None:
    addresses = _described(_package())["executables"][0]["addresses"]
    found = {(item["buffer"], item["name"], item["half"]) for item in addresses}
    assert found == {
        ("input", "in", "lower"),
        ("input", "in", "upper"),
        ("output", "out", "lower"),
        ("output", "out", "upper"),
    }
    assert all(item["bundle"] == item["bit"] // 128 for item in addresses)


def test_old_packages_are_warned_of(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    file.package = dataclasses.replace(file.package, min_runtime_version=9)
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    [diagnostic] = fitzroy("inspect", "p.dwn", "--json").json["diagnostics"]
    assert (diagnostic["severity"], diagnostic["code"]) == ("warning", "darwinn-old-package")
    assert "warning: the package is for runtime version 9" in fitzroy("inspect", "p.dwn").err


# --- the host's script ---------------------------------------------------------------------------


def test_scripts_are_compared_with_the_program() -> None:
    script = _described(_package())["executables"][0]["script"]
    assert script["deterministic"] is True
    assert [step["step"] for step in script["steps"]] == [
        "send_instructions",
        "send_input",
        "receive_output",
        "await_interrupt",
    ]
    assert script["steps"][1] == {
        "step": "send_input", "name": "in", "batch": 0, "offset": 0, "size": 64,
    }  # fmt: skip
    assert script["derived"] == {
        "equal": True,
        "deterministic": True,
        "steps": None,
        "fault": None,
    }


def test_scripts_that_the_program_does_not_ask_for(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    hints = file.main.dma_hints
    assert hints is not None
    [transfer] = [
        hint.any_hint
        for hint in hints.hints or ()
        if isinstance(hint.any_hint, DmaDescriptorHint) and hint.direction == 0
    ]
    transfer.size_in_bytes = 32
    derived = _described(file)["executables"][0]["script"]["derived"]
    assert derived["equal"] is False
    assert [step["size"] for step in derived["steps"] if "size" in step] == [64, 64]
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    out = fitzroy("inspect", "p.dwn", "--full").out
    assert "script of the host, not as the program asks for it" in out
    assert "script of the host that the program asks for" in out


def test_packages_without_script(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    file.main.dma_hints = None
    script = _described(file)["executables"][0]["script"]
    assert script["steps"] is None
    assert script["derived"]["equal"] is None
    assert len(script["derived"]["steps"]) == 4
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    assert "the program asks for" in fitzroy("inspect", "p.dwn", "--full").out


def test_programs_that_cannot_be_followed_are_described(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    [chunk] = file.main.instruction_bitstreams or []
    chunk.field_offsets = []
    document = _described(file)["executables"][0]
    derived = document["script"]["derived"]
    assert (derived["equal"], derived["steps"]) == (None, None)
    assert derived["fault"]["kind"] == "LinkError"
    assert document["instructions"]["count"]
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    result = fitzroy("inspect", "p.dwn", "--full")
    assert result.code == 0
    assert "script of the host, not verified" in result.out
    assert "warning: the program cannot be followed" in result.err


def test_parameters_that_cannot_be_followed(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    assert file.caching is not None
    file.caching.instruction_bitstreams = file.main.instruction_bitstreams
    file.caching.input_layers, file.caching.output_layers = (
        file.main.input_layers,
        file.main.output_layers,
    )
    document = _described(file)
    # The program loads nothing: that is a finding, and no fault.
    assert document["executables"][1]["loads"] == {"operands": [], "fault": None}
    assert document["memory"]["parameters"]["tile_bytes"] == [[0] * 4] * 4
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    assert "0 operands loaded" in fitzroy("inspect", "p.dwn", "--full").out


# --- layers --------------------------------------------------------------------------------------


def _layer(extent: tuple[int, int, int], **fields: Any) -> Layer:
    y, x, z = extent
    values = {"name": "y", "y_dim": y, "x_dim": x, "z_dim": z, "size_bytes": y * x * z, **fields}
    return Layer(**values)


def test_layers_have_the_numbers_of_their_elements() -> None:
    numerics = NumericsConstants(zero_point=100, dequantization_factor=0.5)
    for element, dtype, zero_point in (
        (DataType.FIXED_POINT8, "uint8", 100),
        (DataType.SIGNED_FIXED_POINT8, "int8", -28),
        (DataType.SIGNED_FIXED_POINT16, "int16", 100 - 32768),
    ):
        item = _layer((1, 1, 3), data_type=int(element), numerics=numerics, any_layer=InputLayer())
        document = layer(item)
        assert document["dtype"] == dtype
        assert document["quantization"] == {
            "scale": [0.5],
            "zero_point": [zero_point],
            "axis": None,
        }
        assert document["layout"] is None
    assert "quantization" not in layer(_layer((1, 1, 3)))


def test_layouts() -> None:
    layout, size = output_layout((5, 8, 3), 1)
    document = layer(_layer((5, 8, 3), size_bytes=size, any_layer=OutputLayer(layout=layout)))
    assert document["layout"]["tiles"] == 16
    assert document["layout"]["rows"] == [
        {"tile": 0, "first": 0, "last": 1},
        {"tile": 4, "first": 2, "last": 2},
        {"tile": 8, "first": 3, "last": 3},
        {"tile": 12, "first": 4, "last": 4},
    ]
    assert [run["tile"] for run in document["layout"]["columns"]] == [0, 1, 2, 3]
    # Rows of two pixels of 3 elements, each padded to 4 bytes.
    assert document["layout"]["tile_bytes"] == [16] * 4 + [8] * 12
    assert sum(document["layout"]["tile_bytes"]) == size


def test_layouts_of_vectors() -> None:
    layout, size = output_layout((1, 1, 130), 1)
    item = _layer((1, 1, 130), size_bytes=size, any_layer=OutputLayer(layout=layout))
    # The last block has 2 channels, padded to the 8 bytes that the device sends.
    assert layer(item)["layout"]["tile_bytes"] == [64, 64, 8] + [0] * 13


@pytest.mark.parametrize("tile", [-5, 16])
def test_layouts_of_vectors_may_say_anything(tile: int) -> None:
    layout, size = output_layout((1, 1, 8), 1)
    layout.y_coordinate_to_linear_tile_id_map = np.array([tile], np.int32)
    item = _layer((1, 1, 8), size_bytes=size, any_layer=OutputLayer(layout=layout))
    assert layer(item)["layout"]["tile_bytes"] == [0] * 16
    layout.y_coordinate_to_linear_tile_id_map = None
    assert layer(item)["layout"] is None


def test_layouts_of_16_bits() -> None:
    layout, size = output_layout((4, 4, 1), 2)
    item = _layer(
        (4, 4, 1),
        size_bytes=size,
        data_type=int(DataType.SIGNED_FIXED_POINT16),
        any_layer=OutputLayer(layout=layout),
    )
    assert layer(item)["layout"]["tile_bytes"] == [4] * 16


def test_slices() -> None:
    info, size = output_shape_info((4, 4, 4), 1)
    item = _layer((4, 4, 4), size_bytes=size, any_layer=OutputLayer(shape_info=info))
    document = layer(item)
    assert document["layout"] is None
    assert len(document["slices"]) == 16
    assert document["slices"][5] == {
        "ranges": [[0, 0], [1, 1], [1, 1], [0, 3]],
        "strides": [4, 4, 4, 1],
        "offset": 20,
    }


def test_element_types_must_exist() -> None:
    with pytest.raises(FormatError, match="DataType 77 is unknown"):
        layer(_layer((1, 1, 1), data_type=77))


def test_layouts_are_shown_as_a_grid(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    [output] = file.main.output_layers or []
    layout, size = output_layout((4, 4, 4), 1)
    file.main.output_layers = [
        dataclasses.replace(
            output, y_dim=4, x_dim=4, z_dim=4, size_bytes=size, any_layer=OutputLayer(layout=layout)
        )
    ]
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    out = fitzroy("inspect", "p.dwn", "--full").out
    assert "     x 0  x 1  x 2  x 3\ny 0    4    4    4    4\n" in out


# --- files ---------------------------------------------------------------------------------------


def test_text_of_packages(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(_package(rows=3, tile=6)))
    result = fitzroy("inspect", "p.dwn", "--full")
    assert (result.code, result.err) == (0, "")
    for text in (
        "kind  DarwiNN package",
        "runtime        version 14 or later",
        "narrow memory  64 of 196,608 bytes per tile (0%)",
        "parameters     768 B cached, 0 B streamed",
        "row 1  0 B (0 + 0)  0 B (0 + 0)  768 B (3 + 0)  0 B (0 + 0)",
        "EXECUTION_ONLY",
        "input 0   in    uint8[1,1,64]  scale 0.5, zero point 128     64",
        "addresses   4 fields for input 'in', output 'out'",
        "script of the host, as the program asks for it",
        "send input 'in' ",
        "1 operand loaded into wide memory",
        "rows 0..2 of tile 6",
    ):
        assert text in result.out


def test_summary_of_packages(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(_package(rows=3, tile=6)))
    result = fitzroy("inspect", "p.dwn")
    assert "fits    768 B of parameters stay on the chip" in result.out
    assert "input   in: uint8[1,1,64], scale 0.5, zero point 128" in result.out
    assert "script" not in result.out


def test_summary_of_executables(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "e.bin").write_bytes(darwinn.write_executable(_package().main))
    assert "parameters are cached by another executable" in fitzroy("inspect", "e.bin").out


def test_summary_of_compiled_models(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(tflite.write_model(wrapped(_package())))
    out = fitzroy("inspect", "m.tflite").out
    assert re.search(r"^on the chip  1 package, ", out, re.MULTILINE)
    assert re.search(r"^on the host  nothing$", out, re.MULTILINE)


def test_summary_of_packages_that_stream(capsys: pytest.CaptureFixture[str]) -> None:
    document = _described(_package())
    document["memory"]["parameters"]["streamed_bytes"] = 2048
    show_summary(Terminal(), document, "p.dwn", 100)
    wanted = "not whole: 2.0 KiB of parameters come with every inference; 512 B stay on it"
    assert wanted in capsys.readouterr().out


def test_tables(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(file))
    document = fitzroy("inspect", "p.dwn", "--tables").json
    assert document["package"]["min_runtime_version"] == 14
    assert len(document["executables"]) == 2
    (tmp_path / "e.bin").write_bytes(darwinn.write_executable(file.main))
    assert fitzroy("inspect", "e.bin", "--tables").json["chip"] == "beagle"
    (tmp_path / "m.o").write_bytes(write_object(small_object()))
    assert fitzroy("inspect", "m.o", "--tables").json["producer"] == "test"


def test_executables_alone(fitzroy: Run, tmp_path: Path) -> None:
    file = _package()
    (tmp_path / "e.bin").write_bytes(darwinn.write_executable(file.main))
    document = fitzroy("inspect", "e.bin", "--json").json
    assert document["kind"] == "DarwiNN executable"
    assert [item["type"] for item in document["executables"]] == ["EXECUTION_ONLY"]
    # Which rows hold its parameters is in the executable that loads them.
    assert document["memory"]["wide"]["parameters"] is None
    assert document["memory"]["parameters"]["cached_bytes"] is None
    assert "cached by another executable" in fitzroy("inspect", "e.bin", "--full").out
    assert file.caching is not None
    caching = describe(darwinn.write_executable(file.caching), "c.bin")
    assert caching["memory"]["parameters"]["cached_bytes"] == 512
    assert caching["memory"]["wide"]["parameters"][0] == [2, 0, 0, 0]


def test_compiled_models(fitzroy: Run, tmp_path: Path) -> None:
    package = _package()
    data = tflite.write_model(wrapped(package))
    (tmp_path / "m.tflite").write_bytes(data)
    [graph] = fitzroy("inspect", "m.tflite", "--json").json["subgraphs"]
    [operator] = graph["operators"]
    document = operator["package"]
    written = darwinn.write_package(package)
    assert data[document["offset"] : document["offset"] + document["bytes"]] == written
    assert document["options"] == {"1": 0, "5": -1, "6": [18], "7": []}
    alone = describe(written, "p.dwn")
    assert {key: document[key] for key in alone if key in document and key != "bytes"} == {
        key: value for key, value in alone.items() if key not in ("file", "kind", "bytes")
    }
    out = fitzroy("inspect", "m.tflite", "--full").out
    assert "1 operator: 1 on the Edge TPU, 0 on the CPU" in out
    assert "and a package of" in out
    assert "package of operator 0" in out


def test_objects(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "m.o").write_bytes(write_object(small_object(rows=3, tile=15)))
    document = fitzroy("inspect", "m.o", "--json").json
    assert document["kind"] == "FitzRoy object"
    assert (document["name"], document["producer"], document["chip"]) == ("small", "test", "beagle")
    [section] = document["sections"]
    assert (section["condition"], section["operand"], section["fixups"]) == ("always", None, 5)
    assert section["bundles"] == document["instructions"]["bundles"]
    [operand] = document["operands"]
    assert (operand["name"], operand["kind"], operand["bytes"]) == ("weights", "convolution", 768)
    assert operand["runs"] == [{"tile": 15, "row": 0, "rows": 3, "bytes": 768, "group": 0}]
    memory = document["memory"]
    assert memory["wide"]["parameters"][3] == [0, 0, 0, 3]
    assert memory["wide"]["staging"] == [[10] * 4] * 4
    assert memory["parameters"]["cached_bytes"] == 768
    assert {fixup["value"] for fixup in document["fixups"]} == {
        'low(input, "in")',
        'high(input, "in")',
        'low(output, "out")',
        'high(output, "out")',
        'row("weights")',
    }
    assert len(document["symbols"]) == 3
    out = fitzroy("inspect", "m.o").out
    assert "weights, convolution" in out
    assert "rows 0..2 of tile 15" in out


# --- faults --------------------------------------------------------------------------------------


def _with(change: Callable[[Executable], None]) -> bytes:
    file = _package()
    change(file.main)
    return flat.encode(file.main)


def _no_opcode(executable: Executable) -> None:
    [chunk] = executable.instruction_bitstreams or []
    chunk.bitstream = np.full(32, 0xFF, np.uint8)
    chunk.field_offsets = []


def _other_chip(executable: Executable) -> None:
    executable.chip = "darwin"


def _wrong_direction(executable: Executable) -> None:
    assert executable.dma_hints is not None
    for hint in executable.dma_hints.hints or ():
        hint.direction = 1 - hint.direction


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_no_opcode, FormatError, "EXECUTION_ONLY, chunk 0"),
        (_wrong_direction, FormatError, "direction"),
        (_other_chip, UnsupportedError, "chip 'darwin'"),
    ],
)
def test_faults(
    change: Callable[[Executable], None], error: type[FitzroyError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        describe(_with(change), "x.bin")
    assert "x.bin" in str(caught.value)


def test_damaged_packages_exit_with_3(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x10\0\0\0DWN1" + bytes(32))
    for arguments in (("--json",), ("--tables",), ()):
        assert fitzroy("inspect", "x.bin", *arguments).code == 3


def test_layouts_of_far_too_many_parts() -> None:
    layout, size = output_layout((4, 4, 4), 1)
    layout.y_coordinate_to_linear_tile_id_map = np.arange(3000, dtype=np.int32)
    layout.x_coordinate_to_linear_tile_id_map = np.arange(3000, dtype=np.int32)
    item = _layer((4, 4, 4), size_bytes=size, any_layer=OutputLayer(layout=layout))
    source = small_object()
    broken = ObjectFile(
        **{name: getattr(source, name) for name in ("text", "operands", "symbols", "inputs")},
        outputs=[*(source.outputs or ()), item],
    )
    with pytest.raises(FormatError, match="more than 65536 parts"):
        describe(write_object(broken), "m.o")


def test_programs_without_end_are_given_up() -> None:
    file = _package()
    [stream] = file.main.instruction_bitstreams or []
    stream.bitstream = np.frombuffer(assemble(chunk([Branch(offset=0), Halt()])), np.uint8)
    stream.field_offsets = []
    derived = _described(file)["executables"][0]["script"]["derived"]
    assert derived["fault"]["kind"] == "LinkError"
    assert "does not end within" in derived["fault"]["reason"]


# A flipped bit is found, or it is in something that only the chip could judge.
@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_give_no_other_errors(seed: int) -> None:
    random = np.random.default_rng(seed)
    original = (
        darwinn.write_package(_package()),
        darwinn.write_executable(_package().main),
        write_object(small_object()),
        tflite.write_model(wrapped(_package())),
    )[seed]
    found = {"described": 0, "refused": 0}
    for _ in range(60):
        data = bytearray(original)
        # Most of a file is padding in front of aligned vectors.
        places = np.flatnonzero(np.frombuffer(original, np.uint8))
        data[random.choice(places)] ^= 1 << int(random.integers(8))
        try:
            describe(bytes(data), "x")
            found["described"] += 1
        except FitzroyError:
            found["refused"] += 1
    assert min(found.values()) > 0


# --- corpus --------------------------------------------------------------------------------------


def _check(document: Document, package: Document) -> None:
    """What holds in all compiled models."""
    for executable in package["executables"]:
        derived = executable["script"]["derived"]
        assert (derived["equal"], derived["fault"]) == (True, None)
        assert executable["chip"] == "beagle"
        for output in executable["outputs"]:
            assert sum(output["layout"]["tile_bytes"]) == output["size_bytes"]
        for found in (executable["loads"], executable["streams"]):
            assert found is None or found["fault"] is None
        if executable["loads"] is not None:
            operands = executable["loads"]["operands"]
            assert sum(item["bytes"] for item in operands) == executable["parameter_bytes"]
    memory = package["memory"]
    assert memory["narrow"]["bytes"] <= memory["narrow"]["of"]
    parameters = memory["wide"]["parameters"]
    if parameters is not None:
        for rows, staging in zip(parameters, memory["wide"]["staging"], strict=True):
            for used, reserved in zip(rows, staging, strict=True):
                assert used + reserved <= memory["wide"]["rows"], document["file"]


@pytest.mark.long
@pytest.mark.parametrize("file", corpus_params("**/*edgetpu.tflite", quick=8))
def test_compiled_models_of_the_corpus(
    fitzroy: Run, file: Path, record_property: Callable[[str, object], None]
) -> None:
    result = fitzroy("inspect", file, "--json")
    assert result.code == 0
    document = result.json
    packages = [
        operator["package"]
        for subgraph in document["subgraphs"]
        for operator in subgraph["operators"]
        if "package" in operator
    ]
    assert packages
    for package in packages:
        _check(document, package)
        executables = package["executables"]
        record_property("executables", len(executables))
        print(
            f"{file.name}: {len(executables)} executables,"
            f" {sum(item['instructions']['count'] for item in executables):,} instructions"
        )
    text = fitzroy("inspect", file, "--full")
    assert (text.code, text.err) == (0, "")


@pytest.mark.parametrize("file", corpus_params("**/*.executable.bin", quick=3))
def test_executables_of_the_corpus(fitzroy: Run, file: Path) -> None:
    result = fitzroy("inspect", file, "--json")
    assert result.code == 0
    _check(result.json, result.json)
    assert fitzroy("inspect", file).code == 0


@pytest.mark.corpus
def test_figures_of_a_compiled_model(fitzroy: Run) -> None:
    path = corpus() / "coral" / "mobilenet_v1_0.25_128_quant_edgetpu.tflite"
    [graph] = fitzroy("inspect", path, "--json").json["subgraphs"]
    package = graph["operators"][0]["package"]
    main, caching = package["executables"]
    assert package["memory"]["narrow"]["bytes"] == 8996
    assert package["memory"]["parameters"]["cached_bytes"] == caching["parameter_bytes"] == 566_912
    assert main["instructions"]["bundles"] == 10_627
    assert len(caching["loads"]["operands"]) == 32
    out = fitzroy("inspect", path, "--full").out
    assert "and 16 more operands; --json shows all" in out
    assert "output 0: 64 bytes on tiles 0..14, 48 bytes on tile 15" in out
