"""Variance reduction, many looks and families, through the whole analysis."""

from __future__ import annotations

import math
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import abeval
from abeval.errors import ExperimentError
from abeval.report.terminal import as_text
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.stats import adjustment, multiplicity, sequential
from abeval.stats import adjustment as strata
from abeval.stats.moments import Moments
from tests import sample
from tests.logs.people import experiment, log_of, users
from tests.logs.small import analyze


def per_user(log: pd.DataFrame) -> pd.DataFrame:
    """Sums of each user in the period, and before it (`_0`)."""
    phases = {"": log[log.ts >= "2026-01-08"], "_0": log[log.ts < "2026-01-08"]}
    sums = [
        rows.groupby("user_id").agg(
            **{f"shown{end}": ("click", "size"), f"clicks{end}": ("click", "sum")}
        )
        for end, rows in phases.items()
    ]
    table = sums[0].join(sums[1]).join(log.groupby("user_id").variant.first())
    return table.assign(new=table.shown_0.isna().astype(float)).fillna(0.0)


def moments(table: pd.DataFrame, *columns: str) -> list[Moments]:
    return [Moments.of(*(table[table.variant == v][c] for c in columns)) for v in "ab"]


def clicked(seed: int = 5) -> pd.DataFrame:
    """Clicks that depend on the user, so that the past says something of them."""
    log = log_of(users(seed))
    rng = np.random.default_rng(seed)
    taste = pd.Series(rng.beta(2, 5, 400))
    return log.assign(click=(rng.random(len(log)) < log.user_id.map(taste)).astype(int))


class TestRegression:
    def test_of_a_mean_is_the_interacted_least_squares_of_statsmodels(self):
        log = clicked()
        table = per_user(log)
        loaded = experiment(
            metrics=[{"name": "clicks_per_user"}], inference={"adjust": "regression"}
        )
        result = loaded.analyze(logs={"impressions": log})
        row, (change,) = result["clicks_per_user"], result.adjustments
        centred = table.assign(
            t=(table.variant == "b").astype(int),
            x=table.clicks_0 - table.clicks_0.mean(),
            z=table.new - table.new.mean(),
        )
        theirs = smf.ols("clicks ~ t * x + t * z", centred).fit(cov_type="HC2")
        assert row.difference == pytest.approx(theirs.params["t"], rel=1e-9)
        assert row.method == "lin_t"
        half = (row.difference_high - row.difference_low) / 2
        assert half == pytest.approx(1.96 * theirs.bse["t"], rel=0.02)
        ours = adjustment.lin_mean(*moments(table, "clicks", "clicks_0", "new"))
        assert row.p_value == pytest.approx(ours.effect.p_value, rel=1e-9)
        assert change.method == "regression"
        assert change.theta == pytest.approx(ours.theta, rel=1e-9)
        raw = ours.treatment.value - ours.control.value
        assert change.difference == pytest.approx(raw, rel=1e-9)
        assert change.variance_removed == pytest.approx(ours.variance_removed, rel=1e-9)
        assert change.variance_removed > 0

    def test_of_a_ratio_is_that_of_each_users_linearised_ratio(self):
        log = clicked()
        table = per_user(log)
        result = experiment(metrics=[{"name": "ctr"}], inference={"adjust": "regression"}).analyze(
            logs={"impressions": log}
        )
        arms = moments(table, "clicks", "shown", "clicks_0", "shown_0", "new")
        expected = adjustment.lin_ratio(*arms)
        assert result["ctr"].difference == pytest.approx(expected.effect.difference, rel=1e-9)
        assert result["ctr"].p_value == pytest.approx(expected.effect.p_value, rel=1e-9)
        (change,) = result.adjustments
        assert change.variance_removed > 0
        assert len(change.theta) == 6


class TestCovariates:
    @pytest.mark.parametrize("adjust", ["cuped", "regression"])
    def test_named_metrics_are_covariates_beside_the_metric_itself(self, adjust):
        log = clicked()
        table = per_user(log)
        metric = {"name": "clicks_per_user", "covariates": ["impressions_per_user", "own"]}
        own = {"name": "own", "value": "2 * click + 1", "role": "diagnostic"}
        result = experiment(metrics=[metric, own], inference={"adjust": adjust}).analyze(
            logs={"impressions": log}
        )
        table = table.assign(own_0=2 * table.clicks_0 + table.shown_0)
        arms = moments(table, "clicks", "clicks_0", "shown_0", "own_0", "new")
        method = adjustment.cuped_mean if adjust == "cuped" else adjustment.lin_mean
        expected = method(*arms)
        row, change = result["clicks_per_user"], result.adjustments[0]
        assert row.difference == pytest.approx(expected.effect.difference, rel=1e-8)
        assert row.p_value == pytest.approx(expected.effect.p_value, rel=1e-7)
        assert change.theta == pytest.approx(expected.theta, rel=1e-6, abs=1e-9)
        assert change.variance_removed == pytest.approx(expected.variance_removed, rel=1e-8)

    @pytest.mark.parametrize("adjust", ["cuped", "regression"])
    def test_of_a_capped_mean_its_own_past_is_capped_alike_and_others_are_not(self, adjust):
        log = clicked()
        table = per_user(log)
        metric = {"name": "clicks_per_user", "covariates": ["impressions_per_user"], "cap": 0.9}
        result = experiment(metrics=[metric], inference={"adjust": adjust}).analyze(
            logs={"impressions": log}
        )
        cap = np.quantile(table.clicks, 0.9, method="higher")
        assert (table.clicks > cap).any()
        columns = ["clicks", "clicks_0"]
        table[columns] = table[columns].clip(upper=cap)
        method = adjustment.cuped_mean if adjust == "cuped" else adjustment.lin_mean
        expected = method(*moments(table, "clicks", "clicks_0", "shown_0", "new"))
        row, (change,) = result["clicks_per_user"], result.adjustments
        assert row.difference == pytest.approx(expected.effect.difference, rel=1e-8)
        assert row.p_value == pytest.approx(expected.effect.p_value, rel=1e-7)
        assert (change.method, change.cap) == (f"cap+{adjust}", cap)

    def test_of_a_ratio(self):
        log = clicked()
        table = per_user(log)
        metric = {"name": "ctr", "covariates": ["squares"]}
        own = {"name": "squares", "value": "click * 4", "role": "diagnostic"}
        result = experiment(metrics=[metric, own], inference={"adjust": "cuped"}).analyze(
            logs={"impressions": log}
        )
        table = table.assign(squares_0=4 * table.clicks_0)
        arms = moments(table, "clicks", "shown", "clicks_0", "shown_0", "squares_0", "new")
        expected = adjustment.cuped_ratio(*arms)
        assert result["ctr"].p_value == pytest.approx(expected.effect.p_value, rel=1e-7)


class TestStrata:
    def test_are_the_cells_of_a_segment(self):
        people = users()
        people["kind"] = np.where(people.during > people.during.median(), "much", "little")
        log = log_of(people).merge(people[["user_id", "kind"]], on="user_id")
        loaded = experiment(
            metrics=[{"name": "impressions_per_user"}, {"name": "ctr"}],
            segments={"kind": "kind"},
            inference={"adjust": "stratify", "stratify_by": "kind"},
        )
        result = loaded.analyze(logs={"impressions": log})
        table = per_user(log).join(people.set_index("user_id").kind)
        cells = [moments(table[table.kind == k], "clicks", "shown") for k in ("little", "much")]
        arms = [[cell[i] for cell in cells] for i in (0, 1)]
        mean = strata.stratified_mean(*([m.pick(1) for m in arm] for arm in arms))
        ratio = strata.stratified_ratio(*arms)
        for name, expected in (("impressions_per_user", mean), ("ctr", ratio)):
            row = result[name]
            change = next(a for a in result.adjustments if a.metric == name)
            assert row.method == "post_stratified_t"
            assert row.difference == pytest.approx(expected.effect.difference, rel=1e-9)
            assert row.p_value == pytest.approx(expected.effect.p_value, rel=1e-9)
            assert (change.method, change.theta) == ("stratify", ())
            assert change.variance_removed == pytest.approx(expected.variance_removed, rel=1e-9)
        assert result.adjustments[0].variance_removed > 0.3

    def test_small_cells_are_taken_together(self):
        people = users()
        people["kind"] = [f"only{i}" if i < 9 else "all" for i in people.user_id]
        log = log_of(people).merge(people[["user_id", "kind"]], on="user_id")
        loaded = experiment(
            metrics=[{"name": "impressions_per_user"}],
            segments={"kind": "kind"},
            inference={"adjust": "stratify", "stratify_by": "kind"},
        )
        row = loaded.analyze(logs={"impressions": log})["impressions_per_user"]
        shown = [people[people.variant == v].during for v in "ab"]
        assert row.difference == pytest.approx(shown[1].mean() - shown[0].mean(), rel=1e-9)


class TestPlannedLooks:
    @staticmethod
    @cache
    def half():
        """The planned half of the sample."""
        return TestPlannedLooks().looks(7)

    @staticmethod
    def few(**inference):
        """The sample with few metrics."""
        metrics = [{"name": m} for m in ("ctr", "clicks_per_user", "dwell_per_user")]
        return abeval.load(sample.FILE).replace(inference=inference, metrics=metrics)

    @staticmethod
    @cache
    def fixed():
        return TestPlannedLooks.few().analyze()

    def looks(self, days: int, **inference):
        """The sample as it was after so many of its 14 days."""
        told = {"looks": "group_sequential", "planned_looks": [0.5, 1.0], **inference}
        loaded = self.few(**told)
        con = duckdb.connect()
        path = sample.FILE.parent / "impressions" / "*.parquet"
        end = pd.Timestamp("2026-09-14") + pd.Timedelta(days=days)
        frame = con.sql(f"select * from '{path}' where time < '{end}'").df()
        return loaded.analyze(logs={"impressions": frame})

    @pytest.mark.whole
    @pytest.mark.parametrize("spending", ["obrien_fleming", "pocock", "power"])
    def test_bounds_are_those_of_the_statistics(self, spending):
        result = self.looks(14, spending=spending)
        z = sequential.bounds([0.5, 1.0], 0.05, spending).z[-1]
        for boundary in result.boundaries:
            row, plain = result[boundary.metric], self.fixed()[boundary.metric]
            assert boundary.information == 1.0
            # The days of the sample bring about as much information each.
            assert boundary.boundary == pytest.approx(z, abs=0.02)
            assert row.method.startswith("group_sequential_")
            assert boundary.z == pytest.approx(
                math.copysign(stats.norm.isf(plain.p_value / 2), plain.difference), rel=1e-9
            )
            assert boundary.crossed == (row.p_value <= 0.05)
            assert boundary.crossed == (not row.difference_low <= 0 <= row.difference_high)
            assert row.p_value >= plain.p_value
            wide = (row.difference_high - row.difference_low) / 2
            narrow = (plain.difference_high - plain.difference_low) / 2
            assert wide / narrow == pytest.approx(boundary.boundary / 1.959964, rel=1e-3)

    @pytest.mark.whole
    def test_the_first_look_has_spent_what_was_planned_for_it(self):
        result = self.half()
        assert {b.information for b in result.boundaries} == {0.5}
        bound = sequential.bounds([0.5]).z[0]
        assert [b.boundary for b in result.boundaries] == pytest.approx([bound] * 3)
        assert any("look 1 of 2" in note for note in result.notes)
        unplanned = self.looks(10)
        fractions = [0.5, 10 / 14]
        assert unplanned.boundaries[0].boundary == pytest.approx(
            sequential.bounds(fractions).z[-1], abs=0.005
        )
        assert any("is not a planned one" in note for note in unplanned.notes)

    def test_dates_and_units_are_clocks_too(self):
        dated = self.looks(7, planned_looks=["2026-09-21", "2026-09-28"])
        assert dated.boundaries == self.half().boundaries
        units = sum(v.units for v in dated.experiment.variants)
        counted = self.looks(7, planned_units=2 * units)
        assert counted.boundaries[0].information == pytest.approx(0.5)


class TestFamilies:
    def three(self, family, **entries):
        log = clicked(9)
        log["variant"] = np.array(["a", "b", "c"])[log.user_id % 3]
        metrics = [
            {"name": "ctr", "role": "goal", **entries},
            {"name": "clicks_per_user", "role": "goal"},
        ]
        return analyze(
            log[log.ts >= "2026-01-08"],
            variants={"a": {}, "b": {}, "c": {}},
            metrics=metrics,
            cleaning={"duplicates": "unchecked"},
            inference={"family": family},
        )

    def test_weights_share_alpha_out(self):
        result = self.three("weighted", weight=3)
        p = [row.p_value for row in result.scorecard]
        expected = multiplicity.adjust_weighted(p, [3, 3, 1, 1])
        assert [row.p_adjusted for row in result.scorecard] == pytest.approx(list(expected))
        assert [i.level for i in result.family_intervals] == pytest.approx(
            [1 - 0.05 * w / 8 for w in (3, 3, 1, 1)]
        )

    def test_dunnett_knows_that_control_is_shared(self):
        result, plain = self.three("dunnett"), self.three("bonferroni")
        log = clicked(9)
        log["variant"] = np.array(["a", "b", "c"])[log.user_id % 3]
        sums = log[log.ts >= "2026-01-08"].groupby(["user_id", "variant"]).click.sum()
        values = [sums[sums.index.get_level_values("variant") == v].to_numpy() for v in "abc"]
        for variant in ("b", "c"):
            row, wide = result["clicks_per_user", variant], plain["clicks_per_user", variant]
            assert row.p_value < row.p_adjusted < wide.p_adjusted or row.p_adjusted == 1
        theirs = stats.dunnett(*values[1:], control=values[0], random_state=1).pvalue
        ours = [min(1.0, p) for p in theirs]
        found = [result["clicks_per_user", v].p_adjusted / 2 for v in ("b", "c")]
        # Ours has each pair's own variance, scipy's one for all; and Bonferroni over two goals.
        for mine, scipys in zip(found, ours, strict=True):
            assert mine == pytest.approx(scipys, abs=0.03) or mine == 0.5
        both = [result["clicks_per_user", v] for v in ("b", "c")]
        variances = [v.var(ddof=1) / len(v) for v in values]
        loadings = [math.sqrt(variances[0] / (variances[0] + v)) for v in variances[1:]]
        df = min(stats.ttest_ind(values[i], values[0], equal_var=False).df for i in (1, 2))
        expected = multiplicity.dunnett_p_values([row.p_value for row in both], loadings, df)
        assert [row.p_adjusted for row in both] == pytest.approx(
            [min(1.0, 2 * p) for p in expected], rel=1e-6
        )

    def test_selected_intervals_keep_their_false_coverage_rate(self):
        goals = [{"name": name, "role": "goal"} for name in ("ctr", "dwell_per_user")]
        loaded = abeval.load(sample.FILE).replace(inference={"family": "bh"}, metrics=goals)
        result = loaded.analyze()
        goals = [row for row in result.scorecard if row.role == "goal"]
        selected = [row for row in goals if row.p_adjusted <= 0.05]
        assert [i.metric for i in result.family_intervals] == [row.metric for row in selected]
        for interval in result.family_intervals:
            assert interval.level == pytest.approx(1 - 0.05 * len(selected) / len(goals))

    def test_the_interval_that_decides_is_on_the_row(self):
        """An interval above zero stood beside "unclear": p was adjusted, and the interval not."""
        result = self.three("holm")
        row = result["ctr", "c"]
        assert row.p_value < 0.05 < row.p_adjusted
        assert row.difference_low > 0
        assert (row.status, row.reason) == ("unclear", "not_after_correction")
        (wide,) = result.family_intervals
        assert (wide.metric, wide.variant, wide.level) == ("ctr", "c", 1 - 0.05 / 4)
        assert wide.difference_low < 0 < row.difference_low
        assert wide.lift_low < 0 < row.lift_low
        alone = self.three("bonferroni").family_intervals[1]
        assert alone == wide
        shown = fmt.format_lift(row.lift, wide.lift_low, wide.lift_high)
        reason = "not after correction: 98.75% interval"
        for text in (as_text(result, 200), Study(result).to_markdown()):
            (line,) = (one for one in text.splitlines() if reason in one)
            assert shown.text in line.replace("−", "-").replace("\\", "")
        words = f"ctr looks higher ({shown.estimate}), but not after correcting for 4 comparisons"
        assert words in result.verdicts[1].sentence


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"inference": {"cuped": True}}, "unknown key `cuped`"),
        ({"inference": {"adjust": "stratify"}}, r"inference.stratify_by.*\[segments\]"),
        ({"inference": {"adjust": "stratify", "stratify_by": "devise"}}, "did you mean `device`"),
        ({"inference": {"stratify_by": "device"}}, 'adjust = "stratify"'),
        ({"inference": {"adjust": "cuped", "relative": "log_delta"}}, '"fieller" or "delta"'),
        ({"inference": {"looks": "group_sequential"}}, "needs the planned looks"),
        ({"inference": {"planned_looks": [0.5]}}, 'looks = "group_sequential"'),
        ({"inference": {"spending": "pocock"}}, 'looks = "group_sequential"'),
        (
            {"inference": {"looks": "group_sequential", "planned_looks": [0.5, "2026-09-20"]}},
            "mixes dates and shares",
        ),
        (
            {"inference": {"looks": "group_sequential", "planned_looks": ["2026-10-20"]}},
            "must be after the period's start and not after its end",
        ),
        (
            {"inference": {"looks": "group_sequential", "planned_looks": [1.5]}},
            "less than or equal to 1",
        ),
        ({"inference": {"looks": "always_valid", "family": "dunnett"}}, 'looks = "fixed"'),
        ({"inference": {"prior": {"sd": 1}}}, "unknown"),
        ({"metrics": [{"name": "ctr", "weight": 2}]}, 'family = "weighted"'),
        ({"metrics": [{"name": "ctr", "covariates": ["gauc"]}]}, 'adjust = "cuped"'),
        (
            {
                "inference": {"adjust": "cuped"},
                "metrics": [{"name": "ctr", "covariates": ["gauc"]}],
            },
            "'gauc' is not made of sums over impressions",
        ),
        (
            {
                "inference": {"adjust": "cuped"},
                "metrics": [{"name": "gauc", "covariates": ["ctr"]}],
            },
            "gauc is not made of sums over impressions",
        ),
        (
            {
                "inference": {"adjust": "stratify", "stratify_by": "device"},
                "metrics": [{"name": "ctr", "cap": 0.99}],
            },
            'can be used with adjust = "cuped"',
        ),
    ],
)
def test_what_does_not_go_together_is_refused(entries, message):
    with pytest.raises(ExperimentError, match=message):
        abeval.load(sample.FILE).replace(**entries)
