from __future__ import annotations

from fitzroy.compiler.frontends.frontend import FRONTENDS, Frontend


def test_all_our_frontends_load() -> None:
    assert {"onnx", "text", "tflite"} <= set(FRONTENDS.own)
    for name in FRONTENDS.own:
        assert isinstance(FRONTENDS.get(name), Frontend)
