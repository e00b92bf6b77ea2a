"""Timelines of all compiled models, and the model's error where real devices were measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import hosts
from benchmarks.support import ROOT, read_results
from benchmarks.timing import (
    LARGEST_ERROR,
    MEAN_ERROR,
    Program,
    calibration,
    calibration_path,
    compare,
    part_of,
    programs,
    summary,
)
from benchmarks.timing_pages import hosts as host_page
from benchmarks.timing_pages import timing as page
from tests.hw_models.test_timing import check_timeline
from tests.support import corpus, corpus_params

from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.occupancy import phase_numbers
from fitzroy.hw_models.edgetpu.recording import Dispatched, Streamed
from fitzroy.hw_models.edgetpu.timing import simulate
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.measurement.calibration import MOST_CONSTANTS

pytestmark = pytest.mark.corpus

JUDGES = 46
"""Rows that judge, with a program in the corpus and a model of their host."""


@pytest.mark.long
@pytest.mark.parametrize("path", corpus_params("**/*edgetpu*.tflite", quick=10, seed=3))
def test_every_compiled_model_has_a_timeline(path: Path) -> None:
    for op in custom_op.extract(tflite.read_model(path.read_bytes()), path.name):
        package = op.read()
        inputs = {
            name: np.zeros(layer.packed_bytes * layer.execution_count_per_inference, np.uint8)
            for name, layer in package.main.inputs.items()
        }
        stages = SimulatedDevice().start(package, inputs, record=True).finish().stages
        for stage in stages:
            assert stage.recording is not None
            timeline = simulate(stage.recording, stage.chunk_sizes)
            check_timeline(timeline)
            kept = [
                number
                for number, (_, entry) in zip(
                    phase_numbers(stage.recording), stage.recording.entries, strict=True
                )
                if isinstance(entry, Streamed)
                or (
                    isinstance(entry, Dispatched)
                    and not isinstance(entry.issue.instruction, TileFence)
                )
            ]
            assert [item.phase for item in timeline.issued] == kept
            sent = [item.size for item in timeline.transfers if item.kind == "instructions"]
            assert sent == stage.chunk_sizes
            # No tile can compute more than its multipliers do.
            compute = BEAGLE.compute
            most = timeline.cycles * compute.multipliers * compute.lanes
            for tile in range(16):
                macs = sum(item.macs for item in timeline.issued if item.tiles >> tile & 1)
                assert macs <= most
        link = BEAGLE.hosts[timeline.host].link
        streamed = sum(phase.streamed for phase in timeline.phases)
        assert timeline.total >= streamed / link


@pytest.mark.long
@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_model_is_as_exact_as_it_has_to_be(everything: bool) -> None:
    corpus()
    if not calibration_path().is_file():
        pytest.skip(f"no measurements at {calibration_path()}")
    content = calibration()
    known = programs(content)
    if not everything:
        known = {number: one for number, one in known.items() if "posenet" not in one.name}
    rows = compare(content, known, parts=("judge",))
    judged = summary(rows)
    assert judged["rows"] == JUDGES - (not everything)
    assert judged["mean"] <= MEAN_ERROR
    assert judged["largest"] <= LARGEST_ERROR
    # The page says what is true.
    results = read_results("timing")
    modelled = {(row["model"], row["host"]): row["modelled"] for row in results["rows"]}
    assert {(row.model, row.host): row.modelled for row in rows} == pytest.approx(
        {(row.model, row.host): modelled[row.model, row.host] for row in rows}
    )
    assert page(results) == (ROOT / "docs" / "timing.md").read_text()


def test_no_row_both_calibrates_and_judges() -> None:
    if not calibration_path().is_file():
        pytest.skip(f"no measurements at {calibration_path()}")
    parts = {file["file"].split("/")[-1]: part_of(file["file"]) for file in calibration()["files"]}
    assert parts["model_padding_stride_64x64x3_edgetpu.tflite"] == "calibrate"
    assert parts["model_padding_64x64x3_edgetpu.tflite"] == "judge"
    assert parts["model_conv_128x128x3x32x7x50_edgetpu.tflite"] == "calibrate"
    assert parts["model_conv_128x128x3x32x7x75_edgetpu.tflite"] == "judge"
    assert parts["model_mobilenet_v2_w_fc_224x224x3_edgetpu.tflite"] == "calibrate"
    assert parts["dense_1024_edgetpu.tflite"] == "other"


@pytest.mark.long
def test_a_bigger_share_of_data_makes_a_slower_host_slower() -> None:
    path = corpus() / "layers" / "model_stride_64x64x3_edgetpu.tflite"
    program = Program(path)
    times = {host: program.time("max", host).total for host in BEAGLE.hosts}
    slower = [name for name in sorted(times, key=lambda host: times[host]) if "jetson" in name]
    assert slower == ["jetson_nano_10w_usb3", "jetson_nano_5w_usb3", "jetson_nano_10w_usb2"]
    assert times["dev_board_pcie"] < times["jetson_nano_10w_usb3"]
    assert times["raspberry_pi_4_usb3"] < times["raspberry_pi_3_usb2"]
    assert times["dev_board_pcie"] < times["dev_board_mini_usb2"]


def test_drivers_need_different_times() -> None:
    path = corpus() / "layers" / "model_padding_64x64x3_edgetpu.tflite"
    stage = Program(path).stage
    assert stage.recording is not None
    times = {
        driver: simulate(stage.recording, stage.chunk_sizes, driver=driver).total
        for driver in BEAGLE.drivers
    }
    # Large reads make up for all else where outputs take most of the time.
    assert times["fitzroy"] < times["libedgetpu"]


@pytest.mark.long
def test_rows_that_were_not_fitted_are_predicted() -> None:
    """The page says what is true of one host, and that few constants were fitted."""
    corpus()
    if not hosts.rows_path().is_file():
        pytest.skip(f"no published times at {hosts.rows_path()}")
    results = read_results("hosts")
    assert host_page(results) == (ROOT / "docs" / "hosts.md").read_text()
    # Its rate of parameters is one constant more.
    assert all(len(names) + 1 <= MOST_CONSTANTS for names in hosts.FITTED.values())
    host, model = "x86_workstation_usb3", "mobilenet_v1_0.25_128_quant"
    (row,) = [row for row in results["rows"] if (row["host"], row["model"]) == (host, model)]
    (program,) = hosts.programs(model)
    assert row["modelled"] == pytest.approx(program.time("max", host).total / 1000)
    assert abs(row["judging"]) < hosts.LARGEST_ERROR


def test_programs_in_a_row_hand_data_on_at_no_cost() -> None:
    corpus()
    parts = [Program(corpus() / "templates" / f"dense_{n}_edgetpu.tflite") for n in (256, 1024)]
    host = BEAGLE.hosts["mac_usb3"]
    first, second = (part.time("max", "mac_usb3").total for part in parts)
    joined = hosts.sample("both", parts, "max", "mac_usb3", 1.0)
    handed = 256 * host.output_byte / 1000 + host.output_piece / 1000 + 1024 / host.link
    assert joined.modelled == pytest.approx(first + second - host.fixed * 1000 - handed)
    assert joined.terms["fixed"] == 1000
    assert joined.terms["output_byte"] == pytest.approx(1.024)
