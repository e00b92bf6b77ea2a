"""Figures of the pages of the timing model and of its hosts."""

from __future__ import annotations

from benchmarks.markdown import Json, machine_line, renewed, table


def _whole_row(row: Json) -> tuple[str, ...]:
    judging = row["judging"]
    return (
        f"`{row['model']}`",
        f"`{row['host']}`",
        row["part"],
        f"{row['measured']:.3f} ms",
        f"{row['chip']:.3f} ms",
        f"{row['operators']:.3f} ms",
        f"{row['chip'] + row['operators']:.3f} ms",
        f"{row['error']:+.1f} %",
        "" if judging is None else f"{judging:+.1f} %",
    )


def hosts(results: Json) -> str:
    """The page of hosts: its text, with the figures between markers made anew."""
    aims, judged = results["aims"], results["judged"]
    everything = judged["all"]
    text = (
        f"\n**{everything['rows']:.0f} predictions of rows that were not used for the constants: "
        f"mean error {everything['mean']:.1f} % (aim {aims['mean']:g} %), largest "
        f"{everything['largest']:.1f} % (aim {aims['largest']:g} %).**\n\n"
    )
    text += table(
        ("host", "rows", "mean error", "largest"),
        [
            (
                f"`{name}`",
                f"{figures['rows']:.0f}",
                f"{figures['mean']:.1f} %",
                f"{figures['largest']:.1f} %",
            )
            for name, figures in judged.items()
            if name != "all"
        ],
    )
    text += "\n### Every row\n\n"
    rows = [row for row in results["rows"] if row["modelled"] is not None]
    text += table(
        ("model", "host", "clock", "part", "measured", "modelled", "error", "from other rows", ""),
        [_host_row(row) for row in rows],
    )
    text += "\n### Whole models with operators on the host\n\n"
    text += table(
        ("model", "host", "part", "measured", "chip", "operators", "estimate", "error", "judging"),
        [_whole_row(row) for row in results["whole"]],
    )
    text += "\n### Rows without an available package\n\n"
    text += table(
        ("model", "host", "measured"),
        [
            (f"`{row['model']}`", f"`{row['host']}`", f"{row['measured']:.3f} ms")
            for row in results["rows"]
            if row["modelled"] is None
        ],
    )
    text += "\n### Constants that the rows of google-coral/cts give\n\n"
    text += table(
        ("host", "constant", "value"),
        [
            (f"`{host}`", name, f"{value:.3g}")
            for host, constants in results["constants"].items()
            for name, value in constants.items()
        ],
    )
    return renewed("hosts.md", f"{text}\n{machine_line(results)}\n\n")


def _host_row(row: Json) -> tuple[str, ...]:
    alone = row["left_out"]
    return (
        f"`{row['model']}`",
        f"`{row['host']}`",
        row["clock"],
        row["part"],
        f"{row['measured']:.3f} ms",
        f"{row['modelled']:.3f} ms",
        f"{100 * (row['modelled'] / row['measured'] - 1):+.1f} %",
        "" if alone is None else f"{100 * (alone / row['measured'] - 1):+.1f} %",
        row["note"],
    )


def timing(results: Json) -> str:
    """The page of the timing model: its text, with the figures between markers made anew."""
    text = ""
    bounds, judged = results["bounds"], results["judged"]
    text += (
        f"\n**{judged['rows']} rows that judge: mean error {judged['mean']:.1f} % "
        f"(bound {bounds['mean']:g} %), largest {judged['largest']:.1f} % "
        f"(bound {bounds['largest']:g} %).**\n"
    )
    for part, title in (
        ("judge", "Rows that judge"),
        ("calibrate", "Rows that constants were fitted to"),
        ("other", "Other rows of programs at hand"),
    ):
        text += f"\n### {title}\n\n"
        text += table(
            ("model", "host", "clock", "measured", "modelled", "error"),
            [
                (
                    f"`{row['model']}`",
                    f"`{row['host']}`",
                    row["clock"],
                    f"{row['measured']:.3f} ms",
                    f"{row['modelled']:.3f} ms",
                    f"{row['error']:+.1f} %",
                )
                for row in results["rows"]
                if row["part"] == part
            ],
        )
    text += (
        "\nDense layers and PoseNet at `high` were measured on an unnamed host; they are compared "
        "with a host that has the same link.\n\n"
        "Four large convolutions are compared only by differences, since nothing is known about "
        "their host. Two of them are available, of different kinds; the difference between these "
        "two does not measure size and is not counted:\n\n"
    )
    text += table(
        ("longer", "shorter", "measured difference", "modelled", "error"),
        [
            (
                f"`{pair['larger']}`",
                f"`{pair['smaller']}`",
                f"{pair['measured']:.2f} ms",
                f"{pair['modelled']:.2f} ms",
                f"{100 * (pair['modelled'] / pair['measured'] - 1):+.1f} %",
            )
            for pair in results["differences"]
        ],
    )
    text += (
        "\n### Not covered\n\nTest rows without an available program: "
        + ", ".join(f"`{name}`" for name in results["missing"]["programs"])
        + ". Rows of hosts without a model: "
        + "; ".join(f"{host} ({count})" for host, count in results["missing"]["hosts"].items())
        + ".\n\n### The chip alone\n\nFrom the last input to the first output in USB traces of a "
        "Jetson Nano at 10 W, minus the 17 µs of an empty program there.\n\n"
    )
    text += table(
        ("model", "measured", "modelled"),
        [
            (
                f"`{trace['model']}`",
                f"{trace['lowest']:.0f} to {trace['highest']:.0f} µs",
                f"{trace['modelled']:.1f} µs",
            )
            for trace in results["traces"]
        ],
    )
    text += (
        "\nCycles with an infinitely fast host, compared with the sum over phases from which the "
        "constants were derived. That sum leaves out activation infeeds, outfeeds and conversions, "
        "so it says little about programs that mostly move data.\n\n"
    )
    text += table(
        ("model", "sum over phases", "this model", "difference"),
        [
            (
                f"`{entry['model']}`",
                f"{entry['phases']:,}",
                f"{entry['cycles']:,.0f}",
                f"{100 * (entry['cycles'] / entry['phases'] - 1):+.0f} %",
            )
            for entry in results["phase_model"]
        ],
    )
    return renewed("timing.md", f"{text}\n{machine_line(results)}\n\n")
