"""``python -m fitzroy``, and the command ``fitzroy``."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command line; who interrupts it while it is loaded gets no traceback either."""
    try:
        from fitzroy.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
