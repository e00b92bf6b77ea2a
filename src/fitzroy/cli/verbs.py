"""The verbs of the command line; the module of one is imported when that verb is asked for."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import typer

from fitzroy.cli.groups import grouped
from fitzroy.cli.help import Verb, VerbGroup
from fitzroy.cli.terminal import Terminal
from fitzroy.cli.usage import Command, Group

VERBS: dict[str, str] = {
    "compile": "compile.compile_command",
    "quantize": "quantize.quantize_command",
    "convert": "convert.convert_command",
    "run": "run.run_command",
    "inspect": "inspect.inspect_command",
    "explain": "explain.explain_command",
    "explore": "explore.explore_command",
    "opt": "opt.opt_command",
    "dis": "disassemble.disassemble_command",
    "as": "assemble.assemble_command",
    "link": "link.link_command",
    "patch-weights": "patch.patch_command",
    "sim": "sim.sim_command",
    "test": "test.test_command",
    "compare": "compare.compare_command",
    "evaluate": "evaluate.evaluate_command",
    "bench": "bench.bench_command",
    "plan": "plan.plan_command",
    "calibrate-host": "calibrate.calibrate_command",
    "debug": "debug.debug_command",
    "devices": "devices.devices_command",
    "doctor": "devices.doctor_command",
    "probe": "probe.probe_command",
    "schema": "schema.schema_command",
    "usbip": "usbip.usbip_command",
    "shim": "shim.shim_command",
}
"""All verbs by name: a module of this package, and what declares the verb there."""


def declared(name: str) -> Verb | VerbGroup:
    """What a verb, or a group of verbs, consists of.

    Raises:
        KeyError: there is no such verb.
    """
    module, _, attribute = VERBS[name].partition(".")
    found: Verb | VerbGroup = getattr(import_module(f"fitzroy.cli.{module}"), attribute)
    return found


class Commands(UserDict[str, Any]):
    """The parser's commands by the names of verbs, each made when it is first taken."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(VERBS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _command(name, declared(name))
        return self.data[name]


def _command(name: str, verb: Verb | VerbGroup) -> Any:
    if isinstance(verb, Verb):
        app = typer.Typer(add_completion=False)
        _add(app, name, verb)
    else:
        kind = type(name, (Group,), {"examples": verb.examples})
        app = typer.Typer(name=name, cls=kind, add_completion=False)
        app.callback(invoke_without_command=True, help=verb.text)(_overview)
        for part, inner in verb.verbs.items():
            _add(app, part, inner)
    return typer.main.get_command(app)


def _add(app: typer.Typer, name: str, verb: Verb) -> None:
    kind = type(name, (Command,), {"examples": verb.examples})
    app.command(name, cls=kind, help=verb.text)(grouped(verb.function))


def _overview(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        Terminal().raw(context.get_help())
