"""Experiments of two variants, a and b, of users: what calibrations do not vary."""

from collections.abc import Mapping, Sequence
from typing import Any

import abeval
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.metrics.definition import Margin, Metric

_ENTRIES: Mapping[str, Any] = {
    "name": "simulated",
    "unit": "user_id",
    "control": "a",
    "variants": {"a": {}, "b": {}},
}


def define_experiment(**entries: Any) -> abeval.LoadedExperiment:
    """Define an experiment that runs on frames, in one thread."""
    return abeval.define(**{**_ENTRIES, "engine": {"threads": 1}, **entries})


def list_metrics(goals: Sequence[str], guardrails: Sequence[str], margin: float) -> list[Metric]:
    """List means as an analysis judges them; guardrails have a relative margin."""
    kept = Margin(margin, relative=True)
    return [
        *(Metric(name, "mean", "…", role="goal") for name in goals),
        *(Metric(name, "mean", "…", role="guardrail", margin=kept) for name in guardrails),
    ]


def parse_metrics(metrics: Sequence[Metric], **entries: Any) -> Experiment:
    """Parse an experiment of metrics whose comparisons are given."""
    return parse_inference(metrics=[{"name": one.name, "value": "1"} for one in metrics], **entries)


def parse_inference(**entries: Any) -> Experiment:
    """Parse an experiment whose logs are never read: its sums are given."""
    return parse_experiment(
        {**_ENTRIES, "logs": {"impressions": {"path": "none.parquet"}}, **entries}
    )
