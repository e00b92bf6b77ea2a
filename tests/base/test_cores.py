"""Cores that a process has, and threads of matrix products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fitzroy.base import cores as module
from fitzroy.base.cores import THREADS, cores, products_on


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sixteen cores, no quota and no variable."""
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "_own", lambda: 16)
    monkeypatch.setattr(module, "_QUOTA", str(tmp_path / "cpu.max"))


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", 16), ("250000 100000", 3), ("10000 100000", 1), ("", 16), ("1 0", 16)],
)
def test_quotas_of_containers(quota: str, count: int) -> None:
    Path(module._QUOTA).write_text(f"{quota}\n", encoding="ascii")
    assert cores() == count


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), ("40", 16), ("2,1", 2), ("0", 1), ("many", 16), ("", 16)]
)
def test_variables_of_libraries(text: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() == 16
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert cores() == count


def test_products_have_few_threads() -> None:
    def threads() -> set[int]:
        return {item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"}

    before = threads()
    with products_on(1):
        np.ones((8, 8)) @ np.ones((8, 8))
        assert threads() <= {1}
    assert threads() == before
