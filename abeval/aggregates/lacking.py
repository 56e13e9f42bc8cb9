"""Impressions of files that lack a column which others have, by variant: exact sums over units.

`collect.py` keeps them with the sums of the metrics; `inference/trust/` compares the shares.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from abeval.aggregates.sums import LACKING, Groups, Row, Slice, Terms, sums_of
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, numbered, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.prepare import Prepared
from abeval.logs.views import variant_of


def lacking_sums(experiment: Experiment, prepared: Prepared, engine: Engine) -> list[Row]:
    """Rows of `moment_rows.MOMENT_COLUMNS` for each column that is read and that files lack."""
    facts = prepared.files
    if experiment.logs.rows.query is not None:
        # The rows of a query are not those of a file.
        return []
    by_files: dict[tuple[str, ...], list[str]] = {}
    for column in prepared.lacking:
        by_files.setdefault(tuple(facts.lacking[column.lower()]), []).append(column)
    rows: list[Row] = []
    for lacking, columns in by_files.items():
        rest = [file for file in facts.files if file not in lacking]
        if _show_units(experiment, engine, list(lacking), rest):
            rows += _sums(experiment, engine, columns)
    return rows


def _sums(experiment: Experiment, engine: Engine, columns: Sequence[str]) -> list[Row]:
    """Sums of `lacking_units` by variant, the same of each column."""
    variants = [*experiment.variants]
    listed = (
        f"{numbered('variant', variants)} as arm, cast(x as bigint) as x, cast(y as bigint) as y"
    )
    read = engine.arrays(f"select {listed} from lacking_units")
    arm, x, y = (column.astype(np.int64) for column in read.values())
    slices = [Slice(column, LACKING, Terms(y, x)) for column in columns]
    return sums_of(slices, Groups(arm, np.zeros_like(arm), variants))


def _show_units(
    experiment: Experiment, engine: Engine, lacking: list[str], rest: list[str]
) -> bool:
    """Make `lacking_units`; false if the files do not say whose rows they have."""
    source = experiment.logs.rows
    is_row = experiment.unit == ROW_UNIT
    name = "variant" if is_row else "unit_id"
    column = source.columns.get(name, "variant" if is_row else experiment.unit)
    selects = []
    for lacks, files in ((1, lacking), (0, rest)):
        relation = f"raw_files_{lacks}"
        paths = [str(Path(file).absolute()) for file in files]
        some = source.model_copy(update={"path": paths}).with_unit(experiment.unit)
        engine.add_log(relation, some)
        own = [c for c in engine.columns(relation) if c.lower() == column.lower()]
        if not own:
            return False
        whose = f"cast({quoted(own[0])} as varchar)"
        selects.append(f"select {whose} as logged_id, {lacks} as lacks from {relation}")
    engine.view("file_rows", " union all ".join(selects))
    known = ", ".join(literal(variant) for variant in experiment.variants)
    of_rows = (
        "select variant, 1 as x, lacks as y from ("
        f"select {variant_of(experiment, 'logged_id')} as variant, lacks from file_rows"
        f") as r where variant in ({known})"
    )
    engine.view("lacking_units", of_rows if is_row else _OF_UNITS)
    return True


_OF_UNITS = """
with counted as (
  select logged_id, cast(count(*) as bigint) as x, cast(sum(lacks) as bigint) as y
  from file_rows
  group by logged_id
)
select u.variant, c.x, c.y
from units u
join unit_names n on u.unit_id = n.unit_id
join counted c on cast(n.logged_id as varchar) = c.logged_id
"""
