"""What became of every row: read = used + set aside, by reason."""

from collections.abc import Sequence

import pandas as pd

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.experiment.model import Experiment
from abeval.logs import checks
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.prepare import Prepared


def accounts(prepared: Prepared, engine: Engine) -> pd.DataFrame:
    """`log, reason, rows` of the impressions, and of the clicks where they are a log at hand."""
    rows = [("impressions", reason, count) for reason, count in _impressions(prepared, engine)]
    if prepared.shape.clicks is not None and prepared.summed.has_rows:
        rows += [("clicks", reason, count) for reason, count in _clicks(engine)]
    return pd.DataFrame(rows, columns=["log", "reason", "rows"])


def check_some_left(experiment: Experiment, prepared: Prepared, engine: Engine) -> None:
    """Refuse logs of which no impression is left to analyse, with what became of them.

    Where the units at hand are not all units, `check_total_left` is to look at all.

    Raises:
        LogError: Every impression is set aside.
    """
    found = "select 1 from unit_day d join units u on d.unit_id = u.unit_id where d.in_period"
    if prepared.summed.earlier is None and not engine.rows(f"{found} limit 1"):
        counts = _impressions(prepared, engine)
        checks.check_some_left(prepared.shape, counts, experiment.timezone, engine)


def check_total_left(
    experiment: Experiment, prepared: Prepared, engine: Engine, accounts: pd.DataFrame
) -> None:
    """The same of all units together, by their accounts.

    Raises:
        LogError: Every impression is set aside.
    """
    own = accounts[accounts["log"] == "impressions"]
    pairs = zip(own["reason"], own["rows"], strict=True)
    counts = [(str(reason), int(rows)) for reason, rows in pairs]
    checks.check_some_left(prepared.shape, counts, experiment.timezone, engine)


def _impressions(prepared: Prepared, engine: Engine) -> list[tuple[str, int]]:
    by_reason: dict[str, int] = {}
    counted = {True: 0, False: 0}
    for reason, in_period, count in engine.rows(query("log/impression_accounting")):
        if reason is None:
            counted[bool(in_period)] += int(count or 0)
        else:
            by_reason[str(reason)] = by_reason.get(str(reason), 0) + int(count or 0)
    for reason, in_period, _, count in engine.rows(query("units/set_aside_units")):
        counted[bool(in_period)] -= int(count or 0)
        by_reason[str(reason)] = by_reason.get(str(reason), 0) + int(count or 0)
    aside = {"duplicate": prepared.dropped, **dict(sorted(by_reason.items()))}
    used = {USED: counted[True], USED_BEFORE: counted[False]}
    return [*used.items(), *((r, n) for r, n in aside.items() if n)]


def _clicks(engine: Engine) -> list[tuple[str, int]]:
    used, duplicates, aside = 0, 0, []
    for reason, clicks, copies in engine.rows(query("log/click_accounting")):
        duplicates += int(copies or 0)
        if reason is None:
            used = int(clicks or 0)
        else:
            aside.append((str(reason), int(clicks or 0)))
    return [(USED, used), *([("duplicate", duplicates)] if duplicates else []), *aside]


def facts(prepared: Prepared, engine: Engine) -> dict[str, int]:
    """Counts that the trust checks judge."""
    ((units, crossovers),) = engine.rows(query("units/crossovers"))
    shape = prepared.shape
    return {
        "clicks": _sum(engine, [shape.clicks_component]),
        "scored": _sum(engine, shape.scored_components),
        "units": int(units or 0),
        "crossovers": int(crossovers or 0),
        "duplicates": prepared.duplicates,
    }


def _sum(engine: Engine, components: Sequence[str]) -> int:
    if not components:
        return 0
    total = " + ".join(components)
    ((count,),) = engine.rows(f"select sum({total}) from unit_day where in_period")
    return int(count or 0)
