from importlib import metadata
from pathlib import Path

import pytest

from fitzroy.base.installing import install_extra


def test_a_checkout_installs_itself_with_the_extra(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert install_extra("usb", tmp_path) == "pip install -e '.[usb]' in the checkout of FitzRoy"


def test_elsewhere_the_packages_of_the_extra_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = [
        "numpy>=1.26",
        'pillow>=10.0; extra == "images"',
        'pillow>=10.0; extra == "examples"',
        'scikit-learn>=1.4; extra == "examples"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: declared)
    assert install_extra("images", tmp_path) == "pip install 'pillow>=10.0'"
    assert install_extra("examples", tmp_path) == "pip install 'pillow>=10.0' 'scikit-learn>=1.4'"


def test_this_is_a_checkout() -> None:
    assert install_extra("onnx").startswith("pip install -e '.[onnx]'")
