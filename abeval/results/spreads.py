"""What lies behind a number: distributions of values and of units' AUCs, and who was shown what.

Fields of `Result` (`results/analysis.py`); `inference/spreads.py` and `inference/catalogues.py`
fill them, `report/` draws them as the parts `dwell`, `gauc` and `catalog`.
"""

from dataclasses import dataclass
from typing import Literal

Fate = Literal["no_score", "single_impression", "no_click", "only_clicks"]
"""Why a unit has no AUC."""


@dataclass(frozen=True)
class Spread:
    """The distribution of a value of impressions in one variant.

    Attributes:
        value: What it is of: `dwell of clicks`, or the expression of a quantile metric.
        unit: Of the value.
        variant: The variant, control included.
        events: Impressions that have the value.
        levels: Shares of the impressions.
        quantiles: The value below which each share lies, shape as `levels`.
    """

    value: str
    unit: str
    variant: str
    events: int
    levels: tuple[float, ...]
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class QuantileEffect:
    """A quantile of a value in a variant against control.

    Attributes:
        value: As in `Spread`.
        variant: The variant compared with control.
        level: Share of the impressions that lie below.
        control: The quantile of control.
        treatment: That of the variant.
        difference: Treatment - control, with its interval at 1 - alpha; no adjustment for the
            number of levels.
        lift: Difference over the absolute value of control, with its interval.
        p_value: Two-sided, of no difference.
        reason: Why there is no interval, as in the scorecard.
    """

    value: str
    variant: str
    level: float
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True)
class AucBin:
    """Units whose own AUC lies in [low, high), and their impressions; 1 is in the last bin."""

    low: float
    high: float
    units: int
    impressions: int


@dataclass(frozen=True)
class WithoutAuc:
    """Units of a variant that GAUC leaves out for one reason.

    Attributes:
        reason: `no_score` (no impression with a score), `single_impression`, `no_click`, or
            `only_clicks`; of a single impression it is always the second.
        units: How many.
        impressions: Their impressions with a score.
        clicks: Clicks on these.
    """

    reason: Fate
    units: int
    impressions: int
    clicks: int


@dataclass(frozen=True)
class UnitAucs:
    """How the AUCs of single units, whose weighted mean is GAUC, are distributed in a variant.

    Attributes:
        variant: The variant, control included.
        units: Units that have an AUC.
        impressions: Theirs, with a score: the weights of GAUC.
        bins: By AUC, ascending; bins without units are not there.
        without: Units that have none, by reason.
    """

    variant: str
    units: int
    impressions: int
    bins: tuple[AucBin, ...]
    without: tuple[WithoutAuc, ...]


@dataclass(frozen=True)
class CatalogueUse:
    """How impressions of a variant spread over the catalogue.

    Attributes:
        variant: The variant, control included.
        items: Items that could have been shown.
        shown: Items that were.
        impressions: Of these.
        gini: Of all its impressions over all items; that of the scorecard is at equal traffic.
        units: Numbers of units at which coverage is given.
        coverage: Expected share of the catalogue shown to so many units drawn from the variant.
        item_shares: Shares of the items, least shown first.
        impression_shares: Share of the impressions that these items have: the Lorenz curve.
    """

    variant: str
    items: int
    shown: int
    impressions: int
    gini: float
    units: tuple[int, ...]
    coverage: tuple[float, ...]
    item_shares: tuple[float, ...]
    impression_shares: tuple[float, ...]
