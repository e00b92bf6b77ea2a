"""``python -m fitzroy``, and the command ``fitzroy``."""

from __future__ import annotations

import atexit
import gc
import sys
from contextlib import suppress

_INTERRUPTED = 130

_COLLECTION = 400_000
"""New objects between two garbage collections. Most objects live until the command ends, so
frequent collections would find nothing; compiling a model of ordinary size makes fewer."""


def main() -> int:
    """Run the command line; who interrupts it while it is loaded gets no traceback either."""
    try:
        if sys.argv[1:] == ["--version"] and _told_version():
            return 0
        gc.set_threshold(_COLLECTION)
        # The interpreter searches all that is alive for garbage once more while it ends.
        atexit.register(gc.freeze)
        from fitzroy.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _told_version() -> bool:
    """Print the version without loading the command line.

    Returns:
        Whether that worked; if not, the command line reports what is wrong.
    """
    from fitzroy import __version__

    with suppress(OSError, AttributeError):
        sys.stdout.write(f"fitzroy {__version__}\n")
        sys.stdout.flush()
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
