"""Write the variant of each unit as SQL, for statements that run elsewhere."""

from abeval.assignment import Assignment, Plan
from abeval.engines.builders import write_rule_variant, write_sub_bucket
from abeval.engines.sql import count_rows, literal, query
from abeval.errors import ExperimentError
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.logs.units import write_same_ids

_ID = "cast(unit_id as varchar)"


def write_assigned_units(run: Run, schema: LogSchema, is_whole: bool) -> str:
    """Write the analysed units: ids, `variant`, `stretch`, times and flags.

    Creates `shown`, and `exposed_units` of a log of exposures, and reads `logged_cells` and
    `exposed`. It is what `assign_units` computes over arrays. Of a log that `is_whole`, what no
    unit needs is left out: of exposures that name all variants, those of the impressions; of a log
    that tells which variant of each unit was first, what decides between equal times.

    Raises:
        ExperimentError: The rule of assignment has no form in SQL.
    """
    experiment, engine = run.experiment, run.engine
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    by_rule = experiment.assigns and (as_assigned or not schema.tells_variant)
    base, unit = "shown", "unit_id"
    engine.view("shown", query("2_units/shown"))
    if schema.exposures is not None:
        engine.view("exposed_units", query("2_units/exposed_units"))
        base = "exposed_units"
        if by_rule or (is_whole and not count_rows(engine, "exposed where variant_low is null")):
            base, unit = "exposed", write_same_ids(engine, "exposed")
    tied = f"{base} where variant_low <> variant_high and first_variant is null"
    has_ties = not is_whole or bool(count_rows(engine, tied))
    excludes = experiment.cleaning.crossover == "exclude"
    if by_rule or (has_ties and experiment.ties != "none"):
        variant = _write_assigned_variant(run)
        if not by_rule:
            first = f"coalesce(first_variant, {variant})"
            variant = f"case when variant_low <> variant_high then {first} else variant_low end"
        base, variant = f"(select *, {variant} as own_variant from {base}) as placed", "own_variant"
    elif excludes:
        variant = "variant_low"
    elif has_ties:
        variant = "case when variant_low <> variant_high then first_variant else variant_low end"
    else:
        variant = "coalesce(first_variant, variant_low)"
    # Units seen in two variants are left out here if the file excludes them.
    once = "and coalesce(variant_low = variant_high, true)" if excludes else ""
    names = ", ".join(map(literal, experiment.variants))
    return f"""
    select {unit} as unit_id, {unit} as logged_id, first_ms, {variant} as variant,
      0 as stretch, coalesce(variant_low <> variant_high, false) as crossover,
      case when {unit} in (
        select unit_id from logged_cells where set_aside is null and not in_period
      ) then 0 else 1 end as is_new,
      {write_sub_bucket(engine, experiment.salt, unit)} as sub_bucket
    from {base} where {variant} in ({names}) {once}
    """


def _write_assigned_variant(run: Run) -> str:
    """Write the SQL of a unit's variant: by [assignment], else by hash and weights.

    Raises:
        ExperimentError: The hash of [assignment] has no form in SQL.
    """
    experiment, rule = run.experiment, run.experiment.assignment_rule
    if rule is None:
        weights = {name: variant.weight for name, variant in experiment.variants.items()}
        rule = Plan(Assignment(experiment.salt, weights)).rule()
    sql = write_rule_variant(rule, _ID)
    if sql is None:
        raise ExperimentError("the hash of [assignment] has no form in SQL", "log the variant")
    return sql
