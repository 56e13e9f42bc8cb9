"""What ties a click to its impression: an id, or the unit's last impression of the item before it.

`prepare.py` asks for it and for the tables of clicks; `views.py` writes the keys into the views.
"""

from collections.abc import Sequence

from abeval.engines.sql import query
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs import checks, views
from abeval.logs.mapping import CLICK_KEYS
from abeval.logs.run import Run
from abeval.logs.shape import LogShape

_IDS = ("impression_id", "request_id", "item_id", "position")
UNIT = "unit_id"


def click_join(experiment: Experiment, shape: LogShape) -> tuple[str, ...]:
    """The columns that a click shares with its impression, by their canonical names.

    Those that the experiment chooses, else those that the logs have; none without a log of clicks.
    With the unit they are of several impressions, of which the last before the click is meant.

    Raises:
        LogError: The logs share no such columns, or one has no times.
    """
    if shape.clicks is None or experiment.logs.clicks is None:
        return ()
    in_both = [n for n in (UNIT, *_IDS) if n in shape.impressions and n in shape.clicks]
    if experiment.unit == ROW_UNIT:
        in_both = [name for name in in_both if name != UNIT]
    chosen: list[str] = list(experiment.logs.clicks.join or [])
    missing = [name for name in chosen if name not in in_both]
    if missing:
        raise LogError(
            f"logs.clicks.join names {missing[0]!r}, which is not in both logs",
            f"both have: {', '.join(in_both) or 'none of ' + ', '.join((UNIT, *_IDS))}",
        )
    join = tuple(chosen[: len(CLICK_KEYS)]) or _natural(in_both)
    checks.check_joinable(shape.impressions, shape.clicks, join)
    for log in (shape.impressions, shape.clicks):
        if UNIT in join and "ts" not in log:
            raise LogError(
                f"clicks are tied to impressions by {' and '.join(join)}, and by time, but "
                f"logs.{log.log} has no ts",
                "map ts, or give both logs an impression_id",
            )
    return join


def _natural(in_both: Sequence[str]) -> tuple[str, ...]:
    """The columns that identify an impression, or come nearest to it, of those that both have."""
    if "impression_id" in in_both:
        return ("impression_id",)
    if {"request_id", "item_id"} <= set(in_both):
        return tuple(name for name in in_both if name not in ("impression_id", UNIT))
    if {UNIT, "item_id"} <= set(in_both):
        return (UNIT, "item_id")
    raise LogError(
        "clicks cannot be joined to impressions: the logs share neither impression_id nor "
        "(request_id, item_id), nor (the unit, item_id) and times",
        "map the columns in logs.impressions.columns and logs.clicks.columns",
    )


def write_clicks(run: Run, shape: LogShape, join: Sequence[str]) -> None:
    """Make the tables of clicks: what became of each, and those of each impression."""
    source, engine = run.experiment.logs.clicks, run.engine
    if shape.clicks is None or source is None:
        return
    run.step("clicks")
    clicks = views.clicks_view(source, shape.clicks, engine, join)
    engine.table("untied_clicks" if UNIT in join else "click_log", clicks)
    if UNIT in join:
        engine.table("click_log", query("log/last_touch"))
    engine.table("clicked_keys", query("log/clicked_keys"))
    engine.table("click_fate", query("log/click_fate"))
    engine.table("attributed", query("log/attributed"))


def join_notes(experiment: Experiment, join: Sequence[str]) -> tuple[str, ...]:
    """How clicks without an id of their impression were attributed."""
    if UNIT not in join or experiment.logs.clicks is None:
        return ()
    hours = experiment.logs.clicks.attribution_hours
    rest = [name for name in join if name != UNIT]
    same = f" with the same {' and '.join(rest)}" if rest else ""
    return (
        f"A click belongs to its unit's last impression{same} before it, at most {hours:g} hours "
        "earlier, because the logs share no id of the impression.",
    )
