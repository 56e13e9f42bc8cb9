"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/trust/` compares the variants with them. Rows
of one unit come together, so units are the clusters: they are put into 64 groups by their hash, and
the variance of a share comes from the sums of the groups. A long log is audited on some of its
units, so that audits never cost more than a few million rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.assignment import SUB_BUCKETS
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.audited import (
    AUDITED_NAMES,
    CLUSTERS,
    Flag,
    audited_units,
    audited_view,
    flags,
    logged_cells,
    places,
)
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape

MOST_ROWS = 4_000_000
"""Impressions that are audited, about; of a longer log those of some of the units."""

COLUMNS = ("audit", "cell", "variant", "clusters", "active", "y", "x", "y_y", "y_x", "x_x")
"""Of each share y / x: the audit, a cell of it, the variant, how many clusters there are and in how
many y is above zero, and exact sums over the clusters."""


class _Part(NamedTuple):
    """Counts of one audit: `cell, variant, cluster, y, x`, a row where something was counted."""

    audit: str
    counts: pd.DataFrame


def no_audits() -> pd.DataFrame:
    """Of logs that are not audited."""
    return pd.DataFrame(columns=list(COLUMNS))


def audit_sums(run: Run, prepared: Prepared) -> pd.DataFrame:
    """Every audit that these logs allow, with the columns `COLUMNS`.

    Args:
        run: The experiment, on the engine where `prepare` created its relations.
        prepared: What is known of its logs.
    """
    experiment, engine, shape = run.experiment, run.engine, prepared.shape
    if experiment.unit == ROW_UNIT or not prepared.summed.has_rows:
        return no_audits()
    run.step("audits")
    return _summed(list(_parts(experiment, engine, prepared, shape)))


def _parts(
    experiment: Experiment, engine: Engine, prepared: Prepared, shape: LogShape
) -> Iterator[_Part]:
    chosen = flags(experiment, shape)
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    engine.view("logged_cells", logged_cells(experiment, shape))
    engine.table("audited_units", audited_units(shape, _buckets(prepared)))
    engine.table("audited_names", AUDITED_NAMES)
    engine.table("audited", audited_view(chosen, has_lists))
    flagged = engine.frame(query("audit/flags")) if chosen else pd.DataFrame()
    hours = engine.frame(query("audit/hours"))
    totals = hours.groupby(["variant", "cluster"], as_index=False)[["impressions"]].sum()
    yield _Part("impressions", totals.assign(cell="", y=totals["impressions"], x=1))
    yield from _of_flags(chosen, flagged)
    if shape.has_time:
        yield _shares("hour", hours.assign(cell=hours["hour"].map(str)), "impressions", totals)
        of_day = hours.assign(cell=(hours["hour"] % 24).map(str))
        keys = ["variant", "cluster", "cell"]
        of_day = of_day.groupby(keys, as_index=False)[["impressions"]].sum()
        yield _shares("rhythm", of_day, "impressions", totals)
    if has_lists:
        yield from _of_lists(engine, shape)
    if shape.clicks is not None:
        yield from _of_clicks(engine)
    if prepared.duplicates:
        yield from _of_duplicates(experiment, engine, shape, totals)
    if shape.exposures is not None:
        silent = engine.frame(query("audit/silent_units"))
        # Units that entered late had less time, so they are compared with those of their stretch.
        cells = silent["stretch"].map(str)
        yield _Part("silent", silent.assign(cell=cells, y=silent["silent"], x=silent["units"]))
    yield from _set_aside(experiment, engine, shape)


def _buckets(prepared: Prepared) -> int:
    """How many of the sub-buckets of units are audited."""
    cells = prepared.cells
    share = MOST_ROWS / max(int(cells.sums["c_1"][cells.counts & cells.in_period].sum()), 1)
    return SUB_BUCKETS if share >= 1 else max(CLUSTERS, int(SUB_BUCKETS * share))


def _of_flags(chosen: Sequence[Flag], flagged: pd.DataFrame) -> Iterator[_Part]:
    among = len(chosen)
    for number, flag in enumerate(chosen):
        of = "impressions"
        if flag.among:
            of, among = f"f_{among}", among + 1
        yield _Part(
            flag.audit,
            flagged[["variant", "cluster"]].assign(
                cell=flag.name, y=flagged[f"f_{number}"], x=flagged[of]
            ),
        )


def _of_lists(engine: Engine, shape: LogShape) -> Iterator[_Part]:
    """Positions that lists lack between their first and their last: whole, by place, by segment."""
    engine.table("audited_lists", query("audit/lists"))
    engine.view("list_places", places())
    spans = engine.frame(query("audit/list_spans"))
    spans["places"] = (spans["last_place"] - spans["first_place"] + 1) * spans["lists"]
    whole = spans.groupby(["variant", "cluster"], as_index=False)[["holes", "places", "lists"]]
    totals = whole.sum()
    yield _Part("holes", totals.assign(cell="", y=totals["holes"], x=totals["places"]))
    yield _Part("list_length", totals.assign(cell="", y=totals["places"], x=totals["lists"]))
    if not totals["holes"].sum():
        return
    yield _by_place(spans, engine.frame(query("audit/list_holes")))
    for name in shape.segments:
        cell = quoted(f"s_{name}")
        engine.view(
            "audited_cells", f"select unit_id, variant, cluster, {cell} as cell from audited_units"
        )
        cells = engine.frame(query("audit/list_cells"))
        yield _Part(f"holes:{name}", cells.assign(y=cells["holes"], x=cells["places"]))


def _by_place(spans: pd.DataFrame, holes: pd.DataFrame) -> _Part:
    """Of the lists that begin before a place and go on behind it, those that lack it."""
    reaching = [
        spans[(spans["first_place"] < place) & (spans["last_place"] > place)]
        .groupby(["variant", "cluster"], as_index=False)[["lists"]]
        .sum()
        .assign(place=place)
        for place in sorted(holes["place"].unique())
    ]
    lists = pd.concat(reaching).rename(columns={"lists": "x"})
    keys = ["variant", "cluster", "place"]
    both = lists.merge(holes.rename(columns={"lists": "y"}), on=keys, how="left")
    counts = both.assign(cell=both["place"].map(str), y=both["y"].fillna(0).astype(np.int64))
    return _Part("holes_at", counts)


def _of_clicks(engine: Engine) -> Iterator[_Part]:
    delays = engine.frame(query("audit/click_delays"))
    totals = delays.groupby(["variant", "cluster"], as_index=False)[["clicks"]].sum()
    yield _shares("click_delay", delays.rename(columns={"delay": "cell"}), "clicks", totals)


def _of_duplicates(
    experiment: Experiment, engine: Engine, shape: LogShape, totals: pd.DataFrame
) -> Iterator[_Part]:
    unit = quoted(shape.impressions.mapped["unit_id"])
    copies = " union all ".join(
        f"select {unit} as logged_id, {sign} as copies from {relation}"
        for sign, relation in ((1, "repeated_rows"), (-1, "restored_rows"))
    )
    engine.view("repeated_copies", copies)
    rows = engine.frame(query("audit/duplicates")).assign(cell="")
    yield _shares("duplicate", rows, "duplicates", totals)


def _set_aside(experiment: Experiment, engine: Engine, shape: LogShape) -> Iterator[_Part]:
    """Reasons for which rows of a logged variant are set aside; days are their clusters."""
    if shape.names_variant and not experiment.assigns:
        rows = engine.frame(query("audit/set_aside"))
        rows = rows[rows["variant"].isin(list(experiment.variants))].rename(
            columns={"day": "cluster", "reason": "cell"}
        )
        totals = rows.groupby(["variant", "cluster"], as_index=False)[["impressions"]].sum()
        reasons = rows[rows["cell"].isin(["null_unit", "not_exposed"])]
        yield _shares("set_aside", reasons, "impressions", totals)
    if shape.has_time and engine.rows(_UNTIMED):
        rows = engine.frame(query("audit/untimed"))
        yield _Part(
            "set_aside", rows.assign(cell="null_time", y=rows["untimed"], x=rows["impressions"])
        )


_UNTIMED = "select 1 from logged_cells where set_aside = 'null_time' limit 1"


def _shares(audit: str, counts: pd.DataFrame, of: str, totals: pd.DataFrame) -> _Part:
    """Counts by cell as shares of the totals of their cluster."""
    cells = counts[["cell"]].drop_duplicates()
    every = totals.rename(columns={of: "x"}) if of in totals else totals
    every = every.rename(columns={"impressions": "x"}).merge(cells, how="cross")
    keys = ["cell", "variant", "cluster"]
    both = every.merge(counts.rename(columns={of: "y"})[[*keys, "y"]], on=keys, how="left")
    return _Part(audit, both.assign(y=both["y"].fillna(0).astype(np.int64)))


def _summed(parts: Sequence[_Part]) -> pd.DataFrame:
    """Exact sums over clusters, as `COLUMNS`; audits in their order, of all in one pass."""
    counts = [part.counts for part in parts]
    y, x = (np.concatenate([each[name].to_numpy(np.int64) for each in counts]) for name in "yx")
    terms = pd.DataFrame(
        {
            "part": np.repeat(np.arange(len(parts)), [len(each) for each in counts]),
            **{name: _texts(counts, name) for name in ("cell", "variant")},
            "clusters": 1,
            "active": (y > 0).astype(np.int64),
            **{"y": y, "x": x, "y_y": y * y, "y_x": y * x, "x_x": x * x},
        }
    )
    sums = terms.groupby(["part", "cell", "variant"], as_index=False).sum()
    audits = np.array([part.audit for part in parts], dtype=object)
    return sums.assign(audit=audits[sums["part"]])[list(COLUMNS)]


def _texts(counts: Sequence[pd.DataFrame], column: str) -> pd.Series:
    return pd.concat([each[column].astype(str) for each in counts], ignore_index=True)
