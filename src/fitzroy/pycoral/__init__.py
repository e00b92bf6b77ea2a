"""PyCoral's interface on FitzRoy: scripts run after changing ``pycoral`` to ``fitzroy.pycoral``.

See docs/programs.md for what was tried.

Facts: PyCoral's published interface, version 2.0.0, and what its functions do.
"""

__version__ = "2.0.0"
"""The version of PyCoral whose interface this is."""
