"""Check the slots of a switchback: balanced over time, and free of the variant before."""

from abeval.inference import switchbacks
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Finding, skipped


def slot_hours(analysis: Analysis) -> list[Finding]:
    """Test whether hours of the day and weekdays have as many slots of both variants."""
    plan, own = analysis.experiment.switchback, analysis.aggregates.clusters
    if plan is None or own is None or own.turns is None:
        return []
    p_value = switchbacks.balance(plan, own.turns, own.variant == 1)
    return [Finding(p_value, slots={"p": p_value})]


def carry_over(analysis: Analysis) -> list[Finding]:
    """Test by goal and guardrail whether what a slot shows first depends on the slot before."""
    if analysis.experiment.switchback is None:
        return []
    judged = [m for m in analysis.metrics if m.role != "diagnostic"] or analysis.metrics
    slots = {one.name: switchbacks.Lagged.of(one, analysis.aggregates) for one in judged}
    tests = {name: switchbacks.carry_over(one) for name, one in slots.items() if one is not None}
    known = {name: p_value for name, p_value in tests.items() if p_value is not None}
    if not known:
        return [skipped("no slot follows another", remedy="load the slots that the log lacks")]
    findings = []
    for name, p in known.items():
        check, words = "carry_over" + f":{name}" * (len(known) > 1), {"metric": name, "p": p}
        findings.append(Finding(p, metrics=(name,), worst="warn", name=check, slots=words))
    return findings
