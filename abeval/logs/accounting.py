"""Accounts of the rows of the logs: every row is used, or set aside for one reason.

It reads the relations that `prepare.py` created; `aggregates/collect.py` keeps the counts for the
result and the trust checks; `time/open.py` checks that rows are left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.queries import query
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.spelling import meant_by
from abeval.logs import checks
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.expected import expected_variants
from abeval.logs.outcomes import relation
from abeval.logs.prepare import Prepared
from abeval.logs.unit_table import UNITS


def accounts(prepared: Prepared, engine: Engine) -> pd.DataFrame:
    """`log, reason, rows` of the impressions, and of click and outcome logs that were read."""
    log = prepared.shape.impressions.log
    rows = [(log, reason, count) for reason, count in _impressions(prepared, engine)]
    if prepared.shape.clicks is not None and prepared.summed.has_rows:
        rows += [("clicks", reason, count) for reason, count in _clicks(engine)]
    if prepared.shape.table is not None:
        rows += [(UNITS, reason, count) for reason, count in _units(engine)]
    for name in prepared.shape.outcomes:
        rows += [(name, reason, count) for reason, count in _outcomes(name, engine)]
    return pd.DataFrame(rows, columns=["log", "reason", "rows"])


def check_some_left(experiment: Experiment, prepared: Prepared, engine: Engine) -> None:
    """Refuse logs without an impression to analyse, and say why impressions are set aside.

    Raises:
        LogError: Every impression is set aside.
    """
    used = "select 1 from unit_day d join units u on d.unit_id = u.unit_id where d.in_period"
    if not engine.rows(f"{used} limit 1"):
        counts = _impressions(prepared, engine)
        raise checks.nothing_left(prepared.shape, counts, experiment.timezone, engine)


def check_all_counted(prepared: Prepared, accounts: pd.DataFrame) -> None:
    """Refuse an analysis of other rows than those that were read: each is used or set aside.

    Raises:
        LogError: With both numbers.
    """
    if not prepared.summed.has_rows:
        # Sums of a warehouse: its rows were counted there.
        return
    log = prepared.shape.impressions.log
    counted = int(accounts.loc[accounts["log"] == log, "rows"].sum())
    if counted != prepared.rows:
        raise LogError(
            f"{log}: {counted:,} rows were used or set aside, but {prepared.rows:,} were read",
            "were files written during the run? Run it again; if it stays so, report it",
        )


def _impressions(prepared: Prepared, engine: Engine) -> list[tuple[str, int]]:
    used, reasons = Counter[bool](), Counter[str]()
    for reason, in_period, rows in engine.rows(query("log/impression_accounting")):
        if reason is None:
            used[bool(in_period)] += whole(rows)
        else:
            reasons[str(reason)] += whole(rows)
    for reason, in_period, _, rows in engine.rows(query("units/set_aside_units")):
        used[bool(in_period)] -= whole(rows)
        reasons[str(reason)] += whole(rows)
    repeats = {"duplicate": prepared.dropped, "repeated_unit": prepared.repeated}
    set_aside = [*repeats.items(), *sorted(reasons.items())]
    return [
        (USED, used[True]),
        (USED_BEFORE, used[False]),
        *((reason, rows) for reason, rows in set_aside if rows),
    ]


def _clicks(engine: Engine) -> list[tuple[str, int]]:
    used, duplicates, set_aside = 0, 0, []
    for reason, clicks, copies in engine.rows(query("log/click_accounting")):
        duplicates += whole(copies)
        if reason is None:
            used = whole(clicks)
        else:
            set_aside.append((str(reason), whole(clicks)))
    return [(USED, used), *([("duplicate", duplicates)] if duplicates else []), *set_aside]


def _units(engine: Engine) -> list[tuple[str, int]]:
    """Rows of the table of units, by what became of them."""
    counts = Counter[str]()
    for reason, units, duplicates in engine.rows(query("log/unit_accounting")):
        counts[USED if reason is None else str(reason)] += whole(units)
        counts["duplicate"] += whole(duplicates)
    return [(reason, rows) for reason, rows in counts.items() if rows]


def _outcomes(name: str, engine: Engine) -> list[tuple[str, int]]:
    """Rows of an outcome log, by what became of them."""
    engine.view("outcome_rows", f"select * from {relation(name)}")
    used, reasons = Counter[str](), Counter[str]()
    for reason, in_period, events, duplicates in engine.rows(query("log/outcome_accounting")):
        kept = USED if in_period else USED_BEFORE
        counts = used if reason is None else reasons
        counts[kept if reason is None else str(reason)] += whole(events)
        reasons["duplicate"] += whole(duplicates)
    return [*used.items(), *((reason, rows) for reason, rows in sorted(reasons.items()) if rows)]


def facts(prepared: Prepared, engine: Engine) -> dict[str, int]:
    """Counts for the trust checks; `duplicates` only where they were looked for."""
    ((units, crossovers, tied, tied_out),) = engine.rows(query("units/crossovers"))
    shape = prepared.shape
    counted = {} if prepared.duplicates is None else {"duplicates": prepared.duplicates}
    assigned, reassigned = _assigned(prepared, engine)
    return {
        "clicks": _sum(engine, [shape.clicks_component]),
        "scored": _sum(engine, shape.scored_components),
        "units": whole(units),
        "crossovers": whole(crossovers),
        "tied": whole(tied),
        "tied_out": whole(tied_out),
        "assigned": assigned,
        "reassigned": reassigned,
        **counted,
    }


_OTHER = "variant:"
_LISTED = 10
"""Variants that are counted by name, besides other spellings of the file's."""


def count_other_variants(
    experiment: Experiment, accounts: pd.DataFrame, engine: Engine
) -> dict[str, int]:
    """Facts on the variants that the file does not name: the other spellings, and the largest."""
    if not accounts["reason"].isin(["not_compared", "no_variant"]).any():
        return {}
    rows = [(str(n), whole(rows)) for n, rows in engine.rows(query("units/other_variants"))]
    listed = {n: rows for n, rows in rows if meant_by(n, experiment.variants) is not None}
    return {f"{_OTHER}{name}": count for name, count in {**dict(rows[:_LISTED]), **listed}.items()}


def other_variants(facts: Mapping[str, int]) -> dict[str, int]:
    """Variants that the file does not name, with their impressions in the period, most first."""
    rows = {n.removeprefix(_OTHER): count for n, count in facts.items() if n.startswith(_OTHER)}
    return {n: rows[n] for n in sorted(rows, key=lambda name: (-rows[name], name)) if rows[n]}


def _assigned(prepared: Prepared, engine: Engine) -> tuple[int, int]:
    """Units whose logged variant can be computed again, and those that the rule puts elsewhere."""
    if not prepared.has_rule:
        return 0, 0
    rows = expected_variants(engine)
    units = rows["units"].astype(int)
    return int(units.sum()), int(units[rows["logged"] != rows["expected"].fillna("")].sum())


def _sum(engine: Engine, components: Sequence[str]) -> int:
    if not components:
        return 0
    total = " + ".join(components)
    return whole_number(engine, f"select sum({total}) from unit_day where in_period")
