"""Make a `LoadedExperiment` of a file, a frame, sums or Python entries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeval.api.loaded import LoadedExperiment
from abeval.calls import explain_types
from abeval.errors import ExperimentError
from abeval.experiment.load import load_experiment, parse_experiment
from abeval.experiment.sections import EngineOptions

if TYPE_CHECKING:
    from abeval.metrics.definition import Missing
    from abeval.results.analysis import Result
    from abeval.table.columns import Covariates, Metrics, TableOptions


def load_table(table: object, options: "TableOptions") -> LoadedExperiment:
    """Make the experiment of a table of units or of counts."""
    from abeval.table.read import read_table
    from abeval.table.sums import make_sums_experiment, name_source, read_count_table

    counts = read_count_table(table, options)
    if counts is not None:
        return LoadedExperiment(make_sums_experiment(counts, options), sums=counts)
    if not options.variant:
        raise ExperimentError(
            f"{name_source(table)} is a table, not an experiment file, and not one of counts",
            "name its columns: --unit user_id --variant group, in Python unit=, variant=, or let "
            "`abeval init` find them; counts are variant, n, successes (docs/data.md)",
        )
    experiment, engine = read_table(table, options)
    # The engine that read the table goes on, unless the entries ask for another one.
    if experiment.engine == EngineOptions():
        return LoadedExperiment(experiment, engine, is_table=True)
    engine.close()
    return LoadedExperiment(experiment, is_table=True)


def load_sums(sums: object, options: "TableOptions", unit: str) -> LoadedExperiment:
    """Make the experiment of a table of sums, or of counts of these units."""
    from abeval.drafts.counts import CallerNames
    from abeval.table.sums import make_sums_experiment, read_sums

    table = read_sums(sums, CallerNames(unit=unit))
    return LoadedExperiment(make_sums_experiment(table, options), sums=table)


@explain_types
def load(path: str | Path) -> LoadedExperiment:
    """Read an experiment file.

    Args:
        path: A TOML file; relative paths of logs in it start from its folder.

    Raises:
        ExperimentError: The file is missing, is not TOML, or has mistakes; all of them are named.
    """
    return LoadedExperiment(load_experiment(path))


@explain_types
def analyze(
    table: object,
    *,
    variant: str = "",
    unit: str | None = None,
    metrics: "Metrics | None" = None,
    covariates: "Covariates" = (),
    segments: Sequence[str] | Mapping[str, str] = (),
    control: str | None = None,
    weights: Mapping[str, float] | None = None,
    missing: "Missing | Mapping[str, Missing] | None" = None,
    connection: object = None,
    read: Mapping[str, str] | None = None,
    **entries: Any,  # noqa: ANN401
) -> "Result":
    """Analyse a table of one row a unit, or of counts, without an experiment file.

    Args:
        table: A frame (pandas, Polars, Arrow, Ibis, a DuckDB relation), of which a lazy one
            computes no column but those that are named; the path of a file; or, with a
            `connection`, the name of its table.
        variant: The column of the variant; tables of counts (`variant`, `n`, successes) may do
            without.
        unit: The column of the unit; without it each row is a unit. Of counts, `row` says that
            each one was assigned by itself and counts once, `day` that days may be units.
        metrics: Columns, whose means are compared; `"name = expression"`; a ratio of sums,
            `"ctr = clicks / views"`, or `{"ctr": ("clicks", "views")}`; or entries as those of
            `[[metrics]]`. Without it, every column of numbers.
        covariates: Columns that were measured before the experiment, for CUPED
            (`inference={"adjust": "regression"}` for regression): of all metrics, or by metric,
            `{"revenue": ["revenue_before"]}`; a metric that is not named then has none.
        segments: Columns by which effects are shown too.
        control: The variant the others are compared with; without it one that is called so, or
            else the first by name, and whether it is that one is an open question.
        weights: Variant → intended share. Without it the shares are to be equal, and if they are
            far from it, whether that was planned is an open question: nothing is decided.
        missing: What becomes of values that are null, NaN or infinite, of all metrics or by
            metric: `"zero"`, or `"drop"` for a unit that then does not count. Without it they are
            refused.
        connection: An open connection of DuckDB or of an ADBC driver that has the table.
        read: How the file is read, as entries of a log say it: `table` of a database file, `sheet`
            of a workbook, `encoding`, `delimiter` and `decimal` of text, `format`.
        **entries: More top-level entries of an experiment file.

    Raises:
        LogError: The table cannot be read, or lacks a column.
        ExperimentError: A metric is none, or there are no two variants.

    Example:
        >>> import pandas as pd
        >>> rows = {"user": range(400), "group": ["a", "b"] * 200, "spent": [1, 2, 3, 5] * 100}
        >>> result = analyze(pd.DataFrame(rows), unit="user", variant="group", metrics=["spent"])
        >>> result["spent"].control, result["spent"].treatment
        (2.0, 3.5)
    """
    from abeval.engines.frames import find_table
    from abeval.table.columns import TableOptions

    columns = (variant, unit, metrics, covariates, segments)
    options = TableOptions(*columns, control, weights, missing, entries=entries, read=read or {})
    if connection is not None:
        table = find_table(connection, str(table))
    # A frequent mistake: the file of an experiment in place of a table.
    if isinstance(table, str | Path) and Path(table).suffix.lower() == ".toml":
        hint = f"analyse it with abeval.load({str(table)!r}).analyze()"
        raise ExperimentError(f"{table} is an experiment file, not a table", hint)
    table = _reset_named_levels(table, (variant, unit))
    loaded = load_table(table, options)
    return loaded.analyze(logs={} if isinstance(table, str | Path) else {"units": table})


def _reset_named_levels(table: Any, names: Sequence[str | None]) -> object:  # noqa: ANN401 (any frame)
    """Turn named levels of a pandas index into columns."""
    levels = getattr(getattr(table, "index", None), "names", None) or ()
    # Duck-typed: pandas is not imported for other frames.
    index_names = [name for name in levels if name is not None and name in names]
    return table.reset_index(index_names) if index_names else table


@explain_types
def analyze_sums(
    sums: object,
    *,
    control: str | None = None,
    weights: Mapping[str, float] | None = None,
    **entries: Any,  # noqa: ANN401
) -> "Result":
    """Analyse sums by metric, variant and day, without an experiment file.

    Every metric is a goal.

    Args:
        sums: As for `LoadedExperiment.from_sums`, without a default.
        control: The variant the others are compared with; without it one that is called so, or
            else the first by name.
        weights: Variant → intended share; without it as for `analyze`.
        **entries: More top-level entries of an experiment file.

    Raises:
        LogError: A row is no sum.
        ExperimentError: A name is none, or there are no two variants.

    Example:
        >>> import pandas as pd
        >>> rows = {"metric": ["spent"] * 2, "variant": ["a", "b"], "n": [200, 200]}
        >>> sums = pd.DataFrame({**rows, "sum_y": [400.0, 700.0], "sum_yy": [1000.0, 3400.0]})
        >>> result = analyze_sums(sums)
        >>> result["spent"].control, result["spent"].treatment
        (2.0, 3.5)
    """
    from abeval.table.columns import TableOptions

    options = TableOptions(control=control, weights=weights, entries=entries)
    return load_sums(sums, options, str(entries.get("unit", ""))).analyze()


@explain_types
def define(
    entries: Mapping[str, Any] | str | Path = ".",
    /,
    folder: str | Path | None = None,
    **more: Any,  # noqa: ANN401
) -> LoadedExperiment:
    """Make an experiment of entries as a file would have them.

    Args:
        entries: The top-level entries of the file as a mapping; or, where they are keywords, the
            folder.
        folder: Where relative paths of logs start; the current one if it is not given.
        **more: Top-level entries of the file.

    Raises:
        ExperimentError: With every mistake.

    Example:
        >>> logs = {"impressions": {"path": "log.csv"}}
        >>> variants = {"a": {}, "b": {}}
        >>> loaded = define(name="x", unit="user", control="a", variants=variants, logs=logs)
        >>> loaded.experiment.treatments
        ['b']
    """
    if isinstance(entries, str | Path):
        folder = entries if folder is None else folder
        return LoadedExperiment(parse_experiment(more, folder))
    if not isinstance(entries, Mapping):
        kind = type(entries).__name__.replace("NoneType", "None")
        raise ExperimentError(
            f"define() takes entries as a mapping or as keywords, not as {kind}",
            "for a file use abeval.load(path)",
        )
    entries = {**entries, **more}
    return LoadedExperiment(parse_experiment(entries, folder or "."))
