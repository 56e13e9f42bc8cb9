"""Sessions by unit, phase and the day on which they began: `units/sessions`."""

import numpy as np

from abeval.aggregates.kernels.rows import NONE, Block
from abeval.logs.unit_arrays import Groups, UnitDays, key_of, unit_days


def sessions(block: Block, gap_ms: int) -> UnitDays:
    """Count sessions, and add up how long they were.

    Args:
        block: Its runs are no longer than the gap, so that the ends of a run are enough.
        gap_ms: A longer pause ends a session.
    """
    runs = block.runs
    timed = np.flatnonzero(runs["first_ms"] != NONE)
    first, last = (runs[name][timed] for name in ("first_ms", "last_ms"))
    longer = np.flatnonzero(last > first)
    run, time = np.append(timed, timed[longer]), np.append(first, last[longer])
    unit, phase, day = (runs[name][run] for name in ("unit", "in_period", "day"))
    order = Groups.of(key_of(unit, phase, time)).order
    unit, phase, day, time = unit[order], phase[order], day[order], time[order]
    begins = np.ones(len(time), dtype=bool)
    begins[1:] = (unit[1:] != unit[:-1]) | (phase[1:] != phase[:-1]) | (np.diff(time) > gap_ms)
    start = np.flatnonzero(begins)
    ends = np.append(start[1:], len(time))[: len(start)] - 1
    days = np.minimum.reduceat(day, start) if len(start) else day
    return unit_days(
        unit[start],
        phase[start],
        days,
        {
            "c_sessions": np.ones(len(start), dtype=np.int64),
            "c_session_ms": time[ends] - time[start],
        },
    )
