"""Executes programs on a runtime or on its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitzroy.base.lazy import lazily

if TYPE_CHECKING:
    from fitzroy.driver.runtime.executorch import ExecuTorchRuntime, ExecuTorchSession, available
    from fitzroy.driver.runtime.oracle import OracleRuntime, OracleSession
    from fitzroy.driver.runtime.session import MethodInfo, Port, Runtime, Session

# Each runtime is loaded when it is asked for: they have little in common.
_HOMES = {
    "ExecuTorchRuntime": "fitzroy.driver.runtime.executorch",
    "ExecuTorchSession": "fitzroy.driver.runtime.executorch",
    "MethodInfo": "fitzroy.driver.runtime.session",
    "OracleRuntime": "fitzroy.driver.runtime.oracle",
    "OracleSession": "fitzroy.driver.runtime.oracle",
    "Port": "fitzroy.driver.runtime.session",
    "Runtime": "fitzroy.driver.runtime.session",
    "Session": "fitzroy.driver.runtime.session",
    "available": "fitzroy.driver.runtime.executorch",
}

__all__ = [
    "ExecuTorchRuntime",
    "ExecuTorchSession",
    "MethodInfo",
    "OracleRuntime",
    "OracleSession",
    "Port",
    "Runtime",
    "Session",
    "available",
]

__getattr__ = lazily(__name__, _HOMES)
