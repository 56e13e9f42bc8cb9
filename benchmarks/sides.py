"""The other sides of `benchmarks/analysis.py`, each a whole process: `python sides.py SIDE DIR`.

They compute what an analyst would write for CTR, dwell per user and clicks per user: per-unit sums,
delta and Welch tests, CUPED, one segment, daily effects and SRM, from the same Parquet files.
"""

import sys
from collections.abc import Callable
from pathlib import Path

ADDITIVE = ("user_id", "time", "variant", "device", "click", "dwell_ms")
EVERYTHING = (*ADDITIVE, "request_id", "item_id", "position", "score_baseline", "score_candidate")
START, END = "2026-09-14", "2026-09-28"


def _files(directory: str) -> str:
    return str(Path(directory) / "impressions" / "*.parquet")


def _scan(directory: str, columns: tuple[str, ...]) -> None:
    import duckdb

    listed = ", ".join(f"max({c})" for c in columns)
    print(duckdb.sql(f"select {listed} from read_parquet('{_files(directory)}')").fetchall())


def floor_additive(directory: str) -> None:
    """DuckDB reads the columns that additive metrics use, once."""
    _scan(directory, ADDITIVE)


def floor_everything(directory: str) -> None:
    """DuckDB reads the columns that all metrics use, once."""
    _scan(directory, EVERYTHING)


def _tests(units, days) -> None:  # noqa: ANN001 (frames of pandas)
    """Welch, delta, CUPED, segment, days and SRM from a frame per unit and one per unit and day."""
    import numpy as np
    from scipy import stats

    def delta(frame) -> tuple[float, float]:  # noqa: ANN001
        n, y, x = len(frame), frame["clicks"], frame["n"]
        ratio = y.sum() / x.sum()
        spread = np.var(y - ratio * x, ddof=1) / (n * x.mean() ** 2)
        return ratio, spread

    arms = dict(iter(units.groupby("variant")))
    control, treatment = arms["control"], arms["treatment"]
    print(stats.chisquare([len(control), len(treatment)]))
    for value in ("clicks", "dwell"):
        print(stats.ttest_ind(treatment[value], control[value], equal_var=False))
        both = units[[value, f"{value}_0"]]
        theta = both.cov().iloc[0, 1] / both[f"{value}_0"].var()
        adjusted = units[value] - theta * (units[f"{value}_0"] - units[f"{value}_0"].mean())
        of = units["variant"]
        print(
            stats.ttest_ind(adjusted[of == "treatment"], adjusted[of == "control"], equal_var=False)
        )
    for frame in (units, *(f for _, f in units.groupby("device")), *(f for _, f in days)):
        (a, va), (b, vb) = (delta(frame[frame["variant"] == v]) for v in ("control", "treatment"))
        z = (b - a) / np.sqrt(va + vb)
        print(a, b, 2 * stats.norm.sf(abs(z)))


def pandas(directory: str) -> None:
    """Frames of pandas and tests of scipy, as a good analyst writes them."""
    import pandas as pd

    files = sorted(Path(_files(directory)).parent.glob("*.parquet"))
    parts = [pd.read_parquet(file, columns=list(ADDITIVE)) for file in files]
    log = pd.concat(parts).dropna(subset=["user_id"])
    log["day"] = log["time"].dt.normalize()
    log["dwell"] = log["dwell_ms"].fillna(0).where(log["click"] == 1, 0)
    before = (
        log[log["time"] < START]
        .groupby("user_id")
        .agg(clicks_0=("click", "sum"), dwell_0=("dwell", "sum"))
    )
    within = log[(log["time"] >= START) & (log["time"] < END)].sort_values("time", kind="stable")
    units = within.groupby("user_id").agg(
        variant=("variant", "first"),
        device=("device", "first"),
        n=("click", "size"),
        clicks=("click", "sum"),
        dwell=("dwell", "sum"),
    )
    units = units.join(before).fillna({"clicks_0": 0, "dwell_0": 0})
    daily = within.groupby(["day", "user_id"]).agg(n=("click", "size"), clicks=("click", "sum"))
    daily = daily.join(units["variant"], on="user_id")
    _tests(units, daily.groupby(level="day"))


def polars(directory: str) -> None:
    """Lazy frames of polars, with scipy for the tests."""
    import polars as pl

    start, end = pl.lit(START).str.to_datetime(), pl.lit(END).str.to_datetime()
    log = (
        pl.scan_parquet(_files(directory)).select(ADDITIVE).filter(pl.col("user_id").is_not_null())
    )
    log = log.with_columns(
        day=pl.col("time").dt.date(),
        late=(pl.col("time") >= start) & (pl.col("time") < end),
        dwell=pl.when(pl.col("click") == 1).then(pl.col("dwell_ms")).otherwise(0).fill_null(0),
    )
    cells = (
        log.group_by("user_id", "late", "day")
        .agg(
            pl.len().alias("n"),
            pl.col("click").sum().alias("clicks"),
            pl.col("dwell").sum(),
            pl.col("time").min(),
            pl.col("variant").sort_by("time").first(),
            pl.col("device").sort_by("time").first(),
        )
        .collect(engine="streaming")
    )
    sums = [pl.col(c).sum() for c in ("n", "clicks", "dwell")]
    firsts = [pl.col(c).sort_by("time").first() for c in ("variant", "device")]
    units = cells.filter(pl.col("late")).group_by("user_id").agg(*sums, *firsts)
    before = cells.filter(~pl.col("late")).group_by("user_id").agg(*sums[1:])
    units = units.join(before, on="user_id", how="left", suffix="_0").fill_null(0)
    daily = (
        cells.filter(pl.col("late"))
        .drop("variant")
        .join(units.select("user_id", "variant"), on="user_id")
    )
    _tests(units.to_pandas(), daily.to_pandas().groupby("day"))


def tea_tasting(directory: str) -> None:
    """tea-tasting over Ibis on DuckDB: the whole-period tests only, which is what it has."""
    import ibis
    import tea_tasting as tt

    connection = ibis.duckdb.connect()
    log = connection.read_parquet(_files(directory))
    late = (log.time >= START) & (log.time < END)
    dwell = ibis.cases((log.click == 1, log.dwell_ms.fill_null(0)), else_=0)
    units = (
        log.filter(log.user_id.notnull())
        .group_by("user_id")
        .aggregate(
            variant=log.variant.min(),
            n=ibis.cases((late, 1), else_=0).sum(),
            clicks=ibis.cases((late, log.click), else_=0).sum(),
            dwell=ibis.cases((late, dwell), else_=0).sum(),
            clicks_0=ibis.cases((late, 0), else_=log.click).sum(),
            dwell_0=ibis.cases((late, 0), else_=dwell).sum(),
        )
    )
    units = units.filter(units.n > 0)
    experiment = tt.Experiment(
        ctr=tt.RatioOfMeans("clicks", "n"),
        clicks_per_user=tt.Mean("clicks", covariate="clicks_0"),
        dwell_per_user=tt.Mean("dwell", covariate="dwell_0"),
        srm=tt.SampleRatio(),
    )
    print(experiment.analyze(units, control="control"))


SIDES: dict[str, Callable[[str], None]] = {
    f.__name__: f for f in (floor_additive, floor_everything, pandas, polars, tea_tasting)
}

if __name__ == "__main__":
    SIDES[sys.argv[1]](sys.argv[2])
