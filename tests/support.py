"""What tests of several folders share: the corpus of real models, and skips with a reason."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def corpus_path() -> Path:
    """Where the corpus should be; it need not exist."""
    return Path(os.environ.get("FITZROY_CORPUS") or _ROOT.parent / "shared" / "corpus")


def corpus() -> Path:
    """The corpus of real models, which is not part of the repository; skips without it."""
    path = corpus_path()
    if not path.is_dir():
        pytest.skip(f"no corpus at {path} (set FITZROY_CORPUS)")
    return path


def corpus_models(pattern: str = "**/*.tflite", *, sample: int = 0, seed: int = 0) -> list[Path]:
    """Files of the corpus in order of their paths, for parametrization; empty without a corpus.

    Args:
        pattern: glob below the corpus.
        sample: take as many at random, 0 for all.
        seed: seed of the sample.
    """
    path = corpus_path()
    files = sorted(path.glob(pattern)) if path.is_dir() else []
    if sample and sample < len(files):
        files = sorted(random.Random(seed).sample(files, sample))
    return files


def corpus_params(pattern: str = "**/*.tflite", *, quick: int = 8, seed: int = 0) -> list[object]:
    """`corpus_models` as pytest parameters: a sample runs always, the rest is marked slow."""
    files = corpus_models(pattern)
    chosen = set(corpus_models(pattern, sample=quick, seed=seed))
    if not files:
        reason = f"no corpus at {corpus_path()} (set FITZROY_CORPUS)"
        return [pytest.param(Path(), id="none", marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(
            file,
            id=str(file.relative_to(corpus_path())),
            marks=[pytest.mark.corpus, *([] if file in chosen else [pytest.mark.slow])],
        )
        for file in files
    ]


def need(module: str, extra: str) -> None:
    """Skip the test if an optional module is absent.

    Args:
        module: name of the module; it is not imported.
        extra: the extra of this package that brings it.
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        pytest.skip(f"{module} is not installed (extra: {extra})")


def need_litert() -> None:
    """Skip without the LiteRT interpreter."""
    need("ai_edge_litert.interpreter", "litert")


def need_executorch() -> None:
    """Skip without the ExecuTorch runtime."""
    need("executorch.extension.pybindings", "executorch")
    need("torch", "executorch")
