"""What `[cuts]` may name: parts of the traffic, by expressions of the impression.

`consistency.py` calls it with the experiment.
"""

from collections.abc import Iterator

from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem
from abeval.metrics.row_text import expression_problem


def cut_problems(experiment: Experiment) -> Iterator[Problem]:
    """What is wrong with the cuts of an experiment."""
    if experiment.cuts and experiment.of_units:
        message = "a table of units has one row a unit: name its columns under [segments]"
        yield Problem(("cuts",), message)
        return
    for name, text in experiment.cuts.items():
        if name in experiment.segment_names:
            yield Problem(("cuts", name), "is the name of a segment; choose another")
        if problem := expression_problem(text):
            yield Problem(("cuts", name), problem)
