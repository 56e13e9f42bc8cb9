"""The variant of each unit as SQL of the cells of a log, for statements that run elsewhere."""

from abeval.assignment import SLOTS, Assignment
from abeval.engines.builders import rule_sql, sub_bucket_sql
from abeval.engines.sql import literal, query, row_count
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.units import same_ids

_ID = "cast(unit_id as varchar)"


def placed_sql(run: Run, shape: LogShape, is_whole: bool) -> str:
    """Write the analysed units: `unit_id, logged_id, first_ms, variant, sub_bucket`.

    Creates `shown`, and `exposed_units` of a log of exposures, and reads `logged_cells` and
    `exposed`. It is what `place_units` computes over arrays. Of a log that `is_whole`, what no unit
    needs is left out: of exposures that name all variants, those of the impressions; of a log that
    tells which variant of each unit was first, what decides between equal times.

    Raises:
        ExperimentError: The rule of assignment has no form in SQL.
    """
    experiment, engine = run.experiment, run.engine
    base, unit = "shown", "unit_id"
    engine.view("shown", query("sums/shown"))
    if shape.exposures is not None:
        engine.view("exposed_units", query("sums/exposed_units"))
        base = "exposed_units"
        if is_whole and not row_count(engine, "exposed where variant_low is null"):
            base, unit = "exposed", same_ids(engine, "exposed")
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    by_rule = experiment.assigns and (as_assigned or not shape.tells_variant)
    tied = f"{base} where variant_low <> variant_high and first_variant is null"
    is_tied = experiment.ties != "none" and not (is_whole and not row_count(engine, tied))
    own = _by_rule(run) if by_rule or is_tied else None
    first = "first_variant" if own is None else f"coalesce(first_variant, {own})"
    variant = f"case when variant_low <> variant_high then {first} else variant_low end"
    excludes = experiment.cleaning.crossover == "exclude"
    once = "and coalesce(variant_low = variant_high, true)" if excludes else ""
    names = ", ".join(map(literal, experiment.variants))
    return f"""
    with first_shown as (
      select {unit} as unit_id, first_ms, variant_low, variant_high,
        {own if by_rule else "variant_low" if excludes else variant} as variant
      from {base}
    )
    select unit_id, unit_id as logged_id, first_ms, variant,
      {sub_bucket_sql(engine, experiment.salt, "unit_id")} as sub_bucket
    from first_shown where variant in ({names}) {once}
    """


