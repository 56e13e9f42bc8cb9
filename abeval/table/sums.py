"""Analyse a table of sums or counts in place of logs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import BUCKET, DAY, SEGMENT, SUM_NAMES, WHOLE, Group, SumsRow
from abeval.drafts import counts, words
from abeval.drafts.columns import measure_table
from abeval.drafts.counts import DAY_UNIT, CallerNames
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quote
from abeval.errors import ExperimentError, LogError
from abeval.experiment.load import make_source, parse_experiment
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.experiment.problems import check_spelled_once, suggest_name
from abeval.experiment.sources import ROW_UNIT, LogSource
from abeval.files import resolve_path
from abeval.inference.judge import judge
from abeval.logs.accounting import DayRows
from abeval.logs.placing import list_planned_splits
from abeval.metrics.definition import ColumnTerm, Kind, Metric, find_rounding_step
from abeval.results.analysis import Result
from abeval.table.columns import TABLE, TableOptions, list_specs, quote_column
from abeval.table.counts import Summary, Sums, check_bounds, parse_day, sum_counts
from abeval.table.read import choose_variants

_STEP = Fraction(1, 10**12)
"""Default value of one counted unit: decimals beyond it are rounded away."""

_LABELS = ("metric", "variant", "n", "day")
SCALES = ("scale_y", "scale_x", "scale_c")
"""Columns with the value of 1 in sums of y, x and c; by default 1."""
_VALUE = ("sum_y", "sum_yy")
_DENOMINATOR = ("sum_x", "sum_xx", "sum_xy")
_BEFORE = ("sum_c", "sum_cc", "sum_cy")

_LETTERS = {"y": "y", "x": "x", "y0": "c", "x0": "d", "z": "z"}
"""Value in `SUM_NAMES` → its letter in the names of sum columns."""


def name_column(letters: Sequence[str]) -> str:
    """Name the column with the sum of a product of values.

    Example:
        >>> name_column("yxx")
        'sum_xxy'
    """
    return f"sum_{''.join(sorted(letters))}"


_SUM_COLUMNS = {
    name: name_column([_LETTERS[part] for part in name.split("_")]) for name in SUM_NAMES
}
"""Name in `SUM_NAMES` → column of a table of sums."""

_COLUMNS = (*_LABELS, *SCALES, *_SUM_COLUMNS.values())
"""Columns of a table of sums; only labels and sums of y are required."""

_ONE = Fraction(1)
_ROUNDED = Fraction(1, 10**9)
"""Relative tolerance of the Cauchy-Schwarz check for rounded sums."""


_PRODUCTS = (
    *(("sum_y", "n", "sum_yy"), ("sum_x", "n", "sum_xx"), ("sum_c", "n", "sum_cc")),
    *(("sum_xy", "sum_xx", "sum_yy"), ("sum_cy", "sum_cc", "sum_yy")),
)
"""Sum, and two sums whose product is never below its square (Cauchy-Schwarz)."""

_NEEDED = ("metric", "variant", "n", *_VALUE)
_FORM = "metric, variant, day, n, sum_y, sum_yy, and of a ratio sum_x, sum_xx, sum_xy"


def name_source(source: object) -> str:
    """Name a table of sums for messages."""
    if isinstance(source, LogSource):
        return Path(*source.paths[:1]).name or str(source.table)
    return Path(source).name if isinstance(source, str | Path) else "the frame"


def read_sums(source: object, caller: CallerNames | None = None, folder: Path = Path()) -> Sums:
    """Read a table of sums or of counts, a file or a frame.

    `caller` names columns of a table of counts; paths of a log begin in `folder`.
    """
    caller = caller or CallerNames()
    with closing(DuckDBEngine(folder=folder)) as engine:
        _add_table(engine, source, caller.variant)
        name = name_source(source)
        table_columns = {column.lower(): column for column in engine.columns(TABLE)}
        # A table without any column of sums may be one of counts.
        has_sums = bool(table_columns.keys() & {*_VALUE, *_DENOMINATOR})
        if not has_sums and (found := _read_counts(engine, source, caller)) is not None:
            return found
        _check_columns(table_columns, name)
        used_columns = [column for column in _COLUMNS if column in table_columns]
        select_list = ", ".join(f"cast({quote(table_columns[c])} as varchar)" for c in used_columns)
        rows = engine.rows(f"select {select_list} from {TABLE}")
    return Sums(name, parse_summaries(used_columns, rows, name))


def parse_summaries(
    columns: Sequence[str], rows: Sequence[Sequence[object]], name: str
) -> list[Summary]:
    """Parse and check rows of a table of sums."""
    if not rows:
        raise LogError(f"{name} has no rows", f"give one row a metric and variant: {_FORM}")
    checked = [
        _parse_summary(dict(zip(columns, row, strict=True)), f"{name}, row {i}")
        for i, row in enumerate(rows, start=1)
    ]
    _check_rows(checked, name)
    return checked


def read_count_table(table: object, options: TableOptions) -> Sums | None:
    """Read a table of counts; None if it is another table, or has a unit column."""
    is_other = options.unit not in (None, ROW_UNIT, DAY_UNIT) or bool(options.covariates)
    if is_other or not _may_be_counts(table, options):
        return None
    metrics = options.metrics
    named = None if metrics is None else dict(map(_split_metric, list_specs(metrics)))
    caller_names = CallerNames(options.variant, options.unit or "", named, list(options.segments))
    with closing(DuckDBEngine()) as engine:
        _add_table(engine, table, caller_names.variant)
        return _read_counts(engine, table, caller_names)


_SMALL = 4_000_000
"""Largest file, in bytes, that is tried as a table of counts."""


def _may_be_counts(table: Any, options: TableOptions) -> bool:  # noqa: ANN401 (any table)
    """Tell without reading a table whether it may be counts.

    Counts are small, with few rows of each key. `read_counts` finds the same key, or fewer columns
    of it and so no more keys.
    """
    if isinstance(table, str | Path):
        # A name that no file can have is refused where the file is read.
        with suppress(OSError):
            return Path(table).is_file() and Path(table).stat().st_size <= _SMALL
        return False
    try:
        rows = len(table)
    except TypeError:
        # A lazy frame has no length: it would have to be computed.
        return False
    # Duck-typed: pandas is not imported for other frames.
    is_pandas = hasattr(table, "select_dtypes") and options.variant in table.columns
    if rows > counts.MOST_ROWS or not is_pandas:
        return rows <= counts.MOST_ROWS
    numbers = {*table.select_dtypes("number").columns} - {options.variant}
    keys = [name for name in table if counts.may_be_key(str(name), name in numbers)]
    with suppress(TypeError):
        # A cell that is a list cannot be compared.
        return not counts.are_many_rows(rows, len(table[keys].drop_duplicates()))
    return True


def _split_metric(spec: Mapping[str, Any]) -> tuple[str, tuple[str, str | None]]:
    """Return a metric's name, its column and its column of units."""
    text = spec.get("value") or spec.get("numerator") or spec["name"]
    column, _, n = (part.strip(' "') for part in str(text).partition("/"))
    return spec["name"], (column, str(spec.get("denominator", n)).strip(' "') or None)


def _read_counts(engine: DuckDBEngine, source: object, caller_names: CallerNames) -> Sums | None:
    """Read the engine's table as counts; None if it is no table of counts."""
    table = counts.read_counts(engine, measure_table(engine, TABLE), caller_names)
    if table is None:
        return None
    if isinstance(source, str | Path | LogSource):
        # Names of variants in text files are text, whatever they look like.
        _add_table(engine, source, table.variant)
        variant_names = caller_names._replace(variant=table.variant)
        table = counts.read_counts(engine, measure_table(engine, TABLE), variant_names) or table
    return sum_counts(table, caller_names.unit, name_source(source))


def read_experiment_sums(experiment: Experiment, sums: object = None) -> Sums:
    """Read the sums of an experiment: given ones, or those of its file."""
    log = experiment.logs.sums
    # Without sums of its own, its metrics are expressions over a log.
    chosen = [] if log is None else experiment.metrics
    columns = dict(_split_metric(choice.model_dump(exclude_none=True)) for choice in chosen)
    variant = "" if log is None else log.columns.get("variant", "")
    caller_names = CallerNames(variant, experiment.unit, columns or None)
    return read_sums(log if sums is None else sums, caller_names, experiment.folder)


def _add_table(engine: DuckDBEngine, source: object, variant: str) -> None:
    """Add a file or a frame as `TABLE`, with names of variants as text."""
    columns = {"variant": variant or "variant"}
    if isinstance(source, LogSource):
        engine.add_log(TABLE, source.model_copy(update={"columns": columns}))
    elif isinstance(source, str | Path):
        path = str(resolve_path(Path(source)))
        engine.add_log(TABLE, make_source({"path": path, "columns": columns}))
    else:
        engine.add_frame(TABLE, source, make_source({"columns": columns}))


def _check_columns(table_columns: Mapping[str, str], name: str) -> None:
    for column in _NEEDED:
        if column not in table_columns:
            what = f"{name} has no column {column!r}{suggest_name(column, table_columns)}"
            raise LogError(what, f"its columns: {_FORM}")
    for column in table_columns:
        if column not in _COLUMNS:
            hint = suggest_name(column, _COLUMNS)
            what = f"{name} has a column {column!r} that sums do not have{hint}"
            before = f"of values before the period {', '.join(_BEFORE)}"
            raise LogError(what, f"its columns: {_FORM}; {before}; products of three sum_yyy, …")
    for group in (_DENOMINATOR, _BEFORE):
        lacking = [column for column in group if column not in table_columns]
        if 0 < len(lacking) < len(group):
            what = f"{name} has no column {lacking[0]!r}"
            raise LogError(what, f"{', '.join(group)} go together")


def _parse_summary(row: Mapping[str, object], where: str) -> Summary:
    metric, variant = (_read_text(row, name) for name in ("metric", "variant"))
    if not (metric and variant):
        empty = "variant" if metric else "metric"
        raise LogError(f"{where}: {empty} is empty", "name each row's metric and variant")
    if words.is_role_name(variant, "total"):
        raise LogError(f"{where}: variant is {variant!r}, the sum of other rows", "leave it out")
    units = _read_number(row, "n", where)
    if units is None or units < 0 or units.denominator != 1:
        raise LogError(f"{where}: n is {row['n']!r}, not a number of units")
    numbers = {column: _read_number(row, column, where) for column in _COLUMNS[len(_LABELS) :]}
    given = {column: x for column, x in numbers.items() if x is not None}
    steps = {name[-1]: given.pop(name) for name in SCALES if name in given}
    if any(step <= 0 for step in steps.values()):
        raise LogError(f"{where}: a scale is not above 0", "it is the worth of 1 in the sums")
    sums = {name: x * _compute_worth(name, steps) for name, x in given.items()}
    for group in (_VALUE, _DENOMINATOR, _BEFORE):
        missing = [name for name in group if name not in sums]
        if missing and (group == _VALUE or len(missing) < len(group)):
            raise LogError(f"{where}: {missing[0]} is empty", f"{', '.join(group)} go together")
    for total, first, second in _PRODUCTS:
        squares = (units if first == "n" else sums.get(first, 0)) * sums.get(second, 0)
        # A frequent mistake: squares summed over rows, not over each unit's total.
        if total in sums and sums[total] ** 2 > squares * (1 + _ROUNDED):
            raise LogError(
                f"{where}: {first} · {second} is smaller than {total}², which no values have",
                f"{second} is the sum of the squares of each unit's own total",
            )
    return Summary(metric, variant, _read_day(row, where), int(units), sums, steps=steps)


def _read_text(row: Mapping[str, object], name: str) -> str:
    """Return a cell as stripped text; empty for nulls as warehouses write them."""
    text = str(row.get(name) or "").strip()
    return "" if text in ("\\N", "NULL") else text


def _read_number(row: Mapping[str, object], name: str, where: str) -> Fraction | None:
    text = _read_text(row, name)
    if not text:
        return None
    value = counts.parse_number(text)
    if value is None:
        raise LogError(f"{where}: {name} is {row[name]!r}, not a number")
    return check_bounds(value, f"{where}: {name}")


def _read_day(row: Mapping[str, object], where: str) -> str | None:
    text = _read_text(row, "day")
    day = parse_day(text)
    if text and day is None:
        raise LogError(f"{where}: day is {text!r}, not like 2026-09-14")
    return day


def _check_rows(rows: Sequence[Summary], source: str) -> None:
    """Refuse duplicate rows, and days without a row for the whole period."""
    keys = set[tuple[str, str, str | None]]()
    period_units = {(row.metric, row.variant): row.units for row in rows if row.day is None}
    for metric, variant, day, units, *_ in rows:
        if (metric, variant, day) in keys:
            when = "" if day is None else f" on {day}"
            raise LogError(
                f"{source} has {metric} of {variant}{when} twice",
                "give one row for each metric, variant and day: add up the sums of different units",
            )
        keys.add((metric, variant, day))
        # The units of a day are among those of the period.
        if units > period_units.get((metric, variant), units):
            what = f"{source} has {units:,} units with {metric} of {variant} on {day}"
            raise LogError(f"{what}, more than in all", "n of a day is of the same units")
        if (metric, variant) not in period_units:
            raise LogError(
                f"{source} has {metric} of {variant} by day only, and units return on other days",
                "add a row with an empty day: the sums of each unit's total over the period",
            )


def make_sums_experiment(table: Sums, options: TableOptions) -> Experiment:
    """Make the experiment of a table of sums; its metrics are goals.

    Metrics of the options say more of some: a role, a direction.
    """
    specs = list_specs(options.metrics or ())
    more = {spec["name"]: {k: v for k, v in spec.items() if k not in _TEXTS} for spec in specs}
    units = dict(sorted(_count_units(table.rows).items()))
    check_spelled_once("the table of sums", units, "give both one name and add their sums")
    variants, questions = choose_variants(options, units)
    has_before = any(_BEFORE[0] in row.sums for row in table.rows)
    ratios = {row.metric for row in table.rows if _DENOMINATOR[0] in row.sums}
    metrics = []
    for name in dict.fromkeys(row.metric for row in table.rows):
        plain = {"numerator": "y", "denominator": "x"} if name in ratios else {"value": "y"}
        entry = {"role": "goal", **table.entries.get(name, plain), **more.get(name, {})}
        metrics.append({"name": name, **entry})
    experiment_entries = {
        "name": table.name.partition(".")[0] or "sums",
        "unit": table.unit,
        # Days that are units are in both variants.
        "questions": [] if table.days_are_units else questions,
        **variants,
        "logs": {"units": {"covariates": ["before"] if has_before else []}},
        "inference": {"adjust": "cuped" if has_before else "none"},
        "segments": {name: quote_column(column) for name, column in table.segments.items()},
        "metrics": metrics,
    }
    return parse_experiment({**experiment_entries, **options.entries}, source="the analysis")


_TEXTS = ("value", "numerator", "denominator")


def judge_sums(experiment: Experiment, table: Sums) -> Result:
    """Analyse sums by metric, variant and day."""
    return judge(*aggregate_sums(experiment, find_metrics_by_name(experiment), table))


def aggregate_sums(
    experiment: Experiment, metrics: Sequence[Metric], table: Sums
) -> tuple[Experiment, list[Metric], Aggregates]:
    """Turn a table of sums into the experiment, metrics and aggregates to judge."""
    rows = table.rows
    check_supported(experiment, metrics, any(_BEFORE[0] in row.sums for row in rows))
    _check_variants(experiment, rows, table.name)
    by_metric = {m.name: [row for row in rows if row.metric == m.name] for m in metrics}
    fitted = {m.name: _fit_metric(m, by_metric[m.name], table) for m in metrics}
    used = [row for row in rows if fitted.get(row.metric) is not None]
    judged = filter(None, fitted.values())
    forms = {m.name: (m.per is not None, _find_steps(by_metric[m.name])) for m in judged}
    days = dict.fromkeys(row.day for row in used if table.days_are_units)
    day_numbers = {day: str(index) for index, day in enumerate(days)}
    units, unfit = _count_units(used), [name for name, metric in fitted.items() if metric is None]
    # What the table leaves open becomes an open question of the experiment.
    questions = list(dict.fromkeys([*experiment.questions, *table.questions]))
    unit = DAY_UNIT if table.days_are_units else experiment.unit
    judged_experiment = experiment.model_copy(update={"questions": questions, "unit": unit})
    aggregates = Aggregates(
        moments=[_sum_row(row, _find_slice(row, day_numbers), *forms[row.metric]) for row in used],
        units=units,
        days=[] if table.days_are_units else _list_days(used),
        refused={name: (_explain_missing(by_metric[name], name),) for name in unfit},
        facts={"units": sum(units.values())},
        notes=tuple(_list_notes(experiment, table, used, fitted)),
        days_are_units=table.days_are_units,
    )
    return judged_experiment, [fitted[metric.name] or metric for metric in metrics], aggregates


def check_supported(experiment: Experiment, metrics: Sequence[Metric], has_before: bool) -> None:
    """Refuse options of an experiment that need values of units.

    `has_before` tells whether there are sums of values from before the period.
    """
    inference = experiment.inference
    needs = {
        "inference.stratify_by": inference.stratify_by is not None,
        "inference.resample": inference.resample is not None,
        "inference.looks = 'group_sequential'": inference.looks == "group_sequential",
        f"inference.adjust = {inference.adjust!r} without {', '.join(_BEFORE)}": (
            inference.adjust in ("cuped", "regression") and not has_before
        ),
        "assignment.splits that change": len(list_planned_splits(experiment)) > 1,
        **{f"cap of {metric.name}": metric.cap is not None for metric in metrics},
    }
    refused = [name for name, is_there in needs.items() if is_there]
    if refused:
        what = f"sums cannot give: {', '.join(refused)}"
        raise ExperimentError(what, "remove it, or analyse the logs")


def _check_variants(experiment: Experiment, rows: Sequence[Summary], source: str) -> None:
    there = {row.variant for row in rows}
    for name in experiment.variants:
        if name not in there:
            what = f"{source} has no sums of variant {name!r}{suggest_name(name, there)}"
            raise LogError(what, f"it has: {', '.join(sorted(there))}")
    for name in sorted(there - {*experiment.variants}):
        what = f"{source} has sums of {name!r}, which the experiment does not name"
        raise LogError(what, "name it in [variants], or leave its rows out")


def _fit_metric(metric: Metric, rows: Sequence[Summary], table: Sums) -> Metric | None:
    """Adapt a metric to its sums; None if they are of another kind."""
    has_denominator = bool(rows) and _DENOMINATOR[0] in rows[0].sums
    # A table of counts defines its metrics itself.
    is_other = not table.entries and has_denominator != (metric.kind == "ratio")
    if not rows or not metric.is_mean_or_ratio or is_other:
        return None
    steps = _find_steps(rows)
    value, per = (
        ColumnTerm(
            "sum",
            float(steps[letter]),
            rounded=steps[letter] != _STEP and find_rounding_step(metric) > 0,
        )
        for letter in "yx"
    )
    bare = replace(
        metric, needs=frozenset(), left_out=(), lacking=(), presence_terms=None, covariates=()
    )
    if table.days_are_units:
        # Both variants have the same days: the jackknife of functions leaves a day out in both.
        return replace(bare, kind="function", value=value, per=per)
    kind: Kind = "ratio" if has_denominator else "mean"
    return replace(bare, kind=kind, value=value, per=per if has_denominator else None)


def _find_steps(rows: Sequence[Summary]) -> Mapping[str, Fraction]:
    """Return the value of one counted unit by letter: the table's, or `_STEP`."""
    steps = dict(rows[0].steps)
    is_one = all(row.steps == steps for row in rows)
    if not is_one or "y" not in steps or steps.get("c", steps["y"]) != steps["y"]:
        return dict.fromkeys("yxcd", _STEP)
    x = steps.get("x", steps["y"])
    return {"y": steps["y"], "x": x, "c": steps["y"], "d": x}


def _explain_missing(rows: Sequence[Summary], name: str) -> str:
    """Write why the sums of a metric do not fit its definition."""
    if not rows:
        return "its sums"
    has = "a denominator" if _DENOMINATOR[0] in rows[0].sums else "no denominator"
    return f"sums of {name} as it is defined: they have {has}"


def _find_slice(row: Summary, day_numbers: Mapping[str | None, str]) -> tuple[str, str]:
    """Return the slice and the cell of a row; `day_numbers` are days as units."""
    if row.day in day_numbers:
        return BUCKET, day_numbers[row.day]
    if row.segment is not None:
        return SEGMENT + row.segment[0], row.segment[1]
    return (WHOLE, "") if row.day is None else (DAY, row.day)


def _sum_row(
    row: Summary, slice_cell: tuple[str, str], is_ratio: bool, steps: Mapping[str, Fraction]
) -> SumsRow:
    """Convert a row to integer sums; third moments only if all are known."""
    known_letters, is_day = _find_known_letters(row, is_ratio), slice_cell[0] == BUCKET

    def total(name: str) -> int | None:
        letters = [_LETTERS[part] for part in name.split("_")]
        past = "z" in letters and len(letters) == 3 and {*"cd"} & {*letters}
        letters = _drop_factors(letters, is_ratio)
        if not letters:
            return row.units
        column = name_column(letters)
        if past or not (is_day or known_letters.issuperset(letters)):
            return 0
        if column not in row.sums:
            # Of a day that is one unit only its totals are summed.
            return 0 if is_day else None
        return round(row.sums[column] / _compute_worth(column, steps))

    totals = {name: total(name) for name in _SUM_COLUMNS}
    if None in totals.values():
        totals |= {name: None for name in totals if name.count("_") == 2}
    units = 1 if is_day else row.units
    return SumsRow(row.metric, *slice_cell, Group(row.variant, 0), units, [*totals.values()])


def _drop_factors(letters: Sequence[str], is_ratio: bool) -> list[str]:
    """Drop the factors of a product that do not change it."""
    # The denominator of a mean is 1, and z is 0 or 1, so that z · z = z.
    factors = [letter for letter in letters if letter != "z" and (is_ratio or letter != "x")]
    return [*factors, "z"] if "z" in letters else factors


def _find_known_letters(row: Summary, is_ratio: bool) -> set[str]:
    """Find the letters whose sums and products of two are all in a row."""
    letters = set[str]()
    for letter in "yxcdz" if is_ratio else "ycz":
        products = (_drop_factors([letter, factor], is_ratio) for factor in {*letters, letter})
        if all(name_column(product) in row.sums for product in ([letter], *products)):
            letters.add(letter)
    return letters


def _compute_worth(column: str, steps: Mapping[str, Fraction]) -> Fraction:
    """Return the value of 1 in a column of sums."""
    letter_worth = {"d": steps.get("x", _ONE), "z": _ONE, **steps}
    return prod((letter_worth.get(letter, _ONE) for letter in column[len("sum_") :]), start=_ONE)


def _count_units(rows: Sequence[Summary]) -> dict[str, int]:
    """Count the units of each variant; of days alone, the days."""
    units: dict[str, int] = {}
    for row in rows:
        if row.day is None and row.segment is None:
            # Metrics may lack units: the one with most has all of them.
            units[row.variant] = max(units.get(row.variant, 0), row.units)
    return units or {row.variant: len({r.day for r in rows}) for row in rows}


def _list_days(rows: Sequence[Summary]) -> list[DayRows]:
    """List the days with sums; how many of their units are new is unknown."""
    by_day: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.day is not None:
            day_units = by_day.setdefault(row.day, {})
            day_units[row.variant] = max(day_units.get(row.variant, 0), row.units)
    return [DayRows(day, sum(n.values()), 0, 0, 0, 0) for day, n in sorted(by_day.items())]


def _list_notes(
    experiment: Experiment, table: Sums, rows: Sequence[Summary], metrics: Collection[str]
) -> Iterable[str]:
    units = _count_units(rows)
    period_rows = [row for row in rows if row.day is None and row.segment is None]
    yield (
        f"The numbers are from the sums in {table.name}: duplicates, crossovers and clicks without "
        "an impression cannot be checked, nor whether each unit is counted once."
    )
    if bare := dict.fromkeys(row.metric for row in period_rows if "sum_yyy" not in row.sums):
        yield (
            "Without third moments (sum_yyy, …) skewed values are judged by the usual tests: "
            f"{', '.join(bare)}."
        )
    yield from table.notes
    uneven = [row.metric for row in period_rows if row.units != units[row.variant]]
    if uneven:
        names = ", ".join(dict.fromkeys(uneven))
        yield f"Metrics over a part of the units, as their n says: {names}."
    if unnamed := sorted({row.metric for row in table.rows} - {*metrics}):
        names = ", ".join(unnamed)
        yield f"Sums of metrics that the experiment does not name are not used: {names}."
    if unseen := [name for name in experiment.segments if name not in table.segments]:
        yield f"Sums have no segments, so these are not shown: {', '.join(unseen)}."
    if experiment.logs.exposures is not None:
        yield "Sums do not show whether the split changed while units entered."
