"""The variant that each unit should be in, by the experiment's own rule of assignment.

`placing.py` places units by it where the log does not name their variant; `accounting.py` counts,
and `audit/run.py` reports, the units whose logged variant is another.
"""

from typing import TYPE_CHECKING

from abeval.assignment.draws import Rule
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.rule_sql import rule_sql

if TYPE_CHECKING:
    import pandas as pd

_ID = "cast(logged_id as varchar)"


def write_expected_units(rule: Rule, engine: Engine) -> None:
    """Create `expected_units` from `unit_names`: by the engine where it can, else in Python."""
    expected = rule_sql(rule, _ID)
    if expected is None:
        engine.add_frame("computed_variants", _computed(rule, engine))
        sql = "select unit_id, expected from computed_variants"
    else:
        sql = f"select unit_id, {expected} as expected from unit_names"
    engine.table("expected_units", sql)


def _computed(rule: Rule, engine: Engine) -> "pd.DataFrame":
    import pandas as pd

    units = engine.frame(f"select unit_id, {_ID} as id from unit_names")
    variants = pd.array(rule.variants(units["id"]), dtype="string")
    return pd.DataFrame({"unit_id": units["unit_id"], "expected": variants})


def expected_variants(engine: Engine) -> "pd.DataFrame":
    """`day, logged, expected, units` of the units that the log shows in a variant."""
    return engine.frame(query("units/expected_variants"))
