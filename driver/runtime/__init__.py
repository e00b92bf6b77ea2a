"""Executes programs on a runtime or on its model."""

from fitzroy.driver.runtime.executorch import ExecuTorchRuntime, ExecuTorchSession, available
from fitzroy.driver.runtime.oracle import OracleRuntime, OracleSession
from fitzroy.driver.runtime.session import MethodInfo, Port, Runtime, Session

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
