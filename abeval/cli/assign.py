"""Run `abeval tools assign`: assign ids to variants by hash."""

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from abeval.cli.options import JsonFile, Reads, open_console, parse_weights
from abeval.errors import ExperimentError, LogError

if TYPE_CHECKING:
    from pandas import DataFrame

    from abeval.assignment import Plan
    from abeval.assignment.switchbacks import Schedule


def assign(
    salt: Annotated[str, typer.Option(help="Salt of the hash: the name of the randomisation.")],
    variants: Annotated[
        str, typer.Option(help="Variants and weights, such as control=0.5,treatment=0.5.")
    ],
    ids: Annotated[
        Path | None, typer.Argument(help="A CSV file with a header line."), Reads("the ids")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The id column, if it is not the first.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Explain the variant of one id instead.", metavar="ID")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(help="Print the rule as SQL instead: duckdb or spark.", metavar="DIALECT"),
    ] = None,
    traffic: Annotated[
        float, typer.Option(help="Share of units in the experiment; more only adds units.")
    ] = 1.0,
    layer: Annotated[
        str | None,
        typer.Option(help="Slots of a layer, such as ranker:0-300000.", metavar="SALT:START-STOP"),
    ] = None,
    holdout: Annotated[
        str | None,
        typer.Option(help="Share held out first, such as hold.2026:0.05.", metavar="SALT:SHARE"),
    ] = None,
    overrides: Annotated[
        Path | None, typer.Option(help="CSV of unit and variant, not to be analysed."), Reads()
    ] = None,
    sticky: Annotated[
        Path | None, typer.Option(help="CSV of unit and variant that units keep."), Reads()
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(help="Let ids (clusters) take turns, in slots such as 2h.", metavar="LENGTH"),
    ] = None,
    period: Annotated[
        tuple[datetime, datetime] | None,
        typer.Option(help="When the slots start, and their end.", metavar="START END"),
    ] = None,
    schedule: Annotated[
        Literal["balanced", "coin", "alternating"], typer.Option(help="How slots are drawn.")
    ] = "balanced",
    json_file: JsonFile = None,
) -> None:
    """Assign ids to variants by hash, and print them with variant, slot and sub_bucket as CSV.

    With --slots, print the variant of each id from start to end of each slot instead.

    Examples:
    abeval tools assign ids.csv --salt exp_42 --variants a=0.5,b=0.5
    abeval tools assign --salt exp_42 --variants a=0.5,b=0.5 --explain user_1
    """
    from abeval.assignment import Assignment
    from abeval.assignment.plan import read_plan

    split = Assignment(salt, parse_weights(variants, "--variants"))
    plan = read_plan(split, traffic, layer, holdout, overrides, sticky)
    if explain is not None:
        _explain(plan, explain, json_file)
    elif sql is not None:
        typer.echo(_write_rule_sql(plan, sql))
    elif ids is not None and slots is not None:
        # Switchbacks alternate two variants: other splits have no schedule.
        if period is None or len({*split.weights.values()}) != 1 or len(split.weights) != 2:
            hint = "such as --period 2026-09-14 2026-09-28 --variants a=0.5,b=0.5"
            raise ExperimentError("slots need a period, and two variants of one weight", hint)
        _assign_slots(plan, _read_ids(ids, column)[0], slots, period, schedule, json_file)
    elif ids is not None:
        units, name = _read_ids(ids, column)
        frame = plan.place_many(units).rename(columns={"unit": name})
        _write(frame[[name, "variant", "slot", "sub_bucket", "reason"]], json_file)
    else:
        raise ExperimentError("nothing to assign", "give a CSV file of ids, or --explain ID")


def _explain(plan: "Plan", unit: str, json_file: Path | None) -> None:
    from abeval.files import write_text

    # Each step's words go on below its words, not below its name.
    for line in plan.explain(unit).splitlines():
        typer.echo(fill(line, open_console().width, subsequent_indent=" " * 12))
    if json_file is not None:
        explanation = plan.split.explain(unit)
        placement = plan.place(unit)
        fields = {
            **asdict(explanation),
            "range": [explanation.range.start, explanation.range.stop],
            "variant": placement.variant,
            "reason": placement.reason,
        }
        write_text(json_file, json.dumps(fields, indent=2) + "\n")


def _write_rule_sql(plan: "Plan", dialect: str) -> str:
    from abeval.engines.builders import write_rule_variant
    from abeval.engines.statement import write_rule_statement

    if plan.overrides or plan.sticky:
        what = "overrides and sticky units are a table, not a rule"
        raise ExperimentError(what, "join the table in your own SQL")
    variant = write_rule_variant(plan.rule(), "cast(unit_id as varchar)")
    return write_rule_statement(f"select unit_id, {variant} as variant from units", dialect)


def _write(frame: "DataFrame", json_file: Path | None) -> None:
    from abeval.files import write_text

    if json_file is not None:
        write_text(json_file, frame.to_json(orient="records", indent=2) + "\n")
    typer.echo(frame.to_csv(index=False), nl=False)


def _assign_slots(
    plan: "Plan",
    clusters: list[str],
    length: str,
    period: tuple[datetime, datetime],
    schedule: "Schedule",
    json_file: Path | None,
) -> None:
    import pandas as pd

    from abeval.assignment.switchbacks import build_schedule
    from abeval.experiment.sections import Switchback

    try:
        slot_length = timedelta(milliseconds=Switchback(cluster="id", slot=length).slot_ms)
    except ValueError:
        raise ExperimentError(f"--slots {length} does not divide a day", "use such as 2h") from None
    first, second = plan.split.weights
    rows = build_schedule(clusters, (first, second), period, slot_length, plan.split.salt, schedule)
    _write(pd.DataFrame(rows).astype({"start": str, "end": str}), json_file)


def _read_ids(file: Path, column: str | None) -> tuple[list[str], str]:
    """Read the ids as text, and the name of their column."""
    import csv

    from abeval.experiment.problems import suggest_name

    try:
        # A device such as /dev/zero has no end.
        if file.is_char_device():
            raise LogError(f"{file} is a device", "give a CSV file, or a pipe")
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            # Text keeps leading zeros. Line numbers are for messages: a cell may span lines.
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "give a CSV file in UTF-8, with ids of at most 131,072 characters"
        raise LogError(f"{file} cannot be read: {reason}", hint) from error
    if not rows:
        raise LogError(f"{file} is empty", "give a CSV file with a header line and one id per line")
    header = rows[0][1]
    name = column or header[0]
    if name not in header:
        raise LogError(f"{file} has no column {name!r}{suggest_name(name, header)}")
    index = header.index(name)
    short = next((line for line, row in rows if len(row) <= index or not row[index]), None)
    if short is not None:
        raise LogError(f"{file}, line {short}: no id", "drop rows without an id")
    return [row[index] for _, row in rows[1:]], name
