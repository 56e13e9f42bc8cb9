"""Estimate metrics of lists at every cut-off, and find where they level off."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from abeval.offline.estimates import Estimates
from abeval.offline.metrics import OfflineMetric
from abeval.results import replay
from abeval.results.replay import CurvePoint


def compute_curves(estimates: Estimates) -> Iterator[replay.Curve]:
    """Yield the curve of each model, traffic and definition.

    The metrics are of `_curve_metrics`.
    """
    # The keys come by model, traffic and definition, so groupby needs no sort.
    by_curve = groupby(estimates.list_keys(), key=lambda entry: (*entry[:2], entry[2].definition))
    for (model, traffic, definition), keys in by_curve:
        cells = [(key[2].cutoff, estimates.cell(*key)) for key in keys]
        points = tuple(CurvePoint(k, *cell.value) for k, cell in cells)
        name = OfflineMetric(definition).id
        estimated = [(p.k, p.value) for p in points if p.value is not None]
        mean = estimates.mean([cell for _, cell in cells], traffic)
        yield replay.Curve(model, traffic, name, points, find_elbow(estimated), *mean)


def find_elbow(points: Sequence[tuple[int, float]]) -> int | None:
    """Return the cut-off furthest from the line between both ends.

    It is the elbow of Satopää et al. (2011).

    None where there are fewer than three points, or they lie on the line.

    Example:
        >>> find_elbow([(1, 0.2), (2, 0.5), (3, 0.55), (4, 0.6)])
        2
    """
    # Ends of equal height have no rise to level off, and would divide by zero below.
    if len(points) < 3 or points[0][1] == points[-1][1]:
        return None
    (k0, v0), (k1, v1) = points[0], points[-1]
    # Both axes are scaled to [0, 1], so that the units of k and of the value do not matter.
    away = {k: abs((k - k0) / (k1 - k0) - (v - v0) / (v1 - v0)) for k, v in points}
    best = max(away, key=lambda k: away[k])
    # On a line all distances are rounding, and the largest of them means nothing.
    return best if away[best] > 1e-9 else None
