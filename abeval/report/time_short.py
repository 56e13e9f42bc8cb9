"""Tabulate effects over time: stability, novelty, events, rhythms."""

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import TYPE_CHECKING

from markupsafe import Markup

from abeval.report import tables
from abeval.results import codes
from abeval.results import format as fmt

if TYPE_CHECKING:
    from abeval.results.windows import EventRow, Novelty, Rhythm, Stability, TimeResult

_CHANGES = ("settling", "drifting")


def tabulate_time(result: "TimeResult", show_all: bool) -> tables.Tables:
    """Tabulate the stability of effects; `show_all` adds the evidence."""
    rows, more = tables.shorten(result.stability, show_all, lambda row: row.verdict in _CHANGES)
    novelty = [row for row in result.novelty if show_all or row.word is not None]
    evidence = tables.drop_empty(_tabulate_novelty(novelty), _tabulate_events(result.events))
    parts: list[tables.Part] = [tabulate_effect_stability(result, rows, show_all), *more, *evidence]
    parts += map(_describe_rhythm, result.rhythms)
    return tables.Tables(tuple(parts), (*result.notes, *tables.explain_refusals(result.refused)))


def tabulate_effect_stability(
    result: "TimeResult", rows: "Iterable[Stability]", show_tests: bool
) -> tables.TextTable:
    """Tabulate whether each effect changed; `show_tests` adds a column per test."""
    effect = f"the mean daily effect with {fmt.format_level(result.alpha)} interval,"
    changed = "the tests of change" if show_tests else "whether it changed"
    several = len({row.variant for row in result.stability}) > 1
    evidence: tuple[tables.Column[Stability], ...] = (
        ("days", lambda row: str(row.days), "number"),
        ("weeks", lambda row: str(row.weeks), "number"),
        _effect_column("late less early", "late_less_early"),
        ("p one effect", lambda row: fmt.format_optional(row.wald_p_value, fmt.format_p_value)),
        ("p slope", lambda row: fmt.format_optional(row.slope_p_value, fmt.format_p_value)),
        ("p change", lambda row: fmt.format_optional(row.change_p_value, fmt.format_p_value)),
        ("p rhythm", lambda row: fmt.format_optional(row.rhythm_p_value, fmt.format_p_value)),
        ("change", lambda row: row.change or ""),
        ("shocks", lambda row: ", ".join(row.shocks)),
        ("same sign", lambda row: fmt.format_optional(row.sign_share, fmt.format_percent)),
        (
            "same conclusion",
            lambda row: fmt.format_optional(row.significance_share, fmt.format_percent),
        ),
    )
    return tables.table(
        "Stability",
        f"{effect} {changed}, since which day it is proven.",
        rows,
        "metric",
        ("variant", lambda row: row.variant if several else ""),
        ("verdict", _render_verdict),
        ("why", lambda row: row.reason, "words" if show_tests else "note"),
        ("effect", lambda row: _format_mean_effect(row, result.alpha)),
        ("since day", lambda row: fmt.format_optional(row.window_days, str)),
        *(evidence if show_tests else ()),
    )


_TONES = {"stable": "pass", "settling": "warn", "drifting": "fail", "too_early": "skipped"}


def _render_verdict(row: "Stability") -> str:
    text = codes.describe_code(row.verdict)
    chip = Markup('<span class="check {}">{}</span>').format(_TONES[row.verdict], text)
    return tables.Cell(text, chip, "state")


def _format_mean_effect(row: "Stability", alpha: float) -> str:
    if row.effect is None or row.effect_se is None:
        return ""
    reach = NormalDist().inv_cdf(1 - alpha / 2) * row.effect_se
    return _format_effect(row.scale, (row.effect, row.effect - reach, row.effect + reach))


def _effect_column(header: str, name: str) -> "tables.Column[Stability | Novelty | EventRow]":
    """Make the column of an effect by the name of its field."""
    return header, lambda row: _format_effect(row.scale, tables.read_interval(row, name))


def _format_effect(scale: str | None, ends: fmt.Interval) -> str:
    """Write an effect and its interval on their scale: as a lift, or as a difference."""
    if ends[0] is None:
        return ""
    if scale != "relative":
        return fmt.format_difference(*ends).text
    # Relative effects are estimated as log(1 + lift).
    value, low, high = (None if end is None else math.expm1(end) for end in ends)
    return fmt.format_lift(value, low, high).text


def _format_start(fit: "Novelty") -> str:
    # The effect at entry has no interval.
    return _format_effect(fit.scale, (fit.start, None, None)).partition(" [")[0]


def _tabulate_novelty(rows: "list[Novelty]") -> tables.TextTable:
    return tables.table(
        "Novelty",
        "effects that change with the days since a unit's entry.",
        rows,
        *("metric", "variant"),
        ("word", lambda row: row.word or "none"),
        ("p", lambda row: fmt.format_p_value(row.p_value)),
        ("at entry", _format_start, "spare"),
        _effect_column("in the long run", "long_run"),
        tables.REASON_COLUMN,
    )


def _tabulate_events(rows: "tuple[EventRow, ...]") -> tables.TextTable:
    return tables.table(
        "Events",
        "the daily effect inside an event less that outside.",
        rows,
        *("metric", "variant", "event"),
        _effect_column("difference", "difference"),
        ("p", lambda row: fmt.format_p_value(row.p_value)),
        tables.REASON_COLUMN,
    )


def _describe_rhythm(test: "Rhythm") -> str:
    same = f"one effect in all: p {fmt.format_p_value(test.p_value)}"
    if test.p_value is None:
        same = codes.describe_reason(test.reason)
    return f"{test.metric}, {test.variant}, {test.parts} by {test.by}: {same}"
