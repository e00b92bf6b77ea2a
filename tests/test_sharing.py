"""What tests share: made once for a key, and nobody else's to change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu_models import random_model
from tests.sharing import shared, sharing_in

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> list[int]:
        self.calls += 1
        return [self.calls]


def added(number: int) -> Graph:
    graph = Graph("added")
    type = TensorType((4,), DType.FLOAT32)
    constant = graph.add_constant("c", np.full(4, number, np.float32))
    x = graph.add_input("x", type)
    graph.outputs = [graph.emit("add", [x, constant], type, ActivationAttributes())]
    return graph


def test_what_is_shared_is_made_once_for_a_key(tmp_path: Path) -> None:
    make = Maker()
    keys = [("a", 1), ("a", 1.0), ("a", b"1"), ("b", 1), ("a", random_model(1)), ("a", 1, None)]
    with sharing_in(tmp_path):
        first = [shared(key, make) for key in keys]
        assert [shared(key, make) for key in keys] == first
    assert make.calls == len(keys)


def test_equal_graphs_are_equal_keys_and_other_constants_are_not(tmp_path: Path) -> None:
    make = Maker()
    with sharing_in(tmp_path):
        assert shared((random_model(3),), make) == shared((random_model(3),), make) == [1]
        assert shared((added(1),), make) == [2]
        assert shared((added(2),), make) == [3]


def test_nobody_changes_what_others_get(tmp_path: Path) -> None:
    with sharing_in(tmp_path):
        shared(("a",), Maker()).append(9)
        shared(("a",), Maker()).append(9)
        assert shared(("a",), Maker()) == [1]


def test_nothing_is_shared_without_a_folder_or_kept_of_errors(tmp_path: Path) -> None:
    def refuse() -> list[int]:
        raise CapacityError("too large")

    make = Maker()
    with sharing_in(None):
        assert [shared(("a",), make) for _ in range(2)] == [[1], [2]]
    with sharing_in(tmp_path):
        with pytest.raises(CapacityError):
            shared(("a",), refuse)
        assert shared(("a",), make) == [3]
        assert len(list(tmp_path.iterdir())) == 1


def test_tests_that_replace_parts_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    assert [shared(("replaced",), make) for _ in range(2)] == [[1], [2]]
