"""Read an experiment's logs into the arrays of off-policy estimators."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.engines.sql import Engine, fetch_int, is_number, literal, query, quote
from abeval.errors import ExperimentError, LogError
from abeval.experiment.load import make_source
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_name
from abeval.experiment.sources import ROW_UNIT
from abeval.files import resolve_path
from abeval.logs.mapping import LogColumns, name_raw_column
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.stats.off_policy import Policy, Rows, sum_unsupported_share
from abeval.stats.records import Integers


@dataclass(frozen=True)
class PolicyChoice:
    """The policy to evaluate: one of three.

    Attributes:
        to: A variant. Its policy is how often it shows each item at each position.
        probability: A column of the impressions with the policy's probability of the logged item.
        table: A file or frame with the columns `item_id`, `probability` and, unless the policy is
            the same at all positions, `position`.
    """

    to: str | None = None
    probability: str | None = None
    table: object | None = None

    def __post_init__(self) -> None:
        """Refuse any number of policies but one."""
        if sum(x is not None for x in (self.to, self.probability, self.table)) != 1:
            what = "choose one policy to evaluate: a variant, a probability column, or a table"
            raise ExperimentError(what, "to = NAME, probability = COLUMN or policy = FILE")

    def __str__(self) -> str:
        if self.to is not None:
            return f"variant {self.to}"
        return "table" if self.probability is None else f"column {self.probability}"


class PolicyLog(NamedTuple):
    """The source variant's log, as sorted arrays, one entry per impression.

    Attributes:
        rows: Rewards, logged propensities (NaN if missing), the policy's probabilities of the
            logged items, and codes of units, which are None if each row is a unit.
        fold: 0 or 1, by the hash of the unit.
        policy: The whole policy; None if it is only a column.
        unsupported: Share of the policy's probability on items never shown at their position.
        target: Rewards and impressions per unit of the target variant; None if there is none.
    """

    rows: Rows
    fold: Integers
    context: Integers
    action: Integers
    policy: Policy | None
    unsupported: float | None
    set_aside: int
    target: pd.DataFrame | None


def read_policy_log(
    run: Run, source: str, choice: PolicyChoice, reward: str | None = None
) -> PolicyLog:
    """Prepare the logs and the policy; fetch the source variant's rows.

    Arguments and errors are as in `abeval.off_policy.run.off_policy`.
    """
    experiment, engine = run.experiment, run.engine
    for name in (source, choice.to):
        if name is not None and name not in experiment.variants:
            like = suggest_name(name, experiment.variants)
            raise ExperimentError(f"no variant is called {name!r}{like}")
    requested = {"probability": choice.probability, "reward": reward}
    columns = {what: column for what, column in requested.items() if column is not None}
    _check_columns(prepare(run, [], [*columns.values()]).schema.impressions, choice, columns)
    run.step("policy")
    sql = {what: quote(name_raw_column(column)) for what, column in columns.items()}
    engine.view(
        "policy_rows",
        "select unit_id, in_period, variant, position, item_id, propensity, "
        f"cast({sql.get('reward', 'click')} as double) as reward, "
        f"cast({sql.get('probability', 'null')} as double) as evaluation_probability "
        "from impressions",
    )
    target = "cast(null as varchar)" if choice.to is None else literal(choice.to)
    by = f"{target} as target, {'probability' in columns} as by_column"
    engine.view("comparison", f"select {literal(source)} as source, {by}")
    engine.table("served", query("offline_policy/served"))
    odd = "select count(*) from served where reward is null or not (reward >= 0 and reward < 1e9)"
    if unusable := fetch_int(engine, odd):
        what = f"reward column {reward!r}: {unusable} impressions have no usable value"
        raise LogError(what, "a reward is a number of at least 0; write 0 if nothing was earned")
    engine.table("policy", _write_policy_query(engine, experiment, choice))
    if choice.table is not None:
        _check_table(engine)
    for name in ("policy_items", "policy_units"):
        engine.table(name, query(f"offline_policy/{name}"))
    return _fetch_log(engine, source, choice, experiment.unit != ROW_UNIT)


def _check_columns(log: LogColumns, choice: PolicyChoice, columns: Mapping[str, str]) -> None:
    """Raise if propensities or items are missing, or a column is not numeric."""
    if "propensity" not in log:
        needs = "off-policy evaluation needs the probability with which each impression was served"
        hint = f'map it: columns = {{ propensity = "..." }}; {log.columns_hint}'
        raise LogError(f"{needs}, but the impressions have no column `propensity`", hint)
    if choice.probability is None and "item_id" not in log:
        what = "a policy needs items, but the impressions have no column `item_id`"
        raise LogError(what, 'map it: columns = { item_id = "..." }')
    types = {name.lower(): kind for name, kind in log.types.items()}
    for what, column in columns.items():
        if not is_number(kind := types[column.lower()]):
            raise LogError(f"column {column!r} is {kind}, but a {what} must be a number")


def _write_policy_query(engine: Engine, experiment: Experiment, choice: PolicyChoice) -> str:
    """Return the SQL of the policy: `position, item_id, probability`."""
    if choice.table is None:
        return query("offline_policy/empirical_policy")
    if isinstance(choice.table, str | Path):
        path = str(resolve_path(experiment.folder / choice.table))
        engine.add_log("raw_policy", make_source({"path": path}))
    else:
        engine.add_frame("raw_policy", choice.table)
    types = engine.columns("raw_policy")
    for name in ("item_id", "probability"):
        if name not in types:
            hint = "it needs item_id, probability and may have position; it has: "
            raise LogError(f"the policy table has no column {name!r}", hint + ", ".join(types))
    # Ids of the table get the type of the log's ids, or none would match.
    item = engine.columns("served")["item_id"]
    chosen = f"try_cast(p.item_id as {item}) as item_id, try_cast(p.probability as double)"
    if "position" in types:
        position = "coalesce(try_cast(p.position as bigint), 0) as position"
        return f"select {position}, {chosen} as probability from raw_policy p"
    # A policy without positions is the same at every position of the log.
    everywhere = "(select distinct position from served)"
    return f"select s.position, {chosen} as probability from {everywhere} s cross join raw_policy p"


def _check_table(engine: Engine) -> None:
    """Raise if a policy row lacks an item or probability, or is repeated."""
    unusable = "select count(*) from policy where item_id is null or probability is null"
    if empty := fetch_int(engine, unusable):
        what = f"{empty} rows of the policy table have no usable item id or probability"
        raise LogError(what, "remove such rows; ids must have the type of the ids in the log")
    twice = "select position, item_id from policy group by 1, 2 having count(*) > 1 limit 1"
    for position, item in engine.rows(twice):
        where = f"item {item!r} is repeated at position {position}"
        raise LogError(f"the policy table: {where}", "give each item once per position")


def _fetch_log(engine: Engine, source: str, choice: PolicyChoice, clustered: bool) -> PolicyLog:
    rows = engine.frame(query("offline_policy/logged_rows"))
    if rows.empty:
        raise LogError(f"variant {source!r} has no impressions", "check its name and the period")
    is_whole = choice.probability is None
    # A row without an item cannot be looked up in a policy; a column still has its probability.
    used = rows[rows["item_no"].notna()] if is_whole else rows
    if used.empty:
        raise LogError(f"no impression of variant {source!r} has an item_id")
    position = used["position"].to_numpy(dtype=np.int64)
    positions, context = np.unique(position, return_inverse=True)
    policy, unsupported = _encode_policy(engine, positions, context) if is_whole else (None, None)
    columns = ("reward", "propensity", "evaluation")
    reward, logging, evaluation = (
        used[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns
    )
    clusters = used["unit_no"].to_numpy(dtype=np.int64) if clustered else None
    return PolicyLog(
        rows=Rows(reward, logging, evaluation, clusters),
        fold=used["fold"].to_numpy(dtype=np.int64),
        context=context,
        action=used["item_no"].fillna(0).to_numpy(dtype=np.int64),
        policy=policy,
        unsupported=unsupported,
        set_aside=len(rows) - len(used),
        target=None if choice.to is None else engine.frame(query("offline_policy/realised")),
    )


def _encode_policy(engine: Engine, positions: Integers, context: Integers) -> tuple[Policy, float]:
    """Return the policy as codes, and its share on items without support."""
    cells = engine.frame(query("offline_policy/policy_support"))
    # A position that is never in the log is not a context.
    there = cells[cells["position"].isin(positions)]
    where = np.searchsorted(positions, there["position"].to_numpy(dtype=np.int64))
    p = there["probability"].to_numpy(dtype=np.float64)
    # A position weighs by its share of the log's impressions.
    share = (np.bincount(context) / context.size)[where]
    unsupported = 1.0 if there.empty else sum_unsupported_share(p, there["times"].to_numpy(), share)
    return Policy(where, there["item_no"].to_numpy(dtype=np.int64), p), unsupported
