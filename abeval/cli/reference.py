"""`abeval metrics` and `abeval schema`: the built-in metrics, and the schema of the file.

The metrics are those of `metrics/builtin.py`; the schema is that of `experiment/model.py`.
"""

import json

import typer


def metrics() -> None:
    """List the built-in metrics with formula, unit, direction and role."""
    from rich.console import Console
    from rich.table import Table

    from abeval.experiment.model import Clicks, Sessions
    from abeval.metrics.builtin import builtin_metrics

    table = Table("metric", "kind", "formula", "unit", "direction", "role", "needs")
    for metric in builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes).values():
        words = (metric.kind, metric.formula, metric.unit, metric.direction.label, metric.role)
        table.add_row(metric.name, *words, ", ".join(sorted(metric.needs)))
    Console().print(table)


def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors that complete TOML."""
    from abeval.experiment.model import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))
