"""Find contradictions between entries of an experiment file, section by section."""

from collections.abc import Collection, Mapping, Sequence
from zoneinfo import ZoneInfo, available_timezones

from abeval.bounds import MAX_METRICS, MAX_SEGMENTS, MAX_VARIANTS
from abeval.errors import ExperimentError
from abeval.experiment import sources
from abeval.experiment.metric_rules import (
    Mistakes,
    check_expression,
    check_inference,
    check_metrics,
)
from abeval.experiment.metrics import list_available_metrics
from abeval.experiment.model import Experiment, ScheduledSplit
from abeval.experiment.problems import Path, Problem, suggest_name
from abeval.experiment.sections import convert_to_datetime
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE, ROW_UNIT, LogSource

_NEEDS_UNIT = 'needs a unit to join by; unit = "row" has none'
_MOST = {
    "variants": MAX_VARIANTS,
    "metrics": MAX_METRICS,
    "segments": MAX_SEGMENTS,
    "cuts": MAX_SEGMENTS,
}
_MISSING = "belongs to [logs.impressions], which is missing"


def find_inconsistencies(experiment: Experiment) -> list[Problem]:
    """List the contradictions between entries, each with its path."""
    rules: list[tuple[Path, Mistakes]] = [
        ((), _check_experiment(experiment)),
        (("variants",), _check_variants(experiment)),
        ((), _check_times(experiment)),
        (("assignment",), _check_assignment(experiment)),
        ((), _check_interleaving(experiment)),
        (("logs",), _check_logs(experiment)),
        (("tables",), _check_tables(experiment)),
        (("cleaning",), _check_cleaning(experiment)),
        (("metrics",), check_metrics(experiment, list_available_metrics(experiment))),
        (("segments",), _check_segments(experiment)),
        (("cuts",), _check_cuts(experiment)),
        (("design",), _check_design(experiment)),
        (("inference",), check_inference(experiment)),
    ]
    return [Problem((*path, *keys), str(what)) for path, found in rules for *keys, what in found]


def _check_zone(name: str | None, where: str) -> Mistakes:
    if name is None:
        return
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        yield where, f"unknown time zone {name!r}{suggest_name(name, available_timezones())}"


def _check_experiment(experiment: Experiment) -> Mistakes:
    control, variants = experiment.control, experiment.variants
    if control not in variants:
        yield "control", f"no variant is called {control!r}{suggest_name(control, variants)}"
    for name, limit in _MOST.items():
        if (count := len(getattr(experiment, name))) > limit:
            what = f"{count:,} {name}, but at most {limit} are analysed at once"
            yield name, f"{what}: remove some, or write several experiment files"
    seen: set[str] = set()
    for i, choice in enumerate(experiment.metrics):
        # Results find a metric by its name or its label: both must be unique.
        for key, value in (("name", choice.name), ("label", choice.label)):
            if value in seen:
                yield "metrics", i, key, f"{value!r} is listed twice"
        seen |= {choice.name, choice.label or choice.name}
    if experiment.is_unit_table and not experiment.metrics:
        yield "metrics", 'a table of units needs [[metrics]], such as name = "revenue", a column'
    yield from check_expression(experiment.agreement.treated, "agreement", "treated")


def _check_times(experiment: Experiment) -> Mistakes:
    pre, period = experiment.pre_period, experiment.period
    yield from _check_zone(experiment.timezone, "timezone")
    # Without a period nobody knows where the time before it ends.
    if pre is not None and period is None:
        yield "pre_period", "needs a [period] that comes after it"
    elif pre is not None and period is not None and pre.bounds[1] > period.bounds[0]:
        yield "pre_period", "end", f"{pre.end} is after period.start {period.start}"
    for entry, span in (("period", period), ("pre_period", pre)):
        if experiment.is_unit_table and span is not None:
            yield entry, "a table of units has no times: remove it"


def _check_variants(experiment: Experiment) -> Mistakes:
    variants, control = experiment.variants, experiment.control
    for name, variant in variants.items():
        if variant.model is not None and variant.model not in experiment.models:
            hint = suggest_name(variant.model, experiment.models)
            yield name, "model", f"unknown model {variant.model!r}{hint}"
    if len(variants) < 2:
        yield ("an experiment compares at least two variants",)
    elif not any(variants[name].weight > 0 for name in experiment.treatments):
        yield ("every variant but control has weight 0",)
    if control in variants and variants[control].weight == 0:
        yield control, "weight", "control has weight 0, so there is nothing to compare with"
    # A variant without `of` joins the one arm that has its name.
    plain = (name for name, variant in variants.items() if variant.of is None)
    seen = dict.fromkeys(plain, "a variant of its own")
    for name, variant in variants.items():
        for arm in variant.of or ():
            if arm in seen:
                yield name, "of", f"{arm!r} is {seen[arm]} already; an arm has one variant"
            seen[arm] = f"in {name!r}"


def _check_assignment(experiment: Experiment) -> Mistakes:
    before = None
    for i, split in enumerate(experiment.schedule):
        for problem in _check_split(split, before, experiment):
            yield "splits", i, *problem
        before = split
    assignment = experiment.assignment
    if assignment is None:
        return
    # What is left must be the default: a scheme does not read the other keys.
    plain = assignment.model_copy(update={"scheme": None, "order": None})
    if assignment.scheme is not None and not plain.is_plain:
        keys = "`traffic`, `layer` and `holdout`"
        yield "scheme", f"{keys} are for a `salt`; a scheme has settings of its own"
    if assignment.order is not None and sorted(assignment.order) != sorted(experiment.variants):
        yield "order", "must name each variant once"
        return
    try:
        _ = experiment.assignment_rule
    except ExperimentError as error:
        yield (str(error).replace("\n", ": "),)


_VARIANT_KEYS = ("assignment", "pre_period", "models", "segments", "cuts", "agreement", "inference")
_SAME_USERS = "rankers in one list have the same users"


def _check_interleaving(experiment: Experiment) -> Mistakes:
    """Check an interleaving experiment: how items get rankers, what it cannot have."""
    interleaving = experiment.interleaving
    names = [*experiment.variants]
    log = experiment.logs.impressions
    if interleaving is None:
        return
    # These compare groups of users, and here there is one group.
    for key in _VARIANT_KEYS:
        if key in experiment.model_fields_set:
            yield key, f"compares users of variants, but {_SAME_USERS}: remove it"
    if log is None or experiment.unit == ROW_UNIT:
        yield "interleaving", "needs [logs.impressions], and a unit: the user of the lists"
    elif experiment.logs.exposures is not None or "variant" in log.columns:
        yield "logs", f"say who is in which variant, but {_SAME_USERS}"
    if len({variant.weight for variant in experiment.variants.values()}) > 1:
        yield "variants", "rankers draft alike: remove `weight`"
    if interleaving.method != "team_draft" and len(names) > 2:
        what = f"{interleaving.method} interleaves two rankers, not {len(names)}"
        yield "interleaving", "method", what
    if interleaving.ranks and sorted(interleaving.ranks) != sorted(names):
        yield "interleaving", "ranks", f"must name each ranker once: {', '.join(names)}"
    # Without a column, the draft itself can be computed again by its rule.
    by_rule = {"team_draft": interleaving.salt is not None, "balanced": bool(interleaving.ranks)}
    if interleaving.team is None and not by_rule.get(interleaving.method):
        rule = "else the `salt` of a team draft, or the `ranks` of balanced lists"
        yield "interleaving", "team", f"names the column of an item's ranker; {rule}"
    for i, choice in enumerate(experiment.metrics):
        if choice.role == "guardrail" or choice.cap is not None:
            yield "metrics", i, "a preference has no margin and no cap: a goal, or a diagnostic"


def _check_split(
    split: ScheduledSplit, before: ScheduledSplit | None, experiment: Experiment
) -> Mistakes:
    """Check a split: its time, and that it names every variant."""
    begins, period, variants = (
        convert_to_datetime(split.start),
        experiment.period,
        experiment.variants,
    )
    if before is not None and begins <= convert_to_datetime(before.start):
        yield "from", f"{split.start} is not after the split before it"
    if period is not None and begins >= period.bounds[1]:
        yield "from", f"{split.start} is not before period.end {period.end}"
    for name in split.weights:
        if name not in variants:
            yield "weights", name, f"no variant is called {name!r}{suggest_name(name, variants)}"
    for name in variants:
        if name not in split.weights:
            yield "weights", f"{name!r} has no weight; 0 means that no unit enters it"
    if not any(split.weights.values()):
        yield "weights", "all are 0"


def _check_logs(experiment: Experiment) -> Mistakes:
    logs, of_row = experiment.logs, experiment.unit == ROW_UNIT
    for name, log in logs.logs_by_name.items():
        for problem in _check_log(name, log, experiment.tables):
            yield *name.split("."), *problem
    for name in logs.events:
        # The names of events are table names of queries.
        if name in CANONICAL_COLUMNS or name == OWN_TABLE or name in experiment.tables:
            yield "events", name, "is the name of another log or table; choose another"
        if of_row or experiment.is_unit_table:
            yield "events", name, _NEEDS_UNIT if of_row else _MISSING
    if logs.sums is not None and (logs.impressions or logs.units):
        yield "sums", "stand in place of logs: keep them, or [logs.impressions] and [logs.units]"
    yield from _check_unit_table(experiment)
    if logs.clicks is not None:
        join = logs.clicks.join or []
        if logs.impressions and "click" in logs.impressions.columns:
            both = "a click is a column of the impression or a row of logs.clicks, not both"
            yield "impressions", "columns", "click", both
        if "unit_id" in join and of_row:
            yield "clicks", "join", 'names unit_id, and unit = "row" has none'
        if "unit_id" in join and len(join) > 2:
            yield "clicks", "join", "with unit_id, at most 2 columns, because time is one more"
    if logs.exposures is not None and of_row:
        yield "exposures", _NEEDS_UNIT


def _check_log(name: str, log: LogSource, tables: Collection[str]) -> Mistakes:
    columns = sources.list_canonical_columns(name)
    for column in log.columns:
        if column not in columns:
            yield "columns", column, f"unknown column `{column}`{suggest_name(column, columns)}"
    if isinstance(log.path, Mapping) and ("variant" not in columns or "variant" in log.columns):
        why = "a column says the variant" if "variant" in columns else f"{name} have none"
        yield "path", f"names files by variant, but {why}; give a list of files"
    yield from _check_zone(log.ts_zone, "ts_zone")
    if log.time_unit is not None and log.ts_format is not None:
        yield "ts_format", "has no meaning beside `time_unit`; keep one"
    yield from check_expression(log.where, "where")
    if log.query is not None and (problem := _find_query_problem(log.query, {OWN_TABLE, *tables})):
        yield "query", problem


def _check_unit_table(experiment: Experiment) -> Mistakes:
    """Check a table of units, alone or beside impressions."""
    logs, units = experiment.logs, experiment.logs.units
    if experiment.is_unit_table:
        # Alone, it is the only log: nothing else has rows to join with.
        for log in ("clicks", "items", "exposures", "scores", "training"):
            if getattr(logs, log) is not None:
                yield log, _MISSING
        if units is not None and units.segments:
            yield "units", "segments", "without [logs.impressions], name them under [segments]"
    elif units is not None:
        if experiment.unit == ROW_UNIT:
            yield "units", _NEEDS_UNIT
        for name, text in units.segments.items():
            if name in experiment.segments:
                yield "units", "segments", name, "is the name of one of [segments]; choose another"
            yield from check_expression(text, "units", "segments", name)
        for i, covariate in enumerate(units.covariates):
            text = covariate if isinstance(covariate, str) else covariate.value
            yield from check_expression(text, "units", "covariates", i)


_ROWS = ("UNNEST", "RANGE", "GENERATE_SERIES")
"""Functions that make rows of values, and read nothing."""


def _find_query_problem(text: str, tables: Collection[str]) -> str | None:
    """Explain why a text is not one SELECT over these tables; None if it is one.

    Example:
        >>> _find_query_problem("select * from log", ["log"])
        >>> _find_query_problem("select * from 'other.parquet'", ["log"])
        "reads 'other.parquet'; it may read: log"
    """
    from sqlglot import exp

    from abeval.metrics.expressions import parse_select

    try:
        tree = parse_select(text)
    except ExperimentError as error:
        return error.what
    allowed = f"it may read: {', '.join(sorted(tables))}"
    table_names = {name.lower() for name in tables}
    # A CTE is a name of the query itself, not a file.
    table_names |= {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        # A function in `from`, such as read_csv, can open any file.
        if isinstance(table.this, exp.Func):
            if not {table.this.sql_name().upper(), table.name.upper()} & {*_ROWS}:
                return f"calls {table.this.sql('duckdb')!r} in `from`; {allowed}"
        elif table.args.get("db") or table.name.lower() not in table_names:
            return f"reads {table.name!r}; {allowed}"
    return None


def _check_tables(experiment: Experiment) -> Mistakes:
    for name, table in experiment.tables.items():
        if name.lower() == OWN_TABLE or name in CANONICAL_COLUMNS:
            yield name, "is the name of a log; choose another"
        for key in ("where", "query", "columns", "time_unit", "ts_format", "ts_zone"):
            if key in table.model_fields_set:
                yield name, key, "belongs to a log; write it into the query"
    logs = experiment.logs.logs_by_name.values()
    if experiment.tables and not any(log.query is not None for log in logs):
        yield ("are read by the `query` of a log, but no log has one",)


def _check_cleaning(experiment: Experiment) -> Mistakes:
    cleaning = experiment.cleaning
    if cleaning.duplicate_key is not None and cleaning.duplicates != "drop":
        yield "duplicate_key", 'is used only with duplicates = "drop"'
    # Impressions alone do not tell where a unit was assigned.
    is_known = experiment.assigns or experiment.logs.exposures
    if cleaning.crossover == "as_assigned" and not is_known:
        needs = "[assignment] salt or an exposures log, to know the assignment"
        yield "crossover", f'"as_assigned" needs {needs}'


def _check_segments(experiment: Experiment) -> Mistakes:
    for name, text in experiment.segment_values.items():
        yield from check_expression(text, name)
    if experiment.pre_period is None and not experiment.is_unit_table:
        for name in experiment.known_from("before"):
            yield name, "known", '"before" needs a [pre_period], in which the unit had its value'
    if experiment.logs.exposures is None:
        for name in experiment.known_from("exposure"):
            yield name, "known", '"exposure" needs [logs.exposures], whose rows have the value'


def _check_design(experiment: Experiment) -> Mistakes:
    """Check what a cluster-randomised experiment can be combined with."""
    design, inference = experiment.design, experiment.inference
    if design is None:
        return
    for key, text in design.texts.items():
        yield from check_expression(text, key)
    if design.switchback is not None:
        yield from check_expression(design.switchback.cluster, "switchback", "cluster")
        yield from _check_switchback(experiment)
        return
    # Both at once would be two kinds of blocks for one cluster.
    if len(design.blocks) > 1:
        yield "pairs", "pairs are strata of one cluster of each variant: remove `strata`"
    if experiment.unit == ROW_UNIT:
        yield "cluster", 'needs the unit that metrics are of, such as unit = "user_id"'
    # These methods need independent units, and units of a cluster are alike.
    keys = ["assignment", "cuts", "looks", "resample"]
    if inference.adjust != "cuped":
        keys.append("adjust")
    yield from _refuse_keys(experiment, "cluster", keys, "clusters are")


def _check_switchback(experiment: Experiment) -> Mistakes:
    """Check what a switchback can be combined with."""
    if len({variant.weight for variant in experiment.variants.values()}) > 1:
        yield "switchback", "a fair coin chooses the variant of a slot: remove `weight`"
    if len(experiment.variants) != 2:
        yield "switchback", f"compares two variants, not {len(experiment.variants)}"
    if experiment.is_unit_table:
        yield "switchback", "needs [logs.impressions] with times, not a table of units"
    yield from _refuse_keys(experiment, "switchback", _USER_KEYS, "slots, which are no users, are")


def _refuse_keys(experiment: Experiment, design: str, keys: Sequence[str], who: str) -> Mistakes:
    """Refuse keys that have no meaning where units were not randomised."""
    sections = (experiment.logs, experiment.inference, experiment)
    for key in keys:
        # A key is looked up in the first section that has it.
        if next(getattr(s, key) for s in sections if hasattr(s, key)) not in _NOTHING:
            yield design, f"{who} not analysed with `{key}`: remove one of the two"


_NOTHING: tuple[object, ...] = (None, {}, "fixed", "none")
_USER_KEYS = (
    *("assignment", "pre_period", "segments", "cuts", "interleaving", "exposures", "units"),
    *("events", "looks", "adjust", "resample"),
)


def _check_cuts(experiment: Experiment) -> Mistakes:
    if experiment.cuts and experiment.is_unit_table:
        yield ("a table of units has one row a unit: name its columns under [segments]",)
        return
    for name, text in experiment.cuts.items():
        if name in experiment.segment_names:
            yield name, "is the name of a segment; choose another"
        yield from check_expression(text, name)
