"""Programs of published and confirmed forms only."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.targets.edgetpu.codegen.confirmation import UnconfirmedError
from fitzroy.compiler.targets.edgetpu.codegen.lower import lower
from fitzroy.compiler.targets.edgetpu.codegen.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.codegen.stages import Emitted, Form
from fitzroy.formats.object_file import ObjectFile, write_object
from fitzroy.hw_models.isa.forms import form, published

SEEDS = range(12)


@dataclass
class Lowered:
    """A program, and its forms that no published one has."""

    item: ObjectFile
    novel: set[str]


def lowered(seed: int) -> Lowered | None:
    found: set[str] = set()

    def observe(stage: Form) -> None:
        if isinstance(stage, Emitted):
            found.update(form(one) for _, _, one in stage.program)

    try:
        item = lower(random_model(seed), DEFAULT, observe)
    except UnsupportedError:
        return None
    return Lowered(item, found - set(published()))


def test_what_is_not_confirmed_is_refused_and_named() -> None:
    refused = 0
    for seed in SEEDS:
        usual = lowered(seed)
        novel = set() if usual is None else usual.novel
        if not novel:
            continue
        refused += 1
        with pytest.raises(UnconfirmedError) as caught:
            lower(random_model(seed), Options(confirmed=frozenset()))
        named = {reject.what for reject in caught.value.rejects}
        assert named <= {f"the form {text!r}" for text in novel}
        assert len(named) == min(len(novel), 20)
        assert all(reject.where for reject in caught.value.rejects)
    assert refused


def test_what_is_confirmed_is_used() -> None:
    for seed in SEEDS:
        usual = lowered(seed)
        if usual is None:
            continue
        confirmed = Options(confirmed=frozenset(usual.novel))
        assert write_object(lower(random_model(seed), confirmed)) == write_object(usual.item)


def test_one_form_less_is_refused() -> None:
    tried = 0
    for seed in SEEDS:
        usual = lowered(seed)
        novel = sorted(usual.novel) if usual is not None else []
        if len(novel) < 2:
            continue
        tried += 1
        with pytest.raises(UnconfirmedError) as caught:
            lower(random_model(seed), Options(confirmed=frozenset(novel[1:])))
        (reject,) = caught.value.rejects
        assert novel[0] in reject.what
    assert tried
