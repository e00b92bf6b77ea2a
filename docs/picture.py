"""The picture of the README: ``python docs/picture.py`` runs the digits model and photographs it.

Needs Chromium, for the screenshot, and Pillow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "docs" / "pictures" / "run.png"
_SIZE = (1560, 760)
_COMMANDS = (
    "compile examples/models/digits.tflite -o {folder}/digits_edgetpu.tflite",
    "sim {folder}/digits_edgetpu.tflite -i examples/images/digit_4_1.png --top 2 "
    "--labels examples/models/digits_labels.txt --report {folder}/digits.html",
)
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; display: flex; height: {height}px; background: #fff }}
pre {{ margin: 0; padding: 14px; width: 640px; box-sizing: border-box; overflow: hidden;
  background: #14181c; color: #d8e0e6; font: 10.5px/1.4 monospace; white-space: pre-wrap }}
iframe {{ flex: 1; border: 0 }}
</style><pre>{text}</pre><iframe src="digits.html"></iframe>
"""


def _terminal(folder: str) -> str:
    """What the commands print."""
    lines = []
    for command in _COMMANDS:
        arguments = command.format(folder=folder).split()
        done = subprocess.run(
            [sys.executable, "-m", "fitzroy", *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        lines += [f"$ fitzroy {command.format(folder='.')}", done.stdout]
    return "\n".join(lines).replace(f"{folder}/", "./")


def main() -> None:
    """Write the picture."""
    browser = shutil.which("chromium") or sys.exit("this needs chromium")
    with TemporaryDirectory() as name:
        folder = Path(name)
        text = escape(_terminal(name))
        (folder / "page.html").write_text(_PAGE.format(height=_SIZE[1], text=text))
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--allow-file-access-from-files",
                f"--window-size={_SIZE[0]},{_SIZE[1]}",
                f"--screenshot={folder / 'page.png'}",
                (folder / "page.html").as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        OUTPUT.parent.mkdir(exist_ok=True)
        with Image.open(folder / "page.png") as shot:
            shot.convert("RGB").quantize(128).save(OUTPUT, optimize=True)


if __name__ == "__main__":
    main()
