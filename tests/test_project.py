"""The project itself: packaging table, layers, generated pages."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import networkx
import pytest

from fitzroy.base.version import VERSION
from fitzroy.report.documents import VERSIONS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_of_the_tree() -> set[str]:
    found = set()
    for package, folder in PROJECT["tool"]["setuptools"]["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            relative = init.parent.relative_to(ROOT / folder)
            if not any(
                (ROOT / folder).joinpath(*relative.parts[: i + 1]).is_symlink()
                for i in range(len(relative.parts))
            ):
                found.add(".".join((package, *relative.parts)))
    return found


def test_the_package_table_is_the_tree() -> None:
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages_of_the_tree()


def test_every_folder_with_code_is_a_package() -> None:
    for folder in PROJECT["tool"]["setuptools"]["package-dir"].values():
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_data_files_are_packaged() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    declared = {(package, name) for package, names in data.items() for name in names}
    found = {("*", "py.typed")}
    for package, folder in PROJECT["tool"]["setuptools"]["package-dir"].items():
        for file in (ROOT / folder).rglob("*.*"):
            parts = file.relative_to(ROOT / folder).parts[:-1]
            if file.is_file() and file.suffix not in {".py", ".pyc", ".typed"}:
                found.add((".".join((package, *parts)), file.name))
    # Schemas are found by their names, see `fitzroy.report.documents`.
    declared.remove(("fitzroy.report.schemas", "*.json"))
    found -= {("fitzroy.report.schemas", f"{name}.json") for name in VERSIONS}
    assert found == declared


def test_links_for_static_tools_lead_to_the_folders() -> None:
    folders = PROJECT["tool"]["setuptools"]["package-dir"]
    top = {name for name in folders.values() if "/" not in name}
    assert top == {"base", "compiler", "driver", "formats", "hw_models", "linker"}
    package = ROOT / "src" / "fitzroy"
    assert {path.name for path in package.iterdir() if path.is_symlink()} == top
    for name in top:
        assert (package / name).resolve() == ROOT / name


def modules_of_the_tree() -> dict[str, Path]:
    """Files of all modules, by their names."""
    folders = PROJECT["tool"]["setuptools"]["package-dir"]
    return {
        f"{package}.{file.stem}" if file.stem != "__init__" else package: file
        for package in packages_of_the_tree()
        for outer in [max((p for p in folders if f"{package}.".startswith(f"{p}.")), key=len)]
        for file in (ROOT / folders[outer])
        .joinpath(*package.removeprefix(outer).strip(".").split("."))
        .glob("*.py")
    }


def imported(file: Path, known: Set[str]) -> Iterator[str]:
    """Modules of ours that a file imports: anywhere in it, for types only too."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name in known)
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                name = f"{node.module}.{item.name}"
                yield from {name if name in known else node.module or ""} & known


def test_no_module_imports_itself_by_others() -> None:
    modules = modules_of_the_tree()
    assert len(modules) > 400
    graph = networkx.DiGraph(
        (name, other) for name, file in modules.items() for other in imported(file, modules.keys())
    )
    assert [sorted(group) for group in cycles(graph)] == []
    graph.add_edge("fitzroy.base.errors", "fitzroy.cli.main")
    assert len(cycles(graph)) == 1


def cycles(graph: Any) -> list[Any]:
    return [group for group in networkx.strongly_connected_components(graph) if len(group) > 1]


def test_generated_pages_are_current() -> None:
    assert runpy.run_path(str(ROOT / "docs" / "generate.py"))["stale"]() == []


def test_the_changelog_has_the_form_of_releases() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert versions[1][0] == PROJECT["project"]["version"]
    dates = [date for _, date in versions[1:]]
    assert all(dates)
    assert dates == sorted(dates, reverse=True)
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(versions)
    sections = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_core_dependencies_stay_few() -> None:
    names = {item.split(">")[0] for item in PROJECT["project"]["dependencies"]}
    few = {"flatbuffers", "networkx", "numpy", "pyusb", "rich", "threadpoolctl", "typer"}
    assert names == few


def printed(code: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return result.stdout.strip()


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, fitzroy; print(sorted({'numpy', 'networkx', 'typer'} & set(sys.modules)))"
    assert printed(code) == "[]"


def test_telling_the_version_is_cheap() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; from fitzroy.__main__ import main; main(); "
        "print(sorted({'numpy', 'rich', 'typer'} & set(sys.modules)))"
    )
    assert printed(code) == f"fitzroy {VERSION}\n[]"


@pytest.mark.parametrize(
    "module",
    [
        "fitzroy.driver.runtime.executorch",
        "fitzroy.driver.runtime.oracle",
        "fitzroy.linker.packages.executorch",
    ],
)
def test_driver_and_linker_do_without_networkx(module: str) -> None:
    code = f"import sys, {module}; print('networkx' in sys.modules)"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    assert printed(code, environment) == "False"


def test_compiling_for_the_edge_tpu_loads_nothing_of_other_targets() -> None:
    code = (
        "import sys, fitzroy.cli.compile_edgetpu, fitzroy.compilation.edgetpu; "
        "others = ('networkx', 'fitzroy.formats.executorch', 'fitzroy.formats.xnnpack'); "
        "print([n for n in others if n in sys.modules])"
    )
    assert printed(code) == "[]"


def test_compiling_with_an_estimate_loads_only_what_it_needs(tmp_path: Path) -> None:
    model, target = ROOT / "examples" / "models" / "digits.tflite", tmp_path / "digits.tflite"
    arguments = ["compile", str(model), "-o", str(target), "--quiet"]
    code = (
        f"import sys; from fitzroy.cli.main import main; assert main({arguments}) == 0; "
        "print(*[name for name in sys.modules if name.startswith('fitzroy.')])"
    )
    loaded = printed(code).split()
    others = {
        "fitzroy.cli.compile_module",
        "fitzroy.compilation.segments",
        "fitzroy.compilation.texts",
        "fitzroy.compiler.passes.heads.post_processing",
        "fitzroy.compiler.passes.heads.rewriting",
        "fitzroy.driver.runtime.simulator",
        "fitzroy.execution.programs",
        "fitzroy.hw_models.edgetpu.machine",
        "fitzroy.report.compilation",
    }
    assert others & set(loaded) == set()
    assert len(loaded) <= 400


def test_simulating_does_without_the_code_generator() -> None:
    code = (
        "import sys, fitzroy; fitzroy.simulate; "
        "print([n for n in sys.modules if 'edgetpu.program' in n or 'edgetpu.lowerings' in n])"
    )
    assert printed(code) == "[]"
