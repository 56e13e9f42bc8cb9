"""The experiment file: every mistake at once, in words; and nothing but an ExperimentError."""

from __future__ import annotations

import copy
import random
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.errors import ExperimentError
from abeval.experiment.load import load_experiment, parse_experiment
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.sections import AbsoluteMargin, Range
from abeval.experiment.sources import CANONICAL_COLUMNS
from abeval.simulate.run import write_experiment_text
from abeval.simulate.world import Plan

MISTAKEN = """\
name = "ranker_v2"
unit = "user_id"
control = "contrl"
timezone = "Europe/Berlyn"
alpha = 5
directon = "increase"

[period]
start = 2026-09-14
end = 2026-09-14

[variants.control]
weight = -1
[variants.treatment]
model = "candidat"

[models.candidate]
score = "score"

[logs.impressions]
path = "impressions/*.parquet"
columns = { zeit = "ts" }
time_unit = "sec"

[segments]
1st = "device"

[[metrics]]
name = "ctr"
direction = "up"

[[metrics]]
name = "sesions_per_user"

[[metrics]]
name = "revenue"
value = "sum(price)"

[[metrics]]
name = "mrr"
role = "guardrail"
margin = 2
"""
SAID = """\
experiment.toml has 14 problems:
  alpha: should be less than 1 (got 5)
  period: is empty: start 2026-09-14 is not before end 2026-09-14
  variants.control.weight: should be greater than or equal to 0 (got -1)
  logs.impressions.time_unit: should be 's', 'ms', 'us' or 'ns' (got 'sec')
  segments.1st: should begin with a letter and contain only letters, digits and `_` (got '1st')
  metrics[0].direction: should be 'increase' or 'decrease' (got 'up')
  metrics[3].margin: should be less than 1 (got 2) or should be a table such as \
{ absolute = 0.5 } (got 2) or should be a table such as { within = [0.9, 1.1] } (got 2)
  directon: unknown key `directon`
  control: no variant is called 'contrl'; did you mean `control`?
  variants.treatment.model: unknown model 'candidat'; did you mean `candidate`?
  timezone: unknown time zone 'Europe/Berlyn'; did you mean `Europe/Berlin`?
  logs.impressions.columns.zeit: unknown column `zeit`; known: COLUMNS
  metrics[1].name: no built-in metric is called 'sesions_per_user'; did you mean \
`sessions_per_user`? (or give `value`, or `numerator` and `denominator`)
  metrics[2].value: 'sum(price)' holds an aggregate (abeval sums over the rows itself)"""


def smallest() -> dict[str, Any]:
    return {
        "name": "x",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {"path": "x.parquet"}},
    }


def with_entries(**entries: Any) -> dict[str, Any]:
    return {**smallest(), **entries}


def problems(raw: dict[str, Any]) -> list[str]:
    """What is said of each mistake; empty where there is none."""
    try:
        parse_experiment(raw)
    except ExperimentError as error:
        return [line.strip() for line in str(error).splitlines()[1:]]
    return []


def test_all_mistakes_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(MISTAKEN)
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file)
    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert said == SAID.replace("COLUMNS", ", ".join(CANONICAL_COLUMNS["impressions"]))


def test_the_file_that_simulate_writes_has_no_mistake() -> None:
    experiment = parse_experiment(tomllib.loads(write_experiment_text(Plan())))
    assert experiment.treatments == ["treatment"]
    assert experiment.period is not None
    assert experiment.period.bounds == (datetime(2026, 9, 14), datetime(2026, 9, 28))


def test_defaults_are_the_documented_ones() -> None:
    experiment = parse_experiment(smallest())
    assert (experiment.timezone, experiment.alpha) == ("UTC", 0.05)
    assert experiment.cleaning.model_dump() == {
        "duplicates": "drop",
        "duplicate_key": None,
        "crossover": "first",
    }
    assert experiment.sessions.gap_minutes == 30
    assert experiment.clicks.long_seconds == 30
    assert experiment.logs.impressions.first_position == 1


def test_margins_may_be_tables() -> None:
    for margin, read in (
        ({"absolute": 0.5}, AbsoluteMargin(absolute=0.5)),
        ({"within": [0.9, 1.1]}, Range(within=(0.9, 1.1))),
    ):
        choice = {"name": "q_ctr", "role": "guardrail", "direction": "increase", "margin": margin}
        assert parse_experiment(with_entries(metrics=[choice])).metrics[0].margin == read


RANGE = {"within": [0.9, 1.1]}
RANGES = {
    "a target": (
        {"name": "ctr", "direction": {"toward": 1}},
        "metrics[0].direction: a value to meet is no direction: leave it out and the metric is "
        'shown with its interval, or let it guard with role = "guardrail" and '
        "margin = { within = [LOW, HIGH] }",
    ),
    "a goal with a value to meet": (
        {"name": "q_ctr", "role": "goal"},
        "metrics[0].margin: q_ctr should meet a value, and neither way is better: make it a "
        "guardrail with margin = { within = [LOW, HIGH] }, or a diagnostic",
    ),
    "a guardrail with a share of it": (
        {"name": "q_ctr", "role": "guardrail", "margin": 0.1},
        "metrics[0].margin: q_ctr should meet a value, and neither way is better: make it a "
        "guardrail with margin = { within = [LOW, HIGH] }, or a diagnostic",
    ),
    "a goal with a range": (
        {"name": "ctr", "role": "goal", "margin": RANGE},
        "metrics[0].margin: a range is the margin of a guardrail",
    ),
    "a quantile with a range": (
        {"name": "slow", "value": "dwell", "quantile": 0.9, "role": "guardrail", "margin": RANGE},
        "metrics[0].margin: the value of slow has no interval",
    ),
    "a range upside down": (
        {"name": "q_ctr", "role": "guardrail", "margin": {"within": [1.1, 0.9]}},
        "metrics[0].margin: within should be [LOW, HIGH] with low below high (got [1.1, 0.9])",
    ),
    "a range of a guardrail": ({"name": "q_ctr", "role": "guardrail", "margin": RANGE}, None),
    "a direction of its own": ({"name": "q_ctr", "role": "goal", "direction": "increase"}, None),
}


@pytest.mark.parametrize("case", RANGES)
def test_a_value_to_meet_is_shown_or_guarded_by_a_range(case: str) -> None:
    choice, said = RANGES[case]
    assert problems(with_entries(metrics=[choice])) == ([said] if said else [])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"contrl": "a"}, ["contrl: unknown key `contrl`; did you mean `control`?"]),
        (
            {"logs": {"impressions": {"pth": "x"}}},
            ["logs.impressions.pth: unknown key `pth`; did you mean `path`?"],
        ),
        (
            {"metrics": [{"name": "ctr", "directon": "increase"}]},
            ["metrics[0].directon: unknown key `directon`; did you mean `direction`?"],
        ),
        (
            {"metrics": [{"name": "ctr", "role": "Goal"}]},
            [
                "metrics[0].role: should be 'goal', 'guardrail' or 'diagnostic' "
                "(got 'Goal'; did you mean `goal`?)"
            ],
        ),
        ({"metrics": "ctr"}, ["metrics: should be a list (got 'ctr')"]),
        ({"metrics": ["ctr"]}, ["metrics[0]: should be a table (got 'ctr')"]),
        ({"variants": ["a", "b"]}, ["variants: should be a table (got ['a', 'b'])"]),
        ({"variants": {"a": {}}}, ["variants: an experiment compares at least two variants"]),
        ({"name": ""}, ["name: should have at least 1 character (got '')"]),
        (
            {"assignment": {"salt": "a:b"}},
            [
                "assignment.salt: should contain only letters, digits, `_`, `.` and `-` "
                "(got 'a:b')",
            ],
        ),
        (
            {"engine": {"memory_limit": "4"}},
            ["engine.memory_limit: should be a size such as \"4GB\" (got '4')"],
        ),
        (
            {"period": {"start": 20260914, "end": "20260928"}},
            [
                "period.start: should be a date such as 2026-09-14 (got 20260914)",
                "period.end: should be a date such as 2026-09-14 (got '20260928')",
            ],
        ),
        (
            {"period": {"start": "2026-09-44", "end": date(2026, 9, 28)}},
            [
                "period.start: should be a date or a local time, such as 2026-09-14 or "
                "2026-09-14T12:00:00 (got '2026-09-44')"
            ],
        ),
        ({"period": {"start": date(2026, 9, 14)}}, ["period.end: missing"]),
        (
            {"pre_period": {"start": date(2026, 9, 7), "end": date(2026, 9, 14)}},
            ["pre_period: needs a [period] that comes after it"],
        ),
        (
            {
                "period": {"start": date(2026, 9, 14), "end": date(2026, 9, 28)},
                "pre_period": {"start": date(2026, 9, 7), "end": date(2026, 9, 15)},
            },
            ["pre_period.end: 2026-09-15 is after period.start 2026-09-14"],
        ),
        (
            {"metrics": [{"name": "own", "numerator": "click"}]},
            ["metrics[0]: give either `value`, or both `numerator` and `denominator`"],
        ),
        (
            {"metrics": [{"name": "ctr", "missing": "drop"}]},
            ["metrics[0].missing: ctr is built in: its definition says what it leaves out"],
        ),
        (
            {"metrics": [{"name": "own", "value": "dwell", "missing": "skip"}]},
            ["metrics[0].missing: should be 'zero', 'drop' or 'refuse' (got 'skip')"],
        ),
        (
            {
                "metrics": [
                    {"name": "own", "value": "dwell", "quantile": 0.5, "missing": "zero"},
                    {"name": "any", "log": "clicks", "missing": "drop"},
                    {"name": "both", "function": "ctr * 2", "missing": "drop"},
                ]
            },
            [
                'metrics[0].missing: a quantile ranks values only: choose "drop" or "refuse"',
                'metrics[1].missing: is of numbers: of per_unit = "sum", "max" or "first"',
                "metrics[2].missing: cannot be used with `function`",
            ],
        ),
        (
            {"metrics": [{"name": "ctr", "value": "click"}]},
            ["metrics[0].name: 'ctr' is a built-in metric; choose another"],
        ),
        (
            {"logs": {"impressions": {"path": "x.csv", "encoding": "runes"}}},
            ["logs.impressions.encoding: is no encoding of text that Python knows (got 'runes')"],
        ),
        (
            {"variants": {"a": {"weight": 0}, "b": {}}},
            ["variants.a.weight: control has weight 0, so there is nothing to compare with"],
        ),
        (
            {"cleaning": {"crossover": "as_assigned"}},
            [
                'cleaning.crossover: "as_assigned" needs [assignment] salt or an exposures log, '
                "to know the assignment"
            ],
        ),
    ],
)
def test_each_mistake_has_its_path_and_its_words(entries: dict[str, Any], said: list[str]) -> None:
    assert problems(with_entries(**entries)) == said


@pytest.mark.parametrize("moment", ["2026-09-14", "2026-09-14T12:00:00", date(2026, 9, 14)])
def test_dates_may_be_text_as_in_json(moment: str | date) -> None:
    raw = with_entries(period={"start": moment, "end": date(2026, 9, 28)})
    period = parse_experiment(raw).period
    assert period is not None
    assert period.bounds[0].date() == date(2026, 9, 14)


def test_what_was_given_is_shown_cut_short() -> None:
    (said,) = problems(with_entries(alpha="x" * 10_000))
    assert len(said) < 200


def test_the_callers_entries_are_left_alone() -> None:
    raw = tomllib.loads(MISTAKEN)
    before = copy.deepcopy(raw)
    with pytest.raises(ExperimentError):
        parse_experiment(raw)
    assert raw == before


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


def places(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every entry."""
    if not isinstance(part, dict | list):
        return []
    inner = part.items() if isinstance(part, dict) else enumerate(part)
    under = [[(*path, key), *places(value, (*path, key))] for key, value in inner]
    return [found for some in under for found in some]


def mutate(raw: dict[str, Any], seed: int, junk: Any) -> None:
    """Delete, rename, replace or double one entry."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    *way, last = chance.choice(places(raw))
    holder: Any = raw
    for key in way:
        holder = holder[key]
    match chance.randrange(4):
        case 0:
            del holder[last]
        case 1:
            holder[last] = junk
        case 2 if isinstance(holder, dict):
            holder[f"{last}x"] = holder.pop(last)
        case _ if isinstance(holder, dict):
            holder[f"{last}2"] = copy.deepcopy(holder[last])
        case _:
            holder.append(copy.deepcopy(holder[last]))


@pytest.mark.whole
@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), JUNK), min_size=1, max_size=4))
def test_any_file_is_accepted_or_refused_in_words(changes: list[tuple[int, Any]]) -> None:
    raw = tomllib.loads(write_experiment_text(Plan()))
    for seed, junk in changes:
        mutate(raw, seed, junk)
    try:
        found = parse_experiment(raw)
    except ExperimentError as error:
        said = str(error)
        assert said.startswith("the experiment has ")
        assert "Input should" not in said
        assert "pydantic" not in said
    else:
        assert isinstance(found, Experiment)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(list(Experiment.model_fields)), JUNK))
def test_any_heap_of_entries_is_refused_in_words(raw: dict[str, Any]) -> None:
    with pytest.raises(ExperimentError, match=r"the experiment(?: has|: include| includes it)"):
        parse_experiment(raw)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.toml"
    file.write_bytes(content)
    with pytest.raises(ExperimentError):
        load_experiment(file)


def test_toml_nested_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("a = " + "[" * 20_000 + "]" * 20_000)
    with pytest.raises(ExperimentError, match="not valid TOML"):
        load_experiment(file)


def test_a_ratio_of_clicks_may_have_one_expression_twice() -> None:
    ratio = {"name": "one", "log": "clicks", "numerator": "dwell", "denominator": "dwell"}
    (metric,) = list_scorecard_metrics(parse_experiment(with_entries(metrics=[ratio])))
    assert [words for words, _ in metric.lacking] == ["clicks whose dwell is null, NaN or infinite"]
