import gc

import pytest

from fitzroy.base.garbage import uncollected


def test_garbage_is_searched_for_again_whatever_happens() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    with pytest.raises(ValueError, match="x"), uncollected():
        raise ValueError("x")
    assert gc.isenabled()
