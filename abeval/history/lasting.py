"""Say how much of an effect lasts: weeks since entry, across experiments.

The first week is a surrogate of a later one. The same units return, so the errors of both are
correlated; each row of a history has the covariance.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from abeval.history.measures import Measure
from abeval.history.predictions import drop_infinite_end, share_removed
from abeval.history.programme import Kept
from abeval.results.history import HistoryRow, Lasting
from abeval.stats import latent
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Refusal


def estimate_lasting(
    measure: Measure, rows: Sequence[HistoryRow], alpha: float
) -> Iterator[Lasting]:
    """Estimate for each later week what is left of the effect in the first one.

    Source: Athey, Chetty, Imbens and Kang (2019), a surrogate of a later outcome; Tripuraneni et
    al. (2024) and Bibaut et al. (2023), the noise that both share taken off its covariance.
    """
    weeks: dict[int, dict[tuple[str, str], HistoryRow]] = {}
    for row in rows:
        # Effects of untrusted tests, and differences, whose scales differ, are not compared.
        is_compared = row.scale == "lift" and (row.experiment, row.variant) in measure.effects
        if (row.source, row.metric) == ("windows", measure.metric) and row.week and is_compared:
            weeks.setdefault(row.week, {})[row.experiment, row.variant] = row
    first = weeks.pop(1, {})
    for week, later in sorted(weeks.items()):
        pairs = [(first[case], row) for case, row in later.items() if case in first]
        yield _estimate_week(measure.metric, week, pairs, alpha)


def _estimate_week(
    metric: str, week: int, pairs: Sequence[tuple[HistoryRow, HistoryRow]], alpha: float
) -> Lasting:
    """Estimate one later week from pairs of rows.

    A pair is the row of the first week and the row of the later week.
    """
    experiments = len({row.experiment for row, _ in pairs})
    columns = np.array(
        [(x.effect, x.se, y.effect, y.se, y.covariance) for x, y in pairs], dtype=np.float64
    ).reshape(-1, 5)
    x, x_se, y, y_se, noise = columns.T
    try:
        fitted = latent.fit(x, x_se, y, y_se, [row.experiment for row, _ in pairs], noise)
    except Refusal as refusal:
        return Lasting(metric, week, experiments, reason=refusal.reason)
    slope, held = latent.slope(fitted, alpha), latent.held_out(fitted)
    explained = share_removed(float(held.gain.sum()), float(held.error.sum()))
    typical = latent.predict(fitted, float(np.mean(x)), float(np.median(x_se)))[1]
    return Lasting(
        metric=metric,
        week=week,
        experiments=experiments,
        kept=slope.value,
        low=drop_infinite_end(slope.low),
        high=drop_infinite_end(slope.high),
        explained=explained,
        error=latent.widen(fitted, typical),
        supported=slope.p_value < alpha and explained is not None and explained > 0,
    )


def find_kept(lasting: Sequence[Lasting], alpha: float) -> Kept:
    """Return what is left in later weeks, up to the last that past tests support.

    Without one that is supported, effects are taken to last.
    """
    reach = 2 * two_sided_quantile(alpha)
    kept = Kept()
    for row in lasting:
        if not row.supported or row.kept is None or row.low is None or row.high is None:
            break
        kept = Kept((*kept.weeks, row.kept), (row.high - row.low) / reach)
    return kept
