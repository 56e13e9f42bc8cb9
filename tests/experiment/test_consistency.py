"""Entries of an experiment file that contradict each other."""

from typing import Any

import pytest

from tests.experiment.test_load import problems, with_entries

PERIOD = {"start": "2026-09-14", "end": "2026-09-28"}
RANKERS = {"interleaving": {"method": "team_draft", "salt": "s"}}
LOG = {"path": "x.parquet"}
TABLE = {"logs": {"units": LOG}, "metrics": [{"name": "spent"}]}
OPENED = {"impressions": LOG}
SEQUENTIAL = {"looks": "group_sequential"}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"logs": {"units": LOG}}, "metrics: a table of units needs [[metrics]]"),
        (RANKERS | {"unit": "row"}, "interleaving: needs [logs.impressions], and a unit"),
        (
            RANKERS | {"logs": {"impressions": LOG | {"columns": {"variant": "arm"}}}},
            "logs: say who is in which variant, but rankers in one list have the same users",
        ),
        (
            {"logs": {"impressions": LOG | {"columns": {"click": "c"}}, "clicks": LOG}},
            "logs.impressions.columns.click: a click is a column of the impression or a row",
        ),
        (
            {"unit": "row", "logs": OPENED | {"clicks": LOG | {"join": ["unit_id"]}}},
            'logs.clicks.join: names unit_id, and unit = "row" has none',
        ),
        (
            {"unit": "row", "logs": OPENED | {"exposures": LOG}},
            'logs.exposures: needs a unit to join by; unit = "row" has none',
        ),
        (
            {"unit": "row", "logs": OPENED | {"units": LOG}},
            'logs.units: needs a unit to join by; unit = "row" has none',
        ),
        (
            TABLE | {"logs": {"units": LOG, "clicks": LOG}},
            "logs.clicks: belongs to [logs.impressions], which is missing",
        ),
        (
            TABLE | {"logs": {"units": LOG | {"segments": {"plan": "plan"}}}},
            "logs.units.segments: without [logs.impressions], name them under [segments]",
        ),
        (
            {
                "segments": {"plan": "plan"},
                "logs": OPENED | {"units": LOG | {"segments": {"plan": "plan"}}},
            },
            "logs.units.segments.plan: is the name of one of [segments]; choose another",
        ),
        ({"tables": {"clicks": LOG}}, "tables.clicks: is the name of a log; choose another"),
        (
            {"tables": {"prices": LOG | {"where": "x > 1"}}},
            "tables.prices.where: belongs to a log; write it into the query",
        ),
        (
            {"tables": {"prices": LOG}},
            "tables: are read by the `query` of a log, but no log has one",
        ),
        (
            {"cleaning": {"duplicates": "keep", "duplicate_key": ["id"]}},
            'cleaning.duplicate_key: is used only with duplicates = "drop"',
        ),
        (
            {"unit": "row", "design": {"cluster": "store"}},
            "design.cluster: needs the unit that metrics are of",
        ),
        (
            TABLE | {"design": {"switchback": {"cluster": "city", "slot": "2h"}}},
            "design.switchback: needs [logs.impressions] with times, not a table of units",
        ),
        (
            {"trust": {"alpha_warn": 0.01, "alpha_fail": 0.02}},
            "trust: alpha_fail is above alpha_warn: what fails must warn as well",
        ),
    ],
)
def test_sections_that_contradict_each_other_are_named(entries: dict[str, Any], said: str) -> None:
    assert any(problem.startswith(said) for problem in problems(with_entries(**entries)))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {
                "inference": {"resample": "jackknife"},
                "metrics": [{"name": "dwell_per_user", "cap": 0.99}],
            },
            "metrics[0].cap: cannot be used with [inference] resample",
        ),
        (
            {
                "inference": {"family": "weighted"},
                "metrics": [{"name": "ctr", "role": "diagnostic", "weight": 2}],
            },
            "metrics[0].weight: is only for goals",
        ),
        (
            {"unit": "row", "metrics": [{"name": "x", "value": "1", "within": "7 days"}]},
            'metrics[0].within: needs a log of rows of units; this is unit = "row"',
        ),
        (
            {"inference": {"adjust": "stratify", "stratify_by": "d", "resample": "bootstrap"}},
            'inference.resample: cannot be used with adjust = "stratify"',
        ),
        (
            {"inference": {"planned_units": 100}},
            'inference.planned_units: is used only with looks = "always_valid"',
        ),
        (
            {"inference": SEQUENTIAL | {"planned_looks": [0.5, 1.0]}},
            'inference.looks: looks = "group_sequential" needs a [period] or planned_units',
        ),
        (
            {
                "period": PERIOD,
                "inference": SEQUENTIAL | {"planned_looks": ["2026-09-20"], "planned_units": 9},
            },
            "inference.planned_looks: dates are looks of a [period]; with planned_units, use",
        ),
        (
            {"inference": SEQUENTIAL | {"planned_looks": ["2026-09-20"]}},
            "inference.planned_looks: dates need a [period]",
        ),
    ],
)
def test_metrics_and_methods_that_do_not_fit_are_named(entries: dict[str, Any], said: str) -> None:
    assert any(problem.startswith(said) for problem in problems(with_entries(**entries)))
