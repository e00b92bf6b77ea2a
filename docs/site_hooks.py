"""What the documentation site adds to mkdocs: generated pages and drawings, and checks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parent
if str(FOLDER.parent) not in sys.path:
    sys.path.insert(0, str(FOLDER.parent))

from docs import drawings, reference  # noqa: E402

_LOADED = re.compile(
    r"<(?:script|img|iframe|link(?![^>]*canonical))\b[^>]*(?:src|href)=[\"']?https?:"
)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]+)(?:#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and drawings that follow from the code."""
    for name, page in reference.PAGES.items():
        files.append(File.generated(config, name, content=page()))
    for name, drawing in drawings.DRAWINGS.items():
        files.append(File.generated(config, f"drawings/{name}", content=drawing()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name files of the repository that are no pages of the site, instead of linking to them."""
    folder = (FOLDER / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        path = re.sub(r"\s+", "", match[0][match[0].rindex("(") + 1 : -1]).partition("#")[0]
        target = (folder / path).resolve()
        if target.is_relative_to(FOLDER):
            return match[0]
        label = match[1].strip("`")
        name = target.relative_to(FOLDER.parent).as_posix()
        # A label that is the end of the path says enough.
        return f"`{label}`" if f"/{name}".endswith(f"/{label}") else f"{match[1]} (`{name}`)"

    return _OUTSIDE.sub(replaced, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that would load something from the network."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from the network: {found[0]}")
    return output
