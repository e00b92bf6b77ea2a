"""Programs of published and confirmed forms only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.errors import CapacityError, UnsupportedError
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.program.confirmation import CODE, UnconfirmedError
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.formats.object_file import ObjectFile, write_object
from fitzroy.hw_models.edgetpu.envelope import Bound, Program, check, measured
from fitzroy.hw_models.edgetpu.envelope import published as published_ranges
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.report.forms import instructions

SEEDS = range(12)


@dataclass
class Lowered:
    """A program, and its forms that no published one has."""

    item: ObjectFile
    novel: set[str]
    program: Emitted | None = None


def lowered(seed: int) -> Lowered | None:
    found: set[str] = set()
    emitted: list[Emitted] = []

    def observe(stage: Form) -> None:
        if isinstance(stage, Emitted):
            emitted.append(stage)
            found.update(form(one) for _, _, one in stage.program)

    try:
        item = lower(random_model(seed), DEFAULT, observe)
    except UnsupportedError:
        return None
    return Lowered(item, found - set(published()), emitted[0])


@pytest.mark.long
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
        assert named
        assert all(reject.where for reject in caught.value.rejects)
    assert refused


@pytest.mark.long
def test_what_is_confirmed_is_used() -> None:
    for seed in SEEDS:
        usual = lowered(seed)
        if usual is None:
            continue
        confirmed = Options(confirmed=frozenset(usual.novel))
        assert write_object(lower(random_model(seed), confirmed)) == write_object(usual.item)


@pytest.mark.long
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
        assert {reject.what for reject in caught.value.rejects} == {f"the form {novel[0]!r}"}
    assert tried


@pytest.mark.long
def test_operators_whose_forms_are_not_confirmed_stay_on_the_host() -> None:
    options = Options(conservative=True, confirmed=frozenset())
    left, kept = 0, 0
    for seed in SEEDS:
        try:
            model = export_model(random_model(seed))
            source = Source("model.tflite", 0, model, import_model(model))
            result = compile_edgetpu(source, generator=options)
        except (CapacityError, UnsupportedError):
            continue
        kept += len(result.mapped)
        codes = {reject.code for placement in result.placements for reject in placement.rejects}
        left += CODE in codes
        for segment in result.segments:
            novel = {form(one) for _, one in instructions([segment.package])} - set(published())
            assert novel == set()
    assert left
    assert kept


def test_what_leaves_the_envelope_must_be_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = lowered(0)
    assert usual is not None
    assert usual.program is not None
    # A range that is narrower than it is, so that the program leaves it.
    values = measured(Program.of(usual.program.chunks)).values()
    item = next(
        one
        for one in values
        if one.property.bound is Bound.MOST and one.property.surveyed is None and one.highest
    )
    slug, ranges = item.property.slug, dict(published_ranges())
    ranges[slug] = replace(ranges[slug], lowest=0, highest=item.highest - 1)
    monkeypatch.setattr(check, "published", lambda: ranges)
    with pytest.raises(UnconfirmedError, match="1 thing") as caught:
        lower(random_model(0), Options(confirmed=frozenset(usual.novel)))
    assert slug in caught.value.rejects[0].what
    again = lower(random_model(0), Options(confirmed=frozenset({*usual.novel, slug})))
    assert write_object(again) == write_object(usual.item)
