"""What notebooks show in place of the text of an object."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar


class Displayed:
    """An object that notebooks show as a page, which a module above it makes.

    Attributes:
        DISPLAY: that module and its function, as ``module:function``; it takes the object and
            gives HTML.
    """

    __slots__ = ()

    DISPLAY: ClassVar[str]

    def _repr_html_(self) -> str:
        module, _, name = self.DISPLAY.partition(":")
        page: str = getattr(import_module(module), name)(self)
        return page
