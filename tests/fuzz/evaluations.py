"""Data sets, and records of evaluations: the first line of a case is the suffix of its file."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import numpy as np

from fitzroy.base.types import DType, TensorType
from fitzroy.evaluation.data import Data, open_data
from fitzroy.evaluation.records import Records
from fitzroy.execution.inputs import Port

_KEY, _COUNT = "0" * 64, 3
_PORTS = (Port("x", TensorType((2, 2), DType.INT8)),)


def data_sets() -> list[bytes]:
    """A data set of each kind."""
    archive = io.BytesIO()
    np.savez(archive, x=np.zeros((3, 2, 2), np.int8), y=np.arange(3))
    picture = {"id": 1, "file_name": "a.png", "width": 4, "height": 5}
    box = {"image_id": 1, "category_id": 2, "bbox": [0, 1, 2, 3], "iscrowd": 0}
    coco = {"images": [picture], "annotations": [box], "categories": [{"id": 2, "name": "b"}]}
    return [
        b".csv\nfile,label\na.png,1\n\nb.png,cat\n",
        b'.csv\nleft,right,label\n"a,b.npy",c.npy,0\n',
        b".json\n" + json.dumps(coco).encode(),
        b".npz\n" + archive.getvalue(),
    ]


def as_data(case: bytes) -> Data:
    """The data set of a case.

    Raises:
        FitzroyError: it is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        suffix, _, content = case.partition(b"\n")
        kind = suffix.decode("latin-1") if suffix in (b".csv", b".json", b".npz") else ".csv"
        path = Path(folder) / f"d{kind}"
        path.write_bytes(content)
        return open_data(str(path))


def data_target(case: bytes) -> None:
    """Open a data set, and read its first example.

    Raises:
        FitzroyError: it is none, or the example does not suit.
    """
    data = as_data(case)
    if data.columns:
        data.read(0, _PORTS, None)
        json.dumps(data.fingerprint)


def record_files() -> list[bytes]:
    """Records that are whole, and some that are not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        with Records(_KEY, _COUNT, str(path)) as records:
            records.add([{"example": 0, "top1": 3}, {"example": 2, "top1": 0}])
        whole = path.read_bytes()
    return [whole, whole[:-5]]


def as_records(data: bytes) -> Records:
    """Records, which can be added to.

    Raises:
        FitzroyError: they are none.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        path.write_bytes(data)
        with Records(_KEY, _COUNT, str(path)) as records:
            records.add([{"example": number, "top1": 0} for number in records.left])
        with Records(_KEY, _COUNT, str(path)) as again:
            if again.left:
                raise AssertionError("records are lost")
        return records
