"""`abeval agree`: offline beside online, and why they differ.

Calls `LoadedExperiment.agree` of `api/offline.py`.
"""

from typing import TYPE_CHECKING

from abeval.cli.commands import Cutoffs, whole_numbers
from abeval.cli.options import JsonFile, ReportFile, Whole, print_tables, write_json
from abeval.table.columns import Metrics

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment


def agree(
    loaded: "LoadedExperiment",
    k: Cutoffs = "1,5,10",
    metric: Metrics = None,
    whole: Whole = False,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Set each model's offline difference beside the effect online, and say why they differ."""
    from abeval.progress import steps

    with steps() as step:
        result = loaded.agree(k=whole_numbers(k), metrics=metric, step=step)
    write_json(json_file, result)
    if report is not None:
        result.report(report)
    print_tables(result, whole or bool(metric))
