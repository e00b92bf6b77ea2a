"""How to install what FitzRoy can use and does not need."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

_DISTRIBUTION = "fitzroy"
_ROOT = Path(__file__).resolve().parents[1]
"""The checkout, if this is one; the folder of the package otherwise."""


def install_extra(extra: str, root: Path = _ROOT) -> str:
    """The command that installs the packages of an extra, as FitzRoy itself was installed.

    Args:
        extra: name of an extra of the distribution, such as ``usb``.
        root: where FitzRoy lies.

    Returns:
        in a checkout, the command for its folder; elsewhere, one that names the packages.
    """
    if (root / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in the checkout of FitzRoy"
    return "pip install " + " ".join(f"'{name}'" for name in _requirements(extra))


def _requirements(extra: str) -> list[str]:
    """The packages that the metadata of the installed distribution list for an extra."""
    marker = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    declared = [line.partition(";") for line in metadata.requires(_DISTRIBUTION) or ()]
    return [name.strip() for name, _, condition in declared if marker.search(condition)]
