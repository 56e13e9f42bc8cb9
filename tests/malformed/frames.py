"""Frames of several libraries with odd columns, types and names, and calls with odd arguments."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tests.malformed import data
from tests.malformed.experiments import expression
from tests.malformed.files import good_table
from tests.malformed.harness import Act, Case, Record, drawn, weighted

OBJECTS: tuple[Any, ...] = (
    *(None, float("nan"), pd.NaT, pd.NA, True, 0, -1, 2**63, 2**64, 10**30, 0.5, float("inf"), 1j),
    *(b"x", b"\xff", "", "x", "\ud800", (1, 2), [1], [], {}, {"a": 1}, {1}, object, np.float32(1)),
    *(np.datetime64("NaT", "s"), np.datetime64("2024-01-01"), pd.Timestamp("2024-01-01", tz="UTC")),
    *(pd.Timedelta(1, "s"), pd.Period("2024-01"), pd.Interval(0, 1), datetime.date(1, 1, 1)),
    *(
        datetime.time(1),
        datetime.datetime(9999, 12, 31),
        decimal.Decimal("NaN"),
        decimal.Decimal(1),
    ),
    *(np.array([1, 2]), np.int8(1), range(3), slice(1)),
)
NAMES: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        1.5,
        None,
        float("nan"),
        True,
        b"x",
        ("a", "b"),
        ("a",),
        (),
        pd.Timestamp("2024-01-01"),
    ),
    *(datetime.date(2024, 1, 1), pd.NaT, np.int64(3), pd.Interval(0, 1)),
)
CASTS: Mapping[str, Callable[[pd.Series[Any]], Any]] = {
    "category": lambda s: s.astype("category"),
    "object": lambda s: s.astype("object"),
    "sparse": lambda s: s.astype(pd.SparseDtype(s.dtype, s.iloc[0])) if len(s) else s,
    "complex": lambda s: pd.to_numeric(s, errors="coerce").astype("complex"),
    "float16": lambda s: pd.Series(np.arange(len(s), dtype="float16")),
    "uint64": lambda s: pd.Series(np.full(len(s), 2**64 - 1, dtype="uint64")),
    "Int64": lambda s: pd.to_numeric(s, errors="coerce").round().astype("Int64"),
    "bool": lambda s: s.notna(),
    "timedelta": lambda s: pd.to_timedelta(np.arange(len(s)), unit="s"),
    "period": lambda s: pd.period_range("2024-01", periods=len(s), freq="M"),
    "interval": lambda s: pd.interval_range(0, len(s)) if len(s) else s,
    "zone": lambda s: pd.date_range("2024-01-01", periods=len(s), freq="h", tz="Europe/Berlin"),
    "lists": lambda s: pd.Series([[v] for v in s]),
    "bytes": lambda s: pd.Series([str(v).encode() for v in s]),
    "decimal": lambda s: pd.Series([decimal.Decimal(i) / 3 for i in range(len(s))], dtype="object"),
}


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run calls that are drawn."""
    return drawn("frames", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    # Frames are made again in the copy: the libraries of some start threads.
    kind = rng.choice((_table, _table, _table, _judged, _judged_log, _sums, _defined, _mixed))
    state = rng.random()

    def made() -> tuple[str, Act]:
        return kind(random.Random(state))  # noqa: S311 (no secret)

    return Case(repr(f"{kind.__name__[1:]}: {made()[0]}")[1:-1][:150], lambda: made()[1]())


def _frame(rng: random.Random, frame: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Change columns of a frame: their values, types, names, number or order."""
    said = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(frame.shape[1] or 1)
        if not frame.shape[1]:
            break
        column = frame.iloc[:, at]
        if str(column.dtype) == "float16":
            # Pandas itself makes no index of it.
            break
        match rng.randrange(12):
            case 0 | 1 | 8 | 9:
                atoms = rng.sample(OBJECTS, rng.choice((1, 1, 2)))
                share = rng.choice((0.0, 0.2, 1.0))
                values = [rng.choice(atoms) if rng.random() < share else v for v in column]
                if values:
                    values[rng.randrange(len(values))] = atoms[0]
                frame.isetitem(at, pd.Series(values, dtype="object", index=frame.index))
                said.append(f"{column.name!r} has {atoms!r}"[:60])
            case 2 | 3 | 10 | 11:
                cast = rng.choice(sorted(CASTS))
                try:
                    frame.isetitem(at, CASTS[cast](column.reset_index(drop=True)))
                except (TypeError, ValueError, decimal.InvalidOperation):
                    continue
                said.append(f"{column.name!r} is {cast}")
            case 4:
                names = list(frame.columns)
                names[at] = rng.choice((*NAMES, *data.listed("texts.json"), names[0]))
                frame.columns = pd.Index(names, dtype="object", tupleize_cols=False)
                said.append(f"a name is {names[at]!r}"[:50])
            case 5:
                frame = rng.choice(
                    (frame.iloc[:0], frame.iloc[:1], frame.iloc[:, :1], frame.iloc[:, :0])
                )
                said.append(f"shape {frame.shape}")
            case 6:
                frame = rng.choice(
                    (
                        frame.set_index(frame.columns[at]),
                        frame.set_axis(pd.MultiIndex.from_product([["x"], frame.columns]), axis=1),
                        frame.set_axis([0] * len(frame), axis=0),
                        frame.T,
                    )
                )
                said.append("other index")
            case _:
                frame = frame.drop(columns=[frame.columns[at]])
                said.append("a column less")
    return "; ".join(said), frame


def _as_library(rng: random.Random, frame: pd.DataFrame) -> Any:
    """Return the frame in the form of another library, where it can be."""
    kind = rng.choice(
        ("pandas",) * 8
        + (
            "polars",
            "arrow",
            "lazy",
            "polars",
            "lazy",
            "arrow",
            "relation",
            "dict",
            "records",
            "numpy",
        )
    )
    try:
        match kind:
            case "polars" | "lazy":
                import polars as pl

                other = pl.from_pandas(frame)
                return other.lazy() if kind == "lazy" else other
            case "arrow":
                import pyarrow as pa

                return pa.Table.from_pandas(frame)
            case "relation":
                import duckdb

                return duckdb.from_df(frame)
            case "dict":
                return frame.to_dict("list")
            case "records":
                return frame.to_dict("records")
            case "numpy":
                return frame.to_numpy()
    except Exception:
        return frame
    return frame


def _column(rng: random.Random, *good: Any) -> Any:
    return weighted(rng, good, (*NAMES, *data.listed("texts.json")), 0.12)


def _users() -> pd.DataFrame:
    header, rows = good_table(60)
    frame = pd.DataFrame(rows, columns=header)
    return frame.astype({"user_id": int, "click": int, "views": int, "price": float}).assign(
        ts=pd.to_datetime(frame["ts"])
    )


def _table(rng: random.Random) -> tuple[str, Act]:
    name, frame = _frame(rng, _users())
    more: dict[str, Any] = {
        "variant": _column(rng, "variant"),
        "unit": _column(rng, "user_id", None),
    }
    metrics = (
        ["price"],
        ["r = click / views"],
        {"r": ("click", "views")},
        [{"name": "m", "value": "price"}],
        None,
    )
    odd = (
        [None],
        [],
        [1],
        {"r": ()},
        {"r": ("click",)},
        [""],
        [{}],
        [{"name": 1}],
        {1: 2},
        ["price", "price"],
        [expression(rng)],
        {"": ("click", "views")},
    )
    choices: dict[str, tuple[Any, ...]] = {
        "metrics": (weighted(rng, metrics, odd, 0.3),),
        "covariates": (
            ["views"],
            {"price": ["views"]},
            ["nothing"],
            {"x": []},
            [None],
            [1],
            {"price": [None]},
            (),
        ),
        "segments": (
            ["country"],
            {"c": "country"},
            ["ts"],
            [None],
            [0],
            {"": "country"},
            {"c": ""},
        ),
        "control": ("a", "b", "c", "", None, 0, "\0"),
        "weights": (
            {"a": 0.5, "b": 0.5},
            {},
            {"a": -1},
            {"a": float("nan"), "b": 1},
            {1: 1},
            {"a": "x"},
            {"a": 10**400, "b": 1},
        ),
        "missing": ("zero", "drop", "x", {"price": "zero"}, {"price": None}, 1),
        "read": ({}, {"format": "csv"}, {"x": "y"}, {"encoding": 1}, {"delimiter": ""}),
        "inference": ({"adjust": "regression"}, {"adjust": 1}, {}, None, []),
        "alpha": (0.1, 0, 1, "x", float("nan"), None),
        "nothing": (1,),
    }
    for key in rng.sample(sorted(choices), rng.choice((0, 0, 1, 2))):
        more[key] = weighted(rng, choices[key][:1], choices[key], 0.6)

    def act() -> None:
        import abeval

        print(abeval.analyze(_as_library(rng, frame), **more))  # noqa: T201

    return f"{name} {more}", act


def _lists() -> pd.DataFrame:
    rows = [(r, i, (r * 7 + i * 5) % 11 / 11, i + 1) for r in range(20) for i in range(5)]
    return pd.DataFrame(rows, columns=["request_id", "item_id", "score", "rank"])


def _judged(rng: random.Random) -> tuple[str, Act]:
    truth = pd.DataFrame({"request_id": range(20), "item_id": [i % 5 for i in range(20)]})
    truth = truth.assign(grade=truth["item_id"] % 3, unit_id=truth["request_id"] % 7)
    name, run_frame = _frame(rng, _lists())
    of_truth, truth = _frame(rng, truth) if rng.random() < 0.5 else ("", truth)
    more = _scoring(rng)

    def act() -> None:
        import abeval

        runs = _as_library(rng, run_frame)
        named = rng.choice(
            (
                runs,
                {"m": runs},
                {"m": runs, "n": _lists()},
                {"": runs},
                {"a'b\n": runs},
                {1: runs},
                {},
            )
        )
        print(abeval.evaluate(named, _as_library(rng, truth), **more))  # noqa: T201

    return f"{name} | {of_truth} | {more}", act


def _judged_log(rng: random.Random) -> tuple[str, Act]:
    log = _lists().assign(unit_id=lambda f: f["request_id"] % 7, grade=lambda f: f["item_id"] % 2)
    name, log = _frame(rng, log)
    scores = weighted(
        rng,
        (["score"], {"m": "score", "n": "rank"}),
        (["nothing"], [], {}, {"": "score"}, {1: 2}, [None], "score", ["score"] * 2),
        0.3,
    )
    more = _scoring(rng)

    def act() -> None:
        import abeval

        print(abeval.evaluate_log(_as_library(rng, log), scores, **more))  # noqa: T201

    return f"{name} | {scores} | {more}", act


def _scoring(rng: random.Random) -> dict[str, Any]:
    choices: dict[str, tuple[Any, ...]] = {
        "k": ((1, 5), [3], (), (0,), (-1,), (1.5,), ("x",), (None,), (10**30,), 5),
        "metrics": (
            ["ndcg@5"],
            ["mrr", "auc"],
            [],
            [""],
            ["x"],
            ["ndcg@0"],
            ["ndcg@5[x]"],
            [None],
            "mrr",
            ["ndcg@5"] * 2,
        ),
        "compat": ("trec", "ranx", "x", "", 1),
        "ties": ("item", "text", "position", "x", 1),
        "no_relevant": ("drop", "zero", "one", "x", 1),
        "alpha": (0.1, 0, 1, -1, float("nan"), "x", None),
        "threshold": (0.5, float("nan"), float("inf"), "x"),
        "bins": (5, 0, -1, 10**30, 1.5, "x", None),
    }
    keys = rng.sample(sorted(choices), rng.choice((0, 0, 1, 2)))
    return {key: weighted(rng, choices[key][:1], choices[key], 0.6) for key in keys}


def _sums(rng: random.Random) -> tuple[str, Act]:
    base = {"metric": ["m", "m"], "variant": ["a", "b"], "n": [200, 210], "sum_y": [400.0, 430.0]}
    name, frame = _frame(rng, pd.DataFrame({**base, "sum_yy": [1000.0, 1100.0]}))

    def act() -> None:
        import abeval

        print(abeval.analyze_sums(_as_library(rng, frame)))  # noqa: T201

    return name, act


def _defined(rng: random.Random) -> tuple[str, Act]:
    entries: dict[Any, Any] = {
        "name": "t",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
    }
    entries |= {"logs": {"units": {"path": "t.csv"}}, "metrics": [{"name": "m", "value": "price"}]}
    for _ in range(rng.choice((1, 1, 2))):
        odd = (*OBJECTS, *data.listed("texts.json"), _users())
        path = rng.choice(data.lines("entries.txt")).split(".")
        holder = entries
        for key in path[:-1]:
            below = holder.get(key)
            holder[key] = holder = below if isinstance(below, dict) else {}
        holder[weighted(rng, [path[-1]], NAMES, 0.1)] = rng.choice(odd)

    def act() -> None:
        import abeval

        print(abeval.define(entries).analyze())  # noqa: T201

    return str({key: entries[key] for key in list(entries)})[:100], act


def _mixed(rng: random.Random) -> tuple[str, Act]:
    name, frame = _frame(rng, _users())
    lists = weighted(
        rng,
        ({"x": [1, 2, 3], "y": [3, 4, 1]},),
        (
            {},
            {"x": []},
            {"x": [1, 1], "y": [1]},
            {1: [1], 2: [2]},
            {"x": [None], "y": [1]},
            {"x": [[1]], "y": [2]},
        ),
        0.6,
    )
    salt, request = _column(rng, "s"), rng.choice((7, "x", *OBJECTS))
    method = rng.choice(("team_draft", "balanced", "probabilistic", "optimized", "x", ""))
    length = rng.choice((None, 2, 3, 0, -1, 10**30))
    file = rng.choice((*data.listed("drawn.json")["IN"], *data.listed("texts.json")))
    wanted = rng.randrange(3)

    def act() -> None:
        import abeval

        if wanted == 0:
            print(abeval.draft(_as_library(rng, frame)).text)  # noqa: T201
        elif wanted == 1:
            print(abeval.interleave(lists, method, salt=salt, request_id=request, length=length))  # noqa: T201
        else:
            print(abeval.analyze(file, variant="variant"))  # noqa: T201

    said = (name, f"{lists} {salt!r} {request!r} {method} {length}", repr(file))[wanted]
    return f"{('draft', 'interleave', 'file')[wanted]} {said}", act
