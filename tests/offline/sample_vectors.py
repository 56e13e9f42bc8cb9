"""Write what scikit-learn and ir_measures find on the sample: `tests/offline/vectors/sample.json`.

It reads the logs by itself, with SQL that knows nothing of abeval. To make it again:

    python -m venv /tmp/ir
    /tmp/ir/bin/pip install ir_measures cwl-eval pytrec_eval-terrier scikit-learn duckdb pandas
    /tmp/ir/bin/python tests/offline/sample_vectors.py

`judged.json` beside it has lists of which many items were not judged, and scores of a regression.
"""
# mypy: ignore-errors

import json
import random
from pathlib import Path

import duckdb
import ir_measures
import pandas as pd
from ir_measures import AP, ERR, RBP, RR, Bpref, Judged, P, R, nDCG
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

HOME = Path(__file__).parents[2]
ROOT = HOME / "sample_logs"
VIEWPORT = {"phone": 5, "tablet": 8, "desktop": 10}
PARTS = {
    "phone": lambda rows: rows.device == "phone",
    "first week": lambda rows: rows.time < "2026-09-21",
    "second week": lambda rows: rows.time >= "2026-09-21",
    "top": lambda rows: rows.position <= 10,
}


def sample_rows() -> pd.DataFrame:
    """Impressions of the period once, since the user's exposure, with their clicks in 24 hours."""
    return duckdb.sql(f"""
    with once as (
      select * from '{ROOT}/impressions/*.parquet'
      qualify row_number() over (partition by impression_id order by time) = 1
    ),
    clicked as (select impression_id, min(time) as at from '{ROOT}/clicks.parquet' group by 1),
    exposed as (select user_id, min(time) as at from '{ROOT}/exposures.parquet' group by 1)
    select o.*,
      case when c.at between o.time and o.time + interval 24 hour then 1 else 0 end as click,
      0.3 * score_candidate + 0.7 * score_baseline as blend
    from once o join exposed e on o.user_id = e.user_id
    left join clicked c on o.impression_id = c.impression_id
    where o.time >= '2026-09-14' and o.time < '2026-09-28' and o.time >= e.at
    """).df()


def of_scores(rows: pd.DataFrame, score: str) -> dict[str, float]:
    """AUC, GAUC by impressions and log loss of scored rows, by scikit-learn."""
    scored = rows[rows[score].notna()]
    both = [
        (len(unit), roc_auc_score(unit.click, unit[score]))
        for _, unit in scored.groupby("user_id")
        if unit.click.nunique() == 2
    ]
    return {
        "auc": roc_auc_score(scored.click, scored[score]),
        "gauc[impressions]": sum(n * auc for n, auc in both) / sum(n for n, _ in both),
        "log_loss": log_loss(scored.click, scored[score]),
    }


def of_lists(rows: pd.DataFrame, score: str, ks: tuple[int, ...] = (5, 10)) -> dict[str, float]:
    """Means over all requests, by ir_measures."""
    named = {"request_id": "query_id", "item_id": "doc_id", "click": "relevance", score: "score"}
    judged = rows[[*named]].rename(columns=named).astype({"query_id": str, "doc_id": str})
    qrels, run = judged.drop(columns="score"), judged.dropna(subset="score")
    ours = {}
    for k in ks:
        ours |= {f"precision@{k}": P @ k, f"recall@{k}": R @ k, f"ndcg@{k}[lin]": nDCG @ k}
        ours |= {f"map@{k}[R]": AP @ k}
    ours["mrr"] = RR
    found = ir_measures.calc_aggregate([*ours.values()], qrels, run)
    return {name: found[measure] for name, measure in ours.items()}


def by_viewport(rows: pd.DataFrame, score: str) -> dict[str, float]:
    """Each request at its device's cut-off: the mean over requests, by ir_measures."""
    total, requests = dict.fromkeys(("precision", "recall", "ndcg", "map"), 0.0), 0
    for device, k in VIEWPORT.items():
        part = rows[rows.device == device]
        n = part.request_id.nunique()
        found = of_lists(part, score, (k,))
        for name in total:
            total[name] += n * next(v for m, v in found.items() if m.startswith(f"{name}@{k}"))
        requests += n
    variant = {"ndcg": "[lin]", "map": "[R]"}
    return {f"{n}@viewport{variant.get(n, '')}": t / requests for n, t in total.items()}


def judged_lists() -> dict[str, object]:
    """Lists of 40 items, of which 16 are judged; per request, by ir_measures and its providers."""
    rng, qrels, run = random.Random(5), {}, {}  # noqa: S311 (a fixed seed)
    for query in map(str, range(101, 113)):
        items = [f"d{i:03}" for i in range(40)]
        listed = rng.sample(items, rng.choice([6, 15, 25]))
        run[query] = {d: round(10 - i + rng.random() / 2, 6) for i, d in enumerate(listed)}
        qrels[query] = {d: rng.choice([0, 0, 0, 1, 2, 4]) for d in rng.sample(items, 16)}
    ours = {"judged@5": Judged @ 5, "judged@10": Judged @ 10, "bpref": Bpref}
    ours |= {"err@5": ERR @ 5, "err@20": ERR @ 20}  # gdeval.pl, which prints 5 decimals
    ours |= {f"rbp[{p}]": RBP(p=p, rel=1) for p in (0.5, 0.8, 0.95)}
    for prefix, only in (("", {}), ("condensed ", {"judged_only": True})):
        named = {"precision@5": P(**only) @ 5, "ndcg@10[lin]": nDCG(**only) @ 10}
        named |= {"map[R]": AP(**only), "mrr": RR(**only)}
        ours |= {prefix + name: measure for name, measure in named.items()}
    found = {
        name: {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        for name, measure in ours.items()
    }
    return {"run": run, "qrels": qrels, "per_query": found}


def regression() -> dict[str, object]:
    """Ratings and what was predicted, by scikit-learn."""
    rng = random.Random(11)  # noqa: S311 (a fixed seed)
    truth = [rng.choice([1, 2, 3, 4, 5]) for _ in range(400)]
    scores = [round(y + rng.gauss(0, 1), 4) for y in truth]
    found = {
        "mse": mean_squared_error(truth, scores),
        "r2": r2_score(truth, scores),
        "mape": mean_absolute_percentage_error(truth, scores),
        "mae": mean_absolute_error(truth, scores),
        "rmse": mean_squared_error(truth, scores) ** 0.5,
    }
    return {"truth": truth, "scores": scores, "values": found}


def main() -> None:
    """Compute every number, and write them."""
    vectors = HOME / "tests" / "offline" / "vectors"
    judged = judged_lists() | {"regression": regression()}
    (vectors / "judged.json").write_text(json.dumps(judged, indent=1))
    rows = sample_rows()
    whole = {s: of_scores(rows, s) | of_lists(rows, s) for s in ("score_baseline", "blend")}
    parts = {
        name: {s: of_scores(rows[part(rows)], s) | of_lists(rows[part(rows)], s) for s in whole}
        for name, part in PARTS.items()
    }
    found = {
        "rows": len(rows),
        "whole": whole,
        "parts": parts,
        "viewport": {s: by_viewport(rows, s) for s in whole},
    }
    (vectors / "sample.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
