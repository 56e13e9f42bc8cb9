"""`abeval metrics` and `abeval schema`: the built-in metrics, and the schema of the file.

The metrics are those of `metrics/builtin.py`; the schema is that of `experiment/model.py`.
"""

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from abeval.report.layout import Kind


def metrics() -> None:
    """List the built-in metrics with formula, unit, direction and role."""
    from abeval.cli.options import console
    from abeval.experiment.sections import Clicks, Sessions
    from abeval.metrics.builtin import builtin_metrics
    from abeval.report.tables import TextTable
    from abeval.report.terminal import text_table

    own = builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes).values()
    rows = tuple(
        (m.name, m.formula, m.unit, m.direction.label, m.role, ", ".join(sorted(m.needs)), m.kind)
        for m in own
    )
    headers = ("metric", "formula", "unit", "direction", "role", "needs", "kind")
    kinds: tuple[Kind, ...] = ("name", "words", "name", "extra", "name", "words", "extra")
    out = console()
    for part in text_table(TextTable("", "", headers, rows, kinds), out.width):
        out.print(part)


def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors that complete TOML."""
    from abeval.experiment.model import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))
