"""The frame of all HTML pages: one file that needs nothing else, neither network nor fonts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources

from fitzroy.report.tables import escaped


def resource(name: str) -> str:
    """A file of this package."""
    return resources.files("fitzroy.report").joinpath(name).read_text(encoding="utf-8")


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A template of this package with HTML in the place of its markers.

    All is done in one pass, so that markers inside of what is filled in stay what they are.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], resource(template))


def page(
    title: str,
    subtitle: str,
    main: str,
    footer: str,
    *,
    scripts: Sequence[str] = (),
    data: object = None,
    kind: str = "",
) -> str:
    """An HTML document.

    Args:
        title: its title, as plain text.
        subtitle: what stands below the title, as plain text.
        main: its content, as HTML.
        footer: what stands at its end, as plain text.
        scripts: files of this package that run after those of all pages.
        data: what the scripts read, fit for JSON; None for nothing.
        kind: class of the body, for style.
    """
    code = [resource(name) for name in ("components.js", *scripts)]
    return filled(
        "frame.html",
        {
            "title": escaped(title),
            "subtitle": escaped(subtitle),
            "style": resource("page.css"),
            "kind": f' class="{escaped(kind)}"' if kind else "",
            "main": main,
            "footer": escaped(footer),
            "data": "" if data is None else _embedded(data),
            "script": "\n".join(code),
        },
    )


def _embedded(data: object) -> str:
    """JSON that can stand inside of a script element, whatever strings it has."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="data">{safe}</script>'
