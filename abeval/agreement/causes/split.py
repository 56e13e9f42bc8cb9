"""Split: the variants' shares changed while the experiment ran.

Days then count differently in the two variants, and models that learn from the log learn from more
and more of what the treatment showed.
"""

from abeval.agreement.case import Case, CauseCheck, Finding, Frames
from abeval.results.agreement import Evidence

LARGEST = 0.05


def judge(case: Case, _: Frames) -> Finding:
    """The smallest and the largest share of entering units that the variant had."""
    ramps = case.result.ramps
    shares = [ramp.shares.get(case.variant, 0.0) for ramp in ramps] or [0.0]
    span = max(shares) - min(shares)
    return Finding(
        exceeds=span >= LARGEST,
        message=f"Split: the variant had {min(shares):.0%} to {max(shares):.0%} of the units that "
        "entered."
        if len(ramps) > 1
        else "Split: it did not change.",
        evidence=tuple(
            Evidence("share of the units that entered", share, where=f"from {ramp.start}")
            for ramp, share in zip(ramps, shares, strict=False)
        ),
        threshold=LARGEST,
        threshold_reason="shares that differ by 5 points or more",
        p_value=None,
        accounts_for=None,
        remedy="Compare within the stretches of one split (the scorecard does so where it is known "
        "when units were assigned), and replay models on one of them.",
    )


CHECK = CauseCheck("split", judge)
