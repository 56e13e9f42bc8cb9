"""Judge which ranker users prefer: rows and verdicts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from abeval.errors import ExperimentError, mask_secrets
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Interleaving
from abeval.inference.comparison import LARGE_UNIT_SHARE
from abeval.inference.context import account_for_rows, build_experiment_info
from abeval.inference.verdict import MOST_QUESTIONS, MOST_WORDS, count_names
from abeval.interleaving.checks import run_checks
from abeval.interleaving.log import InterleavedLog, deal_units, read_lists
from abeval.logs.run import Inputs, open_run
from abeval.metrics.definition import Metric
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.effects import Status
from abeval.results.interleaving import InterleavingResult, PreferenceRow
from abeval.results.power import Plan, Plans
from abeval.results.trust import Check, Verdict
from abeval.stats import interleaving, multiplicity
from abeval.stats.records import Refusal


def analyze_lists(experiment: Experiment, inputs: Inputs) -> InterleavingResult:
    """Estimate from logs of interleaved lists which ranker users prefer.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        ExperimentError: The file has no [interleaving], or a metric cannot be credited.
    """
    settings = experiment.interleaving
    if settings is None:
        raise ExperimentError("the experiment has no [interleaving]", "see docs/interleaving.md")
    with open_run(deal_units(experiment), inputs) as run:
        log = read_lists(run, settings)
        run.step("inference")
        checks = run_checks(run.experiment, settings, log)
        info = build_experiment_info(run.experiment, log.aggregates)
    units = sum(log.aggregates.units.values())
    rows = _judge_rows(experiment, log, any(check.status == "fail" for check in checks))
    return InterleavingResult(
        experiment=replace(info, variants=tuple(replace(v, units=units) for v in info.variants)),
        method=settings.method,
        verdicts=tuple(
            _judge_ranker(experiment, name, rows, checks) for name in experiment.treatments
        ),
        preferences=rows,
        trust=tuple(replace(check, message=mask_secrets(check.message)) for check in checks),
        units=units,
        lists=log.counts["lists"],
        alike=log.counts["alike"],
        accounting=account_for_rows(log.aggregates),
        notes=tuple(map(mask_secrets, _write_notes(settings, log))),
    )


def plan_lists(
    experiment: Experiment,
    settings: Interleaving,
    inputs: Inputs,
    sought: tuple[float | None, float],
    metrics: Sequence[str] | None,
) -> Plans:
    """Plan how many units show a preference for the first other ranker.

    Args:
        experiment: An experiment with interleaved lists.
        settings: Its [interleaving] table.
        inputs: Inputs, as for every method that reads logs.
        sought: The preference to detect, or None for the one that the log's units show; and the
            power.
        metrics: Credited metrics to plan for; by default goals and guardrails.

    Raises:
        ExperimentError: A metric cannot be credited, or is not credited in this experiment.
        LogError: A log is missing, unreadable, or not what the file says.
    """
    with open_run(deal_units(experiment), inputs) as run:
        log = read_lists(run, settings)
    by_name = {metric.name: metric for metric in log.metrics}
    if unknown := [name for name in metrics or () if name not in by_name]:
        names = ", ".join(by_name)
        raise ExperimentError(f"{unknown[0]!r} is not credited to rankers", f"these are: {names}")
    judged = [metric for metric in log.metrics if metric.role != "diagnostic"]
    # Holm's first share, over metrics and pairs of rankers.
    pairs = sum(m.role == "goal" for m in judged) * math.comb(len(log.rankers), 2)
    levels = {"goal": experiment.alpha / max(pairs, 1)}
    plans = tuple(
        _plan(log, metric, levels.get(metric.role, experiment.alpha), *sought)
        for metric in ([by_name[name] for name in metrics] if metrics else judged)
    )
    base, ranker = log.rankers[:2]
    note = (
        "An effect is a preference p, and units see lists of both rankers. The A/B test is that of "
        f"the metric by unit, where {base} has 1 - p and {ranker} 1 + p times what such lists have."
    )
    return Plans(experiment.alpha, sought[1], "fixed", plans, notes=(note,))


def _plan(
    log: InterleavedLog, metric: Metric, alpha: float, sought: float | None, power: float
) -> Plan:
    """Plan one metric: units for a preference, or a preference for units."""
    base_credit, ranker_credit = log.credit[metric.name][:, :2].T
    actions, bare = log.actions[metric.name], Plan(metric.name, metric.role, mde=sought)
    try:
        seen = interleaving.preference(base_credit, ranker_credit, alpha)
    except Refusal as refusal:
        return replace(bare, reason=refusal.reason)
    now = interleaving.plan_preference_units(seen, alpha, power, 1.0) / seen.units
    effect = sought or math.sqrt(now)
    return replace(
        bare,
        baseline=seen.value,
        sd=seen.se * math.sqrt(len(actions)),
        mde=effect,
        units=interleaving.plan_preference_units(seen, alpha, power, effect)
        * len(actions)
        / seen.units,
        units_test=interleaving.plan_test_units(actions, effect, alpha, power),
    )


def _judge_rows(
    experiment: Experiment, log: InterleavedLog, failed: bool
) -> tuple[PreferenceRow, ...]:
    """Adjust p-values of goals over metrics and pairs, and set statuses."""
    names = [experiment.control, *experiment.treatments]
    pairs = [(m, *pair) for m in log.metrics for pair in combinations(names, 2)]
    rows = [_build_row(log, *pair, experiment.alpha) for pair in pairs]
    goals = [i for i, row in enumerate(rows) if row.role == "goal" and row.p_value is not None]
    p_values = multiplicity.adjust([rows[i].p_value or 0.0 for i in goals]).tolist()
    for i, p_value in zip(goals, p_values, strict=True):
        rows[i] = replace(rows[i], p_adjusted=p_value)
    if failed:
        return tuple(replace(r, status="untrusted", reason="failed_trust_check") for r in rows)
    return tuple(replace(row, status=_choose_status(row, experiment.alpha)) for row in rows)


def _choose_status(row: PreferenceRow, alpha: float) -> Status:
    p_value = row.p_value if row.p_adjusted is None else row.p_adjusted
    if p_value is None or row.preference is None:
        return "too_little_data"
    if p_value > alpha:
        return "unclear"
    return "better" if (row.preference > 0) == (row.direction == "increase") else "worse"


def _build_row(
    log: InterleavedLog, metric: Metric, base: str, ranker: str, alpha: float
) -> PreferenceRow:
    credit = log.credit[metric.name]
    base_credit, ranker_credit = (credit[:, log.rankers.index(name)] for name in (base, ranker))
    units = interleaving.count_wins(base_credit, ranker_credit)
    lists = log.list_wins.get((metric.name, base, ranker))
    credited = int(((base_credit != 0) | (ranker_credit != 0)).sum())
    row = PreferenceRow(
        metric=metric.name,
        role=metric.role,
        direction=metric.direction.label,
        base=base,
        ranker=ranker,
        units=credited,
        credit_base=float(base_credit.sum()),
        credit=float(ranker_credit.sum()),
        won=units.b,
        lost=units.a,
        tied=units.ties + credited - sum(units),
    )
    if lists is not None:
        row = replace(row, lists_won=lists.b, lists_lost=lists.a, lists_tied=lists.ties)
    try:
        estimate = interleaving.preference(base_credit, ranker_credit, alpha)
    except Refusal as refusal:
        return replace(row, reason=refusal.reason)
    # A preference of exactly 0 would need infinitely many units.
    needed = interleaving.plan_preference_units(estimate, alpha) if estimate.value else None
    numbers = {n: getattr(estimate, n) for n in ("low", "high", "se", "p_value", "method")}
    much = estimate.largest > LARGE_UNIT_SHARE
    return replace(
        row, preference=estimate.value, units_needed=needed, few_units_decide=much, **numbers
    )


def _judge_ranker(
    experiment: Experiment, name: str, rows: Sequence[PreferenceRow], checks: Sequence[Check]
) -> Verdict:
    """Decide on a ranker, as the verdict of an A/B test does."""
    control, failed = experiment.control, [c for c in checks if c.status == "fail"]
    build = partial(codes.build_verdict, name)
    if experiment.questions:
        return build("draft", codes.open_questions(experiment.questions, MOST_QUESTIONS))
    if failed:
        others = count_names([check.name for check in failed[1:]], "check")
        also = [f"{others} also failed"] if others else []
        message = fmt.clip(failed[0].message.split("; ")[0].rstrip("."), MOST_WORDS - 15)
        return build("do_not_trust", f"{failed[0].name}: {message}", also)
    goals = [r for r in rows if (r.base, r.ranker, r.role) == (control, name, "goal")]
    warned = count_names([check.name for check in checks if check.status == "warn"], "check")
    notes = [f"{warned} warned"] if warned else []

    texts = {r: f"{r.metric} {r.preference_text or codes.describe_reason(r.reason)}" for r in goals}
    if worse := [text for row, text in texts.items() if row.status == "worse"]:
        text = f"users prefer {control} to {name}: {count_names(worse, 'goal')}"
        return build("do_not_ship", text, notes)
    if better := [text for row, text in texts.items() if row.status == "better"]:
        text = f"users prefer {name} to {control}: {count_names(better, 'goal')}"
        return build("ship", text, ["confirm it by an A/B test", *notes])
    shown = count_names([*texts.values()], "goal")
    text = f"no preference is shown between {name} and {control}: {shown}"
    return build("keep_running", text, notes)


def _write_notes(settings: Interleaving, log: InterleavedLog) -> Iterator[str]:
    yield (
        "A preference is the difference of what users' actions are worth to two rankers, over the "
        "sum of both: it says which ranker users prefer, not how much a metric would move."
    )
    if alike := log.counts["alike"]:
        yield (
            f"{alike:,} impressions count for no ranker: all rank the item alike there, and all "
            "items above it."
        )
    if settings.debias:
        yield "Actions count by how seldom their position is clicked (debias = true)."
    if settings.method == "balanced":
        yield (
            "Balanced lists favour a ranker whose list is the other's shifted up, whatever users "
            "do (Radlinski, Kurup & Joachims 2008): a team draft does not."
        )
    for metric in (metric for metric in log.metrics if metric.per_unit is not None):
        events = metric.source.events
        yield f"{metric.name}: {events} belong to the last impression of their item before them."
    for name, columns in log.refused.items():
        yield f"{name} is not credited: the log has no {fmt.join_items(columns)}."
    yield from log.aggregates.notes
