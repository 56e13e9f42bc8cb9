"""The built-in metrics, each with its formula beside its terms.

`experiment/metrics.py` takes them with the thresholds of an experiment file; `cli/reference.py`
lists them.
"""

from abeval.metrics.definition import (
    AUC,
    CATALOGUE,
    CATEGORY_DIVERSITY,
    DECREASE,
    GAUC,
    PAGE_VIEWS,
    QUANTILE,
    SERVED_RANKING,
    SESSIONS,
    ColumnTerm,
    Direction,
    Metric,
    Need,
    RowTerm,
)

PER_UNIT_RESOLUTION = 1e-9
"""Fractional values per unit or request are rounded to multiples of this before they are summed."""

_IMPRESSIONS = RowTerm("1")
_CLICKS = RowTerm("click")
_DWELL = RowTerm("coalesce(dwell_ms, 0)", 1e-3)
_TIMED_CLICKS = RowTerm("case when click = 1 and dwell_ms is not null then 1 else 0 end")
_SCORES = RowTerm("score", PER_UNIT_RESOLUTION, PER_UNIT_RESOLUTION)
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
    return ColumnTerm(column, PER_UNIT_RESOLUTION, rounded=True)


def builtin_metrics(long_seconds: float, gap_minutes: float) -> dict[str, Metric]:
    """Every built-in metric by name.

    Args:
        long_seconds: The shortest dwell of a long click.
        gap_minutes: Time without an impression after which a session has ended.

    Example:
        >>> builtin_metrics(30, 30)["ctr"].formula
        'Σ clicks / Σ impressions'
    """
    metrics = (
        *(*_clicks_and_visits(), *_dwell(long_seconds), dwell_quantile(0.5), dwell_quantile(0.9)),
        *(*_sessions(gap_minutes), *_models(), *_lists(), *_catalogue()),
    )
    return {metric.name: metric for metric in metrics}


def _clicks_and_visits() -> tuple[Metric, ...]:
    return (
        Metric(
            "ctr",
            "ratio",
            "Σ clicks / Σ impressions",
            unit="share",
            role="goal",
            value=_CLICKS,
            per=_IMPRESSIONS,
            needs=frozenset({"click"}),
        ),
        Metric(
            "clicks_per_user",
            "mean",
            "Σ clicks / units",
            value=_CLICKS,
            needs=frozenset({"unit", "click"}),
        ),
        Metric(
            "impressions_per_user",
            "mean",
            "Σ impressions / units",
            value=_IMPRESSIONS,
            needs=frozenset({"unit"}),
        ),
        Metric(
            "page_views_per_user",
            "mean",
            "distinct requests / units",
            source=PAGE_VIEWS,
            value=ColumnTerm("c_page_views"),
            needs=frozenset({"unit", "request_id"}),
        ),
        Metric(
            "active_days_per_user",
            "mean",
            "days with an impression / units",
            unit="days",
            value=ColumnTerm("c_days"),
            needs=frozenset({"unit", "ts"}),
        ),
    )


def _dwell(seconds: float) -> tuple[Metric, ...]:
    long_click = f"case when click = 1 and dwell_ms >= {round(seconds * 1000)} then 1 else 0 end"
    return (
        Metric(
            "dwell_per_user",
            "mean",
            "Σ dwell / units",
            unit="s",
            value=_DWELL,
            needs=frozenset({"unit", "dwell"}),
        ),
        Metric(
            "dwell_per_click",
            "ratio",
            "Σ dwell / Σ clicks whose dwell is known",
            unit="s",
            value=RowTerm("case when click = 1 then coalesce(dwell_ms, 0) else 0 end", 1e-3),
            per=_TIMED_CLICKS,
            needs=frozenset({"click", "dwell"}),
            left_out=(_UNTIMED_CLICKS,),
        ),
        Metric(
            "dwell_per_impression",
            "ratio",
            "Σ dwell / Σ impressions",
            unit="s",
            value=_DWELL,
            per=_IMPRESSIONS,
            needs=frozenset({"dwell"}),
        ),
        Metric(
            "long_click_rate",
            "ratio",
            f"Σ clicks with dwell of at least {seconds:g} s / Σ clicks whose dwell is known",
            unit="share",
            value=RowTerm(long_click),
            per=_TIMED_CLICKS,
            needs=frozenset({"click", "dwell"}),
            left_out=(_UNTIMED_CLICKS,),
        ),
    )


def dwell_quantile(level: float) -> Metric:
    """The quantile of dwell over clicks.

    Example:
        >>> dwell_quantile(0.9).name
        'dwell_p90'
    """
    return Metric(
        f"dwell_p{round(100 * level)}",
        "quantile",
        f"{level:g} quantile of dwell over clicks whose dwell is known",
        unit="s",
        source=QUANTILE,
        value=RowTerm("case when click = 1 then dwell_ms end", 1e-3),
        level=level,
        needs=frozenset({"click", "dwell"}),
        left_out=(_UNTIMED_CLICKS,),
    )


def _sessions(gap_minutes: float) -> tuple[Metric, ...]:
    gap = f"a session ends after {gap_minutes:g} minutes without an impression"
    return (
        Metric(
            "sessions_per_user",
            "mean",
            f"sessions / units; {gap}",
            source=SESSIONS,
            value=ColumnTerm("c_sessions"),
            needs=frozenset({"unit", "ts"}),
        ),
        Metric(
            "session_length",
            "ratio",
            f"Σ (last − first impression of a session) / sessions; {gap}",
            unit="s",
            source=SESSIONS,
            value=ColumnTerm("c_session_ms", 1e-3),
            per=ColumnTerm("c_sessions"),
            needs=frozenset({"unit", "ts"}),
        ),
    )


def _models() -> tuple[Metric, ...]:
    """Quality of the served model's logged score on the variant's own traffic."""
    return (
        Metric(
            "gauc",
            "ratio",
            "Σ impressions × AUC of the unit / Σ impressions, over units with both classes",
            source=GAUC,
            value=_value("c_weighted_auc"),
            per=ColumnTerm("c_impressions"),
            needs=frozenset({"unit", "score", "click"}),
            left_out=(
                ("units with one class only", ColumnTerm("c_left_out_units")),
                ("impressions of units with one class only", ColumnTerm("c_left_out_impressions")),
                ("clicks of units with one class only", ColumnTerm("c_left_out_clicks")),
            ),
        ),
        Metric(
            "auc",
            "auc",
            "P(score of a clicked impression > score of another), ties count half, over all "
            "impressions",
            source=AUC,
            value=_value("c_auc"),
            per=ColumnTerm("c_scored_units"),
            needs=frozenset({"score", "click"}),
        ),
        Metric(
            "q_ctr",
            "ratio",
            "Σ predicted click probability / Σ clicks, over impressions with a score",
            direction=Direction(toward=1.0),
            value=_SCORES,
            per=_SCORED_CLICKS,
            needs=frozenset({"score", "click"}),
            left_out=(_UNSCORED,),
        ),
    )


def _lists() -> tuple[Metric, ...]:
    ranking = (
        ("ndcg", "c_ndcg", "mean nDCG of the served lists: Σ 1/log2(1 + position) over the ideal"),
        ("mrr", "c_mrr", "mean of 1 / position of the first click"),
        ("map", "c_map", "mean over lists of the mean precision at each click"),
    )
    served = tuple(
        Metric(
            name,
            "ratio",
            f"{formula}, over lists with a click",
            source=SERVED_RANKING,
            value=_value(column),
            per=ColumnTerm("c_clicked_lists"),
            needs=frozenset({"request_id", "position", "click"}),
        )
        for name, column, formula in ranking
    )
    diversity = Metric(
        "category_diversity",
        "ratio",
        "mean over lists of the share of item pairs from different categories",
        source=CATEGORY_DIVERSITY,
        value=_value("c_diversity"),
        per=ColumnTerm("c_lists"),
        needs=frozenset({"request_id", "category"}),
        left_out=(
            ("lists of fewer than two items with a category", ColumnTerm("c_left_out_lists")),
            ("impressions without a category", ColumnTerm("c_left_out_impressions")),
        ),
    )
    return (*served, diversity)


def _catalogue() -> tuple[Metric, ...]:
    needs: frozenset[Need] = frozenset({"unit", "item_id"})
    return (
        Metric(
            "coverage",
            "catalogue",
            "share of the catalogue shown to equal numbers of units (incidence rarefaction)",
            unit="share",
            source=CATALOGUE,
            needs=needs,
        ),
        Metric(
            "gini",
            "catalogue",
            "Gini index of impressions over the catalogue, at equal numbers of units",
            direction=DECREASE,
            source=CATALOGUE,
            needs=needs,
        ),
        Metric(
            "entropy",
            "catalogue",
            "Shannon entropy of impressions over items, at equal numbers of units",
            unit="nats",
            source=CATALOGUE,
            needs=needs,
        ),
    )
