"""Figures of the page of forms of instructions."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.markdown import Json, machine_line, renewed, table
from fitzroy.hw_models.isa.novelty import ASPECTS, Risk


def instruction_forms(results: Json) -> str:
    """The page of forms of instructions, with the figures between markers made anew."""
    rows = [
        (models, title, mode)
        for models, modes in results["models"].items()
        for title, mode in modes.items()
    ]
    begin, end = results["seeds"]
    text = f"\nRandom models are those of the seeds {begin} to {end - 1}.\n\n"
    text += table(
        ("models", "mode", "number", "instructions", "of a published form", "forms", "published"),
        [
            (
                models,
                title,
                str(mode["models"]),
                f"{mode['instructions']:,}",
                _part(mode["known_instructions"], mode["instructions"]),
                str(mode["forms"]),
                _part(mode["known_forms"], mode["forms"]),
            )
            for models, title, mode in rows
        ],
    )
    text += _risks(rows) + _reasons(rows)
    for models, title, mode in rows:
        if models != "corpus" and title != "default":
            continue
        text += f"\n### Forms that are not published, {models} models, {title} mode\n\n"
        listed = mode["novel"][: len(mode["novel"]) if models == "corpus" else _LISTED]
        if len(listed) < mode["forms"] - mode["known_forms"]:
            text += f"The {len(listed)} most frequent ones.\n\n"
        text += _forms(listed)
    return renewed("instruction_forms.md", f"{text}\n{machine_line(results)}\n\n")


_LISTED = 40
"""Forms of models that are not of the corpus on the page."""


def _risks(rows: Sequence[tuple[str, str, Json]]) -> str:
    """Instructions that are not of a published form, by what is at stake."""
    return "\n### By risk\n\n" + table(
        ("risk", "what puts a form there", *(f"{models}, {title}" for models, title, _ in rows)),
        [
            (
                risk.title,
                risk.meaning,
                *(
                    f"{mode['risks'][risk.title]['instructions']:,} of "
                    f"{mode['risks'][risk.title]['forms']} forms"
                    for _, _, mode in rows
                ),
            )
            for risk in reversed(Risk)
        ],
    )


def _reasons(rows: Sequence[tuple[str, str, Json]]) -> str:
    """Why units do not care about what is not published."""
    return "\n### Why the others are safe\n\n" + table(
        (
            "aspect",
            "what differs",
            "risk",
            *(f"{models}, {title}" for models, title, _ in rows),
            "why units do not care",
        ),
        [
            (
                aspect.name,
                aspect.title,
                aspect.risk.title
                if aspect.risk is aspect.unseen
                else f"{aspect.risk.title}; {aspect.unseen.title} where none has it",
                *(str(mode["aspects"].get(aspect.name, 0)) for _, _, mode in rows),
                aspect.why,
            )
            for aspect in ASPECTS
            if any(aspect.name in mode["aspects"] for _, _, mode in rows)
        ],
    )


def _forms(novel: Sequence[Json]) -> str:
    """Forms with the nearest ones that are published."""
    return table(
        (
            "instructions",
            "models",
            "first in",
            "form",
            "nearest published form has",
            "aspects",
            "risk",
        ),
        [
            (
                f"{item['count']:,}",
                str(item["models"]),
                f"`{item['first']}`",
                f"`{item['form']}`",
                "; ".join(_nearest(item, field) for field in item["nearest"]),
                ", ".join(item["aspects"]),
                item["risk"],
            )
            for item in novel
        ],
    )


def _part(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)"


def _nearest(item: Json, field: str) -> str:
    """What the nearest form has in a field, in bold if no published form has what the item has."""
    text = f"`{field}={item['nearest'][field] or 'none'}`"
    return f"**{text}**" if field in item["unseen"] else text
