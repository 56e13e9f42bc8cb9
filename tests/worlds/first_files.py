"""Pairs of files, and single ones, as people have them at first, each with its true CTR.

Impressions and clicks have odd names in ten languages, other names and spellings of one key in the
two files, ids and times of several forms, and columns that mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

START = pd.Timestamp("2026-09-14")

NAMES: Mapping[str, tuple[str, ...]] = {
    "unit": (
        *("uid", "Besucher", "kunde_nr", "usr", "visiteur", "cliente", "gebruiker", "kullanici"),
        *("pelanggan", "użytkownik", "посетитель", "ユーザー", "cust_key", "acct", "profile_sk"),
    ),
    "item": (
        *("sku", "Artikel", "prodotto", "pid", "articulo", "obj", "ware", "barang", "produkt"),
        *("товар", "商品", "asset", "cid", "entity", "ürün"),
    ),
    "variant": (
        *("bucket", "grp", "Zweig", "bras", "xp_cell", "tst", "ramo", "wariant", "ветка", "kolu"),
        *("セル", "flight", "split_name", "cohorte", "pool"),
    ),
    "time": (
        *("shown_at", "Zeitpunkt", "quand", "zeit", "hora", "tijd", "zaman", "waktu", "czas"),
        *("время", "日時", "t", "evt_dt", "momento", "stamp"),
    ),
    "other_time": (
        *("clicked_at", "Klickzeit", "moment", "klick_um", "cuando", "klik_op", "an", "saat"),
        *("kiedy", "когда", "時刻", "tm", "action_dt", "istante", "logged"),
    ),
    "impression": ("imp", "row_key", "Anzeige", "vue", "show_key", "oid", "показ", "表示", "eid"),
}

VARIANTS = (
    *(("control", "treatment"), ("A", "B"), ("ranker_old", "ranker_new"), ("baseline", "dnn")),
    *(("prod", "challenger"), ("current", "v2"), ("alt", "neu"), ("v1", "v2"), ("0", "1")),
    *(("ctrl", "exp"), ("grp_a", "grp_b"), ("viejo", "nuevo"), ("legacy", "reco_v7"), ("C", "T")),
)
"""Names of control and treatment; the last word on it is a person's where they do not say it."""

FILES = (
    *(("impressions", "clicks"), ("einblendungen", "klicks"), ("export_1", "export_2")),
    *(("vues", "clics"), ("served", "taps"), ("reco_log", "reco_actions"), ("shown", "clk")),
)


class Files(NamedTuple):
    """Files of a log with the answers.

    Attributes:
        control: The variant that is control; a person knows it, whatever its name.
        ctr: Variant → clicked impressions over impressions.
        columns: Entry such as `unit` or `item_id` → the right columns of the main log.
    """

    paths: list[Path]
    control: str
    ctr: dict[str, float]
    columns: Mapping[str, set[str]]


class Rows(NamedTuple):
    """Impressions and clicks as they happened, under plain names."""

    seen: pd.DataFrame
    control: str
    treatment: str

    @property
    def ctr(self) -> dict[str, float]:
        return {str(k): float(v) for k, v in self.seen.groupby("variant").click.mean().items()}

    @property
    def clicks(self) -> pd.DataFrame:
        clicked = self.seen[self.seen.click == 1]
        return clicked.assign(time=clicked.time + pd.to_timedelta(clicked.delay, unit="s"))


def happened(
    seed: int, users: int = 700, names: tuple[str, str] = ("control", "treatment"), slate: int = 5
) -> Rows:
    """Simulate visits, each of one slate; no unit sees an item twice."""
    rng = np.random.default_rng(seed)
    visits = rng.poisson(1.5, users) + 1
    user = np.repeat(np.arange(users), visits)
    start = rng.integers(0, 14 * 86_400, len(user))
    treated = rng.integers(0, 2, users)
    order = np.concatenate([rng.permutation(400)[: n * slate] for n in visits])
    seen = pd.DataFrame(
        {
            "user": np.repeat(user, slate),
            "visit": np.repeat(np.arange(len(user)), slate),
            "item": order,
            "position": np.tile(np.arange(1, slate + 1), len(user)),
            "time": START + pd.to_timedelta(np.repeat(start, slate), unit="s"),
        }
    )
    seen["variant"] = np.array(names)[treated[seen.user]]
    rate = np.where(treated[seen.user] == 1, 0.26, 0.2) / seen.position**0.5
    seen["click"] = (rng.random(len(seen)) < rate).astype(int)
    seen["delay"] = rng.integers(2, 120, len(seen))
    seen = seen.sort_values(["time", "visit", "position"], ignore_index=True)
    return Rows(seen.assign(key=rng.permutation(len(seen)) + 1), *names)


def _ids(rng: np.random.Generator, number: int) -> list[object]:
    """Make ids of one of seven spellings."""
    plain = rng.permutation(number)
    forms: list[Callable[[], list[object]]] = [
        lambda: [int(i) + 1 for i in plain],
        lambda: [f"u{i:06d}" for i in plain],
        lambda: [f"{int(h):016x}" for h in rng.integers(2**60, 2**63, number)],
        lambda: [int(h) for h in rng.integers(2**62, 2**64 - 1, number, dtype=np.uint64)],
        lambda: [f"SKU-{i + 17:05d}" for i in plain],
        lambda: [int(i) * 7 + 100_003 for i in plain],
        lambda: [f"{i:05d}" if i % 2 else f"{i}x" for i in plain],
    ]
    return forms[rng.integers(len(forms))]()


def _times(rng: np.random.Generator, time: pd.Series) -> pd.Series:
    """Write times in one of seven forms."""
    seconds = time.astype("datetime64[s]").astype("int64")
    forms: list[Callable[[], pd.Series]] = [
        lambda: time.dt.strftime("%Y-%m-%d %H:%M:%S"),
        lambda: time.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda: seconds,
        lambda: seconds * 1000,
        lambda: time.dt.strftime("%d.%m.%Y %H:%M:%S"),
        lambda: time.dt.strftime("%-m/%-d/%Y %H:%M:%S"),
        lambda: time,
    ]
    return forms[rng.integers(len(forms))]()


def _decoys(rng: np.random.Generator, rows: pd.DataFrame) -> pd.DataFrame:
    """Make columns that mean nothing for the CTR: of units, of rows, and of none."""
    user = rows.user.to_numpy()
    number = int(user.max()) + 1
    country = rng.choice(["de", "fr", "tr", "jp"], number)
    every = {
        "plattform": rng.choice(["ios", "android", "web"], number)[user],
        "land": country[user],
        "build": rng.choice(["7.1", "7.2", "7.3"], len(rows)),
        "preis": rng.gamma(2, 9, len(rows)).round(2),
        "ms_render": rng.integers(5, 900, len(rows)),
        "seq": np.arange(1, len(rows) + 1),
        "alter": rng.integers(18, 80, number)[user],
        "lang_kod": np.where(country[user] == "fr", "fr_FR", "xx"),
        "schema_v": 3,
        "trace": [f"{int(h):x}" for h in rng.integers(2**50, 2**60, len(rows))],
    }
    names = rng.choice([*every], rng.integers(2, 6), replace=False)
    return pd.DataFrame({name: every[name] for name in names})


def _write(frame: pd.DataFrame, folder: Path, name: str, form: int) -> Path:
    """Write a frame as CSV, CSV with semicolons, TSV, JSON lines or Parquet."""
    if form == 3:
        path = folder / f"{name}.jsonl"
        frame.to_json(path, orient="records", lines=True, date_format="iso", force_ascii=False)
    elif form == 4:
        path = folder / f"{name}.parquet"
        frame.to_parquet(path, index=False)
    else:
        path = folder / f"{name}.{'tsv' if form == 2 else 'csv'}"
        frame.to_csv(path, index=False, sep=",;\t"[form])
    return path


def write_pair(seed: int, folder: Path) -> Files:
    """Write impressions and clicks with odd names; the seed chooses all that is odd."""
    rng = np.random.default_rng([seed, 52])
    rows = happened(seed, names=VARIANTS[seed % len(VARIANTS)])
    seen, clicks = rows.seen, rows.clicks
    name = {role: str(rng.choice(names)) for role, names in NAMES.items()}
    other = {role: str(rng.choice(names)) for role, names in NAMES.items()}
    # Half of the clicks have the same names.
    other = {r: n if rng.random() < 0.5 else name[r] for r, n in other.items()}
    users, items = _ids(rng, seen.user.nunique()), _ids(rng, 400)
    wide = {
        name["unit"]: [users[i] for i in seen.user],
        name["variant"]: seen.variant,
        name["item"]: [items[i] for i in seen["item"]],
        name["time"]: _times(rng, seen.time),
        "slot": seen.position,
    }
    narrow = {
        other["unit"]: [users[i] for i in clicks.user],
        other["item"]: [items[i] for i in clicks["item"]],
        other["other_time"]: _times(rng, clicks.time),
    }
    key = rng.integers(3)
    if key == 0:
        wide[name["impression"]] = seen.key
        # Numbers that pandas kept beside a null, as 7.0.
        narrow[other["impression"]] = clicks.key.astype(float if seed % 2 else int)
    elif key == 1:
        wide["visit_ref"], narrow["ref"] = ([f"r{v}" for v in f.visit] for f in (seen, clicks))
    impressions = pd.DataFrame(wide).reset_index(drop=True).join(_decoys(rng, seen.reset_index()))
    narrow["n"] = rng.integers(1, 40, len(clicks))
    kicks = pd.DataFrame(narrow).reset_index(drop=True)
    files = FILES[rng.integers(len(FILES))]
    forms = rng.integers(0, 5, 2)
    frames = [
        f[rng.permutation(f.columns)]
        for f in (impressions, kicks.sample(frac=1, random_state=seed))
    ]
    paths = [
        _write(frame, folder, file, int(form))
        for frame, file, form in zip(frames, files, forms, strict=True)
    ]
    columns = {"unit": {name["unit"]}, "variant": {name["variant"]}, "ts": {name["time"]}}
    columns |= {"item_id": {name["item"]}, "impression_id": {name["impression"], "seq", "trace"}}
    columns["request_id"] = {"visit_ref"}
    return Files(paths, rows.control, rows.ctr, columns)


def _events(rows: Rows) -> pd.DataFrame:
    """Put impressions and clicks below each other, in the order of time; `does` is 0 or 1."""
    both = [rows.seen.assign(does=0), rows.clicks.assign(does=1)]
    return pd.concat(both).sort_values(["time", "does"], kind="stable", ignore_index=True)


def _json_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _micros(time: pd.Timestamp) -> int:
    return int(time.timestamp()) * 1_000_000


def _value(key: str, **value: object) -> dict[str, object]:
    return {"key": key, "value": value}


def _iterate(frame: pd.DataFrame) -> Iterator[Any]:
    """Iterate over rows, whose columns are attributes that no type tells."""
    return iter(frame.itertuples())


def _ga4(seed: int, folder: Path) -> Files:
    """Google Analytics 4 in BigQuery: the variant is in `event_params`."""
    rows = happened(seed, slate=1)
    arms = {"control": "rank-0", "treatment": "rank-1"}
    lines: list[dict[str, object]] = [
        {
            "event_date": f"{r.time:%Y%m%d}",
            "event_timestamp": _micros(r.time),
            "event_name": ("view_item", "select_item")[r.does],
            "event_params": [
                _value("ga_session_id", int_value=r.visit),
                _value("exp_variant_string", string_value=arms[r.variant]),
            ],
            "user_pseudo_id": f"{r.user}.17",
        }
        for r in _iterate(_events(rows))
    ]
    path = _json_lines(folder / "events_20260914.jsonl", lines)
    return Files([path], "rank-0", {arms[v]: share for v, share in rows.ctr.items()}, {})


def _ga4_items(seed: int, folder: Path) -> Files:
    """The same with lists of items: `view_item_list` has five, `select_item` one."""
    rows = happened(seed)
    lines: list[dict[str, object]] = []

    def add(kind: str, part: pd.DataFrame) -> None:
        r = part.iloc[0]
        items = [{"item_id": f"p{i}", "item_name": f"Item {i}"} for i in part["item"]]
        parameters = [_value("ab_variant", string_value=r.variant)]
        lines.append(
            {
                "event_timestamp": _micros(r.time),
                "event_name": kind,
                "user_pseudo_id": f"{r.user}.17",
                "event_params": [*parameters, _value("ga_session_id", int_value=int(r.visit))],
                "items": items,
            }
        )

    for _, part in rows.seen.groupby("visit"):
        add("view_item_list", part)
    for index in range(len(rows.clicks)):
        add("select_item", rows.clicks.iloc[[index]])
    path = _json_lines(folder / "ga4_items.jsonl", lines)
    return Files([path], "control", rows.ctr, {"item_id": {"item_id"}})


def _segment(seed: int, folder: Path) -> Files:
    """Segment's tracks: fields in `properties` and `context`."""
    rows = happened(seed, names=("A", "B"))
    lines: list[dict[str, object]] = [
        {
            "messageId": f"ajs-{index}",
            "anonymousId": f"a-{r.user:05d}",
            "event": ("Product Viewed", "Product Clicked")[r.does],
            "timestamp": f"{r.time:%Y-%m-%dT%H:%M:%S}Z",
            "properties": {
                "product_id": f"sku{r.item}",
                "position": r.position,
                "list_id": r.visit,
            },
            "context": {"library": {"name": "analytics.js"}, "experiment": {"variant": r.variant}},
        }
        for index, r in enumerate(_iterate(_events(rows)))
    ]
    path = _json_lines(folder / "tracks.jsonl", lines)
    return Files([path], "A", rows.ctr, {})


def _snowplow(seed: int, folder: Path) -> Files:
    """Snowplow's events: the variant and the item are in the JSON of `contexts`."""
    rows = happened(seed, names=("baseline", "dnn"))

    def write_contexts(r: Any) -> str:
        data = [
            {"schema": "iglu:com.acme/ab_test/jsonschema/1-0-0", "data": {"variant": r.variant}},
            {"schema": "iglu:com.acme/product/jsonschema/2-0-0", "data": {"sku": f"s{r.item}"}},
        ]
        return json.dumps({"schema": "iglu:com.snowplowanalytics/contexts/1-0-1", "data": data})

    events = _events(rows)
    frame = pd.DataFrame(
        {
            "app_id": "shop",
            "event_id": [f"{i:08x}-0" for i in range(len(events))],
            "event_name": np.where(events.does == 1, "link_click", "impression"),
            "derived_tstamp": events.time,
            "domain_userid": [f"{u:08x}" for u in events.user],
            "domain_sessionidx": events.visit,
            "contexts": [write_contexts(r) for r in _iterate(events)],
        }
    )
    return Files([_write(frame, folder, "atomic_events", 2)], "baseline", rows.ctr, {})


def _amplitude(seed: int, folder: Path) -> Files:
    """Amplitude's export as CSV: properties are JSON texts."""
    rows = happened(seed)
    events = _events(rows)
    frame = pd.DataFrame(
        {
            "insert_id": [f"i-{i}" for i in range(len(events))],
            "amplitude_id": events.user + 900_000,
            "event_type": np.where(events.does == 1, "Tile Clicked", "Tile Shown"),
            "event_time": events.time,
            "event_properties": [
                json.dumps({"tile": f"t{r.item}", "slot": r.position}) for r in _iterate(events)
            ],
            "user_properties": [
                json.dumps({"[Experiment] home_ranker": r.variant, "plan": "free"})
                for r in _iterate(events)
            ],
        }
    )
    return Files([_write(frame, folder, "amplitude", 0)], "control", rows.ctr, {})


def _slates(seed: int, folder: Path) -> Files:
    """A row a slate, its items and clicks as JSON texts."""
    rows = happened(seed)
    frame = _lists(rows)
    frame["clicks"] = [json.dumps(clicks) for clicks in frame.clicks]
    frame["items"] = [json.dumps(items) for items in frame["items"]]
    return Files([_write(frame, folder, "slates", 0)], "control", rows.ctr, {})


def _lists(rows: Rows) -> pd.DataFrame:
    keys = ["visit", "user", "variant", "time"]
    lists = rows.seen.groupby(keys).agg({"item": list, "click": list}).reset_index()
    return lists.rename(columns={"user": "user_id", "item": "items", "click": "clicks"})


def _slate_arrays(seed: int, folder: Path) -> Files:
    """A row a slate in Parquet: what was shown, and which of it was clicked, as arrays."""
    rows = happened(seed)
    frame = _lists(rows).rename(columns={"items": "shown_items"})
    frame["clicked_items"] = [
        [item for item, click in zip(items, clicks, strict=True) if click]
        for items, clicks in zip(frame.shown_items, frame.clicks, strict=True)
    ]
    path = _write(frame.drop(columns="clicks"), folder, "slate_arrays", 4)
    return Files([path], "control", rows.ctr, {})


def _mind(seed: int, folder: Path) -> Files:
    """MIND's behaviors.tsv without a header, with the variant behind it."""
    rows = happened(seed)
    frame = _lists(rows)
    pairs = [
        " ".join(f"N{item}-{click}" for item, click in zip(items, clicks, strict=True))
        for items, clicks in zip(frame["items"], frame.clicks, strict=True)
    ]
    history = [" ".join(f"N{i}" for i in items[:2]) for items in frame["items"]]
    plain = {"key": frame.visit + 1, "user": [f"U{u}" for u in frame.user_id]}
    plain |= {"time": frame.time.dt.strftime("%-m/%-d/%Y %-I:%M:%S %p"), "history": history}
    table = pd.DataFrame({**plain, "pairs": pairs, "variant": frame.variant})
    path = folder / "behaviors.tsv"
    table.to_csv(path, sep="\t", header=False, index=False)
    return Files([path], "control", rows.ctr, {})


def _typed_rows(seed: int, folder: Path) -> Files:
    """Rows of views and clicks, with times such as 9/24/2026 13:05:00."""
    rows = happened(seed, names=("old", "new"))
    events = _events(rows)
    frame = pd.DataFrame(
        {
            "date": events.time.dt.strftime("%-m/%-d/%Y %H:%M:%S"),
            "user_id": events.user,
            "grp": events.variant,
            "verb": np.where(events.does == 1, "click", "view"),
            "what": [f"w{i}" for i in events["item"]],
        }
    )
    return Files([_write(frame, folder, "activity", 0)], "old", rows.ctr, {})


def _dat(seed: int, folder: Path) -> Files:
    """Fields between `::`, and no header, as MovieLens has them."""
    rows = happened(seed)
    seconds = rows.seen.time.astype("datetime64[s]").astype("int64")
    lines = (
        f"{r.user + 1}::{r.item + 1}::{t}::{r.variant}::{r.click}\n"
        for r, t in zip(_iterate(rows.seen), seconds, strict=True)
    )
    path = folder / "log.dat"
    path.write_text("".join(lines))
    return Files([path], "control", rows.ctr, {})


def _recbole(seed: int, folder: Path) -> Files:
    """RecBole's .inter: the type of each column stands in its name."""
    rows = happened(seed, names=("prod", "cand"))
    seconds = rows.seen.time.astype("datetime64[s]").astype("int64")
    named = {"user_id:token": rows.seen.user, "item_id:token": rows.seen["item"]}
    named |= {"timestamp:float": seconds, "label:float": rows.seen.click}
    frame = pd.DataFrame({**named, "group:token": rows.seen.variant})
    path = folder / "shop.inter"
    frame.to_csv(path, sep="\t", index=False)
    return Files([path], "prod", rows.ctr, {})


def _clickhouse(seed: int, folder: Path) -> Files:
    """TSVWithNamesAndTypes: ids above 2**63, a row of types, nulls as \\N."""
    rows = happened(seed)
    rng = np.random.default_rng(seed)
    ids = rng.integers(2**62, 2**64 - 1, int(rows.seen.user.max()) + 1, dtype=np.uint64)
    frame = pd.DataFrame(
        {
            "userHash": [str(ids[u]) for u in rows.seen.user],
            "variant": rows.seen.variant,
            "itemID": rows.seen["item"].astype(str),
            "eventTime": rows.seen.time.dt.strftime("%Y-%m-%d %H:%M:%S"),
            "isClick": rows.seen.click.astype(str),
            "dwell": np.where(rows.seen.click == 1, rows.seen.delay.astype(str), "\\N"),
        }
    )
    types = ["UInt64", "LowCardinality(String)", "UInt32", "DateTime", "UInt8", "Nullable(UInt32)"]
    path = folder / "log.tsv"
    frame.loc[-1] = types
    frame.sort_index().to_csv(path, sep="\t", index=False)
    return Files([path], "control", rows.ctr, {})


FORMS: Mapping[str, Callable[[int, Path], Files]] = {
    "ga4": _ga4,
    "ga4 items": _ga4_items,
    "segment": _segment,
    "snowplow": _snowplow,
    "amplitude": _amplitude,
    "slates of json": _slates,
    "slates of arrays": _slate_arrays,
    "mind": _mind,
    "rows of types": _typed_rows,
    "dat": _dat,
    "recbole": _recbole,
    "clickhouse": _clickhouse,
}
"""Form of a file → its generator, of a seed and a folder."""
