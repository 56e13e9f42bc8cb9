"""`abeval audit`: are the logged variants those that the assignment gives?

Calls `LoadedExperiment.audit` of `api.py`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment
    from abeval.results.audit import AuditResult


def audit(
    loaded: "LoadedExperiment",
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another experiment: its file, or a CSV of unit and variant; repeat for more.",
            metavar="NAME=FILE",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Compute each unit's variant by [assignment], and compare it with the log."""
    from abeval.progress import steps

    others = {name: _other(file) for name, file in named_files(against or ()).items()}
    with steps() as step:
        result = loaded.audit(others=others, step=step)
    write_json(json_file, result)
    typer.echo(_text(result))


def _other(file: Path) -> "LoadedExperiment | pd.Series[str]":
    from abeval.api import load
    from abeval.assignment.files import read_assignment

    return load(file) if file.suffix == ".toml" else read_assignment(file)


def named_files(options: Iterable[str]) -> dict[str, Path]:
    """`NAME=FILE` each.

    Raises:
        ExperimentError: An option is not written so, or a name is there twice.
    """
    files: dict[str, Path] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not name or not file or name in files:
            raise ExperimentError(
                f"--against {option!r} is not NAME=FILE, or its name is there twice",
                "write --against other_experiment=units.csv",
            )
        files[name] = Path(file)
    return files


def _text(result: "AuditResult") -> str:
    lines = []
    if result.units:
        lines += _mismatches(result)
    elif result.scheme is not None:
        lines.append("the log names no variants: there is nothing to compare with the scheme")
    if result.uniformity is not None:
        lines.append(f"units are spread evenly over slots: p = {result.uniformity:.3g}")
    if result.pairs:
        lines += ["", f"{len(result.pairs)} pairs of experiments (p after Holm over the pairs)"]
    for pair in result.pairs:
        words = "too few units" if pair.p_adjusted is None else f"p = {pair.p_adjusted:.3g}"
        lines.append(f"  {pair.one} and {pair.other}: {words}, {pair.units:,} units in both")
    return "\n".join(lines)


def _mismatches(result: "AuditResult") -> list[str]:
    rate, low, high = (100 * (x or 0) for x in (result.rate, result.low, result.high))
    first = (
        f"{result.mismatches:,} of {result.units:,} units ({rate:.2f} %; 95 % interval "
        f"{low:.2f} % to {high:.2f} %) are in another variant than {result.scheme} gives"
    )
    since = [] if result.since is None else [f"they are more frequent since {result.since}"]
    table = result.to_frame()
    table["expected"] = table["expected"].fillna("(not in the experiment)")
    counts = table.pivot_table("units", "logged", "expected", aggfunc="sum", fill_value=0)
    head = "units by variant in the log (rows) and by the rule (columns)"
    return [first, *since, "", head, counts.to_string(), ""]
