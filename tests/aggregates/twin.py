"""The slow, obvious reading of the definitions: plain dicts and loops over rows.

Nothing here knows of the SQL. A log is a list of rows, a row is a dict with the canonical names
`unit, ms, variant, request, item, position, impression, click, dwell, category` and any score
columns; `ms` is epoch milliseconds in UTC and `dwell` seconds. A click row has `impression` or
`request, item, position`, and `ms, dwell`; an exposure `unit, ms, variant`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

Row = dict[str, Any]
Pair = tuple[float, float]
Span = tuple[datetime, datetime]

USED = "used"


class SidedQuantile(NamedTuple):
    """A quantile, and the ends of its 95 % interval where it has one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Plan:
    """What an experiment file decides."""

    variants: tuple[str, ...] = ("a", "b")
    period: Span | None = None
    before: Span | None = None
    zone: str = "UTC"
    crossover: str = "first"
    duplicates: str = "drop"
    serves: dict[str, str] = field(default_factory=dict)
    gap_minutes: float = 30.0
    attribution_hours: float = 24.0
    long_seconds: float = 30.0


def local(ms: int, zone: str) -> datetime:
    """The wall clock of a time zone."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def usable(score: float | None) -> bool:
    return score is not None and math.isfinite(score)


def known(dwell: float | None) -> float | None:
    """A negative dwell is unknown."""
    return None if dwell is None or math.isnan(dwell) or dwell < 0 else dwell


def identity(row: Row) -> Hashable:
    return tuple((key, repr(value)) for key, value in sorted(row.items()))


def distinct(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Rows that differ, each with how often it stands."""
    copies = Counter(identity(row) for row in rows)
    firsts = {identity(row): row for row in reversed(rows)}
    return [(firsts[key], n) for key, n in copies.items()]


class Twin:
    """Everything the definitions say of a log."""

    def __init__(
        self,
        plan: Plan,
        impressions: Sequence[Row],
        clicks: Sequence[Row] | None = None,
        key: Sequence[str] = (),
        exposures: Sequence[Row] | None = None,
        categories: dict[Any, str] | None = None,
    ) -> None:
        self.plan = plan
        self.accounts: dict[str, Counter[str]] = {"impressions": Counter()}
        kept = self._deduplicated(impressions)
        for row in kept:
            row["reason"] = self._reason(row, by_row=exposures is None)
            if row["category"] is None and categories is not None:
                row["category"] = categories.get(row["item"])
        self._give_clicks(kept, clicks, key)
        self._place(kept, exposures)
        for row in kept:
            self.accounts["impressions"][row["reason"] or USED] += 1

    def _deduplicated(self, impressions: Sequence[Row]) -> list[Row]:
        if self.plan.duplicates != "drop":
            return [dict(row) for row in impressions]
        # Rows without any id may be of different people.
        ids = ("impression",) if self._says("impression", impressions) else ("unit", "request")
        named = [row for row in impressions if any(row.get(name) is not None for name in ids)]
        once = distinct(named)
        repeats = sum(n - 1 for _, n in once)
        self.accounts["impressions"].update({"duplicate": repeats} if repeats else {})
        nameless = [dict(row) for row in impressions if row not in named]
        return [*(dict(row) for row, _ in once), *nameless]

    @staticmethod
    def _says(name: str, rows: Sequence[Row]) -> bool:
        return any(row.get(name) is not None for row in rows)

    def _reason(self, row: Row, by_row: bool) -> str | None:
        """Why an impression does not count by itself."""
        row["at"] = None if row["ms"] is None else local(row["ms"], self.plan.zone)
        row["day"] = None if row["at"] is None else row["at"].date().isoformat()
        row["in_period"] = self._within(row, self.plan.period)
        if row["unit"] is None:
            return "null_unit"
        if self.plan.period is not None:
            if row["ms"] is None:
                return "null_time"
            if not row["in_period"] and (
                self.plan.before is None or not self._within(row, self.plan.before)
            ):
                return "outside_period"
        if row["in_period"] and by_row:
            if row["variant"] is None:
                return "null_variant"
            if row["variant"] not in self.plan.variants:
                return "not_compared"
        return None

    def _within(self, row: Row, span: Span | None) -> bool:
        if span is None:
            return True
        return row["at"] is not None and span[0] <= row["at"] < span[1]

    def _give_clicks(
        self, kept: Sequence[Row], clicks: Sequence[Row] | None, key: Sequence[str]
    ) -> None:
        if clicks is None:
            for row in kept:
                row["click"] = int(row["click"] is not None and row["click"] > 0)
                row["dwell"] = known(row["dwell"]) if row["click"] else 0.0
            return
        given: dict[int, list[float | None]] = defaultdict(list)
        self.accounts["clicks"] = Counter()
        for click, copies in distinct(clicks):
            reason, index = self._fate(click, kept, key)
            self.accounts["clicks"][reason] += 1
            if copies > 1:
                self.accounts["clicks"]["duplicate"] += copies - 1
            if index is not None:
                given[index].append(known(click["dwell"]))
        for index, row in enumerate(kept):
            dwells = [d for d in given[index] if d is not None]
            row["click"] = int(bool(given[index]))
            row["dwell"] = (math.fsum(dwells) if dwells else None) if given[index] else 0.0

    def _fate(self, click: Row, kept: Sequence[Row], key: Sequence[str]) -> tuple[str, int | None]:
        """Why a click does not count, or the impression it belongs to."""
        if any(click[k] is None for k in key):
            return "null_key", None
        own = [i for i, row in enumerate(kept) if all(row[k] == click[k] for k in key)]
        if not own:
            return "no_impression", None
        if any(kept[i]["reason"] is not None for i in own):
            return "impression_set_aside", None
        if len(own) > 1:
            return "ambiguous_impression", None
        shown = kept[own[0]]["ms"]
        window = self.plan.attribution_hours * 3_600_000
        if None not in (shown, click["ms"]) and click["ms"] - shown > window:
            return "late", None
        return USED, own[0]

    def _place(self, kept: Sequence[Row], exposures: Sequence[Row] | None) -> None:
        """Each unit's variant; units that are not analysed set their impressions aside."""
        if exposures is not None:
            first: dict[Any, list[int]] = defaultdict(list)
            for row in exposures:
                first[row["unit"]].append(row["ms"])
            for row in kept:
                late_enough = row["unit"] in first and (
                    not row["in_period"] or row["ms"] >= min(first[row["unit"]])
                )
                if row["reason"] is None and not late_enough:
                    row["reason"] = "not_exposed"
        seen: dict[Any, list[Row]] = defaultdict(list)
        if exposures is None:
            for row in kept:
                if row["reason"] is None and row["in_period"]:
                    seen[row["unit"]].append(row)
        else:
            for row in exposures:
                if row["unit"] is not None:
                    seen[row["unit"]].append(row)
        self.clicks = sum(r["click"] for r in kept if r["reason"] is None and r["in_period"])
        self.candidates = len(seen)
        self.crossovers = sum(len({r["variant"] for r in rows}) > 1 for rows in seen.values())
        self.units: dict[Any, str] = {}
        aside: dict[Any, str] = {}
        for unit, rows in seen.items():
            named = {r["variant"] for r in rows if r["variant"] is not None}
            start = min((r["ms"] for r in rows if r["ms"] is not None), default=None)
            firsts = {r["variant"] for r in rows if r["ms"] in (None, start)}
            variant = next(iter(firsts if len(named) > 1 and len(firsts) == 1 else named), None)
            if len(named) > 1 and self.plan.crossover == "exclude":
                aside[unit] = "crossover"
            elif len(named) > 1 and len(firsts) > 1:
                aside[unit] = "tied_crossover"
            elif variant not in self.plan.variants:
                aside[unit] = "no_variant"
            else:
                self.units[unit] = variant
        for row in kept:
            if row["reason"] is None and row["unit"] not in self.units:
                row["reason"] = aside.get(row["unit"], "not_in_experiment")
        self.rows = [row for row in kept if row["reason"] is None]

    def members(self, variant: str) -> list[Any]:
        return [unit for unit, own in self.units.items() if own == variant]

    def per_unit(self, metric: str, variant: str, *, before: bool = False) -> list[Pair]:
        """Numerator and denominator of every analysed unit of a variant."""
        rows = self._by_unit([r for r in self.rows if r["in_period"] != before])
        measure = _measure(metric, self.plan, variant)
        return [measure(rows[unit]) for unit in self.members(variant)]

    def per_unit_of_day(self, metric: str, variant: str, day: str) -> list[Pair]:
        """The same over the units with an impression on the day; a list or a session belongs to
        the day that it began on."""
        rows = self._by_unit([r for r in self.rows if r["in_period"]])
        measure = _measure(metric, self.plan, variant)
        active = [u for u in self.members(variant) if any(r["day"] == day for r in rows[u])]
        return [measure(_of_day(metric, rows[u], day, self.plan)) for u in active]

    def days(self, *variants: str) -> list[str]:
        return sorted(
            {r["day"] for r in self.rows if r["in_period"] and self.units[r["unit"]] in variants}
        )

    def left_out(self, variant: str) -> dict[tuple[str, str], int]:
        """What the definitions leave out of each metric, counted."""
        rows = [r for r in self.rows if r["in_period"] and self.units[r["unit"]] == variant]
        untimed = sum(r["click"] and r["dwell"] is None for r in rows)
        score = self.plan.serves.get(variant, "score")
        scored = [r for r in rows if usable(r[score])]
        of_one_class = [u for u in self._by_unit(scored).values() if not _both_classes(u)]
        lists = _lists(rows)
        short = [rs for rs in lists if sum(r["category"] is not None for r in rs) < 2]
        without = sum(
            len(rs) if rs in short else sum(r["category"] is None for r in rs) for rs in lists
        )
        return {
            ("dwell_per_click", "clicks whose dwell is unknown"): untimed,
            ("long_click_rate", "clicks whose dwell is unknown"): untimed,
            ("dwell_p50", "clicks whose dwell is unknown"): untimed,
            ("dwell_p90", "clicks whose dwell is unknown"): untimed,
            ("q_ctr", "impressions without a score"): len(rows) - len(scored),
            ("gauc", "units with one class only"): len(of_one_class),
            ("gauc", "impressions of units with one class only"): sum(map(len, of_one_class)),
            ("gauc", "clicks of units with one class only"): sum(
                r["click"] for rs in of_one_class for r in rs
            ),
            ("category_diversity", "lists of fewer than two items with a category"): len(short),
            ("category_diversity", "impressions without a category"): without,
        }

    def auc(self, variant: str) -> tuple[float, float] | None:
        """AUC over all pairs of a variant, and its variance clustered by unit."""
        score = self.plan.serves.get(variant, "score")
        own = set(self.members(variant))
        rows = [r for r in self.rows if r["in_period"] and r["unit"] in own and usable(r[score])]
        positives = [r for r in rows if r["click"]]
        negatives = [r for r in rows if not r["click"]]
        if not positives or not negatives:
            return None
        beats = [[_wins(p[score], n[score]) for n in negatives] for p in positives]
        value = sum(map(sum, beats)) / (len(positives) * len(negatives))
        psi = dict.fromkeys(own, 0.0)
        for p, won in zip(positives, beats, strict=True):
            psi[p["unit"]] += (sum(won) / len(negatives) - value) / len(positives)
        for n, lost in zip(negatives, zip(*beats, strict=True), strict=True):
            psi[n["unit"]] += (sum(lost) / len(positives) - value) / len(negatives)
        units = len(own)
        spread = math.fsum(x * x for x in psi.values())
        return value, spread * units / (units - 1) if units > 1 else math.nan

    def unit_aucs(self, variant: str) -> Counter[tuple[str, int]]:
        """Units by what became of them and, where they have an AUC, its twentieth."""
        score = self.plan.serves.get(variant, "score")
        own = self._by_unit([r for r in self.rows if r["in_period"]])
        fates: Counter[tuple[str, int]] = Counter()
        for unit in self.members(variant):
            rows = [r for r in own[unit] if usable(r[score])]
            clicks = sum(r["click"] for r in rows)
            if _both_classes(rows):
                twentieth = math.floor(20 * _unit_auc(rows, score) + 1e-9)
                fates["judged", min(twentieth, 19)] += 1
            elif len(rows) < 2:
                fates["single_impression" if rows else "no_score", -1] += 1
            else:
                fates["only_clicks" if clicks else "no_click", -1] += 1
        return fates

    def distribution(self, variant: str, level: float) -> float:
        """The quantile of dwell of a variant that has one; the outermost value beyond the rest."""
        values = [ms for own in self._dwells(variant) for ms in own]
        value = _at(values, level)
        return (min(values) if level < 0.5 else max(values)) if value is None else value

    def quantiles(self, level: float) -> list[SidedQuantile | None]:
        """The quantile of dwell over clicks of the two variants; None without such a click."""
        arms = [self._dwells(variant) for variant in self.plan.variants]
        effects = [_design_effect(arm, level) for arm in arms]
        known = [(e, len(arm)) for e, arm in zip(effects, arms, strict=True) if e is not None]
        pooled = sum(e * n for e, n in known) / sum(n for _, n in known) if known else 0.0
        return [
            _sided([ms for values in arm for ms in values], level, e and max(e, pooled))
            for arm, e in zip(arms, effects, strict=True)
        ]

    def _dwells(self, variant: str) -> list[list[int]]:
        """The milliseconds of every unit's clicks whose dwell is known."""
        own = self._by_unit([r for r in self.rows if r["in_period"]])
        return [
            [round(r["dwell"] * 1000) for r in own[unit] if r["click"] and r["dwell"] is not None]
            for unit in self.members(variant)
        ]

    def shown(self, variant: str) -> dict[Any, Counter[Any]]:
        """Item → unit → impressions."""
        reach: dict[Any, Counter[Any]] = defaultdict(Counter)
        for row in self.rows:
            if row["in_period"] and row["item"] is not None and self.units[row["unit"]] == variant:
                reach[row["item"]][row["unit"]] += 1
        return reach

    def coverage(self, variant: str, at: int, catalogue: int) -> float:
        """Expected share of the catalogue that `at` of the variant's units are shown."""
        units = len(self.members(variant))
        missed = [
            math.comb(units - len(by_unit), at) / math.comb(units, at)
            for by_unit in self.shown(variant).values()
        ]
        return sum(1 - m for m in missed) / catalogue

    @staticmethod
    def _by_unit(rows: Sequence[Row]) -> dict[Any, list[Row]]:
        own: dict[Any, list[Row]] = defaultdict(list)
        for row in rows:
            own[row["unit"]].append(row)
        return own


def _middles(values: Sequence[int]) -> list[tuple[float, int]]:
    """Each value that occurs, after the share of values below it and half of those that are it."""
    below = {v: sum(other < v for other in values) for v in values}
    return sorted(((n + values.count(v) / 2) / len(values), v) for v, n in below.items())


def _at(values: Sequence[int], level: float) -> float | None:
    """The value on the line between the two middles around a level, None beyond them."""
    middles = _middles(values)
    for (lower, low), (upper, high) in pairwise(middles):
        if lower <= level < upper:
            return low + (high - low) * (level - lower) / (upper - lower)
    return None


def _design_effect(units: Sequence[Sequence[int]], level: float) -> float | None:
    """Variance of the share below the quantile between units, over that of independent values."""
    values = [ms for own in units for ms in own]
    middles = _middles(values)
    around = next(((a, b) for a, b in pairwise(middles) if a[0] <= level < b[0]), None)
    if around is None or len(units) < 2:
        return None
    (lower, low), (upper, high) = around
    share = (level - lower) / (upper - lower)
    part = {low: (1 + share) / 2, high: share / 2}
    pairs = [(sum(part.get(ms, float(ms < low)) for ms in own), len(own)) for own in units]
    mean = len(values) / len(units)
    gaps = [(below - level * n) / mean for below, n in pairs]
    spread = math.fsum(gap * gap for gap in gaps) / (len(units) - 1) / len(units)
    return spread * len(values) / (level * (1 - level))


def _sided(values: Sequence[int], level: float, effect: float | None) -> SidedQuantile | None:
    if not values:
        return None
    value = _at(values, level)
    if value is None:
        value = min(values) if level < 0.5 else max(values)
    n = len(values)
    if not effect or n * min(level, 1 - level) / max(effect, 1.0) < 10:
        return SidedQuantile(value / 1000, None, None)
    half = 1.959963984540054 * math.sqrt(effect * level * (1 - level) / n)
    low, high = _at(values, level - half), _at(values, level + half)
    if low is None or high is None:
        return SidedQuantile(value / 1000, None, None)
    return SidedQuantile(value / 1000, low / 1000, high / 1000)


def _wins(positive: float, negative: float) -> float:
    return 1.0 if positive > negative else 0.5 if positive == negative else 0.0


def _both_classes(rows: Sequence[Row]) -> bool:
    return len({r["click"] for r in rows}) == 2


def _lists(rows: Sequence[Row]) -> list[list[Row]]:
    """The served lists: the impressions of one unit in one request."""
    lists: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        if row["request"] is not None:
            lists[row["unit"], row["request"]].append(row)
    return list(lists.values())


def _sessions(rows: Sequence[Row], plan: Plan) -> list[list[Row]]:
    """A session ends where more than the gap passes without an impression."""
    sessions: list[list[Row]] = []
    for row in sorted((r for r in rows if r["ms"] is not None), key=lambda r: r["ms"]):
        if not sessions or row["ms"] - sessions[-1][-1]["ms"] > plan.gap_minutes * 60_000:
            sessions.append([])
        sessions[-1].append(row)
    return sessions


def _clicked(rows: Sequence[Row]) -> list[list[Row]]:
    """The clicked rows, from the top, of every list with a click on a known position."""
    found = [
        sorted(
            (r for r in rs if r["click"] and r["position"] is not None),
            key=lambda r: r["position"],
        )
        for rs in _lists(rows)
    ]
    return [rs for rs in found if rs]


def _ndcg(clicked: Sequence[Row]) -> float:
    gain = math.fsum(1 / math.log2(1 + r["position"]) for r in clicked)
    return gain / math.fsum(1 / math.log2(1 + rank) for rank in range(1, len(clicked) + 1))


def _average_precision(clicked: Sequence[Row]) -> float:
    return math.fsum(i / r["position"] for i, r in enumerate(clicked, 1)) / len(clicked)


def _diversity(rows: Sequence[Row]) -> float | None:
    """Share of pairs of a list's items, those with a category, that are of different ones."""
    pairs = list(combinations([r["category"] for r in rows if r["category"] is not None], 2))
    return sum(a != b for a, b in pairs) / len(pairs) if pairs else None


def _unit_auc(rows: Sequence[Row], score: str) -> float:
    won = [_wins(p[score], n[score]) for p in rows if p["click"] for n in rows if not n["click"]]
    return sum(won) / len(won)


def _of_day(metric: str, rows: Sequence[Row], day: str, plan: Plan) -> list[Row]:
    if metric in ("sessions_per_user", "session_length"):
        return [r for s in _sessions(rows, plan) if s[0]["day"] == day for r in s]
    if metric in ("ndcg", "mrr", "map"):
        # Of a list, only its clicks matter; a click counts on its impression's day.
        return [r for rs in _clicked(rows) if min(r["day"] for r in rs) == day for r in rs]
    if metric in ("page_views_per_user", "category_diversity"):
        return [r for rs in _lists(rows) if min(r["day"] for r in rs) == day for r in rs]
    return [r for r in rows if r["day"] == day]


def _measure(metric: str, plan: Plan, variant: str) -> Callable[[list[Row]], Pair]:
    """One unit's rows → numerator and denominator."""
    score = plan.serves.get(variant, "score")

    def clicks(rows: list[Row]) -> int:
        return sum(r["click"] for r in rows)

    def dwell(rows: list[Row]) -> float:
        return math.fsum(r["dwell"] or 0.0 for r in rows)

    def timed(rows: list[Row]) -> list[Row]:
        return [r for r in rows if r["click"] and r["dwell"] is not None]

    def scored(rows: list[Row]) -> list[Row]:
        return [r for r in rows if usable(r[score])]

    def gauc(rows: list[Row]) -> Pair:
        own = scored(rows)
        return (len(own) * _unit_auc(own, score), len(own)) if _both_classes(own) else (0.0, 0.0)

    def diversity(rows: list[Row]) -> Pair:
        found = [d for rs in _lists(rows) if (d := _diversity(rs)) is not None]
        return math.fsum(found), len(found)

    def ranking(of_list: Callable[[list[Row]], float]) -> Callable[[list[Row]], Pair]:
        return lambda rows: (math.fsum(map(of_list, _clicked(rows))), len(_clicked(rows)))

    def lengths(rows: list[Row]) -> float:
        return sum(s[-1]["ms"] - s[0]["ms"] for s in _sessions(rows, plan)) / 1000

    measures: dict[str, Callable[[list[Row]], Pair]] = {
        "ctr": lambda rows: (clicks(rows), len(rows)),
        "clicks_per_user": lambda rows: (clicks(rows), 1),
        "impressions_per_user": lambda rows: (len(rows), 1),
        "page_views_per_user": lambda rows: (len(_lists(rows)), 1),
        "active_days_per_user": lambda rows: (len({r["day"] for r in rows} - {None}), 1),
        "dwell_per_user": lambda rows: (dwell(rows), 1),
        "dwell_per_click": lambda rows: (dwell(timed(rows)), len(timed(rows))),
        "dwell_per_impression": lambda rows: (dwell(rows), len(rows)),
        "long_click_rate": lambda rows: (
            sum(r["dwell"] >= plan.long_seconds for r in timed(rows)),
            len(timed(rows)),
        ),
        "sessions_per_user": lambda rows: (len(_sessions(rows, plan)), 1),
        "session_length": lambda rows: (lengths(rows), len(_sessions(rows, plan))),
        "gauc": gauc,
        "q_ctr": lambda rows: (
            math.fsum(r[score] for r in scored(rows)),
            clicks(scored(rows)),
        ),
        "ndcg": ranking(_ndcg),
        "mrr": ranking(lambda clicked: 1 / clicked[0]["position"]),
        "map": ranking(_average_precision),
        "category_diversity": diversity,
    }
    return measures[metric]


MEANS = (
    "clicks_per_user",
    "impressions_per_user",
    "page_views_per_user",
    "active_days_per_user",
    "dwell_per_user",
    "sessions_per_user",
)
RATIOS = (
    "ctr",
    "dwell_per_click",
    "dwell_per_impression",
    "long_click_rate",
    "session_length",
    "gauc",
    "q_ctr",
    "ndcg",
    "mrr",
    "map",
    "category_diversity",
)
DAILY = tuple(name for name in (*MEANS, *RATIOS) if name != "gauc")
