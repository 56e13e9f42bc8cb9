"""Run `abeval tools assign`: assign ids to variants by hash."""

import csv
from dataclasses import asdict
from datetime import datetime, timedelta
from json import dumps
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from abeval.cli.options import JsonFile, Reads, open_console, parse_weights
from abeval.errors import ExperimentError, LogError
from abeval.files import write_text

if TYPE_CHECKING:
    from pandas import DataFrame

    from abeval.assignment import Plan
    from abeval.assignment.switchbacks import Schedule


def assign(
    salt: str,
    variants: str,
    ids: Annotated[Path | None, Argument(), Reads("the ids")] = None,
    column: str | None = None,
    explain: Annotated[str | None, Option(metavar="ID")] = None,
    sql: Annotated[str | None, Option(metavar="DIALECT")] = None,
    traffic: float = 1.0,
    layer: Annotated[str | None, Option(metavar="SALT:START-STOP")] = None,
    holdout: Annotated[str | None, Option(metavar="SALT:SHARE")] = None,
    overrides: Annotated[Path | None, Reads()] = None,
    sticky: Annotated[Path | None, Reads()] = None,
    slots: Annotated[str | None, Option(metavar="LENGTH")] = None,
    period: Annotated[tuple[datetime, datetime] | None, Option(metavar="START END")] = None,
    schedule: Literal["balanced", "coin", "alternating"] = "balanced",
    json: JsonFile = None,
) -> None:
    """Assign ids to variants by hash, and print them as CSV.

    The CSV has the id, variant, slot, sub_bucket and reason. With --slots, print the variant of
    each id from start to end of each slot instead.

    Options:
        salt: Salt of the hash: the name of the randomisation.
        variants: Variants and weights, such as control=0.5,treatment=0.5.
        ids: A CSV file with a header line.
        column: The id column, if it is not the first.
        explain: Explain the variant of one id instead.
        sql: Print the rule as SQL instead: duckdb or spark.
        traffic: Share of units in the experiment; more only adds units.
        layer: Slots of a layer, such as ranker:0-300000.
        holdout: Share held out first, such as hold.2026:0.05.
        overrides: CSV of unit and variant, not to be analysed.
        sticky: CSV of unit and variant that units keep.
        slots: Let ids (clusters) take turns, in slots such as 2h.
        period: When the slots start, and their end.
        schedule: How slots are drawn.

    Examples:
    abeval tools assign ids.csv --salt exp_42 --variants a=0.5,b=0.5
    abeval tools assign --salt exp_42 --variants a=0.5,b=0.5 --explain user_1
    """
    from abeval.assignment import Assignment
    from abeval.assignment.plan import read_plan

    split = Assignment(salt, parse_weights(variants, "--variants"))
    plan = read_plan(split, traffic, layer, holdout, overrides, sticky)
    if explain is not None:
        _explain(plan, explain, json)
    elif sql is not None:
        typer.echo(_write_rule_sql(plan, sql))
    elif ids is not None and slots is not None:
        # Switchbacks alternate two variants: other splits have no schedule.
        if period is None or len({*split.weights.values()}) != 1 or len(split.weights) != 2:
            hint = "such as --period 2026-09-14 2026-09-28 --variants a=0.5,b=0.5"
            raise ExperimentError("slots need a period, and two variants of one weight", hint)
        clusters, _ = _read_ids(ids, column)
        _write(_assign_slots(plan, clusters, slots, period, schedule), json)
    elif ids is not None:
        units, name = _read_ids(ids, column)
        frame = plan.place_many(units).rename(columns={"unit": name})
        _write(frame[[name, "variant", "slot", "sub_bucket", "reason"]], json)
    else:
        raise ExperimentError("nothing to assign", "give a CSV file of ids, or --explain ID")


def _explain(plan: "Plan", unit: str, file: Path | None) -> None:
    # Each step's words go on below its words, not below its name.
    for line in plan.explain(unit).splitlines():
        typer.echo(fill(line, open_console().width, subsequent_indent=" " * 12))
    if file is not None:
        explanation = plan.split.explain(unit)
        placement = plan.place(unit)
        fields = {
            **asdict(explanation),
            "range": [explanation.range.start, explanation.range.stop],
            "variant": placement.variant,
            "reason": placement.reason,
        }
        write_text(file, dumps(fields, indent=2) + "\n")


def _write_rule_sql(plan: "Plan", dialect: str) -> str:
    from abeval.engines.builders import write_rule_variant
    from abeval.engines.statement import write_rule_statement

    if plan.overrides or plan.sticky:
        what = "overrides and sticky units are a table, not a rule"
        raise ExperimentError(what, "join the table in your own SQL")
    variant = write_rule_variant(plan.rule(), "cast(unit_id as varchar)")
    return write_rule_statement(f"select unit_id, {variant} as variant from units", dialect)


def _write(frame: "DataFrame", file: Path | None) -> None:
    if file is not None:
        write_text(file, frame.to_json(orient="records", indent=2) + "\n")
    typer.echo(frame.to_csv(index=False), nl=False)


def _assign_slots(
    plan: "Plan",
    clusters: list[str],
    length: str,
    period: tuple[datetime, datetime],
    schedule: "Schedule",
) -> "DataFrame":
    import pandas as pd

    from abeval.assignment.switchbacks import build_schedule
    from abeval.experiment.sections import Switchback

    try:
        slot_length = timedelta(milliseconds=Switchback(cluster="id", slot=length).slot_ms)
    except ValueError:
        raise ExperimentError(f"--slots {length} does not divide a day", "use such as 2h") from None
    first, second = plan.split.weights
    rows = build_schedule(clusters, (first, second), period, slot_length, plan.split.salt, schedule)
    return pd.DataFrame(rows).astype({"start": str, "end": str})


def _read_ids(file: Path, column: str | None) -> tuple[list[str], str]:
    """Read the ids as text, and the name of their column."""
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
