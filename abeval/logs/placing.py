"""From sums per logged unit to `unit_day` and `units`: each unit's variant, entry and segments.

`prepare.py` calls it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from abeval.assignment import SLOTS, SUB_BUCKETS, Assignment
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.logs import checks, views
from abeval.logs.expected import write_expected_units
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.stretches import (
    ENTERED,
    Stretches,
    entered,
    planned_splits,
    stretched,
    stretches_of,
)
from abeval.logs.sums import Summed
from abeval.logs.unit_segments import segments_view
from abeval.logs.unit_table import write_unit_rows


class Entries(NamedTuple):
    """When the analysed units entered.

    Attributes:
        counts: Units by scheduled split, hour and variant, with the columns `ENTERED`.
        stretches: Stretches of one split each; none where it did not change.
    """

    counts: pd.DataFrame
    stretches: Stretches


def place_units(run: Run, shape: LogShape, summed: Summed) -> Entries:
    """Create `unit_day` and `units` from `logged_sums`, and count when units entered."""
    engine = run.engine
    engine.view("logged_cells", views.cells_view(run.experiment, shape))
    known = "logged_units" if shape.exposures is None else "logged_and_exposed_units"
    engine.view("known_units", query(f"units/{known}"))
    engine.table("unit_names", query("units/unit_names"))
    engine.view("unit_cells", query("units/unit_cells"))
    # A table of units has no times, and rows of a repeated unit are set aside.
    one_row = run.experiment.of_units and summed.has_rows
    engine.table("unit_day", query(f"units/unit_{'row' if one_row else 'day'}"))
    run.step("assignment")
    changes = len(planned_splits(run.experiment)) > 1
    by_rule = _placement(run.experiment, shape) != "placed_by_log"
    checks.check_schedule(changes, knows_entries(shape), by_rule)
    engine.table("seen_units", query(f"units/seen_{'rows' if one_row else 'units'}"))
    _write_candidates(run.experiment, shape, engine)
    entries = _entries(run.experiment, shape, engine)
    _write_units(run.experiment, shape, engine, entries.stretches)
    return entries


def _entries(experiment: Experiment, shape: LogShape, engine: Engine) -> Entries:
    if not knows_entries(shape):
        return Entries(pd.DataFrame(columns=list(ENTERED)), ())
    counts = entered(experiment, engine)
    return Entries(counts, stretches_of(experiment, counts))


def knows_entries(shape: LogShape) -> bool:
    """Whether the logs say when a unit entered."""
    return shape.has_time or (shape.exposures is not None and "ts" in shape.exposures)


def _write_candidates(experiment: Experiment, shape: LogShape, engine: Engine) -> None:
    engine.table("first_variant", query("units/first_variant"))
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    slots = Assignment(experiment.salt, weights).ranges
    excludes = "true" if experiment.cleaning.crossover == "exclude" else "false"
    engine.view("crossover_policy", f"select {excludes} as excludes")
    engine.view("variants", _values("variant", [(name,) for name in experiment.variants]))
    engine.view(
        "allocation",
        _values("variant, first_slot, end_slot", [(r.variant, r.start, r.stop) for r in slots]),
    )
    population = "exposed_units" if shape.exposures is not None else "active_units"
    engine.view("present_units", query(f"units/{population}"))
    engine.table("hashed_units", _hashed_units(experiment, engine))
    rule = experiment.assignment_rule
    if rule is not None:
        write_expected_units(rule, engine)
    engine.table("tie_variants", query(f"units/tied_by_{experiment.ties}"))
    engine.view("placed_units", query(f"units/{_placement(experiment, shape)}"))
    engine.table("candidates", query("units/candidates"))


def _write_units(
    experiment: Experiment, shape: LogShape, engine: Engine, stretches: Stretches
) -> None:
    engine.view("stretched", stretched(experiment, engine, stretches))
    if shape.segments:
        engine.table("entry_segments", query("units/first_segments"))
        engine.view("earlier_segments", query("units/earlier_segments"))
        if known_from(experiment, "exposure"):
            engine.view("exposure_segments", query("units/exposure_segments"))
        engine.table("first_segments", segments_view(experiment, shape))
    listed = query("units/segmented_units" if shape.segments else "units/units")
    if shape.table is not None:
        write_unit_rows(experiment, shape.table, engine)
        engine.view("listed_units", listed)
        listed = query("units/described_units")
    engine.table("units", listed)


def _hashed_units(experiment: Experiment, engine: Engine) -> str:
    """Each unit's slot and sub-bucket: hashed once per unit, not once per impression."""
    h60 = engine.hash60(experiment.salt, "cast(n.logged_id as varchar)")
    return f"""
    with hashed as (
      select p.*, {h60} as h60 from present_units p join unit_names n on p.unit_id = n.unit_id
    )
    select unit_id, first_ms, variant_low, variant_high, first_variant,
      h60 % {SLOTS} as slot,
      cast(floor(h60 / {SLOTS}) as bigint) % {SUB_BUCKETS} as sub_bucket
    from hashed
    """


def _placement(experiment: Experiment, shape: LogShape) -> str:
    """The query for a unit's variant."""
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    rule = experiment.assignment
    if rule is None or not experiment.assigns or (names_variant(shape) and not as_assigned):
        return "placed_by_log"
    return "placed_by_hash" if rule.is_plain else "placed_by_rule"


def names_variant(shape: LogShape) -> bool:
    """Whether a log says which variant a unit was in."""
    by_exposure = shape.exposures is not None and "variant" in shape.exposures
    return shape.names_variant or by_exposure


def _values(columns: str, rows: Sequence[tuple[str | int, ...]]) -> str:
    listed = ", ".join(
        "(" + ", ".join(literal(v) if isinstance(v, str) else str(v) for v in row) + ")"
        for row in rows
    )
    return f"select * from (values {listed}) as v ({columns})"
