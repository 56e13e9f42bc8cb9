"""Where segments have their values from: impressions, or what is known before the treatment acts.

`consistency.py` checks them; `logs/` reads the values, and `inference/trust/segments.py` asks which
of them no treatment can change.
"""

from collections.abc import Iterator
from typing import Literal

from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem
from abeval.experiment.sections import SegmentRule
from abeval.metrics.row_text import expression_problem


def known_from(experiment: Experiment, source: Literal["before", "exposure"]) -> dict[str, str]:
    """Name → expression of the segments that units have from before the period, or at exposure."""
    return {
        name: rule.value
        for name, rule in experiment.segments.items()
        if isinstance(rule, SegmentRule) and rule.known == source
    }


def of_impressions(experiment: Experiment) -> dict[str, str]:
    """Name → expression of the segments that are read from the rows, in or before the period."""
    exposed = known_from(experiment, "exposure")
    return {name: text for name, text in experiment.segment_values.items() if name not in exposed}


def segment_problems(experiment: Experiment) -> Iterator[Problem]:
    """Expressions that are none, and values that are known from where the file has nothing."""
    for name, text in experiment.segment_values.items():
        if problem := expression_problem(text):
            yield Problem(("segments", name), problem)
    for name in known_from(experiment, "before"):
        if experiment.pre_period is None and not experiment.of_units:
            message = '"before" needs a [pre_period], in which the unit had its value'
            yield Problem(("segments", name, "known"), message)
    for name in known_from(experiment, "exposure"):
        if experiment.logs.exposures is None:
            message = '"exposure" needs [logs.exposures], whose rows have the value'
            yield Problem(("segments", name, "known"), message)
