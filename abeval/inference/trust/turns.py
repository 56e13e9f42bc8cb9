"""Check the slots of a switchback: balanced over time, and free of the variant before."""

from abeval.inference import switchbacks
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Finding, skipped


def slot_hours(analysis: Analysis) -> list[Finding]:
    """Test whether hours of the day and weekdays have as many slots of both variants."""
    plan = analysis.experiment.switchback
    tested = None if plan is None else switchbacks.balance(plan, analysis.aggregates)
    if tested is None:
        return []
    p_value, worst = tested
    variant = analysis.experiment.treatments[0]
    return [Finding(p_value, slots={"worst": worst, "variant": variant, "p": p_value})]


def carry_over(analysis: Analysis) -> list[Finding]:
    """Test by goal and guardrail whether what a slot shows first depends on the slot before."""
    if analysis.experiment.switchback is None:
        return []
    judged = [m for m in analysis.metrics if m.role != "diagnostic"] or analysis.metrics
    tests = {one.name: switchbacks.carry_over(one, analysis.aggregates) for one in judged}
    known = {name: p_value for name, p_value in tests.items() if p_value is not None}
    if not known:
        why = "no slots follow each other, or each follows the other variant"
        return [skipped(why, remedy="draw slots by coin, or balanced, instead of in turn")]
    return [
        Finding(
            p_value,
            metrics=(name,),
            worst="warn",
            name="carry_over" + f":{name}" * (len(known) > 1),
            slots={"metric": name, "p": p_value},
        )
        for name, p_value in known.items()
    ]
