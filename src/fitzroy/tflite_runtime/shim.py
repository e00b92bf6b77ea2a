"""Packages by the names ``tflite_runtime`` and ``pycoral`` that pass on what FitzRoy has.

Programs that cannot be changed find these first, once their folder is on the path of Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from fitzroy import __version__
from fitzroy.base.errors import UsageError

PACKAGES: dict[str, tuple[str, ...]] = {
    "tflite_runtime": ("", "interpreter"),
    "pycoral": (
        "",
        "adapters",
        "adapters.classify",
        "adapters.common",
        "adapters.detect",
        "adapters.segment",
        "learn",
        "learn.backprop",
        "learn.backprop.softmax_regression",
        "learn.imprinting",
        "learn.imprinting.engine",
        "pipeline",
        "pipeline.pipelined_model_runner",
        "utils",
        "utils.dataset",
        "utils.edgetpu",
    ),
}
"""Modules of every package, without its name; those that others begin with are packages."""

MARK = "passes on what FitzRoy has"
"""Words in every file, by which a folder of others is told from one of these."""


def shim_files(names: Iterable[str]) -> dict[str, str]:
    """Texts of the files of packages by their paths, which have ``/`` between their parts.

    Beside them is a ``pyproject.toml``, by which pip installs the folder.

    Args:
        names: which packages, of `PACKAGES`.

    Raises:
        UsageError: there is no such package.
    """
    files, packages = {}, []
    for name in names:
        if name not in PACKAGES:
            raise UsageError(f"no package {name!r}", reason=f"there are {', '.join(PACKAGES)}")
        modules = PACKAGES[name]
        for module in modules:
            full = ".".join(filter(None, (name, module)))
            path = full.replace(".", "/")
            if module == "" or any(other.startswith(f"{module}.") for other in modules):
                packages.append(full)
                files[f"{path}/__init__.py"] = _package(full, module == "")
            else:
                files[f"{path}.py"] = _module(full)
    files["pyproject.toml"] = _project(packages)
    return files


def _package(name: str, outermost: bool) -> str:
    text = f'"""``{name}``, which {MARK}."""\n'
    if outermost:
        text += f'\nfrom fitzroy.{name} import __version__\n\n__all__ = ["__version__"]\n'
    return text


def _module(name: str) -> str:
    return (
        f'"""``{name}``, which {MARK}."""\n\n'
        f"from fitzroy.{name} import *\n"
        f"from fitzroy.{name} import __all__\n"
    )


def _project(packages: Iterable[str]) -> str:
    listed = ", ".join(f'"{package}"' for package in sorted(packages))
    return (
        f"# A distribution that {MARK}.\n"
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'
        f'[project]\nname = "fitzroy-shim"\nversion = "{__version__}"\n'
        'dependencies = ["fitzroy"]\n\n'
        f"[tool.setuptools]\npackages = [{listed}]\n"
    )
