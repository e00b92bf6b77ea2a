"""Evaluations over small data sets: data, metrics, records, and who computes."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fitzroy
from fitzroy.base.errors import DeviceError, FormatError, UsageError
from fitzroy.evaluation import Evaluation, Subject, Task, evaluate_model, workers
from fitzroy.evaluation.data import Box, Data, Example, open_data
from fitzroy.evaluation.metrics import METRICS
from fitzroy.evaluation.records import Records

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "models" / "digits.tflite"
DETECTOR = EXAMPLES / "detector"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digit classifier for the Edge TPU."""
    path = tmp_path_factory.mktemp("model") / "digits_edgetpu.tflite"
    path.write_bytes(fitzroy.compile(DIGITS, target="edgetpu").data)
    return path


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder for each digit; the last of them has the picture of another one, too."""
    folder = tmp_path / "digits"
    for picture in sorted((EXAMPLES / "images").glob("digit_*.png")):
        kind = folder / picture.stem.split("_")[1]
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, kind)
    shutil.copy(folder / "0" / "digit_0_9.png", folder / "9" / "zero.png")
    return folder


def task(model: Path, data: Path, *metrics: str, **more: Any) -> Task:
    """An evaluation on the twin of the chip."""
    subject = Subject(str(model), f"twin:{DIGITS}")
    return Task(subject, str(data), metrics or ("top1",), **more)


# --- data ----------------------------------------------------------------------------------------


def test_folders_are_classes(digits: Path) -> None:
    data = open_data(str(digits))
    assert len(data) == 11
    assert [item.label for item in data.examples] == [*map(str, range(10)), "9"]
    assert data.examples[0].name == "0/digit_0_9.png"
    assert [item.label for item in open_data(str(digits), most=3).examples] == ["0", "3", "7"]


def test_files_without_classes(digits: Path) -> None:
    data = open_data(str(digits / "9"))
    assert [(item.name, item.label) for item in data.examples] == [
        ("digit_9_4.png", ""),
        ("zero.png", ""),
    ]


def test_tables(digits: Path) -> None:
    table = digits / "list.csv"
    table.write_text("file,label\n0/digit_0_9.png,0\n\n9/zero.png,9\n")
    data = open_data(str(table))
    assert [item.label for item in data.examples] == ["0", "9"]
    assert data.examples[1].files[""] == str(digits / "9" / "zero.png")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("x.csv", b"", "the first row is"),
        ("x.csv", b"label\n1\n", "the first row is"),
        ("x.csv", b"file,label\na.png\n", "row 2 has 1 values, the first one 2"),
        ("x.csv", b'file\n"a\n', "no table"),
        ("x.csv", b"\xff\xfe", "UTF-8"),
        ("x.json", b"[]", "COCO"),
        ("x.json", b'{"images":[{"file_name":1}],"categories":[]}', "COCO"),
        ("x.json", b'{"images":1,"categories":[]}', "COCO"),
        ("x.json", b"[" * 100_000, "COCO"),
        ("x.npz", b"PK\x03\x04", "x.npz"),
    ],
)
def test_malformed_data(tmp_path: Path, name: str, content: bytes, match: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match=match):
        open_data(str(path))


def test_arrays_of_other_lengths(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(FormatError, match="an entry for each example"):
        open_data(str(path))


def test_what_is_no_data(tmp_path: Path) -> None:
    for path in (tmp_path / "x.txt", tmp_path / "x.csv"):
        with pytest.raises(UsageError):
            open_data(str(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="0 examples"):
        open_data(str(tmp_path / "empty"))


# --- metrics -------------------------------------------------------------------------------------


def test_classification(model: Path, digits: Path) -> None:
    found = evaluate_model(task(model, digits, "top1", "top5"))
    assert found.figures["top1"]["top1"] == 10 / 11
    assert 10 / 11 <= found.figures["top5"]["top5"] <= 1
    assert found.ran_on == ("the twin of the chip, which computes digits.tflite",)


def test_names_of_classes(model: Path, digits: Path, tmp_path: Path) -> None:
    (digits / "9").rename(digits / "nine")
    with pytest.raises(UsageError, match="no class 'nine'"):
        evaluate_model(task(model, digits))
    labels = tmp_path / "labels.txt"
    labels.write_text("9 nine\n")
    assert (
        evaluate_model(task(model, digits, labels=str(labels))).figures["top1"]["top1"] == 10 / 11
    )


def test_classes_that_are_missing(model: Path, digits: Path) -> None:
    with pytest.raises(UsageError, match=r"'digit_9_4.png' has none"):
        evaluate_model(task(model, digits / "9"))


def test_arrays_as_examples(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "x.npz"
    pixels = rng.integers(-128, 128, (5, 8, 8, 1), np.int8)
    np.savez(path, x=pixels)
    found = evaluate_model(
        task(model, path, "agreement", "psnr", against=Subject(str(DIGITS)))
    ).figures
    assert found["agreement"] == {"agreement": 1.0, "equal_elements": 1.0}
    assert found["psnr"] == {"psnr": math.inf}


def test_noise_is_that_of_the_worst_output() -> None:
    metric, data = METRICS["psnr"], Data("", (Example("a"), Example("b")))
    rows = [
        [{"noise": 1.0, "elements": 4, "least": 0.0, "largest": 10.0},
         {"noise": 0.0, "elements": 4, "least": 0.0, "largest": 1.0}],
        [{"noise": 3.0, "elements": 4, "least": -10.0, "largest": 5.0},
         {"noise": 0.0, "elements": 4, "least": 0.0, "largest": 1.0}],
    ]  # fmt: skip
    assert metric.figures(rows, data) == {"psnr": pytest.approx(10 * math.log10(400 / (4 / 8)))}


@pytest.mark.skipif(
    importlib.util.find_spec("faster_coco_eval") is None, reason="needs faster-coco-eval"
)
def test_boxes_as_coco_judges_them() -> None:
    boxes = (Box(7, (10.0, 10.0, 40.0, 40.0)), Box(9, (60.0, 60.0, 30.0, 30.0)))
    data = Data("", (Example("a", size=(100, 200), boxes=boxes),), {7: "x", 9: "y"})
    exact = [[0, 0.9, 10 / 200, 0.1, 50 / 200, 0.5], [1, 0.8, 60 / 200, 0.6, 90 / 200, 0.9]]
    metric = METRICS["map"]
    assert metric.figures([{"found": exact}], data)["map"] == pytest.approx(1.0)
    # The second box is missed, and the first has an overlap of 0.6.
    shifted = [[0, 0.9, 10 / 200, 0.2, 50 / 200, 0.6]]
    found = metric.figures([{"found": shifted}], data)
    assert found["map50"] == pytest.approx(0.5)
    assert found["map"] == pytest.approx(0.5 * 3 / 10)
    assert metric.figures([{"found": []}], data)["map"] == 0.0


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("faster_coco_eval") is None, reason="needs faster-coco-eval"
)
def test_detectors(tmp_path: Path) -> None:
    from fitzroy.cli.main import main

    path = tmp_path / "d_edgetpu.tflite"
    options = ["--detections", "--calibrate", str(DETECTOR / "calibration"), "--quiet"]
    source = str(DETECTOR / "detector.tflite")
    assert main(["compile", source, *options, "-o", str(path)]) == 0
    subject = Subject(str(path), "sim:direct")
    found = evaluate_model(Task(subject, str(DETECTOR / "scenes"), ("map",), subject))
    assert found.figures["map"]["map"] == pytest.approx(1.0)
    with pytest.raises(UsageError, match="the model is none"):
        evaluate_model(Task(Subject(source), str(DETECTOR / "scenes"), ("map",)))


def test_what_cannot_be_measured(model: Path, digits: Path) -> None:
    with pytest.raises(UsageError, match="no metric 'top3'"):
        evaluate_model(task(model, digits, "top3"))
    with pytest.raises(UsageError, match="--against"):
        evaluate_model(task(model, digits, "psnr"))
    with pytest.raises(UsageError, match="LiteRT has no Edge TPU"):
        evaluate_model(Task(Subject(str(model), "litert"), str(digits), ("top1",)))
    with pytest.raises(UsageError, match="compiled for the Edge TPU"):
        evaluate_model(Task(Subject(str(DIGITS), "sim"), str(digits), ("top1",)))
    with pytest.raises(UsageError, match="contradict"):
        evaluate_model(task(model, digits), jobs=2, scheduler="tcp://127.0.0.1:1")


# --- records -------------------------------------------------------------------------------------


def test_an_evaluation_goes_on(model: Path, digits: Path, tmp_path: Path) -> None:
    whole = evaluate_model(task(model, digits, "top1", "top5"))
    path = tmp_path / "records"
    evaluate_model(task(model, digits, "top1", "top5"), resume=str(path))
    lines = path.read_bytes().splitlines(keepends=True)
    # Killed while it wrote the sixth example.
    path.write_bytes(b"".join(lines[:6]) + lines[6][:5])
    rest = evaluate_model(task(model, digits, "top1", "top5"), resume=str(path))
    assert (rest.computed, rest.report) == (6, whole.report)
    assert evaluate_model(task(model, digits, "top1", "top5"), resume=str(path)).computed == 0


def test_records_of_something_else(model: Path, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "records"
    evaluate_model(task(model, digits), resume=str(path))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="of another evaluation"):
        evaluate_model(task(model, digits, "top5"), resume=str(path))
    assert path.read_bytes() == before
    for content, match in (
        (b"{}\n", "no records"),
        (b"\xff\n", "line 1"),
        (before + b"7\n", "line 13 is no record"),
        (before + b'{"example":11}\n', "line 13 is of no example"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=match):
            evaluate_model(task(model, digits), resume=str(path))


def test_interrupts_leave_what_is_done(
    model: Path, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = workers.serially

    def interrupted(task: Task, data: Data, numbers: Sequence[int]) -> workers.Batches:
        batches = usual(task, data, numbers)
        yield next(batches)
        raise KeyboardInterrupt

    monkeypatch.setattr("fitzroy.evaluation.evaluate.serially", interrupted)
    kept: list[Records] = []
    with pytest.raises(KeyboardInterrupt):
        evaluate_model(task(model, digits), interrupted=kept.append)
    kept[0].save(str(tmp_path / "records"))
    kept[0].close()
    monkeypatch.undo()
    rest = evaluate_model(task(model, digits), resume=str(tmp_path / "records"))
    assert 0 < rest.computed < 11
    assert rest.report == evaluate_model(task(model, digits)).report


def test_data_are_opened_once(model: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(data: str, *rest: Any) -> Data:
        opened.append(data)
        return open_data(data, *rest)

    monkeypatch.setattr("fitzroy.evaluation.task.open_data", counted)
    assert evaluate_model(task(model, digits)).computed == 11
    assert opened == [str(digits)]


# --- who computes --------------------------------------------------------------------------------


@pytest.mark.long
def test_processes_say_the_same(model: Path, digits: Path) -> None:
    alone = evaluate_model(task(model, digits, "top1", "top5"))
    mixed = task(model, digits, "top1", "top5")
    mixed = replace(mixed, model=replace(mixed.model, device=f"twin:{DIGITS},sim:direct"))
    progress: list[tuple[int, int]] = []
    found = evaluate_model(mixed, progress=lambda done, count, _: progress.append((done, count)))
    assert found.report == alone.report
    assert progress[-1] == (11, 11)


@pytest.mark.long
def test_errors_of_processes(model: Path, digits: Path) -> None:
    (digits / "3" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(FormatError, match=r"bad\.png"):
        evaluate_model(task(model, digits), jobs=2)


class Pool(ThreadPoolExecutor):
    """Processes that are threads, some of which die."""

    deaths = 0

    def __init__(self, jobs: int, context: object, prepare: object, arguments: object) -> None:
        super().__init__(jobs)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        """Compute, or die with the fifth example."""
        if arguments[1] == [4] and Pool.deaths:
            Pool.deaths -= 1
            future: Future[Any] = Future()
            future.set_exception(BrokenProcessPool("killed"))
            return future
        return super().submit(function, *arguments, **more)


def test_processes_that_die(model: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(Pool, "deaths", 2)
    found = evaluate_model(task(model, digits), jobs=3)
    assert Pool.deaths == 0
    assert found.report == evaluate_model(task(model, digits)).report
    monkeypatch.setattr(Pool, "deaths", 99)
    with pytest.raises(DeviceError, match="die again and again"):
        evaluate_model(task(model, digits), jobs=3)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs Dask")
def test_a_cluster_of_which_a_worker_dies(model: Path, digits: Path) -> None:
    from distributed import LocalCluster

    alone = evaluate_model(task(model, digits, "top1", "top5"))
    with LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None,
        resources={workers.RESOURCE: 1},
    ) as cluster:  # fmt: skip
        victims = [*cluster.workers.values()]
        killed: list[int] = []

        def progress(done: int, count: int, rate: float) -> None:
            if not killed:
                killed.append(victims[0].pid)
                os.kill(victims[0].pid, signal.SIGKILL)

        found = evaluate_model(
            task(model, digits, "top1", "top5"),
            scheduler=cluster.scheduler_address,
            progress=progress,
        )
    assert killed
    assert found.report == alone.report


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs Dask")
def test_no_cluster(model: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 1)
    with pytest.raises(DeviceError, match="there is no scheduler"):
        evaluate_model(task(model, digits), scheduler="tcp://127.0.0.1:1")


def test_a_report_says_what_it_is_of(model: Path, digits: Path) -> None:
    found = evaluate_model(task(model, digits))
    assert isinstance(found, Evaluation)
    document = json.loads(json.dumps(found.document))
    assert document["examples"] == 11
    assert document["metrics"][0]["value"] == 10 / 11
