"""`abeval analyze TABLE --variant COLUMN`: a table of one row a unit in place of a file.

`main.py` gives `TABLE_OR_FILE` to `on_engine` for `analyze`; `abeval/table/` looks at the table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abeval.errors import ExperimentError
from abeval.metrics.definition import Source

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.experiment.model import Experiment


def _flag(text: str, metavar: str = "COLUMN") -> Any:  # noqa: ANN401 (typer's own type is Any)
    return typer.Option(help=text, metavar=metavar, rich_help_panel="Table of one row a unit")


_MANY = "repeat for more"
_FLAGS: Mapping[str, object] = {
    "unit": Annotated[str | None, _flag("The unit; without it each row is one.")],
    "variant": Annotated[str | None, _flag("The variant.")],
    "metric": Annotated[
        list[str] | None,
        _flag(
            f"A column, or name=clicks/views for a ratio; {_MANY}. Default: all numbers.", "METRIC"
        ),
    ],
    "covariate": Annotated[
        list[str] | None, _flag(f"Measured before the experiment, for CUPED; {_MANY}.")
    ],
    "segment": Annotated[list[str] | None, _flag(f"Effects by its values too; {_MANY}.")],
    "control": Annotated[
        str | None, _flag("Default: the one called so, or the first by name.", "VARIANT")
    ],
}


def _load(file: Path | None, flags: Mapping[str, Any]) -> "LoadedExperiment":
    from abeval.api import load
    from abeval.engines.sources import is_table

    named = {name: value for name in _FLAGS if (value := flags[name])}
    if file is None:
        return _of_sums(flags.get("sums"), named)
    variant = named.pop("variant", None)
    if variant is None:
        if named:
            raise ExperimentError(f"--{next(iter(named))} is for a table", "name its --variant too")
        if is_table(file):
            raise ExperimentError(
                f"{file} is a table, not an experiment file",
                "name its columns: --unit user_id --variant group",
            )
        return load(file)
    from abeval.api.entry import load_table
    from abeval.table.columns import TableOptions

    options = TableOptions(
        variant=variant,
        unit=named.get("unit"),
        metrics=named.get("metric"),
        covariates=named.get("covariate", ()),
        segments=named.get("segment", ()),
        control=named.get("control"),
    )
    loaded = load_table(file, options)
    _say_control(loaded.experiment, options.control)
    return loaded


def _of_sums(sums: Path | None, named: dict[str, Any]) -> "LoadedExperiment":
    """The experiment that a table of sums is of."""
    from abeval.api import LoadedExperiment
    from abeval.store.summaries import read_sums
    from abeval.table.read import sums_experiment

    control = named.pop("control", None)
    if sums is None:
        raise ExperimentError("nothing to analyse", "name an experiment file, a table, or --sums")
    if named:
        raise ExperimentError(
            f"--{next(iter(named))} is for a table", "sums name their own columns"
        )
    experiment = sums_experiment(read_sums(sums), sums, control)
    _say_control(experiment, control)
    return LoadedExperiment(experiment)


def _say_control(experiment: "Experiment", named: str | None) -> None:
    from abeval.table.read import is_usual_control

    control = experiment.control
    if named is None and not is_usual_control(control):
        typer.echo(f"control is {control}, the first by name; --control names another", err=True)


TABLE_OR_FILE = Source(
    "The experiment file (TOML), or a table with --variant.", _FLAGS, _load, is_needed=False
)
