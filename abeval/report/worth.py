"""Write what a variant is worth: a goal's total if all traffic had it."""

import math
from collections.abc import Sequence

from abeval.report.next_step import sort_verdicts
from abeval.report.tables import format_lift
from abeval.results import format as fmt
from abeval.results.analysis import Result, Worth
from abeval.results.record import group_rows

_MOST = 3
"""Most totals on the first screen; the JSON has all of them."""

_COMPUTED = "Computed from the difference per unit, times all units of the test."


def write_worth_lines(result: Result) -> list[tuple[str, str]]:
    """Write what variants are worth, best first, as one line with its label."""
    by_variant = group_rows(result.worth, lambda worth: worth.variant)
    order = [verdict.variant for verdict in sort_verdicts(result)]
    shown = [worth for variant in order for worth in by_variant.get(variant, ())][:_MOST]
    lines = [
        f"If all traffic had {fmt.quote_name(variant)}: "
        f"{'; '.join(describe_worth(result, w) for w in shown if w.variant == variant)}."
        for variant in dict.fromkeys(worth.variant for worth in shown)
    ]
    return [("Worth", " ".join([*lines, _COMPUTED]))] if lines else []


def describe_worth(result: Result, worth: Worth) -> str:
    """Write the change of a total, what to expect, and its share of all traffic.

    Example:
        >>> import abeval
        >>> result = abeval.load("sample_logs/experiment.toml").analyze()
        >>> describe_worth(result, result.worth[0])
        '+94 clicks a day [61, 128] at the same impressions'
    """
    change = _round((worth.change, worth.change_low, worth.change_high))
    same = f" at the same {worth.same}" if worth.same else ""
    text = (
        f"{change[0]} {f'{worth.unit} of ' * bool(worth.unit)}{worth.what} "
        f"{'in this log' if worth.days is None else 'a day'} {change[1]}{same}"
    )
    if worth.expected is not None:
        ends = worth.expected, worth.expected_low or 0.0, worth.expected_high or 0.0
        expected = _round(ends)
        text += f" (by {worth.past} past effects, expect {expected[0]} {expected[1]})"
    row = result[worth.metric, worth.variant]
    if site := fmt.format_lift(row.site_lift, row.site_lift_low, row.site_lift_high):
        text += f", which is {site.text} of all traffic, exposed or not"
    return text


def _round(ends: Sequence[float]) -> tuple[str, str]:
    """Write a value and its interval, to two digits of the interval's half-width.

    Example:
        >>> _round((1053.2, 642.0, 1431.9)), _round((0.53, -0.2, 1.3))
        (('+1,050', '[640, 1,430]'), ('+0.53', '[-0.20, 1.30]'))
    """
    half = (max(ends) - min(ends)) / 2 or abs(ends[0]) or 1.0
    places = 1 - math.floor(math.log10(half))
    value, low, high = (round(end, places) + 0.0 for end in ends)
    decimals = max(places, 0)
    return f"{value:+,.{decimals}f}", f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"


def expect_less(result: Result) -> list[tuple[str, str]]:
    """Warn of the winner's curse for a variant that ships.

    Goals for which a history says what to expect are left out.
    """
    shipping = {verdict.variant for verdict in result.verdicts if verdict.decision == "ship"}
    shrunk = {(w.metric, w.variant) for w in result.worth if w.expected is not None}
    ends = [
        f"{fmt.quote_name(result.label(row.metric))} "
        # The end nearer to no effect is the cautious one.
        f"{lift.high if row.direction == 'decrease' else lift.low}"
        for row in result.scorecard
        if row.variant in shipping and row.role == "goal" and row.status == "better"
        if (row.metric, row.variant) not in shrunk
        if (lift := format_lift(row))
    ]
    if not ends:
        return []
    why = "Significant lifts tend to be overestimates"
    return [("Expect less", f"{why}. To be cautious, plan with {fmt.join_items(ends[:3])}.")]
