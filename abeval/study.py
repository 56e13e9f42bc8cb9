"""Compute every result that an experiment's logs allow, for one page."""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, time
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Unpack, cast

import tomlkit

from abeval.aggregates.collect import Collected, collect_prepared
from abeval.agreement.agree import (
    OFFLINE,
    Offline,
    build_agreement,
    choose_offline_columns,
    read_offline,
)
from abeval.engines.lakes import find_version_file
from abeval.engines.sources import find_files, list_log_files, list_logs
from abeval.engines.sql import record_queries
from abeval.errors import AbevalError, LogError, mask_secrets
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.inference.aa import replay_aa
from abeval.inference.compare import Analysis
from abeval.inference.judge import judge
from abeval.inference.power import predict_power
from abeval.logs.files import count_rows_by_file
from abeval.logs.mapping import LogColumns
from abeval.logs.run import Inputs, Run, open_run
from abeval.logs.shape import LogSchema
from abeval.metrics.definition import Metric
from abeval.offline.metrics import Scoring
from abeval.offline.replay import (
    ReplayKeywords,
    ReplayOptions,
    choose_columns,
    choose_replay_scoring,
    replay,
    split_keywords,
)
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult, select_metrics
from abeval.results.study import InputFile, Provenance, Study
from abeval.time.analysis import analyze_windows
from abeval.time.time_sums import DailyLogs, find_growth_by_metric, load_days
from abeval.version import __version__

_LIBRARIES = ("duckdb", "numpy", "scipy", "statsmodels", "pandas")


def make_provenance(
    experiment: Experiment, inputs: Inputs, queries: Mapping[str, str]
) -> Provenance:
    """Collect the provenance: experiment file, inputs, SQL of queries, versions."""
    frames = set(inputs.get("logs") or {})
    logs = {log: source for log, source in list_logs(experiment).items() if log not in frames}
    files = [
        _describe_input(log, path, experiment.folder, rows.get(file))
        for log, source in logs.items()
        for rows in (_read_row_counts(log, source, experiment.folder),)
        for file in dict.fromkeys(list_log_files(log, source, experiment.folder))
        # Of a table in a lake the file of its version is hashed, not its data files.
        for path in (find_version_file(Path(file)),)
        if path.is_file()
    ]
    libraries = ((name, version(name)) for name in _LIBRARIES)
    return Provenance(
        experiment=mask_secrets(write_experiment_toml(experiment)),
        inputs=tuple(files),
        queries=tuple(sorted(queries.items())),
        versions=(("abeval", __version__), ("python", platform.python_version()), *libraries),
    )


def write_experiment_toml(experiment: Experiment) -> str:
    """Write the experiment as TOML, with its includes resolved."""
    hidden = {"folder", "include"}
    entries = experiment.model_dump(exclude_unset=True, exclude_none=True, exclude=hidden)
    return tomlkit.dumps(_convert_entries(entries))


def _convert_entries(value: Any) -> Any:  # noqa: ANN401 (a tree of entries)
    """Convert entries to types of TOML: tables, lists, text, numbers, dates."""
    if isinstance(value, dict):
        return {str(key): _convert_entries(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [_convert_entries(item) for item in value]
    return value if isinstance(value, bool | int | float | str | date | time) else str(value)


def _read_row_counts(log: str, source: LogSource, folder: Path) -> Mapping[str, int | None]:
    """Read the number of rows of each file of a log; empty for a database."""
    with suppress(LogError, OSError, ValueError):
        return count_rows_by_file(log, find_files(log, source, folder))
    return {}


def _describe_input(log: str, file: Path, folder: Path, rows: int | None) -> InputFile:
    """Describe a file of a log by its path in the folder, its size and its digest."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    path = file.relative_to(folder) if file.is_relative_to(folder) else file
    return InputFile(log, path.as_posix(), file.stat().st_size, digest, rows)


WIDTHS = (3, 7)
_REPLAYS, _SEED = 10_000, 0

LeftOut = tuple[tuple[str, str], ...]
"""Results that were not computed, and why."""

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


def study(experiment: Experiment, inputs: Inputs) -> Study:
    """Compute every result that the logs allow; note why others are missing.

    Raises:
        LogError: The analysis itself cannot read the logs.
        QueryError: The engine could not run a query of it.
    """
    metrics = find_metrics_by_name(experiment)
    with record_queries() as queries, open_run(experiment, inputs) as run:
        collected, schema = _collect_aggregates(run, metrics)
        daily, no_time = _try_to_make("effects over time", load_days, collected.logs, metrics)
        first = analyze_with_outlook(run, collected, daily)
        analysis = cast("Result", first.analysis)
        time = None
        if daily is not None:
            time, no_time = _try_to_make(
                "effects over time", analyze_windows, run, metrics, WIDTHS, (), daily=daily
            )
        run.step("replays")
        sums = collected.aggregates
        replays, no_aa = _try_to_make(
            "A/A replays", replay_aa, experiment, metrics, sums, _REPLAYS, _SEED
        )
        options = ReplayOptions()
        scoring = choose_replay_scoring(options, experiment.alpha)
        replayed, offline, no_models = _replay_models(run, schema, options, scoring)
    return replace(
        first,
        time=time,
        aa=replays,
        replay=replayed,
        agreement=offline and build_agreement(analysis, offline, experiment),
        provenance=make_provenance(experiment, inputs, queries),
        left_out=(*first.left_out, *no_time, *no_aa, *no_models),
    )


def analyze_with_outlook(run: Run, collected: Collected, daily: DailyLogs | None) -> Study:
    """Compute the analysis and its power outlook."""
    experiment, metrics = run.experiment, find_metrics_by_name(run.experiment)
    growths, none = _try_to_make("growth by day", find_growth_by_metric, collected, metrics, daily)
    outlook = predict_power(Analysis(experiment, metrics, collected.aggregates), growths or {})
    run.step("inference")
    analysis = judge(experiment, metrics, collected.aggregates)
    return Study(analysis=analysis, outlook=outlook, left_out=none)


def _collect_aggregates(run: Run, metrics: Sequence[Metric]) -> tuple[Collected, LogSchema | None]:
    """Collect aggregates, with the columns of models if the log has them."""
    extra = choose_offline_columns(run.experiment)
    try:
        collected = collect_prepared(run, metrics, by_day=True, replays=True, extra=extra)
    except AbevalError:
        return collect_prepared(run, metrics, by_day=True, replays=True), None
    return collected, collected.logs.schema


def _try_to_make(
    what: str, make: Callable[Arguments, Made], *args: Arguments.args, **keywords: Arguments.kwargs
) -> tuple[Made | None, LeftOut]:
    """Make a result, or return the reason why it cannot be made."""
    try:
        return make(*args, **keywords), ()
    except AbevalError as error:
        return None, ((what, error.what),)


def _replay_models(
    run: Run, schema: LogSchema | None, options: ReplayOptions, scoring: Scoring
) -> tuple[ReplayResult | None, Offline | None, LeftOut]:
    """Replay models with what an agreement reads, or alone.

    The last value says why the rest is missing.
    """
    # One pass over the log serves both: each then keeps its own metrics.
    offline, no_agreement = _try_to_make("agreement", read_offline, run, options, schema, OFFLINE)
    if offline is None or offline.replay is None:
        replayed, no_replay = _try_to_make("offline replay", replay, run, options)
        return replayed, offline, (*no_replay, *no_agreement)
    agreement_offline = offline._replace(replay=select_metrics(offline.replay, OFFLINE))
    asked = [metric.id for metric in scoring.metrics]
    return select_metrics(offline.replay, asked), agreement_offline, ()


def replay_beside_gap(
    experiment: Experiment, **keywords: Unpack[ReplayKeywords]
) -> tuple[ReplayResult, Agreement | None]:
    """Replay models, and say what was promised and what came.

    The replay and the agreement come from one reading of the logs. There is no agreement where the
    logs do not allow it, nor where items are relevant by another measure than the click.
    """
    options, inputs = split_keywords(keywords)
    # What is wrong with the options is said before a log is read.
    scoring = choose_replay_scoring(options, experiment.alpha)
    with open_run(experiment, inputs) as run:
        both = None
        if options.get("relevance", "click") == "click":
            both, _ = _try_to_make("agreement", _replay_and_agree, run, options, scoring)
        return both or (replay(run, options), None)


def _replay_and_agree(
    run: Run, options: ReplayOptions, scoring: Scoring
) -> tuple[ReplayResult, Agreement | None] | None:
    """Analyse and replay the logs at once; None where the models cannot be replayed."""
    experiment = run.experiment
    choices = (choose_offline_columns(experiment), choose_columns(scoring))

    def columns(log: LogColumns) -> list[str]:
        return [name for choose in choices for name in choose(log)]

    metrics = find_metrics_by_name(experiment)
    collected = collect_prepared(run, metrics, extra=columns)
    replayed, offline, _ = _replay_models(run, collected.logs.schema, options, scoring)
    if replayed is None:
        return None
    if offline is None or offline.replay is None:
        return replayed, None
    run.step("inference")
    result = judge(experiment, metrics, collected.aggregates)
    return replayed, build_agreement(result, offline, experiment)
