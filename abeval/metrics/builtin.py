"""Define the built-in metrics, each with its formula beside its terms."""

from dataclasses import replace
from functools import partial
from typing import Any

from abeval.metrics import definition
from abeval.metrics.definition import ColumnTerm, Kind, Metric, Need, RowTerm, Term

_RESOLUTION = 1e-9
"""Fractional values per unit or request are rounded to multiples of this before they are summed."""

_IMPRESSIONS = RowTerm("1")
_CLICKS = RowTerm("click")
_DAYS = ColumnTerm("c_days")
_DWELL = RowTerm("coalesce(dwell_ms, 0)", 1e-3)
_TIMED_CLICKS = RowTerm("case when click = 1 and dwell_ms is not null then 1 else 0 end")
_SCORES = RowTerm("score", _RESOLUTION, _RESOLUTION)
_SCORED_CLICKS = RowTerm("case when score is not null then click else 0 end")
_UNTIMED_CLICKS = (
    "clicks whose dwell is unknown",
    RowTerm("case when click = 1 and dwell_ms is null then 1 else 0 end"),
)
_UNSCORED = (
    "impressions without a score",
    RowTerm("case when score is null then 1 else 0 end"),
)


def _value(column: str) -> ColumnTerm:
    return ColumnTerm(column, _RESOLUTION, rounded=True)


def _ratio(
    name: str,
    formula: str,
    needs: str,
    value: Term,
    per: Term | None,
    kind: Kind = "ratio",
    **more: Any,  # noqa: ANN401 (fields of a metric)
) -> Metric:
    wanted: list[Any] = needs.split()
    return Metric(name, kind, formula, value=value, per=per, needs=frozenset(wanted), **more)


def _mean(name: str, formula: str, needs: str, value: Term, **more: Any) -> Metric:  # noqa: ANN401
    return _ratio(name, formula, needs, value, None, "mean", **more)


def builtin_metrics(long_seconds: float, gap_minutes: float) -> dict[str, Metric]:
    """Return every built-in metric by name.

    Example:
        >>> builtin_metrics(30, 30)["ctr"].formula
        'Σ clicks / Σ impressions'
    """
    metrics = (
        *(*_CLICKS_AND_VISITS, *_dwell(long_seconds), dwell_quantile(0.5), dwell_quantile(0.9)),
        *(*_sessions(gap_minutes), *_MODELS, *_LISTS, *_CATALOGUE),
    )
    return {metric.name: metric for metric in metrics}


_CLICKS_AND_VISITS = (
    _ratio(
        "ctr", "Σ clicks / Σ impressions", "click", _CLICKS, _IMPRESSIONS, unit="share", role="goal"
    ),
    _mean("clicks_per_user", "Σ clicks / units", "unit click", _CLICKS),
    _mean("impressions_per_user", "Σ impressions / units", "unit", _IMPRESSIONS),
    _mean(
        "page_views_per_user",
        "distinct requests / units",
        "unit request_id",
        ColumnTerm("c_page_views"),
        source=definition.PAGE_VIEWS,
    ),
    _mean("active_days_per_user", "days with an impression / units", "unit ts", _DAYS, unit="days"),
)


def _dwell(seconds: float) -> tuple[Metric, ...]:
    clicks, known = "click = 1 and dwell_ms", "Σ clicks whose dwell is known"
    dwell = RowTerm("case when click = 1 then coalesce(dwell_ms, 0) else 0 end", 1e-3)
    long = RowTerm(f"case when {clicks} >= {round(seconds * 1000)} then 1 else 0 end")
    rate, mean = (
        f"Σ clicks with dwell of at least {seconds:g} s / {known}",
        "Σ dwell / Σ impressions",
    )
    timed = partial(_ratio, needs="click dwell", per=_TIMED_CLICKS, left_out=(_UNTIMED_CLICKS,))
    return (
        _mean("dwell_per_user", "Σ dwell / units", "unit dwell", _DWELL, unit="s"),
        timed("dwell_per_click", f"Σ dwell / {known}", value=dwell, unit="s"),
        _ratio("dwell_per_impression", mean, "dwell", _DWELL, _IMPRESSIONS, unit="s"),
        timed("long_click_rate", rate, value=long, unit="share"),
    )


def dwell_quantile(level: float) -> Metric:
    """Make the quantile of dwell over clicks."""
    formula = f"{level:g} quantile of dwell over clicks whose dwell is known"
    term = RowTerm("case when click = 1 then dwell_ms end", 1e-3)
    own = _mean(f"dwell_p{round(100 * level)}", formula, "click dwell", term, unit="s")
    own = replace(own, kind="quantile", level=level, source=definition.QUANTILE)
    return replace(own, left_out=(_UNTIMED_CLICKS,))


def _sessions(gap_minutes: float) -> tuple[Metric, ...]:
    gap = f"a session ends after {gap_minutes:g} minutes without an impression"
    length = f"Σ (last − first impression of a session) / sessions; {gap}"
    count, ms = ColumnTerm("c_sessions"), ColumnTerm("c_session_ms", 1e-3)
    source = definition.SESSIONS
    return (
        _mean("sessions_per_user", f"sessions / units; {gap}", "unit ts", count, source=source),
        _ratio("session_length", length, "unit ts", ms, count, source=source, unit="s"),
    )


def _left_out(**columns: str) -> tuple[tuple[str, ColumnTerm], ...]:
    return tuple((words, ColumnTerm(f"c_left_out_{name}")) for name, words in columns.items())


_MODELS = (
    _ratio(
        "gauc",
        "Σ impressions × AUC of the unit / Σ impressions, over units with both classes",
        "unit score click",
        _value("c_weighted_auc"),
        ColumnTerm("c_impressions"),
        source=definition.GAUC,
        left_out=_left_out(
            units="units with one class only",
            impressions="impressions of units with one class only",
            clicks="clicks of units with one class only",
        ),
    ),
    _ratio(
        "auc",
        "P(score of a clicked impression > score of another), ties count half, over all "
        "impressions",
        "score click",
        _value("c_auc"),
        ColumnTerm("c_scored_units"),
        "auc",
        source=definition.AUC,
    ),
    _ratio(
        "q_ctr",
        "Σ predicted click probability / Σ clicks, over impressions with a score",
        "score click",
        _SCORES,
        _SCORED_CLICKS,
        direction=definition.Direction(toward=1.0),
        left_out=(_UNSCORED,),
    ),
)
"""Quality of the served model's logged score on the variant's own traffic."""


def _served(name: str, formula: str) -> Metric:
    value, per = _value(f"c_{name}"), ColumnTerm("c_clicked_lists")
    words, needs = f"{formula}, over lists with a click", "request_id position click"
    return _ratio(name, words, needs, value, per, source=definition.SERVED_RANKING)


_LISTS = (
    _served("ndcg", "mean nDCG of the served lists: Σ 1/log2(1 + position) over the ideal"),
    _served("mrr", "mean of 1 / position of the first click"),
    _served("map", "mean over lists of the mean precision at each click"),
    _ratio(
        "category_diversity",
        "mean over lists of the share of item pairs from different categories",
        "request_id category",
        _value("c_diversity"),
        ColumnTerm("c_lists"),
        source=definition.CATEGORY_DIVERSITY,
        left_out=_left_out(
            lists="lists of fewer than two items with a category",
            impressions="impressions without a category",
        ),
    ),
)


def _of_catalogue(name: str, formula: str, **more: Any) -> Metric:  # noqa: ANN401
    needs = frozenset[Need]({"unit", "item_id"})
    return Metric(name, "catalogue", formula, needs=needs, source=definition.CATALOGUE, **more)


_EQUAL = "at equal numbers of units"
_CATALOGUE = (
    _of_catalogue(
        "coverage",
        "share of the catalogue shown to equal numbers of units (incidence rarefaction)",
        unit="share",
    ),
    _of_catalogue(
        "gini",
        f"Gini index of impressions over the catalogue, {_EQUAL}",
        direction=definition.DECREASE,
    ),
    _of_catalogue("entropy", f"Shannon entropy of impressions over items, {_EQUAL}", unit="nats"),
)
