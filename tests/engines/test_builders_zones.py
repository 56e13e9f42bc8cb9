"""Local time by arithmetic is that of the engine's own calendar."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.engines.builders import SINCE, UNTIL, convert_to_local_ms, list_offsets
from abeval.engines.duckdb import DuckDBEngine

ZONES = (
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Pyongyang",
)


def local_times(zone: str, moments: list[int]) -> list[tuple[int, str, str]]:
    """Each moment, its local time, and that of the engine's calendar."""
    engine = DuckDBEngine()
    told = engine.local_time("ms", zone)
    calendar = f"timezone('{zone}', timezone('UTC', make_timestamp(ms * 1000)))"
    asked = ", ".join(f"({ms})" for ms in moments)
    found = engine.rows(
        f"select ms, cast({told} as varchar), cast({calendar} as varchar) "
        f"from (values {asked}) as v (ms) order by ms"
    )
    engine.close()
    return [(int(ms or 0), str(local), str(other)) for ms, local, other in found]


@pytest.mark.parametrize("zone", ZONES)
def test_local_time_around_every_change_is_that_of_the_zone(zone: str) -> None:
    changes = {o.since_ms + d for o in list_offsets(zone) for d in (-1, 0, 1, 3_600_000)}
    first, last = (int(end.timestamp()) * 1000 for end in (SINCE, UNTIL))
    for ms, local, _ in local_times(zone, sorted(c for c in changes if first <= c < last)):
        moment = datetime.fromtimestamp(ms / 1000, tz=UTC).astimezone(ZoneInfo(zone))
        assert datetime.fromisoformat(local) == moment.replace(tzinfo=None), (zone, ms)


@pytest.mark.parametrize("zone", ZONES)
def test_years_that_are_not_looked_up_are_left_to_the_engine(zone: str) -> None:
    first, last = (int(end.timestamp()) * 1000 for end in (SINCE, UNTIL))
    beyond = [
        -86_400_000,
        0,
        first - 1,
        last,
        int(datetime(2060, 7, 1, tzinfo=UTC).timestamp()) * 1000,
    ]
    for ms, local, calendar in local_times(zone, beyond):
        assert local == calendar, (zone, ms)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*ZONES, "Asia/Kolkata", "America/St_Johns", "UTC"]),
    st.lists(st.integers(-70 * 365 * DAY, 90 * 365 * DAY), max_size=8),
    st.lists(st.tuples(st.integers(0, 200), st.integers(-2 * 3_600_000, 2 * 3_600_000))),
)
def test_local_times_of_arrays_are_those_of_the_zone(
    zone: str, moments: list[int], around: list[tuple[int, int]]
) -> None:
    """Anywhere in 160 years, and within two hours of where clocks change."""
    known = list_offsets(zone)
    times = [*moments, *(known[place % len(known)].since_ms + by for place, by in around)]
    expected = [
        (EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) - EPOCH
        for ms in times
    ]
    local = convert_to_local_ms(np.array(times, dtype=np.int64), zone)
    assert local.tolist() == [one // timedelta(milliseconds=1) for one in expected]
