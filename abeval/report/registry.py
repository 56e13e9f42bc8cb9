"""The parts of the page, in their order: to add one, add a `Part` to `PARTS`.

`page.py` builds them. A builder gets the `Study`, and returns None where it has no data for it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from abeval.report import analysis_parts, daily_page, time_page
from abeval.report.agreement_page import causes_part, quadrant_part, traffics_part
from abeval.report.analysis_parts import aa_part, position_part, power_part
from abeval.report.figures import Section
from abeval.report.first_part import verdict_part
from abeval.report.methods_part import methods_part
from abeval.report.replay_page import calibration_part, offline_part
from abeval.report.spread_page import catalog_part, dwell_part, gauc_part
from abeval.results.study import Study


@dataclass(frozen=True)
class Part:
    """A part of the page.

    Attributes:
        id: Of its section, for links.
        short: Its name in the navigation.
        title: Its heading; empty without one.
        build: Its content, or None where the study has no data for it.
        is_printed: Whether it is on paper beside an analysis; alone, every part is.
    """

    id: str
    short: str
    title: str
    build: Callable[[Study], Section | None]
    is_printed: bool = True


PARTS = (
    Part("verdict", "Verdict", "", verdict_part),
    Part("scorecard", "Scorecard", "Scorecard", analysis_parts.scorecard_part),
    Part("trust", "Trust", "Trust checks", analysis_parts.trust_part),
    Part("forest", "Forest", "All lifts together", analysis_parts.forest_part, False),
    Part("cumulative", "Over time", "Effect up to each day", time_page.cumulative_part),
    Part("daily", "By day", "Effect by day", daily_page.daily_part),
    Part("pvalue", "p-values", "P-values by day", time_page.pvalue_part, False),
    Part("stability", "Stability", "Stability", time_page.stability_part, False),
    Part("windows", "Windows", "Windows", time_page.windows_part, False),
    Part("segments", "Segments", "Segments", analysis_parts.segments_part),
    Part("cuts", "Cuts", "Cuts", analysis_parts.cuts_part),
    Part("power", "Power", "What it can see", power_part),
    Part("srm", "Split", "Split over time", daily_page.srm_part, False),
    Part("before", "Before", "Before the experiment", daily_page.before_part, False),
    Part("quality", "Data", "Data quality", analysis_parts.quality_part),
    Part("aa", "A/A", "A/A replays", aa_part, False),
    Part("offline", "Offline", "Offline replay", offline_part, False),
    Part("causes", "Agreement", "Offline meets online", causes_part),
    Part("quadrant", "Quadrant", "Offline against online", quadrant_part),
    Part("traffics", "Traffics", "Models on traffics", traffics_part),
    Part("position", "Position", "Clicks by position", position_part, False),
    Part("calibration", "Calibration", "Calibration", calibration_part, False),
    Part("dwell", "Dwell", "Distribution of dwell", dwell_part, False),
    Part("gauc", "GAUC", "GAUC by unit", gauc_part, False),
    Part("catalog", "Catalogue", "Use of the catalogue", catalog_part, False),
    Part("multiplicity", "Families", "Families of tests", analysis_parts.multiplicity_part),
    Part("methods", "Methods", "Methods and definitions", methods_part, False),
    Part("glossary", "Glossary", "Glossary", analysis_parts.glossary_part, False),
)
