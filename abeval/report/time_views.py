"""Format effects over time as tables and sentences."""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.report.effects import slugs
from abeval.report.figures import Figure, FigureView, info_of
from abeval.report.tables import Column, TextTable, difference_of, numbers, text_of
from abeval.results import MetricInfo, codes
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.windows import Look, Rhythm, TimeResult, WindowRow


def looks_table(looks: Sequence[Look], unit: str) -> TextTable:
    """Tabulate what would have been declared on each day."""

    def effect(look: Look, kind: str) -> str:
        ends = getattr(look, f"{kind}_low"), getattr(look, f"{kind}_high")
        return text_of(fmt.difference(look.difference, *ends, unit))

    planned: tuple[Column[Look], ...] = (
        ("Planned z", lambda look: "" if look.bound is None else f"{look.bound:.3g}"),
        ("declares", lambda look: look.planned_declares or ""),
    )
    return numbers(
        looks,
        ("Day", lambda look: look.day),
        ("One look", lambda look: effect(look, "fixed")),
        ("declares", lambda look: look.fixed_declares),
        ("Always valid", lambda look: effect(look, "always")),
        ("declares", lambda look: look.always_declares),
        *(planned if any(look.bound is not None for look in looks) else ()),
    )


def windows_table(windows: Sequence[WindowRow], unit: str) -> TextTable:
    """Tabulate effects by window."""
    return numbers(
        windows,
        ("Window", lambda w: w.start if w.end == w.start else f"{w.start} to {w.end}"),
        ("Days", lambda w: fmt.count(w.days)),
        ("Units", lambda w: f"{fmt.count(w.units_control)} / {fmt.count(w.units)}"),
        ("Control", lambda w: fmt.pair(w.control, w.treatment, unit)[0]),
        ("Treatment", lambda w: fmt.pair(w.control, w.treatment, unit)[1]),
        ("Difference", lambda w: difference_of(w, unit)),
        ("p", lambda w: fmt.p_value(w.p_value)),
        (
            "Note",
            lambda w: ", ".join(filter(None, ("partial" * w.partial, codes.reason(w.reason)))),
        ),
    )


def looks_sentence(looks: Sequence[Look]) -> str:
    """Say what daily looks would have declared."""
    if not looks:
        return ""
    naive = next((look.day for look in looks if look.fixed_declares != "unclear"), None)
    valid = next((look.day for look in looks if look.always_declares != "unclear"), None)
    early = "never looked significant" if naive is None else f"looked significant on {naive}"
    late = "it never was" if valid is None else f"it was on {valid}"
    return f"Checked daily without correction, this {early}. With correction, {late}."


def rhythm_sentence(tests: Sequence[Rhythm]) -> str:
    """Say whether hours, or weekdays, share one effect."""
    words = [
        f"Not tested: {test.reason}."
        if test.p_value is None
        else f"One effect in all {test.parts} of them: p {fmt.p_value(test.p_value)}."
        for test in tests
    ]
    return " ".join(words)


def entries(time: TimeResult, control: str) -> dict[str, dict[str, int]]:
    """Count by variant and day the units that entered by its end, of the metric with most."""
    rows = [r for r in time.windows if r.axis == "calendar" and r.kind == "cumulative"]
    if not rows:
        return {}
    most = max(rows, key=lambda row: row.units_control + row.units)
    own = [row for row in rows if row.metric == most.metric]
    first = own[0].variant
    series = {control: {row.end: row.units_control for row in own if row.variant == first}}
    for row in own:
        series.setdefault(row.variant, {})[row.end] = row.units
    return series


class Cell(NamedTuple):
    """One metric in one variant over time.

    `slug` ends the ids of its figures, `key` their keys. `note` is the variant, where there are
    several.
    """

    metric: str
    variant: str
    info: MetricInfo
    slug: str
    note: str
    key: tuple[str, ...]
    rows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]

    def view(
        self, part: str, takeaway: str, figure: Figure, table: TextTable, words: str = ""
    ) -> tuple[str, FigureView]:
        """Return its metric and its figure in a part; `words` follow the title."""
        title, key = f"{self.metric} {words}".rstrip(), (part, *self.key)
        slug = f"{part}-{self.slug}"
        shown = FigureView(title, takeaway, figure, table, key, self.note, slug)
        return self.metric, shown


def cells(study: Study) -> tuple[Cell, ...]:
    """List every metric in every variant, in the order of the windows."""
    if study.time is None:
        return ()
    rows: dict[tuple[str, str], list[WindowRow]] = {}
    for row in study.time.windows:
        rows.setdefault((row.metric, row.variant), []).append(row)
    looks: dict[tuple[str, str], list[Look]] = {}
    for look in study.time.looks:
        looks.setdefault((look.metric, look.variant), []).append(look)
    metrics, variants = slugs([m for m, _ in rows]), slugs([v for _, v in rows])
    several = len(variants) > 1
    return tuple(
        Cell(
            metric,
            variant,
            info_of(study, metric),
            f"{metrics[metric]}-{variants[variant]}" if several else metrics[metric],
            variant if several else "",
            (metric, variant) if several else (metric,),
            tuple(own),
            tuple(looks.get((metric, variant), ())),
        )
        for (metric, variant), own in rows.items()
    )
