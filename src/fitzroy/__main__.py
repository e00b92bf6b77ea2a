"""``python -m fitzroy``."""

from __future__ import annotations

import sys

from fitzroy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
