"""Expected outputs: arrays, digests, and how outputs differ from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import Array
from fitzroy.execution.arrays import digest
from fitzroy.testing.expected import Expected, deviation, read_expected

Y = np.array([[1, 2, 3, 250]], np.uint8)


def test_equal_arrays_do_not_deviate() -> None:
    assert deviation("y", Y, Y) is None
    # Dimensions of extent 1 may be missing, as in files of inputs.
    assert deviation("y", Y, Y.reshape(4)) is None
    assert deviation("y", Y, digest(Y)) is None
    assert deviation("y", Y, digest(Y).upper()) is None


def test_how_arrays_differ() -> None:
    found = deviation("y", Y, np.array([[1, 0, 3, 0]], np.uint8))
    assert found is not None
    assert (found.output, found.elements, found.largest) == ("y", 2, 250)
    assert found.text == "2 of 4 elements differ, by at most 250; [0,1] is 2, 0 expected"
    assert deviation("y", Y, np.array([[1, 0, 3, 249]], np.uint8), 2) is None
    one = deviation("y", Y, np.array([[1, 0, 3, 247]], np.uint8), 2)
    assert one is not None
    assert one.text == "1 of 4 elements differ, by at most 3; [0,3] is 250, 247 expected"


@pytest.mark.parametrize("other", [Y.astype(np.int8), Y[:, :3], Y.reshape(2, 2)])
def test_other_types_differ(other: Array) -> None:
    found = deviation("y", Y, other)
    assert found is not None
    assert found.text == f"it is uint8[1, 4], {other.dtype}{list(other.shape)} expected"


def test_numbers_that_are_not_finite() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert deviation("y", odd, odd) is None
    found = deviation("y", odd, np.array([np.nan, -np.inf, 0, 1], np.float32), 0.5)
    assert found is not None
    assert (found.elements, found.largest) == (2, np.inf)


def test_digests() -> None:
    found = deviation("y", Y, "0" * 64)
    assert found is not None
    assert found.text == f"its SHA-256 is {digest(Y)}, {'0' * 64} expected"
    with pytest.raises(UsageError, match="a tolerance needs the expected elements"):
        deviation("y", Y, "0" * 64, 1)


def test_files(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "y.npz", a_b=Y, c=Y + 1)
    one = read_expected(str(tmp_path / "y.npy"))
    assert one.deviations([("anything", Y)]) == ()
    both = read_expected(str(tmp_path / "y.npz"))
    # Slashes of names are none in archives.
    (item,) = both.deviations([("a/b", Y), ("c", Y)])
    assert (item.output, item.elements) == ("c", 4)
    with pytest.raises(UsageError, match=r"expected are 'a_b', 'c'; there are 'c', 'a_b'"):
        both.deviations([("c", Y), ("a/b", Y)])
    with pytest.raises(UsageError, match="other outputs are expected"):
        one.deviations([("a", Y), ("b", Y)])
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(UsageError, match="arrays, or a document"):
        read_expected(str(tmp_path / "x"))


def test_folders(tmp_path: Path) -> None:
    np.save(tmp_path / "four.npy", Y)
    assert read_expected(str(tmp_path), "four").path == str(tmp_path / "four.npy")
    with pytest.raises(UsageError, match=r"there is no five\.npy, five\.npz or five\.json"):
        read_expected(str(tmp_path), "five")


def documented(path: Path, document: object) -> Expected:
    path.write_text(json.dumps(document))
    return read_expected(str(path), "four")


def test_documents(tmp_path: Path) -> None:
    path = tmp_path / "y.json"
    outputs = [{"name": "y", "sha256": digest(Y)}]
    for schema in ("fitzroy-run", "fitzroy-sim"):
        assert documented(path, {"schema": schema, "outputs": outputs}).deviations([("y", Y)]) == ()
    many = {"schema": "fitzroy-sim-batch", "inferences": [{"name": "four", "outputs": outputs}]}
    assert documented(path, many).deviations([("y", Y)]) == ()
    many["inferences"] = [{"name": "five", "outputs": outputs}]
    with pytest.raises(UsageError, match="nothing is expected of 'four'"):
        documented(path, many)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"schema": "fitzroy-bench"},
        {"schema": ["fitzroy-sim"]},
        {"schema": "fitzroy-sim"},
        {"schema": "fitzroy-sim", "outputs": 3},
        {"schema": "fitzroy-sim", "outputs": [3]},
        {"schema": "fitzroy-sim", "outputs": [{"name": "y"}]},
        {"schema": "fitzroy-sim", "outputs": [{"name": "y", "sha256": "x" * 64}]},
    ],
)
def test_documents_without_outputs(tmp_path: Path, document: object) -> None:
    with pytest.raises(FormatError):
        documented(tmp_path / "y.json", document)


def test_broken_documents(tmp_path: Path) -> None:
    path = tmp_path / "y.json"
    for text in ("{", "{" * 50_000, '{"a": ' * 50_000):
        path.write_text(text)
        with pytest.raises(FormatError, match="it is no JSON"):
            read_expected(str(path))
