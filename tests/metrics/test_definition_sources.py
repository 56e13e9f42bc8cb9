"""What a source says of its values by day, and what follows from it."""

import pytest

from abeval.metrics.definition import AUC, GAUC, SESSIONS, SOURCES, Source


@pytest.mark.parametrize("days", [{}, {"daily": True, "no_days": "why"}])
def test_a_source_says_in_one_way_what_its_values_are_by_day(days):
    with pytest.raises(ValueError, match="source 'clicked': set one of daily, of_days and no_d"):
        Source("clicked", "units with a click", **days)


def test_totals_are_capped_where_windows_have_them_by_day():
    assert [source.can_cap for source in (SESSIONS, GAUC, AUC)] == [True, True, False]


def test_every_source_that_reads_impressions_reads_whether_they_are_in_the_period():
    assert len(SOURCES) >= 10
    read_rows = [source for source in SOURCES.values() if source.reads]
    assert [source.name for source in read_rows if "in_period" not in source.reads] == []
