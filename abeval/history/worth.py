"""Take the winner's curse off a launch's worth, by effects of past experiments."""

from collections.abc import Sequence
from dataclasses import replace

from abeval.history.entries import build_rows
from abeval.history.measures import build_measures
from abeval.results.analysis import Result, Worth
from abeval.results.history import HistoryRow
from abeval.stats import shrinkage
from abeval.stats.shrinkage import FEWEST


def shrink_worth(result: Result, past: Sequence[HistoryRow]) -> Result:
    """Add the expected change of each total if a history has effects of its metric.

    A significant lift is too large on average. Past experiments tell the spread of true lifts, and
    so how much of this one is noise (`stats.shrinkage`).
    """
    name = result.experiment.name
    others = [row for row in past if row.experiment != name]
    history = build_measures([*others, *build_rows(result, None)])
    online = {measure.metric: measure for measure in history.select_side("online")}

    def expect(worth: Worth) -> Worth:
        measure, case = online.get(worth.metric), (name, worth.variant)
        if measure is None or case not in measure.effects or worth.control == 0:
            return worth
        cases = [key for key in measure.effects if key[0] != name or key == case]
        if len({key[0] for key in cases}) <= FEWEST:
            return worth
        effects = [measure.effects[key] for key in cases]
        values, ses = [effect.value for effect in effects], [effect.se for effect in effects]
        shrunk = shrinkage.shrink(values, ses, result.experiment.alpha)
        at, total = cases.index(case), abs(worth.control)
        return replace(
            worth,
            expected=total * float(shrunk.value[at]),
            expected_low=total * float(shrunk.low[at]),
            expected_high=total * float(shrunk.high[at]),
            past=len(cases) - 1,
        )

    return replace(result, worth=tuple(map(expect, result.worth)))
