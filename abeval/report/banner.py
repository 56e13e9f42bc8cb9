"""Write the verdict of interleaving and replays as lines of the banner that all pages share."""

from collections.abc import Sequence

from abeval.offline.metrics import find_direction
from abeval.report.tables import VerdictLine
from abeval.results import format as fmt
from abeval.results.record import group_rows
from abeval.results.replay import POOLED, PairRow, ReplayResult
from abeval.results.trust import Verdict


def list_verdict_lines(verdicts: Sequence[Verdict]) -> list[VerdictLine]:
    """Write a line for each verdict that has no next step of its own."""
    several, lines = len(verdicts) > 1, list[VerdictLine]()
    for place, verdict in enumerate(verdicts, start=1):
        word, _, sentence = verdict.sentence.partition(": ")
        # One on a failed check begins with its name, which stays as it is.
        if verdict.decision != "do_not_trust":
            sentence = fmt.capitalize_first(sentence)
        name = verdict.variant * several
        lines.append(VerdictLine(name, verdict.decision, word, sentence, place))
    return lines


def conclude_replay(result: ReplayResult) -> list[VerdictLine]:
    """Count the metrics by which each model is surely better or worse than its baseline.

    An offline metric decides nothing, so the line has no decision.
    """
    by_traffic, lines = group_rows(result.pairs, lambda pair: pair.traffic), list[VerdictLine]()
    compared = by_traffic.get(POOLED) or next(iter(by_traffic.values()), [])
    for pairs in group_rows(compared, lambda pair: pair.model).values():
        signs = [_find_sign(pair) for pair in pairs]
        model, control = fmt.quote_name(pairs[0].model), fmt.quote_name(pairs[0].control)
        text = (
            f"{model} is better than {control} by {signs.count(1)} of {len(signs)} offline "
            f"metrics, worse by {signs.count(-1)}; the others do not tell."
        )
        lines.append(VerdictLine("", "", "OFFLINE ONLY", text, action="Decide by an A/B test."))
    return lines[:_MOST]


_MOST = 3
"""Most models on the first screen."""


def _find_sign(pair: PairRow) -> int:
    """Return 1 if the interval is on the better side of zero, -1 on the worse, else 0."""
    low, high, good = pair.low or 0.0, pair.high or 0.0, find_direction(pair.metric)
    # Which way is better by a metric with a target, two values alone do not say.
    if low * high <= 0 or good.startswith("toward"):
        return 0
    return (1 if low > 0 else -1) * (-1 if good == "decrease" else 1)
