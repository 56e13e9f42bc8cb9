"""Write the results of an experiment as one HTML file that works offline."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from abeval.report import analysis_parts, assets, daily_page, time_page
from abeval.report.agreement_page import causes_part, quadrant_part, traffics_part
from abeval.report.analysis_parts import aa_part, multiplicity_part, position_part, power_part
from abeval.report.effects import role_views
from abeval.report.figures import Figure, Section, figures_of
from abeval.report.first_part import verdict_part
from abeval.report.methods_part import methods_part
from abeval.report.replay_page import calibration_part, offline_part, replay_figure_views
from abeval.report.short import Brief, notes, opening, parts
from abeval.report.spread_page import catalog_part, dwell_part, gauc_part
from abeval.report.tables import TextTable, filled
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import AgreementRow
from abeval.results.analysis import Result
from abeval.results.record import csv_text
from abeval.results.replay import ReplayRow
from abeval.results.study import Study, study_of

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Part:
    """A part of the page.

    `title` is empty without one. `of` is the field of the study that it is built from; empty for
    all of the study. `build` returns None where there is no data for it. `is_printed` is whether it
    is on paper beside an analysis; alone, every part is.
    """

    id: str
    short: str
    title: str
    of: str
    build: Callable[[Any], Section | None]
    is_printed: bool = True


PARTS = (
    Part("verdict", "Verdict", "", "", verdict_part),
    Part("scorecard", "Scorecard", "Scorecard", "analysis", analysis_parts.scorecard_part),
    Part("trust", "Trust", "Trust checks", "analysis", analysis_parts.trust_part),
    Part("forest", "Forest", "All lifts together", "analysis", analysis_parts.forest_part, False),
    Part("cumulative", "Over time", "Effect up to each day", "", time_page.cumulative_part),
    Part("daily", "By day", "Effect by day", "", daily_page.daily_part),
    Part("pvalue", "p-values", "P-values by day", "", time_page.pvalue_part, False),
    Part("stability", "Stability", "Stability", "time", time_page.stability_part, False),
    Part("windows", "Windows", "Windows", "", time_page.windows_part, False),
    Part("segments", "Segments", "Segments", "analysis", analysis_parts.segments_part),
    Part("cuts", "Cuts", "Cuts", "analysis", analysis_parts.cuts_part),
    Part("power", "Power", "What it can see", "outlook", power_part),
    Part("srm", "Split", "Split over time", "", daily_page.srm_part, False),
    Part("before", "Before", "Before the experiment", "", daily_page.before_part, False),
    Part("quality", "Data", "Data quality", "analysis", analysis_parts.quality_part),
    Part("aa", "A/A", "A/A replays", "", aa_part, False),
    Part("offline", "Offline", "Offline replay", "replay", offline_part, False),
    Part("causes", "Agreement", "Offline meets online", "agreement", causes_part),
    Part("quadrant", "Quadrant", "Offline against online", "agreement", quadrant_part),
    Part("traffics", "Traffics", "Models on traffics", "agreement", traffics_part),
    Part("position", "Position", "Clicks by position", "agreement", position_part, False),
    Part("calibration", "Calibration", "Calibration", "replay", calibration_part, False),
    Part("dwell", "Dwell", "Distribution of dwell", "analysis", dwell_part, False),
    Part("gauc", "GAUC", "GAUC by unit", "analysis", gauc_part, False),
    Part("catalog", "Catalogue", "Use of the catalogue", "analysis", catalog_part, False),
    Part("multiplicity", "Families", "Families of tests", "analysis", multiplicity_part),
    Part("methods", "Methods", "Methods and definitions", "", methods_part, False),
    Part("glossary", "Glossary", "Glossary", "", analysis_parts.glossary_part, False),
)


_MOST_WINDOWS = 20_000
"""Of a page's JSON: with more, their digits alone would weigh more than the rest of the page."""

_WORDY = 14
"""Letters of a variant's name that fit its usual column."""


class BuiltPart(NamedTuple):
    """A part that has data."""

    id: str
    short: str
    title: str
    section: Section
    is_printed: bool


class Download(NamedTuple):
    """A link to a file inside the page."""

    name: str
    title: str
    url: str


def page_html(study: Study) -> str:
    """Write the page."""
    built = tuple(_built(study))
    return assets.render_page(
        "study.html",
        draws=any(any(figures_of(part.section.blocks)) for part in built)
        or any(replay_figure_views(study)),
        study=study,
        asked=codes.open_questions(study.questions),
        parts=built,
        kicker=_kicker(study),
        downloads=tuple(_downloads(study)),
        width=_width(study),
    )


def _width(study: Study) -> str:
    """Widen a page whose tables need room: for a column of variants, for long names."""
    rows = () if study.analysis is None else study.analysis.scorecard
    names = {row.variant for row in rows}
    if len(names) < 2:
        return ""
    return "broad wordy" if any(len(name) > _WORDY for name in names) else "broad"


def _built(study: Study) -> Iterator[BuiltPart]:
    for part in PARTS:
        source = getattr(study, part.of) if part.of else study
        section = None if source is None else part.build(source)
        if section is not None:
            is_printed = part.is_printed or study.analysis is None
            yield BuiltPart(part.id, part.short, part.title, section, is_printed)


def _kicker(study: Study) -> str:
    if study.analysis is not None:
        return "A/B test report"
    if study.time is not None and study.time.days:
        return f"Effects over time, {study.time.days[0]} to {study.time.days[-1]}"
    if study.agreement is not None:
        return "Offline and online"
    return "Offline replay" if study.replay is not None else "A/A replays"


def _downloads(study: Study) -> Iterator[Download]:
    """Offer every result as JSON, from which the page can be made again; rows as CSV."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", study.name) or "experiment"
    if study.analysis is not None:
        csv = assets.packed_url(study.analysis.to_csv())
        yield Download(f"{stem}.csv", "scorecard (CSV)", csv)
    if study.replay is not None:
        csv = assets.packed_url(csv_text(study.replay.rows, ReplayRow))
        yield Download(f"{stem}-replay.csv", "offline values (CSV)", csv)
    if study.agreement is not None:
        csv = assets.packed_url(csv_text(study.agreement.rows, AgreementRow, {"others"}))
        yield Download(f"{stem}-agreement.csv", "offline against online (CSV)", csv)
    kept, title = _kept(study)
    yield Download(f"{stem}.json", title, assets.packed_url(kept.to_compact_json()))


def _kept(study: Study) -> tuple[Study, str]:
    """Return what the page has of a study as JSON, and the words for it."""
    if study.time is None or len(study.time.windows) <= _MOST_WINDOWS:
        return study, "everything (JSON)"
    time = replace(study.time, windows=(), looks=())
    words = "everything but windows and looks, which the JSON of abeval windows has (JSON)"
    return replace(study, time=time), words


class Figures(Mapping[tuple[str, ...], "go.Figure"]):
    """The figures of a result by part, metric and, where there are several, variant.

    Plain Plotly figures, to show, change and save.

    Example:
        >>> import abeval
        >>> result = abeval.load("sample_logs/experiment.toml").analyze()
        >>> result.figures["daily", "ctr"].layout.yaxis.title.text
        'lift'
    """

    def __init__(self, result: object) -> None:
        self._study = study_of(result)

    def __getitem__(self, key: tuple[str, ...] | str) -> "go.Figure":
        """Return the figure of a key.

        Raises:
            KeyError: There is none; it says which there are.
        """
        wanted = (key,) if isinstance(key, str) else key
        if wanted not in self._drawn:
            raise KeyError(f"{wanted!r}; there are {', '.join(map(repr, self)) or 'none'}")
        # Plotly, which a page does not need, makes a copy that its taker may change.
        import plotly.graph_objects as go

        return go.Figure(self._drawn[wanted])

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)

    def __repr__(self) -> str:
        return f"Figures({', '.join(map(repr, self))})"

    @cached_property
    def _drawn(self) -> Mapping[tuple[str, ...], Figure]:
        """Draw every figure, once."""
        of_parts = [
            view for part in _built(self._study) for view in figures_of(part.section.blocks)
        ]
        views = (*of_parts, *replay_figure_views(self._study))
        return {view.key or (view.anchor,): view.figure for view in views}


def summary(result: Result) -> str:
    """Write the verdict and the scorecard for a notebook's output cell."""
    return assets.render(
        "summary.html",
        result=result,
        roles=role_views(result),
        several=len({row.variant for row in result.scorecard}) > 1,
        level=fmt.level(result.experiment.alpha),
        style=_summary_style(),
    )


def brief(result: Brief) -> str:
    """Write the short tables of a result for a notebook's output cell."""
    tables = (filled(one) if isinstance(one, TextTable) else one for one in parts(result))
    shown = (*opening(result), *tables, *notes(result))
    return assets.render("brief.html", parts=shown, style=_summary_style())


def _summary_style() -> Markup:
    return Markup(assets.text("tokens.css") + assets.text("summary.css"))  # noqa: S704 (our own file)
