"""`abeval audit`: are the logged variants those that the assignment gives?

Calls `LoadedExperiment.audit` of `api.py`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, write_json

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.audit import AuditResult


def audit(
    loaded: "LoadedExperiment",
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another experiment: a CSV file of unit and variant; repeat for more.",
            metavar="NAME=FILE",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Compute each unit's variant by [assignment], and compare it with the log."""
    from abeval.assignment.files import read_assignments
    from abeval.progress import steps

    others = read_assignments(against or ())
    with steps() as step:
        result = loaded.audit(others=others, step=step)
    write_json(json_file, result)
    typer.echo(_text(result))


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
