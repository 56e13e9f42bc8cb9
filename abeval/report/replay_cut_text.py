"""A replay by cut as the terminal shows it.

`replay_short.py` hands over a replay; `replay_cuts.py` is for pages.
"""

from collections.abc import Iterator

from abeval.report.tables import TextTable
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.replay import POOLED, ReplayCutPair, ReplayResult

_SHORT = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Metrics that the terminal shows, as far as the replay has them."""


def cut_text(result: ReplayResult) -> Iterator[TextTable]:
    """Models in pairs by cell, over all traffic together."""
    traffics = list(dict.fromkeys(pair.traffic for pair in result.cut_pairs))
    shown = POOLED if POOLED in traffics else next(iter(traffics), "")
    rows = [p for p in result.cut_pairs if p.traffic == shown and p.metric in _SHORT]
    if rows:
        words = "all traffic" if shown == POOLED else f"traffic of {shown}"
        yield TextTable(
            f"Models by cut, {words}",
            "differences paired by unit; p is Holm's over the cells of a cut.",
            ("cut", "cell", "metric", "model", "value", "difference", "p"),
            tuple(
                (
                    pair.cut,
                    pair.cell or "(none)",
                    pair.metric,
                    pair.model,
                    fmt.MISSING if pair.value is None else f"{pair.value:.4g}",
                    _difference(pair),
                    fmt.p_value(pair.p_adjusted),
                )
                for pair in rows
            ),
        )


def _difference(pair: ReplayCutPair) -> str:
    shown = fmt.difference(pair.difference, pair.low, pair.high)
    return codes.reason(pair.reason) if shown is None or pair.low is None else shown.text
